package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"orderflow/internal/fault"
)

// Bounds are the limits of one step's tries, from the order's policy snapshot. Zero fields leave the table's value.
type Bounds struct {
	Deadline time.Time     `json:"deadline,omitzero"` // no try starts after this
	First    time.Duration `json:"first,omitempty"`
	Max      time.Duration `json:"max,omitempty"`
	Once     bool          `json:"once,omitempty"` // one look, no further try
}

// Fail is the one place where a fault becomes a Temporal error. The error's type is the fault's code, which is what
// workflows and retry policies see; message and details hold codes and ids only. Whether and when it is tried again is the
// table's row, bounded by b.
func Fail(ctx context.Context, err error, b Bounds) error {
	if err == nil {
		return nil
	}
	f := fault.As(err)
	p := fault.PolicyOf(f.Code)
	if b.First > 0 {
		p.First = b.First
	}
	if b.Max > 0 {
		p.Max = b.Max
	}
	tries := 1
	if activity.IsActivity(ctx) {
		tries = int(activity.GetInfo(ctx).Attempt)
	}
	delay := p.Delay(tries, f.RetryAfter)
	database := f.Code == fault.DatabaseUnavailable || f.Code == fault.DatabaseContention
	stop := !p.Retry || tries >= p.Tries
	if !database { // a database that is down keeps nothing from being looked up later: its own bound holds
		stop = stop || b.Once || (!b.Deadline.IsZero() && time.Now().Add(delay).After(b.Deadline))
	}
	opts := temporal.ApplicationErrorOptions{
		NonRetryable:   stop,
		NextRetryDelay: delay,
		Details:        []any{Detail{Class: f.Class, Why: f.Why, Provider: f.Provider}},
	}
	if p.Benign {
		opts.Category = temporal.ApplicationErrorCategoryBenign
	}
	return temporal.NewApplicationErrorWithOptions(f.Error(), string(f.Code), opts)
}

// Detail is what travels with an error beside its code.
type Detail struct {
	Class    fault.Class    `json:"class"`
	Why      string         `json:"why,omitempty"`
	Provider fault.Provider `json:"provider,omitzero"`
}

// NonRetryable lists the codes that end a step at once: a second fence behind Fail, generated from the same table.
func NonRetryable() []string {
	var codes []string
	for _, p := range fault.Table() {
		if !p.Retry {
			codes = append(codes, string(p.Code))
		}
	}
	return codes
}
