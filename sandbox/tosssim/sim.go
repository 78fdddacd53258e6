// Package tosssim is Toss Payments as Orderflow meets it: confirm, query, cancel, transactions and webhooks of the core API
// v1, over real HTTP.
//
// It must not know Orderflow: its books are the oracle of the tests, so they say what reached it and what it did, by its
// own code alone. It may import only the standard library, internal/secret, sandbox/faults, sandbox/notify and sandbox/parts.
package tosssim

import (
	"crypto/sha256"
	"encoding/hex"
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

// Settings can be changed while the simulator runs. What Toss does not document is a switch here, so that a test can take
// both positions.
type Settings struct {
	ConfirmWindow time.Duration // how long after the buyer's authentication a confirm succeeds; default 10 min
	ReadyWindow   time.Duration // how long a buyer may take to authenticate; default 30 min
	KeyTTL        time.Duration // how long an answer is kept under its key; default 15 days
	DepositWindow time.Duration // how long a virtual account takes its deposit; default 7 days

	// KeepServerErrors: 5xx answers and PROVIDER_ERROR stay under the key as 4xx answers do. Default true, the worse case.
	KeepServerErrors bool
	// StableTransmissionID: a resent webhook keeps its transmission id. Default false, the worse case.
	StableTransmissionID bool
	// CallbackFirst: of the two webhooks for one change of a virtual account the DEPOSIT_CALLBACK goes first. Default true.
	CallbackFirst bool
	// CorrectionCancels: a deposit that the bank takes back makes the payment CANCELED, as API 1.4 and older do, instead of
	// WAITING_FOR_DEPOSIT. Default false.
	CorrectionCancels bool
	// DeclineLeavesOpen: a declined payment stays IN_PROGRESS instead of becoming ABORTED. Default false.
	DeclineLeavesOpen bool
	// SlowForeignCancels: a cancel of a foreign easy payment stays IN_PROGRESS until FinishCancel. Default false.
	SlowForeignCancels bool
}

func defaults() Settings {
	return Settings{
		ConfirmWindow: 10 * time.Minute, ReadyWindow: 30 * time.Minute, KeyTTL: 15 * 24 * time.Hour,
		DepositWindow:    7 * 24 * time.Hour,
		KeepServerErrors: true, CallbackFirst: true,
	}
}

// Config is what a simulator is made of.
type Config struct {
	Keys        []secret.Value // secret keys, test_sk_…, live_sk_…, test_gsk_… or live_gsk_…; each is an account of its own
	SecurityKey secret.Value   // 64 hexadecimal digits; signs payout.changed and seller.changed. Zero = those are unsigned
	Faults      *faults.Injector
	PublicURL   func() string    // base of the buyer's pages; nil or "" = the address the request came to
	Now         func() time.Time // nil = time.Now
	Logger      *slog.Logger     // nil = silent
	// OnNotice is called with every webhook, after its cause is done and in order, outside of the simulator's locks. nil =
	// none are made.
	OnNotice func(notify.Message)
}

// Sim is one simulated Toss. It is safe for concurrent use.
type Sim struct {
	cfg   Config
	keys  []credential
	reads atomic.Int64

	mu       sync.Mutex
	settings Settings
	accounts map[string]*account
	byBuyer  map[string]*payment // by the secret of the page that plays the bank
	records  map[keyID]*keyRecord
	book     book
	writeSeq int64
	outbox   []notify.Message
}

type credential struct {
	key  secret.Value
	name string
	live bool
}

// account holds everything of one merchant account.
type account struct {
	name         string
	live         bool
	payments     map[string]*payment   // by payment key
	byOrder      map[string][]*payment // by order id, oldest first
	transactions []transaction         // oldest first
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
		return nil, errors.New("the Toss simulator needs at least one secret key such as test_sk_sandbox")
	}
	if raw, err := hex.DecodeString(cfg.SecurityKey.Reveal()); err != nil || (len(raw) != 0 && len(raw) != 32) {
		return nil, errors.New("the security key of the Toss simulator must be 64 hexadecimal digits")
	}
	s := &Sim{cfg: cfg}
	seen := map[string]bool{}
	for _, k := range cfg.Keys {
		plain := k.Reveal()
		live := strings.HasPrefix(plain, "live_sk_") || strings.HasPrefix(plain, "live_gsk_")
		if !live && !strings.HasPrefix(plain, "test_sk_") && !strings.HasPrefix(plain, "test_gsk_") {
			return nil, errors.New("a key of the Toss simulator must start with test_sk_, live_sk_, test_gsk_ or live_gsk_")
		}
		if seen[plain] {
			return nil, errors.New("a key of the Toss simulator is configured twice")
		}
		seen[plain] = true
		s.keys = append(s.keys, credential{key: k, name: accountName(plain), live: live})
	}
	s.Reset()
	return s, nil
}

func accountName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "tosssim" + hex.EncodeToString(sum[:4])
}

// Account is the simulator's name (mId) of the merchant account of a secret key, "" when there is none.
func (s *Sim) Account(key string) string {
	for _, c := range s.keys {
		if c.key.Equal(key) {
			return c.name
		}
	}
	return ""
}

// Reset forgets everything but the keys: payments, idempotency keys, books, settings.
func (s *Sim) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = defaults()
	s.accounts = map[string]*account{}
	s.byBuyer = map[string]*payment{}
	s.records = map[keyID]*keyRecord{}
	s.book = newBook()
	s.outbox = nil
	s.reads.Store(0)
	for _, c := range s.keys {
		s.accounts[c.name] = &account{
			name: c.name, live: c.live, payments: map[string]*payment{}, byOrder: map[string][]*payment{},
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

// PruneKeys forgets every finished idempotency key, whatever its age, and says how many.
func (s *Sim) PruneKeys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for id, rec := range s.records {
		if rec.done {
			delete(s.records, id)
			n++
		}
	}
	return n
}
