package order

import (
	"regexp"

	"orderflow/internal/money"
)

var refundReason = regexp.MustCompile(`^[a-z][a-z0-9_]{0,49}$`)

// ValidRefundReason reports whether a caller's reason is one word of ours to keep: it goes to logs and pages, so free text does not.
func ValidRefundReason(word string) bool { return refundReason.MatchString(word) }

// refundOpened: facts.Attempt is the attempt whose money is to go back. What is unknown counts as gone, so two refunds can never
// give back more than was captured, whatever becomes of them.
func (f Facts) refundOpened(ask money.Amount) Change {
	m := f.Money
	switch {
	case f.Attempt == nil || f.Attempt.Status != AttemptSucceeded || m == nil || m.CapturedMinor <= 0:
		return rejected("nothing_captured")
	case ask.Currency != m.Currency:
		return rejected("currency_differs")
	case ask.Minor <= 0:
		return rejected("amount_not_positive")
	case m.disputed():
		return rejected("refund_disputed")
	case m.TakenBack:
		return rejected("money_taken_back")
	case ask.Minor > m.Left():
		return rejected("more_than_left")
	}
	return move(SubjectRefund, "", RefundRequested)
}

// refundThere: a refund comes with its attempt and its payment.
func (f Facts) refundThere() bool { return f.Refund != nil && f.Attempt != nil && f.Money != nil }

// disputed: the bank has given the money back, or may: a refund on top of it pays twice (PC-46).
func (m MoneyFacts) disputed() bool { return m.Dispute == DisputeOpen || m.Dispute == DisputeLost }

// refundClaimed looks at the books once more: what was noticed since it was asked for may leave nothing to give back.
func (f Facts) refundClaimed() Change {
	r, m := f.Refund, f.Money
	if !f.refundThere() {
		return rejected("no_refund")
	}
	if r.Status != RefundRequested {
		return rejected("already_claimed")
	}
	why := ""
	switch {
	case m.disputed():
		why = "refund_disputed"
	case m.TakenBack:
		why = "money_taken_back"
	case m.Over(): // this one is counted
		why = "more_than_left"
	}
	if why != "" {
		c := f.refundMoved(RefundFailed, why)
		c.Why = why
		return c
	}
	c := move(SubjectRefund, RefundRequested, RefundSent)
	c.Resolve = unsendable
	return c
}

func (f Facts) refundObserved(p RefundSeen) Change {
	r := f.Refund
	if !f.refundThere() {
		return rejected("no_refund")
	}
	if why := r.misbound(p); why != "" {
		return r.mismatch(why)
	}
	to, contradiction := r.next(p)
	switch {
	case (contradiction || to != r.Status) && p.ReadVersion != r.Version:
		return Change{Verdict: Stale, Why: "version_moved"}
	case contradiction:
		return Change{Verdict: Mismatch, Why: "contradiction", Open: []Opening{{Subject: SubjectRefund, Reason: ReviewContradiction, Code: p.Code}}}
	case to == r.Status:
		return unchanged()
	}
	c := f.refundMoved(to, p.Code)
	said := f.Money.RefundedMinor
	if c.Books != nil {
		said = c.Books.RefundedMinor
	}
	// An answer about a refund has the refund's version, not the payment's: its total is a reason to look and no more.
	c.LookPayment = c.LookPayment || (p.Outcome == Succeeded || p.Outcome == Declined) && p.RefundedMinor >= 0 && p.RefundedMinor != said
	return c
}

// misbound compares an answer with what was stored before the send (S4).
func (r *RefundFacts) misbound(p RefundSeen) string {
	switch p.Outcome {
	case Succeeded, Pending, Declined:
	default:
		return "" // no refund in the answer
	}
	switch {
	case p.Account != r.Account:
		return "account_differs"
	case p.ProviderPaymentID == "":
		return "payment_id_missing"
	case p.ProviderPaymentID != r.ProviderPaymentID:
		return "payment_id_differs"
	case p.Reference != "" && p.Reference != r.Reference:
		return "reference_differs"
	case r.ProviderRefundID != "" && p.ProviderRefundID != "" && p.ProviderRefundID != r.ProviderRefundID:
		return "refund_id_differs"
	case p.Taken && r.ProviderRefundID == "":
		return "refund_id_taken" // one success of the provider's is not two of ours
	case p.Currency != r.Amount.Currency:
		return "currency_differs"
	case p.AmountMinor != r.Amount.Minor:
		return "amount_differs"
	}
	return ""
}

// mismatch never settles a refund: what fits nothing may be the loss of an answer that would.
func (r *RefundFacts) mismatch(why string) Change {
	c := Change{Verdict: Mismatch, Why: why, Open: []Opening{{Subject: SubjectRefund, Reason: ReviewRefundUnknown, Code: why}}}
	switch r.Status {
	case RefundRequested, RefundSent:
		c.Transitions = []Transition{{Subject: SubjectRefund, From: r.Status, To: RefundUnknown}}
	case RefundSucceeded, RefundFailed:
		c.Open[0].Reason = ReviewContradiction
	}
	return c
}

// next is the refund's graph. The second result reports an answer that contradicts what was confirmed. Succeeded and failed are
// left for each other: banks send money back that a provider has called refunded, and that is no contradiction.
func (r *RefundFacts) next(p RefundSeen) (to Status, contradiction bool) {
	from := r.Status
	open := from == RefundRequested || from == RefundSent || from == RefundUnknown
	switch p.Outcome {
	case Succeeded:
		return RefundSucceeded, false
	case Declined:
		return RefundFailed, false
	case Pending:
		if from == RefundSucceeded {
			return from, true
		}
		return RefundPending, false
	case Refused: // it speaks of one request; what an earlier one did is another question (rule 1)
		if from != RefundRequested && from != RefundSent {
			return from, false
		}
		if r.Sends > 1 {
			return RefundUnknown, false
		}
		return RefundFailed, false
	case NotFound:
		if !p.Final || from == RefundRequested || from == RefundFailed {
			return from, false
		}
		if !open || r.ProviderRefundID != "" { // it was there
			return from, true
		}
		return RefundFailed, false
	case Unknown:
		if open {
			return RefundUnknown, false
		}
	}
	return from, false
}

// refundMoved is the move to a state with all that belongs to it.
func (f Facts) refundMoved(to Status, code string) Change {
	c := move(SubjectRefund, f.Refund.Status, to)
	c.Resolve = []ReviewReason{ReviewRefundUnknown}
	switch to {
	case RefundSucceeded:
		c.Resolve = append(c.Resolve, ReviewRefundFailed)
		c.Events = []EventType{EventRefundSucceeded}
	case RefundFailed:
		c.Events = []EventType{EventRefundFailed}
		c.Open = []Opening{{Subject: SubjectRefund, Reason: ReviewRefundFailed, Code: code}}
	case RefundPending: // after all
		c.Resolve = append(c.Resolve, ReviewRefundFailed)
	case RefundUnknown:
		c.Resolve = nil
	}
	f.book(&c, to)
	return c
}

// book keeps the payment's row in step with a refund that moves.
func (f Facts) book(c *Change, to Status) {
	before, after := *f.Money, f.Money.Moved(f.Refund.Status, to, f.Refund.Amount.Minor)
	back := before.RefundedMinor
	if f.Refund.Status == RefundSucceeded {
		back -= f.Refund.Amount.Minor
	}
	back = max(back, after.ElsewhereMinor+after.SucceededMinor)
	if to != RefundSucceeded && f.Refund.Status != RefundSucceeded {
		back = before.RefundedMinor
	}
	after.RefundedMinor = min(back, after.CapturedMinor) // the row never says more than came in; the review below does
	if after.RefundedMinor != before.RefundedMinor {
		c.Books = &Books{RefundedMinor: after.RefundedMinor, ElsewhereMinor: min(before.ElsewhereMinor, after.RefundedMinor)}
	}
	c.LookPayment = after.RefundedMinor > after.mostOurs()
	if after.Over() && !before.Over() {
		c.Open = append(c.Open, Opening{Subject: SubjectAttempt, Reason: ReviewCorrection, Code: "more_than_captured"})
	}
}

// Moved is the books after one refund has gone from one state to another.
func (m MoneyFacts) Moved(from, to Status, amount int64) MoneyFacts {
	*m.sum(from) -= amount
	*m.sum(to) += amount
	return m
}

func (m *MoneyFacts) sum(s Status) *int64 {
	switch s {
	case RefundRequested:
		return &m.RequestedMinor
	case RefundSent, RefundUnknown:
		return &m.UnderwayMinor
	case RefundPending:
		return &m.PendingMinor
	case RefundSucceeded:
		return &m.SucceededMinor
	}
	return new(int64) // failed refunds are in no sum
}

// mostOurs is the most that can have gone back by what we know: elsewhere, by us, and by what of ours may have gone through.
func (m MoneyFacts) mostOurs() int64 {
	return m.ElsewhereMinor + m.SucceededMinor + m.PendingMinor + m.UnderwayMinor
}

// backTold: a captured payment was looked at, and the answer says how much of it went back in all.
func (f Facts) backTold(p PaymentSeen) Change {
	m, back := f.Money, p.RefundedMinor
	if m == nil || back < 0 || (back == m.RefundedMinor && back <= m.mostOurs()) {
		return unchanged()
	}
	if p.ReadVersion != f.Attempt.Version {
		return Change{Verdict: Stale, Why: "version_moved"}
	}
	correction := []Opening{{Subject: SubjectAttempt, Reason: ReviewCorrection}}
	if back > m.CapturedMinor {
		correction[0].Code = "more_than_captured"
		return Change{Verdict: Mismatch, Why: "more_than_captured", Open: correction}
	}
	c := Change{Verdict: Applied, Books: &Books{RefundedMinor: back, ElsewhereMinor: m.ElsewhereMinor}}
	switch {
	case back > m.mostOurs():
		c.Books.ElsewhereMinor = back - (m.mostOurs() - m.ElsewhereMinor)
		correction[0].Code, c.Open = "refunded_elsewhere", correction
	case back < m.ElsewhereMinor+m.SucceededMinor:
		// Which of them came back is not known. What is left to give back is counted as if none had, until that is known.
		c.Books.ElsewhereMinor = min(m.ElsewhereMinor, back)
		correction[0].Code, c.Open, c.LookRefunds = "refund_undone", correction, true
	}
	return c
}

func (f Facts) refundUnresolved(code string) Change {
	r := f.Refund
	if !f.refundThere() {
		return rejected("no_refund")
	}
	c := Change{Verdict: Applied, Open: []Opening{{Subject: SubjectRefund, Reason: ReviewRefundUnknown, Code: code}}}
	switch r.Status {
	case RefundSent:
		c.Transitions = []Transition{{Subject: SubjectRefund, From: RefundSent, To: RefundUnknown}}
	case RefundUnknown:
	case RefundPending: // it stays under way; what the provider says of it is one for a person, such as several that look alike
	case RefundRequested: // it cannot even be sent: nothing is in doubt, but nothing moves by itself either
		c.Open[0].Reason = ReviewRepeatedFailure
		if refusalReason(code) == ReviewMisconfigured {
			c.Open[0].Reason = ReviewMisconfigured
		}
	default:
		return rejected("settled")
	}
	return c
}

// confirmRefunded: a person saw at the provider that the money went back.
func (f Facts) confirmRefunded(d Decision) Change {
	if !f.refundThere() {
		return rejected("wrong_subject")
	}
	if d.Evidence.Reference == "" {
		return rejected("evidence_reference_missing")
	}
	switch f.Refund.Status {
	case RefundUnknown, RefundPending, RefundFailed:
		c := f.refundMoved(RefundSucceeded, "")
		c.EndReview = true
		return c
	}
	return rejected("refund_settled")
}

// closeRefund: a person proved that nothing went back, or has dealt with a refund that failed.
func (f Facts) closeRefund() Change {
	c := Change{Verdict: Applied, EndReview: true}
	if !f.refundThere() {
		return c
	}
	switch {
	case f.Refund.Status == RefundRequested: // never sent, and given up
	case f.Refund.Status != RefundUnknown || f.Review.Reason != ReviewRefundUnknown: // what it is stays what it is
		return c
	case !f.Refund.Quiet:
		return rejected("too_early") // a request may still be under way (rule 3)
	}
	c = f.refundMoved(RefundFailed, "")
	c.EndReview, c.Open = true, nil // the person knows
	c.Resolve = append(c.Resolve, unsendable...)
	return c
}
