package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load is what one run does, over and over.
type load struct {
	one  func(ctx context.Context, i int) (time.Duration, error) // the i-th, up to its answer; returns how long the answer took
	last func(ctx context.Context, i int) error                  // each client, after its last one: wait until that one has ended
	all  func(ctx context.Context) error                         // after all clients: wait until nothing is left; may be nil
}

// outcome is what one run came to. Durations are nanoseconds in JSON.
type outcome struct {
	Name      string                   `json:"name"`
	Clients   int                      `json:"clients"`
	Done      int                      `json:"done"`
	Elapsed   time.Duration            `json:"elapsed"` // from the first request to the last workflow's end
	Answers   []time.Duration          `json:"answers"` // sorted
	Completed []time.Duration          `json:"completed,omitempty"`
	Stages    []time.Duration          `json:"stages,omitempty"` // medians, by stageNames
	Late      int                      `json:"late,omitempty"`   // answers that were 202: not known yet
	Events    []int                    `json:"events,omitempty"`
	CPU       map[string]time.Duration `json:"cpu"`
	WriteTx   int64                    `json:"write_transactions"`
}

// perSecond is the throughput.
func (o outcome) perSecond() float64 {
	if o.Elapsed <= 0 {
		return 0
	}
	return float64(o.Done) / o.Elapsed.Seconds()
}

// flood runs n of one on so many clients, each with one request under way at a time. It stops taking new ones when the
// run's time is over: a slow machine measures fewer orders, and a hung one is an error.
func (l *lab) flood(ctx context.Context, name string, clients, n int, w load) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, l.set.Most+time.Minute)
	defer cancel()
	out := outcome{Name: name, Clients: clients}
	before, err := l.meter(ctx)
	if err != nil {
		return out, err
	}
	began := time.Now()
	answers, err := clientsRun(ctx, clients, n, began.Add(l.set.Most), w)
	if err == nil && w.all != nil {
		err = w.all(ctx)
	}
	out.Elapsed = time.Since(began)
	after, merr := l.meter(ctx)
	if err = errors.Join(err, merr); err != nil {
		return out, fmt.Errorf("run %s: %w", name, err)
	}
	slices.Sort(answers)
	out.Answers, out.Done = answers, len(answers)
	out.CPU, out.WriteTx = after.cpuSince(before), after.writes-before.writes
	return out, nil
}

// clientsRun is the closed loop. The first error ends all clients.
func clientsRun(ctx context.Context, clients, n int, until time.Time, w load) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	per := make([][]time.Duration, clients)
	for c := range clients {
		wg.Go(func() {
			last := -1
			for ctx.Err() == nil && time.Now().Before(until) {
				i := int(next.Add(1)) - 1
				if i >= n {
					break
				}
				took, err := w.one(ctx, i)
				if err != nil {
					cancel(err)
					return
				}
				per[c], last = append(per[c], took), i
			}
			if last >= 0 && ctx.Err() == nil {
				if err := w.last(ctx, last); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return slices.Concat(per...), nil
}

// quantile of sorted durations, by the nearest rank. q is between 0 and 1.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// median of any values; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
