-- name: OrdersPaidWaiting :many
-- Money is held and goods are owed, the longest first; from the index of such orders alone.
SELECT o.order_id, o.client_id, o.currency, o.total_minor, o.paid_at,
       (SELECT count(*) FROM fulfillment_units u WHERE u.order_id = o.order_id) AS units,
       (SELECT count(*) FROM fulfillment_units u WHERE u.order_id = o.order_id AND u.status = 'issued') AS issued,
       (SELECT count(*) FROM fulfillment_units u WHERE u.order_id = o.order_id AND u.status = 'unknown') AS unknown,
       (SELECT count(*) FROM reviews r WHERE r.order_id = o.order_id AND r.status = 'open') AS reviews_open
FROM orders o
WHERE o.status = 'paid' AND (o.paid_at, o.order_id) > (sqlc.arg(after_at)::timestamptz, sqlc.arg(after_id)::text)
ORDER BY o.paid_at, o.order_id LIMIT sqlc.arg(max_rows);

-- name: SearchIDs :many
-- What an exact id names: ours by their keys, a provider's within every account there is. The accounts are read by skipping from one
-- to the next in an index, so that the search follows their number and not that of the payments.
WITH RECURSIVE accounts AS (
    (SELECT a.gateway, a.account, a.environment FROM payment_attempts a ORDER BY a.gateway, a.account, a.environment LIMIT 1)
    UNION ALL
    SELECT n.gateway, n.account, n.environment FROM accounts c CROSS JOIN LATERAL (
        SELECT a.gateway, a.account, a.environment FROM payment_attempts a
        WHERE (a.gateway, a.account, a.environment) > (c.gateway, c.account, c.environment)
        ORDER BY a.gateway, a.account, a.environment LIMIT 1) n
)
SELECT 'order'::text AS kind, o.order_id::text AS id, o.order_id::text AS order_id FROM orders o WHERE o.order_id = sqlc.arg(q)::text
UNION ALL
SELECT 'attempt', a.attempt_id, a.order_id FROM payment_attempts a WHERE a.attempt_id = sqlc.arg(q)::text
UNION ALL
SELECT 'payment', a.provider_payment_id, a.order_id FROM accounts c JOIN payment_attempts a
    ON a.gateway = c.gateway AND a.account = c.account AND a.environment = c.environment AND a.provider_payment_id = sqlc.arg(q)::text AND a.provider_payment_id <> ''
UNION ALL
SELECT 'payment', p.provider_payment_id, coalesce(p.order_id, '') FROM accounts c JOIN payments p
    ON p.gateway = c.gateway AND p.account = c.account AND p.environment = c.environment AND p.provider_payment_id = sqlc.arg(q)::text
UNION ALL
SELECT 'reference', a.merchant_reference, a.order_id FROM accounts c JOIN payment_attempts a
    ON a.gateway = c.gateway AND a.account = c.account AND a.environment = c.environment AND a.merchant_reference = sqlc.arg(q)::text
UNION ALL
SELECT 'refund', r.refund_id, r.order_id FROM refunds r WHERE r.refund_id = sqlc.arg(q)::text
UNION ALL
SELECT 'refund', r.refund_id, r.order_id FROM accounts c JOIN refunds r
    ON r.gateway = c.gateway AND r.account = c.account AND r.environment = c.environment AND r.reference = sqlc.arg(q)::text
UNION ALL
SELECT 'refund', r.refund_id, r.order_id FROM accounts c JOIN refunds r
    ON r.gateway = c.gateway AND r.account = c.account AND r.environment = c.environment AND r.provider_refund_id = sqlc.arg(q)::text AND r.provider_refund_id <> ''
UNION ALL
SELECT 'unit', u.unit_id, u.order_id FROM fulfillment_units u WHERE u.unit_id = sqlc.arg(q)::text
UNION ALL
SELECT 'operation', p.operation_id, p.order_id FROM operations p WHERE p.operation_id = sqlc.arg(q)::text
UNION ALL
SELECT 'review', r.review_id, coalesce(r.order_id, '') FROM reviews r WHERE r.review_id = sqlc.arg(q)::text
UNION ALL
SELECT 'review', r.review_id, '' FROM orphan_payments h JOIN reviews r ON r.subject_kind = 'orphan' AND r.subject_id = h.orphan_id
    WHERE r.status = 'open' AND h.status = 'open' AND sqlc.arg(q)::text IN (h.orphan_id, h.subject, h.provider_payment_id, h.merchant_reference)
LIMIT 50;

-- name: AuditPage :many
-- What people decided, and what they were refused, the newest first.
SELECT x.at, x.id, x.order_id, x.review_id, x.actor, x.role, x.claimed, x.channel, x.act, x.reason, x.detail, x.approver, x.approver_reason FROM (
    (SELECT d.at::timestamptz AS at, d.decision_id::text AS id, coalesce(d.order_id, '')::text AS order_id, d.review_id::text AS review_id,
            d.actor::text AS actor, d.actor_role::text AS role, d.actor_claimed::boolean AS claimed, d.channel::text AS channel,
            d.decision::text AS act, d.reason::text AS reason, d.evidence::jsonb AS detail, d.approver::text AS approver, d.approver_reason::text AS approver_reason
     FROM review_decisions d WHERE (d.at, d.decision_id) < (sqlc.arg(before_at)::timestamptz, sqlc.arg(before_id)::text)
     ORDER BY d.at DESC, d.decision_id DESC LIMIT sqlc.arg(max_rows))
    UNION ALL
    (SELECT l.at, lpad(l.audit_id::text, 20, '0'), coalesce(l.order_id, ''), coalesce(l.review_id, ''), l.actor, '', false, l.channel, l.act, '', l.detail, '', ''
     FROM audit_log l WHERE (l.at, lpad(l.audit_id::text, 20, '0')) < (sqlc.arg(before_at)::timestamptz, sqlc.arg(before_id)::text)
     ORDER BY l.at DESC, lpad(l.audit_id::text, 20, '0') DESC LIMIT sqlc.arg(max_rows))) x
ORDER BY x.at DESC, x.id DESC LIMIT sqlc.arg(max_rows);
