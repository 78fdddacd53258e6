package stripe

import (
	"slices"
	"time"

	"orderflow/gateways"
)

// repeatSafe is how long a key surely guards a repeat. Stripe keeps keys for at least 24 hours; the hour taken off covers
// clocks that differ and a request that waits on its way.
const repeatSafe = 23 * time.Hour

// Payment method types the gateway accepts. Automatic leaves the choice to the payment method itself, for checkouts whose
// page lets the buyer pick. A bank transfer is Stripe's customer_balance.
const (
	methodCard      = "card"
	methodKonbini   = "konbini"
	methodTransfer  = "customer_balance"
	methodAutomatic = "automatic"
)

var methods = []string{methodCard, methodKonbini, methodTransfer, methodAutomatic}

// voucherLife is the longest a konbini voucher of Stripe's default lives: three days and the rest of the day it was made on,
// in Japan. The voucher itself names its end; this bounds one that does not.
const voucherLife = 4 * 24 * time.Hour

// Capabilities say what Stripe guards. NotFoundFinalAfter is zero: "no such intent" can also mean another account or
// mode, and a listing lags. A bank transfer and a 3-D Secure page stay open until the intent is canceled, so PendingFor has
// no row for them.
func (g *Gateway) Capabilities() gateways.Capabilities {
	return gateways.Capabilities{
		Prepares: true,
		RepeatSafeFor: map[gateways.Kind]time.Duration{
			gateways.Prepare: repeatSafe,
			gateways.Confirm: repeatSafe,
			gateways.Capture: repeatSafe,
			gateways.Cancel:  repeatSafe,
			gateways.Refund:  repeatSafe,
		},
		PendingFor:        map[string]time.Duration{methodKonbini: voucherLife},
		DeclineLeavesOpen: true,
		CanCancel:         true,
		CanCapture:        true,
		CanRefund:         true,
		CanList:           true,
		WebhookProof:      !g.webhookSecret.IsZero(),
		SendTimeout:       g.timeout,
		Methods:           slices.Clone(methods),
	}
}
