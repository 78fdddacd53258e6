package stripe

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/money"
	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/stripesim"
)

const (
	simKey  = "sk_test_conformance"
	hookKey = "whsec_conformance"
)

// simulated is the sandbox's Stripe behind real HTTP.
type simulated struct {
	sim    *stripesim.Sim
	faults *faults.Injector
	front  *gatewaytest.Front
	base   string

	mu      sync.Mutex
	notices []notify.Message
}

func newSimulated(t *testing.T) gatewaytest.Provider {
	t.Helper()
	return startSimulated(t)
}

func startSimulated(t *testing.T) *simulated {
	t.Helper()
	in := faults.New()
	s := &simulated{faults: in}
	sim, err := stripesim.New(stripesim.Config{
		Keys: []secret.Value{secret.New(simKey)}, Faults: in, WebhookSecret: secret.New(hookKey),
		OnNotice: func(m notify.Message) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.notices = append(s.notices, m)
		},
	})
	require.NoError(t, err)
	s.sim = sim
	s.front, s.base = gatewaytest.NewFront(t, sim, kindOf)
	t.Cleanup(in.Close) // before the server is taken down: it lets go of held requests
	return s
}

func kindOf(r *http.Request, _ []byte) gateways.Kind {
	switch {
	case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/refunds"):
		return gatewaytest.RefundLookup
	case r.Method == http.MethodGet:
		return gatewaytest.Lookup
	case strings.HasSuffix(r.URL.Path, "/refunds"):
		return gateways.Refund
	case strings.HasSuffix(r.URL.Path, "/confirm"):
		return gateways.Confirm
	case strings.HasSuffix(r.URL.Path, "/capture"):
		return gateways.Capture
	case strings.HasSuffix(r.URL.Path, "/cancel"):
		return gateways.Cancel
	}
	return gateways.Prepare
}

func (s *simulated) Open(t *testing.T, change func(*gateways.Settings)) gateways.Gateway {
	t.Helper()
	settings := gateways.Settings{Name: "default", SecretKey: secret.New(simKey), WebhookSecret: secret.New(hookKey), APIBase: s.base}
	if change != nil {
		change(&settings)
	}
	gw, err := Open(settings)
	require.NoError(t, err)
	t.Cleanup(gw.(*Gateway).client.idle)
	return gw
}

func (s *simulated) Payment(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	return gateways.Payment{
		MerchantReference: reference,
		Amount:            amount,
		Method:            gateways.Method{Type: "card", Token: "pm_card_visa", ReturnURL: "https://shop.example/back?order=1&x=a b"},
		Description:       "one gift",
	}
}

func (s *simulated) Declined(t *testing.T, reference string, amount money.Amount) gateways.Payment {
	p := s.Payment(t, reference, amount)
	p.Method.Token = "pm_card_visa_chargeDeclinedInsufficientFunds"
	return p
}

func (s *simulated) Waiting(t *testing.T, reference string, amount money.Amount) gateways.Payment {
	p := s.Payment(t, reference, amount)
	p.Method.Token = "pm_card_threeDSecure2Required"
	return p
}

func (s *simulated) Act(t *testing.T, id, _ string, pay bool) {
	t.Helper()
	require.True(t, s.sim.Challenge(id, pay), "the buyer is waited for")
}

func (s *simulated) Refund(t *testing.T, id, _ string, minor int64) {
	t.Helper()
	body := strings.NewReader("payment_intent=" + id + "&amount=" + strconv.FormatInt(minor, 10))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/v1/refunds", body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+simKey)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	_ = res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
}

func (s *simulated) GivenBack(_ *testing.T, id, _ string) (minor int64, times int) {
	for _, c := range s.sim.Charges(stripesim.Filter{Intent: id}) {
		minor, times = minor+c.Refunded, times+c.Refunds
	}
	return minor, times
}

func (s *simulated) RefundAnswers(t *testing.T, seen gateways.RefundSeen) (sent, looked []byte) {
	t.Helper()
	return s.get(t, "/v1/refunds/"+seen.RefundID+"?expand[0]=charge"),
		s.get(t, "/v1/refunds?payment_intent="+seen.ProviderPaymentID+"&expand[0]=data.charge")
}

func (s *simulated) Slowly(t *testing.T, reference string, amount money.Amount) gateways.Payment {
	s.sim.Configure(func(c *stripesim.Settings) { c.PendingRefunds = true })
	return s.Payment(t, reference, amount)
}

func (s *simulated) EndRefund(t *testing.T, seen gateways.RefundSeen, ok bool) bool {
	t.Helper()
	require.NoError(t, s.sim.FinishRefund(seen.RefundID, ok))
	return true
}

func (s *simulated) NoticeBody(t *testing.T, id, _ string) []byte {
	t.Helper()
	return s.notice(t, "payment_intent.succeeded", id).Body
}

// notice is the webhook of a kind that the simulator made about an intent.
func (s *simulated) notice(t *testing.T, kind, id string) notify.Message {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.notices {
		if n.Kind == kind && strings.Contains(string(n.Body), `"`+id+`"`) {
			return n
		}
	}
	t.Fatalf("no webhook %s about %s was sent", kind, id)
	return notify.Message{}
}

func (s *simulated) Seal(_ *testing.T, body []byte, how gatewaytest.Seal) gateways.Incoming {
	key := secret.New(hookKey)
	if how.WrongSecret {
		key = secret.New("whsec_another_endpoint")
	}
	header := stripesim.Sign(key, how.At, body)
	if how.Unsigned {
		header.Del("Stripe-Signature")
	}
	now := how.Now
	if now.IsZero() {
		now = how.At
	}
	return gateways.Incoming{Header: header, Body: body, At: now}
}

func (s *simulated) Arm(t *testing.T, f gatewaytest.Fault) func(context.Context, int) error {
	t.Helper()
	sandboxed := faults.Fault{Target: faults.Stripe, Times: max(f.Times, 1), Effect: f.Effect, Delay: f.Delay}
	switch f.Kind {
	case gatewaytest.Stored:
		sandboxed.Action = faults.StoreError
	case gatewaytest.Slow:
		sandboxed.Action = faults.Slow
	case gatewaytest.Busy:
		sandboxed.Action, sandboxed.Status, sandboxed.Code = faults.Status, http.StatusTooManyRequests, "rate_limit"
		sandboxed.Header = map[string]string{"Retry-After": strconv.Itoa(int(f.RetryAfter.Seconds()))}
	default:
		return s.front.Arm(f)
	}
	switch f.On {
	case gatewaytest.Lookup:
		sandboxed.Method = http.MethodGet
	case gateways.Prepare:
		sandboxed.Method, sandboxed.PathSuffix = http.MethodPost, "/payment_intents"
	case gateways.Refund:
		sandboxed.Method, sandboxed.PathSuffix = http.MethodPost, "/refunds"
	default:
		sandboxed.Method, sandboxed.PathSuffix = http.MethodPost, "/"+string(f.On)
	}
	id, err := s.faults.Add(sandboxed)
	require.NoError(t, err)
	return func(ctx context.Context, n int) error { return s.faults.AwaitFired(ctx, id, n) }
}

func (s *simulated) Writes(*testing.T) []gatewaytest.Write { return s.front.Writes() }

func (s *simulated) Captures(_ *testing.T, reference string) []gatewaytest.Capture {
	var out []gatewaytest.Capture
	for _, c := range s.sim.Charges(stripesim.Filter{MerchantReference: reference, CapturedOnly: true}) {
		if c.MerchantReference != reference {
			continue
		}
		out = append(out, gatewaytest.Capture{
			ProviderPaymentID: c.Intent,
			Amount:            money.Amount{Minor: c.Captured, Currency: money.Currency(strings.ToUpper(c.Currency))},
		})
	}
	return out
}

func (s *simulated) Raw(t *testing.T, id string) []byte {
	t.Helper()
	return s.get(t, "/v1/payment_intents/"+id+"?expand[0]=latest_charge")
}

// get is a read of a test's own, past the gateway.
func (s *simulated) get(t *testing.T, path string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+simKey)
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, http.StatusOK, res.StatusCode)
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return raw
}

func replace(pairs ...string) func([]byte) []byte {
	r := strings.NewReplacer(pairs...)
	return func(raw []byte) []byte { return []byte(r.Replace(string(raw))) }
}

// TestConformance runs the shared suite against the sandbox's Stripe over real HTTP. It does not show that the sandbox is
// faithful; TestStripeMockAcceptsEveryRequest holds the requests against Stripe's own description of its API.
func TestConformance(t *testing.T) {
	t.Parallel()
	registration := Registration()
	gatewaytest.Run(t, gatewaytest.Harness{
		New: newSimulated,
		Prices: []gatewaytest.Price{
			{Amount: money.Amount{Minor: 80, Currency: "JPY"}, Wire: "amount=80&currency=jpy&"},
			{Amount: money.Amount{Minor: 12345, Currency: "KRW"}, Wire: "amount=12345&currency=krw&"},
			{Amount: money.Amount{Minor: 8050, Currency: "THB"}, Wire: "amount=8050&currency=thb&"},
			{Amount: money.Amount{Minor: 1799, Currency: "USD"}, Wire: "amount=1799&currency=usd&"},
			{Amount: money.Amount{Minor: 1230, Currency: "KWD"}, Wire: "amount=1230&currency=kwd&"},
		},
		Refused: []money.Amount{
			{Minor: 1234, Currency: "KWD"},
			{Minor: 500, Currency: "ISK"},
			{Minor: 500, Currency: "UGX"},
			{Minor: 500, Currency: "MGA"},
			{Minor: 100, Currency: "usd"},
		},
		WrongObjects: map[string][]byte{
			"Charge":     []byte(`{"id":"ch_1","object":"charge","status":"succeeded","amount":80,"amount_received":80,"currency":"jpy"}`),
			"OtherType":  []byte(`{"id":"pi_1","object":"charge","status":"succeeded","amount":80,"amount_received":80,"currency":"jpy"}`),
			"Setup":      []byte(`{"id":"seti_1","object":"setup_intent","status":"succeeded"}`),
			"List":       []byte(`{"object":"list","data":[],"has_more":false}`),
			"Error":      []byte(`{"error":{"type":"card_error","code":"card_declined"}}`),
			"NoID":       []byte(`{"object":"payment_intent","status":"succeeded","amount":80,"amount_received":80,"currency":"jpy"}`),
			"NoAmount":   []byte(`{"id":"pi_1","object":"payment_intent","status":"succeeded","currency":"jpy"}`),
			"NoStatus":   []byte(`{"id":"pi_1","object":"payment_intent","amount":80,"currency":"jpy"}`),
			"NewStatus":  []byte(`{"id":"pi_1","object":"payment_intent","status":"half_done","amount":80,"currency":"jpy"}`),
			"PaidZero":   []byte(`{"id":"pi_1","object":"payment_intent","status":"succeeded","amount":80,"amount_received":0,"currency":"jpy"}`),
			"VoidedPaid": []byte(`{"id":"pi_1","object":"payment_intent","status":"canceled","amount":80,"amount_received":80,"currency":"jpy"}`),
			"FloatPaid":  []byte(`{"id":"pi_1","object":"payment_intent","status":"succeeded","amount":80.5,"amount_received":80.5,"currency":"jpy"}`),
			"JustAnID":   []byte(`"pi_1"`),
		},
		Quoting: func(text string) (int, []byte) {
			b, err := json.Marshal(map[string]any{"error": map[string]any{
				"type": "invalid_request_error", "code": "No such thing: " + text, "message": "No such thing: " + text,
				"param": text, "decline_code": text, "request_log_url": "https://x/" + text,
			}})
			if err != nil {
				panic(err)
			}
			return http.StatusBadRequest, b
		},
		OtherMode: func(raw []byte) []byte {
			return []byte(strings.ReplaceAll(string(raw), `"livemode":false`, `"livemode":true`))
		},
		Altered: map[gatewaytest.Field]func([]byte) []byte{
			gatewaytest.FieldAmount:    replace(`"amount":80,`, `"amount":8,`, `"amount_received":80,`, `"amount_received":8,`),
			gatewaytest.FieldCurrency:  replace(`"currency":"jpy"`, `"currency":"usd"`),
			gatewaytest.FieldReference: replace(`"merchant_reference":"`, `"merchant_reference":"other-`),
			gatewaytest.FieldID:        replace(`"id":"pi_`, `"id":"pi_0`),
		},
		Registration: &registration,
		ListPage:     listLimit,
		Webhook: &gatewaytest.Webhook{
			Proof: gateways.ProofSigned, Tolerance: noticeTolerance, OffUnsecured: true, EventID: "id", Type: "type",
			Version: "api_version", OtherMode: replace(`"livemode":false`, `"livemode":true`),
		},
		ReplaysErrors: true,
		WrongRefunds: map[string][]byte{
			"NoStatus":     []byte(`{"id":"re_1","object":"refund","amount":20,"currency":"jpy","payment_intent":"pi_1"}`),
			"NewStatus":    []byte(`{"id":"re_1","object":"refund","status":"half_done","amount":20,"currency":"jpy","payment_intent":"pi_1"}`),
			"NoAmount":     []byte(`{"id":"re_1","object":"refund","status":"succeeded","currency":"jpy","payment_intent":"pi_1"}`),
			"NoPayment":    []byte(`{"id":"re_1","object":"refund","status":"succeeded","amount":20,"currency":"jpy","payment_intent":null}`),
			"OfACharge":    []byte(`{"id":"re_1","object":"refund","status":"succeeded","amount":20,"currency":"jpy","charge":"ch_1"}`),
			"NoID":         []byte(`{"object":"refund","status":"succeeded","amount":20,"currency":"jpy","payment_intent":"pi_1"}`),
			"Uncounted":    []byte(`{"id":"re_1","object":"refund","status":"succeeded","amount":20,"currency":"jpy","payment_intent":"pi_1","charge":{"id":"ch_1","object":"charge","amount_refunded":0}}`),
			"ListOfNulls":  []byte(`{"object":"list","data":[null],"has_more":false}`),
			"MoreOfNone":   []byte(`{"object":"list","data":[],"has_more":true}`),
			"ListUnnamed":  []byte(`{"data":[],"has_more":false}`),
			"ListOfOthers": []byte(`{"object":"list","data":[{"id":"pi_1","object":"payment_intent"}],"has_more":false}`),
		},
		Page:       listLimit,
		EmptyLists: []string{"WrongObjectList"},
	})
}
