package store

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Goal: the transaction record says what was sold, received and given back, once per transaction, whatever is repeated, and adds up to the
// books. Method: flows through the store, with everything told twice; random histories of refunds end in recorded() as well (books_test.go).
// Not covered: the API and the command, which starter tests.

// recorded requires that the records of every payment add up to what the payments and refunds say, and that every sale is there once.
func (e *env) recorded() {
	e.t.Helper()
	require.Zero(e.t, e.count(`SELECT count(*) FROM (
		SELECT p.order_id, p.payment_id, p.captured_minor - CASE WHEN p.taken_back THEN p.captured_minor - p.refunded_minor WHEN p.dispute = 'lost' THEN p.disputed_minor ELSE 0 END AS received, CASE WHEN p.matched THEN p.elsewhere_minor
			+ coalesce((SELECT sum(f.amount_minor) FROM refunds f WHERE f.payment_id = p.payment_id AND f.status = 'succeeded'), 0) ELSE p.refunded_minor END AS refunded
		FROM payments p WHERE p.order_id IS NOT NULL) b
		LEFT JOIN (SELECT order_id, payment_id, sum(received_minor) AS received, sum(refunded_minor) AS refunded FROM transaction_records WHERE kind <> 'sale' GROUP BY 1, 2) r
			USING (order_id, payment_id)
		WHERE (b.received, b.refunded) IS DISTINCT FROM (coalesce(r.received, 0), coalesce(r.refunded, 0))`), "records that do not add up to the books")
	require.Zero(e.t, e.count(`SELECT count(*) FROM orders o WHERE o.paid_at IS NOT NULL AND 1 <> (SELECT count(*) FROM transaction_records r
		WHERE r.order_id = o.order_id AND r.kind = 'sale' AND r.sold_minor = o.total_minor)`), "orders paid without a record of the sale")
	require.Zero(e.t, e.count(`SELECT count(*) FROM (SELECT order_id, seq, row_number() OVER (PARTITION BY order_id ORDER BY seq) AS n FROM transaction_records) x WHERE seq <> n`), "a gap within an order")
}

func (e *env) records(id order.ID) []sqlcgen.TransactionRecord {
	e.t.Helper()
	rs, err := e.s.Records(e.ctx(), client, id)
	require.NoError(e.t, err)
	return rs
}

// in short: kind and amounts.
func (e *env) recordsOf(id order.ID) []string {
	e.t.Helper()
	var out []string
	for _, r := range e.records(id) {
		corrects := int32(0)
		if r.CorrectsSeq != nil {
			corrects = *r.CorrectsSeq
		}
		out = append(out, fmt.Sprintf("%s%s %d %d %d of %d", r.Kind, r.Why, r.SoldMinor, r.ReceivedMinor, r.RefundedMinor, corrects))
	}
	return out
}

func TestRecordsOfAnOrder(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o1", grantLine(10)))
	e.keep(answer(a, order.Succeeded)) // told again
	e.reflect(a)
	require.Equal(t, []string{"receipt 0 1000 0 of 0", "sale 1000 0 0 of 0"}, e.recordsOf("o1"))

	r := e.giveBack(a, 300)
	e.tell(refundSays(e.refund(r), order.Succeeded)) // told again
	e.looked(a, 300)
	require.Equal(t, "refund 0 0 300 of 2", e.recordsOf("o1")[2])
	e.looked(a, 450) // somebody refunded 150 at the dashboard
	e.looked(a, 450)
	require.Equal(t, "correctionrefunded_elsewhere 0 0 150 of 2", e.recordsOf("o1")[3])
	e.tell(refundSays(e.refund(r), order.Declined)) // the bank sent it back
	require.Equal(t, "correctionrefund_undone 0 0 -300 of 2", e.recordsOf("o1")[4])
	e.tell(refundSays(e.refund(r), order.Succeeded)) // and it went through after all
	require.Equal(t, "refund 0 0 300 of 2", e.recordsOf("o1")[5])
	require.Len(t, e.records("o1"), 6)
	e.folds()

	t.Run("AnotherClientsAreNotFound", func(t *testing.T) {
		_, err := e.s.Records(t.Context(), "other", "o1")
		require.True(t, fault.IsCode(err, fault.NotFound), "%v", err)
		rs, err := e.s.Records(t.Context(), "", "o1")
		require.NoError(t, err)
		require.Len(t, rs, 6)
	})
	t.Run("NothingChangesThem", func(t *testing.T) {
		app, err := pgxpool.New(t.Context(), e.db.AppURL)
		require.NoError(t, err)
		defer app.Close()
		for _, sql := range []string{
			"UPDATE transaction_records SET sold_minor = 1", "UPDATE transaction_records SET number = number + 1", "UPDATE transaction_records SET number = NULL",
			"DELETE FROM transaction_records", "TRUNCATE transaction_records CASCADE",
		} {
			_, err := e.owner.Exec(t.Context(), sql)
			require.ErrorContains(t, err, "append-only", "the owner: %s", sql)
			_, err = app.Exec(t.Context(), sql)
			require.Error(t, err, "the application: %s", sql)
		}
	})
}

// What was sold is what the order stated when it was paid, per tax rate; nothing is computed.
func TestSaleStatesTaxPerRate(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := draftOf("o1", grantLine(2), grantLine(3), grantLine(1))
	d.Lines[0].TaxRate, d.Lines[1].TaxRate, d.Lines[0].Name = "10", "8", "Mug \"blue\""
	d.Adjustments = []order.Adjustment{
		{Kind: "discount", Amount: -50, TaxRate: "10"},
		{Kind: "shipping", Amount: 40, TaxRate: "10"},
		{Kind: "tax", Amount: 7},
		{Kind: order.IncludedTax, Amount: 17, TaxRate: "10"},
		{Kind: order.IncludedTax, Amount: 22, TaxRate: "8"},
	}
	d.Total = d.Sum()
	require.EqualValues(t, 597, d.Total, "an included tax enters no sum")
	require.Empty(t, d.Validate())
	_, err := e.s.OrderPlace(e.ctx(), d, "k", order.DefaultPolicy())
	require.NoError(t, err)
	e.pay(d)
	var doc struct {
		Lines  []map[string]any `json:"lines"`
		ByRate []map[string]any `json:"by_rate"`
	}
	require.NoError(t, json.Unmarshal(e.records("o1")[1].Document, &doc))
	require.Len(t, doc.Lines, 3)
	require.Equal(t, `Mug "blue"`, doc.Lines[0]["name"])
	rate := func(rate string, lines, discount, shipping, tax, included any) map[string]any {
		return map[string]any{"tax_rate": rate, "lines_minor": lines, "discount_minor": discount, "shipping_minor": shipping, "tax_minor": tax, "included_tax_minor": included}
	}
	require.ElementsMatch(t, []map[string]any{
		rate("", 100.0, nil, nil, 7.0, nil), rate("10", 200.0, -50.0, 40.0, nil, 17.0), rate("8", 300.0, nil, nil, nil, 22.0),
	}, doc.ByRate)
	e.exec("UPDATE order_lines SET name = 'another' WHERE order_id = 'o1'")
	require.Contains(t, string(e.records("o1")[1].Document), `Mug \"blue\"`, "it is a copy")
}

// Money that does not fit, or comes too late, is recorded as received, and moves with the payment.
func TestRecordsOfMoneyThatDoesNotFit(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.open(e.place("o1", grantLine(10)), "pay")
	s := answer(a, order.Succeeded)
	s.Payment.CapturedMinor = 700
	e.keep(s)
	require.Equal(t, order.OrderOpen, e.reflect(a).Order)
	require.Equal(t, []string{"receipt 0 700 0 of 0"}, e.recordsOf("o1"))
	e.recorded()
	e.keep(answer(e.attempt(a), order.Succeeded))
	require.Equal(t, order.OrderPaid, e.reflect(a).Order)
	require.Equal(t, []string{"receipt 0 700 0 of 0", "correctioncaptured_changed 0 300 0 of 1", "sale 1000 0 0 of 0"}, e.recordsOf("o1"))
	e.recorded()

	other := e.place("o2", grantLine(10))
	e.exec(`INSERT INTO payments (payment_id, gateway, account, environment, provider_payment_id, order_id, currency, captured_minor, matched)
		VALUES ('p9', 'stripe', 'default', 'test', 'pi_9', 'o1', 'JPY', 1000, false)`)
	e.exec("UPDATE payments SET order_id = $1 WHERE payment_id = 'p9'", string(other.ID))
	require.Equal(t, []string{"receipt 0 1000 0 of 0", "correctionpayment_moved 0 -1000 0 of 3"}, e.recordsOf("o1")[3:])
	require.Equal(t, []string{"receipt 0 1000 0 of 0"}, e.recordsOf("o2"))
	e.recorded()
}

// Numbers go on without a gap, whoever numbers, however many transactions run at once and however many of them fail.
func TestNumbersHaveNoGap(t *testing.T) {
	t.Parallel()
	e := setup(t)
	const orders = 40
	var ids []order.ID
	for i := range orders {
		ids = append(ids, e.place(order.ID(fmt.Sprint("o", i)), grantLine(1)).ID)
	}
	for _, err := range together(orders, func(i int) error {
		d := draftOf(ids[i], grantLine(1))
		a, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d, "pay-"+string(d.ID)))
		if err != nil {
			return err
		}
		if a, _, err = e.s.OperationClaim(e.ctx(), idOf(a), confirmOf(a), ""); err != nil {
			return err
		}
		if _, err := e.s.ObservationKeep(e.ctx(), answer(a, order.Succeeded), ""); err != nil {
			return err
		}
		if _, err := e.s.Reflect(e.ctx(), idOf(a)); err != nil {
			return err
		}
		if rand.IntN(2) == 0 { // a record that is rolled back
			tx, err := e.owner.Begin(e.ctx())
			if err != nil {
				return err
			}
			if _, err := tx.Exec(e.ctx(), "UPDATE payments SET elsewhere_minor = 1, refunded_minor = 1 WHERE order_id = $1", string(d.ID)); err != nil {
				return err
			}
			if err := tx.Rollback(e.ctx()); err != nil {
				return err
			}
		}
		_, err = e.s.RecordsNumber(e.ctx())
		return err
	}) {
		require.NoError(t, err)
	}
	_, err := e.s.RecordsNumber(e.ctx())
	require.NoError(t, err)
	require.EqualValues(t, 2*orders, e.count("SELECT count(*) FROM transaction_records WHERE number IS NOT NULL"))
	require.EqualValues(t, 2*orders, e.count("SELECT max(number) FROM transaction_records"))
	n, err := e.s.RecordsNumber(e.ctx())
	require.NoError(t, err)
	require.Zero(t, n, "a second time does nothing")

	page, err := e.s.RecordsAfter(e.ctx(), client, 0, 30)
	require.NoError(t, err)
	require.Len(t, page, 30)
	rest, err := e.s.RecordsAfter(e.ctx(), client, *page[29].Number, 1000)
	require.NoError(t, err)
	require.Len(t, rest, 2*orders-30)
	none, err := e.s.RecordsAfter(e.ctx(), "other", 0, 10)
	require.NoError(t, err)
	require.Empty(t, none)
	e.recorded()
}
