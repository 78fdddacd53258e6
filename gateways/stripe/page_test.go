package stripe

import (
	"testing"

	"orderflow/gateways/gatewaytest"
)

func TestPaymentPage(t *testing.T) {
	t.Parallel()
	gatewaytest.CheckPages(t, gatewaytest.Pages{
		Open: Open, TestKey: "sk_test_abc", LiveKey: "sk_live_abc", ID: "pi_3Nabc",
		Test: "https://dashboard.stripe.com/test/payments/pi_3Nabc", Live: "https://dashboard.stripe.com/payments/pi_3Nabc",
	})
}
