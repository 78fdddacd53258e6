package store

import (
	"context"

	"orderflow/order"
	"orderflow/store/sqlcgen"
)

func reviewFacts(r sqlcgen.Review) *order.ReviewFacts {
	return &order.ReviewFacts{
		ID: order.ReviewID(r.ReviewID), Reason: order.ReviewReason(r.Reason), Open: r.Status == "open", Version: r.Version,
		SubjectKind: order.SubjectKind(r.SubjectKind), SubjectVersion: r.SubjectVersion,
	}
}

// decisionScene locks order first, then the subject (rule 9).
func decisionScene(ctx context.Context, w *work, r sqlcgen.Review, d order.Decision) (scene, error) {
	if order.SubjectKind(r.SubjectKind) == order.SubjectOrphan {
		return orphanScene(ctx, w, r, d)
	}
	if r.OrderID == nil {
		return scene{}, nil
	}
	if order.SubjectKind(r.SubjectKind) == order.SubjectRefund {
		return refundScene(ctx, w, order.RefundID(r.SubjectID))
	}
	o, err := w.read.OrderLock(ctx, *r.OrderID)
	if err != nil {
		return scene{}, err
	}
	sc, err := newScene(o)
	if err != nil {
		return sc, err
	}
	switch order.SubjectKind(r.SubjectKind) {
	case order.SubjectAttempt:
		a, err := w.read.AttemptGet(ctx, r.SubjectID)
		if err != nil {
			return sc, err
		}
		sc.attempt = &a
		if d.Decision == order.DecideRefund {
			return sc, sc.readMoney(ctx, w)
		}
	case order.SubjectUnit:
		u, err := w.read.UnitLock(ctx, r.SubjectID)
		if err != nil {
			return sc, err
		}
		sc.unit = &u
	}
	return sc, nil
}

// readMoney locks the attempt's payment, if it captured, and reads what its refunds come to.
func (sc *scene) readMoney(ctx context.Context, w *work) error {
	paid, err := w.read.RefundPaymentLock(ctx, sc.attempt.AttemptID)
	if err != nil || len(paid) == 0 {
		return err
	}
	sums, err := w.read.RefundSums(ctx, sc.attempt.AttemptID)
	if err == nil {
		sc.setMoney(paid[0], sums)
	}
	return err
}

// orphanScene holds the orphan, and before it the order and the attempt that the decision names, if there is such a one.
func orphanScene(ctx context.Context, w *work, r sqlcgen.Review, d order.Decision) (scene, error) {
	var sc scene
	if d.Decision == order.DecideLinkPayment && d.AttemptID != "" {
		row, err := w.read.AttemptLock(ctx, string(d.AttemptID))
		if err != nil && !isNoRows(err) {
			return sc, err
		}
		if err == nil {
			if sc, err = newScene(row.Order); err != nil {
				return sc, err
			}
			sc.attempt = &row.PaymentAttempt
		}
	}
	o, err := w.read.OrphanLock(ctx, r.SubjectID)
	sc.orphan = &o
	return sc, err
}

// lastSend tells the rule whether a request of the unit may still be under way.
func lastSend(ctx context.Context, w *work, sc scene, f *order.Facts) (string, error) {
	if sc.refund != nil {
		return sc.refund.OperationID, nil // its scene has asked
	}
	if f.Unit == nil || f.Unit.Operation == "" {
		return "", nil
	}
	op, err := w.read.OperationQuiet(ctx, sc.policy.RerunSafeAfter, string(f.Unit.Operation))
	if isNoRows(err) {
		f.Unit.RerunSafe = true
		return "", nil
	}
	f.Unit.RerunSafe = err == nil && op.Quiet
	return op.OperationID, err
}
