package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

// Goal: the public cases about what is on the wire: amounts, currencies and references, at every provider. Method: what went out is
// read in the sandbox's books; what comes in is changed on its way by a proxy. Not covered: times and keys
// (cases_providers_test.go).

// proxy stands between our processes and the providers. What it was told to replace is replaced in their answers, but for the one
// that makes Stripe's intent: an intent that is not ours is never confirmed, and there would be no money to speak of.
type proxy struct {
	address string
	mu      sync.Mutex
	swaps   map[*regexp.Regexp]string
}

func (p *proxy) replace(pattern, by string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swaps[regexp.MustCompile(pattern)] = by
}

func (p *proxy) honest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swaps = map[*regexp.Regexp]string{}
}

// throughLiar leads Stripe, Omise and Toss through p.
func throughLiar(p **proxy) option {
	return func(w *world) {
		to, err := url.Parse(w.sandbox.URL())
		require.NoError(w.t, err)
		liar := &proxy{swaps: map[*regexp.Regexp]string{}}
		forward := httputil.NewSingleHostReverseProxy(to)
		forward.Transport = &http.Transport{} // the default one's idle connections are closed by every test server that ends
		forward.ModifyResponse = func(res *http.Response) error {
			b, err := io.ReadAll(res.Body)
			if err != nil {
				return err
			}
			if strings.HasSuffix(res.Request.URL.Path, "/v1/payment_intents") {
				res.Body = io.NopCloser(bytes.NewReader(b))
				return nil
			}
			liar.mu.Lock()
			for from, by := range liar.swaps {
				b = from.ReplaceAll(b, []byte(by))
			}
			liar.mu.Unlock()
			res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
			res.Header.Set("Content-Length", strconv.Itoa(len(b)))
			return nil
		}
		srv := httptest.NewServer(forward)
		w.t.Cleanup(srv.Close)
		liar.address = srv.URL
		for _, name := range []string{"STRIPE_API_BASE", "OMISE_API_BASE", "TOSS_API_BASE"} {
			w.env[name] = strings.Replace(w.env[name], w.sandbox.URL(), srv.URL, 1)
		}
		*p = liar
	}
}

// sent are the writes of an order at its provider, as texts.
func (w *world) sent(id string) []string {
	w.t.Helper()
	var out []string
	for _, ref := range w.references(id) {
		for _, e := range w.sandbox.Stripe().Writes(stripesim.Filter{}) {
			if strings.Contains(e.Body, ref) {
				out = append(out, e.Body)
			}
		}
		for _, e := range w.sandbox.Omise().Writes(omisesim.Filter{MerchantReference: ref}) {
			out = append(out, e.Body)
		}
		for _, e := range w.sandbox.TwoCTwoP().Writes(twoctwopsim.Filter{MerchantReference: ref}) {
			out = append(out, e.Claims)
		}
		for _, e := range w.sandbox.Toss().Writes(tosssim.Filter{MerchantReference: ref}) {
			out = append(out, e.Body)
		}
	}
	return out
}

// allSent counts every write that reached any provider.
func (w *world) allSent() int {
	return len(w.sandbox.Stripe().Writes(stripesim.Filter{})) + len(w.sandbox.Omise().Writes(omisesim.Filter{})) +
		len(w.sandbox.TwoCTwoP().Writes(twoctwopsim.Filter{})) + len(w.sandbox.Toss().Writes(tosssim.Filter{}))
}

// wireAmount reads amount and currency of the first write that has one, by the name the provider gives them.
func wireAmount(t *testing.T, gateway string, writes []string) (amount, currency string) {
	t.Helper()
	require.NotEmpty(t, writes)
	if gateway == "stripe" {
		form, err := url.ParseQuery(writes[0])
		require.NoError(t, err)
		return form.Get("amount"), form.Get("currency")
	}
	d := json.NewDecoder(strings.NewReader(writes[0]))
	d.UseNumber()
	var body map[string]any
	require.NoError(t, d.Decode(&body))
	for _, name := range []string{"currency", "currencyCode"} {
		if s, ok := body[name].(string); ok {
			currency = s
		}
	}
	return fmt.Sprint(body["amount"]), currency
}

func TestWireCases(t *testing.T) {
	t.Parallel()
	var liar *proxy
	w := newWorld(t, throughLiar(&liar))
	w.sub("PC-30 amounts on the wire", (*world).pc30)
	w.sub("PC-31 an answer with a hundredth of the amount", func(w *world) { w.pc31(liar) })
	w.sub("PC-31 money that is a hundredth of the amount", (*world).pc31Taken)
	w.sub("PC-48 amount and currency are one value", func(w *world) { w.pc48(liar) })
	w.sub("PC-50 order ids of every length and form", (*world).pc50)
	w.booksAgree()
}

// payWith pays an order of one line by a provider's working card.
func (w *world) payWith(p *psp, id, currency string, minor int) answer {
	w.t.Helper()
	name := "n" + regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(id, "") + "x" + strconv.Itoa(minor)
	method := p.token(p.pays, name, currency, minor)
	if p == &toss {
		method["amount"] = strconv.Itoa(minor)
	}
	return w.call("POST", path(id)+"/payments", "pay-"+url.QueryEscape(id), map[string]any{"gateway": p.gateway, "method": method})
}

func (w *world) pc30() {
	for _, c := range []struct {
		psp          *psp
		currency     string
		minor        int
		amount, code string // on the wire
	}{
		{&stripe, "JPY", 80, "80", "jpy"},
		{&omise, "JPY", 80, "80", "jpy"},
		{&twoctwop, "JPY", 80, "80", "JPY"},
		{&toss, "KRW", 12345, "12345", ""}, // the currency is the one the buyer authenticated
		{&omise, "THB", 8050, "8050", "thb"},
		{&twoctwop, "THB", 8050, "80.50", "THB"},
		{&stripe, "THB", 8050, "8050", "thb"},
		{&stripe, "KWD", 1230, "1230", "kwd"},
		{&twoctwop, "KWD", 1234, "1.234", "KWD"},
	} {
		id := "pc30-" + c.psp.gateway + "-" + c.currency
		w.placeIn(id, c.currency, grant("g", 1, c.minor))
		oneOf(w.t, w.payWith(c.psp, id, c.currency, c.minor), http.StatusCreated, http.StatusAccepted)
		w.awaitStatus(id, "completed")
		w.settled(id)
		amount, code := wireAmount(w.t, c.psp.gateway, w.sent(id))
		assert.Equal(w.t, c.amount, amount, id)
		assert.Equal(w.t, c.code, code, id)
		for _, m := range w.sandbox.Taken(w.references(id)[0]) {
			assert.EqualValues(w.t, c.minor, m.Captured, "%s: what the provider took", id)
			assert.Equal(w.t, c.currency, m.Currency, id)
		}
		assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payments WHERE order_id = $1 AND captured_minor = $2 AND currency = $3", id, c.minor, c.currency), id)
	}
	w.placeIn("pc30-odd", "KWD", grant("g", 1, 1234)) // Stripe wants the last digit to be 0
	before := w.allSent()
	a := w.payWith(&stripe, "pc30-odd", "KWD", 1234)
	w.problem(a, http.StatusUnprocessableEntity, "payment-invalid")
	assert.Contains(w.t, a.at("detail"), "must end in 0")
	assert.Equal(w.t, before, w.allSent(), "nothing was sent")
	assert.Zero(w.t, w.number("SELECT count(*) FROM payment_attempts WHERE order_id = 'pc30-odd'"))
	w.booksAgree()
}

// pc31: the provider took the whole amount and says that it took a hundredth. Nothing is paid until it says otherwise.
func (w *world) pc31(liar *proxy) {
	psps := map[string]*psp{"stripe": &stripe, "omise": &omise, "toss": &toss}
	liar.replace(`:\s*100([,}])`, `:1$1`)
	for name, p := range psps {
		id := "pc31-" + name
		w.placeIn(id, "JPY", grant("g", 1, 100))
		oneOf(w.t, w.payWith(p, id, "JPY", 100), http.StatusCreated, http.StatusAccepted)
	}
	for name := range psps {
		id := "pc31-" + name
		w.awaitReview(id, order.ReviewPaymentMismatch)
		w.notPaid(id)
	}
	liar.honest()
	for name := range psps {
		id := "pc31-" + name
		w.awaitStatus(id, "completed") // the next look says what is true
		assert.Equal(w.t, 1, w.captured(id), id)
	}
	w.booksAgree()
}

// notPaid: the money is in doubt, and everybody is told so.
func (w *world) notPaid(id string) {
	w.t.Helper()
	assert.Equal(w.t, "open", w.status(id), id)
	assert.Zero(w.t, w.number("SELECT count(*) FROM fulfillment_units WHERE order_id = $1", id), "%s: nothing is provided", id)
	assert.Zero(w.t, w.number("SELECT count(*) FROM outbox_events WHERE order_id = $1", id), "%s: nobody is told", id)
	shown := w.call("GET", path(id), "", nil)
	assert.Equal(w.t, "checking", shown.at("buyer", "state"), "%s: %s", id, shown.Raw)
	assert.Equal(w.t, false, shown.at("buyer", "can_pay"), id)
}

// pc31Taken: here the hundredth is the truth.
func (w *world) pc31Taken() {
	w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.OddLooksPaid = true })
	w.placeIn("pc31-taken", "JPY", grant("g", 1, 100))
	body := map[string]any{"gateway": "twoctwop", "method": map[string]any{"type": "redirect", "return_url": backTo("pc31-taken")}}
	a := w.call("POST", path("pc31-taken")+"/payments", "pc31-taken", body)
	oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
	w.await("the buyer asked to act", func() bool { return w.cameTo("pc31-taken").attempt == order.AttemptPending })
	require.True(w.t, w.sandbox.TwoCTwoP().Receive(w.references("pc31-taken")[0], 1))
	w.awaitReview("pc31-taken", order.ReviewPaymentMismatch)
	w.notPaid("pc31-taken")
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payments WHERE order_id = 'pc31-taken' AND captured_minor = 1 AND NOT matched"), "the money is a fact all the same")
	w.booksAgree()
}

func (w *world) pc48(liar *proxy) {
	w.placeIn("pc48", "GBP", grant("g", 1, 23911))
	body := payBody("pm_card_visa__pc48")
	for field, value := range map[string]any{"currency": "EUR", "amount": 28113} {
		body[field] = value
		a := w.call("POST", path("pc48")+"/payments", "pc48-"+field, body)
		w.problem(a, http.StatusUnprocessableEntity, "validation")
		delete(body, field)
	}
	assert.Zero(w.t, w.number("SELECT count(*) FROM payment_attempts WHERE order_id = 'pc48'"), "an amount beside the order's has no place")
	liar.replace(`"currency":\s*"gbp"`, `"currency":"eur"`)
	liar.replace(`:\s*23911([,}])`, `:28113$1`)
	a := w.call("POST", path("pc48")+"/payments", "pc48", body)
	oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
	w.awaitReview("pc48", order.ReviewPaymentMismatch)
	w.notPaid("pc48")
	liar.honest()
	w.awaitStatus("pc48", "completed")
	amount, currency := wireAmount(w.t, "stripe", w.sent("pc48"))
	assert.Equal(w.t, "23911 gbp", amount+" "+currency)
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payments WHERE order_id = 'pc48' AND captured_minor = 23911 AND currency = 'GBP'"))
	w.booksAgree()
}

var referenceShape = regexp.MustCompile(`^[A-Za-z0-9]{6,20}$`)

func (w *world) pc50() {
	for _, id := range []string{strings.Repeat("x", 65), strings.Repeat("x", 255), strings.Repeat("注", 65), "", " a", "a\x00b", "a\nb", "a\u202eb"} {
		before := w.number("SELECT count(*) FROM orders")
		a := w.call("POST", "/v1/orders", "pc50-refused", orderBody(id, "JPY", grant("g", 1, 500)))
		oneOf(w.t, a, http.StatusUnprocessableEntity, http.StatusBadRequest)
		assert.NotContains(w.t, string(a.Raw), "xxxx", "the input is not repeated")
		assert.Equal(w.t, before, w.number("SELECT count(*) FROM orders"))
	}
	qr := psp{gateway: "twoctwop", currency: "THB", token: func(string, string, string, int) map[string]any { return map[string]any{"type": "promptpay"} }}
	psps := []*psp{&stripe, &omise, &twoctwop, &toss, &qr}
	forms := []string{"%s", "64 %s " + strings.Repeat("x", 58), "№%s/注文 ;表", "%s?x=1&y=#/..", "%%2F%s'\"<b>", "%s 🎁 é", "%s" + strings.Repeat("界", 63)}
	seen := map[string]string{}
	type one struct {
		id      string
		psp     *psp
		answers <-chan answer
	}
	var list []one
	for n, p := range psps {
		for m, form := range forms {
			id := fmt.Sprintf(form, string(rune('a'+n)))
			require.LessOrEqual(w.t, len([]rune(id)), 64, id)
			placed := w.call("POST", "/v1/orders", fmt.Sprintf("pc50-place-%d-%d", n, m), orderBody(id, p.currency, grant("g", 1, trialTotal)))
			require.Equal(w.t, http.StatusCreated, placed.Status, "%s", placed.Raw)
			method := p.token(p.pays, fmt.Sprintf("pc50x%dx%d", n, m), p.currency, trialTotal)
			list = append(list, one{id, p, w.later("POST", path(id)+"/payments", fmt.Sprintf("pc50-%d-%d", n, m), map[string]any{"gateway": p.gateway, "method": method})})
		}
	}
	for _, o := range list {
		oneOf(w.t, <-o.answers, http.StatusCreated, http.StatusAccepted)
		w.pc50Reference(o.id, o.psp, seen)
		if o.psp == &qr {
			w.await(o.id+" shown", func() bool { return w.sandbox.TwoCTwoP().Act(w.references(o.id)[0], true) })
		}
	}
	for _, o := range list {
		w.awaitStatus(o.id, "completed")
		w.settled(o.id)
	}
	w.booksAgree()
}

// pc50Reference: a short, unique name of plain characters, made once; nothing of the order's id is on the wire.
func (w *world) pc50Reference(id string, p *psp, seen map[string]string) {
	w.t.Helper()
	refs := w.references(id)
	require.Len(w.t, refs, 1, id)
	if p != &toss { // there the checkout chose it before it came to us
		assert.Regexp(w.t, referenceShape, refs[0], id)
	}
	assert.Empty(w.t, seen[refs[0]], "%s: no two orders share a reference", id)
	seen[refs[0]] = id
	for _, body := range w.sent(id) {
		if len(id) > 1 {
			assert.NotContains(w.t, body, id, "the id is not sent")
			assert.NotContains(w.t, body, url.QueryEscape(id), "the id is not sent")
			assert.NotContains(w.t, body, strings.Repeat("x", 20), "nor a cut of it")
		}
	}
}
