package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/order"
)

// Register gives a worker every workflow and step, under the names other processes use.
func Register(w worker.Registry, a *activities.Activities) {
	w.RegisterWorkflowWithOptions(OrderWorkflow, workflow.RegisterOptions{Name: order.WorkflowOrder})
	w.RegisterWorkflowWithOptions(SweepWorkflow, workflow.RegisterOptions{Name: order.WorkflowSweep})
	w.RegisterWorkflowWithOptions(RelayWorkflow, workflow.RegisterOptions{Name: order.WorkflowRelay})
	w.RegisterWorkflowWithOptions(ReconcileWorkflow, workflow.RegisterOptions{Name: order.WorkflowReconcile})
	w.RegisterActivity(a)
}
