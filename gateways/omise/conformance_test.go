package omise

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/money"
	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/omisesim"
)

const (
	simKey    = "skey_test_conformance"
	simPublic = "pkey_test_conformance"
)

var hookSecret = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// simulated is the sandbox's Omise behind real HTTP. Its payments are charges of one method type.
type simulated struct {
	sim     *omisesim.Sim
	faults  *faults.Injector
	front   *gatewaytest.Front
	base    string
	method  string
	notices chan notify.Message
}

func startSimulated(t *testing.T, method string) *simulated {
	t.Helper()
	in := faults.New()
	s := &simulated{faults: in, method: method, notices: make(chan notify.Message, 4096)}
	var err error
	s.sim, err = omisesim.New(omisesim.Config{
		Keys:   []omisesim.KeyPair{{Secret: secret.New(simKey), Public: simPublic}},
		Faults: in, WebhookSecret: secret.New(hookSecret),
		OnNotice: func(m notify.Message) { s.notices <- m },
	})
	require.NoError(t, err)
	s.front, s.base = gatewaytest.NewFront(t, s.sim, kindOf)
	t.Cleanup(in.Close) // before the server is taken down: it lets go of held requests
	return s
}

func kindOf(r *http.Request, _ []byte) gateways.Kind {
	switch {
	case r.Method == http.MethodGet:
		return gatewaytest.Lookup
	case strings.HasSuffix(r.URL.Path, "/refunds"):
		return gateways.Refund
	case strings.HasSuffix(r.URL.Path, "/capture"):
		return gateways.Capture
	case strings.HasSuffix(r.URL.Path, "/expire"), strings.HasSuffix(r.URL.Path, "/reverse"):
		return gateways.Cancel
	}
	return gateways.Confirm
}

func (s *simulated) Open(t *testing.T, change func(*gateways.Settings)) gateways.Gateway {
	t.Helper()
	settings := gateways.Settings{
		Name: "default", SecretKey: secret.New(simKey), PublicKey: simPublic, WebhookSecret: secret.New(hookSecret), APIBase: s.base,
	}
	if change != nil {
		change(&settings)
	}
	gw, err := Open(settings)
	require.NoError(t, err)
	t.Cleanup(gw.(*Gateway).client.idle)
	return gw
}

// pay is a payment whose token carries the reference, so that every payment has a token of its own.
func (s *simulated) pay(kind, reference string, amount money.Amount) gateways.Payment {
	prefix := map[string]string{methodCard: "tokn_test_", methodSource: "src_test_", methodCustomer: "cust_test_"}[s.method]
	return gateways.Payment{
		MerchantReference: reference,
		Amount:            amount,
		Method: gateways.Method{
			Type: s.method, Token: prefix + kind + "__" + strings.Map(wordOnly, reference),
			ReturnURL: "https://shop.example/back?order=1&x=a b",
		},
		Description: "one gift",
	}
}

// wordOnly spells odd characters as words of their own, since a token is made of letters, digits and underscores.
func wordOnly(r rune) rune {
	if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') {
		return r
	}
	return '_'
}

func (s *simulated) Payment(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	p := s.pay("ok", reference, amount)
	p.Method.Token += "_" + strconv.Itoa(len(reference)) + "_" + strconv.FormatUint(fingerprint(reference), 36)
	if len(p.Method.Token) > 200 {
		p.Method.Token = p.Method.Token[:100] + p.Method.Token[len(p.Method.Token)-100:]
	}
	return p
}

// fingerprint keeps apart references whose odd characters are spelled alike.
func fingerprint(s string) uint64 {
	sum := uint64(14695981039346656037)
	for i := range len(s) {
		sum = (sum ^ uint64(s[i])) * 1099511628211
	}
	return sum
}

func (s *simulated) Declined(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	return s.pay("insufficient", reference, amount)
}

func (s *simulated) Waiting(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	waits := simulated{method: methodSource}
	if s.method == methodCard {
		return s.pay("3ds", reference, amount)
	}
	return waits.pay("konbini", reference, amount)
}

func (s *simulated) Act(t *testing.T, id, reference string, pay bool) {
	t.Helper()
	if id == "" {
		charges := s.sim.Charges(omisesim.Filter{MerchantReference: reference})
		require.NotEmpty(t, charges)
		id = charges[0].Charge
	}
	require.True(t, s.sim.Decide(id, pay))
}

func (s *simulated) Arm(t *testing.T, f gatewaytest.Fault) func(context.Context, int) error {
	t.Helper()
	if f.On == gatewaytest.RefundLookup {
		f.On = gatewaytest.Lookup // the charge carries its refunds
	}
	sandboxed := faults.Fault{Target: faults.Omise, Times: max(f.Times, 1), Effect: f.Effect, Delay: f.Delay}
	switch f.Kind {
	case gatewaytest.Stored:
		sandboxed.Action = faults.StoreError
	case gatewaytest.Slow:
		sandboxed.Action = faults.Slow
	case gatewaytest.Busy:
		sandboxed.Action, sandboxed.Status, sandboxed.Code = faults.Status, http.StatusTooManyRequests, "too_many_requests"
		sandboxed.Header = map[string]string{"Retry-After": strconv.Itoa(int(f.RetryAfter.Seconds()))}
	default:
		return s.front.Arm(f)
	}
	switch f.On {
	case gatewaytest.Lookup:
		sandboxed.Method = http.MethodGet
	case gateways.Confirm:
		sandboxed.Method, sandboxed.PathSuffix = http.MethodPost, "/charges"
	case gateways.Refund:
		sandboxed.Method, sandboxed.PathSuffix = http.MethodPost, "/refunds"
	default:
		sandboxed.Method, sandboxed.PathContains = http.MethodPost, "/charges/"
	}
	id, err := s.faults.Add(sandboxed)
	require.NoError(t, err)
	return func(ctx context.Context, n int) error { return s.faults.AwaitFired(ctx, id, n) }
}

func (s *simulated) Writes(*testing.T) []gatewaytest.Write { return s.front.Writes() }

func (s *simulated) Captures(_ *testing.T, reference string) []gatewaytest.Capture {
	var out []gatewaytest.Capture
	for _, c := range s.sim.Charges(omisesim.Filter{CapturedOnly: true}) {
		if c.MerchantReference != reference {
			continue
		}
		out = append(out, gatewaytest.Capture{
			ProviderPaymentID: c.Charge, Amount: money.Amount{Minor: c.Captured, Currency: money.Currency(c.Currency)},
		})
	}
	return out
}

func (s *simulated) Raw(t *testing.T, id string) []byte {
	t.Helper()
	return call(t, s.base, http.MethodGet, "/charges/"+id, "")
}

// call is a request of a test's own, past the gateway.
func call(t *testing.T, base, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
	require.NoError(t, err)
	req.SetBasicAuth(simKey, "")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", raw)
	return raw
}

// Refund gives money back as somebody at the merchant's dashboard would.
func (s *simulated) Refund(t *testing.T, id, _ string, minor int64) {
	t.Helper()
	require.NoError(t, s.sim.Refund(id, minor))
}

func (s *simulated) GivenBack(_ *testing.T, id, _ string) (minor int64, times int) {
	for _, c := range s.sim.Charges(omisesim.Filter{Charge: id}) {
		minor, times = minor+c.Refunded, times+c.Refunds
	}
	return minor, times
}

// RefundAnswers: a lookup reads the charge, which carries its refunds.
func (s *simulated) RefundAnswers(t *testing.T, seen gateways.RefundSeen) (sent, looked []byte) {
	t.Helper()
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	require.NoError(t, json.Unmarshal(call(t, s.base, http.MethodGet, "/charges/"+seen.ProviderPaymentID+"/refunds", ""), &list))
	for _, raw := range list.Data {
		if bytes.Contains(raw, []byte(seen.RefundID)) {
			sent = raw
		}
	}
	require.NotEmpty(t, sent)
	return sent, s.Raw(t, seen.ProviderPaymentID)
}

func (s *simulated) Slowly(t *testing.T, reference string, amount money.Amount) gateways.Payment {
	s.sim.Configure(func(c *omisesim.Settings) { c.PendingRefunds = true })
	return s.Payment(t, reference, amount)
}

// EndRefund: how a refund of Omise's could fail is documented nowhere.
func (s *simulated) EndRefund(t *testing.T, seen gateways.RefundSeen, ok bool) bool {
	t.Helper()
	if ok {
		require.NoError(t, s.sim.FinishRefund(seen.RefundID))
	}
	return ok
}

func (s *simulated) NoticeBody(t *testing.T, id, _ string) []byte {
	t.Helper()
	for {
		select {
		case m := <-s.notices:
			if m.Kind == "charge.complete" && bytes.Contains(m.Body, []byte(id)) {
				return m.Body
			}
		case <-t.Context().Done():
			t.Fatal("no charge.complete came")
		}
	}
}

func (s *simulated) Seal(_ *testing.T, body []byte, how gatewaytest.Seal) gateways.Incoming {
	if how.Now.IsZero() {
		how.Now = how.At
	}
	key := hookSecret
	if how.WrongSecret {
		key = base64.StdEncoding.EncodeToString([]byte("another secret"))
	}
	in := sealed(key, how.At, body)
	in.At = how.Now
	if how.Unsigned {
		in.Header = http.Header{"Content-Type": {"application/json"}}
	}
	return in
}

func harness(method string) gatewaytest.Harness {
	registration := Registration()
	replaced := func(old, replacement string) func([]byte) []byte {
		return func(raw []byte) []byte { return bytes.ReplaceAll(slices.Clone(raw), []byte(old), []byte(replacement)) }
	}
	set := func(field string, value any) func([]byte) []byte {
		return func(raw []byte) []byte {
			var v map[string]any
			if err := json.Unmarshal(raw, &v); err != nil {
				panic(err)
			}
			v[field] = value
			out, err := json.Marshal(v)
			if err != nil {
				panic(err)
			}
			return out
		}
	}
	live := replaced(`"livemode":false`, `"livemode":true`)
	return gatewaytest.Harness{
		New: func(t *testing.T) gatewaytest.Provider { return startSimulated(t, method) },
		Prices: []gatewaytest.Price{
			{Amount: money.Amount{Minor: 80, Currency: "JPY"}, Wire: `"amount":80,"currency":"jpy",`},
			{Amount: money.Amount{Minor: 8050, Currency: "THB"}, Wire: `"amount":8050,"currency":"thb",`},
			{Amount: money.Amount{Minor: 1799, Currency: "USD"}, Wire: `"amount":1799,"currency":"usd",`},
			{Amount: money.Amount{Minor: 100, Currency: "SGD"}, Wire: `"amount":100,"currency":"sgd",`},
			{Amount: money.Amount{Minor: 12345, Currency: "MYR"}, Wire: `"amount":12345,"currency":"myr",`},
		},
		Refused: []money.Amount{
			{Minor: 1500, Currency: "KRW"}, {Minor: 1230, Currency: "KWD"}, {Minor: 500, Currency: "ISK"}, {Minor: 500, Currency: "thb"},
		},
		WrongObjects: wrongObjects,
		Quoting: func(text string) (int, []byte) {
			b, err := json.Marshal(map[string]any{"object": "error", "location": text, "code": "bad: " + text, "message": text})
			if err != nil {
				panic(err)
			}
			return http.StatusBadRequest, b
		},
		OtherMode:        live,
		RepeatIsConflict: true,
		NoKeys:           true,
		Altered: map[gatewaytest.Field]func([]byte) []byte{
			gatewaytest.FieldAmount:    set("amount", 81),
			gatewaytest.FieldCurrency:  set("currency", "THB"),
			gatewaytest.FieldReference: set("metadata", map[string]any{referenceField: "of-other"}),
			gatewaytest.FieldID:        set("id", "chrg_test_other"),
		},
		Registration: &registration,
		ListPage:     listLimit,
		Page:         listLimit - 1, // a page begins with the last charge of the one before
		WrongRefunds: map[string][]byte{
			"NoStatus":   []byte(`{"object":"refund","id":"rfnd_test_1","amount":20,"currency":"JPY","charge":"chrg_test_1"}`),
			"NewStatus":  []byte(`{"object":"refund","id":"rfnd_test_1","status":"half_done","amount":20,"currency":"JPY","charge":"chrg_test_1"}`),
			"NoAmount":   []byte(`{"object":"refund","id":"rfnd_test_1","status":"closed","currency":"JPY","charge":"chrg_test_1"}`),
			"TextAmount": []byte(`{"object":"refund","id":"rfnd_test_1","status":"closed","amount":"20","currency":"JPY","charge":"chrg_test_1"}`),
			"NoCharge":   []byte(`{"object":"refund","id":"rfnd_test_1","status":"closed","amount":20,"currency":"JPY","charge":null}`),
			"NoCurrency": []byte(`{"object":"refund","id":"rfnd_test_1","status":"closed","amount":20,"charge":"chrg_test_1"}`),
			"NoID":       []byte(`{"object":"refund","status":"closed","amount":20,"currency":"JPY","charge":"chrg_test_1"}`),
			"Charge":     []byte(paidCharge),
		},
		Webhook: &gatewaytest.Webhook{
			Proof: gateways.ProofSigned, Tolerance: signatureAge, EventID: "id", Type: "key", OtherMode: live,
		},
	}
}

var wrongObjects = map[string][]byte{
	"OtherType":    []byte(`{"object":"refund","id":"chrg_test_1","status":"successful","paid":true,"amount":80,"currency":"JPY"}`),
	"OtherID":      []byte(`{"object":"charge","id":"rfnd_test_1","status":"successful","paid":true,"amount":80,"currency":"JPY"}`),
	"List":         []byte(`{"object":"list","data":null,"total":0}`),
	"ListOfNone":   []byte(`{"object":"list","data":[]}`),
	"Error":        []byte(`{"object":"error","code":"invalid_card","message":"x"}`),
	"NoID":         []byte(`{"object":"charge","status":"successful","paid":true,"amount":80,"currency":"JPY"}`),
	"NoAmount":     []byte(`{"object":"charge","id":"chrg_test_1","status":"successful","paid":true,"currency":"JPY"}`),
	"NoStatus":     []byte(`{"object":"charge","id":"chrg_test_1","paid":true,"amount":80,"currency":"JPY"}`),
	"NewStatus":    []byte(`{"object":"charge","id":"chrg_test_1","status":"half_done","amount":80,"currency":"JPY"}`),
	"Unpaid":       []byte(`{"object":"charge","id":"chrg_test_1","status":"successful","paid":false,"amount":80,"currency":"JPY"}`),
	"FailedPaid":   []byte(`{"object":"charge","id":"chrg_test_1","status":"failed","failure_code":"payment_rejected","paid":true,"amount":80,"currency":"JPY"}`),
	"ExpiredTaken": []byte(`{"object":"charge","id":"chrg_test_1","status":"expired","captured_amount":80,"amount":80,"currency":"JPY"}`),
	"Float":        []byte(`{"object":"charge","id":"chrg_test_1","status":"successful","paid":true,"amount":80.5,"currency":"JPY"}`),
	"TextAmount":   []byte(`{"object":"charge","id":"chrg_test_1","status":"successful","paid":true,"amount":"80","currency":"JPY"}`),
	"JustAnID":     []byte(`"chrg_test_1"`),
}

// TestConformance runs the shared suite against the sandbox's Omise over real HTTP, once with single-use card tokens and
// once with stored customers, on which nothing is ever repeated. It does not show that the sandbox is faithful; the
// fixtures that omise-go's authors recorded stand for that (fixtures_test.go).
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, method := range []string{methodCard, methodCustomer} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			gatewaytest.Run(t, harness(method))
		})
	}
}
