package testkit

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Goal: a test gets a database that is migrated, its own, and gone afterwards; the application's role is held to its rights.

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func TestDatabasesAreMigratedAndSeparate(t *testing.T) {
	t.Parallel()
	a, b := Database(t), Database(t)
	owner := connect(t, a.OwnerURL)
	_, err := owner.Exec(t.Context(), "CREATE TABLE only_in_a (n int)")
	require.NoError(t, err)
	var there bool
	other := connect(t, b.OwnerURL)
	require.NoError(t, other.QueryRow(t.Context(), "SELECT to_regclass('only_in_a') IS NOT NULL").Scan(&there))
	require.False(t, there)
	require.NoError(t, other.QueryRow(t.Context(), "SELECT to_regclass('orders') IS NOT NULL").Scan(&there))
	require.True(t, there)
}

func TestApplicationRoleReadsAndHasNoDDL(t *testing.T) {
	t.Parallel()
	app := connect(t, Database(t).AppURL)
	var orders int
	require.NoError(t, app.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&orders))
	require.Zero(t, orders)
	_, err := app.Exec(t.Context(), "CREATE TABLE sneaked (n int)")
	require.ErrorContains(t, err, "permission denied")
}

func TestDatabaseIsGoneAfterItsTest(t *testing.T) {
	t.Parallel()
	var name, admin string
	t.Run("Inner", func(t *testing.T) {
		d := Database(t)
		name, admin = d.Name, sharedCluster(t).admin
		connect(t, d.AppURL) // still connected when the test ends
	})
	var there bool
	require.NoError(t, connect(t, admin).QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there))
	require.False(t, there)
}
