package order

import (
	"fmt"
	"slices"
)

var verdicts = []Verdict{Applied, Unchanged, Stale, Rejected, Mismatch}

// judge says everything that is wrong with a change. It is written from the rules, not from the code.
func judge(f Facts, tr Trigger, c Change) (wrong []string) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	bad(slices.Contains(verdicts, c.Verdict), "verdict %q is not known", c.Verdict)
	switch c.Verdict {
	case Rejected, Stale, Unchanged:
		bad(!hasEffects(c), "%s carries effects", c.Verdict)
		bad(c.Verdict == Unchanged || c.Why != "", "%s without a word", c.Verdict)
	case Mismatch:
		bad(len(c.Open) > 0 && c.Why != "", "a mismatch that nobody sees")
		bad(c.To(SubjectOrder) == "", "a mismatch moves the order")
	}
	judgeTransitions(f, tr, c, bad)
	judgeMoney(f, tr, c, bad)
	judgeUnit(f, tr, c, bad)
	judgeRefund(f, tr, c, bad)
	judgeBooks(f, tr, c, bad)
	judgeCorrection(f, tr, c, bad)
	judgeCancel(f, tr, c, bad)
	judgeDecision(f, tr, c, bad)
	return wrong
}

type check func(ok bool, format string, args ...any)

func hasEffects(c Change) bool {
	return len(c.Transitions)+len(c.Events)+len(c.Open)+len(c.Resolve) > 0 || c.RecordMoney || c.PlanUnits || c.StopUnits || c.NewOp || c.EndReview ||
		c.Books != nil || c.Standing != nil || c.Hold != nil || c.External || c.Restock || c.LookPayment || c.LookRefunds || c.LookAgain || c.CloseReason != ""
}

// now is the subject's present state, and whether the subject is there.
func now(f Facts, tr Trigger, s SubjectKind) (Status, bool) {
	switch {
	case s == SubjectOrder:
		return f.Order.Status, true
	case s == SubjectAttempt && tr.Kind == AttemptOpened:
		return "", true
	case s == SubjectAttempt && f.Attempt != nil:
		return f.Attempt.Status, true
	case s == SubjectUnit && f.Unit != nil:
		return f.Unit.Status, true
	case s == SubjectRefund && tr.Kind == RefundOpened:
		return "", true
	case s == SubjectRefund && f.Refund != nil:
		return f.Refund.Status, true
	case s == SubjectCancel:
		return f.Order.Cancel, true
	}
	return "", false
}

var statusesOf = map[SubjectKind][]Status{SubjectOrder: OrderStatuses, SubjectAttempt: AttemptStatuses, SubjectUnit: UnitStatuses, SubjectRefund: RefundStatuses, SubjectCancel: CancelStatuses}

func judgeTransitions(f Facts, tr Trigger, c Change, bad check) {
	moved := map[SubjectKind]bool{}
	for _, e := range c.Transitions {
		from, there := now(f, tr, e.Subject)
		bad(there, "moves a %s that is not there", e.Subject)
		bad(e.From == from, "moves %s from %q, which is %q", e.Subject, e.From, from)
		bad(slices.Contains(statusesOf[e.Subject], e.To), "moves %s to %q, which is no state", e.Subject, e.To)
		bad(e.From != e.To, "moves %s nowhere", e.Subject)
		bad(!moved[e.Subject], "moves %s twice", e.Subject)
		bad(published[e], "%s %q -> %q is not in the published graph", e.Subject, e.From, e.To)
		moved[e.Subject] = true
	}
	bad((c.To(SubjectAttempt) == AttemptClosed) == (c.CloseReason != ""), "closed and close reason do not go together")
	bad(len(c.Resolve) == 0 || len(c.Transitions) > 0 || c.EndReview || c.Standing != nil, "ends reviews without evidence that moved anything")
	for _, o := range c.Open {
		_, there := now(f, tr, o.Subject)
		bad(there, "opens a review of a %s that is not there", o.Subject)
		bad(len(GuidanceOf(o.Reason).Allowed) > 0, "opens a review that has no guidance: %s", o.Reason)
	}
}

func judgeMoney(f Facts, tr Trigger, c Change, bad check) {
	p, a := tr.Payment, f.Attempt
	paid := c.To(SubjectOrder) == OrderPaid
	captured := c.To(SubjectAttempt) == AttemptSucceeded
	if captured {
		bad(tr.Kind == PaymentObserved && p.Outcome == Succeeded, "captured without a provider's word")
		bad(p.Account == a.Account && p.MerchantReference == a.MerchantReference && p.Currency == a.Amount.Currency && p.AmountMinor == a.Amount.Minor &&
			p.CapturedMinor > 0 && p.CapturedMinor <= a.Amount.Minor && p.ProviderPaymentID != "" && (a.ProviderPaymentID == "" || a.ProviderPaymentID == p.ProviderPaymentID),
			"captured although the answer is not about this attempt (S4)")
		bad(p.RefundedMinor == 0, "goods are owed for money that went back (S7)")
		bad(p.ReadVersion == a.Version, "captured by a stale answer (rule 5)")
		bad(c.RecordMoney, "money without a payment row")
		bad(paid || len(c.Open) > 0 || c.To(SubjectCancel) == CancelStopping, "money that neither pays nor shows")
	}
	stands := f.Order.Status == OrderOpen && f.Order.Cancel == "" || f.Order.Status == OrderExpired && f.Order.TermsHold && f.Order.StockThere
	bad(!captured || p.CapturedMinor == a.Amount.Minor || !paid, "a part pays for the whole (S4)")
	keeps := captured && stands && p.CapturedMinor == a.Amount.Minor && a.Revision == f.Order.Revision
	person := tr.Kind == DecisionMade && f.Review != nil && (tr.Decision.Decision == DecideRecordExternal || tr.Decision.Decision == DecideRestoreReflection && f.Review.Reason == ReviewLatePayment)
	grew := paid && a != nil && a.Status == AttemptSucceeded && f.Money != nil && f.Money.CapturedMinor < a.Amount.Minor && p.CapturedMinor == a.Amount.Minor && p.ReadVersion == a.Version
	bad(paid == keeps || paid && (person || grew), "paid must be captured while the promise stands, or a person's word")
	bad(paid == c.PlanUnits, "units are planned exactly when the order becomes paid (S8)")
	bad(paid == slices.Contains(c.Events, EventOrderPaid), "order.paid exactly when the order becomes paid")
	completed := c.To(SubjectOrder) == OrderCompleted
	bad(completed == slices.Contains(c.Events, EventOrderCompleted), "order.completed exactly when the order completes")
	bad(!completed || (tr.Kind == FulfillmentChecked && f.UnitsOpen == 0 && f.Order.Status == OrderPaid), "completes with units open or without money")
	bad(!c.RecordMoney || (tr.Kind == PaymentObserved && p.CapturedMinor > 0), "records money that nobody saw")
	declined := slices.Contains(c.Events, EventPaymentDeclined)
	to := c.To(SubjectAttempt)
	bad(!declined || to == AttemptDeclined || to == AttemptClosed, "payment.declined without a decline")
	bad(!declined || p.Outcome == Declined || p.Outcome == Refused, "payment.declined without a provider's word")
	bad(to != AttemptDeclined || declined, "declined in silence")
	canceled := slices.Contains(c.Events, EventOrderCanceled)
	bad(len(c.Events) <= 1 || len(c.Events) == 2 && canceled, "more than one event of one trigger")
	bad(c.To(SubjectOrder) != OrderExpired || (tr.Kind == OrderLapsed && (a == nil || a.Status == AttemptClosed)), "expires while an attempt could take money (rule 4)")
	if to != "" && a != nil && tr.Kind != AttemptOpened {
		judgeAttempt(tr, c, *a, bad)
	}
	for _, o := range c.Open {
		bad(o.Reason != ReviewContradiction || o.Subject != SubjectAttempt || p.ReadVersion == a.Version, "calls an older truth a contradiction (rule 5)")
		bad(o.Reason != ReviewContradiction || o.Subject != SubjectRefund || c.Why != "contradiction" || tr.Refund.ReadVersion == f.Refund.Version, "calls an older truth a contradiction (rule 5)")
	}
}

func judgeAttempt(tr Trigger, c Change, a AttemptFacts, bad check) {
	p, from, to := tr.Payment, a.Status, c.To(SubjectAttempt)
	observed := tr.Kind == PaymentObserved
	bad(from != AttemptSucceeded, "leaves succeeded")
	if from == AttemptUnknown {
		definite := observed && (p.Outcome == Succeeded || p.Outcome == Declined || p.Outcome == Pending || p.Outcome == Refused || (p.Outcome == NotFound && p.Final))
		proven := tr.Kind == DecisionMade && tr.Decision.Evidence.Proof != "" && tr.Decision.Decision == DecideCloseWithEvidence
		bad(definite || proven, "leaves unknown without evidence (S9)")
	}
	if to == AttemptClosed && tr.Kind == PaymentObserved {
		bad(p.Final, "closed by an answer that is not final (rules 4 and 6)")
	}
	if to == AttemptClosed && (tr.Kind == AttemptClaimed || tr.Kind == CancelAsked) {
		bad(from == AttemptCreated && c.CloseReason == ClosedBeforeSend, "gives up something that was sent")
	}
	if observed {
		bad(c.Verdict == Mismatch || p.ReadVersion == a.Version, "moves by a stale answer (rule 5)")
	}
}

func judgeUnit(f Facts, tr Trigger, c Change, bad check) {
	to := c.To(SubjectUnit)
	bad(!c.NewOp || (tr.Kind == DecisionMade && tr.Decision.Decision == DecideRerunUnit), "a new operation without a decision (rule 7)")
	bad(c.NewOp == (to == UnitPlanned), "planned again and a new operation must be the same: the old key may have been used")
	if to == "" {
		return
	}
	u := f.Unit
	switch {
	case to == UnitIssuing, to == UnitPlanned:
		bad(f.Order.Status == OrderPaid && (to == UnitPlanned || f.Order.Hold == HoldNone), "provides without money (S7)")
	case to == UnitIssued && tr.Kind == UnitProvided:
		bad(f.Order.Status == OrderPaid && f.Order.Hold == HoldNone && u.Status == UnitPlanned, "provides without money or twice")
	}
	bad(to != UnitPlanned || (u.RerunSafe && tr.Decision.Evidence.Proof != ""), "runs again while a request may be under way, or without proof (rule 3)")
	bad(u.Status != UnitIssued && u.Status != UnitCanceled && u.Status != UnitRevoked, "leaves a settled state")
	if tr.Kind == IssuanceObserved {
		s := tr.Issuance
		bad(to != UnitIssued || (s.Outcome == Issued && s.OperationID == u.Operation), "issued by an answer about something else")
		bad(to != UnitRefused || (s.Outcome == Refused && (s.OperationID == "" || s.OperationID == u.Operation)), "refused by an answer about something else")
	}
	if u.Status == UnitUnknown {
		told := tr.Kind == IssuanceObserved && (tr.Issuance.Outcome == Issued || tr.Issuance.Outcome == Refused)
		bad(tr.Kind == DecisionMade || told || tr.Kind == UnitStopped, "leaves unknown without evidence (S9)")
	}
}

func judgeDecision(f Facts, tr Trigger, c Change, bad check) {
	d, r := tr.Decision, f.Review
	if tr.Kind != DecisionMade {
		bad(!c.EndReview && !c.LookAgain, "decides without a person")
		return
	}
	if c.Verdict != Applied {
		bad(c.Verdict == Rejected, "a decision is applied or rejected, not %s", c.Verdict)
		return
	}
	bad(r != nil && r.Open, "decides on a review that is not open")
	bad(d.Actor != "" && d.Reason != "" && d.ReviewID != "", "decides without actor, reason or review")
	bad(GuidanceOf(r.Reason).Allows(d.Decision), "decides what the guidance does not list")
	bad(d.ReviewVersion == 0 || d.ReviewVersion == r.Version, "decides on a stale review")
	bad(r.SubjectVersion == f.subjectVersion(r.SubjectKind), "decides on a subject that moved")
	bad(c.EndReview != c.LookAgain, "a decision either ends the review or asks for a look")
	if c.EndReview {
		bad(d.Evidence != Evidence{}, "ends a review without evidence")
	}
	bad(c.To(SubjectUnit) != UnitIssued || d.Evidence.Reference != "", "provided without the issuer's reference")
	told := c.To(SubjectRefund) != ""       // a refund that is settled by a person is told like any other, and books what it gave back
	pays := c.To(SubjectOrder) == OrderPaid // judged with the money
	stopped := c.To(SubjectOrder) == OrderCanceled
	bad(!c.RecordMoney && (!c.PlanUnits || pays) && (len(c.Events) == 0 || told || pays || stopped), "a decision invents money, units or events")
	for _, o := range c.Open {
		bad(told && o.Reason == ReviewCorrection || o.Reason == ReviewIssuedAfterCancel, "a decision asks a question of its own: %s", o.Reason)
	}
}

func describe(f Facts) string {
	s := fmt.Sprintf("order=%+v other=%t out=%d", f.Order, f.OtherMoney, f.UnitsOut)
	if f.Attempt != nil {
		s += fmt.Sprintf(" attempt=%+v", *f.Attempt)
	}
	if f.Unit != nil {
		s += fmt.Sprintf(" unit=%+v", *f.Unit)
	}
	if f.Refund != nil {
		s += fmt.Sprintf(" refund=%+v", *f.Refund)
	}
	if f.Money != nil {
		s += fmt.Sprintf(" money=%+v", *f.Money)
	}
	if f.Review != nil {
		s += fmt.Sprintf(" review=%+v", *f.Review)
	}
	return s
}
