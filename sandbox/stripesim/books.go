package stripesim

import (
	"strings"
	"time"

	"orderflow/sandbox/parts"
)

// ChargeEntry is one try at the buyer's money and what became of it. Amounts are minor units.
type ChargeEntry struct {
	At                time.Time         `json:"at"`
	Account           string            `json:"account"`
	Livemode          bool              `json:"livemode"`
	Intent            string            `json:"intent"`
	Charge            string            `json:"charge"`
	MerchantReference string            `json:"merchant_reference"` // metadata[merchant_reference]
	Metadata          map[string]string `json:"metadata"`
	Currency          string            `json:"currency"`  // lower case, as Stripe has it
	Amount            int64             `json:"amount"`    // authorized
	Captured          int64             `json:"captured"`  // taken
	Refunded          int64             `json:"refunded"`  // given back
	Refunds           int               `json:"refunds"`   // in so many refunds
	Withdrawn         int64             `json:"withdrawn"` // taken by the buyer's bank, in a dispute that was lost
	Voided            bool              `json:"voided"`    // authorized, and released by a cancel
	Declined          string            `json:"declined,omitempty"`
}

// WriteEntry is one POST that reached the simulator, its answer known or not to the caller.
type WriteEntry struct {
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	Account   string    `json:"account"` // empty when the key was refused
	RequestID string    `json:"request_id"`
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	Key       string    `json:"key"`
	Body      string    `json:"body"`
	Status    int       `json:"status"`   // what went out on the wire; 0 = the connection was cut, or the answer is not out yet
	Executed  bool      `json:"executed"` // it ran, in contrast to a replay, a refusal at the door, or a request never worked on
	Replayed  bool      `json:"replayed"`
	Fault     string    `json:"fault,omitempty"` // the action that hit it
}

// Books are everything that happened since the last reset.
type Books struct {
	Charges []ChargeEntry `json:"charges"`
	Writes  []WriteEntry  `json:"writes"`
	Reads   int64         `json:"reads"` // GETs that reached the simulator
}

// Filter narrows the books; empty fields match everything.
type Filter struct {
	Account           string
	Intent            string
	MerchantReference string
	Key               string
	PathSuffix        string
	CapturedOnly      bool // charges that took money
}

type book struct {
	charges []*ChargeEntry
	byID    map[string]*ChargeEntry
	writes  []*WriteEntry
}

func newBook() book { return book{byID: map[string]*ChargeEntry{}} }

func (b *book) charge(e *ChargeEntry) {
	b.charges = append(b.charges, e)
	b.byID[e.Charge] = e
}

// Charges returns the charges that match, oldest first.
func (s *Sim) Charges(f Filter) []ChargeEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return parts.Matching(s.book.charges, func(e *ChargeEntry) bool {
		return (f.Account == "" || e.Account == f.Account) && (f.Intent == "" || e.Intent == f.Intent) &&
			(f.MerchantReference == "" || e.MerchantReference == f.MerchantReference) && (!f.CapturedOnly || e.Captured > 0)
	})
}

// Writes returns the write requests that match, in order of arrival. An intent is looked for in the path and the body, a
// merchant reference in the body.
func (s *Sim) Writes(f Filter) []WriteEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return parts.Matching(s.book.writes, func(e *WriteEntry) bool {
		return (f.Account == "" || e.Account == f.Account) && (f.Key == "" || e.Key == f.Key) &&
			strings.HasSuffix(e.Path, f.PathSuffix) && strings.Contains(e.Body, f.MerchantReference) &&
			(f.Intent == "" || strings.Contains(e.Path, f.Intent) || strings.Contains(e.Body, f.Intent))
	})
}

// Books returns both, and how many reads there were.
func (s *Sim) Books(f Filter) Books {
	return Books{Charges: s.Charges(f), Writes: s.Writes(f), Reads: s.reads.Load()}
}
