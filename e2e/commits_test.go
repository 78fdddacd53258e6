package e2e

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
)

// Goal: a write that PostgreSQL has carried out and whose answer never comes is found again and done once. Method: a proxy
// between worker and PostgreSQL that lets one chosen COMMIT through and swallows its answer - once cutting the connection, so
// that the step sees an error, and once holding it, so that the worker is killed exactly between COMMIT and answer.
// Not covered: writes of the API, which its own tests and the case tests break.

// written is one write whose answer is lost.
type written struct {
	name   string
	psp    *psp // nil = Stripe
	commit testkit.CommitFilter
	issuer string
	card   string
	fault  faults.Fault // more trouble, to get to the write at all
	want   end
	posts  int // requests that could issue; 0 = not counted
	kill   bool
}

func query(name string) string { return "-- name: " + name + " " }

func in(name string, nth int) testkit.CommitFilter {
	return testkit.CommitFilter{After: query(name), Nth: nth}
}

func alone(name string) testkit.CommitFilter {
	return testkit.CommitFilter{After: query(name), Alone: true}
}

// writes is every write of the way from pay to rest.
func everyWrite() []written {
	lostConfirm := faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.Drop}
	busy := faults.Fault{Target: faults.Issuer, Method: "POST", Action: faults.Status, Status: 429}
	lostIssue := faults.Fault{Target: faults.Issuer, Method: "POST", Action: faults.LoseAnswer}
	return []written{
		{name: "claim", commit: in("OperationClaim", 1), want: done, kill: true},
		{name: "prepared", commit: in("ObservationKeep", 1), want: done},            // the answer to prepare, with the claim of the confirm
		{name: "charged", commit: in("ObservationKeep", 2), want: done, kill: true}, // the answer that says that money was taken
		{name: "claim_again", commit: alone("OperationClaimAgain"), fault: lostConfirm, want: done},
		{name: "reflect", commit: in("PaymentRecord", 1), want: done, kill: true},
		{name: "unit_claim", commit: in("OperationInsert", 1), want: done, kill: true},
		{name: "unit_claim_lookup", commit: in("OperationInsert", 1), issuer: "labels", want: parkedUnit(0)},
		{name: "unit_claim_opaque", commit: in("OperationInsert", 1), issuer: "vouchers", want: parkedUnit(0), kill: true}, // claimed is sent, for all we know
		{name: "issued", commit: in("IssuanceInsert", 1), want: done, posts: 1},
		{name: "issued_lookup", commit: in("IssuanceInsert", 1), issuer: "labels", want: done, posts: 1},
		{name: "issued_opaque", commit: in("IssuanceInsert", 1), issuer: "vouchers", want: done, posts: 1, kill: true},
		{name: "parked", commit: in("ReviewOpen", 1), issuer: "vouchers", fault: lostIssue, want: parkedUnit(1), posts: 1},
		{name: "not_done", commit: alone("OperationNotDone"), issuer: "vouchers", fault: busy, want: done, posts: 2},
		{name: "claim_after_not_done", commit: alone("OperationClaimAgain"), issuer: "vouchers", fault: busy, want: parkedUnit(0), posts: 1},
		{name: "fulfill", commit: in("IssuancesInternal", 1), want: done, posts: 1, kill: true},
		{name: "declined", commit: in("ObservationKeep", 2), card: "pm_card_visa_chargeDeclined", want: declined},
		{name: "closed", commit: in("ObservationKeep", 3), card: "pm_card_visa_chargeDeclined", want: declined},
		{name: "deliveries_lease", commit: alone("DeliveriesClaim"), want: done, posts: 1},
		{name: "deliveries", commit: in("DeliveriesDone", 1), want: done, posts: 1, kill: true},
		{name: "rest", commit: alone("OrderRest"), want: done, posts: 1, kill: true},
	}
}

// of moves a write to another provider.
func (c written) of(p *psp) written {
	c.name, c.psp = p.gateway+"_"+c.name, p
	return c
}

// everyWriteAt is every write that depends on the provider, at one that is not Stripe; in the long run, the others too.
func everyWriteAt(p *psp) []written {
	answers := map[string]int{"omise": 1, "twoctwop": 2, "toss": 1}[p.gateway] // kept observations until the money is known
	lost := anyConfirm(p, false)
	lost.Action = faults.Drop
	out := []written{
		{name: "claim", commit: in("OperationClaim", 1), want: done, kill: true},
		{name: "charged", commit: in("ObservationKeep", answers), want: done, kill: true},
		{name: "claim_again", commit: alone("OperationClaimAgain"), fault: lost, want: done},
		{name: "reflect", commit: in("PaymentRecord", 1), want: done, kill: true},
		{name: "declined", commit: in("ObservationKeep", answers), card: p.declines, want: declined},
	}
	if p.prepare != nil {
		out = append(out, written{name: "prepared", commit: in("ObservationKeep", 1), want: done})
	}
	if long() {
		for _, c := range everyWrite() { // the rest of the way
			if c.card == "" && c.fault.Target != faults.Stripe && c.commit.After != query("ObservationKeep") && !slices.ContainsFunc(out, func(o written) bool { return o.name == c.name }) {
				out = append(out, c)
			}
		}
	}
	for i := range out {
		out[i] = out[i].of(p)
	}
	return out
}

// throughLosses is a world whose worker talks through a proxy, with short bounds.
func throughLosses(t *testing.T) (*world, *testkit.TCPProxy) {
	var proxy *testkit.TCPProxy
	w := newWorld(t, workersDie, throughProxy(&proxy), with("ORDERFLOW_EVENT_TIMEOUT", "1s"))
	return w, proxy
}

// lose drives one order over one lost answer; meet is called when the write holds and nobody has been told.
func (w *world) lose(proxy *testkit.TCPProxy, c written, meet func()) {
	w.t.Helper()
	x := &trial{name: c.name, psp: c.psp, issuer: c.issuer, card: c.card, want: c.want}
	if x.issuer == "" {
		x.issuer = "tickets"
	}
	w.placeIn(x.name, x.provider().currency, grant("g", 1, 500), issued(x.issuer, "t", 1, 100))
	if c.fault.Action != "" {
		c.fault.Times = 1
		w.arm(c.fault)
	}
	loss := proxy.LoseCommitAnswer(c.commit)
	paid := w.later("POST", path(x.name)+"/payments", "pay-"+x.name, x.payment())
	select {
	case <-loss.Fired():
	case <-time.After(90 * time.Second):
		w.t.Fatalf("%s: the write never came", c.name)
	}
	meet()
	a := <-paid
	assert.Contains(w.t, []int{201, 202}, a.Status, "%s: %s", c.name, a.Raw)
	w.judge(x, c)
}

func (w *world) judge(x *trial, c written) {
	w.t.Helper()
	w.ends(x)
	w.settled(x.name)
	assert.Equal(w.t, x.want, w.cameTo(x.name), x.name)
	w.noticedOnce(x)
	if c.posts > 0 {
		posts := 0
		for _, r := range w.sandbox.Issuers().Requests(issuersim.Filter{}) {
			if r.Method == "POST" && r.OperationID == w.text("SELECT operation_id FROM operations WHERE order_id = $1 AND kind = 'issue'", x.name) {
				posts++
			}
		}
		assert.Equal(w.t, c.posts, posts, "%s: requests to issue", x.name)
	}
}

func TestLostAnswersOfCommits(t *testing.T) {
	t.Parallel()
	all := everyWrite()
	parts := map[string][]written{"FromPayToIssue": all[:len(all)/2], "FromIssueToRest": all[len(all)/2:]}
	for _, p := range []*psp{&omise, &twoctwop, &toss} {
		if long() {
			parts[p.gateway] = everyWriteAt(p)
			continue
		}
		parts["OtherProviders"] = append(parts["OtherProviders"], everyWriteAt(p)...)
	}
	for name, writes := range parts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, proxy := throughLosses(t)
			for _, c := range writes {
				w.lose(proxy, c, func() {})
			}
			w.booksAgree()
		})
	}
}

// TestKilledBetweenCommitAndAnswer: the step's write holds, the worker dies without knowing it, and another one goes on.
// Killing takes ten seconds and more each, because Temporal has to notice, so it is done at one write of each kind, and the
// cases are shared out.
func TestKilledBetweenCommitAndAnswer(t *testing.T) {
	t.Parallel()
	const worlds = 3
	all := everyWrite()
	if long() {
		for _, p := range []*psp{&omise, &twoctwop, &toss} {
			all = append(all, everyWriteAt(p)...)
		}
	}
	for n := range worlds {
		t.Run([]string{"First", "Second", "Third"}[n], func(t *testing.T) {
			t.Parallel()
			w, proxy := throughLosses(t)
			i := 0
			for _, c := range all {
				if !c.kill {
					continue
				}
				if i++; i%worlds != n {
					continue
				}
				c.commit.Hold = true
				w.lose(proxy, c, func() {
					w.killWorkers()
					w.startWorker()
				})
			}
			w.booksAgree()
		})
	}
}

// TestADecisionIsStoredAndItsAnswerLost: the same decision runs again, has one effect and the same answer.
func TestADecisionIsStoredAndItsAnswerLost(t *testing.T) {
	t.Parallel()
	w, proxy := throughLosses(t)
	w.arm(faults.Fault{Target: faults.Issuer, Method: "POST", Times: 1, Action: faults.LoseAnswer})
	w.place("decided", issued("vouchers", "v", 1, 300))
	w.buy("decided", "k")
	review := w.awaitReview("decided", order.ReviewIssuanceUnknown)
	text := w.pasted("decided", review)[order.DecideConfirmProvided]
	loss := proxy.LoseCommitAnswer(in("DecisionInsert", 1))
	require.NoError(t, w.temporal.SignalWorkflow(t.Context(), order.WorkflowID("decided"), "", order.SignalDecision, decoded(t, filled(text))))
	<-loss.Fired()
	w.awaitStatus("decided", "completed")
	w.settled("decided")
	assert.Equal(t, 1, w.number("SELECT count(*) FROM review_decisions"))
	assert.Equal(t, 0, w.number("SELECT count(*) FROM audit_log WHERE act = 'decision_refused'"), "the repeat is the same decision, not a second one")
	assert.Len(t, w.sandbox.Issuers().Issuances(issuersim.Filter{}), 1)
	assert.Len(t, w.sandbox.Receiver().Effects(receiver.Filter{}), 2)
	w.booksAgree()
}

// TestAnUpdateWhileARunRests: a decision that comes while the run's last step hangs is answered, although the run has nothing
// left to do.
func TestAnUpdateWhileARunRests(t *testing.T) {
	t.Parallel()
	w, proxy := throughLosses(t)
	met := false
	for _, id := range numbered("resting-%d", 5) {
		if met = w.updateWhileResting(proxy, id); met {
			break
		}
	}
	require.True(t, met, "an update came while the step hung")
	w.booksAgree()
}

// updateWhileResting reports whether the update came in time: the step hangs for two seconds.
func (w *world) updateWhileResting(proxy *testkit.TCPProxy, id string) bool {
	w.t.Helper()
	held := func(c testkit.CommitFilter) *testkit.Loss {
		c.Hold = true
		return proxy.LoseCommitAnswer(c)
	}
	w.place(id, grant("g", 1, 500))
	rest := held(alone("OrderRest"))
	paid := w.later("POST", path(id)+"/payments", "k-"+id, payBody("pm_card_visa"))
	<-rest.Fired()
	refusal := held(alone("AuditInsert"))
	h, err := w.temporal.UpdateWorkflow(w.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: order.WorkflowID(order.ID(id)), UpdateName: order.UpdateResolveReview, WaitForStage: client.WorkflowUpdateStageAccepted,
		Args: []any{order.Decision{ReviewID: "rev_none", Decision: order.DecideRequeryPayment, Actor: "ann", Reason: "a guess"}},
	})
	a := <-paid
	assert.Contains(w.t, []int{201, 202}, a.Status, "%s", a.Raw)
	var over *serviceerror.NotFound
	met := !errors.As(err, &over)
	if met {
		require.NoError(w.t, err)
		var res order.DecisionResult
		require.NoError(w.t, h.Get(w.t.Context(), &res), "the handler was let finish")
		<-refusal.Fired()
		assert.Equal(w.t, "no_such_review", res.Why)
	}
	w.await("the run is over", func() bool { return w.over(id) })
	w.settled(id)
	assert.Equal(w.t, 1, w.captured(id))
	return met
}
