package webhooks_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/stripe"
	"orderflow/gateways/toss"
	"orderflow/internal/secret"
	"orderflow/order"
	"orderflow/sandbox/stripesim"
	"orderflow/starter/webhooks"
	"orderflow/store/sqlcgen"
)

// Goal: the same with the real readers of two providers, one that signs and one whose notices carry a secret per payment. Method: the
// provider's documented bodies, byte by byte. Not covered: what each reader makes of every field, which is its own tests' business.

const stripeWebhook = "whsec_of_this_test_only"

func providers(t *testing.T) *bundle {
	t.Helper()
	return setup(t, func(_ *bundle, d *webhooks.Deps) {
		s, err := stripe.Open(gateways.Settings{Name: "default", SecretKey: secret.New("sk_live_none"), WebhookSecret: secret.New(stripeWebhook)})
		require.NoError(t, err)
		unsigned, err := stripe.Open(gateways.Settings{Name: "off", SecretKey: secret.New("sk_live_none")})
		require.NoError(t, err)
		ts, err := toss.Open(gateways.Settings{Name: "default", SecretKey: secret.New("test_sk_none")})
		require.NoError(t, err)
		d.Gateways = map[order.Account]gateways.Gateway{}
		for _, g := range []gateways.Gateway{s, unsigned, ts} {
			a := g.Account()
			d.Gateways[order.Account{Gateway: a.Gateway, Name: a.Name, Environment: string(a.Environment)}] = g
		}
	}).run()
}

// at moves an attempt to an account, under the provider's id.
func (b *bundle) at(a sqlcgen.PaymentAttempt, gateway, environment, id string) sqlcgen.PaymentAttempt {
	b.t.Helper()
	b.exec("UPDATE payment_attempts SET gateway = $1, environment = $2, provider_payment_id = $3 WHERE attempt_id = $4", gateway, environment, id, a.AttemptID)
	now, err := b.store.Attempt(b.t.Context(), order.AttemptID(a.AttemptID))
	require.NoError(b.t, err)
	return now
}

func (b *bundle) send(path, body string, headers http.Header) int {
	b.t.Helper()
	return b.raw([]byte(body), func(r *http.Request) {
		r.URL.Path = path
		maps.Copy(r.Header, headers)
	})
}

func TestStripe(t *testing.T) {
	t.Parallel()
	b := providers(t)
	a := b.at(b.becomes(b.attempt(), order.Unknown), "stripe", "live", "pi_1")
	const path = "/webhooks/stripe/default"
	signed := func(body string, off time.Duration) http.Header {
		return stripesim.Sign(secret.New(stripeWebhook), time.Now().Add(off), []byte(body))
	}
	event := func(id, more string) string {
		return fmt.Sprintf(`{"id":"%s","object":"event","api_version":"2099-01-01.x","created":%d,"type":"payment_intent.succeeded","livemode":true,"novel":{"x":[null]},
			"data":{"object":{"id":"pi_1","object":"payment_intent","amount":1,"currency":"jpy","latest_charge":null%s}}}`, id, time.Now().Unix(), more)
	}
	body := event("evt_1", "")
	for name, c := range map[string]struct {
		body    string
		headers http.Header
		path    string
		want    int
	}{
		"Unsigned":       {body, http.Header{}, path, 401},
		"HeaderOfX":      {body, http.Header{"Stripe-Signature": {"x"}}, path, 401},
		"Changed":        {strings.Replace(body, `"amount":1`, `"amount":2`, 1), signed(body, 0), path, 401},
		"OtherSecret":    {body, stripesim.Sign(secret.New("whsec_another"), time.Now(), []byte(body)), path, 401},
		"TooOld":         {body, signed(body, -301*time.Second), path, 401},
		"TooNew":         {body, signed(body, 302*time.Second), path, 401},
		"NoEvent":        {`{"object":"event"}`, signed(`{"object":"event"}`, 0), path, 400},
		"NoSecretKnown":  {body, signed(body, 0), "/webhooks/stripe/off", 404},
		"NoSuchAccount":  {body, signed(body, 0), "/webhooks/stripe/none", 404},
		"OtherProviders": {body, signed(body, 0), "/webhooks/omise/default", 404},
	} {
		require.Equal(t, c.want, b.send(c.path, c.body, c.headers), name)
	}
	require.Zero(t, b.count("SELECT count(*) FROM webhook_receipts"))
	// PC-26: whatever a genuine event says of amounts, it is a reason to look and no more.
	require.Equal(t, 200, b.send(path, body, signed(body, 0)))
	test := strings.Replace(event("evt_2", ""), `"livemode":true`, `"livemode":false`, 1)
	require.Equal(t, 200, b.send(path, test, signed(test, 0)))
	other := `{"id":"evt_3","type":"customer.updated","livemode":true,"data":null}`
	require.Equal(t, 200, b.send(path, other, signed(other, 0)))
	b.quiet()
	require.Equal(t, "look", b.result("evt_1"))
	require.Equal(t, "wrong_environment", b.result("evt_2"))
	require.Equal(t, "ignored", b.result("evt_3"))
	require.Equal(t, 1, b.runs.of(order.ID(a.OrderID)))
}

// PC-25, PC-62.
func TestToss(t *testing.T) {
	t.Parallel()
	b := providers(t)
	const path = "/webhooks/toss/default"
	callback := func(a sqlcgen.PaymentAttempt, status, secretJSON string) string {
		return fmt.Sprintf(`{"createdAt":"2026-06-05T16:58:18.000000","secret":%s,"status":"%s","transactionKey":"t2","orderId":"%s"}`, secretJSON, status, a.MerchantReference)
	}
	json := http.Header{"Content-Type": {"application/json"}}
	held := b.at(b.becomes(b.attempt(), order.Succeeded), "toss", "test", "pk_held")
	b.holds(held, "ps_x")
	require.Equal(t, 401, b.send(path, callback(held, "CANCELED", `"ps_y"`), json))
	require.Zero(t, b.count("SELECT count(*) FROM webhook_receipts"))
	for range 8 {
		began := time.Now()
		require.Equal(t, 200, b.send(path, callback(held, "CANCELED", `"ps_x"`), json))
		require.Less(t, time.Since(began), 5*time.Second)
	}
	b.quiet()
	require.Equal(t, 1, b.count("SELECT count(*) FROM webhook_receipts WHERE proof = 'secret'"))
	require.Equal(t, 1, b.runs.of(order.ID(held.OrderID)))

	// We hold no secret: null, missing and any text are a hint alike.
	for _, text := range []string{"null", `""`, `"guess"`} {
		bare := b.at(b.becomes(b.attempt(), order.Unknown), "toss", "test", "pk_"+rands(text))
		require.Equal(t, 200, b.send(path, callback(bare, "DONE", text), json), text)
		b.quiet()
		require.Equal(t, 1, b.runs.of(order.ID(bare.OrderID)), text)
	}
	require.Equal(t, 3, b.count("SELECT count(*) FROM webhook_receipts WHERE proof = 'none'"))
	require.Zero(t, b.count("SELECT count(*) FROM webhook_receipts w WHERE w::text LIKE '%ps_x%' OR w::text LIKE '%guess%'"))
}

// rands makes a plain word of any text.
func rands(s string) string {
	return strings.Map(func(r rune) rune {
		if slices.Contains([]rune("abcdefghijklmnopqrstuvwxyz"), r) {
			return r
		}
		return 'Z'
	}, s)
}
