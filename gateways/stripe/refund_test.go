package stripe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/sandbox/stripesim"
)

func yen(minor int64) money.Amount { return money.Amount{Minor: minor, Currency: "JPY"} }

func refundOp(t *testing.T, g *Gateway, r gateways.GiveBack) gateways.Operation {
	t.Helper()
	planned, err := g.PlanRefund(r)
	require.NoError(t, err)
	return gateways.Operation{Key: "refund-" + r.Reference, ProviderPaymentID: r.ProviderPaymentID, Request: planned.Request}
}

func TestARefundNamesItsAmountAndOurReference(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	op := refundOp(t, g, gateways.GiveBack{Reference: "R1", ProviderPaymentID: "pi_1", Amount: yen(80), Left: yen(80), Whole: true})
	require.Equal(t, "payment_intent=pi_1&amount=80&metadata[refund_reference]=R1&expand[0]=charge", string(op.Request),
		"a refund of everything names its amount too: without one Stripe gives back what is left by then")
	_, err := g.PlanRefund(gateways.GiveBack{
		Reference: "R1", ProviderPaymentID: "pi_1", Amount: yen(80), Left: yen(80), Payout: gateways.Payout{Bank: "20"},
	})
	require.True(t, fault.IsCode(err, fault.PaymentInvalid))
	_, err = g.PlanRefund(gateways.GiveBack{
		Reference: "R1", ProviderPaymentID: "pi_1", Amount: money.Amount{Minor: 1234, Currency: "KWD"}, Left: money.Amount{Minor: 1240, Currency: "KWD"},
	})
	require.True(t, fault.IsCode(err, fault.PaymentInvalid), "a third decimal that Stripe cannot say")
	op.ProviderPaymentID = "pi_2"
	_, err = g.SendRefund(t.Context(), op)
	require.True(t, fault.IsCode(err, fault.InternalError), "a stored refund never goes out for another payment")
}

func TestEveryRefundStatusHasAMeaning(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]gateways.Outcome{
		"pending": gateways.Pending, "requires_action": gateways.Pending, "succeeded": gateways.Succeeded,
		"failed": gateways.Declined, "canceled": gateways.Declined, "reversed": gateways.Unknown,
	} {
		base, _ := scripted(t, 200, `{"id":"re_1","object":"refund","status":"`+status+`","amount":20,"currency":"jpy","created":1700000000,
			"payment_intent":"pi_1","failure_reason":"unknown","metadata":{"refund_reference":"R1"},
			"charge":{"id":"ch_1","object":"charge","amount_refunded":50,"livemode":true}}`)
		seen, err := open(t, base).LookupRefund(t.Context(), gateways.RefundQuery{RefundID: "re_1"})
		require.NoError(t, err)
		require.Equal(t, gateways.RefundSeen{
			Account:           gateways.Account{Gateway: "stripe", Name: "default", Environment: gateways.Live},
			ProviderPaymentID: "pi_1", RefundID: "re_1", Reference: "R1", Outcome: want, Status: status, Currency: "JPY",
			AmountMinor: 20, RefundedMinor: 50, Code: "unknown", ProviderTime: time.Unix(1_700_000_000, 0).UTC(), RequestID: "req_1",
		}, seen)
	}
}

// refundListing serves refunds of one payment in pages of a hundred.
type refundListing struct {
	mu      sync.Mutex
	refunds []string
	pages   int
	endless bool
}

func (l *refundListing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages++
	from := 0
	for i, re := range l.refunds {
		if after := r.URL.Query().Get("starting_after"); after != "" && strings.Contains(re, `"`+after+`"`) {
			from = i + 1
		}
	}
	to := min(from+100, len(l.refunds))
	_, _ = fmt.Fprintf(w, `{"object":"list","has_more":%v,"data":[%s]}`, l.endless || to < len(l.refunds), strings.Join(l.refunds[from:to], ","))
}

func given(id, intent, reference string) string {
	return fmt.Sprintf(`{"id":%q,"object":"refund","status":"succeeded","amount":20,"currency":"jpy","payment_intent":%q,"metadata":{"refund_reference":%q}}`,
		id, intent, reference)
}

func lookAmong(t *testing.T, l *refundListing) (gateways.RefundSeen, error) {
	t.Helper()
	srv := httptest.NewServer(l)
	t.Cleanup(srv.Close)
	return open(t, srv.URL).LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: "pi_1", Reference: "R1"})
}

func TestARefundIsFoundAmongAllOfItsPayment(t *testing.T) {
	t.Parallel()
	many := make([]string, 205)
	for i := range many {
		many[i] = given(fmt.Sprintf("re_x%d_", i), "pi_1", fmt.Sprintf("R1%d", i))
	}
	l := &refundListing{refunds: many}
	seen, err := lookAmong(t, l)
	require.NoError(t, err)
	require.Equal(t, gateways.NotFound, seen.Outcome, "a reference is compared whole")
	require.Equal(t, 3, l.pages)

	seen, err = lookAmong(t, &refundListing{refunds: append(many, given("re_1", "pi_1", "R1"))})
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, seen.Outcome)
	require.Equal(t, "re_1", seen.RefundID)
	require.EqualValues(t, -1, seen.RefundedMinor, "without its charge a refund does not say what went back in all")
}

func TestTwoRefundsUnderOneReferenceDecideNothing(t *testing.T) {
	t.Parallel()
	seen, err := lookAmong(t, &refundListing{refunds: []string{given("re_1", "pi_1", "R1"), given("re_2", "pi_1", "R1")}})
	require.NoError(t, err)
	require.Equal(t, gateways.Unknown, seen.Outcome)
	require.Equal(t, "two_refunds", seen.Code)
}

func TestAListOfRefundsThatCannotBeReadProvesNothing(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*refundListing{
		"Endless":       {refunds: []string{given("re_2", "pi_1", "R2")}, endless: true},
		"OtherPayments": {refunds: []string{given("re_1", "pi_2", "R1")}},
		"Null":          {refunds: []string{"null"}},
		"Unreadable":    {refunds: []string{given("re_1", "pi_1", "R1"), `{"object":"refund"}`}},
	} {
		_, err := lookAmong(t, l)
		require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%s: %v", name, err)
	}
}

func TestAnAbsentRefundIsNotFound(t *testing.T) {
	t.Parallel()
	base, _ := scripted(t, 404, `{"error":{"type":"invalid_request_error","code":"resource_missing"}}`)
	seen, err := open(t, base).LookupRefund(t.Context(), gateways.RefundQuery{RefundID: "re_1", ProviderPaymentID: "pi_1", Reference: "R1"})
	require.NoError(t, err)
	require.Equal(t, gateways.NotFound, seen.Outcome)
	_, err = open(t, base).LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: "pi_1", Reference: "R1"})
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "a payment that is not found is no fact about its refund")
}

// A refund that succeeded can fail weeks later, when the buyer's bank sends the money back.
func TestARefundCanFailAfterItSucceeded(t *testing.T) {
	t.Parallel()
	s := startSimulated(t)
	g := open(t, s.base)
	p := s.Payment(t, "of-1", yen(80))
	planned, err := g.Plan(p)
	require.NoError(t, err)
	o, err := g.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: "p", Request: planned[0].Request})
	require.NoError(t, err)
	_, err = g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: "c", ProviderPaymentID: o.ProviderPaymentID, Request: planned[1].Request})
	require.NoError(t, err)
	seen, err := g.SendRefund(t.Context(), refundOp(t, g, gateways.GiveBack{Reference: "R1", ProviderPaymentID: o.ProviderPaymentID, Amount: yen(30), Left: yen(80)}))
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, seen.Outcome)
	require.EqualValues(t, 30, seen.RefundedMinor)
	require.NoError(t, s.sim.FinishRefund(seen.RefundID, false))
	require.ErrorIs(t, s.sim.FinishRefund(seen.RefundID, true), stripesim.ErrNoRefund, "a failed refund stays failed")
	seen, err = g.LookupRefund(t.Context(), gateways.RefundQuery{RefundID: seen.RefundID})
	require.NoError(t, err)
	require.Equal(t, gateways.Declined, seen.Outcome)
	require.Zero(t, seen.RefundedMinor)
}
