package store

import (
	"context"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Provided is what FulfillInternal did.
type Provided struct {
	Units     int          // provided by this call
	More      bool         // internal units are left for a next call
	Order     order.Status // now
	WorkFrom  int64
	WorkTo    int64
	UnitsOpen int64
}

// FulfillInternal provides up to max units that need nothing but our database - stock and grants - and completes the order
// when no unit is left. Units, stock, grants, issuances, log and event are one transaction.
func (s *Store) FulfillInternal(ctx context.Context, id order.ID, max int) (Provided, error) {
	var out Provided
	err := s.inTx(ctx, "fulfill order", func(ctx context.Context, w *work) error {
		out = Provided{}
		var o sqlcgen.Order
		var units []sqlcgen.UnitsInternalPlannedRow
		if err := w.together(ctx,
			func(q *sqlcgen.Queries) (err error) { o, err = q.OrderLock(ctx, string(id)); return },
			func(q *sqlcgen.Queries) (err error) {
				units, err = q.UnitsInternalPlanned(ctx, string(id), int32(max))
				return
			},
		); err != nil {
			return err
		}
		sc, err := newScene(o)
		if err != nil {
			return err
		}
		out.Order, out.WorkFrom, out.WorkTo = order.Status(o.Status), o.WorkSeq, o.WorkSeq
		done, err := provide(ctx, w, sc, units)
		if err != nil {
			return err
		}
		var open int64
		if len(units) > 0 {
			open = units[0].UnitsOpen
		} else if open, err = w.read.UnitsOpenCount(ctx, string(id)); err != nil {
			return err
		}
		out.Units, out.More, out.UnitsOpen = done, len(units) == max && done > 0, open-int64(done)
		return s.completeIfDone(ctx, w, &sc, &out)
	})
	return out, err
}

func (s *Store) completeIfDone(ctx context.Context, w *work, sc *scene, out *Provided) error {
	f := sc.facts()
	f.UnitsOpen = int(out.UnitsOpen)
	c := order.Apply(f, order.Trigger{Kind: order.FulfillmentChecked})
	if c.Verdict != order.Applied {
		return nil
	}
	out.WorkTo++
	err := s.write(ctx, w, sc, c, cause{trigger: order.FulfillmentChecked, raises: true})
	out.Order = order.Status(sc.order.Status)
	return err
}

// provide runs the rule for each unit and queues what the allowed ones need.
func provide(ctx context.Context, w *work, sc scene, units []sqlcgen.UnitsInternalPlannedRow) (int, error) {
	var ids, grantIDs, grantSkus []string
	var stock sqlcgen.StockCommitParams
	log := sqlcgen.TransitionsInsertParams{OrderID: sc.order.OrderID, Trigger: string(order.UnitProvided)}
	for _, u := range units {
		f := sc.facts()
		f.Unit = &order.UnitFacts{ID: order.UnitID(u.UnitID), Status: order.Status(u.Status), Version: u.Version}
		c := order.Apply(f, order.Trigger{Kind: order.UnitProvided})
		if c.Verdict != order.Applied {
			continue
		}
		ids = append(ids, u.UnitID)
		log.Kinds, log.Ids = append(log.Kinds, string(order.SubjectUnit)), append(log.Ids, u.UnitID)
		log.Froms, log.Tos = append(log.Froms, u.Status), append(log.Tos, string(c.To(order.SubjectUnit)))
		if order.Action(u.Action) == order.ActionStock {
			stock.LineNos, stock.Ordinals, stock.Skus = append(stock.LineNos, u.LineNo), append(stock.Ordinals, u.Ordinal), append(stock.Skus, u.Sku)
		} else {
			grantIDs, grantSkus = append(grantIDs, u.UnitID), append(grantSkus, u.Sku)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	if err := w.write.UnitsProvided(ctx, ids); err != nil {
		return 0, err
	}
	if err := w.write.IssuancesInternal(ctx, sc.order.OrderID, ids); err != nil {
		return 0, err
	}
	if len(stock.Skus) > 0 {
		stock.OrderID, stock.Revision = sc.order.OrderID, sc.order.Revision
		if err := w.write.StockCommit(ctx, stock); err != nil {
			return 0, err
		}
	}
	if len(grantIDs) > 0 {
		g := sqlcgen.GrantsInsertParams{Ids: grantIDs, OrderID: sc.order.OrderID, Skus: grantSkus, BuyerRef: sc.order.BuyerRef}
		if err := w.write.GrantsInsert(ctx, g); err != nil {
			return 0, err
		}
	}
	return len(ids), w.write.TransitionsInsert(ctx, log)
}

// UnitWork is a unit with what its issuing needs.
type UnitWork struct {
	Unit      sqlcgen.UnitGetRow
	Order     sqlcgen.Order
	Operation *sqlcgen.Operation // of the current generation; nil before the first claim
}

// UnitWork reads a unit, its order and its current operation.
func (s *Store) UnitWork(ctx context.Context, id order.UnitID) (UnitWork, error) {
	var w UnitWork
	var err error
	if w.Unit, err = s.q().UnitGet(ctx, string(id)); err != nil {
		return w, translate("read unit", err)
	}
	if w.Order, err = s.q().OrderGet(ctx, w.Unit.OrderID); err != nil {
		return w, translate("read order", err)
	}
	op, err := s.q().OperationGet(ctx, string(order.IssueOperation(id, int(w.Unit.Generation))))
	if isNoRows(err) {
		return w, nil
	}
	w.Operation = &op
	return w, translate("read operation", err)
}

// UnitClaim makes the caller the one who issues a unit first: the unit goes planned -> issuing by compare-and-set under the
// order's shared lock, and its operation is stored as sent (rules 2 and 9). It reports false when the unit was claimed
// before; a Rejected change (order_not_paid) is a fault.
func (s *Store) UnitClaim(ctx context.Context, id order.UnitID, orderID order.ID, d OperationDraft, generation int) (bool, error) {
	won := false
	if d.ID != order.IssueOperation(id, generation) {
		return false, fault.New(fault.InternalError, "claim unit") // another id would be a second key for the same goods (rule 7)
	}
	err := s.inTx(ctx, "claim unit", func(ctx context.Context, w *work) error {
		won = false
		sc, err := unitScene(ctx, w, id, orderID)
		if err != nil {
			return err
		}
		if int(sc.unit.Generation) != generation {
			return nil
		}
		c := order.Apply(sc.facts(), order.Trigger{Kind: order.UnitClaimed})
		switch {
		case c.Verdict == order.Applied:
		case c.Why == "already_claimed":
			return nil
		default:
			return fault.Reject(c.Why, "claim unit")
		}
		err = w.write.OperationInsert(ctx, sqlcgen.OperationInsertParams{
			OperationID: string(d.ID), OrderID: string(orderID), Kind: d.Kind, UnitID: ptr(string(id)), Generation: int32(generation),
			SealedRequest: d.Sealed, Fingerprint: d.Fingerprint, Sends: 1,
		})
		if err != nil {
			return err
		}
		won = true
		return s.write(ctx, w, &sc, c, cause{trigger: order.UnitClaimed})
	})
	return won && err == nil, err
}

func unitScene(ctx context.Context, w *work, id order.UnitID, orderID order.ID) (scene, error) {
	o, err := w.read.OrderLockShared(ctx, string(orderID))
	if err != nil {
		return scene{}, err
	}
	sc, err := newScene(o)
	if err != nil {
		return sc, err
	}
	u, err := w.read.UnitLock(ctx, string(id))
	if err != nil {
		return sc, err
	}
	sc.unit = &u
	return sc, nil
}

// IssuanceAnswer is one issuer answer about a unit.
type IssuanceAnswer struct {
	Unit            order.UnitID
	Order           order.ID
	Source          string
	Seen            order.IssuanceSeen
	IssuerIssuance  string
	SealedReference []byte
	RequestID       string
}

// IssuanceRecord keeps an issuer's answer and applies it by the rule, in one transaction: observation, unit, issuance row,
// reviews, log.
func (s *Store) IssuanceRecord(ctx context.Context, a IssuanceAnswer) (order.Change, order.Status, error) {
	var c order.Change
	var status order.Status
	err := s.inTx(ctx, "record issuance", func(ctx context.Context, w *work) error {
		sc, err := unitScene(ctx, w, a.Unit, a.Order)
		if err != nil {
			return err
		}
		op := string(a.Seen.OperationID)
		if op == "" {
			op = string(sc.facts().Unit.Operation)
		}
		answered, current, err := answeredOperation(ctx, w, sc, a.Seen.OperationID)
		if err != nil {
			return err
		}
		obs := sqlcgen.ObservationKeepParams{
			OrderID: string(a.Order), UnitID: ptr(string(a.Unit)), Source: a.Source, Outcome: string(a.Seen.Outcome), Code: a.Seen.Code,
			RequestID: a.RequestID, ReadVersion: sc.unit.Version, ProviderPaymentID: a.IssuerIssuance, Account: sc.unit.Issuer, MerchantReference: op,
			OperationID: answered,
		}
		if err := w.write.ObservationKeep(ctx, obs); err != nil {
			return err
		}
		c = order.Apply(sc.facts(), order.Trigger{Kind: order.IssuanceObserved, Issuance: a.Seen})
		if c.Verdict == order.Rejected {
			return fault.Reject(c.Why, "record issuance")
		}
		told := a.Seen.Outcome == order.Issued || a.Seen.Outcome == order.Refused || a.Seen.Outcome == order.Unknown
		if told && answered != nil && (c.Verdict != order.Mismatch || !current) {
			done := sqlcgen.OperationOutcomeParams{Outcome: string(a.Seen.Outcome), Code: a.Seen.Code, OperationID: *answered}
			if err := w.write.OperationOutcome(ctx, done); err != nil {
				return err
			}
		}
		if c.To(order.SubjectUnit) == order.UnitIssued {
			err := w.write.IssuanceInsert(ctx, sqlcgen.IssuanceInsertParams{
				IssuanceID: "iss_" + string(a.Unit), UnitID: string(a.Unit), OrderID: string(a.Order), OperationID: answered, Issuer: sc.unit.Issuer,
				IssuerIssuanceID: a.IssuerIssuance, SealedReference: a.SealedReference, Source: "issuer",
			})
			if err != nil {
				return err
			}
		}
		err = s.write(ctx, w, &sc, c, cause{trigger: order.IssuanceObserved, code: a.Seen.Code})
		status = order.Status(sc.unit.Status)
		return err
	})
	if err == nil && settled(c) {
		err = s.RaiseWork(ctx, a.Order) // by itself: a unit's transaction holds its order's lock shared only (rule 9)
	}
	return c, status, err
}

// settled reports a unit that leaves "unknown": the step that asked may be gone, and the order has to go on.
func settled(c order.Change) bool {
	for _, t := range c.Transitions {
		if t.Subject == order.SubjectUnit && t.From == order.UnitUnknown {
			return true
		}
	}
	return false
}

// answeredOperation is the row an answer belongs to, and whether it is the unit's current one. An earlier generation keeps
// its late answers; a generation that was decided and not claimed yet has no row.
func answeredOperation(ctx context.Context, w *work, sc scene, said order.OperationID) (row *string, current bool, err error) {
	unit := order.UnitID(sc.unit.UnitID)
	for g := int(sc.unit.Generation) - 1; g >= 1; g-- {
		if order.IssueOperation(unit, g) == said {
			return ptr(string(said)), false, nil
		}
	}
	id := string(order.IssueOperation(unit, int(sc.unit.Generation)))
	if order.Status(sc.unit.Status) != order.UnitIssuing { // issuing has a row for sure
		if _, err := w.read.OperationQuiet(ctx, 0, id); isNoRows(err) {
			return nil, true, nil
		} else if err != nil {
			return nil, true, err
		}
	}
	return &id, true, nil
}

// UnitUnresolved parks a unit whose issuance is unknown and cannot be looked up within its bound, or not at all.
func (s *Store) UnitUnresolved(ctx context.Context, id order.UnitID, orderID order.ID, code string) (order.Change, error) {
	var c order.Change
	err := s.inTx(ctx, "park unit", func(ctx context.Context, w *work) error {
		sc, err := unitScene(ctx, w, id, orderID)
		if err != nil {
			return err
		}
		c = order.Apply(sc.facts(), order.Trigger{Kind: order.IssuanceUnresolved, Code: code})
		if c.Verdict != order.Applied {
			return nil
		}
		return s.write(ctx, w, &sc, c, cause{trigger: order.IssuanceUnresolved, code: code})
	})
	return c, err
}

// UnitLooked notes that the issuer was asked about a unit that a person has, so that others have their turn until its order's policy
// has it asked again.
func (s *Store) UnitLooked(ctx context.Context, id order.UnitID) error {
	return translate("note lookup", s.q().ReviewLooked(ctx, string(order.SubjectUnit), string(id)))
}
