package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

// Goal: a refund whose outcome is not known is found out, or owned by a person, and never sent as another one. Method: as in
// refunds_test.go, with requests lost on their way there and back, errors kept under keys, workers killed and API keys rotated.
// TestPC44_RefundsThatNobodyKnowsOf: the refund is done, its answer is lost, and the provider cannot be asked.
func TestPC44_RefundsThatNobodyKnowsOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, refundable, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "2s"), with("ORDERFLOW_ANSWER_BUDGET", "1s"))
	ids, away := map[string]string{}, map[string]string{}
	for _, p := range allRefunders() {
		ids[p.gateway] = w.bought(p, "unknown")
	}
	for _, p := range allRefunders() {
		id := ids[p.gateway]
		w.arm(p.on(p.write, faults.LoseAnswer, true, 1))
		away[p.gateway] = w.arm(p.on(p.read, faults.Status, false, 0))
		a := w.refund(id, "r-"+id, ask(0))
		assert.Equal(t, http.StatusAccepted, a.Status, "%s", a.Raw)
		assert.Equal(t, "checking", a.at("outcome"))
	}
	for _, p := range allRefunders() {
		id := ids[p.gateway]
		w.awaitReview(id, order.ReviewRefundUnknown)
		a := w.refund(id, "r-"+id, ask(0))
		assert.Equal(t, http.StatusAccepted, a.Status, "%s", a.Raw)
		assert.Equal(t, "unknown", a.at("status"), "shown as what it is")
		second := w.refund(id, "r2-"+id, ask(1))
		w.problem(second, http.StatusConflict, "more-than-left")
		assert.EqualValues(t, 0, second.at("left"), "what is unknown counts as gone")
		w.went(id, trialTotal, 1)
	}
	for _, p := range allRefunders() {
		require.True(t, w.sandbox.Faults().Remove(away[p.gateway]))
	}
	for _, p := range allRefunders() {
		id := ids[p.gateway]
		w.await(id+" found", func() bool {
			return w.number("SELECT count(*) FROM refunds WHERE order_id = $1 AND status = 'succeeded'", id) == 1
		})
		w.settled(id)
		assert.Zero(t, w.number("SELECT count(*) FROM reviews WHERE order_id = $1 AND status = 'open'", id), "evidence ends the review")
		assert.Equal(t, 1, w.number("SELECT sends FROM operations WHERE order_id = $1 AND kind = 'refund'", id), "never sent again")
		assert.Equal(t, "refunded", w.paymentState(id))
		w.went(id, trialTotal, 1)
	}
	w.booksAgree()
}

// TestRefundsThatWereNeverDone: the request is lost before any effect. Where the provider guards, the very same request goes again;
// where it does not, it was sent once, ever, and a person decides.
func TestRefundsThatWereNeverDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, refundable, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "8s"), with("ORDERFLOW_ANSWER_BUDGET", "1s"))
	var ids []string
	for _, p := range allRefunders() {
		id := w.bought(p, "dropped")
		times := 1
		if p.guarded() {
			times = 2
		}
		dropped := w.arm(p.on(p.write, faults.Drop, false, times))
		a := w.refund(id, "r-"+id, ask(100))
		assert.Equal(t, http.StatusAccepted, a.Status, "%s", a.Raw)
		w.fired(dropped, 1)
		ids = append(ids, id)
	}
	busy := w.bought(refunders[1], "busy")
	limited := refunders[1].on(refunders[1].write, faults.Status, false, 1)
	limited.Status, limited.Code = http.StatusTooManyRequests, "too_many_requests"
	w.arm(limited)
	w.refunded(busy, "r-"+busy, 100) // answered "not done": it goes again, also to a side that guards nothing
	w.went(busy, 100, 1)
	for i, id := range ids {
		if !allRefunders()[i].guarded() {
			continue
		}
		w.await(id, func() bool {
			return w.number("SELECT count(*) FROM refunds WHERE order_id = $1 AND status = 'succeeded'", id) == 1
		})
		w.went(id, 100, 1)
		assert.Greater(t, w.number("SELECT sends FROM operations WHERE order_id = $1 AND kind = 'refund'", id), 1)
		w.settled(id)
	}
	keys := map[string]map[string]bool{"stripe": {}, "toss": {}}
	for _, r := range w.sandbox.Stripe().Writes(stripesim.Filter{PathSuffix: "/refunds"}) {
		keys["stripe"][r.Key] = true
	}
	for _, r := range w.sandbox.Toss().Writes(tosssim.Filter{}) {
		if strings.HasSuffix(r.Path, "/cancel") {
			keys["toss"][r.Key] = true
		}
	}
	assert.Len(t, keys["stripe"], 1, "PC-34: one key, whatever is dropped")
	assert.Len(t, keys["toss"], 1, "PC-34: one key, whatever is dropped")

	for i, p := range allRefunders() {
		if p.guarded() {
			continue
		}
		id := ids[i]
		review := w.awaitReview(id, order.ReviewRefundUnknown)
		assert.Equal(t, 1, w.refundsDropped(p), "rule 3: sent once, ever")
		w.decide(review, order.DecideCloseWithEvidence, "the dashboard shows no refund")
		w.awaitRefund(w.text("SELECT refund_id FROM refunds WHERE order_id = $1", id), order.RefundFailed)
		w.refunded(id, "r2-"+id, 100)
		w.went(id, 100, 1)
		w.settled(id)
	}
	w.booksAgree()
}

// refundsDropped counts requests for a refund that reached nobody, at the providers that guard nothing.
func (w *world) refundsDropped(p refunding) (n int) {
	for _, r := range w.sandbox.Omise().Writes(omisesim.Filter{}) {
		if p.gateway == "omise" && strings.HasSuffix(r.Path, "/refunds") && r.Fault == string(faults.Drop) {
			n++
		}
	}
	for _, r := range w.sandbox.TwoCTwoP().Writes(twoctwopsim.Filter{}) {
		if p.gateway == "twoctwop" && r.Process == "R" && r.Fault == string(faults.Drop) {
			n++
		}
	}
	return n
}

// decide decides an open review by the command line.
func (w *world) decide(review order.ReviewID, d order.DecisionKind, proof string, more ...string) {
	w.t.Helper()
	w.await("decision taken", func() bool {
		_, _, code := w.starterCommand(nil, append([]string{"decide", "--review", string(review), "--decision", string(d), "--actor", "ann", "--reason", "looked", "--proof", proof}, more...)...)
		return code == 0
	})
}

// TestKeptRefundErrors: the provider answers a server error and did nothing. Stripe and Toss keep it under the key, Omise and 2C2P have
// no keys and are not asked twice. Nobody makes another key for the same refund: who wants to try again opens another one.
func TestKeptRefundErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, refundable, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "5s"), with("ORDERFLOW_ANSWER_BUDGET", "1s"))
	for _, p := range allRefunders() {
		id := w.bought(p, "kept")
		w.arm(p.on(p.write, faults.StoreError, false, 1))
		a := w.refund(id, "r-"+id, ask(100))
		assert.Equal(t, http.StatusAccepted, a.Status, "%s", a.Raw)
		review := w.awaitReview(id, order.ReviewRefundUnknown)
		w.decide(review, order.DecideCloseWithEvidence, "the dashboard shows no refund")
		w.awaitRefund(a.at("id"), order.RefundFailed)
		w.refunded(id, "r2-"+id, 100)
		w.went(id, 100, 1)
		w.settled(id)
	}
	w.booksAgree()
}

// TestKilledBetweenRefundAndReflection: the worker dies while the provider's answer is on its way.
func TestKilledBetweenRefundAndReflection(t *testing.T) {
	t.Parallel()
	long := []option{workersDie, refundable, with("ORDERFLOW_STEP_TIMEOUT", "30s")}
	for _, name := range []string{"STRIPE", "OMISE", "TWOCTWOP", "TOSS"} {
		long = append(long, with(name+"_TIMEOUT", "20s"))
	}
	w := newWorld(t, long...)
	var ids []string
	var answers []<-chan answer
	for _, p := range allRefunders() {
		id := w.bought(p, "killed")
		held := w.arm(p.on(p.write, faults.Hang, true, 1))
		answers = append(answers, w.later("POST", path(id)+"/refunds", "r-"+id, ask(250)))
		w.fired(held, 1)
		ids = append(ids, id)
	}
	w.killWorkers()
	w.startWorker()
	for i, id := range ids {
		a := <-answers[i]
		oneOf(t, a, http.StatusCreated, http.StatusAccepted)
		w.awaitRefund(a.at("id"), order.RefundSucceeded)
		w.settled(id)
		w.went(id, 250, 1)
		assert.Equal(t, 1, w.number("SELECT sends FROM operations WHERE order_id = $1 AND kind = 'refund'", id), "given back, killed, looked up: never sent again")
	}
	w.booksAgree()
}

// TestPC33_EveryWriteHasAKeyOfItsOwn: pay and refund, twice over, and compare keys.
func TestPC33_EveryWriteHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, p := range []refunding{refunders[0], refunders[2]} {
		id := w.bought(p, "keys")
		w.refunded(id, "one-key-"+id, 100) // our caller's key is none of the provider's
		w.refunded(id, "two-key-"+id, 100)
		w.settled(id)
	}
	seen := map[string]string{}
	see := func(gateway, key, path, body string) {
		said := gateway + path + body
		if first, there := seen[key]; there {
			assert.Equal(t, first, said, "one key, one request")
		}
		seen[key] = said
		assert.NotContains(t, key, "one-key")
	}
	for _, r := range w.sandbox.Stripe().Writes(stripesim.Filter{}) {
		see("stripe", r.Key, r.Path, r.Body)
	}
	for _, r := range w.sandbox.Toss().Writes(tosssim.Filter{}) {
		see("toss", r.Key, r.Path, r.Body)
	}
	assert.Len(t, seen, 4+3, "prepare, confirm and two refunds at Stripe; confirm and two at Toss")
	w.booksAgree()
}

// TestARotatedAPIKeyIsNoReasonToRefundAgain: the request never came, and whether it did cannot be known under the new key.
func TestARotatedAPIKeyIsNoReasonToRefundAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersDie, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "6s"), with("ORDERFLOW_ANSWER_BUDGET", "1s"))
	p := refunders[0]
	id := w.bought(p, "rotated")
	dropped := w.arm(p.on(p.write, faults.Drop, false, 0))
	a := w.refund(id, "r-"+id, ask(0))
	assert.Equal(t, http.StatusAccepted, a.Status, "%s", a.Raw)
	w.fired(dropped, 2) // it is repeated as long as the key is the same
	w.killWorkers()
	sent := len(w.sandbox.Stripe().Writes(stripesim.Filter{PathSuffix: "/refunds"}))
	require.True(t, w.sandbox.Faults().Remove(dropped))
	old := w.env["STRIPE_SECRET_KEY"]
	w.env["STRIPE_SECRET_KEY"] = "sk_test_e2e+rotated" // another key of the same account
	w.startWorker()
	w.awaitReview(id, order.ReviewRefundUnknown)
	reads := w.sandbox.Stripe().Books(stripesim.Filter{}).Reads
	w.await("it is still looked up", func() bool { return w.sandbox.Stripe().Books(stripesim.Filter{}).Reads > reads })
	assert.Len(t, w.sandbox.Stripe().Writes(stripesim.Filter{PathSuffix: "/refunds"}), sent, "nothing is sent under the new key")
	w.went(id, 0, 0)
	w.env["STRIPE_SECRET_KEY"] = old
	w.killWorkers()
	w.startWorker()
	w.awaitRefund(a.at("id"), order.RefundSucceeded)
	w.went(id, trialTotal, 1)
	w.settled(id)
	w.booksAgree()
}
