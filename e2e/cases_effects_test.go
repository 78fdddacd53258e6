package e2e

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/receiver"
)

// Goal: what was done once is not done again because somebody sets it back, starts it again or wakes up late, and what is not known
// yet is not called a failure (PC-41, PC-58, PC-59, PC-66). Method: one world, its worker stopped and woken by signals, its runs
// started and deleted in Temporal. Not covered: a lost Temporal (TestTemporalLosesEverything).

func TestCasesOfRepeatedEffects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersDie, with("STRIPE_TIMEOUT", "1s"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "1h"))
	w.webhooks()
	w.sideBySide(map[string]func(w *world){ // Temporal takes half a minute to forget a run
		"PC-41 an order set back and done again":    (*world).pc41,
		"PC-58 a done order's run is started again": (*world).pc58,
		"PC-66 taken, and nobody can find out":      (*world).pc66,
	})
	w.sub("PC-59 a worker asleep for as long as another needs", (*world).pc59)
	w.booksAgree()
}

// again has a new run look at an order.
func (w *world) again(id string) {
	w.t.Helper()
	w.execute("UPDATE orders SET work_seq = work_seq + 1, work_at = now() WHERE order_id = '" + id + "'")
	w.settled(id)
	w.await("the run is over", func() bool { return !w.known(id) || w.over(id) })
}

func (w *world) pc41() {
	id := "pc41"
	w.place(id, grant("g", 1, 500), issued("tickets", "t", 2, 100))
	w.paid(id, "pay-"+id)
	w.once(id, 2)
	for range 2 {
		w.execute("UPDATE orders SET status = 'paid', completed_at = NULL WHERE order_id = '" + id + "'")
		w.again(id)
		w.awaitStatus(id, "completed")
	}
	w.once(id, 2)
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM grants WHERE order_id = $1", id), "one grant")
	assert.Equal(w.t, 2, w.number("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'issue'", id), "one operation per issued unit")
	asked := 0
	for _, r := range w.sandbox.Issuers().Requests(issuersim.Filter{}) {
		if strings.Contains(r.Body, `"`+id+`"`) {
			asked++
		}
	}
	assert.Equal(w.t, 2, asked, "the issuer was asked once for each")

	// A unit that is delivered has no review, so nobody can have it provided once more; who tries is told and stays on record.
	review := w.parkAll(faults.LoseAnswer, "pc41_parked")["pc41_parked"]
	w.decide(review, order.DecideConfirmProvided, "seen at the issuer", "--reference", "V-41")
	w.awaitStatus("pc41_parked", "completed")
	_, said, code := w.starterCommand(nil, "decide", "--review", string(review), "--decision", "rerun_unit", "--actor", "op-2", "--reason", "once more", "--proof", "none")
	assert.NotZero(w.t, code, "%s", said)
	w.once("pc41_parked", 1)
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM audit_log WHERE order_id = 'pc41_parked' AND actor = 'op-2'"), "the refused act is on record")
}

func (w *world) pc58() {
	id := "pc58"
	w.place(id, grant("g", 1, 500), issued("tickets", "t", 1, 100))
	w.paid(id, "pay-"+id)
	w.await("the run is over", func() bool { return !w.known(id) || w.over(id) })
	w.once(id, 1)
	start := func() {
		w.t.Helper()
		run, err := w.temporal.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{
			ID: order.WorkflowID(order.ID(id)), TaskQueue: order.TaskQueue,
		}, order.WorkflowOrder, order.ID(id))
		require.NoError(w.t, err)
		require.NoError(w.t, run.Get(context.Background(), nil), "it ends by itself")
		w.once(id, 1)
	}
	start()
	w.again(id)
	w.once(id, 1)
	// What retention does, at once: Temporal knows nothing of the order any more.
	_, err := w.temporal.WorkflowService().DeleteWorkflowExecution(context.Background(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: w.env["TEMPORAL_NAMESPACE"], WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: order.WorkflowID(order.ID(id))},
	})
	require.NoError(w.t, err)
	w.await("forgotten", func() bool { return !w.known(id) })
	start()
	w.problem(w.pay(id, "again-"+id), http.StatusConflict, "already-paid")
	w.once(id, 1)
}

func (w *world) pc66() {
	id := "pc66"
	x := &trial{name: id, fault: faults.Fault{Action: faults.LoseAnswer}}
	x.onConfirm()
	held := w.rule(notify.Rule{Gateway: "stripe", Hold: true})
	down := w.arm(faults.Fault{Target: faults.Stripe, Method: "GET", PathContains: "/pi_", Action: faults.Status, Status: 503})
	require.Equal(w.t, http.StatusAccepted, (<-w.begin(x)).Status)
	require.Equal(w.t, 1, w.captured(id), "the money is taken")
	w.stillUnknown(id, down) // through several fruitless looks
	w.sandbox.Faults().Remove(down)
	w.sandbox.Webhooks().RemoveRule(held)
	w.awaitStatus(id, "completed")
	w.settled(id)
	assert.Equal(w.t, "done", w.call("GET", path(id), "", nil).at("buyer", "state"))
	assert.Len(w.t, w.sandbox.Receiver().Effects(receiver.Filter{OrderID: id}), 2, "paid and completed, and never declined")
	assert.Len(w.t, w.writes(id, "/confirm"), 1)
	w.neverFailed(id)
}

func (w *world) pc59() {
	asleep := w.workers[0]
	x := &trial{name: "pc59", fault: faults.Fault{Action: faults.Hang, Effect: true}, want: done}
	x.onConfirm()
	answer := w.begin(x)
	w.fired(x.name, 1)
	require.NoError(w.t, asleep.cmd.Process.Signal(syscall.SIGSTOP))
	other := w.startWorker()
	w.ends(x)
	oneOf(w.t, <-answer, http.StatusCreated, http.StatusAccepted)
	w.settled(x.name)
	steps := w.number("SELECT count(*) FROM transitions WHERE order_id = 'pc59'")
	w.sandbox.Faults().Release(x.name)
	require.NoError(w.t, asleep.cmd.Process.Signal(syscall.SIGCONT))

	// The woken worker carries on by itself.
	other.kill()
	w.workers = []*process{asleep}
	w.place("pc59_next", grant("g", 1, 500), issued("tickets", "t", 1, 100))
	w.paid("pc59_next", "pay-pc59_next")
	w.once("pc59_next", 1)
	asleep.stop() // which waits for its steps: the old one is over, too
	w.workers = nil
	w.startWorker()
	w.once(x.name, 1)
	assert.Equal(w.t, steps, w.number("SELECT count(*) FROM transitions WHERE order_id = 'pc59'"), "it changed nothing")
	w.noticedOnce(x)
}
