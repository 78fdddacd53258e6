package e2e

import (
	"context"
	"fmt"
	"net/http"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
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

// everywhere does the same at every provider, side by side.
func (w *world) everywhere(do func(w *world, p refunding)) {
	w.t.Helper()
	parts := map[string]func(*world){}
	for _, p := range refunders {
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
		WHERE p.matched AND p.elsewhere_minor = 0 AND p.gateway <> 'twoctwop' GROUP BY 1, 2`)
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
