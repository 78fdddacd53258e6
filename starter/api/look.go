package api

import (
	"context"
	"fmt"
	"time"

	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// lookAfter is how old an unresolved attempt must be before a reader makes anybody look: younger ones are being worked on.
const lookAfter = 2 * time.Second

// lookIfUnknown asks for a fresh look at an attempt whose outcome is open, and does not wait for it. The rate is counted in
// PostgreSQL, per provider account and per order, so that a page that polls is no way to flood a provider.
func (a *API) lookIfUnknown(ctx context.Context, attempts []sqlcgen.PaymentAttempt) {
	for _, at := range attempts {
		switch order.Status(at.Status) {
		case order.AttemptCreated, order.AttemptSent, order.AttemptUnknown:
		case order.AttemptPending: // the buyer may have acted since
		default:
			continue
		}
		if a.d.Now().Sub(at.CreatedAt) < lookAfter {
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
