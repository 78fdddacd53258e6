package gatewaytest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// held is a payment that its buyer's bank only holds. A gateway that cannot capture later refuses the payment by form, and the case
// ends there.
func (b bench) held(t *testing.T) (gateways.Capturer, *attempt) {
	t.Helper()
	taker, ok := b.gw.(gateways.Capturer)
	require.Equal(t, b.caps.CanCapture, ok)
	p := b.Payment(t, reference(), standard(b.h))
	p.CaptureLater = true
	if !ok {
		_, err := b.gw.Plan(p)
		class(t, err, fault.Invalid)
		t.Skip("the gateway captures at once, and says so")
	}
	a := b.prepare(t, b.plan(t, p))
	o, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	b.holds(t, a, o)
	return taker, a
}

// holds asserts that an answer says: approved, and not taken.
func (b bench) holds(t *testing.T, a *attempt, o gateways.Observation) {
	t.Helper()
	require.Equal(t, gateways.Pending, o.Outcome)
	require.False(t, o.Final)
	require.Equal(t, a.payment.Amount.Minor, o.AuthorizedMinor)
	require.Zero(t, o.CapturedMinor)
	require.Nil(t, o.NextAction, "nothing is left to do for the buyer")
	b.charged(t, a, 0)
}

func (b bench) planCapture(t *testing.T, taker gateways.Capturer, a *attempt) gateways.Operation {
	t.Helper()
	planned, err := taker.PlanCapture(a.id, a.payment.Amount, a.payment.Amount)
	require.NoError(t, err)
	require.Equal(t, gateways.Capture, planned.Kind)
	a.planned[gateways.Capture] = planned.Request
	return a.operation(gateways.Capture)
}

// heldIsCaptured: the bank holds the money, the capture takes it, and the same capture again takes nothing more.
func heldIsCaptured(t *testing.T, h Harness) {
	b := setup(t, h)
	taker, a := b.held(t)
	o, err := b.lookup(t.Context(), a)
	require.NoError(t, err)
	b.holds(t, a, o)

	op := b.planCapture(t, taker, a)
	o, err = b.gw.Send(t.Context(), gateways.Capture, op)
	require.NoError(t, err)
	b.paid(t, a, o)
	b.charged(t, a, 1)
	if o, err = b.gw.Send(t.Context(), gateways.Capture, op); err != nil {
		class(t, err, fault.Conflict)
	} else {
		b.paid(t, a, o)
	}
	o, err = b.lookup(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)
	b.charged(t, a, 1)
}

// captureLost: a capture is a write like any other. A lookup says what became of it, and the very same one may follow while the
// provider's guard holds.
func captureLost(t *testing.T, h Harness) {
	b := setup(t, h)
	for _, kind := range []FaultKind{CutBefore, LoseAnswer} {
		taker, a := b.held(t)
		op := b.planCapture(t, taker, a)
		b.Arm(t, Fault{Kind: kind, On: gateways.Capture})
		_, err := b.gw.Send(t.Context(), gateways.Capture, op)
		class(t, err, fault.Unknown)
		o, err := b.lookup(t.Context(), a)
		require.NoError(t, err)
		if kind == LoseAnswer {
			b.paid(t, a, o)
		} else {
			b.holds(t, a, o)
		}
		require.True(t, b.repeatable(gateways.Capture, a))
		if o, err = b.gw.Send(t.Context(), gateways.Capture, op); err != nil {
			class(t, err, fault.Conflict)
			o, err = b.lookup(t.Context(), a)
			require.NoError(t, err)
		}
		b.paid(t, a, o)
		b.charged(t, a, 1)
	}
}

// heldIsReleased: what is let go can be captured by nobody any more.
func heldIsReleased(t *testing.T, h Harness) {
	b := setup(t, h)
	taker, a := b.held(t)
	planned, err := b.gw.(gateways.Canceler).PlanCancel(a.id)
	require.NoError(t, err)
	a.planned[gateways.Cancel] = planned.Request
	o, err := b.gw.Send(t.Context(), gateways.Cancel, a.operation(gateways.Cancel))
	require.NoError(t, err)
	require.Equal(t, gateways.Declined, o.Outcome)
	require.True(t, o.Final)
	_, err = b.gw.Send(t.Context(), gateways.Capture, b.planCapture(t, taker, a))
	require.Error(t, err)
	o, err = b.lookup(t.Context(), a)
	require.NoError(t, err)
	require.True(t, o.Final)
	b.charged(t, a, 0)
}

// captureForms: what the provider would refuse, or would take too much, is refused before it is stored.
func captureForms(t *testing.T, h Harness) {
	b := setup(t, h)
	taker, a := b.held(t)
	price := a.payment.Amount
	other := money.Amount{Minor: price.Minor, Currency: "USD"}
	if price.Currency == "USD" {
		other.Currency = "JPY"
	}
	for name, bad := range map[string]struct {
		id           string
		amount, held money.Amount
	}{
		"no id":        {"", price, price},
		"a path":       {a.id + "/../x", price, price},
		"nothing":      {a.id, money.Amount{Currency: price.Currency}, price},
		"below zero":   {a.id, money.Amount{Minor: -1, Currency: price.Currency}, price},
		"more":         {a.id, money.Amount{Minor: price.Minor + 1, Currency: price.Currency}, price},
		"other money":  {a.id, other, price},
		"nothing held": {a.id, price, money.Amount{Currency: price.Currency}},
	} {
		_, err := taker.PlanCapture(bad.id, bad.amount, bad.held)
		require.Error(t, err, name)
		class(t, err, fault.Invalid)
	}
	_, err := b.gw.Send(t.Context(), gateways.Capture, gateways.Operation{Key: "k-" + reference(), ProviderPaymentID: "x/y", Request: []byte("{}")})
	require.Error(t, err, "an id that is none never becomes part of a path")
	b.charged(t, a, 0)
}
