package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"orderflow/store/sqlcgen"
)

// lazy writes without waiting for the disk. It is for idempotency keys only, and safe for them although a crash of the
// database may take back the last half second of such writes:
//
// A claim that is taken back was followed by nothing, because every effect behind it commits with a flush, and a flush takes
// all earlier writes along. A completion that is taken back leaves the claim, and the next try goes on with the same
// subject and finds the effect. A crash of a process, not of the database, takes nothing back.
//
// It saves two flushes per request, which are most of what the guard would cost.
func (s *Store) lazy() *sqlcgen.Queries { return sqlcgen.New(lazyDB{s.pool}) }

// lazyDB sends the setting and the statement in one round trip; outside a transaction block the two are one transaction, and
// the setting ends with it.
type lazyDB struct{ pool *pgxpool.Pool }

func (l lazyDB) start(ctx context.Context, sql string, args []any) pgx.BatchResults {
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('synchronous_commit', 'off', true)")
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

func (lazyDB) Query(context.Context, string, ...any) (pgx.Rows, error) {
	panic("store: a lazy write returns one row at most")
}
