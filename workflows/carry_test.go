package workflows

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/order"
)

// during asks the submit handler about an attempt that the run does not know, while a step runs.
func during(t *testing.T, env *testsuite.TestWorkflowEnvironment, step string) *order.SubmitResult {
	t.Helper()
	got, asked := &order.SubmitResult{}, false
	env.SetOnLocalActivityStartedListener(func(info *activity.Info, _ context.Context, _ []any) {
		if info.ActivityType.Name != step || asked {
			return
		}
		asked = true
		env.UpdateWorkflow(order.UpdateSubmitPayment, "u-1", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { t.Errorf("rejected: %v", err) },
			OnComplete: func(r any, err error) {
				if assert.NoError(t, err) {
					*got = r.(order.SubmitResult)
				}
			},
		}, order.SubmitPayment{AttemptID: "att_late"})
	})
	return got
}

// TestARunCarriesOnOnlyWhenItsHandlersHaveTheirAnswer: a handler may wait for what another round of the same run finds out, so
// the run must not wait for the handler instead.
func TestARunCarriesOnOnlyWhenItsHandlersHaveTheirAnswer(t *testing.T) {
	t.Parallel()
	d := newSide(order.AttemptCreated)
	d.confirm = func() (activities.PaymentResult, error) {
		d.seen = order.AttemptPending
		return activities.PaymentResult{Outcome: order.Pending}, nil
	}
	env := environment(t, d)
	env.SetContinueAsNewSuggested(true)
	got := during(t, env, "ReflectPayment")
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.True(t, env.IsWorkflowCompleted(), "it does not wait for ever")
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	assert.Equal(t, order.AttemptID("att_late"), got.AttemptID, "the handler was answered first")
}
