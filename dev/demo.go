package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"orderflow/internal/localstack"
)

type demoCommand struct {
	Exit bool `env:"EXIT" help:"Leave after the table: exit code 0 only if every order ended as it should."`
	ports
}

// Run brings everything up, drives the orders of orders.go through it, prints one table and stays until Ctrl-C.
func (c *demoCommand) Run(ctx context.Context) (err error) {
	d := &demo{ports: c.ports, stack: stack{say: progress()}}
	defer func() {
		d.say("stopping everything that was started")
		err = errors.Join(err, d.down())
	}()
	if err := d.start(ctx); err != nil {
		return err
	}
	rows, err := d.drive(ctx)
	if err != nil {
		return err
	}
	good := printTable(os.Stdout, rows)
	d.printAddresses(os.Stdout)
	if c.Exit {
		if !good {
			return errors.New("not every order ended as it should; the table says which")
		}
		return nil
	}
	fmt.Println("\nEverything stays up until Ctrl-C.")
	return d.stay(ctx)
}

// demo is one running demo.
type demo struct {
	stack
	ports    ports
	settings settings
	bin      string
	temporal *localstack.Temporal
	procs    []*localstack.Process
	shopURL  string
	password string // of the operator page's login, new for every demo
	envFile  string // for a shell that runs starter against this demo
}

func (d *demo) sandboxURL() string { return "http://" + local(d.ports.Sandbox) }

// start brings the parts up in order. Ports are looked at first: better one sentence now than a failure after minutes.
func (d *demo) start(ctx context.Context) error {
	for _, p := range []struct {
		port    int
		setting string
	}{
		{d.ports.API, "DEMO_API_PORT"},
		{d.ports.Ops, "DEMO_OPS_PORT"},
		{d.ports.WorkerOps, "DEMO_WORKER_OPS_PORT"},
		{d.ports.Sandbox, "DEMO_SANDBOX_PORT"},
		{d.ports.Temporal, "DEMO_TEMPORAL_PORT"},
		{d.ports.UI, "DEMO_TEMPORAL_UI_PORT"},
	} {
		if err := localstack.CheckPort(p.port, p.setting); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{d.startPostgres, d.startTemporal, d.build, d.setup, d.startSandbox, d.startWorker, d.startStarter, d.addOperator, d.writeEnv, d.startShop} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) startPostgres(ctx context.Context) error {
	var pg *localstack.Postgres
	err := d.up(ctx, "PostgreSQL", func(ctx context.Context) (func() error, error) {
		var err error
		pg, err = localstack.StartPostgres(ctx, localstack.PostgresOptions{
			URL: os.Getenv("DATABASE_URL"), URLFrom: "DATABASE_URL", Durable: true, Name: "demo", Extra: map[string]string{"max_connections": "200"},
		}, d.say)
		if err != nil {
			return nil, err
		}
		return pg.Stop, nil
	})
	if err != nil {
		return err
	}
	owner, app, err := demoDatabase(ctx, pg.URL)
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	d.settings = demoSettings(app, owner, local(d.ports.Temporal), d.sandboxURL(), d.ports)
	return nil
}

// demoDatabase makes an empty database: the sandbox forgets everything between runs, so a demo begins with nothing too.
// The application gets a role of its own, as it should have everywhere.
func demoDatabase(ctx context.Context, server string) (owner, app string, err error) {
	const name, role = "orderflow_demo", "orderflow_demo_app"
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", "", fmt.Errorf("cannot connect: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	password := url.QueryEscape(randomKey())
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1)", role).Scan(&exists); err != nil {
		return "", "", err
	}
	verb := "CREATE"
	if exists {
		verb = "ALTER"
	}
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)",
		fmt.Sprintf("%s ROLE %s LOGIN PASSWORD '%s'", verb, role, password),
		"CREATE DATABASE " + name,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return "", "", fmt.Errorf("make the demo's database (the user in DATABASE_URL must be allowed to create databases and roles): %w", err)
		}
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", "", errors.New("the server's URL cannot be read")
	}
	u.Path = "/" + name
	owner = u.String()
	u.User = url.UserPassword(role, password)
	return owner, u.String(), nil
}

func (d *demo) startTemporal(ctx context.Context) error {
	return d.up(ctx, "Temporal", func(ctx context.Context) (func() error, error) {
		var err error
		d.temporal, err = localstack.StartTemporal(ctx, localstack.TemporalOptions{Name: "demo-temporal", Port: d.ports.Temporal, UI: true, UIPort: d.ports.UI}, d.say)
		if err != nil {
			return nil, err
		}
		return d.temporal.Stop, nil
	})
}

func (d *demo) build(ctx context.Context) error {
	root, err := localstack.Root()
	if err != nil {
		return err
	}
	state, err := localstack.StateDir()
	if err != nil {
		return err
	}
	d.bin = filepath.Join(state, "bin")
	d.say("building worker, starter and sandbox")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", d.bin+string(filepath.Separator), "./worker", "./starter", "./sandbox")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the build failed; this is what Go says:\n%s", out)
	}
	return nil
}

func (d *demo) setup(ctx context.Context) error {
	d.say("migrating the database, registering search attributes and schedules")
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "starter"), "setup")
	cmd.Env = over(d.settings.App)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("starter setup failed:\n%s", out)
	}
	return nil
}

func (d *demo) startSandbox(ctx context.Context) error {
	env := map[string]string{"SANDBOX_ADDR": local(d.ports.Sandbox)}
	for k, v := range d.settings.Sandbox {
		env[k] = v
	}
	return d.program(ctx, "sandbox", env, d.sandboxURL()+"/healthz")
}

func (d *demo) startWorker(ctx context.Context) error {
	return d.program(ctx, "worker", d.settings.App, "http://"+local(d.ports.WorkerOps)+"/readyz")
}

func (d *demo) startStarter(ctx context.Context) error {
	return d.program(ctx, "starter", d.settings.App, "http://"+local(d.ports.Ops)+"/readyz", "serve")
}

// demoLogin is who looks at the operator page of a demo.
const demoLogin = "demo"

// addOperator makes a login with a random password, which is printed at the end.
func (d *demo) addOperator(ctx context.Context) error {
	d.password = rand.Text()[:16]
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "starter"), "operators", "add", demoLogin, "--name", "Demo Operator", "--role", "approver")
	cmd.Env, cmd.Stdin = over(d.settings.App), strings.NewReader(d.password+"\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("starter operators add failed:\n%s", out)
	}
	return nil
}

// writeEnv writes the demo's settings as a file for a shell, which is the only other user of its password and keys.
func (d *demo) writeEnv(ctx context.Context) error {
	state, err := localstack.StateDir()
	if err != nil {
		return err
	}
	all := map[string]string{"ORDERFLOW_API": "http://" + local(d.ports.API), "ORDERFLOW_API_KEY": playAPIKey}
	maps.Copy(all, d.settings.App)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(all[name], "'", `'\''`))
	}
	d.envFile = filepath.Join(state, "demo.env")
	return d.up(ctx, "settings", func(context.Context) (func() error, error) {
		return func() error { return os.Remove(d.envFile) }, os.WriteFile(d.envFile, []byte(b.String()), 0o600)
	})
}

// program starts one of our own and waits until it says that it is ready.
func (d *demo) program(ctx context.Context, name string, env map[string]string, ready string, args ...string) error {
	state, err := localstack.StateDir()
	if err != nil {
		return err
	}
	return d.up(ctx, name, func(ctx context.Context) (func() error, error) {
		p, err := localstack.Start(localstack.Spec{
			Name: name, Path: filepath.Join(d.bin, name), Args: args, Env: over(env), Log: filepath.Join(state, "demo-"+name+".log"), Grace: 40 * time.Second,
		})
		if err != nil {
			return nil, err
		}
		if err := awaitReady(ctx, p, ready); err != nil {
			return nil, errors.Join(err, p.Stop())
		}
		d.procs = append(d.procs, p)
		d.say(name + " is up")
		return p.Stop, nil
	})
}

func awaitReady(ctx context.Context, p *localstack.Process, ready string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := http.Client{Timeout: 5 * time.Second}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, ready, nil)
		if err != nil {
			return err
		}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.Done():
			return fmt.Errorf("it ended before it was ready; its last lines:\n%s", p.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("it was not ready in time; its last lines:\n%s", p.LogTail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stay waits for Ctrl-C, or for a part that ends by itself.
func (d *demo) stay(ctx context.Context) error {
	ended := make(chan *localstack.Process, len(d.procs))
	for _, p := range d.procs {
		go func() {
			<-p.Done()
			ended <- p
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case p := <-ended:
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("a part ended by itself; its last lines:\n%s", p.LogTail())
	}
}
