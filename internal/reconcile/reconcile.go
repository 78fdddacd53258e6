// Package reconcile compares a page of a provider's books with ours: which attempts have to be looked at, which payments nothing
// here explains, and what has to be met again before anything is said about it.
//
// It must not know where either side's books come from, nor believe them: a list never proves a payment, and what is missing in
// one proves nothing at all. It is pure and may import order, internal/money and internal/fault.
package reconcile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"orderflow/internal/money"
	"orderflow/order"
)

// Item is one payment as a provider's list, an inquiry or a settlement file shows it. Amounts are minor units of Currency.
type Item struct {
	ProviderPaymentID string
	MerchantReference string // ours; empty when the list does not say
	Outcome           order.Outcome
	Currency          money.Currency
	AmountMinor       int64 // what the payment was made for; 0 = not said
	CapturedMinor     int64
	RefundedMinor     int64         // as far as the list says
	Dispute           order.Dispute // empty = the list does not say
	At                time.Time
}

// Answer is what the provider said of an attempt when it was last asked about it directly.
type Answer struct {
	Outcome           order.Outcome
	ProviderPaymentID string
	MerchantReference string
	Currency          money.Currency
	AmountMinor       int64
	CapturedMinor     int64
	RefundedMinor     int64
	At                time.Time // our clock
}

// Recorded is the money that our books hold of an attempt.
type Recorded struct {
	Currency      money.Currency
	CapturedMinor int64
	RefundedMinor int64
	Dispute       order.Dispute
}

// Attempt is what our books say of one attempt.
type Attempt struct {
	ID                order.AttemptID
	Status            order.Status
	ProviderPaymentID string // empty until it is learned
	MerchantReference string
	Amount            money.Amount
	Recorded          *Recorded // nil = no money that counts
	Last              *Answer   // nil = it was never asked about
}

// Orphan is a payment that our books hold without an attempt.
type Orphan struct {
	Open   bool
	Says   order.Outcome
	Amount int64 // minor units; 0 = not known
}

// Unresolved is an attempt that was sent and whose provider id never came. It may be the one behind a payment whose list entry
// does not bear our reference; that is a reason to wait, and never one to link them.
type Unresolved struct {
	Amount money.Amount
	SentAt time.Time
}

// Books are what ours hold about the ids of a page, within one account and environment.
type Books struct {
	Attempts   []Attempt
	Payments   map[string]order.AttemptID // recorded payments by the provider's id, also those that fitted nothing
	Orphans    map[string]Orphan          // by subject
	Unresolved []Unresolved
}

// Rules bound what is said about a payment that nothing explains.
type Rules struct {
	Grace   time.Duration // a payment younger than this may still be on its way to our books
	HoldFor time.Duration // the longest an unresolved attempt keeps a payment from being called an orphan
	Skew    time.Duration // how far the provider's clock and ours may differ
}

// Look is an attempt that the provider has to be asked about.
type Look struct {
	Attempt order.AttemptID
	Says    order.Outcome // needs no look once the attempt has come to it; empty = look whatever happens
}

// Findings are what a page leads to. Nothing of it is a fact about a payment.
type Findings struct {
	Looks   []Look    // by attempt, one each
	Orphans []Item    // by subject, one each
	Hold    time.Time // the oldest item that has to be met again; zero = none
	Agreed  int       // items that say what we know
	Waiting int       // items that have to be met again
}

// Empty reports that there is nothing to write down.
func (f Findings) Empty() bool { return len(f.Looks)+len(f.Orphans) == 0 }

// byReference stands before our reference where it is all that an orphan is known by.
const byReference = "reference "

// maxID is how long an id may be to be kept as it is.
const maxID = 255

// SafeID leaves an id as it is where it is short and plain, and otherwise stands for it by a digest: two ids stay two, and what somebody
// wrote into a provider's books can stand anywhere.
func SafeID(id string) string {
	if len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Subject is what an orphan is known by: the provider's id, else our reference.
func Subject(providerPaymentID, reference string) string {
	if providerPaymentID != "" {
		return providerPaymentID
	}
	return byReference + reference
}

// Subjects are all that an item may stand under among the orphans.
func (i Item) Subjects() []string {
	var out []string
	if i.ProviderPaymentID != "" {
		out = append(out, i.ProviderPaymentID)
	}
	if i.MerchantReference != "" {
		out = append(out, byReference+i.MerchantReference)
	}
	return out
}

// Judge compares a page with our books. Items may come in any order, twice, or not at all: each is judged by itself, and what is
// not there is not judged.
func Judge(b Books, items []Item, now time.Time, r Rules) Findings {
	j := judge{
		b: b, now: now, rules: r, byID: map[string]int{}, byRef: map[string]int{}, byAttempt: map[order.AttemptID]int{},
		looks: map[order.AttemptID]order.Outcome{}, orphans: map[string]Item{},
	}
	for n, a := range b.Attempts {
		j.byAttempt[a.ID] = n
		if a.ProviderPaymentID != "" {
			j.byID[a.ProviderPaymentID] = n
		}
		if a.MerchantReference != "" {
			j.byRef[a.MerchantReference] = n
		}
	}
	for _, i := range items {
		j.item(i)
	}
	return j.findings()
}

type judge struct {
	b         Books
	now       time.Time
	rules     Rules
	byID      map[string]int
	byRef     map[string]int
	byAttempt map[order.AttemptID]int

	looks   map[order.AttemptID]order.Outcome
	orphans map[string]Item
	out     Findings
}

func (j *judge) item(i Item) {
	links := j.linked(i)
	if len(links) == 0 {
		j.unlinked(i)
		return
	}
	agreed := true
	for _, a := range links {
		if agrees(*a, i, j.recordedFor(i, a.ID), j.rules.Skew) {
			continue
		}
		agreed = false
		says := claim(*a, i)
		if before, there := j.looks[a.ID]; there && before != says {
			says = ""
		}
		j.looks[a.ID] = says
	}
	if agreed {
		j.out.Agreed++
	}
}

// linked finds the attempts an item names, by ids and by nothing else. One that bears our reference and another provider id than
// the attempt of that reference is a second payment: no look at the attempt could ever show it, so it is linked to nothing.
func (j *judge) linked(i Item) []*Attempt {
	var out []*Attempt
	if n, ok := j.byID[i.ProviderPaymentID]; ok && i.ProviderPaymentID != "" {
		out = append(out, &j.b.Attempts[n])
	} else if id, ok := j.b.Payments[i.ProviderPaymentID]; ok && i.ProviderPaymentID != "" {
		if n, ok := j.byAttempt[id]; ok {
			out = append(out, &j.b.Attempts[n])
		}
	}
	n, ok := j.byRef[i.MerchantReference]
	if !ok || i.MerchantReference == "" {
		return out
	}
	a := &j.b.Attempts[n]
	if len(out) > 0 && out[0].ID == a.ID {
		return out
	}
	if a.ProviderPaymentID != "" && i.ProviderPaymentID != "" && a.ProviderPaymentID != i.ProviderPaymentID {
		return out
	}
	return append(out, a)
}

func (j *judge) recordedFor(i Item, a order.AttemptID) bool {
	id, ok := j.b.Payments[i.ProviderPaymentID]
	return ok && id == a
}

// unlinked holds a payment that nothing explains, unless nothing was captured, it is held already, or its attempt may still come.
func (j *judge) unlinked(i Item) {
	if !mayBeMoney(i.Outcome) {
		return
	}
	held := false
	for _, s := range i.Subjects() {
		o, there := j.b.Orphans[s]
		if !there {
			continue
		}
		if !o.Open || !news(o, i) {
			return
		}
		held = true // it says more than what is written down
	}
	age := j.now.Sub(i.At)
	if !held && (age < j.rules.Grace || (age < j.rules.HoldFor && j.maybeUnresolved(i))) {
		j.out.Waiting++
		if j.out.Hold.IsZero() || i.At.Before(j.out.Hold) {
			j.out.Hold = i.At
		}
		return
	}
	s := Subject(i.ProviderPaymentID, i.MerchantReference)
	if before, there := j.orphans[s]; !there || weight(i) > weight(before) {
		j.orphans[s] = i
	}
}

// maybeUnresolved: an item that bears a reference bears somebody's, and ours are all known here.
func (j *judge) maybeUnresolved(i Item) bool {
	return i.MerchantReference == "" && slices.ContainsFunc(j.b.Unresolved, func(u Unresolved) bool {
		return u.Amount.Currency == i.Currency && u.Amount.Minor == max(i.AmountMinor, i.CapturedMinor) && !i.At.Before(u.SentAt.Add(-j.rules.Skew))
	})
}

// mayBeMoney: what does not say that nothing was captured may be about money that was.
func mayBeMoney(o order.Outcome) bool {
	switch o {
	case order.Declined, order.Pending, order.Untouched, order.NotFound:
		return false
	}
	return true
}

func news(o Orphan, i Item) bool {
	return i.Outcome == order.Succeeded && (o.Says != order.Succeeded || (o.Amount == 0 && i.CapturedMinor > 0))
}

// weight orders what is said of one payment: a capture with its amount comes before a row that says no more than that it moved.
func weight(i Item) int {
	switch {
	case i.Outcome == order.Succeeded && i.CapturedMinor > 0:
		return 2
	case i.Outcome == order.Succeeded:
		return 1
	}
	return 0
}

func (j *judge) findings() Findings {
	f := j.out
	for id, says := range j.looks {
		f.Looks = append(f.Looks, Look{id, says})
	}
	slices.SortFunc(f.Looks, func(a, b Look) int { return cmp.Compare(a.Attempt, b.Attempt) })
	for _, i := range j.orphans {
		f.Orphans = append(f.Orphans, i)
	}
	slices.SortFunc(f.Orphans, func(a, b Item) int {
		return cmp.Compare(Subject(a.ProviderPaymentID, a.MerchantReference), Subject(b.ProviderPaymentID, b.MerchantReference))
	})
	return f
}
