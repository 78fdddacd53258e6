package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"orderflow/internal/localstack"
)

// The variables that tests read. testkit and the gateway tests know them by the same names.
const (
	databaseEnv   = "ORDERFLOW_TEST_DATABASE_URL"
	stripeMockEnv = "ORDERFLOW_STRIPE_MOCK"
)

type envCommand struct {
	Command []string `arg:"" passthrough:"" help:"The command and its arguments, after --."`
}

// Run brings the environment up, runs the command and takes everything down again.
func (c *envCommand) Run(ctx context.Context) error {
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		return errors.New("there is no command to run: dev env -- COMMAND ARGUMENTS")
	}
	return withEnvironment(ctx, func(env []string) error { return run(ctx, env, command[0], command[1:]...) })
}

// withEnvironment calls work with everything up, and takes it down however work ends.
func withEnvironment(ctx context.Context, work func(env []string) error) (err error) {
	s := &stack{say: progress()}
	defer func() { err = errors.Join(err, s.down()) }()
	env, err := s.testEnvironment(ctx)
	if err != nil {
		return err
	}
	return work(env)
}

// testEnvironment starts PostgreSQL and finds the programs that tests start by themselves.
func (s *stack) testEnvironment(ctx context.Context) ([]string, error) {
	var database, temporal, stripeMock string
	err := s.up(ctx, "PostgreSQL", func(ctx context.Context) (func() error, error) {
		p, err := localstack.StartPostgres(ctx, localstack.PostgresOptions{
			URL: os.Getenv(databaseEnv), URLFrom: databaseEnv,
			// Every package's tests run in a process of their own, each with pools.
			Extra: map[string]string{"max_connections": "500"},
		}, s.say)
		if err != nil {
			return nil, err
		}
		database = p.URL
		return p.Stop, nil
	})
	if err != nil {
		return nil, err
	}
	if temporal, err = localstack.TemporalCLI(ctx, s.say); err != nil {
		return nil, err
	}
	if stripeMock = os.Getenv(stripeMockEnv); stripeMock == "" {
		if stripeMock, err = localstack.Tool(ctx, "stripe-mock", s.say); err != nil {
			return nil, err
		}
	}
	return replaceEnv(os.Environ(), databaseEnv, database, localstack.TemporalCLIEnv, temporal, stripeMockEnv, stripeMock), nil
}

// replaceEnv sets variables, given as name, value, name, value.
func replaceEnv(env []string, pairs ...string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		replaced := false
		for i := 0; i < len(pairs); i += 2 {
			replaced = replaced || pairs[i] == name
		}
		if !replaced {
			out = append(out, kv)
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, pairs[i]+"="+pairs[i+1])
	}
	return out
}

type testCommand struct {
	Race bool     `help:"Look for data races too (needs a C compiler; about three times slower)."`
	Long bool     `help:"Every test in its full size, which takes the better part of an hour on a small machine."`
	Args []string `arg:"" optional:"" passthrough:"" help:"Packages and flags for go test; ./... when left out."`
}

// Run is env with go test.
func (c *testCommand) Run(ctx context.Context) error {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		args = []string{"./..."}
	}
	cgo := "0"
	// -count=1: a cached pass says nothing about the PostgreSQL and the dev server of today. -w: forty test programs are
	// linked in half the time without debug information, which no test reads; stack traces do not need it.
	flags := []string{"test", "-count=1", "-timeout=30m", "-ldflags=-w"}
	if c.Race {
		cgo, flags = "1", append(flags, "-race")
	}
	size := "0"
	if c.Long {
		size, flags[2] = "1", "-timeout=60m"
	}
	return withEnvironment(ctx, func(env []string) error {
		return run(ctx, replaceEnv(env, "CGO_ENABLED", cgo, "ORDERFLOW_TEST_LONG", size), "go", append(flags, args...)...)
	})
}

type toolsCommand struct {
	Names []string `arg:"" optional:"" help:"Tools by name; all of them when left out."`
}

// allTools are the programs of internal/tools/go.mod, quick ones first.
func allTools() []string {
	return []string{"gofumpt", "staticcheck", "workflowcheck", "goose", "stripe-mock", "sqlc", "golangci-lint", "temporal"}
}

// Run builds each tool and prints name and path to stdout.
func (c *toolsCommand) Run(ctx context.Context) error {
	names, say := c.Names, progress()
	if len(names) == 0 {
		names = allTools()
	}
	for _, name := range names {
		say("tool " + name)
		path, err := localstack.Tool(ctx, name, say)
		if err != nil {
			return err
		}
		fmt.Printf("%s\t%s\n", name, path)
	}
	return nil
}
