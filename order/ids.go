package order

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// Ids are types of their own, so that an attempt can never be passed where a unit is meant.
type (
	// ID is the order id the checkout backend chose: 1 to 64 printable characters. It is never sent to a payment provider.
	ID string
	// ClientID names the checkout backend that owns an order.
	ClientID string
	// AttemptID is ours: "att_…".
	AttemptID string
	// PaymentID is our row for a payment a provider told us of: "pay_…".
	PaymentID string
	// OperationID names one outside write: "op_…". It is also the key that goes to the other side.
	OperationID string
	// UnitID is derived from the order's line and ordinal, so planning twice makes the same units.
	UnitID string
	// ReviewID is ours: "rev_…".
	ReviewID string
	// RefundID is ours: "ref_…".
	RefundID string
	// OrphanID names a payment at a provider that no attempt explains: "orp_…".
	OrphanID string
	// EventID is what receivers see as webhook-id: "evt_…".
	EventID string
)

// alphabet leaves out letters that people confuse; the result is upper-case letters and digits only, which every provider
// accepts in a reference.
var alphabet = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// random returns n characters of 5 bits each.
func random(n int) string {
	b := make([]byte, (n*5+7)/8)
	_, _ = rand.Read(b) // never fails since Go 1.24: it would end the process
	return alphabet.EncodeToString(b)[:n]
}

// NewAttemptID makes a fresh attempt id. Like all makers of ids here it belongs to whoever opens the row, never to a
// workflow: a retry reads the stored one.
func NewAttemptID() AttemptID { return AttemptID("att_" + random(24)) }

// NewPaymentID makes a fresh payment id.
func NewPaymentID() PaymentID { return PaymentID("pay_" + random(24)) }

// NewOperationID makes a fresh operation id.
func NewOperationID() OperationID { return OperationID("op_" + random(26)) }

// NewReviewID makes a fresh review id.
func NewReviewID() ReviewID { return ReviewID("rev_" + random(24)) }

// NewRefundID makes a fresh refund id.
func NewRefundID() RefundID { return RefundID("ref_" + random(24)) }

// NewOrphanID makes a fresh id of an orphan payment.
func NewOrphanID() OrphanID { return OrphanID("orp_" + random(24)) }

// NewEventID makes a fresh event id.
func NewEventID() EventID { return EventID("evt_" + random(24)) }

// NewMerchantReference makes what providers know an attempt by: 18 upper-case letters and digits, short enough for the
// tightest provider limit (20), unique by 80 random bits, and no part of the order id.
func NewMerchantReference() string { return "OF" + random(16) }

// NewRefundReference makes what providers know a refund by: as a merchant reference, and told from one at sight.
func NewRefundReference() string { return "RF" + random(16) }

// RefundOperation is the id of the outside write that gives the money back. It is derived, and there is no second one: a refund
// whose key is spoiled stays unknown until it is known, and who wants to try again opens another refund (rule 7).
func RefundOperation(id RefundID) OperationID { return OperationID("op_refund_" + string(id)) }

// UnitKey is the natural key of a unit.
type UnitKey struct {
	Order    ID
	Line     int // line number, from 1
	Ordinal  int // 1 … quantity
	Action   Action
	Revision int // of the order's promise
}

// ID derives the unit's id from its natural key. It carries no part of the order id, so it may go to an issuer as it is.
func (k UnitKey) ID() UnitID {
	h := sha256.Sum256(fmt.Appendf(nil, "%q/%d/%d/%s/%d", k.Order, k.Line, k.Ordinal, k.Action, k.Revision))
	return UnitID("unit_" + alphabet.EncodeToString(h[:])[:26])
}

// IssueOperation is the id of the outside write that issues a unit. It is derived, so every try of every run sends the
// same key; the generation rises only by an operator's decision to run a unit again (rule 7).
func IssueOperation(unit UnitID, generation int) OperationID {
	if generation <= 1 {
		return OperationID("op_issue_" + string(unit))
	}
	return OperationID(fmt.Sprintf("op_issue_%s.%d", unit, generation))
}

// owns reports whether op is one of the unit's own operations, of whatever generation.
func (u UnitID) owns(op OperationID) bool {
	first := string(IssueOperation(u, 1))
	return string(op) == first || strings.HasPrefix(string(op), first+".")
}
