package store

// Goal: money that moves on its own - disputed, taken back, late, paid elsewhere - is one change of payment, order, stock, reviews and
// log, by whatever answer tells it and however often. Method: answers against real PostgreSQL. Not covered: what providers say and
// when (package e2e), and every state there is (package order).

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// says is a fresh answer about captured money.
func (e *env) says(a sqlcgen.PaymentAttempt, o order.Outcome, change func(*order.PaymentSeen)) Reflected {
	e.t.Helper()
	s := answer(e.attempt(a), o)
	if change != nil {
		change(&s.Payment)
	}
	e.keep(s)
	return e.reflect(a)
}

func dispute(d order.Dispute, minor int64) func(*order.PaymentSeen) {
	return func(p *order.PaymentSeen) { p.Dispute, p.DisputedMinor = d, minor }
}

func (e *env) hold(id order.ID) order.Hold {
	e.t.Helper()
	return order.Hold(e.text("SELECT hold FROM orders WHERE order_id = $1", string(id)))
}

// openReasons are the reasons of a subject's open reviews.
func (e *env) openReasons(subject string) string {
	e.t.Helper()
	return e.text("SELECT coalesce(string_agg(reason || ':' || code, ' ' ORDER BY reason), '') FROM reviews WHERE subject_id = $1 AND status = 'open'", subject)
}

func TestADisputeHoldsGoodsAndRefunds(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	d := e.place("o", grantLine(2), issueLine(1))
	a := e.pay(d)
	ticket := order.UnitID(e.text("SELECT unit_id FROM fulfillment_units WHERE action = 'issue'"))

	require.Equal(t, order.Applied, e.says(a, order.Succeeded, dispute(order.DisputeOpen, 100)).Verdict)
	require.Equal(t, order.HoldDispute, e.hold("o"))
	require.Equal(t, "dispute_open:nothing_provided", e.openReasons(a.AttemptID))
	p, err := e.s.FulfillInternal(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Zero(t, p.Units, "our own goods wait")
	_, err = e.s.UnitClaim(e.ctx(), ticket, "o", issueDraft(ticket, 1), 1)
	requireWhy(t, err, fault.Refused, "order_held")
	_, err = e.s.RefundOpen(e.ctx(), e.refundDraft(a, "k", 100))
	requireWhy(t, err, fault.Refused, "refund_disputed")
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM payment_attempts WHERE next_check_at > now()"), "nobody may ever tell how it ends: somebody asks")
	s, err := e.s.Snapshot(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Equal(t, order.HoldDispute, s.Hold)

	require.Equal(t, order.Unchanged, e.says(a, order.Succeeded, dispute(order.DisputeOpen, 100)).Verdict)
	r := e.says(a, order.Succeeded, dispute(order.DisputeWon, 100))
	require.Greater(t, r.WorkTo, r.WorkFrom, "there is work again")
	require.Equal(t, order.HoldNone, e.hold("o"))
	require.Empty(t, e.openReasons(a.AttemptID))
	require.Zero(t, e.count("SELECT count(*) FROM payment_attempts WHERE next_check_at IS NOT NULL"))
	p, err = e.s.FulfillInternal(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Equal(t, 2, p.Units)

	e.says(a, order.Succeeded, dispute(order.DisputeLost, 0))
	require.Equal(t, "dispute_lost:partly_provided", e.openReasons(a.AttemptID))
	require.EqualValues(t, 300, e.count("SELECT disputed_minor FROM payments"), "who does not say how much argues about all of it")
	h, err := e.s.OrderHead(e.ctx(), "", "o")
	require.NoError(t, err)
	require.Equal(t, Away{Lost: 300}, h.Away)
	e.folds()
}

func TestADepositTakenBackAndMadeAgain(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(2)))
	require.Equal(t, order.Applied, e.says(a, order.Pending, nil).Verdict)
	require.Equal(t, order.HoldDeposit, e.hold("o"))
	require.Equal(t, "deposit_taken_back:nothing_provided", e.openReasons(a.AttemptID))
	require.Equal(t, string(order.AttemptSucceeded), e.attempt(a).Status)
	require.Equal(t, order.Unchanged, e.says(a, order.Pending, nil).Verdict)
	_, err := e.s.RefundOpen(e.ctx(), e.refundDraft(a, "k", 100))
	requireWhy(t, err, fault.Refused, "money_taken_back")
	e.says(a, order.Succeeded, nil)
	require.Equal(t, order.HoldNone, e.hold("o"))
	require.Empty(t, e.openReasons(a.AttemptID))
	p, err := e.s.FulfillInternal(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Equal(t, order.OrderCompleted, p.Order)

	e.says(a, order.Pending, nil)
	require.Equal(t, "deposit_taken_back:all_provided", e.openReasons(a.AttemptID))
	require.Equal(t, order.OrderCompleted, e.status("o"))
	e.folds()
}

// expiredWithCapture is an order whose attempt was closed, whose time ran out, and whose attempt captures after all.
func (e *env) expiredWithCapture(id order.ID, lines ...order.Line) sqlcgen.PaymentAttempt {
	e.t.Helper()
	d := e.place(id, lines...)
	a := e.open(d, "k-"+string(id))
	s := answer(a, order.Declined)
	s.Payment.Final, s.Payment.Code = true, "card_declined"
	e.keep(s)
	require.Equal(e.t, order.AttemptClosed, e.reflect(a).Status)
	e.lapse(id)
	c, err := e.s.OrderExpire(e.ctx(), id)
	require.NoError(e.t, err)
	require.Equal(e.t, order.Applied, c.Verdict)
	return a
}

func (e *env) reserved(sku string) int64 {
	return e.count("SELECT reserved FROM stock WHERE sku = $1", sku)
}

func TestPC19_LateMoneyKeepsThePromiseWhileStockAndTermsAllow(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 5))
	a := e.expiredWithCapture("o", stockLine("mug", 2), stockLine("mug", 1))
	require.Zero(t, e.reserved("mug"))
	r := e.says(a, order.Succeeded, nil)
	require.Equal(t, order.OrderPaid, r.Order)
	require.EqualValues(t, 3, e.reserved("mug"), "what expiry released is reserved again")
	require.Empty(t, e.openReasons(a.AttemptID))
	p, err := e.s.FulfillInternal(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Equal(t, order.OrderCompleted, p.Order)
	require.Zero(t, e.reserved("mug"))
	require.EqualValues(t, 2, e.count("SELECT on_hand FROM stock WHERE sku = 'mug'"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM outbox_events WHERE type = 'order.paid'"))

	short := e.expiredWithCapture("short", stockLine("mug", 2))
	e.place("other", stockLine("mug", 1))
	e.says(short, order.Succeeded, nil)
	require.Equal(t, order.OrderExpired, e.status("short"))
	require.Equal(t, "late_payment:out_of_stock", e.openReasons(short.AttemptID))
	require.EqualValues(t, 1, e.reserved("mug"))

	late := e.expiredWithCapture("late", grantLine(1))
	e.exec("UPDATE orders SET ended_at = now() - interval '2 hours' WHERE order_id = 'late'")
	e.says(late, order.Succeeded, nil)
	require.Equal(t, "late_payment:too_late", e.openReasons(late.AttemptID))
	require.EqualValues(t, 3, e.count("SELECT count(*) FROM payments WHERE matched"), "money is never dropped")
	e.folds()
}

func TestAPersonKeepsAnExpiredPromise(t *testing.T) {
	t.Parallel()
	e := setup(t)
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 2))
	a := e.expiredWithCapture("o", stockLine("mug", 2))
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 1))
	e.says(a, order.Succeeded, nil)
	d := decision(e.review(a.AttemptID), order.DecideRestoreReflection)
	require.Equal(t, "out_of_stock", e.decide(d).Why)
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 2))
	require.Equal(t, order.Applied, e.decide(d).Verdict)
	require.Equal(t, order.OrderPaid, e.status("o"))
	require.Empty(t, e.openReasons(a.AttemptID))
	require.EqualValues(t, 2, e.reserved("mug"))
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM fulfillment_units WHERE status = 'planned'"))
	require.Equal(t, order.Applied, e.decide(d).Verdict, "the same decision again is one effect")
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM fulfillment_units"))
	e.folds()
}

// Whatever expires, is declined or captures afterwards: an order that was paid by other means stays paid, and its goods go out once.
func TestPC20_AnOrderSettledByOtherMeansStaysSettled(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	d := e.place("o", grantLine(2))
	a := e.open(d, "k")
	e.says(a, order.Pending, nil)
	ref, err := e.s.SettledElsewhere(e.ctx(), "o")
	require.NoError(t, err)
	again, err := e.s.SettledElsewhere(e.ctx(), "o")
	require.NoError(t, err)
	require.Equal(t, ref, again, "one question")
	r, err := e.s.Review(e.ctx(), ref)
	require.NoError(t, err)
	require.Equal(t, order.Applied, e.decide(decision(r, order.DecideRecordExternal)).Verdict)
	require.Equal(t, order.OrderPaid, e.status("o"))
	require.NotEmpty(t, e.text("SELECT external_decision FROM orders"))
	p, err := e.s.FulfillInternal(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Equal(t, order.OrderCompleted, p.Order)

	e.lapse("o")
	c, err := e.s.OrderExpire(e.ctx(), "o")
	require.NoError(t, err)
	require.Equal(t, order.Rejected, c.Verdict)
	e.says(a, order.Declined, func(p *order.PaymentSeen) { p.Final, p.Code = true, "expired" }) // 30 days later
	require.Equal(t, string(order.AttemptClosed), e.attempt(a).Status)
	require.Equal(t, order.OrderCompleted, e.status("o"))
	e.says(a, order.Succeeded, nil) // and after all
	require.Equal(t, "extra_payment:", e.openReasons(a.AttemptID))
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM fulfillment_units"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM outbox_events WHERE type = 'order.paid'"))
	_, err = e.s.SettledElsewhere(e.ctx(), "nobody's")
	require.True(t, fault.IsCode(err, fault.NotFound), "%v", err)
	e.folds()
}

// PC-04: refunding the extra one does not undo the order; and what the bank does with one payment, the other still pays for.
func TestPC04_TwoPaymentsOfOneOrder(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", issueLine(1))
	a := e.open(d, "k1")
	_, err := e.s.AttemptUnresolved(e.ctx(), idOf(a), "code")
	require.NoError(t, err)
	require.Equal(t, order.Applied, e.decide(decision(e.review(a.AttemptID), order.DecideCloseWithEvidence)).Verdict)
	b := e.open(d, "k2")
	e.says(b, order.Succeeded, nil)
	e.says(a, order.Succeeded, nil)
	require.Equal(t, "extra_payment:", e.openReasons(a.AttemptID))
	e.says(b, order.Succeeded, dispute(order.DisputeLost, 100))
	require.Equal(t, order.HoldNone, e.hold("o"), "the other payment is here")
	require.Equal(t, "dispute_lost:nothing_provided", e.openReasons(b.AttemptID))
	require.Equal(t, order.OrderPaid, e.status("o"))
	e.folds()

	f := e.place("f", issueLine(1))
	x := e.open(f, "k3")
	_, err = e.s.AttemptUnresolved(e.ctx(), idOf(x), "code")
	require.NoError(t, err)
	require.Equal(t, order.Applied, e.decide(decision(e.review(x.AttemptID), order.DecideCloseWithEvidence)).Verdict)
	y := e.open(f, "k4")
	e.says(y, order.Succeeded, nil)
	e.says(x, order.Succeeded, nil)
	r := e.openRefund(x, 100)
	_, _, err = e.s.RefundClaim(e.ctx(), refundID(r), "")
	require.NoError(t, err)
	e.tell(refundSays(e.refund(r), order.Succeeded))
	require.Equal(t, order.OrderPaid, e.status("f"))
	require.Equal(t, order.HoldNone, e.hold("f"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM fulfillment_units WHERE order_id = 'f' AND status = 'planned'"))
	e.folds()
}

// An approval that is replayed after the order ended moves nothing: it is older than what is known, and a fresh look decides.
func TestOldApprovalsReviveNothing(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(1))
	a := e.open(d, "k")
	old := answer(a, order.Succeeded)
	s := answer(a, order.Declined)
	s.Payment.Final = true
	e.keep(s)
	e.reflect(a)
	e.lapse("o")
	_, err := e.s.OrderExpire(e.ctx(), "o")
	require.NoError(t, err)
	e.keep(old)
	require.Equal(t, order.Stale, e.reflect(a).Verdict)
	require.Equal(t, order.OrderExpired, e.status("o"))
	require.True(t, e.lookWanted("o"))
	require.Zero(t, e.count("SELECT count(*) FROM payments"))
}
