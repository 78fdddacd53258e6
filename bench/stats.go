package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// statistic is PostgreSQL's own count for the whole database.
type statistic struct{ transactions, rollbacks int64 }

func (l *lab) statistics(ctx context.Context) (statistic, error) {
	var s statistic
	err := l.db.QueryRow(ctx, "SELECT xact_commit, xact_rollback FROM pg_stat_database WHERE datname = $1", databaseName).Scan(&s.transactions, &s.rollbacks)
	return s, err
}

// transactionsPerOrder stops starter and worker, because a connection reports its counts when it ends, and divides. Reads
// outside a transaction count as one each; sweeps and relay, a few in ten seconds, are in it.
func (l *lab) transactionsPerOrder(ctx context.Context) (float64, error) {
	if err := errors.Join(l.stop("starter"), l.stop("worker")); err != nil {
		return 0, err
	}
	var now statistic
	if err := until(ctx, "connections stay", func() (bool, error) {
		var n int
		err := l.db.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE usename = $1", appRole).Scan(&n)
		return n == 0, err
	}); err != nil {
		return 0, err
	}
	now, err := l.statistics(ctx)
	if err != nil || l.ordersAll == 0 {
		return 0, err
	}
	return float64(now.transactions+now.rollbacks-l.statsAt.transactions-l.statsAt.rollbacks) / float64(l.ordersAll), nil
}

// profiling starts profiles for the last round's orders, and returns what waits for them. Without the flag it does nothing.
func (l *lab) profiling(ctx context.Context, s settings, n int) (wait func() error) {
	if s.Profile == "" || n != s.Pairs {
		return func() error { return nil }
	}
	results := make(chan error, 2)
	for name, base := range map[string]string{"worker": l.workerOps, "starter": l.opsURL} {
		go func() { results <- l.saveProfile(ctx, base, s.Profile+"-"+name+".pprof") }()
	}
	_, err := l.db.Exec(ctx, "SELECT pg_stat_statements_reset()")
	return func() error {
		return errors.Join(err, l.saveStatements(ctx, s.Profile+"-statements.txt"), <-results, <-results)
	}
}

const profileFor = 5 * time.Second // shorter than the run it is taken in

func (l *lab) saveProfile(ctx context.Context, base, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", base, int(profileFor.Seconds())), nil)
	if err != nil {
		return err
	}
	res, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("profile: %d %s", res.StatusCode, raw)
	}
	return errors.Join(err, os.WriteFile(file, raw, 0o600))
}

// saveStatements writes what PostgreSQL did for the run just over, most expensive first.
func (l *lab) saveStatements(ctx context.Context, file string) error {
	rows, err := l.db.Query(ctx, `SELECT calls, total_exec_time, total_plan_time, wal_bytes::bigint, left(regexp_replace(query, '\s+', ' ', 'g'), 150)
		FROM pg_stat_statements WHERE calls > 5 ORDER BY total_exec_time DESC LIMIT 60`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var b strings.Builder
	var allCalls int64
	var allTime float64
	for rows.Next() {
		var calls, wal int64
		var exec, plan float64
		var query string
		if err := rows.Scan(&calls, &exec, &plan, &wal, &query); err != nil {
			return err
		}
		allCalls, allTime = allCalls+calls, allTime+exec
		fmt.Fprintf(&b, "%7d calls %9.1f ms %7.4f ms/call %7.4f ms plan/call %6d wal/call  %s\n", calls, exec, exec/float64(calls), plan/float64(calls), wal/calls, query)
	}
	fmt.Fprintf(&b, "%7d calls %9.1f ms in all\n", allCalls, allTime)
	return errors.Join(rows.Err(), os.WriteFile(file, []byte(b.String()), 0o600))
}

// stageNames are the times of one order that its rows tell, in the order they come.
var stageNames = []string{"attempt stored", "prepare claimed", "confirm claimed", "charge answered", "paid", "complete", "delivered", "answered"}

// stages are, for each name, the median time from the payment's request until then. A row's time is the beginning of its
// transaction, on this machine's clock.
func (l *lab) stages(ctx context.Context, run string, orders []placed) ([]time.Duration, error) {
	rows, err := l.db.Query(ctx, `SELECT o.order_id, a.created_at, (SELECT min(sent_at) FROM operations p WHERE p.attempt_id = a.attempt_id AND kind = 'prepare'),
			(SELECT min(sent_at) FROM operations p WHERE p.attempt_id = a.attempt_id AND kind = 'confirm'),
			(SELECT max(observed_at) FROM observations v WHERE v.attempt_id = a.attempt_id), o.paid_at, o.completed_at,
			(SELECT max(delivered_at) FROM event_deliveries d WHERE d.order_id = o.order_id)
		FROM orders o JOIN payment_attempts a USING (order_id) WHERE starts_with(o.order_id, $1)`, run+"-")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	by := map[string]placed{}
	for _, p := range orders {
		by[string(p.ID)] = p
	}
	all := make([][]time.Duration, len(stageNames))
	for rows.Next() {
		var id string
		at := make([]*time.Time, len(stageNames)-1)
		to := []any{&id}
		for i := range at {
			to = append(to, &at[i])
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		p := by[id]
		for i, t := range append(at, &p.Answered) {
			if t != nil {
				all[i] = append(all[i], t.Sub(p.Pays))
			}
		}
	}
	out := make([]time.Duration, len(stageNames))
	for i := range all {
		slices.Sort(all[i])
		out[i] = quantile(all[i], 0.5)
	}
	return out, rows.Err()
}
