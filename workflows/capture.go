package workflows

import (
	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/internal/fault"
	"orderflow/order"
)

func captureDoor(w *orderRun, ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, order.UpdateCapture, w.capturePayment, workflow.UpdateHandlerOptions{
		Description: "Waits for the first outcome of a stored capture. Used by the API.",
		Validator: func(in order.CapturePayment) error {
			if in.AttemptID == "" {
				return refusal("attempt_id_missing")
			}
			return nil
		},
	})
}

// capturePayment answers when the capture's outcome is known or a person has it.
func (w *orderRun) capturePayment(ctx workflow.Context, in order.CapturePayment) (order.SubmitResult, error) {
	asked, tries := w.loads, w.captures[in.AttemptID]
	if !w.capturing(in.AttemptID) {
		w.asked[in.AttemptID] = w.loads // asked for after the facts were loaded, or while they are
		w.news = w.news || w.loaded
	}
	over := func() bool { return w.loads > asked && !w.knows(in.AttemptID) } // facts list what is not closed
	if err := workflow.Await(ctx, func() bool {
		s, settled := w.settled[in.AttemptID]
		return w.captures[in.AttemptID] > tries || w.parked[in.AttemptID] || over() || settled && s != order.AttemptPending
	}); err != nil {
		return order.SubmitResult{}, err
	}
	return order.SubmitResult{AttemptID: in.AttemptID, Status: w.settled[in.AttemptID]}, nil
}

// overtaken reports a capture that came by its door while the facts were being loaded: they may be older than it.
func (w *orderRun) overtaken(id order.AttemptID) bool {
	loads, asked := w.asked[id]
	return asked && w.loads == loads+1
}

func (w *orderRun) capturing(id order.AttemptID) bool {
	for _, a := range w.facts.Attempts {
		if a.ID == id {
			return a.Capture
		}
	}
	return false
}

// capture takes the money that the bank holds, as somebody asked. What cannot be found out within its bound is a person's, like any
// payment.
func (w *orderRun) capture(ctx workflow.Context, id order.AttemptID) error {
	actx, stop := workflow.WithCancel(ctx)
	defer stop()
	in := activities.AttemptInput{AttemptID: id, Bounds: w.bounds(ctx)}
	total := w.facts.Policy.UnknownToReviewAfter + w.facts.Policy.StepTimeout
	taken := w.outside(actx, "capture the payment", total, acts.CapturePayment, in)
	for !taken.IsReady() {
		if err := workflow.Await(ctx, func() bool { return taken.IsReady() || w.news || w.queued() }); err != nil {
			return err
		}
		w.takeSignals(ctx)
		w.stale = w.stale || w.news // looked at when this is over
		w.news = false
		if w.stopping.asked && !taken.IsReady() { // it is to be ended now: whether it was captured is found out on that way
			return nil
		}
	}
	err := taken.Get(ctx, nil)
	w.stale = true
	r, rerr := w.reflect(ctx, id)
	if rerr != nil {
		return rerr
	}
	w.captures[id]++
	if r.Status == order.AttemptPending || r.Status == order.AttemptUnknown {
		code := codeOf(err, fault.PaymentUnknown)
		return w.handOver(ctx, activities.ParkInput{OrderID: w.id, AttemptID: id, Code: string(code)})
	}
	return w.closeIfDeclined(ctx, id, r.Status)
}
