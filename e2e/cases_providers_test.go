package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
)

// Goal: the public cases about keys, times and virtual accounts, at the providers they are about. Method: a provider that holds,
// keeps or forgets its answers on demand; times are moved in the database. Not covered: amounts and names (cases_wire_test.go).

// confirms are the confirms of an order on the wire, the same for both providers of these cases.
type confirmed struct {
	Key, Body string
	Status    int
}

func (w *world) confirms(x *trial) []confirmed {
	w.t.Helper()
	var out []confirmed
	if x.provider() == &toss {
		for _, e := range w.sandbox.Toss().Writes(tosssim.Filter{PathSuffix: "/confirm", MerchantReference: w.references(x.name)[0]}) {
			out = append(out, confirmed{e.Key, e.Body, e.Status})
		}
		return out
	}
	for _, e := range w.writes(x.name, "/confirm") {
		out = append(out, confirmed{e.Key, e.Body, e.Status})
	}
	return out
}

// conflicts counts the answers that say the key is in use.
func conflicts(list []confirmed) int {
	n := 0
	for _, c := range list {
		if c.Status == http.StatusConflict {
			n++
		}
	}
	return n
}

func keysOf(list []confirmed) map[string]int {
	out := map[string]int{}
	for _, c := range list {
		out[c.Key]++
	}
	return out
}

func reads(w *world, x *trial) int64 {
	if x.provider() == &toss {
		return w.sandbox.Toss().Books(tosssim.Filter{}).Reads
	}
	return w.sandbox.Stripe().Books(stripesim.Filter{}).Reads
}

// PC-36: the first request hangs at the provider and holds the key until somebody who repeated it was told that it is in use.
func TestPC36_AKeyInUseIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("STRIPE_TIMEOUT", "1s"), with("TOSS_TIMEOUT", "1s"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "25s"))
	trials := []*trial{
		{name: "pc36_held_stripe", psp: &stripe, fault: faults.Fault{Action: faults.Slow, Delay: time.Minute}, want: done},
		{name: "pc36_held_toss", psp: &toss, fault: faults.Fault{Action: faults.Slow, Delay: time.Minute}, want: done},
		{name: "pc36_said_stripe", psp: &stripe, fault: faults.Fault{Action: faults.Status, Status: 409, Code: "idempotency_key_in_use", Times: 3}, want: done},
		{name: "pc36_said_toss", psp: &toss, fault: faults.Fault{Action: faults.Status, Status: 409, Code: "IDEMPOTENT_REQUEST_PROCESSING", Times: 3}, want: done},
	}
	for _, x := range trials {
		x.onConfirm()
	}
	for _, x := range trials[:2] {
		x.until = func() bool { return conflicts(w.confirms(x)) > 0 }
	}
	w.all(trials)
	for _, x := range trials {
		sent := w.confirms(x)
		assert.Len(t, keysOf(sent), 1, "%s: one key, and never a new one", x.name)
		for _, c := range sent {
			assert.Equal(t, sent[0].Body, c.Body, x.name)
		}
		assert.Positive(t, conflicts(sent), "%s: the key was in use: %v", x.name, sent)
		w.neverFailed(x.name)
	}
	w.booksAgree()
}

var dated = regexp.MustCompile(`20\d\d-?\d\d-?\d\d`)

// PC-37: an answer kept under the key comes back for every repeat. A new operation follows a lookup that proves that nothing
// happened, where the object can be paid only once; elsewhere it is a person's, and no later day makes another key.
func TestPC37_APoisonedKeyIsLeftOnlyByProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "3s"))
	kept := &trial{name: "pc37_stripe", psp: &stripe, fault: faults.Fault{Action: faults.StoreError, Code: "balance_insufficient"}, want: unpaid}
	left := &trial{name: "pc37_toss", psp: &toss, fault: faults.Fault{Action: faults.StoreError}, want: done}
	kept.onConfirm()
	left.onConfirm()
	w.all([]*trial{kept, left})

	renewed := w.confirms(left)
	require.Len(t, keysOf(renewed), 2, "Toss: the poisoned key, and the one after the lookup: %v", renewed)
	assert.Equal(t, 2, w.number("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'confirm' AND sends > 0", left.name))
	for key := range keysOf(append(renewed, w.confirms(kept)...)) {
		assert.NotRegexp(t, dated, key, "no key is made of a date")
	}

	// The next day a person presses the button: it is asked, and nothing is sent.
	w.aged(kept, "25 hours")
	sent, before := w.confirms(kept), reads(w, kept)
	require.Len(t, keysOf(sent), 1)
	review := w.awaitReview(kept.name, order.ReviewConfirmUnknown)
	out, errs, code := w.starterCommand(nil, "decide", "--review", string(review), "--decision", "requery_payment", "--actor", "op-1", "--reason", "the balance is there now")
	require.Zero(t, code, "%s%s", out, errs)
	w.await("looks at the provider", func() bool { return reads(w, kept) > before+2 })
	assert.Equal(t, sent, w.confirms(kept), "not under the old key, and under no other")
	assert.Equal(t, unpaid, w.cameTo(kept.name))
	w.problem(w.call("POST", path(kept.name)+"/payments", "pc37-again", stripe.payment("pc37_again", "")), http.StatusConflict, "attempt-unresolved")
	w.neverFailed(kept.name)
	w.booksAgree()
}

// aged moves an order's attempt and its writes into the past.
func (w *world) aged(x *trial, by string) {
	w.t.Helper()
	w.execute(fmt.Sprintf(`UPDATE operations SET created_at = created_at - interval '%[1]s', sent_at = sent_at - interval '%[1]s', last_sent_at = last_sent_at - interval '%[1]s' WHERE order_id = '%[2]s'`, by, x.name))
	w.execute(fmt.Sprintf(`UPDATE payment_attempts SET created_at = created_at - interval '%[1]s' WHERE order_id = '%[2]s'`, by, x.name))
}

// PC-38: the provider has forgotten the keys. One pair of payments was made and nobody heard of it, the other never arrived; both
// are looked up, and neither is sent again.
func TestPC38_AfterItsLifeAKeyIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersDie, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "2s"), with("ORDERFLOW_ANSWER_BUDGET", "1s"), with("ORDERFLOW_SWEEP_PERIOD", "500ms"), with("ORDERFLOW_SWEEP_AGAIN", "100ms"))
	var trials []*trial
	for _, p := range []*psp{&stripe, &toss} {
		made := &trial{name: "pc38_made_" + p.gateway, psp: p, fault: faults.Fault{Action: faults.LoseAnswer, Times: 1}, want: done}
		lost := &trial{name: "pc38_lost_" + p.gateway, psp: p, fault: faults.Fault{Action: faults.Drop, Times: 100000}, want: unpaid}
		made.onConfirm()
		lost.onConfirm()
		trials = append(trials, made, lost)
	}
	blind := []string{
		w.arm(faults.Fault{Target: faults.Stripe, Method: "GET", Action: faults.Drop}), w.arm(faults.Fault{Target: faults.Toss, Method: "GET", Action: faults.Drop}),
	}
	var answers []<-chan answer
	for _, x := range trials {
		answers = append(answers, w.begin(x))
	}
	for i, x := range trials {
		oneOf(t, <-answers[i], http.StatusAccepted)
		w.awaitReview(x.name, order.ReviewConfirmUnknown)
	}
	w.killWorkers()
	sent := map[string][]confirmed{}
	for _, x := range trials {
		sent[x.name] = w.confirms(x)
		w.aged(x, map[*psp]string{&stripe: "25 hours", &toss: "16 days"}[x.psp])
		w.sandbox.Faults().Remove(x.name)
	}
	w.sandbox.Stripe().PruneKeys()
	w.sandbox.Toss().PruneKeys()
	for _, id := range blind {
		w.sandbox.Faults().Remove(id)
	}
	looks := make([]string, len(trials)) // harmless faults that count who is looked at
	for i, x := range trials {
		payment := w.text("SELECT provider_payment_id FROM payment_attempts WHERE order_id = $1", x.name)
		target := map[*psp]faults.Target{&stripe: faults.Stripe, &toss: faults.Toss}[x.psp]
		looks[i] = w.arm(faults.Fault{Target: target, Method: "GET", PathContains: payment, Action: faults.Late, Delay: time.Millisecond})
	}
	w.startWorker()
	for i, x := range trials {
		if x.want == done {
			w.fired(looks[i], 1)
			w.ends(x)
			w.settled(x.name)
			continue
		}
		w.fired(looks[i], 3)
	}
	for _, x := range trials {
		assert.Equal(t, sent[x.name], w.confirms(x), "%s: nothing is sent again", x.name)
		assert.Equal(t, x.want, w.cameTo(x.name), x.name)
		w.neverFailed(x.name)
	}
	w.booksAgree()
}

// pc39Orders is how often the case is repeated. Each order is pressed twice and told of twice, so these are as many races as the
// case's 500 repeats.
const pc39Orders = 150

// PC-39: the answer, the webhook, its copies and a second press of the button are there at the same moment.
func TestPC39_StockMovesOncePerLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_LOOKUPS_PER_SECOND", "1000"))
	w.webhooks()
	_, err := w.sandbox.Webhooks().AddRule(notify.Rule{Gateway: "stripe", Kind: "payment_intent.succeeded", Copies: 1, Parallel: true})
	require.NoError(t, err)
	var lines []line
	for _, sku := range []string{"shelf-a", "shelf-b", "shelf-c"} {
		a := w.call("PUT", "/v1/stock/"+sku, "", map[string]any{"on_hand": pc39Orders})
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Raw)
		lines = append(lines, line{"sku": sku, "name": sku, "quantity": 1, "unit_amount": 100, "tax_rate": "10", "action": "stock"})
	}
	ids := numbered("pc39-%03d", pc39Orders)
	var wg sync.WaitGroup
	next := make(chan string)
	for range 12 {
		wg.Go(func() {
			for id := range next {
				a, err := w.try("POST", "/v1/orders", "place-"+id, apiKey, orderBody(id, "JPY", lines...))
				if !assert.NoError(t, err) || !assert.Equal(t, http.StatusCreated, a.Status, "%s", a.Raw) {
					continue
				}
				for _, p := range atOnce(2, func(int) answer {
					p, err := w.try("POST", path(id)+"/payments", "pay-"+id, apiKey, payBody("pm_card_visa"))
					assert.NoError(t, err)
					return p
				}) {
					oneOf(t, p, http.StatusCreated, http.StatusAccepted, http.StatusConflict)
				}
			}
		})
	}
	for _, id := range ids {
		next <- id
	}
	close(next)
	wg.Wait()
	w.await("all orders completed", func() bool {
		return w.number("SELECT count(*) FROM orders WHERE status = 'completed'") == pc39Orders
	})
	w.await("all webhooks taken", func() bool {
		return w.number("SELECT count(*) FROM webhook_receipts WHERE processed_at IS NULL") == 0 && w.number("SELECT count(*) FROM webhook_receipts WHERE event_type = 'payment_intent.succeeded'") >= pc39Orders
	})
	w.settled(ids...)
	assert.Zero(t, w.number(`SELECT count(*) FROM (SELECT order_id FROM stock_movements GROUP BY order_id
		HAVING count(*) FILTER (WHERE kind = 'commit') <> 3 OR count(*) FILTER (WHERE kind = 'reserve') <> 3 OR count(*) <> 6) x`), "three lines, three movements out")
	assert.Equal(t, 3*pc39Orders, w.number("SELECT count(*) FROM stock_movements WHERE kind = 'commit'"))
	assert.Zero(t, w.number("SELECT sum(on_hand) + sum(reserved) FROM stock"), "what was there is what went out")
	w.booksAgree()
}

func TestTossCases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.webhooks()
	w.sub("PC-63 an account to pay into is no payment", (*world).pc63)
	w.sub("PC-62 a callback that says canceled is looked up, and lies", (*world).pc62Lie)
	w.sub("PC-62 a cancel at the provider", (*world).pc62)
	w.sub("a redirect about another payment, order or amount sends nothing", (*world).tossRedirect)
	w.booksAgree()
}

func (w *world) pc63() {
	list := w.ask("pc63", waysThat(named("toss_account")))
	w.await("the callback that only says that it waits", func() bool {
		return w.number("SELECT count(*) FROM webhook_receipts WHERE says = 'pending' AND processed_at IS NOT NULL AND merchant_reference = $1", w.references(list[0].id)[0]) > 0
	})
	w.shownAsWaiting(list)
	assert.Empty(w.t, w.sandbox.Receiver().Effects(receiver.Filter{OrderID: list[0].id}), "no receipt")
	assert.Zero(w.t, w.captured(list[0].id))
	w.booksAgree()
}

// deposited is an order that a deposit has completed.
func (w *world) deposited(tag string) *pending {
	w.t.Helper()
	list := w.ask(tag, waysThat(named("toss_account")))
	require.True(w.t, list[0].act(w, list[0].payment, true))
	w.paidOff(list)
	return list[0]
}

// tossCall is the merchant at Toss.
func (w *world) tossCall(method, path, body string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.sandbox.TossURL()+path, strings.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(w.env["TOSS_SECRET_KEY"]+":")))
	req.Header.Set("Content-Type", "application/json")
	a := w.do(req)
	require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Raw)
	return a
}

// callback is a DEPOSIT_CALLBACK by hand: no event type, no payment key, a time without an offset.
func (w *world) callback(p *pending, secret, status, transaction string) answer {
	w.t.Helper()
	body := fmt.Sprintf(`{"createdAt":"2026-06-05T16:58:18.000000","secret":%q,"status":%q,"transactionKey":%q,"orderId":%q}`, secret, status, transaction, w.references(p.id)[0])
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", w.base+"/webhooks/toss/default", strings.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	a := w.do(req)
	assert.Less(w.t, time.Since(began), 5*time.Second, "Toss waits ten seconds")
	return a
}

func (w *world) pc62Lie() {
	p := w.deposited("pc62_lie")
	secret, _ := w.tossCall("GET", "/v1/payments/"+p.payment, "").at("secret").(string)
	require.NotEmpty(w.t, secret)
	looks := "SELECT count(*) FROM observations WHERE order_id = $1 AND source = 'lookup'"
	before := w.number(looks, p.id)
	for range 8 {
		assert.Equal(w.t, http.StatusOK, w.callback(p, secret, "CANCELED", "t2").Status)
	}
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM webhook_receipts WHERE merchant_reference = $1 AND says <> 'pending' AND says <> 'succeeded'", w.references(p.id)[0]), "eight deliveries, one event")
	w.await("a look", func() bool { return w.number(looks, p.id) > before })
	assert.Equal(w.t, http.StatusUnauthorized, w.callback(p, "ps_x", "CANCELED", "t3").Status, "another payment's secret proves nothing")
	w.settled(p.id)
	assert.Equal(w.t, done, w.cameTo(p.id), "the provider still has the money")
	w.booksAgree()
}

func (w *world) pc62() {
	p := w.deposited("pc62")
	body := `{"cancelReason":"at the provider's own page","refundReceiveAccount":{"bank":"20","accountNumber":"1002003004","holderName":"buyer"}}`
	a := w.tossCall("POST", "/v1/payments/"+p.payment+"/cancel", body)
	require.Equal(w.t, "CANCELED", a.at("status"))
	secret, _ := a.at("secret").(string)
	transaction, _ := a.at("lastTransactionKey").(string)
	for range 7 {
		assert.Equal(w.t, http.StatusOK, w.callback(p, secret, "CANCELED", transaction).Status)
	}
	w.await("the money that went back is on record", func() bool {
		return w.number("SELECT coalesce(sum(refunded_minor), 0) FROM payments WHERE order_id = $1", p.id) == trialTotal
	})
	w.settled(p.id)
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payments WHERE order_id = $1", p.id))
	assert.Len(w.t, w.issuedFor(p.id), 1, "what was provided stays provided until a person decides")
	assert.Equal(w.t, "completed", w.status(p.id))
	w.booksAgree()
}

func (w *world) tossRedirect() {
	w.placeIn("redirect-a", "KRW", grant("g", 1, trialTotal))
	w.placeIn("redirect-b", "KRW", grant("g", 1, trialTotal))
	a := toss.payment("redirect-a", "")
	oneOf(w.t, w.call("POST", path("redirect-a")+"/payments", "redirect-a", a), http.StatusCreated, http.StatusAccepted)
	w.awaitStatus("redirect-a", "completed")
	w.settled("redirect-a")
	sent, attempts := w.allSent(), w.number("SELECT count(*) FROM payment_attempts")
	for name, c := range map[string]struct {
		field string
		value any
		kind  string
	}{
		"the payment key of another order":    {"token", a["method"].(map[string]any)["token"], "payment-taken"},
		"the order id of another order":       {"reference", a["method"].(map[string]any)["reference"], "payment-taken"},
		"another amount":                      {"amount", "60", "payment-invalid"},
		"an amount in another notation":       {"amount", "6e2", "payment-invalid"},
		"no amount":                           {"amount", "", "payment-invalid"},
		"an order id that Toss does not take": {"reference", "a/b", "payment-invalid"},
	} {
		body := toss.payment("redirect-b", "")
		body["method"].(map[string]any)[c.field] = c.value
		refused := w.call("POST", path("redirect-b")+"/payments", "redirect-"+strings.ReplaceAll(name, " ", "-"), body)
		w.problem(refused, http.StatusUnprocessableEntity, c.kind)
		assert.Equal(w.t, sent, w.allSent(), "%s: nothing was sent", name)
		assert.Equal(w.t, attempts, w.number("SELECT count(*) FROM payment_attempts"), "%s: nothing is kept", name)
	}
	// Nobody but Toss can know that a key belongs to an order id that was never used: it refuses, and no money moves.
	body := toss.payment("redirect-b", "")
	body["method"].(map[string]any)["reference"] = "never-used-before"
	oneOf(w.t, w.call("POST", path("redirect-b")+"/payments", "redirect-strange", body), http.StatusCreated, http.StatusAccepted)
	w.await("the strange attempt closed", func() bool { return w.cameTo("redirect-b").attempt == order.AttemptClosed })
	assert.Zero(w.t, w.captured("redirect-b"))
	w.booksAgree()
}
