package twoctwop

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/money"
	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/twoctwopsim"
)

const (
	simMerchant = "SANDBOX01"
	simSecret   = "conformance-secret-0123456789abcdef"
)

// simulated is the sandbox's 2C2P behind real HTTP.
type simulated struct {
	sim     *twoctwopsim.Sim
	faults  *faults.Injector
	front   *gatewaytest.Front
	base    string
	options Options
}

func startSimulated(t *testing.T, configure func(*twoctwopsim.Settings), options Options) *simulated {
	t.Helper()
	in := faults.New()
	sim, err := twoctwopsim.New(twoctwopsim.Config{
		Merchants: []twoctwopsim.Merchant{
			{ID: simMerchant, Secret: secret.New(simSecret), PublicKey: pairs().ourPub}, {ID: simMerchant + "B", Secret: secret.New(simSecret + "2")},
		},
		PrivateKey: pairs().theirs, Faults: in,
	})
	require.NoError(t, err)
	sim.Configure(func(c *twoctwopsim.Settings) { c.SettlesAtOnce = true }) // only what is settled can be refunded
	if configure != nil {
		sim.Configure(configure)
	}
	s := &simulated{sim: sim, faults: in, options: options}
	s.front, s.base = gatewaytest.NewFront(t, sim, kindOf)
	t.Cleanup(in.Close) // before the server is taken down: it lets go of held requests
	return s
}

func kindOf(r *http.Request, body []byte) gateways.Kind {
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/maintenance"):
		if document, err := pairs().provider.unwrap(body); err == nil && bytes.Contains(document, []byte("<processType>R</processType>")) {
			return gateways.Refund
		}
		return gatewaytest.RefundLookup
	case strings.HasSuffix(path, "/paymentToken"):
		return gateways.Prepare
	case strings.HasSuffix(path, "/payment"), strings.HasSuffix(path, "/doPayment"):
		return gateways.Confirm
	case strings.HasSuffix(strings.ToLower(path), "/canceltransaction"):
		return gateways.Cancel
	}
	return gatewaytest.Lookup
}

func (s *simulated) settings() gateways.Settings {
	return gateways.Settings{
		Name: "default", PublicKey: simMerchant, SecretKey: secret.New(simSecret), APIBase: s.base, Environment: gateways.Test,
		MaintenanceURL: s.base + "/maintenance", PrivateKey: pairs().ours, ProviderKey: pairs().theirPub,
	}
}

func (s *simulated) open(t *testing.T, change func(*gateways.Settings)) *Gateway {
	t.Helper()
	settings := s.settings()
	if change != nil {
		change(&settings)
	}
	gw, err := OpenWith(settings, s.options)
	require.NoError(t, err)
	t.Cleanup(gw.client.idle)
	return gw
}

func (s *simulated) Open(t *testing.T, change func(*gateways.Settings)) gateways.Gateway {
	t.Helper()
	settings := s.settings()
	if change != nil {
		change(&settings) // the suite reads and changes the very settings
	}
	gw, err := OpenWith(settings, s.options)
	require.NoError(t, err)
	t.Cleanup(gw.client.idle)
	return gw
}

func byCard(reference, card string, amount money.Amount) gateways.Payment {
	return gateways.Payment{
		MerchantReference: reference,
		Amount:            amount,
		Method:            gateways.Method{Type: "card", Token: card, ReturnURL: "https://shop.example/back?order=1&x=a%20b"},
		Description:       "one gift",
	}
}

func (s *simulated) Payment(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	return byCard(reference, "ok__"+reference, amount)
}

func (s *simulated) Declined(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	return byCard(reference, "insufficient__x", amount)
}

func (s *simulated) Waiting(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	return byCard(reference, "3ds__x", amount)
}

func (s *simulated) Act(t *testing.T, _, reference string, pay bool) {
	t.Helper()
	require.True(t, s.sim.Act(reference, pay), "the payment waits for its buyer")
}

func (s *simulated) Arm(t *testing.T, f gatewaytest.Fault) func(context.Context, int) error {
	t.Helper()
	sandboxed := faults.Fault{Target: faults.TwoCTwoP, Times: max(f.Times, 1), Effect: f.Effect, Delay: f.Delay}
	switch f.Kind {
	case gatewaytest.Stored:
		sandboxed.Action = faults.StoreError
	case gatewaytest.Slow:
		sandboxed.Action = faults.Slow
	case gatewaytest.Busy:
		sandboxed.Action, sandboxed.Status = faults.Status, http.StatusTooManyRequests
		sandboxed.Header = map[string]string{"Retry-After": strconv.Itoa(int(f.RetryAfter.Seconds()))}
	default:
		return s.front.Arm(f)
	}
	sandboxed.PathSuffix = map[gateways.Kind]string{
		gatewaytest.Lookup: "/paymentInquiry", gateways.Prepare: "/paymentToken", gateways.Confirm: "/payment", gateways.Cancel: "/cancelTransaction",
		gateways.Refund: "/maintenance",
	}[f.On]
	if s.sim.Settings().OtherPaths && f.On == gateways.Confirm {
		sandboxed.PathSuffix = "/doPayment"
	}
	id, err := s.faults.Add(sandboxed)
	require.NoError(t, err)
	return func(ctx context.Context, n int) error { return s.faults.AwaitFired(ctx, id, n) }
}

func (s *simulated) Writes(*testing.T) []gatewaytest.Write { return s.front.Writes() }

func (s *simulated) Captures(_ *testing.T, reference string) []gatewaytest.Capture {
	var out []gatewaytest.Capture
	for _, c := range s.sim.Charges(twoctwopsim.Filter{Account: simMerchant, MerchantReference: reference, CapturedOnly: true}) {
		if c.MerchantReference != reference {
			continue
		}
		out = append(out, gatewaytest.Capture{
			ProviderPaymentID: c.MerchantReference,
			Amount:            money.Amount{Minor: c.Captured, Currency: money.Currency(c.Currency)},
		})
	}
	return out
}

func (s *simulated) Raw(t *testing.T, id string) []byte {
	t.Helper()
	body := wrapped(simSecret, `{"merchantID":"`+simMerchant+`","invoiceNo":"`+id+`"}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/payment/4.3/paymentInquiry", bytes.NewReader(body))
	require.NoError(t, err)
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, http.StatusOK, res.StatusCode)
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return raw
}

func (s *simulated) GivenBack(_ *testing.T, id, _ string) (minor int64, times int) {
	for _, c := range s.sim.Charges(twoctwopsim.Filter{Account: simMerchant, MerchantReference: id}) {
		minor, times = minor+c.Refunded, times+c.Refunds
	}
	return minor, times
}

// RefundAnswers: a refund is only said to be taken on; its list tells the rest.
func (s *simulated) RefundAnswers(t *testing.T, seen gateways.RefundSeen) (sent, looked []byte) {
	t.Helper()
	request, err := pairs().merchant.wrap([]byte(`<PaymentProcessRequest><merchantID>` + simMerchant + `</merchantID><invoiceNo>` +
		seen.ProviderPaymentID + `</invoiceNo><processType>RS</processType></PaymentProcessRequest>`))
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/maintenance", bytes.NewReader(request))
	require.NoError(t, err)
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	looked, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	return saidOf(seen.ProviderPaymentID, "R", `<status>S</status>`), looked
}

// saidOf is an answer of the maintenance API, as only 2C2P could make it.
func saidOf(invoice, process, more string) []byte {
	body, err := pairs().provider.wrap([]byte(`<PaymentProcessResponse><merchantID>` + simMerchant + `</merchantID><invoiceNo>` + invoice +
		`</invoiceNo><processType>` + process + `</processType><respCode>00</respCode><amount>80</amount>` + more + `</PaymentProcessResponse>`))
	if err != nil {
		panic(err)
	}
	return body
}

func (s *simulated) Slowly(t *testing.T, reference string, amount money.Amount) gateways.Payment {
	s.sim.Configure(func(c *twoctwopsim.Settings) { c.PendingRefunds = true })
	return s.Payment(t, reference, amount)
}

func (s *simulated) EndRefund(t *testing.T, seen gateways.RefundSeen, ok bool) bool {
	t.Helper()
	require.NoError(t, s.sim.FinishRefund(simMerchant, seen.ProviderPaymentID, seen.RefundID, ok))
	return true
}

func (s *simulated) NoticeBody(t *testing.T, id, _ string) []byte {
	t.Helper()
	return claimsOf(t, s.Raw(t, id))
}

// Seal: the body travels inside of the token. Unsigned is a token that says that it needs no signature.
func (s *simulated) Seal(_ *testing.T, body []byte, how gatewaytest.Seal) gateways.Incoming {
	out := wrapped(simSecret, string(body))
	switch {
	case how.WrongSecret:
		out = wrapped(simSecret+"2", string(body))
	case how.Unsigned:
		out = payload(segment(`{"alg":"none","typ":"JWT"}`) + "." + segment(string(body)) + ".")
	}
	at := how.Now
	if at.IsZero() {
		at = how.At
	}
	return gateways.Incoming{Header: http.Header{"Content-Type": {"application/json"}}, Body: out, At: at}
}

// Tokens made by hand, so that a wrong one can be made too.

func segment(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func payload(token string) []byte {
	b, err := json.Marshal(map[string]string{"payload": token})
	if err != nil {
		panic(err)
	}
	return b
}

func mac256(key, signed string) string {
	h := hmac.New(sha256.New, []byte(key))
	_, _ = h.Write([]byte(signed))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func wrapped(key, claims string) []byte {
	signed := segment(`{"alg":"HS256","typ":"JWT"}`) + "." + segment(claims)
	return payload(signed + "." + mac256(key, signed))
}

// claimsOf reads a wrapped body without verifying it.
func claimsOf(t *testing.T, body []byte) []byte {
	t.Helper()
	var e envelope
	require.NoError(t, json.Unmarshal(body, &e))
	part := strings.Split(e.Payload, ".")
	require.Len(t, part, 3)
	claims, err := base64.RawURLEncoding.DecodeString(part[1])
	require.NoError(t, err)
	return claims
}

// resign changes the claims of a wrapped body and signs them again, as only 2C2P could.
func resign(t *testing.T, from, to string) func([]byte) []byte {
	return func(raw []byte) []byte {
		t.Helper()
		return wrapped(simSecret, strings.Replace(string(claimsOf(t, raw)), from, to, 1))
	}
}

// TestConformance runs the shared suite against the sandbox's 2C2P over real HTTP, in both positions of the switches that
// change what every call looks like. It does not show that the sandbox is faithful: no public sandbox can be reached here.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]struct {
		options   Options
		configure func(*twoctwopsim.Settings)
	}{
		"PlainCalls": {Options{}, func(s *twoctwopsim.Settings) { s.Wrapping = twoctwopsim.Plain }},
		"EverythingSigned": {
			Options{WrapAll: true, PaymentPath: "doPayment", CancelPath: "canceltransaction"},
			func(s *twoctwopsim.Settings) {
				s.Wrapping, s.OtherPaths, s.SignedErrors, s.PadAmounts = twoctwopsim.Wrapped, true, true, false
				s.DuplicateAt = twoctwopsim.AtPayment
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gatewaytest.Run(t, harness(t, func(t *testing.T) *simulated { return startSimulated(t, mode.configure, mode.options) }))
		})
	}
}

func harness(t *testing.T, start func(t *testing.T) *simulated) gatewaytest.Harness {
	registration := Registration()
	const head = `{"merchantID":"` + simMerchant + `","invoiceNo":"OF1","currencyCode":"JPY","amount":"80",`
	signed := func(claims string) []byte { return wrapped(simSecret, claims) }
	return gatewaytest.Harness{
		New: func(t *testing.T) gatewaytest.Provider { return start(t) },
		Prices: []gatewaytest.Price{
			{Amount: money.Amount{Minor: 80, Currency: "JPY"}, Wire: `"amount":80,"currencyCode":"JPY"`},
			{Amount: money.Amount{Minor: 12345, Currency: "KRW"}, Wire: `"amount":12345,"currencyCode":"KRW"`},
			{Amount: money.Amount{Minor: 8050, Currency: "THB"}, Wire: `"amount":80.50,"currencyCode":"THB"`},
			{Amount: money.Amount{Minor: 1799, Currency: "USD"}, Wire: `"amount":17.99,"currencyCode":"USD"`},
			{Amount: money.Amount{Minor: 1230, Currency: "KWD"}, Wire: `"amount":1.230,"currencyCode":"KWD"`},
			{Amount: money.Amount{Minor: 5, Currency: "USD"}, Wire: `"amount":0.05,"currencyCode":"USD"`},
			{Amount: money.Amount{Minor: 150000, Currency: "IDR"}, Wire: `"amount":1500,"currencyCode":"IDR"`},
		},
		Refused: []money.Amount{
			{Minor: 150050, Currency: "IDR"},
			{Minor: 1_000_000_000_000, Currency: "JPY"},
			{Minor: 100, Currency: "thb"},
		},
		WrongObjects: map[string][]byte{
			"UnsignedSuccess":   []byte(head + `"respCode":"0000"}`),
			"UnsignedDecline":   []byte(head + `"respCode":"4096"}`),
			"UnsignedPending":   []byte(`{"respCode":"9996","respDesc":"x"}`),
			"NoCode":            signed(head + `"respDesc":"Success"}`),
			"NullCode":          signed(head + `"respCode":null}`),
			"NewCode":           signed(head + `"respCode":"7777"}`),
			"CodeOfTheOtherDoc": signed(head + `"respCode":"2014"}`),
			"NoInvoice":         signed(`{"merchantID":"` + simMerchant + `","currencyCode":"JPY","amount":"80","respCode":"0000"}`),
			"NoMerchant":        signed(`{"invoiceNo":"OF1","currencyCode":"JPY","amount":"80","respCode":"0000"}`),
			"NoAmount":          signed(`{"merchantID":"` + simMerchant + `","invoiceNo":"OF1","currencyCode":"JPY","respCode":"0000"}`),
			"NoCurrency":        signed(`{"merchantID":"` + simMerchant + `","invoiceNo":"OF1","amount":"80","respCode":"0000"}`),
			"ZeroAmount":        signed(strings.Replace(head, `"80"`, `"0.00000"`, 1) + `"respCode":"0000"}`),
			"FractionOfYen":     signed(strings.Replace(head, `"80"`, `"80.5"`, 1) + `"respCode":"0000"}`),
			"ExponentAmount":    signed(strings.Replace(head, `"80"`, `8e1`, 1) + `"respCode":"0000"}`),
			"PaymentTokenOnly":  signed(`{"paymentToken":"x","webPaymentUrl":"https://x","respCode":"0000"}`),
			"WrongSignature":    wrapped(simSecret+"2", head+`"respCode":"0000"}`),
			"PayloadIsNoToken":  []byte(`{"payload":"eyJ.e30.x"}`),
			"PayloadIsNull":     []byte(`{"payload":null,"respCode":"0000"}`),
			"PayloadIsAnObject": []byte(`{"payload":{"respCode":"0000"}}`),
		},
		Quoting: func(text string) (int, []byte) {
			b, err := json.Marshal(map[string]any{"respCode": "No such thing: " + text, "respDesc": "The value is wrong: " + text})
			if err != nil {
				panic(err)
			}
			return http.StatusOK, b
		},
		Altered: map[gatewaytest.Field]func([]byte) []byte{
			gatewaytest.FieldAmount:    resign(t, `80`, `81`),
			gatewaytest.FieldCurrency:  resign(t, `"currencyCode":"JPY"`, `"currencyCode":"KRW"`),
			gatewaytest.FieldReference: resign(t, `"invoiceNo":"`, `"invoiceNo":"X`),
			gatewaytest.FieldID:        resign(t, `"invoiceNo":"`, `"invoiceNo":"X`),
		},
		WrongRefunds: map[string][]byte{
			"NoStatus":      saidOf("OF1", "R", ""),
			"OtherInvoice":  saidOf("OFOTHER", "R", `<status>RF</status>`),
			"OtherProcess":  saidOf("OF1", "V", `<status>V</status>`),
			"NewStatus":     saidOf("OF1", "R", `<status>HALF</status>`),
			"PlainDocument": []byte(`<PaymentProcessResponse><respCode>00</respCode><status>RF</status></PaymentProcessResponse>`),
			"PlainCode":     []byte("00"),
		},
		RefundsAreAccepted: true,
		RefundsAreNameless: true,
		Registration:       &registration,
		SignsRequests:      true,
		RepeatIsConflict:   true,
		AnswersAreHints:    true,
		ActionSaidOnce:     true,
		BusyIsUnknown:      true,
		NoKeys:             true,
		Webhook:            &gatewaytest.Webhook{Proof: gateways.ProofSigned},
	}
}
