package server_test

// Goal: the simulated Stripe is Stripe to Stripe's own client, and its faults and books tell the truth.
// Method: the real stripe-go client and plain HTTP against a started sandbox.
// Not covered: what Stripe does beyond the payment part of its API.

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/client"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/server"
	"orderflow/sandbox/stripesim"
)

const (
	testKey  = "sk_test_sandbox"
	otherKey = "sk_test_other"
	liveKey  = "sk_live_sandbox"
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
		WebhookSecret: secret.New("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
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

func TestStripePayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	api := b.stripe(testKey)

	pi, err := api.PaymentIntents.New(newIntent("r-1", "k-create"))
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusRequiresPaymentMethod, pi.Status)
	require.False(t, pi.Livemode)

	pi, err = api.PaymentIntents.Confirm(pi.ID, confirmWith("pm_card_visa", "k-confirm"))
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusSucceeded, pi.Status)
	require.EqualValues(t, 1500, pi.AmountReceived)

	_, err = api.PaymentIntents.Confirm(pi.ID, confirmWith("pm_card_visa", "k-second"))
	se := stripeError(t, err)
	require.Equal(t, stripe.ErrorCodePaymentIntentUnexpectedState, se.Code)
	require.Equal(t, pi.ID, se.PaymentIntent.ID)

	get := &stripe.PaymentIntentParams{}
	get.AddExpand("latest_charge")
	pi, err = api.PaymentIntents.Get(pi.ID, get)
	require.NoError(t, err)
	require.True(t, pi.LatestCharge.Captured)

	charges := b.Stripe().Charges(stripesim.Filter{MerchantReference: "r-1"})
	require.Len(t, charges, 1)
	require.EqualValues(t, 1500, charges[0].Captured)
	writes := b.Stripe().Writes(stripesim.Filter{Intent: pi.ID})
	require.Len(t, writes, 2)
	require.Equal(t, []int{200, 400}, []int{writes[0].Status, writes[1].Status})
}

func TestLostAnswerThenReplay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	api := b.stripe(testKey)
	pi, err := api.PaymentIntents.New(newIntent("r-1", "k-create"))
	require.NoError(t, err)
	id := b.fault(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Times: 1, Action: faults.LoseAnswer})

	_, err = api.PaymentIntents.Confirm(pi.ID, confirmWith("pm_card_visa", "k"))
	require.Error(t, err)
	var se *stripe.Error
	require.False(t, errors.As(err, &se), "the connection was cut, there is no answer")
	require.Len(t, b.Stripe().Charges(stripesim.Filter{CapturedOnly: true}), 1)

	pi, err = api.PaymentIntents.Confirm(pi.ID, confirmWith("pm_card_visa", "k"))
	require.NoError(t, err)
	require.Equal(t, "true", pi.LastResponse.Header.Get("Idempotent-Replayed"))
	require.NotEqual(t, pi.LastResponse.Header.Get("Original-Request"), pi.LastResponse.RequestID)
	require.Len(t, b.Stripe().Charges(stripesim.Filter{}), 1)
	state, _ := b.Faults().Get(id)
	require.Equal(t, 1, state.Fired)
	require.True(t, state.UsedUp)
}
