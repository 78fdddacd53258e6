// Package omise is the Omise gateway: it plans, sends, looks up, lists, cancels and refunds charges of one Omise account,
// and reads its webhooks. Omise has no idempotency key, so no charge may be repeated but one on a single-use token or source.
//
// It must not know orders, storage, Temporal or another provider, and it never retries: repeating belongs to the caller,
// who holds the stored request. It may import gateways, gateways/shared, internal/fault, internal/money, internal/secret and omise-go.
package omise

import (
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/secret"
)

const (
	name        = "omise"
	defaultBase = "https://api.omise.co"
)

// place is where Omise is.
var place = shared.Place{Gateway: name, Title: "Omise", Base: defaultBase, Domain: "omise.co"}

// Registration is Omise's entry in the one list.
func Registration() gateways.Registration {
	return gateways.Registration{Name: name, EnvPrefix: "OMISE", Open: Open}
}

// Gateway is one Omise account. It is safe for concurrent use.
type Gateway struct {
	account    gateways.Account
	credential string
	timeout    time.Duration
	client     *client
	webhookKey secret.Value     // the decoded bytes; zero: none is configured, and a webhook is a hint that nothing proves
	dashboard  bool             // the account is at the provider's own address, so its pages are at the usual one
	now        func() time.Time // bounds the listing window, reads Retry-After dates and ages a timed-out charge
}

var (
	_ gateways.Gateway  = (*Gateway)(nil)
	_ gateways.Canceler = (*Gateway)(nil)
	_ gateways.Notifier = (*Gateway)(nil)
)

// Open makes the gateway of one account. The environment is read from the secret key, because at Omise the key alone
// decides it. Its errors say what to set and never quote a key.
func Open(s gateways.Settings) (gateways.Gateway, error) {
	if s.Name == "" {
		return nil, errors.New("omise: the account needs a name (\"default\" for the plain variables)")
	}
	env, err := environmentOf(s.SecretKey.Reveal())
	if err != nil {
		return nil, err
	}
	if s.Environment != "" && s.Environment != env {
		return nil, errors.New("omise: the configured environment is not the secret key's (skey_test_… is test, any other skey_… is live)")
	}
	if err := validPublicKey(s.PublicKey, env); err != nil {
		return nil, err
	}
	base, err := place.URL(s.APIBase, env == gateways.Live)
	if err != nil {
		return nil, err
	}
	key, err := webhookKey(s)
	if err != nil {
		return nil, err
	}
	timeout, err := shared.Timeout(name, s.Timeout)
	if err != nil {
		return nil, err
	}
	c, err := newClient(base, s.SecretKey, timeout)
	if err != nil {
		return nil, err
	}
	return &Gateway{
		account:    gateways.Account{Gateway: name, Name: s.Name, Environment: env},
		credential: gateways.Mark(s.SecretKey),
		timeout:    timeout,
		dashboard:  s.APIBase == "",
		client:     c,
		webhookKey: key,
		now:        time.Now,
	}, nil
}

// Credential marks the secret key in use.
func (g *Gateway) Credential() string { return g.credential }

// Account identifies the merchant account.
func (g *Gateway) Account() gateways.Account { return g.account }

// environmentOf tells test from live by the key's prefix.
func environmentOf(key string) (gateways.Environment, error) {
	switch {
	case key == "":
		return "", errors.New("omise: OMISE_SECRET_KEY is missing: set the account's secret key (skey_…)")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }):
		return "", errors.New("omise: the secret key holds a space, a colon, a line break or a non-ASCII character: copy it again")
	case strings.HasPrefix(key, "pkey_"):
		return "", errors.New("omise: the secret key is a public key (pkey_…): set the secret key (skey_…)")
	case !strings.HasPrefix(key, "skey_"):
		return "", errors.New("omise: the secret key does not start with skey_: copy it again")
	}
	return modeOf(key), nil
}

// modeOf reads the mode that Omise puts into every key and id.
func modeOf(text string) gateways.Environment {
	_, rest, _ := strings.Cut(text, "_")
	if strings.HasPrefix(rest, "test_") {
		return gateways.Test
	}
	return gateways.Live
}

// validPublicKey checks a key that this gateway never sends: the checkout page uses it, and one of another mode there
// makes tokens that this account cannot charge.
func validPublicKey(key string, env gateways.Environment) error {
	switch {
	case key == "":
		return nil
	case !strings.HasPrefix(key, "pkey_"):
		return errors.New("omise: the public key does not start with pkey_: copy it again, or leave it out")
	case modeOf(key) != env:
		return errors.New("omise: the public key and the secret key are of different modes (test and live): set two keys of one mode")
	}
	return nil
}

// webhookKey decodes the secret of the dashboard. One that does not decode would refuse every webhook, so it is refused
// here.
func webhookKey(s gateways.Settings) (secret.Value, error) {
	if s.WebhookSecret.IsZero() {
		return secret.Value{}, nil
	}
	key, err := base64.StdEncoding.DecodeString(s.WebhookSecret.Reveal())
	if err != nil || len(key) == 0 {
		return secret.Value{}, errors.New("omise: the webhook secret is not base64: copy it again from the dashboard, or leave it out")
	}
	return secret.New(string(key)), nil
}
