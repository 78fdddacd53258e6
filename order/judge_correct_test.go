package order

import "slices"

func opens(c Change, r ReviewReason) bool {
	return slices.ContainsFunc(c.Open, func(o Opening) bool { return o.Reason == r && o.Subject == SubjectAttempt })
}

// judgeCorrection is the part of the rules about money that moved on its own: told only by a fresh and matching answer, shown to a
// person while it is not here, and never paid for with goods meanwhile.
func judgeCorrection(f Facts, tr Trigger, c Change, bad check) {
	m := MoneyFacts{Dispute: DisputeNone}
	if f.Money != nil {
		m = *f.Money
	}
	was := Standing{Dispute: m.Dispute, DisputedMinor: m.DisputedMinor, TakenBack: m.TakenBack}
	if c.Standing != nil {
		judgeStanding(f, tr, c, was, *c.Standing, bad)
		m.Dispute, m.DisputedMinor, m.TakenBack = c.Standing.Dispute, c.Standing.DisputedMinor, c.Standing.TakenBack
	}
	judgeHold(f, tr, c, m, bad)
	bad(!c.Restock || f.Order.Status == OrderExpired && f.Order.StockThere && c.To(SubjectOrder) == OrderPaid, "reserves again what is not there, or for nothing")
	bad(c.Restock == (f.Order.Status == OrderExpired && c.To(SubjectOrder) == OrderPaid), "revived without its stock (PC-19)")
	if c.External {
		bad(tr.Kind == DecisionMade && tr.Decision.Decision == DecideRecordExternal, "paid by other means without a person's word")
		bad(tr.Decision.Evidence.Proof != "" && tr.Decision.Evidence.Reference != "" && !f.Order.External, "without evidence, or twice")
	}
}

func judgeStanding(f Facts, tr Trigger, c Change, was, now Standing, bad check) {
	p := tr.Payment
	bad(tr.Kind == PaymentObserved && p.ReadVersion == f.Attempt.Version, "a standing by a stale answer, or by none (rule 5)")
	bad(p.Account == f.Attempt.Account && p.MerchantReference == f.Attempt.MerchantReference && p.AmountMinor == f.Attempt.Amount.Minor, "a standing by an answer about something else (S4)")
	bad(c.Verdict == Applied && now != was, "a standing that does not move")
	bad((now.Dispute == DisputeNone) == (now.DisputedMinor == 0), "a dispute about nothing, or nothing about a dispute")
	if now.Dispute != was.Dispute {
		bad(p.Outcome == Succeeded && (p.Dispute == now.Dispute), "a dispute that nobody told of")
		bad((now.Dispute == DisputeOpen) == opens(c, ReviewDispute), "a dispute that nobody sees")
		bad((now.Dispute == DisputeLost) == opens(c, ReviewDisputeLost), "a lost dispute that nobody sees")
	}
	if now.TakenBack != was.TakenBack {
		bad(now.TakenBack == (p.Outcome == Pending || p.Outcome == Declined && p.Final), "taken back, or here again, by an answer that does not say so")
		bad(now.TakenBack == opens(c, ReviewDepositTakenBack), "a deposit is taken back in silence")
		bad(now.TakenBack || slices.Contains(c.Resolve, ReviewDepositTakenBack), "it is here again, and a person still looks for it")
	}
	bad(c.To(SubjectAttempt) == "" || c.To(SubjectAttempt) == AttemptSucceeded, "succeeded is left")
	bad(c.To(SubjectUnit) == "", "a correction moves a unit by itself")
}

func judgeHold(f Facts, tr Trigger, c Change, m MoneyFacts, bad check) {
	if c.Hold != nil {
		bad(*c.Hold != f.Order.Hold && slices.Contains(Holds, *c.Hold), "a hold that does not move")
		bad(f.Order.Status == OrderPaid || c.To(SubjectOrder) == OrderPaid, "holds what is not owed")
		bad(tr.Kind == PaymentObserved || c.External && *c.Hold == HoldNone, "holds without a word")
	}
	if c.Standing == nil || f.Order.Status != OrderPaid || f.Order.External || f.Attempt.Status != AttemptSucceeded {
		return
	}
	hold := f.Order.Hold
	if c.Hold != nil {
		hold = *c.Hold
	}
	gone := m.TakenBack || m.Dispute == DisputeOpen || m.Dispute == DisputeLost
	covered := f.OtherMoney
	bad(!gone || covered || hold != HoldNone, "goods go out for money that is not here")
	bad(!covered || hold == HoldNone, "goods wait although another payment of the order pays for them (PC-04)")
}
