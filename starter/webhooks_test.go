package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/config"
	"orderflow/internal/secret"
)

// Goal: a buyer who finishes at the provider is found by the webhook alone, and by the browser's return alone (PC-17). Method: all is
// real, as in the other tests here; the sweep would look at a pending payment in an hour only, so it is not what finds it.
func TestBuyerWhoFinishesElsewhere(t *testing.T) {
	b := setup(t)
	b.environ = append(b.environ, "STRIPE_WEBHOOK_SECRET=whsec_sandbox_only", "ORDERFLOW_PUBLIC_URL=https://pay.example", "ORDERFLOW_REVIEW_CHECK_EVERY=1h")
	var err error
	b.config, err = config.Load(b.environ)
	require.NoError(t, err)
	said, err := b.run(setupCommand{Wait: 10 * time.Second})
	require.NoError(t, err, said)
	b.serve()
	b.work()

	t.Run("ByTheWebhookAlone", func(t *testing.T) {
		action := b.startRedirect(t, "W1")
		require.NoError(t, b.world.Webhooks().SetTarget("stripe", b.api+"/webhooks/stripe/default"))
		b.press(t, action) // and the browser is closed
		b.paid(t, "W1")
		_, metrics := b.get(b.ops + "/metrics")
		require.Contains(t, metrics, `orderflow_webhooks_received_total{gateway="stripe",result="stored"}`)
		require.Contains(t, metrics, `orderflow_wanted_looks_total{result="asked"}`)
	})
	t.Run("ByTheReturnAlone", func(t *testing.T) {
		action := b.startRedirect(t, "W2")
		require.NoError(t, b.world.Webhooks().SetTarget("stripe", ""))
		back := b.press(t, action)
		require.Equal(t, "pay.example", back.Host)
		require.True(t, strings.HasPrefix(back.Path, "/return/"))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.api+back.RequestURI(), nil)
		require.NoError(t, err)
		res, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		require.Equal(t, "https://shop.example/thanks?order=W2", res.Header.Get("Location"), "as the checkout gave it, and nothing of the provider's")
		b.paid(t, "W2")
	})
}

// startRedirect pays with a card whose bank wants to see the buyer, and returns where the buyer is sent.
func (b *bundle) startRedirect(t *testing.T, id string) string {
	t.Helper()
	said, err := b.run(placeCommand{API: b.api, APIKey: secret.New(apiKey), ID: id, Currency: "JPY", Line: []string{"PASS,1,4800,grant"}, Expires: time.Hour})
	require.NoError(t, err, said)
	status, body, err := post(t.Context(), b.api+"/v1/orders/"+id+"/payments", secret.New(apiKey), "pay-"+id, []byte(
		`{"gateway":"stripe","method":{"type":"card","token":"pm_card_threeDSecure2Required__`+id+`","return_url":"https://shop.example/thanks?order=`+id+`"}}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, status, string(body))
	var a struct {
		Outcome    string `json:"outcome"`
		NextAction struct {
			URL string `json:"url"`
		} `json:"next_action"`
	}
	require.NoError(t, json.Unmarshal(body, &a))
	require.Equal(t, "pending", a.Outcome)
	return a.NextAction.URL
}

// press has the buyer say yes at the bank, and returns where the bank sends the browser.
func (b *bundle) press(t *testing.T, action string) *url.URL {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, action+"/pass", nil)
	require.NoError(t, err)
	res, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	back, err := res.Location()
	require.NoError(t, err)
	return back
}

func (b *bundle) paid(t *testing.T, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := b.run(explainCommand{Order: id, JSON: true}) // asks nobody to look
		return err == nil && strings.Contains(strings.ReplaceAll(text, " ", ""), `"fulfillment":"fulfilled"`)
	}, 20*time.Second, 100*time.Millisecond, "nobody found that %s is paid", id)
}
