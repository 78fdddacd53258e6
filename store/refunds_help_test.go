package store

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// refundDraft plans a refund of an attempt against the books as they are now, as the API does.
func (e *env) refundDraft(a sqlcgen.PaymentAttempt, key string, amount int64) RefundDraft {
	e.t.Helper()
	id := order.NewRefundID()
	d := RefundDraft{
		ID: id, OrderID: order.ID(a.OrderID), Client: client, CallerKey: key, Attempt: idOf(a), Reference: order.NewRefundReference(),
		Amount: money.Amount{Minor: amount, Currency: money.Currency(a.Currency)}, Reason: "requested_by_buyer",
		Operation: OperationDraft{ID: order.RefundOperation(id), Kind: "refund", Sealed: []byte("r"), Fingerprint: []byte("f")},
	}
	d.LeftMinor = e.left(a)
	return d
}

// left is what may still go back of an attempt; zero where nothing was captured.
func (e *env) left(a sqlcgen.PaymentAttempt) int64 {
	e.t.Helper()
	rs, err := e.s.Refundables(e.ctx(), client, order.ID(a.OrderID))
	require.NoError(e.t, err)
	for _, r := range rs {
		if r.Attempt == idOf(a) {
			return r.LeftMinor
		}
	}
	return 0
}

func (e *env) openRefund(a sqlcgen.PaymentAttempt, amount int64) sqlcgen.Refund {
	e.t.Helper()
	o, err := e.s.RefundOpen(e.ctx(), e.refundDraft(a, fmt.Sprint("refund-", order.NewRefundID()), amount))
	require.NoError(e.t, err)
	require.False(e.t, o.Stood)
	return o.Refund
}

// sendRefund opens a refund and claims it, as a process that is about to send it.
func (e *env) sendRefund(a sqlcgen.PaymentAttempt, amount int64) sqlcgen.Refund {
	e.t.Helper()
	r, won, err := e.s.RefundClaim(e.ctx(), refundID(e.openRefund(a, amount)), "")
	require.NoError(e.t, err)
	require.True(e.t, won)
	return r
}

func refundID(r sqlcgen.Refund) order.RefundID { return order.RefundID(r.RefundID) }

// refundSays is what the provider says of a refund, read at its present version.
func refundSays(r sqlcgen.Refund, o order.Outcome) RefundAnswer {
	return RefundAnswer{Refund: refundID(r), Order: order.ID(r.OrderID), Source: "lookup", Seen: order.RefundSeen{
		Outcome: o, Account: order.Account{Gateway: r.Gateway, Name: r.Account, Environment: r.Environment}, ProviderPaymentID: "pi_" + r.AttemptID,
		ProviderRefundID: "re_" + r.RefundID, Reference: r.Reference, Currency: money.Currency(r.Currency), AmountMinor: r.AmountMinor, RefundedMinor: -1,
		Code: "code", ReadVersion: r.Version, ReadAsks: r.LooksAsked,
	}}
}

// refundSent is the answer to the send itself.
func refundSent(r sqlcgen.Refund, o order.Outcome) RefundAnswer {
	a := refundSays(r, o)
	a.Operation, a.Source = order.OperationID(r.OperationID), "send"
	return a
}

// tell keeps an answer and reflects it.
func (e *env) tell(a RefundAnswer) RefundReflected {
	e.t.Helper()
	require.NoError(e.t, e.s.RefundKeep(e.ctx(), a))
	out, err := e.s.RefundReflect(e.ctx(), a.Refund)
	require.NoError(e.t, err)
	return out
}

func (e *env) refund(r sqlcgen.Refund) sqlcgen.Refund {
	e.t.Helper()
	now, err := e.s.Refund(e.ctx(), client, refundID(r))
	require.NoError(e.t, err)
	return now
}

// giveBack has a refund succeed.
func (e *env) giveBack(a sqlcgen.PaymentAttempt, amount int64) sqlcgen.Refund {
	e.t.Helper()
	r := e.sendRefund(a, amount)
	require.Equal(e.t, order.RefundSucceeded, e.tell(refundSent(r, order.Succeeded)).Status)
	return e.refund(r)
}

// looked reflects a fresh look at the payment that says how much went back in all.
func (e *env) looked(a sqlcgen.PaymentAttempt, back int64) Reflected {
	e.t.Helper()
	s := answer(e.attempt(a), order.Succeeded)
	s.Payment.RefundedMinor = back
	e.keep(s)
	return e.reflect(a)
}

// books is what the one payment's row says.
func (e *env) books() (refunded, elsewhere int64) {
	e.t.Helper()
	return e.count("SELECT refunded_minor FROM payments"), e.count("SELECT elsewhere_minor FROM payments")
}

func (e *env) events(t order.EventType) int64 {
	e.t.Helper()
	return e.count("SELECT count(*) FROM outbox_events WHERE type = $1", string(t))
}

func (e *env) reviews(subject string, reason order.ReviewReason) int64 {
	e.t.Helper()
	return e.count("SELECT count(*) FROM reviews WHERE subject_id = $1 AND reason = $2 AND status = 'open'", subject, string(reason))
}

// lookWanted reports that the order's run would look at its one payment.
func (e *env) lookWanted(id order.ID) bool {
	e.t.Helper()
	s, err := e.s.Snapshot(e.ctx(), id, 10)
	require.NoError(e.t, err)
	require.Len(e.t, s.Attempts, 1)
	return s.Attempts[0].Look
}
