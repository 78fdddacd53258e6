package api_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/order"
)

// Goal: held money is asked for once, whoever asks; who may not, and what is wrong, is said and leaves nothing behind. Method: as for
// refunds. What becomes of the money is shown end to end (e2e).

func (b *bundle) capture(id string, body any, options ...option) answer {
	b.t.Helper()
	return b.call("POST", pathOf(id)+"/capture", body, options...)
}

// held has the buyer's bank hold an order's money.
func (b *bundle) held(id string) {
	b.t.Helper()
	b.place(id)
	method := card("pm_card_visa")
	method["capture"] = "later"
	require.Equal(b.t, 202, b.pay(id, method).status)
	b.exec("UPDATE payment_attempts SET status = 'pending', held_minor = amount_minor, provider_payment_id = 'pi_' || order_id WHERE order_id = '" + id + "'")
}

func (b *bundle) captures() int {
	return b.count("SELECT count(*) FROM operations WHERE kind = 'capture'")
}

func TestCaptureOrder(t *testing.T) {
	none := fields{}
	t.Run("OnceAndForEver", func(t *testing.T) {
		b := setup(t)
		b.held("O1")
		require.Equal(t, "authorized", b.call("GET", pathOf("O1"), nil).at("states", "payment"))
		var asked []order.AttemptID
		var mu sync.Mutex
		b.engine.capture = func(_ context.Context, _ order.ID, a order.AttemptID) error {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, a)
			return context.DeadlineExceeded
		}
		a := b.capture("O1", none, key("c-1"))
		require.Equal(t, 202, a.status, string(a.body))
		require.Equal(t, "checking", a.at("outcome"))
		require.Equal(t, "checking", a.at("order", "states", "payment"), "from the moment it is asked for, it may be captured")
		require.Equal(t, a.at("capture"), a.at("held"))
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Equal(t, 202, b.capture("O1", none, key("c-1")).status)
		require.Equal(t, 202, b.capture("O1", none, key("c-2")).status, "another key finds the one capture that there is")
		require.Equal(t, "capture-differs", b.capture("O1", fields{"amount": 1}).problem())
		require.Equal(t, 1, b.captures())
		require.Len(t, asked, 3, "each asks what has become of it")
	})
	t.Run("APart", func(t *testing.T) {
		b := setup(t)
		b.held("O1")
		require.EqualValues(t, 1, b.capture("O1", fields{"amount": 1}).at("capture"))
		require.Equal(t, "capture-differs", b.capture("O1", fields{"amount": 2}).problem())
		require.EqualValues(t, 1, b.capture("O1", none).at("capture"), "without an amount, what stands is meant")
	})
	t.Run("OfAnotherClientIsNotThere", func(t *testing.T) {
		b := setup(t)
		b.held("O1")
		require.Equal(t, "not-found", b.capture("O1", none, as(otherKey)).problem())
		require.Equal(t, "not-found", b.capture("O2", none).problem())
		require.Equal(t, 401, b.capture("O1", none, without("Authorization")).status)
	})
	t.Run("WhatIsWrongIsSaid", func(t *testing.T) {
		b := setup(t)
		b.held("O1")
		for _, amount := range []any{0, -1, 1 << 60, "1", 1.5} {
			a := b.capture("O1", fields{"amount": amount})
			require.Contains(t, []string{"validation", "malformed-body"}, a.problem(), "%v: %s", amount, a.body)
		}
		a := b.capture("O1", fields{"amount": 100_000_000})
		require.Equal(t, "validation", a.problem())
		require.NotNil(t, a.at("payment", "held"), "it says how much is: %s", a.body)
		require.Equal(t, "validation", b.capture("O1", fields{"amounts": 1}).problem())
		require.Equal(t, 400, b.capture("O1", none, without("Idempotency-Key")).status)
		require.Zero(t, b.captures())
		b.place("O2")
		require.Equal(t, "nothing-held", b.capture("O2", none).problem())
		method := card("pm_card_visa")
		method["capture"] = "never"
		require.Equal(t, "validation", b.pay("O2", method).problem())
	})
	t.Run("NotForAnOrderThatEnded", func(t *testing.T) {
		b := setup(t)
		b.held("O1")
		require.Equal(t, 202, b.cancel("O1", because("other")).status)
		a := b.capture("O1", none)
		require.Equal(t, "order-canceling", a.problem(), string(a.body))
		require.Zero(t, b.captures())
	})
	t.Run("AKeyIsAboutOneAttempt", func(t *testing.T) {
		b := setup(t)
		b.held("O1")
		require.Equal(t, 202, b.capture("O1", none, key("c-1")).status)
		b.exec("UPDATE payment_attempts SET status = 'closed', closed_at = now(), close_reason = 'canceled' WHERE order_id = 'O1'") // the hold has lapsed
		require.Equal(t, "nothing-held", b.capture("O1", none, key("c-1")).problem())
		method := card("pm_card_visa")
		method["capture"] = "later"
		require.Equal(t, 202, b.pay("O1", method).status)
		b.exec("UPDATE payment_attempts SET status = 'pending', held_minor = amount_minor, provider_payment_id = 'pi_second' WHERE order_id = 'O1' AND closed_at IS NULL")
		a := b.capture("O1", none, key("c-1"))
		require.Equal(t, 1, b.captures(), "the old request says nothing about what the buyer authorized since: %s", a.body)
		require.Equal(t, "declined", a.at("outcome"), string(a.body))
		require.Equal(t, "authorized", a.at("order", "states", "payment"))
		require.Equal(t, 202, b.capture("O1", none, key("c-2")).status)
		require.Equal(t, 2, b.captures())
	})
	t.Run("AnsweredAndNotYetReflected", func(t *testing.T) {
		b := setup(t)
		b.held("O1")
		b.engine.capture = func(context.Context, order.ID, order.AttemptID) error {
			b.exec("UPDATE payment_attempts SET held_minor = 0 WHERE order_id = 'O1'") // as the kept answer leaves it
			return context.DeadlineExceeded
		}
		a := b.capture("O1", none, key("c-1"))
		require.Equal(t, 202, a.status, "an answer for good would be replayed for ever: %s", a.body)
		require.Equal(t, "checking", a.at("outcome"))
		require.Equal(t, "checking", b.call("GET", pathOf("O1"), nil).at("states", "payment"))
	})
	t.Run("AskedForTooEarly", func(t *testing.T) {
		b := setup(t)
		b.held("O1")
		b.exec("UPDATE payment_attempts SET held_minor = 0 WHERE order_id = 'O1'") // the buyer is at the bank's page
		a := b.capture("O1", none, key("c-1"))
		require.Equal(t, "nothing-held", a.problem())
		require.NotEmpty(t, a.header.Get("Retry-After"), "it may be held in a moment")
		b.exec("UPDATE payment_attempts SET held_minor = amount_minor WHERE order_id = 'O1'")
		require.Equal(t, 202, b.capture("O1", none, key("c-1")).status, "the key is good for it")
	})
}
