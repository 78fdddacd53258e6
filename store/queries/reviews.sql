-- name: ReviewOpen :exec
INSERT INTO reviews (review_id, order_id, subject_kind, subject_id, subject_version, reason, code, gateway, next_check_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
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
-- The other side was asked: the next round asks about others first. How long until then is frozen with the order, in nanoseconds.
UPDATE reviews r SET next_check_at = now() + make_interval(secs => (o.policy ->> 'review_check_every')::bigint / 1e9)
FROM orders o
WHERE o.order_id = r.order_id AND r.subject_kind = sqlc.arg(subject_kind) AND r.subject_id = sqlc.arg(subject_id) AND r.status = 'open';

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
INSERT INTO review_decisions (decision_id, review_id, review_version, order_id, decision, actor, actor_role, actor_claimed, channel, reason,
                              evidence, before, after, operation_id, approval_id, approver, approver_role, approver_channel, approver_reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19);

-- name: DecisionGet :one
-- By its own id or by the approval's: both are one effect.
SELECT a.* FROM review_decisions a WHERE a.decision_id = sqlc.arg(decision_id)::text
UNION ALL
SELECT b.* FROM review_decisions b WHERE b.approval_id = sqlc.arg(decision_id)::text AND b.approval_id <> ''
LIMIT 1;

-- name: DecisionsByOrder :many
SELECT * FROM review_decisions WHERE order_id = $1 ORDER BY at, decision_id;

-- name: DecisionsByReview :many
SELECT * FROM review_decisions WHERE review_id = $1 ORDER BY review_version;

-- name: ProposalInsert :exec
INSERT INTO decision_proposals (decision_id, review_id, review_version, subject_version, order_id, decision, content, actor, actor_person,
                                actor_role, actor_claimed, channel)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: ProposalGet :one
SELECT * FROM decision_proposals WHERE decision_id = $1;

-- name: ProposalApplied :exec
UPDATE decision_proposals SET status = 'applied', ended_at = now() WHERE decision_id = $1 AND status = 'open';

-- name: ReviewProposed :exec
UPDATE reviews SET version = version + 1 WHERE review_id = $1 AND status = 'open';

-- name: ProposalsReplace :exec
UPDATE decision_proposals SET status = 'replaced', ended_at = now() WHERE review_id = $1 AND status = 'open';

-- name: ProposalsByReview :many
SELECT * FROM decision_proposals WHERE review_id = $1 ORDER BY at, decision_id;

-- name: ProposalsByOrder :many
SELECT * FROM decision_proposals WHERE order_id = $1 ORDER BY at, decision_id;

-- name: AuditInsert :exec
INSERT INTO audit_log (order_id, review_id, actor, channel, act, detail)
VALUES (sqlc.narg(order_id), sqlc.narg(review_id), sqlc.arg(actor), sqlc.arg(channel), sqlc.arg(act), sqlc.arg(detail));

-- name: AuditByReview :many
SELECT * FROM audit_log WHERE review_id = sqlc.arg(review_id)::text ORDER BY audit_id DESC LIMIT sqlc.arg(max_rows);

-- name: AuditByOrder :many
SELECT * FROM audit_log WHERE order_id = sqlc.arg(order_id)::text ORDER BY audit_id DESC LIMIT sqlc.arg(max_rows);

-- name: ReviewsQueue :many
-- Open reviews, the oldest first, after the one the last page ended with. What is empty does not filter.
SELECT sqlc.embed(r), coalesce(o.client_id, '')::text AS client_id, coalesce(o.status, '')::text AS order_status,
       coalesce(o.currency, '')::text AS currency, coalesce(o.total_minor, 0)::bigint AS total_minor,
       coalesce((SELECT p.decision_id FROM decision_proposals p WHERE p.review_id = r.review_id AND p.status = 'open' AND p.subject_version = r.subject_version), '')::text AS proposal_id
FROM reviews r LEFT JOIN orders o ON o.order_id = r.order_id
WHERE r.status = 'open'
  AND (sqlc.arg(client_id)::text = '' OR o.client_id = sqlc.arg(client_id)::text)
  AND (sqlc.arg(reason)::text = '' OR r.reason = sqlc.arg(reason)::text)
  AND (sqlc.arg(gateway)::text = '' OR r.gateway = sqlc.arg(gateway)::text)
  AND (sqlc.arg(owner)::text = '' OR r.owner = sqlc.arg(owner)::text)
  AND (sqlc.arg(assigned_to)::text = '' OR r.assigned_to = sqlc.arg(assigned_to)::text)
  AND (NOT sqlc.arg(unassigned)::boolean OR r.assigned_to = '')
  AND (NOT sqlc.arg(proposed)::boolean OR EXISTS (SELECT 1 FROM decision_proposals p WHERE p.review_id = r.review_id AND p.status = 'open' AND p.subject_version = r.subject_version))
  AND r.opened_at <= now() - sqlc.arg(min_age)::interval
  AND (r.opened_at, r.review_id) > (sqlc.arg(after_at)::timestamptz, sqlc.arg(after_id)::text)
ORDER BY r.opened_at, r.review_id LIMIT sqlc.arg(max_rows);

-- name: ReviewsOpenCount :many
-- How many are open, by reason; from the index alone.
SELECT reason, count(*) AS n FROM reviews WHERE status = 'open' GROUP BY reason ORDER BY n DESC, reason;

-- name: ReviewAssign :one
-- The row is locked. The version stays: who has a review is no fact that a decision rests on.
UPDATE reviews SET assigned_to = sqlc.arg(assigned_to), assigned_at = CASE WHEN sqlc.arg(assigned_to)::text <> '' THEN now() END
WHERE review_id = sqlc.arg(review_id) RETURNING *;

-- name: ReviewObservations :many
-- What was said about a subject, the newest last.
SELECT x.* FROM (
    SELECT * FROM observations b WHERE b.order_id = sqlc.arg(order_id)
      AND CASE sqlc.arg(subject_kind)::text WHEN 'attempt' THEN b.attempt_id = sqlc.arg(subject_id)::text WHEN 'unit' THEN b.unit_id = sqlc.arg(subject_id)::text
               WHEN 'refund' THEN b.refund_id = sqlc.arg(subject_id)::text ELSE false END
    ORDER BY b.observation_id DESC LIMIT sqlc.arg(max_rows)) x
ORDER BY x.observation_id;

-- name: FiguresNow :one
-- The four figures, each with its oldest. Partial indexes: the cost follows what is unresolved, not what ever was.
SELECT
    (SELECT count(*) FROM orders o WHERE o.status = 'paid') AS paid_not_provided,
    (SELECT coalesce(min(o.paid_at), 'epoch') FROM orders o WHERE o.status = 'paid')::timestamptz AS paid_oldest_at,
    (SELECT count(*) FROM orphan_payments p WHERE p.status = 'open') AS orphans,
    (SELECT coalesce(min(p.first_seen_at), 'epoch') FROM orphan_payments p WHERE p.status = 'open')::timestamptz AS orphans_oldest_at,
    ((SELECT count(*) FROM payment_attempts a WHERE a.status = 'unknown')
        + (SELECT count(*) FROM fulfillment_units u WHERE u.status = 'unknown')
        + (SELECT count(*) FROM refunds f WHERE f.status = 'unknown'))::bigint AS unknown;

-- name: FiguresOldestUnknown :one
-- Of what may have happened and is not known: the one that has been so for longest, by when it was begun.
SELECT x.kind::text AS subject_kind, x.id::text AS subject_id, x.order_id::text AS order_id, x.at::timestamptz AS since,
       coalesce((SELECT r.review_id FROM reviews r WHERE r.subject_kind = x.kind AND r.subject_id = x.id AND r.status = 'open'
                 ORDER BY r.opened_at LIMIT 1), '')::text AS review_id
FROM ((SELECT 'attempt' AS kind, a.attempt_id AS id, a.order_id, a.created_at AS at FROM payment_attempts a WHERE a.status = 'unknown' ORDER BY a.created_at LIMIT 1)
      UNION ALL
      (SELECT 'unit', u.unit_id, u.order_id, u.created_at FROM fulfillment_units u WHERE u.status = 'unknown' ORDER BY u.created_at LIMIT 1)
      UNION ALL
      (SELECT 'refund', f.refund_id, f.order_id, f.created_at FROM refunds f WHERE f.status = 'unknown' ORDER BY f.created_at LIMIT 1)) x
ORDER BY x.at LIMIT 1;

-- name: FiguresFailures :many
-- What keeps failing, by the group that answers for it and the person who has it.
SELECT r.owner, r.assigned_to, count(*) AS n, min(r.opened_at)::timestamptz AS oldest_at
FROM reviews r WHERE r.status = 'open' AND r.reason IN ('repeated_failure', 'misconfigured_account', 'poison_event')
GROUP BY r.owner, r.assigned_to ORDER BY n DESC, r.owner, r.assigned_to;

-- name: ReviewOfOrder :one
SELECT review_id FROM reviews WHERE subject_kind = 'order' AND subject_id = sqlc.arg(order_id)::text AND reason = sqlc.arg(reason) AND status = 'open';
