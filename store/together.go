package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"orderflow/store/sqlcgen"
)

// together runs reads in one round trip, in their order, each seeing what the one before waited for: a lock first, and then
// what it protects. No read may take an argument from another's result. Each function is called twice, once to note its
// statement and once to take its answer, so it holds one generated query and nothing else.
func (w *work) together(ctx context.Context, reads ...func(*sqlcgen.Queries) error) error {
	b := &pgx.Batch{}
	if !w.begun {
		b.Queue("begin")
	}
	noteAll(b, reads)
	first := !w.begun
	w.begun = true
	br := w.conn.SendBatch(ctx, b)
	defer func() { _ = br.Close() }()
	if first {
		if _, err := br.Exec(); err != nil {
			return err
		}
	}
	return answerAll(br, reads)
}

// readTogether is together outside a transaction.
func (s *Store) readTogether(ctx context.Context, reads ...func(*sqlcgen.Queries) error) error {
	b := &pgx.Batch{}
	noteAll(b, reads)
	br := s.pool.SendBatch(ctx, b)
	defer func() { _ = br.Close() }()
	return answerAll(br, reads)
}

func noteAll(b *pgx.Batch, reads []func(*sqlcgen.Queries) error) {
	for _, read := range reads {
		if err := read(sqlcgen.New(noting{b})); !errors.Is(err, errNoted) {
			panic("store: a read beside others must be one query")
		}
	}
}

func answerAll(br pgx.BatchResults, reads []func(*sqlcgen.Queries) error) error {
	for _, read := range reads {
		if err := read(sqlcgen.New(answering{br})); err != nil {
			return err
		}
	}
	return br.Close()
}

var errNoted = errors.New("store: the statement is noted and not sent yet")

// noting is the DBTX that only notes a statement.
type noting struct{ batch *pgx.Batch }

func (n noting) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	n.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, errNoted
}

func (n noting) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	n.batch.Queue(sql, args...)
	return nil, errNoted
}

func (n noting) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	n.batch.Queue(sql, args...)
	return failedRow{errNoted}
}

// answering is the DBTX that takes the answers, in the order the statements were noted.
type answering struct{ br pgx.BatchResults }

func (a answering) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return a.br.Exec()
}

func (a answering) Query(context.Context, string, ...any) (pgx.Rows, error) { return a.br.Query() }

func (a answering) QueryRow(context.Context, string, ...any) pgx.Row { return a.br.QueryRow() }
