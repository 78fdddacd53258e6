package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/stripesim"
)

// TestHistoriesOfRefunds is TestHistoriesOfEveryWaitState for the states of a refund.
func TestHistoriesOfRefunds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "2s"))
	p := refunders[0]
	run := func(id string) string { return order.WorkflowID(order.ID(id)) }

	id := w.bought(p, "refunded")
	w.refunded(id, "r-1", 0)
	w.settled(id)
	w.await("run over", func() bool { return w.over(id) })
	w.replays("refunded", run(id), "")

	w.sandbox.Stripe().Configure(func(s *stripesim.Settings) { s.PendingRefunds = true })
	id = w.bought(p, "pending")
	a := w.refund(id, "r-2", ask(0))
	w.awaitRefund(a.at("id"), order.RefundPending)
	w.await("run over", func() bool { return w.over(id) })
	w.replays("refund-pending", run(id), "")
	require.NoError(t, w.sandbox.Stripe().FinishRefund(w.text("SELECT provider_refund_id FROM refunds WHERE order_id = $1", id), true))
	w.awaitRefund(a.at("id"), order.RefundSucceeded)
	w.await("run over", func() bool { return w.over(id) })
	w.replays("refund-came-through", run(id), "")

	w.sandbox.Stripe().Configure(func(s *stripesim.Settings) { s.PendingRefunds = false })
	id = w.bought(p, "lost")
	w.arm(p.on(p.write, faults.LoseAnswer, true, 1))
	away := w.arm(p.on(p.read, faults.Status, false, 0))
	asked := w.later("POST", path(id)+"/refunds", "r-3", ask(0))
	w.fired(away, 1)
	w.replays("refund-looking-up", run(id), "")
	w.awaitReview(id, order.ReviewRefundUnknown)
	assert.Equal(t, 202, (<-asked).Status, "unknown is no failure")
	w.await("parked in Temporal", func() bool { return w.waitsFor(id, "review") })
	w.replays("refund-parked", run(id), "")
	w.detailsCanBePasted(id)
	require.True(t, w.sandbox.Faults().Remove(away))
	w.await("found", func() bool { return w.paymentState(id) == "refunded" })
	w.settled(id)
	w.await("run over", func() bool { return w.over(id) })
	w.replays("refund-parked-found", run(id), "")
	w.booksAgree()
}
