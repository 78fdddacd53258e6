package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/stripesim"
)

// Goal: a cancel asked for over the API ends right whatever the payment did meanwhile, and the providers' books agree.
// Method: one world, an order per case. Not covered: the races inside one transaction (package store).

func (w *world) cancel(id string) answer {
	w.t.Helper()
	a := w.call("POST", path(id)+"/cancel", "cancel-"+id, map[string]any{"reason": "requested_by_buyer"})
	require.Contains(w.t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s", a.Raw)
	return a
}

func (w *world) awaitCanceled(id string) {
	w.t.Helper()
	w.await(id+" canceled", func() bool {
		return w.number("SELECT count(*) FROM cancels WHERE order_id = $1 AND status = 'done'", id) == 1
	})
	require.Equal(w.t, "canceled", w.text("SELECT status FROM orders WHERE order_id = $1", id))
}

func (w *world) canceledEvents(id string) int {
	return w.number("SELECT count(*) FROM outbox_events WHERE order_id = $1 AND type = 'order.canceled'", id)
}

func TestCancels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, publicURL, with("ORDERFLOW_REVIEW_CHECK_EVERY", "1s"), with("ORDERFLOW_SWEEP_AGAIN", "500ms"),
		// "Not found" becomes final soon: only then is it proven that a unit of a canceled order was not issued (rule 6).
		swap("ORDERFLOW_ISSUERS", `"timeout":"2s","idempotent":true`, `"timeout":"500ms","not_found_final_after":"500ms","idempotent":true`))
	w.call("PUT", "/v1/stock/mug", "", map[string]any{"on_hand": 10})

	w.sub("nothing was paid", func(w *world) {
		w.place("unpaid", map[string]any{"sku": "mug", "name": "Mug", "quantity": 3, "unit_amount": 100, "action": "stock"})
		a := w.cancel("unpaid")
		require.Equal(w.t, http.StatusCreated, a.Status, "%s", a.Raw)
		assert.Equal(w.t, "canceled", a.at("outcome"))
		assert.Equal(w.t, "canceled", a.at("order", "states", "order"))
		assert.Equal(w.t, false, a.at("order", "buyer", "can_pay"))
		assert.Equal(w.t, a.Raw, w.cancel("unpaid").Raw, "the same answer again")
		assert.Equal(w.t, 0, w.number("SELECT reserved FROM stock WHERE sku = 'mug'"))
		w.problem(w.pay("unpaid", "pay-unpaid"), http.StatusConflict, "order-canceled")
		w.await("the event", func() bool { return w.canceledEvents("unpaid") == 1 })
	})
	w.sub("a payment waits for its buyer", func(w *world) {
		list := w.ask("waits", waysThat(named("stripe_3ds", "stripe_transfer")))
		w.standsAt(list, order.AttemptPending)
		for _, p := range list {
			w.cancel(p.id)
			w.awaitCanceled(p.id)
			assert.Equal(w.t, 1, w.number("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'cancel' AND sends > 0", p.id), "%s: it was ended at the provider", p.id)
			w.settled(p.id)
			w.await(p.id+": looked at once more", func() bool {
				return w.number(`SELECT count(*) FROM observations o JOIN transitions x ON x.order_id = o.order_id AND x.subject_kind = 'attempt' AND x.to_status = 'closed'
					WHERE o.order_id = $1 AND o.source = 'lookup' AND o.observed_at > x.at`, p.id) > 0
			})
			assert.Zero(w.t, w.captured(p.id))
		}
	})
	w.sub("paid and not provided", func(w *world) {
		_, err := w.sandbox.Faults().Add(faults.Fault{Target: faults.Issuer, Action: faults.Status, Status: http.StatusServiceUnavailable})
		require.NoError(w.t, err)
		w.place("paid", issued("tickets", "t", 2, 500), grant("g", 1, 100))
		w.pay("paid", "pay-paid")
		w.await("paid", func() bool { return w.text("SELECT status FROM orders WHERE order_id = 'paid'") == "paid" })
		w.cancel("paid")
		w.sandbox.Faults().Clear()
		w.awaitCanceled("paid")
		w.settledMoney("paid")
	})
	w.booksAgree()
}

// settledMoney requires that what went back of a canceled order is what its canceled units cost, in the provider's books.
func (w *world) settledMoney(id string) {
	w.t.Helper()
	want := w.number(`SELECT coalesce(sum(l.unit_amount_minor), 0) FROM fulfillment_units u JOIN order_lines l USING (order_id, revision, line_no)
		WHERE u.order_id = $1 AND u.status = 'canceled'`, id)
	require.Positive(w.t, want)
	w.await(id+": the money back", func() bool { m, _ := w.backAt(id); return m == int64(want) })
	w.settled(id)
	w.went(id, int64(want), 1)
}

// TestCancelOfAnUnknownPaymentLooksFirst: the answer to the charge is lost. The cancel waits for what the look says, and gives back what
// was taken.
func TestCancelOfAnUnknownPaymentLooksFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_FIRST_LOOKUP_AFTER", "30s"))
	type unsure struct {
		id     string
		effect bool
	}
	list := []unsure{{"took", true}, {"took_nothing", false}}
	for _, u := range list {
		w.place(u.id, grant("g", 2, 300))
		f := faults.Fault{Target: faults.Stripe, Method: "POST", PathSuffix: "/confirm", Action: faults.Drop, Times: 1}
		if u.effect {
			f.Action = faults.LoseAnswer
		}
		_, err := w.sandbox.Faults().Add(f)
		require.NoError(t, err)
		w.later("POST", path(u.id)+"/payments", "pay-"+u.id, payBody("pm_card_visa"))
		w.await(u.id+" unknown", func() bool {
			return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1 AND status = 'unknown'", u.id) == 1
		})
		w.cancel(u.id)
		w.awaitCanceled(u.id)
		w.settled(u.id)
		if u.effect {
			w.await(u.id+": the money back", func() bool { m, _ := w.backAt(u.id); return m == 600 })
			w.went(u.id, 600, 1)
		} else {
			assert.Zero(t, w.captured(u.id), "nothing was sent again")
		}
		w.await("told", func() bool { return w.canceledEvents(u.id) == 1 })
		assert.Zero(t, w.number("SELECT count(*) FROM issuances WHERE order_id = $1", u.id))
		w.problem(w.pay(u.id, "again-"+u.id), http.StatusConflict, "order-canceled")
	}
	w.booksAgree()
}

// TestPC29_ChangingAnOrder: the price changes after a decline, and never under a payment.
func TestPC29_ChangingAnOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, publicURL)
	body := func(id string, amount int) map[string]any {
		return map[string]any{
			"id": id, "currency": "JPY", "total": amount, "expires_at": time.Now().Add(time.Hour).Truncate(time.Second),
			"lines": []any{grant("g", 1, amount)},
		}
	}
	w.place("edited", grant("g", 1, 1800))
	w.call("POST", path("edited")+"/payments", "first", payBody("pm_card_visa_chargeDeclined"))
	w.await("closed", func() bool {
		return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = 'edited' AND status = 'closed'") == 1
	})
	a := w.call("PUT", path("edited"), "", body("edited", 1000))
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Raw)
	assert.EqualValues(t, 2, a.at("revision"))
	stale := body("edited", 900)
	stale["revision"] = 1
	w.problem(w.call("PUT", path("edited"), "", stale), http.StatusConflict, "order-changed")
	w.paid("edited", "second")
	assert.Equal(t, 1000, w.number("SELECT captured_minor FROM payments WHERE order_id = 'edited'"))
	w.problem(w.call("PUT", path("edited"), "", body("edited", 900)), http.StatusConflict, "already-paid")

	waits := w.ask("edit_waits", waysThat(named("stripe_3ds")))
	w.standsAt(waits, order.AttemptPending)
	b := body(waits[0].id, 900)
	w.problem(w.call("PUT", path(waits[0].id), "", b), http.StatusConflict, "attempt-pending")
	w.booksAgree()
}

// TestPC54_LargeOrder: 1,500 lines with long names are placed, paid, refunded but for one line and read within their time; the provider gets our
// reference and nothing of the lines.
func TestPC54_LargeOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 1500
	lines := make([]any, n)
	for i := range lines {
		l := grant(fmt.Sprintf("sku-%04d", i), 1, 10)
		l["name"] = strings.Repeat("n", 195) + fmt.Sprintf("%05d", i)
		lines[i] = l
	}
	began := time.Now()
	a := w.call("POST", "/v1/orders", "place-large", map[string]any{
		"id": "large", "currency": "JPY", "total": 10 * n, "expires_at": time.Now().Add(time.Hour), "lines": lines,
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Raw)
	t.Log("placed after", time.Since(began))
	w.paid("large", "pay-large")
	t.Log("provided after", time.Since(began))
	r := w.refunded("large", "refund-large", 10*(n-1))
	require.EqualValues(t, 10*(n-1), r.at("amount"))
	read := time.Now()
	a = w.call("GET", path("large"), "", nil)
	t.Log("read within", time.Since(read), len(a.Raw), "bytes")
	require.Equal(t, "partly_refunded", a.at("states", "payment"))
	w.went("large", 10*(n-1), 1)
	for _, e := range w.sandbox.Stripe().Writes(stripesim.Filter{}) {
		assert.NotContains(t, e.Body, "nnnnn")
		assert.NotContains(t, e.Body, "sku-")
		assert.NotContains(t, e.Body, "large")
		assert.Less(t, len(e.Body), 2000, "the request does not grow with the order")
	}
	w.settled("large")
	w.shortHistories("large", 200)
	w.booksAgree()
}
