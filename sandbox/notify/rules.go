package notify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// rule is a rule at work.
type rule struct {
	Rule
	met      int
	usedUp   bool
	held     []*delivery
	gathered []*delivery
}

func (r *rule) state() RuleState {
	return RuleState{Rule: r.Rule, Met: r.met, UsedUp: r.usedUp, Held: len(r.held)}
}

// AddRule arms a rule and returns its id.
func (s *Sender) AddRule(r Rule) (string, error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for r.ID == "" {
		s.nextRule++
		if id := "rule-" + strconv.Itoa(s.nextRule); s.find(id) < 0 {
			r.ID = id
		}
	}
	if s.find(r.ID) >= 0 {
		return "", fmt.Errorf("a rule with the id %q is there already: remove it first or leave the id out", r.ID)
	}
	s.rules = append(s.rules, &rule{Rule: r})
	return r.ID, nil
}

// find expects the lock to be held.
func (s *Sender) find(id string) int {
	return slices.IndexFunc(s.rules, func(r *rule) bool { return r.ID == id })
}

// take uses up the first rule that matches. It expects the lock to be held.
func (s *Sender) take(m Message) *rule {
	for _, r := range s.rules {
		if r.usedUp || !r.matches(m) {
			continue
		}
		if r.Skip > 0 {
			r.Skip--
			continue
		}
		r.met++
		r.usedUp = r.Times > 0 && r.met >= r.Times
		return r
	}
	return nil
}

// Rule returns a rule and what became of it.
func (s *Sender) Rule(id string) (RuleState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(id); i >= 0 {
		return s.rules[i].state(), true
	}
	return RuleState{}, false
}

// Rules returns every rule, used up or not, in the order they were added.
func (s *Sender) Rules() []RuleState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]RuleState, 0, len(s.rules))
	for _, r := range s.rules {
		out = append(out, r.state())
	}
	return out
}

// Release sends what a rule holds, with its other effects, and says how many messages that were. The rule stays.
func (s *Sender) Release(id string) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(id)
	if i < 0 {
		return 0, false
	}
	return s.release(s.rules[i]), true
}

// release expects the lock to be held.
func (s *Sender) release(r *rule) int {
	held := r.held
	r.held = nil
	for _, d := range held {
		if r.Shuffle > 0 {
			s.gather(r, d)
			continue
		}
		s.dispatch(r, d)
	}
	return len(held)
}

// RemoveRule disarms a rule and releases what it holds.
func (s *Sender) RemoveRule(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(id)
	if i < 0 {
		return false
	}
	s.release(s.rules[i])
	s.rules = append(s.rules[:i:i], s.rules[i+1:]...)
	return true
}

// ClearRules removes every rule and releases what they hold.
func (s *Sender) ClearRules() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rules {
		s.release(r)
	}
	s.rules = nil
}

// gather keeps a message until the rule's window, which begins with the first one, is over. It expects the lock to be held.
func (s *Sender) gather(r *rule, d *delivery) {
	r.gathered = append(r.gathered, d)
	s.pending++
	if len(r.gathered) > 1 {
		return
	}
	epoch := s.epoch
	s.after(r.Shuffle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		batch := r.gathered
		r.gathered = nil
		s.pending -= len(batch)
		if epoch == s.epoch {
			s.shuffled(r, batch)
		}
		s.change()
	})
}

// shuffled sends a batch one by one in an order that is never the original one. It expects the lock to be held.
func (s *Sender) shuffled(r *rule, batch []*delivery) {
	original := slices.Clone(batch)
	for len(batch) > 1 && slices.Equal(batch, original) {
		rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	}
	for i, d := range batch {
		tail := d.chain(r.Copies) // its copies go before the next message
		if i+1 < len(batch) {
			tail.next = append(tail.next, batch[i+1])
		}
	}
	s.schedule(batch[0], r.Delay)
}
