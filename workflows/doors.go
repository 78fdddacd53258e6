package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/order"
)

// setup opens the doors before anything blocks. Validators check shape only; business checks happen in the store, so that
// every door agrees.
func (w *orderRun) setup(ctx workflow.Context) error {
	w.decisions = workflow.GetSignalChannelWithOptions(ctx, order.SignalDecision, workflow.SignalChannelOptions{
		Description: "A person's decision on a review; the same JSON as the resolve_review update. Current details show what to paste.",
	})
	w.changes = workflow.GetSignalChannelWithOptions(ctx, order.SignalFactsChanged, workflow.SignalChannelOptions{
		Description: `Look again. Carries no truth: {"source":"operator","reference":"why"}`,
	})
	if err := workflow.SetUpdateHandlerWithOptions(ctx, order.UpdateSubmitPayment, w.submitPayment, workflow.UpdateHandlerOptions{
		Description: "Waits for the first outcome of a stored payment attempt. Used by the checkout API.",
		Validator: func(in order.SubmitPayment) error {
			if in.AttemptID == "" {
				return refusal("attempt_id_missing")
			}
			return nil
		},
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, order.UpdateRefundPayment, w.refundPayment, workflow.UpdateHandlerOptions{
		Description: "Waits for the first outcome of a stored refund. Used by the API.",
		Validator: func(in order.RefundPayment) error {
			if in.RefundID == "" {
				return refusal("refund_id_missing")
			}
			return nil
		},
	}); err != nil {
		return err
	}
	if err := captureDoor(w, ctx); err != nil {
		return err
	}
	if err := cancelDoor(w, ctx); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, order.UpdateResolveReview, w.resolveReview, workflow.UpdateHandlerOptions{
		Description: "Decides an open review. Current details show the JSON to paste; the answer says whether it was applied and why not.",
		Validator: func(d order.Decision) error {
			if why := d.Shape(); why != "" {
				return refusal(why)
			}
			return nil
		},
	}); err != nil {
		return err
	}
	return workflow.SetQueryHandlerWithOptions(ctx, order.QueryState, w.state, workflow.QueryHandlerOptions{
		Description: "Everything this run knows, as JSON.",
	})
}

func refusal(why string) error { return temporal.NewNonRetryableApplicationError(why, "refused", nil) }

// submitPayment answers when the attempt's outcome is known or a person has it. The checkout API asks with a time limit of
// its own and reads the answer from the database.
func (w *orderRun) submitPayment(ctx workflow.Context, in order.SubmitPayment) (order.SubmitResult, error) {
	asked := w.loads
	if w.loaded && !w.knows(in.AttemptID) {
		w.news = true // opened after the facts were loaded
	}
	closed := func() bool { return w.loads > asked && !w.knows(in.AttemptID) } // facts list what is not closed
	err := workflow.Await(ctx, func() bool {
		_, settled := w.settled[in.AttemptID]
		return settled || w.parked[in.AttemptID] || closed()
	})
	if err != nil {
		return order.SubmitResult{}, err
	}
	s, settled := w.settled[in.AttemptID]
	switch {
	case settled:
	case closed():
		s = order.AttemptClosed
	default:
		s = order.AttemptUnknown
	}
	return order.SubmitResult{AttemptID: in.AttemptID, Status: s}, nil
}

func (w *orderRun) knows(id order.AttemptID) bool {
	if _, ok := w.settled[id]; ok {
		return true
	}
	for _, a := range w.facts.Attempts {
		if a.ID == id {
			return true
		}
	}
	return false
}

// refundPayment answers when the refund's outcome is known, or the provider is at it, or a person has it.
func (w *orderRun) refundPayment(ctx workflow.Context, in order.RefundPayment) (order.RefundResult, error) {
	asked, id := w.loads, in.RefundID
	if w.loaded && !w.knowsRefund(id) {
		w.news = true // opened after the facts were loaded
	}
	over := func() bool { return w.loads > asked && !w.knowsRefund(id) } // facts list what is not over
	err := workflow.Await(ctx, func() bool {
		_, settled := w.back.settled[id]
		return settled || w.back.parked[id] || over()
	})
	if err != nil {
		return order.RefundResult{}, err
	}
	s, settled := w.back.settled[id]
	if !settled && !over() {
		s = order.RefundUnknown
	}
	return order.RefundResult{RefundID: id, Status: s}, nil
}

func (w *orderRun) knowsRefund(id order.RefundID) bool {
	if _, ok := w.back.settled[id]; ok {
		return true
	}
	for _, r := range w.facts.Refunds {
		if r.ID == id {
			return true
		}
	}
	return false
}

func (w *orderRun) resolveReview(ctx workflow.Context, d order.Decision) (order.DecisionResult, error) {
	if err := workflow.Await(ctx, func() bool { return w.loaded }); err != nil {
		return order.DecisionResult{}, err
	}
	return w.decide(ctx, d, order.ChannelTemporalUpdate)
}

func (w *orderRun) decide(ctx workflow.Context, d order.Decision, channel order.Channel) (order.DecisionResult, error) {
	r, err := database[order.DecisionResult](ctx, "apply a decision", acts.Decide, activities.DecideInput{Decision: d, Channel: string(channel)})
	if err == nil && (r.Verdict == order.Applied || r.Verdict == order.Proposed) {
		w.news, w.look = true, w.look || d.Decision.Asks()
	}
	return r, err
}

// takeSignals empties both channels. A signal cannot be refused at the door: a bad one is noted and never fails the order.
func (w *orderRun) takeSignals(ctx workflow.Context) {
	var f order.FactsChanged
	for w.changes.ReceiveAsync(&f) {
		w.news, w.look = true, true
	}
	var d order.Decision
	for w.decisions.ReceiveAsync(&d) {
		r, err := w.decide(ctx, d, order.ChannelTemporalSignal)
		if err != nil || r.Verdict == order.Rejected {
			workflow.GetLogger(ctx).Warn("decision by signal refused", "review", d.ReviewID, "why", r.Why)
		}
		d = order.Decision{}
	}
}

func (w *orderRun) queued() bool { return w.changes.Len() > 0 || w.decisions.Len() > 0 }
