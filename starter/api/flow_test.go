package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPayOrder(t *testing.T) {
	t.Run("PaidInTheSameAnswer", func(t *testing.T) {
		b := setup(t)
		b.working()
		b.place("O-1")
		a := b.call("POST", pathOf("O-1")+"/payments", card("pm_card_visa"), key("pay-1"))
		require.Equal(t, 201, a.status, string(a.body))
		require.Equal(t, "succeeded", a.at("outcome"))
		require.Equal(t, "paid", a.at("order", "states", "order"))
		again := b.call("POST", pathOf("O-1")+"/payments", card("pm_card_visa"), key("pay-1"))
		require.Equal(t, 201, again.status)
		require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
		require.Equal(t, string(a.body), string(again.body))
		g := b.call("GET", pathOf("O-1"), nil)
		require.Equal(t, 200, g.status, string(g.body))
		require.Equal(t, "paid", g.at("states", "payment"))
		require.NotContains(t, string(g.body), "pm_card_visa")
		t.Log(string(g.body))
	})
}
