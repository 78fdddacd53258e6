// Package stripesim is Stripe as Orderflow meets it: the payment part of API version 2023-10-16, over real HTTP.
//
// It must not know Orderflow: its books are the oracle of the tests, so they say what reached it and what it did, by its
// own code alone. It may import only the standard library, internal/secret, sandbox/faults, sandbox/notify and sandbox/parts.
package stripesim

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
)

// APIVersion is the only one that is rendered.
const APIVersion = "2023-10-16"

// Settings can be changed while the simulator runs.
type Settings struct {
	KeyTTL         time.Duration // a finished idempotency key older than this is forgotten; default 24 h
	SearchLag      time.Duration // how far the search index is behind; default 0
	Minimums       bool          // refuse amounts below Stripe's minimum charge; default off
	OddStatuses    bool          // errors keep their codes and come with other HTTP statuses: which belongs to which is documented for few; default off
	PendingRefunds bool          // a refund stays pending until FinishRefund ends it; default off
	EventsKept     int           // older events are forgotten; default 50,000
}

func defaults() Settings { return Settings{KeyTTL: 24 * time.Hour, EventsKept: 50_000} }

// Config is what a simulator is made of.
type Config struct {
	Keys      []secret.Value // secret keys, sk_test_… or sk_live_…; each is an account of its own
	Faults    *faults.Injector
	PublicURL func() string    // base of the hosted buyer page; nil or "" = the address the request came to
	Now       func() time.Time // nil = time.Now
	Logger    *slog.Logger     // nil = silent
	// OnEvent is called with every event, after its cause is done and in order, outside of the simulator's locks: the
	// place where webhooks start. nil = events are only listed.
	OnEvent func(account string, event []byte)
	// WebhookSecret signs webhooks: the endpoint's secret, whsec_…. Required with OnNotice.
	WebhookSecret secret.Value
	// OnNotice is called like OnEvent with the webhook of every event, which signs itself anew for each try.
	OnNotice func(notify.Message)
}

// Sim is one simulated Stripe. It is safe for concurrent use.
type Sim struct {
	cfg   Config
	keys  []credential
	reads atomic.Int64

	mu       sync.Mutex
	settings Settings
	accounts map[string]*account
	byBuyer  map[string]*intent // by the secret of the hosted page
	book     book
	writeSeq int64
}

type credential struct {
	key  secret.Value
	name string
	live bool
}

// account holds everything of one merchant account in one mode.
type account struct {
	name     string
	live     bool
	intents  map[string]*intent
	ordered  []*intent // by creation
	charges  map[string]*charge
	chargeBy []*charge
	refunds  map[string]*refund
	refundBy []*refund
	events   []*event
	keys     map[string]*keyRecord
	waiting  map[*intent]bool // with a voucher that can expire
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
		return nil, errors.New("the Stripe simulator needs at least one secret key such as sk_test_sandbox")
	}
	if cfg.OnNotice != nil && !strings.HasPrefix(cfg.WebhookSecret.Reveal(), "whsec_") {
		return nil, errors.New("the Stripe simulator signs its webhooks: give it a webhook secret, whsec_…")
	}
	s := &Sim{cfg: cfg, settings: defaults()}
	seen := map[string]bool{}
	for _, k := range cfg.Keys {
		plain := k.Reveal()
		live := strings.HasPrefix(plain, "sk_live_")
		if !live && !strings.HasPrefix(plain, "sk_test_") {
			return nil, errors.New("a key of the Stripe simulator must start with sk_test_ or sk_live_")
		}
		if seen[plain] {
			return nil, errors.New("a key of the Stripe simulator is configured twice")
		}
		seen[plain] = true
		s.keys = append(s.keys, credential{key: k, name: accountName(plain), live: live})
	}
	s.Reset()
	return s, nil
}

// Reset forgets everything but the keys: objects, idempotency keys, books, settings.
func (s *Sim) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = defaults()
	s.accounts = map[string]*account{}
	s.byBuyer = map[string]*intent{}
	s.book = newBook()
	s.reads.Store(0)
	for _, c := range s.keys {
		s.accounts[c.name] = &account{
			name: c.name, live: c.live,
			intents: map[string]*intent{}, charges: map[string]*charge{}, refunds: map[string]*refund{},
			keys: map[string]*keyRecord{}, waiting: map[*intent]bool{},
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

// PruneKeys forgets every finished idempotency key, whatever its age, and says how many: what Stripe may do once a key is
// 24 hours old.
func (s *Sim) PruneKeys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range s.accounts {
		for k, rec := range a.keys {
			if rec.done {
				delete(a.keys, k)
				n++
			}
		}
	}
	return n
}
