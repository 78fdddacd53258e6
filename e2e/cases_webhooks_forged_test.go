package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/internal/secret"
	"orderflow/sandbox/stripesim"
)

// Goal: a webhook that was changed, is old, is signed by nobody or by somebody else, is of another environment or of a shape
// nobody has seen, moves nothing; one that is genuine moves the order however new its version is. Method: the sandbox's own
// webhooks are caught on their way, and posted by the test, whole or spoiled, about payments that are paid at the provider
// already: any of them that was believed would move its order. Not covered here: how genuine ones arrive
// (cases_webhooks_delivery_test.go).

func TestForgedWebhookCases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersDie, with("ORDERFLOW_REVIEW_CHECK_EVERY", "1h"), with("ORDERFLOW_SWEEP_MIN_AGE", "1h"), with("ORDERFLOW_ORPHAN_AFTER", "2s"), moreAccounts)
	c := w.catch()
	for _, gateway := range slices.Sorted(maps.Keys(elsewheres)) {
		w.sub("Done-4 spoiled webhooks of "+gateway+" are refused and change nothing", func(w *world) { w.spoiled(c, gateway) })
	}
	w.sub("PC-24 the signature is over the raw bytes", func(w *world) { w.pc24(c) })
	w.sub("PC-25 no secret is no proof", func(w *world) { w.pc25(c) })
	w.sub("PC-26 a cheap payment under a dear order's name", func(w *world) { w.pc26(c) })
	w.sub("PC-27 a test event for a live payment", func(w *world) { w.pc27(c) })
	w.sub("PC-51 null, missing and unknown fields", func(w *world) { w.pc51(c) })
	w.sub("PC-52 an API version of the future", func(w *world) { w.pc52(c) })
	// From here on, a sweep looks as well: at orders that are placed from now on, every second.
	w.env["ORDERFLOW_REVIEW_CHECK_EVERY"], w.env["ORDERFLOW_SWEEP_MIN_AGE"] = "1s", "1s"
	w.restartStarter(false)
	w.killWorkers()
	w.startWorker()
	w.sub("PC-53 clocks that are off, both ways", func(w *world) { w.pc53(c) })
	w.sub("PC-17 nothing is delivered: the sweep finds it", (*world).pc17Sweep)
}

// moreAccounts adds accounts in live mode, and one at Stripe that has no webhook secret.
func moreAccounts(w *world) {
	account := func(gateway, name, key, public, hook, base string) map[string]any {
		a := map[string]any{"gateway": gateway, "name": name, "secret_key": key, "api_base": base, "timeout": "2s"}
		if public != "" {
			a["public_key"] = public
		}
		if hook != "" {
			a["webhook_secret"] = hook
		}
		return a
	}
	b, err := json.Marshal(map[string]any{"accounts": []any{
		account("stripe", "live", "sk_live_e2e", "", stripeWebhook, w.sandbox.StripeURL()),
		account("omise", "live", "skey_e2e", "pkey_e2e", omiseWebhook, w.sandbox.OmiseURL()),
		account("stripe", "quiet", "sk_test_e2e+rotated", "", "", w.sandbox.StripeURL()),
	}})
	require.NoError(w.t, err)
	file := filepath.Join(w.logs, "accounts.json")
	require.NoError(w.t, os.WriteFile(file, b, 0o600))
	w.env["ORDERFLOW_CONFIG_FILE"] = file
}

// caught are webhooks that never arrived.
type caught struct {
	mu  sync.Mutex
	got map[string][]notice
}

type notice struct {
	header http.Header
	body   []byte
}

// catch leads all webhooks to the test instead of the starter.
func (w *world) catch() *caught {
	w.t.Helper()
	c := &caught{got: map[string][]notice{}}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		gateway := strings.TrimPrefix(r.URL.Path, "/")
		c.got[gateway] = append(c.got[gateway], notice{r.Header.Clone(), body})
	}))
	w.t.Cleanup(srv.Close)
	for gateway := range elsewheres {
		require.NoError(w.t, w.sandbox.Webhooks().SetTarget(gateway, srv.URL+"/"+gateway))
	}
	return c
}

// genuine waits for a webhook that says all of the words.
func (c *caught) genuine(w *world, gateway string, words ...string) (n notice) {
	w.t.Helper()
	w.await("a webhook of "+gateway, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
	next:
		for _, got := range c.got[gateway] {
			text := openToken(string(got.body))
			for _, word := range words {
				if !strings.Contains(text, word) {
					continue next
				}
			}
			n = got
			return true
		}
		return false
	})
	return n
}

// told is the provider's word that a payment was paid.
func (c *caught) paid(w *world, gateway, payment string) notice {
	w.t.Helper()
	switch gateway {
	case "stripe":
		return c.genuine(w, gateway, `"payment_intent.succeeded"`, payment)
	case "omise":
		return c.genuine(w, gateway, `"charge.complete"`, payment)
	case "twoctwop":
		return c.genuine(w, gateway, payment, `"0000"`)
	}
	return c.genuine(w, gateway, `"PAYMENT_STATUS_CHANGED"`, payment, `"DONE"`)
}

// paidUntold brings an order to where it is paid at the provider and nobody has told us.
func (w *world) paidUntold(c *caught, id, gateway string) notice {
	w.t.Helper()
	payment := w.atProvider(id, elsewheres[gateway])
	elsewheres[gateway].finish(w, payment, true)
	return c.paid(w, gateway, payment)
}

// forgery is a webhook that must not be believed.
type forgery struct {
	name   string
	header http.Header
	body   []byte
}

// refusedAll posts webhooks that must all be refused, and asserts that not a row of any table is more or less after it.
func (w *world) refusedAll(to string, list []forgery) {
	w.t.Helper()
	before := w.rowCounts()
	for _, f := range list {
		a := w.hook(to, f.header, f.body)
		assert.True(w.t, a.Status >= 400 && a.Status < 500, "%s: %d %s", f.name, a.Status, a.Raw)
		assert.Equal(w.t, "application/problem+json", a.Header.Get("Content-Type"), f.name)
		assert.NotEmpty(w.t, a.Body["detail"], "%s: the sender is told what is wrong", f.name)
		assert.Less(w.t, len(a.Raw), 2000, f.name)
	}
	assert.Equal(w.t, before, w.rowCounts(), "nothing is kept of a refused webhook")
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body)
	_ = z.Close()
	return b.Bytes()
}

func with1(h http.Header, key, value string) http.Header {
	h = h.Clone()
	h.Set(key, value)
	return h
}

func without(h http.Header, key string) http.Header {
	h = h.Clone()
	h.Del(key)
	return h
}

// padded is an object of about n bytes.
func padded(body []byte, n int) []byte {
	return append([]byte(`{"padding":"`+strings.Repeat("x", n)+`",`), bytes.TrimPrefix(body, []byte("{"))...)
}

// forgeries are all that Done-4 names, for one provider and one genuine webhook.
func (w *world) forgeries(gateway string, n notice) []forgery {
	w.t.Helper()
	big := padded(n.body, 2_500_000)
	list := []forgery{
		{"gzip, said so", with1(n.header, "Content-Encoding", "gzip"), zipped(n.body)},
		{"said to be gzip", with1(n.header, "Content-Encoding", "gzip"), n.body},
		{"2.5 MB", n.header, big},
		{"nothing", n.header, nil},
		{"no JSON", n.header, []byte("paid=true")},
	}
	old, later := time.Now().Add(-10*time.Minute), time.Now().Add(10*time.Minute)
	tampered := bytes.Replace(n.body, []byte(`"amount":600`), []byte(`"amount":601`), 1)
	switch gateway {
	case "stripe":
		require.NotEqual(w.t, string(n.body), string(tampered))
		other, empty := stripesim.Sign(secret.New("whsec_of_another_endpoint"), time.Now(), n.body), stripesim.Sign(secret.New(""), time.Now(), n.body)
		return append(list,
			forgery{"tampered", n.header, tampered}, forgery{"stale", byStripe(old, n.body), n.body}, forgery{"of the future", byStripe(later, n.body), n.body},
			forgery{"unsigned", without(n.header, "Stripe-Signature"), n.body}, forgery{"signed x", with1(n.header, "Stripe-Signature", "x"), n.body},
			forgery{"wrong secret", other, n.body}, forgery{"null secret", empty, n.body}, forgery{"2.5 MB, signed", byStripe(time.Now(), big), big},
			forgery{"gzip, signed", with1(byStripe(time.Now(), zipped(n.body)), "Content-Encoding", "gzip"), zipped(n.body)},
			forgery{"another scheme", with1(n.header, "Stripe-Signature", strings.Replace(n.header.Get("Stripe-Signature"), "v1=", "v0=", 1)), n.body},
			forgery{"signed, and no event", byStripe(time.Now(), []byte("[]")), []byte("[]")})
	case "omise":
		require.NotEqual(w.t, string(n.body), string(tampered))
		other := byOmise(time.Now(), append([]byte("x"), n.body...))
		return append(list,
			forgery{"tampered", n.header, tampered}, forgery{"stale", byOmise(old, n.body), n.body}, forgery{"of the future", byOmise(later, n.body), n.body},
			forgery{"unsigned", unsigned(), n.body}, forgery{"wrong secret", other, n.body}, forgery{"2.5 MB, signed", byOmise(time.Now(), big), big},
			forgery{"gzip, signed", with1(byOmise(time.Now(), zipped(n.body)), "Content-Encoding", "gzip"), zipped(n.body)},
			forgery{"signed, and no event", byOmise(time.Now(), []byte("{}")), []byte("{}")})
	case "twoctwop":
		return append(list, w.forgedTokens(n)...)
	}
	// Toss signs no payment events. What proves one is the payment's own secret: a wrong one is refused, and so is a deposit callback
	// without one, which always carries it.
	var event struct {
		Data struct {
			OrderID string `json:"orderId"`
		} `json:"data"`
	}
	require.NoError(w.t, json.Unmarshal(n.body, &event))
	flat := func(secret string) []byte {
		return fmt.Appendf(nil, `{"createdAt":"2026-06-05T16:58:18.000000","status":"DONE","transactionKey":"t1","orderId":%q%s}`, event.Data.OrderID, secret)
	}
	return append(list,
		forgery{"wrong secret", n.header, changed(w.t, n.body, func(e map[string]any) {
			e["data"].(map[string]any)["secret"] = "ps_of_another_payment"
		})},
		forgery{"wrong secret in a callback", n.header, flat(`,"secret":"ps_of_another_payment"`)},
		forgery{"null secret", n.header, flat(`,"secret":null`)}, forgery{"no secret", n.header, flat("")})
}

// forgedTokens are 2C2P's webhooks, which are signed tokens and carry no time that could be stale.
func (w *world) forgedTokens(n notice) []forgery {
	w.t.Helper()
	claims := jwt.MapClaims{}
	require.NoError(w.t, json.Unmarshal([]byte(openToken(string(n.body))), &claims))
	token := func(method jwt.SigningMethod, key any, change func(jwt.MapClaims)) []byte {
		c := maps.Clone(claims)
		if change != nil {
			change(c)
		}
		text, err := jwt.NewWithClaims(method, c).SignedString(key)
		require.NoError(w.t, err)
		b, _ := json.Marshal(map[string]string{"payload": text})
		return b
	}
	mine := []byte(merchantSecret)
	parts := strings.Split(string(n.body), ".")
	foreign := strings.Split(string(token(jwt.SigningMethodHS256, mine, func(c jwt.MapClaims) { c["amount"] = "1.00" })), ".")
	plain, _ := json.Marshal(claims)
	return []forgery{
		{"tampered", n.header, []byte(parts[0] + "." + foreign[1] + "." + parts[2])},
		{"unsigned", n.header, plain},
		{"unsigned, and says so", n.header, token(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil)},
		{"wrong secret", n.header, token(jwt.SigningMethodHS256, []byte("another-merchants-secret-0123456789"), nil)},
		{"null secret", n.header, token(jwt.SigningMethodHS256, []byte{}, nil)},
		{"another algorithm", n.header, token(jwt.SigningMethodHS512, mine, nil)},
		{"of another merchant", n.header, token(jwt.SigningMethodHS256, mine, func(c jwt.MapClaims) { c["merchantID"] = "E2E02" })},
		{"signature cut off", n.header, []byte(parts[0] + "." + parts[1] + `."}`)},
	}
}

func (w *world) spoiled(c *caught, gateway string) {
	id := "spoiled_" + gateway
	n := w.paidUntold(c, id, gateway)
	list := w.forgeries(gateway, n)
	refused := w.metric("orderflow_webhooks_received_total", gateway)
	w.refusedAll(gateway+"/default", list)
	assert.InDelta(w.t, refused+float64(len(list)), w.metric("orderflow_webhooks_received_total", gateway), 0.5, "every refusal is counted")
	w.refusedAll(gateway+"/nobody", []forgery{{"an unknown account", n.header, n.body}})
	w.refusedAll("paypel/default", []forgery{{"an unknown gateway", n.header, n.body}})
	assert.Equal(w.t, "open", w.status(id), "it is paid at the provider, and none of these has told")
	a := w.hook(gateway+"/default", n.header, n.body)
	require.Equal(w.t, http.StatusOK, a.Status, "the genuine one is taken: %s", a.Raw)
	w.paidOnceOver(id)
	w.processed()
	before := w.standing(id)
	for range 3 { // what verified once verifies again: a replay is a copy
		assert.Equal(w.t, http.StatusOK, w.hook(gateway+"/default", n.header, n.body).Status)
	}
	w.processed()
	w.settled(id)
	assert.Equal(w.t, before, w.standing(id))
	w.booksAgree()
}

func (w *world) pc24(c *caught) {
	for _, gateway := range []string{"stripe", "omise"} {
		id := "pc24_" + gateway
		sign := byStripe
		if gateway == "omise" {
			sign = byOmise
		}
		got := w.paidUntold(c, id, gateway)
		body := append([]byte(`{"note":"caf\u00e9 \/ é", "b":1.0,`), bytes.TrimPrefix(got.body, []byte("{"))...)
		n := notice{sign(time.Now(), body), body}
		var indented bytes.Buffer
		require.NoError(w.t, json.Indent(&indented, body, "", " "))
		var compact bytes.Buffer
		require.NoError(w.t, json.Compact(&compact, body))
		list := []forgery{
			{"other spacing", n.header, indented.Bytes()},
			{"no spacing", n.header, compact.Bytes()},
			{"another order of keys", n.header, changed(w.t, body, func(map[string]any) {})},
			{"an escape spelled out", n.header, bytes.Replace(body, []byte(`\u00e9`), []byte("é"), 1)},
			{"a letter escaped", n.header, bytes.Replace(body, []byte(" é"), []byte(` \u00e9`), 1)},
			{"a slash without its escape", n.header, bytes.Replace(body, []byte(`\/`), []byte("/"), 1)},
			{"a number written otherwise", n.header, bytes.Replace(body, []byte("1.0"), []byte("1"), 1)},
			{"a trailing newline", n.header, append(slices.Clone(body), '\n')},
			{"a byte order mark", n.header, append([]byte("\ufeff"), body...)},
			{"gzip", with1(n.header, "Content-Encoding", "gzip"), zipped(body)},
			{"gzip that is not said to be", n.header, zipped(body)},
		}
		for _, f := range list {
			require.NotEqual(w.t, string(body), string(f.body), "%s is another text", f.name)
		}
		w.refusedAll(gateway+"/default", list)
		assert.Equal(w.t, "open", w.status(id))
		assert.Equal(w.t, http.StatusOK, w.hook(gateway+"/default", n.header, n.body).Status, "the very bytes")
		w.paidOnceOver(id)
	}
	w.booksAgree()
}

func (w *world) pc25(c *caught) {
	for _, name := range []string{"STRIPE_WEBHOOK_SECRET", "OMISE_WEBHOOK_SECRET"} {
		p := w.run("starter", map[string]string{name: "", "ORDERFLOW_LISTEN": freeAddr(w.t), "ORDERFLOW_OPS_LISTEN": freeAddr(w.t)}, "serve")
		<-p.done
		said, err := os.ReadFile(p.log)
		require.NoError(w.t, err)
		assert.False(w.t, p.cmd.ProcessState.Success(), "an empty secret stops the start")
		assert.Contains(w.t, string(said), name+" is set but empty")
	}
	n := w.paidUntold(c, "pc25_stripe", "stripe")
	before := w.rowCounts()
	for name, h := range map[string]http.Header{"genuine": n.header, "x": {"Stripe-Signature": {"x"}}, "empty": stripesim.Sign(secret.New(""), time.Now(), n.body)} {
		a := w.hook("stripe/quiet", h, n.body)
		assert.Equal(w.t, http.StatusNotFound, a.Status, "%s: without a secret the route is off: %s", name, a.Raw)
	}
	assert.Equal(w.t, before, w.rowCounts())
	assert.Equal(w.t, "open", w.status("pc25_stripe"))
	assert.Equal(w.t, http.StatusOK, w.hook("stripe/default", n.header, n.body).Status)
	w.paidOnceOver("pc25_stripe")

	// Toss: nothing is stored, null is sent. Both are missing, and that proves nothing: the payment is looked up and is not paid.
	id := "pc25_toss"
	key := w.atProvider(id, elsewheres["toss"])
	w.execute("UPDATE payment_attempts SET sealed_private = NULL WHERE order_id = '" + id + "'")
	for i, sent := range []string{`"ps_guessed"`, `null`, `""`, `{}`} {
		body := []byte(fmt.Sprintf(`{"eventType":"PAYMENT_STATUS_CHANGED","createdAt":"2026-06-05T16:58:1%d.000000","data":{"paymentKey":%q,"status":"DONE","secret":%s}}`, i, key, sent))
		a := w.hook("toss/default", unsigned(), body)
		assert.Equal(w.t, http.StatusOK, a.Status, "%s: %s", sent, a.Raw)
	}
	w.processed()
	assert.Equal(w.t, 4, w.number("SELECT count(*) FROM webhook_receipts WHERE provider_payment_id = $1 AND proof = 'none' AND result = 'look'", key), "signals to look, and no proof")
	w.await("the look made", func() bool {
		return w.number("SELECT count(*) FROM observations WHERE order_id = $1 AND source = 'lookup'", id) > 0
	})
	w.settledPending(id)
	elsewheres["toss"].finish(w, key, true)
	done := c.paid(w, "toss", key)
	assert.Equal(w.t, http.StatusOK, w.hook("toss/default", done.header, done.body).Status)
	w.paidOnceOver(id)
	w.booksAgree()
}

// settledPending asserts that an order waits for its buyer as if nothing had happened.
func (w *world) settledPending(id string) {
	w.t.Helper()
	w.processed()
	w.await(id+" at rest", func() bool {
		return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1 AND reflected_seq = observed_seq", id) == 1
	})
	assert.Equal(w.t, "open", w.status(id))
	assert.Equal(w.t, "pending", w.text("SELECT status FROM payment_attempts WHERE order_id = $1", id))
	assert.Zero(w.t, w.number("SELECT count(*) FROM payments WHERE order_id = $1", id))
	assert.Zero(w.t, w.number("SELECT count(*) FROM fulfillment_units WHERE order_id = $1 AND status <> 'planned'", id))
	assert.Empty(w.t, w.told(id))
	w.neverFailed(id)
}
