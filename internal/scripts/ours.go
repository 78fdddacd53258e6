package scripts

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// ours reads what our database says, for all orders at once.
func (w *World) ours(ctx context.Context) (map[string]*ours, error) {
	out := map[string]*ours{}
	for _, read := range []struct {
		sql string
		row func(o *ours, a, b string, n, m int64)
	}{
		{"SELECT order_id, status, '', 0::bigint, 0::bigint FROM orders", nil},
		{
			"SELECT order_id, gateway || ' ' || provider_payment_id, '', captured_minor, " + here + " FROM payments WHERE order_id IS NOT NULL AND captured_minor > 0",
			func(o *ours, id, _ string, captured, here int64) {
				o.payments[id] = money{captured: captured, refunded: captured - here}
			},
		},
		{
			"SELECT order_id, '', '', sum(amount_minor)::bigint, 0::bigint FROM refunds WHERE status = 'succeeded' GROUP BY order_id",
			func(o *ours, _, _ string, minor, _ int64) { o.refunded = minor },
		},
		{
			`SELECT order_id, '', '', sum(amount_minor)::bigint, 0::bigint FROM refunds f WHERE status IN ('sent', 'unknown', 'pending')
				AND EXISTS (SELECT 1 FROM reviews r WHERE r.subject_id = f.refund_id AND r.status = 'open') GROUP BY order_id`,
			func(o *ours, _, _ string, minor, _ int64) { o.asked = minor },
		},
		{
			"SELECT order_id, status, action, count(*)::bigint, 0::bigint FROM fulfillment_units GROUP BY order_id, status, action",
			func(o *ours, status, action string, n, _ int64) {
				o.units[status] += int(n)
				if status == "issued" && action == "issue" {
					o.external += int(n)
				} else if status == "issued" {
					o.internal += int(n)
				}
			},
		},
		{openReviews, func(o *ours, reason, _ string, _, _ int64) { o.reviews = append(o.reviews, reason) }},
		{notOwned, func(o *ours, what, state string, _, _ int64) { o.open = append(o.open, what+" ("+state+")") }},
	} {
		rows, err := w.Owner.Query(ctx, read.sql)
		if err != nil {
			return nil, err
		}
		var id, a, b string
		var n, m int64
		_, err = pgx.ForEachRow(rows, []any{&id, &a, &b, &n, &m}, func() error {
			if read.row == nil {
				out[id] = &ours{status: a, payments: map[string]money{}, units: map[string]int{}}
			} else if o := out[id]; o != nil {
				read.row(o, a, b, n, m)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// here is what our row of a payment says is there: less what went back, and what a bank took.
const here = `(CASE WHEN taken_back THEN 0 ELSE captured_minor - refunded_minor - CASE WHEN dispute = 'lost' THEN disputed_minor ELSE 0 END END)`

const openReviews = "SELECT order_id, reason, '', 0::bigint, 0::bigint FROM reviews WHERE status = 'open' AND order_id IS NOT NULL ORDER BY reason"

// notOwned is everything that is not over and that neither a person has nor a next look is planned for.
const notOwned = `
SELECT a.order_id, 'attempt ' || a.attempt_id, a.status, 0::bigint, 0::bigint FROM payment_attempts a
WHERE a.status IN ('created', 'sent', 'unknown', 'pending', 'declined') AND a.next_check_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.subject_id = a.attempt_id AND r.status = 'open')
UNION ALL
SELECT f.order_id, 'refund ' || f.refund_id, f.status, 0, 0 FROM refunds f
WHERE f.status IN ('requested', 'sent', 'unknown', 'pending') AND f.next_check_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.subject_id = f.refund_id AND r.status = 'open')
UNION ALL
SELECT u.order_id, 'unit ' || u.unit_id, u.status, 0, 0 FROM fulfillment_units u JOIN orders o USING (order_id)
WHERE u.status IN ('planned', 'issuing', 'unknown', 'refused') AND u.next_check_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM reviews r WHERE (r.subject_id = u.unit_id OR r.order_id = u.order_id) AND r.status = 'open')
UNION ALL
SELECT o.order_id, 'the order''s work', o.status, 0, 0 FROM orders o
WHERE o.work_seq <> o.done_seq AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.order_id = o.order_id AND r.status = 'open')
  AND NOT EXISTS (SELECT 1 FROM payment_attempts a WHERE a.order_id = o.order_id AND a.next_check_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM refunds f WHERE f.order_id = o.order_id AND f.next_check_at IS NOT NULL)
UNION ALL
SELECT l.order_id, 'a wanted look', l.source, 0, 0 FROM looks_wanted l`
