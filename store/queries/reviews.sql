-- name: ReviewOpen :exec
INSERT INTO reviews (review_id, order_id, subject_kind, subject_id, subject_version, reason, code, next_check_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (subject_kind, subject_id, reason) WHERE status = 'open' DO NOTHING;

-- name: ReviewsTouch :exec
-- A subject that moves takes its open reviews along: a decision is compared with what the subject is now.
UPDATE reviews SET subject_version = sqlc.arg(subject_version), version = version + 1
WHERE subject_kind = sqlc.arg(subject_kind) AND subject_id = sqlc.arg(subject_id) AND status = 'open';

-- name: ReviewsResolve :exec
UPDATE reviews SET status = 'resolved', resolved_at = now(), resolved_by = sqlc.arg(resolved_by), version = version + 1
WHERE subject_kind = sqlc.arg(subject_kind) AND subject_id = sqlc.arg(subject_id) AND status = 'open' AND reason = ANY(sqlc.arg(reasons)::text[]);

-- name: ReviewResolveOne :exec
UPDATE reviews SET status = 'resolved', resolved_at = now(), resolved_by = sqlc.arg(resolved_by), version = version + 1
WHERE review_id = sqlc.arg(review_id) AND status = 'open';

-- name: ReviewLooked :exec
-- The other side was asked: the next round asks about others first.
UPDATE reviews SET next_check_at = now() + sqlc.arg(again_after)::interval
WHERE subject_kind = sqlc.arg(subject_kind) AND subject_id = sqlc.arg(subject_id) AND status = 'open';

-- name: ReviewBump :exec
-- A person asked for a look: it comes before all that only wait for their turn.
UPDATE reviews SET version = version + 1, next_check_at = opened_at WHERE review_id = $1 AND status = 'open';

-- name: ReviewGet :one
SELECT * FROM reviews WHERE review_id = $1;

-- name: ReviewLock :one
SELECT * FROM reviews WHERE review_id = $1 FOR UPDATE;

-- name: ReviewsOpenByOrder :many
SELECT * FROM reviews WHERE order_id = $1 AND status = 'open' ORDER BY opened_at, review_id;

-- name: ReviewsByOrder :many
SELECT * FROM reviews WHERE order_id = $1 ORDER BY opened_at, review_id;

-- name: DecisionInsert :exec
INSERT INTO review_decisions (decision_id, review_id, review_version, order_id, decision, actor, actor_claimed, channel, reason,
                              evidence, before, after, operation_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: DecisionGet :one
SELECT * FROM review_decisions WHERE decision_id = $1;

-- name: DecisionsByOrder :many
SELECT * FROM review_decisions WHERE order_id = $1 ORDER BY at, decision_id;

-- name: AuditInsert :exec
INSERT INTO audit_log (order_id, actor, channel, act, detail) VALUES (sqlc.narg(order_id), $1, $2, $3, $4);
