package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"orderflow/internal/gctune"
)

const (
	floorQueue    = "bench-floor"
	floorUpdate   = "wait"
	floorStep     = "FloorStep"
	floorBare     = "FloorBare"     // update-with-start of one no-op activity
	floorUpdates  = "FloorUpdates"  // the same, and three local ones after it: the shape of an order
	floorActivity = "FloorActivity" // four no-op activities, one after the other
)

// floorCommand is the worker of the floors. It is a process of its own, with the product's worker options, so that floors
// and orders cost the machine alike.
type floorCommand struct {
	Address string `required:"" help:"Temporal's address."`
}

// Run serves the floors until it is told to stop.
func (c *floorCommand) Run(ctx context.Context) error {
	gctune.Set() // as worker/main.go
	tc, err := dialTemporal(ctx, c.Address)
	if err != nil {
		return err
	}
	defer tc.Close()
	w := worker.New(tc, floorQueue, worker.Options{ // as in worker/main.go
		MaxConcurrentActivityExecutionSize: 100,
		MaxConcurrentWorkflowTaskPollers:   16,
		MaxConcurrentActivityTaskPollers:   16,
	})
	for name, locals := range map[string]int{floorBare: 0, floorUpdates: 3} {
		w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error { return updateWorkflow(ctx, locals) }, workflow.RegisterOptions{Name: name})
	}
	w.RegisterWorkflowWithOptions(activitiesWorkflow, workflow.RegisterOptions{Name: floorActivity})
	w.RegisterActivity(&floorSteps{})
	if err := w.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	w.Stop()
	return nil
}

// floorSteps are activities that do nothing.
type floorSteps struct{}

// FloorStep does nothing.
func (*floorSteps) FloorStep(context.Context) error { return nil }

func stepContext(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 3},
	})
}

// updateWorkflow answers its update when the one normal activity is done, then runs local ones and ends.
func updateWorkflow(ctx workflow.Context, locals int) error {
	done := false
	if err := workflow.SetUpdateHandler(ctx, floorUpdate, func(ctx workflow.Context) error {
		return workflow.Await(ctx, func() bool { return done })
	}); err != nil {
		return err
	}
	if err := workflow.ExecuteActivity(stepContext(ctx), floorStep).Get(ctx, nil); err != nil {
		return err
	}
	done = true
	lctx := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{ScheduleToCloseTimeout: 2 * time.Second})
	for range locals {
		if err := workflow.ExecuteLocalActivity(lctx, (*floorSteps)(nil).FloorStep).Get(ctx, nil); err != nil {
			return err
		}
	}
	return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

func activitiesWorkflow(ctx workflow.Context) error {
	for range 4 {
		if err := workflow.ExecuteActivity(stepContext(ctx), floorStep).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func dialTemporal(ctx context.Context, address string) (client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{
		HostPort: address, Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}}, // as the product's
	})
	if err != nil {
		return nil, fmt.Errorf("cannot reach Temporal at %s: %w", address, err)
	}
	return c, nil
}

func floorOptions(id string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: id, TaskQueue: floorQueue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING}
}

// askFloor starts a floor workflow by its update and waits for the update's answer, as starter does for an order.
func (l *lab) askFloor(ctx context.Context, workflowType, id string) error {
	h, err := l.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: l.temporal.NewWithStartWorkflowOperation(floorOptions(id), workflowType),
		UpdateOptions:          client.UpdateWorkflowOptions{UpdateID: "one", UpdateName: floorUpdate, WaitForStage: client.WorkflowUpdateStageCompleted},
	})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

// timed measures a call.
func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

// updateFloor is the floor an order is held against: as many workflow tasks and activities, and nothing in them.
func (l *lab) updateFloor(ctx context.Context, clients, n int) (outcome, error) {
	name := l.nextRun("floor-update")
	return l.flood(ctx, name, clients, n, load{
		one: func(ctx context.Context, i int) (time.Duration, error) {
			return timed(func() error { return l.askFloor(ctx, floorUpdates, floorID(name, i)) })
		},
		last: func(ctx context.Context, i int) error { return l.ended(ctx, floorID(name, i)) },
	})
}

// activitiesFloor is four no-op activities: what four steps cost when each is an activity of its own.
func (l *lab) activitiesFloor(ctx context.Context, clients, n int) (outcome, error) {
	name := l.nextRun("floor-activities")
	return l.flood(ctx, name, clients, n, load{
		one: func(ctx context.Context, i int) (time.Duration, error) {
			return timed(func() error {
				run, err := l.temporal.ExecuteWorkflow(ctx, floorOptions(floorID(name, i)), floorActivity)
				if err != nil {
					return err
				}
				return run.Get(ctx, nil)
			})
		},
		last: func(ctx context.Context, i int) error { return l.ended(ctx, floorID(name, i)) },
	})
}

func floorID(run string, i int) string { return fmt.Sprintf("bench/%s/%d", run, i) }

// ended waits for the end of one workflow. Each client asks once, for its last one: asking for every workflow would be
// measured too, in the floors and in the orders.
func (l *lab) ended(ctx context.Context, id string) error {
	if err := l.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
		return fmt.Errorf("workflow %s: %w", id, err)
	}
	return nil
}
