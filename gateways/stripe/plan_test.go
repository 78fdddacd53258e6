package stripe

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/secret"
)

func open(t *testing.T, base string) *Gateway {
	t.Helper()
	gw, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New(simKey), APIBase: base})
	require.NoError(t, err)
	g, ok := gw.(*Gateway)
	require.True(t, ok)
	t.Cleanup(g.client.idle)
	return g
}

func card(returnURL string) gateways.Payment {
	return gateways.Payment{
		MerchantReference: "of-1",
		Amount:            money.Amount{Minor: 1500, Currency: "JPY"},
		Method:            gateways.Method{Type: "card", Token: "pm_card_visa", ReturnURL: returnURL},
	}
}

// The forms are spelled out: a change here changes what stored operations look like.
func TestPlanFreezesTheseForms(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	with := func(typ, returnURL, description string) gateways.Payment {
		p := card(returnURL)
		p.Method.Type, p.Description = typ, description
		return p
	}
	method := func(typ, token, customer string) gateways.Payment {
		p := with(typ, "", "")
		p.Method.Token, p.Method.Reference = token, customer
		return p
	}
	later := with("card", "", "")
	later.CaptureLater = true
	for name, c := range map[string]struct {
		p                gateways.Payment
		prepare, confirm string
	}{
		"CapturedLater": {
			later,
			"amount=1500&currency=jpy&payment_method=pm_card_visa&payment_method_types[0]=card&capture_method=manual&metadata[merchant_reference]=of-1",
			"expand[0]=latest_charge&error_on_requires_action=true",
		},
		"CardWithReturn": {
			with("card", "https://shop.example/back?o=1&x=%20", "a & b"),
			"amount=1500&currency=jpy&payment_method=pm_card_visa&payment_method_types[0]=card&metadata[merchant_reference]=of-1&description=a+%26+b",
			"expand[0]=latest_charge&return_url=https%3A%2F%2Fshop.example%2Fback%3Fo%3D1%26x%3D%2520",
		},
		"CardWithoutReturn": {
			with("card", "", ""),
			"amount=1500&currency=jpy&payment_method=pm_card_visa&payment_method_types[0]=card&metadata[merchant_reference]=of-1",
			"expand[0]=latest_charge&error_on_requires_action=true",
		},
		"AutomaticWithReturn": {
			with("automatic", "https://shop.example/back", ""),
			"amount=1500&currency=jpy&payment_method=pm_card_visa&automatic_payment_methods[enabled]=true&metadata[merchant_reference]=of-1",
			"expand[0]=latest_charge&return_url=https%3A%2F%2Fshop.example%2Fback",
		},
		"AutomaticWithoutReturn": {
			with("automatic", "", ""),
			"amount=1500&currency=jpy&payment_method=pm_card_visa&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never&metadata[merchant_reference]=of-1",
			"expand[0]=latest_charge&error_on_requires_action=true",
		},
		"KonbiniWithoutReturn": {
			with("konbini", "", ""),
			"amount=1500&currency=jpy&payment_method=pm_card_visa&payment_method_types[0]=konbini&metadata[merchant_reference]=of-1",
			"expand[0]=latest_charge",
		},
		"TransferByCustomer": {
			method("customer_balance", "cus_1", ""),
			"amount=1500&currency=jpy&payment_method_data[type]=customer_balance&customer=cus_1&payment_method_types[0]=customer_balance" +
				"&payment_method_options[customer_balance][funding_type]=bank_transfer&payment_method_options[customer_balance][bank_transfer][type]=jp_bank_transfer" +
				"&metadata[merchant_reference]=of-1",
			"expand[0]=latest_charge",
		},
		"TransferByMethod": {
			method("customer_balance", "pm_1", "cus_1"),
			"amount=1500&currency=jpy&payment_method=pm_1&customer=cus_1&payment_method_types[0]=customer_balance" +
				"&payment_method_options[customer_balance][funding_type]=bank_transfer&payment_method_options[customer_balance][bank_transfer][type]=jp_bank_transfer" +
				"&metadata[merchant_reference]=of-1",
			"expand[0]=latest_charge",
		},
		"SavedCard": {
			method("card", "pm_1", "cus_1"),
			"amount=1500&currency=jpy&payment_method=pm_1&customer=cus_1&payment_method_types[0]=card&metadata[merchant_reference]=of-1",
			"expand[0]=latest_charge&error_on_requires_action=true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned, err := g.Plan(c.p)
			require.NoError(t, err)
			require.Equal(t, []gateways.Planned{
				{Kind: gateways.Prepare, Request: []byte(c.prepare)},
				{Kind: gateways.Confirm, Request: []byte(c.confirm)},
			}, planned)
		})
	}
}

func TestPlanRefusesWithASentence(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	for name, spoil := range map[string]func(*gateways.Payment){
		"CardNumber":        func(p *gateways.Payment) { p.Method.Token = "4242424242424242" },
		"RawToken":          func(p *gateways.Payment) { p.Method.Token = "tok_visa" },
		"TokenWithSyntax":   func(p *gateways.Payment) { p.Method.Token = "pm_1&amount=1" },
		"NoToken":           func(p *gateways.Payment) { p.Method.Token = "" },
		"UnknownMethod":     func(p *gateways.Payment) { p.Method.Type = "cheque" },
		"KonbiniInDollars":  func(p *gateways.Payment) { p.Method.Type, p.Amount.Currency = "konbini", "USD" },
		"RelativeReturnURL": func(p *gateways.Payment) { p.Method.ReturnURL = "/back" },
		"ScriptReturnURL":   func(p *gateways.Payment) { p.Method.ReturnURL = "javascript:alert(1)" },
		"UserInReturnURL":   func(p *gateways.Payment) { p.Method.ReturnURL = "https://a:b@shop.example/" },
		"ThreeDecimals":     func(p *gateways.Payment) { p.Amount = money.Amount{Minor: 1234, Currency: "KWD"} },
		"ZeroAmount":        func(p *gateways.Payment) { p.Amount.Minor = 0 },
		"NoReference":       func(p *gateways.Payment) { p.MerchantReference = "" },
		"TransferOfNobody":  func(p *gateways.Payment) { p.Method.Type = "customer_balance" },
		"TransferOfTwo": func(p *gateways.Payment) {
			p.Method = gateways.Method{Type: "customer_balance", Token: "cus_1", Reference: "cus_2"}
		},
		"TransferInEuro": func(p *gateways.Payment) {
			p.Method = gateways.Method{Type: "customer_balance", Token: "cus_1"}
			p.Amount.Currency = "EUR"
		},
		"CustomerForACard":  func(p *gateways.Payment) { p.Method.Token = "cus_1" },
		"CustomerIsAnOrder": func(p *gateways.Payment) { p.Method.Reference = "alert-7" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := card("")
			spoil(&p)
			_, err := g.Plan(p)
			require.True(t, fault.IsCode(err, fault.PaymentInvalid), "%v", err)
			cause := fault.As(err).Cause.Error()
			require.NotEmpty(t, cause)
			for _, input := range []string{"4242", "tok_visa", "amount=1", "cheque", "alert", "a:b@"} {
				require.NotContains(t, cause, input, "never quotes input")
			}
		})
	}
	_, err := g.PlanCancel("pi_1/../../refunds")
	require.True(t, fault.IsCode(err, fault.PaymentInvalid))
}

func TestDescriptionsAreCutBetweenWholeCharacters(t *testing.T) {
	t.Parallel()
	const family = "👨‍👩‍👧" // five runes, one character
	for name, c := range map[string]struct {
		in    string
		limit int
		want  string
	}{
		"Fits":                {"gift", 4, "gift"},
		"CutAscii":            {"gifts", 4, "gift"},
		"FamilyKept":          {"a" + family, 6, "a" + family},
		"FamilyDropped":       {"a" + family, 5, "a"},
		"FamilyNotHalved":     {family + family, 9, family},
		"AccentDropped":       {"cafe\u0301", 4, "caf"},
		"AccentKept":          {"cafe\u0301s", 5, "cafe\u0301"},
		"SkinToneNotCut":      {"ab👍🏽", 3, "ab"},
		"FlagNotHalved":       {"🇯🇵🇹🇭", 3, "🇯🇵"},
		"NothingFits":         {family, 2, ""},
		"ControlsGo":          {"a\x00b\r\nc", 10, "abc"},
		"InvalidGoes":         {"a\xed\xa0\x80b", 10, "ab"},
		"SpaceAtTheCutGoes":   {"a bc", 2, "a"},
		"OnlyControlsIsEmpty": {"\x00\x01", 10, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := shared.Shorten(c.in, c.limit)
			require.Equal(t, c.want, got)
			require.True(t, utf8.ValidString(got))
		})
	}
	require.Equal(t, maxDescription, utf8.RuneCountInString(shared.Shorten(strings.Repeat("ギ", 5000), maxDescription)))
}

func TestEveryStripeCurrencyIsCountedAsStripeDoes(t *testing.T) {
	t.Parallel()
	for c, want := range map[money.Currency]bool{
		"JPY": true, "KRW": true, "VND": true, "THB": true, "USD": true, "EUR": true, "TWD": true, "HUF": true,
		"KWD": true, "BHD": true, "JOD": true, "OMR": true, "TND": true,
		"ISK": false, "UGX": false, "MGA": false, // counted differently from ISO 4217
		"IQD": false, "LYD": false, "CLF": false, // three or four decimals that Stripe does not list
		"jpy": false, "": false, "ZZZ": false,
	} {
		require.Equal(t, want, validAmount(money.Amount{Minor: 1000, Currency: c}) == nil, string(c))
	}
}
