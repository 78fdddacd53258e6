package store

// Goal: held money is captured by one operation, for one amount, and never for an order that ended or is to be canceled, whatever races
// it. Method: the store against a real PostgreSQL, goroutines that capture, claim and cancel at once. Not covered: what providers answer
// (package activities and e2e).

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// held brings an attempt to where the bank holds its money.
func (e *env) held(d order.Draft) sqlcgen.PaymentAttempt {
	e.t.Helper()
	a := e.open(d, "pay-"+string(d.ID))
	s := answer(a, order.Pending)
	s.Operation, s.Source, s.Held = confirmOf(a), "send", ptr(a.AmountMinor)
	e.keep(s)
	e.reflect(a)
	a = e.attempt(a)
	require.Equal(e.t, string(order.AttemptPending), a.Status)
	require.Equal(e.t, d.Total, a.HeldMinor)
	return a
}

func captureDraft(a sqlcgen.PaymentAttempt, minor int64) CaptureDraft {
	return CaptureDraft{
		OrderID: order.ID(a.OrderID), Client: client, Attempt: idOf(a), Minor: minor, Held: a.HeldMinor,
		Operation: OperationDraft{ID: order.NewOperationID(), Kind: "capture", Sealed: []byte("t"), Fingerprint: []byte("f")},
	}
}

func (e *env) captureOf(a sqlcgen.PaymentAttempt) order.OperationID {
	e.t.Helper()
	return order.OperationID(e.text("SELECT operation_id FROM operations WHERE attempt_id = $1 AND kind = 'capture'", a.AttemptID))
}

func TestRule02_OneCaptureOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.held(e.place("o", grantLine(10)))
	for _, err := range together(20, func(int) error {
		now, err := e.s.CaptureOpen(e.ctx(), captureDraft(a, a.AmountMinor))
		if err == nil {
			require.Equal(t, a.AmountMinor, now.CaptureMinor)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM operations WHERE attempt_id = $1 AND kind = 'capture'", a.AttemptID))
	op := e.captureOf(a)
	var winners atomic.Int32
	for _, err := range together(20, func(int) error {
		_, won, err := e.s.OperationClaim(e.ctx(), idOf(a), op, "mark")
		if won {
			winners.Add(1)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, winners.Load())
	require.Equal(t, string(order.AttemptPending), e.attempt(a).Status, "a capture is no state")
	snap, err := e.s.Snapshot(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.True(t, snap.Attempts[0].Capture, "the order's run sees it")
}

func TestRule07_ACaptureHasOneAmountEver(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.held(e.place("o", grantLine(10)))
	_, err := e.s.CaptureOpen(e.ctx(), captureDraft(a, 400))
	require.NoError(t, err)
	op := e.captureOf(a)
	for _, minor := range []int64{1, 399, a.AmountMinor} {
		_, err = e.s.CaptureOpen(e.ctx(), captureDraft(a, minor))
		require.Equal(t, "capture_differs", fault.As(err).Why)
	}
	s := answer(a, order.Succeeded)
	s.Operation, s.Payment.CapturedMinor, s.Held = op, 400, ptr(int64(0))
	_, won, err := e.s.OperationClaim(e.ctx(), idOf(a), op, "")
	require.NoError(t, err)
	require.True(t, won)
	e.keep(s)
	e.reflect(a)
	now, err := e.s.CaptureOpen(e.ctx(), captureDraft(a, 400))
	require.NoError(t, err, "the same again, when it is over")
	require.Equal(t, string(order.AttemptSucceeded), now.Status)
	require.Zero(t, now.HeldMinor)
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM operations WHERE attempt_id = $1 AND kind = 'capture'", a.AttemptID))
}

func TestCapturesAreRejectedWithAWord(t *testing.T) {
	t.Parallel()
	e := setup(t)
	why := func(d CaptureDraft) string {
		t.Helper()
		_, err := e.s.CaptureOpen(e.ctx(), d)
		require.Error(t, err)
		f := fault.As(err)
		if f.Why == "" {
			return string(f.Code)
		}
		return f.Why
	}
	a := e.held(e.place("held", grantLine(10)))
	require.Equal(t, "more_than_held", why(captureDraft(a, a.AmountMinor+1)))
	require.Equal(t, "more_than_held", why(captureDraft(a, 0)))
	other := captureDraft(a, a.AmountMinor)
	other.Held--
	require.Equal(t, "held_moved", why(other), "frozen for another sum")
	other = captureDraft(a, a.AmountMinor)
	other.Operation = OperationDraft{}
	require.Equal(t, "held_moved", why(other), "planned when it could not be captured yet: nothing was frozen")
	other = captureDraft(a, a.AmountMinor)
	other.Client = "another"
	require.Equal(t, string(fault.NotFound), why(other))
	_, err := e.s.Unclosed(e.ctx(), "another", "held")
	require.True(t, fault.IsCode(err, fault.NotFound))

	paid := e.pay(e.place("paid", grantLine(10)))
	require.Equal(t, "already_paid", why(captureDraft(paid, 1)))
	waits := e.open(e.place("waits", grantLine(10)), "k")
	s := answer(waits, order.Pending)
	s.Held = ptr(int64(0))
	e.keep(s)
	e.reflect(waits)
	require.Equal(t, "nothing_held", why(captureDraft(waits, 1)), "it waits for its buyer")

	e.cancel("held")
	require.Equal(t, "order_canceling", why(captureDraft(a, a.AmountMinor)))
	require.Zero(t, e.count("SELECT count(*) FROM operations WHERE kind = 'capture'"))
}

// A cancel that is stored stops a capture that nobody has claimed; one that was claimed first is found out by the cancel.
func TestACancelAndACaptureAgree(t *testing.T) {
	t.Parallel()
	e := setup(t)
	claimed, stopped := 0, 0
	for i := range 30 {
		id := order.ID("race-" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		a := e.held(e.place(id, grantLine(10)))
		_, err := e.s.CaptureOpen(e.ctx(), captureDraft(a, a.AmountMinor))
		require.NoError(t, err)
		op := e.captureOf(a)
		var won atomic.Bool
		for _, err := range together(2, func(i int) error {
			if i == 0 {
				_, err := e.s.CancelOpen(e.ctx(), cancelDraft(id, "cancel-"+string(id)))
				return err
			}
			_, ok, err := e.s.OperationClaim(e.ctx(), idOf(a), op, "")
			won.Store(ok)
			return err
		}) {
			require.NoError(t, err)
		}
		if won.Load() {
			claimed++
			again, err := e.s.OperationClaimAgain(e.ctx(), op, 1, "")
			require.NoError(t, err)
			require.False(t, again, "behind a cancel nothing that takes money is repeated")
			continue
		}
		stopped++
		_, ok, err := e.s.OperationClaim(e.ctx(), idOf(a), op, "")
		require.NoError(t, err)
		require.False(t, ok)
	}
	t.Logf("claimed first %d, canceled first %d", claimed, stopped)
}
