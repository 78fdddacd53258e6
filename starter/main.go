// Command starter is the HTTP side of Orderflow and its command line: it takes orders and payments, and shows and decides
// what waits for a person.
//
// It must not know business rules nor workflows: it wires packages together. It may import starter's packages, store,
// order, migrations, the internal packages, kong and Temporal's client.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"orderflow/internal/config"
)

type commands struct {
	Serve     serveCommand     `cmd:"" help:"Serve the HTTP API."`
	Setup     setupCommand     `cmd:"" help:"Migrate the database; put search attributes, schedules and the bootstrap API key in place. Safe to repeat."`
	Place     placeCommand     `cmd:"" help:"Make an order through the HTTP API, with the key of ORDERFLOW_API_KEY; amounts are decimal and converted exactly, or refused."`
	Explain   explainCommand   `cmd:"" help:"Explain one order: its states, what happened, what waits for a person and what that person may do."`
	Reviews   reviewsCommand   `cmd:"" help:"List what waits for a person, the oldest first."`
	Decide    decideCommand    `cmd:"" help:"Decide a review."`
	Settled   settledCommand   `cmd:"" help:"Record that an order was paid by other means: it is provided, and no expiry undoes it."`
	Reconcile reconcileCommand `cmd:"" help:"Compare providers' books with ours: now, or by a settlement file."`
	Records   recordsCommand   `cmd:"" help:"Write transaction records: what was sold, received and given back, of one order or of all orders of a client."`
	Export    exportCommand    `cmd:"" help:"Write everything about orders, money and goods as JSON lines to the standard output, for an audit: see docs/export.md."`
	Operators operatorsCommand `cmd:"" help:"Who may use the operator page."`
	Keys      keysCommand      `cmd:"" help:"Who may use the API."`
	Codes     codesCommand     `cmd:"" help:"Show what every fault code leads to."`
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ()}
	var c commands
	k := kong.Parse(&c, kong.Name("starter"), kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s),
		kong.Description("The HTTP API of Orderflow and its command line. Settings come from the environment; the README lists them."))
	err := k.Run()
	if err == nil {
		return
	}
	stop()
	var code exitCode
	if errors.As(err, &code) {
		os.Exit(int(code))
	}
	fmt.Fprintln(os.Stderr, "starter:", err)
	os.Exit(1)
}

// exitCode ends the process after everything was said.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// load reads the configuration and makes the log.
func (s *streams) load() (config.Config, *slog.Logger, error) {
	c, err := config.Load(s.environ)
	if err != nil {
		return c, nil, err
	}
	return c, slog.New(slog.NewJSONHandler(s.err, &slog.HandlerOptions{Level: c.LogLevel})), nil
}
