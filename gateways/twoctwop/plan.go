package twoctwop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// Limits of 2C2P's fields, in characters.
const (
	maxDescription = 250
	maxReturnURL   = 255
	maxWhole       = 12 // digits before the decimal point
	maxPlaces      = 5
)

var (
	invoiceShape = regexp.MustCompile(`^[A-Za-z0-9]{1,50}$`)
	qrShape      = regexp.MustCompile(`^[A-Za-z0-9]{1,20}$`)
	agentShape   = regexp.MustCompile(`^[A-Z0-9]{1,30}(/[A-Z0-9]{1,30})?$`)
)

// tokenRequest is Prepare as it is frozen and signed: the claims of a paymentToken call. Amount is a JSON number written by
// money alone.
type tokenRequest struct {
	MerchantID        string      `json:"merchantID"`
	InvoiceNo         string      `json:"invoiceNo"`
	Description       string      `json:"description"`
	Amount            json.Number `json:"amount"`
	CurrencyCode      string      `json:"currencyCode"`
	PaymentChannel    []string    `json:"paymentChannel,omitempty"`
	Request3DS        string      `json:"request3DS,omitempty"`
	IdempotencyID     string      `json:"idempotencyID"`
	FrontendReturnURL string      `json:"frontendReturnUrl,omitempty"`
	UserDefined1      string      `json:"userDefined1"`
}

// confirmPlan is Confirm as it is frozen: what goes on the wire but for the payment token, which only exists later, and
// what the payment was planned to be. Send is absent where the buyer does the sending, on the hosted page.
type confirmPlan struct {
	InvoiceNo    string          `json:"invoiceNo"`
	Amount       json.Number     `json:"amount"`
	CurrencyCode string          `json:"currencyCode"`
	Method       string          `json:"method"`
	Send         json.RawMessage `json:"send,omitempty"`
}

type paymentRequest struct {
	ClientID          string  `json:"clientID"`
	Locale            string  `json:"locale"`
	ResponseReturnURL string  `json:"responseReturnUrl,omitempty"`
	Payment           payment `json:"payment"`
}

type payment struct {
	Code channel `json:"code"`
	Data data    `json:"data"`
}

type channel struct {
	ChannelCode      string `json:"channelCode"`
	AgentCode        string `json:"agentCode,omitempty"`
	AgentChannelCode string `json:"agentChannelCode,omitempty"`
}

type data struct {
	SecurePayToken string `json:"securePayToken,omitempty"`
}

// cancelPlan is Cancel as it is frozen; the payment token is added like Confirm's.
type cancelPlan struct {
	InvoiceNo string          `json:"invoiceNo"`
	Send      json.RawMessage `json:"send"`
}

type cancelRequest struct {
	ClientID string `json:"clientID"`
	Locale   string `json:"locale"`
}

// channels are 2C2P's channel codes by method type; the hosted page offers what the account has.
var channels = map[string]string{
	methodCard: "CC", methodPromptPay: "PPQR", methodQR: "PPQR", methodPayPay: "PAYPAY", methodCounter: "123",
}

// Plan freezes two writes.
//
// Prepare makes the payment token and carries who pays what: amount, currency, our reference as the invoice number, which is
// 2C2P's identity of a payment. Confirm carries how: the channel and, for a card, the buyer's single-use secure token. The
// payment token joins it on the wire from what Prepare's answer left as Private; the frozen bytes stay as they are.
//
// Where 2C2P sends its notifications (backendReturnUrl) is not said here: the account's own setting in the 2C2P portal holds,
// so that no request of ours can send them elsewhere. The same goes for how long a begun payment waits (paymentExpiry).
//
// A card without a return URL cannot go through 3-D Secure, so none is asked for: the bank's wish to see the buyer then
// comes back as a soft decline that captured nothing, instead of a payment that nobody can finish.
func (g *Gateway) Plan(p gateways.Payment) ([]gateways.Planned, error) {
	amount, err := wireAmount(p.Amount)
	if err == nil {
		err = validate(p)
	}
	if err != nil {
		return nil, fault.Wrap(fault.PaymentInvalid, name+" plan", err)
	}
	prepare := tokenRequest{
		MerchantID: g.merchant, InvoiceNo: p.MerchantReference, Description: describe(p), Amount: json.Number(amount),
		CurrencyCode: string(p.Amount.Currency), IdempotencyID: p.MerchantReference,
		FrontendReturnURL: p.Method.ReturnURL, UserDefined1: p.MerchantReference,
	}
	confirm := confirmPlan{
		InvoiceNo: p.MerchantReference, Amount: json.Number(amount), CurrencyCode: string(p.Amount.Currency), Method: p.Method.Type,
	}
	if code, ok := channels[p.Method.Type]; ok {
		prepare.PaymentChannel = []string{code}
		confirm.Send = encode(paymentRequest{
			ClientID: clientID(p.MerchantReference), Locale: "en", ResponseReturnURL: p.Method.ReturnURL,
			Payment: payment{Code: channelOf(p.Method, code), Data: dataOf(p.Method)},
		})
	}
	if p.Method.Type == methodCard && p.Method.ReturnURL == "" {
		prepare.Request3DS = "N"
	}
	return []gateways.Planned{
		{Kind: gateways.Prepare, Request: encode(prepare)},
		{Kind: gateways.Confirm, Request: encode(confirm)},
	}, nil
}

// PlanCancel freezes the write that ends an unpaid payment token.
func (g *Gateway) PlanCancel(providerPaymentID string) (gateways.Planned, error) {
	if !invoiceShape.MatchString(providerPaymentID) {
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, name+" plan cancel",
			errors.New("the provider payment id is not an invoice number (1 to 50 letters and digits)"))
	}
	send := encode(cancelRequest{ClientID: clientID(providerPaymentID), Locale: "en"})
	return gateways.Planned{Kind: gateways.Cancel, Request: encode(cancelPlan{InvoiceNo: providerPaymentID, Send: send})}, nil
}

func channelOf(m gateways.Method, code string) channel {
	c := channel{ChannelCode: code}
	if m.Type == methodCounter && m.Token != "" {
		c.AgentCode, c.AgentChannelCode, _ = strings.Cut(m.Token, "/")
		if c.AgentChannelCode == "" {
			c.AgentChannelCode = "OVERTHECOUNTER"
		}
	}
	return c
}

func dataOf(m gateways.Method) data {
	if m.Type == methodCard {
		return data{SecurePayToken: m.Token}
	}
	return data{}
}

// clientID tells 2C2P our sessions apart. It is derived, since a plan draws nothing at random.
func clientID(reference string) string {
	sum := sha256.Sum256([]byte("orderflow 2c2p client\x00" + reference))
	return hex.EncodeToString(sum[:16])
}

// encode never fails: every type given to it is made of strings and checked numbers.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("twoctwop: a request cannot be encoded") // a programming error, found by the first test that plans
	}
	return b
}

// thaw reads frozen bytes back and proves that they are what encode makes: then signing them again gives the same bytes.
func thaw(frozen []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(frozen))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return errFrozen
	}
	if again, err := json.Marshal(into); err != nil || !bytes.Equal(again, frozen) {
		return errFrozen
	}
	return nil
}

// wireAmount writes main units with the currency's places. 2C2P takes rupiah without decimals although ISO 4217 gives them
// two, so an amount with sen is refused rather than rounded.
func wireAmount(a money.Amount) (string, error) {
	exp, err := a.Currency.Exponent()
	if err != nil {
		return "", errors.New("the currency must be an upper-case ISO 4217 code")
	}
	if a.Minor <= 0 {
		return "", errors.New("the amount must be above zero")
	}
	text := a.Decimal()
	if a.Currency == "IDR" {
		whole, places, _ := strings.Cut(text, ".")
		if strings.Trim(places, "0") != "" {
			return "", errors.New("2C2P takes IDR without decimals: choose a price in whole rupiah")
		}
		text = whole
	}
	if whole, _, _ := strings.Cut(text, "."); len(whole) > maxWhole || exp > maxPlaces {
		return "", errors.New("the amount has more than 12 digits before the decimal point, or more than 5 after it")
	}
	return text, nil
}

// validate refuses by form. Minimum amounts and which channels an account has are 2C2P's to judge.
func validate(p gateways.Payment) error {
	if p.CaptureLater {
		return shared.ErrCapturesAtOnce
	}
	if !slices.Contains(methods, p.Method.Type) {
		return errors.New("the method type must be one of " + strings.Join(methods, ", "))
	}
	if !invoiceShape.MatchString(p.MerchantReference) {
		return errors.New("the merchant reference must be 1 to 50 letters and digits")
	}
	switch m := p.Method; m.Type {
	case methodCard:
		if !tokenLike(m.Token) || cardLike(m.Token) {
			return errors.New("the method token must be the secure token of 2C2P's browser script (securePayToken), never card data")
		}
	case methodCounter:
		if m.Token != "" && !agentShape.MatchString(m.Token) {
			return errors.New("the method token of a counter payment is the agent's code, or \"AGENT/CHANNEL\", or empty")
		}
	case methodPromptPay, methodQR:
		if !qrShape.MatchString(p.MerchantReference) {
			return errors.New("the merchant reference of a QR payment must be 1 to 20 letters and digits")
		}
		fallthrough
	default:
		if m.Token != "" {
			return errors.New("this method type takes no token: leave it out")
		}
	}
	if p.Method.Type == methodPromptPay && p.Amount.Currency != "THB" {
		return errors.New("promptpay takes THB only")
	}
	if p.Method.Type == methodRedirect && p.Method.ReturnURL == "" {
		return errors.New("a redirect payment needs the return URL where the buyer comes back")
	}
	return shared.ReturnURL(p.Method.ReturnURL, maxReturnURL)
}

// tokenLike is any token of 2C2P's: an encrypted card as its browser script makes it, or a payment token.
func tokenLike(s string) bool {
	return s != "" && len(s) <= 8192 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// cardLike stops the most likely slip: a card number where its encrypted form belongs.
func cardLike(token string) bool {
	digits := strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return -1
		}
		return r
	}, token)
	return len(digits) >= 12 && len(digits) <= 19 && strings.Trim(digits, "0123456789") == ""
}

// describe is never empty, since 2C2P wants a description; it must not stop a payment, so what does not fit goes.
func describe(p gateways.Payment) string {
	if d := shorten(p.Description, maxDescription); d != "" {
		return d
	}
	return p.MerchantReference
}

// shorten is shared.Shorten without the invisible direction characters, which 2C2P shows to the buyer's eyes turned around.
func shorten(s string, limit int) string {
	return shared.Shorten(strings.Map(func(r rune) rune {
		if (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
			return -1
		}
		return r
	}, s), limit)
}
