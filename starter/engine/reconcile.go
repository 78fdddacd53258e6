package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"orderflow/order"
)

// Reconcile has the worker compare providers' books with ours, beside the schedule and by the same steps, and waits for what it led
// to. An account that could not be read is an error that comes together with what the others led to.
func (e *Engine) Reconcile(ctx context.Context, ask order.ReconcileAsk) ([]order.Reconciled, error) {
	run, err := e.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: fmt.Sprintf("%s-by-hand-%d", order.ScheduleReconcile, time.Now().UnixNano()), TaskQueue: order.TaskQueue,
		StaticSummary: "Reconciliation by hand",
	}, order.WorkflowReconcile, ask)
	if err != nil {
		return nil, wrap("start reconciliation", err)
	}
	var out []order.Reconciled
	err = run.Get(ctx, &out)
	var failed *temporal.ApplicationError
	if errors.As(err, &failed) && failed.HasDetails() {
		_ = failed.Details(&out) // the error stands, with or without them
	}
	return out, err
}
