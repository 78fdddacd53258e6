package e2e

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

// Goal: a payment that the buyer ends elsewhere, some time later, comes to its end whoever tells of it: the webhook alone, the
// returning browser alone, or nobody at all. Method: every such way to pay at every provider, in one world where nothing looks
// by itself and in one where nobody tells; the buyer acts at the sandbox's own pages. What ends without money is in
// expiry_test.go. Not covered: forged webhooks and returns (the tests of starter/webhooks and starter/returns).

// way is one way to pay that ends elsewhere.
type way struct {
	name    string
	psp     *psp
	method  func(name string) map[string]any
	next    string                                         // what the buyer is asked to do
	says    []string                                       // the fields that say how
	act     func(w *world, payment string, pass bool) bool // the buyer, at the provider; false = nothing waited
	refuses bool                                           // the buyer can make it fail
	returns bool                                           // the browser comes back
}

func typed(kind, token string) func(string) map[string]any {
	return func(name string) map[string]any {
		m := map[string]any{"type": kind, "return_url": backTo(name)}
		if token != "" {
			m["token"] = token + name
		}
		return m
	}
}

func withoutReturn(f func(string) map[string]any) func(string) map[string]any {
	return func(name string) map[string]any {
		m := f(name)
		delete(m, "return_url")
		return m
	}
}

func atStripe(w *world, payment string, pass bool) bool {
	return w.sandbox.Stripe().Challenge(payment, pass)
}

func atOmise(w *world, payment string, pass bool) bool {
	return w.sandbox.Omise().Decide(payment, pass)
}

func at2C2P(w *world, payment string, pass bool) bool { return w.sandbox.TwoCTwoP().Act(payment, pass) }

func atToss(w *world, payment string, _ bool) bool { return w.sandbox.Toss().Deposit(payment) == nil }

func virtualAccount(name string) map[string]any {
	m := toss.token("pay_va", name, toss.currency, trialTotal)
	m["type"] = "virtual_account"
	return m
}

// ways are all of them. A bank transfer and a deposit cannot be refused: they only never come.
var ways = []*way{
	{"stripe_3ds", &stripe, typed("card", "pm_card_threeDSecure2Required__"), "redirect", []string{"url"}, atStripe, true, true},
	{"stripe_konbini", &stripe, withoutReturn(typed("konbini", "pm_konbini__")), "voucher", []string{"url", "code", "due"}, atStripe, true, false},
	{"stripe_transfer", &stripe, withoutReturn(typed("customer_balance", "cus_")), "transfer", []string{"url", "bank", "account", "holder"}, atStripe, false, false},
	{"omise_promptpay", &omise, withoutReturn(typed("source", "src_test_promptpay__")), "qr", []string{"qr", "due"}, atOmise, true, false},
	{"omise_bank", &omise, typed("source", "src_test_bank__"), "redirect", []string{"url", "due"}, atOmise, true, true},
	{"omise_3ds", &omise, typed("card", "tokn_test_3ds__"), "redirect", []string{"url", "due"}, atOmise, true, true},
	{"twoctwop_hosted", &twoctwop, typed("redirect", ""), "redirect", []string{"url"}, at2C2P, true, true},
	{"twoctwop_3ds", &twoctwop, typed("card", "3ds__"), "redirect", []string{"url"}, at2C2P, true, true},
	{"twoctwop_qr", &twoctwop, withoutReturn(typed("promptpay", "")), "qr", []string{"qr"}, at2C2P, true, false},
	{"toss_account", &toss, virtualAccount, "transfer", []string{"bank", "account", "holder", "due"}, atToss, false, false},
}

func waysThat(want func(*way) bool) []*way {
	var out []*way
	for _, x := range ways {
		if want(x) {
			out = append(out, x)
		}
	}
	return out
}

func refusable(x *way) bool { return x.refuses }
func comesBack(x *way) bool { return x.returns }
func publicURL(w *world)    { w.env["ORDERFLOW_PUBLIC_URL"] = "http://" + w.env["ORDERFLOW_LISTEN"] }

func nobodyLooksYet(w *world) { // no timer and no sweep finds anything within a test
	w.env["ORDERFLOW_REVIEW_CHECK_EVERY"], w.env["ORDERFLOW_SWEEP_PERIOD"] = "1h", "1h"
}

// pending is an order whose payment waits for its buyer.
type pending struct {
	*way
	id      string
	payment string // the provider's id
	next    map[string]any
}

// ask begins one payment per way, side by side, and checks what the API asks the buyer to do.
func (w *world) ask(tag string, list []*way) []*pending {
	w.t.Helper()
	answers := make([]<-chan answer, len(list))
	out := make([]*pending, len(list))
	for i, x := range list {
		out[i] = &pending{way: x, id: tag + "_" + x.name}
		w.placeIn(out[i].id, x.psp.currency, grant("g", 1, 500), issued("tickets", "t", 1, 100))
		answers[i] = w.later("POST", path(out[i].id)+"/payments", "pay-"+out[i].id, out[i].body())
	}
	for i, p := range out {
		a := <-answers[i]
		for a.Status == http.StatusAccepted { // a slow machine: the same key is asked again, as a checkout does
			a = w.call("POST", path(p.id)+"/payments", "pay-"+p.id, p.body())
		}
		require.Equal(w.t, http.StatusCreated, a.Status, "%s: %s", p.id, a.Raw)
		require.Equal(w.t, "pending", a.at("outcome"), "%s: %s", p.id, a.Raw)
		p.payment, _ = a.at("provider_payment_id").(string)
		require.NotEmpty(w.t, p.payment, "%s: %s", p.id, a.Raw)
		p.next, _ = a.at("next_action").(map[string]any)
		if p.way.next == "" {
			continue
		}
		assert.Equal(w.t, p.way.next, p.next["type"], "%s: %s", p.id, a.Raw)
		for _, field := range p.says {
			assert.NotEmpty(w.t, p.next[field], "%s: the buyer is told the %s: %s", p.id, field, a.Raw)
		}
	}
	return out
}

func (p *pending) body() map[string]any {
	return p.psp.at(map[string]any{"gateway": p.psp.gateway, "method": p.method(p.id)})
}

// standsAt is where every order of a list stands.
func (w *world) standsAt(list []*pending, want order.Status) {
	w.t.Helper()
	for _, p := range list {
		require.Equal(w.t, string(want), w.text("SELECT status FROM payment_attempts WHERE order_id = $1", p.id), p.id)
	}
}

// paidOff waits until every order of a list is completed by its one payment.
func (w *world) paidOff(list []*pending) {
	w.t.Helper()
	for _, p := range list {
		w.awaitStatus(p.id, "completed")
		w.settled(p.id)
		assert.Equal(w.t, done, w.cameTo(p.id), p.id)
		w.neverFailed(p.id)
	}
}

// refused waits until every attempt of a list is closed, and has the buyer pay again by another attempt.
func (w *world) refused(list []*pending) {
	w.t.Helper()
	for _, p := range list {
		w.await(p.id+" closed", func() bool { return w.cameTo(p.id).attempt == order.AttemptClosed })
	}
	for _, p := range list {
		shown := w.call("GET", path(p.id), "", nil)
		assert.Contains(w.t, []any{"declined", "payable"}, shown.at("buyer", "state"), "%s: %s", p.id, shown.Raw)
		assert.Equal(w.t, true, shown.at("buyer", "can_pay"), p.id)
		assert.Nil(w.t, shown.at("attempts", 0, "next_action"), "%s: nothing is left to do for it", p.id)
		assert.False(w.t, p.act(w, p.payment, true), "%s: the provider takes no money for it any more", p.id)
	}
	w.payAgain(list)
}

// payAgain: the buyer takes a card of the same provider.
func (w *world) payAgain(list []*pending) {
	w.t.Helper()
	answers := make([]<-chan answer, len(list))
	for i, p := range list {
		answers[i] = w.later("POST", path(p.id)+"/payments", "again-"+p.id, p.psp.payment(p.id+"_2", ""))
	}
	for i, p := range list {
		a := <-answers[i]
		oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
		w.awaitStatus(p.id, "completed")
		w.settled(p.id)
		assert.Equal(w.t, 1, w.captured(p.id), p.id)
		assert.Zero(w.t, w.number("SELECT count(*) FROM reviews WHERE order_id = $1 AND status = 'open'", p.id), p.id)
	}
}

var returnPath = regexp.MustCompile(`/return/[A-Za-z0-9]+`)

// returnAddress is our own address that the provider was given for the buyer's browser.
func (w *world) returnAddress(p *pending) string {
	w.t.Helper()
	var sent strings.Builder
	for _, ref := range w.references(p.id) {
		for _, e := range w.sandbox.Omise().Writes(omisesim.Filter{MerchantReference: ref}) {
			sent.WriteString(e.Body)
		}
		for _, e := range w.sandbox.TwoCTwoP().Writes(twoctwopsim.Filter{MerchantReference: ref}) {
			sent.WriteString(e.Claims)
		}
		for _, e := range w.sandbox.Toss().Writes(tosssim.Filter{MerchantReference: ref}) {
			sent.WriteString(e.Body)
		}
		for _, e := range w.writes(p.id, "/confirm") {
			form, err := url.ParseQuery(e.Body)
			require.NoError(w.t, err)
			sent.WriteString(form.Get("return_url"))
		}
	}
	found := returnPath.FindString(sent.String())
	require.NotEmpty(w.t, found, "%s: the provider was told where the browser goes", p.id)
	assert.NotContains(w.t, sent.String(), "shop.example", "%s: and it is not the shop", p.id)
	return w.base + found
}

// browse is one request of the buyer's browser, which has no key of ours and follows nothing by itself.
func (w *world) browse(method, address string, form url.Values) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, address, strings.NewReader(form.Encode()))
	require.NoError(w.t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Do(req)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	a := answer{Status: res.StatusCode, Header: res.Header}
	a.Raw, err = io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return a
}

// lies are what anybody can write into the address of a return.
var lies = url.Values{
	"redirect_status": {"succeeded"}, "payment_intent": {"pi_another"}, "status": {"successful"}, "orderId": {"another"}, "amount": {"1"},
	"paymentResponse": {"eyJyZXNwQ29kZSI6IjAwMDAiLCJpbnZvaWNlTm8iOiJhbm90aGVyIn0"}, "return_url": {"https://evil.example/"},
}

// comesBackEarly: the browser is back before the buyer has done anything, and says that all is well.
func (w *world) comesBackEarly(list []*pending) {
	w.t.Helper()
	visits := atOnce(2*len(list), func(i int) answer { // each waits a moment for an outcome
		return w.browse([]string{http.MethodGet, http.MethodPost}[i%2], w.returnAddress(list[i/2])+"?"+lies.Encode(), lies)
	})
	for i, a := range visits {
		assert.Equal(w.t, http.StatusSeeOther, a.Status, list[i/2].id)
		assert.Equal(w.t, backTo(list[i/2].id), a.Header.Get("Location"), "%s: on to the shop's page, as the checkout gave it", list[i/2].id)
	}
	for _, p := range list {
		looked := "SELECT count(*) FROM observations WHERE order_id = $1 AND source = 'lookup' AND outcome = 'pending'"
		w.await(p.id+" looked up", func() bool { return w.number(looked, p.id) > 0 })
	}
	w.standsAt(list, order.AttemptPending)
}

// walks is the whole way of the browser: the provider's page, one of its two buttons, and where that leads.
func (w *world) walks(list []*pending, button string) {
	w.t.Helper()
	for _, p := range list {
		page, _ := p.next["url"].(string)
		require.Equal(w.t, http.StatusOK, w.browse("GET", page, nil).Status, p.id)
		pressed := w.browse("POST", page+"/"+button, nil)
		back, form := pressed.Header.Get("Location"), url.Values(nil)
		method := http.MethodGet
		if back == "" { // a page that posts itself on
			method, back = http.MethodPost, formAction.FindStringSubmatch(string(pressed.Raw))[1]
			form = lies
		}
		require.Equal(w.t, w.returnAddress(p), strings.SplitN(back, "?", 2)[0], p.id)
		a := w.browse(method, back, form)
		assert.Equal(w.t, http.StatusSeeOther, a.Status, p.id)
		assert.Equal(w.t, backTo(p.id), a.Header.Get("Location"), p.id)
	}
}

var formAction = regexp.MustCompile(`action="([^"]+)" id="back"`)

func TestBuyersWhoActElsewhereAreFoundByWhoeverTells(t *testing.T) {
	t.Parallel()
	w := newWorld(t, publicURL, nobodyLooksYet)
	w.sub("the returning browser alone", func(w *world) {
		list := w.ask("back", waysThat(comesBack))
		w.comesBackEarly(list)
		w.walks(list, "pass")
		w.paidOff(list)
		assert.Equal(w.t, http.StatusNotFound, w.browse("GET", w.base+"/return/"+strings.Repeat("A", 52), nil).Status)
		w.booksAgree()
	})
	w.sub("PC-18 the browser says that the buyer canceled, after the money was taken", func(w *world) {
		list := w.ask("back_canceled", waysThat(comesBack))
		canceled := url.Values{"cancelled": {"true"}, "canceled": {"true"}, "redirect_status": {"failed"}, "status": {"canceled"}, "code": {"PAY_PROCESS_CANCELED"}}
		for i, p := range list {
			require.True(w.t, p.act(w, p.payment, true), p.id)
			a := w.browse([]string{http.MethodGet, http.MethodPost}[i%2], w.returnAddress(p)+"?"+canceled.Encode(), canceled)
			assert.Equal(w.t, http.StatusSeeOther, a.Status, p.id)
		}
		w.paidOff(list)
		w.booksAgree()
	})
	w.sub("the returning browser alone, after a refusal", func(w *world) {
		w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.ReturnByPost, s.PageRetries = true, true })
		list := w.ask("back_no", waysThat(comesBack))
		w.walks(list, "fail")
		w.refused(list)
		w.booksAgree()
	})
	require.Zero(t, w.number("SELECT count(*) FROM webhook_receipts"), "until here nobody else told anything")
	w.webhooks()
	w.sub("the webhook alone", func(w *world) {
		list := w.ask("told", ways)
		for _, p := range list {
			require.True(w.t, p.act(w, p.payment, true), p.id)
		}
		w.paidOff(list)
		w.booksAgree()
	})
	w.sub("the webhook alone, after a refusal", func(w *world) {
		list := w.ask("told_no", waysThat(refusable))
		for _, p := range list {
			require.True(w.t, p.act(w, p.payment, false), p.id)
		}
		w.refused(list)
		w.booksAgree()
	})
	assert.Zero(t, w.number("SELECT count(*) FROM webhook_receipts WHERE wrong_environment OR result = 'orphan'"))
}

func TestBuyersWhoActElsewhereAreFoundByNobodyTelling(t *testing.T) {
	t.Parallel()
	w := newWorld(t, publicURL)
	w.sub("PC-64 a deposit, a transfer, a voucher, a code: paid in silence", func(w *world) {
		list := w.ask("silent", ways)
		w.shownAsWaiting(list)
		for _, p := range list {
			require.True(w.t, p.act(w, p.payment, true), p.id)
		}
		w.paidOff(list)
		for _, p := range list {
			shown := w.call("GET", path(p.id), "", nil)
			assert.Equal(w.t, "done", shown.at("buyer", "state"), "%s: %s", p.id, shown.Raw)
			assert.Nil(w.t, shown.at("attempts", 0, "next_action"), p.id)
			late := w.number("SELECT count(*) FROM payments p JOIN payment_attempts a USING (attempt_id) WHERE p.order_id = $1 AND p.first_seen_at > a.due_at", p.id)
			assert.Zero(w.t, late, "%s: found within its time", p.id)
		}
		w.booksAgree()
	})
	w.sub("refused in silence", func(w *world) {
		w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.PageRetries = true })
		list := w.ask("silent_no", waysThat(refusable))
		for _, p := range list {
			require.True(w.t, p.act(w, p.payment, false), p.id)
		}
		w.refused(list)
		w.booksAgree()
	})
	assert.Zero(t, w.number("SELECT count(*) FROM webhook_receipts"), "nobody told anything")
}

// shownAsWaiting: GET says what the buyer has to do, and that it is not to be done twice. PC-63: an account to pay into, a
// voucher, a code are no payment.
func (w *world) shownAsWaiting(list []*pending) {
	w.t.Helper()
	for _, p := range list {
		shown := w.call("GET", path(p.id), "", nil)
		assert.Equal(w.t, "open", shown.at("states", "order"), "%s: %s", p.id, shown.Raw)
		assert.Equal(w.t, "action_needed", shown.at("states", "payment"), p.id)
		assert.Equal(w.t, "none", shown.at("states", "fulfillment"), p.id)
		assert.Equal(w.t, "action_needed", shown.at("buyer", "state"), p.id)
		assert.Equal(w.t, false, shown.at("buyer", "can_pay"), p.id)
		assert.Equal(w.t, p.next, shown.at("attempts", 0, "next_action"), p.id)
		assert.Empty(w.t, shown.at("payments"), p.id)
		assert.Empty(w.t, shown.at("deliveries"), "%s: no receipt", p.id)
		again := w.call("POST", path(p.id)+"/payments", "impatient-"+p.id, p.psp.payment(p.id+"_3", ""))
		w.problem(again, http.StatusConflict, "attempt-pending")
		assert.Equal(w.t, p.next, again.at("payment", "next_action"), "%s: what to do is said again: %s", p.id, again.Raw)
	}
	assert.Empty(w.t, w.sandbox.Issuers().Issuances(issuersim.Filter{OrderID: list[0].id}))
}
