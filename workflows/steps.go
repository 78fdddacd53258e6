package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/order"
)

// acts names the steps; its methods are never called here.
var acts *activities.Activities

// Bounds of database steps. They run inside the workflow task first, which costs no round trip to the server, and as normal
// activities when the database is slow or away: then they are visible, retried for a day, and hold no workflow task.
const (
	localTotal   = 2 * time.Second
	localTries   = 2
	localRetry   = 50 * time.Millisecond
	databaseStep = 15 * time.Second
	databaseAge  = 24 * time.Hour
)

// database runs a step of our own database.
func database[T any](ctx workflow.Context, summary string, step, input any) (T, error) {
	var out T
	lctx := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localTotal, Summary: summary,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: localRetry, MaximumAttempts: localTries, NonRetryableErrorTypes: activities.NonRetryable()},
	})
	err := workflow.ExecuteLocalActivity(lctx, step, input).Get(ctx, &out)
	if err == nil || !again(err) {
		return out, err
	}
	nctx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: databaseStep, ScheduleToCloseTimeout: databaseAge, Summary: summary,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: localRetry, MaximumInterval: databaseStep, NonRetryableErrorTypes: activities.NonRetryable()},
	})
	return out, workflow.ExecuteActivity(nctx, step, input).Get(ctx, &out)
}

// outside starts a step that talks to the other side. One try has a time of its own; how often it is tried is decided by the
// step itself, from the code table and the bounds in its input.
func (w *orderRun) outside(ctx workflow.Context, summary string, total time.Duration, step, input any) workflow.Future {
	p := w.facts.Policy
	octx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: p.StepTimeout, HeartbeatTimeout: p.DeadWorkerAfter, ScheduleToCloseTimeout: total, Summary: summary,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: p.LongestRetryInterval, NonRetryableErrorTypes: activities.NonRetryable()},
	})
	return workflow.ExecuteActivity(octx, step, input)
}

// bounds are what an unknown outcome of this order is looked up within.
func (w *orderRun) bounds(ctx workflow.Context) activities.Bounds {
	p := w.facts.Policy
	return activities.Bounds{Deadline: workflow.Now(ctx).Add(p.UnknownToReviewAfter), First: p.FirstLookupAfter, Max: p.LongestRetryInterval}
}

func (w *orderRun) load(ctx workflow.Context) error {
	in := activities.OrderInput{OrderID: w.id, Batch: batchOf(w.facts.Policy)}
	f, err := database[activities.Loaded](ctx, "load the facts", acts.LoadOrder, in)
	if err != nil {
		return err
	}
	w.facts, w.seen, w.loaded = f, f.WorkSeq, true
	w.loads++
	w.show(ctx)
	return nil
}

func batchOf(p order.Policy) int {
	if p.BatchMax > 0 {
		return p.BatchMax
	}
	return order.DefaultPolicy().BatchMax
}

// saw follows the work counter over a step of this run: only if nobody else raised it in between has the run seen it all.
func (w *orderRun) saw(from, to int64) {
	if from == w.seen {
		w.seen = to
	}
}

func (w *orderRun) reflect(ctx workflow.Context, id order.AttemptID) (activities.Reflected, error) {
	r, err := database[activities.Reflected](ctx, "reflect the payment", acts.ReflectPayment, activities.AttemptInput{AttemptID: id})
	if err != nil {
		return r, err
	}
	w.saw(r.WorkFrom, r.WorkTo)
	w.facts.Status = r.Order
	w.facts.InternalPlanned += int64(r.Internal)
	w.external += r.External
	// Reviews in hand may have ended by this evidence, or a new one was opened: the run must not wait for what is over.
	moved := r.Verdict != order.Unchanged && len(w.facts.Reviews) > 0
	w.stale = w.stale || r.ReviewOpen || r.External > 0 || moved
	if r.WorkTo > r.WorkFrom {
		w.deliverable = true
	}
	w.settle(id, r.Status)
	return r, nil
}

// local runs a step inside the workflow task, once, within a short budget; a normal activity stands behind it.
func local[T any](ctx workflow.Context, summary string, budget time.Duration, step, input any) (T, error) {
	var out T
	lctx := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: budget + localTotal, Summary: summary, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	err := workflow.ExecuteLocalActivity(lctx, step, input).Get(ctx, &out)
	return out, err
}
