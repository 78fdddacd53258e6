package omise

import (
	"regexp"

	"orderflow/gateways"
)

var _ gateways.PaymentPager = (*Gateway)(nil)

// paymentID is what Omise calls a payment; nothing else goes into an address.
var paymentID = regexp.MustCompile(`^chrg_[A-Za-z0-9_]{1,100}$`)

// PaymentPage is the payment's page in Omise's dashboard.
func (g *Gateway) PaymentPage(id string) string {
	if !g.dashboard || !paymentID.MatchString(id) {
		return ""
	}
	if g.account.Environment == gateways.Test {
		return "https://dashboard.omise.co/test/charges/" + id
	}
	return "https://dashboard.omise.co/charges/" + id
}
