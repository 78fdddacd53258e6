// Package twoctwop is the 2C2P gateway: it plans, sends, looks up, cancels and refunds payments of one merchant ID over PGW
// API 4.3 and its maintenance API.
//
// It must not know orders, storage, Temporal or another provider, and it never retries: repeating belongs to the caller,
// who holds the stored request. It may import gateways, gateways/shared, internal/fault, internal/money, internal/secret, golang-jwt and
// go-jose.
package twoctwop

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/secret"
)

const (
	name           = "twoctwop"
	apiPath        = "/payment/4.3"
	sandboxHost    = "sandbox-pgw.2c2p.com"
	productionHost = "pgw.2c2p.com"
)

// Registration is 2C2P's entry in the one list.
func Registration() gateways.Registration {
	return gateways.Registration{Name: name, EnvPrefix: "TWOCTWOP", Open: Open, Maintains: true, Options: []gateways.Option{
		{Name: "wrap_all", Meaning: "true sends payment and cancel as signed tokens too"},
		{Name: "payment_path", Meaning: "the spelling of payment, such as doPayment"},
		{Name: "cancel_path", Meaning: "the spelling of cancelTransaction, such as canceltransaction"},
	}}
}

// Options are choices where 2C2P's own documents contradict each other. The zero value is what most of them say.
type Options struct {
	// WrapAll sends Do Payment and cancelTransaction as signed tokens, as the token and inquiry calls always are. Off: as
	// plain JSON, in which the payment token is the only proof. Signed answers are believed further, see sendCancel.
	WrapAll bool
	// PaymentPath, CancelPath are the spellings that differ between documents; empty = "payment", "cancelTransaction".
	PaymentPath, CancelPath string
}

// Gateway is one 2C2P merchant ID. It is safe for concurrent use.
type Gateway struct {
	account     gateways.Account
	merchant    string
	secret      secret.Value
	credential  string
	base        string // without a slash at the end
	timeout     time.Duration
	client      *client
	maintenance *maintenance // nil = not configured
	options     Options
	now         func() time.Time // tells how old a payment token is and reads Retry-After dates
}

var (
	_ gateways.Gateway  = (*Gateway)(nil)
	_ gateways.Canceler = (*Gateway)(nil)
	_ gateways.Notifier = (*Gateway)(nil)
)

// optionsOf reads the choices of an account's settings.
func optionsOf(s gateways.Settings) (Options, error) {
	if err := Registration().Takes(s.Options); err != nil {
		return Options{}, fmt.Errorf("2c2p: %w", err)
	}
	o := Options{PaymentPath: s.Options["payment_path"], CancelPath: s.Options["cancel_path"]}
	switch s.Options["wrap_all"] {
	case "", "false":
	case "true":
		o.WrapAll = true
	default:
		return Options{}, errors.New("2c2p: the option wrap_all must be true or false")
	}
	return o, nil
}

// Open makes the gateway of one account. Its errors say what to set and never quote a secret.
func Open(s gateways.Settings) (gateways.Gateway, error) {
	o, err := optionsOf(s)
	if err != nil {
		return nil, err
	}
	g, err := OpenWith(s, o)
	if err != nil {
		return nil, err
	}
	return g, nil
}

var (
	merchantShape = regexp.MustCompile(`^[A-Za-z0-9]{1,25}$`)
	pathShape     = regexp.MustCompile(`^[A-Za-z0-9/]{1,64}$`)
)

// OpenWith is Open with choices. The concrete gateway also has the maintenance API, see Maintain.
func OpenWith(s gateways.Settings, o Options) (*Gateway, error) {
	switch {
	case s.Name == "":
		return nil, errors.New("2c2p: the account needs a name (\"default\" for the plain variables)")
	case !merchantShape.MatchString(s.PublicKey):
		return nil, errors.New("2c2p: TWOCTWOP_PUBLIC_KEY must be the merchant ID: 1 to 25 letters and digits")
	}
	if err := usableSecret(s.SecretKey); err != nil {
		return nil, err
	}
	base, env, err := where(s.APIBase, s.Environment)
	if err != nil {
		return nil, err
	}
	timeout, err := shared.Timeout("2c2p", s.Timeout)
	if err != nil {
		return nil, err
	}
	if o.PaymentPath == "" {
		o.PaymentPath = "payment"
	}
	if o.CancelPath == "" {
		o.CancelPath = "cancelTransaction"
	}
	if !pathShape.MatchString(o.PaymentPath) || !pathShape.MatchString(o.CancelPath) {
		return nil, errors.New("2c2p: a path of the options may hold letters, digits and slashes only")
	}
	m, err := openMaintenance(s, env)
	if err != nil {
		return nil, err
	}
	return &Gateway{
		account:     gateways.Account{Gateway: name, Name: s.Name, Environment: env},
		merchant:    s.PublicKey,
		secret:      s.SecretKey,
		credential:  gateways.Mark(s.SecretKey),
		base:        base,
		timeout:     timeout,
		client:      newClient(timeout),
		maintenance: m,
		options:     o,
		now:         time.Now,
	}, nil
}

// Credential marks the secret key in use.
func (g *Gateway) Credential() string { return g.credential }

// Account identifies the merchant account.
func (g *Gateway) Account() gateways.Account { return g.account }

// usableSecret refuses what cannot be the key that 2C2P shows in its portal. The key signs and proves everything, so one that
// could be guessed is refused too.
func usableSecret(v secret.Value) error {
	plain := v.Reveal()
	switch {
	case plain == "":
		return errors.New("2c2p: TWOCTWOP_SECRET_KEY is missing: set the merchant's secret key from the 2C2P portal")
	case strings.ContainsFunc(plain, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("2c2p: the secret key holds a space, a line break or a non-ASCII character: copy it again")
	case len(plain) < 16:
		return errors.New("2c2p: the secret key is shorter than 16 characters: copy it whole")
	}
	return nil
}

// where finds the API base and the environment. 2C2P's hosts say which they are; nothing in the key does, so any other
// host needs the environment said. Plain http is for simulators only.
func where(raw string, env gateways.Environment) (string, gateways.Environment, error) {
	if env != "" && env != gateways.Test && env != gateways.Live {
		return "", "", errors.New("2c2p: the environment must be test or live")
	}
	if raw == "" {
		switch env {
		case gateways.Test:
			raw = "https://" + sandboxHost
		case gateways.Live:
			raw = "https://" + productionHost
		default:
			return "", "", errors.New("2c2p: set the environment (test or live) or the API base, since a 2C2P key does not say which it is for")
		}
	}
	u, ok := shared.Plain(raw)
	if !ok || (u.Scheme != "https" && u.Scheme != "http") {
		return "", "", errors.New("2c2p: the API base must be a plain URL such as https://sandbox-pgw.2c2p.com")
	}
	host := strings.ToLower(u.Hostname())
	var says gateways.Environment
	switch host {
	case sandboxHost:
		says = gateways.Test
	case productionHost:
		says = gateways.Live
	}
	switch {
	case says != "" && env != "" && says != env:
		return "", "", errors.New("2c2p: the API base and the environment contradict each other: the sandbox host is test, the production host is live")
	case says == "" && env == "":
		return "", "", errors.New("2c2p: the API base is not one of 2C2P's own hosts: set the environment (test or live) too")
	case says != "":
		env = says
	}
	switch {
	case u.Scheme == "https":
	case says != "" || strings.HasSuffix(host, ".2c2p.com"):
		return "", "", errors.New("2c2p: 2C2P itself is reached over https only: change the API base")
	case env == gateways.Live && !shared.Loopback(host):
		return "", "", errors.New("2c2p: a live account is only reached over https: change the API base, or the environment")
	}
	base := strings.TrimRight(u.String(), "/")
	return strings.TrimSuffix(base, apiPath) + apiPath, env, nil
}
