package fault

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Code is a stable name of one kind of fault. Codes are public: they are error types in Temporal, words in the API and
// rows of `starter codes`. A code is never renamed.
type Code string

// The codes. Each has exactly one row in the table below.
const (
	PaymentDeclined      Code = "payment_declined"
	PaymentInvalid       Code = "payment_invalid"
	PaymentUnknown       Code = "payment_outcome_unknown"
	PaymentInProgress    Code = "payment_in_progress"
	PaymentAlready       Code = "payment_already_processed"
	PaymentPending       Code = "payment_pending"
	PaymentNotFound      Code = "payment_not_found"
	PaymentMismatch      Code = "payment_mismatch"
	PaymentNeedsReview   Code = "payment_needs_review"
	GatewayMisconfigured Code = "gateway_misconfigured"
	GatewayUnavailable   Code = "gateway_unavailable"
	GatewayRateLimited   Code = "gateway_rate_limited"
	GatewayReadFailed    Code = "gateway_read_failed"

	WebhookUnproven  Code = "webhook_unproven"
	WebhookMalformed Code = "webhook_malformed"
	WebhookOff       Code = "webhook_off"

	IssuanceRefused     Code = "issuance_refused"
	IssuanceInvalid     Code = "issuance_invalid"
	IssuanceUnknown     Code = "issuance_outcome_unknown"
	IssuanceInProgress  Code = "issuance_in_progress"
	IssuanceNotFound    Code = "issuance_not_found"
	IssuanceMismatch    Code = "issuance_mismatch"
	IssuerMisconfigured Code = "issuer_misconfigured"
	IssuerRateLimited   Code = "issuer_rate_limited"
	IssuerReadFailed    Code = "issuer_read_failed"

	DeliveryFailed      Code = "delivery_failed"
	DeliveryRateLimited Code = "delivery_rate_limited"
	DeliveryGone        Code = "delivery_gone"

	DatabaseUnavailable Code = "database_unavailable"
	DatabaseContention  Code = "database_contention"
	ConstraintViolated  Code = "constraint_violated"
	VersionMoved        Code = "version_moved"
	NotFound            Code = "not_found"
	Refused             Code = "refused_by_rule"
	InternalError       Code = "internal_error"
)

// Policy is one row: what a fault with this code leads to.
type Policy struct {
	Code    Code   `json:"code"`
	Class   Class  `json:"class"`
	Retry   bool   `json:"retry"`   // the same activity runs again, with the same stored keys
	Look    bool   `json:"look"`    // the next try looks the outcome up before it sends anything
	Review  bool   `json:"review"`  // when tries or time run out (or at once, if Retry is false) a person gets it
	Benign  bool   `json:"benign"`  // expected waiting: logged low, kept out of failure metrics
	Meaning string `json:"meaning"` // one sentence for a person

	First    time.Duration `json:"first"`     // delay before the second try
	Max      time.Duration `json:"max"`       // longest delay; delays double up to it
	Tries    int           `json:"tries"`     // most tries, the first included
	MaxTotal time.Duration `json:"max_total"` // longest time from first try to last
}

// Table is every code once, in the order a person would read it. Delays are before jitter; bounds of unknown outcomes are
// replaced by the order's policy snapshot (`unknown_to_review_after`).
var table = []Policy{
	{Code: PaymentDeclined, Class: Declined, Meaning: "the provider, the card issuer or the buyer said no; a new attempt is the buyer's choice"},
	{Code: PaymentInvalid, Class: Invalid, Review: true, Meaning: "the provider refuses the request itself; nothing was charged"},
	{Code: PaymentUnknown, Class: Unknown, Retry: true, Look: true, Review: true, Benign: true, First: 2 * time.Second, Max: 2 * time.Minute, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "the provider may have charged and its answer was lost"},
	{Code: PaymentInProgress, Class: InProgress, Retry: true, Look: true, Review: true, Benign: true, First: time.Second, Max: 30 * time.Second, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "the provider is still working on the same request"},
	{Code: PaymentAlready, Class: Conflict, Retry: true, Look: true, Review: true, Benign: true, First: 200 * time.Millisecond, Max: 30 * time.Second, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "the provider says this was done before; its current state decides"},
	{Code: PaymentPending, Class: InProgress, Look: true, Benign: true, Meaning: "the buyer or the bank still has to act"},
	{Code: PaymentNotFound, Class: Conflict, Retry: true, Look: true, Review: true, Benign: true, First: 2 * time.Second, Max: 2 * time.Minute, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "the provider does not show the payment, maybe only not yet"},
	{Code: PaymentMismatch, Class: Conflict, Review: true, Meaning: "the answer is about another payment, amount, currency, account or environment"},
	{Code: PaymentNeedsReview, Class: Conflict, Review: true, Meaning: "the provider's answer needs a person by its own rules (dispute, lapsed hold, no funds)"},
	{Code: GatewayMisconfigured, Class: Misconfigured, Review: true, Meaning: "credentials or account are wrong; every order of this account would fail"},
	{Code: GatewayUnavailable, Class: Transient, Retry: true, Look: true, Review: true, First: time.Second, Max: time.Minute, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "the provider answered that it did not execute the request"},
	{Code: GatewayRateLimited, Class: Transient, Retry: true, Look: true, Review: true, Benign: true, First: time.Second, Max: time.Minute, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "the provider asks to slow down; the request was not executed"},
	{Code: GatewayReadFailed, Class: Transient, Retry: true, Look: true, Review: true, First: time.Second, Max: 2 * time.Minute, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "a lookup got no usable answer, which proves nothing"},

	{Code: WebhookUnproven, Class: Invalid, Meaning: "nothing proves that the webhook comes from the provider; it is refused and changes nothing"},
	{Code: WebhookMalformed, Class: Invalid, Meaning: "the webhook does not have the provider's form; it is refused and changes nothing"},
	{Code: WebhookOff, Class: Invalid, Meaning: "no webhook secret is configured for the account, so its webhooks are not taken"},

	{Code: IssuanceRefused, Class: Declined, Review: true, Meaning: "the issuer refuses for good; nothing was issued"},
	{Code: IssuanceInvalid, Class: Invalid, Review: true, Meaning: "the issuer cannot read our request; nothing was issued"},
	{Code: IssuanceUnknown, Class: Unknown, Retry: true, Look: true, Review: true, Benign: true, First: 2 * time.Second, Max: 2 * time.Minute, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "the issuer may have issued and its answer was lost"},
	{Code: IssuanceInProgress, Class: InProgress, Retry: true, Look: true, Review: true, Benign: true, First: time.Second, Max: 30 * time.Second, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "the issuer is still working on it"},
	{Code: IssuanceNotFound, Class: Conflict, Retry: true, Look: true, Review: true, Benign: true, First: 2 * time.Second, Max: 2 * time.Minute, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "the issuer does not show the issuance, maybe only not yet"},
	{Code: IssuanceMismatch, Class: Conflict, Review: true, Meaning: "the issuer's answer is about another operation"},
	{Code: IssuerMisconfigured, Class: Misconfigured, Review: true, Meaning: "the issuer refuses our credentials"},
	{Code: IssuerRateLimited, Class: Transient, Retry: true, Review: true, Benign: true, First: time.Second, Max: time.Minute, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "the issuer asks to slow down; nothing was issued"},
	{Code: IssuerReadFailed, Class: Transient, Retry: true, Look: true, Review: true, First: time.Second, Max: 2 * time.Minute, Tries: 60, MaxTotal: 15 * time.Minute, Meaning: "a lookup at the issuer got no usable answer, which proves nothing"},

	{Code: DeliveryFailed, Class: Transient, Retry: true, First: 5 * time.Second, Max: 6 * time.Hour, Tries: 25, MaxTotal: 72 * time.Hour, Meaning: "the event receiver did not take the event; it is sent again with the same id"},
	{Code: DeliveryRateLimited, Class: Transient, Retry: true, Benign: true, First: 30 * time.Second, Max: 6 * time.Hour, Tries: 25, MaxTotal: 72 * time.Hour, Meaning: "the event receiver asks to slow down"},
	{Code: DeliveryGone, Class: Declined, Review: true, Meaning: "the event receiver says 410: nothing more is sent there until a person decides"},

	{Code: DatabaseUnavailable, Class: Transient, Retry: true, First: 200 * time.Millisecond, Max: 10 * time.Second, Tries: 1000, MaxTotal: 24 * time.Hour, Meaning: "PostgreSQL did not answer; the step runs again and re-reads"},
	{Code: DatabaseContention, Class: Transient, Retry: true, Benign: true, First: 20 * time.Millisecond, Max: time.Second, Tries: 1000, MaxTotal: time.Hour, Meaning: "a deadlock or serialization failure; the transaction runs again"},
	{Code: ConstraintViolated, Class: Internal, Review: true, Meaning: "a database constraint stopped a write that our own rule should have stopped"},
	{Code: VersionMoved, Class: Conflict, Retry: true, Look: true, Benign: true, First: 20 * time.Millisecond, Max: time.Second, Tries: 20, MaxTotal: time.Minute, Meaning: "somebody else changed it first; read again"},
	{Code: NotFound, Class: Invalid, Meaning: "no such order, attempt, unit or review"},
	{Code: Refused, Class: Invalid, Meaning: "the rule does not allow this in the present state"},
	{Code: InternalError, Class: Internal, Review: true, Meaning: "a bug of ours; nothing is guessed"},
}

var byCode = func() map[Code]Policy {
	m := make(map[Code]Policy, len(table))
	for _, p := range table {
		m[p.Code] = p
	}
	return m
}()

// Table returns every row, for `starter codes` and for the tests that walk it.
func Table() []Policy { return slices.Clone(table) }

// PolicyOf returns the row of a code; a code without a row is internal_error's.
func PolicyOf(code Code) Policy {
	if p, ok := byCode[code]; ok {
		return p
	}
	p := byCode[InternalError]
	p.Code = code
	return p
}

// Delay is the wait before the try after `tries` failed ones: doubling from First to Max, never shorter than what the
// other side asked for, with up to a quarter of jitter on top so that orders do not come back in step after an outage.
func (p Policy) Delay(tries int, asked time.Duration) time.Duration {
	d := p.First
	for i := 1; i < tries && d < p.Max; i++ {
		d *= 2
	}
	d = max(min(d, p.Max), asked)
	if d <= 0 {
		return time.Millisecond // Temporal reads zero as "not set"
	}
	return d + rand.N(d/4+1)
}
