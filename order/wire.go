package order

import (
	"fmt"
	"strings"
)

// Names that processes share: starter, worker and the Temporal Web UI meet here, so that nothing but worker needs to import
// the workflows.
const (
	TaskQueue = "orderflow"

	WorkflowOrder = "OrderWorkflow"
	WorkflowSweep = "SweepWorkflow"
	WorkflowRelay = "RelayWorkflow"

	WorkflowReconcile = "ReconcileWorkflow"

	ScheduleSweep = "orderflow-sweep"
	ScheduleRelay = "orderflow-relay"

	ScheduleReconcile = "orderflow-reconcile"

	UpdateSubmitPayment = "submit_payment"
	UpdateRefundPayment = "refund_payment"
	UpdateCapture       = "capture_payment"
	UpdateResolveReview = "resolve_review"
	SignalDecision      = "review_decision"
	SignalFactsChanged  = "facts_changed"
	QueryState          = "state"

	AttributeOrderStatus  = "OrderStatus"  // Keyword
	AttributeReviewReason = "ReviewReason" // Keyword
	AttributeReviewSince  = "ReviewSince"  // Datetime
)

// WorkflowID is the id of the order's workflow: "order/" and the order id. Temporal's client puts workflow ids into a gRPC
// header, which takes printable ASCII only, so any other byte - and the percent sign, to keep ids apart - is percent-encoded.
func WorkflowID(id ID) string {
	var b strings.Builder
	b.WriteString("order/")
	for i := range len(id) {
		if c := id[i]; c < 0x20 || c > 0x7e || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// SubmitUpdateID makes the update of one attempt idempotent: asking again attaches to the same answer.
func SubmitUpdateID(id AttemptID) string { return "submit-" + string(id) }

// CaptureUpdateID is the same for the update of an attempt's capture.
func CaptureUpdateID(id AttemptID) string { return "capture-" + string(id) }

// RefundUpdateID is the same for the update of one refund.
func RefundUpdateID(id RefundID) string { return "refund-" + string(id) }

// OperationPlace and ReferencePlace name the rows that sealed values are bound to: a stored request, and what the buyer
// gets to hold of a unit. Whoever seals and whoever opens must say the same.
func OperationPlace(id OperationID) string { return "operation/" + string(id) }

// AttemptPlace names the attempt that what the provider gave for later calls is sealed to.
func AttemptPlace(id AttemptID) string { return "attempt/" + string(id) }

// ReferencePlace is the place of a unit's sealed reference.
func ReferencePlace(id UnitID) string { return "unit/" + string(id) }

// SubmitPayment is the argument of the submit_payment update. The attempt row exists before the update is sent.
type SubmitPayment struct {
	AttemptID AttemptID `json:"attempt_id"`
}

// SubmitResult is its answer: the attempt's state at the first outcome. The HTTP answer is read from PostgreSQL.
type SubmitResult struct {
	AttemptID AttemptID `json:"attempt_id"`
	Status    Status    `json:"status"`
}

// CapturePayment is the argument of the capture_payment update. What is to be captured, and its operation, stand at the attempt before
// the update is sent. Its answer is a SubmitResult.
type CapturePayment struct {
	AttemptID AttemptID `json:"attempt_id"`
}

// RefundPayment is the argument of the refund_payment update. The refund's row and its operation exist before the update is sent, and
// the operation's id is derived from the refund's.
type RefundPayment struct {
	RefundID RefundID `json:"refund_id"`
}

// RefundResult is its answer: the refund's state at the first outcome, empty when it was over before this run began.
type RefundResult struct {
	RefundID RefundID `json:"refund_id"`
	Status   Status   `json:"status,omitempty"`
}

// FactsChanged is the payload of the facts_changed signal: "look again". It never carries truth.
type FactsChanged struct {
	Source    string `json:"source"`    // "webhook", "sweep", "operator", "api"
	Reference string `json:"reference"` // what the source knows it by, for a person reading the history
}

// DecisionResult is the answer to a decision at every door.
type DecisionResult struct {
	ReviewID   ReviewID `json:"review_id"`
	DecisionID string   `json:"decision_id"`
	Verdict    Verdict  `json:"verdict"` // applied, proposed (it waits for a second person) or rejected
	Why        string   `json:"why,omitempty"`
	Replayed   bool     `json:"replayed,omitempty"` // the same decision had its effect before
}

// RegisterAttributesCommand is what an operator runs on a cluster where the search attributes are missing.
const RegisterAttributesCommand = "temporal operator search-attribute create" +
	" --name " + AttributeOrderStatus + " --type Keyword" +
	" --name " + AttributeReviewReason + " --type Keyword" +
	" --name " + AttributeReviewSince + " --type Datetime"
