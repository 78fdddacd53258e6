-- name: RefundInsert :one
INSERT INTO refunds (refund_id, order_id, attempt_id, payment_id, operation_id, client_id, caller_key, gateway, account, environment, reference,
                     number, left_minor, amount_minor, currency, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
RETURNING *;

-- name: RefundGet :one
SELECT * FROM refunds WHERE refund_id = $1;

-- name: RefundByCallerKey :one
SELECT * FROM refunds WHERE client_id = $1 AND caller_key = $2;

-- name: RefundsByOrder :many
SELECT * FROM refunds WHERE order_id = $1 ORDER BY created_at, refund_id;

-- name: RefundPaymentLock :many
-- The payment of an attempt, held: its row is what refunds are counted against. Every transaction that does so holds the order first.
SELECT * FROM payments WHERE attempt_id = sqlc.arg(attempt_id)::text AND matched FOR UPDATE;

-- name: RefundSums :one
-- What our refunds of one attempt come to, by what they may have done.
SELECT coalesce(sum(r.amount_minor) FILTER (WHERE r.status = 'requested'), 0)::bigint AS requested_minor,
       coalesce(sum(r.amount_minor) FILTER (WHERE r.status IN ('sent', 'unknown')), 0)::bigint AS underway_minor,
       coalesce(sum(r.amount_minor) FILTER (WHERE r.status = 'pending'), 0)::bigint AS pending_minor,
       coalesce(sum(r.amount_minor) FILTER (WHERE r.status = 'succeeded'), 0)::bigint AS succeeded_minor,
       coalesce(max(r.number), 0)::integer AS last_number
FROM refunds r WHERE r.attempt_id = $1;

-- name: RefundablesByOrder :many
-- Every captured payment of an order with what our refunds of it come to.
SELECT sqlc.embed(p),
       coalesce(sum(r.amount_minor) FILTER (WHERE r.status = 'requested'), 0)::bigint AS requested_minor,
       coalesce(sum(r.amount_minor) FILTER (WHERE r.status IN ('sent', 'unknown')), 0)::bigint AS underway_minor,
       coalesce(sum(r.amount_minor) FILTER (WHERE r.status = 'pending'), 0)::bigint AS pending_minor,
       coalesce(sum(r.amount_minor) FILTER (WHERE r.status = 'succeeded'), 0)::bigint AS succeeded_minor
FROM payments p LEFT JOIN refunds r ON r.attempt_id = p.attempt_id
WHERE p.order_id = sqlc.arg(order_id)::text AND p.matched GROUP BY p.payment_id ORDER BY p.first_seen_at, p.payment_id;

-- name: RefundWork :one
SELECT sqlc.embed(r), sqlc.embed(a), sqlc.embed(o), sqlc.embed(p)
FROM refunds r JOIN payment_attempts a ON a.attempt_id = r.attempt_id JOIN operations o ON o.operation_id = r.operation_id
JOIN payments p ON p.payment_id = r.payment_id
WHERE r.refund_id = $1;

-- name: RefundLock :one
-- Order, attempt, payment, refund (rule 9); all are locked, so all are read as they are after the wait.
SELECT sqlc.embed(o), sqlc.embed(a), sqlc.embed(p), sqlc.embed(r)
FROM refunds r JOIN orders o ON o.order_id = r.order_id JOIN payment_attempts a ON a.attempt_id = r.attempt_id
JOIN payments p ON p.payment_id = r.payment_id
WHERE r.refund_id = $1
FOR UPDATE OF o, a, p, r;

-- name: RefundLockSums :one
-- As RefundSums, of the refund's attempt.
SELECT coalesce(sum(r.amount_minor) FILTER (WHERE r.status = 'requested'), 0)::bigint AS requested_minor,
       coalesce(sum(r.amount_minor) FILTER (WHERE r.status IN ('sent', 'unknown')), 0)::bigint AS underway_minor,
       coalesce(sum(r.amount_minor) FILTER (WHERE r.status = 'pending'), 0)::bigint AS pending_minor,
       coalesce(sum(r.amount_minor) FILTER (WHERE r.status = 'succeeded'), 0)::bigint AS succeeded_minor,
       coalesce(max(r.number), 0)::integer AS last_number
FROM refunds x JOIN refunds r ON r.attempt_id = x.attempt_id WHERE x.refund_id = $1;

-- name: RefundSends :one
-- By the database's clock, as OperationQuiet.
SELECT o.operation_id, o.sends, (o.last_sent_at IS NULL OR o.last_sent_at < now() - sqlc.arg(safe_after)::interval)::boolean AS quiet
FROM refunds r JOIN operations o ON o.operation_id = r.operation_id WHERE r.refund_id = sqlc.arg(refund_id);

-- name: RefundMove :exec
UPDATE refunds SET status = sqlc.arg(to_status), version = version + 1,
       code = CASE WHEN sqlc.arg(code)::text = '' THEN code ELSE sqlc.arg(code)::text END,
       closed_at = CASE WHEN sqlc.arg(to_status)::text IN ('succeeded', 'failed') THEN now() END,
       next_check_at = sqlc.narg(next_check_at)::timestamptz,
       reflected_seq = greatest(reflected_seq, sqlc.arg(reflected_seq)::integer)
WHERE refund_id = sqlc.arg(refund_id) AND status = sqlc.arg(from_status) AND version = sqlc.arg(version);

-- name: RefundOperationClaim :one
-- Only the winner sends first (rule 2). The refund is locked and moves to sent in the same transaction.
UPDATE operations SET sends = 1, sent_at = now(), last_sent_at = now(), credential = sqlc.arg(credential)
WHERE operation_id = sqlc.arg(operation_id) AND sent_at IS NULL AND kind = 'refund'
RETURNING operation_id;

-- name: RefundClaimAgain :one
-- As OperationClaimAgain: by the number of sends it has seen, under the same credential, and only while nobody knows what became of it.
WITH held AS (SELECT r.operation_id FROM refunds r WHERE r.refund_id = sqlc.arg(refund_id) AND r.status IN ('sent', 'unknown') FOR SHARE OF r)
UPDATE operations op SET sends = op.sends + 1, last_sent_at = now(), credential = sqlc.arg(credential),
       outcome_code = CASE WHEN op.outcome = '' THEN '' ELSE op.outcome_code END
WHERE op.operation_id IN (SELECT held.operation_id FROM held) AND op.sends > 0 AND op.sends = sqlc.arg(seen_sends) AND op.finished_at IS NULL
  AND op.credential IN ('', sqlc.arg(credential))
RETURNING op.operation_id;

-- name: RefundObserved :one
-- Numbers the next observation of the refund.
UPDATE refunds SET observed_seq = observed_seq + 1 WHERE refund_id = $1
RETURNING observed_seq, status, order_id;

-- name: RefundBind :exec
-- An answer that fits binds the refund to the provider's id, if no earlier one has; the unique index refuses one that another has.
UPDATE refunds SET provider_refund_id = sqlc.arg(provider_refund_id) WHERE refund_id = sqlc.arg(refund_id) AND provider_refund_id = '';

-- name: RefundIDTaken :one
SELECT EXISTS (SELECT 1 FROM refunds r WHERE r.gateway = sqlc.arg(gateway) AND r.account = sqlc.arg(account) AND r.environment = sqlc.arg(environment)
               AND r.provider_refund_id = sqlc.arg(provider_refund_id)::text AND r.provider_refund_id <> '' AND r.refund_id <> sqlc.arg(refund_id));

-- name: RefundUnreflected :many
SELECT o.* FROM observations o
WHERE o.refund_id = sqlc.arg(refund_id)::text AND o.seq > (SELECT r.reflected_seq FROM refunds r WHERE r.refund_id = sqlc.arg(refund_id)::text)
ORDER BY o.seq;

-- name: RefundReflected :exec
UPDATE refunds SET reflected_seq = sqlc.arg(seq) WHERE refund_id = sqlc.arg(refund_id) AND reflected_seq < sqlc.arg(seq);

-- name: RefundLookWanted :exec
-- As AttemptLookWanted: nobody asks about a settled refund any more, so the row says that it has to be asked once.
UPDATE refunds SET next_check_at = CASE WHEN sqlc.arg(wanted)::boolean THEN coalesce(next_check_at, now()) END,
       looks_asked = looks_asked + CASE WHEN sqlc.arg(wanted)::boolean THEN 1 ELSE 0 END
WHERE refund_id = sqlc.arg(refund_id) AND status IN ('succeeded', 'failed') AND (sqlc.arg(wanted)::boolean OR sqlc.arg(made)::boolean);

-- name: RefundsAskOnce :exec
-- The payment's books say that less went back than by our refunds: each of them is asked once more.
UPDATE refunds SET next_check_at = coalesce(next_check_at, now()), looks_asked = looks_asked + 1 WHERE attempt_id = $1 AND status = 'succeeded';

-- name: RefundCheckLater :exec
UPDATE refunds SET checks = checks + 1, next_check_at = sqlc.narg(next_check_at)::timestamptz WHERE refund_id = sqlc.arg(refund_id);

-- name: RefundsToCheck :many
UPDATE refunds SET checks = checks + 1, next_check_at = now() + sqlc.arg(again_after)::interval * least(64, 1 << least(checks, 6))
WHERE refund_id IN (SELECT r.refund_id FROM refunds r WHERE r.next_check_at < now() ORDER BY r.next_check_at
                    LIMIT sqlc.arg(max_rows) FOR UPDATE SKIP LOCKED)
RETURNING order_id, refund_id;

-- name: PaymentBooks :exec
-- What went back of a payment, as it is known now.
UPDATE payments SET refunded_minor = sqlc.arg(refunded_minor), elsewhere_minor = sqlc.arg(elsewhere_minor), version = version + 1
WHERE payment_id = sqlc.arg(payment_id);

-- name: AttemptBooksMoved :exec
-- Money that went back moves no attempt, but a look that was made before is older than what is known now (rule 5): the version rises.
UPDATE payment_attempts SET version = version + 1 WHERE attempt_id = $1;

-- name: PaymentStands :exec
-- What moved of a payment on its own: a bank disputes it, or has taken a deposit back.
UPDATE payments SET dispute = sqlc.arg(dispute), disputed_minor = sqlc.arg(disputed_minor), taken_back = sqlc.arg(taken_back), version = version + 1
WHERE attempt_id = sqlc.arg(attempt_id)::text AND matched;

-- name: OrderOutlook :one
-- What a correction of one attempt's money is weighed against: other money of its order, and what is provided. The order is held.
SELECT EXISTS (SELECT 1 FROM payments p JOIN payment_attempts x ON x.attempt_id = p.attempt_id
               WHERE p.order_id = a.order_id AND p.matched AND p.attempt_id <> a.attempt_id AND NOT p.taken_back AND p.captured_minor >= x.amount_minor
               AND p.dispute NOT IN ('open', 'lost') AND p.refunded_minor < p.captured_minor) AS other_money,
       (SELECT count(*) FROM fulfillment_units u WHERE u.order_id = a.order_id AND u.status IN ('planned', 'issuing', 'unknown', 'refused')) AS units_open,
       (SELECT count(*) FROM fulfillment_units u WHERE u.order_id = a.order_id AND u.status IN ('issuing', 'unknown', 'issued')) AS units_out
FROM payment_attempts a WHERE a.attempt_id = $1;
