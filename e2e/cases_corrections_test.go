package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
)

// Goal: money that moves on its own, after the fact, is stored, shown in words, and ends applied or with a person: disputes, deposits
// taken back, money that comes late or twice, and orders that were paid by other means (PC-04, PC-09, PC-10, PC-19, PC-20, PC-46).
// Method: one world with webhooks, orders at the providers that tell of such things, the buyers' banks played at the sandbox; books
// at the end. Not covered: every order of such events (package order), and what holds units (package store).

func TestPC04_PC09_PC19_PC20_PC46_MoneyThatMovesOnItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.webhooks()
	w.sub("PC-46 chargeback, then refund", func(w *world) {
		w.chargeback(refunders[0], func(payment string, won *bool) error { return bankAt(w.sandbox.Stripe(), payment, won) })
		w.chargeback(refunders[1], func(payment string, won *bool) error { return bankAt(w.sandbox.Omise(), payment, won) })
	})
	w.sub("a deposit that the bank takes back", func(w *world) { w.depositTakenBack() })
	w.sub("PC-04 two attempts, both paid", func(w *world) { w.bothPaid() })
	w.sub("PC-09 PC-19 paid after we had given up", func(w *world) { w.paidLate() })
	w.sub("PC-20 settled by other means", func(w *world) { w.settledElsewhere() })
	w.booksAgree()
}

type bank interface {
	Dispute(payment string, minor int64) error
	CloseDispute(payment string, won bool) error
}

// bankAt disputes a payment, or ends its dispute.
func bankAt(b bank, payment string, won *bool) error {
	if won == nil {
		return b.Dispute(payment, trialTotal)
	}
	return b.CloseDispute(payment, *won)
}

func (w *world) awaitPayment(id, state string) answer {
	w.t.Helper()
	var a answer
	w.await(id+" "+state, func() bool {
		a = w.call("GET", path(id), "", nil)
		return a.at("states", "payment") == state
	})
	return a
}

// explained is what starter explain says of an order.
func (w *world) explained(id string, words ...string) {
	w.t.Helper()
	out, _, code := w.starterCommand(nil, "explain", id)
	assert.Zero(w.t, code)
	for _, word := range words {
		assert.Contains(w.t, out, word, id)
	}
}

func (w *world) chargeback(p refunding, act func(payment string, won *bool) error) {
	t, id := w.t, w.bought(p, "dispute")
	payment := w.paymentID(id)
	require.NoError(t, act(payment, nil))
	shown := w.awaitPayment(id, "disputed")
	assert.Equal(t, "disputed", shown.at("buyer", "state"))
	assert.Equal(t, "completed", shown.at("states", "order"), "a dispute takes no goods back")
	assert.EqualValues(t, trialTotal, shown.at("payments", 0, "disputed"))
	w.problem(w.refund(id, "r-"+id, ask(0)), http.StatusConflict, "refund-disputed")
	w.awaitReview(id, order.ReviewDispute)
	won, lost := true, false
	require.NoError(t, act(payment, &won))
	w.awaitPayment(id, "paid")
	w.await(id+": the review ends by itself", func() bool {
		return w.number("SELECT count(*) FROM reviews WHERE order_id = $1 AND status = 'open'", id) == 0
	})

	gone := w.bought(p, "chargeback")
	payment = w.paymentID(gone)
	require.NoError(t, act(payment, nil))
	w.awaitReview(gone, order.ReviewDispute)
	require.NoError(t, act(payment, &lost))
	assert.Equal(t, "charged_back", w.awaitPayment(gone, "charged_back").at("buyer", "state"))
	w.problem(w.refund(gone, "r-"+gone, ask(0)), http.StatusConflict, "refund-disputed")
	w.awaitReview(gone, order.ReviewDisputeLost)
	w.explained(gone, "the dispute is lost", "a refund on top of it", "all_provided")
	minor, refunds := w.backAt(gone)
	assert.Zero(t, minor+int64(refunds), "the bank gave it back, and nobody else did")
}

func (w *world) depositTakenBack() {
	t := w.t
	p := w.ask("corrected", waysThat(named("toss_account")))[0]
	require.NoError(t, w.sandbox.Toss().Deposit(p.payment))
	w.awaitStatus(p.id, "completed")
	require.NoError(t, w.sandbox.Toss().Correct(p.payment))
	shown := w.awaitPayment(p.id, "taken_back")
	assert.Equal(t, "taken_back", shown.at("buyer", "state"))
	assert.Equal(t, true, shown.at("payments", 0, "taken_back"))
	w.awaitReview(p.id, order.ReviewDepositTakenBack)
	w.explained(p.id, "the bank has taken this deposit back", "all_provided")
	require.NoError(t, w.sandbox.Toss().Deposit(p.payment))
	w.awaitPayment(p.id, "paid")
	w.settled(p.id)
	assert.Len(t, w.issuedFor(p.id), 1, "provided once")
	assert.Zero(t, w.number("SELECT count(*) FROM reviews WHERE order_id = $1 AND status = 'open'", p.id))
}

func (w *world) bothPaid() {
	t, id := w.t, "both_paid"
	w.sandbox.Webhooks().Reset()
	w.closedThoughCaptured(&stripe, id)
	w.webhooks()
	a := w.call("POST", path(id)+"/payments", "second-"+id, stripe.payment(id+"_2", ""))
	oneOf(t, a, http.StatusCreated, http.StatusAccepted)
	w.awaitStatus(id, "completed")
	w.rediscover(id)
	review := w.awaitReview(id, order.ReviewExtraPayment)
	assert.Equal(t, 2, w.number("SELECT count(*) FROM payments WHERE order_id = $1 AND matched", id), "both are kept")
	extra := w.text("SELECT subject_id FROM reviews WHERE review_id = $1", string(review))
	w.explained(id, "extra_payment", "proposed for a refund")
	body := ask(0)
	body["attempt_id"] = extra
	r := w.refund(id, "r-"+id, body)
	oneOf(t, r, http.StatusCreated, http.StatusAccepted)
	w.awaitRefund(r.at("id"), order.RefundSucceeded)
	assert.Equal(t, "completed", w.status(id), "refunding one does not undo the order")
	assert.Equal(t, 1, w.number("SELECT count(*) FROM grants WHERE order_id = $1", id))
	w.decide(review, order.DecideCloseWithEvidence, "refunded in full")
}

// rediscover sends what the provider tells of an order's first payment, as it does for days.
func (w *world) rediscover(id string) {
	w.t.Helper()
	events := w.stripeEvents(w.text("SELECT provider_payment_id FROM payment_attempts WHERE order_id = $1 ORDER BY created_at LIMIT 1", id), "payment_intent.succeeded")
	require.NotEmpty(w.t, events, id)
	a := w.hook("stripe/default", byStripe(time.Now(), events[0]), events[0])
	require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Raw)
}

func (w *world) paidLate() {
	t := w.t
	for _, id := range []string{"late_kept", "late_review"} {
		w.sandbox.Webhooks().Reset()
		w.closedThoughCaptured(&stripe, id)
		w.execute("UPDATE orders SET expires_at = now() - interval '1 second' WHERE order_id = '" + id + "'")
		w.awaitStatus(id, "expired")
	}
	w.webhooks()
	w.execute("UPDATE orders SET ended_at = now() - interval '2 hours' WHERE order_id = 'late_review'")
	w.rediscover("late_kept")
	w.awaitStatus("late_kept", "completed")
	assert.Equal(t, "paid", w.paymentState("late_kept"))

	w.rediscover("late_review")
	review := w.awaitReview("late_review", order.ReviewLatePayment)
	shown := w.call("GET", path("late_review"), "", nil)
	assert.Equal(t, "expired", shown.at("states", "order"))
	assert.Equal(t, "contact", shown.at("buyer", "state"), "we have the money, and are checking")
	w.explained("late_review", "late_payment (too_late)", "proposed for a refund", "restore_reflection")
	w.decide(review, order.DecideRestoreReflection, "the buyer still wants it")
	w.awaitStatus("late_review", "completed")
	for _, id := range []string{"late_kept", "late_review"} {
		assert.Equal(t, 1, w.captured(id), id)
		assert.Equal(t, 1, w.number("SELECT count(*) FROM grants WHERE order_id = $1", id), id)
	}
}

func (w *world) settledElsewhere() {
	t := w.t
	p := w.ask("cash", waysThat(named("stripe_konbini")))[0]
	_, errs, code := w.starterCommand(nil, "settled", "--order", p.id, "--actor", "ann", "--reason", "paid in the shop", "--reference", "receipt 7", "--proof", "seen in the till")
	require.Zero(t, code, errs)
	w.awaitStatus(p.id, "completed")
	shown := w.awaitPayment(p.id, "elsewhere")
	assert.Equal(t, "done", shown.at("buyer", "state"))
	require.True(t, p.act(w, p.payment, false), "the voucher runs out")
	w.await(p.id+": the attempt is over", func() bool { return w.cameTo(p.id).attempt == order.AttemptClosed })
	w.settled(p.id)
	assert.Equal(t, "completed", w.status(p.id), "a dead session undoes nothing")
	assert.Len(t, w.issuedFor(p.id), 1)
}

// TestPC10_LookupsThatAnswer4xx: none of them says that nothing was charged.
func TestPC10_LookupsThatAnswer4xx(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "20s"))
	for name, f := range map[string]faults.Fault{
		"not_found": {Status: http.StatusNotFound, Code: "resource_missing"}, "unauthorized": {Status: http.StatusUnauthorized, Code: "api_key_expired"},
		"bad_parameter": {Status: http.StatusBadRequest, Code: "parameter_invalid_empty"},
	} {
		x := &trial{name: "lookup_" + name, fault: f, want: done}
		x.fault.Action, x.fault.Times = faults.Status, 4
		x.aim(faults.Stripe, "GET", "", "")
		w.arm(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Times: 1, Action: faults.LoseAnswer})
		w.all([]*trial{x})
		w.neverFailed(x.name)
	}
	w.booksAgree()
}
