package localstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
)

// TemporalCLIEnv names the variable that chooses the temporal program.
const TemporalCLIEnv = "TEMPORAL_CLI"

// TemporalNamespace is the one the dev server always has.
const TemporalNamespace = "default"

// DevServerSettings are dynamic settings every dev server of ours runs with, here, in tests and in docker-compose.yml.
// The first lifts a default that costs 50 ms at every hop between steps; the second lets a worker get an activity with
// the answer to its own request.
func DevServerSettings() []string {
	return []string{"history.transferProcessorMaxPollRPS=1000", "system.enableActivityEagerExecution=true"}
}

// SearchAttributes are what an operator filters orders by in the Web UI. A workflow may set only registered ones.
func SearchAttributes() []string {
	return []string{"OrderStatus=Keyword", "ReviewReason=Keyword", "ReviewSince=Datetime"}
}

// oldestTemporal is the first server (major, minor) the workflows were tried on.
var oldestTemporal = [2]int{1, 29}

// TemporalCLI finds the temporal program, quickest first: TEMPORAL_CLI, one on PATH with a server that is new enough, else
// the pinned one, built when needed. The pinned one calls itself 0.0.0-DEV, so only the server version counts.
func TemporalCLI(ctx context.Context, say Progress) (string, error) {
	if path := os.Getenv(TemporalCLIEnv); path != "" {
		version, err := temporalServerVersion(ctx, path)
		if err != nil {
			return "", fmt.Errorf("%s names %s, which cannot be used: %w", TemporalCLIEnv, path, err)
		}
		say.sayf("Temporal CLI: %s (server %s), as %s says", path, version, TemporalCLIEnv)
		return path, nil
	}
	if path, err := exec.LookPath("temporal"); err == nil {
		version, err := temporalServerVersion(ctx, path)
		if err == nil {
			say.sayf("Temporal CLI: %s (server %s), found on PATH, so nothing has to be built", path, version)
			return path, nil
		}
		say.sayf("Temporal CLI: %s on PATH is passed over: %v", path, err)
	}
	say.sayf("Temporal CLI: taking the pinned one from internal/tools (its first build takes minutes)")
	path, err := Tool(ctx, "temporal", say)
	if err != nil {
		return "", fmt.Errorf("%w; a temporal program of your own can be named by %s", err, TemporalCLIEnv)
	}
	version, err := temporalServerVersion(ctx, path)
	if err != nil {
		return "", fmt.Errorf("the temporal program built from internal/tools cannot be used: %w", err)
	}
	say.sayf("Temporal CLI: the pinned one (server %s) is built", version)
	return path, nil
}

var temporalVersion = regexp.MustCompile(`Server (\d+)\.(\d+)[^\s,)]*`)

func temporalServerVersion(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("it does not run: %w", err)
	}
	m := temporalVersion.FindStringSubmatch(string(out))
	if m == nil {
		return "", errors.New("it does not say which server it brings")
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if slices.Compare([]int{major, minor}, oldestTemporal[:]) < 0 {
		return "", fmt.Errorf("its server is %d.%d, and %d.%d is the oldest that will do", major, minor, oldestTemporal[0], oldestTemporal[1])
	}
	return strings.TrimPrefix(m[0], "Server "), nil
}

// TemporalOptions says how a dev server is started.
type TemporalOptions struct {
	CLI        string // the program; empty means TemporalCLI's choice
	Name       string // of its log file; empty means "temporal"
	Port       int    // gRPC; 0 means a free one
	UI         bool   // serve the Web UI
	UIPort     int    // 0 means a free one
	DBFile     string // keeps workflows between starts; it serializes writes, so benchmarks leave it empty
	Namespaces []string
}

// Temporal is a dev server that answers.
type Temporal struct {
	Address string // host:port for clients
	UIURL   string // empty without a Web UI
	process *Process
}

// Process is the running server, for tests that kill it.
func (t *Temporal) Process() *Process { return t.process }

// Stop ends the server.
func (t *Temporal) Stop() error { return t.process.Stop() }

// DevServerArgs are the arguments every dev server of ours gets, whatever its ports.
func DevServerArgs() []string {
	args := []string{"server", "start-dev"}
	for _, s := range DevServerSettings() {
		args = append(args, "--dynamic-config-value", s)
	}
	for _, s := range SearchAttributes() {
		args = append(args, "--search-attribute", s)
	}
	return args
}

// StartTemporal starts a dev server and returns when its namespaces have the search attributes, the last thing it does
// before it is of use.
func StartTemporal(ctx context.Context, o TemporalOptions, say Progress) (*Temporal, error) {
	if o.CLI == "" {
		path, err := TemporalCLI(ctx, say)
		if err != nil {
			return nil, err
		}
		o.CLI = path
	}
	if o.Name == "" {
		o.Name = "temporal"
	}
	var last error
	for range 3 { // a free port can be lost between choosing and using it
		t, err := startTemporalOnce(ctx, o)
		if err == nil {
			say.sayf("Temporal is up at %s", t.Address)
			return t, nil
		}
		last = err
		if o.Port != 0 || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return nil, last
}

func startTemporalOnce(ctx context.Context, o TemporalOptions) (*Temporal, error) {
	state, err := StateDir()
	if err != nil {
		return nil, err
	}
	port, err := portOrFree(o.Port, "--temporal-port")
	if err != nil {
		return nil, err
	}
	t := &Temporal{Address: fmt.Sprintf("127.0.0.1:%d", port)}
	args := append(DevServerArgs(), "--ip", "127.0.0.1", "--port", strconv.Itoa(port), "--log-level", "error")
	if o.UI {
		uiPort, err := portOrFree(o.UIPort, "--temporal-ui-port")
		if err != nil {
			return nil, err
		}
		args = append(args, "--ui-port", strconv.Itoa(uiPort))
		t.UIURL = fmt.Sprintf("http://127.0.0.1:%d", uiPort)
	} else {
		args = append(args, "--headless")
	}
	if o.DBFile != "" {
		args = append(args, "--db-filename", o.DBFile)
	}
	for _, n := range o.Namespaces {
		args = append(args, "--namespace", n)
	}
	spec := Spec{
		Name: "the Temporal dev server", Path: o.CLI, Args: args, Env: temporalEnv(),
		Log: filepath.Join(state, "logs", o.Name+".log"), OnDeath: syscall.SIGTERM,
	}
	if o.DBFile == "" {
		spec.OnDeath = syscall.SIGKILL // nothing is kept, and an orphan would hold the port
	}
	if t.process, err = Start(spec); err != nil {
		return nil, err
	}
	namespaces := append([]string{TemporalNamespace}, o.Namespaces...)
	if err := until(ctx, t.process, time.Minute, func(ctx context.Context) error { return temporalReady(ctx, t.Address, namespaces) }); err != nil {
		return nil, errors.Join(err, t.Stop())
	}
	return t, nil
}

func portOrFree(port int, setting string) (int, error) {
	if port == 0 {
		return FreePort()
	}
	return port, CheckPort(port, setting)
}

// temporalEnv is our environment without the client's settings: the dev server's own program reads TEMPORAL_* too.
func temporalEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "TEMPORAL_") })
}

func temporalReady(ctx context.Context, address string, namespaces []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, n := range namespaces {
		answer, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: n})
		if err != nil {
			return err
		}
		for _, a := range SearchAttributes() {
			name, _, _ := strings.Cut(a, "=")
			if _, ok := answer.GetCustomAttributes()[name]; !ok {
				return fmt.Errorf("the namespace %s has no search attribute %s yet", n, name)
			}
		}
	}
	return nil
}
