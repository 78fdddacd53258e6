// Package toss is the Toss Payments gateway: it plans, sends, looks up, cancels and refunds payments of one Toss merchant account,
// reads its webhooks and lists its transactions.
//
// It must not know orders, storage, Temporal or another provider, and it never retries: repeating belongs to the caller,
// who holds the stored request and its key. It may import gateways, gateways/shared, internal/fault, internal/money, internal/secret and
// the standard library.
package toss

import (
	"errors"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/secret"
)

const (
	name = "toss"
)

// place is where Toss is.
var place = shared.Place{Gateway: name, Title: "Toss", Base: "https://api.tosspayments.com", Domain: "tosspayments.com"}

// Registration is Toss's entry in the one list.
func Registration() gateways.Registration {
	return gateways.Registration{Name: name, EnvPrefix: "TOSS", Open: Open}
}

// Gateway is one Toss merchant account. It is safe for concurrent use.
type Gateway struct {
	account    gateways.Account
	credential string
	timeout    time.Duration
	security   secret.Value // the security key of the dashboard, for payout.changed and seller.changed; may be absent
	client     *client
	now        func() time.Time // only reads Retry-After dates
}

var (
	_ gateways.Gateway    = (*Gateway)(nil)
	_ gateways.Canceler   = (*Gateway)(nil)
	_ gateways.Identifier = (*Gateway)(nil)
	_ gateways.Notifier   = (*Gateway)(nil)
	_ gateways.Refunder   = (*Gateway)(nil)
	_ gateways.Lister     = (*Gateway)(nil)
)

// Open makes the gateway of one account. The environment is read from the secret key, because at Toss the key alone decides
// it: there is no sandbox host. Its errors say what to set and never quote the key.
func Open(s gateways.Settings) (gateways.Gateway, error) {
	if s.Name == "" {
		return nil, errors.New("toss: the account needs a name (\"default\" for the plain variables)")
	}
	env, err := environmentOf(s.SecretKey.Reveal())
	if err != nil {
		return nil, err
	}
	if s.Environment != "" && s.Environment != env {
		return nil, errors.New("toss: the environment disagrees with the secret key, which alone decides it: leave the environment out, or set the other key")
	}
	if err := usableSecurityKey(s.WebhookSecret.Reveal()); err != nil {
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
		security:   s.WebhookSecret,
		client:     newClient(base, s.SecretKey, timeout),
		now:        time.Now,
	}, nil
}

// Account identifies the merchant account.
func (g *Gateway) Account() gateways.Account { return g.account }

// Credential marks the secret key in use.
func (g *Gateway) Credential() string { return g.credential }

// environmentOf tells test from live by the key's prefix: test_sk_ and live_sk_ are keys of the plain API, test_gsk_ and
// live_gsk_ of the payment widget.
func environmentOf(key string) (gateways.Environment, error) {
	switch {
	case key == "":
		return "", errors.New("toss: TOSS_SECRET_KEY is missing: set the account's secret key (test_sk_…, live_sk_…, test_gsk_… or live_gsk_…)")
	case strings.HasPrefix(key, "\ufeff"):
		return "", errors.New("toss: the secret key begins with a byte-order mark: save it without one")
	case strings.HasSuffix(key, ":"):
		return "", errors.New("toss: the secret key ends with a colon: leave it out, it is added where the key is sent")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }):
		return "", errors.New("toss: the secret key holds a space, a line break, a colon or a non-ASCII character: copy it again")
	case strings.HasPrefix(key, "test_sk_"), strings.HasPrefix(key, "test_gsk_"):
		return gateways.Test, nil
	case strings.HasPrefix(key, "live_sk_"), strings.HasPrefix(key, "live_gsk_"):
		return gateways.Live, nil
	case strings.HasPrefix(key, "test_ck_"), strings.HasPrefix(key, "live_ck_"), strings.HasPrefix(key, "test_gck_"), strings.HasPrefix(key, "live_gck_"):
		return "", errors.New("toss: the secret key is a client key (…_ck_, …_gck_): set the secret key that belongs to it (…_sk_, …_gsk_)")
	default:
		return "", errors.New("toss: the secret key starts with none of test_sk_, live_sk_, test_gsk_, live_gsk_: copy it again")
	}
}
