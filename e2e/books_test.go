package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
)

// booksAgree is the one comparison every test ends in: the books of the outside world against our database.
//
//	I1 money recorded = money taken: none missing, none double
//	I2 at most one delivery per unit
//	I3 no unknown outcome became a failure without an answer that proves it
//	I4 no second charge or issuance beside one that is unknown
//	I5 every payment at the provider is linked to an attempt, or held in a review
//	I6 one outside notice per business event
//	I7 every manual act has actor, reason, proof, before and after
func (w *world) booksAgree() {
	w.t.Helper()
	w.moneyAgrees()
	w.refundsAgree()
	w.goodsAgree()
	w.noticesAgree()
	w.logAgrees()
	w.recordsAgree()
	w.requestsAgree()
}

func (w *world) moneyAgrees() {
	t := w.t
	t.Helper()
	type money struct{ held, refunded int64 } // held: captured, and not taken by a bank since
	theirs, ours := map[string]money{}, map[string]money{}
	perReference := map[string]int{}
	for _, c := range w.sandbox.Taken("") {
		if w.inDoubt[c.Reference] {
			continue
		}
		m := theirs[c.Gateway+" "+c.PaymentID]
		theirs[c.Gateway+" "+c.PaymentID] = money{m.held + c.Captured - c.Withdrawn, m.refunded + c.Refunded}
		if c.Withdrawn < c.Captured { // a deposit that the bank has taken back may be made again
			perReference[c.Gateway+" "+c.Reference]++
		}
	}
	for ref, n := range perReference {
		assert.Equal(t, 1, n, "I1: one capture per attempt, reference %s", ref)
	}
	rows, err := w.owner.Query(context.Background(), `SELECT gateway || ' ' || provider_payment_id, CASE WHEN taken_back THEN refunded_minor WHEN dispute = 'lost' THEN captured_minor - disputed_minor
		ELSE captured_minor END, refunded_minor FROM payments WHERE captured_minor > 0`)
	require.NoError(t, err)
	for rows.Next() {
		var id string
		var m money
		require.NoError(t, rows.Scan(&id, &m.held, &m.refunded))
		ours[id] = m
	}
	require.NoError(t, rows.Err())
	assert.Equal(t, theirs, ours, "I1: money recorded = money taken")
	assert.Zero(t, w.number("SELECT count(*) FROM payments p WHERE attempt_id IS NULL AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.subject_kind = 'payment' AND r.subject_id = p.payment_id)"),
		"I5: every payment is linked or in a review")
	assert.Zero(t, w.number(`SELECT count(*) FROM payment_attempts a WHERE a.status IN ('declined', 'closed') AND a.close_reason NOT IN ('before_send')
		AND NOT EXISTS (SELECT 1 FROM observations o WHERE o.attempt_id = a.attempt_id AND o.outcome IN ('declined', 'refused', 'not_found'))
		AND NOT EXISTS (SELECT 1 FROM transitions x WHERE x.subject_id = a.attempt_id AND x.decision_id <> '')`),
		"I3: declined or closed only by an answer or a decision")
	assert.Zero(t, w.number("SELECT count(*) FROM (SELECT order_id FROM payment_attempts WHERE closed_at IS NULL GROUP BY order_id HAVING count(*) > 1) x"),
		"I4: at most one attempt that can still take money")
	assert.Zero(t, w.number(`SELECT count(*) FROM orders o WHERE o.status IN ('paid', 'completed') AND o.external_decision = ''
		AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.order_id = o.order_id AND p.matched AND p.captured_minor = o.total_minor AND p.currency = o.currency)`),
		"S4: paid means that a matching payment is recorded")
}

func (w *world) goodsAgree() {
	t := w.t
	t.Helper()
	perUnit := map[string]int{}
	for _, i := range w.sandbox.Issuers().Issuances(issuersim.Filter{LiveOnly: true}) {
		perUnit[i.UnitID]++
		assert.Equal(t, 1, w.number("SELECT count(*) FROM fulfillment_units WHERE unit_id = $1 AND status IN ('issued', 'unknown', 'issuing')", i.UnitID),
			"Q3: what the issuer issued is issued here, or shown as unknown: %s", i.UnitID)
	}
	for unit, n := range perUnit {
		assert.Equal(t, 1, n, "I2: one issuance per unit, unit %s", unit)
	}
	rows, err := w.owner.Query(context.Background(), "SELECT unit_id FROM issuances WHERE source = 'issuer' AND revoked_at IS NULL")
	require.NoError(t, err)
	for rows.Next() {
		var unit string
		require.NoError(t, rows.Scan(&unit))
		assert.Equal(t, 1, perUnit[unit], "what we call issued is in the issuer's books: %s", unit)
	}
	require.NoError(t, rows.Err())
	assert.Zero(t, w.number(`SELECT count(*) FROM fulfillment_units u WHERE u.status = 'issued' AND NOT EXISTS (SELECT 1 FROM issuances i WHERE i.unit_id = u.unit_id AND i.revoked_at IS NULL)`),
		"I2: issued means that there is an issuance row")
	assert.Zero(t, w.number(`SELECT count(*) FROM fulfillment_units u JOIN orders o USING (order_id) WHERE u.status = 'issued' AND o.external_decision = ''
		AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.order_id = o.order_id AND p.matched AND p.first_seen_at <= u.issued_at)`),
		"S7: nothing is issued without money recorded before")
	assert.Zero(t, w.number(`SELECT count(*) FROM fulfillment_units u WHERE u.status = 'unknown' AND NOT EXISTS
		(SELECT 1 FROM reviews r WHERE r.subject_id = u.unit_id AND r.status = 'open') AND u.next_check_at IS NULL`), "Q4: what is unknown is owned or looked at again")
}

func (w *world) noticesAgree() {
	t := w.t
	t.Helper()
	seen := map[string]int{}
	for _, e := range w.sandbox.Receiver().Effects(receiver.Filter{}) {
		key := e.OrderID + "/" + e.Type
		if e.Type != "payment.declined" && !strings.HasPrefix(e.Type, "refund.") { // an order may have several of these
			seen[key]++
			assert.Equal(t, 1, seen[key], "I6: one effect per business event: %s", key)
		}
		assert.Equal(t, 1, w.number("SELECT count(*) FROM outbox_events WHERE event_id = $1", e.ID), "S12: only committed events are sent")
	}
	for _, d := range w.sandbox.Receiver().Deliveries(receiver.Filter{}) {
		// A fault that lets nothing happen also keeps the receiver from judging.
		assert.Empty(t, d.Problem, "every delivery is signed, and a repeated one is the same")
		if d.Fault == "" && d.Status != 0 {
			assert.True(t, d.Verified, "every delivery is signed")
		}
	}
}

// logAgrees folds the transition log and compares it with the rows (A4), and looks at what people did (I7).
func (w *world) logAgrees() {
	t := w.t
	t.Helper()
	const fold = `WITH last AS (SELECT DISTINCT ON (subject_kind, subject_id) subject_kind, subject_id, to_status FROM transitions ORDER BY subject_kind, subject_id, transition_id DESC)
		SELECT count(*) FROM (
			SELECT 'order' AS k, order_id AS id, status FROM orders
			UNION ALL SELECT 'attempt', attempt_id, status FROM payment_attempts
			UNION ALL SELECT 'refund', refund_id, status FROM refunds
			UNION ALL SELECT 'unit', unit_id, status FROM fulfillment_units) cur
		LEFT JOIN last ON last.subject_kind = cur.k AND last.subject_id = cur.id WHERE last.to_status IS DISTINCT FROM cur.status`
	assert.Zero(t, w.number(fold), "A4: the log folds to the current state")
	assert.Zero(t, w.number("SELECT count(*) FROM review_decisions WHERE actor = '' OR reason = '' OR before::text = '{}' OR after::text = '{}'"), "I7: every act is whole")
}

// recordsAgree adds up the transaction records and compares them with the books.
func (w *world) recordsAgree() {
	t := w.t
	t.Helper()
	assert.Zero(t, w.number(`SELECT count(*) FROM (SELECT p.order_id, p.payment_id, p.captured_minor - CASE WHEN p.taken_back THEN p.captured_minor - p.refunded_minor WHEN p.dispute = 'lost' THEN p.disputed_minor ELSE 0 END AS received, CASE WHEN p.matched THEN p.elsewhere_minor
			+ coalesce((SELECT sum(f.amount_minor) FROM refunds f WHERE f.payment_id = p.payment_id AND f.status = 'succeeded'), 0) ELSE p.refunded_minor END AS refunded
		FROM payments p WHERE p.order_id IS NOT NULL) b LEFT JOIN (SELECT order_id, payment_id, sum(received_minor) AS received, sum(refunded_minor) AS refunded
			FROM transaction_records WHERE kind <> 'sale' GROUP BY 1, 2) r USING (order_id, payment_id)
		WHERE (b.received, b.refunded) IS DISTINCT FROM (coalesce(r.received, 0), coalesce(r.refunded, 0))`), "the records add up to the books")
	assert.Zero(t, w.number(`SELECT count(*) FROM orders o WHERE o.paid_at IS NOT NULL
		AND 1 <> (SELECT count(*) FROM transaction_records r WHERE r.order_id = o.order_id AND r.kind = 'sale')`), "one sale per order that was paid")
	assert.Zero(t, w.number(`SELECT count(*) FROM (SELECT number, row_number() OVER (PARTITION BY client_id ORDER BY number) AS n
		FROM transaction_records WHERE number IS NOT NULL) x WHERE number <> n`), "numbers without a gap")
}

// settled waits until nothing moves any more: no work is open, except what people own.
func (w *world) settled(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.await("order "+id+" at rest", func() bool {
			return w.number("SELECT count(*) FROM orders WHERE order_id = $1 AND (work_seq = done_seq OR EXISTS (SELECT 1 FROM reviews r WHERE r.order_id = orders.order_id AND r.status = 'open'))", id) == 1 &&
				w.number("SELECT count(*) FROM event_deliveries WHERE order_id = $1 AND status = 'pending'", id) == 0
		})
	}
}

func TestOneOrderFromPayToGoods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.place("o/1 日本", grant("g", 2, 500), issued("tickets", "t", 3, 100))
	w.buy("o/1 日本", "k1")
	w.awaitStatus("o/1 日本", "completed")
	w.settled("o/1 日本")
	assert.Len(t, w.sandbox.Stripe().Charges(stripesim.Filter{CapturedOnly: true}), 1)
	assert.Len(t, w.sandbox.Issuers().Issuances(issuersim.Filter{}), 3)
	w.booksAgree()
}
