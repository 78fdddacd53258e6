package order

// Status is the state of an order, an attempt, a unit or a refund. The four graphs are drawn in docs/states.md, which a test
// compares with the rule.
type Status string

// Order states: the promise.
const (
	OrderOpen      Status = "open"      // waits for money
	OrderPaid      Status = "paid"      // money is held, goods are owed
	OrderCompleted Status = "completed" // everything was provided
	OrderCanceled  Status = "canceled"
	OrderExpired   Status = "expired"
)

// Attempt states: what we asked a provider.
const (
	AttemptCreated   Status = "created"   // stored, nothing sent
	AttemptSent      Status = "sent"      // a confirm may be on its way
	AttemptUnknown   Status = "unknown"   // it may have captured; only evidence leaves this state
	AttemptPending   Status = "pending"   // the buyer or the bank has to act
	AttemptSucceeded Status = "succeeded" // captured
	AttemptDeclined  Status = "declined"  // captured nothing, but still could
	AttemptClosed    Status = "closed"    // captured nothing and can capture nothing any more
)

// Unit states: what is provided once.
const (
	UnitPlanned  Status = "planned"
	UnitIssuing  Status = "issuing" // claimed; a request may be on its way
	UnitUnknown  Status = "unknown" // it may have been issued; only evidence leaves this state
	UnitIssued   Status = "issued"
	UnitRefused  Status = "refused" // the issuer refused for good
	UnitCanceled Status = "canceled"
	UnitRevoked  Status = "revoked"
)

// Refund states: one try to give money back.
const (
	RefundRequested Status = "requested" // stored, nothing sent
	RefundSent      Status = "sent"      // a request may be on its way
	RefundUnknown   Status = "unknown"   // the money may have gone back; only evidence leaves this state
	RefundPending   Status = "pending"   // the provider is at it
	RefundSucceeded Status = "succeeded" // the money went back
	RefundFailed    Status = "failed"    // nothing went back by this refund
)

// OrderStatuses, AttemptStatuses, UnitStatuses and RefundStatuses list every state, for exhaustive tests and the schema's checks.
var (
	OrderStatuses   = []Status{OrderOpen, OrderPaid, OrderCompleted, OrderCanceled, OrderExpired}
	AttemptStatuses = []Status{AttemptCreated, AttemptSent, AttemptUnknown, AttemptPending, AttemptSucceeded, AttemptDeclined, AttemptClosed}
	UnitStatuses    = []Status{UnitPlanned, UnitIssuing, UnitUnknown, UnitIssued, UnitRefused, UnitCanceled, UnitRevoked}
	RefundStatuses  = []Status{RefundRequested, RefundSent, RefundUnknown, RefundPending, RefundSucceeded, RefundFailed}
)

// SubjectKind says what a transition, a review or an observation is about.
type SubjectKind string

// The subjects.
const (
	SubjectOrder   SubjectKind = "order"
	SubjectAttempt SubjectKind = "attempt"
	SubjectUnit    SubjectKind = "unit"
	SubjectRefund  SubjectKind = "refund"
	SubjectCancel  SubjectKind = "cancel"
	SubjectPayment SubjectKind = "payment"
	SubjectEvent   SubjectKind = "event"
	SubjectOrphan  SubjectKind = "orphan" // a payment at a provider that no attempt explains: it has no order
)

// CloseReason says why an attempt can capture nothing any more.
type CloseReason string

// The close reasons.
const (
	ClosedDeclined    CloseReason = "declined"
	ClosedCanceled    CloseReason = "canceled"
	ClosedRefused     CloseReason = "refused"     // the provider refused the request itself
	ClosedNeverSent   CloseReason = "never_sent"  // nothing reached the provider, by evidence
	ClosedByDecision  CloseReason = "by_decision" // a person, with evidence
	ClosedBeforeSend  CloseReason = "before_send" // given up before anything was sent
	ClosedUnspecified CloseReason = "unspecified" // canceled at the provider without a reason we know
)

// Outcome is what an observation says, in the domain's words. Gateways and issuers have their own types; activities
// translate.
type Outcome string

// Payment outcomes.
const (
	Succeeded Outcome = "succeeded"
	Declined  Outcome = "declined"
	Pending   Outcome = "pending"
	Unknown   Outcome = "unknown"
	Untouched Outcome = "untouched"
	NotFound  Outcome = "not_found"
	Refused   Outcome = "refused" // the other side refused our request; nothing happened
	Prepared  Outcome = "prepared"
)

// Issuance outcomes (Unknown, NotFound and Refused are shared).
const (
	Issued     Outcome = "issued"
	Processing Outcome = "processing"
)
