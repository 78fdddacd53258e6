package order

import "orderflow/internal/money"

// Account is the merchant account at one provider in one environment. It is part of every payment identity.
type Account struct {
	Gateway     string `json:"gateway"`
	Name        string `json:"account"`
	Environment string `json:"environment"`
}

// Facts are what the rule sees of one order: the order, and the one attempt, unit or review the trigger is about.
type Facts struct {
	Order     OrderFacts
	Attempt   *AttemptFacts
	Unit      *UnitFacts
	Review    *ReviewFacts
	UnitsOpen int // units of the order that are neither issued nor canceled nor revoked, for FulfillmentChecked
}

// OrderFacts is the promise.
type OrderFacts struct {
	Status  Status
	Version int64
}

// AttemptFacts is what we asked, as it was stored before anything was sent.
type AttemptFacts struct {
	ID                AttemptID
	Status            Status
	Version           int64
	Account           Account
	MerchantReference string
	ProviderPaymentID string // empty until the provider's id is stored
	Amount            money.Amount
}

// UnitFacts is one thing to provide.
type UnitFacts struct {
	ID        UnitID
	Status    Status
	Version   int64
	Operation OperationID // of the current generation; empty for internal units
	RerunSafe bool        // long enough since the last send that no request can still be under way
}

// ReviewFacts is the open review a decision is about.
type ReviewFacts struct {
	ID             ReviewID
	Reason         ReviewReason
	Open           bool
	Version        int64
	SubjectKind    SubjectKind
	SubjectVersion int64 // the subject's version when the review last looked at it
}

// PaymentSeen is one thing a provider said about a payment, translated from a gateway's observation.
type PaymentSeen struct {
	Outcome           Outcome
	Final             bool
	Account           Account
	ProviderPaymentID string
	MerchantReference string
	Currency          money.Currency
	AmountMinor       int64
	CapturedMinor     int64
	RefundedMinor     int64
	Code              string // decline or fault code
	ReadVersion       int64  // the attempt's version read before the call (rule 5)
}

// IssuanceSeen is one thing an issuer said about a unit.
type IssuanceSeen struct {
	Outcome     Outcome
	OperationID OperationID
	Code        string
}

// TriggerKind names what happened.
type TriggerKind string

// The triggers. Everything that can move an order is one of these.
const (
	AttemptOpened      TriggerKind = "attempt_opened"      // the buyer pressed pay
	AttemptClaimed     TriggerKind = "attempt_claimed"     // its first outside write is about to be sent
	PaymentObserved    TriggerKind = "payment_observed"    // a provider said something
	PaymentUnresolved  TriggerKind = "payment_unresolved"  // the bound for lookups has passed
	OrderLapsed        TriggerKind = "order_lapsed"        // the promise's time is over
	UnitClaimed        TriggerKind = "unit_claimed"        // its issuing request is about to be sent
	UnitProvided       TriggerKind = "unit_provided"       // provided by our own database
	IssuanceObserved   TriggerKind = "issuance_observed"   // an issuer said something
	IssuanceUnresolved TriggerKind = "issuance_unresolved" // the bound for lookups has passed, or nothing can look
	FulfillmentChecked TriggerKind = "fulfillment_checked" // units may all be done
	DecisionMade       TriggerKind = "decision_made"       // a person decided
)

// TriggerKinds lists every trigger, for exhaustive tests.
var TriggerKinds = []TriggerKind{
	AttemptOpened, AttemptClaimed, PaymentObserved, PaymentUnresolved, OrderLapsed, UnitClaimed, UnitProvided,
	IssuanceObserved, IssuanceUnresolved, FulfillmentChecked, DecisionMade,
}

// Trigger is one thing that happened, with what belongs to it.
type Trigger struct {
	Kind     TriggerKind
	Payment  PaymentSeen  // for PaymentObserved
	Issuance IssuanceSeen // for IssuanceObserved
	Decision Decision     // for DecisionMade
	Code     string       // fault code, for the Unresolved triggers
}

// Verdict says what became of a trigger.
type Verdict string

// The verdicts.
const (
	Applied   Verdict = "applied"
	Unchanged Verdict = "unchanged" // it agrees with what is known
	Stale     Verdict = "stale"     // the subject moved since it was read: look again (rule 5)
	Rejected  Verdict = "rejected"  // the present state does not allow it; see Why
	Mismatch  Verdict = "mismatch"  // the answer is not about this attempt or unit, or its money differs
)

// Transition is one state change of one subject.
type Transition struct {
	Subject SubjectKind
	From    Status
	To      Status
}

// EventType names an outgoing event. One business event is one event row (I6), however often anything is retried.
type EventType string

// The event types.
const (
	EventOrderPaid       EventType = "order.paid"
	EventOrderCompleted  EventType = "order.completed"
	EventPaymentDeclined EventType = "payment.declined"
)

// Opening is a review to open: at most one open review stands per subject and reason.
type Opening struct {
	Subject SubjectKind
	Reason  ReviewReason
	Code    string
}

// Change is what the rule answers. The store writes all of it in one transaction, or nothing.
type Change struct {
	Verdict     Verdict
	Why         string // one stable word, where the verdict needs one
	Transitions []Transition
	CloseReason CloseReason // for an attempt that closes
	RecordMoney bool        // store the observed payment as a fact
	PlanUnits   bool        // create the order's units
	NewOp       bool        // the unit's generation rises: a decision opened a new operation (rule 7)
	Events      []EventType
	Open        []Opening
	Resolve     []ReviewReason // open reviews of the attempt or unit that this evidence ends
	EndReview   bool           // the decided review is resolved
	LookAgain   bool           // a decision asks for a fresh lookup
}

// To returns the state a subject moves to, or "" when it stays.
func (c Change) To(s SubjectKind) Status {
	for _, t := range c.Transitions {
		if t.Subject == s {
			return t.To
		}
	}
	return ""
}
