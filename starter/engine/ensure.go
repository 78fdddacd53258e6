package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"orderflow/order"
)

// attributes are what operators filter orders by in the Web UI.
func attributes() map[string]enums.IndexedValueType {
	return map[string]enums.IndexedValueType{
		order.AttributeOrderStatus:  enums.INDEXED_VALUE_TYPE_KEYWORD,
		order.AttributeReviewReason: enums.INDEXED_VALUE_TYPE_KEYWORD,
		order.AttributeReviewSince:  enums.INDEXED_VALUE_TYPE_DATETIME,
	}
}

// MissingAttributes lists the search attributes that are not registered, with the commands that register them.
func (e *Engine) MissingAttributes(ctx context.Context) (names []string, commands []string, err error) {
	got, err := e.client.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: e.namespace})
	if err != nil {
		return nil, nil, wrap("list search attributes", err)
	}
	want := attributes()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if kind, there := got.GetCustomAttributes()[name]; there && kind != want[name] {
			return nil, nil, fmt.Errorf("the search attribute %s is registered as %s and must be %s: remove it or use another namespace", name, kind, want[name])
		} else if !there {
			names = append(names, name)
			commands = append(commands, fmt.Sprintf("temporal operator search-attribute create --namespace %s --name %s --type %s", e.namespace, name, want[name]))
		}
	}
	e.attributes.Store(len(names) == 0)
	return names, commands, nil
}

// EnsureAttributes registers what is missing. Where we may not, the error holds the commands for somebody who may.
func (e *Engine) EnsureAttributes(ctx context.Context) error {
	names, commands, err := e.MissingAttributes(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	add := map[string]enums.IndexedValueType{}
	for _, n := range names {
		add[n] = attributes()[n]
	}
	_, err = e.client.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: e.namespace, SearchAttributes: add})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("search attributes are missing and cannot be registered from here; run:\n  %s\n(%w)", strings.Join(commands, "\n  "), err)
	}
	_, _, err = e.MissingAttributes(ctx)
	return err
}

// EnsureSchedules creates the schedules that drive sweep, relay and reconciliation, and brings an existing one's period up to date.
func (e *Engine) EnsureSchedules(ctx context.Context, s Settings) error {
	return errors.Join(
		e.ensureSchedule(ctx, order.ScheduleSweep, order.WorkflowSweep, s.SweepPeriod),
		e.ensureSchedule(ctx, order.ScheduleRelay, order.WorkflowRelay, s.RelayPeriod),
		e.ensureSchedule(ctx, order.ScheduleReconcile, order.WorkflowReconcile, s.ReconcilePeriod, order.ReconcileAsk{}))
}

func (e *Engine) ensureSchedule(ctx context.Context, id, workflow string, period time.Duration, args ...any) error {
	spec := client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: whole(period)}}}
	_, err := e.client.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: id, Spec: spec, Overlap: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: 10 * time.Second,
		Action: &client.ScheduleWorkflowAction{ID: id, Workflow: workflow, TaskQueue: order.TaskQueue, Args: args},
	})
	if err == nil {
		return nil
	}
	if !alreadyThere(err) {
		return wrap("create schedule "+id, err)
	}
	h := e.client.ScheduleClient().GetHandle(ctx, id)
	now, err := h.Describe(ctx)
	if err != nil {
		return wrap("read schedule "+id, err)
	}
	if in := now.Schedule.Spec.Intervals; len(in) == 1 && in[0].Every == spec.Intervals[0].Every {
		return nil
	}
	return wrap("update schedule "+id, h.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(u client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			u.Description.Schedule.Spec = &spec
			return &client.ScheduleUpdate{Schedule: &u.Description.Schedule}, nil
		},
	}))
}

func alreadyThere(err error) bool {
	var exists *serviceerror.AlreadyExists
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	return errors.Is(err, temporal.ErrScheduleAlreadyRunning) || errors.As(err, &exists) || errors.As(err, &started)
}

// whole rounds up to what a schedule can do: Temporal counts in seconds.
func whole(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}
