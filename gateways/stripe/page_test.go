package stripe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/secret"
)

func TestPaymentPage(t *testing.T) {
	t.Parallel()
	page := func(key, base, id string) string {
		g, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New(key), APIBase: base})
		require.NoError(t, err)
		return g.(gateways.PaymentPager).PaymentPage(id)
	}
	require.Equal(t, "https://dashboard.stripe.com/test/payments/pi_3Nabc", page("sk_test_abc", "", "pi_3Nabc"))
	require.Equal(t, "https://dashboard.stripe.com/payments/pi_3Nabc", page("sk_live_abc", "", "pi_3Nabc"))
	require.Empty(t, page("sk_test_abc", "http://127.0.0.1:1", "pi_3Nabc"), "the sandbox has no dashboard")
	for _, id := range []string{"", "../../login", "pi_3Nabc?x=1", "pi_3Nabc/../..", "javascript:alert(1)"} {
		require.Empty(t, page("sk_test_abc", "", id), id)
	}
}
