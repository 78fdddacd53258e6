package activities

import (
	"context"

	"orderflow/gateways"
	"orderflow/internal/door"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// CancelHead is a cancel that is not over.
type CancelHead = store.CancelHead

// GiveUpAttempt ends an attempt whose order is not to be carried out. Nothing that takes money is sent: it looks, and what captured
// nothing is ended at the provider, where that can be done, so that it never will. What may have captured stays what it is.
func (a *Activities) GiveUpAttempt(ctx context.Context, in AttemptInput) (PaymentResult, error) {
	defer alive(ctx)()
	r, err := a.giveUp(ctx, in.AttemptID)
	return r, Fail(ctx, err, in.Bounds)
}

func (a *Activities) giveUp(ctx context.Context, id order.AttemptID) (PaymentResult, error) {
	t, err := a.open(ctx, id)
	if err != nil {
		return PaymentResult{}, err
	}
	switch order.Status(t.att.Status) {
	case order.AttemptSucceeded, order.AttemptClosed:
		return PaymentResult{Outcome: order.Declined}, nil
	case order.AttemptCreated: // the claim finds that it is not to be sent, and closes it
		return a.advance(ctx, id, true)
	}
	if t.operation(gateways.Cancel) != nil { // begun before
		return a.end(ctx, t)
	}
	o, err := t.look(ctx)
	if err != nil {
		return PaymentResult{}, err
	}
	switch {
	case o.Outcome == gateways.NotFound: // proof or not is asked of the write itself (rule 6)
		return a.advance(ctx, id, false)
	case o.Outcome == gateways.Untouched, o.Outcome == gateways.Pending, o.Outcome == gateways.Declined && !o.Final:
		if _, can := t.gw.(gateways.Canceler); can && (t.ours(o) || t.att.ProviderPaymentID != "") {
			if t.att.ProviderPaymentID == "" {
				t.att.ProviderPaymentID = o.ProviderPaymentID
				if _, err := t.keep(ctx, o, sqlcgen.Operation{}, "lookup"); err != nil {
					return PaymentResult{}, err
				}
			}
			return a.end(ctx, t)
		}
	}
	return t.keep(ctx, o, sqlcgen.Operation{}, "lookup")
}

// end has an attempt ended at the provider, by the one operation there is for it.
func (a *Activities) end(ctx context.Context, t *try) (PaymentResult, error) {
	id := order.AttemptID(t.att.AttemptID)
	t, err := a.withCancel(ctx, t)
	if err != nil {
		return PaymentResult{}, err
	}
	op := t.operation(gateways.Cancel)
	if op.FinishedAt != nil { // it was answered, and the attempt is open all the same: its present state decides
		return t.lookAfresh(ctx)
	}
	r, err := t.perform(ctx, *op, true)
	if err == nil && r.Outcome == order.Unknown {
		return r, fault.New(fault.PaymentUnknown, "give up attempt "+string(id))
	}
	return r, err
}

// withCancel makes sure that the attempt has its cancel's row; the row that stands wins, and a second id is never used.
func (a *Activities) withCancel(ctx context.Context, t *try) (*try, error) {
	if t.operation(gateways.Cancel) != nil {
		return t, nil
	}
	c, ok := t.gw.(gateways.Canceler)
	if !ok {
		return t, fault.New(fault.InternalError, "cancel attempt")
	}
	p, err := c.PlanCancel(t.att.ProviderPaymentID)
	if err != nil {
		return t, err
	}
	op := order.NewOperationID()
	d := store.OperationDraft{ID: op, Kind: string(p.Kind), Sealed: a.d.Box.Seal(p.Request, OperationAAD(op)), Fingerprint: a.d.Box.Fingerprint(p.Request)}
	if err := a.d.Store.AttemptAddOperation(ctx, order.AttemptID(t.att.AttemptID), order.ID(t.att.OrderID), d); err != nil {
		return t, err
	}
	return a.open(ctx, order.AttemptID(t.att.AttemptID))
}

// CancelInput names the cancel a step works on.
type CancelInput struct {
	CancelID order.CancelID `json:"cancel_id"`
	Bounds   Bounds         `json:"bounds,omitzero"`
}

// CancelSettled is what became of a canceled order's money.
type CancelSettled struct {
	Done   bool           `json:"done"`             // nothing of the cancel is left to do
	Refund order.RefundID `json:"refund,omitempty"` // opened now or before; it is sent like any other
	Word   string         `json:"word,omitempty"`   // why a person has to say how much goes back
}

// mostBills bounds how often a cancel's refund is planned anew because the books moved meanwhile.
const mostBills = 5

// SettleCancel gives back, by one refund, what a canceled order's money does not pay for any more, once no unit is under way. It only
// opens the refund: sending is the refund's own step.
func (a *Activities) SettleCancel(ctx context.Context, in CancelInput) (CancelSettled, error) {
	r, err := a.settleCancel(ctx, in.CancelID)
	return r, Fail(ctx, err, in.Bounds)
}

func (a *Activities) settleCancel(ctx context.Context, id order.CancelID) (CancelSettled, error) {
	var out CancelSettled
	refund, key := order.CancelRefund(id)
	for try := 0; ; try++ {
		b, err := a.d.Store.CancelBill(ctx, id)
		switch {
		case err != nil:
			return out, err
		case b.Cancel.Status == string(order.CancelDone):
			return CancelSettled{Done: true}, nil
		case b.Order.Status != string(order.OrderCanceled), b.UnitsOpen > 0:
			return out, nil
		}
		if _, err := a.d.Store.Refund(ctx, "", refund); err == nil { // opened before, by a try that died
			out.Refund = refund
		} else if !fault.IsCode(err, fault.NotFound) {
			return out, err
		} else if minor, word := b.Bill.Owed(); word != "" {
			out.Word = word
		} else if minor > 0 {
			word, err := a.openCancelRefund(ctx, b, minor, key)
			if err != nil {
				if f := fault.As(err); f.Why == "left_moved" && try < mostBills {
					continue
				}
				return out, err
			}
			if out.Word = word; word == "" {
				out.Refund = refund
			}
		}
		out.Done, err = a.d.Store.CancelSettle(ctx, id, out.Refund, out.Word)
		return out, err
	}
}

// openCancelRefund freezes and stores the refund. A word says why it cannot go back by itself.
func (a *Activities) openCancelRefund(ctx context.Context, b store.CancelBill, minor int64, key string) (string, error) {
	p := b.Paid.Payment
	at, err := a.d.Store.Attempt(ctx, b.Paid.Attempt)
	if err != nil {
		return "", err
	}
	plan := store.RefundPlan{Attempt: at, Payment: p, Amount: money.Amount{Minor: minor, Currency: money.Currency(p.Currency)}, Left: b.Paid.LeftMinor}
	frozen, err := door.Freeze(a.d.Box, a.d.Gateways, plan, gateways.Payout{})
	switch {
	case fault.IsCode(err, fault.GatewayMisconfigured) && fault.As(err).Why != "":
		return fault.As(err).Why, nil
	case fault.IsCode(err, fault.PaymentInvalid):
		return "refund_invalid", nil // such as a deposit, which goes back to a bank account that only the buyer knows
	case err != nil:
		return "", err
	}
	id, _ := order.CancelRefund(order.CancelID(b.Cancel.CancelID))
	d := frozen.Into(a.d.Box, store.RefundDraft{
		ID: id, OrderID: order.ID(b.Order.OrderID), Client: order.ClientID(b.Order.ClientID), CallerKey: key, Reason: b.Cancel.Reason,
	})
	if _, err = a.d.Store.RefundOpen(ctx, d); fault.IsCode(err, fault.Refused) && fault.As(err).Why != "left_moved" {
		return fault.As(err).Why, nil // the money is not here, or not ours to give
	}
	return "", err
}

// stop ends a unit of a canceled order where it is proven that nothing was provided; nothing is sent for it any more.
func (u unitTry) stop(ctx context.Context, notFound bool) (UnitResult, error) {
	stopped, err := u.a.d.Store.UnitStop(ctx, u.id(), order.ID(u.work.Unit.OrderID), notFound)
	if err != nil {
		return UnitResult{}, err
	}
	if !stopped {
		return u.unknown(ctx)
	}
	return UnitResult{Status: order.UnitCanceled}, nil
}

// canceled reports that the unit's order is not carried out any more.
func (u unitTry) canceled() bool { return u.work.Order.Status == string(order.OrderCanceled) }
