package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/internal/fault"
	"orderflow/order"
)

// fulfill provides what is owed: our own goods in one transaction, external units side by side within a bound.
func (w *orderRun) fulfill(ctx workflow.Context, look bool) error {
	if look {
		if err := w.lookAtUnits(ctx); err != nil {
			return err
		}
	}
	if w.facts.Status == order.OrderCanceled { // nothing is issued any more; what was being issued is found out
		return w.issue(ctx)
	}
	if w.facts.Status != order.OrderPaid {
		return nil
	}
	w.wait()
	if w.external > 0 && len(w.facts.ExternalOpen) == 0 {
		return nil // planned by this run: the next load brings them, a batch at a time
	}
	if err := w.issue(ctx); err != nil {
		return err
	}
	if w.facts.Hold != order.HoldNone && w.facts.UnitCounts[order.UnitPlanned] > 0 {
		return nil // what is owed waits for its money
	}
	if c := w.facts.UnitCounts; w.facts.InternalPlanned == 0 && c[order.UnitUnknown]+c[order.UnitRefused] > 0 {
		return nil // nothing of our own is left, and a person holds the rest
	}
	for more := true; more; {
		p, err := database[activities.Provided](ctx, "provide our own goods", acts.FulfillInternal, activities.OrderInput{OrderID: w.id})
		if err != nil {
			return err
		}
		w.saw(p.WorkFrom, p.WorkTo)
		w.facts.Status, w.facts.InternalPlanned = p.Order, 0
		w.deliverable = w.deliverable || p.WorkTo > p.WorkFrom
		more = p.More
	}
	return nil
}

// wait leaves out what nobody may send while the order is held. What was sent before is found out all the same.
func (w *orderRun) wait() {
	if w.facts.Hold == order.HoldNone {
		return
	}
	w.facts.ExternalOpen = slices.DeleteFunc(slices.Clone(w.facts.ExternalOpen), func(u activities.UnitHead) bool { return u.Status == order.UnitPlanned })
}

// issue has one batch of external units issued. Units that end neither issued nor refused are parked, each on its own.
func (w *orderRun) issue(ctx workflow.Context) error {
	units := w.facts.ExternalOpen
	if len(units) == 0 {
		return nil
	}
	b := w.bounds(ctx)
	sem := workflow.NewSemaphore(ctx, int64(max(1, w.facts.Policy.UnitsAtOnce)))
	wg := workflow.NewWaitGroup(ctx)
	var first error
	for _, u := range units {
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer wg.Done()
			if err := sem.Acquire(ctx, 1); err != nil {
				first = err
				return
			}
			defer sem.Release(1)
			if err := w.issueOne(ctx, u.ID, b); err != nil && first == nil {
				first = err
			}
		})
	}
	wg.Wait(ctx)
	w.stale = true // the next load brings the next batch, and the reviews that were opened
	return first
}

func (w *orderRun) issueOne(ctx workflow.Context, id order.UnitID, b activities.Bounds) error {
	total := w.facts.Policy.UnknownToReviewAfter + w.facts.Policy.StepTimeout
	var res activities.UnitResult
	err := w.outside(ctx, "issue a unit", total, acts.IssueUnit, activities.UnitInput{OrderID: w.id, UnitID: id, Bounds: b}).Get(ctx, &res)
	code := res.Code
	switch {
	case err != nil:
		code = string(codeOf(err, fault.IssuanceUnknown))
	case res.Status != order.UnitUnknown && res.Status != order.UnitIssuing:
		return nil
	}
	return w.handOver(ctx, activities.ParkInput{OrderID: w.id, UnitID: id, Code: code})
}

// lookAtUnits asks the issuer once about units that a person has, those whose turn it is. An answer closes the review by itself.
func (w *orderRun) lookAtUnits(ctx workflow.Context) error {
	for _, id := range w.unitsHeld() {
		in := activities.UnitInput{OrderID: w.id, UnitID: id, Bounds: activities.Bounds{Once: true}}
		var res activities.UnitResult
		if err := w.outside(ctx, "ask the issuer, once", w.facts.Policy.StepTimeout, acts.LookUnit, in).Get(ctx, &res); err == nil && res.Status == order.UnitIssued {
			w.stale = true
		}
	}
	return nil
}

// unitsHeld are the units to ask about. Facts of a history from before they were listed name them by their reviews.
func (w *orderRun) unitsHeld() []order.UnitID {
	if len(w.facts.UnitsHeld) > 0 {
		return w.facts.UnitsHeld
	}
	var ids []order.UnitID
	for _, r := range w.facts.Reviews {
		if r.SubjectKind == order.SubjectUnit {
			ids = append(ids, order.UnitID(r.SubjectID))
		}
	}
	return ids
}

// deliver makes the first tries of the order's events. What a receiver does not take is the relay's.
func (w *orderRun) deliver(ctx workflow.Context) {
	if !w.deliverable && w.facts.DeliveriesFresh == 0 {
		return
	}
	w.deliverable, w.facts.DeliveriesFresh = false, 0
	d, err := local[activities.Delivered](ctx, "deliver events", w.facts.Policy.DeliveryLocalBudget, acts.DeliverEvents,
		activities.DeliverInput{OrderID: w.id, Budget: w.facts.Policy.DeliveryLocalBudget})
	if err == nil && !d.Cut {
		return
	}
	in := activities.DeliverInput{OrderID: w.id}
	if err := w.outside(ctx, "deliver events, slowly", w.facts.Policy.StepTimeout, acts.DeliverEvents, in).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Info("delivery left to the relay", "code", codeOf(err, fault.DeliveryFailed))
	}
}
