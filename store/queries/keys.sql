-- name: ApiKeyInsert :exec
INSERT INTO api_keys (key_id, client_id, hash, scopes, name, person) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (hash) DO NOTHING;

-- name: ApiKeyByHash :one
SELECT key_id, client_id, scopes, name, person FROM api_keys WHERE hash = $1 AND revoked_at IS NULL;

-- name: ApiKeysList :many
SELECT key_id, client_id, scopes, name, person, created_at, revoked_at FROM api_keys ORDER BY client_id, created_at;

-- name: ApiKeyRevoke :execrows
UPDATE api_keys SET revoked_at = now() WHERE key_id = $1 AND revoked_at IS NULL;

-- name: KeyClaim :one
-- Claims a key, or takes over an expired lease of an unfinished one; otherwise returns nothing and the row is read.
INSERT INTO idempotency_keys AS k (client_id, operation, key, fingerprint, subject_id, lease_token, lease_until)
VALUES (sqlc.arg(client_id), sqlc.arg(operation), sqlc.arg(key), sqlc.arg(fingerprint), sqlc.arg(subject_id), sqlc.arg(lease_token),
        now() + sqlc.arg(lease)::interval)
ON CONFLICT (client_id, operation, key) DO UPDATE SET lease_token = excluded.lease_token, lease_until = excluded.lease_until
WHERE k.http_status IS NULL AND k.lease_until < now() AND k.fingerprint = excluded.fingerprint
RETURNING subject_id, (xmax = 0)::boolean AS fresh;

-- name: KeyGet :one
SELECT fingerprint, subject_id, lease_until, http_status, sealed_response, created_at FROM idempotency_keys
WHERE client_id = $1 AND operation = $2 AND key = $3;

-- name: KeyComplete :execrows
-- Only the holder of the lease may finish: a process that woke up after its lease was taken over changes nothing.
UPDATE idempotency_keys SET http_status = sqlc.arg(http_status), sealed_response = sqlc.arg(sealed_response), completed_at = now()
WHERE client_id = sqlc.arg(client_id) AND operation = sqlc.arg(operation) AND key = sqlc.arg(key) AND lease_token = sqlc.arg(lease_token)
  AND http_status IS NULL;

-- name: KeyRelease :execrows
-- After a failure that may pass, the row keeps fingerprint and subject and may be taken up again at once.
UPDATE idempotency_keys SET lease_until = now() - interval '1 second'
WHERE client_id = sqlc.arg(client_id) AND operation = sqlc.arg(operation) AND key = sqlc.arg(key) AND lease_token = sqlc.arg(lease_token)
  AND http_status IS NULL;

-- name: KeysPrune :execrows
-- A request that still holds its lease keeps its row, however old it is.
DELETE FROM idempotency_keys WHERE (client_id, operation, key) IN (
    SELECT k.client_id, k.operation, k.key FROM idempotency_keys k
    WHERE k.created_at < now() - sqlc.arg(max_age)::interval AND (k.completed_at IS NOT NULL OR k.lease_until < now()) ORDER BY k.created_at LIMIT sqlc.arg(max_rows));

-- name: BucketsPrune :exec
-- A bucket nobody took from for an hour is full again: forgetting it changes nothing.
DELETE FROM rate_buckets WHERE refilled_at < now() - interval '1 hour';
