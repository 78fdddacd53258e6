package toss

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
	"orderflow/sandbox/tosssim"
)

func secretOf(s string) secret.Value { return secret.New(s) }

func (y try) cancel(t *testing.T) (gateways.Observation, error) {
	t.Helper()
	planned, err := y.gw.PlanCancel(y.p.Method.Token)
	require.NoError(t, err)
	require.Equal(t, gateways.Cancel, planned.Kind)
	return y.gw.Send(t.Context(), gateways.Cancel, gateways.Operation{
		Key: "cancel-" + y.ref, ProviderPaymentID: y.p.Method.Token, Request: planned.Request,
	})
}

func (y try) cancels(t *testing.T) int {
	t.Helper()
	n := 0
	for _, w := range y.Writes(t) {
		if w.Kind == gateways.Cancel {
			n++
		}
	}
	return n
}

func issued(t *testing.T) try {
	t.Helper()
	y := begin(t, "pay_va", "order-1", won(12345))
	o, err := y.confirm(t)
	require.NoError(t, err)
	require.Equal(t, gateways.Pending, o.Outcome)
	require.Regexp(t, `^X[0-9]+$`, o.NextAction.Account)
	return y
}

func TestAnIssuedAccountIsClosedForGood(t *testing.T) {
	t.Parallel()
	y := issued(t)
	o, err := y.cancel(t)
	require.NoError(t, err)
	require.Equal(t, gateways.Declined, o.Outcome)
	require.True(t, o.Final)
	require.ErrorIs(t, y.sim.Deposit(y.p.Method.Token), tosssim.ErrNotWaiting)
	require.Zero(t, y.captured(t))

	again, err := y.cancel(t)
	require.NoError(t, err)
	require.True(t, again.Final)
	require.Equal(t, 1, y.cancels(t), "what is closed needs no write")
}

func TestACancelWhoseAnswerWasLostIsFoundDone(t *testing.T) {
	t.Parallel()
	y := issued(t)
	y.Arm(t, gatewaytest.Fault{Kind: gatewaytest.LoseAnswer, On: gateways.Cancel})
	_, err := y.cancel(t)
	require.Equal(t, fault.PaymentUnknown, code(t, err))
	o, err := y.cancel(t)
	require.NoError(t, err)
	require.True(t, o.Final)
	require.Equal(t, 1, y.cancels(t))
}

func TestACancelNeverGivesMoneyBack(t *testing.T) {
	t.Parallel()
	for name, pay := range map[string]func(*testing.T) try{
		"Card": func(t *testing.T) try {
			y := begin(t, "pay_ok", "order-1", won(12345))
			_, err := y.confirm(t)
			require.NoError(t, err)
			return y
		},
		"DepositedAccount": func(t *testing.T) try {
			y := issued(t)
			require.NoError(t, y.sim.Deposit(y.p.Method.Token))
			return y
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := pay(t)
			_, err := y.cancel(t)
			require.Equal(t, fault.PaymentAlready, code(t, err))
			require.Equal(t, "DONE", fault.As(err).Provider.Code)
			require.Zero(t, y.cancels(t), "nothing leaves")
			o := y.look(t)
			require.Equal(t, gateways.Succeeded, o.Outcome)
			require.Zero(t, o.RefundedMinor)
		})
	}
}

// The deposit overtakes the cancel between our look and our write: Toss asks for an account to refund to, which the frozen
// cancel never names, so the money stays.
func TestADepositThatOvertakesTheCancelStays(t *testing.T) {
	t.Parallel()
	y := issued(t)
	waiting := y.Raw(t, y.p.Method.Token)
	require.NoError(t, y.sim.Deposit(y.p.Method.Token))
	y.Arm(t, gatewaytest.Fault{Kind: gatewaytest.Answer, On: gatewaytest.Lookup, Status: http.StatusOK, Body: waiting})
	_, err := y.cancel(t)
	f := fault.As(err)
	require.Equal(t, fault.Conflict, f.Class)
	require.Equal(t, "INVALID_REFUND_ACCOUNT_INFO", f.Provider.Code)
	require.Equal(t, 1, y.cancels(t))
	o := y.look(t)
	require.Equal(t, gateways.Succeeded, o.Outcome)
	require.Zero(t, o.RefundedMinor)
}

func TestAPaymentThatWaitsForItsConfirmIsNotCanceled(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_ok", "order-1", won(12345))
	_, err := y.cancel(t)
	require.Equal(t, fault.Conflict, fault.As(err).Class)
	require.Zero(t, y.cancels(t))
	y.clock.forward(11 * time.Minute)
	o, err := y.cancel(t)
	require.NoError(t, err, "it has closed itself")
	require.True(t, o.Final)
	require.Zero(t, y.cancels(t))
}

func TestACancelWithoutALookIsNotSent(t *testing.T) {
	t.Parallel()
	y := issued(t)
	y.Arm(t, gatewaytest.Fault{Kind: gatewaytest.CutBefore, On: gatewaytest.Lookup, Times: 2})
	_, err := y.cancel(t)
	require.Equal(t, fault.GatewayReadFailed, code(t, err))
	require.Zero(t, y.cancels(t))
	for _, op := range []gateways.Operation{
		{Key: "", ProviderPaymentID: y.p.Method.Token, Request: frozenCancel},
		{Key: "k", ProviderPaymentID: "../x", Request: frozenCancel},
		{Key: "k", ProviderPaymentID: y.p.Method.Token, Request: []byte(`{}`)},
		{Key: "k", ProviderPaymentID: y.p.Method.Token},
	} {
		_, err := y.gw.Send(t.Context(), gateways.Cancel, op)
		require.Equal(t, fault.InternalError, code(t, err))
	}
	_, err = y.gw.PlanCancel("../x")
	require.Equal(t, fault.PaymentInvalid, code(t, err))
	require.Zero(t, y.cancels(t))
}
