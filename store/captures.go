package store

import (
	"context"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// CaptureDraft asks for the money that the bank holds for an attempt.
type CaptureDraft struct {
	OrderID   order.ID
	Client    order.ClientID
	Attempt   order.AttemptID
	Minor     int64          // how much of it, in minor units of the attempt's currency
	Held      int64          // what is held, as the request was frozen for
	Operation OperationDraft // of kind "capture"
}

// Unclosed reads the order's attempt that is not closed, as the client sees it: the one that may be captured. Not found is a fault.
func (s *Store) Unclosed(ctx context.Context, client order.ClientID, id order.ID) (sqlcgen.PaymentAttempt, error) {
	const op = "read unclosed attempt"
	a, err := s.q().AttemptUnclosed(ctx, string(id))
	if err == nil && a.ClientID != string(client) {
		return sqlcgen.PaymentAttempt{}, fault.New(fault.NotFound, op)
	}
	return a, translate(op, err)
}

// CaptureOpen stores what is to be captured, and the one operation that does it. Asked again for the same amount, the attempt is
// returned as it stands: money is captured once. Rejections: nothing_held, capture_differs, held_moved, already_paid, order_expired,
// order_canceled, order_canceling.
func (s *Store) CaptureOpen(ctx context.Context, d CaptureDraft) (sqlcgen.PaymentAttempt, error) {
	const op = "open capture"
	var out sqlcgen.PaymentAttempt
	err := s.inTx(ctx, op, func(ctx context.Context, w *work) error {
		row, err := w.read.AttemptLock(ctx, string(d.Attempt))
		if err != nil {
			return err
		}
		if row.Order.OrderID != string(d.OrderID) || row.Order.ClientID != string(d.Client) {
			return fault.New(fault.NotFound, op)
		}
		sc, err := newScene(row.Order)
		if err != nil {
			return err
		}
		sc.attempt = &row.PaymentAttempt
		out = row.PaymentAttempt
		switch why := sc.facts().MayCapture(out.HeldMinor, out.CaptureMinor, d.Minor); {
		case why == order.CaptureStands:
			return nil
		case why != "":
			return fault.Reject(why, op)
		case out.HeldMinor != d.Held, d.Operation.ID == "": // without one, it was planned before anything was held
			return fault.Reject("held_moved", op)
		}
		if err := w.write.AttemptCapture(ctx, d.Minor, out.AttemptID); err != nil {
			return err
		}
		out.CaptureMinor = d.Minor
		if err := w.write.OperationInsert(ctx, sqlcgen.OperationInsertParams{
			OperationID: string(d.Operation.ID), OrderID: string(d.OrderID), Kind: d.Operation.Kind, AttemptID: &out.AttemptID, Generation: 1,
			SealedRequest: d.Operation.Sealed, Fingerprint: d.Operation.Fingerprint,
		}); err != nil {
			return err
		}
		return w.write.OrderRaiseWork(ctx, string(d.OrderID))
	})
	return out, err
}
