package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/workflows"
)

// arm sets a fault in the sandbox.
func (w *world) arm(f faults.Fault) string {
	w.t.Helper()
	id, err := w.sandbox.Faults().Add(f)
	require.NoError(w.t, err)
	return id
}

// fired waits until a fault has hit n requests.
func (w *world) fired(id string, n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	require.NoError(w.t, w.sandbox.Faults().AwaitFired(ctx, id, n))
}

// history reads a run's whole history; run "" is the newest.
func (w *world) history(workflowID, run string) *historypb.History {
	w.t.Helper()
	it := w.temporal.GetWorkflowHistory(context.Background(), workflowID, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	h := &historypb.History{}
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return h // not started yet
		}
		h.Events = append(h.Events, e)
	}
	return h
}

// replays runs a live history against the code as it is, and records it where asked to.
func (w *world) replays(name, workflowID, run string) {
	w.t.Helper()
	h := w.history(workflowID, run)
	require.NotEmpty(w.t, h.GetEvents())
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(workflows.OrderWorkflow, workflow.RegisterOptions{Name: order.WorkflowOrder})
	r.RegisterWorkflowWithOptions(workflows.SweepWorkflow, workflow.RegisterOptions{Name: order.WorkflowSweep})
	r.RegisterWorkflowWithOptions(workflows.RelayWorkflow, workflow.RegisterOptions{Name: order.WorkflowRelay})
	r.RegisterWorkflowWithOptions(workflows.ReconcileWorkflow, workflow.RegisterOptions{Name: order.WorkflowReconcile})
	require.NoError(w.t, r.ReplayWorkflowHistory(nil, h), "replay of %s", name)
	if dir := os.Getenv("ORDERFLOW_RECORD_HISTORIES"); dir != "" {
		b, err := protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(h)
		require.NoError(w.t, err)
		require.NoError(w.t, os.WriteFile(filepath.Join(dir, name+"@v1.json"), b, 0o600))
	}
}

// TestHistoriesOfEveryWaitState brings real orders into every state a run can wait in and replays what Temporal recorded.
// With ORDERFLOW_RECORD_HISTORIES=workflows/testdata/histories (an absolute path) it writes them for the replay test.
func TestHistoriesOfEveryWaitState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_BATCH_MAX", "10"), with("ORDERFLOW_HISTORY_MAX", "100"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "2s"),
		with("ORDERFLOW_ANSWER_BUDGET", "20s"), with("ORDERFLOW_IDEMPOTENCY_LEASE", "25s"))
	id := order.WorkflowID

	w.place("completed", grant("g", 1, 500))
	require.Equal(t, 201, w.pay("completed", "k-1").Status)
	w.awaitStatus("completed", "completed")
	w.settled("completed")
	w.replays("completed", id("completed"), "")

	w.place("external", issued("tickets", "t", 6, 100), grant("g", 1, 100))
	require.Equal(t, 201, w.pay("external", "k-2").Status)
	w.awaitStatus("external", "completed")
	w.replays("completed-external", id("external"), "")

	w.place("declined", grant("g", 1, 500))
	a := w.call("POST", path("declined")+"/payments", "k-3", payBody("pm_card_visa_chargeDeclined"))
	require.Equal(t, 201, a.Status, "%s", a.Raw)
	w.await("attempt closed", func() bool {
		return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = 'declined' AND status = 'closed'") == 1
	})
	w.settled("declined")
	w.replays("declined-closed", id("declined"), "")

	w.place("pending", grant("g", 1, 500))
	body := payBody("pm_card_threeDSecure2Required")
	body["method"].(map[string]any)["return_url"] = "https://shop.example/return"
	require.Equal(t, 201, w.call("POST", path("pending")+"/payments", "k-4", body).Status)
	w.replays("waiting-for-buyer", id("pending"), "")

	w.unknownPayment(id)
	w.unknownUnits(id)
	w.slowDelivery(id)
	w.background()
	w.carriesOn(id)
	w.booksAgree()
}

// TestACardOrderTakesAtMostTwentyEvents: history is what an order costs Temporal. No sweep is due meanwhile.
func TestACardOrderTakesAtMostTwentyEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_SWEEP_MIN_AGE", "5m"), with("ORDERFLOW_DELIVERY_LOCAL_BUDGET", "4s"))
	w.place("card", grant("g", 1, 500))
	w.buy("card", "k-1")
	w.awaitStatus("card", "completed")
	w.await("run over", func() bool { return w.over("card") })
	assert.LessOrEqual(t, len(w.history(order.WorkflowID("card"), "").Events), 20)
	w.settled("card")
	w.booksAgree()
}

// carriesOn: a run that has seen enough events goes on with an empty history, and loses nothing over the switch.
func (w *world) carriesOn(id func(order.ID) string) {
	w.t.Helper()
	w.place("large", issued("tickets", "t", 40, 100))
	require.Equal(w.t, 201, w.pay("large", "k-8").Status)
	w.awaitStatus("large", "completed")
	first := ""
	w.await("a run that was carried on", func() bool { // visibility is a moment behind
		res, err := w.temporal.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{Query: `WorkflowId = "` + id("large") + `" AND ExecutionStatus = "ContinuedAsNew"`})
		if err != nil || len(res.GetExecutions()) == 0 {
			return false
		}
		first = res.GetExecutions()[0].GetExecution().GetRunId()
		return true
	})
	w.replays("carried-on", id("large"), first)
}

// TestDatabaseAwayAsARunStarts: the first step gives up its place in the workflow task and goes on as an activity.
func TestDatabaseAwayAsARunStarts(t *testing.T) {
	t.Parallel()
	var p *testkit.TCPProxy
	w := newWorld(t, throughProxy(&p))
	w.place("away", grant("g", 1, 500))
	p.Down()
	answered := make(chan answer, 1)
	go func() {
		a, _ := w.try("POST", path("away")+"/payments", "k-1", apiKey, payBody("pm_card_visa"))
		answered <- a
	}()
	w.await("the step as a normal activity", func() bool {
		for _, e := range w.history(order.WorkflowID("away"), "").GetEvents() {
			if e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == "LoadOrder" {
				return true
			}
		}
		return false
	})
	p.Up()
	<-answered
	w.awaitStatus("away", "completed")
	w.settled("away")
	w.await("run over", func() bool { return w.over("away") })
	w.replays("database-away", order.WorkflowID("away"), "")
	w.booksAgree()
}

// unknownPayment: the charge's answer is lost and Stripe is away for a while.
func (w *world) unknownPayment(id func(order.ID) string) {
	w.t.Helper()
	w.place("unknown", grant("g", 1, 500))
	w.arm(faults.Fault{Target: "stripe", PathSuffix: "/confirm", Times: 1, Action: faults.LoseAnswer})
	away := w.arm(faults.Fault{Target: "stripe", Method: "GET", Action: faults.Status, Status: 503})
	started := func() bool { // the lookup of this order: the fault meets every order's
		for _, e := range w.history(id("unknown"), "").GetEvents() {
			if e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == "ResolvePayment" {
				return true
			}
		}
		return false
	}
	answered := make(chan answer, 1)
	go func() {
		a, _ := w.try("POST", path("unknown")+"/payments", "k-5", apiKey, payBody("pm_card_visa"))
		answered <- a
	}()
	w.await("the lookup", started)
	w.replays("looking-up", id("unknown"), "")
	require.Equal(w.t, 202, (<-answered).Status, "unknown is no failure")
	w.awaitReview("unknown", order.ReviewConfirmUnknown)
	w.await("parked in Temporal", func() bool { return w.waitsFor("unknown", "review") })
	w.replays("parked-payment", id("unknown"), "")
	require.True(w.t, w.sandbox.Faults().Remove(away))
	w.awaitStatus("unknown", "completed")
	w.settled("unknown")
	w.replays("parked-payment-found", id("unknown"), "")
}

// unknownUnits: opaque issuers lose their answers; a person decides, once by update and once by signal.
func (w *world) unknownUnits(id func(order.ID) string) {
	w.t.Helper()
	for i, o := range []string{"voucher-u", "voucher-s"} {
		w.place(o, issued("vouchers", "v", 1, 300))
		w.arm(faults.Fault{Target: "issuer", PathContains: "/opaque/", Method: "POST", Times: 1, Action: faults.LoseAnswer})
		require.Equal(w.t, 201, w.pay(o, "k-6-"+o).Status)
		review := w.awaitReview(o, order.ReviewIssuanceUnknown)
		w.await("parked in Temporal", func() bool { return w.waitsFor(o, "review") })
		if i == 0 {
			w.replays("parked-unit", id(order.ID(o)), "")
		}
		d := order.Decision{ReviewID: review, Decision: order.DecideConfirmProvided, Actor: "ann", Reason: "the issuer's portal shows it", Evidence: order.Evidence{Reference: "V-" + o}}
		if i == 0 {
			h, err := w.temporal.UpdateWorkflow(context.Background(), client.UpdateWorkflowOptions{
				WorkflowID: id(order.ID(o)), UpdateName: order.UpdateResolveReview, WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{d},
			})
			require.NoError(w.t, err)
			var res order.DecisionResult
			require.NoError(w.t, h.Get(context.Background(), &res))
			require.Equal(w.t, order.Applied, res.Verdict, res.Why)
		} else {
			require.NoError(w.t, w.temporal.SignalWorkflow(context.Background(), id(order.ID(o)), "", order.SignalDecision, d))
		}
		w.awaitStatus(o, "completed")
		w.settled(o)
		w.replays([]string{"parked-unit-decided-by-update", "parked-unit-decided-by-signal"}[i], id(order.ID(o)), "")
	}
}

// waitsFor reads the order's search attribute: the last thing a run does before it waits.
func (w *world) waitsFor(o, status string) bool {
	d, err := w.temporal.DescribeWorkflow(context.Background(), order.WorkflowID(order.ID(o)), "")
	if err != nil {
		return false
	}
	p := d.RawResponse.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields()[order.AttributeOrderStatus]
	return string(p.GetData()) == `"`+status+`"`
}

func (w *world) slowDelivery(id func(order.ID) string) {
	w.t.Helper()
	w.place("slow", grant("g", 1, 500))
	w.arm(faults.Fault{Target: "receiver", BodyContains: `"slow"`, Times: 1, Action: faults.Slow, Delay: time.Second})
	w.pay("slow", "k-7")
	w.awaitStatus("slow", "completed")
	w.settled("slow")
	w.await("slow run over", func() bool { return w.over("slow") })
	w.replays("delivered-slowly", id("slow"), "")
}

func (w *world) over(o string) bool {
	d, err := w.temporal.DescribeWorkflow(context.Background(), order.WorkflowID(order.ID(o)), "")
	return err == nil && d.RawResponse.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// background replays one run of each scheduled workflow.
func (w *world) background() {
	w.t.Helper()
	w.reconciled()
	for name, typ := range map[string]string{"sweep": order.WorkflowSweep, "relay": order.WorkflowRelay, "reconcile": order.WorkflowReconcile} {
		var run, wid string
		w.await("a finished "+name, func() bool {
			res, err := w.temporal.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{
				Query: `WorkflowType = "` + typ + `" AND ExecutionStatus = "Completed"`, PageSize: 1,
			})
			if err != nil || len(res.GetExecutions()) == 0 {
				return false
			}
			wid, run = res.GetExecutions()[0].GetExecution().GetWorkflowId(), res.GetExecutions()[0].GetExecution().GetRunId()
			return true
		})
		w.replays(name, wid, run)
	}
}
