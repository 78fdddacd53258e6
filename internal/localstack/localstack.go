// Package localstack brings up, on one machine, what Orderflow runs on: PostgreSQL, the Temporal dev server and the
// pinned tools, found where they are installed and fetched or built where they are not.
//
// It must not know orders, payments or any of our tables: it starts programs, waits until they answer, and ends only what
// it started. It may import the standard library, pgx and the Temporal SDK's client, and nothing of ours.
package localstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// StateEnv names the variable that moves the state folder away from <module root>/.state.
const StateEnv = "ORDERFLOW_STATE_DIR"

// Progress takes one line for the person who waits. A nil Progress is silent.
type Progress func(line string)

func (p Progress) sayf(format string, args ...any) {
	if p != nil {
		p(fmt.Sprintf(format, args...))
	}
}

// during runs work and says every ten seconds that it is still going on, so that a build of minutes never looks hung.
func (p Progress) during(what string, work func() error) error {
	return p.duringEvery(10*time.Second, what, work)
}

func (p Progress) duringEvery(interval time.Duration, what string, work func() error) error {
	began, done := time.Now(), make(chan error, 1)
	go func() { done <- work() }()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			p.sayf("%s: still going on, %s so far", what, time.Since(began).Round(time.Second))
		}
	}
}

// Root is the module's top folder, found upward from the working folder. It is where the tools module and the state
// folder are, whatever package a test runs in.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module orderflow\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside the orderflow module: run this from the repository", start)
		}
	}
}

// StateDir is the one folder for everything a laptop run makes: clusters, binaries, logs. It is created when missing.
func StateDir() (string, error) {
	dir := os.Getenv(StateEnv)
	if dir == "" {
		root, err := Root()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, ".state")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, d := range []string{dir, filepath.Join(dir, "logs")} {
		if err := os.MkdirAll(d, 0o755); err != nil { // the server's user has to pass; private parts below are 0700
			return "", fmt.Errorf("the state folder cannot be made (set %s to another place): %w", StateEnv, err)
		}
	}
	return dir, nil
}

// FreePort asks the system for a port of 127.0.0.1 that nobody uses now. Somebody else may take it before it is used, so
// callers try again with another one.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("no free port on 127.0.0.1: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// CheckPort reports in one sentence that a chosen port is taken, and which setting picks another.
func CheckPort(port int, setting string) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("port %d is busy: end the program that listens on it, or choose another port with %s", port, setting)
	}
	return l.Close()
}

// until calls ready every few milliseconds until it returns nil, the process ends, or the bound passes.
func until(ctx context.Context, p *Process, bound time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("it was never asked")
	for {
		if err := ready(ctx); err == nil {
			return nil
		} else if ctx.Err() == nil {
			last = err
		}
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended before it was ready (%w); its log %s ends with:\n%s", p.spec.Name, p.ending(), p.spec.Log, p.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready within %s (%w); its log %s ends with:\n%s", p.spec.Name, bound, last, p.spec.Log, p.LogTail())
		case <-tick.C:
		}
	}
}
