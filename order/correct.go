package order

// Hold says why what is owed and not yet provided waits. It stands on the order, so that whoever provides a unit reads it under the
// order's own lock.
type Hold string

// The holds.
const (
	HoldNone    Hold = ""
	HoldDispute Hold = "dispute"    // the buyer's bank takes the money back, or may
	HoldDeposit Hold = "taken_back" // the bank has taken a deposit back
)

// Means says in words what is waited for.
func (h Hold) Means() string {
	switch h {
	case HoldDispute:
		return "what is not provided yet waits: the buyer's bank disputes the payment"
	case HoldDeposit:
		return "what is not provided yet waits: the bank has taken the deposit back"
	}
	return ""
}

// Holds lists every hold, for exhaustive tests and the schema's check.
var Holds = []Hold{HoldNone, HoldDispute, HoldDeposit}

// Standing is what a payment's row says of money that moved on its own: no refund of ours, and no one else's refund either.
type Standing struct {
	Dispute       Dispute
	DisputedMinor int64 // what is argued about; 0 without a dispute
	TakenBack     bool  // a deposit that was confirmed, and that the bank has taken back since
}

func (m MoneyFacts) standing() Standing {
	return Standing{Dispute: m.Dispute, DisputedMinor: m.DisputedMinor, TakenBack: m.TakenBack}
}

// Here is what of the payment can pay for goods: nothing while a bank takes it back, or may.
func (m MoneyFacts) Here() int64 {
	if m.TakenBack || m.disputed() {
		return 0
	}
	return m.CapturedMinor - m.RefundedMinor
}

// corrected: a captured payment was looked at. The answer says how much went back, whether the buyer's bank disputes the payment,
// and by being a success at all that a deposit which was taken back is here again.
func (f Facts) corrected(p PaymentSeen) Change {
	c := f.backTold(p)
	if f.Money == nil || c.Verdict == Stale || c.Verdict == Mismatch {
		return c
	}
	was := f.Money.standing()
	now := was.told(p, *f.Money)
	now.TakenBack = false
	if c.Verdict == Unchanged {
		if now == was {
			return c
		}
		if p.ReadVersion != f.Attempt.Version {
			return Change{Verdict: Stale, Why: "version_moved"}
		}
		c = Change{Verdict: Applied}
	}
	return f.stands(c, now)
}

// told is the standing after an answer. One that says nothing of disputes leaves what is known.
func (s Standing) told(p PaymentSeen, m MoneyFacts) Standing {
	switch p.Dispute {
	case DisputeOpen, DisputeLost, DisputeWon:
		s.Dispute, s.DisputedMinor = p.Dispute, p.DisputedMinor
		if s.DisputedMinor <= 0 || s.DisputedMinor > m.CapturedMinor {
			s.DisputedMinor = m.CapturedMinor
		}
	case DisputeNone:
		if s.Dispute != DisputeWon { // what was decided stays decided where the provider forgets it
			s.Dispute, s.DisputedMinor = DisputeNone, 0
		}
	}
	return s
}

// takenBack: a fresh answer about captured money says that it is not there (yet): a bank corrects a deposit. That is no contradiction
// and no refund: nobody gave anything back, and the buyer may pay again into the same account.
func (f Facts) takenBack(p PaymentSeen) (Change, bool) {
	gone := p.Outcome == Pending || p.Outcome == Declined && p.Final // the second where the provider cancels what the bank corrects
	if f.Money == nil || f.Attempt.Status != AttemptSucceeded || !gone {
		return Change{}, false
	}
	if f.Money.TakenBack {
		return unchanged(), true
	}
	now := f.Money.standing()
	now.TakenBack = true
	return f.stands(Change{Verdict: Applied}, now), true
}

// stands writes a payment's new standing into a change, with the reviews and the hold that follow from it.
func (f Facts) stands(c Change, now Standing) Change {
	was := f.Money.standing()
	if now != was {
		c.Standing = &now
	}
	end := func(r ReviewReason) { c.Resolve = append(c.Resolve, r) }
	open := func(r ReviewReason) {
		c.Open = append(c.Open, Opening{Subject: SubjectAttempt, Reason: r, Code: f.goods()})
	}
	if now.Dispute != was.Dispute {
		switch now.Dispute {
		case DisputeOpen:
			end(ReviewDisputeLost)
			open(ReviewDispute)
		case DisputeLost:
			end(ReviewDispute)
			open(ReviewDisputeLost)
		default:
			end(ReviewDispute)
			end(ReviewDisputeLost)
		}
	}
	switch {
	case now.TakenBack && !was.TakenBack:
		open(ReviewDepositTakenBack)
	case was.TakenBack && !now.TakenBack:
		end(ReviewDepositTakenBack)
		if f.Order.Status == OrderExpired || f.Order.Status == OrderCanceled {
			open(ReviewLatePayment)
		}
	}
	return f.hold(c)
}

// hold sets or lifts the order's hold by what its money comes to after the change. Units that are owed wait while nothing that is
// here pays for them; a second payment of the order does as well as the first.
func (f Facts) hold(c Change) Change {
	if f.Order.Status != OrderPaid || f.Order.External {
		return c
	}
	m := *f.Money
	if s := c.Standing; s != nil {
		m.Dispute, m.DisputedMinor, m.TakenBack = s.Dispute, s.DisputedMinor, s.TakenBack
	}
	to := HoldNone
	switch {
	case f.OtherMoney:
	case m.TakenBack:
		to = HoldDeposit
	case m.disputed():
		to = HoldDispute
	}
	if to != f.Order.Hold {
		c.Hold = &to
	}
	return c
}

// goods says in one word what is out already, for whoever gets the review.
func (f Facts) goods() string {
	switch {
	case f.UnitsOut == 0:
		return "nothing_provided"
	case f.UnitsOpen == 0:
		return "all_provided"
	}
	return "partly_provided"
}

// recordExternal: a person saw that the order was paid by other means. From then on it is owed whatever its attempts come to: one
// that ends takes nothing back, and one that captures after all is an extra payment.
func (f Facts) recordExternal(d Decision) Change {
	if d.Evidence.Reference == "" || d.Evidence.Proof == "" {
		return rejected("evidence_missing")
	}
	if f.Order.External {
		return rejected("already_recorded")
	}
	c := Change{Verdict: Applied, External: true}
	switch f.Order.Status {
	case OrderOpen:
	case OrderExpired:
		if !f.Order.StockThere {
			return rejected("out_of_stock")
		}
		c.Restock = true
	case OrderPaid:
		if f.Order.Hold == HoldNone {
			return rejected("already_paid")
		}
		none := HoldNone
		c.Hold, c.EndReview = &none, true
		return c
	case OrderCompleted:
		c.EndReview = true
		return c
	default:
		return rejected("order_canceled")
	}
	c.Transitions = []Transition{{Subject: SubjectOrder, From: f.Order.Status, To: OrderPaid}}
	c.PlanUnits, c.Events = true, []EventType{EventOrderPaid}
	c.EndReview = f.Review.Reason == ReviewSettledElsewhere
	if !c.EndReview {
		c.LookAgain = true // what the review asks is still open: what the attempt came to
	}
	return c
}

// revive: money for an expired order. Where its terms still hold and the goods are still there, the promise is kept after all.
func (f Facts) revivable() bool {
	return f.Order.Status == OrderExpired && f.Order.TermsHold && f.Order.StockThere
}

// whyLate is the word on a late payment that does not keep the promise after all.
func (f Facts) whyLate() string {
	switch {
	case f.Order.Status == OrderCanceled:
		return "order_canceled"
	case !f.Order.TermsHold:
		return "too_late"
	}
	return "out_of_stock"
}

// capturedInDispute: a payment that is disputed when it is first seen pays, and what it pays for waits.
func (f Facts) capturedInDispute(c Change, p PaymentSeen) Change {
	if p.Dispute != DisputeOpen {
		return c
	}
	m := MoneyFacts{CapturedMinor: p.CapturedMinor, Dispute: DisputeNone}
	now := m.standing().told(p, m)
	c.Standing = &now
	c.Open = append(c.Open, Opening{Subject: SubjectAttempt, Reason: ReviewDispute, Code: "nothing_provided"})
	if c.PlanUnits {
		held := HoldDispute
		c.Hold = &held
	}
	return c
}

// reviveLate: a person keeps the promise of an expired order whose money came late. The terms are the person's to judge; the stock is not.
func (f Facts) reviveLate(d Decision) Change {
	switch {
	case d.Evidence.Proof == "":
		return rejected("evidence_proof_missing")
	case f.Attempt == nil || f.Money == nil || f.Money.Here() < f.Attempt.Amount.Minor || f.Money.Left() < f.Attempt.Amount.Minor:
		return rejected("money_not_here") // some of it went back, or may
	case f.Order.Status != OrderExpired:
		return rejected("order_not_expired")
	case !f.Order.StockThere:
		return rejected("out_of_stock")
	}
	c := move(SubjectOrder, OrderExpired, OrderPaid)
	c.PlanUnits, c.Restock, c.EndReview = true, true, true
	c.Events = []EventType{EventOrderPaid}
	return c
}
