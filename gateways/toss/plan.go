package toss

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// The forms of Toss's names. Both came through the buyer's browser and become parts of a path, so nothing that could mean
// another path passes.
var (
	paymentKeyShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.=-]{0,199}$`)
	orderIDShape    = regexp.MustCompile(`^[A-Za-z0-9_-]{6,64}$`)
	// anyOrderID is what is read of answers and webhooks, which can be about payments that others began on the account.
	anyOrderID = regexp.MustCompile(`^[A-Za-z0-9_.=-]{1,64}$`)
)

// currencies are what Toss takes, with their method types. It wants main units, so the exponent is ISO 4217's.
var currencies = map[money.Currency][]string{
	"KRW": methods,
	"JPY": {methodCard, methodForeignEasyPay},
	"USD": {methodForeignEasyPay},
}

// confirmRequest is the frozen body of a confirm. The amount is the decimal text of the number, never a float.
type confirmRequest struct {
	PaymentKey string      `json:"paymentKey"`
	OrderID    string      `json:"orderId"`
	Amount     json.Number `json:"amount"`
}

// Plan freezes the one write there is: the confirm, which takes the money of a payment that the buyer has authenticated at
// Toss. Toss checks that the amount is the one the buyer saw; we check the amount the redirect carried against the order's,
// since a buyer can change the redirect, and the checkout's price is the only one that counts.
//
// The reference that is sent is Method.Reference: at Toss the order id was chosen before the payment came to us, so it is
// what Identify binds to the attempt. Payment.MerchantReference and Description have no place in a confirm.
func (g *Gateway) Plan(p gateways.Payment) ([]gateways.Planned, error) {
	if err := validate(p); err != nil {
		return nil, fault.Wrap(fault.PaymentInvalid, "toss plan", err)
	}
	body, err := json.Marshal(confirmRequest{
		PaymentKey: p.Method.Token, OrderID: p.Method.Reference, Amount: json.Number(p.Amount.Decimal()),
	})
	if err != nil {
		return nil, fault.Wrap(fault.InternalError, "toss plan", errors.New("the confirm cannot be encoded"))
	}
	return []gateways.Planned{{Kind: gateways.Confirm, Request: body}}, nil
}

// Identify reads the names under which the buyer's payment is known at Toss already.
func (g *Gateway) Identify(p gateways.Payment) gateways.Known {
	return gateways.Known{MerchantReference: p.Method.Reference, ProviderPaymentID: p.Method.Token}
}

// validate refuses by form. Minimum amounts are Toss's to judge: they move.
func validate(p gateways.Payment) error {
	if p.CaptureLater {
		return shared.ErrCapturesAtOnce
	}
	if !slices.Contains(methods, p.Method.Type) {
		return errors.New("the method type must be one of " + strings.Join(methods, ", "))
	}
	takes, ok := currencies[p.Amount.Currency]
	switch {
	case !ok:
		return errors.New("the currency must be KRW, JPY or USD: Toss takes no other")
	case !slices.Contains(takes, p.Method.Type):
		return errors.New("Toss takes " + string(p.Amount.Currency) + " with these method types only: " + strings.Join(takes, ", "))
	case p.Amount.Minor <= 0:
		return errors.New("the amount must be above zero")
	case !paymentKeyShape.MatchString(p.Method.Token):
		return errors.New("the method token must be the paymentKey that Toss added to the success URL (at most 200 characters)")
	case !orderIDShape.MatchString(p.Method.Reference):
		return errors.New("the method reference must be the orderId that the checkout gave to Toss: 6 to 64 letters, digits, - and _")
	}
	return validRedirectAmount(p.Method.Amount, p.Amount)
}

func validRedirectAmount(carried string, ordered money.Amount) error {
	if carried == "" {
		return errors.New("the method amount is missing: pass on the amount that Toss added to the success URL, as decimal text")
	}
	a, err := money.Parse(carried, ordered.Currency)
	if err != nil {
		return errors.New("the method amount is not a decimal number of the currency: pass on what Toss added to the success URL, unchanged")
	}
	if a != ordered {
		return errors.New("the amount of the redirect is not the order's: the buyer saw another price, so do not confirm; start the payment again with the order's amount")
	}
	return nil
}

// thawConfirm reads a frozen confirm back and proves that it is one.
func thawConfirm(frozen []byte) (confirmRequest, error) {
	var r confirmRequest
	d := json.NewDecoder(bytes.NewReader(frozen))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(&r); err != nil {
		return confirmRequest{}, errFrozen
	}
	again, err := json.Marshal(r)
	if err != nil || !bytes.Equal(again, frozen) || !paymentKeyShape.MatchString(r.PaymentKey) || !orderIDShape.MatchString(r.OrderID) {
		return confirmRequest{}, errFrozen
	}
	return r, nil
}
