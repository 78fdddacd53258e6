package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
)

// Goal: a fault before, during and after the effect of every outside step ends in the same place as no fault: one charge, one
// issuance, one notice - or in a review, where only a person can find out. Method: a table of steps and faults, many orders
// per world, each hit by its own fault; counts come from the sandbox's books. Not covered here: processes that die
// (killed_test.go) and lost database answers (commits_test.go).

// mishap is one fault, told apart by its name.
type mishap struct {
	name  string
	fault faults.Fault
}

// longer is above every time-out of the other side in these worlds, and below the bound of lookups.
const longer = 2500 * time.Millisecond

// mishaps are what can go wrong with any request. In the first group nothing happens, in the second it does.
func mishaps() (before, after []mishap) {
	before = []mishap{
		{"drop", faults.Fault{Action: faults.Drop}},
		{"garbage", faults.Fault{Action: faults.Garbage}},
		{"busy", faults.Fault{Action: faults.Status, Status: 429, Code: "rate_limit"}},
		{"away", faults.Fault{Action: faults.Status, Status: 503}},
		{"hang", faults.Fault{Action: faults.Hang}},
	}
	after = []mishap{
		{"lost", faults.Fault{Action: faults.LoseAnswer}},
		{"late", faults.Fault{Action: faults.Late, Delay: longer}},
		{"slow", faults.Fault{Action: faults.Slow, Delay: 300 * time.Millisecond}},
		{"stuck", faults.Fault{Action: faults.Slow, Delay: longer}},
		{"garbled", faults.Fault{Action: faults.Garbage, Effect: true}},
		{"hung", faults.Fault{Action: faults.Hang, Effect: true}},
	}
	return before, after
}

// end is where an order has to come to.
type end struct {
	order    order.Status
	attempt  order.Status
	charges  int
	issued   int
	review   order.ReviewReason // the one open review; empty for none
	declined bool               // the buyer may try again
}

var (
	done     = end{order: order.OrderCompleted, attempt: order.AttemptSucceeded, charges: 1, issued: 1}
	declined = end{order: order.OrderOpen, attempt: order.AttemptClosed, declined: true}
	unpaid   = end{order: order.OrderOpen, attempt: order.AttemptUnknown, review: order.ReviewConfirmUnknown}
)

func parkedUnit(issued int) end {
	return end{order: order.OrderPaid, attempt: order.AttemptSucceeded, charges: 1, issued: issued, review: order.ReviewIssuanceUnknown}
}

// trial is one order with its fault.
type trial struct {
	name   string // of order, token and return URL: letters, digits and underscores
	psp    *psp   // nil = Stripe
	issuer string
	card   string // nothing = one that pays
	fault  faults.Fault
	want   end

	until func() bool // where the fault holds a request: what has to be seen before it is let go
}

// onPrepare, onConfirm and so on aim a fault at one order.
func (x *trial) onPrepare() { x.provider().onPrepare(x) }
func (x *trial) onConfirm() { x.provider().onConfirm(x) }
func (x *trial) provider() *psp {
	if x.psp == nil {
		return &stripe
	}
	return x.psp
}
func (x *trial) onIssue()   { x.aim(faults.Issuer, "POST", "/issuances", `"`+x.name+`"`) }
func (x *trial) onDeliver() { x.aim(faults.Receiver, "POST", "", `"`+x.name+`"`) }
func (x *trial) onIssuerLookup() {
	unit := order.UnitKey{Order: order.ID(x.name), Line: 2, Ordinal: 1, Action: order.ActionIssue, Revision: 1}.ID()
	x.aim(faults.Issuer, "GET", "/"+string(order.IssueOperation(unit, 1)), "")
}

func (x *trial) aim(target faults.Target, method, suffix, body string) {
	x.fault.Target, x.fault.Method, x.fault.PathSuffix, x.fault.BodyContains = target, method, suffix, body
	if x.fault.Times == 0 {
		x.fault.Times = 1
	}
	x.fault.ID = x.name
}

func (x *trial) payment() map[string]any { return x.provider().payment(x.name, x.card) }

// start places a trial's order, arms its fault and presses pay in the background.
func (w *world) begin(x *trial) <-chan answer {
	w.t.Helper()
	if x.issuer == "" {
		x.issuer = "tickets"
	}
	w.placeIn(x.name, x.provider().currency, grant("g", 1, 500), issued(x.issuer, "t", 1, 100))
	w.arm(x.fault)
	return w.later("POST", path(x.name)+"/payments", "pay-"+x.name, x.payment())
}

// ends waits until a trial has come to its end, and counts.
func (w *world) ends(x *trial) {
	w.t.Helper()
	w.await(x.name+" at its end", func() bool { return w.cameTo(x.name) == x.want })
}

// cameTo is where an order stands now: our states, and the counts of the other side's books.
func (w *world) cameTo(id string) end {
	w.t.Helper()
	e := end{
		order:   order.Status(w.text("SELECT status FROM orders WHERE order_id = $1", id)),
		attempt: order.Status(w.text("SELECT coalesce((SELECT status FROM payment_attempts WHERE order_id = $1 ORDER BY created_at DESC LIMIT 1), '')", id)),
		review:  order.ReviewReason(w.text("SELECT coalesce(string_agg(reason, '+' ORDER BY reason), '') FROM reviews WHERE order_id = $1 AND status = 'open'", id)),
		charges: w.captured(id), issued: len(w.sandbox.Issuers().Issuances(issuersim.Filter{OrderID: id})),
	}
	e.declined = w.number("SELECT count(*) FROM outbox_events WHERE order_id = $1 AND type = 'payment.declined'", id) > 0
	return e
}

// all runs trials side by side and judges them.
func (w *world) all(trials []*trial) {
	w.t.Helper()
	answers := make([]<-chan answer, len(trials))
	for i, x := range trials {
		answers[i] = w.begin(x)
	}
	for i, x := range trials {
		a := <-answers[i]
		assert.Contains(w.t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s: %s", x.name, a.Raw)
	}
	for _, x := range trials {
		if x.until != nil {
			w.await(x.name+" to be let go", x.until)
			w.sandbox.Faults().Release(x.name)
		}
	}
	for _, x := range trials {
		if assert.Eventually(w.t, func() bool { return w.cameTo(x.name) == x.want }, 90*time.Second, 50*time.Millisecond, x.name) {
			continue
		}
		assert.Equal(w.t, x.want, w.cameTo(x.name), x.name)
	}
	for _, x := range trials {
		s, ok := w.sandbox.Faults().Get(x.name)
		assert.True(w.t, ok && s.Fired > 0, "%s: the fault was met", x.name)
		w.settled(x.name)
		assert.Equal(w.t, x.want, w.cameTo(x.name), "%s: at rest", x.name)
		w.noticedOnce(x)
	}
}

// noticedOnce counts effects at the receiver: each event of the order once.
func (w *world) noticedOnce(x *trial) {
	w.t.Helper()
	got := map[string]int{}
	for _, e := range w.sandbox.Receiver().Effects(receiver.Filter{OrderID: x.name}) {
		got[e.Type]++
	}
	want := map[string]int{}
	if x.want.charges > 0 {
		want["order.paid"] = 1
	}
	if x.want.order == order.OrderCompleted {
		want["order.completed"] = 1
	}
	if x.want.declined {
		want["payment.declined"] = 1
	}
	assert.Equal(w.t, want, got, "%s: notices", x.name)
}

func TestFaultsOfThePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "10s"))
	before, after := mishaps()
	var trials []*trial
	for _, m := range append(before, after...) {
		p := &trial{name: "prepare_" + m.name, fault: m.fault, want: done}
		p.onPrepare()
		c := &trial{name: "confirm_" + m.name, fault: m.fault, want: done}
		c.onConfirm()
		trials = append(trials, p, c)
	}
	// A provider that keeps its 500 under our key answers it to every repeat. Where it acted, a lookup says so: by its id, or
	// by our reference where the id never came.
	stored := []*trial{
		{name: "prepare_stored", fault: faults.Fault{Action: faults.StoreError}, want: unpaid},
		{name: "prepare_stored_done", fault: faults.Fault{Action: faults.StoreError, Effect: true}, want: done},
		{name: "confirm_stored", fault: faults.Fault{Action: faults.StoreError}, want: unpaid},
		{name: "confirm_stored_done", fault: faults.Fault{Action: faults.StoreError, Effect: true}, want: done},
		{name: "confirm_refused", fault: faults.Fault{Action: faults.Refuse}, want: declined},
	}
	for i, x := range stored {
		if i < 2 {
			x.onPrepare()
		} else {
			x.onConfirm()
		}
	}
	w.all(append(trials, stored...))
	for _, x := range trials {
		assert.Len(t, w.sandbox.Stripe().Charges(stripesim.Filter{MerchantReference: w.references(x.name)[0]}), 1, "%s: the card was tried once", x.name)
	}
	w.detailsCanBePasted("prepare_stored", "confirm_stored")
	w.booksAgree()
}

func TestFaultsOfTheIssuers(t *testing.T) {
	t.Parallel()
	psps := []*psp{&stripe, &omise, &twoctwop, &toss}
	if !long() { // who was paid by what is shared out
		faultsOfTheIssuers(t, psps)
		return
	}
	for _, p := range psps {
		t.Run(p.gateway, func(t *testing.T) {
			t.Parallel()
			faultsOfTheIssuers(t, []*psp{p})
		})
	}
}

func faultsOfTheIssuers(t *testing.T, psps []*psp) {
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "15s"))
	w.sandbox.Issuers().SetLookupLag(700 * time.Millisecond)
	before, after := mishaps()
	var trials []*trial
	add := func(issuer string, m mishap, want end) {
		x := &trial{name: issuer + "_" + m.name, psp: psps[len(trials)%len(psps)], issuer: issuer, fault: m.fault, want: want}
		x.onIssue()
		trials = append(trials, x)
	}
	accepted := mishap{"accepted", faults.Fault{Action: faults.Accept, Delay: 500 * time.Millisecond}}
	refused := mishap{"refused", faults.Fault{Action: faults.Refuse}}
	never := parkedUnit(0)
	never.review = order.ReviewIssuanceRefused
	for _, m := range before {
		add("tickets", m, done)
		if m.name == "busy" { // an answer that says "not done": the same request goes again, to every kind
			add("labels", m, done)
			add("vouchers", m, done)
			continue
		}
		add("labels", m, parkedUnit(0)) // nothing is found, and nothing found proves nothing here
		add("vouchers", m, parkedUnit(0))
	}
	for _, m := range append(after, accepted) {
		add("tickets", m, done)
		add("labels", m, done)
		if m.name == "slow" { // within the time-out
			add("vouchers", m, done)
		} else {
			add("vouchers", m, parkedUnit(1))
		}
	}
	for _, issuer := range []string{"tickets", "labels", "vouchers"} {
		add(issuer, refused, never)
	}
	w.all(trials)
	for _, x := range trials {
		if x.issuer == "tickets" {
			continue // it guards itself: a repeat is the way to find out
		}
		posts := 0
		for _, r := range w.sandbox.Issuers().Requests(issuersim.Filter{}) {
			if r.Method == "POST" && strings.Contains(r.Body, `"`+x.name+`"`) {
				posts++
			}
		}
		if strings.HasSuffix(x.name, "_busy") {
			posts--
		}
		assert.Equal(t, 1, posts, "%s: sent once, ever", x.name)
	}
	w.detailsCanBePasted("vouchers_lost", "labels_drop", "tickets_refused")
	w.booksAgree()
}

// TestFaultsOfLookups: the answer to the write is lost, and then the lookups go wrong as well.
func TestFaultsOfLookups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "60s"), with("STRIPE_TIMEOUT", "1s"), with("OMISE_TIMEOUT", "1s"), with("TWOCTWOP_TIMEOUT", "1s"), with("TOSS_TIMEOUT", "1s"))
	before, after := mishaps()
	var issuers []*trial
	for _, m := range append(before, after...) {
		for _, issuer := range []string{"tickets", "labels"} {
			x := &trial{name: issuer + "_" + m.name, issuer: issuer, fault: m.fault, want: done}
			x.fault.Times = 2
			x.onIssuerLookup()
			issuers = append(issuers, x)
			w.arm(faults.Fault{Target: faults.Issuer, Method: "POST", BodyContains: `"` + x.name + `"`, Times: 1, Action: faults.LoseAnswer})
		}
	}
	w.all(issuers)
	// A lookup at a PSP is known only by the PSP's id, so these go one by one at each of them. In the short run each mishap
	// comes at one PSP, in the long one at all.
	all := append(before, append(after, mishap{"stored", faults.Fault{Action: faults.StoreError}})...)
	psps := []*psp{&stripe, &omise, &twoctwop, &toss}
	rounds := len(all)
	if !long() {
		rounds = (len(all) + len(psps) - 1) / len(psps)
	}
	for i := range rounds {
		var round []*trial
		for j, p := range psps {
			m := all[(i+j*rounds)%len(all)]
			x := &trial{name: p.gateway + "_" + m.name, psp: p, fault: m.fault, want: done}
			x.fault.Times = 2
			lost := anyConfirm(p, false)
			lost.Action, lost.Times = faults.LoseAnswer, 1
			switch p {
			case &twoctwop:
				x.aim(lost.Target, "POST", "/paymentInquiry", "")
			default:
				x.aim(lost.Target, "GET", "", "")
			}
			w.arm(lost)
			round = append(round, x)
		}
		w.all(round)
		for _, x := range round { // a slow answer was waited for, and its second one would meet the next round's order
			w.sandbox.Faults().Remove(x.name)
		}
	}
	w.booksAgree()
}

// TestFaultsOfClosing: after a decline the intent is canceled, so that it can never capture. Until that is sure, no second
// attempt is possible. Only Stripe has this write: at Omise, 2C2P and Toss a token, a payment token and a payment key that were declined
// pay nothing any more, and where that is in doubt (Toss, DeclineLeavesOpen in switches_test.go) nothing but time closes it.
func TestFaultsOfClosing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "5s"), with("STRIPE_TIMEOUT", "1s"))
	before, after := mishaps()
	list := append(before, append(after,
		mishap{"stored_done", faults.Fault{Action: faults.StoreError, Effect: true}},
		mishap{"stored", faults.Fault{Action: faults.StoreError}})...) // the last: it stays open, and is looked at again
	for _, m := range list {
		x := &trial{name: "cancel_" + m.name, card: "pm_card_visa_chargeDeclined", fault: m.fault, want: declined}
		x.aim(faults.Stripe, "POST", "/cancel", "")
		if m.name == "stored" {
			x.want.attempt, x.want.review = order.AttemptDeclined, order.ReviewRepeatedFailure
		}
		w.all([]*trial{x})
		a := w.call("POST", path(x.name)+"/payments", "again-"+x.name, payBody("pm_card_visa"))
		if m.name == "stored" {
			assert.Equal(t, http.StatusConflict, a.Status, "the first attempt may still capture: %s", a.Raw)
			continue
		}
		require.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s: the buyer may try another card: %s", x.name, a.Raw)
		w.awaitStatus(x.name, "completed")
		w.settled(x.name)
		assert.Equal(t, 1, w.captured(x.name))
	}
	w.detailsCanBePasted("cancel_stored")
	w.booksAgree()
}

func TestFaultsOfDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, after := mishaps()
	var trials []*trial
	for _, m := range append(before, append(after, mishap{"refused", faults.Fault{Action: faults.Refuse}})...) {
		if m.name == "garbage" {
			continue // a 2xx says that it was taken, whatever its body
		}
		x := &trial{name: "deliver_" + m.name, fault: m.fault, want: done}
		x.onDeliver()
		trials = append(trials, x)
	}
	w.all(trials)
	gone := &trial{name: "deliver_gone", fault: faults.Fault{Action: faults.Status, Status: http.StatusGone}}
	gone.onDeliver()
	<-w.begin(gone)
	w.await("the event parked", func() bool {
		return w.number("SELECT count(*) FROM reviews WHERE order_id = 'deliver_gone' AND reason = $1 AND status = 'open'", string(order.ReviewPoisonEvent)) == 1
	})
	w.awaitStatus("deliver_gone", "completed") // a receiver that is gone keeps no order open
	for _, x := range trials {
		var order []string
		for _, e := range w.sandbox.Receiver().Effects(receiver.Filter{OrderID: x.name}) {
			order = append(order, e.Type)
		}
		assert.Equal(t, []string{"order.paid", "order.completed"}, order, "%s: in order", x.name)
	}
	w.booksAgree()
}

func (e end) String() string {
	return fmt.Sprintf("order %s, attempt %s, %d charges, %d issued, review %q, declined %t", e.order, e.attempt, e.charges, e.issued, e.review, e.declined)
}
