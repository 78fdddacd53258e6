package omise

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
)

func TestDisputesOfACharge(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]gateways.Dispute{
		``:                         "",
		`,"dispute":null`:          gateways.DisputeNone,
		`,"dispute":"dspt_test_1"`: "",
		`,"dispute":{"status":"open","amount":30}`: gateways.DisputeOpen, `,"dispute":{"status":"pending","amount":30}`: gateways.DisputeOpen,
		`,"dispute":{"status":"won","amount":30}`: gateways.DisputeWon, `,"dispute":{"status":"lost","amount":30}`: gateways.DisputeLost,
		`,"dispute":{"status":"a_later_word","amount":30}`: gateways.DisputeOpen,
	} {
		body := `{"object":"charge","id":"chrg_test_1","status":"successful","amount":1500,"currency":"jpy","paid":true,"livemode":false` + field + `}`
		base, _ := scripted(t, 200, body)
		o, err := open(t, base).Lookup(t.Context(), gateways.Query{ProviderPaymentID: "chrg_test_1"})
		require.NoError(t, err, field)
		require.Equal(t, gateways.Succeeded, o.Outcome, field)
		require.Equal(t, want, o.Dispute, field)
		require.Equal(t, strings.Contains(field, "amount"), o.DisputedMinor == 30, field)
	}
}
