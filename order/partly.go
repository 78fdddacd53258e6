package order

// partlyCaptured is a review's word on money that is less than was asked for.
const partlyCaptured = "partly_captured"

// partly reports a capture of less than was asked for, of a payment that fits in everything else: the rest was let go.
// It is our money, so it is counted and can go back; it pays for nothing.
func (f Facts) partly(p PaymentSeen) bool {
	a := f.Attempt
	switch {
	case p.CapturedMinor <= 0 || p.CapturedMinor >= a.Amount.Minor:
		return false
	case a.Status == AttemptSucceeded:
		return f.Money != nil && f.Money.CapturedMinor == p.CapturedMinor
	}
	return p.RefundedMinor <= 0 && p.Dispute != DisputeLost
}

// grown reports that more was captured of a payment that took only a part before, while nothing of it has gone anywhere.
func (f Facts) grown(p PaymentSeen) bool {
	a, m := f.Attempt, f.Money
	return p.Outcome == Succeeded && a.Status == AttemptSucceeded && m != nil && m.CapturedMinor < p.CapturedMinor && p.CapturedMinor <= a.Amount.Minor &&
		p.RefundedMinor <= 0 && p.Dispute != DisputeLost && m.Left() == m.CapturedMinor && m.Here() == m.CapturedMinor
}

// grow counts what came to a part. Once it is the whole, it pays like any payment.
func (f Facts) grow(p PaymentSeen) Change {
	if p.ReadVersion != f.Attempt.Version {
		return Change{Verdict: Stale, Why: "version_moved"}
	}
	c := f.captured(Change{Verdict: Applied}, p)
	if c.To(SubjectOrder) == OrderPaid {
		c.Resolve = append(c.Resolve, ReviewPaymentMismatch)
	}
	return c
}
