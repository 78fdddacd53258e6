package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/twoctwopsim"
)

// pc26: the name of the dear order is in a webhook about another payment; and money arrives for the dear order that is not enough.
func (w *world) pc26(c *caught) {
	cheap := w.paidUntold(c, "pc26_cheap", "stripe")
	id := "pc26_dear"
	w.atProvider(id, elsewheres["stripe"], grant("g", 1, 50_000))
	reference := w.references(id)[0]
	switched := changed(w.t, cheap.body, func(e map[string]any) { // the cheap payment, under the dear order's name
		e["data"].(map[string]any)["object"].(map[string]any)["metadata"] = map[string]any{"merchant_reference": reference, "order_id": id}
	})
	require.Equal(w.t, http.StatusOK, w.hook("stripe/default", byStripe(time.Now(), switched), switched).Status)
	w.paidOnceOver("pc26_cheap") // the payment is the cheap order's, whatever it calls itself
	w.settledPending(id)

	foreign := "pi_pc26foreign" // a payment that others made on the account, under the dear order's name
	body := changed(w.t, switched, func(e map[string]any) {
		object := e["data"].(map[string]any)["object"].(map[string]any)
		e["id"], object["id"], object["amount"], object["amount_received"] = "evt_pc26foreign", foreign, 100, 100
	})
	require.Equal(w.t, http.StatusOK, w.hook("stripe/default", byStripe(time.Now(), body), body).Status)
	w.await("a person is told of the payment that nothing explains", func() bool {
		return w.number(`SELECT count(*) FROM orphan_payments o JOIN reviews r ON r.subject_id = o.orphan_id
			WHERE o.provider_payment_id = $1 AND o.status = 'open' AND r.status = 'open' AND r.reason = 'orphan_payment'`, foreign) == 1
	})
	w.settledPending(id)

	short := "pc26_short" // the provider's own books say 100 baht for an order of 500
	w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.OddLooksPaid = true })
	invoice := w.atProvider(short, elsewheres["twoctwop"], grant("g", 1, 50_000))
	require.True(w.t, w.sandbox.TwoCTwoP().Receive(invoice, 10_000))
	w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.OddLooksPaid = false })
	n := c.genuine(w, "twoctwop", invoice)
	require.Equal(w.t, http.StatusOK, w.hook("twoctwop/default", n.header, n.body).Status)
	w.awaitReview(short, order.ReviewPaymentMismatch)
	w.settled(short)
	assert.Equal(w.t, "open", w.status(short))
	assert.Zero(w.t, w.number("SELECT count(*) FROM fulfillment_units WHERE order_id = $1 AND status <> 'planned'", short), "nothing is handed over")
	assert.Empty(w.t, w.told(short))

	odd := "pc26_odd" // the same, at a 2C2P that says AL and settles nothing by itself
	invoice = w.atProvider(odd, elsewheres["twoctwop"], grant("g", 1, 50_000))
	require.True(w.t, w.sandbox.TwoCTwoP().Receive(invoice, 10_000))
	n = c.genuine(w, "twoctwop", invoice)
	require.Equal(w.t, http.StatusOK, w.hook("twoctwop/default", n.header, n.body).Status)
	w.awaitReview(odd, order.ReviewConfirmUnknown)
	shown := w.call("GET", path(odd), "", nil)
	assert.Equal(w.t, "checking", shown.at("buyer", "state"), "the buyer is not asked for more: %s", shown.Raw)
	assert.Equal(w.t, "open", w.status(odd))
	assert.Empty(w.t, w.told(odd))
	w.inDoubt = map[string]bool{invoice: true}
	w.booksAgree()
}

// pc27: the same ids, in the other environment.
func (w *world) pc27(c *caught) {
	for _, gateway := range []string{"stripe", "omise"} {
		e, id := elsewheres[gateway], "pc27_"+gateway
		w.placeIn(id, e.psp.currency, grant("g", 1, trialTotal))
		pay := e.payment(id)
		pay["account"] = "live"
		if gateway == "omise" { // a token of live mode
			m := pay["method"].(map[string]any)
			m["token"] = strings.Replace(m["token"].(string), "tokn_test_", "tokn_", 1)
		}
		oneOf(w.t, w.call("POST", path(id)+"/payments", "pay-"+id, pay), http.StatusCreated, http.StatusAccepted)
		w.await(id+" waits for its buyer", func() bool {
			return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1 AND status = 'pending' AND environment = 'live' AND reflected_seq = observed_seq", id) == 1
		})
		payment := w.paymentID(id)
		e.finish(w, payment, true)
		live := c.paid(w, gateway, payment)
		sign := byStripe
		if gateway == "omise" {
			sign = byOmise
		}
		test := changed(w.t, live.body, func(e map[string]any) { e["livemode"] = false })
		for range 3 {
			assert.Equal(w.t, http.StatusOK, w.hook(gateway+"/live", sign(time.Now(), test), test).Status)
		}
		w.processed()
		assert.Equal(w.t, "wrong_environment", w.receipt("result", eventID(test)), "kept, without effect")
		assert.Equal(w.t, 1, w.number("SELECT count(*) FROM webhook_receipts WHERE event_id = $1", eventID(test)))
		assert.Positive(w.t, w.metric("orderflow_webhooks_received_total", gateway, "wrong_environment"), "an alarm can stand on it")
		said, err := os.ReadFile(w.starter.log)
		require.NoError(w.t, err)
		assert.Contains(w.t, string(said), "webhook of another environment than its account's")
		// The same about the account in test mode: there is no such payment there.
		assert.Equal(w.t, http.StatusOK, w.hook(gateway+"/default", sign(time.Now(), test), test).Status)
		w.settledLive(id)
		assert.Equal(w.t, http.StatusOK, w.hook(gateway+"/live", sign(time.Now(), live.body), live.body).Status, "the id is not used up by it")
		w.paidOnceOver(id)
	}
	w.booksAgree()
}

func (w *world) settledLive(id string) {
	w.t.Helper()
	assert.Equal(w.t, "open", w.status(id))
	assert.Equal(w.t, "pending", w.text("SELECT status FROM payment_attempts WHERE order_id = $1", id))
	assert.Zero(w.t, w.number("SELECT count(*) FROM observations WHERE order_id = $1 AND source <> 'send'", id), "nobody even looked")
}

// odd are events of shapes that have broken others, about a payment that waits for its buyer.
func odd(gateway, payment, reference string) [][]byte {
	var out [][]byte
	add := func(format string, args ...any) { out = append(out, []byte(fmt.Sprintf(format, args...))) }
	switch gateway {
	case "stripe":
		event := func(kind, data string) {
			add(`{"id":"evt_odd%d","object":"event","type":%q,"livemode":false,"created":%d%s}`, len(out), kind, time.Now().Unix(), data)
		}
		object := func(more string) string {
			return fmt.Sprintf(`,"data":{"object":{"id":%q,"object":"payment_intent"%s}}`, payment, more)
		}
		event("payment_intent.processing", object(`,"status":"processing","latest_charge":null,"next_action":null,"last_payment_error":null,"metadata":null,"customer":null`))
		event("payment_intent.succeeded", object(`,"status":"REVIEW","amount":600,"currency":"jpy"`))
		event("payment_intent.payment_failed", object(`,"status":"REVIEW"`))
		event("payment_intent.succeeded", object(`,"status":"succeeded","amount":"600","amount_received":"600","latest_charge":null`))
		event("payment_intent.canceled", object(`,"status":null,"amount":null,"currency":null`))
		event("payment_intent.teleported", object(`,"status":7`))
		event("payment_intent.succeeded", "")
		event("payment_intent.succeeded", `,"data":null`)
		event("payment_intent.succeeded", `,"data":{"object":null}`)
		event("payment_intent.succeeded", `,"data":[]`)
		event("charge.succeeded", fmt.Sprintf(`,"data":{"object":{"object":"charge","payment_intent":%q,"payment_method_details":{"card":null},"refunds":null}}`, payment))
		event("charge.updated", `,"data":{"object":{"object":"charge","payment_intent":null}}`)
		event("v2.core.something.new", `,"data":{"object":{"id":"x"}},"livemode":null`)
	case "omise":
		event := func(key, data string) {
			add(`{"object":"event","id":"evnt_test_odd%d","livemode":false,"key":%q%s}`, len(out), key, data)
		}
		charge := func(more string) string { return fmt.Sprintf(`,"data":{"object":"charge","id":%q%s}`, payment, more) }
		event("charge.complete", charge(`,"status":"REVIEW","card":null,"source":null,"amount":"600","metadata":null,"failure_code":null`))
		event("charge.complete", charge(`,"status":"successful","paid":null,"card":null`))
		event("charge.complete", charge(`,"status":"failed","failure_code":null`))
		event("charge.complete", charge(`,"status":null`))
		event("charge.complete", "")
		event("charge.complete", `,"data":null`)
		event("charge.complete", `,"data":"chrg_test_1"`)
		event("refund.create", `,"data":{"object":"refund","charge":null}`)
		event("teleport.create", `,"data":{"object":"teleport"}`)
	case "twoctwop":
		for i, more := range []map[string]any{
			{"respCode": "9999", "amount": nil, "cardNo": nil, "approvalCode": nil},
			{"respCode": "2001", "amount": 600},
			{"respCode": "ZZZZ", "amount": "six"},
			{"respCode": "0000", "amount": nil, "currencyCode": nil},
		} {
			claims := jwt.MapClaims{"merchantID": "E2E01", "invoiceNo": payment, "tranRef": fmt.Sprint("odd", i)}
			maps.Copy(claims, more)
			token, _ := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(merchantSecret))
			add(`{"payload":%q}`, token)
		}
	case "toss":
		data := func(more string) {
			add(`{"eventType":"PAYMENT_STATUS_CHANGED","createdAt":"2026-06-05T16:58:%02d.000000","data":{"paymentKey":%q,"orderId":%q%s}}`, len(out), payment, reference, more)
		}
		data(`,"status":"REVIEW","card":null,"cancels":null,"totalAmount":"600"`)
		data(`,"status":null,"cancels":null,"virtualAccount":null,"secret":null`)
		data(`,"status":"ABORTED","failure":null`)
		data(`,"status":["DONE"],"totalAmount":null`)
		add(`{"eventType":"TELEPORTED","createdAt":null,"data":{"id":"x"}}`)
		add(`{"eventType":"METHOD_UPDATED","data":null}`)
	}
	return out
}

func (w *world) pc51(c *caught) {
	gateways := slices.Sorted(maps.Keys(elsewheres))
	payments := map[string]string{}
	before, sent := w.number("SELECT count(*) FROM webhook_receipts"), 0
	for _, gateway := range gateways {
		id := "pc51_" + gateway
		payments[gateway] = w.atProvider(id, elsewheres[gateway])
		for _, body := range odd(gateway, payments[gateway], w.references(id)[0]) {
			header := unsigned()
			switch gateway {
			case "stripe":
				header = byStripe(time.Now(), body)
			case "omise":
				header = byOmise(time.Now(), body)
			}
			a := w.hook(gateway+"/default", header, body)
			assert.Equal(w.t, http.StatusOK, a.Status, "%s: %s", body, a.Raw)
			sent++
		}
	}
	w.processed()
	assert.Equal(w.t, before+sent, w.number("SELECT count(*) FROM webhook_receipts"), "every one is kept")
	assert.Empty(w.t, w.sinceStart("panic"))
	for _, gateway := range gateways {
		w.settledPending("pc51_" + gateway)
		elsewheres[gateway].finish(w, payments[gateway], true)
		n := c.paid(w, gateway, payments[gateway])
		assert.Equal(w.t, http.StatusOK, w.hook(gateway+"/default", n.header, n.body).Status)
	}
	for _, gateway := range gateways {
		w.paidOnceOver("pc51_" + gateway)
	}
	w.booksAgree()
}

// sinceStart are the lines of the starter's log that hold a word.
func (w *world) sinceStart(word string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.starter.log)
	require.NoError(w.t, err)
	var out []string
	for l := range strings.SplitSeq(string(b), "\n") {
		if strings.Contains(l, word) {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

func (w *world) pc52(c *caught) {
	n := w.paidUntold(c, "pc52", "stripe")
	body := changed(w.t, n.body, func(e map[string]any) {
		e["api_version"], e["context"], e["snapshot"] = "2099-01-01.x", map[string]any{"deep": []any{nil, 1, "x"}}, nil
		object := e["data"].(map[string]any)["object"].(map[string]any)
		object["quantum"], object["next_action"], object["payment_details"] = true, nil, map[string]any{"amount": "600"}
	})
	a := w.hook("stripe/default", byStripe(time.Now(), body), body)
	assert.Equal(w.t, http.StatusOK, a.Status, "%s", a.Raw)
	w.paidOnceOver("pc52")
	assert.Equal(w.t, "signed", w.receipt("proof", eventID(body)))
	w.booksAgree()
}

// pc53 shifts the time of signing instead of the server's clock, which comes to the same. The seconds at the window's edge are in
// gateways/stripe/webhook_test.go; here a slow machine may take some on the way.
func (w *world) pc53(c *caught) {
	const minute = time.Minute
	var ids []string
	for i, sent := range []struct {
		off   time.Duration
		taken bool
	}{
		{-5*minute + 20*time.Second, true},
		{-5*minute - time.Second, false},
		{4 * minute, true}, // our clock four minutes slow
		{-4 * minute, true},
		{5*minute + 30*time.Second, false},
		{10 * 365 * 24 * time.Hour, false},
		{-10 * 365 * 24 * time.Hour, false},
	} {
		for gateway, sign := range map[string]func(time.Time, []byte) http.Header{"stripe": byStripe, "omise": byOmise} {
			id := fmt.Sprintf("pc53_%s_%d", gateway, i)
			ids = append(ids, id)
			n := w.paidUntold(c, id, gateway)
			a := w.hook(gateway+"/default", sign(time.Now().Add(sent.off), n.body), n.body)
			if sent.taken {
				assert.Equal(w.t, http.StatusOK, a.Status, "%s: %s", sent.off, a.Raw)
				continue
			}
			assert.True(w.t, a.Status >= 400 && a.Status < 500, "%s: %d", sent.off, a.Status)
			assert.NotEmpty(w.t, a.Body["detail"], "with a reason: %s", a.Raw)
			assert.Zero(w.t, w.number("SELECT count(*) FROM webhook_receipts WHERE event_id = $1", eventID(n.body)))
		}
	}
	for _, id := range ids {
		w.paidOnceOver(id) // what was refused, the sweep finds
	}
	assert.Contains(w.t, w.sinceStart("webhook refused"), "more than five minutes", "the reason is in the log")
	assert.Positive(w.t, w.metric("orderflow_webhook_clock_skew_seconds_count", "stripe"))
	w.booksAgree()
}

// pc17Sweep: the buyer pays and closes the browser, and no webhook comes.
func (w *world) pc17Sweep() {
	before := w.number("SELECT count(*) FROM webhook_receipts")
	began := map[string]time.Time{}
	for gateway, e := range elsewheres {
		id := "pc17_swept_" + gateway
		e.finish(w, w.atProvider(id, e), true)
		began[id] = time.Now()
	}
	for id, at := range began {
		w.paidOnceOver(id)
		w.t.Logf("%s: found %s after it was paid; the sweep's period and the wait between looks are one second here", id, time.Since(at).Round(time.Millisecond))
	}
	assert.Equal(w.t, before, w.number("SELECT count(*) FROM webhook_receipts"), "no webhook told")
	w.booksAgree()
}
