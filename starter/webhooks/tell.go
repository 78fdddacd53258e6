package webhooks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"orderflow/order"
	"orderflow/store"
)

const (
	lease     = 10 * time.Second // how long a look belongs to the process that took it
	tellAfter = time.Second      // the wait when the rate is spent: buckets fill by whole seconds
	tellFail  = 2 * time.Second  // the wait when nobody could be told
	tellTime  = 3 * time.Second  // the longest one telling may take
	atOnce    = 8                // tellings side by side
)

// teller tells runs to look, within the rates.
type teller struct {
	*Webhooks
	limited map[string]time.Time // accounts whose rate is spent, and until when nobody needs to ask
	counted time.Time
}

// countEvery is how often the waiting looks are counted, for the gauge.
const countEvery = 5 * time.Second

// round tells what the rates allow. What they do not allow waits in the database for a later round of any process.
func (t *teller) round(ctx context.Context) (more bool) {
	if now := t.d.Now(); now.Sub(t.counted) >= countEvery && t.d.Metrics != nil {
		t.counted = now
		if waiting, err := t.d.Store.LooksWaiting(ctx); err == nil {
			t.d.Metrics.waiting(waiting)
		}
	}
	for _, a := range t.accounts {
		more = t.account(ctx, a) || more
	}
	return more
}

func bucketOf(a order.Account) string {
	return fmt.Sprintf("look/account/%s/%s/%s", a.Gateway, a.Name, a.Environment)
}

// told is what became of one look.
type told int

const (
	toldRun told = iota
	toldOrderLimited
	toldAccountLimited
	toldNobody
	toldNoNeed
)

// account tells one account's next looks. True means that there may be more to tell at once.
func (t *teller) account(ctx context.Context, a order.Account) bool {
	bucket := bucketOf(a)
	if t.d.Now().Before(t.limited[bucket]) {
		return false
	}
	looks, err := t.d.Store.LooksTake(ctx, a, lease, t.d.LookupsPerSecond)
	if err != nil || len(looks) == 0 {
		return false
	}
	var mu sync.Mutex
	put := map[told][]order.AttemptID{}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, l := range looks {
		g.Go(func() error {
			became := t.tell(ctx, l, bucket)
			mu.Lock()
			defer mu.Unlock()
			put[became] = append(put[became], l.Attempt)
			return nil
		})
	}
	_ = g.Wait() // none fails: what could not be told is put off
	t.d.Metrics.looks("asked", len(put[toldRun]))
	t.d.Metrics.looks("limited", len(put[toldOrderLimited])+len(put[toldAccountLimited]))
	t.d.Metrics.looks("failed", len(put[toldNobody]))
	t.d.Metrics.looks("known", len(put[toldNoNeed]))
	jitter := rand.N(200 * time.Millisecond)
	for became, wait := range map[told]time.Duration{toldOrderLimited: tellAfter, toldAccountLimited: tellAfter / 2, toldNobody: tellFail} {
		if err := t.d.Store.LooksLater(ctx, put[became], wait); err != nil {
			return false // their lease ends by itself
		}
	}
	if len(put[toldAccountLimited]) > 0 || len(put[toldNobody]) > 0 {
		t.limited[bucket] = t.d.Now().Add(tellAfter + jitter)
		return false
	}
	return len(looks) == t.d.LookupsPerSecond
}

// tell asks one order's run to look. The row goes last: a process that dies before is one look too many, never one too few.
func (t *teller) tell(ctx context.Context, l store.Look, bucket string) told {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	if l.Known {
		t.forget(ctx, l)
		return toldNoNeed
	}
	switch ok, err := t.d.Store.TakeLookup(ctx, "look/order/"+string(l.Order), 1, 1); {
	case err != nil:
		return toldNobody
	case !ok:
		return toldOrderLimited
	}
	switch ok, err := t.d.Store.TakeLookup(ctx, bucket, t.d.LookupsPerSecond, t.d.LookupsPerSecond); {
	case err != nil:
		return toldNobody
	case !ok:
		return toldAccountLimited
	}
	if err := t.d.Store.AttemptAskOnce(ctx, l.Attempt); err != nil {
		return toldNobody
	}
	if err := t.d.Engine.LookAgain(ctx, l.Order, l.Source, string(l.Attempt)); err != nil {
		t.d.Log.InfoContext(ctx, "nobody could be told to look; it is told again", "error_type", fmt.Sprintf("%T", err))
		return toldNobody
	}
	t.forget(ctx, l)
	return toldRun
}

func (t *teller) forget(ctx context.Context, l store.Look) {
	if err := t.d.Store.LookTold(ctx, l); err != nil {
		t.d.Log.InfoContext(ctx, "a look that is over comes again", "error", err)
	}
}
