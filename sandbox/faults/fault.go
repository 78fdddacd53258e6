// Package faults makes the simulated outside world misbehave on demand: lost answers, late ones, refusals, rubbish.
//
// It must not know what a payment or an issuance is: it decides only how a request is carried and how its answer travels.
// It may import only the standard library.
package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Target names the simulated party that a fault hits.
type Target string

// The targets.
const (
	Stripe   Target = "stripe"
	Omise    Target = "omise"
	TwoCTwoP Target = "twoctwop"
	Toss     Target = "toss"
	Issuer   Target = "issuer"
	Receiver Target = "receiver"
)

// Action is what goes wrong.
type Action string

// The actions. "Effect" is the thing asked for: the charge, the issuance, the taking of an event.
const (
	LoseAnswer Action = "lose_answer" // do the effect, then cut the connection without a byte
	Late       Action = "late"        // do the effect, then answer after Delay
	Slow       Action = "slow"        // wait Delay, then do the effect, even when the caller has gone
	Drop       Action = "drop"        // cut the connection before any effect
	StoreError Action = "store_500"   // providers: a server error, kept under the idempotency key where there is one; Effect says whether it happened
	Status     Action = "status"      // answer Status, Code and Body without any effect
	Garbage    Action = "garbage"     // answer 200 with Body or rubbish; Effect says whether it happened
	Refuse     Action = "refuse"      // providers: a decline; issuer: 422; receiver: 400. Code is the reason
	Hang       Action = "hang"        // hold the request until the caller goes away; Effect says whether it happened
	Accept     Action = "accept"      // issuer: answer 202 "processing" and do the effect after Delay
)

// Fault is one thing that goes wrong for the requests it matches. Empty match fields match everything. One request meets
// at most one fault: the first one that matches and is not used up, in the order they were added.
type Fault struct {
	ID           string `json:"id"`     // chosen by the injector when empty
	Target       Target `json:"target"` // required
	Method       string `json:"method,omitempty"`
	PathSuffix   string `json:"path_suffix,omitempty"` // Stripe's paths begin with /v1/, the issuers' with /issuers/{kind}/
	PathContains string `json:"path_contains,omitempty"`
	BodyContains string `json:"body_contains,omitempty"` // looks at the raw form or JSON text

	Skip  int `json:"skip,omitempty"`  // let this many matching requests pass first
	Times int `json:"times,omitempty"` // 0 = until removed

	Action Action            `json:"action"` // required
	Delay  time.Duration     `json:"-"`      // in JSON: "delay", a text such as "250ms"
	Effect bool              `json:"effect,omitempty"`
	Status int               `json:"status,omitempty"`
	Code   string            `json:"code,omitempty"`
	Body   string            `json:"body,omitempty"`
	Header map[string]string `json:"header,omitempty"` // extra answer headers of status and garbage, such as Retry-After

	released chan struct{} // closed by Release: whoever is held by this fault goes on
}

// State is a fault and what became of it.
type State struct {
	Fault
	Fired  int  `json:"fired"`   // requests it hit
	UsedUp bool `json:"used_up"` // Times is reached; kept so that Fired can be read
}

type bare Fault

type wire struct {
	bare
	Delay string `json:"delay,omitempty"`
}

// MarshalJSON writes Delay as a duration text.
func (f Fault) MarshalJSON() ([]byte, error) { return json.Marshal(f.wire()) }

func (f Fault) wire() wire {
	w := wire{bare: bare(f)}
	if f.Delay != 0 {
		w.Delay = f.Delay.String()
	}
	return w
}

// UnmarshalJSON reads Delay as a duration text and refuses fields it does not know, since a misspelled match field would
// silently hit everything.
func (f *Fault) UnmarshalJSON(b []byte) error {
	var w wire
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return err
	}
	if w.Delay != "" {
		delay, err := time.ParseDuration(w.Delay)
		if err != nil {
			return fmt.Errorf("delay must be a duration such as \"250ms\" or \"10s\": %w", err)
		}
		w.bare.Delay = delay
	}
	*f = Fault(w.bare)
	return nil
}

// MarshalJSON is needed because the embedded Fault's method would hide the counters.
func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		wire
		Fired  int  `json:"fired"`
		UsedUp bool `json:"used_up"`
	}{s.Fault.wire(), s.Fired, s.UsedUp})
}

// UnmarshalJSON is the counterpart for clients of the admin API.
func (s *State) UnmarshalJSON(b []byte) error {
	var w struct {
		wire
		Fired  int  `json:"fired"`
		UsedUp bool `json:"used_up"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	s.Fault, s.Fired, s.UsedUp = Fault(w.bare), w.Fired, w.UsedUp
	if w.Delay == "" {
		return nil
	}
	var err error
	s.Fault.Delay, err = time.ParseDuration(w.Delay)
	return err
}

// Validate says what is wrong with a fault and what would be right.
func (f Fault) Validate() error {
	switch f.Target {
	case Stripe, Omise, TwoCTwoP, Toss, Issuer, Receiver:
	default:
		return errors.New(`target must be "stripe", "omise", "twoctwop", "toss", "issuer" or "receiver"`)
	}
	switch f.Action {
	case LoseAnswer, Drop, Garbage, Refuse, Hang:
	case Late, Slow:
		if f.Delay <= 0 {
			return fmt.Errorf("action %s needs a delay greater than zero", f.Action)
		}
	case StoreError:
		if f.Target == Issuer || f.Target == Receiver {
			return errors.New("action store_500 exists for payment providers only")
		}
	case Accept:
		if f.Target != Issuer {
			return errors.New("action accept exists for target issuer only")
		}
	case Status:
		if f.Status < 200 || f.Status > 599 {
			return errors.New("action status needs a status from 200 to 599")
		}
	default:
		return errors.New("action must be one of lose_answer, late, slow, drop, store_500, status, garbage, refuse, hang, accept")
	}
	if f.Times < 0 || f.Skip < 0 || f.Delay < 0 {
		return errors.New("times, skip and delay must not be negative")
	}
	if f.Effect && (f.Action == Drop || f.Action == Status || f.Action == Refuse) {
		return fmt.Errorf("action %s never has an effect: leave effect out", f.Action)
	}
	return nil
}

func (f Fault) matches(target Target, method, path string, body []byte) bool {
	return f.Target == target &&
		(f.Method == "" || strings.EqualFold(f.Method, method)) &&
		strings.HasSuffix(path, f.PathSuffix) &&
		strings.Contains(path, f.PathContains) &&
		(f.BodyContains == "" || bytes.Contains(body, []byte(f.BodyContains)))
}
