package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
)

// Goal: the public cases of how webhooks arrive - doubled, early, late, in another order, beside the buyer's return, or not at
// all - change nothing about what happens once. Method: payments that the buyer finishes at the provider, at all four; the
// sandbox sends its own webhooks by rules. Nobody looks at a pending payment by himself in the first world, so what moves an order
// there is the webhook or the return. Not covered here: forged and broken webhooks (cases_webhooks_forged_test.go).

func TestWebhookDeliveryCases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_PUBLIC_URL", "https://pay.example"), with("ORDERFLOW_REVIEW_CHECK_EVERY", "1h"), with("ORDERFLOW_SWEEP_MIN_AGE", "1h"))
	w.webhooks()
	w.sub("PC-11 fifty copies of one event in one moment", (*world).pc11)
	w.sub("PC-12 three copies side by side, at every provider", (*world).pc12)
	w.sub("PC-15 the late end of an old attempt does not touch the paid order", (*world).pc15)
	w.sub("PC-16 the buyer comes back while the payment is pending", (*world).pc16)
	w.sub("PC-17 the browser is closed: the webhook alone moves the order", (*world).pc17Webhook)
	w.sub("PC-22 the webhook comes before our own row", (*world).pc22)
	w.sub("PC-23 events in another order", (*world).pc23)
}

func (w *world) pc11() {
	id := "pc11"
	intent := w.atProvider(id, elsewheres["stripe"])
	mute := w.rule(notify.Rule{Gateway: "stripe", BodyContains: intent, Lose: true})
	elsewheres["stripe"].finish(w, intent, true)
	event := w.stripeEvents(intent, "payment_intent.succeeded")[0]
	looks := w.number("SELECT count(*) FROM observations WHERE order_id = $1 AND source = 'lookup'", id)
	answers := atOnce(50, func(int) answer {
		a, err := w.tryHook("stripe/default", byStripe(time.Now(), event), event)
		assert.NoError(w.t, err)
		return a
	})
	for _, a := range answers {
		assert.Equal(w.t, http.StatusOK, a.Status, "%s", a.Raw)
	}
	w.paidOnceOver(id)
	w.processed()
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM webhook_receipts WHERE event_id = $1", eventID(event)), "one row in the inbox")
	assert.Equal(w.t, looks+1, w.number("SELECT count(*) FROM observations WHERE order_id = $1 AND source = 'lookup'", id), "one look for fifty copies")
	w.sandbox.Webhooks().RemoveRule(mute)
	w.booksAgree()
}

func (w *world) pc12() {
	copies := w.rule(notify.Rule{Copies: 2, Parallel: true})
	for gateway, e := range elsewheres {
		id := "pc12_" + gateway
		payment := w.atProvider(id, e)
		e.finish(w, payment, true)
		w.paidOnceOver(id)
	}
	w.delivered()
	w.sandbox.Webhooks().RemoveRule(copies)
	for _, d := range w.sandbox.Webhooks().Log(notify.Filter{}) {
		assert.Contains(w.t, []notify.Outcome{notify.Taken, notify.Lost}, d.Outcome, "every copy is taken at its first try: %+v", d)
	}
	for gateway := range elsewheres {
		w.paidOnceOver("pc12_" + gateway)
	}
	w.booksAgree()
}

func (w *world) pc15() {
	id, e := "pc15", elsewheres["omise"]
	first := w.atProvider(id, e)
	held := w.rule(notify.Rule{Gateway: "omise", BodyContains: first, Hold: true})
	e.finish(w, first, false)
	w.comesBack("GET", w.returnPath(id)) // the page finds out that it failed; the provider's own event is late
	w.await("the first attempt over", func() bool {
		return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1 AND closed_at IS NOT NULL", id) == 1
	})
	second := w.call("POST", path(id)+"/payments", "pay2-"+id, omise.payment(id+"_2", ""))
	oneOf(w.t, second, http.StatusCreated, http.StatusAccepted)
	w.awaitStatus(id, "completed")
	w.settled(id)
	before := w.standing(id)

	n, ok := w.sandbox.Webhooks().Release(held)
	require.True(w.t, ok)
	require.Positive(w.t, n, "the failure was told late")
	w.delivered()
	for i, charge := range []string{
		fmt.Sprintf(`{"object":"charge","id":%q,"status":"failed","failure_code":"timeout","paid":false,"amount":600,"currency":"THB"}`, first),
		fmt.Sprintf(`{"object":"charge","id":%q,"status":"expired","paid":false}`, first),
		fmt.Sprintf(`{"object":"charge","id":%q,"status":"successful","paid":true}`, first), // it never was: the look says so
	} {
		body := []byte(fmt.Sprintf(`{"object":"event","id":"evnt_test_pc15%d","livemode":false,"key":"charge.complete","data":%s}`, i, charge))
		a := w.hook("omise/default", byOmise(time.Now(), body), body)
		assert.Equal(w.t, http.StatusOK, a.Status, "%s", a.Raw)
		w.processed()
	}
	w.settled(id)
	assert.Equal(w.t, before, w.standing(id), "order, attempts, goods and mails are as they were")
	assert.Equal(w.t, "closed", w.text("SELECT status FROM payment_attempts WHERE provider_payment_id = $1", first))
	w.sandbox.Webhooks().RemoveRule(held)
	w.booksAgree()
}

// standing is all of an order that a late event could spoil.
func (w *world) standing(id string) []string {
	w.t.Helper()
	return []string{
		w.text("SELECT status FROM orders WHERE order_id = $1", id),
		w.text("SELECT string_agg(attempt_id || ' ' || status, ',' ORDER BY attempt_id) FROM payment_attempts WHERE order_id = $1", id),
		w.text("SELECT coalesce(string_agg(unit_id || ' ' || status, ',' ORDER BY unit_id), '') FROM fulfillment_units WHERE order_id = $1", id),
		w.text("SELECT coalesce(string_agg(type, ',' ORDER BY event_id), '') FROM outbox_events WHERE order_id = $1", id),
		w.text("SELECT count(*)::text FROM transitions WHERE order_id = $1", id),
		w.text("SELECT count(*)::text FROM reviews WHERE order_id = $1", id),
		strings.Join(w.told(id), ","),
	}
}

func (w *world) pc16() {
	stock := w.call("PUT", "/v1/stock/pc16", "", map[string]any{"on_hand": 10})
	require.Less(w.t, stock.Status, 300, "%s", stock.Raw)
	payments := map[string]string{}
	for _, gateway := range []string{"stripe", "omise", "twoctwop"} {
		id := "pc16_" + gateway
		payments[id] = w.atProvider(id, elsewheres[gateway], line{"sku": "pc16", "name": "Mug", "quantity": 2, "unit_amount": 300, "tax_rate": "10", "action": "stock"})
	}
	ids := slices.Sorted(func(yield func(string) bool) {
		for id := range payments {
			if !yield(id) {
				return
			}
		}
	})
	back := atOnce(len(ids), func(i int) answer {
		return w.comesBack("GET", w.returnPath(ids[i])+"?redirect_status=failed&cancelled=true")
	})
	for i, id := range ids {
		assert.Equal(w.t, http.StatusSeeOther, back[i].Status, "%s", back[i].Raw)
		assert.Equal(w.t, backTo(id), back[i].Header.Get("Location"), "to the shop's page, with nothing of what the browser carried")
		shown := w.call("GET", path(id), "", nil)
		assert.Contains(w.t, []any{"checking", "action_needed"}, shown.at("buyer", "state"), "%s", shown.Raw)
		assert.Contains(w.t, shown.at("buyer", "message"), "Do not", "the buyer is told not to pay twice")
		assert.Equal(w.t, false, shown.at("buyer", "can_pay"))
		assert.Equal(w.t, "open", shown.at("states", "order"))
		assert.Equal(w.t, "pending", w.text("SELECT status FROM payment_attempts WHERE order_id = $1", id))
		assert.Equal(w.t, "reserve", w.text("SELECT string_agg(kind, ',') FROM stock_movements WHERE order_id = $1", id), "nothing is put back on the shelf")
		w.neverFailed(id)
	}
	assert.Equal(w.t, 6, w.number("SELECT reserved FROM stock WHERE sku = 'pc16'"))
	for _, id := range ids {
		elsewheres[strings.TrimPrefix(id, "pc16_")].finish(w, payments[id], true)
	}
	for _, id := range ids {
		w.paidOnceOver(id)
	}
	w.booksAgree()
}

func (w *world) pc17Webhook() {
	for gateway, e := range elsewheres {
		id := "pc17_" + gateway
		e.finish(w, w.atProvider(id, e), true)
	}
	for gateway := range elsewheres {
		w.paidOnceOver("pc17_" + gateway)
		assert.Positive(w.t, w.number(`SELECT count(*) FROM webhook_receipts r JOIN payment_attempts a ON a.gateway = r.gateway
			AND (r.provider_payment_id = a.provider_payment_id OR r.merchant_reference = a.merchant_reference) WHERE a.order_id = $1 AND r.result = 'look'`, "pc17_"+gateway))
	}
	w.booksAgree()
}

// holds makes the first writing of a kind for one order wait, as a database does that is busy elsewhere.
func (w *world) holds(id, event, when string) (stop func()) {
	w.t.Helper()
	name := strings.NewReplacer("-", "_", " ", "_").Replace(id)
	w.execute("CREATE SEQUENCE held_" + name)
	w.execute(fmt.Sprintf(`CREATE FUNCTION hold_%[1]s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN
			IF NEW.order_id = '%[2]s' AND (%[3]s) AND nextval('held_%[1]s') = 1 THEN
				PERFORM pg_sleep(3); -- the case's own three seconds
			END IF;
			RETURN NEW;
		END $$`, name, id, when))
	table := event[strings.LastIndex(event, " ")+1:]
	w.execute(fmt.Sprintf("CREATE TRIGGER hold_%[1]s BEFORE %[2]s FOR EACH ROW EXECUTE FUNCTION hold_%[1]s()", name, event))
	return func() {
		assert.Equal(w.t, 1, w.number("SELECT count(*) FROM held_"+name+" WHERE is_called"), "%s was held", id)
		w.execute("DROP TRIGGER hold_" + name + " ON " + table)
	}
}

func (w *world) pc22() {
	for what, hold := range map[string]struct{ event, when string }{
		"payment":     {"INSERT ON payments", "true"},
		"observation": {"INSERT ON observations", "NEW.source = 'send' AND NEW.outcome = 'succeeded'"},
		"binding":     {"UPDATE ON payment_attempts", "NEW.provider_payment_id <> OLD.provider_payment_id"},
	} {
		id := "pc22_" + what
		w.place(id, grant("g", 1, 500))
		stop := w.holds(id, hold.event, hold.when)
		a := w.pay(id, id+"-k")
		oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
		assert.NotContains(w.t, []any{"declined", nil}, a.at("outcome"), "the buyer sees no error: %s", a.Raw)
		w.paidOnceOver(id)
		w.delivered()
		stop()
		assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1", id))
		assert.Zero(w.t, w.number(`SELECT count(*) FROM webhook_receipts r JOIN payment_attempts a ON a.provider_payment_id = r.provider_payment_id
			WHERE a.order_id = $1 AND r.result NOT IN ('look', 'known')`, id), "every event found its row")
		w.neverFailed(id)
	}
	// The answer that names the intent is late: the events come first, and those that name it only by its id have to wait.
	id := "pc22_late"
	w.place(id, grant("g", 1, 500))
	f := w.arm(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.Late, Delay: 1500 * time.Millisecond, Times: 1})
	answer := w.later("POST", path(id)+"/payments", id+"-k", payBody("pm_card_visa"))
	w.fired(f, 1)
	oneOf(w.t, <-answer, http.StatusCreated, http.StatusAccepted)
	w.paidOnceOver(id)
	w.booksAgree()
}

func (w *world) pc23() {
	id := "pc23"
	mute := w.rule(notify.Rule{Gateway: "stripe", Lose: true}) // before there is anything to tell
	intent := w.atProvider(id, elsewheres["stripe"])
	elsewheres["stripe"].finish(w, intent, true)
	newer := w.stripeEvents(intent, "payment_intent.succeeded")[0]
	assert.Equal(w.t, http.StatusOK, w.hook("stripe/default", byStripe(time.Now(), newer), newer).Status)
	w.paidOnceOver(id)
	before := w.standing(id)
	waiting := w.stripeEvents(intent, "payment_intent.requires_action")[0]
	processing := changed(w.t, newer, func(e map[string]any) {
		e["id"], e["type"], e["created"] = "evt_pc23processing", "payment_intent.processing", time.Now().Add(-time.Minute).Unix()
		object := e["data"].(map[string]any)["object"].(map[string]any)
		object["status"], object["amount_received"], object["latest_charge"] = "processing", 0, nil
	})
	for _, older := range [][]byte{waiting, processing} {
		assert.Equal(w.t, http.StatusOK, w.hook("stripe/default", byStripe(time.Now(), older), older).Status)
		w.processed()
		w.settled(id)
		assert.Equal(w.t, "look", w.receipt("result", eventID(older)), "recorded, and looked at again: what it says is not taken over")
		assert.Less(w.t, w.number("SELECT extract(epoch FROM provider_at)::int FROM webhook_receipts WHERE event_id = $1", eventID(older)),
			w.number("SELECT extract(epoch FROM provider_at)::int + 1 FROM webhook_receipts WHERE event_id = $1", eventID(newer)), "its own time shows that it is old")
	}
	assert.Equal(w.t, before, w.standing(id), "paid stays paid")
	w.sandbox.Webhooks().RemoveRule(mute)

	mixed := w.rule(notify.Rule{Shuffle: 500 * time.Millisecond, Copies: 1})
	for gateway, e := range elsewheres {
		e.finish(w, w.atProvider("pc23_"+gateway, e), true)
	}
	for gateway := range elsewheres {
		w.paidOnceOver("pc23_" + gateway)
	}
	w.delivered()
	w.sandbox.Webhooks().RemoveRule(mixed)
	for gateway := range elsewheres {
		w.paidOnceOver("pc23_" + gateway)
		w.neverFailed("pc23_" + gateway)
	}
	w.booksAgree()
}

// TestPC13_WebhookReturnCheckoutSweepAndPersonAtOnce has an outcome unknown with everybody about to find out, and then lets all of
// them do so in one moment.
func TestPC13_WebhookReturnCheckoutSweepAndPersonAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_PUBLIC_URL", "https://pay.example"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "1s"))
	w.webhooks()
	for _, p := range []*psp{&stripe, &toss} {
		w.sub("PC-13 "+p.gateway, func(w *world) { w.pc13(p) })
	}
}

func (w *world) pc13(p *psp) {
	id := "pc13_" + p.gateway
	x := &trial{name: id, psp: p, fault: faults.Fault{Action: faults.LoseAnswer}}
	x.onConfirm()
	w.placeIn(id, p.currency, grant("g", 1, trialTotal))
	held := w.rule(notify.Rule{Gateway: p.gateway, Hold: true})
	w.arm(x.fault)
	down := w.arm(faults.Fault{Target: x.fault.Target, Method: "GET", Action: faults.Drop})
	repeats := w.arm(faults.Fault{Target: x.fault.Target, PathSuffix: "/confirm", Action: faults.Drop}) // a repeat would find out as well
	oneOf(w.t, w.call("POST", path(id)+"/payments", id+"-k", x.payment()), http.StatusAccepted)
	review := string(w.awaitReview(id, order.ReviewConfirmUnknown))
	w.nobodyLooks(id, down)
	w.sandbox.Faults().Remove(down)
	w.sandbox.Faults().Remove(repeats)

	answers := atOnce(6, func(i int) answer {
		switch i {
		case 0: // the browser's confirm again
			a, err := w.try("POST", path(id)+"/payments", id+"-k", apiKey, x.payment())
			assert.NoError(w.t, err)
			return a
		case 1: // an impatient second one
			a, err := w.try("POST", path(id)+"/payments", id+"-k2", apiKey, x.payment())
			assert.NoError(w.t, err)
			return a
		case 2:
			n, _ := w.sandbox.Webhooks().Release(held)
			assert.Positive(w.t, n)
		case 3: // the sweep's turn comes
			w.execute("UPDATE payment_attempts SET next_check_at = now() WHERE order_id = '" + id + "'")
		case 4:
			_, _, code := w.starterCommand(nil, "decide", "--review", review, "--decision", "requery_payment", "--actor", "op-1", "--reason", "the provider is back")
			assert.Contains(w.t, []int{0, 2}, code, "decided, or refused because it was found out before")
		case 5:
			if p == &stripe {
				return w.comesBack("GET", w.returnPath(id))
			}
		}
		return answer{Status: http.StatusOK}
	})
	for i, a := range answers {
		oneOf(w.t, a, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusConflict, http.StatusSeeOther)
		assert.Less(w.t, a.Status, 500, i)
	}
	w.paidOnceOver(id)
	w.delivered()
	w.paidOnceOver(id)
	again := w.call("POST", path(id)+"/payments", id+"-k", x.payment())
	assert.Equal(w.t, "succeeded", again.at("outcome"), "everybody reads the same: %s", again.Raw)
	w.problem(w.call("POST", path(id)+"/payments", id+"-k3", x.payment()), 409, "already-paid")
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1", id))
	w.neverFailed(id)
	w.sandbox.Webhooks().RemoveRule(held)
	w.booksAgree()
}
