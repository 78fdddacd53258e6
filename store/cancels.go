package store

import (
	"context"
	"encoding/json"
	"time"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// CancelDraft is a wish that an order is not carried out. Reason is one word, see order.ValidRefundReason.
type CancelDraft struct {
	ID        order.CancelID
	OrderID   order.ID
	Client    order.ClientID
	CallerKey string
	Reason    string
	MayRefund bool // whoever asks may also give money back: otherwise only an order that is not paid is canceled
}

// CancelOpen stores a cancel and does at once what can be done without asking anybody: an order without money is canceled and its stock
// released; a paid one is canceled, and what nobody is issuing yet is stopped; where an attempt may have taken the money, the cancel
// waits. An order has one cancel: asked again, by whatever key, the one that stands is returned. Rejections: order_completed,
// order_expired, paid_needs_operate, reason_invalid, key_bound_elsewhere.
func (s *Store) CancelOpen(ctx context.Context, d CancelDraft) (sqlcgen.Cancel, error) {
	const op = "cancel order"
	if !order.ValidRefundReason(d.Reason) {
		return sqlcgen.Cancel{}, fault.Reject("reason_invalid", op)
	}
	var out sqlcgen.Cancel
	err := s.inTx(ctx, op, func(ctx context.Context, w *work) error {
		o, err := w.read.OrderLock(ctx, string(d.OrderID))
		if err != nil {
			return err
		}
		if o.ClientID != string(d.Client) {
			return fault.New(fault.NotFound, op)
		}
		old, err := w.read.CancelByCallerKey(ctx, string(d.Client), d.CallerKey)
		if err == nil && old.OrderID != o.OrderID {
			return fault.Reject("key_bound_elsewhere", op)
		}
		if err != nil && !isNoRows(err) {
			return err
		}
		if o.CancelID != "" {
			out, err = w.read.CancelGet(ctx, o.CancelID)
			return err
		}
		sc, err := newScene(o)
		if err != nil {
			return err
		}
		if sc.attempt, err = unclosed(ctx, w, d.OrderID); err != nil {
			return err
		}
		out, err = s.openCancel(ctx, w, &sc, d)
		return err
	})
	if violates(err, "cancels_caller_key_unique") { // the same key, at the same moment, for another order
		err = fault.Reject("key_bound_elsewhere", op)
	}
	return out, err
}

func (s *Store) openCancel(ctx context.Context, w *work, sc *scene, d CancelDraft) (sqlcgen.Cancel, error) {
	c := order.Apply(sc.facts(), order.Trigger{Kind: order.CancelAsked})
	switch {
	case c.Verdict != order.Applied && sc.order.Status != string(order.OrderCanceled):
		return sqlcgen.Cancel{}, fault.Reject(c.Why, "cancel order")
	case c.To(order.SubjectCancel) == order.CancelStopping && !d.MayRefund: // money goes back
		return sqlcgen.Cancel{}, fault.Reject("paid_needs_operate", "cancel order")
	}
	out := sqlcgen.Cancel{
		CancelID: string(d.ID), OrderID: string(d.OrderID), ClientID: string(d.Client), CallerKey: d.CallerKey, Reason: d.Reason,
		Status: string(c.To(order.SubjectCancel)), CreatedAt: time.Now(),
	}
	if c.Verdict != order.Applied { // its money went back before anybody canceled it: what is left to do is nothing
		out.Status = string(order.CancelDone)
		c = order.Change{Verdict: order.Applied, Transitions: []order.Transition{{Subject: order.SubjectCancel, To: order.CancelDone}}}
	}
	if err := w.write.CancelInsert(ctx, sqlcgen.CancelInsertParams{
		CancelID: out.CancelID, OrderID: out.OrderID, ClientID: out.ClientID, CallerKey: out.CallerKey, Reason: out.Reason, Status: out.Status,
	}); err != nil {
		return out, err
	}
	if err := w.write.OrderCanceling(ctx, out.CancelID, out.OrderID); err != nil {
		return out, err
	}
	sc.order.CancelID = out.CancelID
	return out, s.write(ctx, w, sc, c, cause{trigger: order.CancelAsked, raises: true})
}

// moveCancel moves the order's cancel. Its first state is written with its row.
func moveCancel(ctx context.Context, w *work, sc *scene, t order.Transition) error {
	sc.cancel = t.To
	if t.From == "" {
		return nil
	}
	return w.write.CancelMove(ctx, sqlcgen.CancelMoveParams{ToStatus: string(t.To), CancelID: sc.order.CancelID, FromStatus: string(t.From)})
}

// cancelOf is the state of an order's cancel as its row tells it: whether a canceled order's cancel is over is asked by who settles it.
func (sc scene) cancelOf() order.Status {
	switch {
	case sc.cancel != "" || sc.order.CancelID == "":
		return sc.cancel
	case sc.order.Status == string(order.OrderOpen):
		return order.CancelWaiting
	}
	return order.CancelStopping
}

func stopUnits(ctx context.Context, w *work, sc *scene, why cause) error {
	return w.write.UnitsStop(ctx, sqlcgen.UnitsStopParams{
		OrderID: sc.order.OrderID, Trigger: string(why.trigger), ObservationID: why.observation, DecisionID: why.decision,
	})
}

// Cancel reads one cancel of the client; another client's is not found. An empty client reads any: for operators.
func (s *Store) Cancel(ctx context.Context, client order.ClientID, id order.CancelID) (sqlcgen.Cancel, error) {
	c, err := s.q().CancelGet(ctx, string(id))
	if err == nil && client != "" && c.ClientID != string(client) {
		return sqlcgen.Cancel{}, fault.New(fault.NotFound, "read cancel")
	}
	return c, translate("read cancel", err)
}

// CancelBill is what a canceled order's money is weighed by, as it stands at one moment.
type CancelBill struct {
	Cancel    sqlcgen.Cancel
	Order     sqlcgen.Order
	Bill      order.CancelBill
	UnitsOpen int64       // units that may yet turn out to be provided
	Paid      *Refundable // the payment that pays for the order; nil where none is with a provider
}

// CancelBill reads it. Units that were refused since the cancel are stopped first.
func (s *Store) CancelBill(ctx context.Context, id order.CancelID) (CancelBill, error) {
	c, err := s.Cancel(ctx, "", id)
	if err != nil {
		return CancelBill{}, err
	}
	out := CancelBill{Cancel: c}
	err = s.inTx(ctx, "weigh cancel", func(ctx context.Context, w *work) error {
		o, err := w.read.OrderLock(ctx, c.OrderID)
		if err != nil || o.Status != string(order.OrderCanceled) {
			return err
		}
		return stopUnits(ctx, w, &scene{order: o}, cause{trigger: order.CancelAsked})
	})
	if err != nil {
		return out, err
	}
	row, err := s.q().CancelBill(ctx, c.OrderID)
	if err != nil {
		return out, translate("weigh cancel", err)
	}
	paid, err := s.Refundables(ctx, "", order.ID(c.OrderID))
	if err != nil {
		return out, err
	}
	out.Order, out.UnitsOpen = row.Order, row.UnitsOpen
	out.Bill = order.CancelBill{Adjusted: row.Adjusted, UnitsIssued: row.UnitsIssued, UnitsCanceled: row.UnitsCanceled, CanceledMinor: row.CanceledMinor}
	if len(paid) > 0 {
		p := paid[0]
		out.Paid = &p
		out.Bill.CapturedMinor, out.Bill.LeftMinor, out.Bill.Disputed = p.Payment.CapturedMinor, p.LeftMinor, p.Disputed
	}
	out.Bill.ByOtherMeans = out.Bill.CapturedMinor == 0 && row.UnitsCanceled+row.UnitsIssued > 0
	return out, nil
}

// CancelSettle ends a cancel: its refund was opened, or none is owed, or - with a word - a person says how much. It reports false when
// units are under way again, or when it was settled before.
func (s *Store) CancelSettle(ctx context.Context, id order.CancelID, refund order.RefundID, word string) (bool, error) {
	settled := false
	err := s.inTx(ctx, "settle cancel", func(ctx context.Context, w *work) error {
		settled = false
		c, err := w.read.CancelGet(ctx, string(id))
		if err != nil {
			return err
		}
		o, err := w.read.OrderLock(ctx, c.OrderID)
		if err != nil {
			return err
		}
		if c, err = w.read.CancelGet(ctx, string(id)); err != nil { // again, now that it cannot move
			return err
		}
		open, err := w.read.UnitsOpenCount(ctx, c.OrderID)
		if err != nil {
			return err
		}
		sc, err := newScene(o)
		if err != nil {
			return err
		}
		sc.cancel = order.Status(c.Status)
		f := sc.facts()
		f.UnitsOpen = int(open)
		ch := order.Apply(f, order.Trigger{Kind: order.CancelSettled, Code: word})
		if ch.Verdict != order.Applied {
			return nil
		}
		settled = true
		p := sqlcgen.CancelSeenParams{CancelID: c.CancelID, Code: word}
		if refund != "" {
			p.RefundID = ptr(string(refund))
		}
		if err := w.write.CancelSeen(ctx, p); err != nil {
			return err
		}
		return s.write(ctx, w, &sc, ch, cause{trigger: order.CancelSettled, code: word})
	})
	return settled && err == nil, err
}

// UnitStop ends a unit of a canceled order whose request provably did nothing: the issuer's answer to its last send said so, or - with
// notFound - a look that is final. What neither shows stays what it is, and false is reported.
func (s *Store) UnitStop(ctx context.Context, id order.UnitID, orderID order.ID, notFound bool) (bool, error) {
	stopped := false
	err := s.inTx(ctx, "stop unit", func(ctx context.Context, w *work) error {
		stopped = false
		sc, err := unitScene(ctx, w, id, orderID)
		if err != nil {
			return err
		}
		if !notFound {
			op, err := w.read.OperationGet(ctx, string(order.IssueOperation(id, int(sc.unit.Generation))))
			if err != nil {
				return err
			}
			if op.Outcome != "" || op.OutcomeCode == "" {
				return nil
			}
		}
		c := order.Apply(sc.facts(), order.Trigger{Kind: order.UnitStopped})
		if c.Verdict != order.Applied {
			return nil
		}
		stopped = true
		return s.write(ctx, w, &sc, c, cause{trigger: order.UnitStopped})
	})
	if err == nil && stopped {
		err = s.RaiseWork(ctx, orderID) // by itself: a unit's transaction holds its order's lock shared only (rule 9)
	}
	return stopped && err == nil, err
}

// CancelHead is a cancel that is not over.
type CancelHead struct {
	ID     order.CancelID `json:"id"`
	Status order.Status   `json:"status"`
}

func readCancelHead(b []byte) (*CancelHead, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var h CancelHead
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fault.Wrap(fault.InternalError, "load order", err)
	}
	return &h, nil
}

func cancelOf(ctx context.Context, q *sqlcgen.Queries, o sqlcgen.Order) (*sqlcgen.Cancel, error) {
	if o.CancelID == "" {
		return nil, nil
	}
	c, err := q.CancelGet(ctx, o.CancelID)
	return &c, err
}
