package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: a cancel is stored once per order, and a promise is replaced only while nobody pays for it; who may not, and what is wrong, is
// said and leaves nothing behind. Method: as for refunds. What becomes of the money is shown end to end (e2e).

func (b *bundle) cancel(id string, body any, options ...option) answer {
	b.t.Helper()
	return b.call("POST", pathOf(id)+"/cancel", body, options...)
}

func (b *bundle) replace(id string, body any, options ...option) answer {
	b.t.Helper()
	return b.call("PUT", pathOf(id), body, options...)
}

func because(word string) fields { return fields{"reason": word} }

func TestCancelOrder(t *testing.T) {
	t.Run("OnceAndForEver", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		a := b.cancel("O-1", because("abandoned"), key("c-1"))
		require.Equal(t, 201, a.status, string(a.body))
		require.Equal(t, "canceled", a.at("outcome"))
		require.Equal(t, "canceled", a.at("order", "states", "order"))
		require.Equal(t, string(a.body), string(b.cancel("O-1", because("abandoned"), key("c-1")).body))
		require.Equal(t, "idempotency-key-reused", b.cancel("O-1", because("fraud"), key("c-1")).problem())
		require.Equal(t, a.at("id"), b.cancel("O-1", because("fraud")).at("id"), "another key finds the one cancel that there is")
		require.Equal(t, 1, b.count("SELECT count(*) FROM cancels"))
		require.Equal(t, "order-canceled", b.pay("O-1", card("pm_card_visa")).problem())
		require.Equal(t, "order-canceled", b.replace("O-1", anOrder("O-1")).problem())
	})
	t.Run("OfAnotherClientIsNotThere", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		require.Equal(t, "not-found", b.cancel("O-1", because("other"), as(otherKey)).problem())
		require.Equal(t, "not-found", b.cancel("O-2", because("other")).problem())
	})
	t.Run("MoneyNeedsTheScope", func(t *testing.T) {
		b := setup(t)
		b.paid("O-1")
		require.Equal(t, "forbidden", b.cancel("O-1", because("other")).problem())
		require.Zero(t, b.count("SELECT count(*) FROM cancels"))
		require.Equal(t, 202, b.cancel("O-1", because("other"), as(operatorKey)).status)
	})
	t.Run("WhatIsOverStays", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		b.exec("UPDATE orders SET status = 'expired', ended_at = now()")
		require.Equal(t, "order-expired", b.cancel("O-1", because("other")).problem())
		require.Equal(t, "order-expired", b.replace("O-1", anOrder("O-1")).problem())
	})
	t.Run("WhatIsWrongIsSaid", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		const marker = "FREE-TEXT-MARKER"
		for name, body := range map[string]any{"NoReason": fields{}, "FreeReason": because(marker), "UnknownField": fields{"reason": "other", marker: 1}} {
			a := b.cancel("O-1", body)
			require.Equal(t, "validation", a.problem(), "%s: %s", name, a.body)
			require.NotContains(t, string(a.body), marker, name)
		}
		require.Equal(t, 400, b.cancel("O-1", `{"reason":`).status)
		require.Equal(t, 400, b.cancel("O-1", because("other"), without("Idempotency-Key")).status)
		require.Zero(t, b.count("SELECT count(*) FROM cancels"))
	})
}

func TestReplaceOrder(t *testing.T) {
	revision := func(n int) func(fields) { return func(o fields) { o["revision"] = n } }
	t.Run("ANewRevision", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		dearer := func(o fields) { o["total"], o["lines"] = 2400, []any{line(func(l fields) { l["quantity"] = 1 })} }
		a := b.replace("O-1", anOrder("O-1", dearer, revision(1)))
		require.Equal(t, 200, a.status, string(a.body))
		require.EqualValues(t, 2, a.at("revision"))
		require.EqualValues(t, 2400, a.at("total"))
		require.Equal(t, "order-changed", b.replace("O-1", anOrder("O-1", revision(1))).problem(), "somebody else was faster")
	})
	t.Run("NotUnderAPayment", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		b.pay("O-1", card("pm_card_visa")) // nobody works on it: it stays open
		require.Equal(t, "attempt-unresolved", b.replace("O-1", anOrder("O-1")).problem())
	})
	t.Run("NotOncePaid", func(t *testing.T) {
		b := setup(t)
		b.paid("O-1")
		require.Equal(t, "already-paid", b.replace("O-1", anOrder("O-1")).problem())
	})
	t.Run("WhatIsWrongIsSaid", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		require.Equal(t, "not-found", b.replace("O-1", anOrder("O-1"), as(otherKey)).problem())
		require.Equal(t, "not-found", b.replace("O-2", anOrder("O-2")).problem())
		require.Equal(t, "validation", b.replace("O-1", anOrder("O-2")).problem())
		require.Equal(t, "validation", b.replace("O-1", anOrder("O-1", revision(-1))).problem())
		require.Equal(t, 400, b.replace("O-1", `{"id":`).status)
		require.Equal(t, 1, b.count("SELECT revision FROM orders"))
	})
}

// An order whose time is over takes no payment, also before anything has visited it.
func TestAnOrderWhoseTimeIsOver(t *testing.T) {
	b := setup(t)
	b.working()
	b.place("O-1")
	b.exec("UPDATE orders SET expires_at = now() - interval '1 second'")
	a := b.pay("O-1", card("pm_card_visa"))
	require.Equal(t, 409, a.status)
	require.Equal(t, "order-expired", a.problem())
	require.Equal(t, 1, b.count("SELECT count(*) FROM orders WHERE status = 'open'"), "nobody has visited it yet")
	require.Zero(t, b.count("SELECT count(*) FROM payment_attempts"))
}
