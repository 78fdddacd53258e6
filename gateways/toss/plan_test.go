package toss

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

func won(minor int64) money.Amount { return money.Amount{Minor: minor, Currency: "KRW"} }

func usd(minor int64) money.Amount { return money.Amount{Minor: minor, Currency: "USD"} }

func TestPlanFreezesOneConfirmInMainUnits(t *testing.T) {
	t.Parallel()
	g := opened(t, nil)
	for _, c := range []struct {
		method string
		amount money.Amount
		wire   string
	}{
		{"card", won(12345), `12345`},
		{"easy_pay", won(1), `1`},
		{"transfer", won(12345), `12345`},
		{"virtual_account", won(12345), `12345`},
		{"mobile", won(12345), `12345`},
		{"foreign_easy_pay", money.Amount{Minor: 80, Currency: "JPY"}, `80`},
		{"foreign_easy_pay", money.Amount{Minor: 1799, Currency: "USD"}, `17.99`},
		{"foreign_easy_pay", money.Amount{Minor: 7, Currency: "USD"}, `0.07`},
	} {
		p := begun("pay_ok", "order-1", c.amount)
		p.Method.Type, p.Method.Token = c.method, "tgen_20260605abc=_-"
		planned, err := g.Plan(p)
		require.NoError(t, err)
		require.Equal(t, []gateways.Planned{{
			Kind: gateways.Confirm, Request: []byte(`{"paymentKey":"tgen_20260605abc=_-","orderId":"order-1","amount":` + c.wire + `}`),
		}}, planned)
		_, err = thawConfirm(planned[0].Request)
		require.NoError(t, err)
	}
}

func TestPlanRefusesWhatTossWouldOrABuyerChanged(t *testing.T) {
	t.Parallel()
	g := opened(t, nil)
	for name, c := range map[string]struct {
		change func(*gateways.Payment)
		says   string
	}{
		"NoToken":         {func(p *gateways.Payment) { p.Method.Token = "" }, "paymentKey"},
		"LongToken":       {func(p *gateways.Payment) { p.Method.Token = strings.Repeat("k", 201) }, "200"},
		"TokenIsAPath":    {func(p *gateways.Payment) { p.Method.Token = "../refunds" }, "paymentKey"},
		"TokenIsDots":     {func(p *gateways.Payment) { p.Method.Token = ".." }, "paymentKey"},
		"TokenQuery":      {func(p *gateways.Payment) { p.Method.Token = "a?b=c" }, "paymentKey"},
		"NoReference":     {func(p *gateways.Payment) { p.Method.Reference = "" }, "orderId"},
		"ShortReference":  {func(p *gateways.Payment) { p.Method.Reference = "abcde" }, "6 to 64"},
		"LongReference":   {func(p *gateways.Payment) { p.Method.Reference = strings.Repeat("x", 65) }, "6 to 64"},
		"OddReference":    {func(p *gateways.Payment) { p.Method.Reference = "order 1" }, "6 to 64"},
		"Slash":           {func(p *gateways.Payment) { p.Method.Reference = "order/1" }, "6 to 64"},
		"NoAmount":        {func(p *gateways.Payment) { p.Method.Amount = "" }, "is missing"},
		"AmountChanged":   {func(p *gateways.Payment) { p.Method.Amount = "100" }, "another price"},
		"AmountNear":      {func(p *gateways.Payment) { p.Method.Amount = "12345.01" }, "decimal"},
		"AmountGrouped":   {func(p *gateways.Payment) { p.Method.Amount = "12,345" }, "decimal"},
		"AmountExponent":  {func(p *gateways.Payment) { p.Method.Amount = "1.2345e4" }, "decimal"},
		"AmountSpaces":    {func(p *gateways.Payment) { p.Method.Amount = " 12345" }, "decimal"},
		"BahtIsNotTaken":  {func(p *gateways.Payment) { p.Amount.Currency = "THB" }, "KRW, JPY or USD"},
		"DollarsByCard":   {func(p *gateways.Payment) { p.Amount.Currency = "USD" }, "foreign_easy_pay"},
		"YenByTransfer":   {func(p *gateways.Payment) { p.Amount.Currency, p.Method.Type = "JPY", "transfer" }, "card, foreign_easy_pay"},
		"UnknownMethod":   {func(p *gateways.Payment) { p.Method.Type = "billing" }, "virtual_account"},
		"Nothing":         {func(p *gateways.Payment) { p.Amount.Minor, p.Method.Amount = 0, "0" }, "above zero"},
		"NegativeMatches": {func(p *gateways.Payment) { p.Amount.Minor, p.Method.Amount = -5, "-5" }, "above zero"},
	} {
		t.Run(name, func(t *testing.T) {
			p := begun("pay_ok", "order-1", won(12345))
			c.change(&p)
			planned, err := g.Plan(p)
			require.Nil(t, planned)
			require.True(t, fault.IsCode(err, fault.PaymentInvalid), "%v", err)
			require.ErrorContains(t, fault.As(err).Cause, c.says)
			require.NotContains(t, err.Error(), p.Method.Token+"?", "an error quotes nothing")
		})
	}
}

func TestTheRedirectsAmountIsComparedAsANumber(t *testing.T) {
	t.Parallel()
	g := opened(t, nil)
	for _, text := range []string{"12345", "12345.0", "12345.00", "0012345"} {
		p := begun("pay_ok", "order-1", won(12345))
		p.Method.Amount = text
		planned, err := g.Plan(p)
		require.NoError(t, err, text)
		require.Contains(t, string(planned[0].Request), `"amount":12345}`, "the order's own amount is sent")
	}
}

func TestIdentifyReadsBothNames(t *testing.T) {
	t.Parallel()
	p := begun("pay_ok", "order-1", won(12345))
	p.MerchantReference = "ours-made-later"
	_, err := opened(t, nil).Plan(p)
	require.NoError(t, err)
	require.Equal(t, gateways.Known{MerchantReference: "order-1", ProviderPaymentID: p.Method.Token}, opened(t, nil).Identify(p))
}

func TestOnlyWhatWasFrozenHereIsSent(t *testing.T) {
	t.Parallel()
	g := opened(t, nil)
	good := `{"paymentKey":"tgen_1","orderId":"order-1","amount":12345}`
	for name, body := range map[string]string{
		"Empty": "", "Null": "null", "List": "[]", "Text": `"x"`,
		"Spaces":     `{ "paymentKey":"tgen_1","orderId":"order-1","amount":12345}`,
		"Reordered":  `{"orderId":"order-1","paymentKey":"tgen_1","amount":12345}`,
		"MoreFields": `{"paymentKey":"tgen_1","orderId":"order-1","amount":12345,"x":1}`,
		"TextAmount": `{"paymentKey":"tgen_1","orderId":"order-1","amount":"12345"}`,
		"NoOrder":    `{"paymentKey":"tgen_1","orderId":"","amount":12345}`,
		"Twice":      good + good,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: "k", Request: []byte(body)})
			require.True(t, fault.IsCode(err, fault.InternalError), "%v", err)
		})
	}
	_, err := g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: "k", ProviderPaymentID: "tgen_2", Request: []byte(good)})
	require.True(t, fault.IsCode(err, fault.InternalError), "the attempt is bound to another payment: %v", err)
}
