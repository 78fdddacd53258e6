package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/starter/api"
)

// Goal: an order is stored exactly as stated or refused with a reason, and nothing of a refused request comes back.
// Method: tables of requests over real HTTP on a real database. Not covered: payments, the guard by itself.

func change(name string, value any) func(fields) { return func(f fields) { f[name] = value } }

func drop(name string) func(fields) { return func(f fields) { delete(f, name) } }

func lines(changes ...func(fields)) func(fields) {
	return func(f fields) { f["lines"] = []any{line(changes...)} }
}

func TestPlaceOrder(t *testing.T) {
	b := setup(t)
	t.Run("StoredAsStated", func(t *testing.T) {
		a := b.call("POST", "/v1/orders", anOrder("O-plain", func(f fields) {
			f["adjustments"] = []any{fields{"kind": "discount", "amount": -800}, fields{"kind": "shipping", "amount": 500}}
			f["total"] = 4500
		}))
		require.Equal(t, 201, a.status, string(a.body))
		require.Equal(t, "/v1/orders/O-plain", a.header.Get("Location"))
		require.Equal(t, fields{"order": "open", "payment": "none", "fulfillment": "none"}, a.at("states"))
		require.Equal(t, true, a.at("buyer", "can_pay"))
		g := b.call("GET", "/v1/orders/O-plain", nil)
		require.EqualValues(t, 4500, g.at("total"))
		require.Len(t, g.at("adjustments"), 2)
		require.Len(t, g.at("lines"), 1)
	})
	t.Run("IdsOfEveryShapeWorkInPaths", func(t *testing.T) {
		for _, id := range []string{
			"x", strings.Repeat("a", 64), "2026/11/30-7", "a b", "semi;colon", "注文 17番", "50% off?", "a//b", "%2F", "+plus&amp", "#1", "émoji-🎫", `"quoted"`,
		} {
			b.place(id)
			g := b.call("GET", pathOf(id), nil)
			require.Equal(t, 200, g.status, id)
			require.Equal(t, id, g.at("id"))
			p := b.call("POST", pathOf(id)+"/payments", card("pm_card_visa"))
			require.Equal(t, 202, p.status, "%q: %s", id, p.body)
			require.Equal(t, pathOf(id), p.header.Get("Location"))
		}
	})
	t.Run("UnicodeIsKeptAsSent", func(t *testing.T) {
		name := "👨‍👩‍👧 ギフト券 ﷽ \u200f"
		a := b.call("POST", "/v1/orders", anOrder("O-unicode", lines(change("name", name))))
		require.Equal(t, 201, a.status, string(a.body))
		g := b.call("GET", "/v1/orders/O-unicode", nil)
		require.Equal(t, name, g.at("lines").([]any)[0].(fields)["name"])
	})
	t.Run("ManyLines", func(t *testing.T) {
		many := func(n int) func(fields) {
			return func(f fields) {
				ls := make([]any, n)
				for i := range ls {
					ls[i] = fields{"sku": fmt.Sprintf("S%d", i), "quantity": 1, "unit_amount": 1, "action": "grant"}
				}
				f["lines"], f["total"] = ls, n
			}
		}
		require.Equal(t, 201, b.call("POST", "/v1/orders", anOrder("O-10000", many(10_000))).status)
		a := b.call("POST", "/v1/orders", anOrder("O-10001", many(10_001)))
		require.Equal(t, 422, a.status)
		require.Contains(t, string(a.body), "between 1 and 10000 entries")
	})
}

func TestPlaceOrderRefused(t *testing.T) {
	b := setup(t)
	const marker = "MARKER-9f3"
	for name, c := range map[string]struct {
		change   func(fields)
		status   int
		problem  string
		location string
	}{
		"TotalDoesNotAddUp": {change("total", 4799), 422, "validation", "body.total"},
		"NoLines":           {change("lines", []any{}), 422, "validation", "body.lines"},
		"LinesMissing":      {drop("lines"), 422, "validation", "body"},
		"TotalMissing":      {drop("total"), 422, "validation", "body"},
		"CurrencyLowerCase": {change("currency", "jpy"), 422, "validation", "body.currency"},
		"CurrencyUnknown":   {change("currency", "XQZ"), 422, "validation", "body.currency"},
		"IdEmpty":           {change("id", ""), 422, "validation", "body.id"},
		"IdTooLong":         {change("id", strings.Repeat("a", 65)), 422, "validation", "body.id"},
		"IdWithLineBreak":   {change("id", "a\nb"), 422, "validation", "body.id"},
		"IdIsADotSegment":   {change("id", ".."), 422, "validation", "body.id"},
		"IdEndsWithASpace":  {change("id", "a "), 422, "validation", "body.id"},
		"IdIsACardNumber":   {change("id", "4242424242424242"), 422, "validation", "body.id"},
		"QuantityZero":      {lines(change("quantity", 0)), 422, "validation", "body.lines[0].quantity"},
		"QuantityNegative":  {lines(change("quantity", -1)), 422, "validation", "body.lines[0].quantity"},
		"QuantityHuge":      {lines(change("quantity", 10_001)), 422, "validation", "body.lines[0].quantity"},
		"PriceNegative":     {lines(change("unit_amount", -1)), 422, "validation", "body.lines[0].unit_amount"},
		"PriceAsText":       {lines(change("unit_amount", marker)), 422, "validation", "body.lines[0].unit_amount"},
		"TaxRateAsNumber":   {lines(change("tax_rate", 10)), 422, "validation", "body.lines[0].tax_rate"},
		"ActionUnknown":     {lines(change("action", marker)), 422, "validation", "body.lines[0].action"},
		"IssuerUnknown":     {lines(change("action", "issue"), change("issuer", marker)), 422, "validation", "body.lines[0].issuer"},
		"IssuerMissing":     {lines(change("action", "issue")), 422, "validation", "body.lines[0].issuer"},
		"IssuerWithoutNeed": {lines(change("issuer", "tickets")), 422, "validation", "body.lines[0].issuer"},
		"NameTooLong":       {lines(change("name", strings.Repeat("あ", 501))), 422, "validation", "body.lines[0].name"},
		"CardInName":        {lines(change("name", "pay with 4242 4242 4242 4242")), 422, "validation", "body.lines[0].name"},
		"CardInBuyerRef":    {change("buyer_ref", "４２４２４２４２４２４２４２４２"), 422, "validation", "body.buyer_ref"},
		"BuyerRefNoIssuerTakes": {func(f fields) {
			change("buyer_ref", strings.Repeat("b", 257))(f)
			lines(change("action", "issue"), change("issuer", "tickets"))(f)
		}, 422, "validation", "body.buyer_ref"},
		"CardAsSku":               {lines(change("sku", "5555-5555-5555-4444")), 422, "validation", "body.lines[0].sku"},
		"ExpiredAlready":          {change("expires_at", time.Now().Add(-time.Second).Format(time.RFC3339)), 422, "validation", "body.expires_at"},
		"ExpiresInTwoYears":       {change("expires_at", time.Now().AddDate(2, 0, 0).Format(time.RFC3339)), 422, "validation", "body.expires_at"},
		"ExpiryIsNoTime":          {change("expires_at", marker), 422, "validation", "body.expires_at"},
		"UnknownField":            {change(marker, 1), 422, "validation", "body"},
		"UnknownFieldInALine":     {lines(change("a."+marker, 1)), 422, "validation", "body.lines[0]"},
		"DiscountPositive":        {change("adjustments", []any{fields{"kind": "discount", "amount": 1}}), 422, "validation", "body.adjustments[0].amount"},
		"StockThatWasNeverSet":    {lines(change("action", "stock"), change("sku", marker)), 422, "unknown-stock", ""},
		"LineIsNull":              {change("lines", []any{nil}), 422, "validation", "body.lines[0]"},
		"TotalBeyondSixtyFourBit": {change("total", json.Number("99999999999999999999")), 422, "validation", "body.total"},
		"TotalBeyondFloat":        {change("total", json.Number("9007199254740993")), 422, "validation", "body.total"},
	} {
		t.Run(name, func(t *testing.T) {
			a := b.call("POST", "/v1/orders", anOrder("O-"+name, c.change))
			require.Equal(t, c.status, a.status, string(a.body))
			require.Equal(t, c.problem, a.problem())
			require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
			require.NotContains(t, string(a.body), marker, "an error repeats input")
			require.NotContains(t, string(a.body), "4242", "an error repeats input")
			if c.location != "" {
				require.Equal(t, c.location, a.at("errors").([]any)[0].(fields)["location"], string(a.body))
			}
		})
	}
}

// TestFractions: a number with a point is never read as money, whatever its value (PC-32).
func TestFractions(t *testing.T) {
	b := setup(t)
	for _, n := range []string{"17.99", "8.20", "67.96", "9.95", "79.99", "1.005", "0.285", "4800.0", "48e2", "1E3", "-0.0", "1e400"} {
		t.Run(n, func(t *testing.T) {
			a := b.call("POST", "/v1/orders", anOrder("O-"+n, change("total", json.Number(n))))
			require.Equal(t, 422, a.status)
			require.Contains(t, string(a.body), "whole number of minor units")
			require.Equal(t, "body.total", a.at("errors").([]any)[0].(fields)["location"])
			inLine := b.call("POST", "/v1/orders", anOrder("O-"+n, lines(change("unit_amount", json.Number(n)))))
			require.Equal(t, "body.lines[0].unit_amount", inLine.at("errors").([]any)[0].(fields)["location"])
		})
	}
	t.Run("TextHoldsWhatItLikes", func(t *testing.T) {
		a := b.call("POST", "/v1/orders", anOrder("17.99 \\\" 1e5", lines(change("name", `"17.99\" -1.5`))))
		require.Equal(t, 201, a.status, string(a.body))
	})
}

// TestRawBody: what two readers could take differently is refused before anybody reads it.
func TestRawBody(t *testing.T) {
	b := setup(t)
	good := func() string {
		raw, err := json.Marshal(anOrder("O-raw"))
		require.NoError(t, err)
		return string(raw)
	}()
	put := func(extra string) string { return `{` + extra + `,` + good[1:] }
	for name, c := range map[string]struct {
		body    string
		options []option
		status  int
		problem string
	}{
		"NotJSON":           {body: "hello", status: 400, problem: "malformed-body"},
		"Empty":             {body: "", status: 400, problem: "malformed-body"},
		"TwoValues":         {body: good + good, status: 400, problem: "malformed-body"},
		"DuplicateKey":      {body: put(`"id":"first"`), status: 400, problem: "malformed-body"},
		"KeyInAnotherCase":  {body: put(`"ID":"first"`), status: 400, problem: "malformed-body"},
		"RawNUL":            {body: strings.Replace(good, "O-raw", "O\x00raw", 1), status: 400, problem: "malformed-body"},
		"EscapedNUL":        {body: strings.Replace(good, "O-raw", `O\u0000raw`, 1), status: 400, problem: "malformed-body"},
		"LoneSurrogate":     {body: strings.Replace(good, "O-raw", `O\ud800raw`, 1), status: 400, problem: "malformed-body"},
		"InvalidUTF8":       {body: strings.Replace(good, "O-raw", "O\xffraw", 1), status: 400, problem: "malformed-body"},
		"ByteOrderMark":     {body: "\ufeff" + good, status: 400, problem: "malformed-body"},
		"DeepNesting":       {body: strings.Repeat("[", 100) + strings.Repeat("]", 100), status: 400, problem: "malformed-body"},
		"AList":             {body: "[" + good + "]", status: 422, problem: "validation"},
		"Null":              {body: "null", status: 422, problem: "validation"},
		"TooLarge":          {body: `{"id":"` + strings.Repeat("a", 2<<20) + `"}`, status: 413, problem: "body-too-large"},
		"WrongType":         {body: good, options: []option{with("Content-Type", "text/plain")}, status: 415, problem: "not-json"},
		"NoType":            {body: good, options: []option{without("Content-Type")}, status: 415, problem: "not-json"},
		"OtherCharset":      {body: good, options: []option{with("Content-Type", "application/json; charset=latin1")}, status: 415, problem: "not-json"},
		"Compressed":        {body: good, options: []option{with("Content-Encoding", "gzip")}, status: 415, problem: "not-json"},
		"TypeWithCharset":   {body: good, options: []option{with("Content-Type", "Application/JSON; charset=UTF-8")}, status: 201},
		"AcceptsAnythingOK": {body: strings.Replace(good, "O-raw", "O-raw2", 1), options: []option{with("Accept", "text/html")}, status: 201},
	} {
		t.Run(name, func(t *testing.T) {
			a := b.call("POST", "/v1/orders", c.body, c.options...)
			require.Equal(t, c.status, a.status, string(a.body))
			require.Equal(t, c.problem, a.problem())
			if c.status >= 400 {
				require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
			}
		})
	}
}

func TestOrderKeys(t *testing.T) {
	b := setup(t)
	t.Run("SameRequestIsReplayed", func(t *testing.T) {
		body := anOrder("O-k1")
		first := b.call("POST", "/v1/orders", body, key("k1"))
		again := b.call("POST", "/v1/orders", body, key(`"k1"`))
		require.Equal(t, 201, again.status)
		require.Equal(t, string(first.body), string(again.body))
		require.Equal(t, first.header.Get("Location"), again.header.Get("Location"))
		require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	})
	t.Run("OtherBodyIsRefused", func(t *testing.T) {
		a := b.call("POST", "/v1/orders", anOrder("O-k2"), key("k1"))
		require.Equal(t, 422, a.status)
		require.Equal(t, "idempotency-key-reused", a.problem())
	})
	t.Run("SameIdWithAnotherKeyExists", func(t *testing.T) {
		a := b.call("POST", "/v1/orders", anOrder("O-k1"), key("k3"))
		require.Equal(t, 409, a.status)
		require.Equal(t, "order-exists", a.problem())
		require.Equal(t, "open", a.at("order", "states", "order"), "the slower of two sessions goes on with the order that is there")
		require.Equal(t, "/v1/orders/O-k1", a.header.Get("Location"))
	})
	t.Run("AnotherClientsIdIsToldNoMore", func(t *testing.T) {
		a := b.call("POST", "/v1/orders", anOrder("O-k1"), key("k1"), as(otherKey))
		require.Equal(t, 409, a.status)
		require.Equal(t, "order-exists", a.problem())
		require.Nil(t, a.at("order"))
		require.Empty(t, a.header.Get("Location"))
	})
	t.Run("MissingAndMalformed", func(t *testing.T) {
		require.Equal(t, "idempotency-key-missing", b.call("POST", "/v1/orders", anOrder("O-k4"), without("Idempotency-Key")).problem())
		require.Equal(t, "idempotency-key-malformed", b.call("POST", "/v1/orders", anOrder("O-k4"), key("a b")).problem())
	})
}

func TestStock(t *testing.T) {
	b := setup(t)
	stocked := func(f fields) { lines(change("action", "stock"), change("sku", "棚/1"))(f) }
	require.Equal(t, 200, b.call("PUT", "/v1/stock/%E6%A3%9A%2F1", fields{"on_hand": 3}).status)
	require.Equal(t, 201, b.call("POST", "/v1/orders", anOrder("O-1", stocked)).status)
	a := b.call("POST", "/v1/orders", anOrder("O-2", stocked))
	require.Equal(t, 409, a.status)
	require.Equal(t, "out-of-stock", a.problem())
	require.Equal(t, "stock-below-reserved", b.call("PUT", "/v1/stock/%E6%A3%9A%2F1", fields{"on_hand": 1}).problem())
	require.Equal(t, 422, b.call("PUT", "/v1/stock/x", fields{"on_hand": -1}).status)
	require.Equal(t, 422, b.call("PUT", "/v1/stock/x", `{"on_hand":1.5}`).status)
}

func TestWhoAsks(t *testing.T) {
	b := setup(t)
	b.place("O-1")
	t.Run("AnotherClientsOrderAnswersAsAnUnknownOne", func(t *testing.T) {
		for _, c := range []struct {
			method, suffix string
			body           any
		}{{"GET", "", nil}, {"POST", "/payments", card("pm_card_visa")}} {
			theirs := b.call(c.method, pathOf("O-1")+c.suffix, c.body, as(otherKey))
			unknown := b.call(c.method, pathOf("O-none")+c.suffix, c.body, as(otherKey))
			require.Equal(t, 404, theirs.status)
			require.Equal(t, unknown.status, theirs.status)
			require.Equal(t, string(unknown.body), string(theirs.body))
			require.Equal(t, len(unknown.header), len(theirs.header))
		}
	})
	t.Run("NoKeyWrongKeyTwoKeys", func(t *testing.T) {
		for _, o := range []option{
			without("Authorization"), with("Authorization", "Bearer wrong"), with("Authorization", "Basic "+shopKey), with("Authorization", "Bearer "),
			with("Authorization", shopKey),
		} {
			a := b.call("GET", pathOf("O-1"), nil, o)
			require.Equal(t, 401, a.status)
			require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			require.Equal(t, "unauthorized", a.problem())
		}
		two := func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+otherKey) }
		require.Equal(t, 401, b.call("GET", pathOf("O-1"), nil, two).status)
	})
	t.Run("ScopeIsNeeded", func(t *testing.T) {
		require.Equal(t, 403, b.call("POST", "/v1/orders", anOrder("O-2"), as(operatorKey)).status)
		require.Equal(t, 200, b.call("GET", pathOf("O-1"), nil, as(operatorKey)).status)
	})
	t.Run("AuthenticationComesBeforeTheBody", func(t *testing.T) {
		a := b.call("POST", "/v1/orders", "not json", without("Authorization"), without("Idempotency-Key"))
		require.Equal(t, 401, a.status)
	})
	t.Run("RevokedKeyStopsWithinSeconds", func(t *testing.T) {
		require.Equal(t, 200, b.call("GET", pathOf("O-1"), nil).status)
		b.exec("UPDATE api_keys SET revoked_at = now() WHERE key_id = 'k1'")
		require.Eventually(t, func() bool { return b.call("GET", pathOf("O-1"), nil).status == 401 }, 5*time.Second, 50*time.Millisecond)
	})
}

func TestEverythingElseIsAProblem(t *testing.T) {
	b := setup(t)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/", 404, ""},
		{"GET", "/v1", 404, ""},
		{"GET", "/v1/nothing", 404, ""},
		{"GET", "/v1/orders/a/b", 404, ""},
		{"GET", "/docs", 404, ""},
		{"GET", "/v1//orders", 404, ""},
		{"GET", "/v1/orders/../orders", 404, ""},
		{"GET", "/v1/orders/", 404, ""},
		{"GET", "/healthz", 404, ""},
		{"DELETE", "/v1/orders/a", 405, "GET, HEAD, PUT"},
		{"GET", "/v1/orders", 405, "POST"},
		{"POST", "/v1/stock/a", 405, "PUT"},
		{"PATCH", "/openapi.json", 405, "GET, HEAD"},
	} {
		t.Run(c.method+c.path, func(t *testing.T) {
			a := b.call(c.method, c.path, nil)
			require.Equal(t, c.status, a.status, string(a.body))
			require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
			require.Equal(t, c.allow, a.header.Get("Allow"))
			require.NotEmpty(t, a.header.Get("X-Request-Id"))
		})
	}
}

// TestLog: one line per request, with what an operator needs and nothing that came in.
func TestLog(t *testing.T) {
	var log syncBuffer
	b := setup(t, func(d *api.Deps) {
		d.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	b.place("MARKER-id")
	b.call("POST", "/v1/orders", anOrder("O-1", lines(change("name", "MARKER-name"), change("quantity", 0))), key("MARKER-key"))
	b.call("POST", pathOf("MARKER-id")+"/payments?q=MARKER-query", card("pm_MARKER"), with("User-Agent", "MARKER-agent"))
	b.call("GET", "/MARKER-path", nil, with("Authorization", "Bearer MARKER-secret"))
	b.engine.submit = func(context.Context, order.ID, order.AttemptID) error { panic("MARKER-panic") }
	require.Equal(t, 500, b.pay("MARKER-id", card("pm_card_visa"), key("MARKER-key-2")).status)
	lines := log.String()
	require.NotContains(t, lines, "MARKER")
	require.NotContains(t, lines, "pm_")
	require.Contains(t, lines, `"route":"POST /v1/orders/{id}/payments"`)
	require.Contains(t, lines, `"status":500`)
	require.Contains(t, lines, `"client":"shop"`)
	require.Contains(t, lines, `"msg":"panic"`)
}

// syncBuffer takes lines from several requests at once.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestSpecification(t *testing.T) {
	b := setup(t)
	a := b.call("GET", "/openapi.json", nil, without("Authorization"))
	require.Equal(t, 200, a.status)
	require.Equal(t, "3.1.0", a.at("openapi"))
	for _, path := range []string{"/v1/orders", "/v1/orders/{id}", "/v1/orders/{id}/payments", "/v1/stock/{sku}"} {
		require.NotNil(t, a.at("paths", path), path)
	}
	require.Contains(t, string(a.body), "urn:orderflow:problem:attempt-unresolved")
	require.NotContains(t, string(a.body), "ErrorModel\"}", "every operation documents our problem, not another error type")
	y := b.call("GET", "/openapi.yaml", nil, without("Authorization"))
	require.Equal(t, 200, y.status)
	require.Contains(t, string(y.body), "openapi: 3.1.0")
}
