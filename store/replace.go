package store

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// OrderReplace states an open order anew: a new revision of its lines, adjustments, total, buyer reference and end, and its stock moves
// along, all or nothing. What it was before stays in the tables. Stating what stands already changes nothing. Revision is the one the
// caller has seen; 0 = whatever stands. Rejections: already_paid, attempt_unresolved, attempt_pending, attempt_closing, order_expired,
// order_canceled, order_canceling, order_changed (another revision stands), out_of_stock, no_such_stock.
func (s *Store) OrderReplace(ctx context.Context, d order.Draft, revision int) (replaced bool, err error) {
	const op = "replace order"
	exp, err := d.Currency.Exponent()
	if err != nil {
		return false, fault.Wrap(fault.InternalError, op, err)
	}
	err = s.inTx(ctx, op, func(ctx context.Context, w *work) error {
		replaced = false
		row, err := w.read.OrderLockDue(ctx, string(d.ID))
		if err != nil {
			return err
		}
		o := row.Order
		if o.ClientID != string(d.Client) {
			return fault.New(fault.NotFound, op)
		}
		if revision != 0 && revision != int(o.Revision) {
			return fault.Reject("order_changed", op)
		}
		sc, err := newScene(o)
		if err != nil {
			return err
		}
		if sc.attempt, err = unclosed(ctx, w, d.ID); err != nil {
			return err
		}
		if c := order.Apply(sc.facts(), order.Trigger{Kind: order.PromiseReplaced}); c.Verdict != order.Applied {
			return fault.Reject(c.Why, op)
		}
		if row.Due {
			return fault.Reject("order_expired", op)
		}
		old, err := w.read.OrderLinesGet(ctx, string(d.ID))
		if err != nil {
			return err
		}
		adjs, err := w.read.OrderAdjustmentsGet(ctx, string(d.ID))
		if err != nil {
			return err
		}
		if samePromise(o, old, adjs, d) {
			return nil
		}
		replaced = true
		return replace(ctx, w, o, old, d, int16(exp))
	})
	return replaced && err == nil, err
}

func replace(ctx context.Context, w *work, o sqlcgen.Order, old []sqlcgen.OrderLine, d order.Draft, exp int16) error {
	if err := shiftStock(ctx, w, old, d); err != nil {
		return err
	}
	if err := w.write.OrderReplace(ctx, sqlcgen.OrderReplaceParams{
		Currency: string(d.Currency), CurrencyExponent: exp, LinesMinor: d.LinesSum(), AdjustmentsMinor: d.AdjustmentsSum(), TotalMinor: d.Total,
		BuyerRef: d.BuyerRef, ExpiresAt: d.ExpiresAt, OrderID: o.OrderID, Revision: o.Revision, Version: o.Version,
	}); err != nil {
		return err
	}
	for _, l := range old { // the old reservation is given back, and the new one stands beside it: one row each, as ever
		if order.Action(l.Action) == order.ActionStock {
			m := sqlcgen.StockMovementQueuedParams{OrderID: o.OrderID, LineNo: l.LineNo, Kind: "release", Sku: l.Sku, Quantity: int64(l.Quantity), Revision: o.Revision}
			if err := w.write.StockMovementQueued(ctx, m); err != nil {
				return err
			}
		}
	}
	if err := insertPromise(ctx, w, d, o.Revision+1); err != nil {
		return err
	}
	detail, err := json.Marshal(map[string]any{"revision": o.Revision + 1, "total_minor": d.Total, "currency": d.Currency})
	if err != nil {
		return err
	}
	return w.write.AuditInsert(ctx, sqlcgen.AuditInsertParams{OrderID: &o.OrderID, Actor: o.ClientID, Channel: "api", Act: "order_replaced", Detail: detail})
}

// shiftStock moves the reservation from one promise to the next by what they differ in, so that an order that holds the last piece may
// keep it. In one order of locks, as every reservation (rule 9).
func shiftStock(ctx context.Context, w *work, old []sqlcgen.OrderLine, d order.Draft) error {
	by := map[string]int64{}
	for _, l := range d.Lines {
		if l.Action == order.ActionStock {
			by[l.SKU] += int64(l.Quantity)
		}
	}
	for _, l := range old {
		if order.Action(l.Action) == order.ActionStock {
			by[l.Sku] -= int64(l.Quantity)
		}
	}
	for _, sku := range slices.Sorted(maps.Keys(by)) {
		n, err := w.read.StockShift(ctx, by[sku], sku)
		if err != nil {
			return err
		}
		if n == 0 {
			if _, err := w.read.StockGet(ctx, sku); err != nil {
				return fault.Reject("no_such_stock", "replace order")
			}
			return fault.Reject("out_of_stock", "replace order")
		}
	}
	return nil
}

// samePromise reports that a draft states what stands.
func samePromise(o sqlcgen.Order, lines []sqlcgen.OrderLine, adjs []sqlcgen.OrderAdjustment, d order.Draft) bool {
	same := o.Currency == string(d.Currency) && o.TotalMinor == d.Total && o.BuyerRef == d.BuyerRef && o.ExpiresAt.Equal(d.ExpiresAt.Truncate(1000)) &&
		len(lines) == len(d.Lines) && len(adjs) == len(d.Adjustments)
	if !same {
		return false
	}
	for i, l := range lines {
		n := d.Lines[i]
		if l.Sku != n.SKU || l.Name != n.Name || int(l.Quantity) != n.Quantity || l.UnitAmountMinor != n.UnitAmount || l.TaxRate != n.TaxRate ||
			order.Action(l.Action) != n.Action || l.Issuer != n.Issuer {
			return false
		}
	}
	for i, a := range adjs {
		if n := d.Adjustments[i]; a.Kind != n.Kind || a.AmountMinor != n.Amount || a.TaxRate != n.TaxRate {
			return false
		}
	}
	return true
}
