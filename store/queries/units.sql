-- name: UnitsPlan :exec
-- Every unit of the order at once; planning twice makes the same ids and inserts nothing.
INSERT INTO fulfillment_units (unit_id, order_id, line_no, ordinal, action, revision)
SELECT unnest(sqlc.arg(ids)::text[]), sqlc.arg(order_id)::text, unnest(sqlc.arg(line_nos)::integer[]),
       unnest(sqlc.arg(ordinals)::integer[]), unnest(sqlc.arg(actions)::text[]), sqlc.arg(revision)::integer
ON CONFLICT DO NOTHING;

-- name: UnitGet :one
SELECT u.*, l.sku, l.issuer FROM fulfillment_units u JOIN order_lines l ON l.order_id = u.order_id AND l.revision = u.revision AND l.line_no = u.line_no WHERE u.unit_id = $1;

-- name: UnitLock :one
SELECT u.*, l.sku, l.issuer FROM fulfillment_units u JOIN order_lines l ON l.order_id = u.order_id AND l.revision = u.revision AND l.line_no = u.line_no
WHERE u.unit_id = $1 FOR UPDATE OF u;

-- name: UnitsInternalPlanned :many
-- Each row also says how many units of the order are open, these included.
SELECT u.*, l.sku, (SELECT count(*) FROM fulfillment_units x
                    WHERE x.order_id = $1 AND x.status IN ('planned', 'issuing', 'unknown', 'refused')) AS units_open
FROM fulfillment_units u JOIN order_lines l ON l.order_id = u.order_id AND l.revision = u.revision AND l.line_no = u.line_no
WHERE u.order_id = $1 AND u.status = 'planned' AND u.action IN ('stock', 'grant')
ORDER BY u.line_no, u.ordinal LIMIT $2;

-- name: UnitsProvided :exec
UPDATE fulfillment_units SET status = 'issued', version = version + 1, issued_at = now() WHERE unit_id = ANY(sqlc.arg(ids)::text[]) AND status = 'planned';

-- name: UnitMove :exec
UPDATE fulfillment_units SET status = sqlc.arg(to_status), version = version + 1, generation = generation + sqlc.arg(new_generation)::integer,
       code = sqlc.arg(code)::text, next_check_at = sqlc.narg(next_check_at)::timestamptz,
       issued_at = CASE WHEN sqlc.arg(to_status)::text = 'issued' THEN now() ELSE issued_at END
WHERE unit_id = sqlc.arg(unit_id) AND status = sqlc.arg(from_status) AND version = sqlc.arg(version);

-- name: UnitCheckLater :exec
UPDATE fulfillment_units SET next_check_at = sqlc.narg(next_check_at)::timestamptz WHERE unit_id = sqlc.arg(unit_id);

-- name: UnitsToCheck :many
UPDATE fulfillment_units SET checks = checks + 1, next_check_at = now() + sqlc.arg(again_after)::interval * least(64, 1 << least(checks, 6))
WHERE unit_id IN (SELECT u.unit_id FROM fulfillment_units u WHERE u.next_check_at < now() ORDER BY u.next_check_at
                  LIMIT sqlc.arg(max_rows) FOR UPDATE SKIP LOCKED)
RETURNING order_id, unit_id;

-- name: UnitsOpenCount :one
SELECT count(*) FROM fulfillment_units WHERE order_id = $1 AND status IN ('planned', 'issuing', 'unknown', 'refused');

-- name: UnitCounts :many
SELECT status, count(*) AS n FROM fulfillment_units WHERE order_id = $1 GROUP BY status;

-- name: UnitsByOrder :many
SELECT u.*, l.sku, l.issuer FROM fulfillment_units u JOIN order_lines l ON l.order_id = u.order_id AND l.revision = u.revision AND l.line_no = u.line_no
WHERE u.order_id = $1 ORDER BY u.line_no, u.ordinal;

-- name: UnitsExternalOpen :many
-- What the run has to issue or resolve next, a batch at a time.
SELECT u.unit_id, u.status FROM fulfillment_units u
WHERE u.order_id = $1 AND u.action = 'issue' AND u.status IN ('planned', 'issuing', 'unknown')
  AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.subject_kind = 'unit' AND r.subject_id = u.unit_id AND r.status = 'open')
ORDER BY u.line_no, u.ordinal LIMIT $2;

-- name: GrantsInsert :exec
INSERT INTO grants (unit_id, order_id, sku, buyer_ref)
SELECT unnest(sqlc.arg(ids)::text[]), sqlc.arg(order_id)::text, unnest(sqlc.arg(skus)::text[]), sqlc.arg(buyer_ref)::text
ON CONFLICT DO NOTHING;

-- name: IssuancesInternal :exec
INSERT INTO issuances (issuance_id, unit_id, order_id, issuer, source)
SELECT 'iss_' || u.i, u.i, sqlc.arg(order_id)::text, 'internal', 'internal' FROM unnest(sqlc.arg(ids)::text[]) AS u(i);

-- name: IssuanceInsert :exec
INSERT INTO issuances (issuance_id, unit_id, order_id, operation_id, issuer, issuer_issuance_id, sealed_reference, source)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: IssuancesByOrder :many
SELECT * FROM issuances WHERE order_id = $1 ORDER BY issued_at, issuance_id;

-- name: GrantsByOrder :many
SELECT * FROM grants WHERE order_id = $1 ORDER BY unit_id;
