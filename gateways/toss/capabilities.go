package toss

import (
	"slices"
	"time"

	"orderflow/gateways"
)

// Bounds of what Toss promises.
const (
	// repeatSafe is how long a key surely guards a repeat. Toss keeps keys for 15 days from their first use; the day taken
	// off covers clocks that differ and a request that waits on its way.
	repeatSafe = 14 * 24 * time.Hour
	// confirmWithin is the buyer's session: after it the payment is EXPIRED and a confirm finds nothing.
	confirmWithin = 10 * time.Minute
	// longestDeposit is the longest deadline a virtual account can be given.
	longestDeposit = 720 * time.Hour
)

// Payment method types the gateway accepts. They say how the buyer began the payment at Toss; nothing of them is sent.
const (
	methodCard           = "card"
	methodEasyPay        = "easy_pay"
	methodTransfer       = "transfer"
	methodVirtualAccount = "virtual_account"
	methodMobile         = "mobile"
	methodForeignEasyPay = "foreign_easy_pay"
)

var methods = []string{
	methodCard, methodEasyPay, methodTransfer, methodVirtualAccount, methodMobile, methodForeignEasyPay,
}

// Capabilities say what Toss guards.
//
// NewKeyAfterError: an error that Toss answered stays under its key for 15 days, so the same key can never succeed any
// more; and as a payment key is approved at most once, a new operation is safe once a lookup says that the old one did
// nothing. A cancel has no such guard, since two partial cancels both succeed.
//
// NotFoundFinalAfter is zero: a payment exists before we hear of it, so "not found" means another account, a wrong key or
// a listing that is behind, and never that nothing was taken.
//
// DeclineLeavesOpen is false because a payment whose confirm failed is ABORTED for good; where a lookup right after a
// decline does not say so, the observation is not final and the status decides later.
func (g *Gateway) Capabilities() gateways.Capabilities {
	return gateways.Capabilities{
		RepeatSafeFor: map[gateways.Kind]time.Duration{
			gateways.Confirm: repeatSafe,
			gateways.Cancel:  repeatSafe,
			gateways.Refund:  repeatSafe,
		},
		NewKeyAfterError: map[gateways.Kind]bool{gateways.Confirm: true},
		ConfirmWithin:    confirmWithin,
		PendingFor:       map[string]time.Duration{methodVirtualAccount: longestDeposit},
		CanCancel:        true,
		CanRefund:        true,
		CanList:          true,
		SendTimeout:      g.timeout,
		Methods:          slices.Clone(methods),
	}
}
