package store

// Goal: a person's decision has its effect once, only on what the person saw, and leaves a trace - also when it is refused.

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/order"
)

// unknownUnit is a unit that a person has to look at.
func (e *env) unknownUnit() order.UnitID {
	e.t.Helper()
	u := e.oneUnit()
	e.issuer(u, "o", 1, order.Unknown)
	_, err := e.s.UnitUnresolved(e.ctx(), u, "o", "issuance_outcome_unknown")
	require.NoError(e.t, err)
	return u
}

func TestConfirmProvided(t *testing.T) {
	t.Parallel()
	e := setup(t)
	u := e.unknownUnit()
	d := decision(e.review(string(u)), order.DecideConfirmProvided)
	d.Evidence.Reference = ""
	require.Equal(t, "evidence_reference_missing", e.decide(d).Why)
	d.Evidence.Reference = "iss_77"
	sealed := Door{Seal: func(_ order.UnitID, ref string) []byte { return []byte("sealed:" + ref) }}
	onPage := ann
	onPage.Channel = order.ChannelPage
	r, id, err := e.s.Decide(e.ctx(), d, onPage, sealed)
	require.NoError(t, err)
	require.Equal(t, order.Applied, r.Verdict)
	require.Equal(t, order.ID("o"), id)
	require.Equal(t, string(order.UnitIssued), e.unit(u).Status)
	require.Equal(t, "sealed:iss_77", e.text("SELECT convert_from(sealed_reference, 'UTF8') FROM issuances WHERE source = 'operator'"))
	require.Equal(t, r.DecisionID, e.text("SELECT resolved_by FROM reviews"), "who resolved it is the decision, not some evidence")
	require.Equal(t, r.DecisionID, e.text("SELECT decision_id FROM transitions WHERE trigger = 'decision_made'"))
	row := e.text("SELECT actor || '|' || reason || '|' || channel || '|' || (before->>'unit') || '|' || (after->>'unit') || '|' || operation_id FROM review_decisions")
	require.Equal(t, "ann|looked it up|page|unknown|issued|"+string(order.IssueOperation(u, 1)), row)
	p, err := e.s.FulfillInternal(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Equal(t, order.OrderCompleted, p.Order)
	e.folds()
}

func TestRerunUnit(t *testing.T) {
	t.Parallel()
	e := setup(t)
	u := e.unknownUnit()
	d := decision(e.review(string(u)), order.DecideRerunUnit)
	require.Equal(t, "too_early", e.decide(d).Why)
	e.quiet(u)
	d.Evidence.Proof = ""
	require.Equal(t, "evidence_proof_missing", e.decide(d).Why)
	d.Evidence.Proof = "ticket 4711: nothing was issued"
	before := e.count("SELECT work_seq FROM orders")
	require.Equal(t, order.Applied, e.decide(d).Verdict)
	require.Greater(t, e.count("SELECT work_seq FROM orders"), before, "a decision is work (rule 8)")
	row := e.unit(u)
	require.Equal(t, string(order.UnitPlanned), row.Status)
	require.EqualValues(t, 2, row.Generation)
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM operations WHERE unit_id = $1 AND generation = 1 AND sends = 1", string(u)), "the old operation stays")
	require.EqualValues(t, 0, e.count("SELECT count(*) FROM reviews WHERE status = 'open'"))
	require.False(t, e.claimUnit(u, "o", 1), "nobody may issue under the old key")
	require.True(t, e.claimUnit(u, "o", 2))
	_, s := e.issuer(u, "o", 2, order.Issued)
	require.Equal(t, order.UnitIssued, s)
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM audit_log WHERE act = 'decision_refused'"))
	require.Equal(t, "too_early", e.text("SELECT detail->>'why' FROM audit_log ORDER BY audit_id LIMIT 1"))
	e.folds()
}

// The time since the last send is the database's: a process whose clock runs ahead must not rerun early.
func TestRerunWaitsByTheDatabaseClock(t *testing.T) {
	t.Parallel()
	e := setup(t)
	u := e.unknownUnit()
	d := decision(e.review(string(u)), order.DecideRerunUnit)
	e.exec("UPDATE operations SET last_sent_at = now() - interval '10 minutes' + interval '30 seconds' WHERE unit_id = $1", string(u))
	require.Equal(t, "too_early", e.decide(d).Why)
	e.exec("UPDATE operations SET last_sent_at = now() - interval '10 minutes 1 second' WHERE unit_id = $1", string(u))
	require.Equal(t, order.Applied, e.decide(d).Verdict)
}

func TestSameDecisionTwiceIsOneEffect(t *testing.T) {
	t.Parallel()
	e := setup(t)
	u := e.unknownUnit()
	e.quiet(u)
	d := decision(e.review(string(u)), order.DecideRerunUnit)
	var replayed atomic.Int32
	for _, err := range together(20, func(int) error {
		r, _, err := e.s.Decide(e.ctx(), d, ann, Door{})
		if err == nil && r.Verdict != order.Applied {
			return fmt.Errorf("told %s %s", r.Verdict, r.Why)
		}
		if r.Replayed {
			replayed.Add(1)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 19, replayed.Load())
	require.EqualValues(t, 2, e.unit(u).Generation)
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM review_decisions"))
	d.DecisionID = e.text("SELECT decision_id FROM review_decisions")
	d.Decision = order.DecideConfirmProvided
	require.Equal(t, "decision_id_used", e.decide(d).Why, "another decision under a used id is not the same decision")
}

func TestTwoDifferentDecisionsOnOneVersion(t *testing.T) {
	t.Parallel()
	e := setup(t)
	u := e.unknownUnit()
	e.quiet(u)
	r := e.review(string(u))
	kinds := []order.DecisionKind{order.DecideRerunUnit, order.DecideConfirmProvided, order.DecideRequeryIssuance}
	whys := make([]string, 30)
	for _, err := range together(30, func(i int) error {
		d := decision(r, kinds[i%3])
		d.Reason = fmt.Sprint("reason ", i)
		res, _, err := e.s.Decide(e.ctx(), d, ann, Door{})
		whys[i] = string(res.Verdict) + " " + res.Why
		return err
	}) {
		require.NoError(t, err)
	}
	won := 0
	for _, w := range whys {
		if w == "applied " {
			won++
			continue
		}
		require.Contains(t, []string{"rejected review_moved", "rejected review_closed"}, w)
	}
	require.Equal(t, 1, won)
	require.EqualValues(t, 29, e.count("SELECT count(*) FROM audit_log WHERE order_id = 'o'"))
}

func TestDecisionOnWhatMoved(t *testing.T) {
	t.Parallel()
	e := setup(t)
	u := e.unknownUnit()
	seen := e.review(string(u))
	e.issuer(u, "o", 1, order.Refused) // the review of the unknown ends, one of the refusal opens
	require.Equal(t, "review_closed", e.decide(decision(seen, order.DecideConfirmProvided)).Why)
	r := e.review(string(u))
	require.Equal(t, e.unit(u).Version, r.SubjectVersion)
	e.exec("UPDATE fulfillment_units SET version = version + 1 WHERE unit_id = $1", string(u)) // behind the review's back
	require.Equal(t, "subject_moved", e.decide(decision(r, order.DecideConfirmProvided)).Why)
	old := decision(r, order.DecideConfirmProvided)
	old.ReviewVersion--
	if old.ReviewVersion == 0 {
		old.ReviewVersion = 99
	}
	require.Equal(t, "review_moved", e.decide(old).Why)
	require.Equal(t, "no_such_review", e.decide(order.Decision{ReviewID: "rev_none", Decision: order.DecideRerunUnit, Actor: "ann", Reason: "x"}).Why)
	require.Equal(t, "decision_not_allowed", e.decide(decision(r, order.DecideRefund)).Why)
	require.Equal(t, "decision_not_allowed", e.decide(decision(r, "retry_everything")).Why)
	bare := decision(r, order.DecideConfirmProvided)
	bare.Actor = ""
	nobody, _, err := e.s.Decide(e.ctx(), bare, order.Actor{Role: order.RoleOperator, Channel: order.ChannelTemporalSignal}, Door{})
	require.NoError(t, err)
	require.Equal(t, "actor_missing", nobody.Why)
	require.EqualValues(t, 0, e.count("SELECT count(*) FROM review_decisions"))
	require.EqualValues(t, 7, e.count("SELECT count(*) FROM audit_log WHERE act = 'decision_refused'"), "every refusal is kept (I7)")
}

// A subject that moves takes its open reviews along, and a review opened by the very move starts at the new version.
func TestReviewsFollowTheirSubject(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.open(e.place("o", grantLine(1)), "k")
	wrong := answer(a, order.Succeeded)
	wrong.Payment.MerchantReference, wrong.LearnedID = "OFother", ""
	e.keep(wrong)
	e.reflect(a) // sent -> unknown, and a mismatch review
	r := e.review(a.AttemptID)
	require.Equal(t, e.attempt(a).Version, r.SubjectVersion)
	require.EqualValues(t, 1, r.Version, "opened, not touched by its own move")
	e.keep(answer(e.attempt(a), order.Pending))
	e.reflect(a)
	moved := e.review(a.AttemptID)
	require.Equal(t, e.attempt(a).Version, moved.SubjectVersion)
	require.Equal(t, r.Version+1, moved.Version)
	require.Equal(t, "review_moved", e.decide(decision(r, order.DecideRequeryPayment)).Why, "the page showed an older state")
	require.Equal(t, order.Applied, e.decide(decision(moved, order.DecideRequeryPayment)).Verdict)
	after := e.review(a.AttemptID)
	require.Equal(t, moved.Version+1, after.Version, "asking again keeps the review open, one version on")
	require.True(t, after.NextCheckAt.Before(time.Now().Add(time.Minute)))
}

// The order's lock is what keeps an attempt's status still while a person decides: the attempt's row itself is not locked.
func TestDecisionWaitsForTheOrder(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.open(e.place("o", grantLine(1)), "k")
	_, err := e.s.AttemptUnresolved(e.ctx(), idOf(a), "x")
	require.NoError(t, err)
	d := decision(e.review(a.AttemptID), order.DecideCloseWithEvidence)
	a = e.attempt(a)
	e.keep(answer(a, order.Succeeded))
	errs := together(2, func(i int) error {
		if i == 0 {
			_, err := e.s.Reflect(e.ctx(), idOf(a))
			return err
		}
		_, _, err := e.s.Decide(e.ctx(), d, ann, Door{})
		return err
	})
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	if e.attempt(a).Status == string(order.AttemptClosed) { // the person was first: the answer is stale, a fresh look brings the money in
		e.keep(answer(e.attempt(a), order.Succeeded))
		e.reflect(a)
	}
	require.Equal(t, string(order.AttemptSucceeded), e.attempt(a).Status)
	require.Equal(t, order.OrderPaid, e.status("o"))
	e.folds()
}

// More units wait for a person than one round asks about: a decision to ask is heeded all the same, and everyone has a turn.
func TestAskingAboutOneOfManyUnits(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.pay(e.place("o", issueLine(45)))
	units := e.unitIDs("o")
	for _, u := range units {
		require.True(t, e.claimUnit(u, "o", 1))
		_, err := e.s.UnitUnresolved(e.ctx(), u, "o", "issuance_outcome_unknown")
		require.NoError(t, err)
	}
	held := func() []order.UnitID {
		s, err := e.s.Snapshot(e.ctx(), "o", 10)
		require.NoError(t, err)
		return s.UnitsHeld
	}
	last := units[len(units)-1]
	require.NotEqual(t, last, held()[0])
	require.Equal(t, order.Applied, e.decide(decision(e.review(string(last)), order.DecideRequeryIssuance)).Verdict)
	require.Equal(t, last, held()[0], "what a person asks about comes first")
	seen := map[order.UnitID]bool{}
	for range 3 {
		for _, u := range held() {
			seen[u] = true
			require.NoError(t, e.s.UnitLooked(e.ctx(), u))
		}
	}
	require.Len(t, seen, 45, "three rounds of twenty reach all")
}

// A review without an order - a payment nobody knows - can be decided too.
func TestOrphanReview(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.exec(`INSERT INTO reviews (review_id, subject_kind, subject_id, subject_version, reason, next_check_at) VALUES ('rev_orphan', 'payment', 'stripe/pi_9', 0, 'orphan_payment', now())`)
	r := e.review("stripe/pi_9")
	require.Equal(t, "wrong_subject", e.decide(decision(r, order.DecideLinkPayment)).Why)
	require.Equal(t, order.Applied, e.decide(decision(r, order.DecideCloseWithEvidence)).Verdict)
	require.Equal(t, "resolved", e.text("SELECT status FROM reviews"))
}

// Deciding needs one connection: with a pool of one, and with more deciders than connections, nobody waits for ever.
func TestDecideNeedsOneConnection(t *testing.T) {
	t.Parallel()
	e := setupConns(t, 1, "")
	u := e.unknownUnit()
	r := e.review(string(u))
	ctx, cancel := context.WithTimeout(e.ctx(), 20*time.Second)
	defer cancel()
	for _, err := range together(8, func(i int) error {
		d := decision(r, order.DecideRequeryIssuance)
		d.Reason = fmt.Sprint(i)
		_, _, err := e.s.Decide(ctx, d, ann, Door{})
		return err
	}) {
		require.NoError(t, err)
	}
}
