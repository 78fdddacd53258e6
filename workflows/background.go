package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
)

// A background run is short and comes again by its schedule, so it is given up rather than retried for long.
var background = workflow.ActivityOptions{
	StartToCloseTimeout: 5 * time.Minute,
	HeartbeatTimeout:    5 * time.Second, // a killed worker must not hold the schedule up: no round starts beside another
	RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
}

// SweepWorkflow runs on a schedule: nothing accepted is forgotten, whatever happened to Temporal or to a process.
func SweepWorkflow(ctx workflow.Context) (activities.Swept, error) {
	var out activities.Swept
	o := background
	o.Summary = "start runs for orders with work"
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), acts.Sweep).Get(ctx, &out)
	return out, err
}

// RelayWorkflow runs on a schedule: events that receivers did not take at first.
func RelayWorkflow(ctx workflow.Context) (int, error) {
	var n int
	o := background
	o.Summary = "deliver events again"
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), acts.Relay).Get(ctx, &n)
	return n, err
}
