package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.temporal.io/sdk/client"

	"orderflow/gateways"
	"orderflow/internal/config"
	"orderflow/internal/door"
	"orderflow/internal/gctune"
	"orderflow/internal/profiles"
	"orderflow/internal/seal"
	"orderflow/order"
	"orderflow/starter/api"
	"orderflow/starter/engine"
	"orderflow/starter/operator"
	"orderflow/starter/returns"
	"orderflow/starter/webhooks"
	"orderflow/store"
)

type serveCommand struct{}

// keepEvery is how often serve puts back what a wiped Temporal has lost, and prunes what may be forgotten.
const keepEvery = 30 * time.Second

// Run serves until ctx ends, then lets running requests finish.
func (serveCommand) Run(ctx context.Context, s *streams) error {
	gctune.Set()
	c, log, err := s.load()
	if err != nil {
		return err
	}
	return serve(ctx, c, log, nil)
}

// serve runs the whole process. ready, where given, is told the addresses it listens on.
func serve(ctx context.Context, c config.Config, log *slog.Logger, ready func(api, ops string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := store.Open(ctx, c.DatabaseURL.Reveal(), c.DatabasePool, store.Options{Receivers: c.ReceiverNames(), Decisions: c.DecisionRules()})
	if err != nil {
		return err
	}
	defer st.Close()
	en, closeClient, err := openEngine(c, log)
	if err != nil {
		return err
	}
	defer closeClient()
	sayMissing(ctx, en, log)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newReconcileMetrics(st))
	handler, hooks, err := buildAPI(c, log, st, en, registry)
	if err != nil {
		return err
	}
	go en.Keep(ctx, engine.Settings{SweepPeriod: c.SweepPeriod, RelayPeriod: c.RelayPeriod, ReconcilePeriod: c.ReconcilePeriod}, keepEvery)
	go prune(ctx, st, c, log)
	working := make(chan struct{})
	go func() {
		defer close(working)
		hooks.Run(ctx)
	}()
	defer func() { <-working }() // before the store closes
	defer cancel()
	return listen(ctx, log, ready,
		listener{"api", c.Listen, handler, c.AnswerBudget},
		listener{"ops", c.OpsListen, profiles.Beside(opsHandler(st, en, registry), c.OpsListen), c.AnswerBudget})
}

func openEngine(c config.Config, log *slog.Logger) (*engine.Engine, func(), error) {
	o, err := c.Temporal(log)
	if err != nil {
		return nil, nil, err
	}
	tc, err := client.NewLazyClient(o) // starter takes orders while Temporal is away
	if err != nil {
		return nil, nil, errors.New("the Temporal client cannot be made: check the TEMPORAL_* variables")
	}
	return engine.New(tc, o.Namespace, log), tc.Close, nil
}

func buildAPI(c config.Config, log *slog.Logger, st *store.Store, en *engine.Engine, registry *prometheus.Registry) (http.Handler, *webhooks.Webhooks, error) {
	box, err := c.Box()
	if err != nil {
		return nil, nil, err
	}
	gws, err := c.OpenGateways()
	if err != nil {
		return nil, nil, err
	}
	var issuerNames []string
	for _, i := range c.Issuers {
		issuerNames = append(issuerNames, i.Name)
	}
	hooks := webhooks.New(webhooks.Deps{
		Store: st, Engine: en, Box: box, Gateways: gws, LookupsPerSecond: c.LookupsPerSecond, OrphanAfter: c.OrphanAfter, Period: c.WebhookPeriod,
		Log: log, Metrics: webhooks.NewMetrics(registry),
	})
	also := append(hooks.Routes(), returns.Routes(returns.Deps{Store: st, Wake: hooks.Wake, Wait: c.ReturnWait, Log: log})...)
	also = append(also, operatorRoutes(c, log, st, en, box, gws)...)
	return api.New(api.Deps{
		Store: st, Engine: en, Box: box, Gateways: gws, Issuers: issuerNames, Policy: c.Policy(), PublicURL: c.PublicURL, AnswerBudget: c.AnswerBudget,
		IdempotencyLease: c.IdempotencyLease, LookupsPerSecond: c.LookupsPerSecond, Log: log, Metrics: api.NewMetrics(registry),
		Also: also,
	}), hooks, nil
}

// operatorRoutes makes the operator page.
func operatorRoutes(c config.Config, log *slog.Logger, st *store.Store, en *engine.Engine, box *seal.Box, gws map[order.Account]gateways.Gateway) []api.Route {
	var sides []string
	for account := range gws {
		sides = append(sides, account.Gateway)
	}
	for _, i := range c.Issuers {
		sides = append(sides, i.Name)
	}
	sides = append(sides, c.ReceiverNames()...)
	slices.Sort(sides)
	return operator.Routes(operator.Deps{
		Store: st, Box: box, Door: door.New(box, gws), Sides: slices.Compact(sides), Rules: c.DecisionRules(), TemporalUI: c.TemporalUI, Namespace: en.Namespace(),
		SessionLasts: c.OperatorSession, Log: log,
		Look: func(ctx context.Context, id order.ID, review order.ReviewID) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a person waits; the sweep finds the work otherwise
			defer cancel()
			return en.LookAgain(ctx, id, "operator", string(review))
		},
		PaymentPage: func(a order.Account, id string) string {
			if p, ok := gws[a].(gateways.PaymentPager); ok {
				return p.PaymentPage(id)
			}
			return ""
		},
	})
}

// sayMissing tells at the start which commands a person has to run; Keep tries by itself as well.
func sayMissing(ctx context.Context, en *engine.Engine, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, run, err := en.MissingAttributes(ctx)
	switch {
	case err != nil:
		log.Warn("Temporal does not answer yet; orders are taken, payments wait", "error", err)
	case len(run) > 0:
		log.Warn("search attributes are missing in Temporal; trying to register them; where that is not allowed, run these", "run", strings.Join(run, "; "))
	}
}

// prune forgets what docs/retention.md lists, past its lifetime, now and then. Several processes may do so at once.
func prune(ctx context.Context, st *store.Store, c config.Config, log *slog.Logger) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		for what, forget := range map[string]func() (int64, error){
			"idempotency answers": func() (int64, error) { return st.KeysPrune(ctx, c.IdempotencyLife) },
			"deliveries":          func() (int64, error) { return st.DeliveriesPrune(ctx, c.EventRetention) },
			"webhooks":            func() (int64, error) { return st.ReceiptsPrune(ctx, c.WebhookRetention) },
			"payments' requests":  func() (int64, error) { return st.RequestsForget(ctx, time.Hour) },
			"operators' sessions": func() (int64, error) { return st.SessionsPrune(ctx) },
		} {
			if n, err := forget(); err != nil && ctx.Err() == nil {
				log.Warn("what is old is not pruned", "what", what, "error", err)
			} else if n > 0 {
				log.Info("what is old is pruned", "what", what, "rows", n)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// opsHandler serves health and metrics, apart from the API so that nobody outside reaches them.
func opsHandler(st *store.Store, en *engine.Engine, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		var lacks []string
		if st.Ping(ctx) != nil {
			lacks = append(lacks, "database")
		}
		if en.Ready(ctx) != nil {
			lacks = append(lacks, "temporal")
		}
		if len(lacks) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(w, "not ready: %s\n", strings.Join(lacks, ", "))
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}

type listener struct {
	name    string
	addr    string
	handler http.Handler
	budget  time.Duration
}

// listen serves all listeners until ctx ends or one of them fails, then stops them gracefully.
func listen(ctx context.Context, log *slog.Logger, ready func(api, ops string), ls ...listener) error {
	failed := make(chan error, len(ls))
	var servers []*http.Server
	var addrs []string
	for _, l := range ls {
		nl, err := net.Listen("tcp", l.addr)
		if err != nil {
			stopAll(servers, time.Second)
			return fmt.Errorf("cannot listen on %s for %s: %w", l.addr, l.name, err)
		}
		srv := &http.Server{
			Handler: l.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: 45*time.Second + 2*l.budget,
			IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		}
		servers, addrs = append(servers, srv), append(addrs, nl.Addr().String())
		go func() {
			if err := srv.Serve(nl); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s stopped serving: %w", l.name, err)
			}
		}()
		log.Info("listening", "for", l.name, "address", nl.Addr().String())
	}
	if ready != nil {
		ready(addrs[0], addrs[1])
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	log.Info("stopping; running requests may finish")
	stopAll(servers, 10*time.Second+ls[0].budget)
	return err
}

func stopAll(servers []*http.Server, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, srv := range servers {
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
	}
}
