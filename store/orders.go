package store

import (
	"context"
	"encoding/json"
	"slices"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// OrderPlace stores a validated draft: order, lines, adjustments, reserved stock and the first log line. It reports false
// when the same caller key stored it before. Rejections: order_exists, out_of_stock, no_such_stock.
func (s *Store) OrderPlace(ctx context.Context, d order.Draft, callerKey string, p order.Policy) (created bool, err error) {
	_, created, err = s.place(ctx, d, callerKey, p)
	return created, err
}

// OrderPlaceHead is OrderPlace, and says how the order stands: a new one as it was stored, without being read again.
func (s *Store) OrderPlaceHead(ctx context.Context, d order.Draft, callerKey string, p order.Policy) (Head, error) {
	row, created, err := s.place(ctx, d, callerKey, p)
	if err != nil {
		return Head{}, err
	}
	if created {
		return Head{Order: row}, nil
	}
	return s.OrderHead(ctx, d.Client, d.ID)
}

func (s *Store) place(ctx context.Context, d order.Draft, callerKey string, p order.Policy) (row sqlcgen.Order, created bool, err error) {
	exp, err := d.Currency.Exponent()
	if err != nil {
		return row, false, fault.Wrap(fault.InternalError, "place order", err)
	}
	policy, err := json.Marshal(p)
	if err != nil {
		return row, false, fault.Wrap(fault.InternalError, "place order", err)
	}
	err = s.inTx(ctx, "place order", func(ctx context.Context, w *work) error {
		var err error
		row, err = w.read.OrderInsert(ctx, sqlcgen.OrderInsertParams{
			OrderID: string(d.ID), ClientID: string(d.Client), CallerKey: callerKey, Currency: string(d.Currency), CurrencyExponent: int16(exp),
			LinesMinor: d.LinesSum(), AdjustmentsMinor: d.AdjustmentsSum(), TotalMinor: d.Total, BuyerRef: d.BuyerRef,
			Policy: policy, PolicyVersion: int32(p.Version), ExpiresAt: d.ExpiresAt,
		})
		if violates(err, "orders_caller_key_unique") {
			return fault.Reject("key_bound_elsewhere", "place order")
		}
		if created = !isNoRows(err); !created {
			return ownOrder(ctx, w, d, callerKey)
		}
		if err != nil {
			return err
		}
		if err := reserveStock(ctx, w, d); err != nil {
			return err
		}
		return insertPlaced(ctx, w, d)
	})
	return row, created, err
}

// ownOrder accepts an existing row only if this very request made it.
func ownOrder(ctx context.Context, w *work, d order.Draft, callerKey string) error {
	o, err := w.read.OrderGet(ctx, string(d.ID))
	if err != nil {
		return err
	}
	if o.ClientID != string(d.Client) || o.CallerKey != callerKey {
		return fault.Reject("order_exists", "place order")
	}
	return nil
}

// insertPromise stores one revision of what was promised.
func insertPromise(ctx context.Context, w *work, d order.Draft, revision int32) error {
	var ls sqlcgen.OrderLinesInsertParams
	ls.OrderID = string(d.ID)
	for i, l := range d.Lines {
		ls.LineNos, ls.Skus, ls.Names = append(ls.LineNos, int32(i+1)), append(ls.Skus, l.SKU), append(ls.Names, l.Name)
		ls.Quantities, ls.UnitAmounts = append(ls.Quantities, int32(l.Quantity)), append(ls.UnitAmounts, l.UnitAmount)
		ls.Amounts, ls.TaxRates = append(ls.Amounts, l.UnitAmount*int64(l.Quantity)), append(ls.TaxRates, l.TaxRate)
		ls.Actions, ls.Issuers = append(ls.Actions, string(l.Action)), append(ls.Issuers, l.Issuer)
	}
	ls.Revision = revision
	if err := w.write.OrderLinesInsert(ctx, ls); err != nil {
		return err
	}
	if len(d.Adjustments) > 0 {
		as := sqlcgen.OrderAdjustmentsInsertParams{OrderID: string(d.ID), Revision: revision}
		for i, a := range d.Adjustments {
			as.AdjNos, as.Kinds, as.Amounts = append(as.AdjNos, int32(i+1)), append(as.Kinds, a.Kind), append(as.Amounts, a.Amount)
			as.TaxRates = append(as.TaxRates, a.TaxRate)
		}
		if err := w.write.OrderAdjustmentsInsert(ctx, as); err != nil {
			return err
		}
	}
	for i, l := range d.Lines {
		if l.Action == order.ActionStock {
			m := sqlcgen.StockMovementQueuedParams{OrderID: string(d.ID), LineNo: int32(i + 1), Kind: "reserve", Sku: l.SKU, Quantity: int64(l.Quantity), Revision: revision}
			if err := w.write.StockMovementQueued(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}

func insertPlaced(ctx context.Context, w *work, d order.Draft) error {
	if err := insertPromise(ctx, w, d, 1); err != nil {
		return err
	}
	return w.write.TransitionsInsert(ctx, sqlcgen.TransitionsInsertParams{
		OrderID: string(d.ID), Kinds: []string{"order"}, Ids: []string{string(d.ID)}, Froms: []string{""}, Tos: []string{string(order.OrderOpen)}, Trigger: "order_placed",
	})
}

func reserveStock(ctx context.Context, w *work, d order.Draft) error {
	need := map[string]int64{}
	for _, l := range d.Lines {
		if l.Action == order.ActionStock {
			need[l.SKU] += int64(l.Quantity)
		}
	}
	skus := make([]string, 0, len(need))
	for sku := range need {
		skus = append(skus, sku)
	}
	slices.Sort(skus) // one order of locks for every order (rule 9)
	for _, sku := range skus {
		n, err := w.read.StockReserve(ctx, need[sku], sku)
		if err != nil {
			return err
		}
		if n == 0 {
			if _, err := w.read.StockGet(ctx, sku); err != nil {
				return fault.Reject("no_such_stock", "place order")
			}
			return fault.Reject("out_of_stock", "place order")
		}
	}
	return nil
}

// StockSet sets what is on hand of a sku. Below what is reserved it is rejected.
func (s *Store) StockSet(ctx context.Context, sku string, onHand int64) error {
	err := translate("set stock", s.q().StockSet(ctx, sku, onHand))
	if violates(err, "stock_reserved_within_on_hand") {
		return fault.Reject("below_reserved", "set stock")
	}
	return err
}

// OrderOwned returns an order of the client; another client's order is not found, exactly like one that does not exist.
func (s *Store) OrderOwned(ctx context.Context, client order.ClientID, id order.ID) (sqlcgen.Order, error) {
	o, err := s.q().OrderGet(ctx, string(id))
	if err != nil {
		return o, translate("read order", err)
	}
	if o.ClientID != string(client) {
		return sqlcgen.Order{}, fault.New(fault.NotFound, "read order")
	}
	return o, nil
}

// OrderExpire lapses an order whose time is over, if nothing of it can still take money.
func (s *Store) OrderExpire(ctx context.Context, id order.ID) (order.Change, error) {
	var c order.Change
	err := s.inTx(ctx, "expire order", func(ctx context.Context, w *work) error {
		row, err := w.read.OrderLockDue(ctx, string(id))
		if err != nil {
			return err
		}
		sc, err := newScene(row.Order)
		if err != nil {
			return err
		}
		if !row.Due {
			c = order.Change{Verdict: order.Rejected, Why: "not_due"}
			return nil
		}
		if sc.attempt, err = unclosed(ctx, w, id); err != nil {
			return err
		}
		c = order.Apply(sc.facts(), order.Trigger{Kind: order.OrderLapsed})
		if c.Verdict != order.Applied {
			return nil
		}
		return s.write(ctx, w, &sc, c, cause{trigger: order.OrderLapsed})
	})
	return c, err
}

func unclosed(ctx context.Context, w *work, id order.ID) (*sqlcgen.PaymentAttempt, error) {
	a, err := w.read.AttemptUnclosed(ctx, string(id))
	if isNoRows(err) {
		return nil, nil
	}
	return &a, err
}
