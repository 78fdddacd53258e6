-- name: AttemptInsert :exec
INSERT INTO payment_attempts (attempt_id, order_id, client_id, caller_key, gateway, account, environment, merchant_reference,
                              method_type, currency, amount_minor, provider_payment_id, return_token_hash, return_url, revision)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: AttemptGet :one
SELECT * FROM payment_attempts WHERE attempt_id = $1;

-- name: AttemptByCallerKey :one
SELECT * FROM payment_attempts WHERE client_id = $1 AND caller_key = $2;

-- name: AttemptUnclosed :one
SELECT * FROM payment_attempts WHERE order_id = $1 AND closed_at IS NULL;

-- name: AttemptsMet :many
-- What a new attempt meets: the one its caller's key made before, and the order's unclosed one. Both by their own index; the
-- same row may come twice.
SELECT k.* FROM payment_attempts k WHERE k.client_id = sqlc.arg(client_id) AND k.caller_key = sqlc.arg(caller_key)
UNION ALL
SELECT o.* FROM payment_attempts o WHERE o.order_id = sqlc.arg(order_id) AND o.closed_at IS NULL;

-- name: AttemptsByOrder :many
SELECT * FROM payment_attempts WHERE order_id = $1 ORDER BY created_at, attempt_id;

-- name: AttemptLock :one
-- Order first, then attempt (rule 9); both are locked, so both are read as they are after the wait.
SELECT sqlc.embed(o), sqlc.embed(a)
FROM payment_attempts a JOIN orders o ON o.order_id = a.order_id
WHERE a.attempt_id = $1
FOR UPDATE OF o, a;

-- name: AttemptMove :exec
UPDATE payment_attempts SET status = sqlc.arg(to_status), version = version + 1,
       code = CASE WHEN sqlc.arg(code)::text = '' THEN code ELSE sqlc.arg(code)::text END,
       close_reason = CASE WHEN sqlc.arg(to_status)::text = 'closed' AND closed_at IS NULL THEN sqlc.arg(close_reason)::text ELSE close_reason END,
       closed_at = CASE WHEN sqlc.arg(to_status)::text = 'closed' AND closed_at IS NULL THEN now() ELSE closed_at END,
       next_action = sqlc.narg(next_action)::jsonb,
       next_check_at = sqlc.narg(next_check_at)::timestamptz,
       reflected_seq = greatest(reflected_seq, sqlc.arg(reflected_seq)::integer)
WHERE attempt_id = sqlc.arg(attempt_id) AND status = sqlc.arg(from_status) AND version = sqlc.arg(version);

-- name: AttemptReflected :exec
UPDATE payment_attempts SET reflected_seq = sqlc.arg(seq) WHERE attempt_id = sqlc.arg(attempt_id) AND reflected_seq < sqlc.arg(seq);

-- name: AttemptObserved :one
-- Numbers the next observation of the attempt and keeps the provider's id as soon as it is known. It never replaces one. What the
-- provider gave for later calls, and its deadline, are kept as it last said them.
UPDATE payment_attempts SET observed_seq = observed_seq + 1,
       sealed_private = coalesce(sqlc.narg(sealed_private)::bytea, sealed_private),
       due_at = coalesce(sqlc.narg(due_at)::timestamptz, due_at),
       held_minor = coalesce(sqlc.narg(held_minor)::bigint, held_minor),
       provider_payment_id = CASE WHEN provider_payment_id = '' THEN sqlc.arg(provider_payment_id)::text ELSE provider_payment_id END
WHERE attempt_id = sqlc.arg(attempt_id)
RETURNING observed_seq, status, order_id, provider_payment_id;

-- name: AttemptBind :exec
-- Money that matched binds the attempt to the provider's id, if no earlier answer has; the unique index refuses a payment that
-- another attempt has.
UPDATE payment_attempts SET provider_payment_id = sqlc.arg(provider_payment_id) WHERE attempt_id = sqlc.arg(attempt_id) AND provider_payment_id = '';

-- name: AttemptCapture :exec
-- What is asked to be captured, once and for all.
UPDATE payment_attempts SET capture_minor = sqlc.arg(capture_minor) WHERE attempt_id = sqlc.arg(attempt_id) AND capture_minor = 0;

-- name: AttemptCheckLater :exec
UPDATE payment_attempts SET checks = checks + 1, next_check_at = sqlc.narg(next_check_at)::timestamptz WHERE attempt_id = sqlc.arg(attempt_id);

-- name: AttemptLookWanted :exec
-- Of a settled attempt nobody asks any more, so a stale answer about one leaves a note that it has to be asked once: the row, and
-- not a run's memory, says so. The note goes with a look that began after it was written.
UPDATE payment_attempts SET next_check_at = CASE WHEN sqlc.arg(wanted)::boolean THEN coalesce(next_check_at, now()) END,
       looks_asked = looks_asked + CASE WHEN sqlc.arg(wanted)::boolean THEN 1 ELSE 0 END
WHERE attempt_id = sqlc.arg(attempt_id) AND status IN ('succeeded', 'closed') AND (sqlc.arg(wanted)::boolean OR sqlc.arg(made)::boolean);

-- name: AttemptsToCheck :many
-- What the sweep looks at again: parked unknowns and payments the buyer has not finished; ever more rarely.
UPDATE payment_attempts SET checks = checks + 1, next_check_at = now() + sqlc.arg(again_after)::interval * least(64, 1 << least(checks, 6))
WHERE attempt_id IN (SELECT a.attempt_id FROM payment_attempts a WHERE a.next_check_at < now() ORDER BY a.next_check_at
                     LIMIT sqlc.arg(max_rows) FOR UPDATE SKIP LOCKED)
RETURNING order_id, attempt_id;

-- name: OperationInsert :exec
INSERT INTO operations (operation_id, order_id, kind, attempt_id, unit_id, generation, sealed_request, fingerprint, sends, sent_at, last_sent_at)
VALUES (sqlc.arg(operation_id), sqlc.arg(order_id), sqlc.arg(kind), sqlc.narg(attempt_id), sqlc.narg(unit_id), sqlc.arg(generation),
        sqlc.arg(sealed_request), sqlc.arg(fingerprint), sqlc.arg(sends),
        CASE WHEN sqlc.arg(sends)::integer > 0 THEN now() END, CASE WHEN sqlc.arg(sends)::integer > 0 THEN now() END)
ON CONFLICT DO NOTHING;

-- name: AttemptWork :many
-- An attempt with its outside writes, in the order they are sent. Every attempt has at least one. Refunds are not among them.
SELECT sqlc.embed(a), sqlc.embed(o) FROM payment_attempts a JOIN operations o ON o.attempt_id = a.attempt_id
WHERE a.attempt_id = $1 AND o.kind <> 'refund' ORDER BY array_position(ARRAY['prepare', 'confirm', 'capture', 'cancel'], o.kind), o.generation;

-- name: OperationsByOrder :many
SELECT operation_id, kind, attempt_id, unit_id, generation, sends, sent_at, last_sent_at, outcome, outcome_code, created_at
FROM operations WHERE order_id = $1 ORDER BY created_at, operation_id;

-- name: OperationGet :one
SELECT * FROM operations WHERE operation_id = $1;

-- name: OperationClaim :one
-- Only the winner sends first (rule 2). What takes money is sent only while the attempt is undecided and the promise stands: a
-- second outside write of an attempt that was closed meanwhile, or of an order that another payment has paid or that is to be
-- canceled, has no winner.
UPDATE operations SET sends = 1, sent_at = now(), last_sent_at = now(), credential = sqlc.arg(credential)
WHERE operation_id = sqlc.arg(operation_id) AND sent_at IS NULL AND kind <> 'refund'
  AND (kind NOT IN ('prepare', 'confirm', 'capture') OR (
       -- A scalar subquery on purpose: an EXISTS may be planned as a hash of every open order.
       SELECT a.status IN ('created', 'sent', 'unknown', 'pending') AND r.status = 'open' AND r.cancel_id = ''
       FROM payment_attempts a JOIN orders r ON r.order_id = a.order_id WHERE a.attempt_id = operations.attempt_id))
RETURNING *;

-- name: OperationClaimAgain :one
-- A repeat is claimed too, by the number of sends it has seen, so that two processes never repeat at once. The subject is held
-- meanwhile: once a person has closed the attempt or opened a new operation for the unit, the old request is never sent again.
WITH attempt AS (
    SELECT a.attempt_id FROM operations o JOIN payment_attempts a ON a.attempt_id = o.attempt_id JOIN orders r ON r.order_id = a.order_id
    WHERE o.operation_id = sqlc.arg(operation_id) AND a.closed_at IS NULL AND o.kind <> 'refund'
      AND (o.kind NOT IN ('prepare', 'confirm', 'capture') OR (a.status IN ('created', 'sent', 'unknown', 'pending') AND r.status = 'open' AND r.cancel_id = ''))
    FOR SHARE OF a),
unit AS ( -- the order is held too: a request to issue is never sent again once a cancel has set its gate
    SELECT u.unit_id FROM operations o JOIN fulfillment_units u ON u.unit_id = o.unit_id JOIN orders r ON r.order_id = u.order_id
    WHERE o.operation_id = sqlc.arg(operation_id) AND u.generation = o.generation AND u.status IN ('issuing', 'unknown') AND r.status = 'paid'
    FOR SHARE OF r, u)
UPDATE operations op SET sends = op.sends + 1, last_sent_at = now(), credential = sqlc.arg(credential), outcome_code = CASE WHEN op.outcome = '' THEN '' ELSE op.outcome_code END
WHERE op.operation_id = sqlc.arg(operation_id) AND op.sends = sqlc.arg(seen_sends) AND op.finished_at IS NULL
  AND op.credential IN ('', sqlc.arg(credential))
  AND (op.attempt_id IN (SELECT attempt.attempt_id FROM attempt) OR op.unit_id IN (SELECT unit.unit_id FROM unit))
RETURNING *;

-- name: OperationNotDone :exec
-- The other side answered that it did not do what was asked, and nothing is in doubt from before: a code without an outcome.
-- Sending again takes the code away in the same statement that claims it.
UPDATE operations SET outcome_code = sqlc.arg(code)::text
WHERE operation_id = sqlc.arg(operation_id) AND sends = sqlc.arg(sends) AND outcome = '';

-- name: OperationAnswered :exec
-- The other side answered an error that leaves the outcome open, and may keep it under the key.
UPDATE operations SET answered = true WHERE operation_id = $1;

-- name: OperationSupersede :execrows
-- Its object was looked up and was never touched, and its key answers with an error for good: a new operation may follow (rule 7).
UPDATE operations p SET outcome = 'untouched', outcome_code = sqlc.arg(code)::text, finished_at = now()
WHERE p.operation_id = sqlc.arg(operation_id) AND p.answered AND p.sends > 0 AND p.finished_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM operations l WHERE l.attempt_id = p.attempt_id AND l.kind = p.kind AND l.generation > p.generation);

-- name: OperationQuiet :one
-- By the database's clock, which wrote the time: a process whose clock runs ahead must not think that enough of it has passed.
SELECT operation_id, (last_sent_at IS NULL OR last_sent_at < now() - sqlc.arg(safe_after)::interval)::boolean AS quiet
FROM operations WHERE operation_id = sqlc.arg(operation_id);

-- name: OperationAge :one
-- How long ago it was first and last sent, by the clock that wrote the times.
SELECT (extract(epoch FROM now() - sent_at) * 1000)::bigint AS first_ms, (extract(epoch FROM now() - last_sent_at) * 1000)::bigint AS last_ms
FROM operations WHERE operation_id = $1 AND sent_at IS NOT NULL;

-- name: OperationOutcome :exec
-- A definite outcome is never overwritten by "unknown".
UPDATE operations SET outcome = sqlc.arg(outcome)::text, outcome_code = sqlc.arg(code)::text,
       finished_at = CASE WHEN sqlc.arg(outcome)::text = 'unknown' THEN NULL ELSE now() END
WHERE operation_id = sqlc.arg(operation_id) AND sends > 0 AND (finished_at IS NULL OR sqlc.arg(outcome)::text <> 'unknown');

-- name: ObservationKeep :exec
INSERT INTO observations (order_id, attempt_id, unit_id, refund_id, operation_id, seq, source, outcome, final, provider_status, gateway, account,
                          environment, provider_payment_id, merchant_reference, provider_refund_id, currency, amount_minor, authorized_minor, captured_minor,
                          refunded_minor, dispute, disputed_minor, code, request_id, read_version, read_asks, next_action, provider_time)
VALUES (sqlc.arg(order_id), sqlc.narg(attempt_id), sqlc.narg(unit_id), sqlc.narg(refund_id), sqlc.narg(operation_id), sqlc.arg(seq), sqlc.arg(source),
        sqlc.arg(outcome), sqlc.arg(final), sqlc.arg(provider_status), sqlc.arg(gateway), sqlc.arg(account), sqlc.arg(environment),
        sqlc.arg(provider_payment_id), sqlc.arg(merchant_reference), sqlc.arg(provider_refund_id), sqlc.arg(currency), sqlc.arg(amount_minor),
        sqlc.arg(authorized_minor), sqlc.arg(captured_minor), sqlc.arg(refunded_minor), sqlc.arg(dispute), sqlc.arg(disputed_minor), sqlc.arg(code), sqlc.arg(request_id), sqlc.arg(read_version), sqlc.arg(read_asks),
        sqlc.narg(next_action), sqlc.narg(provider_time));

-- name: ObservationsUnreflected :many
SELECT o.* FROM observations o
WHERE o.attempt_id = sqlc.arg(attempt_id)::text AND o.seq > (SELECT a.reflected_seq FROM payment_attempts a WHERE a.attempt_id = sqlc.arg(attempt_id)::text)
ORDER BY o.seq;

-- name: ObservationsByOrder :many
SELECT * FROM observations WHERE order_id = $1 ORDER BY observation_id LIMIT 2000;

-- name: PaymentRecord :exec
-- A payment is one row for ever: told again, it stays; its amounts follow the provider's books. One that fitted nothing before
-- goes to the attempt it turns out to match, and a part of one grows. What went back of a payment that matched is the books' matter (PaymentBooks), and an
-- answer that does not fit changes nothing of it: refunds are counted against it.
INSERT INTO payments (payment_id, gateway, account, environment, provider_payment_id, order_id, attempt_id, currency, captured_minor,
                      refunded_minor, matched)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (gateway, account, environment, provider_payment_id) DO UPDATE
SET currency = CASE WHEN payments.matched THEN payments.currency ELSE excluded.currency END, -- an amount never without its currency
    captured_minor = CASE WHEN payments.matched AND NOT excluded.matched THEN payments.captured_minor ELSE excluded.captured_minor END,
    refunded_minor = CASE WHEN payments.matched THEN payments.refunded_minor ELSE excluded.refunded_minor END,
    order_id = CASE WHEN payments.matched OR NOT excluded.matched THEN payments.order_id ELSE excluded.order_id END,
    attempt_id = CASE WHEN payments.matched OR NOT excluded.matched THEN payments.attempt_id ELSE excluded.attempt_id END,
    matched = payments.matched OR excluded.matched, version = payments.version + 1;

-- name: PaymentsByOrder :many
SELECT * FROM payments WHERE order_id = $1 ORDER BY first_seen_at, payment_id;

-- name: TransitionsInsert :exec
INSERT INTO transitions (order_id, subject_kind, subject_id, from_status, to_status, trigger, observation_id, decision_id)
SELECT sqlc.arg(order_id)::text, unnest(sqlc.arg(kinds)::text[]), unnest(sqlc.arg(ids)::text[]), unnest(sqlc.arg(froms)::text[]),
       unnest(sqlc.arg(tos)::text[]), sqlc.arg(trigger)::text, sqlc.narg(observation_id)::bigint, sqlc.arg(decision_id)::text;

-- name: TransitionsByOrder :many
SELECT * FROM transitions WHERE order_id = $1 ORDER BY transition_id LIMIT 20000;

-- name: BucketTake :execrows
-- One rate for all processes: tokens refill by whole seconds, and a call without a token is not made.
INSERT INTO rate_buckets (bucket, tokens, refilled_at) VALUES (sqlc.arg(bucket), sqlc.arg(size)::integer - 1, now())
ON CONFLICT (bucket) DO UPDATE
SET tokens = least(sqlc.arg(size)::integer, rate_buckets.tokens + floor(extract(epoch FROM now() - rate_buckets.refilled_at))::integer * sqlc.arg(per_second)::integer) - 1,
    refilled_at = rate_buckets.refilled_at + floor(extract(epoch FROM now() - rate_buckets.refilled_at)) * interval '1 second'
WHERE least(sqlc.arg(size)::integer, rate_buckets.tokens + floor(extract(epoch FROM now() - rate_buckets.refilled_at))::integer * sqlc.arg(per_second)::integer) > 0;

-- name: RequestsForget :execrows
-- What would ask for the money, of attempts that have ended: it may hold a token, and is never sent again. The fingerprint stays.
UPDATE operations SET sealed_request = '' WHERE operation_id IN (
    SELECT o.operation_id FROM operations o JOIN payment_attempts a USING (attempt_id)
    WHERE o.kind IN ('prepare', 'confirm') AND o.sealed_request <> '' AND a.status IN ('succeeded', 'closed')
      AND coalesce(o.last_sent_at, o.created_at) < now() - sqlc.arg(max_age)::interval
    LIMIT sqlc.arg(max_rows));
