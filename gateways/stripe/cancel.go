package stripe

import (
	"errors"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// PlanCancel freezes the write that closes an intent for good. After a decline the intent could still be paid, so an
// attempt counts as closed only when Stripe answers "canceled".
func (g *Gateway) PlanCancel(providerPaymentID string) (gateways.Planned, error) {
	if !intentShape.MatchString(providerPaymentID) {
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "stripe plan cancel",
			errors.New("the provider payment id is not the id of a payment intent (pi_…)"))
	}
	return gateways.Planned{Kind: gateways.Cancel, Request: []byte("cancellation_reason=abandoned")}, nil
}
