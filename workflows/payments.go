package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/internal/fault"
	"orderflow/order"
)

// payments takes every attempt that is not done one step on: reflect what is known, confirm what was never confirmed, look
// up what is unknown, close what was declined, park what cannot be found.
func (w *orderRun) payments(ctx workflow.Context, look bool) error {
	for _, a := range w.facts.Attempts {
		if a.Unreflected {
			r, err := w.reflect(ctx, a.ID)
			if err != nil {
				return err
			}
			a.Status = r.Status
			if r.NeedsLook && r.Verdict == order.Stale { // a late answer moves nothing by itself: a fresh one decides (rule 5)
				w.stale, w.look = true, true
			}
		}
		if err := w.payment(ctx, a, look); err != nil {
			return err
		}
	}
	return nil
}

func (w *orderRun) payment(ctx workflow.Context, a activities.AttemptHead, look bool) error {
	held := w.held(order.SubjectAttempt, string(a.ID))
	if w.givesUp() && a.Status != order.AttemptSucceeded && a.Status != order.AttemptClosed {
		return w.giveUp(ctx, a, held, look)
	}
	switch a.Status {
	case order.AttemptSucceeded, order.AttemptClosed:
		w.settle(a.ID, a.Status)
		if a.Look {
			return w.lookAt(ctx, a.ID, acts.LookPayment)
		}
		return nil
	case order.AttemptPending:
		w.settle(a.ID, a.Status)
		if a.Capture && (look || w.captures[a.ID] == 0) {
			return w.capture(ctx, a.ID)
		}
		w.stale = w.stale || !a.Capture && w.overtaken(a.ID)
		if look {
			return w.lookAt(ctx, a.ID, acts.LookPayment)
		}
		return nil
	case order.AttemptDeclined:
		return w.close(ctx, a.ID, held && !look)
	case order.AttemptCreated: // nothing could be sent: it is tried again when somebody says so
		if held && !look {
			w.park(a.ID)
			return nil
		}
	case order.AttemptUnknown, order.AttemptSent:
		if held {
			w.park(a.ID)
			if look {
				return w.lookAt(ctx, a.ID, acts.ResolvePayment)
			}
			return nil
		}
	}
	return w.confirm(ctx, a.ID)
}

// confirm asks for the money, and finds out what became of it.
func (w *orderRun) confirm(ctx workflow.Context, id order.AttemptID) error {
	var res activities.PaymentResult
	total := w.facts.Policy.UnknownToReviewAfter + w.facts.Policy.StepTimeout
	err := w.outside(ctx, "confirm the payment", total, acts.ConfirmPayment, activities.AttemptInput{AttemptID: id}).Get(ctx, &res)
	code := fault.Code(res.Code)
	if err != nil {
		code = codeOf(err, fault.PaymentUnknown)
	}
	if err != nil || res.Outcome == order.Unknown {
		return w.resolve(ctx, id, code)
	}
	return w.reflectAndClose(ctx, id)
}

// resolve looks an unknown outcome up within its bound, and hands it to a person after that. It is left only by evidence.
func (w *orderRun) resolve(ctx workflow.Context, id order.AttemptID, code fault.Code) error {
	if _, err := w.reflect(ctx, id); err != nil { // "unknown" is shown as such while it is looked up
		return err
	}
	b := w.bounds(ctx)
	total := w.facts.Policy.UnknownToReviewAfter + w.facts.Policy.StepTimeout
	first := min(fault.PolicyOf(code).Delay(1, 0), w.facts.Policy.FirstLookupAfter)
	if _, err := workflow.AwaitWithTimeout(ctx, max(first, time.Millisecond), func() bool { return w.news || w.queued() }); err != nil {
		return err
	}
	actx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	found := w.outside(actx, "look the payment up", total, acts.ResolvePayment, activities.AttemptInput{AttemptID: id, Bounds: b})
	for !found.IsReady() {
		// Between two tries a webhook, a return page or a sweep may say "look now": that look is made beside the schedule.
		if err := workflow.Await(ctx, func() bool { return found.IsReady() || w.news || w.queued() }); err != nil {
			return err
		}
		if found.IsReady() {
			break
		}
		w.takeSignals(ctx)
		w.news = false
		if w.stopping.asked { // it is to be ended now, not made
			w.stale = true
			return nil
		}
		if err := w.lookAt(ctx, id, acts.LookPayment); err != nil {
			return err
		}
		if _, settled := w.settled[id]; settled {
			w.stale = true
			return nil
		}
	}
	err := found.Get(ctx, nil)
	if err == nil {
		return w.reflectAndClose(ctx, id)
	}
	r, rerr := w.reflect(ctx, id) // a late try may have kept an answer
	if rerr != nil {
		return rerr
	}
	if r.Status != order.AttemptCreated && r.Status != order.AttemptSent && r.Status != order.AttemptUnknown {
		return w.closeIfDeclined(ctx, id, r.Status)
	}
	return w.handOver(ctx, activities.ParkInput{OrderID: w.id, AttemptID: id, Code: string(codeOf(err, fault.PaymentUnknown))})
}

// lookAt asks once, for an attempt that waits for a buyer or a person. An answer that needs a person finds one, also where so far only
// a buyer was waited for.
func (w *orderRun) lookAt(ctx workflow.Context, id order.AttemptID, step any) error {
	in := activities.AttemptInput{AttemptID: id, Bounds: activities.Bounds{Once: true}}
	var res activities.PaymentResult
	if err := w.outside(ctx, "look the payment up, once", w.facts.Policy.StepTimeout, step, in).Get(ctx, &res); err != nil {
		if code := codeOf(err, fault.PaymentUnknown); code == fault.PaymentNeedsReview && w.settled[id] == order.AttemptPending {
			w.settle(id, order.AttemptUnknown)
			return w.handOver(ctx, activities.ParkInput{OrderID: w.id, AttemptID: id, Code: string(code)})
		}
		return nil // it proves nothing; the next check time stands
	}
	return w.reflectAndClose(ctx, id)
}

// reflectAndClose writes the outcome down. A stale or mismatching answer is not the last word: a fresh lookup decides (rule 5).
func (w *orderRun) reflectAndClose(ctx workflow.Context, id order.AttemptID) error {
	r, err := w.reflect(ctx, id)
	if err != nil {
		return err
	}
	if r.NeedsLook && r.Verdict == order.Stale {
		w.stale, w.look = true, true
		return nil
	}
	return w.closeIfDeclined(ctx, id, r.Status)
}

func (w *orderRun) closeIfDeclined(ctx workflow.Context, id order.AttemptID, s order.Status) error {
	if s == order.AttemptDeclined {
		return w.close(ctx, id, false)
	}
	return nil
}

// close makes sure that a declined attempt can capture nothing any more, so that the buyer may try again.
func (w *orderRun) close(ctx workflow.Context, id order.AttemptID, held bool) error {
	w.settle(id, order.AttemptDeclined)
	if held {
		return nil
	}
	total := w.facts.Policy.UnknownToReviewAfter + w.facts.Policy.StepTimeout
	var res activities.PaymentResult
	in := activities.AttemptInput{AttemptID: id, Bounds: w.bounds(ctx)}
	err := w.outside(ctx, "close the declined attempt", total, acts.CloseAttempt, in).Get(ctx, &res)
	if err != nil {
		return w.handOver(ctx, activities.ParkInput{OrderID: w.id, AttemptID: id, Code: string(codeOf(err, fault.PaymentUnknown))})
	}
	_, err = w.reflect(ctx, id)
	return err
}

// handOver parks an attempt or a unit: from here on a person owns it, and only evidence or a decision moves it.
func (w *orderRun) handOver(ctx workflow.Context, in activities.ParkInput) error {
	_, err := database[order.Verdict](ctx, "hand over to a person", acts.Park, in)
	w.stale = true
	if in.AttemptID != "" {
		w.park(in.AttemptID)
	}
	if in.RefundID != "" {
		w.back.parked[in.RefundID] = true
	}
	return err
}

func (w *orderRun) settle(id order.AttemptID, s order.Status) {
	switch s {
	case order.AttemptSucceeded, order.AttemptDeclined, order.AttemptClosed, order.AttemptPending:
		w.settled[id] = s
	default:
		delete(w.settled, id)
	}
}

func (w *orderRun) park(id order.AttemptID) { w.parked[id] = true }

// held reports that an open review owns the subject: nothing automatic moves it but evidence.
func (w *orderRun) held(kind order.SubjectKind, id string) bool {
	for _, r := range w.facts.Reviews {
		if r.SubjectKind == kind && r.SubjectID == id {
			return true
		}
	}
	return false
}
