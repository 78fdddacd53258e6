package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
)

// Goal: input that is wrong, hostile or merely unusual, through the real API: refused whole with a stable type and nothing
// left behind, or carried unchanged to every place that shows it. Not covered: the scanner's own cases (internal/cleantext).

func TestInputCases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "1s"))
	w.sub("PC-32 prices with fractions", (*world).pc32)
	w.sub("PC-49 emoji, right to left, four-byte characters", (*world).pc49)
	w.sub("any printable order id works everywhere", (*world).idsEverywhere)
	w.sub("bad orders are refused whole", (*world).badOrders)
	w.sub("bad payments are refused whole", (*world).badPayments)
	w.sub("another client's order answers like an unknown one", (*world).foreignOrders)
	w.sub("a second payment while the first is unknown", (*world).paymentBesideUnknown)
}

func (w *world) pc32() {
	for _, price := range []string{"17.99", "8.20", "67.96", "9.95", "79.99", "1.005", "0.285", "17.0", "1e2", "1E2", "-0.5"} {
		for _, form := range []string{price, `"` + price + `"`} {
			before := w.rowCounts()
			raw := fmt.Sprintf(`{"id":"pc32-float","currency":"USD","lines":[{"sku":"s","quantity":3,"unit_amount":%s,"tax_rate":"10","action":"grant"}],"total":5397,"expires_at":%q}`,
				form, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
			a := w.call("POST", "/v1/orders", "pc32-float", raw)
			w.problem(a, 422, "validation")
			assert.Contains(w.t, fmt.Sprint(a.at("errors", 0, "location")), "unit_amount", "it says where: %s", a.Raw)
			assert.Equal(w.t, before, w.rowCounts(), "price %s", form)
		}
	}
	cli := map[string]string{"ORDERFLOW_API": w.base, "ORDERFLOW_API_KEY": apiKey}
	place := func(id, currency, price string, more ...string) (string, int) {
		out, errs, code := w.starterCommand(cli, append([]string{"place", "--id", id, "--currency", currency, "--line", "s,3," + price + ",grant"}, more...)...)
		return out + errs, code
	}
	for _, refused := range [][2]string{{"USD", "1.005"}, {"USD", "0.285"}, {"JPY", "17.99"}, {"KRW", "0.5"}, {"KWD", "1.2345"}, {"USD", "1e2"}, {"USD", "-1"}, {"USD", "1,5"}} {
		before := w.rowCounts()
		said, code := place("pc32-refused", refused[0], refused[1])
		assert.NotZero(w.t, code, "%v: %s", refused, said)
		assert.Equal(w.t, before, w.rowCounts())
	}
	for i, exact := range []struct {
		currency, price, tax string
		unit, total          int
	}{
		{"USD", "17.99", "5.40", 1799, 5937},
		{"USD", "8.20", "2.46", 820, 2706},
		{"USD", "67.96", "20.39", 6796, 22427},
		{"USD", "9.95", "2.99", 995, 3284},
		{"USD", "79.99", "24.00", 7999, 26397},
		{"JPY", "80", "24", 80, 264},
		{"KWD", "1.230", "0.370", 1230, 4060},
	} {
		id := fmt.Sprintf("pc32-%d", i)
		said, code := place(id, exact.currency, exact.price, "--tax", exact.tax)
		require.Zero(w.t, code, "%+v: %s", exact, said)
		assert.Equal(w.t, exact.unit, w.number("SELECT unit_amount_minor FROM order_lines WHERE order_id = $1", id))
		assert.Equal(w.t, exact.total, w.number("SELECT total_minor FROM orders WHERE order_id = $1", id))
		w.paid(id, id+"-k")
		made := w.writes(id, "/v1/payment_intents")
		require.Len(w.t, made, 1)
		assert.Contains(w.t, made[0].Body, fmt.Sprintf("amount=%d&currency=%s", exact.total, strings.ToLower(exact.currency)), "minor units on the wire")
		charges := w.sandbox.Stripe().Charges(stripesim.Filter{MerchantReference: w.references(id)[0], CapturedOnly: true})
		require.Len(w.t, charges, 1)
		assert.EqualValues(w.t, exact.total, charges[0].Captured)
	}
	w.booksAgree()
}

func (w *world) pc49() {
	const (
		name  = "👨‍👩‍👧 ギフト券 ﷽"
		buyer = "\u200fمرحبا\u200f 𠮷野 👩🏽‍🚀"
		sku   = "🎟️-é-e\u0301"
		id    = "注文-𠮷-🎁"
	)
	long := strings.Repeat("𠮷", 126) + "👩🏽‍🚀" + strings.Repeat("あ", 370) // a cut at byte 127 would fall into a character; 500 characters in all
	lines := []line{
		{"sku": sku, "name": name, "quantity": 1, "unit_amount": 500, "tax_rate": "10", "action": "issue", "issuer": "tickets"},
		{"sku": sku, "name": long, "quantity": 1, "unit_amount": 500, "tax_rate": "10", "action": "grant"},
	}
	body := orderBody(id, "JPY", lines...)
	body["buyer_ref"] = buyer
	a := w.call("POST", "/v1/orders", "pc49", body)
	require.Equal(w.t, 201, a.Status, "%s", a.Raw)
	w.paid(id, "pc49-k")
	shown := w.call("GET", path(id), "", nil)
	assert.Equal(w.t, id, shown.at("id"))
	assert.Equal(w.t, buyer, shown.at("buyer_ref"))
	assert.Equal(w.t, name, shown.at("lines", 0, "name"))
	assert.Equal(w.t, sku, shown.at("lines", 0, "sku"))
	assert.Equal(w.t, long, shown.at("lines", 1, "name"))
	assert.Equal(w.t, name, w.text("SELECT name FROM order_lines WHERE order_id = $1 AND line_no = 1", id))
	made := w.sandbox.Issuers().Issuances(issuersim.Filter{OrderID: id})
	require.Len(w.t, made, 1)
	assert.Equal(w.t, sku, made[0].SKU)
	assert.Equal(w.t, buyer, made[0].RecipientRef)
	assert.Len(w.t, w.sandbox.Receiver().Effects(receiver.Filter{OrderID: id}), 2, "the events name the order as it is")
	text, _, code := w.starterCommand(nil, "explain", id)
	assert.Zero(w.t, code)
	assert.Contains(w.t, text, id)

	for what, raw := range map[string]string{
		"NUL in a name":               `"name":"a\u0000b"`,
		"a lone high surrogate":       `"name":"\ud83d"`,
		"a lone low surrogate":        `"name":"x\ude00y"`,
		"a pair the wrong way round":  `"name":"\ude00\ud83d"`,
		"bytes that are not UTF-8":    "\"name\":\"\xf0\x9f\x91\"",
		"a NUL byte":                  "\"name\":\"a\x00b\"",
		"NUL in a key":                `"na\u0000me":"x"`,
		"a surrogate in the buyer":    `"name":"x"}],"buyer_ref":"\udfff","x":[{"a":1`,
		"a byte order mark and a NUL": "\"name\":\"\xef\xbb\xbf\x00\"",
	} {
		before := w.rowCounts()
		a := w.call("POST", "/v1/orders", "pc49-bad", `{"id":"pc49-bad","currency":"JPY","total":500,"expires_at":"2030-01-01T00:00:00Z","lines":[{"sku":"s","quantity":1,"unit_amount":500,"action":"grant",`+raw+`}]}`)
		w.problem(a, 400, "malformed-body")
		assert.Equal(w.t, before, w.rowCounts(), what)
	}
	w.booksAgree()
}

func (w *world) idsEverywhere() {
	ids := []string{
		"a/b", "//", "//x//", "a b", "注文 №1", "50%", "%2F", "%00", "?q=1&x#y", "a;b,c", "🎁", "../x", "..x", "a'b\"c`<script>", `\back`, "~", "-1", "+", ":@!$&()*=", "..%2f",
		strings.Repeat("長", 64), strings.Repeat("𠮷", 64), "A",
	}
	answers := make([]<-chan answer, len(ids))
	for i, id := range ids {
		placed := w.call("POST", "/v1/orders", fmt.Sprintf("ids-place-%d", i), orderBody(id, "JPY", grant("g", 1, 100)))
		require.Equal(w.t, 201, placed.Status, "%q: %s", id, placed.Raw)
		answers[i] = w.later("POST", path(id)+"/payments", fmt.Sprintf("ids-%d", i), payBody("pm_card_visa"))
	}
	for i, id := range ids {
		a := <-answers[i]
		oneOf(w.t, a, 201, 202)
		w.awaitStatus(id, "completed")
		w.settled(id)
		assert.Equal(w.t, id, w.call("GET", a.Header.Get("Location"), "", nil).at("id"), "the Location leads to the order")
		assert.Equal(w.t, id, w.call("GET", path(id), "", nil).at("id"))
		text, errs, code := w.starterCommand(nil, "explain", "--json", "--", id)
		require.Zero(w.t, code, "%q: %s", id, errs)
		var o map[string]any
		require.NoError(w.t, json.Unmarshal([]byte(text), &o))
		assert.Equal(w.t, id, o["id"])
		assert.NotEmpty(w.t, w.history(order.WorkflowID(order.ID(id)), "").GetEvents(), "%q has a workflow of its own", id)
		assert.Len(w.t, w.sandbox.Receiver().Effects(receiver.Filter{OrderID: id}), 2, "%q is in its events", id)
		for _, r := range w.writes(id, "") {
			assert.NotContains(w.t, r.Body+r.Key, "metadata%5Border", "the order id goes to no provider")
		}
	}
	w.booksAgree()
}

// badOrder is one order that must be refused before anything is stored.
type badOrder struct {
	name   string
	status int
	kind   string
	change func(map[string]any)     // of a good order
	raw    func(good []byte) []byte // or of its JSON
	header func(h http.Header)      // or of the request
}

func badOrderTable() []badOrder {
	set := func(key string, v any) func(map[string]any) { return func(b map[string]any) { b[key] = v } }
	inLine := func(key string, v any) func(map[string]any) {
		return func(b map[string]any) { b["lines"].([]line)[0][key] = v }
	}
	replace := func(from, to string) func([]byte) []byte {
		return func(b []byte) []byte { return []byte(strings.Replace(string(b), from, to, 1)) }
	}
	many := func(n, quantity int) func(map[string]any) {
		return func(b map[string]any) {
			var ls []line
			for range n {
				ls = append(ls, line{"sku": "s", "quantity": quantity, "unit_amount": 1, "action": "grant"})
			}
			b["lines"], b["total"] = ls, n*quantity
		}
	}
	return []badOrder{
		{name: "an unknown field", status: 422, kind: "validation", change: set("surprise", 1)},
		{name: "an unknown field in a line", status: 422, kind: "validation", change: inLine("price", 1)},
		{name: "a total that is not the sum", status: 422, kind: "validation", change: set("total", 1001)},
		{name: "a total of nothing", status: 422, kind: "validation", change: func(b map[string]any) { inLine("unit_amount", 0)(b); b["total"] = 0 }},
		{name: "a negative amount", status: 422, kind: "validation", change: func(b map[string]any) { inLine("unit_amount", -500)(b); b["total"] = -1000 }},
		{name: "a fraction below the minor unit", status: 422, kind: "validation", change: inLine("unit_amount", 0.5)},
		{name: "a number beyond 64 bits", status: 422, kind: "validation", raw: replace(`"total":1000`, `"total":9223372036854775808`)},
		{name: "an unknown currency", status: 422, kind: "validation", change: set("currency", "XQX")},
		{name: "a currency in lower case", status: 422, kind: "validation", change: set("currency", "jpy")},
		{name: "no lines", status: 422, kind: "validation", change: set("lines", []line{})},
		{name: "10,001 lines", status: 422, kind: "validation", change: many(10_001, 1)},
		{name: "10,001 units in two lines", status: 422, kind: "validation", change: func(b map[string]any) { many(2, 5001)(b) }},
		{name: "an issuer nobody configured", status: 422, kind: "validation", change: func(b map[string]any) { inLine("action", "issue")(b); inLine("issuer", "nobody")(b) }},
		{name: "an unknown action", status: 422, kind: "validation", change: inLine("action", "teleport")},
		{name: "text where a number belongs", status: 422, kind: "validation", change: inLine("quantity", "2")},
		{name: "an empty id", status: 422, kind: "validation", change: set("id", "")},
		{name: "an id of 65 characters", status: 422, kind: "validation", change: set("id", strings.Repeat("長", 65))},
		{name: "an id of 255 characters", status: 422, kind: "validation", change: set("id", strings.Repeat("x", 255))},
		{name: "an id with a control character", status: 422, kind: "validation", change: set("id", "a\x01b")},
		{name: "an id with a line break", status: 422, kind: "validation", change: set("id", "a\nb")},
		{name: "an id with a delete character", status: 422, kind: "validation", change: set("id", "a\x7fb")},
		{name: "an id that shows as another", status: 422, kind: "validation", change: set("id", "a\u200db")},
		{name: "an id that turns the text round", status: 422, kind: "validation", change: set("id", "a\u202eb")},
		{name: "an id that is a path of its own", status: 422, kind: "validation", change: set("id", "..")},
		{name: "an id that is the end of a path", status: 422, kind: "validation", change: set("id", "/")},
		{name: "an id that is a card number", status: 422, kind: "validation", change: set("id", "4242424242424242")},
		{name: "a name with a card number", status: 422, kind: "validation", change: inLine("name", "pay 4242 4242 4242 4242 please")},
		{name: "a name of 501 characters", status: 422, kind: "validation", change: inLine("name", strings.Repeat("𠮷", 501))},
		{name: "an order that is over already", status: 422, kind: "validation", change: set("expires_at", "2020-01-01T00:00:00Z")},
		{name: "a time that is none", status: 422, kind: "validation", change: set("expires_at", "tomorrow")},
		{name: "NUL", status: 400, kind: "malformed-body", raw: replace(`"buyer_ref":"`, `"buyer_ref":"\u0000`)},
		{name: "a lone surrogate", status: 400, kind: "malformed-body", raw: replace(`"buyer_ref":"`, `"buyer_ref":"\ud800`)},
		{name: "a field twice", status: 400, kind: "malformed-body", raw: replace(`{`, `{"id":"other",`)},
		{name: "a field twice in two cases", status: 400, kind: "malformed-body", raw: replace(`{`, `{"ID":"other",`)},
		{name: "two values", status: 400, kind: "malformed-body", raw: func(b []byte) []byte { return append(b, b...) }},
		{name: "half a value", status: 400, kind: "malformed-body", raw: func(b []byte) []byte { return b[:len(b)/2] }},
		{name: "nothing", status: 400, kind: "malformed-body", raw: func([]byte) []byte { return nil }},
		{name: "a list", status: 422, kind: "validation", raw: func(b []byte) []byte { return []byte("[" + string(b) + "]") }},
		{name: "ten thousand levels", status: 400, kind: "malformed-body", raw: replace(`"buyer_ref":"buyer-1"`, `"buyer_ref":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000))},
		{name: "3 MB", status: 413, kind: "body-too-large", change: inLine("name", strings.Repeat("x", 3<<20))},
		{name: "3 MB of unknown length", status: 413, kind: "body-too-large", change: inLine("name", strings.Repeat("x", 3<<20)), header: func(h http.Header) { h.Set("Test-Chunked", "yes") }},
		{name: "no key", status: 400, kind: "idempotency-key-missing", header: func(h http.Header) { h.Del("Idempotency-Key") }},
		{name: "a key with a line break in it", status: 400, kind: "idempotency-key-malformed", header: func(h http.Header) { h.Set("Idempotency-Key", `"a b`) }},
		{name: "a form", status: 415, kind: "not-json", header: func(h http.Header) { h.Set("Content-Type", "application/x-www-form-urlencoded") }},
		{name: "a compressed body", status: 415, kind: "not-json", header: func(h http.Header) { h.Set("Content-Encoding", "gzip") }},
		{name: "nobody", status: 401, kind: "unauthorized", header: func(h http.Header) { h.Del("Authorization") }},
		{name: "somebody unknown", status: 401, kind: "unauthorized", header: func(h http.Header) { h.Set("Authorization", "Bearer somebody-unknown-0123456789") }},
	}
}

func (w *world) badOrders() {
	for _, bad := range badOrderTable() {
		w.sub(bad.name, func(w *world) {
			good := orderBody("bad-order", "JPY", grant("g", 2, 500))
			if bad.change != nil {
				bad.change(good)
			}
			body, err := json.Marshal(good)
			require.NoError(w.t, err)
			if bad.raw != nil {
				body = bad.raw(body)
			}
			before := w.rowCounts()
			a := w.send("POST", "/v1/orders", "bad-order", string(body), bad.header)
			w.problem(a, bad.status, bad.kind)
			assert.Equal(w.t, before, w.rowCounts(), "nothing is left of a refused order")
			assert.Less(w.t, len(a.Raw), 8000, "an answer is short")
			if bad.kind == "validation" {
				assert.NotEmpty(w.t, a.at("errors", 0, "message"), "it says what is wrong: %s", a.Raw)
			}
		})
	}
	w.place("bad-order", grant("g", 2, 500)) // the id and the key are as free as before
	w.booksAgree()
}

// send makes one request whose headers the test may change.
func (w *world) send(method, path, key, body string, change func(http.Header)) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", `"`+key+`"`)
	if change != nil {
		change(req.Header)
	}
	if req.Header.Get("Test-Chunked") != "" {
		req.ContentLength = -1
	}
	return w.do(req)
}

func (w *world) badPayments() {
	w.place("bad-pay", grant("g", 1, 500))
	w.place("bad-expired", grant("g", 1, 500))
	w.execute("UPDATE orders SET expires_at = now() - interval '1 minute' WHERE order_id = 'bad-expired'")
	w.awaitStatus("bad-expired", "expired")
	w.place("bad-paid", grant("g", 1, 500))
	w.paid("bad-paid", "bad-paid-k")
	pay := func(kind, token string) map[string]any {
		return map[string]any{"gateway": "stripe", "method": map[string]any{"type": kind, "token": token}}
	}
	also := func(b map[string]any, key string, v any) map[string]any { b[key] = v; return b }
	for i, bad := range []struct {
		name, order string
		status      int
		kind        string
		body        any
		keeps       bool // the key was claimed: the refusal depends on a state, and is the key's answer
	}{
		{"an unknown field", "bad-pay", 422, "validation", also(pay("card", "pm_card_visa"), "amount", 1), false},
		{"an unknown gateway", "bad-pay", 422, "validation", also(pay("card", "pm_card_visa"), "gateway", "paypel"), false},
		{"an unknown account", "bad-pay", 422, "validation", also(pay("card", "pm_card_visa"), "account", "other"), false},
		{"a card number for a token", "bad-pay", 422, "validation", pay("card", "4242424242424242"), false},
		{"a token of another shape", "bad-pay", 422, "payment-invalid", pay("card", "tok_visa"), false},
		{"no token", "bad-pay", 422, "payment-invalid", pay("card", ""), false},
		{"an unknown method", "bad-pay", 422, "payment-invalid", pay("cash", "pm_card_visa"), false},
		{"NUL", "bad-pay", 400, "malformed-body", `{"gateway":"stripe","method":{"type":"card","token":"pm_\u0000"}}`, false},
		{"3 MB", "bad-pay", 413, "body-too-large", pay("card", "pm_"+strings.Repeat("x", 3<<20)), false},
		{"an unknown order", "no such order", 404, "not-found", pay("card", "pm_card_visa"), false},
		{"an order id that cannot be", "a\x00b", 404, "not-found", pay("card", "pm_card_visa"), false},
		{"an expired order", "bad-expired", 409, "order-expired", pay("card", "pm_card_visa"), true},
		{"a paid order", "bad-paid", 409, "already-paid", pay("card", "pm_card_visa"), true},
	} {
		w.sub(bad.name, func(w *world) {
			before, writes := w.rowCounts(), len(w.sandbox.Stripe().Writes(stripesim.Filter{}))
			a := w.call("POST", path(bad.order)+"/payments", fmt.Sprintf("bad-pay-%d", i), bad.body)
			w.problem(a, bad.status, bad.kind)
			if bad.keeps {
				before["idempotency_keys"]++
			}
			assert.Equal(w.t, before, w.rowCounts(), "nothing is left of a refused payment")
			assert.Len(w.t, w.sandbox.Stripe().Writes(stripesim.Filter{}), writes, "nothing was sent")
		})
	}
	assert.Equal(w.t, "open", w.status("bad-pay"))
	w.booksAgree()
}

func (w *world) foreignOrders() {
	p := w.run("starter", map[string]string{"ORDERFLOW_BOOTSTRAP_API_KEY": "other:checkout+operate:" + otherKey}, "setup", "--skip-temporal")
	<-p.done
	require.True(w.t, p.cmd.ProcessState.Success())
	w.place("mine", grant("g", 1, 500))
	before := w.rowCounts()
	for i, c := range []struct{ method, suffix string }{{"POST", "/payments"}, {"GET", ""}, {"POST", "/payments/"}, {"POST", "/refunds"}} {
		ask := func(id string) answer {
			var body any
			if c.method == "POST" {
				body = payBody("pm_card_visa")
			}
			if c.suffix == "/refunds" {
				body = map[string]any{"amount": 100, "reason": "buyer_asked"}
			}
			a, err := w.try(c.method, path(id)+c.suffix, fmt.Sprintf("foreign-%d-%s", i, id), otherKey, body)
			require.NoError(w.t, err)
			return a
		}
		foreign, unknown := ask("mine"), ask("nobody's")
		w.problem(foreign, 404, "not-found")
		assert.Equal(w.t, string(unknown.Raw), string(foreign.Raw), "%s %s: the same bytes", c.method, c.suffix)
		for _, h := range []http.Header{foreign.Header, unknown.Header} {
			h.Del("X-Request-Id")
			h.Del("Date")
		}
		assert.Equal(w.t, unknown.Header, foreign.Header, "and the same headers")
	}
	a, err := w.try("POST", "/v1/orders", "foreign-place", otherKey, orderBody("mine", "JPY", grant("g", 1, 500)))
	require.NoError(w.t, err)
	w.problem(a, 409, "order-exists")
	assert.Empty(w.t, a.Header.Get("Location"), "nobody is sent to another client's order")
	after := w.rowCounts()
	before["idempotency_keys"]++ // of the order that could not be placed
	assert.Equal(w.t, before, after)
	w.booksAgree()
}

func (w *world) paymentBesideUnknown() {
	id := "beside-unknown"
	w.place(id, grant("g", 1, 500))
	w.arm(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.LoseAnswer, Times: 1})
	down := w.arm(faults.Fault{Target: faults.Stripe, PathContains: "/pi_", Action: faults.Drop})
	oneOf(w.t, w.pay(id, "beside-k1"), 202)
	w.awaitReview(id, order.ReviewConfirmUnknown)
	before, writes := w.rowCounts(), len(w.sandbox.Stripe().Writes(stripesim.Filter{}))
	a := w.pay(id, "beside-k2")
	w.problem(a, 409, "attempt-unresolved")
	assert.Equal(w.t, "checking", a.at("payment", "outcome"), "%s", a.Raw)
	assert.Equal(w.t, w.references(id)[0], a.at("payment", "merchant_reference"), "it says which attempt stands in the way")
	before["idempotency_keys"]++
	after := w.rowCounts()
	delete(before, "rate_buckets") // a look was asked for
	delete(after, "rate_buckets")
	assert.Equal(w.t, before, after)
	assert.Len(w.t, w.sandbox.Stripe().Writes(stripesim.Filter{}), writes, "nothing was sent")
	w.sandbox.Faults().Remove(down)
	w.awaitStatus(id, "completed")
	w.settled(id)
	w.problem(w.pay(id, "beside-k3"), 409, "already-paid")
	w.neverFailed(id)
	w.booksAgree()
}
