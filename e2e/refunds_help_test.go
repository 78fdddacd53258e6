package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

// refunding is one provider as the refund tests use it: where its refunds go, and where they are looked up.
type refunding struct {
	*psp
	write faults.Fault
	read  faults.Fault
}

var refunders = []refunding{
	{&stripe, faults.Fault{Target: faults.Stripe, Method: "POST", PathSuffix: "/refunds"}, faults.Fault{Target: faults.Stripe, Method: "GET"}},
	{&omise, faults.Fault{Target: faults.Omise, Method: "POST", PathSuffix: "/refunds"}, faults.Fault{Target: faults.Omise, Method: "GET"}},
	{&toss, faults.Fault{Target: faults.Toss, Method: "POST", PathSuffix: "/cancel"}, faults.Fault{Target: faults.Toss, Method: "GET"}},
}

// twoctwopBack is 2C2P, whose refunds go through an API with keys of its own. What a request asks for is in its document.
var twoctwopBack = refunding{&twoctwop, maintains("R"), maintains("RS")}

func maintains(process string) faults.Fault {
	return faults.Fault{Target: faults.TwoCTwoP, Method: "POST", PathSuffix: "/maintenance", BodyContains: "<processType>" + process + "</processType>"}
}

// allRefunders are those and 2C2P, for worlds that are refundable.
func allRefunders() []refunding { return append(slices.Clone(refunders), twoctwopBack) }

// guarded reports that the provider makes one refund of one request, however often it comes. The others are sent once, ever.
func (p refunding) guarded() bool { return p.psp == &stripe || p.psp == &toss }

// refundable gives the world the keys of 2C2P's maintenance API, whose payments are settled at once as after its night.
func refundable(w *world) {
	w.env["TWOCTWOP_MAINTENANCE_URL"] = w.sandbox.TwoCTwoPURL() + "/maintenance"
	w.env["TWOCTWOP_PRIVATE_KEY"], w.env["TWOCTWOP_PROVIDER_KEY"] = maintenance().ours.Reveal(), maintenance().theirPublic
	w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.SettlesAtOnce = true })
}

// everywhere does the same at every provider, side by side.
func (w *world) everywhere(do func(w *world, p refunding)) {
	w.t.Helper()
	parts := map[string]func(*world){}
	for _, p := range allRefunders() {
		parts[p.gateway] = func(w *world) { do(w, p) }
	}
	w.sideBySide(parts)
}

// on makes a fault of the refund's request, or of its lookups.
func (p refunding) on(where faults.Fault, action faults.Action, effect bool, times int) faults.Fault {
	where.Action, where.Effect, where.Times = action, effect, times
	if action == faults.Status {
		where.Status = http.StatusServiceUnavailable
	}
	return where
}

// bought is an order of 600 that is paid and provided. Its name has the provider in it.
func (w *world) bought(p refunding, name string) string {
	w.t.Helper()
	id := p.gateway + "_" + name
	w.placeIn(id, p.currency, grant("g", 1, 600))
	a := w.call("POST", path(id)+"/payments", "pay-"+id, p.payment(id, ""))
	require.Contains(w.t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s", a.Raw)
	w.awaitStatus(id, "completed")
	w.settled(id)
	return id
}

// ask is a refund's body; amount 0 leaves it out.
func ask(amount int) map[string]any {
	b := map[string]any{"reason": "requested_by_buyer"}
	if amount != 0 {
		b["amount"] = amount
	}
	return b
}

func (w *world) refund(id, key string, body map[string]any) answer {
	w.t.Helper()
	return w.call("POST", path(id)+"/refunds", key, body)
}

// refunded asks for money back and waits until it is there: that the answer takes longer is within the contract.
func (w *world) refunded(id, key string, amount int) answer {
	w.t.Helper()
	a := w.refund(id, key, ask(amount))
	require.Contains(w.t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s", a.Raw)
	w.awaitRefund(a.at("id"), order.RefundSucceeded)
	return a
}

func (w *world) refundStatus(id any) string {
	w.t.Helper()
	return w.text("SELECT status FROM refunds WHERE refund_id = $1", fmt.Sprint(id))
}

func (w *world) awaitRefund(id any, want order.Status) {
	w.t.Helper()
	w.await(fmt.Sprintf("refund %v %s", id, want), func() bool { return w.refundStatus(id) == string(want) })
}

func (w *world) paymentState(id string) any {
	w.t.Helper()
	return w.call("GET", path(id), "", nil).at("states", "payment")
}

// backAt is what the provider's own books say went back of an order's payment, and in how many refunds.
func (w *world) backAt(id string) (minor int64, refunds int) {
	w.t.Helper()
	for _, ref := range w.references(id) {
		m, n := w.givenBack(ref)
		minor, refunds = minor+m, refunds+n
	}
	return minor, refunds
}

func (w *world) givenBack(ref string) (minor int64, refunds int) {
	for _, c := range w.sandbox.Stripe().Charges(stripesim.Filter{MerchantReference: ref, CapturedOnly: true}) {
		minor, refunds = minor+c.Refunded, refunds+c.Refunds
	}
	for _, c := range w.sandbox.Omise().Charges(omisesim.Filter{MerchantReference: ref, CapturedOnly: true}) {
		minor, refunds = minor+c.Refunded, refunds+c.Refunds
	}
	for _, c := range w.sandbox.Toss().Charges(tosssim.Filter{MerchantReference: ref, CapturedOnly: true}) {
		minor, refunds = minor+c.Refunded, refunds+c.Refunds
	}
	for _, c := range w.sandbox.TwoCTwoP().Charges(twoctwopsim.Filter{MerchantReference: ref, CapturedOnly: true}) {
		minor, refunds = minor+c.Refunded, refunds+c.Refunds
	}
	return minor, refunds
}

// went asserts what went back of an order, in the provider's books.
func (w *world) went(id string, minor int64, refunds int) {
	w.t.Helper()
	m, n := w.backAt(id)
	assert.Equal(w.t, minor, m, "%s: what went back", id)
	assert.Equal(w.t, refunds, n, "%s: in how many refunds", id)
}

// refundsAgree counts refunds in the providers' books against our rows.
//
//	PC-42 no refund at a provider that no row of ours explains, and none twice
//	I3    a refund failed only by an answer or a decision
func (w *world) refundsAgree() {
	t := w.t
	t.Helper()
	rows, err := w.owner.Query(context.Background(), `SELECT a.merchant_reference, p.gateway,
			count(r.refund_id) FILTER (WHERE r.status = 'succeeded'), count(r.refund_id) FILTER (WHERE r.status <> 'failed')
		FROM payments p JOIN payment_attempts a USING (attempt_id) LEFT JOIN refunds r ON r.attempt_id = a.attempt_id
		WHERE p.matched AND p.elsewhere_minor = 0 GROUP BY 1, 2`)
	require.NoError(t, err)
	for rows.Next() {
		var ref, gateway string
		var sure, most int
		require.NoError(t, rows.Scan(&ref, &gateway, &sure, &most))
		_, n := w.givenBack(ref)
		assert.GreaterOrEqual(t, n, sure, "a refund that succeeded is in the books: %s at %s", ref, gateway)
		assert.LessOrEqual(t, n, most, "PC-42: every refund in the books is one of ours: %s at %s", ref, gateway)
	}
	require.NoError(t, rows.Err())
	assert.Zero(t, w.number(`SELECT count(*) FROM refunds r WHERE r.status = 'failed'
		AND NOT EXISTS (SELECT 1 FROM observations o WHERE o.refund_id = r.refund_id AND o.outcome IN ('declined', 'refused'))
		AND NOT EXISTS (SELECT 1 FROM transitions x WHERE x.subject_id = r.refund_id AND (x.decision_id <> '' OR x.trigger = 'refund_claimed' AND x.to_status = 'failed'))`),
		"I3: a refund failed only by an answer or a decision")
	assert.Zero(t, w.number(`SELECT count(*) FROM refunds r JOIN operations o USING (operation_id) WHERE r.status <> 'requested' AND r.status <> 'failed' AND o.sends = 0`),
		"rule 2: a refund is claimed before it is sent")
}

// finishRefund has the provider finish an order's one refund, which was pending.
func (w *world) finishRefund(p refunding, id string) {
	w.t.Helper()
	const named = "SELECT provider_refund_id FROM refunds WHERE order_id = $1"
	switch p.gateway {
	case "stripe":
		require.NoError(w.t, w.sandbox.Stripe().FinishRefund(w.text(named, id), true))
	case "omise":
		require.NoError(w.t, w.sandbox.Omise().FinishRefund(w.text(named, id)))
	case "twoctwop": // names it in its list alone
		w.await("its name", func() bool { return w.text(named, id) != "" })
		require.NoError(w.t, w.sandbox.TwoCTwoP().FinishRefund("E2E01", w.paymentID(id), w.text(named, id), true))
	case "toss":
		require.True(w.t, w.sandbox.Toss().FinishCancel(w.paymentID(id)))
	}
}

// secondPartRefused: 2C2P takes one partial refund of a payment, as one reading of its documents has it. The second is a refusal.
func (w *world) secondPartRefused(tag string) {
	w.t.Helper()
	id := w.bought(twoctwopBack, "back_"+tag)
	lost := w.arm(twoctwopBack.on(twoctwopBack.write, faults.LoseAnswer, true, 1))
	w.refunded(id, "r1-"+id, 100)
	w.fired(lost, 1)
	a := w.refund(id, "r2-"+id, ask(100))
	oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
	w.awaitRefund(a.at("id"), order.RefundFailed)
	w.awaitReview(id, order.ReviewRefundFailed)
	w.went(id, 100, 1)
	w.settled(id)
}

// refundsWithoutAList: where 2C2P has no list of refunds, the payment's status tells of a refund of everything, and of a part a
// person.
func (w *world) refundsWithoutAList(tag string) {
	w.t.Helper()
	whole, part := w.bought(twoctwopBack, "whole_"+tag), w.bought(twoctwopBack, "part_"+tag)
	lost := w.arm(twoctwopBack.on(twoctwopBack.write, faults.LoseAnswer, true, 1))
	w.refunded(whole, "r-"+whole, 0)
	w.fired(lost, 1)
	w.went(whole, trialTotal, 1)
	w.settled(whole)
	a := w.refund(part, "r-"+part, ask(100))
	oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
	w.decide(w.awaitReview(part, order.ReviewRefundUnknown), order.DecideConfirmRefunded, "the portal shows it", "--reference", "portal-1")
	w.awaitRefund(a.at("id"), order.RefundSucceeded)
	w.went(part, 100, 1)
	w.settled(part)
	assert.Equal(w.t, 1, w.number("SELECT sends FROM operations WHERE order_id = $1 AND kind = 'refund'", part), "never sent again")
}
