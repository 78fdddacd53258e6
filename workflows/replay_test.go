package workflows

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"orderflow/order"
)

// waitStates are the histories that must be there: every state a run can rest or wait in, recorded from real orders by
// e2e's TestHistoriesOfEveryWaitState. Released shapes are only ever added to, since orders wait for days.
var waitStates = []string{
	"completed", "completed-external", "declined-closed", "waiting-for-buyer", "looking-up", "parked-payment", "parked-payment-found",
	"parked-unit", "parked-unit-decided-by-update", "parked-unit-decided-by-signal", "carried-on", "delivered-slowly", "database-away",
	"sweep", "relay", "refunded", "refund-pending", "refund-came-through", "refund-looking-up", "refund-parked", "refund-parked-found",
	"reconcile", "waiting-for-capture", "captured-later", "hold-released", "capture-looking-up", "capture-parked", "capture-parked-found",
	"cancel-waits-for-goods",
}

// TestPC56_HistoriesOfEveryWaitStateReplay fails when a change of code breaks an order that is under way: a red build, not a
// stuck order.
func TestPC56_HistoriesOfEveryWaitStateReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/histories/*.json")
	require.NoError(t, err)
	have := map[string]bool{}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		state, _, _ := strings.Cut(name, "@")
		have[state] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := worker.NewWorkflowReplayer()
			r.RegisterWorkflowWithOptions(OrderWorkflow, workflow.RegisterOptions{Name: order.WorkflowOrder})
			r.RegisterWorkflowWithOptions(SweepWorkflow, workflow.RegisterOptions{Name: order.WorkflowSweep})
			r.RegisterWorkflowWithOptions(RelayWorkflow, workflow.RegisterOptions{Name: order.WorkflowRelay})
			r.RegisterWorkflowWithOptions(ReconcileWorkflow, workflow.RegisterOptions{Name: order.WorkflowReconcile})
			require.NoError(t, r.ReplayWorkflowHistoryFromJSONFile(nil, f))
		})
	}
	for _, s := range waitStates {
		require.True(t, have[s], "no recorded history of %q: record it with ORDERFLOW_RECORD_HISTORIES (see docs/testing.md)", s)
	}
}

// TestReplayNoticesAChange shows that the replay can fail: a history whose step has another name is refused.
func TestReplayNoticesAChange(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/histories/completed@v1.json")
	require.NoError(t, err)
	f := filepath.Join(t.TempDir(), "changed.json")
	require.NoError(t, os.WriteFile(f, []byte(strings.ReplaceAll(string(b), `"ConfirmPayment"`, `"AnotherStep"`)), 0o600))
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(OrderWorkflow, workflow.RegisterOptions{Name: order.WorkflowOrder})
	require.Error(t, r.ReplayWorkflowHistoryFromJSONFile(nil, f))
}
