package toss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/sandbox/tosssim"
)

var bank = gateways.Payout{Bank: "20", Account: "110-1234", Holder: "h"}

// refund plans and sends one refund under a key and a reference of the same name.
func (y try) refund(t *testing.T, name string, amount, left money.Amount, payout gateways.Payout) (gateways.RefundSeen, error) {
	t.Helper()
	planned, err := y.gw.PlanRefund(gateways.GiveBack{
		Reference: name, ProviderPaymentID: y.p.Method.Token, MerchantReference: y.ref, Amount: amount, Left: left, Payout: payout,
	})
	require.NoError(t, err)
	require.Equal(t, gateways.Refund, planned.Kind)
	return y.gw.SendRefund(t.Context(), gateways.Operation{Key: name, ProviderPaymentID: y.p.Method.Token, Request: planned.Request})
}

func (y try) lookRefund(t *testing.T, name string) gateways.RefundSeen {
	t.Helper()
	seen, err := y.gw.LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: y.p.Method.Token, Reference: name})
	require.NoError(t, err)
	return seen
}

func paid(t *testing.T) try {
	t.Helper()
	y := begin(t, "pay_ok", "order-1", won(12345))
	_, err := y.confirm(t)
	require.NoError(t, err)
	return y
}

func TestTwoRefundsOfOneDecisionAreOne(t *testing.T) {
	t.Parallel()
	y := paid(t)
	first, err := y.refund(t, "r1", won(1000), won(12345), gateways.Payout{})
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, first.Outcome)
	require.Equal(t, "r1", first.Reference)
	require.NotEmpty(t, first.RefundID)
	require.EqualValues(t, 1000, first.AmountMinor)
	require.EqualValues(t, 1000, first.RefundedMinor)
	again, err := y.refund(t, "r1", won(1000), won(12345), gateways.Payout{})
	require.NoError(t, err, "the same key is the same answer")
	require.Equal(t, first.RefundID, again.RefundID)

	_, err = y.refund(t, "r2", won(1000), won(12345), gateways.Payout{})
	f := fault.As(err)
	require.Equal(t, fault.PaymentAlready, f.Code, "another key is stopped by what is left")
	require.Equal(t, "NOT_MATCHES_REFUNDABLE_AMOUNT", f.Provider.Code)
	require.Equal(t, gateways.NotFound, y.lookRefund(t, "r2").Outcome)

	last, err := y.refund(t, "r3", won(11345), won(11345), gateways.Payout{})
	require.NoError(t, err)
	require.EqualValues(t, 12345, last.RefundedMinor)
	o := y.look(t)
	require.Equal(t, "PARTIAL_CANCELED", o.Status, "the balance tells, not the status")
	require.EqualValues(t, 12345, o.RefundedMinor)
	require.Equal(t, gateways.Succeeded, o.Outcome)
	require.EqualValues(t, 1000, y.lookRefund(t, "r1").AmountMinor)
}

func TestARefundWhoseAnswerWasLostIsFoundByItsReference(t *testing.T) {
	t.Parallel()
	y := paid(t)
	for _, kind := range []gatewaytest.FaultKind{gatewaytest.CutBefore, gatewaytest.LoseAnswer} {
		y.Arm(t, gatewaytest.Fault{Kind: kind, On: gateways.Refund})
		_, err := y.refund(t, "r1", won(345), won(12345), gateways.Payout{})
		require.Equal(t, fault.PaymentUnknown, code(t, err))
		require.Equal(t, kind == gatewaytest.LoseAnswer, y.lookRefund(t, "r1").Outcome == gateways.Succeeded)
	}
	seen, err := y.refund(t, "r1", won(345), won(12345), gateways.Payout{})
	require.NoError(t, err)
	require.EqualValues(t, 345, seen.RefundedMinor)
	require.Equal(t, gateways.NotFound, y.lookRefund(t, "r").Outcome, "a reference is compared whole")
}

func TestADepositGoesBackToANamedAccount(t *testing.T) {
	t.Parallel()
	y := issued(t)
	require.NoError(t, y.sim.Deposit(y.p.Method.Token))
	_, err := y.refund(t, "r1", won(12345), won(12345), gateways.Payout{})
	require.Equal(t, fault.PaymentNeedsReview, code(t, err))
	seen, err := y.refund(t, "r2", won(12345), won(12345), bank)
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, seen.Outcome)
	o := y.look(t)
	require.Equal(t, "CANCELED", o.Status)
	require.Equal(t, gateways.Succeeded, o.Outcome)
	require.EqualValues(t, 12345, o.RefundedMinor)
}

func TestAForeignRefundIsPendingUntilItsPartnerIsDone(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_foreign", "order-1", usd(1799))
	y.sim.Configure(func(c *tosssim.Settings) { c.SlowForeignCancels = true })
	_, err := y.confirm(t)
	require.NoError(t, err)
	seen, err := y.refund(t, "r1", usd(99), usd(1799), gateways.Payout{})
	require.NoError(t, err)
	require.Equal(t, gateways.Pending, seen.Outcome)
	require.True(t, y.sim.FinishCancel(y.p.Method.Token))
	require.Equal(t, gateways.Succeeded, y.lookRefund(t, "r1").Outcome)
}

func TestRefundsInAPaymentAreReadStrictly(t *testing.T) {
	t.Parallel()
	const done = `{"cancelAmount":100,"cancelReason":"refund r1","transactionKey":"t1","cancelStatus":"DONE","canceledAt":"2026-06-05T16:58:18+09:00"}`
	for name, c := range map[string]struct {
		cancels string
		want    gateways.Outcome
	}{
		"Done":       {`[` + done + `]`, gateways.Succeeded},
		"Aborted":    {`[{"cancelAmount":100,"cancelReason":"refund r1","cancelStatus":"ABORTED"}]`, gateways.Declined},
		"InProgress": {`[{"cancelAmount":100,"cancelReason":"refund r1","cancelStatus":"IN_PROGRESS"}]`, gateways.Pending},
		"NewStatus":  {`[{"cancelAmount":100,"cancelReason":"refund r1","cancelStatus":"HALF"}]`, gateways.Unknown},
		"NoStatus":   {`[{"cancelAmount":100,"cancelReason":"refund r1","cancelStatus":null}]`, gateways.Unknown},
		"NoAmount":   {`[{"cancelReason":"refund r1","cancelStatus":"DONE"}]`, gateways.Unknown},
		"Twice":      {`[` + done + `,` + done + `]`, gateways.Unknown},
		"Other":      {`[{"cancelAmount":100,"cancelReason":"dashboard","cancelStatus":"DONE"}]`, gateways.NotFound},
		"None":       {`null`, gateways.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			p, ok := decodePayment(answer{status: 200, body: []byte(`{"paymentKey":"tgen_1","orderId":"order-1","currency":"KRW",
				"totalAmount":12345,"balanceAmount":12245,"status":"PARTIAL_CANCELED","cancels":` + c.cancels + `}`)})
			require.True(t, ok)
			seen := opened(t, nil).refundIn(p, answer{}, reasonOf("r1"))
			require.Equal(t, c.want, seen.Outcome)
			require.EqualValues(t, 100, seen.RefundedMinor)
			require.Equal(t, "tgen_1", seen.ProviderPaymentID)
		})
	}
}

func TestRefundsAreRefusedByForm(t *testing.T) {
	t.Parallel()
	g := opened(t, nil)
	good := gateways.GiveBack{Reference: "r1", ProviderPaymentID: "tgen_1", Amount: won(5), Left: won(5), Whole: true}
	planned, err := g.PlanRefund(good)
	require.NoError(t, err)
	require.JSONEq(t, `{"cancelReason":"refund r1","cancelAmount":5,"refundableAmount":5,"currency":"KRW"}`, string(planned.Request))
	for name, change := range map[string]func(*gateways.GiveBack){
		"Path":       func(r *gateways.GiveBack) { r.ProviderPaymentID = ".." },
		"Zero":       func(r *gateways.GiveBack) { r.Amount = won(0) },
		"TooMuch":    func(r *gateways.GiveBack) { r.Amount, r.Whole = won(6), false },
		"NotWhole":   func(r *gateways.GiveBack) { r.Amount = won(4) },
		"Currency":   func(r *gateways.GiveBack) { r.Left.Currency = "JPY" },
		"Baht":       func(r *gateways.GiveBack) { r.Amount.Currency, r.Left.Currency = "THB", "THB" },
		"NoName":     func(r *gateways.GiveBack) { r.Reference = "" },
		"OddName":    func(r *gateways.GiveBack) { r.Reference = "a b" },
		"HalfPayout": func(r *gateways.GiveBack) { r.Payout.Bank = "20" },
	} {
		r := good
		change(&r)
		_, err := g.PlanRefund(r)
		require.Equal(t, fault.PaymentInvalid, code(t, err), name)
	}
	for _, op := range []gateways.Operation{
		{Key: "k", ProviderPaymentID: "tgen_1", Request: frozenCancel}, // a refund without its guard
		{Key: "", ProviderPaymentID: "tgen_1", Request: planned.Request},
		{Key: "k", ProviderPaymentID: "..", Request: planned.Request},
	} {
		_, err := g.SendRefund(t.Context(), op)
		require.Equal(t, fault.InternalError, code(t, err))
	}
	_, err = g.LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: "tgen_1"})
	require.Equal(t, fault.InternalError, code(t, err))
}
