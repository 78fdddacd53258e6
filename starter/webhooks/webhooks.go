// Package webhooks takes what providers tell us, stores it before it answers, and turns it into "look again": a webhook is a reason
// to ask the provider, and never a fact.
//
// It must not believe what a webhook says, nor decide anything about an order: it keeps a row, finds the attempt and tells the
// order's run to look. It may import store, order, gateways, the internal leaves and starter/api for routes and problems.
package webhooks

import (
	"context"
	"log/slog"
	"time"

	"orderflow/gateways"
	"orderflow/internal/seal"
	"orderflow/order"
	"orderflow/starter/api"
	"orderflow/store"
)

// Engine is what is asked of Temporal. It may fail without harm: the wanted look is a row and is told later.
type Engine interface {
	// LookAgain asks for a fresh look at an order and does not wait for it.
	LookAgain(ctx context.Context, id order.ID, source, reference string) error
}

// Deps are what webhooks work with.
type Deps struct {
	Store    *store.Store
	Engine   Engine
	Box      *seal.Box // opens the per-payment secrets that some providers' notices carry
	Gateways map[order.Account]gateways.Gateway

	LookupsPerSecond int           // looks per second and provider account, over all processes; 0 = 10
	OrphanAfter      time.Duration // how long a webhook waits for its attempt before it counts as an orphan's; 0 = 15m
	Period           time.Duration // how often rows are looked for that no request of this process announced; 0 = 1s
	ReadTimeout      time.Duration // the longest a body may take to arrive; 0 = 5s
	Log              *slog.Logger  // nil = silent
	Metrics          *Metrics      // nil = nobody counts
	Now              func() time.Time
}

// place is what a webhook's address names. The environment is the account's own.
type place struct{ gateway, account string }

type target struct {
	account  order.Account
	notifier gateways.Notifier
}

// Webhooks takes, processes and tells. It is made by New and safe for concurrent use.
type Webhooks struct {
	d        Deps
	targets  map[place]target
	accounts []order.Account
	keeper   *keeper
	received chan struct{} // a receipt was stored here
	wanted   chan struct{} // a look is wanted
}

// New checks nothing and starts nothing: Routes take webhooks, Run works on what was taken.
func New(d Deps) *Webhooks {
	if d.LookupsPerSecond == 0 {
		d.LookupsPerSecond = 10
	}
	if d.OrphanAfter == 0 {
		d.OrphanAfter = 15 * time.Minute
	}
	if d.Period == 0 {
		d.Period = time.Second
	}
	if d.ReadTimeout == 0 {
		d.ReadTimeout = 5 * time.Second
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	h := &Webhooks{d: d, targets: map[place]target{}, keeper: &keeper{store: d.Store}, received: make(chan struct{}, 1), wanted: make(chan struct{}, 1)}
	for account, g := range d.Gateways {
		h.accounts = append(h.accounts, account)
		if n, ok := g.(gateways.Notifier); ok {
			h.targets[place{account.Gateway, account.Name}] = target{account, n}
		}
	}
	return h
}

// Routes are what the API's listener serves for webhooks. They ask for no API key: a provider has none.
func (h *Webhooks) Routes() []api.Route {
	return []api.Route{{Pattern: "POST /webhooks/{gateway}/{account}", Handler: handlerFunc(h.take)}}
}

// Wake says that a look was noted, so that it is told now and not in the next period.
func (h *Webhooks) Wake() { poke(h.wanted) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // somebody is about to look anyway
	}
}
