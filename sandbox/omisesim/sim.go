// Package omisesim is Omise as Orderflow meets it: charges, tokens, sources, refunds and events of version 2019-05-29,
// over real HTTP, without any idempotency, as the real one.
//
// It must not know Orderflow: its books are the oracle of the tests, so they say what reached it and what it did, by its
// own code alone. It may import only the standard library, internal/secret, sandbox/faults, sandbox/notify and sandbox/parts.
package omisesim

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
)

// The API versions that are rendered.
const (
	APIVersion    = "2019-05-29"
	OlderVersion  = "2017-11-02"
	versionHeader = "Omise-Version"
)

// Settings can be changed while the simulator runs. Each is a fact about Omise that nobody could verify, or one that
// differs between accounts.
type Settings struct {
	UsedTokenStatus  int           // HTTP status of used_token: 400 (default) or 404
	AcceptUsedSource bool          // a second charge on one source is made, instead of refused; default off
	UsedSourceCode   string        // the code of that refusal; default bad_request
	ListLag          time.Duration // a charge younger than this is in no list yet; default 0
	AccountVersion   string        // how events are rendered: APIVersion (default) or OlderVersion
	Unsigned         bool          // webhooks go out without signature headers even though there is a secret; default off
	Limits           bool          // refuse amounts outside of the country's limits; default off
	PendingFor       time.Duration // how long a charge waits for its buyer; default 24 h
	PendingRefunds   bool          // a refund stays pending until FinishRefund closes it; default off
	EventsKept       int           // older events are forgotten; default 50,000
}

func defaults() Settings {
	return Settings{
		UsedTokenStatus: http.StatusBadRequest, UsedSourceCode: "bad_request", AccountVersion: APIVersion,
		PendingFor: 24 * time.Hour, EventsKept: 50_000,
	}
}

// KeyPair is one merchant account: the secret key for charges, the public one for tokens and sources.
type KeyPair struct {
	Secret secret.Value // skey_test_… or skey_…
	Public string       // pkey_test_… or pkey_…; empty = tokens cannot be made
}

// Config is what a simulator is made of.
type Config struct {
	Keys      []KeyPair
	Faults    *faults.Injector
	PublicURL func() string    // base of the hosted buyer page; nil or "" = the address the request came to
	Now       func() time.Time // nil = time.Now
	Logger    *slog.Logger     // nil = silent
	// OnNotice is called with every event, after its cause is done and in order, outside of the simulator's locks: the
	// place where webhooks start. nil = events are only listed.
	OnNotice func(notify.Message)
	// WebhookSecret signs webhooks; base64, as in Omise's dashboard. Zero = they carry no signature.
	WebhookSecret secret.Value
}

// Sim is one simulated Omise. It is safe for concurrent use.
type Sim struct {
	cfg        Config
	keys       []credential
	webhookKey []byte
	reads      atomic.Int64

	mu       sync.Mutex
	settings Settings
	accounts map[string]*account
	byBuyer  map[string]*charge // by the secret of the hosted page
	book     book
	writeSeq int64

	publishing sync.Mutex // keeps events in order on their way out
}

type credential struct {
	secret secret.Value
	public string
	name   string
	live   bool
}

// account holds everything of one merchant account in one mode.
type account struct {
	name    string
	live    bool
	charges map[string]*charge
	ordered []*charge // by creation
	tokens  map[string]*token
	sources map[string]*source
	used    map[string]bool // magic tokens and sources that were charged
	events  []*event
	unsent  []*event
}

// New makes a simulator with empty books.
func New(cfg Config) (*Sim, error) {
	if cfg.Faults == nil {
		cfg.Faults = faults.New()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if len(cfg.Keys) == 0 {
		return nil, errors.New("the Omise simulator needs at least one pair of keys such as skey_test_sandbox and pkey_test_sandbox")
	}
	s := &Sim{cfg: cfg, settings: defaults()}
	if !cfg.WebhookSecret.IsZero() {
		key, err := base64.StdEncoding.DecodeString(cfg.WebhookSecret.Reveal())
		if err != nil || len(key) == 0 {
			return nil, errors.New("the webhook secret of the Omise simulator must be base64")
		}
		s.webhookKey = key
	}
	seen := map[string]bool{}
	for _, k := range cfg.Keys {
		plain := k.Secret.Reveal()
		live := !strings.HasPrefix(plain, "skey_test_")
		switch {
		case !strings.HasPrefix(plain, "skey_"):
			return nil, errors.New("a secret key of the Omise simulator must start with skey_test_ or skey_")
		case k.Public != "" && (!strings.HasPrefix(k.Public, "pkey_") || live == strings.HasPrefix(k.Public, "pkey_test_")):
			return nil, errors.New("a public key of the Omise simulator must start with pkey_ and be of its secret key's mode")
		case seen[plain] || (k.Public != "" && seen[k.Public]):
			return nil, errors.New("a key of the Omise simulator is configured twice")
		}
		seen[plain], seen[k.Public] = true, true
		s.keys = append(s.keys, credential{secret: k.Secret, public: k.Public, name: accountName(plain), live: live})
	}
	s.Reset()
	return s, nil
}

// Reset forgets everything but the keys: objects, books, settings.
func (s *Sim) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = defaults()
	s.accounts = map[string]*account{}
	s.byBuyer = map[string]*charge{}
	s.book = newBook()
	s.reads.Store(0)
	for _, c := range s.keys {
		s.accounts[c.name] = &account{
			name: c.name, live: c.live, charges: map[string]*charge{}, tokens: map[string]*token{},
			sources: map[string]*source{}, used: map[string]bool{},
		}
	}
}

// Settings returns the present settings.
func (s *Sim) Settings() Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings
}

// Configure changes the settings.
func (s *Sim) Configure(change func(*Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.settings)
}
