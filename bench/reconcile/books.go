package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"orderflow/migrations"
	"orderflow/order"
)

// Play values: they guard play money for some minutes.
const (
	secretKey = "sk_test_bench_reconcile"
	appRole   = "orderflow_app"
	password  = "bench-of-reconciliation"
	amount    = 600 // of every payment, minor units
)

var account = order.Account{Gateway: "stripe", Name: "default", Environment: "test"}

// books are the provider's: payment n came n/perSecond seconds after the first. They are computed page by page, so that the memory that
// is measured is the reader's.
type books struct {
	payments int
	first    time.Time
	served   atomic.Int64
	windows  atomic.Int64
}

func newBooks(payments int) *books {
	long := time.Duration(payments/perSecond) * time.Second
	return &books{payments: payments, first: time.Now().Add(-long - 2*time.Minute).UTC().Truncate(time.Second)}
}

// window is the stretch of time that is read at once.
func (b *books) window() time.Duration {
	return time.Duration(b.payments/perSecond/windows) * time.Second
}

// kind is what payment n is: one in a hundred is nobody's, and one in a hundred says something else than our books.
func kind(n int) string {
	switch n % 100 {
	case 37:
		return "orphan"
	case 61:
		return []string{"closed", "refunded", "more"}[n/100%3]
	}
	return "same"
}

func id(n int) string { return "pi_bench" + strconv.Itoa(n) }

// captured and refunded are what the provider says of payment n.
func captured(n int) int {
	if kind(n) == "more" {
		return amount + 50
	}
	return amount
}

func refunded(n int) int {
	if kind(n) == "refunded" {
		return 100
	}
	return 0
}

// ServeHTTP is Stripe's list of payment intents: newest first, a page begins after the intent that it is told.
func (b *books) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.Method != http.MethodGet || r.URL.Path != "/v1/payment_intents" || r.Header.Get("Authorization") != "Bearer "+secretKey {
		http.Error(w, `{"error":{"type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	from, to, limit := number(q, "created[gte]"), number(q, "created[lt]"), number(q, "limit")
	lowest := max(0, (from-int(b.first.Unix()))*perSecond)
	next := min(b.payments, (to-int(b.first.Unix()))*perSecond) - 1
	if after := q.Get("starting_after"); after != "" {
		n, _ := strconv.Atoi(strings.TrimPrefix(after, "pi_bench"))
		next = n - 1
	} else {
		b.windows.Add(1)
	}
	data := make([]map[string]any, 0, limit)
	for ; next >= lowest && len(data) < limit; next-- {
		data = append(data, b.intent(next))
	}
	b.served.Add(int64(len(data)))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "url": "/v1/payment_intents", "has_more": next >= lowest, "data": data})
}

func number(q url.Values, name string) int {
	n, _ := strconv.Atoi(q.Get(name))
	return n
}

// intent is a payment as the list shows it, with as much around it as there is at the provider.
func (b *books) intent(n int) map[string]any {
	created := b.first.Unix() + int64(n/perSecond)
	metadata := map[string]string{"merchant_reference": "OF" + strconv.Itoa(n)}
	if kind(n) == "orphan" {
		metadata = map[string]string{}
	}
	charge := map[string]any{
		"id": "ch_bench" + strconv.Itoa(n), "object": "charge", "amount": captured(n), "amount_captured": captured(n), "amount_refunded": refunded(n), "captured": true,
		"created": created, "currency": "jpy", "paid": true, "status": "succeeded", "payment_intent": id(n), "livemode": false, "disputed": false,
		"billing_details":        map[string]any{"address": map[string]any{"city": nil, "country": nil, "line1": nil}, "email": nil, "name": nil},
		"outcome":                map[string]any{"network_status": "approved_by_network", "risk_level": "normal", "seller_message": "Payment complete.", "type": "authorized"},
		"payment_method_details": map[string]any{"type": "card", "card": map[string]any{"brand": "visa", "country": "US", "exp_month": 12, "exp_year": 2034, "last4": "4242", "network": "visa"}},
	}
	return map[string]any{
		"id": id(n), "object": "payment_intent", "amount": captured(n), "amount_received": captured(n), "amount_capturable": 0, "capture_method": "automatic",
		"client_secret": id(n) + "_secret_bench", "confirmation_method": "automatic", "created": created, "currency": "jpy", "latest_charge": charge, "livemode": false,
		"metadata": metadata, "payment_method_types": []string{"card"}, "status": "succeeded",
	}
}

// openDatabase makes one, migrated and empty.
func openDatabase(ctx context.Context, server string, payments int) (owner *pgxpool.Pool, appURL string, err error) {
	name := fmt.Sprintf("bench_%d", payments)
	admin, err := pgx.Connect(ctx, server)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = admin.Close(ctx) }()
	for _, sql := range []string{
		"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '" + appRole + "') THEN CREATE ROLE " + appRole + " LOGIN PASSWORD '" + password + "'; END IF; END $$",
		"CREATE DATABASE " + name,
	} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			return nil, "", err
		}
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, "", err
	}
	u.Path = "/" + name
	ownerURL := u.String()
	if err := migrations.Up(ctx, ownerURL, appRole); err != nil {
		return nil, "", err
	}
	u.User = url.UserPassword(appRole, password)
	owner, err = pgxpool.New(ctx, ownerURL)
	return owner, u.String(), err
}

// fill writes what we know: every payment but the orphans, as an order that was paid long ago. Triggers are off, since only the rows count.
func (b *books) fill(ctx context.Context, owner *pgxpool.Pool) error {
	conn, err := owner.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "CREATE TABLE listed (n int PRIMARY KEY, id text UNIQUE, kind text, captured int)"); err != nil {
		return err
	}
	n := 0
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"listed"}, []string{"n", "id", "kind", "captured"}, pgx.CopyFromFunc(func() ([]any, error) {
		if n == b.payments {
			return nil, nil
		}
		n++
		return []any{n - 1, id(n - 1), kind(n - 1), captured(n - 1)}, nil
	})); err != nil {
		return err
	}
	for _, sql := range []string{
		"SET session_replication_role = replica",
		fmt.Sprintf(`INSERT INTO orders (order_id, client_id, caller_key, status, currency, currency_exponent, lines_minor, adjustments_minor, total_minor, buyer_ref, policy, policy_version, expires_at, paid_at, completed_at)
			SELECT 'o' || n, 'shop', 'o' || n, 'completed', 'JPY', 0, %[1]d, 0, %[1]d, 'buyer', '{}', 1, now(), now(), now() FROM listed WHERE kind <> 'orphan'`, amount),
		fmt.Sprintf(`INSERT INTO payment_attempts (attempt_id, order_id, client_id, caller_key, gateway, account, environment, merchant_reference, provider_payment_id, method_type, currency, amount_minor, status,
				close_reason, closed_at, created_at)
			SELECT 'att' || n, 'o' || n, 'shop', 'p' || n, 'stripe', 'default', 'test', 'OF' || n, id, 'card', 'JPY', %d, CASE kind WHEN 'closed' THEN 'closed' ELSE 'succeeded' END,
				CASE kind WHEN 'closed' THEN 'decision' ELSE '' END, CASE kind WHEN 'closed' THEN now() END, to_timestamp(%d + n / %d) FROM listed WHERE kind <> 'orphan'`, amount, b.first.Unix(), perSecond),
		fmt.Sprintf(`INSERT INTO payments (payment_id, gateway, account, environment, provider_payment_id, order_id, attempt_id, currency, captured_minor, matched)
			SELECT 'pay' || n, 'stripe', 'default', 'test', id, 'o' || n, 'att' || n, 'JPY', %d, true FROM listed WHERE kind NOT IN ('orphan', 'closed')`, amount),
		fmt.Sprintf("INSERT INTO reconcile_cursors (gateway, account, environment, reached_at) VALUES ('stripe', 'default', 'test', to_timestamp(%d))", b.first.Unix()),
		"RESET session_replication_role",
		"ANALYZE",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%.60s: %w", sql, err)
		}
	}
	return nil
}

// watchHeap looks at the heap's size until it is asked for the peak.
func watchHeap() (peak func() uint64) {
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		var most uint64
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-stop:
				done <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-done
	}
}
