-- name: OutboxInsertQueued :exec
-- The event and one delivery for each receiver, in one statement. An event that is there already has its deliveries.
WITH made AS (
    INSERT INTO outbox_events (event_id, order_id, seq, type, business_key, payload)
    SELECT sqlc.arg(event_id)::text, sqlc.arg(order_id)::text,
           1 + coalesce((SELECT max(e.seq) FROM outbox_events e WHERE e.order_id = sqlc.arg(order_id)::text), 0),
           sqlc.arg(type)::text, sqlc.arg(business_key)::text, sqlc.arg(payload)::jsonb
    ON CONFLICT (order_id, business_key) DO NOTHING
    RETURNING event_id, order_id, seq)
INSERT INTO event_deliveries (event_id, receiver, order_id, seq)
SELECT made.event_id, r, made.order_id, made.seq FROM made, unnest(sqlc.arg(receivers)::text[]) AS r;

-- name: DeliveriesClaim :many
-- In order per order and receiver: an event is due only when no earlier one of the same receiver is still open, or when
-- every earlier one is claimed in this very call. The lease keeps two senders apart; a second send would carry the same id.
-- What stands open is locked before it is judged: another claimer may have leased the earlier event after this statement began.
WITH open_rows AS (
    SELECT d.event_id, d.receiver, d.seq, d.status, d.next_try_at FROM event_deliveries d
    WHERE d.order_id = sqlc.arg(order_id) AND d.status IN ('pending', 'parked')
    ORDER BY d.receiver, d.seq FOR UPDATE),
due AS (
    SELECT o.event_id, o.receiver FROM open_rows o
    WHERE o.status = 'pending' AND o.next_try_at <= now()
      AND NOT EXISTS (SELECT 1 FROM open_rows x WHERE x.receiver = o.receiver AND x.seq < o.seq AND (x.status = 'parked' OR x.next_try_at > now())))
UPDATE event_deliveries d SET next_try_at = now() + sqlc.arg(lease)::interval, tries = d.tries + 1
FROM due, outbox_events e
WHERE d.event_id = due.event_id AND d.receiver = due.receiver AND e.event_id = d.event_id
RETURNING d.event_id, d.receiver, d.seq, d.tries, e.type, e.payload, e.created_at;

-- name: DeliveriesDone :exec
UPDATE event_deliveries d SET status = 'delivered', delivered_at = now(), last_code = ''
FROM (SELECT unnest(sqlc.arg(event_ids)::text[]) AS e, unnest(sqlc.arg(receivers)::text[]) AS r) u
WHERE d.event_id = u.e AND d.receiver = u.r AND d.status = 'pending';

-- name: DeliveryFailed :exec
UPDATE event_deliveries SET next_try_at = sqlc.arg(next_try_at), last_code = sqlc.arg(code), status = sqlc.arg(status)
WHERE event_id = sqlc.arg(event_id) AND receiver = sqlc.arg(receiver) AND status = 'pending';

-- name: DeliveryReturned :exec
-- Not sent, because an earlier one failed: it was no try of its own.
UPDATE event_deliveries SET next_try_at = sqlc.arg(next_try_at), tries = greatest(tries - 1, 0)
WHERE event_id = sqlc.arg(event_id) AND receiver = sqlc.arg(receiver) AND status = 'pending';

-- name: DeliverySkip :exec
-- A person has dealt with a parked event: later ones of its order and receiver go on.
UPDATE event_deliveries SET status = 'skipped' WHERE event_id || '/' || receiver = sqlc.arg(subject)::text AND order_id = sqlc.arg(order_id) AND status = 'parked';

-- name: DeliveriesOpen :one
SELECT count(*) FROM event_deliveries WHERE order_id = $1 AND status = 'pending';

-- name: DeliveriesDueOrders :many
-- What waits behind an earlier event of its order and receiver is nobody's work yet: counted here, enough of it would fill every
-- round of the relay and stop all other orders.
SELECT DISTINCT order_id FROM (
    SELECT d.order_id FROM event_deliveries d WHERE d.status = 'pending' AND d.next_try_at < now() - sqlc.arg(min_age)::interval
      AND NOT EXISTS (SELECT 1 FROM event_deliveries x WHERE x.order_id = d.order_id AND x.receiver = d.receiver AND x.seq < d.seq
                      AND (x.status = 'parked' OR (x.status = 'pending' AND x.next_try_at > now())))
    ORDER BY d.next_try_at LIMIT sqlc.arg(max_rows)) x;

-- name: DeliveriesByOrder :many
SELECT d.*, e.type FROM event_deliveries d JOIN outbox_events e ON e.event_id = d.event_id WHERE d.order_id = $1 ORDER BY d.seq, d.receiver;

-- name: DeliveriesPrune :execrows
-- Who was told what is forgotten after a while. The event itself stays: it is what keeps the same business event from being told again.
DELETE FROM event_deliveries WHERE (event_id, receiver) IN (
    SELECT d.event_id, d.receiver FROM event_deliveries d
    WHERE d.status = 'delivered' AND d.delivered_at < now() - sqlc.arg(max_age)::interval ORDER BY d.delivered_at LIMIT sqlc.arg(max_rows));
