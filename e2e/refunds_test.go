package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

// Goal: money goes back once, never above what was taken, and a refund whose answer is lost is shown as such until a lookup or a
// person knows. Method: the API against the sandbox's four providers, with answers lost, workers killed, clicks doubled and
// webhooks on; counts come from the sandbox's books. Not covered: disputes.

func TestRefunds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, refundable)
	w.webhooks()
	w.everywhere(func(w *world, p refunding) {
		w.sub("TheWholeAndThenNothingIsLeft", func(w *world) { w.refundWhole(p) })
		w.sub("PC45_ThirdsNeverExceedTheTotal", func(w *world) { w.refundThirds(p) })
		w.sub("PC43_TwoAboveTheSumAtOnce", func(w *world) { w.refundRace(p) })
		w.sub("PC42_DoubleClickWebhookAndSweep", func(w *world) { w.refundDouble(p) })
		w.sub("LostAnswerIsLookedUp", func(w *world) { w.refundLost(p) })
	})
	w.sub("ForWhom", (*world).refundForWhom)
	w.booksAgree()
}

func (w *world) refundWhole(p refunding) {
	t, id := w.t, w.bought(p, "whole")
	a := w.refunded(id, "r-"+id, 0)
	assert.EqualValues(t, trialTotal, a.at("amount"))
	assert.Equal(t, "refunded", w.paymentState(id))
	w.went(id, trialTotal, 1)
	again := w.refund(id, "r-"+id, ask(0))
	assert.Equal(t, http.StatusCreated, again.Status, "%s", again.Raw)
	assert.Equal(t, a.at("id"), again.at("id"), "the same key is the same refund, also where nothing is left")
	none := w.refund(id, "r2-"+id, ask(0))
	w.problem(none, http.StatusConflict, "more-than-left")
	assert.EqualValues(t, 0, none.at("left"))
	assert.Equal(t, "refunded", none.at("order", "states", "payment"))
	shown := w.call("GET", path(id), "", nil)
	assert.Equal(t, "succeeded", shown.at("refunds", 0, "outcome"))
	assert.NotEmpty(t, shown.at("refunds", 0, "reference"))
	assert.Nil(t, shown.at("refunds", 1))
	assert.Equal(t, "completed", shown.at("states", "order"), "a refund takes no goods back")
	w.settled(id)
	assert.Equal(t, 1, w.number("SELECT count(*) FROM outbox_events WHERE order_id = $1 AND type = 'refund.succeeded'", id))
	out, _, code := w.starterCommand(nil, "explain", id)
	assert.Zero(t, code)
	assert.Contains(t, out, fmt.Sprintf("refund %v: succeeded", a.at("id")))
}

func (w *world) refundThirds(p refunding) {
	t, id := w.t, w.bought(p, "thirds")
	for _, fraction := range []string{`33.333`, `1e2`, `"200"`, `0`, `-1`} {
		a := w.call("POST", path(id)+"/refunds", "r-bad-"+id, `{"reason":"goodwill","amount":`+fraction+`}`)
		oneOf(t, a, http.StatusBadRequest, http.StatusUnprocessableEntity)
	}
	w.refunded(id, "r1-"+id, 199)
	assert.Equal(t, "partly_refunded", w.paymentState(id))
	w.refunded(id, "r2-"+id, 199)
	over := w.refund(id, "r-over-"+id, ask(203))
	w.problem(over, http.StatusConflict, "more-than-left")
	assert.EqualValues(t, 202, over.at("left"))
	last := w.refunded(id, "r3-"+id, 0)
	assert.EqualValues(t, 202, last.at("amount"), "the last part takes the rest")
	w.went(id, trialTotal, 3)
	assert.Equal(t, "refunded", w.paymentState(id))
	w.settled(id)
}

func (w *world) refundRace(p refunding) {
	t, id := w.t, w.bought(p, "race")
	both := atOnce(2, func(i int) answer {
		a, _ := w.try("POST", path(id)+"/refunds", fmt.Sprintf("r%d-%s", i, id), apiKey, ask(400))
		return a
	})
	won, lost := both[0], both[1]
	if won.Status == http.StatusConflict {
		won, lost = lost, won
	}
	oneOf(t, won, http.StatusCreated, http.StatusAccepted)
	w.problem(lost, http.StatusConflict, "more-than-left")
	assert.EqualValues(t, 200, lost.at("left"), "the other is told what is left")
	w.awaitRefund(won.at("id"), order.RefundSucceeded)
	w.went(id, 400, 1)
	w.settled(id)
}

func (w *world) refundDouble(p refunding) {
	t, id := w.t, w.bought(p, "double")
	for _, a := range atOnce(4, func(i int) answer {
		a, _ := w.try("POST", path(id)+"/refunds", fmt.Sprintf("r-%s-%d", id, i%2), apiKey, ask(0)) // two clicks on each of two pages
		return a
	}) {
		oneOf(t, a, http.StatusCreated, http.StatusAccepted, http.StatusConflict)
	}
	w.await("one refund", func() bool {
		return w.number("SELECT count(*) FROM refunds WHERE order_id = $1 AND status = 'succeeded'", id) == 1
	})
	w.awaitRunLooked(id)
	assert.Equal(t, 1, w.number("SELECT count(*) FROM refunds WHERE order_id = $1", id))
	w.went(id, trialTotal, 1)
	w.settled(id)
}

// awaitRunLooked says "look again", as a sweep does, and waits until the run that it woke has rested.
func (w *world) awaitRunLooked(id string) {
	w.t.Helper()
	before := w.number("SELECT count(*) FROM observations WHERE order_id = $1 AND source = 'lookup'", id)
	// Said again while nobody has looked: a look that was under way already ends the question when it is written down.
	w.await("a look at the payment", func() bool {
		w.execute(fmt.Sprintf("UPDATE payment_attempts SET next_check_at = now() WHERE order_id = '%s' AND (next_check_at IS NULL OR next_check_at > now())", id))
		return w.number("SELECT count(*) FROM observations WHERE order_id = $1 AND source = 'lookup'", id) > before
	})
	w.await("run over", func() bool { return w.over(id) })
}

func (w *world) refundLost(p refunding) {
	t := w.t
	for _, f := range []struct {
		name   string
		action faults.Action
	}{{"lost", faults.LoseAnswer}, {"garbled", faults.Garbage}, {"stored", faults.StoreError}} {
		id := w.bought(p, f.name)
		fault := w.arm(p.on(p.write, f.action, true, 1))
		a := w.refunded(id, "r-"+id, 250)
		w.fired(fault, 1)
		w.went(id, 250, 1)
		assert.Equal(t, 1, w.number("SELECT sends FROM operations WHERE operation_id = $1", "op_refund_"+fmt.Sprint(a.at("id"))), "%s: found, never sent again", id)
		assert.NotEmpty(t, w.text("SELECT provider_refund_id FROM refunds WHERE refund_id = $1", a.at("id")))
		w.settled(id)
	}
}

// refundForWhom: the scope, the client, and orders that hold no money.
func (w *world) refundForWhom() {
	t := w.t
	p := w.run("starter", map[string]string{"ORDERFLOW_BOOTSTRAP_API_KEY": "other:operate:" + otherKey}, "setup", "--skip-temporal")
	<-p.done
	require.True(t, p.cmd.ProcessState.Success())
	id := w.bought(refunders[0], "foreign")
	foreign, err := w.try("POST", path(id)+"/refunds", "r-foreign", otherKey, ask(0))
	require.NoError(t, err)
	unknown, err := w.try("POST", path("no-such-order")+"/refunds", "r-unknown", otherKey, ask(0))
	require.NoError(t, err)
	w.problem(foreign, http.StatusNotFound, "not-found")
	assert.Equal(t, string(unknown.Raw), string(foreign.Raw), "another client's order answers as an unknown one")
	w.place("unpaid", grant("g", 1, 500))
	w.problem(w.refund("unpaid", "r-unpaid", ask(0)), http.StatusConflict, "nothing-captured")
	bad := ask(10)
	bad["reason"] = "because Mrs Smith said so"
	w.problem(w.refund(id, "r-reason", bad), http.StatusUnprocessableEntity, "validation")
	bad = ask(10)
	bad["payout"] = map[string]any{"bank": "20", "account": "1", "holder": "x"}
	w.problem(w.refund(id, "r-payout", bad), http.StatusUnprocessableEntity, "refund-invalid")
	w.went(id, 0, 0)
	w.settled(id)
}

// TestPendingRefunds: the provider is at it for days. The order's run does not wait; the sweep wakes it.
func TestPendingRefunds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, refundable)
	w.sandbox.Stripe().Configure(func(s *stripesim.Settings) { s.PendingRefunds = true })
	w.sandbox.Omise().Configure(func(s *omisesim.Settings) { s.PendingRefunds = true })
	w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.PendingRefunds = true })
	for _, p := range []refunding{refunders[0], refunders[1], twoctwopBack} {
		id := w.bought(p, "pending")
		a := w.refund(id, "r-"+id, ask(0))
		oneOf(t, a, http.StatusCreated, http.StatusAccepted)
		w.awaitRefund(a.at("id"), order.RefundPending)
		again := w.refund(id, "r-"+id, ask(0))
		assert.Equal(t, http.StatusCreated, again.Status)
		assert.Equal(t, "pending", again.at("outcome"))
		w.problem(w.refund(id, "r2-"+id, ask(1)), http.StatusConflict, "more-than-left")
		w.await("run over", func() bool { return w.over(id) })
		w.finishRefund(p, id)
		w.awaitRefund(a.at("id"), order.RefundSucceeded)
		w.went(id, trialTotal, 1)
		w.settled(id)
	}
	id := w.bought(refunders[0], "bounced")
	a := w.refund(id, "r-"+id, ask(0))
	w.awaitRefund(a.at("id"), order.RefundPending)
	require.NoError(t, w.sandbox.Stripe().FinishRefund(w.text("SELECT provider_refund_id FROM refunds WHERE order_id = $1", id), false))
	w.awaitRefund(a.at("id"), order.RefundFailed)
	w.awaitReview(id, order.ReviewRefundFailed)
	w.sandbox.Stripe().Configure(func(s *stripesim.Settings) { s.PendingRefunds = false })
	w.refunded(id, "r2-"+id, 0) // the amount may go back by another refund
	w.went(id, trialTotal, 1)
	w.settled(id)
	w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.PendingRefunds = false })
	w.sub("before the night", (*world).refundBeforeTheNight)
	w.booksAgree()
}

// refundBeforeTheNight: 2C2P gives back what is settled, and settles at night. Before, its "no" is an answer, and the amount may go
// back by another refund.
func (w *world) refundBeforeTheNight() {
	night := func(over bool) {
		w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.SettlesAtOnce = over })
	}
	night(false)
	id := w.bought(twoctwopBack, "night")
	a := w.refund(id, "r-"+id, ask(0))
	oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
	w.awaitRefund(a.at("id"), order.RefundFailed)
	w.awaitReview(id, order.ReviewRefundFailed)
	w.went(id, 0, 0)
	night(true)
	w.refunded(id, "r2-"+id, 0)
	w.went(id, trialTotal, 1)
	w.settled(id)
}

// TestRefundsElsewhere: somebody refunds at the provider's dashboard. Their webhooks, or a look, tell us; what is left follows.
func TestRefundsElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.webhooks()
	for _, p := range refunders[1:] {
		id := w.bought(p, "elsewhere")
		w.refunded(id, "r-"+id, 100)
		theirs := w.text("SELECT provider_payment_id FROM payments WHERE order_id = $1", id)
		if p.gateway == "omise" {
			require.NoError(t, w.sandbox.Omise().Refund(theirs, 300))
		} else {
			require.NoError(t, w.sandbox.Toss().Refund(theirs, 300))
		}
		w.awaitReview(id, order.ReviewCorrection)
		a := w.refund(id, "r2-"+id, ask(201))
		w.problem(a, http.StatusConflict, "more-than-left")
		assert.EqualValues(t, 200, a.at("left"))
		w.refunded(id, "r3-"+id, 0)
		w.went(id, trialTotal, 3)
		w.settled(id)
	}
	w.booksAgree()
}

// TestARefundThatMeetsAnotherOne: the dashboard's refund was not noticed, so ours asks for more than there is. The provider's "no"
// is an answer: ours has failed, the payment is looked at, and what is left can go back.
func TestARefundThatMeetsAnotherOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, p := range refunders[1:] {
		id := w.bought(p, "meets")
		theirs := w.text("SELECT provider_payment_id FROM payments WHERE order_id = $1", id)
		if p.gateway == "omise" {
			require.NoError(t, w.sandbox.Omise().Refund(theirs, 300))
		} else {
			require.NoError(t, w.sandbox.Toss().Refund(theirs, 300))
		}
		a := w.refund(id, "r-"+id, ask(400))
		oneOf(t, a, http.StatusCreated, http.StatusAccepted)
		w.awaitRefund(a.at("id"), order.RefundFailed)
		w.awaitReview(id, order.ReviewRefundFailed)
		w.awaitReview(id, order.ReviewCorrection)
		over := w.refund(id, "r2-"+id, ask(301))
		w.problem(over, http.StatusConflict, "more-than-left")
		assert.EqualValues(t, 300, over.at("left"))
		w.refunded(id, "r3-"+id, 0)
		w.went(id, trialTotal, 2)
		w.settled(id)
	}
	w.booksAgree()
}

// TestADepositGoesBackToTheBuyersBank: the account is needed, reaches Toss, and is nowhere else.
func TestADepositGoesBackToTheBuyersBank(t *testing.T) {
	t.Parallel()
	const account, holder = "110934512345", "HOLDERMARKER7c1"
	w := newWorld(t, with("ORDERFLOW_LOG_LEVEL", "debug"))
	w.placeIn("deposit", "KRW", grant("g", 1, trialTotal))
	m := toss.token("pay_va", "deposit", "KRW", trialTotal)
	m["type"] = "virtual_account"
	a := w.call("POST", path("deposit")+"/payments", "pay", map[string]any{"gateway": "toss", "method": m})
	oneOf(t, a, http.StatusCreated, http.StatusAccepted)
	w.await("waits for the deposit", func() bool {
		return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = 'deposit' AND status = 'pending'") == 1
	})
	require.NoError(t, w.sandbox.Toss().Deposit(w.text("SELECT provider_payment_id FROM payment_attempts WHERE order_id = 'deposit'")))
	w.awaitStatus("deposit", "completed")
	body := ask(0)
	body["payout"] = map[string]any{"bank": "20", "account": account}
	w.problem(w.refund("deposit", "r-0", body), http.StatusUnprocessableEntity, "validation")
	a = w.refund("deposit", "r-1", ask(0))
	w.awaitRefund(a.at("id"), order.RefundFailed)
	assert.Equal(t, "INVALID_REFUND_ACCOUNT_INFO", w.text("SELECT code FROM refunds WHERE refund_id = $1", a.at("id")))
	w.went("deposit", 0, 0)
	body["payout"] = map[string]any{"bank": "20", "account": account, "holder": holder}
	a = w.refund("deposit", "r-2", body)
	w.awaitRefund(a.at("id"), order.RefundSucceeded)
	w.went("deposit", trialTotal, 1)
	w.settled("deposit")
	shown := w.call("GET", path("deposit"), "", nil)
	writes := fmt.Sprint(w.sandbox.Toss().Writes(tosssim.Filter{}))
	assert.Contains(t, writes, account, "it reached the provider")
	for what, text := range map[string]string{"the order": string(shown.Raw), "the refund": string(a.Raw), "Temporal": w.everyHistoryText(), "logs": w.everyLog()} {
		assert.NotContains(t, text, account, what)
		assert.NotContains(t, text, holder, what)
	}
	w.searchTables(map[string]string{"bank account": account, "its holder": holder}, nil)
	w.booksAgree()
}

func (w *world) everyHistoryText() string {
	w.t.Helper()
	var b strings.Builder
	for _, h := range w.everyHistory() {
		raw, err := proto.Marshal(h)
		require.NoError(w.t, err)
		b.Write(raw)
	}
	require.NotEmpty(w.t, b.String())
	return b.String()
}

func (w *world) everyLog() string {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.logs, "*.log"))
	require.NoError(w.t, err)
	var b strings.Builder
	for _, f := range files {
		raw, err := os.ReadFile(f)
		require.NoError(w.t, err)
		b.Write(raw)
	}
	require.NotEmpty(w.t, b.String())
	return b.String()
}

// TestWebhooksOfRefundsMakeThemLookedAt: no sweep is due. A notice about a refund has the payment and its open refunds looked at, and
// one that comes back after it was there is noticed, whoever says so.
func TestWebhooksOfRefundsMakeThemLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_SWEEP_PERIOD", "1h"), with("ORDERFLOW_REVIEW_CHECK_EVERY", "1h"))
	w.webhooks()
	w.sandbox.Stripe().Configure(func(s *stripesim.Settings) { s.PendingRefunds = true })
	id := w.bought(refunders[0], "told")
	a := w.refund(id, "r-"+id, ask(0))
	w.awaitRefund(a.at("id"), order.RefundPending)
	theirs := w.text("SELECT provider_refund_id FROM refunds WHERE order_id = $1", id)
	require.NoError(t, w.sandbox.Stripe().FinishRefund(theirs, true))
	w.awaitRefund(a.at("id"), order.RefundSucceeded)
	w.await("books", func() bool { return w.paymentState(id) == "refunded" })
	require.NoError(t, w.sandbox.Stripe().FinishRefund(theirs, false)) // the buyer's bank sent it back
	w.awaitRefund(a.at("id"), order.RefundFailed)
	w.awaitReview(id, order.ReviewRefundFailed)
	w.await("books", func() bool { return w.paymentState(id) == "paid" })
	w.went(id, 0, 0)
	w.settled(id)
	w.booksAgree()
}
