package activities

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store"
)

// Swept says what a sweep found.
type Swept struct {
	Started  int   `json:"started"` // runs started, or found running, for orders with work
	Looked   int   `json:"looked"`  // orders told to look again
	Expired  int   `json:"expired"`
	Failed   int   `json:"failed"`             // left for the next sweep
	Numbered int64 `json:"numbered,omitempty"` // transaction records that got their number
}

// Sweep starts a run for every order with work that nobody moves, tells parked ones to look again when their time has come,
// and lapses orders whose time is over. It asks the database, never Temporal's visibility, so it also rebuilds an emptied
// Temporal.
func (a *Activities) Sweep(ctx context.Context) (Swept, error) {
	defer alive(ctx)()
	s := a.d.Sweep
	var out Swept
	work, err := a.d.Store.OrdersWithWork(ctx, s.MinAge, s.Again, s.Max)
	if err != nil {
		return out, Fail(ctx, err, Bounds{})
	}
	if err := a.wake(ctx, work, &out); err != nil {
		return out, Fail(ctx, err, Bounds{})
	}
	due, err := a.d.Store.ChecksDue(ctx, s.Again, s.Max)
	if err != nil {
		return out, Fail(ctx, err, Bounds{})
	}
	for _, d := range due {
		count(&out.Looked, &out.Failed, a.signal(ctx, d.Order, order.FactsChanged{Source: "sweep", Reference: d.Subject}))
	}
	lapsed, err := a.d.Store.OrdersLapsed(ctx, s.Max)
	if err != nil {
		return out, Fail(ctx, err, Bounds{})
	}
	for _, id := range lapsed {
		_, err := a.d.Store.OrderExpire(ctx, id)
		count(&out.Expired, &out.Failed, err)
	}
	if out.Numbered, err = a.d.Store.RecordsNumber(ctx); err != nil {
		return out, Fail(ctx, err, Bounds{})
	}
	return out, nil
}

// wake tells runs of work they do not know, and notes it only afterwards: a run that rests is woken by nothing else, so telling
// it twice is better than never.
func (a *Activities) wake(ctx context.Context, work []store.OpenWork, out *Swept) error {
	var told []store.OpenWork
	for _, o := range work {
		var err error
		if o.Fresh {
			err = a.signal(ctx, o.Order, order.FactsChanged{Source: "sweep", Reference: "work"})
		} else {
			err = a.startRun(ctx, o.Order)
		}
		if err == nil && o.Fresh {
			told = append(told, o)
		}
		count(&out.Started, &out.Failed, err)
	}
	kctx, cancel := keeping(ctx)
	defer cancel()
	return a.d.Store.OrdersTold(kctx, told)
}

func count(good, bad *int, err error) {
	if err != nil {
		*bad++
		return
	}
	*good++
}

func startOptions(id order.ID) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: order.WorkflowID(id), TaskQueue: order.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:            "Order " + string(id),
	}
}

// startRun starts a run where none is open; an open one knows its work already and is left alone.
func (a *Activities) startRun(ctx context.Context, id order.ID) error {
	_, err := a.d.Temporal.ExecuteWorkflow(ctx, startOptions(id), order.WorkflowOrder, id)
	return temporalFault(err)
}

// signal starts a run where none is open, and tells an open one to look again. Both are safe at any time: a run loads the
// facts and does only what is missing.
func (a *Activities) signal(ctx context.Context, id order.ID, f order.FactsChanged) error {
	_, err := a.d.Temporal.SignalWithStartWorkflow(ctx, order.WorkflowID(id), order.SignalFactsChanged, f, startOptions(id), order.WorkflowOrder, id)
	return temporalFault(err)
}

func temporalFault(err error) error {
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if err == nil || errors.As(err, &started) {
		return nil
	}
	return fmt.Errorf("start run: %w", err)
}

// relayAtOnce bounds how many orders the relay delivers side by side.
const relayAtOnce = 8

// Relay delivers what receivers did not take at first, on the outbox's own schedule over days.
func (a *Activities) Relay(ctx context.Context) (int, error) {
	defer alive(ctx)()
	ids, err := a.d.Store.DeliveriesDue(ctx, 0, a.d.Sweep.Max)
	if err != nil {
		return 0, Fail(ctx, err, Bounds{})
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(relayAtOnce)
	for _, id := range ids {
		g.Go(func() error {
			_, err := a.deliver(gctx, id, 0)
			if fault.IsCode(err, fault.DatabaseUnavailable) {
				return err
			}
			return nil // one order's trouble is not another's
		})
	}
	return len(ids), Fail(ctx, g.Wait(), Bounds{})
}
