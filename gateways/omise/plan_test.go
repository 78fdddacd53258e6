package omise

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/secret"
)

func TestThePlannedBytes(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	p := payment(methodCard, "tokn_test_1")
	p.Method.ReturnURL = "https://shop.example/back?o=1&x=2"
	for want, change := range map[string]func(*gateways.Payment){
		`{"card":"tokn_test_1","amount":1500,"currency":"jpy","description":"one gift","return_uri":"https://shop.example/back?o=1\u0026x=2","metadata":{"merchant_reference":"of-1"},"platform_fee":{}}`: func(*gateways.Payment) {},
		`{"source":"src_test_1","amount":1500,"currency":"jpy","metadata":{"merchant_reference":"of-1"},"platform_fee":{}}`: func(p *gateways.Payment) {
			p.Method, p.Description = gateways.Method{Type: methodSource, Token: "src_test_1"}, " \x00 "
		},
		`{"customer":"cust_test_1","amount":8050,"currency":"thb","description":"one gift","metadata":{"merchant_reference":"of-1"},"platform_fee":{}}`: func(p *gateways.Payment) {
			p.Method, p.Amount = gateways.Method{Type: methodCustomer, Token: "cust_test_1"}, money.Amount{Minor: 8050, Currency: "THB"}
		},
	} {
		q := p
		change(&q)
		planned, err := g.Plan(q)
		require.NoError(t, err)
		require.Equal(t, []gateways.Planned{{Kind: gateways.Confirm, Request: []byte(want)}}, planned)
	}
}

func TestAmountsKeepTheCurrencysUnits(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	for currency := range currencies {
		exp, err := currency.Exponent()
		require.NoError(t, err)
		require.Equal(t, currencies[currency], exp, "%s counts at Omise as in ISO 4217", currency)
	}
	for decimal, want := range map[string]string{
		"80 JPY": `"amount":80,"currency":"jpy"`, "80.50 THB": `"amount":8050,"currency":"thb"`, "17.99 USD": `"amount":1799,"currency":"usd"`,
	} {
		text, currency, _ := strings.Cut(decimal, " ")
		amount, err := money.Parse(text, money.Currency(currency))
		require.NoError(t, err)
		p := payment(methodCard, "tokn_test_1")
		p.Amount = amount
		planned, err := g.Plan(p)
		require.NoError(t, err)
		require.Contains(t, string(planned[0].Request), want)
	}
}

func TestWhatOmiseCannotTakeIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	for name, change := range map[string]func(*gateways.Payment){
		"KRW":                 func(p *gateways.Payment) { p.Amount.Currency = "KRW" },
		"KWD":                 func(p *gateways.Payment) { p.Amount.Currency = "KWD" },
		"NoCurrency":          func(p *gateways.Payment) { p.Amount.Currency = "" },
		"LowerCase":           func(p *gateways.Payment) { p.Amount.Currency = "jpy" },
		"Zero":                func(p *gateways.Payment) { p.Amount.Minor = 0 },
		"Negative":            func(p *gateways.Payment) { p.Amount.Minor = -1 },
		"NoMethod":            func(p *gateways.Payment) { p.Method.Type = "" },
		"OtherMethod":         func(p *gateways.Payment) { p.Method.Type = "paypay" },
		"CardNumber":          func(p *gateways.Payment) { p.Method.Token = "4242424242424242" },
		"SourceAsCard":        func(p *gateways.Payment) { p.Method.Token = "src_test_1" },
		"CustomerAsCard":      func(p *gateways.Payment) { p.Method.Token = "cust_test_1" },
		"TokenAsCustomer":     func(p *gateways.Payment) { p.Method.Type = methodCustomer },
		"LiveToken":           func(p *gateways.Payment) { p.Method.Token = "tokn_5abc" },
		"InjectedToken":       func(p *gateways.Payment) { p.Method.Token = `tokn_test_1","amount":1` },
		"NoToken":             func(p *gateways.Payment) { p.Method.Token = "" },
		"NoReference":         func(p *gateways.Payment) { p.MerchantReference = "" },
		"LongReference":       func(p *gateways.Payment) { p.MerchantReference = strings.Repeat("x", 256) },
		"SpacedReference":     func(p *gateways.Payment) { p.MerchantReference = " of-1" },
		"RelativeReturnURL":   func(p *gateways.Payment) { p.Method.ReturnURL = "/back" },
		"ScriptReturnURL":     func(p *gateways.Payment) { p.Method.ReturnURL = "javascript:alert(1)" },
		"ReturnURLWithSecret": func(p *gateways.Payment) { p.Method.ReturnURL = "https://u:p@shop.example/" },
	} {
		p := payment(methodCard, "tokn_test_1")
		change(&p)
		_, err := g.Plan(p)
		require.True(t, fault.IsCode(err, fault.PaymentInvalid), "%s: %v", name, err)
		require.NotContains(t, fault.As(err).Cause.Error(), "4242424242424242")
	}
	live, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New("skey_5abc")})
	require.NoError(t, err)
	_, err = live.Plan(payment(methodCard, "tokn_test_1"))
	require.True(t, fault.IsCode(err, fault.PaymentInvalid), "a test token on a live account: %v", err)
}

// Whatever the texts are, the frozen bytes are the same each time, are sent back unchanged, and say what was asked.
func TestAnyPlanSurvivesTheWire(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	rapid.Check(t, func(t *rapid.T) {
		p := payment(methodCard, "tokn_test_"+rapid.StringMatching(`[a-z0-9]{1,30}`).Draw(t, "token"))
		p.MerchantReference = rapid.String().Draw(t, "reference")
		p.Description = rapid.String().Draw(t, "description")
		p.Amount.Minor = rapid.Int64().Draw(t, "amount")
		first, err := g.Plan(p)
		if err != nil {
			require.True(t, fault.IsCode(err, fault.PaymentInvalid), "%v", err)
			return
		}
		second, err := g.Plan(p)
		require.NoError(t, err)
		require.Equal(t, first, second)
		method, err := thaw(first[0].Request)
		require.NoError(t, err)
		require.Equal(t, methodCard, method)
		var sent struct {
			Amount      int64
			Description string
			Metadata    map[string]string
		}
		require.NoError(t, json.Unmarshal(first[0].Request, &sent))
		require.Equal(t, p.Amount.Minor, sent.Amount)
		require.Equal(t, p.MerchantReference, sent.Metadata[referenceField])
		require.True(t, utf8.ValidString(sent.Description))
		require.LessOrEqual(t, utf8.RuneCountInString(sent.Description), maxDescription)
	})
}

func TestADescriptionIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	family := "👨‍👩‍👧"
	require.Equal(t, strings.Repeat("x", 254), shared.Shorten(strings.Repeat("x", 254)+family, 255))
	require.Equal(t, strings.Repeat("x", 254), shared.Shorten(strings.Repeat("x", 254)+"e\u0301", 255))
	require.Equal(t, "ab", shared.Shorten("  a\x00b\xff\n ", 255))
}
