package tosssim_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/tosssim"
)

const (
	testKey  = "test_sk_sim"
	otherKey = "test_sk_sim_other"
	liveKey  = "live_sk_sim"
)

// bench is one simulated Toss behind real HTTP, asked as a client would ask it.
type bench struct {
	t      *testing.T
	sim    *tosssim.Sim
	faults *faults.Injector
	url    string
	ahead  *atomic.Int64

	mu      sync.Mutex
	notices []notify.Message
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, faults: faults.New(), ahead: &atomic.Int64{}}
	sim, err := tosssim.New(tosssim.Config{
		Keys:   []secret.Value{secret.New(testKey), secret.New(otherKey), secret.New(liveKey)},
		Faults: b.faults,
		Now:    func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) },
		OnNotice: func(m notify.Message) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.notices = append(b.notices, m)
		},
	})
	require.NoError(t, err)
	b.sim = sim
	mux := http.NewServeMux()
	mux.Handle("/v1/", sim)
	mux.Handle("/buyer/toss/", sim.Buyer())
	srv := httptest.NewServer(mux)
	b.url = srv.URL
	t.Cleanup(func() {
		b.faults.Close()
		srv.CloseClientConnections()
		srv.Close()
	})
	return b
}

func (b *bench) forward(d time.Duration) { b.ahead.Add(int64(d)) }

func (b *bench) kinds() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []string{}
	for _, m := range b.notices {
		var body struct {
			Status string `json:"status"`
			Data   struct {
				Status string `json:"status"`
			} `json:"data"`
		}
		require.NoError(b.t, json.Unmarshal(m.Body, &body))
		out = append(out, m.Kind+" "+body.Status+body.Data.Status)
	}
	b.notices = nil
	return out
}

type reply struct {
	status int
	header http.Header
	body   string
	m      map[string]any
}

func (r reply) code() string { s, _ := r.m["code"].(string); return s }

func (b *bench) call(method, path, key, body string, header ...string) reply {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	require.NoError(b.t, err)
	req.GetBody = nil
	req.SetBasicAuth(testKey, "")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return reply{}
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	out := reply{status: res.StatusCode, header: res.Header, body: string(raw)}
	_ = json.Unmarshal(raw, &out.m)
	return out
}

func confirmBody(key, order, amount string) string {
	return fmt.Sprintf(`{"paymentKey":%q,"orderId":%q,"amount":%s}`, key, order, amount)
}

func (b *bench) confirm(idem, key, order, amount string, header ...string) reply {
	b.t.Helper()
	return b.call(http.MethodPost, "/v1/payments/confirm", idem, confirmBody(key, order, amount), header...)
}

func (b *bench) cancel(idem, key, body string) reply {
	b.t.Helper()
	return b.call(http.MethodPost, "/v1/payments/"+key+"/cancel", idem, body)
}

func (b *bench) get(key string) reply { return b.call(http.MethodGet, "/v1/payments/"+key, "", "") }

func (b *bench) captured(order string) int {
	return len(b.sim.Charges(tosssim.Filter{MerchantReference: order, CapturedOnly: true}))
}

const ok = "pay_ok__order-1__12345__KRW"

func TestAuthorizationNeedsTheColonAndAKnownKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for header, want := range map[string]string{
		basic(testKey): "INCORRECT_BASIC_AUTH_FORMAT", "Bearer " + testKey: "INCORRECT_BASIC_AUTH_FORMAT", "": "INCORRECT_BASIC_AUTH_FORMAT",
		basic("test_sk_nobody:"): "UNAUTHORIZED_KEY", basic(testKey + "::"): "UNAUTHORIZED_KEY", basic("\ufeff" + testKey + ":"): "UNAUTHORIZED_KEY",
	} {
		r := b.confirm("k", ok, "order-1", "12345", "Authorization", header)
		require.Equal(t, want, r.code(), header)
	}
	require.Zero(t, b.captured("order-1"))
	require.Len(t, b.sim.Writes(tosssim.Filter{}), 6, "refused writes are in the books too")
	require.Equal(t, 200, b.confirm("k", ok, "order-1", "12345", "Authorization", basic(testKey+":")).status)
}

func TestKeysIgnoreTheBodyAndKeepRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refused := b.confirm("k1", ok, "order-1", "1")
	require.Equal(t, "INVALID_REQUEST", refused.code())
	corrected := b.confirm("k1", ok, "order-1", "12345")
	require.Equal(t, refused.body, corrected.body, "the refusal is kept although the body is right now")
	require.Equal(t, refused.status, corrected.status)
	require.Contains(t, corrected.header.Get("X-Tosspayments-Trace-Id"), ",", "a replay names both traces")

	paid := b.confirm("k2", ok, "order-1", "12345")
	require.Equal(t, "DONE", paid.m["status"])
	other := b.confirm("k2", "pay_ok__order-2__999__KRW", "order-2", "999")
	require.Equal(t, paid.body, other.body, "a key looks like success for another payment")
	require.Zero(t, b.captured("order-2"))

	// The scope: another address or another secret key is another key.
	require.Equal(t, "NOT_FOUND_PAYMENT", b.cancel("k2", "nobody", `{"cancelReason":"x"}`).code())
	elsewhere := b.confirm("k2", "pay_ok__order-2__999__KRW", "order-2", "999",
		"Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(otherKey+":")))
	require.Equal(t, "order-2", elsewhere.m["orderId"])

	b.forward(15*24*time.Hour + time.Second)
	require.Equal(t, "ALREADY_PROCESSED_PAYMENT", b.confirm("k2", ok, "order-1", "12345").code(), "after 15 days it is a new request")
	require.Equal(t, "INVALID_IDEMPOTENCY_KEY", b.confirm(strings.Repeat("k", 301), ok, "order-1", "12345").code())
	require.Equal(t, 1, b.captured("order-1"))
}

func TestServerErrorsAreKeptOrFreedAsSet(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{true, false} {
		for _, code := range []string{"", "PROVIDER_ERROR"} {
			b := setup(t)
			b.sim.Configure(func(s *tosssim.Settings) { s.KeepServerErrors = keep })
			_, err := b.faults.Add(faults.Fault{Target: faults.Toss, Action: faults.StoreError, Code: code, Times: 1})
			require.NoError(t, err)
			first := b.confirm("k", ok, "order-1", "12345")
			require.NotEqual(t, 200, first.status)
			second := b.confirm("k", ok, "order-1", "12345")
			require.Equal(t, keep, second.body == first.body)
			require.Equal(t, !keep, b.captured("order-1") == 1)
			require.Equal(t, 1, b.sim.PruneKeys())
		}
	}
}

func TestASecondRequestWhileTheFirstRunsIsInProgress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, err := b.faults.Add(faults.Fault{Target: faults.Toss, Action: faults.Slow, Delay: time.Second, Times: 2})
	require.NoError(t, err)
	replies := make(chan reply, 2)
	for range 2 {
		go func() { replies <- b.confirm("k", ok, "order-1", "12345") }()
	}
	require.NoError(t, b.faults.AwaitFired(t.Context(), id, 2))
	loser, winner := <-replies, <-replies
	require.Equal(t, "IDEMPOTENT_REQUEST_PROCESSING", loser.code())
	require.Equal(t, http.StatusConflict, loser.status)
	require.Equal(t, "DONE", winner.m["status"])
	require.Equal(t, 1, b.captured("order-1"))
}

func TestTheWindowsOfASession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, "IN_PROGRESS", b.get(ok).m["status"])
	require.Equal(t, "READY", b.get("pay_ready__order-2__100__KRW").m["status"])
	require.Equal(t, "NOT_FOUND_PAYMENT_SESSION", b.confirm("k0", "pay_ready__order-2__100__KRW", "order-2", "100").code())
	b.forward(9 * time.Minute)
	require.Equal(t, "IN_PROGRESS", b.get(ok).m["status"])
	b.forward(2 * time.Minute)
	r := b.confirm("k", ok, "order-1", "12345")
	require.Equal(t, "NOT_FOUND_PAYMENT_SESSION", r.code())
	require.Equal(t, 404, r.status)
	require.Equal(t, "EXPIRED", b.get(ok).m["status"])
	require.Equal(t, []string{"PAYMENT_STATUS_CHANGED EXPIRED"}, b.kinds(), "once, and nothing for READY or IN_PROGRESS")
	b.forward(20 * time.Minute)
	b.sim.Sweep()
	require.Equal(t, []string{"PAYMENT_STATUS_CHANGED EXPIRED"}, b.kinds(), "nobody asked for the other one")
}

func TestAConfirmHasToFitWhatTheBuyerSaw(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range map[string][3]string{
		"OtherAmount":   {ok, "order-1", "12346"},
		"OtherOrder":    {ok, "order-9", "12345"},
		"FractionOfWon": {ok, "order-1", "12345.5"},
		"Text":          {ok, "order-1", `"x"`},
		"NoKey":         {"", "order-1", "12345"},
	} {
		require.Equal(t, "INVALID_REQUEST", b.confirm("k-"+name, c[0], c[1], c[2]).code(), name)
	}
	require.Equal(t, "NOT_FOUND_PAYMENT", b.confirm("k9", "nobody", "order-1", "12345").code())
	require.Equal(t, "DONE", b.confirm("k", ok, "order-1", "12345").m["status"])
	require.Equal(t, "ALREADY_PROCESSED_PAYMENT", b.confirm("k2", ok, "order-1", "12345").code())
	require.Equal(t, "DUPLICATED_ORDER_ID", b.confirm("k3", "pay_ok__order-1__777__KRW", "order-1", "777").code())
	require.Equal(t, ok, b.call(http.MethodGet, "/v1/payments/orders/order-1", "", "").m["paymentKey"], "the paid one")
	require.Equal(t, "NOT_FOUND_PAYMENT", b.call(http.MethodGet, "/v1/payments/orders/order-7", "", "").code())
	usd := b.confirm("k4", "pay_foreign__order-4__17.99__USD", "order-4", "17.99")
	require.Contains(t, usd.body, `"totalAmount":17.99`)
	require.EqualValues(t, 1799, b.sim.Charges(tosssim.Filter{MerchantReference: "order-4"})[0].Captured)
	jpy := b.confirm("k5", "pay_ok__order-5__80__JPY", "order-5", "80")
	require.Contains(t, jpy.body, `"totalAmount":80`)
	require.Equal(t, 1, b.captured("order-1"))
}

func TestDeclinesAndForcedCodes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.confirm("k", "pay_declined__order-1__100__KRW", "order-1", "100")
	require.Equal(t, "REJECT_CARD_PAYMENT", r.code())
	require.Equal(t, http.StatusForbidden, r.status)
	now := b.get("pay_declined__order-1__100__KRW")
	require.Equal(t, "ABORTED", now.m["status"])
	require.Equal(t, "REJECT_CARD_PAYMENT", now.m["failure"].(map[string]any)["code"])
	require.Equal(t, "INVALID_STOPPED_CARD", b.confirm("k2", "pay_declined-INVALID_STOPPED_CARD__order-2__100__KRW", "order-2", "100").code())

	forced := b.confirm("k3", ok, "order-1", "12345", "TossPayments-Test-Code", "PROVIDER_ERROR")
	require.Equal(t, "PROVIDER_ERROR", forced.code())
	require.Equal(t, "IN_PROGRESS", b.get(ok).m["status"], "nothing happened")
	live := b.confirm("k3", ok, "order-1", "12345", "TossPayments-Test-Code", "PROVIDER_ERROR",
		"Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(liveKey+":")))
	require.Equal(t, "DONE", live.m["status"], "live keys ignore the header")
	require.Len(t, b.sim.Charges(tosssim.Filter{MerchantReference: "order-2"}), 1)
	require.Equal(t, "INVALID_STOPPED_CARD", b.sim.Charges(tosssim.Filter{MerchantReference: "order-2"})[0].Declined)
}

func TestEveryFaultActionActs(t *testing.T) {
	t.Parallel()
	for action, want := range map[faults.Action]struct {
		status   int
		captured int
	}{
		faults.LoseAnswer: {0, 1}, faults.Drop: {0, 0}, faults.Late: {200, 1}, faults.Slow: {200, 1}, faults.StoreError: {500, 1},
		faults.Status: {418, 0}, faults.Garbage: {200, 1}, faults.Refuse: {403, 0}, faults.Hang: {0, 1},
	} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			f := faults.Fault{Target: faults.Toss, Action: action, PathSuffix: "/confirm", Times: 1}
			switch action {
			case faults.Late, faults.Slow:
				f.Delay = 10 * time.Millisecond
			case faults.StoreError, faults.Garbage, faults.Hang:
				f.Effect = true
			case faults.Status:
				f.Status = 418
			}
			_, err := b.faults.Add(f)
			require.NoError(t, err)
			if action == faults.Hang {
				ctx, cancel := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/payments/confirm", strings.NewReader(confirmBody(ok, "order-1", "12345")))
				require.NoError(t, err)
				req.SetBasicAuth(testKey, "")
				ended := make(chan error, 1)
				go func() {
					_, err := http.DefaultTransport.RoundTrip(req) // it never answers
					ended <- err
				}()
				require.Eventually(t, func() bool { return b.captured("order-1") == 1 }, 10*time.Second, time.Millisecond)
				cancel()
				require.Error(t, <-ended)
			} else {
				require.Equal(t, want.status, b.confirm("k", ok, "order-1", "12345").status)
			}
			require.Equal(t, want.captured, b.captured("order-1"))
			require.Equal(t, string(action), b.sim.Writes(tosssim.Filter{PaymentKey: ok})[0].Fault)
		})
	}
}

func TestCancelGuards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, "NOT_CANCELABLE_PAYMENT", b.cancel("c0", ok, `{"cancelReason":"x"}`).code(), "waits for its confirm")
	require.Equal(t, "DONE", b.confirm("k", ok, "order-1", "12345").m["status"])
	for name, c := range map[string][2]string{
		"NoReason":   {`{}`, "INVALID_REQUEST"},
		"LongReason": {`{"cancelReason":"` + strings.Repeat("가", 201) + `"}`, "INVALID_REQUEST"},
		"Zero":       {`{"cancelReason":"x","cancelAmount":0}`, "INVALID_REQUEST"},
		"Fraction":   {`{"cancelReason":"x","cancelAmount":0.5}`, "INVALID_REQUEST"},
		"TooMuch":    {`{"cancelReason":"x","cancelAmount":12346}`, "NOT_CANCELABLE_AMOUNT"},
		"Moved":      {`{"cancelReason":"x","cancelAmount":100,"refundableAmount":12000}`, "NOT_MATCHES_REFUNDABLE_AMOUNT"},
	} {
		require.Equal(t, c[1], b.cancel("c-"+name, ok, c[0]).code(), name)
	}
	r := b.cancel("c1", ok, `{"cancelReason":"x","cancelAmount":345,"refundableAmount":12345}`)
	require.Equal(t, "PARTIAL_CANCELED", r.m["status"])
	require.EqualValues(t, 12000, r.m["balanceAmount"])
	require.Equal(t, r.body, b.cancel("c1", ok, `{"cancelReason":"x","cancelAmount":9999}`).body, "the key keeps the first answer")
	r = b.cancel("c2", ok, `{"cancelReason":"x"}`)
	require.Equal(t, "PARTIAL_CANCELED", r.m["status"], "reached in steps it stays so")
	require.EqualValues(t, 0, r.m["balanceAmount"])
	require.Len(t, r.m["cancels"], 2)
	require.Equal(t, "NOT_CANCELABLE_AMOUNT", b.cancel("c3", ok, `{"cancelReason":"x"}`).code())
	require.EqualValues(t, 12345, b.sim.Charges(tosssim.Filter{MerchantReference: "order-1"})[0].Refunded)

	require.ErrorIs(t, b.sim.Refund(ok, 1), tosssim.ErrNotPaid, "nothing is left")

	const whole = "pay_ok__order-2__500__KRW"
	require.ErrorIs(t, b.sim.Refund(whole, 1), tosssim.ErrNotWaiting, "nobody has heard of it")
	b.confirm("k2", whole, "order-2", "500")
	require.ErrorIs(t, b.sim.Refund(whole, 501), tosssim.ErrNotPaid, "more than there is")
	require.Equal(t, "CANCELED", b.cancel("c4", whole, `{"cancelReason":"x"}`).m["status"])
	require.Equal(t, "ALREADY_CANCELED_PAYMENT", b.cancel("c5", whole, `{"cancelReason":"x"}`).code())
	require.Equal(t, []string{
		"PAYMENT_STATUS_CHANGED DONE", "PAYMENT_STATUS_CHANGED PARTIAL_CANCELED", "PAYMENT_STATUS_CHANGED PARTIAL_CANCELED",
		"PAYMENT_STATUS_CHANGED DONE", "PAYMENT_STATUS_CHANGED CANCELED",
	}, b.kinds())
}

func TestResetForgetsEverything(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sim.Configure(func(s *tosssim.Settings) { s.ConfirmWindow = time.Hour })
	b.confirm("k", ok, "order-1", "12345")
	b.sim.Reset()
	books := b.sim.Books(tosssim.Filter{})
	require.Empty(t, books.Charges)
	require.Empty(t, books.Writes)
	require.Zero(t, books.Reads)
	require.Equal(t, 10*time.Minute, b.sim.Settings().ConfirmWindow)
	require.Equal(t, "DONE", b.confirm("k", ok, "order-1", "12345").m["status"])
}

func TestWrongKeysAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]secret.Value{nil, {secret.New("sk_test_x")}, {secret.New(testKey), secret.New(testKey)}} {
		_, err := tosssim.New(tosssim.Config{Keys: keys})
		require.Error(t, err)
	}
	_, err := tosssim.New(tosssim.Config{Keys: []secret.Value{secret.New(testKey)}, SecurityKey: secret.New("abc")})
	require.Error(t, err)
	for _, a := range []tosssim.Authentication{
		{OrderID: "x", AmountMinor: 1, Currency: "KRW"},
		{OrderID: "order-1", AmountMinor: 0, Currency: "KRW"},
		{OrderID: "order-1", AmountMinor: 1, Currency: "THB"},
		{OrderID: "order-1", AmountMinor: 1, Currency: "KRW", Method: "coins"},
		{OrderID: "order-1", AmountMinor: 1, Currency: "KRW", Account: "nobody"},
	} {
		_, err := setup(t).sim.Authenticate(a)
		require.Error(t, err)
	}
}
