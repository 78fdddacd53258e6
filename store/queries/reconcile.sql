-- name: ReconcileNow :one
-- One clock for windows and ages, whatever process reads.
SELECT now()::timestamptz;

-- name: ReconcileReach :one
SELECT * FROM reconcile_cursors WHERE gateway = $1 AND account = sqlc.arg(account) AND environment = sqlc.arg(environment);

-- name: ReconcileReaches :many
SELECT gateway, account, environment, reached_at, moved_at FROM reconcile_cursors;

-- name: ReconcileMove :one
-- By compare-and-set: who read a page beside somebody else moves nothing. No row means conflict.
INSERT INTO reconcile_cursors AS c (gateway, account, environment, reached_at, window_from, window_until, page_cursor, items, hold_at, version)
VALUES (sqlc.arg(gateway), sqlc.arg(account), sqlc.arg(environment), sqlc.narg(reached_at), sqlc.narg(window_from), sqlc.narg(window_until),
        sqlc.arg(page_cursor), sqlc.arg(items), sqlc.narg(hold_at), 1)
ON CONFLICT (gateway, account, environment) DO UPDATE
SET reached_at = excluded.reached_at, window_from = excluded.window_from, window_until = excluded.window_until, page_cursor = excluded.page_cursor,
    items = excluded.items, hold_at = excluded.hold_at, version = c.version + 1, moved_at = now()
WHERE c.version = sqlc.arg(seen_version)
RETURNING version;

-- name: ReconcileAttempts :many
-- The attempts that a page names, by the provider's id, by our reference, or by a payment recorded for them; each with the money that
-- counts and with what the provider last answered about it.
WITH hits AS (
    SELECT i.attempt_id FROM payment_attempts i
    WHERE i.gateway = sqlc.arg(gateway) AND i.account = sqlc.arg(account) AND i.environment = sqlc.arg(environment)
      AND i.provider_payment_id <> '' AND i.provider_payment_id = ANY(sqlc.arg(ids)::text[])
    UNION
    SELECT r.attempt_id FROM payment_attempts r
    WHERE r.gateway = sqlc.arg(gateway) AND r.account = sqlc.arg(account) AND r.environment = sqlc.arg(environment)
      AND r.merchant_reference = ANY(sqlc.arg(refs)::text[])
    UNION
    SELECT p.attempt_id FROM payments p
    WHERE p.gateway = sqlc.arg(gateway) AND p.account = sqlc.arg(account) AND p.environment = sqlc.arg(environment)
      AND p.provider_payment_id = ANY(sqlc.arg(ids)::text[]) AND p.attempt_id IS NOT NULL)
SELECT a.attempt_id, a.status, a.provider_payment_id, a.merchant_reference, a.currency, a.amount_minor,
       (m.payment_id IS NOT NULL)::boolean AS recorded, coalesce(m.currency, '')::text AS recorded_currency,
       coalesce(m.captured_minor, 0)::bigint AS recorded_captured, coalesce(m.refunded_minor, 0)::bigint AS recorded_refunded,
       coalesce(m.dispute, '')::text AS recorded_dispute,
       coalesce(l.outcome, '')::text AS last_outcome, coalesce(l.provider_payment_id, '')::text AS last_payment_id,
       coalesce(l.merchant_reference, '')::text AS last_reference, coalesce(l.currency, '')::text AS last_currency,
       coalesce(l.amount_minor, 0)::bigint AS last_amount, coalesce(l.captured_minor, 0)::bigint AS last_captured,
       coalesce(l.refunded_minor, 0)::bigint AS last_refunded, coalesce(l.observed_at, 'epoch')::timestamptz AS last_at
FROM hits h JOIN payment_attempts a ON a.attempt_id = h.attempt_id
LEFT JOIN payments m ON m.attempt_id = a.attempt_id AND m.matched
LEFT JOIN LATERAL (
    SELECT o.* FROM observations o
    WHERE o.attempt_id = a.attempt_id AND o.outcome IN ('succeeded', 'declined', 'pending', 'untouched', 'not_found')
    ORDER BY o.seq DESC LIMIT 1) l ON true
ORDER BY a.attempt_id;

-- name: ReconcilePayments :many
SELECT provider_payment_id, coalesce(attempt_id, '')::text AS attempt_id FROM payments
WHERE gateway = sqlc.arg(gateway) AND account = sqlc.arg(account) AND environment = sqlc.arg(environment) AND provider_payment_id = ANY(sqlc.arg(ids)::text[]);

-- name: ReconcileOrphans :many
SELECT subject, status, says, captured_minor FROM orphan_payments
WHERE gateway = sqlc.arg(gateway) AND account = sqlc.arg(account) AND environment = sqlc.arg(environment) AND subject = ANY(sqlc.arg(subjects)::text[]);

-- name: ReconcileUnresolved :many
-- Attempts that were sent in a stretch of time and whose provider id never came.
SELECT a.currency, a.amount_minor, a.created_at FROM payment_attempts a
WHERE a.created_at >= sqlc.arg(since)::timestamptz AND a.created_at < sqlc.arg(until)::timestamptz
  AND a.gateway = sqlc.arg(gateway) AND a.account = sqlc.arg(account) AND a.environment = sqlc.arg(environment)
  AND a.provider_payment_id = '' AND a.status IN ('sent', 'unknown')
LIMIT 1000;

-- name: AttemptsToInquire :many
-- Every attempt of a stretch of time that something was sent for and that is not paid, in a fixed order: rows of one instant stand
-- neither on two pages nor on none.
SELECT a.attempt_id, a.merchant_reference, a.provider_payment_id, a.currency, a.status, a.sealed_private, a.created_at
FROM payment_attempts a
WHERE a.created_at >= sqlc.arg(since)::timestamptz AND a.created_at < sqlc.arg(until)::timestamptz
  AND (a.created_at, a.attempt_id) > (sqlc.arg(after_at)::timestamptz, sqlc.arg(after_id)::text)
  AND a.gateway = sqlc.arg(gateway) AND a.account = sqlc.arg(account) AND a.environment = sqlc.arg(environment)
  AND a.status NOT IN ('created', 'succeeded') AND a.close_reason <> 'before_send'
ORDER BY a.created_at, a.attempt_id LIMIT sqlc.arg(max_rows);

-- name: OrphanReviewOpen :exec
INSERT INTO reviews (review_id, subject_kind, subject_id, subject_version, reason, next_check_at, owner, gateway)
VALUES (sqlc.arg(review_id), 'orphan', sqlc.arg(orphan_id), 0, 'orphan_payment', sqlc.arg(next_check_at), sqlc.arg(owner), sqlc.arg(gateway))
ON CONFLICT (subject_kind, subject_id, reason) WHERE status = 'open' DO NOTHING;

-- name: OrphansExplain :many
-- Attempts that explain an open orphan after all, by ids. It reads open orphans only.
WITH found AS (
    UPDATE orphan_payments p SET status = 'linked', attempt_id = a.attempt_id, ended_at = now(), last_seen_at = now()
    FROM payment_attempts a
    WHERE p.status = 'open' AND p.gateway = sqlc.arg(gateway) AND p.account = sqlc.arg(account) AND p.environment = sqlc.arg(environment)
      AND a.gateway = sqlc.arg(gateway) AND a.account = sqlc.arg(account) AND a.environment = sqlc.arg(environment)
      AND ((p.provider_payment_id <> '' AND a.provider_payment_id <> '' AND a.provider_payment_id = p.provider_payment_id)
        OR (p.merchant_reference <> '' AND a.merchant_reference = p.merchant_reference AND (p.provider_payment_id = '' OR a.provider_payment_id = '')))
    RETURNING p.orphan_id, a.attempt_id, a.status),
done AS (
    UPDATE reviews SET status = 'resolved', resolved_at = now(), resolved_by = 'evidence', version = version + 1
    WHERE subject_kind = 'orphan' AND reviews.status = 'open' AND subject_id IN (SELECT found.orphan_id FROM found))
SELECT attempt_id, status FROM found;

-- name: OrphansHeld :one
SELECT count(*) AS held, coalesce(extract(epoch FROM now() - min(first_seen_at)), 0)::bigint AS oldest_seconds FROM orphan_payments WHERE status = 'open';
