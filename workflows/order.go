// Package workflows holds the deterministic decisions: what an order does next, and when it rests.
//
// It must not know SQL, networks, providers, configuration or the wall clock: facts and policy come from steps. It may
// import activities (for their names and types), order, internal/fault and Temporal's SDK.
package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/internal/fault"
	"orderflow/order"
)

// Carried is what one run hands to the next when it carries on with an empty history. Everything else is in the database.
type Carried struct {
	Look bool `json:"look,omitempty"` // somebody asked for a fresh look and this run has not made it
}

// OrderWorkflow carries one order through confirm, reflect, fulfill and deliver. It may be started at any time and as often
// as anybody likes: it loads the facts and does only what is missing. Who starts it gives the id alone.
func OrderWorkflow(ctx workflow.Context, id order.ID, c Carried) error {
	w := &orderRun{id: id, look: c.Look, settled: map[order.AttemptID]order.Status{}, parked: map[order.AttemptID]bool{}, captures: map[order.AttemptID]int{}, asked: map[order.AttemptID]int{}}
	w.stopping = cancelSeen{tried: map[order.AttemptID]bool{}}
	w.back = refundsSeen{settled: map[order.RefundID]order.Status{}, parked: map[order.RefundID]bool{}}
	if err := w.setup(ctx); err != nil {
		return err
	}
	return w.run(ctx)
}

// orderRun is the state of one run. Whatever matters beyond it is in the database.
type orderRun struct {
	id     order.ID
	facts  activities.Loaded
	loaded bool
	loads  int
	seen   int64 // the order's work that this run has seen (rule 8)

	settled map[order.AttemptID]order.Status // attempts whose outcome is known, for the submit_payment handler
	parked  map[order.AttemptID]bool         // attempts that a person has, for the same

	captures map[order.AttemptID]int // captures of this run that came to an answer or to a person
	asked    map[order.AttemptID]int // captures that the facts in hand did not know when they came, with the loads until then

	back     refundsSeen // the same of refunds, for the refund_payment handler
	stopping cancelSeen  // and of the order's cancel, for the cancel_order handler

	news        bool // something outside says "look again"
	look        bool // and providers and issuers are to be asked, not only the database
	stale       bool // the facts in hand are older than a step of this run
	external    int  // units planned for external issuers by a step of this run
	deliverable bool // an event was made by a step of this run
	shown       shown

	decisions workflow.ReceiveChannel
	changes   workflow.ReceiveChannel
}

// run is the story of an order.
func (w *orderRun) run(ctx workflow.Context) error {
	for {
		w.stopping.asked = false
		if err := w.load(ctx); err != nil {
			return err
		}
		w.takeSignals(ctx)
		err := w.round(ctx)
		if err == nil {
			var done bool
			if done, err = w.rest(ctx); done {
				return err
			}
		}
		if err != nil {
			if err := w.stuck(ctx, err); err != nil {
				return err
			}
		}
	}
}

// round does, once, whatever can be done now.
func (w *orderRun) round(ctx workflow.Context) error {
	look := w.look
	w.news, w.look, w.stale, w.external = false, false, false, 0
	if err := w.payments(ctx, look); err != nil {
		return err
	}
	if err := w.refunds(ctx, look); err != nil {
		return err
	}
	if err := w.fulfill(ctx, look); err != nil {
		return err
	}
	if err := w.cancel(ctx); err != nil {
		return err
	}
	w.deliver(ctx)
	if w.held(order.SubjectOrder, string(w.id)) { // the step that failed before went through
		w.stale = true
		_, err := database[order.Verdict](ctx, "take the order back", acts.Park, activities.ParkInput{OrderID: w.id})
		return err
	}
	return nil
}

// stuck: a step of our own keeps failing, by a broken rule or a bug. Nothing is guessed: a person gets the order, and the run
// tries again when told to.
func (w *orderRun) stuck(ctx workflow.Context, cause error) error {
	if temporal.IsCanceledError(cause) {
		return cause
	}
	workflow.GetLogger(ctx).Error("order handed over", "code", codeOf(cause, fault.InternalError))
	in := activities.ParkInput{OrderID: w.id, Code: string(codeOf(cause, fault.InternalError))}
	if _, err := database[order.Verdict](ctx, "hand over to a person", acts.Park, in); err != nil {
		return err // the sweep starts a new run
	}
	if err := w.load(ctx); err != nil {
		return err
	}
	w.upsert(ctx)
	return workflow.Await(ctx, func() bool { return w.news || w.queued() })
}

// rest ends the run when nothing is left, and otherwise waits until there is something to do. True means that the run is over,
// also when it is carried on in a new one.
func (w *orderRun) rest(ctx workflow.Context) (bool, error) {
	w.takeSignals(ctx)
	if i := workflow.GetInfo(ctx); i.GetContinueAsNewSuggested() || i.GetCurrentHistoryLength() > w.historyMax() {
		return w.carryOn(ctx)
	}
	if w.news || w.stale {
		return false, nil
	}
	if w.waits() {
		w.show(ctx)
		w.upsert(ctx)
		if err := workflow.Await(ctx, func() bool { return w.news || w.queued() }); err != nil {
			return true, err
		}
		return false, nil
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) || w.news || w.queued() }); err != nil {
		return true, err
	}
	if w.takeSignals(ctx); w.news {
		return false, nil
	}
	rested, err := database[bool](ctx, "rest", acts.Rest, activities.RestInput{OrderID: w.id, Seen: w.seen})
	if err != nil || !rested || w.news || w.queued() || !workflow.AllHandlersFinished(ctx) {
		return false, err // also when an update came while the step ran: its caller gets its answer
	}
	w.show(ctx)
	w.upsert(ctx)
	return true, nil
}

func (w *orderRun) historyMax() int {
	if n := w.facts.Policy.HistoryMax; n > 0 {
		return n
	}
	return order.DefaultPolicy().HistoryMax
}

// carryOn starts the next run of the same order with an empty history. Nothing is lost over the switch: signals are taken
// and what they ask for goes along, handlers are finished, and the facts are in the database.
func (w *orderRun) carryOn(ctx workflow.Context) (bool, error) {
	idle := func() bool { return workflow.AllHandlersFinished(ctx) }
	if err := workflow.Await(ctx, func() bool { return idle() || w.news || w.stale || w.queued() }); err != nil {
		return true, err
	}
	if idle() {
		w.takeSignals(ctx)
	}
	if !idle() {
		return false, nil // a handler waits for what only another round of this run finds out
	}
	if w.look {
		return true, workflow.NewContinueAsNewError(ctx, order.WorkflowOrder, w.id, Carried{Look: true})
	}
	return true, workflow.NewContinueAsNewError(ctx, order.WorkflowOrder, w.id)
}

// waits reports that the order cannot go on by itself: a buyer, a provider or a person has to act.
func (w *orderRun) waits() bool {
	for _, a := range w.facts.Attempts {
		if s := w.statusOf(a.ID, a.Status); s != order.AttemptSucceeded && s != order.AttemptClosed {
			return true
		}
	}
	for _, r := range w.facts.Reviews {
		if r.SubjectKind == order.SubjectAttempt || r.SubjectKind == order.SubjectUnit || r.SubjectKind == order.SubjectRefund {
			return true
		}
	}
	return w.refundsWait()
}

func (w *orderRun) statusOf(id order.AttemptID, loaded order.Status) order.Status {
	if s, ok := w.settled[id]; ok {
		return s
	}
	return loaded
}
