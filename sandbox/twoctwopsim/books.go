package twoctwopsim

import (
	"strings"
	"time"

	"orderflow/sandbox/parts"
)

// ChargeEntry is one try at the buyer's money and what became of it. Amounts are minor units.
type ChargeEntry struct {
	At                time.Time `json:"at"`
	Account           string    `json:"account"` // merchant ID
	MerchantReference string    `json:"merchant_reference"`
	TranRef           string    `json:"tran_ref"`
	Channel           string    `json:"channel"`
	Currency          string    `json:"currency"`
	Amount            int64     `json:"amount"`   // asked for
	Captured          int64     `json:"captured"` // taken
	Refunded          int64     `json:"refunded"` // given back
	Refunds           int       `json:"refunds"`  // in so many refunds
	Voided            bool      `json:"voided"`
	Declined          string    `json:"declined,omitempty"`
}

// WriteEntry is one write that reached the simulator, its answer known or not to the caller.
type WriteEntry struct {
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	Account   string    `json:"account"` // as the request says, proven or not
	Path      string    `json:"path"`
	InvoiceNo string    `json:"invoice_no"` // as far as the request or its token tells
	Process   string    `json:"process,omitempty"`
	Body      string    `json:"body"`     // raw
	Claims    string    `json:"claims"`   // decoded
	Status    int       `json:"status"`   // what went out on the wire; 0 = the connection was cut, or the answer is not out yet
	RespCode  string    `json:"code"`     // of the simulator's own answer
	Executed  bool      `json:"executed"` // it changed something
	Fault     string    `json:"fault,omitempty"`
}

// Books are everything that happened since the last reset.
type Books struct {
	Charges []ChargeEntry `json:"charges"`
	Writes  []WriteEntry  `json:"writes"`
	Reads   int64         `json:"reads"`
}

// Filter narrows the books; empty fields match everything.
type Filter struct {
	Account           string
	MerchantReference string
	PathSuffix        string
	CapturedOnly      bool // charges that took money
}

type book struct {
	charges []*ChargeEntry
	writes  []*WriteEntry
}

// Charges returns the charges that match, oldest first.
func (s *Sim) Charges(f Filter) []ChargeEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.cfg.Now())
	return parts.Matching(s.book.charges, func(e *ChargeEntry) bool {
		return (f.Account == "" || e.Account == f.Account) && (f.MerchantReference == "" || e.MerchantReference == f.MerchantReference) &&
			(!f.CapturedOnly || e.Captured > 0)
	})
}

// Writes returns the write requests that match, in order of arrival.
func (s *Sim) Writes(f Filter) []WriteEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return parts.Matching(s.book.writes, func(e *WriteEntry) bool {
		return (f.Account == "" || e.Account == f.Account) && (f.MerchantReference == "" || e.InvoiceNo == f.MerchantReference) &&
			strings.HasSuffix(e.Path, f.PathSuffix)
	})
}

// Books returns both, and how many reads there were.
func (s *Sim) Books(f Filter) Books {
	return Books{Charges: s.Charges(f), Writes: s.Writes(f), Reads: s.reads.Load()}
}
