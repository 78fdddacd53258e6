package twoctwop

import (
	"maps"
	"slices"
	"time"

	"orderflow/gateways"
)

// Lives of 2C2P's objects. A payment token is documented to be usable for 30 minutes. How long a payment that was begun
// within that time stays payable (paymentExpiry) is the account's setting: 20 minutes by default as others measured it.
const (
	tokenLife  = 30 * time.Minute
	repeatSafe = 25 * time.Minute // a margin taken off for clocks that differ and a request that waits on its way
	// payable is when "no such transaction" means that there never will be one: the token's life, a payment begun in its last
	// second, and a generous margin, since a wrong "nothing was paid" lets somebody charge again.
	payable = 2 * time.Hour
)

// Payment method types the gateway accepts. Redirect is 2C2P's hosted page, where the buyer chooses how to pay.
const (
	methodCard      = "card"
	methodRedirect  = "redirect"
	methodPromptPay = "promptpay"
	methodQR        = "qr"
	methodPayPay    = "paypay"
	methodCounter   = "counter"
)

var methods = []string{methodCard, methodRedirect, methodPromptPay, methodQR, methodPayPay, methodCounter}

// pendingFor leaves the counter out: a slip's deadline is the account's setting and may be weeks away.
var pendingFor = map[string]time.Duration{
	methodCard: payable, methodRedirect: payable, methodPromptPay: payable, methodQR: payable, methodPayPay: payable,
}

// Capabilities say what 2C2P guards. A confirm may be repeated because its payment token is single-use: the second one is
// answered "already used". A prepare may be because it takes no money and its invoice number is unique. After a decline
// nothing can be paid with the same token; the hosted page is the exception and says so by an observation that is not final.
//
// Refunds go through the maintenance API, which has keys of its own, and nothing guards them. There is no list of payments:
// 2C2P's own books come as files.
func (g *Gateway) Capabilities() gateways.Capabilities {
	return gateways.Capabilities{
		Prepares: true,
		RepeatSafeFor: map[gateways.Kind]time.Duration{
			gateways.Prepare: repeatSafe,
			gateways.Confirm: repeatSafe,
			gateways.Cancel:  repeatSafe,
		},
		PendingFor:         maps.Clone(pendingFor),
		NotFoundFinalAfter: payable,
		CanCancel:          true,
		CanRefund:          g.maintenance != nil,
		WebhookProof:       true,
		SendTimeout:        g.timeout,
		Methods:            slices.Clone(methods),
	}
}
