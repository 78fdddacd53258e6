package store

// Goal: the transaction helper either commits all or leaves nothing, and always gives its connection back clean.
// Method: a pool of one connection, so that a connection that is lost, dirty or held shows at the next call.

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// probe is a small table to read and write by, on a pool of one.
func probe(t *testing.T) *env {
	e := setupConns(t, 1, "")
	e.exec("CREATE TABLE probe (n int PRIMARY KEY, CONSTRAINT probe_positive CHECK (n > 0), later int)")
	e.exec("ALTER TABLE probe ADD CONSTRAINT probe_later_unique UNIQUE (later) DEFERRABLE INITIALLY DEFERRED")
	e.exec("GRANT ALL ON probe TO PUBLIC")
	return e
}

// clean requires that the one connection is back, outside a transaction, and that the table holds n rows.
func (e *env) clean(n int64) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.ctx(), 5*time.Second)
	defer cancel()
	conn, err := e.s.pool.Acquire(ctx)
	require.NoError(e.t, err, "the connection was not given back")
	require.Equal(e.t, byte('I'), conn.Conn().PgConn().TxStatus(), "the connection came back inside a transaction")
	conn.Release()
	require.EqualValues(e.t, n, e.count("SELECT count(*) FROM probe"))
}

func insert(ctx context.Context, q sqlcgen.DBTX, n, later int) error {
	_, err := q.Exec(ctx, "INSERT INTO probe VALUES ($1, $2)", n, later)
	return err
}

func TestWorkCommits(t *testing.T) {
	t.Parallel()
	e := probe(t)
	for name, f := range map[string]func(context.Context, *work) error{
		"WritesOnly": func(ctx context.Context, w *work) error { return insert(ctx, writes{w}, 1, 1) },
		"ReadThenWrite": func(ctx context.Context, w *work) error {
			var n int
			if err := (reads{w}).QueryRow(ctx, "SELECT count(*) FROM probe").Scan(&n); err != nil {
				return err
			}
			return insert(ctx, writes{w}, 2, 2)
		},
		"RowsThenWrite": func(ctx context.Context, w *work) error {
			rows, err := (reads{w}).Query(ctx, "SELECT generate_series(1, 3)")
			if err != nil {
				return err
			}
			rows.Close() // not read to the end
			return insert(ctx, writes{w}, 3, 3)
		},
		"WriteAtOnceThenWrite": func(ctx context.Context, w *work) error {
			if err := insert(ctx, reads{w}, 4, 4); err != nil {
				return err
			}
			return insert(ctx, writes{w}, 5, 5)
		},
	} {
		require.NoError(t, e.s.inTx(e.ctx(), name, f), name)
	}
	require.NoError(t, e.s.inTx(e.ctx(), "nothing", func(context.Context, *work) error { return nil }))
	e.clean(5)
}

func TestWorkRollsBack(t *testing.T) {
	t.Parallel()
	e := probe(t)
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		f    func(context.Context, *work) error
		code fault.Code
		why  string
	}{
		"ErrorBeforeAnything": {func(context.Context, *work) error { return fault.Reject("no", "x") }, fault.Refused, "no"},
		"ErrorAfterAWrite": {func(ctx context.Context, w *work) error {
			_ = insert(ctx, reads{w}, 1, 1)
			_ = insert(ctx, writes{w}, 2, 2)
			return mine
		}, fault.DatabaseUnavailable, ""},
		"FirstReadFails": {func(ctx context.Context, w *work) error {
			return (reads{w}).QueryRow(ctx, "SELECT 1 / $1::int", 0).Scan(new(int))
		}, fault.InternalError, "sqlstate_22012"},
		"FirstRowsFail": {func(ctx context.Context, w *work) error {
			rows, err := (reads{w}).Query(ctx, "SELECT 1 / $1::int", 0)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
			}
			return rows.Err()
		}, fault.InternalError, "sqlstate_22012"},
		"FirstReadDoesNotParse": {func(ctx context.Context, w *work) error {
			return (reads{w}).QueryRow(ctx, "SELEKT").Scan(new(int))
		}, fault.InternalError, "sqlstate_42601"},
		"FirstWriteAtOnceFails": {func(ctx context.Context, w *work) error { return insert(ctx, reads{w}, -1, 1) }, fault.ConstraintViolated, "probe_positive"},
		"WaitingWriteFails": {func(ctx context.Context, w *work) error {
			_ = insert(ctx, writes{w}, 1, 1)
			_ = insert(ctx, writes{w}, -1, 2)
			return insert(ctx, writes{w}, 3, 3)
		}, fault.ConstraintViolated, "probe_positive"},
		"CommitItselfFails": {func(ctx context.Context, w *work) error {
			_ = insert(ctx, writes{w}, 1, 7)
			return insert(ctx, writes{w}, 2, 7)
		}, fault.ConstraintViolated, "probe_later_unique"},
		"FailedReadIsSwallowed": {func(ctx context.Context, w *work) error {
			_ = insert(ctx, reads{w}, 1, 1)
			_ = insert(ctx, reads{w}, -1, 1)
			return nil // PostgreSQL answers this COMMIT with ROLLBACK
		}, fault.InternalError, ""},
		"NoRow": {func(ctx context.Context, w *work) error {
			return (reads{w}).QueryRow(ctx, "SELECT n FROM probe WHERE n = 99").Scan(new(int))
		}, fault.NotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 { // a connection that came back dirty would show in the second round
				requireWhy(t, e.s.inTx(e.ctx(), "x", c.f), c.code, c.why)
				e.clean(0)
			}
		})
	}
}

func TestWorkSurvivesPanicsAndCancellation(t *testing.T) {
	t.Parallel()
	e := probe(t)
	read := func(ctx context.Context, w *work) { _ = (reads{w}).QueryRow(ctx, "SELECT 1").Scan(new(int)) }
	for name, f := range map[string]func(context.Context, *work) error{
		"BeforeAnything": func(context.Context, *work) error { panic("x") },
		"AfterARead":     func(ctx context.Context, w *work) error { read(ctx, w); panic("x") },
		"WithRowsOpen": func(ctx context.Context, w *work) error {
			_, _ = (reads{w}).Query(ctx, "SELECT generate_series(1, 100000)") //nolint:sqlclosecheck // left open: that is the test
			panic("x")
		},
		"WriteThatReturnsRows": func(ctx context.Context, w *work) error {
			read(ctx, w)
			_ = (writes{w}).QueryRow(ctx, "SELECT 1")
			return nil
		},
	} {
		require.Panics(t, func() { _ = e.s.inTx(e.ctx(), name, f) }, name)
		e.clean(0)
	}

	canceled, cancel := context.WithCancel(e.ctx())
	err := e.s.inTx(canceled, "x", func(ctx context.Context, w *work) error {
		read(ctx, w)
		_ = insert(ctx, writes{w}, 1, 1)
		cancel()
		return nil
	})
	require.True(t, fault.IsCode(err, fault.DatabaseUnavailable), "%v", err)
	require.ErrorIs(t, err, context.Canceled)
	e.clean(0)
	short, cancel := context.WithTimeout(e.ctx(), 50*time.Millisecond)
	defer cancel()
	err = e.s.inTx(short, "x", func(ctx context.Context, w *work) error {
		return (reads{w}).QueryRow(ctx, "SELECT pg_sleep(30)::text").Scan(new(string))
	})
	require.True(t, fault.IsCode(err, fault.DatabaseUnavailable), "%v", err)
	e.clean(0)
}

func TestWorkRunsAgainOnContentionOnly(t *testing.T) {
	t.Parallel()
	e := probe(t)
	for _, c := range []struct {
		state string
		tries int
		code  fault.Code
	}{
		{"40P01", 3, fault.DatabaseContention},
		{"40001", 3, fault.DatabaseContention},
		{"55P03", 3, fault.DatabaseContention},
		{"23505", 1, fault.ConstraintViolated},
		{"57014", 1, fault.DatabaseUnavailable},
		{"53300", 1, fault.DatabaseUnavailable},
		{"08006", 1, fault.DatabaseUnavailable},
		{"25P03", 1, fault.DatabaseUnavailable},
		{"XX000", 1, fault.InternalError},
	} {
		tries := 0
		err := e.s.inTx(e.ctx(), "x", func(ctx context.Context, w *work) error {
			tries++
			return &pgconn.PgError{Code: c.state}
		})
		require.True(t, fault.IsCode(err, c.code), "%s: %v", c.state, err)
		require.Equal(t, c.tries, tries, c.state)
	}
	tries := 0
	require.NoError(t, e.s.inTx(e.ctx(), "x", func(ctx context.Context, w *work) error {
		if tries++; tries < 3 {
			_ = insert(ctx, reads{w}, tries, tries)
			return &pgconn.PgError{Code: "40P01"}
		}
		return insert(ctx, writes{w}, 10, 10)
	}))
	e.clean(1)
}

// A server that goes away in the middle: an error, and the pool heals by itself.
func TestWorkSurvivesALostServer(t *testing.T) {
	t.Parallel()
	e := probe(t)
	err := e.s.inTx(e.ctx(), "x", func(ctx context.Context, w *work) error {
		var pid int
		if err := (reads{w}).QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		e.exec("SELECT pg_terminate_backend($1)", pid)
		return insert(ctx, writes{w}, 1, 1)
	})
	require.True(t, fault.IsCode(err, fault.DatabaseUnavailable), "%v", err)
	e.clean(0)
	require.NoError(t, e.s.inTx(e.ctx(), "x", func(ctx context.Context, w *work) error { return insert(ctx, writes{w}, 1, 1) }))
	e.clean(1)
}

func TestErrorsCarryNoInput(t *testing.T) {
	t.Parallel()
	e := setup(t)
	_, err := e.owner.Exec(e.ctx(), "INSERT INTO stock (sku, on_hand) VALUES ('secret-sku', -1)")
	require.ErrorContains(t, err, "stock_reserved_within_on_hand")
	require.NotContains(t, translate("set stock", err).Error(), "secret-sku")
	require.True(t, fault.IsCode(translate("x", pgx.ErrNoRows), fault.NotFound))
	require.NoError(t, translate("x", nil))
	_, err = Open(e.ctx(), "not a url: secret-password", 1, Options{})
	require.ErrorContains(t, err, "DATABASE_URL")
	require.NotContains(t, err.Error(), "secret-password")
}

// The second of two reads sent together must not answer from before the lock that the first one waited for.
func TestReadsTogetherSeeWhatTheLockWaitedFor(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.open(e.place("o", grantLine(1)), "k")
	tx, err := e.owner.Begin(e.ctx())
	require.NoError(t, err)
	_, err = tx.Exec(e.ctx(), "SELECT 1 FROM orders WHERE order_id = 'o' FOR UPDATE")
	require.NoError(t, err)
	owned := sqlcgen.New(tx)
	seq, err := owned.AttemptObserved(e.ctx(), sqlcgen.AttemptObservedParams{ProviderPaymentID: "pi_" + a.AttemptID, AttemptID: a.AttemptID})
	require.NoError(t, err)
	require.NoError(t, owned.ObservationKeep(e.ctx(), observationParams(answer(a, order.Succeeded), seq.ObservedSeq)))
	done := make(chan Reflected)
	go func() { done <- e.reflect(a) }()
	require.Eventually(t, func() bool {
		return e.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	}, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, tx.Commit(e.ctx()))
	require.Equal(t, order.OrderPaid, (<-done).Order)
}

func TestReadsTogetherLeaveTheConnectionClean(t *testing.T) {
	t.Parallel()
	e := setupConns(t, 1, "")
	e.place("o", grantLine(2))
	var o sqlcgen.Order
	var lines []sqlcgen.OrderLine
	lock := func(id string) func(*sqlcgen.Queries) error {
		return func(q *sqlcgen.Queries) (err error) { o, err = q.OrderLock(e.ctx(), id); return }
	}
	read := func(id string) func(*sqlcgen.Queries) error {
		return func(q *sqlcgen.Queries) (err error) { lines, err = q.OrderLinesGet(e.ctx(), id); return }
	}
	both := func(first, second string) error {
		return e.s.inTx(e.ctx(), "both", func(ctx context.Context, w *work) error { return w.together(ctx, lock(first), read(second)) })
	}
	require.NoError(t, both("o", "o"))
	require.Equal(t, "o", o.OrderID)
	require.Len(t, lines, 1)
	require.True(t, fault.IsCode(both("nobody", "o"), fault.NotFound), "the first finds nothing")
	require.NoError(t, both("o", "nobody"))
	require.Empty(t, lines)
	require.NoError(t, e.s.inTx(e.ctx(), "again", func(ctx context.Context, w *work) error {
		if err := w.together(ctx, read("o")); err != nil {
			return err
		}
		if err := w.together(ctx, lock("o"), read("o")); err != nil { // BEGIN is sent once
			return err
		}
		return w.write.OrderRaiseWork(ctx, "o")
	}))
	require.EqualValues(t, 1, e.count("SELECT work_seq FROM orders"))
	require.Panics(t, func() {
		_ = e.s.inTx(e.ctx(), "no query", func(ctx context.Context, w *work) error {
			return w.together(ctx, func(*sqlcgen.Queries) error { return nil })
		})
	})
	require.NoError(t, both("o", "o"), "and the connection is still of use")
}
