package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

// Goal: what TestFaultsOfThePayment shows for Stripe holds for every provider, and with every fact about a provider that nobody
// could verify taken both ways. Method: the same table of faults, one world per provider; switches are turned in the sandbox
// while the same world runs on. Counts come from the providers' books.

// unknowns are a provider's trials: every mishap at every write, an error the provider keeps, and a decline.
func unknowns(p *psp, tag string, wants func(step string, m mishap, happened bool) end) []*trial {
	before, after := mishaps()
	if p == &twoctwop { // whether the repeat overtakes the held first request decides who gets the token: both ends are right
		after = slices.DeleteFunc(after, func(m mishap) bool { return m.name == "stuck" })
	}
	before = append(before, mishap{"stored", faults.Fault{Action: faults.StoreError}})
	after = append(after, mishap{"stored_done", faults.Fault{Action: faults.StoreError, Effect: true}})
	var out []*trial
	for i, group := range [][]mishap{before, after} {
		for _, m := range group {
			if p.prepare != nil {
				x := &trial{name: tag + "_prepare_" + m.name, psp: p, fault: m.fault, want: wants("prepare", m, i == 1)}
				x.onPrepare()
				out = append(out, x)
			}
			x := &trial{name: tag + "_confirm_" + m.name, psp: p, fault: m.fault, want: wants("confirm", m, i == 1)}
			x.onConfirm()
			out = append(out, x)
		}
	}
	no := &trial{name: tag + "_declined", psp: p, fault: faults.Fault{Action: faults.Refuse}, want: declined}
	no.onConfirm()
	return append(out, no)
}

// turned are the switches to turn: all of them in the long run, one otherwise.
func turned[T any](switches map[string]T, short string) map[string]T {
	if long() {
		return switches
	}
	return map[string]T{short: switches[short]}
}

// always: whatever goes wrong, it is found out without a person.
func always(string, mishap, bool) end { return done }

func TestUnknownsAtOmise(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "14s"))
	w.all(unknowns(&omise, "token", always))
	w.booksAgree()
	for tag, change := range turned(map[string]func(*omisesim.Settings){
		"used404":  func(s *omisesim.Settings) { s.UsedTokenStatus = 404 },
		"usedcode": func(s *omisesim.Settings) { s.UsedSourceCode = "invalid_charge" },
		"listlag":  func(s *omisesim.Settings) { s.ListLag = 1500 * time.Millisecond },
	}, "listlag") {
		w.sub(tag, func(w *world) {
			before := w.sandbox.Omise().Settings()
			w.sandbox.Omise().Configure(change)
			w.all(unknowns(&omise, tag, always))
			w.sandbox.Omise().Configure(func(s *omisesim.Settings) { *s = before })
		})
	}
	w.booksAgree()
}

// A stored card can be charged any number of times, so its charge is sent once, ever: what the list shows is adopted, and what
// it does not show is a person's.
func TestRule03_AStoredCardAtOmiseIsChargedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "6s"))
	trials := unknowns(&omiseCustomer, "stored", func(_ string, _ mishap, happened bool) end {
		if happened {
			return done
		}
		return unpaid // also after "too many requests": that it was not executed is nowhere promised
	})
	w.all(trials)
	for _, x := range trials {
		assert.Equal(t, 1, w.number("SELECT sum(sends) FROM operations WHERE order_id = $1 AND kind = 'confirm'", x.name), x.name)
	}
	w.booksAgree()
}

func TestUnknownsAt2C2P(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "10s"))
	// Where the token's answer is lost, the token is lost: the invoice number stays ours, nothing can be paid under it by us, and only
	// time makes "not found" final.
	lostToken := func(step string, m mishap, happened bool) end {
		if step == "prepare" && happened && m.name != "slow" {
			return unpaid
		}
		return done
	}
	w.all(unknowns(&twoctwop, "plain", lostToken))
	w.booksAgree()
	for tag, change := range turned(map[string]func(*twoctwopsim.Settings){
		"short":     func(s *twoctwopsim.Settings) { s.PadAmounts = false },
		"duplicate": func(s *twoctwopsim.Settings) { s.DuplicateAt = twoctwopsim.AtPayment },
		"signed":    func(s *twoctwopsim.Settings) { s.SignedErrors = true },
		"plainonly": func(s *twoctwopsim.Settings) { s.Wrapping = twoctwopsim.Plain },
	}, "duplicate") {
		w.sub(tag, func(w *world) {
			before := w.sandbox.TwoCTwoP().Settings()
			w.sandbox.TwoCTwoP().Configure(change)
			wants := lostToken
			if tag == "duplicate" { // a second token under the same number, until a payment was begun
				wants = always
			}
			w.all(unknowns(&twoctwop, tag, wants))
			w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { *s = before })
		})
	}
	w.booksAgree()
}

func TestUnknownsAtToss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "10s"))
	w.all(unknowns(&toss, "plain", always))
	w.booksAgree()
	if long() {
		w.webhooks() // how they come is a switch too
	}
	for tag, change := range turned(map[string]func(*tosssim.Settings){
		"stable-id":    func(s *tosssim.Settings) { s.StableTransmissionID = true },
		"status-first": func(s *tosssim.Settings) { s.CallbackFirst = false },
		"corrections":  func(s *tosssim.Settings) { s.CorrectionCancels = true },
		"errors-go":    func(s *tosssim.Settings) { s.KeepServerErrors = false },
		"decline-open": func(s *tosssim.Settings) { s.DeclineLeavesOpen = true },
	}, "errors-go") {
		w.sub(tag, func(w *world) {
			before := w.sandbox.Toss().Settings()
			w.sandbox.Toss().Configure(change)
			trials := unknowns(&toss, tag, always)
			if tag == "decline-open" { // a declined payment key could still be approved and nothing closes it but time: a person has it meanwhile
				trials[len(trials)-1].want = end{order: order.OrderOpen, attempt: order.AttemptDeclined, declined: true, review: order.ReviewRepeatedFailure}
			}
			w.all(trials)
			w.sandbox.Toss().Configure(func(s *tosssim.Settings) { *s = before })
		})
	}
	w.booksAgree()
}
