-- name: OrderInsert :one
INSERT INTO orders (order_id, client_id, caller_key, currency, currency_exponent, lines_minor, adjustments_minor, total_minor,
                    buyer_ref, policy, policy_version, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (order_id) DO NOTHING
RETURNING *;

-- name: OrderLinesInsert :exec
INSERT INTO order_lines (order_id, line_no, sku, name, quantity, unit_amount_minor, amount_minor, tax_rate, action, issuer, revision)
SELECT sqlc.arg(order_id)::text, unnest(sqlc.arg(line_nos)::integer[]), unnest(sqlc.arg(skus)::text[]), unnest(sqlc.arg(names)::text[]),
       unnest(sqlc.arg(quantities)::integer[]), unnest(sqlc.arg(unit_amounts)::bigint[]), unnest(sqlc.arg(amounts)::bigint[]),
       unnest(sqlc.arg(tax_rates)::text[]), unnest(sqlc.arg(actions)::text[]), unnest(sqlc.arg(issuers)::text[]), sqlc.arg(revision)::integer;

-- name: OrderAdjustmentsInsert :exec
INSERT INTO order_adjustments (order_id, adj_no, kind, amount_minor, tax_rate, revision)
SELECT sqlc.arg(order_id)::text, unnest(sqlc.arg(adj_nos)::integer[]), unnest(sqlc.arg(kinds)::text[]), unnest(sqlc.arg(amounts)::bigint[]),
       unnest(sqlc.arg(tax_rates)::text[]), sqlc.arg(revision)::integer;

-- name: OrderGet :one
SELECT * FROM orders WHERE order_id = $1;

-- name: OrderLock :one
-- The order's row is the first lock of every transaction that moves an order (rule 9).
SELECT * FROM orders WHERE order_id = $1 FOR UPDATE;

-- name: OrderLockDue :one
-- Whether the promise's time is over is asked of one clock only, the database's: processes' clocks differ and jump.
SELECT sqlc.embed(o), (o.expires_at < now())::boolean AS due FROM orders o WHERE o.order_id = $1 FOR UPDATE;

-- name: OrderLockShared :one
-- Issuing takes the shared lock: units go side by side, a cancel waits for them and they for it.
SELECT * FROM orders WHERE order_id = $1 FOR SHARE;

-- name: OrderLinesGet :many
-- As the order is promised now.
SELECT l.* FROM order_lines l JOIN orders o ON o.order_id = l.order_id AND o.revision = l.revision WHERE l.order_id = $1 ORDER BY l.line_no;

-- name: OrderLinesToPlan :many
-- The lines of an attempt's order that is not paid: units are planned as it becomes paid, and a paid order's are planned.
SELECT l.* FROM payment_attempts a JOIN orders o ON o.order_id = a.order_id JOIN order_lines l ON l.order_id = o.order_id AND l.revision = o.revision
WHERE a.attempt_id = sqlc.arg(attempt_id) AND o.status IN ('open', 'expired') ORDER BY l.line_no;

-- name: OrderAdjustmentsGet :many
SELECT a.* FROM order_adjustments a JOIN orders o ON o.order_id = a.order_id AND o.revision = a.revision WHERE a.order_id = $1 ORDER BY a.adj_no;

-- name: OrderMove :exec
-- A change of state names the status and version it expects; the row is locked, so no row here is a bug of ours. Where the
-- change creates work, it raises the work in the same statement (rule 8): one new version of the row instead of two.
UPDATE orders SET status = sqlc.arg(to_status), version = version + 1,
       work_seq = work_seq + sqlc.arg(raise_by)::bigint,
       work_at = CASE WHEN sqlc.arg(raise_by)::bigint > 0 THEN now() ELSE work_at END,
       paid_at = CASE WHEN sqlc.arg(to_status)::text = 'paid' THEN now() ELSE paid_at END,
       completed_at = CASE WHEN sqlc.arg(to_status)::text = 'completed' THEN now() ELSE completed_at END,
       ended_at = CASE WHEN sqlc.arg(to_status)::text IN ('canceled', 'expired') THEN now() ELSE ended_at END
WHERE order_id = sqlc.arg(order_id) AND status = sqlc.arg(from_status) AND version = sqlc.arg(version);

-- name: OrderRaiseWork :exec
-- Whatever creates work raises this (rule 8), in the transaction that creates it.
UPDATE orders SET work_seq = work_seq + 1, work_at = now() WHERE order_id = $1;

-- name: OrderRest :execrows
-- The run that has seen this much work, and no more, may end.
UPDATE orders SET done_seq = sqlc.arg(seen) WHERE order_id = sqlc.arg(order_id) AND work_seq = sqlc.arg(seen);

-- name: OrdersWithWork :many
-- The sweep: unfinished work older than a minimum age. Fresh work is told to the run; work it was told about before only has
-- its run started where that is gone, and is looked at ever more rarely. It stays fresh until OrdersTold says that it was told:
-- a sweep that dies in between must not leave a resting run asleep.
UPDATE orders SET sweeps = CASE WHEN s.fresh THEN 1 ELSE orders.sweeps + 1 END,
       work_at = now() + sqlc.arg(again_after)::interval * CASE WHEN s.fresh THEN 1 ELSE least(8, orders.sweeps) END
FROM (SELECT o.order_id, o.work_seq <> o.swept_seq AS fresh FROM orders o
      WHERE o.work_seq <> o.done_seq AND o.work_at < now() - sqlc.arg(min_age)::interval
      ORDER BY o.work_at LIMIT sqlc.arg(max_rows) FOR UPDATE SKIP LOCKED) s
WHERE orders.order_id = s.order_id
RETURNING orders.order_id, s.fresh::boolean AS fresh, orders.work_seq;

-- name: OrdersTold :exec
UPDATE orders SET swept_seq = t.seq
FROM (SELECT unnest(sqlc.arg(ids)::text[]) AS id, unnest(sqlc.arg(seqs)::bigint[]) AS seq) t
WHERE orders.order_id = t.id AND orders.swept_seq < t.seq;

-- name: OrdersLapsed :many
SELECT o.order_id FROM orders o
WHERE o.status = 'open' AND o.expires_at < now()
  AND NOT EXISTS (SELECT 1 FROM payment_attempts a WHERE a.order_id = o.order_id AND a.closed_at IS NULL)
ORDER BY o.expires_at LIMIT $1;

-- name: StockSet :exec
INSERT INTO stock (sku, on_hand) VALUES ($1, $2)
ON CONFLICT (sku) DO UPDATE SET on_hand = excluded.on_hand;

-- name: StockGet :one
SELECT * FROM stock WHERE sku = $1;

-- name: StockReserve :execrows
-- Sku by sku in name order, so that two orders of the same goods cannot deadlock.
UPDATE stock SET reserved = reserved + sqlc.arg(quantity) WHERE sku = sqlc.arg(sku) AND on_hand - reserved >= sqlc.arg(quantity);

-- name: StockMovementQueued :exec
INSERT INTO stock_movements (order_id, line_no, ordinal, kind, sku, quantity, revision) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING;

-- name: StockCommit :exec
-- One unit leaves: it is no longer reserved and no longer there. Rows are locked in name order, as when they were reserved
-- (rule 9), before any is changed.
WITH moved AS (
    INSERT INTO stock_movements (order_id, line_no, ordinal, kind, sku, quantity, revision)
    SELECT sqlc.arg(order_id)::text, unnest(sqlc.arg(line_nos)::integer[]), unnest(sqlc.arg(ordinals)::integer[]), 'commit',
           unnest(sqlc.arg(skus)::text[]), 1, sqlc.arg(revision)::integer
    ON CONFLICT DO NOTHING RETURNING sku, quantity),
sums AS (SELECT sku, sum(quantity)::bigint AS n FROM moved GROUP BY sku),
held AS MATERIALIZED (SELECT s.sku, sums.n FROM stock s JOIN sums ON sums.sku = s.sku ORDER BY s.sku COLLATE "C" FOR NO KEY UPDATE OF s)
UPDATE stock SET on_hand = on_hand - held.n, reserved = reserved - held.n FROM held WHERE stock.sku = held.sku;

-- name: StockRelease :exec
-- What is reserved and not committed goes back, once per line and reservation.
WITH last AS (
    SELECT DISTINCT ON (r.revision, r.line_no) r.order_id, r.revision, r.line_no, r.sku, r.quantity, CASE r.kind WHEN 'reserve' THEN 'release' ELSE 'release_again' END AS kind
    FROM stock_movements r WHERE r.order_id = $1 AND r.kind IN ('reserve', 'reserve_again') ORDER BY r.revision, r.line_no, r.kind DESC),
open_lines AS (
    SELECT r.order_id, r.revision, r.line_no, r.sku, r.kind,
           r.quantity - coalesce((SELECT sum(c.quantity) FROM stock_movements c
                                  WHERE c.order_id = r.order_id AND c.revision = r.revision AND c.line_no = r.line_no AND c.kind = 'commit'), 0)::bigint AS rest
    FROM last r),
released AS (
    INSERT INTO stock_movements (order_id, line_no, ordinal, kind, sku, quantity, revision)
    SELECT order_id, line_no, 0, kind, sku, rest, revision FROM open_lines WHERE rest > 0
    ON CONFLICT DO NOTHING RETURNING sku, quantity),
sums AS (SELECT sku, sum(quantity)::bigint AS n FROM released GROUP BY sku),
held AS MATERIALIZED (SELECT s.sku, sums.n FROM stock s JOIN sums ON sums.sku = s.sku ORDER BY s.sku COLLATE "C" FOR NO KEY UPDATE OF s)
UPDATE stock SET reserved = reserved - held.n FROM held WHERE stock.sku = held.sku;

-- name: StockThere :one
-- Whether what an order had reserved can be reserved again. The rows are held, in name order, so the answer still holds at the end.
WITH need AS (SELECT r.sku, sum(r.quantity)::bigint AS n FROM stock_movements r JOIN orders o ON o.order_id = r.order_id AND o.revision = r.revision WHERE r.order_id = $1 AND r.kind = 'reserve' GROUP BY r.sku),
held AS MATERIALIZED (SELECT s.on_hand - s.reserved AS free, need.n FROM stock s JOIN need ON need.sku = s.sku ORDER BY s.sku COLLATE "C" FOR NO KEY UPDATE OF s)
SELECT coalesce(bool_and(held.free >= held.n), true)::boolean FROM held;

-- name: StockReserveAgain :exec
WITH again AS (
    INSERT INTO stock_movements (order_id, line_no, ordinal, kind, sku, quantity, revision)
    SELECT r.order_id, r.line_no, 0, 'reserve_again', r.sku, r.quantity, r.revision FROM stock_movements r JOIN orders o ON o.order_id = r.order_id AND o.revision = r.revision WHERE r.order_id = $1 AND r.kind = 'reserve'
    ON CONFLICT DO NOTHING RETURNING sku, quantity),
sums AS (SELECT sku, sum(quantity)::bigint AS n FROM again GROUP BY sku),
held AS MATERIALIZED (SELECT s.sku, sums.n FROM stock s JOIN sums ON sums.sku = s.sku ORDER BY s.sku COLLATE "C" FOR NO KEY UPDATE OF s)
UPDATE stock SET reserved = reserved + held.n FROM held WHERE stock.sku = held.sku;

-- name: OrderHold :exec
UPDATE orders SET hold = sqlc.arg(hold), version = version + 1 WHERE order_id = sqlc.arg(order_id);

-- name: OrderSettledElsewhere :exec
UPDATE orders SET external_decision = sqlc.arg(decision_id)::text WHERE order_id = sqlc.arg(order_id) AND external_decision = '';

-- name: OrderLate :one
-- Whether an order expired at most so long ago, by the database's clock.
SELECT coalesce(o.ended_at > now() - sqlc.arg(within)::interval, false)::boolean FROM orders o WHERE o.order_id = sqlc.arg(order_id);

-- name: OrderReplace :exec
-- The promise as it is stated now. Nothing else about the order changes, and nobody may be paying for it.
UPDATE orders SET revision = revision + 1, version = version + 1, currency = sqlc.arg(currency), currency_exponent = sqlc.arg(currency_exponent),
       lines_minor = sqlc.arg(lines_minor), adjustments_minor = sqlc.arg(adjustments_minor), total_minor = sqlc.arg(total_minor),
       buyer_ref = sqlc.arg(buyer_ref), expires_at = sqlc.arg(expires_at)
WHERE order_id = sqlc.arg(order_id) AND status = 'open' AND revision = sqlc.arg(revision) AND version = sqlc.arg(version);

-- name: StockShift :execrows
-- Reserves more of a sku, or less where by is negative; sku by sku in name order, as StockReserve.
UPDATE stock SET reserved = reserved + sqlc.arg(by)::bigint
WHERE sku = sqlc.arg(sku) AND (sqlc.arg(by)::bigint <= 0 OR on_hand - reserved >= sqlc.arg(by)::bigint);

-- name: StockMovements :many
SELECT * FROM stock_movements WHERE order_id = $1 ORDER BY revision, line_no, ordinal, kind;
