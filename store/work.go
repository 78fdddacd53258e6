package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"orderflow/internal/fault"
	"orderflow/store/sqlcgen"
)

// work is one transaction being put together. Its first read carries BEGIN along; its writes wait and go out together with
// COMMIT: two round trips for what would be six. The rows it decides by are locked by its reads, so nothing moves between
// deciding and writing.
type work struct {
	conn  *pgxpool.Conn
	begun bool
	batch pgx.Batch

	read  *sqlcgen.Queries // runs at once
	write *sqlcgen.Queries // waits for the end of the transaction; results and row counts are not seen
}

func (s *Store) once(ctx context.Context, f func(context.Context, *work) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	w := &work{conn: conn}
	defer w.end()
	w.read, w.write = sqlcgen.New(reads{w}), sqlcgen.New(writes{w})
	if err := f(ctx, w); err != nil {
		return err
	}
	if !w.begun && w.batch.Len() == 0 {
		return nil
	}
	return w.commit(ctx)
}

// commit sends what waited. After an error here the transaction may have committed all the same: callers run again and find
// their own rows.
func (w *work) commit(ctx context.Context) error {
	b := &pgx.Batch{}
	if !w.begun {
		b.Queue("begin")
	}
	b.QueuedQueries = append(b.QueuedQueries, w.batch.QueuedQueries...)
	b.Queue("commit")
	w.begun = true
	br := w.conn.SendBatch(ctx, b)
	var tag pgconn.CommandTag
	for range b.Len() {
		var err error
		if tag, err = br.Exec(); err != nil {
			_ = br.Close()
			return err
		}
	}
	w.begun = false
	if err := br.Close(); err != nil {
		return err
	}
	if tag.String() != "COMMIT" { // PostgreSQL answers COMMIT of a failed transaction with ROLLBACK, and no error
		return fault.New(fault.InternalError, "commit")
	}
	return nil
}

// end gives the connection back clean. A connection that cannot roll back is closed by the pool.
func (w *work) end() {
	if w.begun && !w.conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if _, err := w.conn.Exec(ctx, "rollback"); err != nil {
			_ = w.conn.Conn().Close(ctx)
		}
	}
	w.conn.Release()
}

// reads is the DBTX that runs at once.
type reads struct{ w *work }

func (r reads) start(ctx context.Context, sql string, args []any) pgx.BatchResults {
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(sql, args...)
	r.w.begun = true
	return r.w.conn.SendBatch(ctx, b)
}

func (r reads) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if r.w.begun {
		return r.w.conn.Exec(ctx, sql, args...)
	}
	br := r.start(ctx, sql, args)
	defer func() { _ = br.Close() }()
	if _, err := br.Exec(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return br.Exec()
}

func (r reads) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if r.w.begun {
		return r.w.conn.Query(ctx, sql, args...)
	}
	br := r.start(ctx, sql, args)
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

func (r reads) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if r.w.begun {
		return r.w.conn.QueryRow(ctx, sql, args...)
	}
	br := r.start(ctx, sql, args)
	if _, err := br.Exec(); err != nil {
		_ = br.Close()
		return failedRow{err}
	}
	return firstRow{br.QueryRow(), br}
}

// firstRows and firstRow end the batch that carried BEGIN when their reader is done.
type firstRows struct {
	pgx.Rows
	br pgx.BatchResults
}

func (r firstRows) Close() {
	r.Rows.Close()
	_ = r.br.Close()
}

type firstRow struct {
	pgx.Row
	br pgx.BatchResults
}

func (r firstRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	if cerr := r.br.Close(); err == nil {
		err = cerr
	}
	return err
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// writes is the DBTX that waits. Only statements without results may use it.
type writes struct{ w *work }

func (d writes) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	d.w.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

func (writes) Query(context.Context, string, ...any) (pgx.Rows, error) {
	panic("store: a write that returns rows must use read")
}

func (writes) QueryRow(context.Context, string, ...any) pgx.Row {
	panic("store: a write that returns a row must use read")
}
