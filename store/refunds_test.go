package store

// Goal: never more goes back than was captured, never twice what was asked for once, and what is not known counts as gone.
// Method: the ten rules again, for refunds; real concurrency, lost COMMITs, and statements that fail in the middle. The public faults
// are in refunds_cases_test.go. Not covered: what providers guard by themselves (gateways), and who calls (activities).

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Rule 1, PC-44: the provider gave the money back and its answer was lost. Nothing but evidence settles it, and until then nobody
// can give the same money back again.
func TestRule01_AnUnknownRefundStaysUnknownUntilEvidence(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	a := e.pay(e.place("o", grantLine(10)))
	r := e.sendRefund(a, 1000)
	require.Equal(t, order.RefundUnknown, e.tell(refundSent(r, order.Unknown)).Status)
	require.Zero(t, e.count("SELECT count(*) FROM operations WHERE operation_id = $1 AND finished_at IS NOT NULL", r.OperationID))
	for _, weak := range []order.Outcome{order.Unknown, order.NotFound, order.Untouched, order.Refused} {
		require.Equal(t, order.RefundUnknown, e.tell(refundSays(e.refund(r), weak)).Status, "%s is no evidence", weak)
	}
	c, err := e.s.RefundUnresolved(e.ctx(), refundID(r), "payment_outcome_unknown")
	require.NoError(t, err)
	require.Equal(t, order.Applied, c.Verdict)
	require.Equal(t, string(order.ReviewRefundUnknown), e.review(r.RefundID).Reason)
	e.exec("UPDATE refunds SET created_at = now() - interval '25 hours'")
	out, err := e.s.RefundOpen(e.ctx(), e.refundDraft(a, "again", 1000))
	requireWhy(t, err, fault.Refused, "more_than_left")
	require.Zero(t, out.LeftMinor)

	require.Equal(t, order.RefundSucceeded, e.tell(refundSays(e.refund(r), order.Succeeded)).Status)
	require.Zero(t, e.reviews(r.RefundID, order.ReviewRefundUnknown), "evidence ends the review")
	require.Zero(t, e.left(a))
	require.EqualValues(t, 1, e.events(order.EventRefundSucceeded))
	require.Equal(t, string(order.AttemptSucceeded), e.attempt(a).Status, "a refund moves no attempt")
	require.Equal(t, order.OrderCanceled, e.status("o"), "nothing of the money is left, so nothing is handed over any more")
	require.EqualValues(t, 10, e.count("SELECT count(*) FROM fulfillment_units WHERE status = 'canceled'"))
	e.folds()
}

// Rule 2: one outside write is one row, and its claim has one winner.
func TestRule02_OneWinnerSendsARefund(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.openRefund(e.pay(e.place("o", grantLine(10))), 400)
	var winners atomic.Int32
	for _, err := range together(30, func(int) error {
		now, won, err := e.s.RefundClaim(e.ctx(), refundID(r), "mark")
		if won {
			winners.Add(1)
		}
		if err == nil && now.Version != 2 {
			return fmt.Errorf("version %d", now.Version)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, winners.Load())
	require.Equal(t, string(order.RefundSent), e.refund(r).Status)

	winners.Store(0)
	for _, err := range together(30, func(int) error {
		won, err := e.s.RefundClaimAgain(e.ctx(), refundID(r), 1, "mark")
		if won {
			winners.Add(1)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, winners.Load(), "everybody saw one send: one repeats")
	require.EqualValues(t, 2, e.count("SELECT sends FROM operations WHERE operation_id = $1", r.OperationID))
	won, err := e.s.RefundClaimAgain(e.ctx(), refundID(r), 2, "another")
	require.NoError(t, err)
	require.False(t, won, "a key's guard need not outlive the credential")
}

// Rule 2: an attempt's own steps never see or claim its refunds, and a refund is claimed by nothing else.
func TestRule02_AnAttemptsClaimsPassItsRefundsBy(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	r := e.openRefund(a, 400)
	w, err := e.s.AttemptWork(e.ctx(), idOf(a))
	require.NoError(t, err)
	require.Len(t, w.Operations, 2, "prepare and confirm")
	_, won, err := e.s.OperationClaim(e.ctx(), idOf(a), order.OperationID(r.OperationID), "")
	require.NoError(t, err)
	require.False(t, won)
	_, won, err = e.s.RefundClaim(e.ctx(), refundID(r), "")
	require.NoError(t, err)
	require.True(t, won)
	won, err = e.s.OperationClaimAgain(e.ctx(), order.OperationID(r.OperationID), 1, "")
	require.NoError(t, err)
	require.False(t, won)
	rw, err := e.s.RefundWork(e.ctx(), refundID(r))
	require.NoError(t, err)
	require.Equal(t, []string{r.RefundID, a.AttemptID, r.OperationID, r.PaymentID}, []string{rw.Refund.RefundID, rw.Attempt.AttemptID, rw.Operation.OperationID, rw.Payment.PaymentID})
	require.EqualValues(t, 1, rw.Operation.Sends)
}

// Rule 3: what is answered is never repeated, whatever a late try says; and a late capture's attempt, which was closed once, can be
// refunded like any other.
func TestRule03_AnAnsweredRefundIsNeverRepeated(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	e.exec("UPDATE payment_attempts SET closed_at = now(), close_reason = 'by_decision'")
	r := e.sendRefund(a, 400)
	for _, seen := range []int{0, 2, 7} {
		won, err := e.s.RefundClaimAgain(e.ctx(), refundID(r), seen, "")
		require.NoError(t, err)
		require.False(t, won)
	}
	won, err := e.s.RefundClaimAgain(e.ctx(), refundID(r), 1, "")
	require.NoError(t, err)
	require.True(t, won)
	require.NoError(t, e.s.RefundKeep(e.ctx(), refundSent(r, order.Pending)))
	require.NoError(t, e.s.RefundKeep(e.ctx(), refundSent(r, order.Unknown))) // the answer of an overlapping try comes late
	require.Equal(t, "pending", e.text("SELECT outcome FROM operations WHERE operation_id = $1", r.OperationID))
	won, err = e.s.RefundClaimAgain(e.ctx(), refundID(r), 2, "")
	require.NoError(t, err)
	require.False(t, won)
	out, err := e.s.RefundReflect(e.ctx(), refundID(r))
	require.NoError(t, err)
	require.Equal(t, order.RefundPending, out.Status)
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM observations WHERE refund_id = $1", r.RefundID), "both answers are kept")
}

// Rule 1 meets rule 3: the first send may have gone through; a refusal of the second one proves nothing about it.
func TestRule03_ARefusedRepeatIsNoProof(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	r := e.sendRefund(a, 400)
	won, err := e.s.RefundClaimAgain(e.ctx(), refundID(r), 1, "")
	require.NoError(t, err)
	require.True(t, won)
	require.Equal(t, order.RefundUnknown, e.tell(refundSent(r, order.Refused)).Status)
	require.EqualValues(t, 600, e.left(a))
	other := e.sendRefund(a, 100)
	require.Equal(t, order.RefundFailed, e.tell(refundSent(other, order.Refused)).Status)
	require.EqualValues(t, 600, e.left(a))
}

// Rule 5: an answer read under an older version is kept and not applied; the row says that somebody has to ask again.
func TestRule05_AStaleRefundAnswerIsLookedUp(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(10))
	r := e.sendRefund(e.pay(d), 400)
	require.Equal(t, order.RefundSucceeded, e.tell(refundSent(r, order.Succeeded)).Status)
	heads := func() []RefundHead {
		s, err := e.s.Snapshot(e.ctx(), d.ID, 10)
		require.NoError(t, err)
		return s.Refunds
	}
	require.Empty(t, heads())
	for _, old := range []order.Outcome{order.Declined, order.Pending} {
		out := e.tell(refundSays(r, old)) // read before the success was applied
		require.Equal(t, order.Stale, out.Verdict)
		require.True(t, out.NeedsLook)
		require.Zero(t, e.count("SELECT count(*) FROM reviews"), "an older truth is no contradiction")
		require.Len(t, heads(), 1)
		require.True(t, heads()[0].Look)
		due, err := e.s.RefundsToCheck(e.ctx(), time.Minute, 10)
		require.NoError(t, err)
		require.Equal(t, []Due{{Order: "o", Subject: r.RefundID}}, due, "and without a run the sweep asks")
		require.Equal(t, order.Unchanged, e.tell(refundSays(e.refund(r), order.Succeeded)).Verdict)
		require.Empty(t, heads())
	}
	require.Equal(t, order.Mismatch, e.tell(refundSays(e.refund(r), order.Pending)).Verdict, "and what is read now does contradict")
	require.EqualValues(t, 1, e.reviews(r.RefundID, order.ReviewContradiction))
}

// Rule 6: not found is final only where the gateway says so, and never of what was there.
func TestRule06_NotFoundEndsARefundOnlyWhenFinal(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	r := e.sendRefund(a, 400)
	gone := refundSays(r, order.NotFound)
	require.Equal(t, order.RefundSent, e.tell(gone).Status)
	gone.Seen.Final = true
	require.Equal(t, order.RefundFailed, e.tell(gone).Status)
	require.EqualValues(t, 1000, e.left(a), "it may be refunded again")

	seen := e.sendRefund(a, 400)
	require.Equal(t, order.RefundPending, e.tell(refundSent(seen, order.Pending)).Status)
	gone = refundSays(e.refund(seen), order.NotFound)
	gone.Seen.Final = true
	require.Equal(t, order.Mismatch, e.tell(gone).Verdict)
	require.Equal(t, string(order.RefundPending), e.refund(seen).Status)
	require.EqualValues(t, 600, e.left(a))
}

// Rule 7, PC-33: every refund has one key of its own, derived and never renewed; the numbers are the operations' generations.
func TestRule07_ARefundHasOneKeyEver(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	d := e.refundDraft(a, "k", 100)
	d.Operation.ID = "op_mine"
	_, err := e.s.RefundOpen(e.ctx(), d)
	require.True(t, fault.IsCode(err, fault.InternalError), "the key is derived, not chosen")
	first, second := e.giveBack(a, 100), e.giveBack(a, 100)
	require.EqualValues(t, 4, e.count("SELECT count(DISTINCT operation_id) FROM operations WHERE attempt_id = $1", a.AttemptID))
	require.EqualValues(t, 1, e.count("SELECT generation FROM operations WHERE operation_id = $1", first.OperationID))
	require.EqualValues(t, 2, e.count("SELECT generation FROM operations WHERE operation_id = $1", second.OperationID))
	require.EqualValues(t, 2, second.Number)
	won, err := e.s.OperationRenew(e.ctx(), idOf(a), order.OperationID(second.OperationID), OperationDraft{ID: "op_new", Kind: "refund", Sealed: []byte("x"), Fingerprint: []byte("y")}, 3)
	require.NoError(t, err)
	require.False(t, won)
}

// Rule 8: a refund that nobody works on is work: the order's run is started, finds it, and does not rest before it has.
func TestRule08_AnOpenedRefundIsWork(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(10))
	a := e.pay(d)
	before, err := e.s.Snapshot(e.ctx(), d.ID, 10)
	require.NoError(t, err)
	r := e.openRefund(a, 400)
	rested, err := e.s.Rest(e.ctx(), d.ID, before.WorkSeq)
	require.NoError(t, err)
	require.False(t, rested)
	now, err := e.s.Snapshot(e.ctx(), d.ID, 10)
	require.NoError(t, err)
	head := RefundHead{ID: refundID(r), Attempt: idOf(a), Status: order.RefundRequested, Gateway: "stripe", Account: "default", Environment: "test"}
	require.Equal(t, []RefundHead{head}, now.Refunds)

	r, _, err = e.s.RefundClaim(e.ctx(), refundID(r), "")
	require.NoError(t, err)
	require.NoError(t, e.s.RefundKeep(e.ctx(), refundSent(r, order.Succeeded)))
	now, err = e.s.Snapshot(e.ctx(), d.ID, 10)
	require.NoError(t, err)
	require.True(t, now.Refunds[0].Unreflected, "who asked may be gone")
	require.Equal(t, order.RefundSent, now.Refunds[0].Status)
	_, err = e.s.RefundReflect(e.ctx(), refundID(r))
	require.NoError(t, err)
	now, err = e.s.Snapshot(e.ctx(), d.ID, 10)
	require.NoError(t, err)
	require.Empty(t, now.Refunds)

	v, err := e.s.OrderView(e.ctx(), client, d.ID)
	require.NoError(t, err)
	require.Len(t, v.Refunds, 1)
	require.EqualValues(t, 400, v.Head.RefundedMinor)
}

func TestRefundsAreRejectedWithAWord(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	unpaid := e.open(e.place("o2", grantLine(10)), "k2")
	b := e.pay(e.place("o3", grantLine(10)))
	for name, c := range map[string]struct {
		of    sqlcgen.PaymentAttempt
		spoil func(*RefundDraft)
		code  fault.Code
		why   string
	}{
		"NothingCaptured":     {unpaid, func(*RefundDraft) {}, fault.Refused, "nothing_captured"},
		"MoreThanLeft":        {a, func(d *RefundDraft) { d.Amount.Minor = 1001 }, fault.Refused, "more_than_left"},
		"NotPositive":         {a, func(d *RefundDraft) { d.Amount.Minor = 0 }, fault.Refused, "amount_not_positive"},
		"AnotherCurrency":     {a, func(d *RefundDraft) { d.Amount.Currency = "USD" }, fault.Refused, "currency_differs"},
		"ReasonIsText":        {a, func(d *RefundDraft) { d.Reason = "Ann's card" }, fault.Refused, "reason_invalid"},
		"AnotherClientsOrder": {a, func(d *RefundDraft) { d.Client = "other" }, fault.NotFound, ""},
		"NoSuchOrder":         {a, func(d *RefundDraft) { d.OrderID = "none" }, fault.NotFound, ""},
		"NoSuchAttempt":       {a, func(d *RefundDraft) { d.Attempt = "none" }, fault.NotFound, ""},
		"AnotherOrdersMoney":  {a, func(d *RefundDraft) { d.Attempt = idOf(b) }, fault.NotFound, ""},
	} {
		d := e.refundDraft(c.of, name, 100)
		c.spoil(&d)
		_, err := e.s.RefundOpen(e.ctx(), d)
		requireWhy(t, err, c.code, c.why)
	}
	require.Zero(t, e.count("SELECT count(*) FROM refunds"))
	require.Zero(t, e.count("SELECT count(*) FROM operations WHERE kind = 'refund'"))

	_, err := e.s.RefundOpen(e.ctx(), e.refundDraft(a, "bound", 100))
	require.NoError(t, err)
	for _, d := range []RefundDraft{e.refundDraft(a, "bound", 200), e.refundDraft(b, "bound", 100)} {
		_, err := e.s.RefundOpen(e.ctx(), d)
		requireWhy(t, err, fault.Refused, "key_bound_elsewhere")
	}
	_, err = e.s.Refundables(e.ctx(), "other", "o")
	require.True(t, fault.IsCode(err, fault.NotFound))
	r, err := e.s.RefundByCallerKey(e.ctx(), client, "bound")
	require.NoError(t, err)
	_, err = e.s.Refund(e.ctx(), "other", refundID(r))
	require.True(t, fault.IsCode(err, fault.NotFound))
}

func TestRefundsSurviveALostCommitAnswer(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	p := testkit.NewTCPProxy(t, e.db.AppURL)
	s, err := Open(e.ctx(), p.Through(e.db.AppURL), 2, Options{Receivers: []string{"mail"}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	a := e.pay(e.place("o", grantLine(10)))
	lost := func(after string, f func() error) {
		t.Helper()
		l := p.LoseCommitAnswer(testkit.CommitFilter{After: after})
		err := f()
		require.True(t, fault.IsCode(err, fault.DatabaseUnavailable), "%v", err)
		select {
		case <-l.Fired():
		default:
			t.Fatalf("the loss after %q did not happen", after)
		}
		require.NoError(t, f())
	}
	d := e.refundDraft(a, "k", 400)
	var o RefundOpened
	lost("INSERT INTO refunds", func() (err error) { o, err = s.RefundOpen(e.ctx(), d); return err })
	require.Equal(t, string(d.ID), o.Refund.RefundID)
	require.True(t, o.Stood)
	won, r := true, sqlcgen.Refund{}
	lost("UPDATE operations", func() (err error) { r, won, err = s.RefundClaim(e.ctx(), d.ID, ""); return err })
	require.False(t, won, "the claim holds: who asks again has to look, not to send")
	lost("INSERT INTO observations", func() error { return s.RefundKeep(e.ctx(), refundSent(r, order.Succeeded)) })
	var out RefundReflected
	lost("UPDATE refunds", func() (err error) { out, err = s.RefundReflect(e.ctx(), d.ID); return err })
	require.Equal(t, order.RefundSucceeded, out.Status)
	require.EqualValues(t, 1, e.events(order.EventRefundSucceeded))
	require.EqualValues(t, 600, e.left(a))
	e.folds()
}

func TestRefundReflectIsAllOrNothing(t *testing.T) {
	t.Parallel()
	for _, at := range []struct{ table, on string }{
		{"refunds", "UPDATE"},
		{"payments", "UPDATE"},
		{"payment_attempts", "UPDATE"},
		{"outbox_events", "INSERT"},
		{"transitions", "INSERT"},
		{"orders", "UPDATE"},
	} {
		t.Run(at.table, func(t *testing.T) {
			t.Parallel()
			e := setup(t, "mail")
			a := e.pay(e.place("o", grantLine(10)))
			r := e.sendRefund(a, 400)
			require.NoError(t, e.s.RefundKeep(e.ctx(), refundSent(r, order.Succeeded)))
			e.raise(at.table, at.on, "58030", 1) // io_error
			_, err := e.s.RefundReflect(e.ctx(), refundID(r))
			require.Error(t, err)
			require.Equal(t, string(order.RefundSent), e.refund(r).Status)
			back, _ := e.books()
			require.Zero(t, back)
			require.Zero(t, e.events(order.EventRefundSucceeded))
			out, err := e.s.RefundReflect(e.ctx(), refundID(r))
			require.NoError(t, err)
			require.Equal(t, order.RefundSucceeded, out.Status)
			require.Positive(t, out.WorkTo-out.WorkFrom, "an event is work")
			back, _ = e.books()
			require.EqualValues(t, 400, back)
			e.folds()
		})
	}
}
