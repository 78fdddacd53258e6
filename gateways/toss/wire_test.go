package toss

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/tosssim"
)

// try is one planned payment at a simulated Toss.
type try struct {
	*simulated
	gw  *Gateway
	p   gateways.Payment
	op  gateways.Operation
	ref string
}

func begin(t *testing.T, word, ref string, amount money.Amount) try {
	t.Helper()
	s := startSimulated(t, nil)
	return s.begin(t, word, ref, amount)
}

func (s *simulated) begin(t *testing.T, word, ref string, amount money.Amount) try {
	t.Helper()
	gw := s.Open(t, nil).(*Gateway)
	p := begun(word, ref, amount)
	planned, err := gw.Plan(p)
	require.NoError(t, err)
	return try{simulated: s, gw: gw, p: p, ref: ref, op: gateways.Operation{
		Key: "op-" + ref, ProviderPaymentID: p.Method.Token, MerchantReference: ref, Request: planned[0].Request,
	}}
}

func (y try) confirm(t *testing.T) (gateways.Observation, error) {
	t.Helper()
	return y.gw.Send(t.Context(), gateways.Confirm, y.op)
}

func (y try) look(t *testing.T) gateways.Observation {
	t.Helper()
	o, err := y.gw.Lookup(t.Context(), gateways.Query{ProviderPaymentID: y.p.Method.Token})
	require.NoError(t, err)
	return o
}

func (y try) captured(t *testing.T) int {
	t.Helper()
	return len(y.Captures(t, y.ref))
}

func code(t *testing.T, err error) fault.Code {
	t.Helper()
	require.Error(t, err)
	return fault.As(err).Code
}

func TestHeadersOnTheWire(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(srv.Close)
	g := opened(t, func(s *gateways.Settings) { s.APIBase = srv.URL })
	t.Cleanup(g.client.idle)
	planned, err := g.Plan(begun("pay_ok", "order-1", won(12345)))
	require.NoError(t, err)
	_, err = g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: "op_1", Request: planned[0].Request})
	f := fault.As(err)
	require.Equal(t, fault.PaymentUnknown, f.Code)
	require.Equal(t, http.StatusBadGateway, f.Provider.HTTPStatus)
	r := <-got
	require.Equal(t, "/v1/payments/confirm", r.URL.Path)
	require.Equal(t, "Basic "+base64.StdEncoding.EncodeToString([]byte(simKey+":")), r.Header.Get("Authorization"))
	require.Equal(t, "op_1", r.Header.Get("Idempotency-Key"))
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	require.Empty(t, r.Header.Get("TossPayments-Test-Code"))
	require.EqualValues(t, len(planned[0].Request), r.ContentLength)
}

// net/http repeats a request by itself when a kept connection breaks, if it has an Idempotency-Key and a body it can
// rewind. Ours must not: a send is one request.
func TestABrokenKeptConnectionIsNotRetriedUnderneath(t *testing.T) {
	t.Parallel()
	var posts atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusOK) // keeps the connection
	}))
	t.Cleanup(srv.Close)
	g := opened(t, func(s *gateways.Settings) { s.APIBase = srv.URL })
	t.Cleanup(g.client.idle)
	_, _ = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: "tgen_1"})
	planned, err := g.Plan(begun("pay_ok", "order-1", won(12345)))
	require.NoError(t, err)
	_, err = g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: "op_1", Request: planned[0].Request})
	require.Equal(t, fault.PaymentUnknown, code(t, err))
	require.EqualValues(t, 1, posts.Load())
}

func TestTheSameKeyWithAnotherBodyGivesTheFirstPaymentsAnswer(t *testing.T) {
	t.Parallel()
	first := begin(t, "pay_ok", "order-1", won(12345))
	_, err := first.confirm(t)
	require.NoError(t, err)
	other := first.begin(t, "pay_ok", "order-2", won(999))
	other.op.Key = first.op.Key
	o, err := other.confirm(t)
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, o.Outcome, "it looks like success")
	require.Equal(t, "order-1", o.MerchantReference, "and says whose it is")
	require.EqualValues(t, 12345, o.AmountMinor)
	require.Zero(t, other.captured(t))
}

func TestAReceivedErrorStaysUnderItsKeyOrNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code string
		keep bool
	}{
		"ServerErrorKept":   {"", true},
		"ServerErrorFreed":  {"", false},
		"ProviderErrorKept": {"PROVIDER_ERROR", true}, "ProviderErrorFreed": {"PROVIDER_ERROR", false},
	} {
		t.Run(name, func(t *testing.T) {
			y := begin(t, "pay_ok", "order-1", won(12345))
			y.sim.Configure(func(s *tosssim.Settings) { s.KeepServerErrors = c.keep })
			_, err := y.faults.Add(faults.Fault{Target: faults.Toss, Action: faults.StoreError, Code: c.code, PathSuffix: "/confirm", Times: 1})
			require.NoError(t, err)
			_, err = y.confirm(t)
			require.Equal(t, fault.PaymentUnknown, code(t, err))
			require.NotZero(t, fault.As(err).Provider.HTTPStatus, "received: the caller looks, and may open a new operation")
			require.Equal(t, gateways.Untouched, y.look(t).Outcome)

			o, err := y.confirm(t) // the same key
			if c.keep {
				require.Equal(t, fault.PaymentUnknown, code(t, err))
				require.Zero(t, y.captured(t))
				y.op.Key += "-2"
				o, err = y.confirm(t)
			}
			require.NoError(t, err)
			require.Equal(t, gateways.Succeeded, o.Outcome)
			require.Equal(t, 1, y.captured(t))
			y.op.Key += "-3"
			_, err = y.confirm(t)
			require.Equal(t, fault.PaymentAlready, code(t, err), "a payment key is approved once")
			require.Equal(t, 1, y.captured(t))
		})
	}
}

func TestAfterTenMinutesTheConfirmFindsNoSessionAndTheLookupSaysExpired(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_ok", "order-1", won(12345))
	require.Equal(t, gateways.Untouched, y.look(t).Outcome)
	y.clock.forward(11 * time.Minute)
	_, err := y.confirm(t)
	f := fault.As(err)
	require.Equal(t, fault.PaymentUnknown, f.Code)
	require.Equal(t, "NOT_FOUND_PAYMENT_SESSION", f.Provider.Code)
	o := y.look(t)
	require.Equal(t, gateways.Declined, o.Outcome)
	require.True(t, o.Final)
	require.Equal(t, "EXPIRED_PAYMENT", o.DeclineCode)
	require.Zero(t, y.captured(t))
}

// The published case of a key that was pruned: an attempt whose outcome is unknown is found by the payment key and by the
// order id long after its key has lapsed, and a repeat after the guard's end takes nothing.
func TestSixteenDaysLaterTheLookupStillTells(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_ok", "order-1", won(12345))
	y.Arm(t, gatewaytest.Fault{Kind: gatewaytest.LoseAnswer, On: gateways.Confirm})
	_, err := y.confirm(t)
	require.Equal(t, fault.PaymentUnknown, code(t, err))
	require.Zero(t, fault.As(err).Provider.HTTPStatus, "no answer at all")
	y.clock.forward(16 * 24 * time.Hour)
	for _, kind := range []gateways.Kind{gateways.Confirm, gateways.Cancel} {
		require.Less(t, y.gw.Capabilities().RepeatSafeFor[kind], 15*24*time.Hour, "the caller does not repeat")
	}
	require.LessOrEqual(t, y.gw.Capabilities().RepeatSafe(gateways.Confirm, "card"), 10*time.Minute)
	o := y.look(t)
	require.Equal(t, gateways.Succeeded, o.Outcome)
	byOrder, err := y.gw.Lookup(t.Context(), gateways.Query{MerchantReference: "order-1"})
	require.NoError(t, err)
	require.Equal(t, o.ProviderPaymentID, byOrder.ProviderPaymentID)
	_, err = y.confirm(t)
	require.Equal(t, fault.PaymentAlready, code(t, err))
	require.Equal(t, 1, y.captured(t))
}

func TestADeclineIsFinalWhereTheStatusSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open  bool
		final bool
	}{"Aborted": {false, true}, "StillInProgress": {true, false}} {
		t.Run(name, func(t *testing.T) {
			y := begin(t, "pay_declined-INVALID_CARD_EXPIRATION", "order-1", won(12345))
			y.sim.Configure(func(s *tosssim.Settings) { s.DeclineLeavesOpen = c.open })
			for range 2 { // the second is the replay under the same key
				o, err := y.confirm(t)
				require.NoError(t, err)
				require.Equal(t, gateways.Declined, o.Outcome)
				require.Equal(t, c.final, o.Final)
				require.Equal(t, "INVALID_CARD_EXPIRATION", o.DeclineCode)
				require.Equal(t, "order-1", o.MerchantReference)
				require.EqualValues(t, 12345, o.AmountMinor)
			}
		})
	}
}

func TestADeclineThatCannotBeCheckedIsUnknown(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_declined", "order-1", won(12345))
	y.Arm(t, gatewaytest.Fault{Kind: gatewaytest.CutBefore, On: gatewaytest.Lookup, Times: 2})
	_, err := y.confirm(t)
	f := fault.As(err)
	require.Equal(t, fault.PaymentUnknown, f.Code)
	require.Equal(t, fault.Unknown, f.Class)
	require.Equal(t, "REJECT_CARD_PAYMENT", f.Provider.Code)
	require.NotZero(t, f.Provider.HTTPStatus)
}

// A decline kept under an old key, while a later operation was paid: old news never closes a paid payment.
func TestAReplayedDeclineOfAPaidPaymentIsUnknown(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_ok", "order-1", won(12345))
	y.sim.Configure(func(s *tosssim.Settings) { s.DeclineLeavesOpen = true })
	_, err := y.faults.Add(faults.Fault{Target: faults.Toss, Action: faults.Refuse, PathSuffix: "/confirm", Times: 1})
	require.NoError(t, err)
	o, err := y.confirm(t)
	require.NoError(t, err)
	require.Equal(t, gateways.Declined, o.Outcome)
	require.False(t, o.Final)
	again := y
	again.op.Key += "-2"
	o, err = again.confirm(t)
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, o.Outcome)
	_, err = y.confirm(t)
	require.Equal(t, fault.PaymentUnknown, code(t, err))
	require.Equal(t, gateways.Succeeded, y.look(t).Outcome)
	require.Equal(t, 1, y.captured(t))
}

// The read after a decline shares the write's time: a caller that counts on SendTimeout is not kept for two.
func TestOneSendHasOneBound(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	y := begin(t, "pay_declined", "order-1", won(12345))
	y.Arm(t, gatewaytest.Fault{Kind: gatewaytest.Slow, On: gateways.Confirm, Delay: 3 * timeout / 4})
	y.Arm(t, gatewaytest.Fault{Kind: gatewaytest.Hang, On: gatewaytest.Lookup})
	gw := y.Open(t, func(s *gateways.Settings) { s.Timeout = timeout })
	require.Equal(t, timeout, gw.Capabilities().SendTimeout)
	started := time.Now()
	_, err := gw.Send(t.Context(), gateways.Confirm, y.op)
	require.Equal(t, fault.PaymentUnknown, code(t, err))
	require.Less(t, time.Since(started), 3*timeout/2)
}

func TestOnlyAWholeSuccessAnswerIsAPayment(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_ok", "order-1", won(12345))
	_, err := y.confirm(t)
	require.NoError(t, err)
	raw := y.Raw(t, y.p.Method.Token)
	for _, status := range []int{100, 302, 400, 404, 409, 500} {
		_, ok := decodePayment(answer{status: status, body: raw})
		require.False(t, ok, "a payment in an answer of status %d", status)
	}
	// Too long, and cut at the limit it would still parse.
	long := append(raw, bytes.Repeat([]byte(" "), maxAnswer)...)
	y.Arm(t, gatewaytest.Fault{Kind: gatewaytest.Answer, On: gatewaytest.Lookup, Status: http.StatusOK, Body: long})
	_, err = y.gw.Lookup(t.Context(), gateways.Query{ProviderPaymentID: y.p.Method.Token})
	require.Equal(t, fault.GatewayReadFailed, code(t, err))
	require.Equal(t, http.StatusOK, fault.As(err).Provider.HTTPStatus)
}

// "Not found" is a fact only as Toss says it: its code on its status.
func TestNotFoundIsACodeAndAStatus(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_ok", "order-1", won(12345))
	for _, c := range []struct {
		status int
		code   string
		found  bool
	}{
		{404, "NOT_FOUND_PAYMENT", true},
		{404, "NOT_FOUND", true},
		{400, "NOT_FOUND_PAYMENT", false},
		{500, "NOT_FOUND_PAYMENT", false},
		{200, "NOT_FOUND_PAYMENT", false},
		{404, "NOT_FOUND_PAYMENT_SESSION", false},
		{404, "", false},
	} {
		y.Arm(t, gatewaytest.Fault{Kind: gatewaytest.Answer, On: gatewaytest.Lookup, Status: c.status, Body: errorAnswer(c.status, c.code).body})
		o, err := y.gw.Lookup(t.Context(), gateways.Query{ProviderPaymentID: y.p.Method.Token})
		if !c.found {
			require.Equal(t, fault.GatewayReadFailed, code(t, err), "%d %s", c.status, c.code)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, gateways.NotFound, o.Outcome)
		require.False(t, o.Final)
	}
	require.Zero(t, y.gw.Capabilities().NotFoundFinalAfter, "and never a final one")
}

func TestALookupNeverAsksForAnotherPaymentThanNamed(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_ok", "order-1", won(12345))
	for _, q := range []gateways.Query{
		{},
		{ProviderPaymentID: "../x", MerchantReference: "order-1"},
		{ProviderPaymentID: "orders/order-1"},
		{MerchantReference: "a/b/c/d"},
		{MerchantReference: "short"},
	} {
		_, err := y.gw.Lookup(t.Context(), q)
		require.Equal(t, fault.InternalError, code(t, err), "%+v", q)
	}
}

func TestAWrongKeyIsMisconfiguredOnEveryCall(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_ok", "order-1", won(12345))
	other := y.Open(t, func(s *gateways.Settings) { s.SecretKey = secretOf("test_sk_other") })
	_, err := other.Send(t.Context(), gateways.Confirm, y.op)
	require.Equal(t, fault.GatewayMisconfigured, code(t, err))
	_, err = other.Lookup(t.Context(), gateways.Query{MerchantReference: "order-1"})
	require.Equal(t, fault.GatewayMisconfigured, code(t, err))
	_, err = other.Send(t.Context(), gateways.Cancel, gateways.Operation{Key: "k", ProviderPaymentID: y.op.ProviderPaymentID, Request: frozenCancel})
	require.Equal(t, fault.GatewayMisconfigured, code(t, err))
	require.Zero(t, y.captured(t))
}
