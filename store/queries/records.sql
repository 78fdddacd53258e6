-- name: RecordsByOrder :many
SELECT * FROM transaction_records WHERE order_id = $1 ORDER BY seq;

-- name: RecordsByNumber :many
-- A client's numbered records, one page after the other.
SELECT * FROM transaction_records WHERE client_id = sqlc.arg(client_id) AND number > sqlc.arg(after_number)::bigint ORDER BY number LIMIT sqlc.arg(max_rows);

-- name: RecordsNumberLock :one
-- One process numbers at a time; the others leave it to it.
SELECT pg_try_advisory_xact_lock(hashtext('transaction_records.number'));

-- name: RecordsNumber :execrows
-- Goes on from the client's last number, in the order in which records were made. A record that commits late gets a later number.
WITH due AS (SELECT r.record_id, r.client_id FROM transaction_records r WHERE r.number IS NULL ORDER BY r.client_id, r.record_id LIMIT sqlc.arg(max_rows)),
last AS (SELECT c.client_id, (SELECT coalesce(max(x.number), 0) FROM transaction_records x WHERE x.client_id = c.client_id) AS number
         FROM (SELECT DISTINCT due.client_id FROM due) c)
UPDATE transaction_records t SET number = n.number
FROM (SELECT due.record_id, last.number + row_number() OVER (PARTITION BY due.client_id ORDER BY due.record_id) AS number
      FROM due JOIN last ON last.client_id = due.client_id) n
WHERE t.record_id = n.record_id AND t.number IS NULL;
