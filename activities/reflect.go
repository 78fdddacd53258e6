package activities

import (
	"context"

	"orderflow/internal/door"
	"orderflow/order"
	"orderflow/store"
)

// OrderInput names the order a step works on.
type OrderInput struct {
	OrderID order.ID `json:"order_id"`
	Batch   int      `json:"batch,omitempty"`
	Bounds  Bounds   `json:"bounds,omitzero"`
}

// Loaded is what a run of the workflow starts from: facts, policy, and what this worker may do.
type Loaded struct {
	store.Snapshot
	Attributes bool // search attributes are registered
}

// LoadOrder reads the facts. Workflow code reads no configuration: what it needs comes with them.
func (a *Activities) LoadOrder(ctx context.Context, in OrderInput) (Loaded, error) {
	s, err := a.d.Store.Snapshot(ctx, in.OrderID, in.Batch)
	return Loaded{Snapshot: s, Attributes: a.d.Attributes}, Fail(ctx, err, in.Bounds)
}

// ReflectPayment writes what was confirmed into the order: one transaction, no outside call.
func (a *Activities) ReflectPayment(ctx context.Context, in AttemptInput) (store.Reflected, error) {
	r, err := a.d.Store.Reflect(ctx, in.AttemptID)
	return r, Fail(ctx, err, in.Bounds)
}

// ParkInput hands an attempt, a unit, a refund or - with none of them - the order itself to a person. An order without a code is taken back:
// the step that failed went through.
type ParkInput struct {
	OrderID   order.ID        `json:"order_id"`
	AttemptID order.AttemptID `json:"attempt_id,omitempty"`
	UnitID    order.UnitID    `json:"unit_id,omitempty"`
	RefundID  order.RefundID  `json:"refund_id,omitempty"`
	Code      string          `json:"code"`
	Bounds    Bounds          `json:"bounds,omitzero"`
}

// Park opens the review of an outcome that could not be found within its bound. It reports what the rule said.
func (a *Activities) Park(ctx context.Context, in ParkInput) (order.Verdict, error) {
	c := order.Change{Verdict: order.Applied}
	var err error
	switch {
	case in.UnitID != "":
		c, err = a.d.Store.UnitUnresolved(ctx, in.UnitID, in.OrderID, in.Code)
	case in.RefundID != "":
		c, err = a.d.Store.RefundUnresolved(ctx, in.RefundID, in.Code)
	case in.AttemptID != "":
		c, err = a.d.Store.AttemptUnresolved(ctx, in.AttemptID, in.Code)
	case in.Code == "":
		err = a.d.Store.OrderRecovered(ctx, in.OrderID)
	default:
		err = a.d.Store.OrderStuck(ctx, in.OrderID, in.Code)
	}
	return c.Verdict, Fail(ctx, err, in.Bounds)
}

// RestInput ends a run that has seen all work.
type RestInput struct {
	OrderID order.ID `json:"order_id"`
	Seen    int64    `json:"seen"`
	Bounds  Bounds   `json:"bounds,omitzero"`
}

// Rest marks the seen work as done; false means that more came meanwhile (rule 8).
func (a *Activities) Rest(ctx context.Context, in RestInput) (bool, error) {
	ok, err := a.d.Store.Rest(ctx, in.OrderID, in.Seen)
	return ok, Fail(ctx, err, in.Bounds)
}

// DecideInput is a decision and the door it came through.
type DecideInput struct {
	Decision order.Decision `json:"decision"`
	Channel  string         `json:"channel"`
	Bounds   Bounds         `json:"bounds,omitzero"`
}

// Decide applies a decision typed in Temporal. Nobody checked who the actor is, so it is stored as claimed, and counts as a first
// person's where two are needed.
func (a *Activities) Decide(ctx context.Context, in DecideInput) (order.DecisionResult, error) {
	by := order.Actor{Role: order.RoleOperator, Channel: order.Channel(in.Channel)}
	r, _, err := a.d.Store.Decide(ctx, in.Decision, by, door.New(a.d.Box, a.d.Gateways))
	return r, Fail(ctx, err, in.Bounds)
}
