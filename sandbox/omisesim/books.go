package omisesim

import (
	"maps"
	"strings"
	"time"

	"orderflow/sandbox/parts"
)

// ChargeEntry is one try at the buyer's money and what became of it. Amounts are minor units.
type ChargeEntry struct {
	At                time.Time         `json:"at"`
	Account           string            `json:"account"`
	Livemode          bool              `json:"livemode"`
	Charge            string            `json:"charge"`
	Method            string            `json:"method"`             // the token, source or customer
	MerchantReference string            `json:"merchant_reference"` // metadata.merchant_reference
	Metadata          map[string]string `json:"metadata"`           // the texts in it
	Currency          string            `json:"currency"`           // upper case, as Omise has it
	Status            string            `json:"status"`
	Amount            int64             `json:"amount"`    // asked for
	Captured          int64             `json:"captured"`  // taken
	Refunded          int64             `json:"refunded"`  // given back
	Refunds           int               `json:"refunds"`   // in so many refunds
	Withdrawn         int64             `json:"withdrawn"` // taken by the buyer's bank, in a dispute that was lost
	Voided            bool              `json:"voided"`    // authorized, and released by a reverse or in time
	Declined          string            `json:"declined,omitempty"`
}

// WriteEntry is one write that reached the simulator, its answer known or not to the caller.
type WriteEntry struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	Account  string    `json:"account"` // empty when the key was refused
	Method   string    `json:"method"`
	Path     string    `json:"path"`
	Body     string    `json:"body"`     // card data of a token request is left out
	Status   int       `json:"status"`   // what went out on the wire; 0 = the connection was cut, or the answer is not out yet
	Executed bool      `json:"executed"` // it ran, in contrast to a refusal at the door or a request never worked on
	Fault    string    `json:"fault,omitempty"`
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
	Charge            string
	MerchantReference string
	PathSuffix        string
	CapturedOnly      bool // charges that took money
}

type book struct {
	charges []*ChargeEntry
	writes  []*WriteEntry
}

func newBook() book { return book{} }

func (b *book) charge(c *charge, live bool) *ChargeEntry {
	e := &ChargeEntry{
		At: c.created, Account: c.account, Livemode: live, Charge: c.id, Method: c.method, Metadata: map[string]string{},
		Currency: c.currency, Status: c.status, Amount: c.amount,
	}
	for k, v := range c.metadata {
		if text, ok := v.(string); ok {
			e.Metadata[k] = text
		}
	}
	e.MerchantReference = e.Metadata["merchant_reference"]
	b.charges = append(b.charges, e)
	return e
}

// Charges returns the charges that match, oldest first.
func (s *Sim) Charges(f Filter) []ChargeEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := parts.Matching(s.book.charges, func(e *ChargeEntry) bool {
		return (f.Account == "" || e.Account == f.Account) && (f.Charge == "" || e.Charge == f.Charge) &&
			(f.MerchantReference == "" || e.MerchantReference == f.MerchantReference) && (!f.CapturedOnly || e.Captured > 0)
	})
	for i := range out {
		out[i].Metadata = maps.Clone(out[i].Metadata)
	}
	return out
}

// Writes returns the write requests that match, in order of arrival. A charge is looked for in the path, a merchant
// reference in the body.
func (s *Sim) Writes(f Filter) []WriteEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return parts.Matching(s.book.writes, func(e *WriteEntry) bool {
		return (f.Account == "" || e.Account == f.Account) && strings.HasSuffix(e.Path, f.PathSuffix) &&
			strings.Contains(e.Body, f.MerchantReference) && (f.Charge == "" || strings.Contains(e.Path, f.Charge))
	})
}

// Books returns both, and how many reads there were.
func (s *Sim) Books(f Filter) Books {
	return Books{Charges: s.Charges(f), Writes: s.Writes(f), Reads: s.reads.Load()}
}
