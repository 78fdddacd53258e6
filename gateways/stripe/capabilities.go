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
// page lets the buyer pick.
const (
	methodCard      = "card"
	methodKonbini   = "konbini"
	methodAutomatic = "automatic"
)

var methods = []string{methodCard, methodKonbini, methodAutomatic}

// Capabilities say what Stripe guards. NotFoundFinalAfter is zero: "no such intent" can also mean another account or
// mode, and a listing lags.
func (g *Gateway) Capabilities() gateways.Capabilities {
	return gateways.Capabilities{
		Prepares: true,
		RepeatSafeFor: map[gateways.Kind]time.Duration{
			gateways.Prepare: repeatSafe,
			gateways.Confirm: repeatSafe,
			gateways.Cancel:  repeatSafe,
		},
		DeclineLeavesOpen: true,
		CanCancel:         true,
		SendTimeout:       g.timeout,
		Methods:           slices.Clone(methods),
	}
}
