package store

// Goal: a unit is planned once, claimed once and provided once, and what an issuer says late, twice or wrongly is kept and seen.

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
)

func TestQuantityThreeIsThreeUnits(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", issueLine(3), grantLine(2)))
	us := e.unitIDs("o")
	require.Len(t, us, 5)
	for i, u := range us[:3] {
		require.Equal(t, order.UnitKey{Order: "o", Line: 1, Ordinal: i + 1, Action: order.ActionIssue, Revision: 1}.ID(), u)
		require.True(t, e.claimUnit(u, "o", 1))
		_, s := e.issuer(u, "o", 1, order.Issued)
		require.Equal(t, order.UnitIssued, s)
	}
	require.EqualValues(t, 3, e.count("SELECT count(*) FROM issuances"), "three bought, three issued: not swallowed as a repeat")

	// Planning again - a restored row, a second capture - makes nothing new.
	e.exec("UPDATE orders SET status = 'open', paid_at = NULL WHERE order_id = 'o'")
	e.exec("UPDATE payment_attempts SET status = 'sent', version = version + 1")
	e.keep(answer(e.attempt(a), order.Succeeded))
	require.Equal(t, order.OrderPaid, e.reflect(a).Order)
	require.Equal(t, us, e.unitIDs("o"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM outbox_events WHERE type = 'order.paid'"))
}

func TestUnitClaimHasOneWinner(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", issueLine(1))
	u := order.UnitKey{Order: "o", Line: 1, Ordinal: 1, Action: order.ActionIssue, Revision: 1}.ID()
	_, err := e.s.UnitClaim(e.ctx(), u, "o", issueDraft(u, 1), 1)
	require.True(t, fault.IsCode(err, fault.NotFound), "no unit before there is money (S7)")
	e.pay(d)
	var winners atomic.Int32
	for _, err := range together(50, func(int) error {
		won, err := e.s.UnitClaim(e.ctx(), u, "o", issueDraft(u, 1), 1)
		if won {
			winners.Add(1)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, winners.Load())
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM operations WHERE unit_id = $1 AND sends = 1", string(u)))
	e.exec("UPDATE orders SET status = 'canceled', ended_at = now() WHERE order_id = 'o'")
	e.exec("UPDATE fulfillment_units SET status = 'planned'")
	_, err = e.s.UnitClaim(e.ctx(), u, "o", issueDraft(u, 1), 1)
	requireWhy(t, err, fault.Refused, "order_not_paid")
}

func (e *env) oneUnit() order.UnitID {
	e.pay(e.place("o", issueLine(1)))
	u := e.unitIDs("o")[0]
	require.True(e.t, e.claimUnit(u, "o", 1))
	return u
}

func TestIssuanceRecord(t *testing.T) {
	t.Parallel()
	t.Run("LostAnswerThenLookupFindsIt", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		u := e.oneUnit()
		_, s := e.issuer(u, "o", 1, order.Unknown)
		require.Equal(t, order.UnitUnknown, s)
		c, err := e.s.UnitUnresolved(e.ctx(), u, "o", "issuance_outcome_unknown")
		require.NoError(t, err)
		require.Equal(t, order.Applied, c.Verdict)
		require.Equal(t, string(order.ReviewIssuanceUnknown), e.review(string(u)).Reason)
		_, s = e.issuer(u, "o", 1, order.Issued)
		require.Equal(t, order.UnitIssued, s)
		require.EqualValues(t, 0, e.count("SELECT count(*) FROM reviews WHERE status = 'open'"))
		require.Equal(t, "issued", e.text("SELECT outcome FROM operations WHERE unit_id = $1", string(u)))
		c, s = e.issuer(u, "o", 1, order.Issued)
		require.Equal(t, order.Unchanged, c.Verdict)
		require.Equal(t, order.UnitIssued, s)
		c, _ = e.issuer(u, "o", 1, order.Unknown)
		require.Equal(t, order.Unchanged, c.Verdict)
		require.Equal(t, "issued", e.text("SELECT outcome FROM operations WHERE unit_id = $1", string(u)), "a late 'unknown' overwrites nothing")
		require.EqualValues(t, 4, e.count("SELECT count(*) FROM observations WHERE unit_id = $1", string(u)), "every answer is kept")
		require.EqualValues(t, 1, e.count("SELECT count(*) FROM issuances"))
		e.folds()
	})
	t.Run("RefusalGoesToAPerson", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		u := e.oneUnit()
		_, s := e.issuer(u, "o", 1, order.Refused)
		require.Equal(t, order.UnitRefused, s)
		require.Equal(t, string(order.ReviewIssuanceRefused), e.review(string(u)).Reason)
		p, err := e.s.FulfillInternal(e.ctx(), "o", 10)
		require.NoError(t, err)
		require.Equal(t, order.OrderPaid, p.Order, "money without goods is not complete")
	})
	t.Run("RefusalAfterIssuedIsAContradiction", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		u := e.oneUnit()
		e.issuer(u, "o", 1, order.Issued)
		c, s := e.issuer(u, "o", 1, order.Refused)
		require.Equal(t, order.Mismatch, c.Verdict)
		require.Equal(t, order.UnitIssued, s)
		require.Equal(t, string(order.ReviewContradiction), e.review(string(u)).Reason)
	})
	t.Run("AnswerAboutAnotherOperation", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		u := e.oneUnit()
		c, s, err := e.s.IssuanceRecord(e.ctx(), IssuanceAnswer{Unit: u, Order: "o", Source: "send", IssuerIssuance: "i_1", Seen: order.IssuanceSeen{Outcome: order.Issued, OperationID: "op_of_somebody"}})
		require.NoError(t, err)
		require.Equal(t, order.Mismatch, c.Verdict)
		require.Equal(t, order.UnitUnknown, s)
		require.Equal(t, "op_of_somebody", e.text("SELECT merchant_reference FROM observations WHERE unit_id = $1", string(u)))
		require.EqualValues(t, 0, e.count("SELECT count(*) FROM issuances"))
		require.Empty(t, e.text("SELECT outcome FROM operations WHERE unit_id = $1", string(u)), "it says nothing about our operation")
	})
	t.Run("OneIssuanceOfTheIssuerServesOneUnit", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		e.pay(e.place("o", issueLine(2)))
		for i, u := range e.unitIDs("o") {
			require.True(t, e.claimUnit(u, "o", 1))
			_, _, err := e.s.IssuanceRecord(e.ctx(), IssuanceAnswer{
				Unit: u, Order: "o", Source: "send", IssuerIssuance: "same",
				Seen: order.IssuanceSeen{Outcome: order.Issued, OperationID: order.IssueOperation(u, 1)},
			})
			if i == 1 {
				requireWhy(t, err, fault.ConstraintViolated, "issuances_issuer_id_unique")
				require.Equal(t, string(order.UnitIssuing), e.unit(u).Status)
			}
		}
	})
	t.Run("LateAnswersOfTheEarlierGeneration", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		u := e.oneUnit()
		e.issuer(u, "o", 1, order.Unknown)
		_, err := e.s.UnitUnresolved(e.ctx(), u, "o", "x")
		require.NoError(t, err)
		e.quiet(u)
		require.Equal(t, order.Applied, e.decide(decision(e.review(string(u)), order.DecideRerunUnit)).Verdict)
		c, s := e.issuer(u, "o", 1, order.Refused)
		require.Equal(t, order.Stale, c.Verdict)
		require.Equal(t, order.UnitPlanned, s)
		require.Equal(t, "refused", e.text("SELECT outcome FROM operations WHERE operation_id = $1", string(order.IssueOperation(u, 1))), "the old operation keeps its answer")
		require.True(t, e.claimUnit(u, "o", 2))
		_, s = e.issuer(u, "o", 1, order.Refused)
		require.Equal(t, order.UnitIssuing, s, "the new request is under way")
		require.Empty(t, e.text("SELECT outcome FROM operations WHERE operation_id = $1", string(order.IssueOperation(u, 2))))
	})
	t.Run("IssuedByTheOldKeyAfterADecidedRerun", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		u := e.oneUnit()
		e.issuer(u, "o", 1, order.Unknown)
		_, err := e.s.UnitUnresolved(e.ctx(), u, "o", "x")
		require.NoError(t, err)
		e.quiet(u)
		require.Equal(t, order.Applied, e.decide(decision(e.review(string(u)), order.DecideRerunUnit)).Verdict)
		c, s := e.issuer(u, "o", 1, order.Issued)
		require.Equal(t, order.Mismatch, c.Verdict)
		require.Equal(t, order.UnitUnknown, s, "the person was wrong: it must not be issued again")
		require.False(t, e.claimUnit(u, "o", 2))
		require.Equal(t, order.Applied, e.decide(decision(e.review(string(u)), order.DecideConfirmProvided)).Verdict)
		require.Equal(t, string(order.UnitIssued), e.unit(u).Status)
		e.folds()
	})
}

// A process that wakes up after a person decided a rerun must not send the old request again, nor the reverse (PC-59).
func TestPC59_OldRequestIsNotRepeatedAfterARerun(t *testing.T) {
	t.Parallel()
	e := setup(t)
	u := e.oneUnit()
	e.issuer(u, "o", 1, order.Unknown)
	_, err := e.s.UnitUnresolved(e.ctx(), u, "o", "x")
	require.NoError(t, err)
	won, err := e.s.OperationClaimAgain(e.ctx(), order.IssueOperation(u, 1), 1, "")
	require.NoError(t, err)
	require.True(t, won)
	d := decision(e.review(string(u)), order.DecideRerunUnit)
	require.Equal(t, "too_early", e.decide(d).Why, "the repeat may still be under way")

	e.quiet(u)
	tx, err := e.owner.Begin(e.ctx())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(e.ctx())) }()
	_, err = tx.Exec(e.ctx(), "UPDATE fulfillment_units SET status = 'planned', generation = 2, version = version + 1 WHERE unit_id = $1", string(u))
	require.NoError(t, err)
	got := make(chan bool, 1)
	go func() {
		won, err := e.s.OperationClaimAgain(e.ctx(), order.IssueOperation(u, 1), 2, "")
		got <- won || err != nil
	}()
	e.waitBlocked(1)
	require.NoError(t, tx.Commit(e.ctx()))
	require.False(t, <-got, "it waited for the decision, and must see it")
}

// Internal units need no issuer: provided in batches, once, and the order completes with the last (PC-41).
func TestPC41_FulfillInternalInBatches(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	e.pay(e.place("o", grantLine(5)))
	total, rounds := 0, 0
	for more := true; more; rounds++ {
		p, err := e.s.FulfillInternal(e.ctx(), "o", 2)
		require.NoError(t, err)
		total, more = total+p.Units, p.More
		require.Equal(t, total == 5, p.Order == order.OrderCompleted)
	}
	require.Equal(t, 5, total)
	require.Equal(t, 3, rounds)
	for _, err := range together(10, func(int) error { _, err := e.s.FulfillInternal(e.ctx(), "o", 10); return err }) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 5, e.count("SELECT count(*) FROM grants"))
	require.EqualValues(t, 5, e.count("SELECT count(*) FROM issuances WHERE source = 'internal'"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM outbox_events WHERE type = 'order.completed'"))
	e.folds()

	// PC-41: somebody moves the order back by hand; running again provides nothing again.
	e.exec("UPDATE orders SET status = 'paid', completed_at = NULL WHERE order_id = 'o'")
	p, err := e.s.FulfillInternal(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Equal(t, order.OrderCompleted, p.Order)
	require.Zero(t, p.Units)
	require.EqualValues(t, 5, e.count("SELECT count(*) FROM grants"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM outbox_events WHERE type = 'order.completed'"))
}

func TestChecksDueAndUnresolvedAttempts(t *testing.T) {
	t.Parallel()
	e := setup(t)
	u := e.oneUnit()
	e.issuer(u, "o", 1, order.Unknown)
	a := e.open(e.place("o2", grantLine(1)), "k")
	e.exec("UPDATE fulfillment_units SET next_check_at = now() - interval '1 second' WHERE next_check_at IS NOT NULL")
	e.exec("UPDATE payment_attempts SET next_check_at = now() - interval '1 second' WHERE next_check_at IS NOT NULL")
	due, err := e.s.ChecksDue(e.ctx(), time.Minute, 10)
	require.NoError(t, err)
	require.Equal(t, []Due{{"o2", a.AttemptID}, {"o", string(u)}}, due)
	due, err = e.s.ChecksDue(e.ctx(), time.Minute, 10)
	require.NoError(t, err)
	require.Empty(t, due)
}
