// Package issuersim is three issuers of goods over real HTTP: one that is idempotent, one that can be looked up, and an
// opaque one that guards nothing.
//
// It must not know Orderflow: its books say what was issued, and they are the oracle of the tests.
// It may import only the standard library, internal/secret and sandbox/faults.
package issuersim

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
)

// Kind is an issuer's character, and its place below /issuers/.
type Kind string

// The kinds.
const (
	Idempotent Kind = "idempotent" // the same operation again answers the same issuance; it can be looked up and revoked
	Lookup     Kind = "lookup"     // the same operation again issues again; it can be looked up, with a lag, and revoked
	Opaque     Kind = "opaque"     // the same operation again issues again; nothing can be looked up or revoked
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Idempotent, Lookup, Opaque} }

// Config is what the issuers are made of.
type Config struct {
	Token  secret.Value // bearer token of all three
	Faults *faults.Injector
	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // nil = silent
}

// Issuance is one thing handed out. Two entries with one unit id are goods given twice.
type Issuance struct {
	At           time.Time `json:"at"`
	Kind         Kind      `json:"kind"`
	IssuanceID   string    `json:"issuance_id"`
	OperationID  string    `json:"operation_id"`
	OrderID      string    `json:"order_id"`
	UnitID       string    `json:"unit_id"`
	SKU          string    `json:"sku"`
	RecipientRef string    `json:"recipient_ref"`
	Reference    string    `json:"reference"`
	Revoked      bool      `json:"revoked"`
	RevokedAt    time.Time `json:"revoked_at,omitzero"`
}

// Request is one request that reached an issuer.
type Request struct {
	Seq         int64     `json:"seq"`
	At          time.Time `json:"at"`
	Kind        Kind      `json:"kind"`
	Method      string    `json:"method"`
	Path        string    `json:"path"`
	OperationID string    `json:"operation_id"`
	Key         string    `json:"key"`
	Body        string    `json:"body"`
	Status      int       `json:"status"` // what went out on the wire; 0 = the connection was cut, or the answer is not out yet
	Issued      bool      `json:"issued"` // this request made an issuance
	Fault       string    `json:"fault,omitempty"`
}

// Books are everything that happened since the last reset.
type Books struct {
	Issuances []Issuance `json:"issuances"`
	Requests  []Request  `json:"requests"`
}

// Filter narrows the books; empty fields match everything.
type Filter struct {
	Kind        Kind
	OrderID     string
	UnitID      string // issuances only
	OperationID string
	SKU         string // issuances only
	LiveOnly    bool   // issuances that are not revoked
}

// Sim is the three issuers. It is safe for concurrent use.
type Sim struct {
	cfg Config

	mu        sync.Mutex
	lag       time.Duration
	epoch     int // grows with every reset, so that what an older epoch accepted is never issued into a newer one
	ops       map[Kind]map[string]*operation
	issuances []*Issuance
	requests  []*Request
}

// operation is what one issuer knows of an operation id.
type operation struct {
	body    string // the first request, byte for byte
	running int    // requests that will issue and have not yet
	made    []*Issuance
	at      time.Time // when the first issuance was made
}

// New makes issuers with empty books.
func New(cfg Config) (*Sim, error) {
	if cfg.Token.IsZero() {
		return nil, errors.New("the issuers need a bearer token")
	}
	if cfg.Faults == nil {
		cfg.Faults = faults.New()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sim{cfg: cfg}
	s.Reset()
	return s, nil
}

// Reset forgets everything, settings too.
func (s *Sim) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag, s.issuances, s.requests = 0, nil, nil
	s.epoch++
	s.ops = map[Kind]map[string]*operation{}
	for _, k := range Kinds() {
		s.ops[k] = map[string]*operation{}
	}
}

// SetLookupLag makes the lookup issuer answer 404 for this long after it issued.
func (s *Sim) SetLookupLag(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = d
}

// LookupLag returns what SetLookupLag set.
func (s *Sim) LookupLag() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lag
}

// Issuances returns what was handed out, oldest first.
func (s *Sim) Issuances(f Filter) []Issuance {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Issuance{}
	for _, i := range s.issuances {
		if f.matches(i.Kind, i.OperationID) && (f.OrderID == "" || i.OrderID == f.OrderID) && (f.UnitID == "" || i.UnitID == f.UnitID) &&
			(f.SKU == "" || i.SKU == f.SKU) && !(f.LiveOnly && i.Revoked) {
			out = append(out, *i)
		}
	}
	return out
}

// Requests returns what reached the issuers, in order of arrival.
func (s *Sim) Requests(f Filter) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Request{}
	for _, r := range s.requests {
		if f.matches(r.Kind, r.OperationID) {
			out = append(out, *r)
		}
	}
	return out
}

// Books returns both.
func (s *Sim) Books(f Filter) Books {
	return Books{Issuances: s.Issuances(f), Requests: s.Requests(f)}
}

func (f Filter) matches(kind Kind, operationID string) bool {
	return (f.Kind == "" || f.Kind == kind) && (f.OperationID == "" || f.OperationID == operationID)
}
