package stripe

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	stripego "github.com/stripe/stripe-go/v76"

	"orderflow/gateways"
)

type (
	konbiniDetails = stripego.PaymentIntentNextActionKonbiniDisplayDetails
	konbiniStores  = stripego.PaymentIntentNextActionKonbiniDisplayDetailsStores
	lawson         = stripego.PaymentIntentNextActionKonbiniDisplayDetailsStoresLawson
	familyMart     = stripego.PaymentIntentNextActionKonbiniDisplayDetailsStoresFamilyMart
	instructions   = stripego.PaymentIntentNextActionDisplayBankTransferInstructions
	address        = stripego.PaymentIntentNextActionDisplayBankTransferInstructionsFinancialAddress
	zengin         = stripego.PaymentIntentNextActionDisplayBankTransferInstructionsFinancialAddressZengin
	iban           = stripego.PaymentIntentNextActionDisplayBankTransferInstructionsFinancialAddressIBAN
	sortCode       = stripego.PaymentIntentNextActionDisplayBankTransferInstructionsFinancialAddressSortCode
	spei           = stripego.PaymentIntentNextActionDisplayBankTransferInstructionsFinancialAddressSpei
	aba            = stripego.PaymentIntentNextActionDisplayBankTransferInstructionsFinancialAddressABA
	swift          = stripego.PaymentIntentNextActionDisplayBankTransferInstructionsFinancialAddressSwift
)

func TestAVoucherShowsItsNumbers(t *testing.T) {
	t.Parallel()
	stores := &konbiniStores{
		FamilyMart: &familyMart{PaymentCode: "123456", ConfirmationNumber: "09012345678"},
		Lawson:     &lawson{PaymentCode: "654321", ConfirmationNumber: "09012345678"},
	}
	due := time.Date(2026, 1, 2, 14, 59, 59, 0, time.UTC)
	const codes = "FamilyMart 123456-09012345678, Lawson 654321-09012345678"
	for name, c := range map[string]struct {
		details konbiniDetails
		want    *gateways.NextAction
	}{
		"Whole": {
			konbiniDetails{ExpiresAt: due.Unix(), HostedVoucherURL: "https://pay.example/v", Stores: stores},
			&gateways.NextAction{Type: "voucher", URL: "https://pay.example/v", Due: "2026-01-02T14:59:59Z", Code: codes},
		},
		"NumbersOnly": {
			konbiniDetails{ExpiresAt: due.Unix(), Stores: stores},
			&gateways.NextAction{Type: "voucher", Due: "2026-01-02T14:59:59Z", Code: codes},
		},
		"PageOnly":  {konbiniDetails{HostedVoucherURL: "https://pay.example/v"}, &gateways.NextAction{Type: "voucher", URL: "https://pay.example/v"}},
		"NoStores":  {konbiniDetails{HostedVoucherURL: "https://pay.example/v", Stores: &konbiniStores{}}, &gateways.NextAction{Type: "voucher", URL: "https://pay.example/v"}},
		"NotDigits": {konbiniDetails{Stores: &konbiniStores{Lawson: &lawson{PaymentCode: "<b>1", ConfirmationNumber: "1"}}}, nil},
		"Nothing":   {konbiniDetails{HostedVoucherURL: "javascript:alert(1)"}, nil},
	} {
		require.Equal(t, c.want, nextAction(&stripego.PaymentIntentNextAction{KonbiniDisplayDetails: &c.details}), name)
	}
}

func TestATransferShowsItsAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address *address
		want    gateways.NextAction
	}{
		"Japan": {
			&address{Zengin: &zengin{AccountHolderName: "ショップ（カ", AccountNumber: "1234567", AccountType: "futsu", BankCode: "0005", BankName: "三菱", BranchCode: "001", BranchName: "本店"}},
			gateways.NextAction{Account: "1234567", Holder: "ショップ（カ", Bank: "0005 三菱 001 本店 futsu"},
		},
		"USA":     {&address{ABA: &aba{AccountNumber: "1", BankName: "B", RoutingNumber: "2"}}, gateways.NextAction{Account: "1", Bank: "2 B"}},
		"Britain": {&address{SortCode: &sortCode{AccountHolderName: "H", AccountNumber: "1", SortCode: "2"}}, gateways.NextAction{Account: "1", Holder: "H", Bank: "2"}},
		"Mexico":  {&address{Spei: &spei{BankCode: "3", BankName: "B", Clabe: "1"}}, gateways.NextAction{Account: "1", Bank: "3 B"}},
		"Europe":  {&address{IBAN: &iban{AccountHolderName: "H", BIC: "B", IBAN: "1"}}, gateways.NextAction{Account: "1", Holder: "H", Bank: "B"}},
		"Swift":   {&address{Swift: &swift{AccountNumber: "1", BankName: "B", SwiftCode: "S"}}, gateways.NextAction{Account: "1", Bank: "S B"}},
		"Null":    {nil, gateways.NextAction{}},
		"New":     {&address{}, gateways.NextAction{}},
		"Controls": {
			&address{ABA: &aba{AccountNumber: "1\n\x1b[31m2", BankName: strings.Repeat("é", 500), RoutingNumber: ""}},
			gateways.NextAction{Account: "1 [31m2", Bank: strings.Repeat("é", maxText)},
		},
	} {
		got := nextAction(&stripego.PaymentIntentNextAction{DisplayBankTransferInstructions: &instructions{
			HostedInstructionsURL: "https://pay.example/t", Reference: "REF 1", FinancialAddresses: []*address{nil, c.address},
		}})
		c.want.Type, c.want.URL, c.want.Code = "transfer", "https://pay.example/t", "REF 1"
		require.Equal(t, &c.want, got, name)
	}
	require.Nil(t, nextAction(&stripego.PaymentIntentNextAction{DisplayBankTransferInstructions: &instructions{}}))
}

func TestAQRCodeIsAPageOrAText(t *testing.T) {
	t.Parallel()
	code := func(page, text string) *gateways.NextAction {
		return nextAction(&stripego.PaymentIntentNextAction{PromptPayDisplayQRCode: &stripego.PaymentIntentNextActionPromptPayDisplayQRCode{
			HostedInstructionsURL: page, Data: text,
		}})
	}
	require.Equal(t, &gateways.NextAction{Type: "qr", URL: "https://pay.example/q", QR: "000201"}, code("https://pay.example/q", "000201"))
	require.Equal(t, &gateways.NextAction{Type: "qr", URL: "https://pay.example/q"}, code("https://pay.example/q", "a\nb"))
	require.Equal(t, &gateways.NextAction{Type: "qr", QR: "000201"}, code("javascript:alert(1)", "000201"))
	require.Nil(t, code("", ""))
	payNow := nextAction(&stripego.PaymentIntentNextAction{PayNowDisplayQRCode: &stripego.PaymentIntentNextActionPayNowDisplayQRCode{Data: "000201"}})
	require.Equal(t, &gateways.NextAction{Type: "qr", QR: "000201"}, payNow)
}
