package order

// CaptureStands is MayCapture's word for money that was asked for before, in the same amount: it is captured once.
const CaptureStands = "capture_stands"

// MayCapture says why minor of what the bank holds for the facts' attempt may not be captured, "" where it may. Held is what the
// provider last said is held, asked what somebody has asked for before; all in minor units of the attempt's currency. Money is taken
// only for a promise that stands: an order that ended, or is to be canceled, has its hold released instead.
func (f Facts) MayCapture(held, asked, minor int64) string {
	a := f.Attempt
	switch {
	case a == nil || a.Status == AttemptClosed || a.Status == AttemptCreated:
		return "nothing_held"
	case asked > 0 && asked == minor:
		return CaptureStands // whatever has become of it
	case asked > 0:
		return "capture_differs"
	case a.Status == AttemptSucceeded, f.Order.Status == OrderPaid, f.Order.Status == OrderCompleted:
		return "already_paid"
	case f.Order.Status == OrderExpired:
		return "order_expired"
	case f.Order.Status == OrderCanceled:
		return "order_canceled"
	case f.Order.Cancel != "":
		return "order_canceling"
	case a.Status != AttemptPending || held <= 0:
		return "nothing_held"
	case minor <= 0 || minor > min(held, a.Amount.Minor):
		return "more_than_held"
	}
	return ""
}
