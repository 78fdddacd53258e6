package omise

import (
	"slices"
	"time"

	"orderflow/gateways"
)

// Payment method types the gateway accepts: a single-use card token (tokn_…), a single-use source (src_…) for everything
// that leaves the page (convenience stores, QR codes, wallets, banks), and a stored customer's card (cust_…).
const (
	methodCard     = "card"
	methodSource   = "source"
	methodCustomer = "customer"
)

var methods = []string{methodCard, methodSource, methodCustomer}

// tokenSafe is how long a charge on a single-use token may be sent again. The token guards for ever; an hour is longer
// than anybody waits before a person gets the case, and short enough that the token is still known to Omise.
const tokenSafe = time.Hour

// heldFor is how long a cancel or a capture may be sent again. Omise refuses each in any state but the one it is for, so the charge
// itself is the guard, and a charge can be captured only once. After a week an authorization has lapsed by itself.
const heldFor = 7 * 24 * time.Hour

// Capabilities say what Omise guards: no charge, by itself. A token or source is used up by its first charge, so a second
// one on it is refused; a stored customer can be charged any number of times, so that charge is sent once, ever. So is a
// refund, since two partial ones both succeed.
// NotFoundFinalAfter is zero: without an id there is only a list, and a running charge is not in it yet.
func (g *Gateway) Capabilities() gateways.Capabilities {
	return gateways.Capabilities{
		RepeatSafeFor: map[gateways.Kind]time.Duration{gateways.Cancel: heldFor, gateways.Capture: heldFor},
		RepeatSafeByMethod: map[string]time.Duration{
			methodCard:   tokenSafe,
			methodSource: tokenSafe,
		},
		CanCancel:    true,
		CanCapture:   true,
		CanRefund:    true,
		CanList:      true,
		WebhookProof: !g.webhookKey.IsZero(),
		SendTimeout:  g.timeout,
		Methods:      slices.Clone(methods),
	}
}
