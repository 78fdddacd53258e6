package order

import "slices"

// counted is every minor unit that went back, or that may yet, by the books: what must never pass what was captured because of us.
func counted(m MoneyFacts) int64 {
	return max(m.RefundedMinor, m.ElsewhereMinor+m.SucceededMinor+m.PendingMinor+m.UnderwayMinor) + m.RequestedMinor
}

// judgeRefund is the refund's part of the rules: asked for within what is left, sent once, unknown until evidence, told once.
func judgeRefund(f Facts, tr Trigger, c Change, bad check) {
	to := c.To(SubjectRefund)
	bad(!slices.Contains(c.Events, EventRefundSucceeded) || to == RefundSucceeded, "refund.succeeded without a success")
	bad(!slices.Contains(c.Events, EventRefundFailed) || to == RefundFailed, "refund.failed without a failure")
	if to == "" {
		return
	}
	stopped := c.To(SubjectOrder) // what is left of the money pays for nothing any more
	bad((stopped == "" || stopped == OrderCanceled) && c.To(SubjectAttempt) == "" && c.To(SubjectUnit) == "", "a refund moves something else")
	bad((to == RefundSucceeded) == slices.Contains(c.Events, EventRefundSucceeded), "goes back in silence")
	bad((to == RefundFailed) == slices.Contains(c.Events, EventRefundFailed), "fails in silence")
	if tr.Kind == RefundOpened {
		m := f.Money
		bad(m != nil && f.Attempt != nil && f.Attempt.Status == AttemptSucceeded, "gives back what was not captured")
		bad(tr.Ask.Minor > 0 && tr.Ask.Currency == m.Currency, "an amount that is none, or of another currency")
		bad(counted(*m)+tr.Ask.Minor <= m.CapturedMinor, "gives back more than is left (PC-43)")
		bad(m.Dispute != DisputeOpen && m.Dispute != DisputeLost && !m.TakenBack, "gives back what the bank gives back (PC-46)")
		return
	}
	r, p := f.Refund, tr.Refund
	observed := tr.Kind == RefundObserved
	person := tr.Kind == DecisionMade
	if to == RefundSent {
		bad(tr.Kind == RefundClaimed && r.Status == RefundRequested, "sent by what claims nothing, or twice (rule 2)")
		bad(f.Money.Dispute != DisputeOpen && f.Money.Dispute != DisputeLost && !f.Money.TakenBack && counted(*f.Money) <= f.Money.CapturedMinor, "sent although nothing is left")
	}
	if observed {
		bad(c.Verdict == Mismatch || p.ReadVersion == r.Version, "moves by a stale answer (rule 5)")
		fits := p.Account == r.Account && p.ProviderPaymentID == r.ProviderPaymentID && p.Currency == r.Amount.Currency && p.AmountMinor == r.Amount.Minor &&
			(p.Reference == "" || p.Reference == r.Reference) && (p.ProviderRefundID == "" || r.ProviderRefundID == "" || p.ProviderRefundID == r.ProviderRefundID) &&
			(!p.Taken || r.ProviderRefundID != "")
		bad(to != RefundSucceeded || p.Outcome == Succeeded && fits, "went back by an answer about something else (S4)")
		bad(to != RefundPending || p.Outcome == Pending && fits, "is under way by an answer about something else")
		failed := p.Outcome == Declined && fits || p.Outcome == Refused && r.Sends <= 1 || p.Outcome == NotFound && p.Final && r.ProviderRefundID == ""
		bad(to != RefundFailed || failed, "failed without evidence (S9, rule 6)")
	}
	if r.Status == RefundUnknown {
		evidence := observed && p.Outcome != Unknown && p.Outcome != Refused
		bad(evidence || person && tr.Decision.Evidence != (Evidence{}), "leaves unknown without evidence (S9, PC-44)")
		bad(!person || to != RefundFailed || r.Quiet, "called off while a request may be under way (rule 3)")
	}
	bad(to != RefundSucceeded || observed || person && tr.Decision.Decision == DecideConfirmRefunded && tr.Decision.Evidence.Reference != "", "went back without a word")
	bad(r.Status != RefundSucceeded || observed && to == RefundFailed && p.Outcome == Declined, "takes a success back without the provider's word")
	if to == RefundFailed && !person {
		shown := slices.ContainsFunc(c.Open, func(o Opening) bool { return o.Subject == SubjectRefund && o.Reason == ReviewRefundFailed })
		bad(shown, "fails and nobody sees it")
	}
	if to == RefundSucceeded {
		bad(slices.Contains(c.Resolve, ReviewRefundFailed) && slices.Contains(c.Resolve, ReviewRefundUnknown), "went back, and a review says that it did not")
	}
}

// judgeBooks: what the payment's row says follows the provider's fresh word, and what is left is never more than it may be.
func judgeBooks(f Facts, tr Trigger, c Change, bad check) {
	m := f.Money
	ended := c.To(SubjectCancel) == CancelDone && c.To(SubjectAttempt) == AttemptClosed // at the provider, so it is looked at once more
	if m == nil {
		bad(c.Books == nil && (!c.LookPayment || ended) && !c.LookRefunds, "books of no payment")
		return
	}
	after := *m
	if to := c.To(SubjectRefund); to != "" && tr.Kind != RefundOpened {
		after = m.Moved(f.Refund.Status, to, f.Refund.Amount.Minor)
	}
	if b := c.Books; b != nil {
		after.RefundedMinor, after.ElsewhereMinor = b.RefundedMinor, b.ElsewhereMinor
		bad(b.RefundedMinor >= 0 && b.RefundedMinor <= m.CapturedMinor, "more went back than came in, or less than nothing")
		bad(b.ElsewhereMinor >= 0 && b.ElsewhereMinor <= b.RefundedMinor, "elsewhere is a part of what went back")
	}
	switch tr.Kind {
	case PaymentObserved:
		if c.Books == nil {
			break
		}
		p := tr.Payment
		bad(p.ReadVersion == f.Attempt.Version && p.Outcome == Succeeded && f.Attempt.Status == AttemptSucceeded, "books by a stale answer, or by none (rule 5)")
		bad(after.RefundedMinor == p.RefundedMinor, "the books do not say what the provider says")
		explained := p.RefundedMinor >= m.ElsewhereMinor+m.SucceededMinor && p.RefundedMinor <= m.ElsewhereMinor+m.SucceededMinor+m.PendingMinor+m.UnderwayMinor
		shown := slices.ContainsFunc(c.Open, func(o Opening) bool { return o.Reason == ReviewCorrection && o.Subject == SubjectAttempt })
		bad(explained != shown, "a correction is shown exactly when no refund of ours explains it")
		// What may be ours still counts twice until it is known: more is never left than the provider would give.
		bad(after.Left() <= m.CapturedMinor-p.RefundedMinor-m.RequestedMinor, "more is left than the provider has")
	case RefundObserved, RefundClaimed, DecisionMade:
		bad(c.Books == nil || c.To(SubjectRefund) != "", "books without a refund that moved")
		bad(after.RefundedMinor >= min(m.CapturedMinor, after.ElsewhereMinor+after.SucceededMinor) || after.RefundedMinor == m.RefundedMinor, "a success that is not in the books")
		if f.Refund != nil && f.Refund.Status == RefundSucceeded && c.To(SubjectRefund) == RefundFailed {
			bad(after.Left() >= m.Left(), "the amount of a refund that came back may not be refunded again")
		}
		to := c.To(SubjectRefund)
		bad(to != RefundSucceeded && to != RefundPending && to != RefundUnknown || counted(after) <= max(m.CapturedMinor, counted(*m)) ||
			slices.ContainsFunc(c.Open, func(o Opening) bool { return o.Reason == ReviewCorrection }), "more goes back than came in, and nobody sees it")
	default:
		bad(c.Books == nil && !c.LookPayment && !c.LookRefunds, "%s books money", tr.Kind)
	}
}
