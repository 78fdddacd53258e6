package order

import "slices"

// CancelID names the one cancel of an order: "can_…".
type CancelID string

// NewCancelID makes a fresh cancel id.
func NewCancelID() CancelID { return CancelID("can_" + random(24)) }

// CancelRefund is the refund that a cancel opens, derived from it: settling the cancel twice finds the same one. Its caller's key
// holds a space, which no caller's own key can.
func CancelRefund(id CancelID) (refund RefundID, callerKey string) {
	return RefundID("ref_" + string(id)), "cancel " + string(id)
}

// UpdateCancelOrder is the workflow's door for a cancel.
const UpdateCancelOrder = "cancel_order"

// CancelUpdateID makes the update of one cancel idempotent.
func CancelUpdateID(id CancelID) string { return "cancel-" + string(id) }

// CancelOrder is the argument of the cancel_order update. The cancel's row exists before the update is sent.
type CancelOrder struct {
	CancelID CancelID `json:"cancel_id"`
}

// CancelResult is its answer: how the cancel stands when nothing more comes by itself. Empty means that it is over.
type CancelResult struct {
	CancelID CancelID `json:"cancel_id"`
	Status   Status   `json:"status,omitempty"`
}

// Cancel states: somebody wants an order not to be carried out.
const (
	CancelWaiting  Status = "waiting"  // an attempt may have taken the money, or still could: it is found out or ended first
	CancelStopping Status = "stopping" // the order is canceled; what was being issued, and the money, are seen to
	CancelDone     Status = "done"
)

// CancelStatuses lists every state of a cancel.
var CancelStatuses = []Status{CancelWaiting, CancelStopping, CancelDone}

// cancelAsked: facts.Attempt is the order's unclosed attempt. A cancel never guesses what an attempt has done: while one may have
// taken money the order stays open, takes no other attempt, and is canceled by the answer that says what became of it.
func (f Facts) cancelAsked() Change {
	switch {
	case f.Order.Status == OrderCompleted:
		return rejected("order_completed")
	case f.Order.Status == OrderExpired:
		return rejected("order_expired")
	case f.Order.Cancel != "", f.Order.Status == OrderCanceled:
		return rejected("order_canceled")
	case f.Order.Status == OrderPaid:
		c := move(SubjectCancel, "", CancelStopping)
		f.stop(&c)
		return c
	case f.Attempt != nil && f.Attempt.Status == AttemptSucceeded: // it took a part, which pays for nothing and goes back
		c := move(SubjectCancel, "", CancelStopping)
		f.stop(&c)
		return c
	case f.Attempt == nil || f.Attempt.Status == AttemptClosed:
		c := move(SubjectCancel, "", CancelDone)
		f.stop(&c)
		return c
	case f.Attempt.Status == AttemptCreated: // nothing was sent, and the claim that would send it finds it closed
		c := move(SubjectCancel, "", CancelDone)
		f.stop(&c)
		c.Transitions = append(c.Transitions, Transition{SubjectAttempt, AttemptCreated, AttemptClosed})
		c.CloseReason, c.Resolve = ClosedBeforeSend, unsendable
		return c
	}
	return move(SubjectCancel, "", CancelWaiting)
}

// stop is the gate: from here on nothing of the order is provided that was not already being issued. The order's own state is the
// gate, so every claim of a unit finds it.
func (f Facts) stop(c *Change) {
	c.Transitions = append(c.Transitions, Transition{SubjectOrder, f.Order.Status, OrderCanceled})
	c.StopUnits = f.Order.Status == OrderPaid
	c.Events = append(slices.DeleteFunc(c.Events, func(e EventType) bool { return e == EventPaymentDeclined }), EventOrderCanceled)
}

// capturedOtherwise is money for a promise that would be kept by it, and must not be carried out as it stands: its cancel waits, or what the buyer paid for
// was replaced.
func (f Facts) capturedOtherwise(c Change) (Change, bool) {
	switch {
	case f.Attempt.Revision != f.Order.Revision:
		c.Open = append(c.Open, Opening{Subject: SubjectAttempt, Reason: ReviewLatePayment, Code: "promise_replaced"})
	case f.Order.Cancel == CancelWaiting:
		c.Transitions = append(c.Transitions, Transition{SubjectCancel, CancelWaiting, CancelStopping})
		f.stop(&c)
	default:
		return c, false
	}
	return c, true
}

// gate adds to a change what follows from it for an order that is canceled, or is to be, or holds no money any more.
func (f Facts) gate(t Trigger, c Change) Change {
	switch {
	case c.Verdict != Applied && c.Verdict != Mismatch:
	case f.Order.Status == OrderOpen && f.Order.Cancel == CancelWaiting:
		if c.To(SubjectAttempt) == AttemptClosed && c.To(SubjectOrder) == "" {
			c.Transitions = append(c.Transitions, Transition{SubjectCancel, CancelWaiting, CancelDone})
			f.stop(&c)
			c.LookPayment = t.Kind == PaymentObserved // it was ended at the provider: once more, to be sure
		}
	case f.Order.Status == OrderPaid:
		if c.To(SubjectOrder) == "" && c.Verdict == Applied && f.emptied(t, c) {
			f.stop(&c)
		}
	case f.Order.Status == OrderCanceled:
		f.afterCancel(&c)
	}
	return c
}

// emptied reports a change after which nothing of the money that pays for the order is left, or will be: it went back, or is on its
// way. Goods that were not handed over yet would be given away (S11).
func (f Facts) emptied(t Trigger, c Change) bool {
	if f.Money == nil || f.OtherMoney || f.Order.External {
		return false
	}
	after := *f.Money
	switch to := c.To(SubjectRefund); {
	case t.Kind == RefundOpened:
		after.RequestedMinor += t.Ask.Minor
	case to != "" && f.Refund != nil:
		after = after.Moved(f.Refund.Status, to, f.Refund.Amount.Minor)
	case c.Books == nil:
		return false
	}
	if c.Books != nil {
		after.RefundedMinor, after.ElsewhereMinor = c.Books.RefundedMinor, c.Books.ElsewhereMinor
	}
	return max(after.RefundedMinor, after.mostOurs())+after.RequestedMinor >= after.CapturedMinor // what is unknown counts as gone, once
}

// afterCancel: what was being issued when its order was canceled ends as canceled where nothing was provided, and as a question
// where it was.
func (f Facts) afterCancel(c *Change) {
	for i, t := range c.Transitions {
		switch {
		case t.Subject != SubjectUnit:
		case t.To == UnitRefused:
			c.Transitions[i].To = UnitCanceled
			c.Open = slices.DeleteFunc(c.Open, func(o Opening) bool { return o.Reason == ReviewIssuanceRefused || o.Reason == ReviewMisconfigured })
		case t.To == UnitIssued:
			c.Open = append(c.Open, Opening{Subject: SubjectUnit, Reason: ReviewIssuedAfterCancel})
		}
	}
}

// unitStopped: the order is canceled, and it is proven that the unit's request did nothing.
func (f Facts) unitStopped() Change {
	switch {
	case f.Unit == nil:
		return rejected("no_unit")
	case f.Order.Status != OrderCanceled:
		return rejected("order_not_canceled")
	case f.Unit.Status != UnitIssuing && f.Unit.Status != UnitUnknown:
		return rejected("settled")
	}
	c := move(SubjectUnit, f.Unit.Status, UnitCanceled)
	c.Resolve = []ReviewReason{ReviewIssuanceUnknown}
	return c
}

// closeUnit: a person proved that nothing of a canceled order's unit was provided.
func (f Facts) closeUnit() Change {
	switch f.Review.Reason {
	case ReviewIssuanceUnknown, ReviewIssuanceMismatch, ReviewIssuanceRefused:
	default:
		return Change{Verdict: Applied, EndReview: true}
	}
	switch {
	case f.Unit == nil || f.Order.Status != OrderCanceled:
		return rejected("still_owed")
	case f.Unit.Status == UnitIssued || f.Unit.Status == UnitCanceled || f.Unit.Status == UnitRevoked:
		return Change{Verdict: Applied, EndReview: true}
	case !f.Unit.RerunSafe:
		return rejected("too_early") // a request may still be under way (rule 3)
	}
	c := move(SubjectUnit, f.Unit.Status, UnitCanceled)
	c.EndReview, c.Resolve = true, []ReviewReason{ReviewIssuanceUnknown, ReviewIssuanceRefused, ReviewIssuanceMismatch}
	return c
}

// cancelSettled: everything of a canceled order is known, and its money was seen to. A word says why it was left to a person.
func (f Facts) cancelSettled(word string) Change {
	switch {
	case f.Order.Cancel != CancelStopping:
		return rejected("settled")
	case f.UnitsOpen > 0:
		return rejected("units_open")
	}
	c := move(SubjectCancel, CancelStopping, CancelDone)
	if word != "" {
		c.Open = []Opening{{Subject: SubjectOrder, Reason: ReviewRefundProposed, Code: word}}
	}
	return c
}

// promiseReplaced: facts.Attempt is the order's unclosed attempt. What an attempt is paying for never changes under it.
func (f Facts) promiseReplaced() Change {
	c := f.attemptOpened() // whatever stands in the way of a payment also stands in the way of another price
	if c.Verdict != Applied {
		return c
	}
	return Change{Verdict: Applied}
}

// CancelBill is what a canceled order's money is weighed by. All amounts are in minor units of one currency.
type CancelBill struct {
	CapturedMinor int64 // of the payment that pays for the order; 0 = none is with a provider
	LeftMinor     int64 // of it, what may still go back
	Adjusted      bool  // the order has adjustments
	Disputed      bool
	UnitsIssued   int64
	UnitsCanceled int64
	CanceledMinor int64 // what the canceled units cost by their lines
	ByOtherMeans  bool  // it was paid, and not through a provider
}

// Owed is what a cancel gives back: everything when nothing was provided, and otherwise what the canceled units cost, where the lines
// alone say it. A word means that a person has to say how much.
func (b CancelBill) Owed() (minor int64, word string) {
	switch {
	case b.ByOtherMeans:
		return 0, "paid_by_other_means"
	case b.CapturedMinor == 0 || b.LeftMinor <= 0:
		return 0, ""
	case b.Disputed:
		return 0, "refund_disputed"
	case b.UnitsIssued == 0:
		return b.LeftMinor, ""
	case b.UnitsCanceled == 0:
		return 0, ""
	case b.Adjusted:
		return 0, "adjustments" // a discount or shipping is nobody's line
	case b.LeftMinor != b.CapturedMinor:
		return 0, "refunded_before" // and for what is not known
	}
	return b.CanceledMinor, ""
}
