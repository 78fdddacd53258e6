package stripe

import (
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	stripego "github.com/stripe/stripe-go/v76"

	"orderflow/gateways"
	"orderflow/gateways/shared"
)

// nextAction is what the buyer can do with a plain link or a printed number. use_stripe_sdk has neither: it needs the
// client secret in the browser, which never passes through us.
func nextAction(a *stripego.PaymentIntentNextAction) *gateways.NextAction {
	if a == nil {
		return nil
	}
	switch {
	case a.RedirectToURL != nil:
		return link("redirect", a.RedirectToURL.URL, 0)
	case a.KonbiniDisplayDetails != nil:
		return voucher(a.KonbiniDisplayDetails)
	case a.DisplayBankTransferInstructions != nil:
		return transfer(a.DisplayBankTransferInstructions)
	case a.PromptPayDisplayQRCode != nil:
		return qr(a.PromptPayDisplayQRCode.HostedInstructionsURL, a.PromptPayDisplayQRCode.Data)
	case a.PayNowDisplayQRCode != nil:
		return qr(a.PayNowDisplayQRCode.HostedInstructionsURL, a.PayNowDisplayQRCode.Data)
	case a.AlipayHandleRedirect != nil:
		return link("redirect", a.AlipayHandleRedirect.URL, 0)
	}
	return nil
}

// link passes web addresses only: the buyer's browser is sent there.
func link(kind, raw string, due int64) *gateways.NextAction {
	address := webAddress(raw)
	if address == "" {
		return nil
	}
	a := &gateways.NextAction{Type: kind, URL: address}
	if due > 0 {
		a.Due = time.Unix(due, 0).UTC().Format(time.RFC3339)
	}
	return a
}

// qrShape is what the QR codes of payment schemes hold: printable ASCII.
var qrShape = regexp.MustCompile(`^[ -~]{1,1000}$`)

// qr is the page with the code and, for a shop that draws it itself, its text.
func qr(page, text string) *gateways.NextAction {
	a := &gateways.NextAction{Type: "qr", URL: webAddress(page)}
	if qrShape.MatchString(text) {
		a.QR = text
	}
	if a.URL == "" && a.QR == "" {
		return nil
	}
	return a
}

func webAddress(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return ""
	}
	return raw
}

var numberShape = regexp.MustCompile(`^[0-9]{1,20}$`)

// voucher is the page with the voucher and, for a shop that shows it itself, what to key in at the counter: every chain has
// a payment code of its own and all have the same confirmation number.
func voucher(d *stripego.PaymentIntentNextActionKonbiniDisplayDetails) *gateways.NextAction {
	a := link("voucher", d.HostedVoucherURL, d.ExpiresAt)
	if d.Stores == nil {
		return a
	}
	var codes []string
	add := func(store, payment, confirmation string) {
		if numberShape.MatchString(payment) && numberShape.MatchString(confirmation) {
			codes = append(codes, store+" "+payment+"-"+confirmation)
		}
	}
	if s := d.Stores.FamilyMart; s != nil {
		add("FamilyMart", s.PaymentCode, s.ConfirmationNumber)
	}
	if s := d.Stores.Lawson; s != nil {
		add("Lawson", s.PaymentCode, s.ConfirmationNumber)
	}
	if s := d.Stores.Ministop; s != nil {
		add("Ministop", s.PaymentCode, s.ConfirmationNumber)
	}
	if s := d.Stores.Seicomart; s != nil {
		add("Seicomart", s.PaymentCode, s.ConfirmationNumber)
	}
	if len(codes) == 0 {
		return a
	}
	if a == nil {
		a = &gateways.NextAction{Type: "voucher"}
		if d.ExpiresAt > 0 {
			a.Due = time.Unix(d.ExpiresAt, 0).UTC().Format(time.RFC3339)
		}
	}
	a.Code = strings.Join(codes, ", ")
	return a
}

// transfer is the account to transfer to, and the page that explains it. Stripe names no end: the intent waits until it is
// canceled.
func transfer(d *stripego.PaymentIntentNextActionDisplayBankTransferInstructions) *gateways.NextAction {
	a := &gateways.NextAction{Type: "transfer", URL: webAddress(d.HostedInstructionsURL), Code: plainText(d.Reference)}
	for _, f := range d.FinancialAddresses {
		if f == nil {
			continue
		}
		if fill(a, f); a.Account != "" {
			break
		}
	}
	if a.URL == "" && a.Account == "" {
		return nil
	}
	return a
}

func fill(a *gateways.NextAction, f *stripego.PaymentIntentNextActionDisplayBankTransferInstructionsFinancialAddress) {
	set := func(account, holder string, bank ...string) {
		a.Account, a.Holder, a.Bank = plainText(account), plainText(holder), plainText(strings.Join(bank, " "))
	}
	switch {
	case f.Zengin != nil:
		z := f.Zengin
		set(z.AccountNumber, z.AccountHolderName, z.BankCode, z.BankName, z.BranchCode, z.BranchName, z.AccountType)
	case f.ABA != nil:
		set(f.ABA.AccountNumber, "", f.ABA.RoutingNumber, f.ABA.BankName)
	case f.SortCode != nil:
		set(f.SortCode.AccountNumber, f.SortCode.AccountHolderName, f.SortCode.SortCode)
	case f.Spei != nil:
		set(f.Spei.Clabe, "", f.Spei.BankCode, f.Spei.BankName)
	case f.IBAN != nil:
		set(f.IBAN.IBAN, f.IBAN.AccountHolderName, f.IBAN.BIC)
	case f.Swift != nil:
		set(f.Swift.AccountNumber, "", f.Swift.SwiftCode, f.Swift.BankName)
	}
}

// maxText bounds what is passed on of a bank's words.
const maxText = 200

// plainText is one line of printable text.
func plainText(s string) string {
	return shared.Shorten(strings.Join(strings.FieldsFunc(s, unicode.IsSpace), " "), maxText)
}
