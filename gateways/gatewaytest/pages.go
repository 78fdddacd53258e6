package gatewaytest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/secret"
)

// Pages says where a provider's dashboard shows a payment.
type Pages struct {
	Open             func(gateways.Settings) (gateways.Gateway, error)
	TestKey, LiveKey string
	ID               string // a payment's, as the provider writes it
	Test, Live       string // its pages
}

// CheckPages asserts that a payment's page is the provider's own, of the right environment, and made of nothing but an id.
func CheckPages(t *testing.T, p Pages) {
	t.Helper()
	page := func(key, base, id string) string {
		g, err := p.Open(gateways.Settings{Name: "default", SecretKey: secret.New(key), APIBase: base})
		require.NoError(t, err)
		return g.(gateways.PaymentPager).PaymentPage(id)
	}
	require.Equal(t, p.Test, page(p.TestKey, "", p.ID))
	require.Equal(t, p.Live, page(p.LiveKey, "", p.ID))
	require.Empty(t, page(p.TestKey, "http://127.0.0.1:1", p.ID), "the sandbox has no dashboard")
	for _, id := range []string{"", "../../login", p.ID + "?x=1", p.ID + "/../..", "javascript:alert(1)", strings.ToUpper(p.ID)} {
		require.Empty(t, page(p.TestKey, "", id), id)
	}
}
