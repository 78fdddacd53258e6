package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/order"
)

// cancelSeen is what this run knows of the order's cancel beside its facts.
type cancelSeen struct {
	asked  bool                     // a cancel came by its door that the facts in hand do not know
	rounds int                      // rounds that have begun with the cancel known
	tried  map[order.AttemptID]bool // attempts this run has tried to end
}

func cancelDoor(w *orderRun, ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, order.UpdateCancelOrder, w.cancelOrder, workflow.UpdateHandlerOptions{
		Description: "Waits until a stored cancel is over, or waits for somebody else. Used by the API.",
		Validator: func(in order.CancelOrder) error {
			if in.CancelID == "" {
				return refusal("cancel_id_missing")
			}
			return nil
		},
	})
}

// cancelOrder answers when the cancel is over, or when a round has done for it what can be done now.
func (w *orderRun) cancelOrder(ctx workflow.Context, in order.CancelOrder) (order.CancelResult, error) {
	asked, rounds := w.loads, w.stopping.rounds
	if w.loaded && w.facts.Cancel == nil {
		w.news, w.stopping.asked = true, true // opened after the facts were loaded
	}
	over := func() bool { return w.loads > asked && w.facts.Cancel == nil } // facts hold a cancel until it is over
	if err := workflow.Await(ctx, func() bool { return over() || w.stopping.rounds > rounds }); err != nil {
		return order.CancelResult{}, err
	}
	r := order.CancelResult{CancelID: in.CancelID}
	if w.facts.Cancel != nil {
		r.Status = w.facts.Cancel.Status
	}
	return r, nil
}

// givesUp reports that the order is not to be carried out: its attempts are ended instead of made.
func (w *orderRun) givesUp() bool {
	return w.facts.Status == order.OrderCanceled || w.facts.Cancel != nil
}

// giveUp ends an attempt of an order that is not to be carried out. What may have taken the money is found out first, as ever: the
// cancel waits for it.
func (w *orderRun) giveUp(ctx workflow.Context, a activities.AttemptHead, held, look bool) error {
	if held || a.Status == order.AttemptPending {
		if held {
			w.park(a.ID)
		} else {
			w.settle(a.ID, a.Status)
		}
		if w.stopping.tried[a.ID] && !look {
			return nil
		}
	}
	w.stopping.tried[a.ID] = true
	in := activities.AttemptInput{AttemptID: a.ID, Bounds: activities.Bounds{Once: true}}
	err := w.outside(ctx, "end the payment attempt", w.facts.Policy.StepTimeout, acts.GiveUpAttempt, in).Get(ctx, nil)
	if temporal.IsCanceledError(err) {
		return err
	}
	r, rerr := w.reflect(ctx, a.ID) // also where the step failed: it may have kept an answer
	if rerr != nil {
		return rerr
	}
	w.stale = true
	switch r.Status {
	case order.AttemptSent, order.AttemptUnknown, order.AttemptCreated:
		if held {
			return nil
		}
		return w.resolve(ctx, a.ID, codeOf(err, "payment_outcome_unknown"))
	case order.AttemptDeclined:
		return w.close(ctx, a.ID, held && !look)
	}
	return nil
}

// cancel sees to the money of a canceled order once nothing of it is under way.
func (w *orderRun) cancel(ctx workflow.Context) error {
	c := w.facts.Cancel
	if c == nil {
		w.stale = w.stale || w.stopping.asked // it came while the facts were being loaded
		return nil
	}
	defer func() { w.stopping.rounds++ }()
	if n := w.facts.UnitCounts; w.facts.Status != order.OrderCanceled || n[order.UnitIssuing]+n[order.UnitUnknown] > 0 {
		return nil
	}
	r, err := database[activities.CancelSettled](ctx, "settle the cancel", acts.SettleCancel, activities.CancelInput{CancelID: c.ID})
	if err != nil {
		return err
	}
	if r.Done {
		w.facts.Cancel, w.stale, w.deliverable = nil, true, true
	}
	return nil
}
