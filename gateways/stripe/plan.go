package stripe

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stripe/stripe-go/v76/form"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// referenceField is the metadata key that carries our reference.
const referenceField = "merchant_reference"

// Limits of Stripe's fields, in characters.
const (
	maxMetadataValue = 500
	maxDescription   = 1000
	maxReturnURL     = 2048
)

var (
	tokenShape    = regexp.MustCompile(`^pm_[A-Za-z0-9_]{1,250}$`)
	customerShape = regexp.MustCompile(`^cus_[A-Za-z0-9_]{1,250}$`)
)

// transferTypes are Stripe's bank transfers by currency. Euro has one per country and nothing here says which.
var transferTypes = map[money.Currency]string{
	"JPY": "jp_bank_transfer", "USD": "us_bank_transfer", "GBP": "gb_bank_transfer", "MXN": "mx_bank_transfer",
}

// Stripe counts most currencies in ISO 4217's minor unit. These are its lists of the others; ISK and UGX have no minor
// unit in ISO but take two zeros at Stripe, so they are in no list and are refused rather than sent a hundredfold off.
var (
	zeroDecimal = []money.Currency{
		"BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF",
	}
	threeDecimal = []money.Currency{"BHD", "JOD", "KWD", "OMR", "TND"}
)

// Plan freezes two writes.
//
// Prepare makes the unconfirmed intent and carries everything that says who pays what: amount, currency, payment method,
// our reference. Confirm carries only how the buyer may be asked. So the payment method is sent once, in the harmless
// write; and as Stripe takes it off the intent after a decline, a confirm that is repeated after its key has lapsed finds
// nothing to charge instead of trying the card a second time. A return URL belongs to Confirm because Stripe refuses it
// on an intent that is not confirmed in the same call.
//
// Without a return URL the buyer cannot be sent to 3-D Secure and nobody would ever finish a pending intent, so Confirm
// asks for error_on_requires_action: the bank's wish to see the buyer then comes back as a decline
// (payment_intent_action_required) that captured nothing, instead of an attempt that stays open. A convenience-store
// voucher and a bank transfer need no redirect and are themselves a required action, so they never ask for that.
//
// A bank transfer goes through the cash balance of one of the account's customers: the method's token is that customer
// (cus_…), or a payment method with the customer as reference. A saved card may name its customer as reference, too.
func (g *Gateway) Plan(p gateways.Payment) ([]gateways.Planned, error) {
	if err := validate(p); err != nil {
		return nil, fault.Wrap(fault.PaymentInvalid, "stripe plan", err)
	}
	return []gateways.Planned{
		{Kind: gateways.Prepare, Request: prepareForm(p)},
		{Kind: gateways.Confirm, Request: confirmForm(p.Method)},
	}, nil
}

func prepareForm(p gateways.Payment) []byte {
	f := &form.Values{}
	f.Add("amount", strconv.FormatInt(p.Amount.Minor, 10))
	f.Add("currency", strings.ToLower(string(p.Amount.Currency)))
	customer := p.Method.Reference
	if customerShape.MatchString(p.Method.Token) {
		customer = p.Method.Token
		f.Add("payment_method_data[type]", p.Method.Type)
	} else {
		f.Add("payment_method", p.Method.Token)
	}
	if customer != "" {
		f.Add("customer", customer)
	}
	if p.Method.Type == methodAutomatic {
		f.Add("automatic_payment_methods[enabled]", "true")
		if p.Method.ReturnURL == "" {
			// Otherwise Stripe may pick a method that redirects, and refuses a confirm without a return URL.
			f.Add("automatic_payment_methods[allow_redirects]", "never")
		}
	} else {
		f.Add("payment_method_types[0]", p.Method.Type)
	}
	if p.Method.Type == methodTransfer {
		const options = "payment_method_options[customer_balance]"
		f.Add(options+"[funding_type]", "bank_transfer")
		f.Add(options+"[bank_transfer][type]", transferTypes[p.Amount.Currency])
	}
	if p.CaptureLater {
		f.Add("capture_method", "manual")
	}
	f.Add("metadata["+referenceField+"]", p.MerchantReference)
	if d := shared.Shorten(p.Description, maxDescription); d != "" {
		f.Add("description", d)
	}
	return []byte(f.Encode())
}

func confirmForm(m gateways.Method) []byte {
	f := &form.Values{}
	// The charge rides along, so that the body is never empty and every answer has the same shape as a lookup.
	f.Add("expand[0]", "latest_charge")
	switch {
	case m.ReturnURL != "":
		f.Add("return_url", m.ReturnURL)
	case m.Type != methodKonbini && m.Type != methodTransfer:
		f.Add("error_on_requires_action", "true")
	}
	return []byte(f.Encode())
}

// validate refuses by form. Minimum and maximum amounts are Stripe's to judge: they move.
func validate(p gateways.Payment) error {
	if err := validAmount(p.Amount); err != nil {
		return err
	}
	if err := validReference(p.MerchantReference); err != nil {
		return err
	}
	if !slices.Contains(methods, p.Method.Type) {
		return errors.New("the method type must be one of " + strings.Join(methods, ", "))
	}
	if p.CaptureLater && p.Method.Type != methodCard {
		return errors.New("only the money of a card can be held and captured later")
	}
	if err := validMethod(p.Method, p.Amount.Currency); err != nil {
		return err
	}
	return shared.ReturnURL(p.Method.ReturnURL, maxReturnURL)
}

func validMethod(m gateways.Method, currency money.Currency) error {
	_, transferable := transferTypes[currency]
	byCustomer := m.Type == methodTransfer && customerShape.MatchString(m.Token)
	switch {
	case !byCustomer && !tokenShape.MatchString(m.Token):
		return errors.New("the method token must be the id of a Stripe payment method (pm_…), never card data")
	case m.Reference != "" && !customerShape.MatchString(m.Reference):
		return errors.New("the method reference must be the id of the Stripe customer (cus_…) the payment method belongs to, or be left out")
	case m.Type == methodTransfer && !byCustomer && m.Reference == "":
		return errors.New("a bank transfer needs a Stripe customer: give its id (cus_…) as the method token, or as reference beside a payment method")
	case byCustomer && m.Reference != "" && m.Reference != m.Token:
		return errors.New("the method token and the method reference name two customers")
	case m.Type == methodTransfer && !transferable:
		return errors.New("a bank transfer takes JPY, USD, GBP or MXN")
	case m.Type == methodKonbini && currency != "JPY":
		return errors.New("konbini takes JPY only")
	}
	return nil
}

func validAmount(a money.Amount) error {
	exp, err := a.Currency.Exponent()
	if err != nil {
		return errors.New("the currency must be an upper-case ISO 4217 code")
	}
	if a.Minor <= 0 {
		return errors.New("the amount must be above zero")
	}
	want := 2
	switch {
	case slices.Contains(zeroDecimal, a.Currency):
		want = 0
	case slices.Contains(threeDecimal, a.Currency):
		want = 3
	}
	if exp != want {
		return errors.New("this currency has other units at Stripe than in ISO 4217: use another currency or gateway")
	}
	if want == 3 && a.Minor%10 != 0 {
		return errors.New("an amount with three decimals must end in 0 at Stripe: choose a price with two")
	}
	return nil
}

func validReference(ref string) error {
	if ref == "" || !utf8.ValidString(ref) || utf8.RuneCountInString(ref) > maxMetadataValue {
		return errors.New("the merchant reference must be 1 to 500 characters of valid UTF-8")
	}
	if strings.ContainsFunc(ref, unicode.IsControl) || ref != strings.TrimSpace(ref) {
		return errors.New("the merchant reference must not hold control characters or begin or end with a space")
	}
	return nil
}
