package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/stripesim"
)

// Goal: money that was held, or captured in part, is shown as what it is and goes back; and what one attempt comes to, or is used for,
// is no other attempt's and no other order's (PC-21, PC-28, PC-40, PC-47).
// Method: one world with webhooks; the merchant captures by hand at the provider. Not covered: a capture that grows later.

func TestPC21_PC28_PC40_PC47_APartOfTheMoneyAndOneOfTheAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.webhooks()
	w.sub("PC-47 a part is captured and goes back", func(w *world) { w.pc47Refunded() })
	w.sub("PC-47 a part is captured and the order is canceled", func(w *world) { w.pc47Canceled() })
	w.sub("PC-47 nothing is captured and the order is canceled", func(w *world) { w.pc47Released() })
	w.sub("PC-21 the cancel of another attempt", func(w *world) { w.pc21() })
	w.sub("PC-28 the payment of another order", func(w *world) { w.pc28() })
	w.sub("PC-40 the stock goes back once", func(w *world) { w.pc40() })
	w.booksAgree()
}

// heldFor is an order of 22.94 EUR whose money the bank only holds.
func (w *world) heldFor(id string) {
	w.t.Helper()
	w.placeIn(id, "EUR", grant("g", 1, 2294))
	a := w.call("POST", path(id)+"/payments", "pay-"+id, payBody("pm_card_visa_heldForCapture__"+id))
	oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
	w.await(id+" held", func() bool { return w.cameTo(id).attempt == order.AttemptPending })
}

func (w *world) pc47Refunded() {
	t, id := w.t, "pc47"
	w.heldFor(id)
	require.NoError(w.t, w.sandbox.Stripe().Capture(w.paymentID(id), 1000))
	shown := w.awaitPayment(id, "partly_captured")
	w.awaitReview(id, order.ReviewPaymentMismatch)
	assert.Equal(t, "open", shown.at("states", "order"), "a part pays for nothing")
	assert.Equal(t, "contact", shown.at("buyer", "state"))
	assert.Equal(t, "partly_captured", shown.at("attempts", 0, "outcome"))
	assert.EqualValues(t, 1000, shown.at("payments", 0, "captured"))
	assert.EqualValues(t, 1294, shown.at("payments", 0, "released"))
	w.explained(id, "captured 10.00 EUR, refunded 0.00 EUR", "12.94 EUR was never taken and is released", "payment_mismatch (partly_captured)")
	w.problem(w.pay(id, "again-"+id), http.StatusConflict, "partly-captured")
	w.problem(w.refund(id, "over-"+id, ask(1001)), http.StatusConflict, "more-than-left")
	w.refunded(id, "back-"+id, 1000)
	shown = w.awaitPayment(id, "partly_captured")
	assert.EqualValues(t, 1000, shown.at("payments", 0, "refunded"), "the part went back, and is not shown as the whole")
	w.explained(id, "captured 10.00 EUR, refunded 10.00 EUR", "12.94 EUR was never taken and is released")
	w.cancel(id)
	w.awaitCanceled(id)
	w.went(id, 1000, 1)
	assert.Zero(t, w.number("SELECT count(*) FROM fulfillment_units WHERE order_id = $1", id))
}

func (w *world) pc47Canceled() {
	id := "pc47_canceled"
	w.heldFor(id)
	require.NoError(w.t, w.sandbox.Stripe().Capture(w.paymentID(id), 1000))
	w.awaitPayment(id, "partly_captured")
	w.cancel(id)
	w.awaitCanceled(id)
	w.await(id+": the part is back", func() bool { m, _ := w.backAt(id); return m == 1000 })
	w.went(id, 1000, 1)
	w.awaitPayment(id, "refunded")
}

func (w *world) pc47Released() {
	id := "pc47_released"
	w.heldFor(id)
	w.cancel(id)
	w.awaitCanceled(id)
	assert.Zero(w.t, w.captured(id))
	held := w.sandbox.Stripe().Charges(stripesim.Filter{MerchantReference: w.references(id)[0]})
	require.Len(w.t, held, 1)
	assert.True(w.t, held[0].Voided, "the bank holds nothing any more")
}

func (w *world) pc21() {
	t, id := w.t, "pc21"
	w.place(id, grant("g", 1, trialTotal))
	w.call("POST", path(id)+"/payments", "first-"+id, payBody("pm_card_visa_chargeDeclined"))
	const closed = "SELECT count(*) FROM payment_attempts WHERE order_id = $1 AND status = 'closed'"
	w.await("the first attempt is over", func() bool { return w.number(closed, id) == 1 })
	w.paid(id, "second-"+id)
	events := w.stripeEvents(w.text("SELECT provider_payment_id FROM payment_attempts WHERE order_id = $1 AND status = 'closed'", id), "payment_intent.canceled")
	for range 3 {
		a := w.hook("stripe/default", byStripe(time.Now(), events[0]), events[0])
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Raw)
	}
	w.await("all webhooks taken", func() bool { return w.number("SELECT count(*) FROM webhook_receipts WHERE processed_at IS NULL") == 0 })
	w.settled(id)
	assert.Equal(t, "completed", w.status(id))
	assert.Equal(t, "paid", w.paymentState(id))
	assert.Equal(t, 1, w.number(closed, id), "only the attempt that it is about")
	assert.Zero(t, w.canceledEvents(id))
	assert.Equal(t, 1, w.captured(id))
}

func (w *world) pc28() {
	t := w.t
	w.placeIn("pc28_dropped", "KRW", grant("g", 1, 1000))
	w.placeIn("pc28", "KRW", grant("g", 1, 1500))
	body := map[string]any{"gateway": "toss", "method": toss.token(toss.declines, "pc28", "KRW", 1000)}
	method, _ := body["method"].(map[string]any)
	method["amount"] = "1000"
	oneOf(t, w.call("POST", path("pc28_dropped")+"/payments", "pay-pc28_dropped", body), http.StatusCreated, http.StatusAccepted)
	w.await("the first order's attempt is over", func() bool { return w.cameTo("pc28_dropped").attempt == order.AttemptClosed })
	sent := w.allSent()
	for amount, kind := range map[string]string{"1000": "payment-invalid", "1500": "payment-taken"} {
		method["amount"] = amount
		w.problem(w.call("POST", path("pc28")+"/payments", "pay-pc28-"+amount, body), http.StatusUnprocessableEntity, kind)
	}
	assert.Equal(t, sent, w.allSent(), "nothing was sent")
	assert.Zero(t, w.number("SELECT count(*) FROM payment_attempts WHERE order_id = 'pc28'"), "nothing is kept")
}

func (w *world) pc40() {
	t, id := w.t, "pc40"
	require.Equal(t, http.StatusOK, w.call("PUT", "/v1/stock/pc40-mug", "", map[string]any{"on_hand": 5}).Status)
	w.place(id, line{"sku": "pc40-mug", "name": "Mug", "quantity": 2, "unit_amount": 300, "action": "stock"})
	w.call("POST", path(id)+"/payments", "pay-"+id, payBody("pm_card_visa_chargeDeclined"))
	w.await("declined", func() bool { return w.cameTo(id).attempt == order.AttemptClosed })
	// Nothing has visited the order yet, and its time is over: it takes no payment.
	w.execute("UPDATE orders SET expires_at = now() - interval '1 second' WHERE order_id = '" + id + "'")
	w.problem(w.pay(id, "late-"+id), http.StatusConflict, "order-expired")
	events := w.stripeEvents(w.paymentID(id), "payment_intent.payment_failed")
	for range 3 {
		a := w.hook("stripe/default", byStripe(time.Now(), events[0]), events[0])
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Raw)
	}
	w.awaitStatus(id, "expired")
	assert.Equal(t, 1, w.number("SELECT count(*) FROM stock_movements WHERE order_id = $1 AND kind = 'release'", id), "one release per reserved line")
	assert.Equal(t, 5, w.number("SELECT on_hand - reserved FROM stock WHERE sku = 'pc40-mug'"))
	assert.Zero(t, w.captured(id))
}
