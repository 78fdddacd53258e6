package reconcile

import (
	"time"

	"orderflow/order"
)

// agrees: the item says no more than what the attempt has come to, or than what the provider has answered about it since. The
// second keeps a difference that a person already has from being asked about again in every round.
func agrees(a Attempt, i Item, recorded bool, skew time.Duration) bool {
	if m := a.Recorded; m != nil && disputed(i.Dispute) != disputed(m.Dispute) && i.Dispute != "" && i.Outcome == order.Succeeded {
		return false // a bank that argues is heard of here where its notice was lost
	}
	if a.Last != nil && answered(*a.Last, i, skew) {
		return true
	}
	if i.ProviderPaymentID != "" && a.ProviderPaymentID != "" && i.ProviderPaymentID != a.ProviderPaymentID && !recorded {
		return false
	}
	if i.MerchantReference != "" && i.MerchantReference != a.MerchantReference {
		return false
	}
	return fits(a, i) && stands(a, i)
}

// fits: amount and currency are those of the attempt, as far as the item says them.
func fits(a Attempt, i Item) bool {
	if i.AmountMinor == 0 && i.CapturedMinor == 0 {
		return true
	}
	return i.Currency == a.Amount.Currency && (i.AmountMinor == 0 || i.AmountMinor == a.Amount.Minor)
}

// stands: the attempt's state is the one the item speaks of, or a later one that a list may lag behind.
func stands(a Attempt, i Item) bool {
	switch i.Outcome {
	case order.Succeeded:
		m := a.Recorded
		return a.Status == order.AttemptSucceeded && m != nil && m.Currency == i.Currency && m.CapturedMinor == i.CapturedMinor &&
			i.RefundedMinor <= m.RefundedMinor // a list that does not count refunds, or not yet, is no news
	case order.Declined:
		return a.Status == order.AttemptDeclined || a.Status == order.AttemptClosed
	case order.Pending:
		return a.Status == order.AttemptPending
	case order.Untouched: // the echo of our own preparing; it is news only where the outcome is not known
		return a.Status != order.AttemptUnknown && a.Status != order.AttemptPending
	case order.NotFound: // nothing proves that it is not there
		return true
	}
	return false // it moved, and the item does not say how
}

// answered: the provider's direct answer says the same, or for an item that says only "it moved" is younger than the move.
func answered(l Answer, i Item, skew time.Duration) bool {
	switch i.Outcome {
	case order.NotFound:
		return true
	case order.Succeeded, order.Declined, order.Pending, order.Untouched:
	default:
		return l.At.After(i.At.Add(skew)) && tells(l.Outcome)
	}
	return l.Outcome == i.Outcome && same(i.ProviderPaymentID, l.ProviderPaymentID) && same(i.MerchantReference, l.MerchantReference) &&
		(i.AmountMinor == 0 && i.CapturedMinor == 0 || i.Currency == l.Currency) && (i.AmountMinor == 0 || i.AmountMinor == l.AmountMinor) &&
		i.CapturedMinor == l.CapturedMinor && i.RefundedMinor <= l.RefundedMinor
}

// tells: an answer about the payment, and not the lack of one.
func tells(o order.Outcome) bool {
	switch o {
	case order.Succeeded, order.Declined, order.Pending, order.Untouched:
		return true
	}
	return false
}

func same(said, known string) bool { return said == "" || said == known }

// claim is what makes the look needless once the attempt has come to it. Where the attempt is there already, the difference is
// another one, and only a look shows it.
func claim(a Attempt, i Item) order.Outcome {
	if !fits(a, i) || i.RefundedMinor != 0 || !same(i.MerchantReference, a.MerchantReference) {
		return ""
	}
	switch i.Outcome {
	case order.Succeeded:
		if a.Status != order.AttemptSucceeded && i.CapturedMinor == a.Amount.Minor {
			return i.Outcome
		}
	case order.Declined, order.Pending:
		if !stands(a, i) {
			return i.Outcome
		}
	}
	return ""
}

// disputed is what a dispute has come to. One that is won, and forgotten by some, is as good as none.
func disputed(d order.Dispute) order.Dispute {
	switch d {
	case order.DisputeOpen, order.DisputeLost:
		return d
	}
	return order.DisputeNone
}
