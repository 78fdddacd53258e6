package store

import (
	"context"
	"slices"

	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Reflected is what Reflect made of an attempt's answers.
type Reflected struct {
	Status     order.Status  // of the attempt, now
	Order      order.Status  // of the order, now
	Verdict    order.Verdict // of the newest answer; Unchanged when there was none to reflect
	Why        string
	Outcome    order.Outcome // of the newest answer
	Code       string
	WorkFrom   int64 // the order's work before and after, for the run that has seen it (rule 8)
	WorkTo     int64
	NeedsLook  bool // an answer was stale: a fresh lookup decides (rule 5)
	ReviewOpen bool // this opened a review
	Internal   int  // units planned by this call: of our own database,
	External   int  // and of external issuers

	lookWanted bool // the last word that counts was stale
	lookMade   bool // the last word that counts was fresh and says what the payment is
}

// Reflect applies every answer of an attempt that was kept and not yet applied, in the order they came, by the transition
// rule: payment, order, units, events, reviews and log in one transaction (S8). Running it again changes nothing.
func (s *Store) Reflect(ctx context.Context, id order.AttemptID) (Reflected, error) {
	var out Reflected
	err := s.inTx(ctx, "reflect payment", func(ctx context.Context, w *work) error {
		out = Reflected{Verdict: order.Unchanged}
		var row sqlcgen.AttemptLockRow
		var seen []sqlcgen.Observation
		var lines []sqlcgen.OrderLine
		var paid []sqlcgen.Payment
		var sums sqlcgen.RefundSumsRow
		if err := w.together(ctx,
			func(q *sqlcgen.Queries) (err error) { row, err = q.AttemptLock(ctx, string(id)); return },
			func(q *sqlcgen.Queries) (err error) { seen, err = q.ObservationsUnreflected(ctx, string(id)); return },
			func(q *sqlcgen.Queries) (err error) { lines, err = q.OrderLinesToPlan(ctx, string(id)); return },
			func(q *sqlcgen.Queries) (err error) { paid, err = q.RefundPaymentLock(ctx, string(id)); return },
			func(q *sqlcgen.Queries) (err error) { sums, err = q.RefundSums(ctx, string(id)); return },
		); err != nil {
			return err
		}
		sc, err := newScene(row.Order)
		if err != nil {
			return err
		}
		sc.attempt, sc.lines = &row.PaymentAttempt, lines
		if len(paid) > 0 {
			sc.setMoney(paid[0], sums)
		}
		succeeds := slices.ContainsFunc(seen, func(o sqlcgen.Observation) bool { return order.Outcome(o.Outcome) == order.Succeeded })
		if err := sc.weigh(ctx, w, succeeds); err != nil {
			return err
		}
		out.WorkFrom, out.WorkTo = sc.order.WorkSeq, sc.order.WorkSeq
		for i := range seen {
			sc.seen = seen[i].Seq
			if err := s.reflectOne(ctx, w, &sc, seen[i], &out); err != nil {
				return err
			}
		}
		out.Status, out.Order = order.Status(sc.attempt.Status), order.Status(sc.order.Status)
		if len(seen) == 0 {
			return nil
		}
		settled := out.Status == order.AttemptClosed || out.Status == order.AttemptSucceeded
		if sc.watched() && !out.lookWanted && out.lookMade {
			if err := sc.watch(ctx, w); err != nil {
				return err
			}
		} else if settled && (out.lookWanted || row.PaymentAttempt.NextCheckAt != nil) {
			p := sqlcgen.AttemptLookWantedParams{Wanted: out.lookWanted, Made: out.lookMade, AttemptID: string(id)}
			if err := w.write.AttemptLookWanted(ctx, p); err != nil {
				return err
			}
		}
		if sc.reflected == sc.seen { // the move has noted it
			return nil
		}
		return w.write.AttemptReflected(ctx, sc.seen, string(id))
	})
	return out, err
}

func (s *Store) reflectOne(ctx context.Context, w *work, sc *scene, o sqlcgen.Observation, out *Reflected) error {
	f, version := sc.facts(), sc.attempt.Version
	p := paymentSeen(o)
	c := order.Apply(f, order.Trigger{Kind: order.PaymentObserved, Payment: p})
	out.Verdict, out.Why, out.Outcome, out.Code = c.Verdict, c.Why, p.Outcome, p.Code
	switch {
	case c.Verdict == order.Stale, c.Verdict == order.Mismatch:
		out.NeedsLook = true
		out.lookWanted, out.lookMade = c.Verdict == order.Stale, c.Verdict == order.Mismatch && o.ReadAsks == sc.attempt.LooksAsked
	case p.ReadVersion == version: // a fresh answer decides; an old one that happens to agree settles nothing
		out.NeedsLook = false
		if p.Outcome != order.Unknown && p.Outcome != order.NotFound {
			out.lookWanted, out.lookMade = false, o.ReadAsks == sc.attempt.LooksAsked // not a look that began before it was asked for
		}
	}
	if c.LookPayment {
		out.lookWanted, out.lookMade = true, false
	}
	out.ReviewOpen = out.ReviewOpen || len(c.Open) > 0
	if c.Verdict == order.Stale || c.Verdict == order.Rejected {
		return nil
	}
	if c.RecordMoney {
		if err := recordMoney(ctx, w, *sc, o, c.Verdict == order.Applied); err != nil {
			return err
		}
		if c.Verdict == order.Applied && sc.attempt.ProviderPaymentID == "" {
			if err := w.write.AttemptBind(ctx, o.ProviderPaymentID, sc.attempt.AttemptID); err != nil {
				return err
			}
		}
	}
	raises := c.PlanUnits || len(c.Events) > 0 || c.LookRefunds || c.Hold != nil
	err := s.write(ctx, w, sc, c, cause{trigger: order.PaymentObserved, observation: &o.ObservationID, code: p.Code, nextAction: o.NextAction, raises: raises})
	if err != nil {
		return err
	}
	if raises {
		out.WorkTo++
	}
	if c.PlanUnits {
		return planUnits(ctx, w, sc, order.PaymentObserved, out)
	}
	return nil
}

func paymentSeen(o sqlcgen.Observation) order.PaymentSeen {
	return order.PaymentSeen{
		Outcome: order.Outcome(o.Outcome), Final: o.Final,
		Account:           order.Account{Gateway: o.Gateway, Name: o.Account, Environment: o.Environment},
		ProviderPaymentID: o.ProviderPaymentID, MerchantReference: o.MerchantReference, Currency: money.Currency(o.Currency),
		AmountMinor: o.AmountMinor, CapturedMinor: o.CapturedMinor, RefundedMinor: o.RefundedMinor, Code: o.Code,
		Dispute: order.Dispute(o.Dispute), DisputedMinor: o.DisputedMinor, ReadVersion: o.ReadVersion,
	}
}

func recordMoney(ctx context.Context, w *work, sc scene, o sqlcgen.Observation, matched bool) error {
	return w.write.PaymentRecord(ctx, sqlcgen.PaymentRecordParams{
		PaymentID: string(order.NewPaymentID()), Gateway: o.Gateway, Account: o.Account, Environment: o.Environment,
		ProviderPaymentID: o.ProviderPaymentID, OrderID: &sc.order.OrderID, AttemptID: &sc.attempt.AttemptID, Currency: o.Currency,
		CapturedMinor: o.CapturedMinor, RefundedMinor: max(o.RefundedMinor, 0), Matched: matched,
	})
}

// planUnits makes one unit per quantity of each line. The ids derive from order, line and ordinal by a hash of the natural
// key, so a second plan of the same promise makes the same rows.
func planUnits(ctx context.Context, w *work, sc *scene, why order.TriggerKind, out *Reflected) error {
	o, lines := sc.order, sc.lines
	p := sqlcgen.UnitsPlanParams{OrderID: o.OrderID, Revision: o.Revision}
	log := sqlcgen.TransitionsInsertParams{OrderID: o.OrderID, Trigger: string(why)}
	for _, l := range lines {
		if order.Action(l.Action).Internal() {
			out.Internal += int(l.Quantity)
		} else {
			out.External += int(l.Quantity)
		}
		for ord := 1; ord <= int(l.Quantity); ord++ {
			key := order.UnitKey{Order: order.ID(o.OrderID), Line: int(l.LineNo), Ordinal: ord, Action: order.Action(l.Action), Revision: int(o.Revision)}
			id := string(key.ID())
			p.Ids, p.LineNos = append(p.Ids, id), append(p.LineNos, l.LineNo)
			p.Ordinals, p.Actions = append(p.Ordinals, int32(ord)), append(p.Actions, l.Action)
			log.Kinds, log.Ids = append(log.Kinds, string(order.SubjectUnit)), append(log.Ids, id)
			log.Froms, log.Tos = append(log.Froms, ""), append(log.Tos, string(order.UnitPlanned))
		}
	}
	if len(p.Ids) == 0 {
		return fault.New(fault.InternalError, "plan units") // an order without lines
	}
	if err := w.write.UnitsPlan(ctx, p); err != nil {
		return err
	}
	return w.write.TransitionsInsert(ctx, log)
}
