// Package activities holds the steps that touch the outside: providers, issuers, receivers, the database.
//
// It must not decide an order's future (package order does) nor import workflows; it translates between gateways, issuers
// and the domain, and is the only place that turns a fault into a Temporal error. It may import store, gateways, issuers,
// order, the internal packages and Temporal's SDK.
package activities

import (
	"context"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"orderflow/gateways"
	"orderflow/internal/eventsend"
	"orderflow/internal/fault"
	"orderflow/internal/seal"
	"orderflow/issuers"
	"orderflow/order"
	"orderflow/store"
)

// Deps are what the steps work with. All of it is shared and safe for concurrent use.
type Deps struct {
	Store     *store.Store
	Gateways  map[order.Account]gateways.Gateway
	Issuers   map[string]issuers.Issuer
	Sender    *eventsend.Sender
	Receivers map[string]eventsend.Receiver
	Box       *seal.Box
	Temporal  client.Client // for the sweep, which starts runs
	Log       *slog.Logger
	Sweep     SweepSettings
	Reconcile ReconcileSettings

	// Called is told of every request to another party, for metrics. It may be nil and must not block.
	Called func(Call)

	// Attributes reports that the search attributes are registered: upserting one that is not hangs a workflow.
	Attributes bool
}

// SweepSettings bound the sweep and the relay.
type SweepSettings struct {
	MinAge    time.Duration // work younger than this belongs to a run that is under way
	Again     time.Duration // how long until the same order is looked at again
	Max       int           // orders per sweep
	Lease     time.Duration // how long one sender holds a delivery
	PerSecond int           // lookups per second and provider account
}

// Activities is registered with the worker as it is: every exported method is a step.
type Activities struct{ d Deps }

// New makes the steps.
func New(d Deps) *Activities {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Sweep.Lease <= 0 {
		d.Sweep.Lease = 30 * time.Second
	}
	if d.Sweep.Max <= 0 {
		d.Sweep.Max = 500
	}
	return &Activities{d: d}
}

// keepFor bounds the writing of an answer that is already here. It outlives the step's own context: a worker that is asked
// to stop, or a step that has timed out, still keeps what the other side said.
const keepFor = 5 * time.Second

func keeping(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), keepFor)
}

// sending bounds a send from the moment before it was claimed. A process that is paused between claim and send must not wake up
// long after everybody else has seen that nothing happened, and send: without the bound "not found" would never be final.
func sending(ctx context.Context, claimed time.Time, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	// Round strips the monotonic reading: a suspended machine stops that clock.
	return context.WithDeadline(ctx, claimed.Round(0).Add(underWay(timeout)))
}

// underWay is how long after its claim a request may still reach the other side: the time to begin and the exchange itself.
func underWay(timeout time.Duration) time.Duration { return 2 * timeout }

// gone reports that a "not found" read now is final (rule 6): after the last send it waited out the request's own way and the
// other side's lag. It has to be asked before the lookup is made.
func gone(age store.Age, finalAfter, timeout time.Duration) bool {
	return finalAfter > 0 && age.Last > finalAfter+underWay(timeout)
}

// alive shows Temporal that this try's worker lives, from the second interval on: a step that ends quickly costs nothing.
func alive(ctx context.Context) (stop func()) {
	if !activity.IsActivity(ctx) {
		return func() {}
	}
	every := activity.GetInfo(ctx).HeartbeatTimeout / 3
	if every <= 0 {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-t.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return func() { close(done) }
}

func (a *Activities) gateway(acc order.Account) (gateways.Gateway, error) {
	g, ok := a.d.Gateways[acc]
	if !ok {
		e := fault.New(fault.GatewayMisconfigured, "find gateway")
		e.Why = "account_not_configured"
		return nil, e
	}
	return g, nil
}

func (a *Activities) issuer(name string) (issuers.Issuer, error) {
	i, ok := a.d.Issuers[name]
	if !ok {
		e := fault.New(fault.IssuerMisconfigured, "find issuer")
		e.Why = "issuer_not_configured"
		return nil, e
	}
	return i, nil
}

// OperationAAD is what a stored request is sealed to: moved to another row, it does not open.
func OperationAAD(id order.OperationID) string { return "operation/" + string(id) }

// ReferenceAAD is what a unit's reference is sealed to.
func ReferenceAAD(id order.UnitID) string { return "unit/" + string(id) }
