// Package main is dev: one command that brings up, on a laptop, what Orderflow needs.
//
// It must not know business rules or hold settings that worker and starter do not have too. It may import localstack,
// money and kong, and wires what they give.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"orderflow/internal/localstack"
)

type commands struct {
	Demo    demoCommand    `cmd:"" help:"Bring everything up, drive orders through it with faults on the way, stay up until Ctrl-C."`
	Env     envCommand     `cmd:"" help:"Run a command with a throwaway PostgreSQL, the Temporal CLI and stripe-mock in its environment."`
	Test    testCommand    `cmd:"" help:"Run the tests with everything they need (env plus go test)."`
	Mutants mutantsCommand `cmd:"" help:"Plant bugs in the gateways, one at a time, and show that the conformance suite catches each."`
	Tools   toolsCommand   `cmd:"" help:"Build the pinned tools, or print the path of the named ones."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c commands
	k := kong.Parse(&c, kong.Name("dev"), kong.Description("Brings up what Orderflow needs on this machine. Everything it makes is below .state."),
		kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)))
	err := k.Run()
	if err == nil {
		return
	}
	stop()
	var code exitCode
	if errors.As(err, &code) {
		os.Exit(int(code))
	}
	fmt.Fprintln(os.Stderr, "dev:", err)
	os.Exit(1)
}

// exitCode is how a command that we ran ended; it becomes our own.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("the command ended with exit code %d", int(c)) }

// progress prints lines with the time since the start to stderr, which leaves stdout to the command that is run.
func progress() localstack.Progress {
	began := time.Now()
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(began).Seconds(), line)
	}
}

// run runs one command in our place: its input and output are ours, and so is the terminal's Ctrl-C. It is asked to end
// when ctx is, and given time for it.
func run(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if exit.ExitCode() < 0 {
			return exitCode(130) // ended by a signal
		}
		return exitCode(exit.ExitCode())
	}
	return err
}
