package store

// Goal: each of the ten rules of the design has a test of its name, for the part of it the store carries.
// Method: real PostgreSQL, the application's role, real concurrency. What a rule asks of activities or workflows is tested there.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Rule 1: no answer to a write is unknown. The sending side is tested with the activities; here: an unknown outcome is stored
// as such, stays so until evidence, and is never turned into a decline by time or by a weaker answer.
func TestRule01_UnknownStaysUnknownUntilEvidence(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.open(e.place("o", grantLine(1)), "k")
	lost := answer(a, order.Unknown)
	lost.Operation, lost.Source = confirmOf(a), "send"
	e.keep(lost)
	require.Equal(t, order.AttemptUnknown, e.reflect(a).Status)
	require.Equal(t, "unknown", e.text("SELECT outcome FROM operations WHERE operation_id = $1", string(confirmOf(a))))
	require.EqualValues(t, 0, e.count("SELECT count(*) FROM operations WHERE operation_id = $1 AND finished_at IS NOT NULL", string(confirmOf(a))))

	for _, weak := range []order.Outcome{order.Unknown, order.NotFound, order.Untouched} {
		e.keep(answer(e.attempt(a), weak))
		require.Equal(t, order.AttemptUnknown, e.reflect(a).Status, "%s is no evidence", weak)
	}
	c, err := e.s.AttemptUnresolved(e.ctx(), idOf(a), "payment_outcome_unknown")
	require.NoError(t, err)
	require.Equal(t, order.Applied, c.Verdict)
	require.Equal(t, string(order.ReviewConfirmUnknown), e.review(a.AttemptID).Reason)
	require.Equal(t, string(order.AttemptUnknown), e.attempt(a).Status, "a bound that has passed is no evidence either")

	e.keep(answer(e.attempt(a), order.Succeeded))
	require.Equal(t, order.OrderPaid, e.reflect(a).Order)
	require.EqualValues(t, 0, e.count("SELECT count(*) FROM reviews WHERE status = 'open'"), "evidence ends the review")
	require.Equal(t, "evidence", e.text("SELECT resolved_by FROM reviews"))
}

// Rule 2: one outside write is one row, and its claim has one winner.
func TestRule02_OneWinnerSends(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(1))
	a, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d, "k"))
	require.NoError(t, err)
	var winners atomic.Int32
	for _, err := range together(50, func(int) error {
		_, won, err := e.s.OperationClaim(e.ctx(), idOf(a), confirmOf(a), "")
		if won {
			winners.Add(1)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, winners.Load())
	require.Equal(t, string(order.AttemptSent), e.attempt(a).Status)
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM transitions WHERE to_status = 'sent'"))

	winners.Store(0)
	for _, err := range together(50, func(int) error {
		won, err := e.s.OperationClaimAgain(e.ctx(), confirmOf(a), 1, "")
		if won {
			winners.Add(1)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, winners.Load(), "everybody saw one send: one repeats")
	require.EqualValues(t, 2, e.count("SELECT sends FROM operations WHERE operation_id = $1", string(confirmOf(a))))
}

// Rule 2: what the claim guards is the promise too. An order that another payment paid, or an attempt that was closed, sends
// nothing that takes money, neither first nor again.
func TestRule02_NothingIsSentForWhatIsSettled(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(1))
	late := e.open(d, "first")
	c, err := e.s.AttemptUnresolved(e.ctx(), idOf(late), "code")
	require.NoError(t, err)
	require.Equal(t, order.Applied, c.Verdict)
	require.Equal(t, order.Applied, e.decide(decision(e.review(late.AttemptID), order.DecideCloseWithEvidence)).Verdict)

	won, err := e.s.OperationClaimAgain(e.ctx(), confirmOf(late), 1, "")
	require.NoError(t, err)
	require.False(t, won, "a person closed it: the stored request is not sent again")

	second, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d, "second"))
	require.NoError(t, err)
	second, won, err = e.s.OperationClaim(e.ctx(), idOf(second), prepareOf(second), "")
	require.NoError(t, err)
	require.True(t, won)
	e.keep(answer(e.attempt(late), order.Succeeded)) // the first one captured after all
	require.Equal(t, order.OrderPaid, e.reflect(late).Order)

	_, won, err = e.s.OperationClaim(e.ctx(), idOf(second), confirmOf(second), "")
	require.NoError(t, err)
	require.False(t, won, "the order is paid: a second confirm would be a second charge")
	prepared := answer(e.attempt(second), order.Prepared)
	prepared.Operation, prepared.Source = prepareOf(second), "send"
	won, err = e.s.ObservationKeep(e.ctx(), prepared, confirmOf(second))
	require.NoError(t, err)
	require.False(t, won, "nor by the answer before it")
}

// Rule 3: sent once, ever, where the other side has no guard. The capability is the gateways' and issuers'; here: a repeat
// needs the number of sends it has seen, a finished operation is never repeated, and a new operation waits and needs proof.
func TestRule03_FinishedIsNeverRepeated(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.open(e.place("o", grantLine(1)), "k")
	for _, seen := range []int{0, 2, 7} {
		won, err := e.s.OperationClaimAgain(e.ctx(), confirmOf(a), seen, "")
		require.NoError(t, err)
		require.False(t, won)
	}
	declined := answer(a, order.Declined)
	declined.Operation, declined.Source = confirmOf(a), "send"
	e.keep(declined)
	lost := answer(a, order.Unknown) // the answer of an overlapping try comes late
	lost.Operation, lost.Source = confirmOf(a), "send"
	e.keep(lost)
	require.Equal(t, "declined", e.text("SELECT outcome FROM operations WHERE operation_id = $1", string(confirmOf(a))))
	won, err := e.s.OperationClaimAgain(e.ctx(), confirmOf(a), 1, "")
	require.NoError(t, err)
	require.False(t, won)
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM observations"), "both answers are kept")
}

// Rule 4: at most one unclosed attempt per order, by the store and by the index; stock stays while one is open (PC-02).
func TestRule04_OneUnclosedAttempt(t *testing.T) {
	t.Parallel()
	e := setup(t)
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 5))
	d := e.place("o", stockLine("mug", 2))
	var opened atomic.Int32
	for _, err := range together(20, func(i int) error {
		_, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d, fmt.Sprint("key-", i)))
		if err == nil {
			opened.Add(1)
		}
		return err
	}) {
		if err != nil {
			requireWhy(t, err, fault.Refused, "attempt_unresolved")
		}
	}
	require.EqualValues(t, 1, opened.Load())
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM payment_attempts"))
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM operations"), "losers leave no operation behind")

	_, err := e.owner.Exec(e.ctx(), `INSERT INTO payment_attempts (attempt_id, order_id, client_id, caller_key, gateway, account, environment, merchant_reference,
		method_type, currency, amount_minor) VALUES ('x', 'o', 'shop', 'direct', 'stripe', 'default', 'test', 'R', 'card', 'JPY', 200)`)
	require.True(t, violates(err, "attempts_one_open_per_order"), "%v", err)

	e.lapse("o")
	c, err := e.s.OrderExpire(e.ctx(), "o")
	require.NoError(t, err)
	require.Equal(t, "attempt_open", c.Why)
	require.EqualValues(t, 2, e.count("SELECT reserved FROM stock"), "released while money could still come")
	ids, err := e.s.OrdersLapsed(e.ctx(), 10)
	require.NoError(t, err)
	require.Empty(t, ids)
}

// Rule 4, PC-02's other half: twenty requests with the same key are one attempt, and everybody gets it.
func TestRule04_SameKeyIsOneAttempt(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(1))
	ids := make([]string, 20)
	for _, err := range together(20, func(i int) error {
		a, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d, "same"))
		ids[i] = a.AttemptID
		return err
	}) {
		require.NoError(t, err)
	}
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	// PC-28: the key, and with it the attempt, belongs to this order for good.
	_, err := e.s.AttemptOpen(e.ctx(), attemptDraft(e.place("o2", grantLine(2)), "same"))
	requireWhy(t, err, fault.Refused, "key_bound_elsewhere")
}

// Rule 5: an answer read under an older version is kept, not applied, and asks for a fresh look.
func TestRule05_StaleAnswerIsKeptAndNotApplied(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.open(e.place("o", grantLine(1)), "k")
	e.keep(answer(a, order.Pending))
	e.keep(answer(a, order.Succeeded)) // read before the first one was applied
	r := e.reflect(a)
	require.Equal(t, order.Stale, r.Verdict)
	require.True(t, r.NeedsLook)
	require.Equal(t, order.AttemptPending, r.Status)
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM observations"))
	require.EqualValues(t, 0, e.count("SELECT count(*) FROM payments"))

	e.keep(answer(e.attempt(a), order.Succeeded))
	r = e.reflect(a)
	require.False(t, r.NeedsLook)
	require.Equal(t, order.OrderPaid, r.Order)
}

// Rule 5: an old answer that happens to agree must not hide the stale one before it.
func TestRule05_AnAgreeingOldAnswerSettlesNothing(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.open(e.place("o", grantLine(1)), "k")
	e.keep(answer(a, order.Pending))
	e.keep(answer(a, order.Succeeded))
	e.keep(answer(a, order.Pending))
	r := e.reflect(a)
	require.Equal(t, order.AttemptPending, r.Status)
	require.True(t, r.NeedsLook, "somebody said captured, and nobody looks again")
}

// Rule 6: not found is final only where the gateway says so; capabilities are the gateways', the mark is on the observation.
func TestRule06_NotFoundClosesOnlyWhenFinal(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(1))
	a := e.open(d, "k")
	e.keep(answer(a, order.NotFound))
	require.Equal(t, order.AttemptSent, e.reflect(a).Status)
	final := answer(e.attempt(a), order.NotFound)
	final.Payment.Final, final.LearnedID = true, ""
	e.keep(final)
	require.Equal(t, order.AttemptClosed, e.reflect(a).Status)
	require.Equal(t, "never_sent", e.attempt(a).CloseReason)
	_, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d, "again"))
	require.NoError(t, err, "the buyer may try again")
}

// Rule 7: a new key only for a new operation, opened by a decision. Attempts have one row per kind; units a generation.
func TestRule07_ANewOperationNeedsADecision(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", issueLine(1))
	a := e.pay(d)
	require.NoError(t, e.s.AttemptAddOperation(e.ctx(), idOf(a), "o", OperationDraft{ID: "op_other", Kind: "confirm", Sealed: []byte("x"), Fingerprint: []byte("y")}))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM operations WHERE attempt_id = $1 AND kind = 'confirm'", a.AttemptID), "a second confirm would be a second key")

	u := e.unitIDs("o")[0]
	_, err := e.s.UnitClaim(e.ctx(), u, "o", OperationDraft{ID: "op_mine", Kind: "issue", Sealed: []byte("x"), Fingerprint: []byte("y")}, 1)
	require.True(t, fault.IsCode(err, fault.InternalError), "the key is derived, not chosen")
	require.False(t, e.claimUnit(u, "o", 2), "a generation nobody decided")
	require.True(t, e.claimUnit(u, "o", 1))
	_, s := e.issuer(u, "o", 1, order.Refused)
	require.Equal(t, order.UnitRefused, s)
	e.quiet(u)
	require.Equal(t, order.Applied, e.decide(decision(e.review(string(u)), order.DecideRerunUnit)).Verdict)
	require.True(t, e.claimUnit(u, "o", 2))
	require.EqualValues(t, 2, e.count("SELECT count(DISTINCT operation_id) FROM operations WHERE unit_id = $1", string(u)), "the old operation stays")
}

// Rule 8: a run rests only on the work it has seen; the sweep finds unfinished work and nothing else.
func TestRule08_NothingRestsWithWorkLeft(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(1))
	e.place("idle", grantLine(1))
	e.pay(d)
	snap, err := e.s.Snapshot(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Positive(t, snap.WorkSeq)
	require.NoError(t, e.s.RaiseWork(e.ctx(), "o"))
	ok, err := e.s.Rest(e.ctx(), "o", snap.WorkSeq)
	require.NoError(t, err)
	require.False(t, ok, "work came after the run had looked")

	due := func() []OpenWork {
		e.exec("UPDATE orders SET work_at = now() - interval '1 minute'")
		ids, err := e.s.OrdersWithWork(e.ctx(), time.Second, time.Minute, 10)
		require.NoError(t, err)
		return ids
	}
	fresh := []OpenWork{{Order: "o", Fresh: true, Seq: snap.WorkSeq + 1}}
	require.Equal(t, fresh, due(), "only unfinished work")
	require.Equal(t, fresh, due(), "a sweep that died before it told the run leaves the work to be told")
	require.NoError(t, e.s.OrdersTold(e.ctx(), fresh))
	require.Equal(t, []OpenWork{{Order: "o", Seq: snap.WorkSeq + 1}}, due(), "its run was told")
	ids, err := e.s.OrdersWithWork(e.ctx(), time.Second, time.Minute, 10)
	require.NoError(t, err)
	require.Empty(t, ids, "looked at a moment ago")
	ok, err = e.s.Rest(e.ctx(), "o", snap.WorkSeq+1)
	require.NoError(t, err)
	require.True(t, ok)
	require.Empty(t, due())
}

// Rule 9: whatever runs against whatever, nobody sees a deadlock: every transaction takes its locks in one order.
func TestRule09_LocksAreTakenInOneOrder(t *testing.T) {
	t.Parallel()
	e := setupConns(t, 40, "deadlock_timeout = '100ms'", "mail")
	deadlocks := e.count("SELECT deadlocks FROM pg_stat_database WHERE datname = $1", e.db.Name)
	type one struct {
		d order.Draft
		a sqlcgen.PaymentAttempt
	}
	var orders []one
	require.NoError(t, e.s.StockSet(e.ctx(), "a", 1000))
	require.NoError(t, e.s.StockSet(e.ctx(), "b", 1000))
	for i := range 4 { // the same goods in opposite order
		lines := []order.Line{stockLine("a", 3), stockLine("b", 3), issueLine(2)}
		if i%2 == 1 {
			lines = []order.Line{stockLine("b", 3), stockLine("a", 3), issueLine(2)}
		}
		d := e.place(order.ID(fmt.Sprint("o", i)), lines...)
		a := e.open(d, fmt.Sprint("k", i))
		e.keep(answer(a, order.Succeeded))
		orders = append(orders, one{d, a})
	}
	unit := func(d order.Draft, line, ordinal int) order.UnitID {
		return order.UnitKey{Order: d.ID, Line: line, Ordinal: ordinal, Action: order.ActionIssue, Revision: 1}.ID()
	}
	acts := []func(o one, i int) error{
		func(o one, _ int) error { _, err := e.s.Reflect(e.ctx(), idOf(o.a)); return err },
		func(o one, _ int) error {
			_, _, err := e.s.OperationClaim(e.ctx(), idOf(o.a), prepareOf(o.a), "")
			return err
		},
		func(o one, i int) error {
			_, err := e.s.OperationClaimAgain(e.ctx(), confirmOf(o.a), 1, "")
			return err
		},
		func(o one, _ int) error { _, err := e.s.FulfillInternal(e.ctx(), o.d.ID, 2); return err },
		func(o one, i int) error {
			u := unit(o.d, 3, 1+i%2)
			_, err := e.s.UnitClaim(e.ctx(), u, o.d.ID, issueDraft(u, 1), 1)
			return err
		},
		func(o one, i int) error {
			u := unit(o.d, 3, 1+i%2)
			_, _, err := e.s.IssuanceRecord(e.ctx(), IssuanceAnswer{Unit: u, Order: o.d.ID, Source: "send", Seen: order.IssuanceSeen{Outcome: order.Refused, OperationID: order.IssueOperation(u, 1)}})
			return err
		},
		func(o one, i int) error {
			var r string
			_ = e.owner.QueryRow(e.ctx(), "SELECT review_id FROM reviews WHERE order_id = $1 AND status = 'open' LIMIT 1", string(o.d.ID)).Scan(&r)
			d := order.Decision{ReviewID: order.ReviewID(r), Decision: order.DecideRequeryIssuance, Actor: "ann", Reason: fmt.Sprint("look ", i)}
			_, _, err := e.s.Decide(e.ctx(), d, ann, Door{})
			return err
		},
		func(o one, _ int) error { _, err := e.s.OrderExpire(e.ctx(), o.d.ID); return err },
		func(o one, _ int) error {
			_, err := e.s.ObservationKeep(e.ctx(), answer(o.a, order.Pending), "")
			return err
		},
		func(o one, i int) error { _, err := e.s.ChecksDue(e.ctx(), 0, 10); return err },
		func(o one, i int) error { _, err := e.s.OrdersWithWork(e.ctx(), 0, 0, 10); return err },
		func(o one, i int) error {
			ds, err := e.s.DeliveriesClaim(e.ctx(), o.d.ID, 0)
			for _, d := range ds {
				err = errors.Join(err, e.s.DeliveriesRecord(e.ctx(), o.d.ID, []DeliveryResult{{EventID: d.EventID, Receiver: d.Receiver, Code: "x", NextTry: time.Now()}}))
			}
			return err
		},
		func(o one, i int) error {
			d := draftOf(order.ID(fmt.Sprintf("new-%d-%s", i, o.d.ID)), stockLine("b", 1), stockLine("a", 1))
			_, err := e.s.OrderPlace(e.ctx(), d, string(d.ID), order.DefaultPolicy())
			if err == nil && i%2 == 0 {
				e.exec("UPDATE orders SET expires_at = now() WHERE order_id = $1", string(d.ID))
				_, err = e.s.OrderExpire(e.ctx(), d.ID)
			}
			return err
		},
	}
	for _, err := range together(200, func(i int) error {
		var all error
		for range 3 {
			k := rand.IntN(len(acts))
			if err := acts[k](orders[rand.IntN(len(orders))], i); err != nil {
				all = errors.Join(all, fmt.Errorf("act %d: %w", k, err))
			}
		}
		return all
	}) {
		for _, code := range []fault.Code{fault.DatabaseContention, fault.DatabaseUnavailable, fault.ConstraintViolated, fault.InternalError} {
			require.False(t, fault.IsCode(err, code), "%v", err)
		}
	}
	require.Equal(t, deadlocks, e.count("SELECT deadlocks FROM pg_stat_database WHERE datname = $1", e.db.Name), "hidden by a retry, but there")
	e.folds()
}

// Rule 10: pruning the answer of a key does not free what the key guards. Rights and triggers are tested with the migrations.
func TestRule10_PrunedKeyStillGuards(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(1))
	k := Key{Client: client, Operation: "POST /v1/orders/{id}/payments", Key: "k"}
	ad := attemptDraft(d, "k")
	st, err := e.s.KeyClaim(e.ctx(), k, []byte("f"), string(ad.ID), "token", time.Minute)
	require.NoError(t, err)
	require.True(t, st.Mine)
	first, err := e.s.AttemptOpen(e.ctx(), ad)
	require.NoError(t, err)
	e.exec("UPDATE idempotency_keys SET created_at = now() - interval '40 days', lease_until = now() - interval '39 days'")
	n, err := e.s.KeysPrune(e.ctx(), 30*24*time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)

	again := attemptDraft(d, "k")
	st, err = e.s.KeyClaim(e.ctx(), k, []byte("f"), string(again.ID), "token2", time.Minute)
	require.NoError(t, err)
	require.True(t, st.Mine, "the answer is forgotten")
	a, err := e.s.AttemptOpen(e.ctx(), again)
	require.NoError(t, err)
	require.Equal(t, first.AttemptID, a.AttemptID, "what it stood for is not")
	created, err := e.s.OrderPlace(e.ctx(), d, "place-o", order.DefaultPolicy())
	require.NoError(t, err)
	require.False(t, created)
}
