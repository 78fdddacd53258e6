package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/starter/engine"
)

// Goal: work reaches Temporal once, whatever state it is in, and what Temporal lacks comes back. Method: the real dev
// server and a stand-in workflow under the order workflow's name, which only answers the doors. Not covered: what the real
// workflow does.

// standIn answers submit_payment for as long as looks have not ended it.
func standIn(ctx workflow.Context, id order.ID) error {
	err := workflow.SetUpdateHandler(ctx, order.UpdateSubmitPayment, func(_ workflow.Context, in order.SubmitPayment) (order.SubmitResult, error) {
		return order.SubmitResult{AttemptID: in.AttemptID, Status: order.AttemptSucceeded}, nil
	})
	if err != nil {
		return err
	}
	var f order.FactsChanged
	workflow.GetSignalChannel(ctx, order.SignalFactsChanged).Receive(ctx, &f)
	return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

type bundle struct {
	t      *testing.T
	server *testkit.TemporalServer
	engine *engine.Engine
}

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	s := testkit.Temporal(t)
	return &bundle{t: t, server: s, engine: engine.New(s.Client, s.Namespace, nil)}
}

func (b *bundle) work() {
	w := worker.New(b.server.Client, order.TaskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(standIn, workflow.RegisterOptions{Name: order.WorkflowOrder})
	require.NoError(b.t, w.Start())
	b.t.Cleanup(w.Stop)
}

func (b *bundle) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bundle) runs(id order.ID) int {
	b.t.Helper()
	d, err := b.server.Client.DescribeWorkflow(b.t.Context(), order.WorkflowID(id), "")
	if err != nil {
		return 0
	}
	info := d.RawResponse.WorkflowExecutionInfo
	if info.FirstRunId != info.Execution.RunId {
		return 2
	}
	return 1
}

func TestSubmit(t *testing.T) {
	t.Run("StartsAndWaitsForTheOutcome", func(t *testing.T) {
		b := setup(t)
		b.work()
		require.NoError(t, b.engine.Submit(b.within(20*time.Second), "注文/1", "att_1"))
		require.NoError(t, b.engine.Submit(b.within(20*time.Second), "注文/1", "att_1"), "asking again attaches to the same answer")
		require.NoError(t, b.engine.Submit(b.within(20*time.Second), "注文/1", "att_2"), "a second attempt reaches the same run")
		d, err := b.server.Client.DescribeWorkflow(t.Context(), order.WorkflowID("注文/1"), "")
		require.NoError(t, err)
		require.Equal(t, order.WorkflowOrder, d.RawResponse.WorkflowExecutionInfo.Type.Name)
	})
	t.Run("WithoutAWorkerTheRunIsStartedAllTheSame", func(t *testing.T) {
		b := setup(t)
		require.Error(t, b.engine.Submit(b.within(700*time.Millisecond), "O-1", "att_1"))
		require.Equal(t, 1, b.runs("O-1"))
		b.work()
		require.NoError(t, b.engine.Submit(b.within(20*time.Second), "O-1", "att_1"))
		require.Equal(t, 1, b.runs("O-1"))
	})
	t.Run("ClosedRunGetsANewOne", func(t *testing.T) {
		b := setup(t)
		b.work()
		require.NoError(t, b.engine.Submit(b.within(20*time.Second), "O-1", "att_1"))
		require.NoError(t, b.engine.LookAgain(b.within(20*time.Second), "O-1", "api", "att_1"))
		require.NoError(t, b.server.Client.GetWorkflow(t.Context(), order.WorkflowID("O-1"), "").Get(t.Context(), nil))
		require.NoError(t, b.engine.Submit(b.within(20*time.Second), "O-1", "att_2"))
	})
	t.Run("LookAgainStartsWhereNothingRuns", func(t *testing.T) {
		b := setup(t)
		require.NoError(t, b.engine.LookAgain(b.within(10*time.Second), "O-1", "webhook", "evt_1"))
		require.Equal(t, 1, b.runs("O-1"))
	})
}

func TestAttributes(t *testing.T) {
	t.Run("SetAtTheStartOnlyWhenRegistered", func(t *testing.T) {
		b := setup(t)
		require.NoError(t, b.engine.LookAgain(b.within(10*time.Second), "O-before", "api", "x"))
		names, commands, err := b.engine.MissingAttributes(t.Context())
		require.NoError(t, err)
		require.Empty(t, names)
		require.Empty(t, commands)
		require.NoError(t, b.engine.LookAgain(b.within(10*time.Second), "O-after", "api", "x"))
		require.NotContains(t, b.attributesOf("O-before"), order.AttributeOrderStatus)
		require.Contains(t, b.attributesOf("O-after"), order.AttributeOrderStatus)
	})
	t.Run("LostOnesAreNoticedAndPutBack", func(t *testing.T) {
		b := setup(t)
		require.NoError(t, b.engine.EnsureAttributes(t.Context()))
		b.forget(order.AttributeOrderStatus)
		// The engine still believes in them: the start fails once inside, and works without.
		require.Eventually(t, func() bool {
			return b.engine.LookAgain(b.within(10*time.Second), "O-1", "api", "x") == nil
		}, 20*time.Second, 50*time.Millisecond)
		names, commands, err := b.engine.MissingAttributes(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{order.AttributeOrderStatus}, names)
		require.Equal(t, "temporal operator search-attribute create --namespace "+b.server.Namespace+" --name OrderStatus --type Keyword", commands[0])
		require.NoError(t, b.engine.EnsureAttributes(t.Context()))
		require.Eventually(t, func() bool {
			names, _, err := b.engine.MissingAttributes(t.Context())
			return err == nil && len(names) == 0
		}, 20*time.Second, 50*time.Millisecond)
	})
}

func (b *bundle) attributesOf(id order.ID) []string {
	b.t.Helper()
	d, err := b.server.Client.DescribeWorkflow(b.t.Context(), order.WorkflowID(id), "")
	require.NoError(b.t, err)
	var out []string
	for name := range d.RawResponse.WorkflowExecutionInfo.GetSearchAttributes().GetIndexedFields() {
		out = append(out, name)
	}
	return out
}

func (b *bundle) forget(name string) {
	b.t.Helper()
	_, err := b.server.Client.OperatorService().RemoveSearchAttributes(b.t.Context(), &operatorservice.RemoveSearchAttributesRequest{
		Namespace: b.server.Namespace, SearchAttributes: []string{name},
	})
	require.NoError(b.t, err)
	require.Eventually(b.t, func() bool {
		got, err := b.server.Client.OperatorService().ListSearchAttributes(b.t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: b.server.Namespace})
		return err == nil && got.CustomAttributes[name] == enums.INDEXED_VALUE_TYPE_UNSPECIFIED
	}, 20*time.Second, 50*time.Millisecond)
}

func TestSchedules(t *testing.T) {
	b := setup(t)
	every := func(id string) time.Duration {
		d, err := b.server.Client.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, enums.SCHEDULE_OVERLAP_POLICY_SKIP, d.Schedule.Policy.Overlap)
		a, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction)
		require.True(t, ok)
		require.Equal(t, order.TaskQueue, a.TaskQueue)
		require.Empty(t, a.Args)
		return d.Schedule.Spec.Intervals[0].Every
	}
	require.NoError(t, b.engine.EnsureSchedules(t.Context(), engine.Settings{SweepPeriod: 10 * time.Second, RelayPeriod: 300 * time.Millisecond}))
	require.Equal(t, 10*time.Second, every(order.ScheduleSweep))
	require.Equal(t, time.Second, every(order.ScheduleRelay), "Temporal counts in whole seconds")
	// Again, with another period: the one that stands is changed.
	require.NoError(t, b.engine.EnsureSchedules(t.Context(), engine.Settings{SweepPeriod: 20 * time.Second, RelayPeriod: 300 * time.Millisecond}))
	require.Equal(t, 20*time.Second, every(order.ScheduleSweep))
}
