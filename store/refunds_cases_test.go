package store

// Goal: the faults others had with refunds, PC-42, 43, 45 and 46, do not happen here; PC-44 is rule 1's test.

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
)

// PC-42: two clicks, the answer, the webhook and the sweep are one refund, told once.
func TestPC42_OneClickIsOneRefund(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	a := e.pay(e.place("o", grantLine(98)))
	d := e.refundDraft(a, "click", 980)
	ids := make([]string, 10)
	for _, err := range together(len(ids), func(i int) error {
		mine := d
		mine.ID = order.NewRefundID()
		mine.Operation.ID, mine.Reference = order.RefundOperation(mine.ID), order.NewRefundReference()
		o, err := e.s.RefundOpen(e.ctx(), mine)
		ids[i] = o.Refund.RefundID
		return err
	}) {
		require.NoError(t, err)
	}
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM refunds"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM operations WHERE kind = 'refund'"))

	r, _, err := e.s.RefundClaim(e.ctx(), order.RefundID(ids[0]), "")
	require.NoError(t, err)
	require.NoError(t, e.s.RefundKeep(e.ctx(), refundSent(r, order.Succeeded)))
	for _, err := range together(10, func(i int) error {
		if i%2 == 0 {
			if err := e.s.RefundKeep(e.ctx(), refundSays(r, order.Succeeded)); err != nil {
				return err
			}
		}
		_, err := e.s.RefundReflect(e.ctx(), refundID(r))
		return err
	}) {
		require.NoError(t, err)
	}
	require.Equal(t, order.AttemptSucceeded, e.looked(a, 980).Status)
	require.EqualValues(t, 1, e.events(order.EventRefundSucceeded))
	back, elsewhere := e.books()
	require.EqualValues(t, 980, back)
	require.Zero(t, elsewhere)
	require.EqualValues(t, 8820, e.left(a))
	require.Zero(t, e.count("SELECT count(*) FROM reviews"))
	e.folds()
}

// PC-42: one refund in the provider's books cannot stand for two of ours.
func TestPC42_OneProviderRefundIsOneOfOurs(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(10)))
	first := e.giveBack(a, 300)
	second := e.sendRefund(a, 300)
	s := refundSays(second, order.Succeeded)
	s.Seen.ProviderRefundID, s.Seen.Reference = "re_"+first.RefundID, ""
	out := e.tell(s)
	require.Equal(t, order.Mismatch, out.Verdict)
	require.Equal(t, "refund_id_taken", out.Why)
	require.Equal(t, order.RefundUnknown, out.Status)
	require.EqualValues(t, 1, e.reviews(second.RefundID, order.ReviewRefundUnknown))
	require.Empty(t, e.refund(second).ProviderRefundID)
	require.Equal(t, order.RefundSucceeded, e.tell(refundSays(e.refund(second), order.Succeeded)).Status)
}

// PC-43: refunds at the same moment never pass what was captured, and the loser is told what is left.
func TestPC43_RefundsAtOnceStayWithinTheCapture(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(100)))
	var won atomic.Int32
	drafts := make([]RefundDraft, 20)
	for i := range drafts {
		drafts[i] = e.refundDraft(a, fmt.Sprint("k", i), 6000)
	}
	for _, err := range together(len(drafts), func(i int) error {
		o, err := e.s.RefundOpen(e.ctx(), drafts[i])
		if err == nil {
			won.Add(1)
		} else if o.LeftMinor != 4000 {
			return fmt.Errorf("told that %d is left: %w", o.LeftMinor, err)
		}
		return err
	}) {
		if err != nil {
			requireWhy(t, err, fault.Refused, "more_than_left")
		}
	}
	require.EqualValues(t, 1, won.Load())
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM operations WHERE kind = 'refund'"), "losers leave no operation behind")

	small := e.refundDraft(a, "small", 1000)
	small.LeftMinor = 10_000
	o, err := e.s.RefundOpen(e.ctx(), small)
	requireWhy(t, err, fault.Refused, "left_moved")
	require.EqualValues(t, 4000, o.LeftMinor, "its request was frozen against other books: it is planned again")
}

// PC-43 without the lock: of two that counted the same refunds, by a bug or by hand, the schema takes one.
func TestPC43_TheSchemaStopsASecondRefundOfTheSameBooks(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(100)))
	e.openRefund(a, 6000)
	e.exec(`INSERT INTO operations (operation_id, order_id, kind, attempt_id, generation, sealed_request, fingerprint) VALUES ('op_x', 'o', 'refund', $1, 2, '', '')`, a.AttemptID)
	byHand := `INSERT INTO refunds (refund_id, order_id, attempt_id, payment_id, operation_id, client_id, caller_key, gateway, account, environment, reference,
		number, left_minor, amount_minor, currency, reason) SELECT 'x', order_id, attempt_id, payment_id, 'op_x', client_id, 'x', gateway, account, environment, 'X',
		number, left_minor, amount_minor, currency, reason FROM refunds`
	_, err := e.owner.Exec(e.ctx(), byHand)
	require.True(t, violates(err, "refunds_number_unique"), "%v", err)
}

// PC-45: parts add up to the whole and never to more; what is below a minor unit cannot even be said.
func TestPC45_TheLastPartTakesTheRest(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.pay(e.place("o", grantLine(1)))
	e.giveBack(a, 33)
	e.giveBack(a, 33)
	require.EqualValues(t, 34, e.left(a))
	_, err := e.s.RefundOpen(e.ctx(), e.refundDraft(a, "35", 35))
	requireWhy(t, err, fault.Refused, "more_than_left")
	e.giveBack(a, 34)
	require.Zero(t, e.left(a))
	for _, amount := range []int64{1, 0, -1} {
		_, err := e.s.RefundOpen(e.ctx(), e.refundDraft(a, fmt.Sprint("more", amount), amount))
		require.True(t, fault.IsCode(err, fault.Refused), "%d: %v", amount, err)
	}
	back, elsewhere := e.books()
	require.EqualValues(t, 100, back)
	require.Zero(t, elsewhere)
	h, err := e.s.OrderHead(e.ctx(), client, "o")
	require.NoError(t, err)
	require.Equal(t, h.CapturedMinor, h.RefundedMinor)
}

// PC-46: what the bank has taken back, or may, is not given back on top of it; also when the dispute comes before the send.
func TestPC46_NoRefundOnTopOfADispute(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	a := e.pay(e.place("o", grantLine(50)))
	asked := e.openRefund(a, 1000)
	for _, d := range []string{"open", "lost"} {
		e.exec("UPDATE payments SET dispute = $1, disputed_minor = captured_minor", d)
		_, err := e.s.RefundOpen(e.ctx(), e.refundDraft(a, "k"+d, 1000))
		requireWhy(t, err, fault.Refused, "refund_disputed")
	}
	r, won, err := e.s.RefundClaim(e.ctx(), refundID(asked), "")
	require.NoError(t, err)
	require.False(t, won, "it was asked for before, and is not sent")
	require.Equal(t, string(order.RefundFailed), r.Status)
	require.Equal(t, "refund_disputed", e.refund(asked).Code)
	require.EqualValues(t, 1, e.reviews(asked.RefundID, order.ReviewRefundFailed))
	require.EqualValues(t, 1, e.events(order.EventRefundFailed))
	require.Zero(t, e.count("SELECT sends FROM operations WHERE operation_id = $1", asked.OperationID))
	e.exec("UPDATE payments SET dispute = 'won'")
	e.giveBack(a, 5000)
	e.folds()
}
