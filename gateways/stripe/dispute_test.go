package stripe

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
)

// Goal: a look says how a payment's disputes stand, and a look that cannot say so says nothing. Method: an intent whose charge was
// disputed, and a list of disputes as Stripe renders it.

func disputed(t *testing.T, charge string, status int, list string) (gateways.Observation, int, error) {
	t.Helper()
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/disputes" {
			asked++
			w.WriteHeader(status)
			_, _ = io.WriteString(w, list)
			return
		}
		pi := listed("pi_1", "succeeded", "of-1", 80)
		_, _ = io.WriteString(w, strings.TrimSuffix(pi, "}")+`,"latest_charge":`+charge+"}")
	}))
	t.Cleanup(srv.Close)
	o, err := open(t, srv.URL).Lookup(t.Context(), gateways.Query{ProviderPaymentID: "pi_1"})
	return o, asked, err
}

func disputesOf(disputes ...string) string {
	return `{"object":"list","has_more":false,"data":[` + strings.Join(disputes, ",") + `]}`
}

func dispute(status string, amount int) string {
	return fmt.Sprintf(`{"id":"dp_1","object":"dispute","amount":%d,"currency":"jpy","status":%q}`, amount, status)
}

const argued = `{"id":"ch_1","object":"charge","disputed":true}`

func TestDisputesOfEveryStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]gateways.Dispute{
		"needs_response": gateways.DisputeOpen, "under_review": gateways.DisputeOpen, "won": gateways.DisputeWon, "lost": gateways.DisputeLost,
		"warning_needs_response": gateways.DisputeNone, "warning_under_review": gateways.DisputeNone, "warning_closed": gateways.DisputeNone,
		"a_later_word": gateways.DisputeOpen,
	} {
		o, _, err := disputed(t, argued, 200, disputesOf(dispute(status, 30)))
		require.NoError(t, err, status)
		require.Equal(t, want, o.Dispute, status)
		require.Equal(t, want == gateways.DisputeNone, o.DisputedMinor == 0, status)
	}
	o, _, err := disputed(t, argued, 200, disputesOf(dispute("won", 80), dispute("lost", 30), dispute("lost", 20), dispute("needs_response", 5)))
	require.NoError(t, err)
	require.Equal(t, gateways.DisputeLost, o.Dispute, "the gravest counts")
	require.EqualValues(t, 50, o.DisputedMinor)
}

func TestALookWithoutDisputesAsksForNone(t *testing.T) {
	t.Parallel()
	o, asked, err := disputed(t, `{"id":"ch_1","object":"charge","disputed":false}`, 200, "")
	require.NoError(t, err)
	require.Equal(t, gateways.DisputeNone, o.Dispute)
	require.Zero(t, asked)
	o, _, err = disputed(t, `"ch_1"`, 200, "")
	require.NoError(t, err)
	require.Empty(t, o.Dispute, "a charge that is not in the answer says nothing")
}

func TestHalfALookAtADisputeIsNone(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]string{
		"NoList": `{}`, "MoreThanAPage": `{"object":"list","has_more":true,"data":[]}`, "OtherCurrency": strings.Replace(disputesOf(dispute("lost", 30)), "jpy", "usd", 1),
		"NoDispute": disputesOf(`{"object":"charge"}`),
	} {
		o, _, err := disputed(t, argued, 200, list)
		require.Error(t, err, name)
		require.Zero(t, o, name)
	}
	_, _, err := disputed(t, argued, 500, `{"error":{"type":"api_error"}}`)
	require.Error(t, err)
}
