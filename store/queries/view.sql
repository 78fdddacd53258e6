-- name: OrderHead :one
-- What an order's three states are made of, in one round trip.
SELECT sqlc.embed(o),
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', a.attempt_id, 'status', a.status, 'close_reason', a.close_reason, 'code', a.code,
            'closed', a.closed_at IS NOT NULL, 'held', a.status = 'pending' AND a.held_minor > 0, 'capturing', a.status = 'pending' AND a.capture_minor > 0, 'part', a.status = 'succeeded' AND EXISTS (
                SELECT 1 FROM payments p WHERE p.attempt_id = a.attempt_id AND p.matched AND p.captured_minor < a.amount_minor)) ORDER BY a.created_at, a.attempt_id), '[]'::jsonb)
     FROM payment_attempts a WHERE a.order_id = o.order_id)::jsonb AS attempts,
    (SELECT coalesce(sum(p.captured_minor) FILTER (WHERE p.matched), 0) FROM payments p WHERE p.order_id = o.order_id)::bigint AS captured_minor,
    (SELECT coalesce(sum(p.refunded_minor) FILTER (WHERE p.matched), 0) FROM payments p WHERE p.order_id = o.order_id)::bigint AS refunded_minor,
    (SELECT count(*) FROM payments p WHERE p.order_id = o.order_id AND NOT p.matched) AS payments_unmatched,
    (SELECT coalesce(jsonb_object_agg(x.word, x.minor), '{}'::jsonb) FROM (
        SELECT CASE WHEN p.taken_back THEN 'taken_back' ELSE p.dispute END AS word,
               sum(CASE WHEN p.taken_back THEN p.captured_minor - p.refunded_minor ELSE p.disputed_minor END)::bigint AS minor
        FROM payments p WHERE p.order_id = o.order_id AND p.matched AND (p.taken_back OR p.dispute IN ('open', 'lost')) GROUP BY 1) x)::jsonb AS away,
    (SELECT coalesce(jsonb_object_agg(c.status, c.n), '{}'::jsonb) FROM (
        SELECT u.status, count(*) AS n FROM fulfillment_units u WHERE u.order_id = o.order_id GROUP BY u.status) c)::jsonb AS unit_counts,
    (SELECT count(*) FROM reviews r WHERE r.order_id = o.order_id AND r.status = 'open') AS reviews_open
FROM orders o WHERE o.order_id = sqlc.arg(order_id);
