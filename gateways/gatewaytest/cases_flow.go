package gatewaytest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
)

func capabilitiesMatch(t *testing.T, h Harness) {
	b := setup(t, h)
	_, cancels := b.gw.(gateways.Canceler)
	require.Equal(t, b.caps.CanCancel, cancels)
	_, refunds := b.gw.(gateways.Refunder)
	require.True(t, refunds || !b.caps.CanRefund)
	require.True(t, b.caps.CanRefund || b.caps.RepeatSafe(gateways.Refund, "") == 0)
	_, lists := b.gw.(gateways.Lister)
	require.Equal(t, b.caps.CanList, lists)
	require.Positive(t, b.caps.SendTimeout)
	require.NotEmpty(t, b.caps.Methods)
	require.GreaterOrEqual(t, b.caps.NotFoundFinalAfter, time.Duration(0))
	require.NotEmpty(t, b.gw.Account().Gateway)
	require.NotEmpty(t, b.gw.Account().Name)
	require.Contains(t, []gateways.Environment{gateways.Test, gateways.Live}, b.gw.Account().Environment)

	planned, err := b.gw.Plan(b.Payment(t, reference(), standard(h)))
	require.NoError(t, err)
	var kinds []gateways.Kind
	for _, p := range planned {
		kinds = append(kinds, p.Kind)
		require.NotEmpty(t, p.Request)
	}
	if b.caps.Prepares {
		require.Equal(t, []gateways.Kind{gateways.Prepare, gateways.Confirm}, kinds, "in sending order")
	} else {
		require.Equal(t, []gateways.Kind{gateways.Confirm}, kinds)
	}

	_, notifies := b.gw.(gateways.Notifier)
	require.True(t, notifies || !b.caps.WebhookProof, "proof needs a reader")
	for method := range b.caps.RepeatSafeByMethod {
		require.Contains(t, b.caps.Methods, method)
	}
	for method := range b.caps.PendingFor {
		require.Contains(t, b.caps.Methods, method)
	}
	spoil(b.caps)
	again := b.gw.Capabilities()
	require.NotContains(t, again.RepeatSafeFor, gateways.Kind("x"), "capabilities are copies")
	require.NotContains(t, again.NewKeyAfterError, gateways.Kind("x"), "capabilities are copies")
	require.NotContains(t, again.RepeatSafeByMethod, "x", "capabilities are copies")
	require.NotContains(t, again.PendingFor, "x", "capabilities are copies")
	require.NotContains(t, again.Methods, "x", "capabilities are copies")
}

// spoil writes into everything that a gateway hands out by reference.
func spoil(c gateways.Capabilities) {
	if c.RepeatSafeFor != nil {
		c.RepeatSafeFor["x"] = 1
	}
	if c.NewKeyAfterError != nil {
		c.NewKeyAfterError["x"] = true
	}
	if c.RepeatSafeByMethod != nil {
		c.RepeatSafeByMethod["x"] = 1
	}
	if c.PendingFor != nil {
		c.PendingFor["x"] = 1
	}
	c.Methods[0] = "x"
}

func credentials(t *testing.T, h Harness) {
	b := setup(t, h)
	var key secret.Value
	same := b.Open(t, func(s *gateways.Settings) { key = s.SecretKey })
	require.NotEmpty(t, b.gw.Credential())
	require.Equal(t, b.gw.Credential(), same.Credential(), "the same key has the same mark")
	require.NotContains(t, key.Reveal(), b.gw.Credential(), "the mark is no piece of the key")
	other := b.Open(t, func(s *gateways.Settings) { s.SecretKey = secret.New(s.SecretKey.Reveal() + "2") })
	require.NotEqual(t, b.gw.Credential(), other.Credential(), "another key has another mark")
}

func confirmCaptures(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	b.charged(t, a, 0)
	o, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)
	b.charged(t, a, 1)
	o, err = b.lookup(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)
}

func declineIsObserved(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepare(t, b.plan(t, b.Declined(t, reference(), standard(h))))
	o, err := b.confirm(t.Context(), a)
	require.NoError(t, err, "a decline is a decoded answer")
	for range 2 {
		require.Equal(t, gateways.Declined, o.Outcome)
		require.NotEmpty(t, o.DeclineCode)
		require.Zero(t, o.CapturedMinor)
		require.Equal(t, a.payment.MerchantReference, o.MerchantReference)
		require.Equal(t, a.payment.Amount.Minor, o.AmountMinor)
		require.Equal(t, a.payment.Amount.Currency, o.Currency)
		require.Equal(t, !b.caps.DeclineLeavesOpen, o.Final)
		o, err = b.lookup(t.Context(), a)
		require.NoError(t, err)
	}
	b.charged(t, a, 0)
}

func cancelCloses(t *testing.T, h Harness) {
	b := setup(t, h)
	c, ok := b.gw.(gateways.Canceler)
	if !ok {
		t.Skip("the gateway has no cancel")
	}
	fresh, captured := b.prepared(t), b.prepared(t)
	_, err := b.confirm(t.Context(), captured)
	require.NoError(t, err)
	var open []*attempt
	closable := fresh.id != "" && b.caps.Prepares // without a prepare there is nothing to cancel before the first confirm
	if closable {
		open = append(open, fresh)
	}
	if b.caps.DeclineLeavesOpen {
		declined := b.prepare(t, b.plan(t, b.Declined(t, reference(), standard(h))))
		_, err := b.confirm(t.Context(), declined)
		require.NoError(t, err)
		open = append(open, declined)
	}
	for _, a := range open {
		planned, err := c.PlanCancel(a.id)
		require.NoError(t, err)
		require.Equal(t, gateways.Cancel, planned.Kind)
		a.planned[gateways.Cancel] = planned.Request
		o, err := b.gw.Send(t.Context(), gateways.Cancel, a.operation(gateways.Cancel))
		o, err = b.hinted(t.Context(), a, o, err)
		require.NoError(t, err)
		require.Equal(t, gateways.Declined, o.Outcome)
		require.True(t, o.Final, "nothing can be captured any more")
		o, err = b.lookup(t.Context(), a)
		require.NoError(t, err)
		require.True(t, o.Final)
		b.charged(t, a, 0)
	}

	if closable {
		op := fresh.operation(gateways.Confirm)
		op.Key += "-after-cancel"
		o, err := b.gw.Send(t.Context(), gateways.Confirm, op)
		if err == nil {
			require.NotEqual(t, gateways.Succeeded, o.Outcome)
		}
		b.charged(t, fresh, 0)
	}

	planned, err := c.PlanCancel(captured.id)
	require.NoError(t, err)
	captured.planned[gateways.Cancel] = planned.Request
	o, err := b.gw.Send(t.Context(), gateways.Cancel, captured.operation(gateways.Cancel))
	if err != nil {
		class(t, err, fault.Conflict)
	} else {
		require.False(t, o.Final, "a paid payment is never closed as if nothing was captured")
	}
	o, err = b.lookup(t.Context(), captured)
	require.NoError(t, err)
	b.paid(t, captured, o)
}

// cancelLost: a cancel is a write like any other. What became of it is looked up, and the same one again changes nothing.
func cancelLost(t *testing.T, h Harness) {
	b := setup(t, h)
	c, ok := b.gw.(gateways.Canceler)
	if !ok {
		t.Skip("the gateway has no cancel")
	}
	var a *attempt
	if b.caps.Prepares {
		a = b.prepared(t)
	} else { // only what waits for its buyer can be closed
		_, a = b.waits(t)
		_, err := b.confirm(t.Context(), a)
		require.NoError(t, err)
	}
	if a.id == "" {
		t.Skip("nothing has an id before it is paid")
	}
	planned, err := c.PlanCancel(a.id)
	if err != nil {
		class(t, err, fault.Invalid)
		t.Skip("the provider cannot close this one")
	}
	a.planned[gateways.Cancel] = planned.Request
	for _, kind := range []FaultKind{CutBefore, LoseAnswer} {
		b.Arm(t, Fault{Kind: kind, On: gateways.Cancel})
		_, err = b.gw.Send(t.Context(), gateways.Cancel, a.operation(gateways.Cancel))
		class(t, err, fault.Unknown)
		o, err := b.lookup(t.Context(), a)
		require.NoError(t, err)
		require.Equal(t, kind == LoseAnswer, o.Final, "after %s", kind)
	}
	if b.repeatable(gateways.Cancel, a) {
		o, err := b.gw.Send(t.Context(), gateways.Cancel, a.operation(gateways.Cancel))
		o, err = b.hinted(t.Context(), a, o, err)
		require.NoError(t, err)
		require.True(t, o.Final)
	}
	b.charged(t, a, 0)
}

// refundsSeen: what the provider gave back stands beside what it took, never instead of it.
func refundsSeen(t *testing.T, h Harness) {
	b := setup(t, h)
	elsewhere, ok := b.Provider.(Refunding)
	if !ok {
		t.Skip("the harness refunds nothing")
	}
	a := b.prepared(t)
	_, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	total := a.payment.Amount.Minor
	part := total / 2
	for _, refund := range []struct{ give, given int64 }{{part, part}, {total - part, total}} {
		elsewhere.Refund(t, a.id, a.payment.MerchantReference, refund.give)
		o, err := b.lookup(t.Context(), a)
		require.NoError(t, err)
		require.Equal(t, refund.given, o.RefundedMinor)
		require.Equal(t, total, o.CapturedMinor)
		require.Equal(t, total, o.AmountMinor)
		require.False(t, o.Final, "final means that nothing was captured")
	}
}

func absentIsNotFound(t *testing.T, h Harness) {
	b := setup(t, h)
	o, err := b.gw.Lookup(t.Context(), gateways.Query{
		MerchantReference: reference(), Currency: standard(h).Currency,
	})
	require.NoError(t, err, "not found is an observation")
	require.Equal(t, gateways.NotFound, o.Outcome)
	require.False(t, o.Final, "NotFoundFinalAfter decides that, not the answer")
	require.Equal(t, b.gw.Account(), o.Account)
}
