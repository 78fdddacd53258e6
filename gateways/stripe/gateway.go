// Package stripe is the Stripe gateway: it plans, sends, looks up, lists, cancels and refunds payment intents of one
// Stripe account.
//
// It must not know orders, storage, Temporal or another provider, and it never retries: repeating belongs to the caller,
// who holds the stored request and its key. It may import gateways, gateways/shared, internal/fault, internal/money, internal/secret and
// stripe-go.
package stripe

import (
	"errors"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/secret"
)

const (
	name = "stripe"
)

// place is where Stripe is.
var place = shared.Place{Gateway: name, Title: "Stripe", Base: "https://api.stripe.com", Domain: "stripe.com"}

// Registration is Stripe's entry in the one list.
func Registration() gateways.Registration {
	return gateways.Registration{Name: name, EnvPrefix: "STRIPE", Open: Open}
}

// Gateway is one Stripe account. It is safe for concurrent use.
type Gateway struct {
	account    gateways.Account
	credential string
	timeout    time.Duration
	client     *client
	dashboard  bool             // the account is at the provider's own address, so its pages are at the usual one
	now        func() time.Time // only bounds the listing window and reads Retry-After dates

	webhookSecret secret.Value
}

var (
	_ gateways.Gateway  = (*Gateway)(nil)
	_ gateways.Canceler = (*Gateway)(nil)
	_ gateways.Notifier = (*Gateway)(nil)
)

// Open makes the gateway of one account. The environment is read from the secret key, because at Stripe the key alone
// decides it. Its errors say what to set and never quote the key.
func Open(s gateways.Settings) (gateways.Gateway, error) {
	if s.Name == "" {
		return nil, errors.New("stripe: the account needs a name (\"default\" for the plain variables)")
	}
	env, err := environmentOf(s.SecretKey.Reveal())
	if err != nil {
		return nil, err
	}
	if s.Environment != "" && s.Environment != env {
		return nil, errors.New("stripe: the environment is set to one and the secret key belongs to the other: at Stripe the key alone decides, so change the key or leave the environment out")
	}
	if err := validWebhookSecret(s.WebhookSecret); err != nil {
		return nil, err
	}
	base, err := place.URL(s.APIBase, env == gateways.Live)
	if err != nil {
		return nil, err
	}
	timeout, err := shared.Timeout(name, s.Timeout)
	if err != nil {
		return nil, err
	}
	return &Gateway{
		account:    gateways.Account{Gateway: name, Name: s.Name, Environment: env},
		credential: gateways.Mark(s.SecretKey),
		timeout:    timeout,
		dashboard:  s.APIBase == "",
		client:     newClient(base, s.SecretKey, timeout),
		now:        time.Now,

		webhookSecret: s.WebhookSecret,
	}, nil
}

// Credential marks the secret key in use.
func (g *Gateway) Credential() string { return g.credential }

// Account identifies the merchant account.
func (g *Gateway) Account() gateways.Account { return g.account }

// environmentOf tells test from live by the key's prefix. Restricted keys (rk_) are the better choice in production.
func environmentOf(key string) (gateways.Environment, error) {
	switch {
	case key == "":
		return "", errors.New("stripe: STRIPE_SECRET_KEY is missing: set the account's secret (sk_…) or restricted (rk_…) key")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("stripe: the secret key holds a space, a line break or a non-ASCII character: copy it again")
	case strings.HasPrefix(key, "sk_test_"), strings.HasPrefix(key, "rk_test_"):
		return gateways.Test, nil
	case strings.HasPrefix(key, "sk_live_"), strings.HasPrefix(key, "rk_live_"):
		return gateways.Live, nil
	case strings.HasPrefix(key, "pk_"):
		return "", errors.New("stripe: the secret key is a publishable key (pk_…): set the secret (sk_…) or restricted (rk_…) key")
	default:
		return "", errors.New("stripe: the secret key starts with none of sk_test_, rk_test_, sk_live_, rk_live_: copy it again")
	}
}
