package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// Goal: the one chosen COMMIT is carried out and its answer never arrives; everything else passes untouched.
// Method: pgx against real PostgreSQL through the proxy, and a second connection that looks directly.
// Not covered: COPY and statements that another request interrupts.

type proxyBundle struct {
	proxy  *TCPProxy
	url    string // through the proxy
	direct *pgx.Conn
}

func proxySetup(t *testing.T) *proxyBundle {
	t.Helper()
	d := Database(t)
	b := &proxyBundle{proxy: NewTCPProxy(t, d.OwnerURL), direct: connect(t, d.OwnerURL)}
	b.url = b.proxy.Through(d.OwnerURL)
	_, err := b.direct.Exec(t.Context(), "CREATE TABLE first (n int); CREATE TABLE second (n int, CONSTRAINT once UNIQUE (n) DEFERRABLE INITIALLY DEFERRED)")
	require.NoError(t, err)
	return b
}

func (b *proxyBundle) count(t *testing.T, table string) (n int) {
	t.Helper()
	require.NoError(t, b.direct.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func insert(ctx context.Context, conn *pgx.Conn, table string, n int) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", n)
		return err
	})
}

func fired(l *Loss) bool {
	select {
	case <-l.Fired():
		return true
	default:
		return false
	}
}

func TestCommitHoldsAndItsAnswerIsLost(t *testing.T) {
	t.Parallel()
	b := proxySetup(t)
	conn := connect(t, b.url)
	loss := b.proxy.LoseCommitAnswer(CommitFilter{})
	err := insert(t.Context(), conn, "first", 1)
	require.Error(t, err)
	var pg *pgconn.PgError
	require.NotErrorAs(t, err, &pg, "the server said nothing")
	require.True(t, fired(loss))
	require.Equal(t, 1, b.count(t, "first"), "the transaction holds")
	require.NoError(t, insert(t.Context(), connect(t, b.url), "first", 2), "a loss fires once")
}

func TestOnlyTheChosenTransactionIsHit(t *testing.T) {
	t.Parallel()
	b := proxySetup(t)
	conn := connect(t, b.url)
	loss := b.proxy.LoseCommitAnswer(CommitFilter{After: "INTO second", Nth: 2})
	require.NoError(t, insert(t.Context(), conn, "second", 1), "the first of two")
	require.NoError(t, insert(t.Context(), conn, "first", 1), "the same connection, another transaction")
	require.False(t, fired(loss))
	require.Error(t, insert(t.Context(), conn, "second", 2), "known by its prepared statement's name alone")
	require.True(t, fired(loss))
	require.Equal(t, 2, b.count(t, "second"))
}

func TestRefusedAndRolledBackTransactionsDoNotCount(t *testing.T) {
	t.Parallel()
	b := proxySetup(t)
	conn := connect(t, b.url)
	require.NoError(t, insert(t.Context(), conn, "second", 1))
	loss := b.proxy.LoseCommitAnswer(CommitFilter{After: "INTO second"})
	var pg *pgconn.PgError
	require.ErrorAs(t, insert(t.Context(), conn, "second", 1), &pg, "refused at COMMIT by the deferred constraint")
	require.Equal(t, "once", pg.ConstraintName)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "INSERT INTO second VALUES (2)")
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, insert(t.Context(), conn, "first", 1), "what was rolled back is not part of the next transaction")
	require.False(t, fired(loss))
	require.Error(t, insert(t.Context(), conn, "second", 3))
	require.True(t, fired(loss))
	require.Equal(t, 2, b.count(t, "second"))
}

func TestCommitInsideABatchIsFound(t *testing.T) {
	t.Parallel()
	b := proxySetup(t)
	conn := connect(t, b.url)
	loss := b.proxy.LoseCommitAnswer(CommitFilter{After: "INTO second"})
	batch := &pgx.Batch{}
	for _, sql := range []string{
		"BEGIN", "INSERT INTO first VALUES (1)", "COMMIT",
		"BEGIN", "INSERT INTO second VALUES (1)", "COMMIT",
		"BEGIN", "INSERT INTO first VALUES (2)", "COMMIT",
	} {
		batch.Queue(sql)
	}
	require.Error(t, conn.SendBatch(t.Context(), batch).Close())
	require.True(t, fired(loss))
	require.Equal(t, 1, b.count(t, "second"))
}

func TestDownCutsAndUpLetsThroughAgain(t *testing.T) {
	t.Parallel()
	b := proxySetup(t)
	conn := connect(t, b.url)
	require.NoError(t, conn.Ping(t.Context()))
	b.proxy.Down()
	require.Error(t, conn.Ping(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := pgx.Connect(ctx, b.url)
	require.Error(t, err)
	b.proxy.Up()
	require.NoError(t, connect(t, b.url).Ping(t.Context()))
}

func TestAStatementWithoutATransactionHoldsAndItsAnswerIsLost(t *testing.T) {
	t.Parallel()
	b := proxySetup(t)
	conn := connect(t, b.url)
	loss := b.proxy.LoseCommitAnswer(CommitFilter{After: "INTO first", Alone: true, Nth: 2})
	alone := func(n int) error {
		var out int
		return conn.QueryRow(t.Context(), "INSERT INTO first VALUES ($1) RETURNING n", n).Scan(&out)
	}
	require.NoError(t, insert(t.Context(), conn, "first", 1), "a transaction is another matter")
	require.NoError(t, alone(2))
	require.NoError(t, insert(t.Context(), conn, "first", 3))
	require.False(t, fired(loss))
	require.Error(t, alone(4))
	require.True(t, fired(loss))
	require.Equal(t, 4, b.count(t, "first"), "the statement holds")
}

func TestARefusedStatementIsAnswered(t *testing.T) {
	t.Parallel()
	b := proxySetup(t)
	conn := connect(t, b.url)
	loss := b.proxy.LoseCommitAnswer(CommitFilter{Alone: true, Nth: 2})
	_, err := conn.Exec(t.Context(), "SELECT $1::int / 0", 1)
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	_, err = conn.Exec(t.Context(), "INSERT INTO second VALUES ($1)", 1)
	require.NoError(t, err)
	require.False(t, fired(loss), "a refused statement does not count")
	require.NoError(t, insert(t.Context(), conn, "first", 1), "later requests meet their own answers")
}

func TestAHeldAnswerLeavesTheClientWaiting(t *testing.T) {
	t.Parallel()
	b := proxySetup(t)
	conn := connect(t, b.url)
	loss := b.proxy.LoseCommitAnswer(CommitFilter{After: "INTO first", Hold: true})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- insert(ctx, conn, "first", 1) }()
	<-loss.Fired()
	require.Equal(t, 1, b.count(t, "first"), "the transaction holds")
	select {
	case err := <-done:
		t.Fatalf("the client was answered: %v", err)
	default:
	}
	cancel()
	require.Error(t, <-done)
	require.NoError(t, insert(t.Context(), connect(t, b.url), "first", 2))
}
