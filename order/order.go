// Package order is the domain: what an order, an attempt, a unit and a review are, and the one rule by which they move.
//
// It must not know I/O, clocks, SQL, providers or Temporal's SDK: it takes facts and an event and says what changes.
// It may import internal/money and internal/fault.
package order

import (
	"fmt"
	"regexp"
	"time"

	"orderflow/internal/money"
)

// Action says how a line is provided.
type Action string

// The actions.
const (
	ActionStock Action = "stock" // our own stock: reserved with the order, committed when provided
	ActionGrant Action = "grant" // an entitlement row of ours
	ActionIssue Action = "issue" // an external issuer
)

// Internal reports that providing needs nothing but our database.
func (a Action) Internal() bool { return a == ActionStock || a == ActionGrant }

// Limits of one order. They keep a request, a transaction and a workflow history within known bounds.
const (
	MaxLines       = 10_000
	MaxUnits       = 10_000 // sum of quantities
	MaxAdjustments = 100
	MaxText        = 500 // characters of a name or reference
	MaxRecipient   = 256 // characters of a buyer reference that an issuer gets to see
	MaxMinor       = 1_000_000_000_000
)

// Line is one thing bought, some times over.
type Line struct {
	No         int
	SKU        string
	Name       string
	Quantity   int
	UnitAmount int64  // minor units; zero is a free item
	TaxRate    string // decimal percent as text, "10" or "7.25"; informs records, enters no sum
	Action     Action
	Issuer     string // configured issuer's name; only for ActionIssue
}

// IncludedTax is the kind of an adjustment that says what tax the prices hold already: it informs records and enters no sum.
const IncludedTax = "included_tax"

// Adjustment is a signed amount beside the lines: a discount is negative.
type Adjustment struct {
	Kind    string // "discount", "shipping", "tax", "included_tax"
	Amount  int64  // minor units
	TaxRate string // what it is stated for, as a line's; empty where nothing is stated
}

// Draft is an order as the checkout backend states it.
type Draft struct {
	ID          ID
	Client      ClientID
	Currency    money.Currency
	Lines       []Line
	Adjustments []Adjustment
	Total       int64 // minor units; recomputed, never believed
	BuyerRef    string
	ExpiresAt   time.Time
}

// Problem is one thing wrong with a draft: where and what, without the value.
type Problem struct {
	Path    string // "lines[2].quantity"
	Message string
}

var taxRate = regexp.MustCompile(`^\d{1,3}(\.\d{1,4})?$`)

// Validate recomputes and checks everything the caller stated. An empty answer means the draft may be stored.
func (d Draft) Validate() []Problem {
	var ps []Problem
	bad := func(path, format string, args ...any) {
		if len(ps) < 20 { // enough to fix a client, and bounded
			ps = append(ps, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
		}
	}
	if _, err := d.Currency.Exponent(); err != nil {
		bad("currency", "must be an upper-case ISO 4217 code")
		return ps
	}
	if n := len(d.Lines); n < 1 || n > MaxLines {
		bad("lines", "must have between 1 and %d entries", MaxLines)
		return ps
	}
	if len(d.Adjustments) > MaxAdjustments {
		bad("adjustments", "must have at most %d entries", MaxAdjustments)
		return ps
	}
	d.validateLines(bad)
	d.validateAdjustments(bad)
	if len(ps) == 0 {
		if sum := d.Sum(); sum != d.Total {
			bad("total", "does not equal the sum of lines and adjustments, which is %d minor units", sum)
		}
		if d.Total < 1 || d.Total > MaxMinor {
			bad("total", "must be between 1 and %d minor units", int64(MaxMinor))
		}
	}
	return ps
}

func (d Draft) validateLines(bad func(string, string, ...any)) {
	units := 0
	for i, l := range d.Lines {
		at := fmt.Sprintf("lines[%d]", i)
		switch {
		case l.SKU == "":
			bad(at+".sku", "is missing")
		case l.Quantity < 1 || l.Quantity > MaxUnits:
			bad(at+".quantity", "must be between 1 and %d", MaxUnits)
		case l.UnitAmount < 0 || l.UnitAmount > MaxMinor/int64(MaxUnits):
			bad(at+".unit_amount", "must be between 0 and %d minor units", MaxMinor/int64(MaxUnits))
		case l.TaxRate != "" && !taxRate.MatchString(l.TaxRate):
			bad(at+".tax_rate", `must be a percent as text, such as "10" or "7.25"`)
		case l.Action != ActionIssue && !l.Action.Internal():
			bad(at+".action", "must be stock, grant or issue")
		case (l.Action == ActionIssue) != (l.Issuer != ""):
			bad(at+".issuer", "must be set for action issue, and only then")
		}
		units += max(0, min(l.Quantity, MaxUnits))
	}
	if units > MaxUnits {
		bad("lines", "may hold %d units in all", MaxUnits)
	}
}

func (d Draft) validateAdjustments(bad func(string, string, ...any)) {
	for i, a := range d.Adjustments {
		at := fmt.Sprintf("adjustments[%d]", i)
		if a.Kind != "discount" && a.Kind != "shipping" && a.Kind != "tax" && a.Kind != IncludedTax {
			bad(at+".kind", "must be discount, shipping, tax or included_tax")
		}
		if a.TaxRate != "" && !taxRate.MatchString(a.TaxRate) {
			bad(at+".tax_rate", `must be a percent as text, such as "10" or "7.25"`)
		}
		if (a.Kind == "discount") != (a.Amount < 0) || a.Amount < -MaxMinor || a.Amount > MaxMinor {
			bad(at+".amount", "must be negative for a discount, zero or more otherwise, and within bounds")
		}
	}
}

// Sum is lines plus adjustments. Validate bounds every term, so it cannot overflow.
func (d Draft) Sum() int64 { return d.LinesSum() + d.AdjustmentsSum() }

// LinesSum is the lines alone.
func (d Draft) LinesSum() (sum int64) {
	for _, l := range d.Lines {
		sum += l.UnitAmount * int64(l.Quantity)
	}
	return sum
}

// AdjustmentsSum is the adjustments alone, without what the prices hold already.
func (d Draft) AdjustmentsSum() (sum int64) {
	for _, a := range d.Adjustments {
		if a.Kind != IncludedTax {
			sum += a.Amount
		}
	}
	return sum
}

// Policy is what the system promises for one order, frozen with it, so that a change of configuration never changes an
// order under way. Durations are JSON nanoseconds.
type Policy struct {
	Version              int           `json:"version"`
	UnknownToReviewAfter time.Duration `json:"unknown_to_review_after"` // how long an unknown outcome is looked up before a person gets it
	FirstLookupAfter     time.Duration `json:"first_lookup_after"`
	LongestRetryInterval time.Duration `json:"longest_retry_interval"`
	LatePaymentRevives   time.Duration `json:"late_payment_revives"`  // how long after its expiry money still makes the order paid, if the stock is there; 0 = never
	ReviewCheckEvery     time.Duration `json:"review_check_every"`    // the sweep's look at what is parked
	RerunSafeAfter       time.Duration `json:"rerun_safe_after"`      // after the last send, before an operator may run a unit again
	StepTimeout          time.Duration `json:"step_timeout"`          // one try of a step that talks to the outside; longer than a gateway's own timeout
	DeadWorkerAfter      time.Duration `json:"dead_worker_after"`     // a try whose worker shows no life for this long is run again elsewhere
	DeliveryLocalBudget  time.Duration `json:"delivery_local_budget"` // how long a delivery may be tried inside the workflow task
	UnitsAtOnce          int           `json:"units_at_once"`
	BatchMax             int           `json:"batch_max"`   // units a run works on between two looks at the facts
	HistoryMax           int           `json:"history_max"` // events after which a run carries on with an empty history
}

// DefaultPolicy is what an order gets where the configuration says nothing.
func DefaultPolicy() Policy {
	return Policy{
		Version:              1,
		UnknownToReviewAfter: 15 * time.Minute,
		FirstLookupAfter:     2 * time.Second,
		LongestRetryInterval: 2 * time.Minute,
		LatePaymentRevives:   time.Hour,
		ReviewCheckEvery:     10 * time.Minute,
		RerunSafeAfter:       10 * time.Minute,
		StepTimeout:          90 * time.Second,
		DeadWorkerAfter:      10 * time.Second,
		DeliveryLocalBudget:  300 * time.Millisecond,
		UnitsAtOnce:          8,
		BatchMax:             200,
		HistoryMax:           4000,
	}
}
