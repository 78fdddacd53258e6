package store

// Goal: a promise is replaced whole or not at all, never under a payment, and its stock moves along.

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
)

func (e *env) replace(d order.Draft) bool {
	e.t.Helper()
	replaced, err := e.s.OrderReplace(e.ctx(), d, 0)
	require.NoError(e.t, err)
	return replaced
}

func TestReplaceMovesStockInOneTransaction(t *testing.T) {
	t.Parallel()
	e := setup(t)
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 5))
	require.NoError(t, e.s.StockSet(e.ctx(), "cap", 2))
	d := e.place("o", stockLine("mug", 5), grantLine(1))
	d.Lines = []order.Line{stockLine("cap", 1), stockLine("mug", 5)}
	d.Total = d.LinesSum()
	require.True(t, e.replace(d), "the last pieces are its own")
	require.False(t, e.replace(d), "stating what stands changes nothing")
	require.Equal(t, []string{"5/5", "2/1"}, []string{e.stock("mug"), e.stock("cap")})
	for why, lines := range map[string][]order.Line{"out_of_stock": {stockLine("cap", 3)}, "no_such_stock": {stockLine("hat", 1)}} {
		x := draftOf("o", lines...)
		_, err := e.s.OrderReplace(e.ctx(), x, 0)
		requireWhy(t, err, fault.Refused, why)
	}
	require.Equal(t, []string{"5/5", "2/1"}, []string{e.stock("mug"), e.stock("cap")}, "a refused promise keeps the old one whole")
	_, err := e.s.OrderReplace(e.ctx(), draftOf("o", grantLine(1)), 1)
	requireWhy(t, err, fault.Refused, "order_changed")
	require.EqualValues(t, 2, e.count("SELECT revision FROM orders"))
	v, err := e.s.OrderView(e.ctx(), client, "o")
	require.NoError(t, err)
	require.Len(t, v.Lines, 2)
	require.Equal(t, "cap", v.Lines[0].Sku)
	require.EqualValues(t, 4, e.count("SELECT count(*) FROM order_lines"), "what was promised before stays")
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM audit_log WHERE act = 'order_replaced'"))

	e.pay(d)
	_, err = e.s.FulfillInternal(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"0/0", "1/0"}, []string{e.stock("mug"), e.stock("cap")})
	_, err = e.s.OrderReplace(e.ctx(), draftOf("o", grantLine(1)), 0)
	requireWhy(t, err, fault.Refused, "already_paid")
	e.folds()
}

// PC-29: an order that is edited after a decline is charged what it says now; while an attempt is open it is not edited at all.
func TestPC29_AnEditedOrderIsChargedWhatItSays(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	d := e.place("o", grantLine(18))
	a := e.open(d, "first")
	d2 := draftOf("o", grantLine(10))
	_, err := e.s.OrderReplace(e.ctx(), d2, 0)
	requireWhy(t, err, fault.Refused, "attempt_unresolved")
	s := answer(a, order.Declined)
	s.Payment.Final = true
	e.keep(s)
	e.reflect(a)
	require.True(t, e.replace(d2))
	_, err = e.s.AttemptOpen(e.ctx(), attemptDraft(d, "old price"))
	requireWhy(t, err, fault.Refused, "order_changed")

	e.keep(answer(e.attempt(a), order.Succeeded)) // the first one was charged after all, at the old price
	e.reflect(a)
	require.Equal(t, order.OrderOpen, e.status("o"), "1800 do not pay for 1000")
	require.EqualValues(t, 1, e.reviews(a.AttemptID, order.ReviewLatePayment))
	e.pay(d2)
	require.EqualValues(t, 1000, e.count("SELECT p.captured_minor FROM payments p JOIN payment_attempts a USING (attempt_id) WHERE a.caller_key = 'pay-o'"))
	require.EqualValues(t, 10, e.count("SELECT count(*) FROM fulfillment_units"))
	e.folds()
}

// PC-29: an edit races the payment, many times: the attempt's amount is always what the order says.
func TestPC29_EditAgainstPay(t *testing.T) {
	t.Parallel()
	e := setupConns(t, 20, "")
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 1000))
	paid, edited := 0, 0
	for round := range 20 {
		id := order.ID(fmt.Sprint("o", round))
		d := e.place(id, stockLine("mug", 2))
		d2 := draftOf(id, stockLine("mug", 3))
		errs := together(8, func(i int) error {
			switch i % 4 {
			case 0:
				_, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d, fmt.Sprint(id, i)))
				return err
			case 1:
				_, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d2, fmt.Sprint(id, i)))
				return err
			case 2:
				_, err := e.s.CancelOpen(e.ctx(), cancelDraft(id, fmt.Sprint(id, i)))
				if round%3 != 0 || err == nil {
					return nil
				}
				return err
			}
			_, err := e.s.OrderReplace(e.ctx(), d2, 0)
			return err
		})
		for _, err := range errs {
			require.True(t, err == nil || fault.IsCode(err, fault.Refused), "%v", err)
		}
		n := e.count("SELECT count(*) FROM payment_attempts a JOIN orders o USING (order_id) WHERE order_id = $1 AND a.amount_minor = o.total_minor AND a.revision = o.revision", string(id))
		require.Equal(t, n, e.count("SELECT count(*) FROM payment_attempts WHERE order_id = $1", string(id)), "an attempt for another price than the order's")
		require.LessOrEqual(t, n, int64(1))
		paid += int(n)
		edited += int(e.count("SELECT revision - 1 FROM orders WHERE order_id = $1", string(id)))
	}
	t.Log("paid", paid, "edited", edited)
	require.Equal(t, e.count("SELECT coalesce(sum(CASE kind WHEN 'reserve' THEN quantity WHEN 'release' THEN -quantity END), 0) FROM stock_movements"), e.count("SELECT reserved FROM stock"))
	require.Equal(t, e.count("SELECT coalesce(sum(l.quantity), 0) FROM orders o JOIN order_lines l ON l.order_id = o.order_id AND l.revision = o.revision WHERE o.status = 'open'"), e.count("SELECT reserved FROM stock"))
	e.folds()
}
