package stripe

import (
	"errors"
	"strconv"

	"github.com/stripe/stripe-go/v76/form"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// PlanCapture freezes the write that takes held money. The amount is always said, also for all of it: what is captured must not hang
// on what Stripe holds when the write arrives. Stripe lets the rest go at once.
func (g *Gateway) PlanCapture(providerPaymentID string, amount, held money.Amount) (gateways.Planned, error) {
	switch {
	case !intentShape.MatchString(providerPaymentID):
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "stripe plan capture",
			errors.New("the provider payment id is not the id of a payment intent (pi_…)"))
	case amount.Currency != held.Currency || amount.Minor < 1 || amount.Minor > held.Minor:
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "stripe plan capture",
			errors.New("the amount must be above zero and no more than what is held"))
	}
	if err := validAmount(amount); err != nil {
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "stripe plan capture", err)
	}
	f := &form.Values{}
	f.Add("amount_to_capture", strconv.FormatInt(amount.Minor, 10))
	f.Add("expand[0]", "latest_charge")
	return gateways.Planned{Kind: gateways.Capture, Request: []byte(f.Encode())}, nil
}
