-- name: OperatorInsert :execrows
INSERT INTO operators (login, name, role, password_hash) VALUES ($1, $2, $3, $4)
ON CONFLICT (login) DO NOTHING;

-- name: OperatorGet :one
SELECT * FROM operators WHERE login = $1;

-- name: OperatorsList :many
SELECT * FROM operators ORDER BY login;

-- name: OperatorDisable :execrows
UPDATE operators SET disabled_at = now() WHERE login = $1 AND disabled_at IS NULL;

-- name: SessionInsert :exec
INSERT INTO operator_sessions (token_hash, login, expires_at) VALUES (sqlc.arg(token_hash), sqlc.arg(login), now() + sqlc.arg(lasts)::interval);

-- name: SessionGet :one
-- A session ends with its time and with its login.
SELECT o.login, o.name, o.role, s.expires_at FROM operator_sessions s JOIN operators o ON o.login = s.login
WHERE s.token_hash = $1 AND s.expires_at > now() AND o.disabled_at IS NULL;

-- name: SessionDelete :exec
DELETE FROM operator_sessions WHERE token_hash = $1;

-- name: SessionsDeleteOf :exec
DELETE FROM operator_sessions WHERE login = $1;

-- name: SessionsPrune :execrows
DELETE FROM operator_sessions WHERE expires_at < now();

-- name: LoginTake :execrows
-- A try to log in costs a token and one comes back per period, so that guessing is slow over all processes together.
INSERT INTO rate_buckets AS b (bucket, tokens, refilled_at) VALUES (sqlc.arg(bucket), sqlc.arg(size)::integer - 1, now())
ON CONFLICT (bucket) DO UPDATE
SET tokens = least(sqlc.arg(size)::integer, b.tokens + floor(extract(epoch FROM now() - b.refilled_at) / extract(epoch FROM sqlc.arg(every)::interval))::integer) - 1,
    refilled_at = b.refilled_at + floor(extract(epoch FROM now() - b.refilled_at) / extract(epoch FROM sqlc.arg(every)::interval)) * sqlc.arg(every)::interval
WHERE least(sqlc.arg(size)::integer, b.tokens + floor(extract(epoch FROM now() - b.refilled_at) / extract(epoch FROM sqlc.arg(every)::interval))::integer) > 0;

-- name: LoginGiveBack :exec
-- Only failed tries count.
UPDATE rate_buckets SET tokens = least(sqlc.arg(size)::integer, tokens + 1) WHERE bucket = ANY(sqlc.arg(buckets)::text[]);
