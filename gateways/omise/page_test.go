package omise

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
	require.Equal(t, "https://dashboard.omise.co/test/charges/chrg_test_5xyz", page("skey_test_abc", "", "chrg_test_5xyz"))
	require.Equal(t, "https://dashboard.omise.co/charges/chrg_test_5xyz", page("skey_abc", "", "chrg_test_5xyz"))
	require.Empty(t, page("skey_test_abc", "http://127.0.0.1:1", "chrg_test_5xyz"), "the sandbox has no dashboard")
	for _, id := range []string{"", "../../login", "chrg_test_5xyz?x=1", "chrg_test_5xyz/../..", "javascript:alert(1)"} {
		require.Empty(t, page("skey_test_abc", "", id), id)
	}
}
