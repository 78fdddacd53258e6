package store

// Goal: orders are stored once per caller's key, stock is promised at most once per piece, and gives back exactly what it took.

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
)

func TestStockReserveCommitRelease(t *testing.T) {
	t.Parallel()
	e := setup(t)
	stock := func() string { return e.text("SELECT on_hand || '/' || reserved FROM stock WHERE sku = 'mug'") }
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 10))
	d := e.place("sold", stockLine("mug", 2), stockLine("mug", 1))
	require.Equal(t, "10/3", stock())
	e.place("lapsed", stockLine("mug", 4))
	require.Equal(t, "10/7", stock())
	_, err := e.s.OrderPlace(e.ctx(), draftOf("toomuch", stockLine("mug", 2), stockLine("mug", 2)), "k", order.DefaultPolicy())
	requireWhy(t, err, fault.Refused, "out_of_stock")
	_, err = e.s.OrderPlace(e.ctx(), draftOf("unknown", stockLine("nosuch", 1)), "k2", order.DefaultPolicy())
	requireWhy(t, err, fault.Refused, "no_such_stock")
	require.Equal(t, "10/7", stock(), "a refused order keeps nothing")
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM orders"))
	requireWhy(t, e.s.StockSet(e.ctx(), "mug", 6), fault.Refused, "below_reserved")
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 7))

	e.pay(d)
	_, err = e.s.FulfillInternal(e.ctx(), "sold", 2)
	require.NoError(t, err)
	require.Equal(t, "5/5", stock())
	_, err = e.s.FulfillInternal(e.ctx(), "sold", 2)
	require.NoError(t, err)
	require.Equal(t, "4/4", stock())

	e.lapse("lapsed")
	for _, err := range together(10, func(int) error { _, err := e.s.OrderExpire(e.ctx(), "lapsed"); return err }) {
		require.NoError(t, err)
	}
	require.Equal(t, "4/0", stock())
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM stock_movements WHERE kind = 'release'"))
	e.folds()
}

// PC-39: return page, webhook and repeats at once reduce stock once: one movement per unit.
func TestStockIsCommittedOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, sku := range []string{"a", "b", "c"} {
		require.NoError(t, e.s.StockSet(e.ctx(), sku, 100))
	}
	d := e.place("o", stockLine("a", 1), stockLine("b", 1), stockLine("c", 1))
	a := e.open(d, "k")
	for _, err := range together(60, func(i int) error {
		if i%2 == 0 {
			if _, err := e.s.ObservationKeep(e.ctx(), answer(a, order.Succeeded), ""); err != nil {
				return err
			}
		}
		if _, err := e.s.Reflect(e.ctx(), idOf(a)); err != nil {
			return err
		}
		_, err := e.s.FulfillInternal(e.ctx(), "o", 10)
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, e.count("SELECT count(*) FROM stock_movements WHERE kind = 'commit'"))
	require.EqualValues(t, 3, e.count("SELECT count(*) FROM stock WHERE on_hand = 99 AND reserved = 0"))
	require.Equal(t, order.OrderCompleted, e.status("o"))
}

// PC-40: a refusal told by page and by notice, and the expiry beside them, give back once.
func TestPC40_StockIsReleasedOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 5))
	a := e.open(e.place("o", stockLine("mug", 2)), "k")
	e.lapse("o")
	for _, err := range together(30, func(i int) error {
		no := answer(a, order.Declined)
		no.Payment.Final, no.Payment.Code = true, "card_declined"
		if _, err := e.s.ObservationKeep(e.ctx(), no, ""); err != nil {
			return err
		}
		if _, err := e.s.Reflect(e.ctx(), idOf(a)); err != nil {
			return err
		}
		_, err := e.s.OrderExpire(e.ctx(), "o")
		return err
	}) {
		require.NoError(t, err)
	}
	require.Equal(t, order.OrderExpired, e.status("o"))
	require.EqualValues(t, 0, e.count("SELECT reserved FROM stock"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM stock_movements WHERE kind = 'release'"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM outbox_events WHERE type = 'payment.declined'"))
}

func TestParallelOrdersNeverOversell(t *testing.T) {
	t.Parallel()
	e := setup(t)
	require.NoError(t, e.s.StockSet(e.ctx(), "a", 20))
	require.NoError(t, e.s.StockSet(e.ctx(), "b", 15))
	var sold atomic.Int32
	for _, err := range together(60, func(i int) error {
		lines := []order.Line{stockLine("a", 1), stockLine("b", 1)}
		if i%2 == 1 {
			lines[0], lines[1] = lines[1], lines[0]
		}
		_, err := e.s.OrderPlace(e.ctx(), draftOf(order.ID(fmt.Sprint("o", i)), lines...), fmt.Sprint("k", i), order.DefaultPolicy())
		if err == nil {
			sold.Add(1)
		}
		return err
	}) {
		if err != nil {
			requireWhy(t, err, fault.Refused, "out_of_stock")
		}
	}
	require.EqualValues(t, 15, sold.Load())
	require.EqualValues(t, 15, e.count("SELECT reserved FROM stock WHERE sku = 'a'"), "a refused order gives back what it took before")
	require.EqualValues(t, 15, e.count("SELECT reserved FROM stock WHERE sku = 'b'"))
}

func TestOrderIsNotExpiredEarly(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(1))
	c, err := e.s.OrderExpire(e.ctx(), "o")
	require.NoError(t, err)
	require.Equal(t, order.Rejected, c.Verdict)
	require.Equal(t, "not_due", c.Why)
	require.Equal(t, order.OrderOpen, e.status("o"))
	ids, err := e.s.OrdersLapsed(e.ctx(), 10)
	require.NoError(t, err)
	require.Empty(t, ids)
	e.lapse("o")
	_, err = e.s.AttemptOpen(e.ctx(), attemptDraft(d, "k"))
	requireWhy(t, err, fault.Refused, "order_expired")
	ids, err = e.s.OrdersLapsed(e.ctx(), 10)
	require.NoError(t, err)
	require.Equal(t, []order.ID{"o"}, ids)
	c, err = e.s.OrderExpire(e.ctx(), "o")
	require.NoError(t, err)
	require.Equal(t, order.Applied, c.Verdict)
	e.folds()
}

// A second order of the same goods, and a quantity of three, are real purchases.
func TestRepeatsOfAnOrder(t *testing.T) {
	t.Parallel()
	e := setup(t)
	place := func(d order.Draft, key string) (bool, error) {
		return e.s.OrderPlace(e.ctx(), d, key, order.DefaultPolicy())
	}
	d := draftOf("o", grantLine(3))
	var made atomic.Int32
	for _, err := range together(20, func(int) error {
		created, err := place(d, "key")
		if created {
			made.Add(1)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, made.Load())
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM order_lines"))

	_, err := place(d, "other key")
	requireWhy(t, err, fault.Refused, "order_exists")
	twin := d
	twin.ID = "o-twin"
	_, err = place(twin, "key")
	requireWhy(t, err, fault.Refused, "key_bound_elsewhere")
	created, err := place(twin, "twin key")
	require.NoError(t, err)
	require.True(t, created, "the same goods again are a second purchase")
	e.pay(d)
	e.pay(twin)
	require.EqualValues(t, 6, e.count("SELECT count(*) FROM fulfillment_units"))

	stranger := d
	stranger.Client = "other shop"
	_, err = place(stranger, "key")
	requireWhy(t, err, fault.Refused, "order_exists")
	_, err = e.s.OrderOwned(e.ctx(), "other shop", "o")
	foreign := fault.As(err)
	_, err = e.s.OrderOwned(e.ctx(), "other shop", "no such order")
	require.Equal(t, fault.As(err).Error(), foreign.Error(), "another client's order is like one that does not exist")
	ad := attemptDraft(stranger, "k")
	_, err = e.s.AttemptOpen(e.ctx(), ad)
	foreign = fault.As(err)
	ad.OrderID = "no such order"
	_, err = e.s.AttemptOpen(e.ctx(), ad)
	require.Equal(t, fault.As(err).Error(), foreign.Error())
	e.folds()
}

func TestAttemptMustMatchTheOrder(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(2))
	for _, spoil := range []func(*AttemptDraft){func(a *AttemptDraft) { a.Amount.Minor-- }, func(a *AttemptDraft) { a.Amount.Currency = "USD" }} {
		ad := attemptDraft(d, "k")
		spoil(&ad)
		_, err := e.s.AttemptOpen(e.ctx(), ad)
		requireWhy(t, err, fault.Refused, "order_changed")
	}
	e.pay(d)
	_, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d, "k2"))
	requireWhy(t, err, fault.Refused, "already_paid")
}

// The same caller's key for two orders at the same moment: one gets it, the other is told so.
func TestOneKeyForTwoOrdersAtOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	ds := []order.Draft{e.place("o1", grantLine(1)), e.place("o2", grantLine(1))}
	for i := range 10 {
		key, ok := fmt.Sprint("k", i), 0
		for _, err := range together(2, func(j int) error { _, err := e.s.AttemptOpen(e.ctx(), attemptDraft(ds[j], key)); return err }) {
			if err == nil {
				ok++
				continue
			}
			requireWhy(t, err, fault.Refused, "key_bound_elsewhere")
		}
		require.Equal(t, 1, ok)
		e.exec("UPDATE payment_attempts SET status = 'closed', closed_at = now(), close_reason = 'canceled' WHERE closed_at IS NULL")
	}
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	e := setup(t)
	k := Key{Client: client, Operation: "POST /v1/orders", Key: "k"}
	claim := func(k Key, fp, subject, token string, lease time.Duration) KeyState {
		st, err := e.s.KeyClaim(e.ctx(), k, []byte(fp), subject, token, lease)
		require.NoError(t, err)
		return st
	}
	var mine atomic.Int32
	_ = together(20, func(i int) error {
		if st, err := e.s.KeyClaim(e.ctx(), k, []byte("f"), fmt.Sprint("s", i), fmt.Sprint("t", i), time.Minute); err == nil && st.Mine {
			mine.Add(1)
		}
		return nil
	})
	require.EqualValues(t, 1, mine.Load())
	subject, token := e.text("SELECT subject_id FROM idempotency_keys"), e.text("SELECT lease_token FROM idempotency_keys")

	st := claim(k, "other body", "x", "tx", time.Minute)
	require.False(t, st.Mine)
	require.False(t, st.SameRequest)
	other := k
	other.Client = "other shop"
	require.True(t, claim(other, "f", "x", "tx", time.Minute).Mine, "a key belongs to its caller")

	e.exec("UPDATE idempotency_keys SET lease_until = now() - interval '1 second' WHERE client_id = 'shop'")
	st = claim(k, "f", "new", "second", time.Minute)
	require.True(t, st.Mine, "the lease passes on")
	require.Equal(t, subject, st.Subject, "and with it the subject")
	ok, err := e.s.KeyComplete(e.ctx(), k, token, 201, []byte("stale"))
	require.NoError(t, err)
	require.False(t, ok, "a process that wakes after its lease changes nothing (PC-59)")
	ok, err = e.s.KeyComplete(e.ctx(), k, "second", 201, []byte("sealed"))
	require.NoError(t, err)
	require.True(t, ok)
	st = claim(k, "f", "x", "third", time.Minute)
	require.Equal(t, 201, st.Status)
	require.Equal(t, []byte("sealed"), st.SealedResponse)
	require.False(t, st.Mine)
}
