package testkit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"orderflow/internal/localstack"
)

// TemporalServer is a dev server with a namespace that belongs to one test, so that workflow ids, schedules and searches
// of parallel tests never meet.
type TemporalServer struct {
	Address   string // host:port
	Namespace string
	Client    client.Client // for this namespace; closed when the test ends
}

// Temporal gives a test its own namespace on the dev server that all tests of this process share. The server is started
// by the first test that asks and ends with the process.
func Temporal(t testing.TB) *TemporalServer {
	t.Helper()
	server, err := sharedTemporal()
	if err != nil {
		t.Fatalf("no Temporal dev server for tests: %v", err)
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random)
	s := &TemporalServer{Address: server.Address, Namespace: "test-" + hex.EncodeToString(random)}
	if err := addNamespace(t.Context(), s.Address, s.Namespace); err != nil {
		t.Fatalf("the namespace for this test cannot be made: %v", err)
	}
	s.Client = Dial(t, s.Address, s.Namespace)
	return s
}

var sharedTemporal = sync.OnceValues(func() (*localstack.Temporal, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute) // the first build takes minutes
	defer cancel()
	return localstack.StartTemporal(ctx, localstack.TemporalOptions{Name: logName()}, nil)
})

// logName keeps the logs of test processes apart.
func logName() string {
	random := make([]byte, 4)
	_, _ = rand.Read(random)
	return filepath.Join("tests", "temporal-"+hex.EncodeToString(random))
}

// Dial connects to a namespace and closes the connection when the test ends. The client is silent.
func Dial(t testing.TB, address, namespace string) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{
		HostPort: address, Namespace: namespace, Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		t.Fatalf("the Temporal dev server at %s does not answer: %v", address, err)
	}
	t.Cleanup(c.Close)
	return c
}

// addNamespace registers a namespace with the search attributes and returns when workflows can be started in it.
func addNamespace(ctx context.Context, address, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{
		HostPort: address, Namespace: namespace, Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		return err
	}
	types := map[string]enums.IndexedValueType{}
	for _, a := range localstack.SearchAttributes() {
		name, kind, _ := strings.Cut(a, "=")
		value, err := enums.IndexedValueTypeFromString(kind)
		if err != nil {
			return err
		}
		types[name] = value
	}
	return poll(ctx, func() error {
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: types})
		var exists *serviceerror.AlreadyExists
		if err != nil && !errors.As(err, &exists) {
			return err
		}
		_, err = c.DescribeWorkflow(ctx, "none", "")
		var missing *serviceerror.NotFound
		if errors.As(err, &missing) {
			return nil // the workflow is unknown, so the namespace is known
		}
		return fmt.Errorf("the namespace is not known everywhere yet: %w", err)
	})
}

// poll calls try until it succeeds or ctx ends, and then returns try's last error.
func poll(ctx context.Context, try func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// PrivateServer is a dev server of one test, which may kill it and start it again.
type PrivateServer struct {
	Address string // stays the same over a restart
	UIURL   string // of its Web UI; empty without one

	t      testing.TB
	db     string
	ui     bool
	server *localstack.Temporal
}

// PrivateTemporal starts a dev server for this test alone. With keep, its workflows are in a file and outlive Restart;
// without, a restart is a Temporal that has lost everything.
func PrivateTemporal(t testing.TB, keep bool) *PrivateServer {
	t.Helper()
	p := &PrivateServer{t: t}
	if keep {
		p.db = filepath.Join(t.TempDir(), "temporal.db")
	}
	return p.open()
}

// TemporalWithUI is PrivateTemporal without keep and with a Web UI, for what a person sends from there.
func TemporalWithUI(t testing.TB) *PrivateServer {
	t.Helper()
	return (&PrivateServer{t: t, ui: true}).open()
}

func (p *PrivateServer) open() *PrivateServer {
	p.t.Helper()
	p.start(0)
	p.t.Cleanup(func() {
		if err := p.server.Stop(); err != nil {
			p.t.Errorf("the private dev server stays behind: %v", err)
		}
	})
	return p
}

func (p *PrivateServer) start(port int) {
	p.t.Helper()
	s, err := localstack.StartTemporal(context.WithoutCancel(p.t.Context()), localstack.TemporalOptions{Name: logName(), Port: port, UI: p.ui, DBFile: p.db}, nil)
	if err != nil {
		p.t.Fatalf("no private Temporal dev server: %v", err)
	}
	p.server, p.Address, p.UIURL = s, s.Address, s.UIURL
}

// Kill ends the server as a crash would, and returns when it is gone.
func (p *PrivateServer) Kill() { p.server.Process().Kill() }

// Restart starts the server again at the same address, killing it first if it still runs.
func (p *PrivateServer) Restart() {
	p.t.Helper()
	p.Kill()
	_, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		p.t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		p.t.Fatal(err)
	}
	p.start(n)
}
