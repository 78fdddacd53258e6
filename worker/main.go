// Command worker runs the workflows and steps of Orderflow.
//
// It must not know business rules: it wires configuration, database, providers and Temporal together, and stops in order.
// It may import everything that is wired.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"orderflow/activities"
	"orderflow/internal/config"
	"orderflow/internal/eventsend"
	"orderflow/internal/gctune"
	"orderflow/internal/profiles"
	"orderflow/order"
	"orderflow/store"
	"orderflow/workflows"
)

// stopWithin is how long running steps may take to end when the process is asked to stop. A container's grace period must
// be longer.
const stopWithin = 30 * time.Second

// sweepMax bounds how many orders one sweep takes up; the next one goes on.
const sweepMax = 500

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "worker: "+err.Error())
		os.Exit(1)
	}
}

func run() error {
	gctune.Set()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := config.LoadOS()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
	st, err := store.Open(ctx, cfg.DatabaseURL.Reveal(), cfg.DatabasePool, store.Options{Receivers: cfg.ReceiverNames(), Decisions: cfg.DecisionRules()})
	if err != nil {
		return fmt.Errorf("%w: check DATABASE_URL, and run `starter setup` on a new database", err)
	}
	defer st.Close()
	opts, err := cfg.Temporal(log)
	if err != nil {
		return err
	}
	m, err := newMetrics()
	if err != nil {
		return err
	}
	opts.MetricsHandler = m.sdk
	dctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	tc, err := client.DialContext(dctx, opts)
	if err != nil {
		return fmt.Errorf("cannot reach Temporal at %s: start it, or set TEMPORAL_ADDRESS (%w)", opts.HostPort, err)
	}
	defer tc.Close()
	acts, err := steps(ctx, cfg, st, tc, m, log)
	if err != nil {
		return err
	}
	return serve(ctx, cfg, st, tc, acts, m, log)
}

func steps(ctx context.Context, cfg config.Config, st *store.Store, tc client.Client, m *metrics, log *slog.Logger) (*activities.Activities, error) {
	gws, err := cfg.OpenGateways()
	if err != nil {
		return nil, err
	}
	iss, err := cfg.OpenIssuers()
	if err != nil {
		return nil, err
	}
	recs, err := cfg.EventReceivers()
	if err != nil {
		return nil, err
	}
	sender, err := eventsend.New(cfg.EventSender())
	if err != nil {
		return nil, err
	}
	box, err := cfg.Box()
	if err != nil {
		return nil, err
	}
	byName := make(map[string]eventsend.Receiver, len(recs))
	for _, r := range recs {
		byName[r.Name] = r
	}
	registered, err := attributesRegistered(ctx, cfg, tc)
	if err != nil {
		return nil, err
	}
	if !registered {
		log.Warn("search attributes are not registered, so orders cannot be filtered in the Web UI; to register them run: " + order.RegisterAttributesCommand)
	}
	spans, rules := cfg.Reconcile()
	return activities.New(activities.Deps{
		Store: st, Gateways: gws, Issuers: iss, Sender: sender, Receivers: byName, Box: box, Temporal: tc, Log: log, Attributes: registered,
		Called:    m.called,
		Sweep:     activities.SweepSettings{MinAge: cfg.SweepMinAge, Again: cfg.SweepAgain, Max: sweepMax, Lease: cfg.EventTimeout + 10*time.Second, PerSecond: cfg.LookupsPerSecond},
		Reconcile: activities.ReconcileSettings{Spans: spans, Rules: rules},
	}), nil
}

func serve(ctx context.Context, cfg config.Config, st *store.Store, tc client.Client, acts *activities.Activities, m *metrics, log *slog.Logger) error {
	fatal := make(chan error, 1)
	w := worker.New(tc, order.TaskQueue, worker.Options{
		WorkerStopTimeout:                  stopWithin,
		MaxConcurrentActivityExecutionSize: 100,
		MaxConcurrentWorkflowTaskPollers:   16,
		MaxConcurrentActivityTaskPollers:   16,
		DisableRegistrationAliasing:        true,
		OnFatalError:                       func(err error) { fatal <- err },
	})
	workflows.Register(w, acts)
	ops := &http.Server{Addr: cfg.WorkerOpsListen, Handler: profiles.Beside(opsHandler(st, tc, m), cfg.WorkerOpsListen), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := ops.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			fatal <- fmt.Errorf("health listener: %w: choose another ORDERFLOW_WORKER_OPS_LISTEN", err)
		}
	}()
	if err := w.Start(); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	log.Info("worker started", "task_queue", order.TaskQueue, "health", cfg.WorkerOpsListen)
	var err error
	select {
	case <-ctx.Done():
		log.Info("stopping: running steps get time to end", "within", stopWithin)
	case err = <-fatal:
	}
	w.Stop()
	sctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = ops.Shutdown(sctx)
	return err
}

func opsHandler(st *store.Store, tc client.Client, m *metrics) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := st.Ping(ctx); err != nil {
			http.Error(w, "database does not answer", http.StatusServiceUnavailable)
			return
		}
		if _, err := tc.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
			http.Error(w, "temporal does not answer", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}
