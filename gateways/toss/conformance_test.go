package toss

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/money"
	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/tosssim"
)

const simKey = "test_sk_conformance"

// simulated is the sandbox's Toss behind real HTTP.
type simulated struct {
	sim    *tosssim.Sim
	clock  *clock
	faults *faults.Injector
	front  *gatewaytest.Front
	base   string
}

// clock is Toss's clock, which a test can put forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) forward(d time.Duration) { c.ahead.Add(int64(d)) }

func newSimulated(t *testing.T) gatewaytest.Provider {
	t.Helper()
	return startSimulated(t, nil)
}

func startSimulated(t *testing.T, change func(*tosssim.Config)) *simulated {
	t.Helper()
	in := faults.New()
	c := &clock{}
	cfg := tosssim.Config{Keys: []secret.Value{secret.New(simKey)}, Faults: in, Now: c.now}
	if change != nil {
		change(&cfg)
	}
	sim, err := tosssim.New(cfg)
	require.NoError(t, err)
	s := &simulated{sim: sim, clock: c, faults: in}
	s.front, s.base = gatewaytest.NewFront(t, sim, kindOf)
	t.Cleanup(in.Close) // before the server is taken down: it lets go of held requests
	return s
}

func kindOf(r *http.Request, body []byte) gateways.Kind {
	switch {
	case r.Method == http.MethodGet:
		return gatewaytest.Lookup
	case strings.HasSuffix(r.URL.Path, "/cancel") && bytes.Contains(body, []byte(`"cancelAmount"`)):
		return gateways.Refund
	case strings.HasSuffix(r.URL.Path, "/cancel"):
		return gateways.Cancel
	}
	return gateways.Confirm
}

func (s *simulated) Open(t *testing.T, change func(*gateways.Settings)) gateways.Gateway {
	t.Helper()
	settings := gateways.Settings{Name: "default", SecretKey: secret.New(simKey), APIBase: s.base}
	if change != nil {
		change(&settings)
	}
	gw, err := Open(settings)
	require.NoError(t, err)
	t.Cleanup(gw.(*Gateway).client.idle)
	return gw
}

// begun is a payment that the buyer has authenticated at Toss; its key tells the sandbox which.
func begun(word, reference string, amount money.Amount) gateways.Payment {
	method := map[string]string{"pay_va": "virtual_account", "pay_foreign": "foreign_easy_pay"}[word]
	if method == "" {
		method = "card"
	}
	return gateways.Payment{
		MerchantReference: reference,
		Amount:            amount,
		Method: gateways.Method{
			Type:      method,
			Token:     word + "__" + reference + "__" + amount.Decimal() + "__" + string(amount.Currency),
			Reference: reference,
			Amount:    amount.Decimal(),
		},
		Description: "one gift",
	}
}

func (s *simulated) Payment(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	if amount.Currency == "USD" {
		return begun("pay_foreign", reference, amount)
	}
	return begun("pay_ok", reference, amount)
}

func (s *simulated) Declined(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	return begun("pay_declined", reference, amount)
}

func (s *simulated) Arm(t *testing.T, f gatewaytest.Fault) func(context.Context, int) error {
	t.Helper()
	if f.On == gatewaytest.RefundLookup {
		f.On = gatewaytest.Lookup // a refund stands in its payment
	}
	sandboxed := faults.Fault{Target: faults.Toss, Times: max(f.Times, 1), Effect: f.Effect, Delay: f.Delay}
	switch f.Kind {
	case gatewaytest.Stored:
		sandboxed.Action = faults.StoreError
	case gatewaytest.Slow:
		sandboxed.Action = faults.Slow
	case gatewaytest.Busy:
		sandboxed.Action, sandboxed.Status, sandboxed.Code = faults.Status, http.StatusTooManyRequests, "TOO_MANY_REQUESTS"
		sandboxed.Header = map[string]string{"Retry-After": strconv.Itoa(int(f.RetryAfter.Seconds()))}
	default:
		return s.front.Arm(f)
	}
	switch f.On {
	case gatewaytest.Lookup:
		sandboxed.Method = http.MethodGet
	case gateways.Refund:
		sandboxed.Method, sandboxed.PathSuffix = http.MethodPost, "/cancel"
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
	for _, c := range s.sim.Charges(tosssim.Filter{MerchantReference: reference, CapturedOnly: true}) {
		if c.MerchantReference != reference {
			continue
		}
		out = append(out, gatewaytest.Capture{
			ProviderPaymentID: c.PaymentKey,
			Amount:            money.Amount{Minor: c.Captured, Currency: money.Currency(c.Currency)},
		})
	}
	return out
}

func (s *simulated) Raw(t *testing.T, id string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+paymentPath(id), nil)
	require.NoError(t, err)
	req.SetBasicAuth(simKey, "")
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, http.StatusOK, res.StatusCode)
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return raw
}

func swap(from, to string) func([]byte) []byte {
	return func(raw []byte) []byte { return []byte(strings.Replace(string(raw), from, to, 1)) }
}

// Waiting is a virtual account: issued by the confirm, paid by the buyer, or never.
func (s *simulated) Waiting(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	return begun("pay_va", reference, amount)
}

// Act deposits, or lets the deadline pass, which Toss does in silence.
func (s *simulated) Act(t *testing.T, id, _ string, pay bool) {
	t.Helper()
	if pay {
		require.NoError(t, s.sim.Deposit(id))
		return
	}
	s.clock.forward(169 * time.Hour)
}

// Refund gives money back as somebody at the merchant's dashboard would.
func (s *simulated) Refund(t *testing.T, id, _ string, minor int64) {
	t.Helper()
	require.NoError(t, s.sim.Refund(id, minor))
}

func (s *simulated) GivenBack(_ *testing.T, _, reference string) (minor int64, times int) {
	for _, c := range s.sim.Charges(tosssim.Filter{MerchantReference: reference}) {
		if c.MerchantReference == reference {
			minor, times = minor+c.Refunded, times+c.Refunds
		}
	}
	return minor, times
}

// RefundAnswers: a refund stands in its payment, which every answer carries whole.
func (s *simulated) RefundAnswers(t *testing.T, seen gateways.RefundSeen) (sent, looked []byte) {
	t.Helper()
	raw := s.Raw(t, seen.ProviderPaymentID)
	return raw, raw
}

// Slowly is a foreign payment, whose partner gives back in its own time.
func (s *simulated) Slowly(_ *testing.T, reference string, amount money.Amount) gateways.Payment {
	s.sim.Configure(func(c *tosssim.Settings) { c.SlowForeignCancels = true })
	return begun("pay_foreign", reference, amount)
}

func (s *simulated) EndRefund(t *testing.T, seen gateways.RefundSeen, ok bool) bool {
	t.Helper()
	return ok && s.sim.FinishCancel(seen.ProviderPaymentID)
}

func (s *simulated) NoticeBody(t *testing.T, id, _ string) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{
		"eventType": "PAYMENT_STATUS_CHANGED", "createdAt": "2026-06-05T16:58:18.123456", "data": json.RawMessage(s.Raw(t, id)),
	})
	require.NoError(t, err)
	return b
}

// Seal: nothing is signed; the payment's own secret is all the proof there is.
func (s *simulated) Seal(t *testing.T, body []byte, how gatewaytest.Seal) gateways.Incoming {
	t.Helper()
	secretField := regexp.MustCompile(`"secret":"[^"]*"`)
	switch {
	case how.WrongSecret:
		body = secretField.ReplaceAll(body, []byte(`"secret":"ps_other"`))
	case how.Unsigned:
		body = secretField.ReplaceAll(body, []byte(`"secret":null`))
	}
	at := how.Now
	if at.IsZero() {
		at = how.At
	}
	return gateways.Incoming{Header: http.Header{
		"Content-Type":                                    {"application/json"},
		"Tosspayments-Webhook-Transmission-Time":          {how.At.Format(time.RFC3339)},
		"Tosspayments-Webhook-Transmission-Id":            {"whtrans_" + rand.Text()},
		"Tosspayments-Webhook-Transmission-Retried-Count": {"0"},
	}, Body: body, At: at}
}

// TestConformance runs the shared suite against the sandbox's Toss over real HTTP. It does not show that the sandbox is
// faithful: what Toss does not document is a switch there, and wire_test.go takes both positions.
func TestConformance(t *testing.T) {
	t.Parallel()
	registration := Registration()
	const head = `{"paymentKey":"tgen_1","orderId":"order-1","currency":"KRW",`
	gatewaytest.Run(t, gatewaytest.Harness{
		New: newSimulated,
		Prices: []gatewaytest.Price{
			{Amount: money.Amount{Minor: 12345, Currency: "KRW"}, Wire: `"amount":12345}`},
			{Amount: money.Amount{Minor: 80, Currency: "JPY"}, Wire: `"amount":80}`},
			{Amount: money.Amount{Minor: 1799, Currency: "USD"}, Wire: `"amount":17.99}`},
			{Amount: money.Amount{Minor: 5, Currency: "USD"}, Wire: `"amount":0.05}`},
		},
		Refused: []money.Amount{
			{Minor: 8050, Currency: "THB"},
			{Minor: 1230, Currency: "KWD"},
			{Minor: 100, Currency: "krw"},
		},
		WrongObjects: map[string][]byte{
			"NoStatus":      []byte(head + `"totalAmount":80,"balanceAmount":80}`),
			"NullStatus":    []byte(head + `"status":null,"totalAmount":80,"balanceAmount":80}`),
			"NewStatus":     []byte(head + `"status":"REVIEW","totalAmount":80,"balanceAmount":80}`),
			"NoAmount":      []byte(head + `"status":"DONE"}`),
			"NullAmount":    []byte(head + `"status":"DONE","totalAmount":null,"balanceAmount":null}`),
			"ZeroAmount":    []byte(head + `"status":"DONE","totalAmount":0,"balanceAmount":0}`),
			"FractionOfWon": []byte(head + `"status":"DONE","totalAmount":80.5,"balanceAmount":80.5}`),
			"NoBalance":     []byte(head + `"status":"DONE","totalAmount":80}`),
			"BalanceAbove":  []byte(head + `"status":"DONE","totalAmount":80,"balanceAmount":81}`),
			"CanceledLeft":  []byte(head + `"status":"CANCELED","totalAmount":80,"balanceAmount":80,"approvedAt":"2026-06-05T16:58:18+09:00","cancels":[{}]}`),
			"NoKey":         []byte(`{"orderId":"order-1","currency":"KRW","status":"DONE","totalAmount":80,"balanceAmount":80}`),
			"NoOrder":       []byte(`{"paymentKey":"tgen_1","currency":"KRW","status":"DONE","totalAmount":80,"balanceAmount":80}`),
			"NoCurrency":    []byte(`{"paymentKey":"tgen_1","orderId":"order-1","status":"DONE","totalAmount":80,"balanceAmount":80}`),
			"Error":         []byte(`{"code":"REJECT_CARD_PAYMENT","message":"x"}`),
			"Transactions":  []byte(`[{"transactionKey":"t1","paymentKey":"tgen_1","status":"DONE","amount":80}]`),
		},
		Quoting: func(text string) (int, []byte) {
			b, err := json.Marshal(map[string]any{"code": "No such thing: " + text, "message": "No such thing: " + text, "data": text})
			if err != nil {
				panic(err)
			}
			return http.StatusBadRequest, b
		},
		ReplaysErrors: true,
		SlowPrice:     money.Amount{Minor: 1799, Currency: "USD"},
		WrongRefunds: map[string][]byte{
			"NoCancels": []byte(head + `"status":"DONE","totalAmount":80,"balanceAmount":80,"approvedAt":"2026-06-05T16:58:18+09:00"}`),
			"NoBalance": []byte(head + `"status":"PARTIAL_CANCELED","totalAmount":80,"approvedAt":"2026-06-05T16:58:18+09:00","cancels":[{}]}`),
		},
		Page:       listPage,
		EmptyLists: []string{"List"},
		Altered: map[gatewaytest.Field]func([]byte) []byte{
			gatewaytest.FieldAmount:    swap(`"totalAmount":12345`, `"totalAmount":12346`),
			gatewaytest.FieldCurrency:  swap(`"currency":"KRW"`, `"currency":"JPY"`),
			gatewaytest.FieldReference: swap(`"orderId":"`, `"orderId":"x`),
			gatewaytest.FieldID:        swap(`"paymentKey":"`, `"paymentKey":"x`),
		},
		Registration: &registration,
		Webhook:      &gatewaytest.Webhook{Proof: gateways.ProofSecret, Type: "eventType"},
	})
}
