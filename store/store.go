// Package store is all SQL: one exported function is one transaction is one business sentence.
//
// It must not know HTTP, Temporal or providers: sealed bytes come in and go out, and every decision is the rule's in
// package order. It may import order, internal/fault, internal/money, internal/reconcile, pgx and its own generated queries.
package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Options are what the store needs to know of the configuration.
type Options struct {
	Receivers []string            // event receivers: every event gets one delivery row for each
	Decisions order.DecisionRules // how people may decide; the zero value asks for a second person
}

// Store is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	opts Options
}

// New wraps a pool. The pool's lifetime is the caller's.
func New(pool *pgxpool.Pool, opts Options) *Store { return &Store{pool: pool, opts: opts} }

// Open connects and checks that the database answers, so that a wrong URL is told at the start and not by the first order.
func Open(ctx context.Context, url string, maxConns int32, opts Options) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("DATABASE_URL is not a PostgreSQL URL: it looks like postgres://user:password@host:5432/database")
	}
	if maxConns > 0 {
		cfg.MaxConns = maxConns
	}
	// A step must not hang on a database that does not answer, nor may a forgotten transaction keep locks.
	for k, v := range map[string]string{"statement_timeout": "10s", "idle_in_transaction_session_timeout": "10s", "lock_timeout": "5s"} {
		if _, set := cfg.ConnConfig.RuntimeParams[k]; !set {
			cfg.ConnConfig.RuntimeParams[k] = v
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, translate("open database", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, translate("reach database", err)
	}
	return New(pool, opts), nil
}

// Close gives all connections back.
func (s *Store) Close() { s.pool.Close() }

// Ping checks that the database answers, for readiness.
func (s *Store) Ping(ctx context.Context) error { return translate("ping database", s.pool.Ping(ctx)) }

// q reads outside a transaction.
func (s *Store) q() *sqlcgen.Queries { return sqlcgen.New(s.pool) }

// contentionTries bounds how often one call runs its transaction again after a deadlock or serialization failure.
const contentionTries = 3

// inTx runs f as one transaction. Contention runs all of f again, so f must hold no effect but its own writes; anything
// longer than a few tries is the caller's business, who has a retry table.
func (s *Store) inTx(ctx context.Context, op string, f func(context.Context, *work) error) error {
	for try := 1; ; try++ {
		err := translate(op, s.once(ctx, f))
		if err == nil || try == contentionTries || !fault.IsCode(err, fault.DatabaseContention) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(try)*10*time.Millisecond + rand.N(10*time.Millisecond)):
		}
	}
}
