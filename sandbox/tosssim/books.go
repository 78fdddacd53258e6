package tosssim

import (
	"strings"
	"time"

	"orderflow/sandbox/faults"
	"orderflow/sandbox/parts"
)

// ChargeEntry is one try at the buyer's money and what became of it. Amounts are minor units.
type ChargeEntry struct {
	At                time.Time `json:"at"`
	Account           string    `json:"account"`
	Livemode          bool      `json:"livemode"`
	PaymentKey        string    `json:"payment_key"`
	MerchantReference string    `json:"merchant_reference"` // the order id
	Method            string    `json:"method"`
	Currency          string    `json:"currency"` // upper case, as Toss has it
	Amount            int64     `json:"amount"`   // what the payment was made for
	Captured          int64     `json:"captured"` // taken
	Refunded          int64     `json:"refunded"` // given back, by cancels or by a correction
	Refunds           int       `json:"refunds"`  // in so many cancels
	Corrected         bool      `json:"corrected,omitempty"`
	Declined          string    `json:"declined,omitempty"`
	BuyerURL          string    `json:"buyer_url,omitempty"` // the page that plays the bank of a virtual account
}

// WriteEntry is one POST that reached the simulator, its answer known or not to the caller.
type WriteEntry struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	Account  string    `json:"account"` // empty when the key was refused
	Trace    string    `json:"trace"`
	Method   string    `json:"method"`
	Path     string    `json:"path"`
	Key      string    `json:"key"`
	Body     string    `json:"body"`
	Status   int       `json:"status"`   // what went out on the wire; 0 = the connection was cut, or the answer is not out yet
	Executed bool      `json:"executed"` // it ran, in contrast to a replay, a refusal at the door, or a request never worked on
	Replayed bool      `json:"replayed"`
	Fault    string    `json:"fault,omitempty"` // the action that hit it
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
	PaymentKey        string
	MerchantReference string
	Key               string
	PathSuffix        string
	CapturedOnly      bool // charges that took money
}

type book struct {
	charges []*ChargeEntry
	writes  []*WriteEntry
}

func newBook() book { return book{} }

func (b *book) charge(e *ChargeEntry) { b.charges = append(b.charges, e) }

// last is the latest entry of a payment that took money.
func (b *book) last(paymentKey string) *ChargeEntry {
	for i := len(b.charges) - 1; i >= 0; i-- {
		if e := b.charges[i]; e.PaymentKey == paymentKey && e.Captured > 0 {
			return e
		}
	}
	return nil
}

func (b *book) refund(paymentKey string, amount int64) {
	if e := b.last(paymentKey); e != nil {
		e.Refunded += amount
		e.Refunds++
	}
}

// Charges returns the charges that match, oldest first.
func (s *Sim) Charges(f Filter) []ChargeEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return parts.Matching(s.book.charges, func(e *ChargeEntry) bool {
		return (f.Account == "" || e.Account == f.Account) && (f.PaymentKey == "" || e.PaymentKey == f.PaymentKey) &&
			(f.MerchantReference == "" || e.MerchantReference == f.MerchantReference) && (!f.CapturedOnly || e.Captured > 0)
	})
}

// Writes returns the write requests that match, in order of arrival. A payment key is looked for in the path and the body,
// a merchant reference in the body.
func (s *Sim) Writes(f Filter) []WriteEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return parts.Matching(s.book.writes, func(e *WriteEntry) bool {
		return (f.Account == "" || e.Account == f.Account) && (f.Key == "" || e.Key == f.Key) &&
			strings.HasSuffix(e.Path, f.PathSuffix) && strings.Contains(e.Body, f.MerchantReference) &&
			(f.PaymentKey == "" || strings.Contains(e.Path, f.PaymentKey) || strings.Contains(e.Body, f.PaymentKey))
	})
}

// Books returns both, and how many reads there were.
func (s *Sim) Books(f Filter) Books {
	return Books{Charges: s.Charges(f), Writes: s.Writes(f), Reads: s.reads.Load()}
}

// arrive books a write before anything is done about it, so that a lost one is in the books too.
func (s *Sim) arrive(r *request, f *faults.Fault) *WriteEntry {
	e := &WriteEntry{At: r.now, Trace: r.trace, Method: r.method, Path: r.path, Key: r.key, Body: string(r.body)}
	if r.account != nil {
		e.Account = r.account.name
	}
	e.Fault, e.Status = parts.Met(f)
	if r.method != "POST" {
		s.reads.Add(1)
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeSeq++
	e.Seq = s.writeSeq
	s.book.writes = append(s.book.writes, e)
	return e
}
