package store

import (
	"context"
	"time"

	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// weigh reads what an answer about money of the attempt is weighed against. Most answers are about an order that waits for its first
// money, and need none of it.
func (sc *scene) weigh(ctx context.Context, w *work, succeeds bool) error {
	if sc.money != nil {
		row, err := w.read.OrderOutlook(ctx, sc.attempt.AttemptID)
		if err != nil {
			return err
		}
		sc.outlook = row
	}
	if succeeds && order.Status(sc.order.Status) == order.OrderExpired {
		return sc.weighPromise(ctx, w)
	}
	return nil
}

// weighPromise reads whether an expired order's promise can still be kept: its terms, and its stock, which is held from here on.
func (sc *scene) weighPromise(ctx context.Context, w *work) error {
	var err error
	if within := sc.policy.LatePaymentRevives; within > 0 {
		if sc.termsHold, err = w.read.OrderLate(ctx, within, sc.order.OrderID); err != nil {
			return err
		}
	}
	sc.stockThere, err = w.read.StockThere(ctx, sc.order.OrderID)
	return err
}

// writeStanding queues what a change says of money that moved on its own, and of an order that waits for it.
func writeStanding(ctx context.Context, w *work, sc *scene, c order.Change, why cause) error {
	if s := c.Standing; s != nil {
		if sc.money != nil {
			sc.money.Dispute, sc.money.DisputedMinor, sc.money.TakenBack = s.Dispute, s.DisputedMinor, s.TakenBack
		}
		p := sqlcgen.PaymentStandsParams{Dispute: string(s.Dispute), DisputedMinor: s.DisputedMinor, TakenBack: s.TakenBack, AttemptID: sc.attempt.AttemptID}
		if err := w.write.PaymentStands(ctx, p); err != nil {
			return err
		}
	}
	if c.Restock {
		if err := w.write.StockReserveAgain(ctx, sc.order.OrderID); err != nil {
			return err
		}
	}
	if c.External {
		sc.order.ExternalDecision = why.decision
		if err := w.write.OrderSettledElsewhere(ctx, why.decision, sc.order.OrderID); err != nil {
			return err
		}
	}
	if c.Hold == nil {
		return nil
	}
	sc.order.Hold, sc.order.Version = string(*c.Hold), sc.order.Version+1
	return w.write.OrderHold(ctx, sc.order.Hold, sc.order.OrderID)
}

// watched: money that a bank may still move on its own. Nobody may ever tell us how that ends, so the sweep asks.
func (sc *scene) watched() bool {
	return sc.money != nil && (sc.money.TakenBack || sc.money.Dispute == order.DisputeOpen)
}

// watch notes when the provider is asked next about such money.
func (sc *scene) watch(ctx context.Context, w *work) error {
	at := time.Now().Add(sc.policy.ReviewCheckEvery)
	return w.write.AttemptCheckLater(ctx, &at, sc.attempt.AttemptID)
}

// weighDecision reads what a decision that keeps or settles an order's promise is weighed against.
func (sc *scene) weighDecision(ctx context.Context, w *work, d order.Decision) error {
	settles := d.Decision == order.DecideRecordExternal
	if !settles && (d.Decision != order.DecideRestoreReflection || sc.attempt == nil) || sc.order.OrderID == "" {
		return nil
	}
	if sc.attempt != nil && !settles {
		paid, err := w.read.RefundPaymentLock(ctx, sc.attempt.AttemptID)
		if err != nil {
			return err
		}
		if len(paid) > 0 {
			sums, err := w.read.RefundSums(ctx, sc.attempt.AttemptID)
			if err != nil {
				return err
			}
			sc.setMoney(paid[0], sums)
		}
	}
	if order.Status(sc.order.Status) == order.OrderExpired {
		if err := sc.weighPromise(ctx, w); err != nil {
			return err
		}
	}
	var err error
	sc.lines, err = w.read.OrderLinesGet(ctx, sc.order.OrderID)
	return err
}

// SettledElsewhere opens the question whether an order was paid by other means, for a person to answer with evidence; one that is open
// already is found again. An order that does not exist is not found.
func (s *Store) SettledElsewhere(ctx context.Context, id order.ID) (order.ReviewID, error) {
	const op = "ask about other means"
	if _, err := s.q().OrderGet(ctx, string(id)); err != nil {
		return "", translate(op, err)
	}
	err := s.q().ReviewOpen(ctx, sqlcgen.ReviewOpenParams{
		ReviewID: string(order.NewReviewID()), OrderID: ptr(string(id)), SubjectKind: string(order.SubjectOrder), SubjectID: string(id),
		Reason: string(order.ReviewSettledElsewhere), NextCheckAt: time.Now().Add(order.DefaultPolicy().ReviewCheckEvery),
	})
	if err != nil {
		return "", translate(op, err)
	}
	r, err := s.q().ReviewOfOrder(ctx, string(id), string(order.ReviewSettledElsewhere))
	return order.ReviewID(r), translate(op, err)
}
