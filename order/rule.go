package order

import "orderflow/internal/fault"

// Apply is the transition rule: facts and one trigger in, the change out. It is pure and total: every combination of
// states and triggers has an answer, and what is not allowed is Rejected with a reason instead of an error.
//
// The API, the workflow, webhooks, sweeps and operators all come through here, so none of them can do what another may not.
func Apply(f Facts, t Trigger) Change { return f.gate(t, f.apply(t)) }

func (f Facts) apply(t Trigger) Change {
	switch t.Kind {
	case AttemptOpened:
		return f.attemptOpened()
	case AttemptClaimed:
		return f.attemptClaimed()
	case PaymentObserved:
		return f.paymentObserved(t.Payment)
	case PaymentUnresolved:
		return f.paymentUnresolved(t.Code)
	case OrderLapsed:
		return f.orderLapsed()
	case UnitClaimed:
		return f.unitClaimed()
	case UnitProvided:
		return f.unitProvided()
	case IssuanceObserved:
		return f.issuanceObserved(t.Issuance)
	case IssuanceUnresolved:
		return f.issuanceUnresolved(t.Code)
	case FulfillmentChecked:
		return f.fulfillmentChecked()
	case RefundOpened:
		return f.refundOpened(t.Ask)
	case RefundClaimed:
		return f.refundClaimed()
	case RefundObserved:
		return f.refundObserved(t.Refund)
	case RefundUnresolved:
		return f.refundUnresolved(t.Code)
	case CancelAsked:
		return f.cancelAsked()
	case CancelSettled:
		return f.cancelSettled(t.Code)
	case UnitStopped:
		return f.unitStopped()
	case PromiseReplaced:
		return f.promiseReplaced()
	case DecisionMade:
		return f.decided(t)
	}
	return rejected("unknown_trigger")
}

func rejected(why string) Change { return Change{Verdict: Rejected, Why: why} }

func unchanged() Change { return Change{Verdict: Unchanged} }

// move starts an applied change with one transition.
func move(s SubjectKind, from, to Status) Change {
	return Change{Verdict: Applied, Transitions: []Transition{{Subject: s, From: from, To: to}}}
}

// attemptOpened: facts.Attempt is the order's unclosed attempt, if there is one (rule 4).
func (f Facts) attemptOpened() Change {
	switch f.Order.Status {
	case OrderPaid, OrderCompleted:
		return rejected("already_paid")
	case OrderExpired:
		return rejected("order_expired")
	case OrderCanceled:
		return rejected("order_canceled")
	}
	if f.Order.Cancel != "" {
		return rejected("order_canceling")
	}
	if f.Attempt == nil {
		return move(SubjectAttempt, "", AttemptCreated)
	}
	switch f.Attempt.Status {
	case AttemptClosed:
		return move(SubjectAttempt, "", AttemptCreated)
	case AttemptSucceeded:
		return rejected("already_paid") // captured, and about to be reflected
	case AttemptPending:
		return rejected("attempt_pending")
	case AttemptDeclined:
		return rejected("attempt_closing")
	}
	return rejected("attempt_unresolved")
}

func (f Facts) attemptClaimed() Change {
	if f.Attempt == nil {
		return rejected("no_attempt")
	}
	if f.Attempt.Status != AttemptCreated {
		return rejected("already_claimed")
	}
	if f.Order.Status != OrderOpen || f.Order.Cancel != "" {
		// An earlier attempt captured late, or the promise is over: this one is given up before anything was sent.
		c := move(SubjectAttempt, AttemptCreated, AttemptClosed)
		c.Why, c.CloseReason, c.Resolve = "order_not_open", ClosedBeforeSend, unsendable
		return c
	}
	c := move(SubjectAttempt, AttemptCreated, AttemptSent)
	c.Resolve = unsendable // what kept it from being sent is over
	return c
}

// unsendable are the reviews of an attempt that could not be sent at all.
var unsendable = []ReviewReason{ReviewMisconfigured, ReviewRepeatedFailure}

func (f Facts) paymentObserved(p PaymentSeen) Change {
	a := f.Attempt
	if a == nil {
		return rejected("no_attempt")
	}
	if why := f.misbound(p); why != "" && (why != "captured_amount_differs" || !f.partly(p) && !f.grown(p)) {
		return f.mismatch(p, why)
	}
	to, contradiction := attemptNext(a.Status, p)
	switch {
	case contradiction && p.ReadVersion != a.Version:
		// It was read before what it seems to contradict, so it may be no more than an older truth: a fresh look decides.
		return Change{Verdict: Stale, Why: "version_moved"}
	case contradiction:
		if c, moved := f.takenBack(p); moved {
			return c
		}
		return Change{Verdict: Mismatch, Why: "contradiction", Open: []Opening{{Subject: SubjectAttempt, Reason: ReviewContradiction, Code: p.Code}}}
	}
	if to == a.Status {
		if f.grown(p) {
			return f.grow(p)
		}
		if to == AttemptSucceeded && p.Outcome == Succeeded {
			return f.corrected(p)
		}
		return unchanged()
	}
	if p.ReadVersion != a.Version {
		return Change{Verdict: Stale, Why: "version_moved"}
	}
	c := move(SubjectAttempt, a.Status, to)
	switch to {
	case AttemptSucceeded:
		c = f.captured(c, p)
	case AttemptDeclined, AttemptClosed:
		c = f.notCaptured(c, p)
	}
	switch a.Status {
	case AttemptUnknown:
		c.Resolve = append(c.Resolve, ReviewConfirmUnknown)
	case AttemptDeclined: // the cancel that kept failing has its answer
		c.Resolve = append(c.Resolve, ReviewRepeatedFailure)
	}
	return c
}

// misbound compares an answer with what was stored before the send: an answer is checked even when it should be the replay
// of our own request (S4).
func (f Facts) misbound(p PaymentSeen) string {
	a := f.Attempt
	switch p.Outcome {
	case Succeeded, Pending, Declined, Untouched:
	default:
		return "" // no payment object in the answer
	}
	switch {
	case p.Account != a.Account:
		return "account_differs"
	case a.ProviderPaymentID != "" && p.ProviderPaymentID != a.ProviderPaymentID:
		return "payment_id_differs"
	case p.ProviderPaymentID == "":
		return "payment_id_missing"
	case p.MerchantReference != a.MerchantReference:
		return "reference_differs"
	case p.Currency != a.Amount.Currency:
		return "currency_differs"
	case p.AmountMinor != a.Amount.Minor:
		return "amount_differs"
	case p.Outcome == Succeeded && (p.CapturedMinor != a.Amount.Minor || a.Status == AttemptSucceeded && f.Money != nil && p.CapturedMinor != f.Money.CapturedMinor):
		return "captured_amount_differs"
	case p.Outcome == Succeeded && (p.RefundedMinor > 0 || p.Dispute == DisputeLost) && a.Status != AttemptSucceeded:
		return "money_went_back" // it was captured once; what is left does not pay the order
	}
	return ""
}

// mismatch never moves an order to paid. Money that is surely ours in the wrong amount is recorded all the same: a fact
// is not dropped because it is unwelcome.
func (f Facts) mismatch(p PaymentSeen, why string) Change {
	c := Change{Verdict: Mismatch, Why: why, Open: []Opening{{Subject: SubjectAttempt, Reason: ReviewPaymentMismatch, Code: why}}}
	if s := f.Attempt.Status; s == AttemptCreated || s == AttemptSent {
		c.Transitions = []Transition{{Subject: SubjectAttempt, From: s, To: AttemptUnknown}}
	}
	switch why {
	case "currency_differs", "amount_differs", "captured_amount_differs", "money_went_back":
		c.RecordMoney = p.CapturedMinor > 0
	}
	return c
}

// attemptNext is the attempt's graph. The second result reports an answer that contradicts a settled state.
func attemptNext(from Status, p PaymentSeen) (to Status, contradiction bool) {
	open := from == AttemptCreated || from == AttemptSent || from == AttemptUnknown
	switch p.Outcome {
	case Succeeded:
		return AttemptSucceeded, false
	case Declined, Refused:
		if from == AttemptSucceeded {
			return from, true
		}
		if from == AttemptClosed || p.Final {
			return AttemptClosed, false
		}
		return AttemptDeclined, false
	case Pending:
		if from == AttemptSucceeded || from == AttemptClosed {
			return from, true
		}
		return AttemptPending, false
	case Untouched:
		return from, from == AttemptSucceeded
	case NotFound:
		if p.Final && open && from != AttemptCreated {
			return AttemptClosed, false
		}
	case Unknown:
		if open {
			return AttemptUnknown, false
		}
	}
	return from, false
}

// captured: money is held. What it means depends on the promise.
func (f Facts) captured(c Change, p PaymentSeen) Change {
	c.RecordMoney = true
	partly := p.CapturedMinor < f.Attempt.Amount.Minor
	if f.Order.Status == OrderOpen || f.revivable() {
		if c, otherwise := f.capturedOtherwise(c); otherwise {
			return f.capturedInDispute(c, p)
		}
	}
	switch {
	case partly && f.Order.Status == OrderOpen:
		c.Open = append(c.Open, Opening{Subject: SubjectAttempt, Reason: ReviewPaymentMismatch, Code: partlyCaptured})
	case !partly && (f.Order.Status == OrderOpen || f.revivable()):
		c.Transitions = append(c.Transitions, Transition{Subject: SubjectOrder, From: f.Order.Status, To: OrderPaid})
		c.PlanUnits, c.Restock = true, f.Order.Status == OrderExpired
		c.Events = append(c.Events, EventOrderPaid)
	case f.Order.Status == OrderPaid, f.Order.Status == OrderCompleted:
		c.Open = append(c.Open, Opening{Subject: SubjectAttempt, Reason: ReviewExtraPayment})
		if f.Order.Hold != HoldNone && !partly { // what the first payment does not pay for any more, this one does
			none := HoldNone
			c.Hold = &none
		}
	default: // expired, canceled
		why := f.whyLate()
		if partly && f.revivable() {
			why = partlyCaptured
		}
		c.Open = append(c.Open, Opening{Subject: SubjectAttempt, Reason: ReviewLatePayment, Code: why})
	}
	return f.capturedInDispute(c, p)
}

func (f Facts) notCaptured(c Change, p PaymentSeen) Change {
	if c.To(SubjectAttempt) == AttemptClosed {
		c.CloseReason = closeReason(f.Attempt.Status, p)
	}
	if f.Attempt.Status != AttemptDeclined && p.Outcome != NotFound {
		c.Events = append(c.Events, EventPaymentDeclined)
	}
	if p.Outcome == Refused {
		c.Open = append(c.Open, Opening{Subject: SubjectAttempt, Reason: refusalReason(p.Code), Code: p.Code})
	}
	return c
}

func closeReason(from Status, p PaymentSeen) CloseReason {
	switch {
	case p.Outcome == NotFound:
		return ClosedNeverSent
	case p.Outcome == Refused:
		return ClosedRefused
	case from == AttemptDeclined || p.Code != "":
		return ClosedDeclined
	}
	return ClosedCanceled
}

func (f Facts) paymentUnresolved(code string) Change {
	if f.Attempt == nil {
		return rejected("no_attempt")
	}
	c := Change{Verdict: Applied, Open: []Opening{{Subject: SubjectAttempt, Reason: ReviewConfirmUnknown, Code: code}}}
	switch f.Attempt.Status {
	case AttemptSent:
		c.Transitions = []Transition{{Subject: SubjectAttempt, From: AttemptSent, To: AttemptUnknown}}
	case AttemptPending: // the provider knows more than it settles by itself, such as money that came late or not in full
		c.Transitions = []Transition{{Subject: SubjectAttempt, From: AttemptPending, To: AttemptUnknown}}
	case AttemptUnknown:
	case AttemptCreated: // it cannot even be sent: nothing is in doubt, but nothing moves by itself either
		c.Open[0].Reason = ReviewRepeatedFailure
		if refusalReason(code) == ReviewMisconfigured {
			c.Open[0].Reason = ReviewMisconfigured
		}
	case AttemptDeclined: // the cancel that should close it got no answer: nothing was captured, but it still could be
		c.Open[0].Reason = ReviewRepeatedFailure
	default:
		return rejected("settled")
	}
	return c
}

// orderLapsed: facts.Attempt is the unclosed attempt. Stock is never released while an attempt is open (rule 4).
func (f Facts) orderLapsed() Change {
	if f.Order.Status != OrderOpen {
		return rejected("not_open")
	}
	if f.Attempt != nil && f.Attempt.Status != AttemptClosed {
		return rejected("attempt_open")
	}
	return move(SubjectOrder, OrderOpen, OrderExpired)
}

func (f Facts) unitClaimed() Change {
	if f.Unit == nil {
		return rejected("no_unit")
	}
	if f.Order.Status != OrderPaid {
		return rejected("order_not_paid") // S7
	}
	if f.Order.Hold != HoldNone {
		return rejected("order_held")
	}
	if f.Unit.Status != UnitPlanned {
		return rejected("already_claimed")
	}
	return move(SubjectUnit, UnitPlanned, UnitIssuing)
}

func (f Facts) unitProvided() Change {
	if f.Unit == nil {
		return rejected("no_unit")
	}
	if f.Unit.Status == UnitIssued {
		return unchanged()
	}
	if f.Order.Status != OrderPaid {
		return rejected("order_not_paid")
	}
	if f.Order.Hold != HoldNone {
		return rejected("order_held")
	}
	if f.Unit.Status != UnitPlanned {
		return rejected("not_planned")
	}
	return move(SubjectUnit, UnitPlanned, UnitIssued)
}

func (f Facts) issuanceObserved(s IssuanceSeen) Change {
	u := f.Unit
	if u == nil {
		return rejected("no_unit")
	}
	if c, other := f.otherOperation(s); other {
		return c
	}
	to, contradiction := unitNext(u.Status, s.Outcome)
	if contradiction {
		return Change{Verdict: Mismatch, Why: "contradiction", Open: []Opening{{Subject: SubjectUnit, Reason: ReviewContradiction, Code: s.Code}}}
	}
	if to == u.Status {
		return unchanged()
	}
	c := move(SubjectUnit, u.Status, to)
	switch to {
	case UnitRefused:
		c.Open = append(c.Open, Opening{Subject: SubjectUnit, Reason: ReviewIssuanceRefused, Code: s.Code})
		c.Resolve = append(c.Resolve, ReviewIssuanceUnknown)
	case UnitIssued:
		c.Resolve = append(c.Resolve, ReviewIssuanceUnknown, ReviewIssuanceRefused)
	}
	return c
}

// otherOperation answers what is said about another operation than the unit's current one. A late refusal, loss or "not
// found" of an earlier generation says nothing about the one that may be under way; "issued" under another id says that
// goods may be out, so the unit is not issued until a person has looked.
func (f Facts) otherOperation(s IssuanceSeen) (Change, bool) {
	u := f.Unit
	if s.OperationID == u.Operation {
		return Change{}, false
	}
	switch s.Outcome {
	case Issued, Processing:
	case Refused:
		if s.OperationID == "" { // a refusal need not repeat the id
			return Change{}, false
		}
		if u.ID.owns(s.OperationID) {
			return Change{Verdict: Stale, Why: "operation_moved"}, true
		}
	default:
		if s.OperationID == "" {
			return Change{}, false
		}
		return Change{Verdict: Stale, Why: "operation_moved"}, true
	}
	c := Change{Verdict: Mismatch, Why: "operation_differs", Open: []Opening{{Subject: SubjectUnit, Reason: ReviewIssuanceMismatch}}}
	if u.Status == UnitIssuing || u.Status == UnitPlanned {
		c.Transitions = []Transition{{Subject: SubjectUnit, From: u.Status, To: UnitUnknown}}
	}
	return c, true
}

// unitNext is the unit's graph for an issuer's answers. "Not found" moves nothing: whether it may be sent again is the
// operation's question, and the unit stays claimed.
func unitNext(from Status, o Outcome) (to Status, contradiction bool) {
	switch o {
	case Issued:
		if from == UnitCanceled || from == UnitRevoked {
			return from, from == UnitCanceled
		}
		return UnitIssued, false
	case Refused:
		if from == UnitIssued {
			return from, true
		}
		if from == UnitIssuing || from == UnitUnknown {
			return UnitRefused, false
		}
	case Unknown:
		if from == UnitIssuing {
			return UnitUnknown, false
		}
	}
	return from, false
}

func (f Facts) issuanceUnresolved(code string) Change {
	if f.Unit == nil {
		return rejected("no_unit")
	}
	c := Change{Verdict: Applied, Open: []Opening{{Subject: SubjectUnit, Reason: ReviewIssuanceUnknown, Code: code}}}
	switch f.Unit.Status {
	case UnitIssuing:
		c.Transitions = []Transition{{Subject: SubjectUnit, From: UnitIssuing, To: UnitUnknown}}
	case UnitUnknown:
	case UnitPlanned:
		if f.Order.Status != OrderPaid || f.Order.Hold != HoldNone || fault.PolicyOf(fault.Code(code)).Retry {
			return rejected("not_sent") // nothing was sent: the same step runs again
		}
		// It cannot be asked for at all (no such issuer, a request it could not read): nothing was provided.
		c.Open[0].Reason = ReviewIssuanceRefused
		c.Transitions = []Transition{{Subject: SubjectUnit, From: UnitPlanned, To: UnitRefused}}
	default:
		return rejected("settled")
	}
	return c
}

func (f Facts) fulfillmentChecked() Change {
	if f.Order.Status != OrderPaid || f.UnitsOpen > 0 {
		return unchanged()
	}
	c := move(SubjectOrder, OrderPaid, OrderCompleted)
	c.Events = []EventType{EventOrderCompleted}
	return c
}
