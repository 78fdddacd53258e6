package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Targets. They compare with floors measured in the same minutes on the same server, so they hold on slow machines too.
const (
	leastThroughput = 0.6 // full orders per second, of the update floor
	mostAnswer      = 2.0 // the payment's answer, of the bare update-with-start
	mostEvents      = 20  // history events of a card order with one internal unit
)

// round is one interleaved round.
type round struct {
	Update     outcome `json:"floor_update"`     // update-with-start, one normal and three local no-op activities
	Orders     outcome `json:"orders"`           // full orders
	Activities outcome `json:"floor_activities"` // four normal no-op activities
	Bare       outcome `json:"floor_bare"`       // at one client: update-with-start of one no-op activity
	Single     outcome `json:"single"`           // at one client: full orders, between them
}

func (p round) throughput() float64 { return ratio(p.Orders.perSecond(), p.Update.perSecond()) }

func (p round) throughputActivities() float64 {
	return ratio(p.Orders.perSecond(), p.Activities.perSecond())
}

func (p round) answer() float64 {
	return ratio(float64(quantile(p.Single.Answers, 0.5)), float64(quantile(p.Bare.Answers, 0.5)))
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (p round) line(n int) string {
	return fmt.Sprintf("round %d: orders %.1f/s, floor update %.1f/s (ratio %.2f), floor activities %.1f/s (ratio %.2f); one client: answer %s, bare %s (ratio %.2f)",
		n, p.Orders.perSecond(), p.Update.perSecond(), p.throughput(), p.Activities.perSecond(), p.throughputActivities(),
		ms(quantile(p.Single.Answers, 0.5)), ms(quantile(p.Bare.Answers, 0.5)), p.answer())
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// report is everything that was measured.
type report struct {
	Clients      int     `json:"clients"`
	Durable      bool    `json:"fsync"`
	Rounds       []round `json:"rounds"`
	Transactions float64 `json:"transactions_per_order"`
}

func (r *report) each(f func(round) float64) []float64 {
	var out []float64
	for _, p := range r.Rounds {
		out = append(out, f(p))
	}
	return out
}

// misses lists the targets that were missed. The history is decided by every sampled order, the ratios by their medians.
func (r *report) misses() (history, ratios []string) {
	if m := median(r.each(round.throughput)); m < leastThroughput {
		ratios = append(ratios, fmt.Sprintf("full orders reach %.2f of the update floor, below %.2f", m, leastThroughput))
	}
	if m := median(r.each(round.answer)); m > mostAnswer {
		ratios = append(ratios, fmt.Sprintf("the payment's answer takes %.2f times the bare update-with-start, above %.2f", m, mostAnswer))
	}
	for _, p := range r.Rounds {
		for _, o := range []outcome{p.Orders, p.Single} {
			if n := len(o.Events); n == 0 || o.Events[n/2] > mostEvents {
				history = append(history, fmt.Sprintf("%s: the median history has %v events, above %d", o.Name, o.Events, mostEvents))
			}
		}
	}
	return history, ratios
}

// finish prints, writes the JSON and judges.
func (r *report) finish(w io.Writer, s settings) error {
	r.print(w)
	if s.JSON != "" {
		raw, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.JSON, append(raw, '\n'), 0o600); err != nil {
			return err
		}
	}
	history, ratios := r.misses()
	if s.Short {
		for _, m := range ratios {
			fmt.Fprintln(w, "not judged in a short run:", m)
		}
		ratios = nil
	}
	if missed := append(history, ratios...); len(missed) > 0 {
		return errors.New("targets missed:\n  " + strings.Join(missed, "\n  "))
	}
	return nil
}

func (r *report) print(w io.Writer) {
	fsync := "on"
	if !r.Durable {
		fsync = "off"
	}
	fmt.Fprintf(w, "\nPostgreSQL with fsync %s and synchronous_commit on; Temporal dev server in memory, tuned, eager activities on.\n", fsync)
	fmt.Fprintf(w, "Books of every run reconciled: charges = payments, effects = events, one issuance per unit.\n\n")
	fmt.Fprintf(w, "%-44s %8s %9s %9s %9s   %s\n", "", "per s", "p50", "p95", "p99", "rounds (per s)")
	for _, row := range []struct {
		name string
		pick func(round) outcome
		from func(outcome) []time.Duration
	}{
		{fmt.Sprintf("orders, %d clients: payment answered", r.Clients), func(p round) outcome { return p.Orders }, outcome.answers},
		{fmt.Sprintf("orders, %d clients: complete", r.Clients), func(p round) outcome { return p.Orders }, outcome.completed},
		{fmt.Sprintf("floor update + 1 + 3 local, %d clients", r.Clients), func(p round) outcome { return p.Update }, outcome.answers},
		{fmt.Sprintf("floor 4 activities, %d clients", r.Clients), func(p round) outcome { return p.Activities }, outcome.answers},
		{"orders, 1 client: payment answered", func(p round) outcome { return p.Single }, outcome.answers},
		{"orders, 1 client: complete", func(p round) outcome { return p.Single }, outcome.completed},
		{"floor bare update + 1, 1 client", func(p round) outcome { return p.Bare }, outcome.answers},
	} {
		var all []time.Duration
		var rates []float64
		for _, p := range r.Rounds {
			all, rates = append(all, row.from(row.pick(p))...), append(rates, row.pick(p).perSecond())
		}
		slices.Sort(all)
		fmt.Fprintf(w, "%-44s %8s %9s %9s %9s   %s\n", row.name, rate(median(rates)), ms(quantile(all, 0.5)), ms(quantile(all, 0.95)), ms(quantile(all, 0.99)), list(rates, "%.0f"))
	}
	r.printStages(w)
	r.printCosts(w)
	fmt.Fprintf(w, "\n%-44s %8s   %s\n", "ratios", "median", "rounds")
	fmt.Fprintf(w, "%-44s %8.2f   %s   target >= %.2f\n", "full orders / floor update + 1 + 3 local", median(r.each(round.throughput)), list(r.each(round.throughput), "%.2f"), leastThroughput)
	fmt.Fprintf(w, "%-44s %8.2f   %s\n", "full orders / floor 4 activities", median(r.each(round.throughputActivities)), list(r.each(round.throughputActivities), "%.2f"))
	fmt.Fprintf(w, "%-44s %8.2f   %s   target <= %.2f\n", "payment answer / bare update, 1 client", median(r.each(round.answer)), list(r.each(round.answer), "%.2f"), mostAnswer)
}

func (o outcome) answers() []time.Duration   { return o.Answers }
func (o outcome) completed() []time.Duration { return o.Completed }

func rate(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", v)
}

func list(values []float64, format string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprintf(format, v)
	}
	return strings.Join(parts, " ")
}

// printStages shows where the time of one payment goes, at one client.
func (r *report) printStages(w io.Writer) {
	parts := make([]string, 0, len(stageNames))
	for i, name := range stageNames {
		at := median(r.each(func(p round) float64 {
			if i >= len(p.Single.Stages) {
				return 0
			}
			return p.Single.Stages[i].Seconds() * 1000
		}))
		parts = append(parts, fmt.Sprintf("%s %.1f", name, at))
	}
	fmt.Fprintf(w, "\none client, ms from the payment's request until: %s\n", strings.Join(parts, ", "))
}

// printCosts shows what one order or one floor workflow costs: history events, transactions, and CPU by process.
func (r *report) printCosts(w io.Writer) {
	var events []int
	late := 0
	writes := func(p round) float64 { return ratio(float64(p.Orders.WriteTx), float64(p.Orders.Done)) }
	for _, p := range r.Rounds {
		events = append(append(events, p.Orders.Events...), p.Single.Events...)
		late += p.Orders.Late + p.Single.Late
	}
	slices.Sort(events)
	fmt.Fprintf(w, "\nper order: %d history events (most %d), %.1f database transactions of which %.1f write, %d answers of 202 in all\n",
		events[len(events)/2], events[len(events)-1], r.Transactions, median(r.each(writes)), late)
	fmt.Fprintf(w, "\n%-24s %10s", "CPU ms per", "order")
	for _, name := range []string{"floor update", "floor 4 act."} {
		fmt.Fprintf(w, " %14s", name)
	}
	fmt.Fprintln(w)
	columns := []func(round) outcome{func(p round) outcome { return p.Orders }, func(p round) outcome { return p.Update }, func(p round) outcome { return p.Activities }}
	sums := make([]float64, len(columns))
	for _, name := range slices.Sorted(maps.Keys(r.Rounds[0].Orders.CPU)) {
		fmt.Fprintf(w, "%-24s", name)
		for i, c := range columns {
			v := median(r.each(func(p round) float64 { return ratio(c(p).CPU[name].Seconds()*1000, float64(c(p).Done)) }))
			sums[i] += v
			fmt.Fprintf(w, " %*.2f", []int{10, 14, 14}[i], v)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%-24s %10.2f %14.2f %14.2f\n", "in all", sums[0], sums[1], sums[2])
}
