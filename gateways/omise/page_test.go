package omise

import (
	"testing"

	"orderflow/gateways/gatewaytest"
)

func TestPaymentPage(t *testing.T) {
	t.Parallel()
	gatewaytest.CheckPages(t, gatewaytest.Pages{
		Open: Open, TestKey: "skey_test_abc", LiveKey: "skey_abc", ID: "chrg_test_5xyz",
		Test: "https://dashboard.omise.co/test/charges/chrg_test_5xyz", Live: "https://dashboard.omise.co/charges/chrg_test_5xyz",
	})
}
