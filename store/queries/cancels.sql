-- name: CancelInsert :exec
INSERT INTO cancels (cancel_id, order_id, client_id, caller_key, reason, status, closed_at)
VALUES (sqlc.arg(cancel_id), sqlc.arg(order_id), sqlc.arg(client_id), sqlc.arg(caller_key), sqlc.arg(reason), sqlc.arg(status),
        CASE WHEN sqlc.arg(status)::text = 'done' THEN now() END);

-- name: OrderCanceling :exec
UPDATE orders SET cancel_id = sqlc.arg(cancel_id) WHERE order_id = sqlc.arg(order_id) AND cancel_id = '';

-- name: CancelGet :one
SELECT * FROM cancels WHERE cancel_id = $1;

-- name: CancelByOrder :one
SELECT * FROM cancels WHERE order_id = $1;

-- name: CancelByCallerKey :one
SELECT * FROM cancels WHERE client_id = $1 AND caller_key = $2;

-- name: CancelMove :exec
-- The order is locked, so nobody else moves its cancel.
UPDATE cancels SET status = sqlc.arg(to_status), closed_at = CASE WHEN sqlc.arg(to_status)::text = 'done' THEN now() END
WHERE cancel_id = sqlc.arg(cancel_id) AND status = sqlc.arg(from_status);

-- name: CancelSeen :exec
-- What became of the money.
UPDATE cancels SET refund_id = sqlc.narg(refund_id)::text, code = sqlc.arg(code) WHERE cancel_id = sqlc.arg(cancel_id);

-- name: UnitsStop :exec
-- Every unit that nobody is issuing, at once: locked in one order, moved, and each with its line in the log. What a person looks
-- into for another reason than a refusal may be out, and stays.
WITH held AS MATERIALIZED (
    SELECT u.unit_id, u.status FROM fulfillment_units u WHERE u.order_id = sqlc.arg(order_id)::text AND u.status IN ('planned', 'refused')
      AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.subject_kind = 'unit' AND r.subject_id = u.unit_id AND r.status = 'open' AND r.reason NOT IN ('issuance_refused', 'misconfigured_account'))
    ORDER BY u.line_no, u.ordinal FOR UPDATE OF u),
stopped AS (UPDATE fulfillment_units u SET status = 'canceled', version = u.version + 1, next_check_at = NULL FROM held WHERE u.unit_id = held.unit_id RETURNING u.unit_id),
answered AS (UPDATE reviews r SET status = 'resolved', resolved_at = now(), resolved_by = 'canceled', version = r.version + 1
             FROM held WHERE r.order_id = sqlc.arg(order_id)::text AND r.subject_kind = 'unit' AND r.subject_id = held.unit_id AND r.status = 'open')
INSERT INTO transitions (order_id, subject_kind, subject_id, from_status, to_status, trigger, observation_id, decision_id)
SELECT sqlc.arg(order_id)::text, 'unit', h.unit_id, h.status, 'canceled', sqlc.arg(trigger)::text, sqlc.narg(observation_id)::bigint, sqlc.arg(decision_id)::text
FROM held h JOIN stopped s ON s.unit_id = h.unit_id;

-- name: CancelBill :one
-- What a canceled order's money is weighed by. The payment that pays for it is the first that matched.
SELECT sqlc.embed(o),
    (SELECT count(*) FROM fulfillment_units u WHERE u.order_id = o.order_id AND u.status IN ('issued', 'revoked')) AS units_issued,
    (SELECT count(*) FROM fulfillment_units u WHERE u.order_id = o.order_id AND u.status = 'canceled') AS units_canceled,
    (SELECT count(*) FROM fulfillment_units u WHERE u.order_id = o.order_id AND u.status IN ('planned', 'issuing', 'unknown', 'refused')) AS units_open,
    (SELECT coalesce(sum(l.unit_amount_minor), 0) FROM fulfillment_units u JOIN order_lines l ON l.order_id = u.order_id AND l.revision = u.revision AND l.line_no = u.line_no
     WHERE u.order_id = o.order_id AND u.status = 'canceled')::bigint AS canceled_minor,
    EXISTS (SELECT 1 FROM order_adjustments a WHERE a.order_id = o.order_id AND a.revision = o.revision AND a.amount_minor <> 0 AND a.kind <> 'included_tax') AS adjusted
FROM orders o WHERE o.order_id = $1;
