package faults

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Injector holds the faults and the latencies of one sandbox. It is safe for concurrent use; without faults it costs a
// request one atomic read.
type Injector struct {
	active atomic.Int64 // faults not used up
	delay  map[Target]*atomic.Int64

	mu      sync.Mutex
	faults  []*State
	next    int
	changed chan struct{} // closed and replaced whenever a fault fires

	closing sync.Once
	closed  chan struct{}
}

// New makes an injector without faults.
func New() *Injector {
	return &Injector{
		delay:   map[Target]*atomic.Int64{Stripe: {}, Omise: {}, TwoCTwoP: {}, Toss: {}, Issuer: {}, Receiver: {}},
		changed: make(chan struct{}),
		closed:  make(chan struct{}),
	}
}

// Close lets go of every request that a fault holds. A slow request held at that moment has no effect any more.
func (in *Injector) Close() { in.closing.Do(func() { close(in.closed) }) }

// Add arms a fault and returns its id.
func (in *Injector) Add(f Fault) (string, error) {
	if err := f.Validate(); err != nil {
		return "", err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for f.ID == "" {
		in.next++
		if id := "fault-" + strconv.Itoa(in.next); in.find(id) < 0 {
			f.ID = id
		}
	}
	if in.find(f.ID) >= 0 {
		return "", fmt.Errorf("a fault with the id %q is there already: remove it first or leave the id out", f.ID)
	}
	f.released = make(chan struct{})
	in.faults = append(in.faults, &State{Fault: f})
	in.active.Add(1)
	return f.ID, nil
}

// find expects the lock to be held.
func (in *Injector) find(id string) int {
	for i, s := range in.faults {
		if s.ID == id {
			return i
		}
	}
	return -1
}

// Get returns a fault and how often it fired.
func (in *Injector) Get(id string) (State, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if i := in.find(id); i >= 0 {
		return *in.faults[i], true
	}
	return State{}, false
}

// List returns every fault, used up or not, in the order they were added.
func (in *Injector) List() []State {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]State, 0, len(in.faults))
	for _, s := range in.faults {
		out = append(out, *s)
	}
	return out
}

// Remove disarms a fault and forgets its count. Requests it already holds stay held.
func (in *Injector) Remove(id string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := in.find(id)
	if i < 0 {
		return false
	}
	if !in.faults[i].UsedUp {
		in.active.Add(-1)
	}
	in.faults = append(in.faults[:i:i], in.faults[i+1:]...)
	return true
}

// Clear removes every fault and every latency.
func (in *Injector) Clear() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.faults = nil
	in.active.Store(0)
	for _, d := range in.delay {
		d.Store(0)
	}
}

// SetLatency makes every request to a target take at least this long before it is worked on.
func (in *Injector) SetLatency(target Target, d time.Duration) error {
	slot, ok := in.delay[target]
	if !ok {
		return fmt.Errorf("no such target %q: use stripe, omise, twoctwop, toss, issuer or receiver", target)
	}
	if d < 0 {
		return fmt.Errorf("latency must not be negative")
	}
	slot.Store(int64(d))
	return nil
}

// Latency returns what SetLatency set.
func (in *Injector) Latency(target Target) time.Duration {
	if slot, ok := in.delay[target]; ok {
		return time.Duration(slot.Load())
	}
	return 0
}

// AwaitFired returns when the fault has hit at least n requests, or with the context's error.
func (in *Injector) AwaitFired(ctx context.Context, id string, n int) error {
	for {
		in.mu.Lock()
		i, changed := in.find(id), in.changed
		fired := i >= 0 && in.faults[i].Fired >= n
		in.mu.Unlock()
		switch {
		case i < 0:
			return fmt.Errorf("no fault with the id %q", id)
		case fired:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("fault %s did not fire %d times: %w", id, n, ctx.Err())
		}
	}
}

// Take uses up the first fault that matches a request, nil if there is none.
func (in *Injector) Take(target Target, method, path string, body []byte) *Fault {
	if in.active.Load() == 0 {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range in.faults {
		if s.UsedUp || !s.matches(target, method, path, body) {
			continue
		}
		if s.Skip > 0 {
			s.Skip--
			continue
		}
		s.Fired++
		if s.Times > 0 && s.Fired >= s.Times {
			s.UsedUp = true
			in.active.Add(-1)
		}
		close(in.changed)
		in.changed = make(chan struct{})
		f := s.Fault
		return &f
	}
	return nil
}

// Release lets the requests go on that a fault's Delay holds, now and later, so that a hold can end when something has been
// seen rather than after a guessed time. It reports whether there is such a fault.
func (in *Injector) Release(id string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := in.find(id)
	if i < 0 {
		return false
	}
	select {
	case <-in.faults[i].released:
	default:
		close(in.faults[i].released)
	}
	return true
}

// Wait holds a request for its fault's Delay or until the fault is released. It ends early, with false, only when the
// injector is closed.
func (in *Injector) Wait(f *Fault) bool {
	if f.Delay <= 0 {
		return true
	}
	t := time.NewTimer(f.Delay)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.released:
		return true
	case <-in.closed:
		return false
	}
}

// Closed is closed by Close.
func (in *Injector) Closed() <-chan struct{} { return in.closed }
