package stripesim_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/internal/secret"
	"orderflow/sandbox/stripesim"
)

// Goal: whatever is sent in whatever order, an intent takes money once at most, gives back no more than it took, and the
// books and the API agree on both. Method: random calls with few intents and few keys, so that they collide.
// Not covered: concurrency (the server's tests have it).
func TestMoneyIsTakenOncePerIntentWhateverComes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, err := stripesim.New(stripesim.Config{Keys: []secret.Value{secret.New("sk_test_a")}})
		require.NoError(t, err)
		send := func(method, path, form, key string) map[string]any {
			r := httptest.NewRequest(method, path, strings.NewReader(form))
			r.Header.Set("Authorization", "Bearer sk_test_a")
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Idempotency-Key", key)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			var body map[string]any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
			return body
		}
		var intents []string
		for _, capture := range []string{"automatic", "manual"} {
			body := send(http.MethodPost, "/v1/payment_intents", "amount=1000&currency=jpy&payment_method_types[]=card&capture_method="+capture, "")
			intents = append(intents, body["id"].(string))
		}
		for _, form := range []string{konbini, transfer} {
			intents = append(intents, send(http.MethodPost, "/v1/payment_intents", strings.Replace(form, "1500", "1000", 1), "")["id"].(string))
		}
		methods := []string{"pm_card_visa", "pm_card_visa_chargeDeclined", "pm_card_threeDSecure2Required", "pm_konbini", "pm_bank_transfer"}
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			id := rapid.SampledFrom(intents).Draw(t, "intent")
			key := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key")
			amount := strconv.Itoa(rapid.IntRange(1, 1200).Draw(t, "amount"))
			switch rapid.SampledFrom([]string{"confirm", "confirm", "capture", "cancel", "refund", "refund", "buyer", "transfer", "prune", "dispute", "close"}).Draw(t, "call") {
			case "confirm":
				send(http.MethodPost, "/v1/payment_intents/"+id+"/confirm", "payment_method="+rapid.SampledFrom(methods).Draw(t, "method"), key)
			case "capture":
				send(http.MethodPost, "/v1/payment_intents/"+id+"/capture", "amount_to_capture="+amount, key)
			case "cancel":
				send(http.MethodPost, "/v1/payment_intents/"+id+"/cancel", "", key)
			case "refund":
				send(http.MethodPost, "/v1/refunds", "payment_intent="+id+"&amount="+amount, key)
			case "buyer":
				s.Challenge(id, rapid.Bool().Draw(t, "pass"))
			case "transfer":
				s.Transfer(id, int64(rapid.IntRange(1, 1200).Draw(t, "transferred")))
			case "prune":
				s.PruneKeys()
			case "dispute":
				_ = s.Dispute(id, int64(rapid.IntRange(1, 1200).Draw(t, "disputed"))) // most cannot be
			case "close":
				_ = s.CloseDispute(id, rapid.Bool().Draw(t, "won"))
			}
		}
		for _, id := range intents {
			var took, gave, withdrawn, authorized int64
			for _, c := range s.Charges(stripesim.Filter{Intent: id}) {
				if c.Declined == "" {
					authorized++
				}
				took += c.Captured
				gave += c.Refunded
				withdrawn += c.Withdrawn
			}
			require.LessOrEqual(t, authorized, int64(1))
			require.LessOrEqual(t, took, int64(1000))
			require.LessOrEqual(t, gave+withdrawn, took, "nobody gets back what another one has")
			body := send(http.MethodGet, "/v1/payment_intents/"+id+"?expand[]=latest_charge", "", "")
			require.EqualValues(t, took, body["amount_received"])
			if charge, ok := body["latest_charge"].(map[string]any); ok {
				released := int64(0) // of a hold, which this version counts as refunded
				if took > 0 || authorized > 0 && body["status"] == "canceled" {
					released = 1000 - took
				}
				require.EqualValues(t, gave+released, charge["amount_refunded"])
			}
			require.Equal(t, body["status"] == "succeeded", took > 0)
		}
		for _, w := range s.Writes(stripesim.Filter{}) {
			require.False(t, w.Executed && w.Replayed)
			require.NotZero(t, w.Status)
		}
	})
}
