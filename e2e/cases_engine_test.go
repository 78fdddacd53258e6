package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
)

// Goal: the public cases about the engine and the pool: long histories, overlapping tries, slow providers, an outbox worker
// that dies between sending and marking. Replay over releases (PC-56) is workflows/replay_test.go.

// runs lists an order's workflow runs.
func (w *world) runs(workflowID string) []string {
	w.t.Helper()
	seen := map[string]bool{}
	var out []string
	w.await("runs of "+workflowID, func() bool {
		// Visibility may lag, so runs are followed back from the newest by what each one says it continued.
		for run := w.newestRun(workflowID); run != "" && !seen[run]; {
			seen[run] = true
			out = append(out, run)
			h := w.history(workflowID, run)
			if len(h.GetEvents()) == 0 {
				return false
			}
			run = h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		}
		return len(out) > 0
	})
	slices.Reverse(out)
	return out
}

func (w *world) newestRun(workflowID string) string {
	w.t.Helper()
	d, err := w.temporal.DescribeWorkflow(context.Background(), workflowID, "")
	require.NoError(w.t, err)
	return d.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

// shortHistories asserts that no run of an order's workflow comes near Temporal's limits, and returns how many runs there are.
func (w *world) shortHistories(id string, most int) int {
	w.t.Helper()
	runs := w.runs(order.WorkflowID(order.ID(id)))
	for i, run := range runs {
		h := w.history(order.WorkflowID(order.ID(id)), run)
		assert.Less(w.t, len(h.GetEvents()), most, "run %d of %s", i+1, id)
		last := h.Events[len(h.Events)-1]
		if i < len(runs)-1 {
			assert.Equal(w.t, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW, last.GetEventType(), "run %d of %s hands over", i+1, id)
		}
		w.t.Logf("%s: run %d has %d events, ends with %s", id, i+1, len(h.Events), last.GetEventType())
	}
	return len(runs)
}

// TestPC55_LargeOrdersCarryOn issues 1,500 units (500 in the short run, with bounds as much smaller) at two issuers, some with lost answers and outages, and looks an unknown
// payment up again and again: histories stay short, and nothing is lost or doubled where one run takes over from another.
func TestPC55_LargeOrdersCarryOn(t *testing.T) {
	t.Parallel()
	size := 1500
	if !long() {
		size = 500
	}
	w := newWorld(t, with("ORDERFLOW_BATCH_MAX", fmt.Sprint(size/15)), with("ORDERFLOW_HISTORY_MAX", fmt.Sprint(size)), with("ORDERFLOW_UNITS_AT_ONCE", "40"),
		// No unit may become a person's because the machine is busy: nothing here would give it back.
		with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "4m"), with("ORDERFLOW_DEAD_WORKER_AFTER", "5s"), with("ORDERFLOW_LOOKUPS_PER_SECOND", "500"))
	w.sub("PC-55 many units, each with an activity of its own", func(w *world) {
		id := "pc55"
		w.place(id, issued("tickets", "t-a", size/3, 10), issued("labels", "l-b", size/5, 10), issued("tickets", "t-c", size-size/3-size/5-1, 10), issued("tickets", "t-d", 1, 10), grant("g", 3, 10))
		issue := func(f faults.Fault) { f.Target, f.Method, f.PathSuffix = faults.Issuer, "POST", "/issuances"; w.arm(f) }
		issue(faults.Fault{PathContains: "idempotent", Action: faults.LoseAnswer, Skip: size / 75, Times: 10})
		issue(faults.Fault{PathContains: "idempotent", Action: faults.Drop, Skip: size / 5, Times: 10})
		issue(faults.Fault{PathContains: "idempotent", Action: faults.Status, Status: 503, Skip: size * 7 / 15, Times: 10})
		issue(faults.Fault{PathContains: "lookup", Action: faults.LoseAnswer, Skip: size / 15, Times: 10})
		w.arm(faults.Fault{Target: faults.Issuer, Method: "POST", BodyContains: `"t-d"`, Action: faults.Drop, Times: 5}) // five tries of one unit
		oneOf(w.t, w.pay(id, "pc55-k1"), 201, 202)
		w.awaitFor(4*time.Minute, "all units issued", func() bool { return w.status(id) == "completed" })
		w.settled(id)
		assert.Len(w.t, w.sandbox.Issuers().Issuances(issuersim.Filter{OrderID: id}), size)
		assert.Equal(w.t, size+3, w.number("SELECT count(*) FROM fulfillment_units WHERE order_id = $1 AND status = 'issued'", id))
		assert.Equal(w.t, size+3, w.number("SELECT count(*) FROM issuances WHERE order_id = $1", id))
		assert.Greater(w.t, w.shortHistories(id, 2*size), 2, "the work was handed over from run to run")
		w.booksAgree()
	})
	w.sub("PC-55 an unknown payment looked up for a long time", (*world).pc55Polled)
}

func (w *world) pc55Polled() {
	id := "pc55-polled"
	w.place(id, grant("g", 1, 500))
	w.execute(`UPDATE orders SET policy = policy || '{"history_max": 60, "unknown_to_review_after": 500000000}' WHERE order_id = 'pc55-polled'`)
	w.arm(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.LoseAnswer, Times: 1})
	down := w.arm(faults.Fault{Target: faults.Stripe, PathContains: "/pi_", Action: faults.Status, Status: 503})
	oneOf(w.t, w.pay(id, "pc55-polled-k1"), 202)
	w.awaitReview(id, order.ReviewConfirmUnknown)
	const polls = 100
	for i := range polls {
		before, _ := w.sandbox.Faults().Get(down)
		require.NoError(w.t, w.temporal.SignalWorkflow(context.Background(), order.WorkflowID(order.ID(id)), "", order.SignalFactsChanged,
			order.FactsChanged{Source: "sweep", Reference: fmt.Sprintf("look %d", i)}))
		w.fired(down, before.Fired+1) // every "look again" leads to a look, also one that comes in the moment of a handover
	}
	assert.Equal(w.t, "unknown", w.text("SELECT status FROM payment_attempts WHERE order_id = $1", id))
	assert.Greater(w.t, w.shortHistories(id, 200), 5, "a hundred looks do not pile up in one history")
	w.sandbox.Faults().Remove(down)
	w.awaitStatus(id, "completed")
	w.settled(id)
	w.neverFailed(id)
	w.booksAgree()
}

// TestPC57_TwoTriesOverlap gives a step less time than the other side takes, so that a second try starts while the first is
// still being worked on.
func TestPC57_TwoTriesOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_STEP_TIMEOUT", "1s"), with("STRIPE_TIMEOUT", "20s"), swap("ORDERFLOW_ISSUERS", `"timeout":"2s"`, `"timeout":"20s"`),
		with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "20s"))
	w.sub("PC-57 a charge: the same key both times, one charge", func(w *world) {
		id := "pc57-charge"
		w.place(id, grant("g", 1, 800))
		slow := w.arm(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.Slow, Delay: time.Minute, Times: 1})
		oneOf(w.t, w.pay(id, "pc57-k1"), 201, 202)
		w.await("a second try at the provider", func() bool { return len(w.writes(id, "/confirm")) > 1 })
		w.sandbox.Faults().Release(slow)
		w.awaitStatus(id, "completed")
		w.settled(id)
		sent := w.writes(id, "/confirm")
		require.GreaterOrEqual(w.t, len(sent), 2, "both tries reached the provider")
		for _, r := range sent {
			assert.Equal(w.t, sent[0].Key, r.Key)
		}
		assert.Equal(w.t, 1, w.captured(id))
		assert.Equal(w.t, 1, w.number("SELECT count(DISTINCT provider_payment_id) FROM observations WHERE order_id = $1 AND outcome = 'succeeded'", id), "every result is the same payment")
		w.neverFailed(id)
		w.booksAgree()
	})
	w.sub("PC-57 an idempotent issuer: the same operation both times, one issuance", func(w *world) {
		id := "pc57-tickets"
		w.place(id, issued("tickets", "t", 1, 800))
		slow := w.arm(faults.Fault{Target: faults.Issuer, Method: "POST", Action: faults.Slow, Delay: time.Minute, Times: 1})
		oneOf(w.t, w.pay(id, "pc57-k2"), 201, 202)
		w.await("a second try at the issuer", func() bool { return len(w.sandbox.Issuers().Requests(issuersim.Filter{OrderID: id})) > 1 })
		w.sandbox.Faults().Release(slow)
		w.awaitStatus(id, "completed")
		w.settled(id)
		made := w.sandbox.Issuers().Issuances(issuersim.Filter{OrderID: id})
		require.Len(w.t, made, 1)
		assert.Equal(w.t, 1, w.number("SELECT count(*) FROM issuances WHERE order_id = $1 AND issuer_issuance_id = $2", id, made[0].IssuanceID))
		tries := w.number("SELECT sends FROM operations WHERE order_id = $1 AND kind = 'issue'", id)
		looks := len(w.sandbox.Issuers().Requests(issuersim.Filter{OperationID: made[0].OperationID}))
		assert.Greater(w.t, tries+looks, 2, "a second try ran while the first was being worked on")
		w.booksAgree()
	})
	w.sub("PC-57 an opaque issuer: the unit's claim keeps the second try from sending", func(w *world) {
		id := "pc57-vouchers"
		w.place(id, issued("vouchers", "v", 1, 800))
		slow := w.arm(faults.Fault{Target: faults.Issuer, Method: "POST", Action: faults.Slow, Delay: 8 * time.Second, Times: 1})
		oneOf(w.t, w.pay(id, "pc57-k3"), 201, 202)
		w.fired(slow, 1)
		w.awaitReview(id, order.ReviewIssuanceUnknown)
		w.await("the slow issuer to be done", func() bool { return len(w.sandbox.Issuers().Issuances(issuersim.Filter{OrderID: id})) == 1 })
		w.settled(id)
		assert.Equal(w.t, 1, len(w.sandbox.Issuers().Requests(issuersim.Filter{Kind: issuersim.Opaque})), "sent once, ever")
		assert.Equal(w.t, "unknown", w.text("SELECT status FROM fulfillment_units WHERE order_id = $1", id))
		w.booksAgree()
	})
}

// TestPC60_ASlowProviderHoldsNoConnection pays many orders at once through pools of five connections while the provider takes
// seconds to answer. Whoever held a connection over the call would stop everybody else for as long.
func TestPC60_ASlowProviderHoldsNoConnection(t *testing.T) {
	t.Parallel()
	const orders, latency = 100, 5 * time.Second
	w := newWorld(t, with("ORDERFLOW_DATABASE_POOL", "5"), with("STRIPE_TIMEOUT", "30s"), with("ORDERFLOW_STEP_TIMEOUT", "60s"),
		with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "60s"), with("ORDERFLOW_DEAD_WORKER_AFTER", "20s"))
	var ids []string
	var reads []time.Duration
	longestIdle := 0.0
	for wave := 0; wave == 0 || len(reads) <= 50 && wave < 5; wave++ { // a slow machine reads less in the time of one
		of := numbered(fmt.Sprintf("pc60-%d-%%d", wave), orders)
		for _, id := range of {
			w.place(id, grant("g", 1, 100))
		}
		ids = append(ids, of...)
		require.NoError(t, w.sandbox.Faults().SetLatency(faults.Stripe, latency))
		var waiting atomic.Int64
		waiting.Store(orders)
		var payers sync.WaitGroup
		for _, id := range of {
			payers.Go(func() {
				defer waiting.Add(-1)
				a, err := w.try("POST", path(id)+"/payments", id+"-k1", apiKey, payBody("pm_card_visa"))
				assert.NoError(t, err)
				oneOf(t, a, 201, 202)
			})
		}
		for n := 0; waiting.Load() > 0; n++ {
			began := time.Now()
			a, err := w.try("GET", path(of[n%orders]), "", apiKey, nil)
			reads = append(reads, time.Since(began))
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Raw)
			var idle float64
			require.NoError(t, w.owner.QueryRow(context.Background(), `SELECT coalesce(max(extract(epoch FROM now() - state_change)), 0)::float8 FROM pg_stat_activity
				WHERE datname = current_database() AND state LIKE 'idle in transaction%'`).Scan(&idle))
			longestIdle = max(longestIdle, idle)
		}
		payers.Wait()
		require.NoError(t, w.sandbox.Faults().SetLatency(faults.Stripe, 0))
	}
	slices.Sort(reads)
	p50, p99 := reads[len(reads)/2], reads[len(reads)*99/100]
	t.Logf("%d reads beside %d payments: median %s, p99 %s; longest idle in transaction %.3f s", len(reads), len(ids), p50, p99, longestIdle)
	require.Greater(t, len(reads), 50, "the measure has enough of them")
	assert.Less(t, p99, latency/2, "other calls do not wait for the provider")
	assert.Less(t, longestIdle, 1.0, "nobody holds a transaction open over the provider's call")
	w.settled(ids...)
	for _, id := range ids {
		assert.Equal(t, "completed", w.status(id))
	}
	w.booksAgree()
}

// TestPC65_SentAndThenKilled kills the worker again and again after the receiver took an event and before it is marked.
func TestPC65_SentAndThenKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersDie, with("ORDERFLOW_EVENT_TIMEOUT", "1s"))
	const kills, each = 7, 3
	var ids []string
	for range kills {
		held := map[string]string{}
		var answers []<-chan answer
		for range each {
			id := fmt.Sprintf("pc65-%02d", len(ids))
			ids = append(ids, id)
			w.place(id, grant("g", 1, 100))
			// The effect is done at once, and every answer would come after the worker's death.
			held[id] = w.arm(faults.Fault{Target: faults.Receiver, BodyContains: id, Action: faults.Late, Delay: 30 * time.Second})
			answers = append(answers, w.later("POST", path(id)+"/payments", id+"-k1", payBody("pm_card_visa")))
		}
		for _, f := range held {
			w.fired(f, 1)
		}
		w.killWorkers()
		for id, f := range held {
			assert.Zero(t, w.number("SELECT count(*) FROM event_deliveries WHERE order_id = $1 AND status = 'delivered'", id), "it died before it could mark")
			w.sandbox.Faults().Remove(f)
		}
		w.startWorker()
		for _, a := range answers {
			oneOf(w.t, <-a, 201, 202)
		}
	}
	w.awaitFor(90*time.Second, "every event delivered", func() bool {
		return w.number("SELECT count(*) FROM event_deliveries WHERE status <> 'delivered'") == 0 && w.number("SELECT count(*) FROM orders WHERE status <> 'completed'") == 0
	})
	w.settled(ids...)
	doubled := 0
	for _, e := range w.sandbox.Receiver().Effects(receiver.Filter{}) {
		if e.Taken > 1 {
			doubled++
		}
	}
	assert.GreaterOrEqual(t, doubled, kills*each, "every killed delivery came again, with the same id")
	assert.Len(t, w.sandbox.Receiver().Effects(receiver.Filter{}), 2*kills*each, "paid and completed of every order, once each")
	w.booksAgree()
}

// everyHistory reads all runs of all workflows of the namespace.
func (w *world) everyHistory() []*historypb.History {
	w.t.Helper()
	var out []*historypb.History
	var token []byte
	for {
		r, err := w.temporal.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{NextPageToken: token, PageSize: 200})
		require.NoError(w.t, err)
		for _, e := range r.GetExecutions() {
			out = append(out, w.history(e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId()))
		}
		if token = r.GetNextPageToken(); len(token) == 0 {
			return out
		}
	}
}
