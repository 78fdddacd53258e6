package omise

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/omise/omise-go/operations"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// referenceField is the metadata key that carries our reference. Omise has no field of its own for it, and does not make
// it unique.
const referenceField = "merchant_reference"

// Limits of our own, in characters; Omise documents none.
const (
	maxReference   = 255
	maxDescription = 255
	maxReturnURL   = 2048
)

// tokens are the shapes of what a method type takes.
var tokens = map[string]struct {
	shape *regexp.Regexp
	says  string
}{
	methodCard:     {regexp.MustCompile(`^tokn_[A-Za-z0-9_]{1,250}$`), "a card needs a single-use token (tokn_…), never card data"},
	methodSource:   {regexp.MustCompile(`^src_[A-Za-z0-9_]{1,250}$`), "a source needs the id of a source (src_…)"},
	methodCustomer: {regexp.MustCompile(`^cust_[A-Za-z0-9_]{1,250}$`), "a customer needs the id of a stored customer (cust_…)"},
}

// Omise's currencies with the decimal places it counts them in. KRW and others that it does not list are refused: an
// amount in units nobody promised could be a hundredfold off.
var currencies = map[money.Currency]int{
	"JPY": 0,
	"THB": 2, "SGD": 2, "MYR": 2, "USD": 2, "EUR": 2, "GBP": 2, "AUD": 2, "CAD": 2, "CHF": 2, "CNY": 2, "DKK": 2, "HKD": 2,
}

// Plan freezes one write: the charge. Omise needs no object beforehand, since the token or source was made by the
// buyer's browser. The charge captures at once, which is Omise's default and so is not said, unless it is to be captured later.
func (g *Gateway) Plan(p gateways.Payment) ([]gateways.Planned, error) {
	if err := g.validate(p); err != nil {
		return nil, fault.Wrap(fault.PaymentInvalid, "omise plan", err)
	}
	charge := &operations.CreateCharge{
		Amount:      p.Amount.Minor,
		Currency:    strings.ToLower(string(p.Amount.Currency)),
		Description: shared.Shorten(p.Description, maxDescription),
		ReturnURI:   p.Method.ReturnURL,
		Metadata:    map[string]any{referenceField: p.MerchantReference},
		DontCapture: p.CaptureLater,
	}
	switch p.Method.Type {
	case methodCard:
		charge.Card = p.Method.Token
	case methodSource:
		charge.Source = p.Method.Token
	case methodCustomer:
		charge.Customer = p.Method.Token
	}
	frozen, err := json.Marshal(charge)
	if err != nil {
		return nil, fault.Wrap(fault.InternalError, "omise plan", errFrozen)
	}
	return []gateways.Planned{{Kind: gateways.Confirm, Request: frozen}}, nil
}

// PlanCancel freezes the write that closes a charge for good. Its body is empty; whether the charge is expired (it waits
// for its buyer) or reversed (the bank holds the money) follows from the charge itself when the write is sent.
func (g *Gateway) PlanCancel(providerPaymentID string) (gateways.Planned, error) {
	if !chargeShape.MatchString(providerPaymentID) {
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "omise plan cancel",
			errors.New("the provider payment id is not the id of a charge (chrg_…)"))
	}
	return gateways.Planned{Kind: gateways.Cancel, Request: []byte("{}")}, nil
}

// PlanCapture freezes the write that takes held money, all of it. Omise captures a part only where it has been switched on for the
// account, and then only of charges that were authorized for that, so a part is refused here.
func (g *Gateway) PlanCapture(providerPaymentID string, amount, held money.Amount) (gateways.Planned, error) {
	switch {
	case !chargeShape.MatchString(providerPaymentID):
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "omise plan capture",
			errors.New("the provider payment id is not the id of a charge (chrg_…)"))
	case amount != held:
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "omise plan capture",
			errors.New("what is held is captured as a whole, no part of it"))
	}
	return gateways.Planned{Kind: gateways.Capture, Request: []byte("{}")}, nil
}

// validate refuses by form. Minimum and maximum amounts are Omise's to judge: they differ by country and move.
func (g *Gateway) validate(p gateways.Payment) error {
	if err := validAmount(p.Amount); err != nil {
		return err
	}
	if !validReference(p.MerchantReference) {
		return errors.New("the merchant reference must be 1 to 255 characters of valid UTF-8, without control characters " +
			"and without a space at either end")
	}
	token, ok := tokens[p.Method.Type]
	if !ok {
		return errors.New("the method type must be one of " + strings.Join(methods, ", "))
	}
	if !token.shape.MatchString(p.Method.Token) {
		return errors.New(token.says)
	}
	if p.CaptureLater && p.Method.Type == methodSource {
		return errors.New("only the money of a card can be held and captured later")
	}
	if modeOf(p.Method.Token) != g.account.Environment {
		return errors.New("the method token is of the other mode (test or live) than the account's secret key")
	}
	return shared.ReturnURL(p.Method.ReturnURL, maxReturnURL)
}

func validAmount(a money.Amount) error {
	want, ok := currencies[a.Currency]
	if !ok {
		listed := make([]string, 0, len(currencies))
		for c := range currencies {
			listed = append(listed, string(c))
		}
		slices.Sort(listed)
		return errors.New("the currency must be one of " + strings.Join(listed, ", "))
	}
	if exp, err := a.Currency.Exponent(); err != nil || exp != want {
		return errors.New("this currency has other units at Omise than in ISO 4217: use another currency or gateway")
	}
	if a.Minor <= 0 {
		return errors.New("the amount must be above zero")
	}
	return nil
}

func validReference(ref string) bool {
	return ref != "" && utf8.ValidString(ref) && utf8.RuneCountInString(ref) <= maxReference &&
		!strings.ContainsFunc(ref, unicode.IsControl) && ref == strings.TrimSpace(ref)
}
