package store

// Goal: the public cases about cancels, one test each. Method and limits as cancels_test.go.

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
)

// PC-21: the cancel of one attempt is no cancel of the order that another one paid.
func TestPC21_OneAttemptsCancelIsNotTheOrders(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	d := e.place("o", grantLine(2))
	second := e.open(d, "second")
	s := answer(second, order.Declined)
	s.Payment.Final = true
	e.keep(s)
	require.Equal(t, order.AttemptClosed, e.reflect(second).Status)
	first := e.pay(d)
	for range 3 { // the provider tells of the second one's end again and again
		late := answer(e.attempt(second), order.Declined)
		late.Payment.Final, late.Source = true, "webhook"
		e.keep(late)
		e.reflect(second)
	}
	require.Equal(t, order.OrderPaid, e.status("o"))
	require.Equal(t, string(order.AttemptSucceeded), e.attempt(first).Status)
	require.Equal(t, string(order.AttemptClosed), e.attempt(second).Status)
	require.Zero(t, e.events(order.EventOrderCanceled))
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM fulfillment_units WHERE status = 'planned'"))
	e.folds()
}

// An old approval, replayed late, never revives a canceled order: the money is shown to a person.
func TestLateMoneyDoesNotReviveACanceledOrder(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	d := e.place("o", grantLine(2))
	a := e.open(d, "k")
	old := answer(a, order.Succeeded) // read before all that follows
	s := answer(a, order.Declined)
	s.Payment.Final = true
	e.keep(s)
	e.reflect(a)
	e.cancel("o")
	e.keep(old)
	r := e.reflect(a)
	require.Equal(t, order.Stale, r.Verdict)
	require.True(t, r.NeedsLook, "the current state is looked up")
	require.Equal(t, order.OrderCanceled, e.status("o"))
	e.keep(answer(e.attempt(a), order.Succeeded)) // and it is true
	e.reflect(a)
	require.Equal(t, order.OrderCanceled, e.status("o"))
	require.EqualValues(t, 1, e.reviews(a.AttemptID, order.ReviewLatePayment))
	require.Zero(t, e.count("SELECT count(*) FROM fulfillment_units"))
	e.folds()
}

// PC-40: a refusal told by page and by notice, the expiry and a cancel, all at once: what was reserved goes back once.
func TestPC40_CancelAndExpiryGiveBackOnce(t *testing.T) {
	t.Parallel()
	e := setupConns(t, 20, "", "mail")
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 100))
	for round := range 8 {
		id := order.ID(fmt.Sprint("o", round))
		a := e.open(e.place(id, stockLine("mug", 2), stockLine("mug", 1)), "k-"+string(id))
		e.lapse(id)
		for i, err := range together(12, func(i int) error {
			switch i % 3 {
			case 0:
				no := answer(a, order.Declined)
				no.Payment.Final = true
				if _, err := e.s.ObservationKeep(e.ctx(), no, ""); err != nil {
					return err
				}
				_, err := e.s.Reflect(e.ctx(), idOf(a))
				return err
			case 1:
				_, err := e.s.OrderExpire(e.ctx(), id)
				return err
			}
			_, err := e.s.CancelOpen(e.ctx(), cancelDraft(id, fmt.Sprint("c", round, "-", i)))
			return err
		}) {
			if i%3 == 2 && err != nil {
				requireWhy(t, err, fault.Refused, "order_expired")
				continue
			}
			require.NoError(t, err)
		}
		require.Contains(t, []order.Status{order.OrderExpired, order.OrderCanceled}, e.status(id))
		require.EqualValues(t, 2, e.count("SELECT count(*) FROM stock_movements WHERE order_id = $1 AND kind = 'release'", string(id)), "once per line")
	}
	require.Equal(t, "100/0", e.stock("mug"))
	e.folds()
}
