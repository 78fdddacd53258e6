package twoctwop

import (
	"encoding/json"
	"time"

	"orderflow/gateways"
	"orderflow/internal/money"
	"orderflow/internal/secret"
)

// kept is what travels as Private from one observation to the later calls. The payment token pays, so it is a secret; the
// rest is what an inquiry does not say: how old the token is, what it was made for, and what the buyer was last asked to do.
type kept struct {
	Token    string               `json:"token"`
	Page     string               `json:"page,omitempty"` // the hosted page
	Made     int64                `json:"made"`           // our clock, seconds
	Amount   int64                `json:"amount"`         // minor units
	Currency money.Currency       `json:"currency"`
	Hosted   bool                 `json:"hosted,omitempty"` // the buyer pays on the hosted page
	Next     *gateways.NextAction `json:"next,omitempty"`   // set once a confirm was answered
}

func (k kept) seal() secret.Value { return secret.New(string(encode(k))) }

// unkeep reads Private. Absent or foreign text reads as nothing kept.
func unkeep(v secret.Value) (kept, bool) {
	var k kept
	if v.IsZero() || json.Unmarshal([]byte(v.Reveal()), &k) != nil || k.Token == "" {
		return kept{}, false
	}
	return k, true
}

func (k kept) age(now time.Time) time.Duration { return now.Sub(time.Unix(k.Made, 0)) }
