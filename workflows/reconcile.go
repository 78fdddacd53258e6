package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/internal/fault"
	"orderflow/order"
)

// reconciling is a page or more of a provider's list, which may take a minute to answer.
var reconciling = workflow.ActivityOptions{
	StartToCloseTimeout: 5 * time.Minute,
	HeartbeatTimeout:    5 * time.Second,
	RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 5},
}

// reconcileSteps bounds one run per account; the next run goes on where it ended.
const reconcileSteps = 200

// ReconcileWorkflow compares what providers list with what we know, on a schedule and by hand. Accounts are read side by side, and
// one whose provider does not answer keeps no other from being read; the run fails only after all of them, so that it is seen.
func ReconcileWorkflow(ctx workflow.Context, ask order.ReconcileAsk) ([]order.Reconciled, error) {
	var accounts []order.Account
	o := background
	o.Summary = "name the accounts"
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), acts.ReconcileAccounts, ask).Get(ctx, &accounts); err != nil {
		return nil, err
	}
	out := make([]order.Reconciled, len(accounts))
	wg := workflow.NewWaitGroup(ctx)
	for i, acc := range accounts {
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer wg.Done()
			out[i] = reconcileAccount(ctx, acc, ask)
		})
	}
	wg.Wait(ctx)
	for _, r := range out {
		if r.Code != "" {
			return out, temporal.NewApplicationErrorWithOptions("not every account could be read; nothing is concluded about those", r.Code,
				temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{out}})
		}
	}
	return out, nil
}

func reconcileAccount(ctx workflow.Context, acc order.Account, ask order.ReconcileAsk) order.Reconciled {
	all := order.Reconciled{Account: acc}
	in := activities.ReconcileInput{Account: acc, From: ask.From, To: ask.To}
	for range reconcileSteps {
		o := reconciling
		o.Summary = "read " + acc.Gateway + " " + acc.Name
		var step activities.ReconcileStepped
		if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), acts.ReconcileStep, in).Get(ctx, &step); err != nil {
			all.Done, all.Code = false, string(codeOf(err, fault.GatewayReadFailed))
			return all
		}
		all.Add(step.Reconciled)
		if step.Done {
			break
		}
		in.Cursor = step.Cursor
		if ask.From.IsZero() {
			in.Cursor = "" // the stored one counts
		}
	}
	return all
}
