package store

// Goal: what went back of a payment is what the provider freshly says, and what no refund of ours explains is shown to a person.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// A refund in the provider's dashboard: nobody told us, and a look at the payment shows it.
func TestARefundMadeElsewhereIsBookedAndShown(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	e.giveBack(a, 200)
	require.Equal(t, order.Applied, e.looked(a, 500).Verdict)
	back, elsewhere := e.books()
	require.EqualValues(t, 500, back)
	require.EqualValues(t, 300, elsewhere)
	require.EqualValues(t, 1, e.reviews(a.AttemptID, order.ReviewCorrection))
	require.EqualValues(t, 500, e.left(a))
	rv := e.review(a.AttemptID)
	require.Equal(t, "refunded_elsewhere", rv.Code)

	require.Equal(t, order.Unchanged, e.looked(a, 500).Verdict, "told again, it is known")
	require.Equal(t, order.Applied, e.decide(decision(e.review(a.AttemptID), order.DecideCloseWithEvidence)).Verdict)
	e.giveBack(a, 100)
	require.Equal(t, order.Unchanged, e.looked(a, 600).Verdict)
	require.Zero(t, e.reviews(a.AttemptID, order.ReviewCorrection), "what a person has explained is not asked about again")
	require.EqualValues(t, 400, e.left(a))
	require.Equal(t, order.OrderPaid, e.status("o"))
}

// A look that was made before a refund went through must not take it out of the books (rule 5).
func TestRule05_AnOlderLookMovesNoBooks(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	old := answer(e.attempt(a), order.Succeeded) // read before
	r := e.giveBack(a, 400)
	e.keep(old)
	require.Equal(t, order.Stale, e.reflect(a).Verdict)
	back, _ := e.books()
	require.EqualValues(t, 400, back)
	require.Zero(t, e.count("SELECT count(*) FROM reviews"))
	require.True(t, e.lookWanted("o"), "a fresh look decides")
	require.Equal(t, order.Unchanged, e.looked(a, 400).Verdict)
	require.False(t, e.lookWanted("o"))

	// The other way round: the look saw a refund that failed since.
	seen := answer(e.attempt(a), order.Succeeded)
	seen.Payment.RefundedMinor = 400
	require.Equal(t, order.RefundFailed, e.tell(refundSays(r, order.Declined)).Status)
	e.keep(seen)
	require.Equal(t, order.Stale, e.reflect(a).Verdict)
	back, elsewhere := e.books()
	require.Zero(t, back)
	require.Zero(t, elsewhere)
}

// A look that began before another one was asked for may have read what was true before the news: it does not answer the
// asking, though it is as fresh as any and says the same.
func TestALookAnswersOnlyWhatWasAskedBeforeIt(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	under := answer(e.attempt(a), order.Succeeded) // read, and on its way to us
	require.NoError(t, e.s.AttemptAskOnce(e.ctx(), idOf(a)))
	e.keep(under)
	require.Equal(t, order.Unchanged, e.reflect(a).Verdict)
	require.True(t, e.lookWanted("o"), "the webhook's news came after it read")

	again := answer(e.attempt(a), order.Succeeded)
	require.NoError(t, e.s.AttemptAskOnce(e.ctx(), idOf(a)), "asked for while it is asked for")
	e.keep(again)
	e.reflect(a)
	require.True(t, e.lookWanted("o"))
	require.Equal(t, order.Unchanged, e.looked(a, 0).Verdict)
	require.False(t, e.lookWanted("o"))

	r := e.refund(e.giveBack(a, 400))
	early := refundSays(r, order.Succeeded)
	e.looked(a, 400)
	require.Equal(t, order.Applied, e.looked(a, 0).Verdict, "the payment's books have it no more")
	wanted := func() int64 { return e.count("SELECT count(*) FROM refunds WHERE next_check_at IS NOT NULL") }
	require.EqualValues(t, 1, wanted())
	e.tell(early)
	require.EqualValues(t, 1, wanted(), "read before the books said so")
	e.tell(refundSays(e.refund(r), order.Succeeded))
	require.Zero(t, wanted())
}

// A look that shows a refund of ours before its own answer is explained by it.
func TestALookMayBeAheadOfTheRefundsAnswer(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	r := e.sendRefund(a, 400)
	require.Equal(t, order.RefundUnknown, e.tell(refundSent(r, order.Unknown)).Status)
	require.Equal(t, order.Applied, e.looked(a, 400).Verdict)
	require.Zero(t, e.reviews(a.AttemptID, order.ReviewCorrection))
	require.LessOrEqual(t, e.left(a), int64(600))
	require.Equal(t, order.RefundSucceeded, e.tell(refundSays(e.refund(r), order.Succeeded)).Status)
	back, _ := e.books()
	require.EqualValues(t, 400, back)
	require.EqualValues(t, 600, e.left(a))

	// And when what explained it turns out to have failed, the payment is looked at, and the rest is shown.
	r = e.sendRefund(a, 300)
	e.tell(refundSent(r, order.Unknown))
	e.looked(a, 700)
	require.Equal(t, order.RefundFailed, e.tell(refundSays(e.refund(r), order.Declined)).Status)
	require.True(t, e.lookWanted("o"), "the payment has to be looked at")
	require.Equal(t, order.Applied, e.looked(a, 700).Verdict)
	require.EqualValues(t, 1, e.reviews(a.AttemptID, order.ReviewCorrection))
	require.EqualValues(t, 300, e.left(a))
	_, elsewhere := e.books()
	require.EqualValues(t, 300, elsewhere)
}

// A refund that was called succeeded comes back: its amount may be refunded again, and every step of it is told once.
func TestARefundThatComesBackMayBeMadeAgain(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	a := e.pay(e.place("o", grantLine(10)))
	r := e.giveBack(a, 1000)
	require.Zero(t, e.left(a))
	require.Equal(t, order.RefundFailed, e.tell(refundSays(r, order.Declined)).Status)
	require.EqualValues(t, 1, e.reviews(r.RefundID, order.ReviewRefundFailed))
	require.EqualValues(t, 1000, e.left(a))
	require.Equal(t, order.RefundSucceeded, e.tell(refundSays(e.refund(r), order.Succeeded)).Status)
	require.Zero(t, e.reviews(r.RefundID, order.ReviewRefundFailed))
	require.Equal(t, order.RefundFailed, e.tell(refundSays(e.refund(r), order.Declined)).Status)
	require.EqualValues(t, 1, e.events(order.EventRefundSucceeded), "once each")
	require.EqualValues(t, 1, e.events(order.EventRefundFailed))
	require.Contains(t, e.text("SELECT payload::text FROM outbox_events WHERE type = 'refund.failed'"), r.RefundID)

	e.giveBack(a, 1000) // another one in its place, and then the first went through after all
	require.Equal(t, order.RefundSucceeded, e.tell(refundSays(e.refund(r), order.Succeeded)).Status)
	require.Zero(t, e.left(a))
	require.Equal(t, "more_than_captured", e.review(a.AttemptID).Code)
	_, err := e.s.RefundOpen(e.ctx(), e.refundDraft(a, "more", 1))
	requireWhy(t, err, fault.Refused, "more_than_left")
	e.folds()
}

// A look at the payment that shows less than our refunds say has each of them asked about.
func TestARefundUndoneInSilenceIsAskedAbout(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	r := e.giveBack(a, 400)
	require.Equal(t, order.Applied, e.looked(a, 0).Verdict)
	require.Equal(t, "refund_undone", e.review(a.AttemptID).Code)
	require.EqualValues(t, 600, e.left(a), "which of them came back is not known")
	s, err := e.s.Snapshot(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Len(t, s.Refunds, 1)
	require.True(t, s.Refunds[0].Look)
	require.Equal(t, order.RefundFailed, e.tell(refundSays(e.refund(r), order.Declined)).Status)
	require.EqualValues(t, 1000, e.left(a))
}

// The total in a refund's answer may be older than the payment's books: it is a reason to look, and no more.
func TestATotalInARefundsAnswerIsOnlyAReasonToLook(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	r := e.sendRefund(a, 400)
	s := refundSent(r, order.Succeeded)
	s.Seen.RefundedMinor = 400
	e.tell(s)
	require.False(t, e.lookWanted("o"), "it says what we know")

	r = e.sendRefund(a, 100)
	s = refundSent(r, order.Succeeded)
	s.Seen.RefundedMinor = 800
	e.tell(s)
	back, _ := e.books()
	require.EqualValues(t, 500, back)
	require.True(t, e.lookWanted("o"))
}

// A person settles what no lookup can: with the provider's reference, or with proof that nothing went back and no request under way.
func TestAPersonSettlesAnUnknownRefund(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	a := e.pay(e.place("o", grantLine(10)))
	park := func() (sqlcgen.Refund, sqlcgen.Review) {
		r := e.sendRefund(a, 300)
		_, err := e.s.RefundUnresolved(e.ctx(), refundID(r), "payment_outcome_unknown")
		require.NoError(t, err)
		return r, e.review(r.RefundID)
	}
	r, rv := park()
	require.Equal(t, order.Applied, e.decide(decision(rv, order.DecideRequeryPayment)).Verdict)
	rv = e.review(r.RefundID)
	require.Equal(t, "too_early", e.decide(decision(rv, order.DecideCloseWithEvidence)).Why)
	require.Equal(t, "decision_not_allowed", e.decide(decision(rv, order.DecideRefund)).Why)
	e.exec("UPDATE operations SET sent_at = now() - interval '1 day', last_sent_at = now() - interval '1 day' WHERE operation_id = $1", r.OperationID)
	require.Equal(t, order.Applied, e.decide(decision(rv, order.DecideCloseWithEvidence)).Verdict)
	require.Equal(t, string(order.RefundFailed), e.refund(r).Status)
	require.EqualValues(t, 1000, e.left(a))
	require.EqualValues(t, 1, e.events(order.EventRefundFailed))
	require.Zero(t, e.count("SELECT count(*) FROM reviews WHERE status = 'open'"), "the person knows")
	require.Equal(t, r.OperationID, e.text("SELECT operation_id FROM review_decisions WHERE decision = 'close_with_evidence'"))
	won, err := e.s.RefundClaimAgain(e.ctx(), refundID(r), 1, "")
	require.NoError(t, err)
	require.False(t, won, "what a person has closed is not sent again")

	r, rv = park()
	require.Equal(t, order.Applied, e.decide(decision(rv, order.DecideConfirmRefunded)).Verdict)
	require.Equal(t, string(order.RefundSucceeded), e.refund(r).Status)
	require.EqualValues(t, 700, e.left(a))
	require.EqualValues(t, 1, e.events(order.EventRefundSucceeded))
	e.folds()
}

// What cannot even be sent waits for a person and is in doubt for nobody.
func TestARefundThatCannotBeSentGetsAnOwner(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	r := e.openRefund(a, 300)
	_, err := e.s.RefundUnresolved(e.ctx(), refundID(r), "gateway_misconfigured")
	require.NoError(t, err)
	require.Equal(t, string(order.RefundRequested), e.refund(r).Status)
	require.NotNil(t, e.refund(r).NextCheckAt)
	require.Equal(t, string(order.ReviewMisconfigured), e.review(r.RefundID).Reason)
	_, won, err := e.s.RefundClaim(e.ctx(), refundID(r), "")
	require.NoError(t, err)
	require.True(t, won)
	require.Zero(t, e.count("SELECT count(*) FROM reviews WHERE status = 'open'"), "what kept it from being sent is over")
}

// An answer that does not fit a captured payment must not change what refunds are counted against.
func TestAnUnfittingAnswerLeavesTheCaptureAlone(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	e.giveBack(a, 400)
	s := answer(e.attempt(a), order.Succeeded)
	s.Payment.CapturedMinor = 100
	e.keep(s)
	require.Equal(t, order.Mismatch, e.reflect(a).Verdict)
	require.EqualValues(t, 1000, e.count("SELECT captured_minor FROM payments"))
	require.EqualValues(t, 600, e.left(a))
}

// Rule 9: refunds beside everything else that touches the order take their locks in the same order.
func TestRule09_RefundsTakeLocksInOneOrder(t *testing.T) {
	t.Parallel()
	e := setupConns(t, 30, "deadlock_timeout = '100ms'", "mail")
	deadlocks := e.count("SELECT deadlocks FROM pg_stat_database WHERE datname = $1", e.db.Name)
	var as []sqlcgen.PaymentAttempt
	var rs []sqlcgen.Refund
	for i := range 3 {
		a := e.pay(e.place(order.ID(fmt.Sprint("o", i)), grantLine(100)))
		as, rs = append(as, a), append(rs, e.openRefund(a, 500), e.sendRefund(a, 500))
	}
	acts := []func(a sqlcgen.PaymentAttempt, r sqlcgen.Refund, i int) error{
		func(a sqlcgen.PaymentAttempt, _ sqlcgen.Refund, i int) error {
			d := e.refundDraft(a, fmt.Sprint("k", i, rand.Int()), 10)
			_, err := e.s.RefundOpen(e.ctx(), d)
			if f := fault.As(err); f != nil && f.Code == fault.Refused {
				return nil
			}
			return err
		},
		func(_ sqlcgen.PaymentAttempt, r sqlcgen.Refund, _ int) error {
			_, _, err := e.s.RefundClaim(e.ctx(), refundID(r), "")
			return err
		},
		func(_ sqlcgen.PaymentAttempt, r sqlcgen.Refund, _ int) error {
			_, err := e.s.RefundClaimAgain(e.ctx(), refundID(r), 1, "")
			return err
		},
		func(_ sqlcgen.PaymentAttempt, r sqlcgen.Refund, i int) error {
			o := []order.Outcome{order.Succeeded, order.Declined, order.Pending, order.Unknown}[i%4]
			return e.s.RefundKeep(e.ctx(), refundSent(r, o))
		},
		func(_ sqlcgen.PaymentAttempt, r sqlcgen.Refund, _ int) error {
			_, err := e.s.RefundReflect(e.ctx(), refundID(r))
			return err
		},
		func(_ sqlcgen.PaymentAttempt, r sqlcgen.Refund, _ int) error {
			_, err := e.s.RefundUnresolved(e.ctx(), refundID(r), "code")
			return err
		},
		func(a sqlcgen.PaymentAttempt, _ sqlcgen.Refund, i int) error {
			s := answer(a, order.Succeeded)
			s.Payment.RefundedMinor, s.Payment.ReadVersion = int64(i%3)*500, e.attempt(a).Version
			if _, err := e.s.ObservationKeep(e.ctx(), s, ""); err != nil {
				return err
			}
			_, err := e.s.Reflect(e.ctx(), idOf(a))
			return err
		},
		func(a sqlcgen.PaymentAttempt, _ sqlcgen.Refund, _ int) error {
			_, err := e.s.FulfillInternal(e.ctx(), order.ID(a.OrderID), 5)
			return err
		},
		func(a sqlcgen.PaymentAttempt, _ sqlcgen.Refund, i int) error {
			var id string
			_ = e.owner.QueryRow(e.ctx(), "SELECT review_id FROM reviews WHERE order_id = $1 AND status = 'open' LIMIT 1", a.OrderID).Scan(&id)
			d := order.Decision{ReviewID: order.ReviewID(id), Decision: order.DecideRequeryPayment, Actor: "ann", Reason: fmt.Sprint("look ", i)}
			_, _, err := e.s.Decide(e.ctx(), d, ann, Door{})
			return err
		},
		func(sqlcgen.PaymentAttempt, sqlcgen.Refund, int) error {
			_, err := e.s.ChecksDue(e.ctx(), 0, 10)
			return err
		},
	}
	for _, err := range together(150, func(i int) error {
		var all error
		for range 3 {
			k, n := rand.IntN(len(acts)), rand.IntN(len(rs))
			if err := acts[k](as[n/2], rs[n], i); err != nil {
				all = errors.Join(all, fmt.Errorf("act %d: %w", k, err))
			}
		}
		return all
	}) {
		require.NoError(t, err)
	}
	require.Equal(t, deadlocks, e.count("SELECT deadlocks FROM pg_stat_database WHERE datname = $1", e.db.Name), "hidden by a retry, but there")
	e.folds()
}

// Over random histories of refunds, looks and answers: never more is asked for than there is, each event is told once, and the log
// folds to the rows.
func TestRefundHistoriesKeepTheBooks(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		h := &refunds{env: e, a: e.pay(e.place(order.ID(fmt.Sprint("o", n)), grantLine(10)))}
		for range rapid.IntRange(3, 20).Draw(t, "steps") {
			h.step(t)
		}
	})
	e.folds()
	require.Zero(t, e.count("SELECT count(*) FROM (SELECT 1 FROM outbox_events GROUP BY order_id, business_key HAVING count(*) > 1) x"))
	require.Zero(t, e.count("SELECT count(*) FROM refunds r WHERE r.status = 'failed' AND NOT EXISTS (SELECT 1 FROM reviews v WHERE v.subject_id = r.refund_id AND v.reason = 'refund_failed')"))
	require.Zero(t, e.count("SELECT count(*) FROM orders WHERE status NOT IN ('paid', 'canceled')"))
	require.Positive(t, e.count("SELECT count(*) FROM orders WHERE status = 'canceled'"), "some give everything back")
	require.Zero(t, e.count("SELECT count(*) FROM fulfillment_units u JOIN orders o USING (order_id) WHERE (u.status = 'canceled') <> (o.status = 'canceled')"))
	require.Zero(t, e.count("SELECT count(*) FROM payment_attempts WHERE status <> 'succeeded'"))
}

type refunds struct {
	*env
	a      sqlcgen.PaymentAttempt
	rs     []sqlcgen.Refund
	turned bool // a refund that failed went through after all: only then may more go back than came in
}

func (h *refunds) step(t *rapid.T) {
	one := func() (sqlcgen.Refund, bool) {
		if len(h.rs) == 0 {
			return sqlcgen.Refund{}, false
		}
		return h.refund(h.rs[rapid.IntRange(0, len(h.rs)-1).Draw(t, "refund")]), true
	}
	switch k := rapid.IntRange(0, 6).Draw(t, "step"); k {
	case 0, 1:
		o, err := h.s.RefundOpen(h.ctx(), h.refundDraft(h.a, fmt.Sprint(h.a.AttemptID, len(h.rs)), int64(rapid.IntRange(1, 700).Draw(t, "amount"))))
		if err == nil {
			h.rs = append(h.rs, o.Refund)
		} else {
			requireRefused(t, err)
		}
	case 2:
		if r, ok := one(); ok {
			_, _, err := h.s.RefundClaim(h.ctx(), refundID(r), "")
			require.NoError(t, err)
		}
	case 3, 4:
		if r, ok := one(); ok && r.Status != string(order.RefundRequested) {
			s := refundSays(r, rapid.SampledFrom([]order.Outcome{order.Succeeded, order.Succeeded, order.Declined, order.Pending, order.Unknown, order.NotFound, order.Refused}).Draw(t, "outcome"))
			s.Seen.Final = rapid.Bool().Draw(t, "final")
			s.Seen.ReadVersion -= int64(rapid.IntRange(0, 3).Draw(t, "behind") / 3)
			s.Seen.RefundedMinor = int64(rapid.IntRange(-1, 1200).Draw(t, "total"))
			out := h.tell(s)
			h.turned = h.turned || r.Status == string(order.RefundFailed) && out.Status != order.RefundFailed
		}
	case 5:
		h.looked(h.a, int64(rapid.IntRange(0, 1000).Draw(t, "back")))
	case 6:
		if r, ok := one(); ok {
			_, err := h.s.RefundUnresolved(h.ctx(), refundID(r), "code")
			require.NoError(t, err)
		}
	}
	sum := h.count("SELECT coalesce(sum(amount_minor), 0) FROM refunds WHERE attempt_id = $1 AND status <> 'failed'", h.a.AttemptID)
	if !h.turned {
		require.LessOrEqual(t, sum, int64(1000), "our refunds pass what was captured")
	}
	require.LessOrEqual(t, h.left(h.a), max(0, 1000-sum), "more is left than there is")
}

func requireRefused(t *rapid.T, err error) {
	require.True(t, fault.IsCode(err, fault.Refused), "%v", err)
}
