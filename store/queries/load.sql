-- name: OrderSnapshot :one
-- Everything a run of the workflow decides by, in one round trip.
SELECT sqlc.embed(o),
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', a.attempt_id, 'status', a.status, 'gateway', a.gateway, 'account', a.account,
            'environment', a.environment, 'unreflected', a.observed_seq <> a.reflected_seq, 'closed', a.closed_at IS NOT NULL,
            'look', a.status IN ('succeeded', 'closed') AND a.next_check_at IS NOT NULL, 'capture', a.status = 'pending' AND a.capture_minor > 0)
            ORDER BY a.created_at), '[]'::jsonb)
     FROM payment_attempts a WHERE a.order_id = o.order_id AND (a.closed_at IS NULL OR a.observed_seq <> a.reflected_seq
         OR (a.status IN ('succeeded', 'closed') AND a.next_check_at IS NOT NULL)))::jsonb AS attempts,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', f.refund_id, 'attempt_id', f.attempt_id, 'status', f.status, 'gateway', f.gateway,
            'account', f.account, 'environment', f.environment, 'unreflected', f.observed_seq <> f.reflected_seq,
            'look', f.status IN ('succeeded', 'failed') AND f.next_check_at IS NOT NULL) ORDER BY f.created_at, f.refund_id), '[]'::jsonb)
     FROM refunds f WHERE f.order_id = o.order_id AND (f.status NOT IN ('succeeded', 'failed') OR f.observed_seq <> f.reflected_seq
         OR f.next_check_at IS NOT NULL))::jsonb AS refunds,
    (SELECT jsonb_build_object('id', c.cancel_id, 'status', c.status) FROM cancels c WHERE c.cancel_id = o.cancel_id AND c.status <> 'done')::jsonb AS cancel,
    (SELECT count(*) FROM fulfillment_units u WHERE u.order_id = o.order_id AND u.status = 'planned' AND u.action IN ('stock', 'grant')) AS internal_planned,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', x.unit_id, 'status', x.status)), '[]'::jsonb) FROM (
        SELECT u.unit_id, u.status FROM fulfillment_units u
        WHERE u.order_id = o.order_id AND u.action = 'issue' AND u.status IN ('planned', 'issuing', 'unknown')
          AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.subject_kind = 'unit' AND r.subject_id = u.unit_id AND r.status = 'open')
        ORDER BY u.line_no, u.ordinal LIMIT sqlc.arg(batch)) x)::jsonb AS external_open,
    (SELECT coalesce(jsonb_agg(x.subject_id ORDER BY x.due, x.subject_id), '[]'::jsonb) FROM (
        SELECT r.subject_id, min(r.next_check_at) AS due FROM reviews r
        WHERE r.order_id = o.order_id AND r.status = 'open' AND r.subject_kind = 'unit'
        GROUP BY r.subject_id ORDER BY due, r.subject_id LIMIT 20) x)::jsonb AS units_held,
    (SELECT coalesce(jsonb_object_agg(c.status, c.n), '{}'::jsonb) FROM (
        SELECT u.status, count(*) AS n FROM fulfillment_units u WHERE u.order_id = o.order_id GROUP BY u.status) c)::jsonb AS unit_counts,
    (SELECT count(*) FROM event_deliveries d WHERE d.order_id = o.order_id AND d.status = 'pending' AND d.tries = 0) AS deliveries_fresh,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', r.review_id, 'version', r.version, 'reason', r.reason, 'subject_kind', r.subject_kind,
            'subject_id', r.subject_id, 'owner', CASE WHEN r.assigned_to <> '' THEN r.assigned_to ELSE r.owner END, 'opened_at', r.opened_at) ORDER BY r.subject_kind = 'unit', r.opened_at), '[]'::jsonb)
     FROM (SELECT * FROM reviews v WHERE v.order_id = o.order_id AND v.status = 'open' ORDER BY v.subject_kind = 'unit', v.opened_at LIMIT 20) r)::jsonb AS reviews
FROM orders o WHERE o.order_id = sqlc.arg(order_id);
