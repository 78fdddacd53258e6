package stripe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

func TestPlanCaptureFreezesTheseForms(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	for _, c := range []struct {
		amount, held money.Amount
		form         string
	}{
		{money.Amount{Minor: 80, Currency: "JPY"}, money.Amount{Minor: 80, Currency: "JPY"}, "amount_to_capture=80&expand[0]=latest_charge"},
		{money.Amount{Minor: 1799, Currency: "USD"}, money.Amount{Minor: 1800, Currency: "USD"}, "amount_to_capture=1799&expand[0]=latest_charge"},
		{money.Amount{Minor: 1230, Currency: "KWD"}, money.Amount{Minor: 1230, Currency: "KWD"}, "amount_to_capture=1230&expand[0]=latest_charge"},
	} {
		p, err := g.PlanCapture("pi_1", c.amount, c.held)
		require.NoError(t, err)
		require.Equal(t, gateways.Planned{Kind: gateways.Capture, Request: []byte(c.form)}, p)
	}
	_, err := g.PlanCapture("pi_1", money.Amount{Minor: 1231, Currency: "KWD"}, money.Amount{Minor: 1240, Currency: "KWD"})
	require.True(t, fault.IsCode(err, fault.PaymentInvalid), "Stripe takes three-decimal currencies in tens")

	for _, typ := range []string{"konbini", "automatic"} {
		p := card("")
		p.Method.Type, p.CaptureLater = typ, true
		_, err := g.Plan(p)
		require.True(t, fault.IsCode(err, fault.PaymentInvalid), typ)
	}
}
