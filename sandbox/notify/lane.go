package notify

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Outcome is what one log entry says.
type Outcome string

// The outcomes.
const (
	Taken    Outcome = "taken"    // the target answered as the provider wants it
	Failed   Outcome = "failed"   // it did not; Next is when the next try follows
	GivenUp  Outcome = "given_up" // it did not, and no try follows
	Lost     Outcome = "lost"     // by a rule
	Held     Outcome = "held"     // by a rule, until its release
	Nowhere  Outcome = "nowhere"  // no target is set
	Overflow Outcome = "overflow" // too many wait already
)

// Delivery is one try, or what happened instead of one.
type Delivery struct {
	Seq     int64         `json:"seq"`
	Message int64         `json:"message"` // the same for copies and resends
	Gateway string        `json:"gateway"`
	Account string        `json:"account,omitempty"`
	Kind    string        `json:"kind"`
	Copy    int           `json:"copy,omitempty"` // 0 = the original
	Try     int           `json:"try"`            // from 0
	ByHand  bool          `json:"by_hand,omitempty"`
	At      time.Time     `json:"at"`
	Latency time.Duration `json:"latency_ns"`
	Outcome Outcome       `json:"outcome"`
	Status  int           `json:"status,omitempty"` // 0 = no answer
	Problem string        `json:"problem,omitempty"`
	Next    time.Duration `json:"next_ns,omitempty"` // until the next try
}

// delivery is one message on its way.
type delivery struct {
	number  int64
	message *Message
	copy    int
	try     int
	byHand  bool
	next    []*delivery // sent when this one's first try has ended
	due     time.Time
	epoch   int
}

// lane is one gateway's deliveries, so that a dead receiver of one provider does not hold up another's.
type lane struct {
	queue queue
	busy  int
	timer *time.Timer
}

// clear drops what waits and says how many that were.
func (l *lane) clear() int {
	n := len(l.queue)
	l.queue = nil
	return n
}

type queue []*delivery

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*delivery)) } //nolint:forcetypeassert // container/heap's interface
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}

// schedule queues a delivery. It expects the lock to be held.
func (s *Sender) schedule(d *delivery, wait time.Duration) {
	if s.closed {
		return
	}
	l := s.lanes[d.message.Gateway]
	if l == nil {
		l = &lane{}
		s.lanes[d.message.Gateway] = l
	}
	if len(l.queue) >= s.cfg.Queue {
		s.note(d, Delivery{Outcome: Overflow, Problem: "too many webhooks wait already"})
		return
	}
	d.due, d.epoch = time.Now().Add(wait), s.epoch
	heap.Push(&l.queue, d)
	s.pending++
	s.pump(l)
}

// pump starts what is due, as far as workers are free, and sets the alarm for what is not. It expects the lock to be held.
func (s *Sender) pump(l *lane) {
	for len(l.queue) > 0 && l.busy < s.cfg.Workers && !s.closed {
		wait := time.Until(l.queue[0].due)
		if wait > 0 {
			s.alarm(l, wait)
			return
		}
		d := heap.Pop(&l.queue).(*delivery) //nolint:forcetypeassert // only deliveries are pushed
		l.busy++
		s.wg.Go(func() { s.run(l, d) })
	}
}

func (s *Sender) alarm(l *lane, wait time.Duration) {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = s.after(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pump(l)
	})
}

// after runs a function later, unless the sender is closed by then.
func (s *Sender) after(wait time.Duration, run func()) *time.Timer {
	return time.AfterFunc(wait, func() {
		if s.ctx.Err() == nil {
			run()
		}
	})
}

// run makes one try and plans what follows from it.
func (s *Sender) run(l *lane, d *delivery) {
	s.mu.Lock()
	to := s.target(d.message)
	profile, ok := s.profiles[d.message.Gateway]
	if !ok {
		profile = plainProfile()
	}
	s.mu.Unlock()
	entry := Delivery{Outcome: Nowhere}
	if to != "" {
		entry = s.try(to, profile, d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.busy--
	s.pending--
	if !s.closed && d.epoch == s.epoch {
		s.follow(d, entry, profile)
	}
	s.change()
	s.pump(l)
}

// follow logs a try and queues the next one. It expects the lock to be held.
func (s *Sender) follow(d *delivery, entry Delivery, profile Profile) {
	if entry.Outcome == Failed {
		if d.try < len(profile.Resends) {
			entry.Next = time.Duration(float64(profile.Resends[d.try]) * s.scale)
		} else {
			entry.Outcome = GivenUp
		}
	}
	s.note(d, entry)
	for _, n := range d.next {
		s.schedule(n, 0)
	}
	d.next = nil
	if entry.Outcome == Failed {
		s.schedule(&delivery{number: d.number, message: d.message, copy: d.copy, try: d.try + 1, byHand: d.byHand}, entry.Next)
	}
}

// try puts a message on the wire once.
func (s *Sender) try(to string, profile Profile, d *delivery) (entry Delivery) {
	ctx, cancel := context.WithTimeout(s.ctx, profile.Timeout)
	defer cancel()
	at := s.cfg.Now()
	entry = Delivery{At: at, Outcome: Failed}
	begun := time.Now()
	defer func() { entry.Latency = time.Since(begun) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(d.message.Body))
	if err != nil {
		entry.Problem = "the request cannot be made"
		return entry
	}
	req.GetBody = nil // net/http must not repeat it unseen
	if d.message.Header != nil {
		req.Header = d.message.Header(at, d.try)
	}
	res, err := s.http.Do(req)
	if err != nil {
		entry.Problem = problemOf(err)
		return entry
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	_ = res.Body.Close()
	entry.Status = res.StatusCode
	if profile.took(res.StatusCode) {
		entry.Outcome = Taken
	}
	return entry
}

// problemOf says what a person needs to know, without addresses.
func problemOf(err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "the sandbox was closed"
	}
	return "the connection failed"
}

// note appends to the log. It expects the lock to be held.
func (s *Sender) note(d *delivery, entry Delivery) {
	s.seq++
	entry.Seq, entry.Message, entry.Copy, entry.Try, entry.ByHand = s.seq, d.number, d.copy, d.try, d.byHand
	entry.Gateway, entry.Account, entry.Kind = d.message.Gateway, d.message.Account, d.message.Kind
	if entry.At.IsZero() {
		entry.At = s.cfg.Now()
	}
	s.log = append(s.log, entry)
	if len(s.log) >= 2*s.cfg.Kept {
		s.log = append([]Delivery(nil), s.log[len(s.log)-s.cfg.Kept:]...)
	}
	s.cfg.Logger.Debug("webhook", "gateway", entry.Gateway, "kind", entry.Kind, "outcome", entry.Outcome, "status", entry.Status, "try", entry.Try)
	s.change()
}
