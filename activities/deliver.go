package activities

import (
	"context"
	"time"

	"orderflow/internal/eventsend"
	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store"
)

// DeliverInput names whose events to deliver.
type DeliverInput struct {
	OrderID order.ID      `json:"order_id"`
	Budget  time.Duration `json:"budget,omitempty"` // for all sends of this call; what does not fit is handed back at once
	Bounds  Bounds        `json:"bounds,omitzero"`
}

// Delivered says what is left.
type Delivered struct {
	Cut bool `json:"cut,omitempty"` // the budget ended before the receiver did: a longer try makes sense
}

// DeliverEvents sends an order's due events, in order per receiver, signed, under ids that never change. A receiver that does
// not take one keeps the later ones back; the relay goes on with it, so a dead receiver keeps no order open.
func (a *Activities) DeliverEvents(ctx context.Context, in DeliverInput) (Delivered, error) {
	defer alive(ctx)()
	d, err := a.deliver(ctx, in.OrderID, in.Budget)
	return d, Fail(ctx, err, in.Bounds)
}

func (a *Activities) deliver(ctx context.Context, id order.ID, budget time.Duration) (Delivered, error) {
	due, err := a.d.Store.DeliveriesClaim(ctx, id, a.d.Sweep.Lease)
	if err != nil || len(due) == 0 {
		return Delivered{}, err
	}
	sctx := ctx
	if budget > 0 {
		var cancel context.CancelFunc
		sctx, cancel = context.WithTimeout(ctx, budget)
		defer cancel()
	}
	out := Delivered{}
	held := map[string]time.Time{} // receivers that failed in this call, and when their next try is
	results := make([]store.DeliveryResult, 0, len(due))
	for _, d := range due {
		r := store.DeliveryResult{EventID: d.EventID, Receiver: d.Receiver}
		if next, failed := held[d.Receiver]; failed {
			r.NotSent, r.NextTry = true, next
		} else if err := a.sendEvent(sctx, d); err == nil {
			r.Taken = true
		} else if sctx.Err() != nil {
			r.NotSent, r.NextTry, out.Cut = true, time.Now(), true
			held[d.Receiver] = r.NextTry
		} else {
			r.Code, r.NextTry, r.Parked = afterFailure(err, d.Tries)
			held[d.Receiver] = r.NextTry
		}
		results = append(results, r)
	}
	kctx, cancel := keeping(ctx)
	defer cancel()
	return out, a.d.Store.DeliveriesRecord(kctx, id, results)
}

func (a *Activities) sendEvent(ctx context.Context, d store.Delivery) error {
	r, ok := a.d.Receivers[d.Receiver]
	if !ok {
		return fault.New(fault.DeliveryFailed, "find receiver") // taken out of the configuration; it may come back
	}
	began := time.Now()
	err := a.d.Sender.Send(ctx, r, eventsend.Event{ID: d.EventID, Body: d.Payload})
	a.called("receiver", d.Receiver, "event", began, err)
	return err
}

// afterFailure is the outbox's own schedule, from the retry table.
func afterFailure(err error, tries int) (code string, next time.Time, parked bool) {
	f := fault.As(err)
	p := fault.PolicyOf(f.Code)
	return string(f.Code), time.Now().Add(p.Delay(tries, f.RetryAfter)), !p.Retry || tries >= p.Tries
}
