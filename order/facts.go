package order

import "orderflow/internal/money"

// Account is the merchant account at one provider in one environment. It is part of every payment identity.
type Account struct {
	Gateway     string `json:"gateway"`
	Name        string `json:"account"`
	Environment string `json:"environment"`
}

// Facts are what the rule sees of one order: the order, and the one attempt, unit, refund or review the trigger is about.
type Facts struct {
	Order      OrderFacts
	Attempt    *AttemptFacts
	Unit       *UnitFacts
	Refund     *RefundFacts
	Money      *MoneyFacts // of the attempt's payment; nil where nothing of it was captured
	Review     *ReviewFacts
	Orphan     *OrphanFacts // of a decision about one; Attempt is then the one that the decision names
	OtherMoney bool         // another payment of the order holds money
	UnitsOpen  int          // units of the order that are neither issued nor canceled nor revoked
	UnitsOut   int          // units of the order that are issued, or that may be: only for what is told of money that was captured before
}

// OrderFacts is the promise.
type OrderFacts struct {
	Status     Status
	Version    int64
	Hold       Hold   // why units wait
	External   bool   // a person recorded that it was paid by other means
	TermsHold  bool   // expired, and so lately that its policy still keeps the promise
	StockThere bool   // what it had reserved can be reserved again; read under the stock's lock, only for an expired order
	Revision   int    // of the promise
	Cancel     Status // of the order's cancel; empty = nobody asked for one
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
	Revision          int // of the promise it pays for
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

// OrphanFacts is a payment at a provider that no attempt explains, as notices and lists say it. An amount of zero is not known.
type OrphanFacts struct {
	ID                OrphanID
	Open              bool
	Account           Account
	ProviderPaymentID string
	MerchantReference string
	Amount            money.Amount
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
	Dispute           Dispute // empty = the answer does not say
	DisputedMinor     int64
	Code              string // decline or fault code
	ReadVersion       int64  // the attempt's version read before the call (rule 5)
	ReadAsks          int64  // how often a look at it had been asked for, read with the version: the store's, not the rule's
}

// IssuanceSeen is one thing an issuer said about a unit.
type IssuanceSeen struct {
	Outcome     Outcome
	OperationID OperationID
	Code        string
}

// RefundFacts is one try to give money back, as it was stored before anything was sent.
type RefundFacts struct {
	ID                RefundID
	Status            Status
	Version           int64
	Account           Account
	ProviderPaymentID string
	Reference         string // ours
	ProviderRefundID  string // empty until the provider's id is stored
	Amount            money.Amount
	Sends             int  // how often its request was sent
	Quiet             bool // long enough since the last send that no request can still be under way
}

// MoneyFacts is what our books say of one captured payment. All of it is in minor units of the payment's currency.
type MoneyFacts struct {
	Currency       money.Currency
	CapturedMinor  int64
	RefundedMinor  int64 // what went back, as the provider last said it
	ElsewhereMinor int64 // of that, what no refund of ours explains
	RequestedMinor int64 // of our refunds that nothing was sent for yet
	UnderwayMinor  int64 // of our refunds that were sent and may have gone back: sent, unknown
	PendingMinor   int64 // of our refunds that the provider is at
	SucceededMinor int64 // of our refunds that went back
	Dispute        Dispute
	DisputedMinor  int64 // what the dispute is about; 0 without one
	TakenBack      bool  // the bank has taken the deposit back: none of it is here
}

// Dispute says whether the buyer's bank takes the money back on its own.
type Dispute string

// The disputes.
const (
	DisputeNone Dispute = "none"
	DisputeOpen Dispute = "open"
	DisputeWon  Dispute = "won"  // the money stays here
	DisputeLost Dispute = "lost" // the bank gave it back
)

// Disputes lists every one, for exhaustive tests and the schema's check.
var Disputes = []Dispute{DisputeNone, DisputeOpen, DisputeWon, DisputeLost}

// Left is what may be asked for yet. What is unknown counts as gone, and once more where the provider's total may hold it already:
// that total may as well be somebody else's refund. It can be below zero.
func (m MoneyFacts) Left() int64 {
	return m.CapturedMinor - max(m.RefundedMinor, m.ElsewhereMinor+m.SucceededMinor+m.PendingMinor) - m.UnderwayMinor - m.RequestedMinor
}

// Over reports that more goes back than was captured, however what is unknown turns out to be counted.
func (m MoneyFacts) Over() bool {
	return max(m.RefundedMinor, m.mostOurs())+m.RequestedMinor > m.CapturedMinor
}

// RefundSeen is one thing a provider said about a refund, translated from a gateway's observation. Refused: the request was refused
// and did nothing. Final makes a "not found" proof (rule 6).
type RefundSeen struct {
	Outcome           Outcome
	Final             bool
	Account           Account
	ProviderPaymentID string
	ProviderRefundID  string // empty where the provider has none
	Taken             bool   // that id is another refund's of ours
	Reference         string // ours, where the provider says it
	Currency          money.Currency
	AmountMinor       int64
	RefundedMinor     int64 // of the payment in all, by the same answer; -1 = it does not say
	Code              string
	ReadVersion       int64 // the refund's version read before the call (rule 5)
	ReadAsks          int64 // as in PaymentSeen
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
	RefundOpened       TriggerKind = "refund_opened"       // somebody wants money to go back
	RefundClaimed      TriggerKind = "refund_claimed"      // its request is about to be sent
	RefundObserved     TriggerKind = "refund_observed"     // a provider said something about it
	RefundUnresolved   TriggerKind = "refund_unresolved"   // the bound for lookups has passed, or nothing can look
	CancelAsked        TriggerKind = "cancel_asked"        // somebody wants the order not to be carried out
	CancelSettled      TriggerKind = "cancel_settled"      // what a canceled order had under way is over, and its money is seen to
	UnitStopped        TriggerKind = "unit_stopped"        // the order is canceled, and the unit's request provably did nothing
	PromiseReplaced    TriggerKind = "promise_replaced"    // the checkout states the order anew
	DecisionMade       TriggerKind = "decision_made"       // a person decided
)

// TriggerKinds lists every trigger, for exhaustive tests.
var TriggerKinds = []TriggerKind{
	AttemptOpened, AttemptClaimed, PaymentObserved, PaymentUnresolved, OrderLapsed, UnitClaimed, UnitProvided,
	IssuanceObserved, IssuanceUnresolved, FulfillmentChecked, RefundOpened, RefundClaimed, RefundObserved, RefundUnresolved,
	CancelAsked, CancelSettled, UnitStopped, PromiseReplaced, DecisionMade,
}

// Trigger is one thing that happened, with what belongs to it.
type Trigger struct {
	Kind     TriggerKind
	Payment  PaymentSeen  // for PaymentObserved
	Issuance IssuanceSeen // for IssuanceObserved
	Ask      money.Amount // for RefundOpened
	Refund   RefundSeen   // for RefundObserved
	Decision Decision     // for DecisionMade; with an Approver, as the first person proposed it
	By       Actor        // for DecisionMade: who decides, or who proposed
	Approver *Actor       // for DecisionMade: the second person; nil = nobody yet
	Rules    DecisionRules
	Code     string // fault code, for the Unresolved triggers; why a person has to see to the money, for CancelSettled
}

// Verdict says what became of a trigger.
type Verdict string

// The verdicts.
const (
	Applied   Verdict = "applied"
	Unchanged Verdict = "unchanged" // it agrees with what is known
	Stale     Verdict = "stale"     // the subject moved since it was read: look again (rule 5)
	Rejected  Verdict = "rejected"  // the present state does not allow it; see Why
	Proposed  Verdict = "proposed"  // a decision that waits for a second person: nothing moved yet
	Mismatch  Verdict = "mismatch"  // the answer is not about this attempt, unit or refund, or its money differs
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
	EventOrderCanceled   EventType = "order.canceled"
	EventPaymentDeclined EventType = "payment.declined"
	EventRefundSucceeded EventType = "refund.succeeded"
	EventRefundFailed    EventType = "refund.failed"
)

// Opening is a review to open: at most one open review stands per subject and reason.
type Opening struct {
	Subject SubjectKind
	Reason  ReviewReason
	Code    string
}

// Books is what a payment's row says of money that went back.
type Books struct {
	RefundedMinor  int64
	ElsewhereMinor int64
}

// Change is what the rule answers. The store writes all of it in one transaction, or nothing.
type Change struct {
	Verdict     Verdict
	Why         string // one stable word, where the verdict needs one
	Transitions []Transition
	CloseReason CloseReason // for an attempt that closes
	RecordMoney bool        // store the observed payment as a fact
	Books       *Books      // what the payment's row must say now of money that went back
	Standing    *Standing   // what the payment's row must say now of money that moved on its own
	Hold        *Hold       // what the order's units wait for now
	External    bool        // the order is settled by other means
	Restock     bool        // what the order had reserved before it expired is reserved again
	LookRefunds bool        // each refund of the payment has to be looked at: less went back than they say
	LookPayment bool        // the payment has to be looked at: what it says of money that went back does not fit our books
	PlanUnits   bool        // create the order's units
	StopUnits   bool        // cancel the order's units that nobody is issuing
	NewOp       bool        // the unit's generation rises: a decision opened a new operation (rule 7)
	Events      []EventType
	Open        []Opening
	Resolve     []ReviewReason // open reviews of the refund, else of the attempt or unit, that this evidence ends
	EndReview   bool           // the decided review is resolved
	OpenRefund  *money.Amount  // a decision opens a refund of this much of the attempt's payment
	Link        bool           // a decision binds the orphan's payment to the attempt, which is then looked at
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
