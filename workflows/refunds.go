package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/internal/fault"
	"orderflow/order"
)

// refundsSeen is what this run knows of refunds beside its facts.
type refundsSeen struct {
	settled map[order.RefundID]order.Status // refunds with an outcome; "the provider is at it" is one
	parked  map[order.RefundID]bool         // refunds that a person has
}

// refunds takes every refund that is not done one step on, one after the other: of two at once a provider could refuse either.
// An order without refunds makes no step here.
func (w *orderRun) refunds(ctx workflow.Context, look bool) error {
	for _, r := range w.facts.Refunds {
		if r.Unreflected {
			ref, err := w.reflectRefund(ctx, r.ID)
			if err != nil {
				return err
			}
			r.Status = ref.Status
		}
		if err := w.refund(ctx, r, look); err != nil {
			return err
		}
	}
	return nil
}

func (w *orderRun) refund(ctx workflow.Context, r activities.RefundHead, look bool) error {
	held := w.held(order.SubjectRefund, string(r.ID))
	switch r.Status {
	case order.RefundSucceeded, order.RefundFailed:
		w.settleRefund(r.ID, r.Status)
		if r.Look || (look && held) {
			return w.lookAtRefund(ctx, r, acts.LookRefund)
		}
		return nil
	case order.RefundPending: // days, at some banks: the run rests, and the sweep says when to look
		w.settleRefund(r.ID, r.Status)
		if look {
			return w.lookAtRefund(ctx, r, acts.LookRefund)
		}
		return nil
	case order.RefundRequested: // nothing could be sent: it is tried again when somebody says so
		if held && !look {
			w.back.parked[r.ID] = true
			return nil
		}
	case order.RefundUnknown, order.RefundSent:
		if held {
			w.back.parked[r.ID] = true
			if look {
				return w.lookAtRefund(ctx, r, acts.ResolveRefund)
			}
			return nil
		}
	}
	return w.giveBack(ctx, r)
}

// giveBack asks for the money to go back, and finds out what became of it.
func (w *orderRun) giveBack(ctx workflow.Context, r activities.RefundHead) error {
	var res activities.RefundResult
	total := w.facts.Policy.UnknownToReviewAfter + w.facts.Policy.StepTimeout
	err := w.outside(ctx, "give the money back", total, acts.SendRefund, activities.RefundInput{RefundID: r.ID}).Get(ctx, &res)
	code := fault.Code(res.Code)
	if err != nil {
		code = codeOf(err, fault.PaymentUnknown)
	}
	if err != nil || res.Outcome == order.Unknown {
		return w.resolveRefund(ctx, r, code)
	}
	if _, err = w.reflectRefund(ctx, r.ID); err != nil || !res.LookPayment {
		return err
	}
	return w.lookAt(ctx, r.Attempt, acts.LookPayment) // somebody else may have given it back
}

// resolveRefund looks an unknown outcome up within its bound, and hands it to a person after that. It is left only by evidence.
func (w *orderRun) resolveRefund(ctx workflow.Context, r activities.RefundHead, code fault.Code) error {
	if _, err := w.reflectRefund(ctx, r.ID); err != nil { // "unknown" is shown as such while it is looked up
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
	found := w.outside(actx, "look the refund up", total, acts.ResolveRefund, activities.RefundInput{RefundID: r.ID, Bounds: b})
	for !found.IsReady() {
		// Between two tries a webhook or a sweep may say "look now": that look is made beside the schedule.
		if err := workflow.Await(ctx, func() bool { return found.IsReady() || w.news || w.queued() }); err != nil {
			return err
		}
		if found.IsReady() {
			break
		}
		w.takeSignals(ctx)
		w.news, w.stale = false, true // what else is new is seen by the next round
		if err := w.lookAtRefund(ctx, r, acts.LookRefund); err != nil {
			return err
		}
		if _, settled := w.back.settled[r.ID]; settled {
			return nil
		}
	}
	err := found.Get(ctx, nil)
	ref, rerr := w.reflectRefund(ctx, r.ID) // also where the bound has passed: a late try may have kept an answer
	if err == nil || rerr != nil {
		return rerr
	}
	switch ref.Status {
	case order.RefundRequested, order.RefundSent, order.RefundUnknown:
		return w.handOver(ctx, activities.ParkInput{OrderID: w.id, RefundID: r.ID, Code: string(codeOf(err, fault.PaymentUnknown))})
	}
	return nil
}

// lookAtRefund asks once, for a refund that waits for the provider or a person.
func (w *orderRun) lookAtRefund(ctx workflow.Context, r activities.RefundHead, step any) error {
	in := activities.RefundInput{RefundID: r.ID, Bounds: activities.Bounds{Once: true}}
	if err := w.outside(ctx, "look the refund up, once", w.facts.Policy.StepTimeout, step, in).Get(ctx, nil); err != nil {
		pending := w.back.settled[r.ID] == order.RefundPending && !w.held(order.SubjectRefund, string(r.ID))
		if code := codeOf(err, fault.PaymentUnknown); pending && code == fault.PaymentNeedsReview {
			return w.handOver(ctx, activities.ParkInput{OrderID: w.id, RefundID: r.ID, Code: string(code)})
		}
		return nil // it proves nothing; the next check time stands
	}
	_, err := w.reflectRefund(ctx, r.ID)
	return err
}

// reflectRefund writes down what was answered. A stale answer is not the last word: a fresh lookup decides (rule 5).
func (w *orderRun) reflectRefund(ctx workflow.Context, id order.RefundID) (activities.RefundReflected, error) {
	r, err := database[activities.RefundReflected](ctx, "reflect the refund", acts.ReflectRefund, activities.RefundInput{RefundID: id})
	if err != nil {
		return r, err
	}
	w.saw(r.WorkFrom, r.WorkTo)
	if r.WorkTo > r.WorkFrom {
		w.deliverable = true
	}
	// The payment may have to be looked at now, reviews in hand may have ended, or a new one was opened.
	w.stale = w.stale || r.ReviewOpen || (r.Verdict == order.Applied && (r.WorkTo > r.WorkFrom || len(w.facts.Reviews) > 0))
	if r.NeedsLook && r.Verdict == order.Stale {
		w.stale, w.look = true, true
	}
	w.settleRefund(id, r.Status)
	return r, nil
}

func (w *orderRun) settleRefund(id order.RefundID, s order.Status) {
	switch s {
	case order.RefundSucceeded, order.RefundFailed, order.RefundPending:
		w.back.settled[id] = s
	default:
		delete(w.back.settled, id)
	}
}

func (w *orderRun) refundStatusOf(id order.RefundID, loaded order.Status) order.Status {
	if s, ok := w.back.settled[id]; ok {
		return s
	}
	return loaded
}

// refundsWait reports a refund whose outcome is not known. One that the provider is at keeps no run open.
func (w *orderRun) refundsWait() bool {
	for _, r := range w.facts.Refunds {
		switch w.refundStatusOf(r.ID, r.Status) {
		case order.RefundSucceeded, order.RefundFailed, order.RefundPending:
		default:
			return true
		}
	}
	return false
}
