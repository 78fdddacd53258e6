package store

import (
	"context"
	"time"

	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// refundScene locks order, attempt, payment and refund, and reads what the refunds of the payment come to.
func refundScene(ctx context.Context, w *work, id order.RefundID) (scene, error) {
	var row sqlcgen.RefundLockRow
	var sums sqlcgen.RefundLockSumsRow
	if err := w.together(ctx,
		func(q *sqlcgen.Queries) (err error) { row, err = q.RefundLock(ctx, string(id)); return },
		func(q *sqlcgen.Queries) (err error) { sums, err = q.RefundLockSums(ctx, string(id)); return },
	); err != nil {
		return scene{}, err
	}
	sc, err := newScene(row.Order)
	if err != nil {
		return sc, err
	}
	sc.attempt, sc.refund = &row.PaymentAttempt, &row.Refund
	sc.setMoney(row.Payment, sqlcgen.RefundSumsRow(sums))
	if sc.sends, err = w.read.RefundSends(ctx, sc.policy.RerunSafeAfter, string(id)); err != nil {
		return sc, err
	}
	return sc, sc.weigh(ctx, w, false)
}

func (sc *scene) setMoney(p sqlcgen.Payment, sums sqlcgen.RefundSumsRow) {
	m := moneyFacts(p, sums)
	sc.payment, sc.money, sc.paid, sc.refunds = p.PaymentID, &m, p, sums.LastNumber
}

func moneyFacts(p sqlcgen.Payment, sums sqlcgen.RefundSumsRow) order.MoneyFacts {
	return order.MoneyFacts{
		Currency: money.Currency(p.Currency), CapturedMinor: p.CapturedMinor, RefundedMinor: p.RefundedMinor, ElsewhereMinor: p.ElsewhereMinor,
		RequestedMinor: sums.RequestedMinor, UnderwayMinor: sums.UnderwayMinor, PendingMinor: sums.PendingMinor, SucceededMinor: sums.SucceededMinor, Dispute: order.Dispute(p.Dispute),
		DisputedMinor: p.DisputedMinor, TakenBack: p.TakenBack,
	}
}

func refundFacts(r sqlcgen.Refund, providerPaymentID string) *order.RefundFacts {
	return &order.RefundFacts{
		ID: order.RefundID(r.RefundID), Status: order.Status(r.Status), Version: r.Version,
		Account:           order.Account{Gateway: r.Gateway, Name: r.Account, Environment: r.Environment},
		ProviderPaymentID: providerPaymentID, Reference: r.Reference, ProviderRefundID: r.ProviderRefundID,
		Amount: money.Amount{Minor: r.AmountMinor, Currency: money.Currency(r.Currency)},
	}
}

func moveRefund(ctx context.Context, w *work, sc *scene, t order.Transition, why cause) error {
	p := sqlcgen.RefundMoveParams{
		ToStatus: string(t.To), RefundID: sc.refund.RefundID, FromStatus: string(t.From), Version: sc.refund.Version, Code: why.code, ReflectedSeq: sc.seen,
	}
	sc.reflected = max(sc.reflected, sc.seen)
	if t.To == order.RefundSent || t.To == order.RefundUnknown || t.To == order.RefundPending {
		at := time.Now().Add(sc.policy.ReviewCheckEvery)
		p.NextCheckAt = &at
	}
	m := sc.money.Moved(t.From, t.To, sc.refund.AmountMinor)
	sc.money = &m
	sc.refund.Status, sc.refund.Version, sc.refund.NextCheckAt = string(t.To), sc.refund.Version+1, p.NextCheckAt
	if why.code != "" {
		sc.refund.Code = why.code
	}
	return w.write.RefundMove(ctx, p)
}

// writeBooks queues what a change says of money that went back. It reports that the attempt's version rose: looks that were made
// before are older than what is known now (rule 5).
func writeBooks(ctx context.Context, w *work, sc *scene, c order.Change) (bool, error) {
	if b := c.Books; b != nil {
		sc.money.RefundedMinor, sc.money.ElsewhereMinor = b.RefundedMinor, b.ElsewhereMinor
		p := sqlcgen.PaymentBooksParams{RefundedMinor: b.RefundedMinor, ElsewhereMinor: b.ElsewhereMinor, PaymentID: sc.payment}
		if err := w.write.PaymentBooks(ctx, p); err != nil {
			return false, err
		}
	}
	if c.LookRefunds {
		if err := w.write.RefundsAskOnce(ctx, sc.attempt.AttemptID); err != nil {
			return false, err
		}
	}
	if c.LookPayment {
		if err := w.write.AttemptLookWanted(ctx, sqlcgen.AttemptLookWantedParams{Wanted: true, AttemptID: sc.attempt.AttemptID}); err != nil {
			return false, err
		}
	}
	to := c.To(order.SubjectRefund)
	if c.Books == nil && c.Standing == nil && to != order.RefundSucceeded && to != order.RefundFailed {
		return false, nil
	}
	sc.attempt.Version++
	return true, w.write.AttemptBooksMoved(ctx, sc.attempt.AttemptID)
}

// RefundReflected is what RefundReflect made of a refund's answers.
type RefundReflected struct {
	Status     order.Status  // of the refund, now
	Verdict    order.Verdict // of the newest answer; Unchanged when there was none to reflect
	Why        string
	Outcome    order.Outcome // of the newest answer
	Code       string
	WorkFrom   int64 // the order's work before and after, for the run that has seen it (rule 8)
	WorkTo     int64
	NeedsLook  bool // an answer was stale: a fresh lookup decides (rule 5)
	ReviewOpen bool // this opened a review

	lookWanted bool
	lookMade   bool
}

// RefundReflect applies every answer of a refund that was kept and not yet applied, in the order they came, by the transition rule:
// refund, payment, events, reviews and log in one transaction. Running it again changes nothing.
func (s *Store) RefundReflect(ctx context.Context, id order.RefundID) (RefundReflected, error) {
	var out RefundReflected
	err := s.inTx(ctx, "reflect refund", func(ctx context.Context, w *work) error {
		out = RefundReflected{Verdict: order.Unchanged}
		sc, err := refundScene(ctx, w, id)
		if err != nil {
			return err
		}
		seen, err := w.read.RefundUnreflected(ctx, string(id))
		if err != nil {
			return err
		}
		out.WorkFrom, out.WorkTo = sc.order.WorkSeq, sc.order.WorkSeq
		asked := sc.refund.NextCheckAt != nil
		for i := range seen {
			sc.seen = seen[i].Seq
			if err := s.reflectRefund(ctx, w, &sc, seen[i], &out); err != nil {
				return err
			}
		}
		out.Status = order.Status(sc.refund.Status)
		if len(seen) == 0 {
			return nil
		}
		settled := out.Status == order.RefundSucceeded || out.Status == order.RefundFailed
		if settled && (out.lookWanted || asked) {
			p := sqlcgen.RefundLookWantedParams{Wanted: out.lookWanted, Made: out.lookMade, RefundID: string(id)}
			if err := w.write.RefundLookWanted(ctx, p); err != nil {
				return err
			}
		}
		if sc.reflected == sc.seen { // the move has noted it
			return nil
		}
		return w.write.RefundReflected(ctx, sc.seen, string(id))
	})
	return out, err
}

func (s *Store) reflectRefund(ctx context.Context, w *work, sc *scene, o sqlcgen.Observation, out *RefundReflected) error {
	f, version := sc.facts(), sc.refund.Version
	p := refundSeen(o)
	if p.ProviderRefundID != "" && sc.refund.ProviderRefundID == "" {
		var err error
		if p.Taken, err = w.read.RefundIDTaken(ctx, sqlcgen.RefundIDTakenParams{
			Gateway: sc.refund.Gateway, Account: sc.refund.Account, Environment: sc.refund.Environment, ProviderRefundID: p.ProviderRefundID, RefundID: sc.refund.RefundID,
		}); err != nil {
			return err
		}
	}
	c := order.Apply(f, order.Trigger{Kind: order.RefundObserved, Refund: p})
	out.Verdict, out.Why, out.Outcome, out.Code = c.Verdict, c.Why, p.Outcome, p.Code
	switch {
	case c.Verdict == order.Stale, c.Verdict == order.Mismatch:
		out.NeedsLook = true
		out.lookWanted, out.lookMade = c.Verdict == order.Stale, c.Verdict == order.Mismatch && o.ReadAsks == sc.refund.LooksAsked
	case p.ReadVersion == version: // a fresh answer decides; an old one that happens to agree settles nothing
		out.NeedsLook = false
		if p.Outcome != order.Unknown && p.Outcome != order.NotFound {
			out.lookWanted, out.lookMade = false, o.ReadAsks == sc.refund.LooksAsked // not a look that began before it was asked for
		}
	}
	out.ReviewOpen = out.ReviewOpen || len(c.Open) > 0
	if c.Verdict == order.Stale || c.Verdict == order.Rejected {
		return nil
	}
	shown := p.Outcome == order.Succeeded || p.Outcome == order.Declined || p.Outcome == order.Pending
	if shown && c.Verdict != order.Mismatch && p.ProviderRefundID != "" && sc.refund.ProviderRefundID == "" {
		if err := w.write.RefundBind(ctx, p.ProviderRefundID, sc.refund.RefundID); err != nil {
			return err
		}
		sc.refund.ProviderRefundID = p.ProviderRefundID
	}
	raises := len(c.Events) > 0 || c.LookPayment
	if raises {
		out.WorkTo++
	}
	return s.write(ctx, w, sc, c, cause{trigger: order.RefundObserved, observation: &o.ObservationID, code: p.Code, raises: raises})
}

func refundSeen(o sqlcgen.Observation) order.RefundSeen {
	return order.RefundSeen{
		Outcome: order.Outcome(o.Outcome), Final: o.Final,
		Account:           order.Account{Gateway: o.Gateway, Name: o.Account, Environment: o.Environment},
		ProviderPaymentID: o.ProviderPaymentID, ProviderRefundID: o.ProviderRefundID, Reference: o.MerchantReference,
		Currency: money.Currency(o.Currency), AmountMinor: o.AmountMinor, RefundedMinor: o.RefundedMinor, Code: o.Code, ReadVersion: o.ReadVersion,
	}
}
