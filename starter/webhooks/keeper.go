package webhooks

import (
	"context"
	"sync"

	"orderflow/store"
)

const (
	keepers  = 4   // transactions side by side
	keepMost = 100 // receipts in one of them
)

// keeper stores what arrives at the same time in one transaction: a wait for the disk is then shared, and a slow disk makes
// transactions larger instead of the line longer.
type keeper struct {
	store *store.Store

	mu      sync.Mutex
	waiting []*keeping
	running int
}

type keeping struct {
	receipt store.Receipt
	kept    store.Kept
	err     error
	done    chan struct{}
}

// keep returns when the receipt is stored, or cannot be.
func (k *keeper) keep(ctx context.Context, r store.Receipt) (store.Kept, error) {
	one := &keeping{receipt: r, done: make(chan struct{})}
	k.mu.Lock()
	k.waiting = append(k.waiting, one)
	if k.running < keepers {
		k.running++
		go k.work()
	}
	k.mu.Unlock()
	select {
	case <-one.done:
		return one.kept, one.err
	case <-ctx.Done():
		return "", ctx.Err() // it may be stored all the same; its next copy finds out
	}
}

func (k *keeper) work() {
	for {
		k.mu.Lock()
		n := min(len(k.waiting), keepMost)
		some := k.waiting[:n:n]
		k.waiting = k.waiting[n:]
		if n == 0 {
			k.running--
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		k.write(some)
	}
}

// write stores all or none. One that the database refuses must not take the others along, so then each has its own try.
func (k *keeper) write(some []*keeping) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	receipts := make([]store.Receipt, len(some))
	for i, one := range some {
		receipts[i] = one.receipt
	}
	kept, err := k.store.ReceiptsKeep(ctx, receipts)
	for i, one := range some {
		switch {
		case err == nil:
			one.kept = kept[i]
		case len(some) == 1 || ctx.Err() != nil:
			one.err = err
		default:
			one.kept, one.err = k.store.ReceiptKeep(ctx, one.receipt)
		}
		close(one.done)
	}
}
