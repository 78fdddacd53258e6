// Command reconcile measures the comparison of a provider's books with ours: 100,000 payments in Stripe's own list format, of which one in
// a hundred is nobody's and one in a hundred says something else than we know, in windows that overlap by a twentieth.
//
// It must not judge anything itself, and nothing imports it: the real gateway reads the pages and the real store keeps what they lead to, on
// a PostgreSQL of its own. It may import activities, gateways/stripe, store, localstack, migrations and pgx.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgxpool"

	"orderflow/activities"
	"orderflow/gateways"
	"orderflow/gateways/stripe"
	"orderflow/internal/localstack"
	"orderflow/internal/reconcile"
	"orderflow/internal/secret"
	"orderflow/order"
	"orderflow/store"
)

type settings struct {
	Payments int `help:"Payments in the provider's books; a multiple of 10000." default:"100000"`
}

const (
	wholeBench = 10 * time.Minute
	mostGrowth = 2.0 // of the peak heap, when the books are ten times as long
	perSecond  = 10  // payments in one second of the provider's clock, so that equal times stand at page edges
	windows    = 20
	overlaps   = 20 // a window goes back by one part in so many
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var s settings
	k := kong.Parse(&s, kong.Name("reconcile"), kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Description("Compares long books of a provider with ours: see docs/benchmarks.md."))
	if err := k.Run(); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench/reconcile:", err)
		os.Exit(1)
	}
}

// Run reads a tenth of the books first, in a database of its own, and then all of them. An error means that something was missed, doubled or
// invented, or that memory grew with the books.
func (s *settings) Run(ctx context.Context) (err error) {
	if s.Payments < 10_000 || s.Payments%10_000 != 0 {
		return errors.New("payments must be a multiple of 10000")
	}
	ctx, cancel := context.WithTimeout(ctx, wholeBench)
	defer cancel()
	extra := map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
	pg, err := localstack.StartPostgres(ctx, localstack.PostgresOptions{Name: "bench-reconcile", Extra: extra}, func(line string) { fmt.Fprintln(os.Stderr, line) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pg.Stop()) }()
	tenth, err := read(ctx, pg.URL, s.Payments/10)
	if err != nil {
		return err
	}
	fmt.Println(tenth)
	all, err := read(ctx, pg.URL, s.Payments)
	if err != nil {
		return err
	}
	fmt.Println(all)
	growth := float64(all.peak) / float64(tenth.peak)
	fmt.Printf("peak heap of ten times the books: %.2f times (bound %.1f)\n", growth, mostGrowth)
	if growth > mostGrowth {
		return fmt.Errorf("the peak heap grew %.2f times with books ten times as long", growth)
	}
	return nil
}

// outcome is what one reading came to.
type outcome struct {
	payments, items, pages, windows int
	looks, orphans                  int
	took                            time.Duration
	peak                            uint64 // bytes of live and dead objects on the heap
}

// String is one line of the report.
func (o outcome) String() string {
	return fmt.Sprintf("%d payments (%d read in %d windows, %d pages): %d orphans and %d mismatches found, exactly; %.0f pages/s, %.0f payments/s; peak heap %.1f MB",
		o.payments, o.items, o.windows, o.pages, o.orphans, o.looks, float64(o.pages)/o.took.Seconds(), float64(o.items)/o.took.Seconds(), float64(o.peak)/1e6)
}

// read fills a database and a provider's books and compares them.
func read(ctx context.Context, server string, payments int) (outcome, error) {
	out := outcome{payments: payments}
	b := newBooks(payments)
	owner, appURL, err := openDatabase(ctx, server, payments)
	if err != nil {
		return out, err
	}
	defer owner.Close()
	if err := b.fill(ctx, owner); err != nil {
		return out, fmt.Errorf("fill: %w", err)
	}
	st, err := store.Open(ctx, appURL, 4, store.Options{})
	if err != nil {
		return out, err
	}
	defer st.Close()
	base, end, err := b.serve()
	if err != nil {
		return out, err
	}
	defer end()
	gw, err := stripe.Open(gateways.Settings{Name: account.Name, SecretKey: secret.New(secretKey), APIBase: base})
	if err != nil {
		return out, err
	}
	acts := activities.New(activities.Deps{
		Store: st, Gateways: map[order.Account]gateways.Gateway{account: gw}, Log: slog.New(slog.DiscardHandler),
		Reconcile: activities.ReconcileSettings{
			Spans: reconcile.Spans{Window: b.window(), Overlap: b.window() / overlaps},
			Rules: reconcile.Rules{Grace: 30 * time.Second, HoldFor: time.Minute, Skew: time.Second},
		},
	})
	peak := watchHeap()
	began := time.Now()
	for done := false; !done; {
		step, err := acts.ReconcileStep(ctx, activities.ReconcileInput{Account: account})
		if err != nil {
			return out, err
		}
		done = step.Done
		out.items, out.pages, out.looks, out.orphans = out.items+step.Items, out.pages+step.Pages, out.looks+step.Looks, out.orphans+step.Orphans
	}
	out.took, out.peak, out.windows = time.Since(began), peak(), int(b.windows.Load())
	return out, b.judge(ctx, owner, &out)
}

// serve answers as the provider until end is called.
func (b *books) serve() (base string, end func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	return "http://" + l.Addr().String(), func() {
		_ = srv.Close()
		<-done
	}, nil
}

// judge compares what was found with what is there to find, one by one.
func (b *books) judge(ctx context.Context, owner *pgxpool.Pool, out *outcome) error {
	var wrong []error
	if served := int(b.served.Load()); served != out.items {
		wrong = append(wrong, fmt.Errorf("%d payments were on the pages and %d were read", served, out.items))
	}
	for _, q := range []struct{ what, sql string }{
		{"orphans missed", "SELECT count(*) FROM listed l WHERE kind = 'orphan' AND NOT EXISTS (SELECT 1 FROM orphan_payments p WHERE p.provider_payment_id = l.id AND p.captured_minor = l.captured AND p.status = 'open')"},
		{"orphans invented", "SELECT count(*) FROM orphan_payments p WHERE NOT EXISTS (SELECT 1 FROM listed l WHERE l.id = p.provider_payment_id AND kind = 'orphan')"},
		{"orphans without one review and an owner", "SELECT count(*) FROM orphan_payments p WHERE 1 <> (SELECT count(*) FROM reviews r WHERE r.subject_id = p.orphan_id AND r.status = 'open' AND r.owner <> '')"},
		{"mismatches missed", "SELECT count(*) FROM listed l WHERE kind NOT IN ('orphan', 'same') AND NOT EXISTS (SELECT 1 FROM looks_wanted w WHERE w.attempt_id = 'att' || l.n)"},
		{"mismatches invented", "SELECT count(*) FROM looks_wanted w WHERE NOT EXISTS (SELECT 1 FROM listed l WHERE 'att' || l.n = w.attempt_id AND kind NOT IN ('orphan', 'same'))"},
	} {
		var n int
		if err := owner.QueryRow(ctx, q.sql).Scan(&n); err != nil {
			return fmt.Errorf("%s: %w", q.what, err)
		}
		if n > 0 {
			wrong = append(wrong, fmt.Errorf("%s: %d", q.what, n))
		}
	}
	err := owner.QueryRow(ctx, "SELECT (SELECT count(*) FROM orphan_payments), (SELECT count(*) FROM looks_wanted)").Scan(&out.orphans, &out.looks)
	return errors.Join(errors.Join(wrong...), err)
}
