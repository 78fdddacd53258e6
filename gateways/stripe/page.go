package stripe

import (
	"regexp"

	"orderflow/gateways"
)

var _ gateways.PaymentPager = (*Gateway)(nil)

// paymentID is what Stripe calls a payment; nothing else goes into an address.
var paymentID = regexp.MustCompile(`^(pi|ch)_[A-Za-z0-9_]{1,100}$`)

// PaymentPage is the payment's page in Stripe's dashboard.
func (g *Gateway) PaymentPage(id string) string {
	if !g.dashboard || !paymentID.MatchString(id) {
		return ""
	}
	if g.account.Environment == gateways.Test {
		return "https://dashboard.stripe.com/test/payments/" + id
	}
	return "https://dashboard.stripe.com/payments/" + id
}
