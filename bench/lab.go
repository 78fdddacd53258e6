package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"

	"orderflow/internal/localstack"
	"orderflow/internal/profiles"
)

// lab is everything a bench runs on: each part a process of its own, as in production, so that its CPU can be read.
type lab struct {
	say  localstack.Progress
	set  settings
	bin  string
	runs atomic.Int64

	postgres *localstack.Postgres
	dev      *localstack.Temporal
	procs    map[string]*localstack.Process // sandbox, worker, starter, floor-worker
	started  []string                       // in which they were started

	db         *pgxpool.Pool // the owner's
	temporal   client.Client
	http       *http.Client
	apiURL     string
	opsURL     string
	workerOps  string
	sandboxURL string
	apiKey     string

	ordersAll int64     // every order driven, warm-up included
	statsAt   statistic // PostgreSQL's counters before the first of them
}

// Play values: they guard play money for some minutes.
const (
	databaseName = "orderflow_bench"
	appRole      = "orderflow_app"
	stripeKey    = "sk_test_orderflow_bench"
	issuerToken  = "issuer-token-for-the-bench"
)

// openLab brings everything up. On an error the caller closes what there is.
func openLab(ctx context.Context, s settings) (*lab, error) {
	began := time.Now()
	l := &lab{set: s, procs: map[string]*localstack.Process{}, apiKey: "bench-" + randomHex()}
	l.say = func(line string) { fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(began).Seconds(), line) }
	for _, step := range []func(context.Context) error{l.build, l.startPostgres, l.startTemporal, l.startOrderflow} {
		if err := step(ctx); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (l *lab) build(ctx context.Context) error {
	state, err := localstack.StateDir()
	if err != nil {
		return err
	}
	root, err := localstack.Root()
	if err != nil {
		return err
	}
	l.bin = filepath.Join(state, "bench")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", l.bin+"/", "./worker", "./starter", "./sandbox")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	l.say("building worker, starter and sandbox")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// startPostgres makes a cluster that is thrown away afterwards and is durable all the same: a figure without fsync would
// promise what nobody can run.
func (l *lab) startPostgres(ctx context.Context) error {
	extra := map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_connections": "200"}
	if l.set.NoFsync {
		extra["fsync"] = "off"
	}
	if l.set.Profile != "" {
		extra["shared_preload_libraries"], extra["pg_stat_statements.track_planning"] = "pg_stat_statements", "on"
	}
	var err error
	if l.postgres, err = localstack.StartPostgres(ctx, localstack.PostgresOptions{Name: "bench", Extra: extra}, l.say); err != nil {
		return err
	}
	admin, err := pgx.Connect(ctx, l.postgres.URL)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(ctx) }()
	for _, sql := range []string{"CREATE ROLE " + appRole + " LOGIN PASSWORD '" + l.apiKey + "'", "CREATE DATABASE " + databaseName} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			return err
		}
	}
	owner, err := l.databaseURL(nil)
	if err != nil {
		return err
	}
	if l.db, err = pgxpool.New(ctx, owner); err != nil {
		return err
	}
	if l.set.Profile != "" {
		_, err = l.db.Exec(ctx, "CREATE EXTENSION pg_stat_statements")
	}
	return err
}

func (l *lab) databaseURL(user *url.Userinfo) (string, error) {
	u, err := url.Parse(l.postgres.URL)
	if err != nil {
		return "", errors.New("the database URL cannot be parsed")
	}
	u.Path = "/" + databaseName
	if user != nil {
		u.User = user
	}
	return u.String(), nil
}

func (l *lab) startTemporal(ctx context.Context) error {
	var err error
	if l.dev, err = localstack.StartTemporal(ctx, localstack.TemporalOptions{Name: "bench-temporal"}, l.say); err != nil {
		return err
	}
	if l.temporal, err = dialTemporal(ctx, l.dev.Address); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return l.start("floor-worker", localstack.Spec{Path: self, Args: []string{"floor-worker", "--address", l.dev.Address}})
}

func (l *lab) startOrderflow(ctx context.Context) error {
	var ports [4]string
	for i := range ports {
		p, err := localstack.FreePort()
		if err != nil {
			return err
		}
		ports[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(p))
	}
	l.apiURL, l.opsURL, l.workerOps, l.sandboxURL = "http://"+ports[0], "http://"+ports[1], "http://"+ports[2], "http://"+ports[3]
	many := l.set.Clients + 10
	l.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConns: 2 * many, MaxIdleConnsPerHost: many, IdleConnTimeout: time.Minute}}
	app, sandbox, err := l.environments(ports)
	if err != nil {
		return err
	}
	setup := exec.CommandContext(ctx, filepath.Join(l.bin, "starter"), "setup")
	setup.Env = app
	if out, err := setup.CombinedOutput(); err != nil {
		return fmt.Errorf("starter setup: %w\n%s", err, out)
	}
	if l.statsAt, err = l.statistics(ctx); err != nil {
		return err
	}
	for _, p := range []struct {
		name, ready string
		spec        localstack.Spec
	}{
		{"sandbox", l.sandboxURL + "/healthz", localstack.Spec{Args: []string{"--addr", ports[3], "--log-level", "warn"}, Env: sandbox}},
		{"worker", l.workerOps + "/readyz", localstack.Spec{Env: app}},
		{"starter", l.opsURL + "/readyz", localstack.Spec{Args: []string{"serve"}, Env: app}},
	} {
		p.spec.Path = filepath.Join(l.bin, p.name)
		if err := l.start(p.name, p.spec); err != nil {
			return err
		}
		if err := l.ready(ctx, p.name, p.ready); err != nil {
			return err
		}
	}
	return nil
}

// environments are what worker, starter and sandbox are told: the defaults, but for where things are.
func (l *lab) environments(ports [4]string) (app, sandbox []string, err error) {
	owner, err := l.databaseURL(nil)
	if err != nil {
		return nil, nil, err
	}
	role, err := l.databaseURL(url.UserPassword(appRole, l.apiKey))
	if err != nil {
		return nil, nil, err
	}
	whsec := "whsec_" + randomBase64()
	app = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"DATABASE_URL=" + role, "MIGRATE_DATABASE_URL=" + owner, "TEMPORAL_ADDRESS=" + l.dev.Address, "ORDERFLOW_DATA_KEY=" + randomBase64(),
		"ORDERFLOW_BOOTSTRAP_API_KEY=bench:checkout:" + l.apiKey,
		"ORDERFLOW_LISTEN=" + ports[0], "ORDERFLOW_OPS_LISTEN=" + ports[1], "ORDERFLOW_WORKER_OPS_LISTEN=" + ports[2],
		"STRIPE_SECRET_KEY=" + stripeKey, "STRIPE_API_BASE=" + l.sandboxURL + "/stripe",
		fmt.Sprintf(`ORDERFLOW_ISSUERS=[{"name":"tickets","base_url":"%s/issuers/idempotent","token":%q,"idempotent":true,"lookup":true}]`, l.sandboxURL, issuerToken),
		fmt.Sprintf(`ORDERFLOW_RECEIVERS=[{"name":"shop","url":"%s/receiver","secret":%q}]`, l.sandboxURL, whsec),
		"ORDERFLOW_EVENT_ALLOW_HTTP=true", "ORDERFLOW_EVENT_ALLOW_LOOPBACK=true",
	}
	if l.set.Profile != "" {
		app = append(app, profiles.Env+"=1")
	}
	for name, value := range l.set.App {
		app = append(app, name+"="+value)
	}
	sandbox = []string{"SANDBOX_STRIPE_KEYS=" + stripeKey, "SANDBOX_ISSUER_TOKEN=" + issuerToken, "SANDBOX_WEBHOOK_SECRET=" + whsec}
	return app, sandbox, nil
}

func (l *lab) start(name string, spec localstack.Spec) error {
	state, err := localstack.StateDir()
	if err != nil {
		return err
	}
	spec.Name, spec.Log = "the bench's "+name, filepath.Join(state, "logs", "bench-"+name+".log")
	p, err := localstack.Start(spec)
	if err != nil {
		return err
	}
	l.procs[name], l.started = p, append(l.started, name)
	return nil
}

// ready waits until a process answers its health route.
func (l *lab) ready(ctx context.Context, name, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	p := l.procs[name]
	err := until(ctx, name+" is not ready", func() (bool, error) {
		select {
		case <-p.Done():
			return false, fmt.Errorf("%s ended: %w", name, p.Err())
		default:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return false, err
		}
		res, err := l.http.Do(req)
		if err != nil {
			return false, nil // not listening yet
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("%w; its log %s ends with:\n%s", err, p.Log(), p.LogTail())
	}
	return nil
}

// processes are all that work for an order, by name.
func (l *lab) processes() map[string]int {
	out := map[string]int{"client": os.Getpid()}
	for name, p := range l.procs {
		out[name] = p.PID()
	}
	if p := l.postgres.Process(); p != nil {
		out["postgres"] = p.PID()
	}
	if p := l.dev.Process(); p != nil {
		out["temporal"] = p.PID()
	}
	return out
}

// stop ends one of our processes, once.
func (l *lab) stop(name string) error {
	p, ok := l.procs[name]
	if !ok {
		return nil
	}
	delete(l.procs, name)
	if err := p.Stop(); err != nil {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	return nil
}

// close ends everything that came up, last first.
func (l *lab) close() error {
	var errs []error
	for _, name := range slices.Backward(l.started) {
		errs = append(errs, l.stop(name))
	}
	if l.temporal != nil {
		l.temporal.Close()
	}
	if l.dev != nil {
		errs = append(errs, l.dev.Stop())
	}
	if l.db != nil {
		l.db.Close()
	}
	if l.postgres != nil {
		errs = append(errs, l.postgres.Stop())
	}
	return errors.Join(errs...)
}

// nextRun names a run; order ids and workflow ids begin with it.
func (l *lab) nextRun(kind string) string { return fmt.Sprintf("%s-%d", kind, l.runs.Add(1)) }

func randomHex() string { return hex.EncodeToString(random()) }

func randomBase64() string { return base64.StdEncoding.EncodeToString(random()) }

func random() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return b
}
