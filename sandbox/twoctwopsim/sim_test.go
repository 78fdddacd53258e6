package twoctwopsim

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
)

const (
	merchantID = "SIM01"
	key        = "sim-secret"
)

// world is a simulator behind real HTTP, with a clock that a test can put forward.
type world struct {
	*Sim
	t      *testing.T
	url    string
	ahead  atomic.Int64
	faults *faults.Injector

	mu      sync.Mutex
	notices []notify.Message
}

func begin(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, faults: faults.New()}
	var err error
	w.Sim, err = New(Config{
		Merchants: []Merchant{{ID: merchantID, Secret: secret.New(key)}, {ID: "SIM02", Secret: secret.New(key + "2")}},
		Faults:    w.faults,
		Now:       func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
		OnNotice: func(m notify.Message) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notices = append(w.notices, m)
		},
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/payment/4.3/", w.Sim)
	mux.Handle("/buyer/twoctwop/", w.Buyer())
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Cleanup(w.faults.Close)
	w.url = srv.URL
	return w
}

func (w *world) forward(d time.Duration) { w.ahead.Add(int64(d)) }

func (w *world) told() []notify.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]notify.Message(nil), w.notices...)
}

// post sends a body and returns the decoded answer, and whether it was signed rightly.
func (w *world) post(path string, body any) (object, bool) {
	w.t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(w.t, err)
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/payment/4.3/"+path, bytes.NewReader(raw))
	require.NoError(w.t, err)
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	out, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	if res.StatusCode != http.StatusOK {
		return object{"status": http.StatusText(res.StatusCode)}, false
	}
	o, ok := decodeObject(out)
	require.True(w.t, ok, string(out))
	jwt := o.text("payload")
	if jwt == "" {
		return o, false
	}
	claims, ok := peek(jwt)
	require.True(w.t, ok)
	o, ok = decodeObject(claims)
	require.True(w.t, ok)
	return o, verified(secret.New(key), jwt)
}

func (w *world) signed(path string, claims map[string]any) (object, bool) {
	w.t.Helper()
	jwt, err := sign(secret.New(key), claims)
	require.NoError(w.t, err)
	return w.post(path, map[string]string{"payload": jwt})
}

func (w *world) token(invoice string, change map[string]any) object {
	w.t.Helper()
	claims := map[string]any{
		"merchantID": merchantID, "invoiceNo": invoice, "description": "gift", "amount": json.Number("80.50"), "currencyCode": "THB",
		"idempotencyID": invoice, "userDefined1": "mine", "frontendReturnUrl": "https://shop.example/back?a=b",
	}
	for k, v := range change {
		claims[k] = v
	}
	o, _ := w.signed("paymentToken", claims)
	return o
}

func (w *world) pay(token, card string) object {
	w.t.Helper()
	o, _ := w.post("payment", doPaymentBody(token, "CC", card))
	return o
}

func doPaymentBody(token, channel, card string) map[string]any {
	return map[string]any{"paymentToken": token, "payment": map[string]any{
		"code": map[string]any{"channelCode": channel}, "data": map[string]any{"securePayToken": card},
	}}
}

func (w *world) inquiry(invoice string) object {
	w.t.Helper()
	o, _ := w.signed("paymentInquiry", map[string]any{"merchantID": merchantID, "invoiceNo": invoice})
	return o
}

func code(o object) string { return o.text("respCode") }

func TestACardPayment(t *testing.T) {
	t.Parallel()
	w := begin(t)
	made := w.token("A1", nil)
	require.Equal(t, "0000", code(made))
	require.Equal(t, "2002", code(w.inquiry("A1")), "a token alone is no transaction")
	paid := w.pay(made.text("paymentToken"), "ok__x")
	require.Equal(t, "2000", code(paid))
	require.Equal(t, "A1", paid.text("invoiceNo"))
	o, right := w.signed("paymentInquiry", map[string]any{"merchantID": merchantID, "invoiceNo": "A1"})
	require.True(t, right)
	require.Equal(t, "0000", code(o))
	require.Equal(t, "000000000080.50000", o.text("amount"))
	require.Equal(t, "mine", o.text("userDefined1"))
	w.Configure(func(s *Settings) { s.PadAmounts = false })
	require.Equal(t, "80.50", w.inquiry("A1").text("amount"))

	charges := w.Charges(Filter{MerchantReference: "A1", CapturedOnly: true})
	require.Len(t, charges, 1)
	require.Equal(t, int64(8050), charges[0].Captured)
	require.Equal(t, "THB", charges[0].Currency)
	require.Equal(t, merchantID, charges[0].Account)
	writes := w.Writes(Filter{MerchantReference: "A1"})
	require.Len(t, writes, 2)
	require.True(t, writes[0].Executed && writes[1].Executed)
	require.Equal(t, "2000", writes[1].RespCode)
	require.Equal(t, int64(3), w.Books(Filter{}).Reads)

	told := w.told()
	require.Len(t, told, 1)
	require.Equal(t, "payment.0000", told[0].Kind)
	require.Equal(t, "application/json", told[0].Header(time.Now(), 0).Get("Content-Type"))
	var e map[string]string
	require.NoError(t, json.Unmarshal(told[0].Body, &e))
	require.True(t, verified(secret.New(key), e["payload"]))
	require.False(t, verified(secret.New(key+"x"), e["payload"]))
	w.Reset()
	require.Empty(t, w.Charges(Filter{}))
	require.Equal(t, "2002", code(w.inquiry("A1")))
}

func TestATokenPaysOnce(t *testing.T) {
	t.Parallel()
	w := begin(t)
	token := w.token("A1", nil).text("paymentToken")
	require.Equal(t, "2000", code(w.pay(token, "ok__x")))
	require.Equal(t, "9041", code(w.pay(token, "ok__x")))
	require.Equal(t, "9040", code(w.pay("kSAops9Zwhos", "ok__x")))
	old := w.token("A2", nil).text("paymentToken")
	w.forward(31 * time.Minute)
	require.Equal(t, "9020", code(w.pay(old, "ok__x")))
	require.Len(t, w.Charges(Filter{}), 1)
}

func TestDuplicateInvoiceNumbers(t *testing.T) {
	t.Parallel()
	w := begin(t)
	first := w.token("A1", nil)
	require.Equal(t, "9015", code(w.token("A1", nil)))
	w.Configure(func(s *Settings) { s.IdempotencyReplay = true })
	require.Equal(t, first.text("paymentToken"), w.token("A1", nil).text("paymentToken"))
	require.Equal(t, "9015", code(w.token("A1", map[string]any{"idempotencyID": "other"})))
	w.Configure(func(s *Settings) { s.IdempotencyReplay, s.DuplicateAt = false, AtPayment })
	second := w.token("A1", nil)
	require.NotEqual(t, first.text("paymentToken"), second.text("paymentToken"))
	require.Equal(t, "9015", code(w.token("A1", map[string]any{"amount": json.Number("90.00")})), "another amount is another payment")
	require.Equal(t, "2000", code(w.pay(first.text("paymentToken"), "ok__x")))
	require.Equal(t, "9015", code(w.pay(second.text("paymentToken"), "ok__x")), "the invoice number is paid")
	require.Equal(t, "9015", code(w.token("A1", nil)))
	require.Len(t, w.Charges(Filter{MerchantReference: "A1", CapturedOnly: true}), 1)
}

func TestCardsThatSayWhatHappens(t *testing.T) {
	t.Parallel()
	w := begin(t)
	for card, want := range map[string]string{
		"insufficient__x": "4051", "expired__x": "4054", "stolen__x": "4043", "code4062__x": "4062", "nonsense": "4014",
	} {
		invoice := "D" + want
		require.Equal(t, "2000", code(w.pay(w.token(invoice, nil).text("paymentToken"), card)))
		require.Equal(t, want, code(w.inquiry(invoice)), card)
		require.Equal(t, want, w.Charges(Filter{MerchantReference: invoice})[0].Declined)
	}
	require.Empty(t, w.Charges(Filter{CapturedOnly: true}))

	require.Equal(t, "2000", code(w.pay(w.token("L1", nil).text("paymentToken"), "late__90s__x")))
	require.Equal(t, "2001", code(w.inquiry("L1")))
	w.forward(time.Minute)
	require.Equal(t, "2001", code(w.inquiry("L1")))
	w.forward(time.Minute)
	require.Equal(t, "0000", code(w.inquiry("L1")))
}

func TestTheBuyersPage(t *testing.T) {
	t.Parallel()
	w := begin(t)
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: 10 * time.Second}
	press := func(page, button string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page+button, nil)
		require.NoError(t, err)
		res, err := browser.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	for _, tc := range []struct {
		invoice, card, button, want string
		hosted                      bool
	}{
		{"B1", "3ds__x", "/pass", "0000", false},
		{"B2", "3ds__x", "/fail", "4081", false},
		{"B3", "", "/pass", "0000", true},
		{"B4", "", "/fail", "4005", true},
	} {
		made := w.token(tc.invoice, nil)
		page := made.text("webPaymentUrl")
		if !tc.hosted {
			flow := w.pay(made.text("paymentToken"), tc.card)
			require.Equal(t, "1001", code(flow))
			require.NotEqual(t, page, flow.text("data"), "the hosted page is over")
			page = flow.text("data")
			require.Equal(t, "0001", code(w.inquiry(tc.invoice)))
		}
		require.True(t, strings.HasPrefix(page, w.url+"/buyer/twoctwop/"), page)
		res := press(page, tc.button)
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		back, err := url.Parse(res.Header.Get("Location"))
		require.NoError(t, err)
		require.Equal(t, "b", back.Query().Get("a"))
		said, err := base64.URLEncoding.DecodeString(back.Query().Get("paymentResponse"))
		require.NoError(t, err)
		require.Contains(t, string(said), `"respCode":"2000"`, "it never says the result")
		require.Equal(t, tc.want, code(w.inquiry(tc.invoice)))
		require.Equal(t, http.StatusGone, press(page, "/pass").StatusCode)
	}
	require.Len(t, w.Charges(Filter{CapturedOnly: true}), 2)

	w.Configure(func(s *Settings) { s.PageRetries, s.ReturnByPost = true, true })
	page := w.token("B5", nil).text("webPaymentUrl")
	require.Equal(t, http.StatusOK, press(page, "/fail").StatusCode)
	require.Equal(t, "4005", code(w.inquiry("B5")))
	res := press(page, "/pass")
	shown, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(shown), `name="paymentResponse"`)
	require.Equal(t, "0000", code(w.inquiry("B5")))

	stale := w.token("B6", nil).text("webPaymentUrl")
	w.forward(31 * time.Minute)
	require.Equal(t, http.StatusGone, press(stale, "/pass").StatusCode, "the page lives as long as its token")
}

func TestWaitingPaymentsExpireAndMoneyComesAnyway(t *testing.T) {
	t.Parallel()
	w := begin(t)
	for channel, flow := range map[string]string{"PPQR": "1005", "PAYPAY": "1001", "123": "1003"} {
		o, _ := w.post("payment", doPaymentBody(w.token("W"+channel, nil).text("paymentToken"), channel, ""))
		require.Equal(t, flow, code(o), channel)
		require.NotEmpty(t, o.text("data"))
	}
	w.forward(21 * time.Minute)
	require.Equal(t, "5009", code(w.inquiry("WPPQR")))
	require.False(t, w.Act("WPPQR", true))
	require.True(t, w.Receive("WPPQR", 8050))
	require.Equal(t, "AE", code(w.inquiry("WPPQR")), "paid after the end")
	require.Len(t, w.Charges(Filter{MerchantReference: "WPPQR", CapturedOnly: true}), 1)
	w.Configure(func(s *Settings) { s.OddLooksPaid = true })
	require.True(t, w.Receive("W123", 8000))
	o := w.inquiry("W123")
	require.Equal(t, "0000", code(o))
	require.Equal(t, "000000000080.00000", o.text("amount"), "it looks paid, and the amount tells")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := begin(t)
	fresh := w.token("C1", nil).text("paymentToken")
	o, _ := w.post("cancelTransaction", map[string]any{"paymentToken": fresh})
	require.Equal(t, "0000", code(o))
	require.Equal(t, "0003", code(w.inquiry("C1")))
	require.Equal(t, "9041", code(w.pay(fresh, "ok__x")))
	paid := w.token("C2", nil).text("paymentToken")
	w.pay(paid, "ok__x")
	o, _ = w.post("cancelTransaction", map[string]any{"paymentToken": paid})
	require.Equal(t, "9041", code(o))
	require.Equal(t, "0000", code(w.inquiry("C2")))
	stale := w.token("C3", nil).text("paymentToken")
	w.forward(31 * time.Minute)
	o, _ = w.post("cancelTransaction", map[string]any{"paymentToken": stale})
	require.Equal(t, "9020", code(o))
	status, _ := w.post("transactionStatus", map[string]any{"paymentToken": paid})
	require.Equal(t, "2000", code(status))
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	w := begin(t)
	for name, tc := range map[string]struct {
		change map[string]any
		want   string
	}{
		"JPYWithDecimals": {map[string]any{"currencyCode": "JPY", "amount": json.Number("80.00")}, "9009"},
		"TooPrecise":      {map[string]any{"amount": json.Number("80.505")}, "9009"},
		"IDRWithDecimals": {map[string]any{"currencyCode": "IDR", "amount": "1500.00"}, "9009"},
		"NumericCurrency": {map[string]any{"currencyCode": "764"}, "9009"},
		"NoInvoice":       {map[string]any{"invoiceNo": ""}, "9005"},
		"OddInvoice":      {map[string]any{"invoiceNo": "OF-1"}, "9004"},
		"LongInvoice":     {map[string]any{"invoiceNo": strings.Repeat("A", 51)}, "9004"},
		"LongDescription": {map[string]any{"description": strings.Repeat("x", 251)}, "9006"},
		"OtherMerchant":   {map[string]any{"merchantID": "NOBODY"}, "6107"},
		"NoMerchant":      {map[string]any{"merchantID": ""}, "6104"},
		"OthersKey":       {map[string]any{"merchantID": "SIM02"}, "9042"},
	} {
		require.Equal(t, tc.want, code(w.token("R1", tc.change)), name)
	}
	o, _ := w.post("paymentToken", map[string]any{"merchantID": merchantID})
	require.Equal(t, "6102", code(o), "not signed at all")
	require.Empty(t, w.Charges(Filter{}))

	w.Configure(func(s *Settings) { s.Wrapping = Wrapped })
	require.Equal(t, "6102", code(w.pay(w.token("R2", nil).text("paymentToken"), "ok__x")))
	w.Configure(func(s *Settings) { s.Wrapping = Plain })
	o, _ = w.signed("payment", doPaymentBody(w.token("R3", nil).text("paymentToken"), "CC", "ok__x"))
	require.Equal(t, "6102", code(o))
	w.Configure(func(s *Settings) { s.OtherPaths = true })
	o, _ = w.post("payment", map[string]any{})
	require.NotEmpty(t, o.text("status"), "only one spelling is served")
	o, _ = w.post("doPayment", doPaymentBody(w.token("R4", nil).text("paymentToken"), "CC", "ok__x"))
	require.Equal(t, "2000", code(o))
}

func TestSignaturesThatAreWrongOnPurpose(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.Configure(func(s *Settings) { s.WrongSignature, s.ForgedNotices = true, true })
	jwt, err := sign(secret.New(key), map[string]any{"merchantID": merchantID, "invoiceNo": "S1", "description": "x", "amount": "80.50", "currencyCode": "THB"})
	require.NoError(t, err)
	o, right := w.post("paymentToken", map[string]string{"payload": jwt})
	require.False(t, right)
	w.pay(o.text("paymentToken"), "ok__x")
	var e map[string]string
	require.NoError(t, json.Unmarshal(w.told()[0].Body, &e))
	require.False(t, verified(secret.New(key), e["payload"]))
	w.Configure(func(s *Settings) { s.WrongSignature, s.SignedErrors = false, true })
	_, right = w.signed("paymentInquiry", map[string]any{"merchantID": merchantID, "invoiceNo": "S2"})
	require.True(t, right, "an error can be signed too")
}

// TestNoticeBeforeTheAnswer: with the switch, the notice is handed on while the caller still waits.
func TestNoticeBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		w := begin(t)
		w.Configure(func(s *Settings) { s.NoticeFirst = first })
		token := w.token("N1", nil).text("paymentToken")
		id, err := w.faults.Add(faults.Fault{Target: faults.TwoCTwoP, PathSuffix: "/payment", Action: faults.Late, Delay: time.Hour})
		require.NoError(t, err)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			body, _ := json.Marshal(doPaymentBody(token, "CC", "ok__x"))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/payment/4.3/payment", bytes.NewReader(body))
			if err != nil {
				return
			}
			if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
				_ = res.Body.Close()
			}
		}()
		require.NoError(t, w.faults.AwaitFired(t.Context(), id, 1))
		require.Eventually(t, func() bool { return len(w.Charges(Filter{MerchantReference: "N1", CapturedOnly: true})) == 1 }, 10*time.Second, 2*time.Millisecond)
		if first {
			require.Eventually(t, func() bool { return len(w.told()) == 1 }, 10*time.Second, 2*time.Millisecond)
		} else {
			require.Empty(t, w.told(), "the answer is not out yet")
		}
		w.faults.Close()
		<-answered
		require.Eventually(t, func() bool { return len(w.told()) == 1 }, 10*time.Second, 2*time.Millisecond)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	w := begin(t)
	for _, tc := range []struct {
		fault    faults.Fault
		code     string
		captured int
	}{
		{faults.Fault{Action: faults.StoreError}, "9991", 0},
		{faults.Fault{Action: faults.StoreError, Effect: true}, "9991", 1},
		{faults.Fault{Action: faults.Refuse}, "2000", 0},
		{faults.Fault{Action: faults.Refuse, Code: "4054"}, "2000", 0},
	} {
		w.Reset()
		tc.fault.Target, tc.fault.PathSuffix, tc.fault.Times = faults.TwoCTwoP, "/payment", 1
		_, err := w.faults.Add(tc.fault)
		require.NoError(t, err)
		require.Equal(t, tc.code, code(w.pay(w.token("F1", nil).text("paymentToken"), "ok__x")))
		require.Len(t, w.Charges(Filter{CapturedOnly: true}), tc.captured)
		require.Equal(t, string(tc.fault.Action), w.Writes(Filter{PathSuffix: "/payment"})[0].Fault)
	}
	require.Equal(t, "4054", code(w.inquiry("F1")))
	// A signed request is matched by what it says, not by its encoding.
	_, err := w.faults.Add(faults.Fault{Target: faults.TwoCTwoP, BodyContains: `"invoiceNo":"F7"`, Action: faults.Refuse, Code: "9038", Times: 1})
	require.NoError(t, err)
	require.Equal(t, "0000", code(w.token("F6", nil)))
	require.Equal(t, "9038", code(w.token("F7", nil)))
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text, currency string
		minor          int64
		plain, padded  string
	}{
		{"80", "JPY", 80, "80", "000000000080.00000"},
		{"80.50", "THB", 8050, "80.50", "000000000080.50000"},
		{"1.230", "KWD", 1230, "1.230", "000000000001.23000"},
		{"0.05", "USD", 5, "0.05", "000000000000.05000"},
		{"1500", "IDR", 150000, "1500", "000000001500.00000"},
		{"80.5", "THB", 8050, "80.50", "000000000080.50000"},
	} {
		minor, ok := parseAmount(tc.text, tc.currency)
		require.True(t, ok, tc.text)
		require.Equal(t, tc.minor, minor)
		require.Equal(t, tc.plain, formatAmount(minor, tc.currency, false))
		require.Equal(t, tc.padded, formatAmount(minor, tc.currency, true))
	}
	for _, bad := range []string{"", "0", "-1", "1e3", ".5", "5.", "1,5", "80.505", "1234567890123", " 80"} {
		_, ok := parseAmount(bad, "THB")
		require.False(t, ok, bad)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"NoMerchant": {},
		"NoID":       {Merchants: []Merchant{{Secret: secret.New("x")}}},
		"NoSecret":   {Merchants: []Merchant{{ID: "A"}}},
		"Twice":      {Merchants: []Merchant{{ID: "A", Secret: secret.New("x")}, {ID: "A", Secret: secret.New("y")}}},
		"BadKey":     {Merchants: []Merchant{{ID: "A", Secret: secret.New("x"), PublicKey: "x"}}},
		"BadOwnKey":  {Merchants: []Merchant{{ID: "A", Secret: secret.New("x")}}, PrivateKey: secret.New("x")},
	} {
		_, err := New(cfg)
		require.Error(t, err, name)
	}
}
