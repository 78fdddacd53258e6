-- name: ReceiptKeep :one
-- Once per event. A copy changes nothing, with one exception: a notice that nothing proves is no reason to ignore the next one, since
-- anybody could have sent it first. Such a row is taken up again when its last look is over.
INSERT INTO webhook_receipts AS w (gateway, account, environment, event_id, event_type, provider_payment_id, merchant_reference, proof, says,
                              wrong_environment, provider_at, processed_at, result)
VALUES (sqlc.arg(gateway), sqlc.arg(account), sqlc.arg(environment), sqlc.arg(event_id), sqlc.arg(event_type), sqlc.arg(provider_payment_id),
        sqlc.arg(merchant_reference), sqlc.arg(proof), sqlc.arg(says), sqlc.arg(wrong_environment), sqlc.narg(provider_at),
        CASE WHEN sqlc.arg(result)::text = '' THEN NULL ELSE now() END, sqlc.arg(result)::text)
ON CONFLICT (gateway, account, environment, event_id) DO UPDATE
SET proof = excluded.proof, says = excluded.says, provider_payment_id = excluded.provider_payment_id,
    merchant_reference = excluded.merchant_reference, received_at = now(), tries = 0, next_try_at = now(), processed_at = NULL, result = ''
WHERE w.proof = 'none' AND w.result IN ('', 'look', 'known', 'unmatched')
  AND (excluded.proof <> 'none' OR w.processed_at < now() - sqlc.arg(again_after)::interval)
RETURNING receipt_id, (xmax = 0)::boolean AS fresh;

-- name: ReceiptsTake :many
-- The receipts whose turn it is, each with the attempt it is about: by the provider's id first, then by our reference. Another payment
-- that goes by our reference is not the attempt's: a look at the attempt would never see it. Several processes take different rows.
SELECT w.receipt_id, w.gateway, w.account, w.environment, w.provider_payment_id, w.merchant_reference, w.proof, w.says, w.tries,
       (w.received_at < now() - sqlc.arg(orphan_after)::interval)::boolean AS overdue,
       (extract(epoch FROM now() - w.received_at) * 1000)::bigint AS age_ms,
       coalesce(m.attempt_id, '')::text AS attempt_id, coalesce(m.order_id, '')::text AS order_id, coalesce(m.status, '')::text AS attempt_status
FROM webhook_receipts w
LEFT JOIN LATERAL (
    SELECT i.attempt_id, i.order_id, i.status FROM payment_attempts i
    WHERE w.provider_payment_id <> '' AND i.provider_payment_id <> '' AND i.gateway = w.gateway AND i.account = w.account
      AND i.environment = w.environment AND i.provider_payment_id = w.provider_payment_id
    UNION ALL
    SELECT r.attempt_id, r.order_id, r.status FROM payment_attempts r
    WHERE w.merchant_reference <> '' AND r.gateway = w.gateway AND r.account = w.account
      AND r.environment = w.environment AND r.merchant_reference = w.merchant_reference
      AND (w.provider_payment_id = '' OR r.provider_payment_id IN ('', w.provider_payment_id))
    LIMIT 1) m ON true
WHERE w.processed_at IS NULL AND w.next_try_at <= now()
ORDER BY w.next_try_at LIMIT sqlc.arg(max_rows)
FOR UPDATE OF w SKIP LOCKED;

-- name: ReceiptsDone :exec
UPDATE webhook_receipts w SET processed_at = now(), result = d.result, tries = w.tries + 1
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id, unnest(sqlc.arg(results)::text[]) AS result) d
WHERE w.receipt_id = d.id AND w.processed_at IS NULL;

-- name: ReceiptsLater :exec
UPDATE webhook_receipts w SET tries = w.tries + 1, next_try_at = now() + d.ms * interval '1 millisecond'
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id, unnest(sqlc.arg(wait_ms)::bigint[]) AS ms) d
WHERE w.receipt_id = d.id AND w.processed_at IS NULL;

-- name: ReceiptsPrune :execrows
DELETE FROM webhook_receipts WHERE receipt_id IN (
    SELECT w.receipt_id FROM webhook_receipts w WHERE w.processed_at < now() - sqlc.arg(max_age)::interval LIMIT sqlc.arg(max_rows));

-- name: HintsPrune :execrows
-- What anybody could have sent, and what met no payment of ours, goes sooner.
DELETE FROM webhook_receipts WHERE receipt_id IN (
    SELECT w.receipt_id FROM webhook_receipts w
    WHERE w.processed_at < now() - sqlc.arg(max_age)::interval AND w.proof = 'none' AND w.result IN ('ignored', 'unmatched', 'wrong_environment')
    LIMIT sqlc.arg(max_rows));

-- name: LooksWant :exec
-- Rows are taken in one order, so that two processes never wait for each other. An attempt that a run is sending right now gets a
-- moment: its own answer mostly makes the look needless.
INSERT INTO looks_wanted AS l (attempt_id, order_id, gateway, account, environment, source, says, waited_for, next_try_at)
SELECT a.attempt_id, a.order_id, a.gateway, a.account, a.environment, sqlc.arg(source)::text, d.says, sqlc.arg(waited_for)::boolean,
       CASE WHEN a.status IN ('created', 'sent') THEN now() + sqlc.arg(sending_wait)::interval ELSE now() END
FROM (SELECT unnest(sqlc.arg(attempt_ids)::text[]) AS attempt_id, unnest(sqlc.arg(says)::text[]) AS says) d
JOIN payment_attempts a ON a.attempt_id = d.attempt_id ORDER BY a.attempt_id
ON CONFLICT (attempt_id) DO UPDATE
SET asked_seq = l.asked_seq + 1, waited_for = l.waited_for OR excluded.waited_for,
    says = CASE WHEN l.says = excluded.says THEN l.says ELSE '' END,
    next_try_at = CASE WHEN excluded.waited_for AND NOT l.waited_for THEN excluded.next_try_at ELSE l.next_try_at END;

-- name: LooksTake :many
-- Leases the next looks of one account to this process. One that dies leaves them to the next round after the lease.
UPDATE looks_wanted l SET next_try_at = now() + sqlc.arg(lease)::interval
FROM (SELECT t.attempt_id FROM looks_wanted t
      WHERE t.gateway = sqlc.arg(gateway) AND t.account = sqlc.arg(account) AND t.environment = sqlc.arg(environment) AND t.next_try_at <= now()
      ORDER BY t.waited_for DESC, t.next_try_at LIMIT sqlc.arg(max_rows) FOR UPDATE SKIP LOCKED) taken
JOIN payment_attempts a ON a.attempt_id = taken.attempt_id
WHERE l.attempt_id = taken.attempt_id
RETURNING l.attempt_id, l.order_id, l.source, l.says, l.asked_seq, a.status;

-- name: LooksLater :exec
UPDATE looks_wanted SET next_try_at = now() + sqlc.arg(wait)::interval WHERE attempt_id = ANY(sqlc.arg(attempt_ids)::text[]);

-- name: LookTold :execrows
DELETE FROM looks_wanted WHERE attempt_id = sqlc.arg(attempt_id) AND asked_seq = sqlc.arg(asked_seq);

-- name: LookAskedAgain :exec
-- Asked for again since it was taken: it stays, and is told again, because the look may have been made before the news. A statement of
-- its own: one that deleted and updated at once would see neither row when the asking committed in between.
UPDATE looks_wanted l SET next_try_at = now(), waited_for = false WHERE l.attempt_id = sqlc.arg(attempt_id) AND l.asked_seq <> sqlc.arg(asked_seq);

-- name: LooksWaiting :one
-- For a gauge: beyond some number the number does not matter.
SELECT count(*) FROM (SELECT 1 FROM looks_wanted LIMIT 10000) l;

-- name: AttemptAskOnce :exec
-- Of a settled attempt nobody asks any more; the row says that it has to be asked once. The run is told at once; the time is when
-- the sweep tells it again, if the look has not been made by then. A look under way may have read before the news: it is counted.
UPDATE payment_attempts SET next_check_at = coalesce(next_check_at, now() + interval '1 minute'), looks_asked = looks_asked + 1
WHERE attempt_id = $1 AND status IN ('succeeded', 'closed');

-- name: AttemptByProvider :one
SELECT i.* FROM payment_attempts i
WHERE sqlc.arg(provider_payment_id)::text <> '' AND i.provider_payment_id <> '' AND i.gateway = sqlc.arg(gateway) AND i.account = sqlc.arg(account)
  AND i.environment = sqlc.arg(environment) AND i.provider_payment_id = sqlc.arg(provider_payment_id)::text
UNION ALL
SELECT r.* FROM payment_attempts r
WHERE sqlc.arg(merchant_reference)::text <> '' AND r.gateway = sqlc.arg(gateway) AND r.account = sqlc.arg(account)
  AND r.environment = sqlc.arg(environment) AND r.merchant_reference = sqlc.arg(merchant_reference)::text
LIMIT 1;

-- name: AttemptByReturnToken :one
SELECT * FROM payment_attempts WHERE return_token_hash = $1;

-- name: OrphanNote :one
-- One row per payment, however many events tell of it. One that a person has ended stays ended.
INSERT INTO orphan_payments AS p (orphan_id, gateway, account, environment, subject, provider_payment_id, merchant_reference, says,
                                  currency, captured_minor, provider_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (gateway, account, environment, subject) DO UPDATE SET last_seen_at = now(), says = excluded.says,
    currency = CASE WHEN excluded.captured_minor > 0 THEN excluded.currency ELSE p.currency END,
    captured_minor = CASE WHEN excluded.captured_minor > 0 THEN excluded.captured_minor ELSE p.captured_minor END,
    provider_at = coalesce(p.provider_at, excluded.provider_at),
    merchant_reference = CASE WHEN p.merchant_reference = '' THEN excluded.merchant_reference ELSE p.merchant_reference END
RETURNING orphan_id, status;

-- name: OrphansLink :exec
-- An attempt explains the payment after all: its review ends by that evidence.
WITH found AS (
    UPDATE orphan_payments p SET status = 'linked', attempt_id = d.attempt_id, ended_at = now(), last_seen_at = now()
    FROM (SELECT unnest(sqlc.arg(subjects)::text[]) AS subject, unnest(sqlc.arg(attempt_ids)::text[]) AS attempt_id) d
    JOIN payment_attempts a ON a.attempt_id = d.attempt_id
    WHERE p.status = 'open' AND p.gateway = a.gateway AND p.account = a.account AND p.environment = a.environment AND p.subject = d.subject
      -- A second payment under an attempt's reference is not that attempt's.
      AND (p.provider_payment_id = '' OR a.provider_payment_id IN ('', p.provider_payment_id))
    RETURNING p.orphan_id)
UPDATE reviews SET status = 'resolved', resolved_at = now(), resolved_by = 'evidence', version = version + 1
WHERE subject_kind = 'orphan' AND status = 'open' AND subject_id IN (SELECT orphan_id FROM found);

-- name: OrphanClose :exec
UPDATE orphan_payments SET status = 'closed', ended_at = now() WHERE orphan_id = $1 AND status = 'open';

-- name: OrphanLock :one
SELECT * FROM orphan_payments WHERE orphan_id = $1 FOR UPDATE;

-- name: OrphanLinkTo :exec
-- A person says whose payment it is.
UPDATE orphan_payments SET status = 'linked', attempt_id = sqlc.arg(attempt_id)::text, ended_at = now(), last_seen_at = now()
WHERE orphan_id = sqlc.arg(orphan_id) AND status = 'open';

-- name: AttemptLinkPayment :exec
-- The attempt gets the payment's id, which no other has (a unique index), and a look that was made before is older than that (rule 5).
UPDATE payment_attempts SET provider_payment_id = sqlc.arg(provider_payment_id), version = version + 1
WHERE attempt_id = sqlc.arg(attempt_id) AND provider_payment_id IN ('', sqlc.arg(provider_payment_id));

-- name: OrphanGet :one
SELECT * FROM orphan_payments WHERE orphan_id = $1;

-- name: OrphansOpen :many
SELECT * FROM orphan_payments WHERE status = 'open' ORDER BY first_seen_at LIMIT $1;
