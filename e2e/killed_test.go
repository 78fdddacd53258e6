package e2e

import (
	"net/http"
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

// Goal: a worker that dies, or is asked to stop, in the middle of any outside step leaves nothing done twice and nothing
// undone. Method: a fault holds the answer of one request of each order; when all of them are held - what has an effect is in
// the sandbox's books by then - one SIGKILL hits the worker and another worker takes over.

// heldSteps are the requests that a worker dies in: after the effect, and before it.
func heldSteps() []*trial {
	hold := func(effect bool) faults.Fault { return faults.Fault{Action: faults.Hang, Effect: effect} }
	var out []*trial
	for _, effect := range []bool{true, false} {
		suffix := map[bool]string{true: "_done", false: "_undone"}[effect]
		prepare := &trial{name: "prepare" + suffix, fault: hold(effect), want: done}
		prepare.onPrepare()
		confirm := &trial{name: "confirm" + suffix, fault: hold(effect), want: done}
		confirm.onConfirm()
		tickets := &trial{name: "tickets" + suffix, fault: hold(effect), issuer: "tickets", want: done}
		tickets.onIssue()
		labels := &trial{name: "labels" + suffix, fault: hold(effect), issuer: "labels", want: done}
		labels.onIssue()
		vouchers := &trial{name: "vouchers" + suffix, fault: hold(effect), issuer: "vouchers", want: parkedUnit(1)}
		vouchers.onIssue()
		deliver := &trial{name: "deliver" + suffix, fault: hold(effect), want: done}
		deliver.onDeliver()
		if !effect {
			labels.want, vouchers.want = parkedUnit(0), parkedUnit(0)
		}
		out = append(out, prepare, confirm, tickets, labels, vouchers, deliver)
	}
	return out
}

func TestKilledInTheMiddleOfEveryStep(t *testing.T) {
	t.Parallel()
	// Time-outs are long: nothing but the kill ends a held request.
	w := newWorld(t, workersDie, with("STRIPE_TIMEOUT", "20s"), with("ORDERFLOW_STEP_TIMEOUT", "30s"), with("ORDERFLOW_EVENT_TIMEOUT", "5s"),
		swap("ORDERFLOW_ISSUERS", `"timeout":"2s"`, `"timeout":"20s"`))
	trials := heldSteps()
	var answers []<-chan answer
	for _, x := range trials {
		answers = append(answers, w.begin(x))
		w.fired(x.name, 1)
	}
	w.killWorkers()
	w.startWorker()
	for i := range trials {
		a := <-answers[i]
		assert.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s: %s", trials[i].name, a.Raw)
	}
	for _, x := range trials {
		w.ends(x)
		w.settled(x.name)
		assert.Equal(t, x.want, w.cameTo(x.name), x.name)
		w.noticedOnce(x)
		assert.Len(t, w.sandbox.Stripe().Charges(stripesim.Filter{MerchantReference: w.references(x.name)[0]}), 1, "%s: the card was tried once", x.name)
	}
	assert.Len(t, w.writes("confirm_done", "/confirm"), 1, "charged, killed, looked up: never sent again")
	w.booksAgree()
}

// TestKilledAgainAndAgain: a worker that dies every second, wherever it is, is slow and never wrong.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersDie)
	const orders = 8
	names := numbered("storm-%d", orders)
	require.NoError(t, w.sandbox.Faults().SetLatency(faults.Stripe, 150*time.Millisecond))
	require.NoError(t, w.sandbox.Faults().SetLatency(faults.Issuer, 150*time.Millisecond))
	var answers []<-chan answer
	for _, name := range names {
		w.place(name, grant("g", 2, 500), issued("tickets", "t", 2, 100))
		answers = append(answers, w.later("POST", path(name)+"/payments", "pay-"+name, payBody("pm_card_visa")))
	}
	for i := range 5 {
		// As soon as something more has happened outside, the worker dies.
		before := len(w.sandbox.Stripe().Writes(stripesim.Filter{})) + len(w.sandbox.Issuers().Requests(issuersim.Filter{}))
		w.awaitFor(30*time.Second, "something to interrupt", func() bool {
			now := len(w.sandbox.Stripe().Writes(stripesim.Filter{})) + len(w.sandbox.Issuers().Requests(issuersim.Filter{}))
			return now > before || w.number("SELECT count(*) FROM orders WHERE status = 'completed'") == orders
		})
		w.killWorkers()
		w.startWorker()
		if i == 2 {
			w.startWorker() // two at once see the same work
		}
	}
	for _, ch := range answers {
		a := <-ch
		assert.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s", a.Raw)
	}
	for _, name := range names {
		w.awaitFor(90*time.Second, name+" completed", func() bool { return w.status(name) == string(order.OrderCompleted) })
		w.settled(name)
		assert.Equal(t, 1, w.captured(name), name)
		assert.Len(t, w.sandbox.Issuers().Issuances(issuersim.Filter{OrderID: name}), 2, name)
		assert.Len(t, w.sandbox.Receiver().Effects(receiver.Filter{OrderID: name}), 2, name)
	}
	w.booksAgree()
}

// TestAStoppedWorkerFinishesItsStep: SIGTERM is no crash. The step that runs gets its answer and keeps it, so the next worker
// has nothing to look up.
func TestAStoppedWorkerFinishesItsStep(t *testing.T) {
	t.Parallel()
	// A worker counts as dead late: none dies here, and on a busy machine a heartbeat may come late.
	w := newWorld(t, with("STRIPE_TIMEOUT", "10s"), with("ORDERFLOW_STEP_TIMEOUT", "30s"), with("ORDERFLOW_DEAD_WORKER_AFTER", "5s"))
	pay := &trial{name: "stopped_paying", fault: faults.Fault{Action: faults.Late, Delay: 1500 * time.Millisecond}, want: done}
	pay.onConfirm()
	issue := &trial{name: "stopped_issuing", issuer: "vouchers", fault: faults.Fault{Action: faults.Late, Delay: 1500 * time.Millisecond}, want: done}
	issue.onIssue()
	answers := []<-chan answer{w.begin(issue), w.begin(pay)}
	w.fired(issue.name, 1)
	w.fired(pay.name, 1)
	first := w.workers[0]
	first.stop()
	assert.True(t, first.cmd.ProcessState.Success(), "it ends in order: %s", first.cmd.ProcessState)
	assert.Equal(t, 1, w.number("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'confirm' AND outcome = 'succeeded'", pay.name), "the charge's answer was kept")
	assert.Equal(t, 1, w.number("SELECT count(*) FROM issuances WHERE order_id = $1 AND source = 'issuer'", issue.name), "so was the opaque issuer's")
	w.workers = nil
	w.startWorker()
	for i, x := range []*trial{issue, pay} {
		a := <-answers[i]
		assert.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s", a.Raw)
		w.ends(x)
		w.settled(x.name)
		assert.Equal(t, x.want, w.cameTo(x.name), x.name)
		w.noticedOnce(x)
		assert.Len(t, w.writes(x.name, "/confirm"), 1)
	}
	assert.Zero(t, w.sandbox.Stripe().Books(stripesim.Filter{}).Reads, "nothing had to be looked up")
	w.booksAgree()
}
