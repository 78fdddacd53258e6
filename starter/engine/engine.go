// Package engine is starter's side of Temporal: it hands work over, says "look again", and keeps in place what the
// workflows need there - search attributes and schedules.
//
// It must not know HTTP nor read results: what came of anything is read from PostgreSQL. It may import order for the shared
// names, and Temporal's SDK, never the workflows.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"orderflow/order"
)

// Engine is safe for concurrent use.
type Engine struct {
	client     client.Client
	namespace  string
	log        *slog.Logger
	attributes atomic.Bool // all search attributes are known to be registered
}

// New wraps a client. The client's lifetime is the caller's.
func New(c client.Client, namespace string, log *slog.Logger) *Engine {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Engine{client: c, namespace: namespace, log: log}
}

// Namespace is Temporal's that the runs are in.
func (e *Engine) Namespace() string { return e.namespace }

// startOptions are the same for every door: whoever comes first starts the run, everybody else finds it. A closed order
// that learns something new gets a new run, which loads the facts and does only what is missing.
func (e *Engine) startOptions(id order.ID) client.StartWorkflowOptions {
	o := client.StartWorkflowOptions{
		ID: order.WorkflowID(id), TaskQueue: order.TaskQueue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:            "Order " + string(id),
	}
	if e.attributes.Load() { // an attribute that is not registered fails the start
		status := temporal.NewSearchAttributeKeyKeyword(order.AttributeOrderStatus)
		o.TypedSearchAttributes = temporal.NewSearchAttributes(status.ValueSet(string(order.OrderOpen)))
	}
	return o
}

// Submit starts the order's workflow, or finds it, and waits for the attempt's first outcome until ctx ends. Nil means that
// there is one; an error means only that nobody here knows yet. Asking again attaches to the same update.
func (e *Engine) Submit(ctx context.Context, id order.ID, attempt order.AttemptID) error {
	return e.update(ctx, id, client.UpdateWorkflowOptions{
		UpdateID: order.SubmitUpdateID(attempt), UpdateName: order.UpdateSubmitPayment, Args: []any{order.SubmitPayment{AttemptID: attempt}},
	})
}

// Capture is Submit for the capture of money that is held.
func (e *Engine) Capture(ctx context.Context, id order.ID, attempt order.AttemptID) error {
	return e.update(ctx, id, client.UpdateWorkflowOptions{
		UpdateID: order.CaptureUpdateID(attempt), UpdateName: order.UpdateCapture, Args: []any{order.CapturePayment{AttemptID: attempt}},
	})
}

// Refund is Submit for a refund.
func (e *Engine) Refund(ctx context.Context, id order.ID, refund order.RefundID) error {
	return e.update(ctx, id, client.UpdateWorkflowOptions{
		UpdateID: order.RefundUpdateID(refund), UpdateName: order.UpdateRefundPayment, Args: []any{order.RefundPayment{RefundID: refund}},
	})
}

// Cancel is Submit for a cancel: it waits until the cancel is over, or waits for somebody else.
func (e *Engine) Cancel(ctx context.Context, id order.ID, cancel order.CancelID) error {
	return e.update(ctx, id, client.UpdateWorkflowOptions{
		UpdateID: order.CancelUpdateID(cancel), UpdateName: order.UpdateCancelOrder, Args: []any{order.CancelOrder{CancelID: cancel}},
	})
}

func (e *Engine) update(ctx context.Context, id order.ID, u client.UpdateWorkflowOptions) error {
	u.WaitForStage = client.WorkflowUpdateStageCompleted
	try := func() error {
		op := e.client.NewWithStartWorkflowOperation(e.startOptions(id), order.WorkflowOrder, id)
		h, err := e.client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{StartWorkflowOperation: op, UpdateOptions: u})
		if err != nil {
			return err
		}
		return h.Get(ctx, nil)
	}
	err := try()
	for range 2 {
		if !e.forgotAttributes(err) && !closing(err) {
			break
		}
		err = try()
	}
	return err
}

// LookAgain tells the order's workflow, starting it where none runs, that something may have changed. It returns when
// Temporal has stored it and carries no truth.
func (e *Engine) LookAgain(ctx context.Context, id order.ID, source, reference string) error {
	try := func() error {
		_, err := e.client.SignalWithStartWorkflow(ctx, order.WorkflowID(id), order.SignalFactsChanged,
			order.FactsChanged{Source: source, Reference: reference}, e.startOptions(id), order.WorkflowOrder, id)
		return err
	}
	err := try()
	if e.forgotAttributes(err) {
		err = try()
	}
	return err
}

// forgotAttributes notices that Temporal has lost the attributes since they were last seen, as a wiped one has.
func (e *Engine) forgotAttributes(err error) bool {
	var invalid *serviceerror.InvalidArgument
	return errors.As(err, &invalid) && e.attributes.CompareAndSwap(true, false)
}

// closing: the run ended between finding it and updating it, or the server took back the task in which the run was about to
// end, because more had come. The next try finds the run, or starts a new one.
func closing(err error) bool {
	var gone *serviceerror.NotFound
	var takenBack *serviceerror.WorkflowNotReady
	return errors.As(err, &gone) || errors.As(err, &takenBack)
}

// Ready says whether Temporal answers.
func (e *Engine) Ready(ctx context.Context) error {
	_, err := e.client.CheckHealth(ctx, &client.CheckHealthRequest{})
	return err
}

// Settings are what setup puts into Temporal.
type Settings struct {
	SweepPeriod     time.Duration
	RelayPeriod     time.Duration
	ReconcilePeriod time.Duration
}

// Ensure puts search attributes and schedules in place where they are missing. Doing it again changes nothing.
func (e *Engine) Ensure(ctx context.Context, s Settings) error {
	return errors.Join(e.EnsureAttributes(ctx), e.EnsureSchedules(ctx, s))
}

// Keep calls Ensure now and then until ctx ends: a Temporal that was wiped or replaced has lost both.
func (e *Engine) Keep(ctx context.Context, s Settings, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, 20*time.Second)
		if err := e.Ensure(within, s); err != nil && ctx.Err() == nil {
			e.log.WarnContext(ctx, "Temporal lacks something that orders need", "error", err)
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
