package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"orderflow/store/sqlcgen"
)

// lazy writes without waiting for the disk. A crash of the database may take back the last half second of such writes, always
// the newest and never an older one without them; every transaction that waits takes all earlier ones along. A crash of a
// process, not of the database, takes nothing back. It is for writes whose loss leads to the same end by a longer way:
//
// An idempotency key. A claim that is taken back was followed by nothing, because every effect behind it commits with a flush.
// A completion that is taken back leaves the claim, and the next try goes on with the same subject and finds the effect.
//
// The lease and the mark of a delivery. Without them the event is sent again under its id, which receivers know how to take.
//
// The mark that a run has seen all work (rule 8). Without it the sweep starts a run, which finds nothing to do.
//
// What became of a stored webhook, and the wanted looks that came of it. Without them the webhook is processed again and one more
// look is made. The webhook itself waits for the disk before it is answered.
//
// Never for what a send, an answer or an event relies on.
func (s *Store) lazy() *sqlcgen.Queries { return sqlcgen.New(lazyDB{s.pool}) }

const dontWait = "SELECT set_config('synchronous_commit', 'off', true)" // until the transaction's end

// lazily is lazy for a transaction of several statements.
func (w *work) lazily() { w.batch.Queue(dontWait) }

// lazyDB sends the setting and the statement in one round trip; outside a transaction block the two are one transaction, and
// the setting ends with it.
type lazyDB struct{ pool *pgxpool.Pool }

func (l lazyDB) start(ctx context.Context, sql string, args []any) pgx.BatchResults {
	b := &pgx.Batch{}
	b.Queue(dontWait)
	b.Queue(sql, args...)
	return l.pool.SendBatch(ctx, b)
}

func (l lazyDB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	br := l.start(ctx, sql, args)
	if _, err := br.Exec(); err != nil {
		_ = br.Close()
		return pgconn.CommandTag{}, err
	}
	tag, err := br.Exec()
	if cerr := br.Close(); err == nil {
		err = cerr
	}
	return tag, err
}

func (l lazyDB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	br := l.start(ctx, sql, args)
	if _, err := br.Exec(); err != nil {
		_ = br.Close()
		return failedRow{err}
	}
	return firstRow{br.QueryRow(), br}
}

func (l lazyDB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	br := l.start(ctx, sql, args)
	if _, err := br.Exec(); err != nil {
		_ = br.Close()
		return nil, err
	}
	rows, err := br.Query()
	if err != nil {
		_ = br.Close()
		return nil, err
	}
	return firstRows{rows, br}, nil
}
