package migrations_test

// Goal: the schema arrives whole, arriving again changes nothing, and the application's role can do what it needs and no more.

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"orderflow/internal/testkit"
	"orderflow/migrations"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}

// catalog is everything the schema consists of, a line each.
func catalog(t *testing.T, c *pgx.Conn) map[string]bool {
	t.Helper()
	rows, err := c.Query(t.Context(), `SELECT x FROM (
		SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '') AS x FROM information_schema.columns WHERE table_schema = 'public'
		UNION ALL SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
		UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
		UNION ALL SELECT table_name || ' ' || grantee || ' ' || privilege_type FROM information_schema.role_table_grants WHERE table_schema = 'public') y`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(lines), 300)
	out := map[string]bool{}
	for _, l := range lines {
		out[l] = true
	}
	return out
}

// only is what a has and b has not.
func only(a, b map[string]bool) (lines []string) {
	for l := range a {
		if !b[l] {
			lines = append(lines, l)
		}
	}
	return lines
}

func TestUpAgainChangesNothing(t *testing.T) {
	t.Parallel()
	db := testkit.Database(t)
	c := connect(t, db.OwnerURL)
	before := catalog(t, c)
	require.NoError(t, migrations.Up(t.Context(), db.OwnerURL, testkit.AppRole))
	after := catalog(t, c)
	require.Empty(t, only(before, after), "lost")
	require.Empty(t, only(after, before), "new")
	require.NoError(t, migrations.Up(t.Context(), db.OwnerURL, ""), "without a role nothing is granted, and nothing breaks")
	require.Error(t, migrations.Up(t.Context(), "postgres://nobody@127.0.0.1:1/none", ""))
	require.ErrorContains(t, migrations.Up(t.Context(), db.OwnerURL, `no"such role`), "grant rights")
}

var logs = map[string]string{
	"observations":     `INSERT INTO observations (order_id, attempt_id, seq, source, outcome) VALUES ('o', 'a', 1, 'send', 'unknown')`,
	"transitions":      `INSERT INTO transitions (order_id, subject_kind, subject_id, from_status, to_status, trigger) VALUES ('o', 'order', 'o', '', 'open', 'x')`,
	"review_decisions": `INSERT INTO review_decisions VALUES ('d', 'r', 1, 'o', 'x', 'ann', 'operator', false, 'api', 'why', '{}', '{}', '{}')`,
	"audit_log":        `INSERT INTO audit_log (order_id, actor, channel, act, detail) VALUES ('o', 'ann', 'api', 'x', '{}')`,
}

const fixture = `
INSERT INTO orders (order_id, client_id, caller_key, currency, currency_exponent, lines_minor, adjustments_minor, total_minor, buyer_ref, policy, policy_version, expires_at)
	VALUES ('o', 'shop', 'k', 'JPY', 0, 100, 0, 100, 'b', '{}', 1, now());
INSERT INTO payment_attempts (attempt_id, order_id, client_id, caller_key, gateway, account, environment, merchant_reference, method_type, currency, amount_minor)
	VALUES ('a', 'o', 'shop', 'k', 'stripe', 'default', 'test', 'R', 'card', 'JPY', 100);
INSERT INTO reviews (review_id, subject_kind, subject_id, subject_version, reason, next_check_at) VALUES ('r', 'attempt', 'a', 1, 'late_payment', now());`

// Rule 10 and A1: what happened stays, whoever asks. The owner meets the trigger, the application has no right at all.
func TestRule10_LogsAreAppendOnly(t *testing.T) {
	t.Parallel()
	db := testkit.Database(t)
	owner, app := connect(t, db.OwnerURL), connect(t, db.AppURL)
	_, err := app.Exec(t.Context(), fixture)
	require.NoError(t, err)
	for table, insert := range logs {
		_, err := app.Exec(t.Context(), insert)
		require.NoError(t, err, "the application must be able to append to %s", table)
		for _, change := range []string{"UPDATE " + table + " SET order_id = 'x'", "DELETE FROM " + table, "TRUNCATE " + table + " CASCADE"} {
			_, err := owner.Exec(t.Context(), change)
			require.ErrorContains(t, err, "append-only", "the owner: %s", change)
			requireDenied(t, app, change)
		}
		var n int
		require.NoError(t, owner.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
		require.Equal(t, 1, n)
	}
}

func requireDenied(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	_, err := c.Exec(t.Context(), sql)
	var pg *pgconn.PgError
	require.True(t, errors.As(err, &pg), "allowed: %s", sql)
	require.Equal(t, "42501", pg.Code, "%s: %s", sql, pg.Message) // insufficient_privilege
}

// Rule 10: only what retention prunes may be deleted, and nothing of the schema may be touched.
func TestRule10_ApplicationRoleIsBound(t *testing.T) {
	t.Parallel()
	db := testkit.Database(t)
	owner, app := connect(t, db.OwnerURL), connect(t, db.AppURL)
	rows, err := owner.Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(tables), 20)
	prunable := map[string]bool{"idempotency_keys": true, "webhook_receipts": true, "looks_wanted": true, "event_deliveries": true, "rate_buckets": true, "operator_sessions": true}
	for _, table := range tables {
		if prunable[table] {
			_, err := app.Exec(t.Context(), "DELETE FROM "+table)
			require.NoError(t, err, table)
		} else {
			requireDenied(t, app, "DELETE FROM "+table)
		}
		for _, ddl := range []string{"TRUNCATE " + table, "DROP TABLE " + table, "ALTER TABLE " + table + " ADD COLUMN x int", "ALTER TABLE " + table + " DISABLE TRIGGER ALL"} {
			requireDenied(t, app, ddl)
		}
	}
	for _, sql := range []string{
		"CREATE TABLE mine (n int)", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "DROP FUNCTION refuse_change() CASCADE",
		"SELECT * FROM goose_db_version", "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)",
		"SET session_replication_role = replica", "CREATE ROLE friend", "SET ROLE postgres",
	} {
		requireDenied(t, app, sql)
	}
}
