// Package twoctwopsim is 2C2P as Orderflow meets it: the payment calls of PGW API 4.3, the maintenance API and the buyer's
// page, over real HTTP.
//
// It must not know Orderflow: its books are the oracle of the tests, so they say what reached it and what it did, by its
// own code alone. It may import only the standard library, go-jose, internal/secret, sandbox/faults, sandbox/notify and sandbox/parts.
package twoctwopsim

import (
	"crypto/rsa"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
)

// When error 9015 (existing invoice number) comes. 2C2P's documents do not say.
const (
	AtToken   = "token"   // as soon as a second token is asked for
	AtPayment = "payment" // only once a payment was begun under the invoice number
)

// How the calls that carry a payment token are wrapped. 2C2P's documents contradict each other.
const (
	Plain   = "plain"   // plain JSON both ways
	Wrapped = "wrapped" // signed tokens both ways
	Either  = "either"  // answered as asked
)

// Settings can be changed while the simulator runs. Most are switches for what 2C2P's documents leave open.
type Settings struct {
	DuplicateAt       string        // AtToken or AtPayment; default AtToken
	IdempotencyReplay bool          // the same idempotencyID gets the first token again instead of 9015; default off
	Wrapping          string        // Plain, Wrapped or Either; default Either
	OtherPaths        bool          // doPayment, transactionStatusInquiry and canceltransaction instead of payment, transactionStatus and cancelTransaction
	ErrorStatus       int           // HTTP status of an answer that refuses the call; default 200
	WrongSignature    bool          // answers are signed with another secret
	ForgedNotices     bool          // notices are signed with another secret
	PadAmounts        bool          // 000000002500.90000; default on
	SignedErrors      bool          // errors come signed where the merchant is known; default off: plain {respCode, respDesc}
	TokenLife         time.Duration // default 30 min
	PaymentExpiry     time.Duration // how long a begun payment waits for its buyer; default 20 min
	LateFor           time.Duration // how long a late__ card stays in progress when it names no time; default 2 s
	NoticeFirst       bool          // notices go out before the HTTP answer instead of after it
	PageRetries       bool          // after a refusal the hosted page lets the buyer try again
	OddLooksPaid      bool          // money that is late, too little or too much inquires as 0000 with what came
	OneRefund         bool          // a repeated partial refund is refused; default off: it gives the money back twice
	SettlesAtOnce     bool          // approved payments are settled at once, as after the night's cut-off; default off
	PendingRefunds    bool          // a refund stays pending (RP) until FinishRefund ends it; default off
	NoRefundList      bool          // RS is refused with 12, as where an account has no such list; default off
	ReturnByPost      bool          // the buyer goes back by a form POST instead of a GET
}

func defaults() Settings {
	return Settings{
		DuplicateAt: AtToken, Wrapping: Either, PadAmounts: true, ErrorStatus: http.StatusOK,
		TokenLife: 30 * time.Minute, PaymentExpiry: 20 * time.Minute, LateFor: 2 * time.Second,
	}
}

// Merchant is one account. Its public key is only needed for the maintenance API.
type Merchant struct {
	ID        string
	Secret    secret.Value
	PublicKey string // PEM; empty = no maintenance for this merchant
}

// Config is what a simulator is made of.
type Config struct {
	Merchants  []Merchant
	PrivateKey secret.Value // PEM, 2C2P's own key for the maintenance API; zero = no maintenance
	Faults     *faults.Injector
	PublicURL  func() string    // base of the hosted buyer page; nil or "" = the address the request came to
	Now        func() time.Time // nil = time.Now
	Logger     *slog.Logger     // nil = silent
	// OnNotice is called with every backend notification, outside of the simulator's locks: the place where webhooks start.
	OnNotice func(notify.Message)
}

// Sim is one simulated 2C2P. It is safe for concurrent use.
type Sim struct {
	cfg    Config
	key    *rsa.PrivateKey
	keys   map[string]*rsa.PublicKey // by merchant ID
	reads  atomic.Int64
	wrongs secret.Value // signs what must not verify

	mu       sync.Mutex
	settings Settings
	invoices map[string]*invoice // by merchant ID and invoice number
	tokens   map[string]*token
	byBuyer  map[string]*invoice
	waiters  map[*invoice]bool // begun payments that time may change
	book     book
	writeSeq int64
	outbox   []notify.Message // notices that nobody was told of
	era      int              // counts resets
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
	if len(cfg.Merchants) == 0 {
		return nil, errors.New("the 2C2P simulator needs at least one merchant with an ID and a secret")
	}
	s := &Sim{cfg: cfg, keys: map[string]*rsa.PublicKey{}, wrongs: secret.New("another secret, that nobody has"), settings: defaults()}
	seen := map[string]bool{}
	for _, m := range cfg.Merchants {
		if m.ID == "" || m.Secret.IsZero() {
			return nil, errors.New("a merchant of the 2C2P simulator needs an ID and a secret")
		}
		if seen[m.ID] {
			return nil, errors.New("a merchant of the 2C2P simulator is configured twice")
		}
		seen[m.ID] = true
		if m.PublicKey == "" {
			continue
		}
		key, err := parsePublic(m.PublicKey)
		if err != nil {
			return nil, err
		}
		s.keys[m.ID] = key
	}
	if !cfg.PrivateKey.IsZero() {
		key, err := parsePrivate(cfg.PrivateKey.Reveal())
		if err != nil {
			return nil, err
		}
		s.key = key
	}
	s.Reset()
	return s, nil
}

// Reset forgets everything but the merchants: payments, tokens, books, settings.
func (s *Sim) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = defaults()
	s.invoices = map[string]*invoice{}
	s.tokens = map[string]*token{}
	s.byBuyer = map[string]*invoice{}
	s.waiters = map[*invoice]bool{}
	s.book, s.outbox, s.writeSeq = book{}, nil, 0
	s.reads.Store(0)
	s.era++
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

func (s *Sim) merchant(id string) (Merchant, bool) {
	for _, m := range s.cfg.Merchants {
		if m.ID == id {
			return m, true
		}
	}
	return Merchant{}, false
}
