package server

import (
	"strings"

	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

// Taken is one capture in a provider's books, the same for all of them. Amounts are minor units.
type Taken struct {
	Gateway   string
	PaymentID string // the provider's
	Reference string // the merchant's
	Currency  string // upper case
	Captured  int64
	Refunded  int64
	Withdrawn int64 // taken by a bank on its own: a lost dispute, a deposit taken back
}

// Taken are all captures, of every provider; reference "" matches every one.
func (s *Server) Taken(reference string) []Taken {
	var out []Taken
	for _, c := range s.stripe.Charges(stripesim.Filter{MerchantReference: reference, CapturedOnly: true}) {
		out = append(out, Taken{"stripe", c.Intent, c.MerchantReference, strings.ToUpper(c.Currency), c.Captured, c.Refunded, c.Withdrawn})
	}
	for _, c := range s.omise.Charges(omisesim.Filter{MerchantReference: reference, CapturedOnly: true}) {
		out = append(out, Taken{"omise", c.Charge, c.MerchantReference, c.Currency, c.Captured, c.Refunded, c.Withdrawn})
	}
	for _, c := range s.twoctwop.Charges(twoctwopsim.Filter{MerchantReference: reference, CapturedOnly: true}) {
		out = append(out, Taken{"twoctwop", c.MerchantReference, c.MerchantReference, c.Currency, c.Captured, c.Refunded, 0})
	}
	for _, c := range s.toss.Charges(tosssim.Filter{MerchantReference: reference, CapturedOnly: true}) {
		t := Taken{"toss", c.PaymentKey, c.MerchantReference, c.Currency, c.Captured, c.Refunded, 0}
		if c.Corrected {
			t.Refunded, t.Withdrawn = 0, c.Captured
		}
		out = append(out, t)
	}
	return out
}
