package gatewaytest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

func sameTwice(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	b.guarded(t, gateways.Confirm, a)
	first, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	// The second send comes from another process after a restart.
	b.gw = b.Open(t, nil)
	second := b.repeated(t, a)
	b.paid(t, a, first)
	b.paid(t, a, second)
	b.charged(t, a, 1)
}

func samePrepareTwice(t *testing.T, h Harness) {
	b := setup(t, h)
	if !b.caps.Prepares {
		t.Skip("the gateway prepares nothing")
	}
	a := b.prepared(t)
	b.guarded(t, gateways.Prepare, a)
	id := a.id
	b.gw = b.Open(t, nil)
	if h.RepeatIsConflict { // an object there is: a guard that only refuses is one too
		if _, err := b.gw.Send(t.Context(), gateways.Prepare, a.operation(gateways.Prepare)); err != nil {
			class(t, err, fault.Conflict)
			b.charged(t, a, 0)
			return
		}
	}
	b.prepare(t, a)
	require.Equal(t, id, a.id)
	b.charged(t, a, 0)
}

func answerLostThenLookup(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	b.Arm(t, Fault{Kind: LoseAnswer, On: gateways.Confirm})
	_, err := b.confirm(t.Context(), a)
	class(t, err, fault.Unknown)
	b.charged(t, a, 1)
	o, err := b.lookup(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)

	// The same when even the id was never learnt.
	o, err = b.lookup(t.Context(), a.nameless())
	require.NoError(t, err)
	b.paid(t, a, o)
	require.Len(t, writesOf(b.Writes(t), gateways.Confirm), 1, "a lookup never writes, a send writes once")
}

func answerLostThenRepeat(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	b.guarded(t, gateways.Confirm, a)
	b.Arm(t, Fault{Kind: LoseAnswer, On: gateways.Confirm, Times: 2})
	for range 2 {
		_, err := b.confirm(t.Context(), a)
		class(t, err, fault.Unknown)
	}
	b.paid(t, a, b.repeated(t, a))
	b.charged(t, a, 1)
	require.Len(t, writesOf(b.Writes(t), gateways.Confirm), 3, "one send is one request: nothing below repeats by itself")
}

func cutBefore(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	b.Arm(t, Fault{Kind: CutBefore, On: gateways.Confirm})
	_, err := b.confirm(t.Context(), a)
	class(t, err, fault.Unknown)
	b.charged(t, a, 0)
	require.Len(t, writesOf(b.Writes(t), gateways.Confirm), 1, "one send is one request")
	o, err := b.lookup(t.Context(), a)
	require.NoError(t, err)
	require.Contains(t, []gateways.Outcome{gateways.Untouched, gateways.NotFound, gateways.Pending}, o.Outcome)
	require.False(t, o.Final)
	if !b.repeatable(gateways.Confirm, a) {
		return
	}
	o, err = b.confirm(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)
	b.charged(t, a, 1)
}

func lateEffect(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	await := b.Arm(t, Fault{Kind: Slow, On: gateways.Confirm, Delay: 400 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = await(ctx, 1)
		cancel()
	}()
	_, err := b.confirm(ctx, a)
	cancel()
	class(t, err, fault.Unknown)
	eventually(t, "the effect happens after the caller left", func() bool {
		return len(b.Captures(t, a.payment.MerchantReference)) == 1
	})
	o, err := b.lookup(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)
}

// inFlight: both sends are held back, so whichever claims the key first is still running when the other one arrives.
func inFlight(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	b.guarded(t, gateways.Confirm, a)
	b.Arm(t, Fault{Kind: Slow, On: gateways.Confirm, Delay: 2 * time.Second, Times: 2})
	type result struct {
		o   gateways.Observation
		err error
	}
	results := make(chan result, 2)
	op := a.operation(gateways.Confirm)
	for range 2 {
		go func() {
			o, err := b.gw.Send(t.Context(), gateways.Confirm, op)
			results <- result{o, err}
		}()
	}
	loser, winner := <-results, <-results
	if h.AnswersAreHints { // neither says who won
		for _, r := range []result{loser, winner} {
			if r.err != nil {
				require.Contains(t, []fault.Class{fault.InProgress, fault.Conflict}, fault.As(r.err).Class)
			}
		}
		b.paid(t, a, b.repeated(t, a))
		b.charged(t, a, 1)
		return
	}
	if h.RepeatIsConflict { // there the loser may well be the second to hear
		if loser.err == nil {
			loser, winner = winner, loser
		}
		f := fault.As(loser.err)
		require.NotNil(t, f)
		require.Contains(t, []fault.Class{fault.InProgress, fault.Conflict}, f.Class)
	} else {
		class(t, loser.err, fault.InProgress)
	}
	require.NoError(t, winner.err)
	a.learn(winner.o)
	b.paid(t, a, winner.o)
	b.paid(t, a, b.repeated(t, a))
	b.charged(t, a, 1)
}

func storedError(t *testing.T, h Harness) {
	for _, effect := range []bool{true, false} {
		b := setup(t, h)
		a := b.prepared(t)
		b.Arm(t, Fault{Kind: Stored, On: gateways.Confirm, Effect: effect})
		_, err := b.confirm(t.Context(), a)
		class(t, err, fault.Unknown)
		if h.ReplaysErrors && b.repeatable(gateways.Confirm, a) {
			_, err = b.confirm(t.Context(), a)
			class(t, err, fault.Unknown)
		}
		o, err := b.lookup(t.Context(), a)
		require.NoError(t, err)
		if effect {
			b.paid(t, a, o)
			b.charged(t, a, 1)
		} else {
			require.NotEqual(t, gateways.Succeeded, o.Outcome)
			require.False(t, o.Final)
			b.charged(t, a, 0)
		}
	}
}

// newKeyAfterError: an error that was received may stay under its key for ever, so the caller must be able to tell it from
// no answer at all; once a lookup says Untouched, a new operation pays, and two of them pay once.
func newKeyAfterError(t *testing.T, h Harness) {
	b := setup(t, h)
	if !b.caps.NewKeyAfterError[gateways.Confirm] {
		t.Skip("a new key after an error is not safe at this provider")
	}
	a := b.prepared(t)
	b.Arm(t, Fault{Kind: CutBefore, On: gateways.Confirm})
	_, err := b.confirm(t.Context(), a)
	require.Zero(t, class(t, err, fault.Unknown).Provider.HTTPStatus, "no answer at all")
	b.Arm(t, Fault{Kind: Stored, On: gateways.Confirm})
	_, err = b.confirm(t.Context(), a)
	require.NotZero(t, class(t, err, fault.Unknown).Provider.HTTPStatus, "an error was received")
	o, err := b.lookup(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, gateways.Untouched, o.Outcome)

	fresh := a.operation(gateways.Confirm)
	fresh.Key += "-2"
	o, err = b.gw.Send(t.Context(), gateways.Confirm, fresh)
	require.NoError(t, err)
	b.paid(t, a, o)
	fresh.Key += "-3" // another process decided the same
	_, err = b.gw.Send(t.Context(), gateways.Confirm, fresh)
	class(t, err, fault.Conflict)
	b.charged(t, a, 1)
}

func busy(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	b.Arm(t, Fault{Kind: Busy, On: gateways.Confirm, RetryAfter: 7 * time.Second})
	_, err := b.confirm(t.Context(), a)
	if h.BusyIsUnknown {
		class(t, err, fault.Unknown)
	} else {
		f := class(t, err, fault.Transient)
		require.Equal(t, fault.GatewayRateLimited, f.Code)
	}
	require.Equal(t, 7*time.Second, fault.As(err).RetryAfter)
	b.charged(t, a, 0)
	o, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)

	b.Arm(t, Fault{Kind: Busy, On: Lookup, RetryAfter: 3 * time.Second})
	_, err = b.lookup(t.Context(), a)
	f := class(t, err, fault.Transient)
	require.Equal(t, 3*time.Second, f.RetryAfter)
}

func cancelledContext(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	await := b.Arm(t, Fault{Kind: Hang, On: gateways.Confirm})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = await(ctx, 1)
		cancel()
	}()
	_, err := b.confirm(ctx, a)
	cancel()
	class(t, err, fault.Unknown)
	require.ErrorIs(t, err, context.Canceled)
	o, err := b.lookup(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)

	await = b.Arm(t, Fault{Kind: Hang, On: Lookup})
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = await(ctx, 1)
		cancel()
	}()
	_, err = b.lookup(ctx, a)
	class(t, err, fault.Transient)
}

func timeout(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	b.gw = b.Open(t, func(s *gateways.Settings) { s.Timeout = 300 * time.Millisecond })
	require.Equal(t, 300*time.Millisecond, b.gw.Capabilities().SendTimeout)
	b.Arm(t, Fault{Kind: Hang, On: gateways.Confirm})
	begun := time.Now()
	_, err := b.confirm(t.Context(), a)
	class(t, err, fault.Unknown)
	require.Less(t, time.Since(begun), 5*time.Second, "the gateway bounds its own time")
	b.gw = b.Open(t, nil)
	o, err := b.lookup(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)
}

func writesOf(all []Write, kind gateways.Kind) []Write {
	var out []Write
	for _, w := range all {
		if w.Kind == kind {
			out = append(out, w)
		}
	}
	return out
}
