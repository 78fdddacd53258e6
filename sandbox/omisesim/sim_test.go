package omisesim_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/omisesim"
)

// Goal: whatever is sent in whatever order, a token takes money once at most, a charge gives back no more than it took, a
// closed charge takes nothing, and the books and the API agree. Method: random calls on few objects, so that they collide.
func TestMoneyIsTakenOncePerTokenWhateverComes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := quiet(rt)
		tokens := []string{"tokn_test_ok__a", "tokn_test_3ds__b", "src_test_promptpay__c", "tokn_test_insufficient__d"}
		customers := 0
		var charges []string
		for range rapid.IntRange(1, 30).Draw(rt, "calls") {
			method := rapid.SampledFrom(append(tokens, "cust_test_ok__e")).Draw(rt, "method")
			id := "chrg_test_none"
			if len(charges) > 0 {
				id = rapid.SampledFrom(charges).Draw(rt, "charge")
			}
			switch call := rapid.SampledFrom([]string{"charge", "charge", "capture", "reverse", "expire", "refund", "buyer", "later"}).Draw(rt, "call"); call {
			case "charge":
				field := map[string]string{"tok": "card", "src": "source", "cus": "customer"}[method[:3]]
				capture := rapid.SampledFrom([]string{"true", "false"}).Draw(rt, "capture")
				status, c := w.ask(rt, http.MethodPost, "/charges", secretKey, `{"amount":1000,"currency":"thb","capture":`+capture+`,"`+field+`":"`+method+`"}`)
				if status == 200 {
					charges = append(charges, c["id"].(string))
					if field == "customer" {
						customers++
					}
				}
			case "refund":
				w.ask(rt, http.MethodPost, "/charges/"+id+"/refunds", secretKey, `{"amount":400}`)
			case "buyer":
				w.sim.Decide(id, rapid.Bool().Draw(rt, "pass"))
			case "later":
				w.pass(13 * time.Hour)
			default:
				w.ask(rt, http.MethodPost, "/charges/"+id+"/"+call, secretKey, `{}`)
			}
		}
		by := map[string]int{}
		for _, c := range w.sim.Charges(omisesim.Filter{}) {
			by[c.Method]++
			require.LessOrEqual(rt, c.Captured, c.Amount)
			require.LessOrEqual(rt, c.Refunded, c.Captured)
			_, v := w.ask(rt, http.MethodGet, "/charges/"+c.Charge, secretKey, "")
			require.EqualValues(rt, c.Captured, v["captured_amount"])
			require.EqualValues(rt, c.Refunded, v["refunded_amount"])
			require.Equal(rt, c.Captured > 0, v["paid"])
			require.Equal(rt, c.Captured > 0, v["status"] == "successful")
			require.Equal(rt, c.Declined != "", v["status"] == "failed")
		}
		for _, token := range tokens {
			require.LessOrEqual(rt, by[token], 1, "%s was charged twice", token)
		}
		require.Equal(rt, customers, by["cust_test_ok__e"], "a customer is charged as often as asked")
	})
}

// quiet is a world without a server, for many runs.
func quiet(t require.TestingT) *world {
	w := &world{clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	var err error
	w.sim, err = omisesim.New(omisesim.Config{
		Keys: []omisesim.KeyPair{{Secret: secret.New(secretKey), Public: publicKey}}, Now: w.now,
	})
	require.NoError(t, err)
	return w
}

func TestMagicTokensDoWhatTheirNamesSay(t *testing.T) {
	t.Parallel()
	w := start(t)
	for token, want := range map[string]string{
		"tokn_test_ok__1": "", "tokn_test_insufficient__1": "insufficient_fund", "tokn_test_stolen__1": "stolen_or_lost_card",
		"tokn_test_processing__1": "failed_processing", "tokn_test_rejected__1": "payment_rejected", "tokn_test_timeout__1": "timeout",
		"tokn_test_mismatch__1": "confirmed_amount_mismatch", "tokn_test_fail_brand_new__1": "brand_new", "tokn_test_ok": "",
	} {
		c := w.charge(t, `"card":"`+token+`"`)
		if want == "" {
			require.Equal(t, "successful", c["status"], token)
			continue
		}
		require.Equal(t, "failed", c["status"], token)
		require.Equal(t, want, c["failure_code"])
	}
	for token, want := range map[string]string{
		"tokn_test_used__1": "used_token", "tokn_test_invalid__1": "invalid_card", "tokn_test_error_backend_error__1": "backend_error",
		"tokn_test_nonsense__1": "not_found", "tokn_ok__1": "not_found", "src_test_ok__1": "not_found",
	} {
		_, e := w.ask(t, http.MethodPost, "/charges", secretKey, `{"amount":10000,"currency":"thb","card":"`+token+`"}`)
		require.Equal(t, want, e["code"], token)
	}
	status, c := w.ask(t, http.MethodPost, "/charges", liveKey, `{"amount":10000,"currency":"thb","card":"tokn_ok__1"}`)
	require.Equal(t, 200, status)
	require.Equal(t, true, c["livemode"])
	require.NotContains(t, c["id"], "test")
	status, _ = w.ask(t, http.MethodGet, "/charges/"+c["id"].(string), secretKey, "")
	require.Equal(t, 404, status, "another account's charge does not exist")
}

func TestTheDoorIsOpenToTheRightKeysOnly(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, c := range []struct {
		method, path, key string
		want              int
	}{
		{"GET", "/charges", secretKey, 200},
		{"GET", "/charges", publicKey, 401},
		{"GET", "/charges", "skey_test_b", 401},
		{"GET", "/charges", "", 401},
		{"POST", "/tokens", secretKey, 401},
		{"POST", "/sources", secretKey, 400},
		{"POST", "/sources", publicKey, 400},
		{"POST", "/charges", publicKey, 401},
		{"DELETE", "/charges/x", secretKey, 404},
	} {
		status, body := w.ask(t, c.method, c.path, c.key, "{}")
		require.Equal(t, c.want, status, "%s %s with %q: %v", c.method, c.path, c.key, body)
	}
	r := httptest.NewRequest(http.MethodGet, "/charges", nil)
	r.SetBasicAuth(secretKey, "password")
	rec := httptest.NewRecorder()
	w.sim.ServeHTTP(rec, r)
	require.Equal(t, 401, rec.Code, "Omise's password is empty")
}

func TestFormsAreReadAsWell(t *testing.T) {
	t.Parallel()
	w := start(t)
	form := url.Values{"amount": {"10000"}, "currency": {"thb"}, "card": {"tokn_test_ok__1"}, "metadata[merchant_reference]": {"of-1"}, "capture": {"false"}}
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(secretKey, "")
	rec := httptest.NewRecorder()
	w.sim.ServeHTTP(rec, r)
	require.Equal(t, 200, rec.Code, rec.Body.String())
	require.Len(t, w.sim.Charges(omisesim.Filter{MerchantReference: "of-1"}), 1)
	for _, amount := range []string{`1.5`, `"x"`, `1e3`, `-1`, `null`, `true`, `9223372036854775808`} {
		status, _ := w.ask(t, http.MethodPost, "/charges", secretKey, `{"amount":`+amount+`,"currency":"thb","card":"tokn_test_ok__2"}`)
		require.Equal(t, 400, status, amount)
	}
}

func TestSwitchesSwitch(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.charge(t, `"card":"tokn_test_ok__1"`)
	again := `{"amount":10000,"currency":"thb","card":"tokn_test_ok__1"}`
	status, e := w.ask(t, http.MethodPost, "/charges", secretKey, again)
	require.Equal(t, []any{400, "used_token"}, []any{status, e["code"]})
	w.sim.Configure(func(s *omisesim.Settings) { s.UsedTokenStatus = 404 })
	status, e = w.ask(t, http.MethodPost, "/charges", secretKey, again)
	require.Equal(t, []any{404, "used_token"}, []any{status, e["code"]})

	w.sim.Configure(func(s *omisesim.Settings) { s.ListLag = time.Minute })
	_, list := w.ask(t, http.MethodGet, "/charges", secretKey, "")
	require.Empty(t, list["data"])
	w.pass(time.Minute)
	_, list = w.ask(t, http.MethodGet, "/charges", secretKey, "")
	require.Len(t, list["data"], 1)

	w.sim.Configure(func(s *omisesim.Settings) { s.Limits = true })
	_, e = w.ask(t, http.MethodPost, "/charges", secretKey, `{"amount":99,"currency":"jpy","card":"tokn_test_ok__2"}`)
	require.Equal(t, "invalid_amount", e["code"])

	w.sim.Reset()
	require.Equal(t, 400, w.sim.Settings().UsedTokenStatus)
	require.Empty(t, w.sim.Books(omisesim.Filter{}).Charges)
	w.charge(t, `"card":"tokn_test_ok__1"`)
}

// A webhook's headers are made for each try: the time is the try's, the signature covers it.
func TestWebhooksAreSignedPerTry(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.charge(t, `"card":"tokn_test_ok__1"`)
	require.Equal(t, []string{"charge.create", "charge.complete"}, w.kinds())
	key, err := base64.StdEncoding.DecodeString(hookSecret)
	require.NoError(t, err)
	m := w.notices[1]
	require.Equal(t, "omise", m.Gateway)
	require.NotEmpty(t, m.Account)
	require.True(t, json.Valid(m.Body))
	for try, at := range []time.Time{time.Unix(1_700_000_000, 0), time.Unix(1_700_003_600, 0)} {
		h := m.Header(at, try)
		stamp := h.Get("Omise-Signature-Timestamp")
		require.Equal(t, []string{"1700000000", "1700003600"}[try], stamp)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(stamp + "." + string(m.Body)))
		require.Equal(t, hex.EncodeToString(mac.Sum(nil)), h.Get("Omise-Signature"))
		require.Equal(t, "application/json", h.Get("Content-Type"))
	}
	w.sim.Configure(func(s *omisesim.Settings) { s.Unsigned, s.AccountVersion = true, omisesim.OlderVersion })
	w.charge(t, `"card":"tokn_test_insufficient__1"`)
	m = w.notices[len(w.notices)-1]
	require.Empty(t, m.Header(time.Now(), 0).Get("Omise-Signature"))
	require.Contains(t, string(m.Body), `"created":`)
	require.NotContains(t, string(m.Body), `"created_at":`)
	require.Contains(t, string(m.Body), `"status":"failed"`, "charge.complete is not paid")
}

func TestTheBuyersPage(t *testing.T) {
	t.Parallel()
	for button, want := range map[string]string{"pass": "successful", "fail": "failed"} {
		w := start(t)
		c := w.charge(t, `"card":"tokn_test_3ds__1","return_uri":"https://shop.example/back?o=1"`)
		page, ok := c["authorize_uri"].(string)
		require.True(t, ok)
		require.True(t, strings.HasPrefix(page, "http://example.com/buyer/omise/"), "%s is where the request went", page)
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		get := func(method, path string) (int, string, string) {
			req, err := http.NewRequestWithContext(t.Context(), method, w.base+path, nil)
			require.NoError(t, err)
			res, err := client.Do(req)
			require.NoError(t, err)
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			return res.StatusCode, string(body), res.Header.Get("Location")
		}
		at, err := url.Parse(page)
		require.NoError(t, err)
		status, body, _ := get(http.MethodGet, at.Path)
		require.Equal(t, 200, status)
		require.Contains(t, body, at.Path+"/"+button)
		status, _, _ = get(http.MethodPost, at.Path+"/maybe")
		require.Equal(t, 404, status)
		status, _, location := get(http.MethodPost, at.Path+"/"+button)
		require.Equal(t, 303, status)
		require.Equal(t, "https://shop.example/back?o=1", location, "the return page learns nothing from it")
		status, _, _ = get(http.MethodPost, at.Path+"/pass")
		require.Equal(t, 410, status, "a page works once")
		_, c = w.ask(t, http.MethodGet, "/charges/"+c["id"].(string), secretKey, "")
		require.Equal(t, want, c["status"])
	}
}

func TestAChargeThatWaitsTooLongExpires(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.charge(t, `"source":"src_test_konbini__1"`)
	w.pass(25 * time.Hour)
	require.False(t, w.sim.Decide(c["id"].(string), true))
	_, c = w.ask(t, http.MethodGet, "/charges/"+c["id"].(string), secretKey, "")
	require.Equal(t, "expired", c["status"])
	require.Equal(t, true, c["expired"])
	require.Equal(t, []string{"charge.create", "charge.expire"}, w.kinds())
	_, e := w.ask(t, http.MethodPost, "/charges/"+c["id"].(string)+"/expire", secretKey, "{}")
	require.Equal(t, "failed_expire", e["code"])
}

// Every fault leaves what it says in the books and nothing else.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   faults.Fault
		answer  int // 0 = cut
		charges int
		status  string
	}{
		"LoseAnswer":       {faults.Fault{Action: faults.LoseAnswer}, 0, 1, "successful"},
		"Drop":             {faults.Fault{Action: faults.Drop}, 0, 0, ""},
		"Status":           {faults.Fault{Action: faults.Status, Status: 503}, 503, 0, ""},
		"GarbageEffect":    {faults.Fault{Action: faults.Garbage, Effect: true}, 200, 1, "successful"},
		"Garbage":          {faults.Fault{Action: faults.Garbage}, 200, 0, ""},
		"StoreErrorEffect": {faults.Fault{Action: faults.StoreError, Effect: true}, 500, 1, "successful"},
		"StoreError":       {faults.Fault{Action: faults.StoreError}, 500, 0, ""},
		"Refuse":           {faults.Fault{Action: faults.Refuse}, 200, 1, "failed"},
		"RefuseByThatCode": {faults.Fault{Action: faults.Refuse, Code: "insufficient_fund"}, 200, 1, "failed"},
		"SlowThenDone":     {faults.Fault{Action: faults.Slow, Delay: time.Millisecond}, 200, 1, "successful"},
		"LateAnswer":       {faults.Fault{Action: faults.Late, Delay: time.Millisecond}, 200, 1, "successful"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			c.fault.Target, c.fault.Times = faults.Omise, 1
			_, err := w.faults.Add(c.fault)
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.base+"/charges", strings.NewReader(`{"amount":10000,"currency":"thb","card":"tokn_test_ok__1"}`))
			require.NoError(t, err)
			req.SetBasicAuth(secretKey, "")
			res, err := http.DefaultTransport.RoundTrip(req)
			if c.answer == 0 {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				_ = res.Body.Close()
				require.Equal(t, c.answer, res.StatusCode)
			}
			book := w.sim.Charges(omisesim.Filter{})
			require.Len(t, book, c.charges)
			if c.charges == 1 {
				require.Equal(t, c.status, book[0].Status)
			}
			writes := w.sim.Writes(omisesim.Filter{})
			require.Len(t, writes, 1)
			require.Equal(t, c.answer, writes[0].Status)
			require.Equal(t, string(c.fault.Action), writes[0].Fault)
		})
	}
}

func TestNewRefusesBadKeys(t *testing.T) {
	t.Parallel()
	pair := func(s, p string) omisesim.KeyPair { return omisesim.KeyPair{Secret: secret.New(s), Public: p} }
	for name, keys := range map[string][]omisesim.KeyPair{
		"None": nil, "Stripe": {pair("sk_test_a", "")}, "OtherMode": {pair("skey_test_a", "pkey_a")}, "NoPublic": {pair("skey_test_a", "x")},
		"Twice": {pair("skey_test_a", ""), pair("skey_test_a", "")}, "PublicTwice": {pair("skey_test_a", publicKey), pair("skey_test_b", publicKey)},
	} {
		_, err := omisesim.New(omisesim.Config{Keys: keys})
		require.Error(t, err, name)
	}
	_, err := omisesim.New(omisesim.Config{Keys: []omisesim.KeyPair{pair(secretKey, publicKey)}, WebhookSecret: secret.New("!")})
	require.Error(t, err)
}
