package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
)

// Goal: Temporal is the engine, not the truth. Buyers who press pay many times at once, a run that is reset, and a Temporal
// that has lost everything lead to no second charge and no second issuance, and every order goes on. Method: the API under
// parallel requests, ResetWorkflowExecution, and a dev server of its own that is killed and comes back empty.

func TestOneChargeHoweverOftenPayIsPressed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("FiftyWithOneKey", func(*testing.T) {
		w.place("one-key", grant("g", 1, 500), issued("tickets", "t", 1, 100))
		answers := atOnce(50, func(int) answer {
			a, _ := w.try("POST", path("one-key")+"/payments", "the-key", apiKey, payBody("pm_card_visa"))
			return a
		})
		w.pressed("one-key", answers)
		// Whoever asks again under the key now is told the same.
		first := w.pay("one-key", "the-key")
		require.Equal(t, http.StatusCreated, first.Status, "%s", first.Raw)
		require.NotEmpty(t, first.at("id"))
		for _, a := range answers {
			if a.Status != http.StatusConflict {
				assert.Equal(t, first.at("id"), a.at("id"), "one attempt")
			}
		}
	})
	t.Run("TwentyWithDifferentKeys", func(*testing.T) {
		w.place("many-keys", grant("g", 1, 500), issued("tickets", "t", 1, 100))
		keys := numbered("key-%d", 20)
		w.pressed("many-keys", atOnce(len(keys), func(i int) answer {
			a, _ := w.try("POST", path("many-keys")+"/payments", keys[i], apiKey, payBody("pm_card_visa"))
			return a
		}))
		assert.Equal(t, 1, w.number("SELECT count(*) FROM payment_attempts WHERE order_id = 'many-keys'"))
	})
	w.booksAgree()
}

// pressed judges the answers to many presses: at least one says what came of it, none is an error of ours.
func (w *world) pressed(id string, answers []answer) {
	w.t.Helper()
	told := 0
	for _, a := range answers {
		switch a.Status {
		case http.StatusCreated, http.StatusAccepted:
			told++
		case http.StatusConflict:
			assert.NotEmpty(w.t, a.Body["type"], "%s", a.Raw)
		default:
			assert.Fail(w.t, "neither an answer nor a conflict", "%d %s", a.Status, a.Raw)
		}
	}
	assert.Positive(w.t, told)
	w.awaitStatus(id, "completed")
	w.settled(id)
	assert.Equal(w.t, 1, w.captured(id))
	assert.Len(w.t, w.issuedFor(id), 1)
	assert.Len(w.t, w.writes(id, "/confirm"), 1)
	assert.Len(w.t, w.sandbox.Receiver().Effects(receiver.Filter{OrderID: id}), 2)
}

// reset starts a run again from one of its workflow tasks, as an operator does in the Web UI.
func (w *world) reset(id string, task int) {
	w.t.Helper()
	var tasks []int64
	h := w.history(order.WorkflowID(order.ID(id)), "")
	for _, e := range h.GetEvents() {
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			tasks = append(tasks, e.GetEventId())
		}
	}
	require.Greater(w.t, len(tasks), task, "%s has so many workflow tasks", id)
	_, err := w.temporal.ResetWorkflowExecution(context.Background(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: w.env["TEMPORAL_NAMESPACE"], WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: order.WorkflowID(order.ID(id))},
		Reason: "test", RequestId: random(12), WorkflowTaskFinishEventId: tasks[task],
	})
	require.NoError(w.t, err)
}

// middle is the number of a workflow task in the middle of a run.
func (w *world) middle(id string) int {
	w.t.Helper()
	n := 0
	for _, e := range w.history(order.WorkflowID(order.ID(id)), "").GetEvents() {
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			n++
		}
	}
	return n / 2
}

func TestAResetRunDoesNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("STRIPE_TIMEOUT", "10s"), with("ORDERFLOW_STEP_TIMEOUT", "15s"))
	for _, id := range []string{"reset-first", "reset-middle"} {
		w.place(id, grant("g", 2, 500), issued("tickets", "t", 2, 100), issued("vouchers", "v", 1, 100))
		w.buy(id, "pay-"+id)
		w.awaitStatus(id, "completed")
		w.settled(id)
		w.await("the run is over", func() bool { return w.over(id) })
	}
	w.reset("reset-first", 0)
	w.reset("reset-middle", w.middle("reset-middle"))
	for _, id := range []string{"reset-first", "reset-middle"} {
		w.await("the new run is over", func() bool { return w.over(id) })
		w.once(id, 3)
	}

	// In the middle of the charge: the old run's step still waits for its answer when the new run begins.
	held := &trial{name: "reset_charging", fault: faults.Fault{Action: faults.Late, Delay: 2 * time.Second}, want: done}
	held.onConfirm()
	answer := w.begin(held)
	w.fired(held.name, 1)
	w.reset(held.name, 0)
	a := <-answer
	assert.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s", a.Raw)
	w.ends(held)
	w.settled(held.name)
	w.noticedOnce(held)
	assert.Len(t, w.sandbox.Stripe().Charges(stripesim.Filter{MerchantReference: w.references(held.name)[0]}), 1)

	// Parked: the new run parks it again, with the same review, which is decided.
	review := w.parkAll(faults.LoseAnswer, "reset-parked")["reset-parked"]
	w.await("parked in Temporal", func() bool { return w.waitsFor("reset-parked", "review") })
	w.reset("reset-parked", 0)
	w.decideParked("reset-parked", review)
	w.booksAgree()
}

// once counts a completed order in every book.
func (w *world) once(id string, units int) {
	w.t.Helper()
	w.settled(id)
	assert.Equal(w.t, "completed", w.status(id))
	assert.Equal(w.t, 1, w.captured(id), id)
	assert.Len(w.t, w.issuedFor(id), units, id)
	assert.Len(w.t, w.writes(id, "/confirm"), 1, id)
	assert.Len(w.t, w.sandbox.Receiver().Effects(receiver.Filter{OrderID: id}), 2, id)
}

// decideParked decides a parked order by signal, with what its new run shows.
func (w *world) decideParked(id string, review order.ReviewID) {
	w.t.Helper()
	typed := filled(w.pasted(id, review)[order.DecideConfirmProvided])
	require.Len(w.t, w.issuedFor(id), 1)
	require.NoError(w.t, w.temporal.SignalWorkflow(context.Background(), order.WorkflowID(order.ID(id)), "", order.SignalDecision, decoded(w.t, typed)))
	w.awaitStatus(id, "completed")
	w.once(id, 1)
}

func TestTemporalLosesEverything(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateTemporal(t, false)
	w := newWorld(t, workersDie, onServer(server), with("STRIPE_TIMEOUT", "20s"), with("ORDERFLOW_STEP_TIMEOUT", "30s"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "15s"))
	w.place("lost-completed", grant("g", 1, 500), issued("tickets", "t", 1, 100))
	w.buy("lost-completed", "k")
	w.awaitStatus("lost-completed", "completed")
	w.settled("lost-completed")
	parked := w.parkAll(faults.LoseAnswer, "lost-parked")["lost-parked"]
	refused := &trial{name: "lost_declined", card: "pm_card_visa_chargeDeclined", fault: faults.Fault{Action: faults.LoseAnswer}, want: declined}
	refused.onConfirm()
	charging := &trial{name: "lost_charging", fault: faults.Fault{Action: faults.Hang, Effect: true}, want: done}
	charging.onConfirm()
	issuing := &trial{name: "lost_issuing", issuer: "labels", fault: faults.Fault{Action: faults.Hang, Effect: true}, want: done}
	issuing.onIssue()
	trials := []*trial{charging, issuing, refused}
	var answers []<-chan answer
	for _, x := range trials {
		answers = append(answers, w.begin(x))
		w.fired(x.name, 1)
	}
	server.Kill()
	w.killWorkers() // what a held step learns later would spoil the test: its worker is gone, too

	// The API takes orders and payments all the same.
	w.place("while-away", grant("g", 1, 500), issued("tickets", "t", 1, 100))
	a := w.pay("while-away", "k-away")
	assert.Equal(t, http.StatusAccepted, a.Status, "%s", a.Raw)
	for i := range answers {
		a := <-answers[i]
		assert.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s", a.Raw)
	}
	server.Restart()
	w.startWorker()
	for _, x := range trials {
		w.awaitFor(90*time.Second, x.name+" at its end", func() bool { return w.cameTo(x.name) == x.want })
		w.settled(x.name)
		w.noticedOnce(x)
	}
	w.awaitStatus("while-away", "completed")
	w.once("while-away", 1)
	w.once("lost-completed", 1)
	assert.False(t, w.known("lost-completed"), "what is done gets no new run")
	w.await("a new run for the parked order", func() bool {
		return w.known("lost-parked") && strings.Contains(w.details("lost-parked"), string(parked))
	})
	w.decideParked("lost-parked", parked)
	assert.Len(t, w.writes(charging.name, "/confirm"), 1, "charged, looked up, never sent again")
	assert.Len(t, w.sandbox.Issuers().Issuances(issuersim.Filter{OrderID: issuing.name}), 1)
	w.booksAgree()
}

// known reports that Temporal knows a workflow of the order.
func (w *world) known(id string) bool {
	_, err := w.temporal.DescribeWorkflow(context.Background(), order.WorkflowID(order.ID(id)), "")
	return err == nil
}
