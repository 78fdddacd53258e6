package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
)

// Goal: what TestFaultsOfThePayment shows for Stripe holds for every provider, and with every fact about a provider that nobody
// could verify taken both ways (switches_test.go). Method: the same table of faults, one world per provider; switches are turned
// in the sandbox while the same world runs on. Counts come from the providers' books.

// unknowns are a provider's trials: every mishap at every write, an error the provider keeps, and a decline.
func unknowns(p *psp, tag string, wants wanted) []*trial {
	before, after := mishaps()
	if p.gateway == twoctwop.gateway { // whether the repeat overtakes the held first request decides who gets the token: both ends are right
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

// always: whatever goes wrong, it is found out without a person.
func always(string, mishap, bool) end { return done }

// unknowns runs a provider's trials with its switches as the sandbox has them, then with each turned by itself.
func (p provider) unknowns(t *testing.T) {
	t.Parallel()
	bound := with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", p.bound)
	w := newWorld(t, refundable, bound)
	if p.psp != &stripe || long() { // TestFaultsOfThePayment has just these
		w.all(unknowns(p.psp, "plain", p.wants))
	}
	w.lostElsewhere("plain", p.psp)
	w.booksAgree()
	for _, f := range p.flips {
		switch {
		case !long() && !f.short:
		case len(f.with) == 0:
			w.sub(f.name, func(w *world) { p.turned(w, f) })
		default:
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				own := newWorld(t, append(f.with, refundable, bound)...)
				p.turned(own, f)
			})
		}
	}
}

// turned is everything with one switch turned.
func (p provider) turned(w *world, f flip) {
	_, restore := p.settings(w.sandbox)
	defer restore()
	f.set(w.sandbox)
	if f.told {
		w.webhooks()
		defer w.noWebhooks()
	}
	wants := p.wants
	if f.wants != nil {
		wants = f.wants
	}
	speaks := p.psp
	if w.sandbox.TwoCTwoP().Settings().OtherPaths {
		speaks = &twoctwopElsewhere
	}
	trials := unknowns(speaks, f.name, wants)
	if f.closes != nil {
		trials[len(trials)-1].want = *f.closes
	}
	w.all(trials)
	if f.also != nil {
		f.also(w, f.name)
	}
	w.booksAgree()
}

// twoctwopElsewhere is 2C2P with its other spelling.
var twoctwopElsewhere = psp{
	gateway: twoctwop.gateway, currency: twoctwop.currency, pays: twoctwop.pays, declines: twoctwop.declines, token: twoctwop.token, prepare: twoctwop.prepare,
	confirm: func(x *trial) { x.aim(faults.TwoCTwoP, "POST", "/doPayment", "__"+x.name+`"`) },
}

// tossForeign is paid with a foreign wallet, whose partner gives back in its own time.
var tossForeign = psp{
	gateway: "toss", currency: "USD", pays: "pay_foreign",
	token: func(word, name, currency string, total int) map[string]any {
		amount := fmt.Sprintf("%d.%02d", total/100, total%100)
		reference := "ref-" + strings.ReplaceAll(name, ".", "-")
		return map[string]any{
			"type": "foreign_easy_pay", "token": strings.Join([]string{word, reference, amount, currency}, "__"), "reference": reference, "amount": amount,
		}
	},
}

// anyConfirm is the write that asks a provider for money, whoever pays.
func anyConfirm(p *psp, otherPaths bool) faults.Fault {
	switch p.gateway {
	case "stripe":
		return faults.Fault{Target: faults.Stripe, Method: "POST", PathSuffix: "/confirm"}
	case "omise":
		return faults.Fault{Target: faults.Omise, Method: "POST", PathSuffix: "/charges"}
	case "toss":
		return faults.Fault{Target: faults.Toss, Method: "POST", PathSuffix: "/v1/payments/confirm"}
	}
	f := faults.Fault{Target: faults.TwoCTwoP, Method: "POST", PathSuffix: "/payment"}
	if otherPaths {
		f.PathSuffix = "/doPayment"
	}
	return f
}

// noWebhooks ends what webhooks began.
func (w *world) noWebhooks() {
	w.t.Helper()
	for _, p := range providers() {
		require.NoError(w.t, w.sandbox.Webhooks().SetTarget(p.gateway, ""))
	}
}

func TestUnknownsAtStripe(t *testing.T) { stripeSwitches().unknowns(t) }
func TestUnknownsAtOmise(t *testing.T)  { omiseSwitches().unknowns(t) }
func TestUnknownsAt2C2P(t *testing.T)   { twoctwopSwitches().unknowns(t) }
func TestUnknownsAtToss(t *testing.T)   { tossSwitches().unknowns(t) }

// lostElsewhere: what the buyer ends elsewhere begins with a lost answer. The provider waits for the buyer, we find out what for,
// and the buyer pays once.
func (w *world) lostElsewhere(tag string, p *psp) {
	w.t.Helper()
	list := waysThat(func(x *way) bool { return x.psp == p && x.name != "twoctwop_hosted" }) // its confirm is our own address of a page
	if p.gateway == twoctwop.gateway {                                                       // what the buyer has to do is said once, and that answer is the lost one: he may know it all the same
		for i, x := range list {
			silent := *x
			silent.next, silent.says = "", nil
			list[i] = &silent
		}
	}
	lost := anyConfirm(p, w.sandbox.TwoCTwoP().Settings().OtherPaths)
	lost.ID, lost.Action, lost.Times = "elsewhere_"+tag+"_"+p.gateway, faults.LoseAnswer, len(list)
	w.arm(lost)
	asked := w.ask("lost_"+tag, list)
	state, ok := w.sandbox.Faults().Get(lost.ID)
	require.True(w.t, ok)
	assert.Equal(w.t, len(list), state.Fired, "%s: an answer was lost for every one", tag)
	for _, x := range asked {
		require.True(w.t, x.act(w, x.payment, true), "%s: the provider waits for the buyer", x.id)
	}
	w.paidOff(asked)
}

// refundsFoundOut: a refund's answer is lost, at a provider that may be at it for days.
func (w *world) refundsFoundOut(tag string, p refunding) {
	w.t.Helper()
	id := w.bought(p, "back_"+tag)
	lost := w.arm(p.on(p.write, faults.LoseAnswer, true, 1))
	a := w.refund(id, "r-"+id, ask(0))
	oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
	w.fired(lost, 1)
	w.awaitRefund(a.at("id"), order.RefundPending)
	w.went(id, trialTotal, 1)
	w.finishRefund(p, id)
	w.awaitRefund(a.at("id"), order.RefundSucceeded)
	w.went(id, trialTotal, 1)
	w.settled(id)
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
