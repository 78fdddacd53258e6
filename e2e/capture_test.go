package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/stripesim"
)

// Goal: money that a buyer's bank holds is captured once, whatever becomes of the answer, of a process, or of a cancel that comes at
// the same moment; what cannot be found out is a person's. Method: one world per kind of death, Stripe and Omise side by side, counts
// from their books. Not covered: what is captured by hand at the provider (cases_captures_test.go).

// holders are the providers that can hold money.
var holders = map[*psp]faults.Target{&stripe: faults.Stripe, &omise: faults.Omise}

// authorized places an order and has its money held.
func (w *world) authorized(p *psp, id string) {
	w.t.Helper()
	w.placeIn(id, p.currency, grant("g", 1, 500), issued("tickets", "t", 1, 100))
	body := p.payment(id, "")
	body["capture"] = "later"
	oneOf(w.t, w.call("POST", path(id)+"/payments", "pay-"+id, body), http.StatusCreated, http.StatusAccepted)
	w.await(id+" held", func() bool {
		return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1 AND status = 'pending' AND held_minor = $2", id, trialTotal) == 1
	})
}

// onCapture aims a fault at an order's capture.
func (w *world) onCapture(p *psp, id string, f faults.Fault) string {
	w.t.Helper()
	f.Target, f.Method, f.PathSuffix, f.PathContains = holders[p], "POST", "/capture", w.paymentID(id)
	return w.arm(f)
}

func (w *world) capture(id, key string, body map[string]any) answer {
	w.t.Helper()
	if body == nil {
		body = map[string]any{}
	}
	return w.call("POST", path(id)+"/capture", key, body)
}

// captures are the requests to capture an order's money that reached the provider, as key and body.
func (w *world) captures(id string) []string {
	w.t.Helper()
	var out []string
	payment := "/" + w.paymentID(id) + "/capture"
	for _, e := range w.sandbox.Stripe().Writes(stripesim.Filter{PathSuffix: "/capture"}) {
		if strings.HasSuffix(e.Path, payment) {
			out = append(out, e.Key+" "+e.Body)
		}
	}
	for _, e := range w.sandbox.Omise().Writes(omisesim.Filter{PathSuffix: "/capture"}) {
		if strings.HasSuffix(e.Path, payment) {
			out = append(out, e.Body)
		}
	}
	return out
}

// taken waits until a capture has paid for its order, once.
func (w *world) taken(id string) {
	w.t.Helper()
	w.awaitStatus(id, "completed")
	w.settled(id)
	assert.Equal(w.t, done, w.cameTo(id), id)
	w.neverFailed(id)
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'capture' AND outcome = 'succeeded'", id), id)
	if sent := w.captures(id); assert.NotEmpty(w.t, sent) {
		for _, s := range sent {
			assert.Equal(w.t, sent[0], s, "%s: one key, one body", id)
		}
	}
}

func TestHeldMoneyIsCapturedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "3s"), with("ORDERFLOW_ANSWER_BUDGET", "4s"))
	w.webhooks()
	parts := map[string]func(w *world){"who cannot hold says so": (*world).cannotHold}
	for p := range holders {
		for name, part := range map[string]func(w *world, p *psp){
			"captured": (*world).heldThenCaptured, "lost and cut": (*world).captureLost, "many at once": (*world).capturedByMany,
			"canceled": (*world).heldThenCanceled, "canceled at the same moment": (*world).canceledWhileCaptured, "nobody finds out": (*world).captureParked,
			"refused": (*world).captureRefused, "the buyer's time is over": (*world).heldPastTheBuyersTime,
			"behind the bank's page": (*world).heldBehindThePage,
		} {
			parts[p.gateway+": "+name] = func(w *world) { part(w, p) }
		}
	}
	w.sideBySide(parts)
	w.booksAgree()
}

func (w *world) heldThenCaptured(p *psp) {
	id := "held_" + p.gateway
	w.authorized(p, id)
	shown := w.call("GET", path(id), "", nil)
	assert.Equal(w.t, "authorized", shown.at("states", "payment"), "%s", shown.Raw)
	assert.Equal(w.t, "open", shown.at("states", "order"))
	assert.Equal(w.t, "authorized", shown.at("buyer", "state"))
	assert.Equal(w.t, false, shown.at("buyer", "can_pay"))
	assert.EqualValues(w.t, trialTotal, shown.at("attempts", 0, "held"))
	assert.Zero(w.t, w.captured(id))
	assert.Empty(w.t, w.issuedFor(id), "nothing is handed over before the money is here")
	w.problem(w.call("POST", path(id)+"/payments", "again-"+id, p.payment(id+"_2", "")), http.StatusConflict, "attempt-held")
	w.problem(w.capture(id, "over-"+id, map[string]any{"amount": trialTotal + 1}), http.StatusUnprocessableEntity, "validation")
	w.problem(w.capture(id, "none-"+id, map[string]any{"amount": 0}), http.StatusUnprocessableEntity, "validation")
	assert.Empty(w.t, w.captures(id), "what is refused is not sent")

	a := w.capture(id, "capture-"+id, nil)
	oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
	w.taken(id)
	for _, key := range []string{"capture-" + id, "another-" + id} {
		a = w.capture(id, key, nil)
		oneOf(w.t, a, http.StatusCreated, http.StatusAccepted) // the first answer is kept under its key, also one that took longer
	}
	assert.Equal(w.t, "succeeded", a.at("outcome"), "%s", a.Raw)
	w.problem(w.capture(id, "less-"+id, map[string]any{"amount": 1}), http.StatusConflict, "capture-differs")
	assert.Len(w.t, w.captures(id), 1)
	w.explained(id, "capture")
}

func (w *world) captureLost(p *psp) {
	for name, f := range map[string]faults.Fault{
		"lost":  {Action: faults.LoseAnswer, Times: 1},
		"cut":   {Action: faults.Drop, Times: 2},
		"late":  {Action: faults.Late, Delay: longer, Times: 1},
		"busy":  {Action: faults.Status, Status: 429, Code: "rate_limit", Times: 1},
		"spoil": {Action: faults.Garbage, Effect: true, Times: 1},
	} {
		id := "capture_" + name + "_" + p.gateway
		w.authorized(p, id)
		met := w.onCapture(p, id, f)
		oneOf(w.t, w.capture(id, "capture-"+id, nil), http.StatusCreated, http.StatusAccepted)
		w.fired(met, f.Times)
		w.taken(id)
	}
}

func (w *world) capturedByMany(p *psp) {
	id := "captured_by_many_" + p.gateway
	w.authorized(p, id)
	keys := numbered("capture-"+p.gateway+"-%d", 10)
	for _, a := range atOnce(2*len(keys), func(i int) answer {
		a, _ := w.try("POST", path(id)+"/capture", keys[i%len(keys)], apiKey, map[string]any{})
		return a
	}) {
		oneOf(w.t, a, http.StatusCreated, http.StatusAccepted, http.StatusConflict)
		if a.Status == http.StatusConflict {
			w.problem(a, http.StatusConflict, "request-in-progress")
		}
	}
	w.taken(id)
	assert.Len(w.t, w.captures(id), 1)
}

func (w *world) heldThenCanceled(p *psp) {
	id := "held_canceled_" + p.gateway
	w.authorized(p, id)
	w.cancel(id)
	w.awaitCanceled(id)
	assert.Zero(w.t, w.captured(id))
	oneOf(w.t, w.capture(id, "capture-"+id, nil), http.StatusConflict)
	assert.Empty(w.t, w.captures(id))
	assert.Zero(w.t, w.number("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'capture'", id))
}

// canceledWhileCaptured: the capture is on its way when the cancel comes. Whichever the provider takes first, the money is not kept.
func (w *world) canceledWhileCaptured(p *psp) {
	id := "captured_canceled_" + p.gateway
	w.authorized(p, id)
	met := w.onCapture(p, id, faults.Fault{Action: faults.Late, Delay: longer, Times: 1})
	answer := w.later("POST", path(id)+"/capture", "capture-"+id, map[string]any{})
	w.fired(met, 1)
	w.cancel(id)
	oneOf(w.t, <-answer, http.StatusCreated, http.StatusAccepted)
	w.awaitCanceled(id)
	w.await(id+": the money is back", func() bool { m, _ := w.backAt(id); return m == trialTotal })
	assert.Empty(w.t, w.issuedFor(id))
}

// captureParked: the capture's answer is lost and then the provider is away for longer than anybody looks.
func (w *world) captureParked(p *psp) {
	id := "capture_parked_" + p.gateway
	w.authorized(p, id)
	w.onCapture(p, id, faults.Fault{Action: faults.LoseAnswer, Times: 1})
	down := w.arm(faults.Fault{Target: holders[p], Method: "GET", PathContains: w.paymentID(id), Action: faults.Status, Status: 503})
	a := w.capture(id, "capture-"+id, nil)
	require.Equal(w.t, http.StatusAccepted, a.Status, "%s", a.Raw)
	assert.Equal(w.t, "checking", a.at("outcome"), "%s", a.Raw)
	w.awaitReview(id, order.ReviewConfirmUnknown)
	shown := w.call("GET", path(id), "", nil)
	assert.Equal(w.t, "checking", shown.at("states", "payment"), "%s", shown.Raw)
	assert.Contains(w.t, shown.at("buyer", "message"), "do not pay again")
	w.sandbox.Faults().Remove(down)
	w.taken(id)
	assert.Len(w.t, w.captures(id), 1, "found, and not sent again")
}

// captureRefused: the provider says no. The hold stands, a person has it, and nothing makes another request of it.
func (w *world) captureRefused(p *psp) {
	id := "capture_refused_" + p.gateway
	w.authorized(p, id)
	code := map[*psp]string{&stripe: "charge_expired_for_capture", &omise: "expired_charge"}[p]
	no := w.onCapture(p, id, faults.Fault{Action: faults.Status, Status: 400, Code: code})
	oneOf(w.t, w.capture(id, "capture-"+id, nil), http.StatusAccepted)
	w.fired(no, 1)
	w.awaitReview(id, order.ReviewConfirmUnknown)
	assert.Zero(w.t, w.captured(id))
	assert.Equal(w.t, "open", w.status(id))
	w.sandbox.Faults().Remove(no)
	w.cancel(id)
	w.awaitCanceled(id)
	m, _ := w.backAt(id)
	assert.EqualValues(w.t, w.captured(id)*trialTotal, m, "nothing is kept")
}

// heldPastTheBuyersTime: the buyer had until now to act, and did. What the bank holds since then is not let go for that.
func (w *world) heldPastTheBuyersTime(p *psp) {
	id := "held_long_" + p.gateway
	w.authorized(p, id)
	w.execute("UPDATE payment_attempts SET due_at = now() - interval '1 hour' WHERE order_id = '" + id + "'")
	const looked = "SELECT count(*) FROM observations WHERE order_id = $1 AND source = 'lookup'"
	before := w.number(looked, id)
	require.NoError(w.t, w.temporal.SignalWorkflow(w.t.Context(), order.WorkflowID(order.ID(id)), "", order.SignalFactsChanged, order.FactsChanged{Source: "operator", Reference: "test"}))
	w.await(id+" looked at", func() bool { return w.number(looked, id) > before })
	oneOf(w.t, w.capture(id, "capture-"+id, nil), http.StatusCreated, http.StatusAccepted)
	w.taken(id)
	assert.Zero(w.t, w.number("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'cancel'", id))
}

// heldBehindThePage: asked for while the buyer is at the bank's page, nothing is held yet, and the same request is good once it is.
func (w *world) heldBehindThePage(p *psp) {
	id, e := "held_page_"+p.gateway, elsewheres[p.gateway]
	w.placeIn(id, p.currency, grant("g", 1, 500), issued("tickets", "t", 1, 100))
	body := p.payment(id, e.card)
	body["capture"] = "later"
	oneOf(w.t, w.call("POST", path(id)+"/payments", "pay-"+id, body), http.StatusCreated, http.StatusAccepted)
	w.awaitPayment(id, "action_needed")
	a := w.capture(id, "capture-"+id, nil)
	w.problem(a, http.StatusConflict, "nothing-held")
	assert.NotEmpty(w.t, a.Header.Get("Retry-After"))
	assert.NotNil(w.t, w.call("GET", path(id), "", nil).at("attempts", 0, "next_action"))
	e.finish(w, w.paymentID(id), true)
	shown := w.awaitPayment(id, "authorized")
	assert.Nil(w.t, shown.at("attempts", 0, "next_action"), "the buyer has been there: %s", shown.Raw)
	oneOf(w.t, w.capture(id, "capture-"+id, nil), http.StatusCreated, http.StatusAccepted)
	w.taken(id)
	assert.Len(w.t, w.captures(id), 1)
}

func (w *world) cannotHold() {
	for _, p := range []*psp{&toss, &twoctwop} {
		id := "hold_" + p.gateway
		w.placeIn(id, p.currency, grant("g", 1, 500), issued("tickets", "t", 1, 100))
		body := p.payment(id, "")
		body["capture"] = "later"
		w.problem(w.call("POST", path(id)+"/payments", "pay-"+id, body), http.StatusUnprocessableEntity, "payment-invalid")
		w.problem(w.capture(id, "capture-"+id, nil), http.StatusConflict, "nothing-held")
		body["capture"] = "sometimes"
		w.problem(w.call("POST", path(id)+"/payments", "pay2-"+id, body), http.StatusUnprocessableEntity, "validation")
	}
	w.problem(w.capture("no-such-order", "capture-none", nil), http.StatusNotFound, "not-found")
	id := "part_omise"
	w.authorized(&omise, id)
	w.problem(w.capture(id, "part-"+id, map[string]any{"amount": 100}), http.StatusUnprocessableEntity, "payment-invalid")
	oneOf(w.t, w.capture(id, "part-"+id, nil), http.StatusCreated, http.StatusAccepted) // what was refused by its form has not used the key up
	w.taken(id)

	id = "part_stripe"
	w.authorized(&stripe, id)
	oneOf(w.t, w.capture(id, "part-"+id, map[string]any{"amount": 400}), http.StatusCreated, http.StatusAccepted)
	w.awaitPayment(id, "partly_captured")
	a := w.capture(id, "part-again-"+id, map[string]any{"amount": 400})
	require.Equal(w.t, http.StatusCreated, a.Status, "it is known: %s", a.Raw)
	assert.Equal(w.t, "partly_captured", a.at("outcome"))
	w.awaitReview(id, order.ReviewPaymentMismatch)
	w.cancel(id)
	w.awaitCanceled(id)
	w.await(id+": the part is back", func() bool { m, _ := w.backAt(id); return m == 400 })
}

// TestHoldsLapse: the bank lets the money go before it is asked for. The request finds that out, and, repeated, does not take what the
// buyer has authorized since.
func TestHoldsLapse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "3s"), with("ORDERFLOW_ANSWER_BUDGET", "4s"))
	for p := range holders {
		id := "lapsed_" + p.gateway
		w.authorized(p, id)
		if p == &omise {
			w.omiseCall("/charges/" + w.paymentID(id) + "/reverse")
		} else {
			require.NoError(t, w.sandbox.Stripe().Lapse(w.paymentID(id)))
		}
		oneOf(t, w.capture(id, "capture-"+id, nil), http.StatusCreated, http.StatusAccepted)
		w.await(id+" closed", func() bool {
			return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1 AND closed_at IS NOT NULL", id) == 1
		})
		assert.Len(t, w.captures(id), 1, "it was asked for, and refused")
		assert.Equal(t, true, w.call("GET", path(id), "", nil).at("buyer", "can_pay"))

		body := p.payment(id+"_2", "")
		body["capture"] = "later"
		oneOf(t, w.call("POST", path(id)+"/payments", "pay2-"+id, body), http.StatusCreated, http.StatusAccepted)
		w.awaitPayment(id, "authorized")
		a := w.capture(id, "capture-"+id, nil)
		oneOf(t, a, http.StatusCreated)
		assert.Equal(t, "declined", a.at("outcome"), "%s", a.Raw)
		assert.Empty(t, w.captures(id), "the old key is about the hold that lapsed")
		oneOf(t, w.capture(id, "capture2-"+id, nil), http.StatusCreated, http.StatusAccepted)
		w.awaitStatus(id, "completed")
		assert.Equal(t, 1, w.captured(id))
	}
	w.booksAgree()
}

// TestWorkerDiesWhileCapturing has every worker killed between the capture and what is made of its answer.
func TestWorkerDiesWhileCapturing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersDie, with("STRIPE_TIMEOUT", "20s"), with("OMISE_TIMEOUT", "20s"), with("ORDERFLOW_STEP_TIMEOUT", "30s"))
	var met []string
	var answers []<-chan answer
	for p := range holders {
		id := "capture_killed_" + p.gateway
		w.authorized(p, id)
		met = append(met, w.onCapture(p, id, faults.Fault{Action: faults.Hang, Effect: true, Times: 1}))
		answers = append(answers, w.later("POST", path(id)+"/capture", "capture-"+id, map[string]any{}))
	}
	for _, m := range met {
		w.fired(m, 1)
	}
	w.killWorkers()
	for i := range answers {
		oneOf(t, <-answers[i], http.StatusAccepted)
	}
	w.startWorker()
	for p := range holders {
		id := "capture_killed_" + p.gateway
		w.awaitFor(90*time.Second, id+" completed", func() bool { return w.status(id) == "completed" })
		w.taken(id)
		assert.Len(t, w.captures(id), 1, "looked up, and not sent again")
	}
	w.booksAgree()
}
