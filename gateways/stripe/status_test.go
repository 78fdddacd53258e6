package stripe

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	stripego "github.com/stripe/stripe-go/v76"

	"orderflow/gateways"
)

func TestEveryIntentStatusHasAVerdict(t *testing.T) {
	t.Parallel()
	failed := &stripego.Error{Code: "card_declined"}
	for _, c := range []struct {
		status   stripego.PaymentIntentStatus
		failed   *stripego.Error
		received int64
		outcome  gateways.Outcome
		final    bool
	}{
		{stripego.PaymentIntentStatusRequiresPaymentMethod, nil, 0, gateways.Untouched, false},
		{stripego.PaymentIntentStatusRequiresPaymentMethod, failed, 0, gateways.Declined, false},
		{stripego.PaymentIntentStatusRequiresConfirmation, nil, 0, gateways.Untouched, false},
		{stripego.PaymentIntentStatusRequiresAction, nil, 0, gateways.Pending, false},
		{stripego.PaymentIntentStatusProcessing, nil, 0, gateways.Pending, false},
		{stripego.PaymentIntentStatusRequiresCapture, nil, 0, gateways.Pending, false},
		{stripego.PaymentIntentStatusSucceeded, nil, 80, gateways.Succeeded, false},
		{stripego.PaymentIntentStatusCanceled, nil, 0, gateways.Declined, true},
		{stripego.PaymentIntentStatusCanceled, failed, 0, gateways.Declined, true},
		// Contradictions and news are unknown, never a verdict.
		{stripego.PaymentIntentStatusSucceeded, nil, 0, gateways.Unknown, false},
		{stripego.PaymentIntentStatusCanceled, nil, 80, gateways.Unknown, false},
		{stripego.PaymentIntentStatusRequiresPaymentMethod, failed, 80, gateways.Unknown, false},
		{"failed", nil, 0, gateways.Unknown, false},
		{"", nil, 0, gateways.Unknown, false},
	} {
		v := judge(&stripego.PaymentIntent{Status: c.status, LastPaymentError: c.failed, AmountReceived: c.received})
		require.Equal(t, verdict{c.outcome, c.final}, v, "%s received=%d", c.status, c.received)
	}
	require.Len(t, verdicts, 7, "a row for every status of the pinned API version")
}

func TestObservationTakesIdentityFromTheAnswer(t *testing.T) {
	t.Parallel()
	g := &Gateway{account: gateways.Account{Gateway: "stripe", Name: "default", Environment: gateways.Test}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pi := &stripego.PaymentIntent{
		ID: "pi_1", Object: "payment_intent", Status: "succeeded", Amount: 80, AmountReceived: 80, Currency: "jpy", Livemode: true,
		Metadata:     map[string]string{"merchant_reference": "of-1"},
		LatestCharge: &stripego.Charge{AmountRefunded: 30},
	}
	header := http.Header{"Date": {at.Format(http.TimeFormat)}, "Request-Id": {"req_1"}}
	o := g.observe(pi, header)
	require.Equal(t, gateways.Observation{
		Account:           gateways.Account{Gateway: "stripe", Name: "default", Environment: gateways.Live},
		ProviderPaymentID: "pi_1", MerchantReference: "of-1", Outcome: gateways.Succeeded, Status: "succeeded",
		Currency: "JPY", AmountMinor: 80, CapturedMinor: 80, RefundedMinor: 30, ProviderTime: at, RequestID: "req_1",
	}, o)

	header.Set("Idempotent-Replayed", "true")
	require.True(t, g.observe(pi, header).ProviderTime.IsZero(), "a replayed answer is older than its header")
	header.Set("Request-Id", "not an id\x1b[31m")
	require.Empty(t, g.observe(pi, header).RequestID)
}

// The pinned version counts what was never captured as refunded.
func TestWhatIsReleasedDidNotGoBack(t *testing.T) {
	t.Parallel()
	g := &Gateway{account: gateways.Account{Gateway: "stripe", Name: "default", Environment: gateways.Test}}
	for name, c := range map[string]struct {
		status             stripego.PaymentIntentStatus
		captured, refunded int64
		back               int64
	}{
		"the whole":                      {"succeeded", 600, 0, 0},
		"a part":                         {"succeeded", 400, 200, 0},
		"a part, and some of it back":    {"succeeded", 400, 350, 150},
		"a part, as later versions have": {"succeeded", 400, 0, 0},
		"the whole, and some of it back": {"succeeded", 600, 150, 150},
		"a hold that was let go":         {"canceled", 0, 600, 0},
	} {
		charge := &stripego.Charge{Object: "charge", Amount: 600, AmountCaptured: c.captured, AmountRefunded: c.refunded}
		o := g.observe(&stripego.PaymentIntent{ID: "pi_1", Status: c.status, Amount: 600, AmountReceived: c.captured, Currency: "jpy", LatestCharge: charge}, nil)
		require.Equal(t, c.captured, o.CapturedMinor, name)
		require.Equal(t, c.back, o.RefundedMinor, name)
		seen := g.observeRefund(&stripego.Refund{PaymentIntent: &stripego.PaymentIntent{ID: "pi_1"}, Charge: charge, Currency: "jpy"}, nil)
		require.Equal(t, c.back, seen.RefundedMinor, name)
	}
}

func TestNextActionIsAWebLinkOrNothing(t *testing.T) {
	t.Parallel()
	redirect := func(u string) *stripego.PaymentIntentNextAction {
		return &stripego.PaymentIntentNextAction{RedirectToURL: &stripego.PaymentIntentNextActionRedirectToURL{URL: u}}
	}
	require.Equal(t, &gateways.NextAction{Type: "redirect", URL: "https://bank.example/3ds"}, nextAction(redirect("https://bank.example/3ds")))
	require.Equal(t, &gateways.NextAction{Type: "voucher", URL: "https://pay.example/v", Due: "2026-01-02T03:04:05Z"},
		nextAction(&stripego.PaymentIntentNextAction{KonbiniDisplayDetails: &stripego.PaymentIntentNextActionKonbiniDisplayDetails{
			HostedVoucherURL: "https://pay.example/v", ExpiresAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Unix(),
		}}))
	for _, bad := range []string{"", "javascript:alert(1)", "//x", "data:text/html,x", "%zz"} {
		require.Nil(t, nextAction(redirect(bad)), bad)
	}
	require.Nil(t, nextAction(nil))
	require.Nil(t, nextAction(&stripego.PaymentIntentNextAction{Type: "use_stripe_sdk"}))
}
