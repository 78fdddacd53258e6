package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
)

// Goal: what an opaque issuer did with a lost request is a person's to find out. Nothing automatic issues again: no restart,
// no retry, no sweep, however long it takes; the person decides at any door, once. Method: several parked orders in one world,
// worker restarts and a wait of a hundred of the longest retry intervals, then one decision per order and door, posted to the
// Web UI's own server as its page does, with the JSON that the page shows.

// longestRetry is the configured longest interval between two tries.
const longestRetry = 100 * time.Millisecond

// parkAll brings orders to an opaque issuer that gives no answer: it has issued, or it has not.
func (w *world) parkAll(what faults.Action, ids ...string) map[string]order.ReviewID {
	w.t.Helper()
	reviews := map[string]order.ReviewID{}
	for _, id := range ids {
		w.arm(faults.Fault{Target: faults.Issuer, PathContains: "/opaque/", BodyContains: `"` + id + `"`, Times: 1, Action: what})
		w.place(id, issued("vouchers", "v", 1, 300))
		w.buy(id, "pay-"+url.QueryEscape(id))
	}
	for _, id := range ids {
		reviews[id] = w.awaitReview(id, order.ReviewIssuanceUnknown)
	}
	return reviews
}

// looks counts how often the sweep has told an order's runs to look again.
func (w *world) looks(id string) int {
	w.t.Helper()
	n := 0
	for _, e := range w.history(order.WorkflowID(order.ID(id)), "").GetEvents() {
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED && strings.Contains(e.String(), "sweep") {
			n++
		}
	}
	return n
}

func (w *world) issuedFor(id string) []issuersim.Issuance {
	return w.sandbox.Issuers().Issuances(issuersim.Filter{OrderID: id})
}

func TestAnOpaqueIssuerIsAskedOnce(t *testing.T) {
	t.Parallel()
	server := testkit.TemporalWithUI(t)
	w := newWorld(t, workersDie, onServer(server), with("ORDERFLOW_LONGEST_RETRY_INTERVAL", longestRetry.String()), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "500ms"),
		with("ORDERFLOW_REVIEW_CHECK_EVERY", "100ms"), with("ORDERFLOW_SWEEP_AGAIN", "100ms"), with("ORDERFLOW_SWEEP_PERIOD", "500ms"))
	ids := []string{"by/update 日本", "by/signal é", "by/command", "again"}
	reviews := w.parkAll(faults.LoseAnswer, ids[:3]...)
	reviews[ids[3]] = w.parkAll(faults.Drop, ids[3])[ids[3]]
	w.neverIssuesAgain(ids)
	ui := w.openWebUI(server.UIURL)
	w.refusals(ui, ids[0], reviews[ids[0]])
	w.decideByUpdate(ui, ids[0], reviews[ids[0]])
	w.decideBySignal(ui, ids[1], reviews[ids[1]])
	w.decideByCommand(ids[2], reviews[ids[2]])
	for _, id := range ids[:3] {
		w.awaitStatus(id, "completed")
		w.settled(id)
		assert.Len(t, w.issuedFor(id), 1, id)
		assert.Equal(t, 1, w.number("SELECT count(*) FROM issuances WHERE order_id = $1 AND source = 'operator'", id), id)
	}
	w.rerun(ui, ids[3], reviews[ids[3]])
	for _, id := range ids {
		assert.Equal(t, 1, w.captured(id), id)
		assert.Len(t, w.sandbox.Receiver().Effects(receiver.Filter{OrderID: id}), 2, id)
		assert.Equal(t, 1, w.number("SELECT count(*) FROM review_decisions WHERE order_id = $1", id), "%s: one decision, one effect", id)
	}
	w.booksAgree()
}

// neverIssuesAgain: a killed worker, a stopped one, and a hundred of the longest retry intervals later, each order has what it
// had when it was parked, and the issuer has seen one request of each.
func (w *world) neverIssuesAgain(ids []string) {
	w.t.Helper()
	w.killWorkers()
	w.startWorker()
	w.workers[0].stop()
	w.workers = nil
	w.startWorker()
	w.await("a hundred retry intervals, with the sweep at work", func() bool {
		const old = "SELECT count(*) FROM reviews WHERE status = 'open' AND opened_at < now() - make_interval(secs => $1)"
		return w.number(old, (100*longestRetry).Seconds()) == len(ids) && w.looks(ids[0]) >= 4 && w.looks(ids[3]) >= 4
	})
	for i, id := range ids {
		require.Len(w.t, w.issuedFor(id), []int{1, 1, 1, 0}[i], id)
		require.Equal(w.t, "paid", w.status(id))
		require.Equal(w.t, 1, w.number("SELECT count(*) FROM fulfillment_units WHERE order_id = $1 AND status = 'unknown'", id))
		require.Equal(w.t, 1, w.number("SELECT sends FROM operations WHERE order_id = $1 AND kind = 'issue'", id))
	}
	require.Len(w.t, w.sandbox.Issuers().Requests(issuersim.Filter{Kind: issuersim.Opaque}), len(ids), "nothing was sent again")
}

// refusals changes nothing: each is told why, at the door or by the rule.
func (w *world) refusals(ui *webUI, id string, review order.ReviewID) {
	w.t.Helper()
	texts := w.pasted(id, review)
	confirm, rerun := filled(texts[order.DecideConfirmProvided]), filled(texts[order.DecideRerunUnit])
	change := func(text string, f func(*order.Decision)) string {
		d := decoded(w.t, text)
		f(&d)
		b, err := json.Marshal(d)
		require.NoError(w.t, err)
		return string(b)
	}
	for _, c := range []struct{ typed, why string }{
		{change(confirm, func(d *order.Decision) { d.Reason = "" }), "reason_missing"},
		{change(confirm, func(d *order.Decision) { d.Actor = "" }), "actor_missing"},
		{change(confirm, func(d *order.Decision) { d.ReviewVersion += 7 }), "review_moved"},
		{change(confirm, func(d *order.Decision) { d.Evidence.Reference = "" }), "evidence_reference_missing"},
		{change(rerun, func(d *order.Decision) { d.Evidence.Proof = "" }), "evidence_proof_missing"},
		{change(confirm, func(d *order.Decision) { d.Decision = order.DecideRefund }), "decision_not_allowed"},
		{change(confirm, func(d *order.Decision) { d.Decision, d.Evidence.Proof = order.DecideCloseWithEvidence, "ticket 4711" }), "still_owed"},
		{change(confirm, func(d *order.Decision) { d.ReviewID = "rev_none" }), "no_such_review"},
	} {
		res, refused := ui.update(id, c.typed)
		assert.True(w.t, strings.Contains(refused, c.why) || (res.Verdict == order.Rejected && res.Why == c.why), "%s: %+v %s", c.why, res, refused)
		ui.signal(id, c.typed) // cannot be refused at the door, and must not fail the order
	}
	w.await("signals taken", func() bool {
		return w.number("SELECT count(*) FROM audit_log WHERE act = 'decision_refused' AND order_id = $1 AND channel = 'temporal_signal'", id) >= 7
	})
	assert.Zero(w.t, w.number("SELECT count(*) FROM review_decisions"))
	assert.Equal(w.t, "paid", w.status(id))
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM reviews WHERE review_id = $1 AND status = 'open'", string(review)))
}

// decideByUpdate sends the shown JSON, twice, and then another decision for the same review.
func (w *world) decideByUpdate(ui *webUI, id string, review order.ReviewID) {
	w.t.Helper()
	texts := w.pasted(id, review)
	typed := filled(texts[order.DecideConfirmProvided])
	res, refused := ui.update(id, typed)
	require.Empty(w.t, refused)
	require.Equal(w.t, order.Applied, res.Verdict, "%+v", res)
	require.False(w.t, res.Replayed)
	w.awaitStatus(id, "completed")
	again, _, code := w.starterCommand(nil, decideArgs(decoded(w.t, typed))...)
	require.Zero(w.t, code, "%s", again)
	require.NoError(w.t, json.Unmarshal([]byte(again), &res))
	assert.True(w.t, res.Replayed, "the same decision again is one effect and the same answer: %s", again)
	other, _, code := w.starterCommand(nil, decideArgs(decoded(w.t, filled(texts[order.DecideRerunUnit])))...)
	assert.Equal(w.t, 2, code, "%s", other)
	assert.Contains(w.t, other, "review_closed")
}

func (w *world) decideBySignal(ui *webUI, id string, review order.ReviewID) {
	w.t.Helper()
	typed := filled(w.pasted(id, review)[order.DecideConfirmProvided])
	ui.signal(id, typed)
	w.awaitStatus(id, "completed")
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM review_decisions WHERE order_id = $1 AND channel = 'temporal_signal' AND actor_claimed", id))
}

func (w *world) decideByCommand(id string, review order.ReviewID) {
	w.t.Helper()
	d := decoded(w.t, filled(w.pasted(id, review)[order.DecideConfirmProvided]))
	out, errs, code := w.starterCommand(nil, decideArgs(d)...)
	require.Zero(w.t, code, "%s %s", out, errs)
	w.awaitStatus(id, "completed")
	shown, _, _ := w.starterCommand(nil, "explain", id)
	assert.Contains(w.t, shown, "ann")
}

func decideArgs(d order.Decision) []string {
	version, _ := json.Marshal(d.ReviewVersion)
	args := []string{"decide", "--review", string(d.ReviewID), "--version", string(version), "--decision", string(d.Decision), "--actor", d.Actor, "--reason", d.Reason}
	if d.Evidence.Reference != "" {
		args = append(args, "--reference", d.Evidence.Reference)
	}
	if d.Evidence.Proof != "" {
		args = append(args, "--proof", d.Evidence.Proof)
	}
	return args
}

// rerun: with proof that nothing was provided, the unit is sent exactly once more, under a new operation.
func (w *world) rerun(ui *webUI, id string, review order.ReviewID) {
	w.t.Helper()
	typed := filled(w.pasted(id, review)[order.DecideRerunUnit])
	res, refused := ui.update(id, typed)
	require.Empty(w.t, refused)
	require.Equal(w.t, order.Applied, res.Verdict, "%+v", res)
	if w.status(id) != string(order.OrderCompleted) { // a run that is over takes no signal, and needs none
		_, _, code := w.starterCommand(nil, decideArgs(decoded(w.t, typed))...)
		require.Zero(w.t, code, "the same once more is the same decision")
	}
	w.awaitStatus(id, "completed")
	w.settled(id)
	require.Len(w.t, w.issuedFor(id), 1)
	var sent []issuersim.Request
	for _, r := range w.sandbox.Issuers().Requests(issuersim.Filter{Kind: issuersim.Opaque}) {
		if strings.Contains(r.Body, `"`+id+`"`) {
			sent = append(sent, r)
		}
	}
	require.Len(w.t, sent, 2, "exactly once more")
	assert.NotEqual(w.t, sent[0].OperationID, sent[1].OperationID, "a new operation")
	assert.Equal(w.t, sent[1].OperationID, w.issuedFor(id)[0].OperationID)
	assert.Equal(w.t, 2, w.number("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'issue'", id))
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM fulfillment_units WHERE order_id = $1", id), "of the same unit")
}

// TestTwoDecisionsAtOnce: two people decide the same review at the same moment by different doors. One wins, the other is told.
func TestTwoDecisionsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rounds = 4
	for _, id := range numbered("both-%d", rounds) {
		review := w.parkAll(faults.LoseAnswer, id)[id]
		ann := decoded(t, filled(w.pasted(id, review)[order.DecideConfirmProvided]))
		bob := ann
		bob.Actor, bob.Evidence.Reference = "bob", "V-0815"
		results := make(chan order.DecisionResult, 2)
		for _, d := range []order.Decision{ann, bob} {
			go func() { results <- w.decideInTemporal(id, d) }()
		}
		one, two := <-results, <-results
		// Who was taken back and insisted may find the run over; then the review's row says who won.
		assert.False(t, one.Verdict == order.Applied && two.Verdict == order.Applied, "%+v %+v", one, two)
		w.awaitStatus(id, "completed")
		w.settled(id)
		assert.Equal(t, 1, w.number("SELECT count(*) FROM review_decisions WHERE order_id = $1", id))
		assert.Len(t, w.issuedFor(id), 1)
	}
	w.booksAgree()
}

// decideInTemporal sends a decision and insists, as a person does who is told to try again: the same decision again is one
// effect and the same answer. A run that has ended takes none, and says so.
func (w *world) decideInTemporal(id string, d order.Decision) (res order.DecisionResult) {
	for range 10 {
		h, err := w.temporal.UpdateWorkflow(context.Background(), client.UpdateWorkflowOptions{
			WorkflowID: order.WorkflowID(order.ID(id)), UpdateName: order.UpdateResolveReview, WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{d},
		})
		if err == nil {
			err = h.Get(context.Background(), &res)
		}
		var takenBack *serviceerror.WorkflowNotReady
		if errors.As(err, &takenBack) { // more came while the run was about to end
			continue
		}
		var over *serviceerror.NotFound
		if !errors.As(err, &over) {
			assert.NoError(w.t, err)
		}
		return res
	}
	return res
}
