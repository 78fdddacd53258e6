package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// lookAfter is how old an unresolved attempt must be before a reader makes anybody look: younger ones are being worked on.
const lookAfter = 2 * time.Second

// lookGap is how long one process waits between two looks at the same attempt; 0 means that there is nothing to look for.
// A buyer who comes back from the bank is found soon; a voucher that is paid days later is no reason to ask every second.
func lookGap(s order.Status) time.Duration {
	switch s {
	case order.AttemptCreated, order.AttemptSent, order.AttemptUnknown:
		return 2 * time.Second
	case order.AttemptPending:
		return 3 * time.Second
	}
	return 0
}

// lookIfOpen asks for a fresh look at an attempt whose outcome is open, and does not wait for it. The rate is counted in
// PostgreSQL, per provider account and per order, so that a page that polls is no way to flood a provider.
func (a *API) lookIfOpen(ctx context.Context, attempts []sqlcgen.PaymentAttempt) {
	for _, at := range attempts {
		gap := lookGap(order.Status(at.Status))
		if gap == 0 || a.d.Now().Sub(at.CreatedAt) < lookAfter || !a.looked.due(at.AttemptID, gap, a.d.Now()) {
			continue
		}
		select {
		case a.look <- struct{}{}:
		default:
			a.d.Metrics.lookup("busy")
			return
		}
		go func() {
			defer func() { <-a.look }()
			a.askForLook(context.WithoutCancel(ctx), at)
		}()
		return
	}
}

func (a *API) askForLook(ctx context.Context, at sqlcgen.PaymentAttempt) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for _, b := range []struct {
		name       string
		size, rate int
	}{
		{"look/order/" + at.OrderID, 1, 1},
		{fmt.Sprintf("look/account/%s/%s/%s", at.Gateway, at.Account, at.Environment), a.d.LookupsPerSecond, a.d.LookupsPerSecond},
	} {
		if ok, err := a.d.Store.TakeLookup(ctx, b.name, b.size, b.rate); err != nil || !ok {
			a.d.Metrics.lookup("limited")
			return
		}
	}
	if err := a.d.Engine.LookAgain(ctx, order.ID(at.OrderID), "api", at.AttemptID); err != nil {
		a.d.Metrics.lookup("failed")
		a.d.Log.InfoContext(ctx, "nobody could be asked to look again", "error_type", errorType(err))
		return
	}
	a.d.Metrics.lookup("asked")
}

func typeName(v any) string { return fmt.Sprintf("%T", v) }

// lastLooks remembers when this process last asked for a look, bounded.
type lastLooks struct {
	mu sync.Mutex
	at map[string]time.Time
}

// due reports that the gap has passed, and begins a new one.
func (l *lastLooks) due(id string, gap time.Duration, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.at[id]) < gap {
		return false
	}
	if l.at == nil || len(l.at) >= 10_000 {
		l.at = map[string]time.Time{} // the rates in PostgreSQL still hold
	}
	l.at[id] = now
	return true
}
