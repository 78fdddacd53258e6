package webhooks

import (
	"context"
	"sync"
	"time"

	"orderflow/store"
)

// batch is how many receipts one transaction processes.
const batch = 500

// gap is the least time between two rounds: what comes meanwhile goes into one.
const gap = 20 * time.Millisecond

// Run processes stored webhooks and tells runs to look, until ctx ends. Any number of processes may do so side by side.
func (h *Webhooks) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { h.loop(ctx, h.received, h.process) })
	t := &teller{Webhooks: h, limited: map[string]time.Time{}}
	both.Go(func() { h.loop(ctx, h.wanted, t.round) })
	both.Wait()
}

// loop calls round when poked, and every period. A round that says more is called again soon.
func (h *Webhooks) loop(ctx context.Context, poked <-chan struct{}, round func(context.Context) (more bool)) {
	tick := time.NewTicker(h.d.Period)
	defer tick.Stop()
	for {
		more := round(ctx)
		if !sleep(ctx, gap) {
			return
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-poked:
		case <-tick.C:
		}
	}
}

// sleep waits, and reports that ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// process takes one batch of receipts from the store. Where the database is away, they wait there.
func (h *Webhooks) process(ctx context.Context) (more bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	done, err := h.d.Store.ReceiptsProcess(ctx, h.d.OrphanAfter, batch)
	if err != nil {
		if ctx.Err() == nil {
			h.d.Log.WarnContext(ctx, "webhooks wait in the database", "error", err)
		}
		return false
	}
	looks := false
	for _, p := range done {
		h.d.Metrics.processed(p)
		looks = looks || p.Result == store.ReceiptLook
		if p.Result == store.ReceiptOrphan {
			h.d.Log.WarnContext(ctx, "a payment at a provider is not explained by any order: a person has to look", "gateway", p.Account.Gateway,
				"account", p.Account.Name)
		}
	}
	if looks {
		h.Wake()
	}
	return len(done) == batch
}
