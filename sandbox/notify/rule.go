package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Rule is what happens to the messages it matches. Empty match fields match everything; a message meets at most one rule:
// the first one that matches and is not used up, in the order they were added. Its effects may be combined.
type Rule struct {
	ID           string // chosen by the sender when empty
	Gateway      string
	Account      string
	Kind         string // the event type; a "*" at its end stands for anything
	BodyContains string

	Skip  int // let this many matching messages pass first
	Times int // 0 = until removed

	Lose     bool          // never send
	Hold     bool          // keep until Release
	Copies   int           // so many further deliveries of the same message
	Parallel bool          // the copies go out together instead of one after another
	Delay    time.Duration // wait before the first try
	Shuffle  time.Duration // gather messages for this long, then send them one by one in another order
}

// RuleState is a rule and what became of it.
type RuleState struct {
	Rule
	Met    int  // messages it hit
	UsedUp bool // Times is reached; kept so that Met can be read
	Held   int  // messages that wait for Release
}

// Validate says what is wrong with a rule and what would be right.
func (r Rule) Validate() error {
	switch {
	case r.Skip < 0 || r.Times < 0 || r.Copies < 0 || r.Delay < 0 || r.Shuffle < 0:
		return errors.New("skip, times, copies, delay and shuffle must not be negative")
	case r.Copies > maxCopies:
		return fmt.Errorf("copies must not be more than %d", maxCopies)
	case !r.Lose && !r.Hold && r.Copies == 0 && r.Delay == 0 && r.Shuffle == 0:
		return errors.New("a rule needs an effect: lose, hold, copies, delay or shuffle")
	case r.Lose && (r.Hold || r.Copies > 0 || r.Delay > 0 || r.Shuffle > 0):
		return errors.New("a lost message has no other fate: leave hold, copies, delay and shuffle out")
	case r.Parallel && r.Copies == 0:
		return errors.New("parallel belongs to copies: say how many")
	case r.Shuffle > maxShuffle:
		return fmt.Errorf("shuffle must not be longer than %s", maxShuffle)
	}
	return nil
}

// Bounds of a rule: beyond them it is a flood or a leak, not a webhook.
const (
	maxCopies  = 200
	maxShuffle = time.Hour
)

func (r Rule) matches(m Message) bool {
	prefix, open := strings.CutSuffix(r.Kind, "*")
	return (r.Gateway == "" || r.Gateway == m.Gateway) &&
		(r.Account == "" || r.Account == m.Account) &&
		(r.Kind == "" || r.Kind == m.Kind || (open && strings.HasPrefix(m.Kind, prefix))) &&
		(r.BodyContains == "" || bytes.Contains(m.Body, []byte(r.BodyContains)))
}

// ruleJSON is the form of the admin API: durations are texts such as "250ms".
type ruleJSON struct {
	ID           string `json:"id,omitempty"`
	Gateway      string `json:"gateway,omitempty"`
	Account      string `json:"account,omitempty"`
	Kind         string `json:"kind,omitempty"`
	BodyContains string `json:"body_contains,omitempty"`
	Skip         int    `json:"skip,omitempty"`
	Times        int    `json:"times,omitempty"`
	Lose         bool   `json:"lose,omitempty"`
	Hold         bool   `json:"hold,omitempty"`
	Copies       int    `json:"copies,omitempty"`
	Parallel     bool   `json:"parallel,omitempty"`
	Delay        string `json:"delay,omitempty"`
	Shuffle      string `json:"shuffle,omitempty"`
}

func textOf(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func (r Rule) json() ruleJSON {
	return ruleJSON{
		r.ID, r.Gateway, r.Account, r.Kind, r.BodyContains, r.Skip, r.Times, r.Lose, r.Hold, r.Copies, r.Parallel,
		textOf(r.Delay), textOf(r.Shuffle),
	}
}

// MarshalJSON writes durations as texts.
func (r Rule) MarshalJSON() ([]byte, error) { return json.Marshal(r.json()) }

// UnmarshalJSON reads durations as texts and refuses fields it does not know, since a misspelled match field would
// silently hit everything.
func (r *Rule) UnmarshalJSON(b []byte) error {
	var w ruleJSON
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return err
	}
	*r = Rule{
		ID: w.ID, Gateway: w.Gateway, Account: w.Account, Kind: w.Kind, BodyContains: w.BodyContains, Skip: w.Skip,
		Times: w.Times, Lose: w.Lose, Hold: w.Hold, Copies: w.Copies, Parallel: w.Parallel,
	}
	var err error
	if r.Delay, err = durationOf("delay", w.Delay); err != nil {
		return err
	}
	r.Shuffle, err = durationOf("shuffle", w.Shuffle)
	return err
}

func durationOf(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s must be a duration such as \"250ms\" or \"10s\"", name)
	}
	return d, nil
}

// MarshalJSON is needed because the embedded Rule's method would hide the counters.
func (s RuleState) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ruleJSON
		Met    int  `json:"met"`
		UsedUp bool `json:"used_up"`
		Held   int  `json:"held"`
	}{s.Rule.json(), s.Met, s.UsedUp, s.Held})
}
