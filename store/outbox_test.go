package store

// Goal: every event goes to every receiver at least once, one business event is one event, in order per order and receiver.

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/order"
)

// twoEvents is an order with order.paid and order.completed for each receiver.
func (e *env) twoEvents() {
	e.t.Helper()
	e.pay(e.place("o", grantLine(1)))
	_, err := e.s.FulfillInternal(e.ctx(), "o", 10)
	require.NoError(e.t, err)
}

func (e *env) claim() []Delivery {
	e.t.Helper()
	ds, err := e.s.DeliveriesClaim(e.ctx(), "o", time.Minute)
	require.NoError(e.t, err)
	return ds
}

func (e *env) event(seq int) string {
	e.t.Helper()
	return e.text("SELECT event_id FROM outbox_events WHERE order_id = 'o' AND seq = $1", seq)
}

func (e *env) record(rs ...DeliveryResult) {
	e.t.Helper()
	require.NoError(e.t, e.s.DeliveriesRecord(e.ctx(), "o", rs))
}

// soon makes everything that is pending due.
func (e *env) soon() {
	e.exec("UPDATE event_deliveries SET next_try_at = now() - interval '1 second' WHERE status = 'pending'")
}

func TestDeliveriesComeInOrder(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail", "warehouse")
	e.twoEvents()
	require.Equal(t, "order.paid,order.completed", e.text("SELECT string_agg(type, ',' ORDER BY seq) FROM outbox_events"))
	ds := e.claim()
	require.Len(t, ds, 4)
	seen := map[string][]string{}
	for _, d := range ds {
		require.Equal(t, 1, d.Tries)
		seen[d.Receiver] = append(seen[d.Receiver], d.EventID)
	}
	want := []string{e.event(1), e.event(2)}
	require.Equal(t, map[string][]string{"mail": want, "warehouse": want}, seen)
	require.Empty(t, e.claim(), "leased")
	var payload struct{ OrderID string }
	require.NoError(t, e.owner.QueryRow(e.ctx(), "SELECT payload->'data'->>'order_id' FROM outbox_events LIMIT 1").Scan(&payload.OrderID))
	require.Equal(t, "o", payload.OrderID)
	require.NotContains(t, e.text("SELECT string_agg(payload::text, '') FROM outbox_events"), "buyer-1", "events name ids, not the buyer")
}

func TestFailedDeliveryHoldsBackLaterOnes(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail", "warehouse")
	e.twoEvents()
	e.claim()
	later := time.Now().Add(time.Hour)
	one, two := e.event(1), e.event(2)
	e.record(
		DeliveryResult{EventID: one, Receiver: "mail", Code: "delivery_failed", NextTry: later},
		DeliveryResult{EventID: two, Receiver: "mail", NotSent: true, NextTry: time.Now().Add(-time.Second)},
		DeliveryResult{EventID: one, Receiver: "warehouse", Taken: true},
		DeliveryResult{EventID: two, Receiver: "warehouse", Taken: true},
	)
	require.Empty(t, e.claim(), "the second is due, and waits for the first")
	n, err := e.s.DeliveriesOpen(e.ctx(), "o")
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	require.EqualValues(t, 0, e.count("SELECT tries FROM event_deliveries WHERE event_id = $1 AND receiver = 'mail'", two), "held back is no try")
	e.soon()
	ids, err := e.s.DeliveriesDue(e.ctx(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, []order.ID{"o"}, ids)
	ds := e.claim()
	require.Equal(t, []string{one, two}, []string{ds[0].EventID, ds[1].EventID})
	require.Equal(t, 2, ds[0].Tries)

	// PC-65: sent, and the mark is lost: it is sent again under the same id, and marked once.
	e.soon()
	require.Equal(t, one, e.claim()[0].EventID)
	for range 2 {
		e.record(DeliveryResult{EventID: one, Receiver: "mail", Taken: true}, DeliveryResult{EventID: two, Receiver: "mail", Taken: true})
	}
	e.record(DeliveryResult{EventID: one, Receiver: "mail", Code: "delivery_failed", NextTry: later}) // the slower sender's word
	n, err = e.s.DeliveriesOpen(e.ctx(), "o")
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestParkedDeliveryBlocksOnlyItsOwn(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail", "warehouse")
	e.twoEvents()
	other := e.place("o2", grantLine(1))
	e.pay(other)
	e.claim()
	one, two := e.event(1), e.event(2)
	e.record(DeliveryResult{EventID: one, Receiver: "mail", Code: "delivery_gone", Parked: true, NextTry: time.Now()},
		DeliveryResult{EventID: two, Receiver: "mail", NotSent: true, NextTry: time.Now().Add(-time.Second)},
		DeliveryResult{EventID: one, Receiver: "warehouse", Taken: true}, DeliveryResult{EventID: two, Receiver: "warehouse", NotSent: true, NextTry: time.Now().Add(-time.Second)})
	ds := e.claim()
	require.Len(t, ds, 1)
	require.Equal(t, "warehouse", ds[0].Receiver, "another receiver goes on")
	ds, err := e.s.DeliveriesClaim(e.ctx(), "o2", time.Minute)
	require.NoError(t, err)
	require.Len(t, ds, 2, "so does another order")
	r := e.review(one + "/mail")
	require.Equal(t, string(order.ReviewPoisonEvent), r.Reason)
	require.Equal(t, order.Applied, e.decide(decision(r, order.DecideCloseWithEvidence)).Verdict)
	ds = e.claim()
	require.Len(t, ds, 1, "with the review the event is dealt with, and later ones go on")
	require.Equal(t, two, ds[0].EventID)
	require.Equal(t, "skipped", e.text("SELECT status FROM event_deliveries WHERE event_id = $1 AND receiver = 'mail'", one))
}

// Events behind a parked one can not be sent. Were they the relay's work, a receiver that is gone for good would fill every round.
func TestBlockedDeliveriesAreNotTheRelaysWork(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	for _, id := range []order.ID{"gone-1", "gone-2", "well"} {
		e.pay(e.place(id, grantLine(1)))
		_, err := e.s.FulfillInternal(e.ctx(), id, 10)
		require.NoError(t, err)
	}
	e.exec("UPDATE event_deliveries SET status = 'parked' WHERE order_id LIKE 'gone-%' AND seq = 1")
	e.exec("UPDATE event_deliveries SET next_try_at = now() - interval '1 hour' WHERE order_id LIKE 'gone-%'")
	due, err := e.s.DeliveriesDue(e.ctx(), 0, 2)
	require.NoError(t, err)
	require.Equal(t, []order.ID{"well"}, due)
}

// Many claimers at once: each delivery has one of them.
func TestLeaseKeepsClaimersApart(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail", "warehouse")
	e.twoEvents()
	all := make(chan Delivery, 100)
	for _, err := range together(20, func(int) error {
		ds, err := e.s.DeliveriesClaim(e.ctx(), "o", time.Minute)
		for _, d := range ds {
			all <- d
		}
		return err
	}) {
		require.NoError(t, err)
	}
	close(all)
	seen := map[string]bool{}
	for d := range all {
		require.False(t, seen[d.EventID+d.Receiver], "leased twice")
		seen[d.EventID+d.Receiver] = true
	}
	require.Len(t, seen, 4)
}

// A claimer that began before another's lease was visible must not send the second event beside the first.
func TestClaimSeesALeaseItWaitedFor(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	e.twoEvents()
	tx, err := e.owner.Begin(e.ctx())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(e.ctx())) }()
	_, err = tx.Exec(e.ctx(), "UPDATE event_deliveries SET next_try_at = now() + interval '1 minute', tries = 1 WHERE event_id = $1", e.event(1))
	require.NoError(t, err)
	got := make(chan []Delivery, 1)
	go func() {
		ds, _ := e.s.DeliveriesClaim(e.ctx(), "o", time.Minute)
		got <- ds
	}()
	e.waitBlocked(1)
	require.NoError(t, tx.Commit(e.ctx()))
	require.Empty(t, <-got)
}

// One business event is one row, however often the step behind it runs, and each receiver has it once.
func TestOneBusinessEventIsOneRow(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	d := e.place("o", grantLine(1))
	a := e.open(d, "k1")
	no := answer(a, order.Declined)
	no.Payment.Final, no.Payment.Code = true, "card_declined"
	for range 3 {
		e.keep(no)
		e.reflect(a)
	}
	b := e.open(d, "k2")
	no = answer(b, order.Declined)
	no.Payment.Final = true
	e.keep(no)
	e.reflect(b)
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM outbox_events WHERE type = 'payment.declined'"), "one per attempt")
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM event_deliveries"))
	require.EqualValues(t, 2, e.count("SELECT max(seq) FROM outbox_events"))
}
