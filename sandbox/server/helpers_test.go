package server_test

// Goal: the simulated Stripe is Stripe to Stripe's own client, and its faults and books tell the truth.
// Method: the real stripe-go client and plain HTTP against a started sandbox.
// Not covered: what Stripe does beyond the payment part of its API, and how the real one words its messages.

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/client"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/server"
)

const (
	testKey  = "sk_test_sandbox"
	otherKey = "sk_test_other"
	liveKey  = "sk_live_sandbox"

	webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

type bundle struct {
	*server.Server
	t    *testing.T
	http *http.Client
}

func setup(t *testing.T) *bundle {
	t.Helper()
	s, err := server.New(server.Config{
		StripeKeys:    []secret.Value{secret.New(testKey), secret.New(otherKey), secret.New(liveKey)},
		IssuerToken:   secret.New("issuer-token"),
		WebhookSecret: secret.New(webhookSecret),
	})
	require.NoError(t, err)
	require.NoError(t, s.Start("127.0.0.1:0"))
	transport := &http.Transport{DisableKeepAlives: true} // see HiddenRetryOfTheGoTransport
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, s.Close())
	})
	return &bundle{Server: s, t: t, http: &http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (b *bundle) stripe(key string) *client.API {
	backend := stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL: stripe.String(b.StripeURL()), HTTPClient: b.http, MaxNetworkRetries: stripe.Int64(0),
		EnableTelemetry: stripe.Bool(false), LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	return client.New(key, &stripe.Backends{API: backend, Connect: backend, Uploads: backend})
}

func (b *bundle) fault(f faults.Fault) string {
	b.t.Helper()
	id, err := b.Faults().Add(f)
	require.NoError(b.t, err)
	return id
}

func newIntent(reference, key string) *stripe.PaymentIntentParams {
	p := &stripe.PaymentIntentParams{
		Amount: stripe.Int64(1500), Currency: stripe.String("jpy"), PaymentMethodTypes: stripe.StringSlice([]string{"card"}),
	}
	p.AddMetadata("merchant_reference", reference)
	p.SetIdempotencyKey(key)
	return p
}

func confirmWith(method, key string) *stripe.PaymentIntentConfirmParams {
	p := &stripe.PaymentIntentConfirmParams{PaymentMethod: stripe.String(method)}
	p.SetIdempotencyKey(key)
	return p
}

func stripeError(t *testing.T, err error) *stripe.Error {
	t.Helper()
	var se *stripe.Error
	require.ErrorAs(t, err, &se)
	return se
}

// wire is one exchange without a client library.
type wire struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

func (b *bundle) call(method, path, body string, header map[string]string) (wire, error) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.URL()+path, strings.NewReader(body))
	require.NoError(b.t, err)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return wire{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	w := wire{status: resp.StatusCode, header: resp.Header, text: string(text)}
	_ = json.Unmarshal(text, &w.body)
	return w, nil
}

// post sends a form to Stripe with the test key.
func (b *bundle) post(path, form, key string) wire {
	b.t.Helper()
	h := map[string]string{"Authorization": "Bearer " + testKey, "Content-Type": "application/x-www-form-urlencoded"}
	if key != "" {
		h["Idempotency-Key"] = key
	}
	w, err := b.call(http.MethodPost, "/stripe/v1/"+path, form, h)
	require.NoError(b.t, err)
	return w
}

func (b *bundle) get(path string, query url.Values) wire {
	b.t.Helper()
	w, err := b.call(http.MethodGet, "/stripe/v1/"+path+"?"+query.Encode(), "", map[string]string{"Authorization": "Bearer " + testKey})
	require.NoError(b.t, err)
	return w
}

func (w wire) str(names ...string) string {
	var v any = w.body
	for _, n := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = m[n]
	}
	s, _ := v.(string)
	return s
}

const cardForm = "amount=1500&currency=jpy&payment_method_types[]=card"

// paid makes an intent and confirms it.
func (b *bundle) paid(method string) (string, wire) {
	b.t.Helper()
	w := b.post("payment_intents", cardForm, "")
	require.Equal(b.t, 200, w.status, w.text)
	return w.str("id"), b.post("payment_intents/"+w.str("id")+"/confirm", "payment_method="+method, "")
}

// within fails the test when a condition does not come true in time.
func within(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 5*time.Second, 2*time.Millisecond, what)
}
