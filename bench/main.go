// Command bench measures full orders against the least that Temporal itself costs, on this machine, in one run.
//
// It must not know business rules, and nothing imports it: it drives the built worker, starter and sandbox over HTTP as a
// checkout backend would, and reads books. It may import localstack, migrations, order for shared names, and pgx.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type commands struct {
	Run         settings     `cmd:"" default:"withargs" help:"Measure (the default)."`
	FloorWorker floorCommand `cmd:"" hidden:"" help:"The worker of the floors, started by run."`
}

// settings are the counts and bounds of one bench. Every loop is bounded in count and in time.
type settings struct {
	Pairs   int               `help:"Interleaved rounds: floors and orders one after the other." default:"5"`
	Clients int               `help:"Clients at once in the throughput runs." default:"50"`
	Orders  int               `help:"Orders of one throughput run; the floors run as many workflows." default:"500"`
	Single  int               `help:"Payments of one latency run, at one client." default:"60"`
	Most    time.Duration     `help:"The longest one run may take; it stops taking new orders then." default:"25s"`
	Short   bool              `help:"Two small rounds, for the gate: the books and the history decide, the ratios are only shown."`
	App     map[string]string `help:"One more setting for worker and starter, to try it out: --app GOGC=400." placeholder:"NAME=VALUE"`
	NoFsync bool              `help:"PostgreSQL without fsync. Shows what the disk costs; no figure for anybody else."`
	Profile string            `help:"Write CPU profiles PREFIX-worker.pprof and PREFIX-starter.pprof, and statements to PREFIX-statements.txt." placeholder:"PREFIX"`
	JSON    string            `help:"Write every figure to this file as JSON." placeholder:"FILE"`
}

// wholeBench bounds everything: a bench that hangs is a failure, not a coffee break.
const wholeBench = 15 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c commands
	k := kong.Parse(&c, kong.Name("bench"), kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Description("Drives full orders to completion and compares them with floors on the same Temporal server: see docs/benchmarks.md."))
	if err := k.Run(); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Run measures and judges. An error means that books did not agree, that a run failed, or that a target was missed.
func (s *settings) Run(ctx context.Context) error {
	if s.Short {
		s.Pairs, s.Orders, s.Single = 2, min(s.Orders, 150), min(s.Single, 25)
	}
	if s.Pairs < 1 || s.Clients < 1 || s.Orders < s.Clients || s.Single < 1 {
		return errors.New("pairs, clients and single must be 1 or more, and orders at least as many as clients")
	}
	ctx, cancel := context.WithTimeout(ctx, wholeBench)
	defer cancel()
	l, err := openLab(ctx, *s)
	if err != nil {
		return errors.Join(err, l.close())
	}
	rep, err := measure(ctx, l, *s)
	if err != nil {
		return errors.Join(err, l.close())
	}
	rep.Transactions, err = l.transactionsPerOrder(ctx)
	if err = errors.Join(err, l.close()); err != nil {
		return err
	}
	return rep.finish(os.Stdout, *s)
}

// measure runs the interleaved rounds.
func measure(ctx context.Context, l *lab, s settings) (*report, error) {
	rep := &report{Clients: s.Clients, Durable: !s.NoFsync}
	l.say("warm-up")
	warm := max(s.Clients, s.Orders/4)
	for _, run := range []func(context.Context, int, int) (outcome, error){l.updateFloor, l.orders, l.activitiesFloor} {
		if _, err := run(ctx, s.Clients, warm); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	for n := 1; n <= s.Pairs; n++ {
		p, err := l.round(ctx, s, n)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", n, err)
		}
		rep.Rounds = append(rep.Rounds, p)
		l.say(p.line(n))
	}
	return rep, nil
}

// round is one pair: the floors and the orders close together in time, so that the machine's mood hits all of them alike.
func (l *lab) round(ctx context.Context, s settings, n int) (round, error) {
	var p round
	var err error
	if p.Update, err = l.updateFloor(ctx, s.Clients, s.Orders); err != nil {
		return p, err
	}
	profiled := l.profiling(ctx, s, n)
	p.Orders, err = l.orders(ctx, s.Clients, s.Orders)
	if err = errors.Join(err, profiled()); err != nil {
		return p, err
	}
	if p.Activities, err = l.activitiesFloor(ctx, s.Clients, s.Orders); err != nil {
		return p, err
	}
	p.Bare, p.Single, err = l.answers(ctx, s.Single)
	return p, err
}
