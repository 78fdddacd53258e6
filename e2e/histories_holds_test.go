package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
)

// TestHistoriesOfHoldsAndCancels is TestHistoriesOfEveryWaitState for money that is held, captured and let go, and for cancels.
func TestHistoriesOfHoldsAndCancels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "2s"), with("ORDERFLOW_ANSWER_BUDGET", "20s"), with("ORDERFLOW_IDEMPOTENCY_LEASE", "25s"))
	run := func(id string) string { return order.WorkflowID(order.ID(id)) }
	waiting := func(id string) {
		w.await(id+" waits", func() bool { return w.waitsFor(id, "open") || w.waitsFor(id, "pending") })
	}

	w.authorized(&stripe, "captured")
	waiting("captured")
	w.replays("waiting-for-capture", run("captured"), "")
	require.Equal(t, 201, w.capture("captured", "c-1", nil).Status)
	w.taken("captured")
	w.await("run over", func() bool { return w.over("captured") })
	w.replays("captured-later", run("captured"), "")

	w.authorized(&stripe, "letgo")
	w.cancel("letgo")
	w.awaitCanceled("letgo")
	w.await("run over", func() bool { return w.over("letgo") })
	w.replays("hold-released", run("letgo"), "")

	w.authorized(&stripe, "unknown")
	w.onCapture(&stripe, "unknown", faults.Fault{Action: faults.LoseAnswer, Times: 1})
	away := w.arm(faults.Fault{Target: "stripe", Method: "GET", PathContains: w.paymentID("unknown"), Action: faults.Status, Status: 503})
	asked := w.later("POST", path("unknown")+"/capture", "c-2", map[string]any{})
	w.fired(away, 1)
	w.replays("capture-looking-up", run("unknown"), "")
	w.awaitReview("unknown", order.ReviewConfirmUnknown)
	require.Equal(t, 202, (<-asked).Status, "unknown is no failure")
	w.await("parked in Temporal", func() bool { return w.waitsFor("unknown", "review") })
	w.replays("capture-parked", run("unknown"), "")
	require.True(t, w.sandbox.Faults().Remove(away))
	w.taken("unknown")
	w.await("run over", func() bool { return w.over("unknown") })
	w.replays("capture-parked-found", run("unknown"), "")

	w.place("paid", issued("vouchers", "v", 1, 300))
	w.arm(faults.Fault{Target: "issuer", PathContains: "/opaque/", Method: "POST", Times: 1, Action: faults.LoseAnswer})
	w.buy("paid", "k-1")
	w.awaitReview("paid", order.ReviewIssuanceUnknown)
	w.cancel("paid")
	w.await("parked in Temporal", func() bool { return w.waitsFor("paid", "review") })
	w.replays("cancel-waits-for-goods", run("paid"), "")
	w.booksAgree()
}
