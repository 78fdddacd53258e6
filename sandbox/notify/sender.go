package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config is what a sender is made of. Everything may be left out.
type Config struct {
	// Targets are where messages go: "stripe" for every account of a gateway, "stripe/<account>" for one account.
	Targets  map[string]string
	Profiles map[string]Profile // by gateway; nil = Profiles()
	// Scale shortens the waits between tries: 0.001 makes an hour 3.6 seconds. 0 = 1.
	Scale   float64
	Workers int              // tries at the same time, per gateway; 0 = 32
	Queue   int              // messages that may wait, per gateway; further ones are dropped and logged; 0 = 10,000
	Kept    int              // log entries and messages kept; 0 = 10,000
	Now     func() time.Time // nil = time.Now; only signs and logs, waiting goes by the real clock
	Logger  *slog.Logger     // nil = silent
}

// Sender delivers messages. It is safe for concurrent use.
type Sender struct {
	cfg  Config
	http *http.Client
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	scale    float64
	profiles map[string]Profile
	targets  map[string]string
	rules    []*rule
	nextRule int
	lanes    map[string]*lane
	epoch    int // counts resets: what was queued before one is not sent after it
	pending  int // deliveries queued or under way
	messages []*Message
	first    int64 // number of messages[0]
	log      []Delivery
	seq      int64
	changed  chan struct{} // closed and replaced whenever the log or pending changes
}

// New makes a sender. Close ends it.
func New(cfg Config) (*Sender, error) {
	if cfg.Workers <= 0 {
		cfg.Workers = 32
	}
	if cfg.Queue <= 0 {
		cfg.Queue = 10_000
	}
	if cfg.Kept <= 0 {
		cfg.Kept = 10_000
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Scale == 0 {
		cfg.Scale = 1
	}
	if cfg.Profiles == nil {
		cfg.Profiles = Profiles()
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Sender{
		cfg: cfg, ctx: ctx, stop: stop, scale: cfg.Scale, profiles: maps.Clone(cfg.Profiles), targets: map[string]string{},
		lanes: map[string]*lane{}, first: 1, changed: make(chan struct{}),
		http: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: cfg.Workers, IdleConnTimeout: 10 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for key, to := range cfg.Targets {
		if err := s.SetTarget(key, to); err != nil {
			stop()
			return nil, err
		}
	}
	if err := s.SetScale(cfg.Scale); err != nil {
		stop()
		return nil, err
	}
	return s, nil
}

// Close drops what waits, cuts what is under way and returns when nothing runs any more. It is safe to call twice.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
	s.http.CloseIdleConnections()
}

// Reset forgets rules, held and waiting messages and the log, and sets targets, scale and schedules back to the
// configuration. A try that is under way ends unlogged.
func (s *Sender) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.rules, s.log, s.messages, s.first, s.seq = nil, nil, nil, 1, 0
	s.scale, s.profiles, s.targets = s.cfg.Scale, maps.Clone(s.cfg.Profiles), maps.Clone(s.cfg.Targets)
	if s.targets == nil {
		s.targets = map[string]string{}
	}
	for _, l := range s.lanes {
		s.pending -= l.clear()
	}
	s.change()
}

// SetTarget says where the messages of a gateway ("stripe") or of one of its accounts ("stripe/<account>") go; an empty
// address takes the target away.
func (s *Sender) SetTarget(key, to string) error {
	gateway, _, _ := strings.Cut(key, "/")
	if gateway == "" {
		return errors.New(`a target is named "<gateway>" or "<gateway>/<account>"`)
	}
	if to != "" {
		u, err := url.Parse(to)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("the target of %s must be an absolute http(s) address", key)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.targets[key] = to; to == "" {
		delete(s.targets, key)
	}
	return nil
}

// Targets returns where messages go.
func (s *Sender) Targets() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.targets)
}

// SetScale changes how much the waits between tries are shortened, for waits that begin from now on.
func (s *Sender) SetScale(scale float64) error {
	if !(scale > 0) || math.IsInf(scale, 0) {
		return errors.New("the scale must be above zero: 1 is real time, 0.001 makes an hour 3.6 seconds")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scale = scale
	return nil
}

// SetProfile changes how a gateway's messages are delivered.
func (s *Sender) SetProfile(gateway string, p Profile) error {
	if p.Timeout <= 0 {
		p.Timeout = plainProfile().Timeout
	}
	for _, d := range p.Resends {
		if d < 0 {
			return errors.New("a wait before a resend must not be negative")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.profiles[gateway] = p
	return nil
}

// target expects the lock to be held.
func (s *Sender) target(m *Message) string {
	if to, ok := s.targets[m.Gateway+"/"+m.Account]; ok {
		return to
	}
	return s.targets[m.Gateway]
}

// Notify takes a message and returns at once.
func (s *Sender) Notify(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	n := s.keep(&m)
	first := &delivery{number: n, message: &m}
	r := s.take(m)
	if r == nil {
		s.schedule(first, 0)
		return
	}
	switch {
	case r.Lose:
		s.note(first, Delivery{Outcome: Lost})
	case r.Hold:
		r.held = append(r.held, first)
		s.note(first, Delivery{Outcome: Held})
	case r.Shuffle > 0:
		s.gather(r, first)
	default:
		s.dispatch(r, first)
	}
}

// keep stores a message for resends by hand and returns its number. It expects the lock to be held.
func (s *Sender) keep(m *Message) int64 {
	s.messages = append(s.messages, m)
	if len(s.messages) >= 2*s.cfg.Kept {
		drop := len(s.messages) - s.cfg.Kept
		s.messages, s.first = append([]*Message(nil), s.messages[drop:]...), s.first+int64(drop)
	}
	return s.first + int64(len(s.messages)) - 1
}

// dispatch sends a message as its rule wants it. It expects the lock to be held.
func (s *Sender) dispatch(r *rule, first *delivery) {
	if r.Parallel {
		for i := range r.Copies {
			s.schedule(first.another(i+1), r.Delay)
		}
	} else {
		first.chain(r.Copies)
	}
	s.schedule(first, r.Delay)
}

// chain appends copies that go out one after another, and returns the last.
func (d *delivery) chain(copies int) *delivery {
	last := d
	for i := range copies {
		c := d.another(i + 1)
		last.next = append(last.next, c)
		last = c
	}
	return last
}

func (d *delivery) another(copy int) *delivery {
	return &delivery{number: d.number, message: d.message, copy: copy}
}

// Resend delivers a kept message once more, with new headers, as a provider's dashboard does; like a new message it is
// tried again by the schedule.
func (s *Sender) Resend(message int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := message - s.first
	if i < 0 || i >= int64(len(s.messages)) {
		return errors.New("there is no message " + strconv.FormatInt(message, 10) + ", or it is no longer kept")
	}
	s.schedule(&delivery{number: message, message: s.messages[i], byHand: true}, 0)
	return nil
}

// Await returns when the log satisfies ok, or with the context's error. Deliveries are in order of their ends.
func (s *Sender) Await(ctx context.Context, ok func([]Delivery) bool) error {
	for {
		s.mu.Lock()
		log, changed := append([]Delivery(nil), s.log...), s.changed
		s.mu.Unlock()
		if ok(log) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the webhooks did not come so far (%d deliveries logged): %w", len(log), ctx.Err())
		}
	}
}

// AwaitIdle returns when nothing waits or is under way, held messages aside, or with the context's error.
func (s *Sender) AwaitIdle(ctx context.Context) error {
	for {
		s.mu.Lock()
		pending, changed := s.pending, s.changed
		s.mu.Unlock()
		if pending == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d webhooks still wait or are under way: %w", pending, ctx.Err())
		}
	}
}

// change wakes whoever waits. It expects the lock to be held.
func (s *Sender) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}
