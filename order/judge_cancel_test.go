package order

import "slices"

// judgeCancel is the cancel's part of the rules: it stops everything that is not under way, guesses nothing, and forgets no money.
func judgeCancel(f Facts, tr Trigger, c Change, bad check) {
	canceled, to := c.To(SubjectOrder) == OrderCanceled, c.To(SubjectCancel)
	bad(canceled == slices.Contains(c.Events, EventOrderCanceled), "order.canceled exactly when the order is canceled")
	bad(c.StopUnits == (canceled && f.Order.Status == OrderPaid), "units are stopped exactly when a paid order is canceled")
	if canceled {
		asked := tr.Kind == CancelAsked || f.Order.Cancel == CancelWaiting
		gone := f.Money != nil && !f.OtherMoney && !f.Order.External && f.Order.Status == OrderPaid
		bad(asked || gone, "canceled although nobody asked and the money is there")
		if f.Order.Status == OrderOpen {
			over := f.Attempt == nil || f.Attempt.Status == AttemptClosed || f.Attempt.Status == AttemptSucceeded || c.To(SubjectAttempt) == AttemptClosed || c.To(SubjectAttempt) == AttemptSucceeded
			bad(over, "canceled while an attempt could take money (rule 4)")
		}
		bad(c.To(SubjectAttempt) != AttemptSucceeded || to == CancelStopping, "money for a canceled order that nobody gives back")
	}
	if tr.Kind == CancelAsked && c.Verdict == Applied {
		bad(to != "", "asked for, and not written down")
		unsure := f.Attempt != nil && f.Attempt.Status != AttemptClosed && f.Attempt.Status != AttemptCreated && f.Attempt.Status != AttemptSucceeded
		part := f.Order.Status == OrderOpen && f.Attempt != nil && f.Attempt.Status == AttemptSucceeded
		bad(!part || to == CancelStopping, "a part of the money is here, and nobody gives it back")
		bad(f.Order.Status != OrderOpen || unsure == (to == CancelWaiting), "a cancel guesses, or waits for nothing")
	}
	if f.Order.Status == OrderOpen && f.Order.Cancel == CancelWaiting && c.To(SubjectAttempt) == AttemptClosed {
		bad(canceled && to == CancelDone, "the attempt is over, and the cancel still waits")
	}
	if f.Order.Status == OrderCanceled {
		bad(c.To(SubjectUnit) != UnitIssuing && c.To(SubjectUnit) != UnitPlanned && c.To(SubjectUnit) != UnitRefused, "goes on providing what is canceled")
		shown := slices.ContainsFunc(c.Open, func(o Opening) bool { return o.Reason == ReviewIssuedAfterCancel })
		bad((c.To(SubjectUnit) == UnitIssued) == shown, "provided after the cancel, and nobody is told")
		bad(c.To(SubjectOrder) == "", "a canceled order moves")
	}
	bad(c.To(SubjectUnit) != UnitCanceled || f.Order.Status == OrderCanceled, "a unit is canceled and its order is not")
	bad(to != CancelDone || f.Order.Cancel != CancelStopping || f.UnitsOpen == 0, "settled while goods may be on their way")
}
