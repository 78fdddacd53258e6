package twoctwop

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/secret"
)

func offline(t *testing.T) *Gateway {
	t.Helper()
	gw, err := OpenWith(gateways.Settings{
		Name: "default", PublicKey: simMerchant, SecretKey: secret.New(simSecret), APIBase: "http://127.0.0.1:1", Environment: gateways.Test,
	}, Options{})
	require.NoError(t, err)
	return gw
}

// TestFrozenRequests pins the bytes, so that a change of them is seen: an upgrade must still send what was stored before.
func TestFrozenRequests(t *testing.T) {
	t.Parallel()
	g := offline(t)
	p := byCard("OFABCDEFGH12345678", "secure-token", money.Amount{Minor: 8050, Currency: "THB"})
	planned, err := g.Plan(p)
	require.NoError(t, err)
	require.Equal(t, `{"merchantID":"SANDBOX01","invoiceNo":"OFABCDEFGH12345678","description":"one gift","amount":80.50,"currencyCode":"THB",`+
		`"paymentChannel":["CC"],"idempotencyID":"OFABCDEFGH12345678","frontendReturnUrl":"https://shop.example/back?order=1\u0026x=a%20b",`+
		`"userDefined1":"OFABCDEFGH12345678"}`, string(planned[0].Request))
	require.Equal(t, `{"invoiceNo":"OFABCDEFGH12345678","amount":80.50,"currencyCode":"THB","method":"card","send":{"clientID":"`+
		clientID("OFABCDEFGH12345678")+`","locale":"en","responseReturnUrl":"https://shop.example/back?order=1\u0026x=a%20b",`+
		`"payment":{"code":{"channelCode":"CC"},"data":{"securePayToken":"secure-token"}}}}`, string(planned[1].Request))
	require.NotContains(t, string(planned[0].Request), "secure-token", "the card goes out once, with the confirm")
}

func TestMethods(t *testing.T) {
	t.Parallel()
	g := offline(t)
	thb := money.Amount{Minor: 8050, Currency: "THB"}
	for name, tc := range map[string]struct {
		method   gateways.Method
		prepare  string
		confirm  string
		unlikely string
	}{
		"CardWithoutReturn": {gateways.Method{Type: "card", Token: "x"}, `"request3DS":"N"`, `"securePayToken":"x"`, "ReturnUrl"},
		"Hosted":            {gateways.Method{Type: "redirect", ReturnURL: "https://shop.example/"}, `"frontendReturnUrl":"https://shop.example/"`, `"method":"redirect"}`, `"send"`},
		"PromptPay":         {gateways.Method{Type: "promptpay"}, `"paymentChannel":["PPQR"]`, `"code":{"channelCode":"PPQR"},"data":{}`, "securePayToken"},
		"QR":                {gateways.Method{Type: "qr"}, `"paymentChannel":["PPQR"]`, `"code":{"channelCode":"PPQR"}`, "request3DS"},
		"PayPay":            {gateways.Method{Type: "paypay", ReturnURL: "https://shop.example/"}, `"paymentChannel":["PAYPAY"]`, `"channelCode":"PAYPAY"`, "request3DS"},
		"Counter":           {gateways.Method{Type: "counter"}, `"paymentChannel":["123"]`, `"code":{"channelCode":"123"}`, "agentCode"},
		"CounterAgent":      {gateways.Method{Type: "counter", Token: "BIGC"}, `"123"`, `"agentCode":"BIGC","agentChannelCode":"OVERTHECOUNTER"`, "securePayToken"},
		"CounterMachine":    {gateways.Method{Type: "counter", Token: "SCB/ATM"}, `"123"`, `"agentCode":"SCB","agentChannelCode":"ATM"`, "securePayToken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned, err := g.Plan(gateways.Payment{MerchantReference: "OF1", Amount: thb, Method: tc.method})
			require.NoError(t, err)
			require.Contains(t, string(planned[0].Request), tc.prepare)
			require.Contains(t, string(planned[0].Request), `"description":"OF1"`, "2C2P wants a description")
			require.Contains(t, string(planned[1].Request), tc.confirm)
			require.NotContains(t, string(planned[0].Request)+string(planned[1].Request), tc.unlikely)
		})
	}
}

func TestRefusedByForm(t *testing.T) {
	t.Parallel()
	g := offline(t)
	for name, spoil := range map[string]func(*gateways.Payment){
		"Method":           func(p *gateways.Payment) { p.Method.Type = "cheque" },
		"NoToken":          func(p *gateways.Payment) { p.Method.Token = "" },
		"CardNumber":       func(p *gateways.Payment) { p.Method.Token = "4111111111111111" },
		"DashedCardNumber": func(p *gateways.Payment) { p.Method.Token = "4111-1111-1111-1111" },
		"TokenWithSpace":   func(p *gateways.Payment) { p.Method.Token = "a b" },
		"LongToken":        func(p *gateways.Payment) { p.Method.Token = strings.Repeat("x", 8193) },
		"LongReference":    func(p *gateways.Payment) { p.MerchantReference = strings.Repeat("A", 51) },
		"Dash":             func(p *gateways.Payment) { p.MerchantReference = "OF-1" },
		"LongQRReference": func(p *gateways.Payment) {
			p.Method = gateways.Method{Type: "qr"}
			p.MerchantReference = strings.Repeat("A", 21)
		},
		"QRWithToken": func(p *gateways.Payment) { p.Method.Type = "qr" },
		"PromptPayInYen": func(p *gateways.Payment) {
			p.Method = gateways.Method{Type: "promptpay"}
			p.Amount = money.Amount{Minor: 1, Currency: "JPY"}
		},
		"HostedNoReturn":    func(p *gateways.Payment) { p.Method = gateways.Method{Type: "redirect"} },
		"CounterAgentWords": func(p *gateways.Payment) { p.Method = gateways.Method{Type: "counter", Token: "Big C"} },
		"ReturnScript":      func(p *gateways.Payment) { p.Method.ReturnURL = "javascript:alert(1)" },
		"LongReturn":        func(p *gateways.Payment) { p.Method.ReturnURL = "https://shop.example/" + strings.Repeat("x", 255) },
		"FiveDecimalsMost":  func(p *gateways.Payment) { p.Amount = money.Amount{Minor: 100_000_000_000_000, Currency: "THB"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := byCard("OF1", "secure", money.Amount{Minor: 8050, Currency: "THB"})
			spoil(&p)
			_, err := g.Plan(p)
			require.True(t, fault.IsCode(err, fault.PaymentInvalid), "%v", err)
			require.Error(t, fault.As(err).Cause, "the cause says what to do")
		})
	}
	longest := byCard(strings.Repeat("A", 50), "secure", money.Amount{Minor: 99_999_999_999_999, Currency: "THB"})
	_, err := g.Plan(longest)
	require.NoError(t, err)
	for _, id := range []string{"", "a b", "../x", strings.Repeat("A", 51)} {
		_, err := g.PlanCancel(id)
		require.True(t, fault.IsCode(err, fault.PaymentInvalid))
	}
}

// TestAmountsSurviveTheWire: whatever is written is read back as the same amount, padded or not, and no float is on the way.
func TestAmountsSurviveTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.SampledFrom([]money.Currency{"JPY", "KRW", "THB", "USD", "KWD", "BHD", "IDR", "CLF"}).Draw(t, "currency")
		minor := rapid.Int64Range(1, 999_999_999_000).Draw(t, "minor")
		if code == "IDR" {
			minor = minor / 100 * 100
		}
		if minor == 0 {
			return
		}
		a := money.Amount{Minor: minor, Currency: code}
		text, err := wireAmount(a)
		if err != nil {
			t.Fatal(err)
		}
		whole, places, _ := strings.Cut(text, ".")
		padded := strings.Repeat("0", 12-len(whole)) + whole + "." + places + strings.Repeat("0", 5-len(places))
		for _, form := range []any{text, padded, json.Number(text)} {
			got, ok := amountOf(fields{"amount": form, "currencyCode": string(code)})
			if !ok || got != a {
				t.Fatalf("%v %s reads as %v", form, code, got)
			}
		}
		// The next amount is another one in every form.
		other, err := wireAmount(money.Amount{Minor: minor + 100, Currency: code})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := amountOf(fields{"amount": other, "currencyCode": string(code)}); !ok || got == a {
			t.Fatalf("%s and %s read alike", other, text)
		}
	})
}

func TestAmountsThatSayNothing(t *testing.T) {
	t.Parallel()
	for _, f := range []fields{
		{},
		{"amount": "80"},
		{"currencyCode": "JPY"},
		{"amount": "", "currencyCode": "JPY"},
		{"amount": "80", "currencyCode": "jpy"},
		{"amount": "0", "currencyCode": "JPY"},
		{"amount": "-80", "currencyCode": "JPY"},
		{"amount": "80.1", "currencyCode": "JPY"},
		{"amount": "8e1", "currencyCode": "JPY"},
		{"amount": json.Number("8e1"), "currencyCode": "JPY"},
		{"amount": "1,500", "currencyCode": "JPY"},
		{"amount": nil, "currencyCode": "JPY"},
		{"amount": true, "currencyCode": "JPY"},
		{"amount": "80", "currencyCode": nil},
		{"amount": "80.505", "currencyCode": "THB"},
		{"amount": "99999999999999999999", "currencyCode": "JPY"},
		{"amount": "80", "currencyCode": "392"},
	} {
		_, ok := amountOf(f)
		require.False(t, ok, "%v", f)
	}
	got, ok := amountOf(fields{"amount": "000000002500.90000", "currencyCode": "THB"})
	require.True(t, ok)
	require.Equal(t, money.Amount{Minor: 250090, Currency: "THB"}, got)
}

func TestDescriptionsEndBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("👨‍👩‍👧", 100), strings.Repeat("e\u0301", 300), strings.Repeat("👍🏽", 200), strings.Repeat("é", 1000), "x" + strings.Repeat("🇯🇵", 200),
		"a\x00b\xff\u202ec", strings.Repeat("\u0301", 400),
	} {
		got := shorten(text, maxDescription)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, utf8.RuneCountInString(got), maxDescription)
		require.NotContains(t, got, "\x00")
		require.NotContains(t, got, "\u202e")
		if r := []rune(got); len(r) > 0 && len(r) < utf8.RuneCountInString(text) {
			require.NotEqual(t, '\u200d', r[len(r)-1], "no joiner is left at the end")
		}
	}
}

func TestForeignStoredRequestsAreNotSent(t *testing.T) {
	t.Parallel()
	g := offline(t)
	planned, err := g.Plan(byCard("OF1", "secure", money.Amount{Minor: 8050, Currency: "THB"}))
	require.NoError(t, err)
	private := kept{Token: "t", Made: 1, Amount: 8050, Currency: "THB"}.seal()
	for name, op := range map[string]gateways.Operation{
		"Nothing":       {Key: "k", ProviderPaymentID: "OF1", Private: private},
		"NoJSON":        {Key: "k", ProviderPaymentID: "OF1", Private: private, Request: []byte("amount=80")},
		"Spaced":        {Key: "k", ProviderPaymentID: "OF1", Private: private, Request: append([]byte(" "), planned[1].Request...)},
		"UnknownField":  {Key: "k", ProviderPaymentID: "OF1", Private: private, Request: []byte(`{"x":1}`)},
		"NoToken":       {Key: "k", ProviderPaymentID: "OF1", Request: planned[1].Request},
		"EmptyPrivate":  {Key: "k", ProviderPaymentID: "OF1", Private: secret.New("{}"), Request: planned[1].Request},
		"ForeignToken":  {Key: "k", ProviderPaymentID: "OF1", Private: secret.New("ps_1"), Request: planned[1].Request},
		"OtherID":       {Key: "k", ProviderPaymentID: "OF2", Private: private, Request: planned[1].Request},
		"NoID":          {Key: "k", Private: private, Request: planned[1].Request},
		"OtherOurs":     {Key: "k", ProviderPaymentID: "OF1", MerchantReference: "OF2", Private: private, Request: planned[1].Request},
		"APrepare":      {Key: "k", ProviderPaymentID: "OF1", Private: private, Request: planned[0].Request},
		"OtherMerchant": {Key: "k", Request: []byte(strings.Replace(string(planned[0].Request), simMerchant, "JT01", 1))},
	} {
		kind := gateways.Confirm
		if name == "OtherMerchant" {
			kind = gateways.Prepare
		}
		_, err := g.Send(t.Context(), kind, op)
		require.True(t, fault.IsCode(err, fault.InternalError), "%s: %v", name, err)
	}
}
