package store

import (
	"context"
	"slices"
	"time"

	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// RefundDraft is one refund as it is planned. LeftMinor is what could still go back when its request was frozen: the request may
// hold it as a guard of the provider's, so a draft whose books have moved is planned again.
type RefundDraft struct {
	ID        order.RefundID
	OrderID   order.ID
	Client    order.ClientID
	CallerKey string
	Attempt   order.AttemptID // whose money goes back
	Reference string          // what the provider knows it by
	Amount    money.Amount
	LeftMinor int64
	Reason    string         // one word, see order.ValidRefundReason
	Operation OperationDraft // of kind "refund", under the id order.RefundOperation gives
}

// RefundOpened is the refund that stands, or, beside a rejection, what could still go back.
type RefundOpened struct {
	Refund    sqlcgen.Refund
	LeftMinor int64 // before this refund; not told for one that stood before
	Stood     bool  // the caller's key made it before
}

// Refundable is one captured payment of an order and what of it may still go back.
type Refundable struct {
	Payment   sqlcgen.Payment
	Attempt   order.AttemptID
	LeftMinor int64 // what is unknown counts as gone; never below zero
	Disputed  bool  // the buyer's bank has given it back, or may
}

// Refundables lists the captured payments of the client's order, the oldest first; of another client's order there is nothing to
// find. An empty client reads any order: for operators.
func (s *Store) Refundables(ctx context.Context, client order.ClientID, id order.ID) ([]Refundable, error) {
	var o sqlcgen.Order
	var rows []sqlcgen.RefundablesByOrderRow
	if err := s.readTogether(ctx,
		func(q *sqlcgen.Queries) (err error) { o, err = q.OrderGet(ctx, string(id)); return },
		func(q *sqlcgen.Queries) (err error) { rows, err = q.RefundablesByOrder(ctx, string(id)); return },
	); err != nil {
		return nil, translate("read refundable money", err)
	}
	if client != "" && o.ClientID != string(client) {
		return nil, fault.New(fault.NotFound, "read refundable money")
	}
	out := make([]Refundable, len(rows))
	for i, r := range rows {
		m := moneyFacts(r.Payment, sqlcgen.RefundSumsRow{
			RequestedMinor: r.RequestedMinor, UnderwayMinor: r.UnderwayMinor, PendingMinor: r.PendingMinor, SucceededMinor: r.SucceededMinor,
		})
		out[i] = Refundable{
			Payment: r.Payment, Attempt: order.AttemptID(*r.Payment.AttemptID), LeftMinor: max(0, m.Left()),
			Disputed: m.Dispute == order.DisputeOpen || m.Dispute == order.DisputeLost,
		}
	}
	return out, nil
}

// RefundOpen stores a refund and its one operation, all or nothing, if the amount may still go back. When the caller's key already
// made a refund, that one is returned and nothing is written. An order of another client, or an attempt of another order, is not
// found. Rejections: nothing_captured, more_than_left, left_moved, refund_disputed, currency_differs, amount_not_positive,
// reason_invalid, key_bound_elsewhere.
func (s *Store) RefundOpen(ctx context.Context, d RefundDraft) (RefundOpened, error) {
	const op = "open refund"
	if d.Operation.ID != order.RefundOperation(d.ID) || d.Operation.Kind != "refund" {
		return RefundOpened{}, fault.New(fault.InternalError, op) // the key is derived, not chosen (rule 7)
	}
	if !order.ValidRefundReason(d.Reason) {
		return RefundOpened{}, fault.Reject("reason_invalid", op)
	}
	var out RefundOpened
	err := s.inTx(ctx, op, func(ctx context.Context, w *work) error {
		out = RefundOpened{}
		sc, number, err := s.openScene(ctx, w, d, &out)
		if err != nil || out.Stood {
			return err
		}
		if sc.money != nil {
			out.LeftMinor = max(0, sc.money.Left())
		}
		if err := sc.weigh(ctx, w, false); err != nil {
			return err
		}
		c := order.Apply(sc.facts(), order.Trigger{Kind: order.RefundOpened, Ask: d.Amount})
		if c.Verdict != order.Applied {
			return fault.Reject(c.Why, op)
		}
		if d.LeftMinor != out.LeftMinor {
			return fault.Reject("left_moved", op)
		}
		if out.Refund, err = insertRefund(ctx, w, sc, d, number); err != nil || c.To(order.SubjectOrder) == "" {
			return err
		}
		c.Transitions = slices.DeleteFunc(c.Transitions, func(t order.Transition) bool { return t.Subject == order.SubjectRefund }) // its row says so
		return s.write(ctx, w, &sc, c, cause{trigger: order.RefundOpened})
	})
	if violates(err, "refunds_caller_key_unique") { // the same key, at the same moment, for another order
		err = fault.Reject("key_bound_elsewhere", op)
	}
	return out, err
}

// openScene locks order, attempt and payment, in this order (rule 9), and finds what the caller's key made before.
func (s *Store) openScene(ctx context.Context, w *work, d RefundDraft, out *RefundOpened) (sc scene, number int32, err error) {
	const op = "open refund"
	o, err := w.read.OrderLock(ctx, string(d.OrderID))
	if err != nil {
		return sc, 0, err
	}
	if o.ClientID != string(d.Client) {
		return sc, 0, fault.New(fault.NotFound, op)
	}
	old, err := w.read.RefundByCallerKey(ctx, string(d.Client), d.CallerKey)
	if err == nil {
		if old.OrderID != o.OrderID || old.AttemptID != string(d.Attempt) || old.AmountMinor != d.Amount.Minor || old.Currency != string(d.Amount.Currency) {
			return sc, 0, fault.Reject("key_bound_elsewhere", op)
		}
		out.Refund, out.Stood = old, true
		return sc, 0, nil
	}
	if !isNoRows(err) {
		return sc, 0, err
	}
	if sc, err = newScene(o); err != nil {
		return sc, 0, err
	}
	var row sqlcgen.AttemptLockRow
	var paid []sqlcgen.Payment
	var sums sqlcgen.RefundSumsRow
	if err := w.together(ctx,
		func(q *sqlcgen.Queries) (err error) { row, err = q.AttemptLock(ctx, string(d.Attempt)); return },
		func(q *sqlcgen.Queries) (err error) { paid, err = q.RefundPaymentLock(ctx, string(d.Attempt)); return },
		func(q *sqlcgen.Queries) (err error) { sums, err = q.RefundSums(ctx, string(d.Attempt)); return },
	); err != nil {
		return sc, 0, err
	}
	if row.Order.OrderID != o.OrderID {
		return sc, 0, fault.New(fault.NotFound, op)
	}
	sc.attempt = &row.PaymentAttempt
	if len(paid) > 0 {
		sc.setMoney(paid[0], sums)
	}
	return sc, sums.LastNumber + 1, nil
}

func insertRefund(ctx context.Context, w *work, sc scene, d RefundDraft, number int32) (sqlcgen.Refund, error) {
	a := sc.attempt
	// Now and not with the rest: the refund's row refers to it.
	if err := w.read.OperationInsert(ctx, sqlcgen.OperationInsertParams{
		OperationID: string(d.Operation.ID), OrderID: sc.order.OrderID, Kind: d.Operation.Kind, AttemptID: &a.AttemptID, Generation: number,
		SealedRequest: d.Operation.Sealed, Fingerprint: d.Operation.Fingerprint,
	}); err != nil {
		return sqlcgen.Refund{}, err
	}
	r, err := w.read.RefundInsert(ctx, sqlcgen.RefundInsertParams{
		RefundID: string(d.ID), OrderID: sc.order.OrderID, AttemptID: a.AttemptID, PaymentID: sc.payment, OperationID: string(d.Operation.ID),
		ClientID: string(d.Client), CallerKey: d.CallerKey, Gateway: a.Gateway, Account: a.Account, Environment: a.Environment,
		Reference: d.Reference, Number: number, LeftMinor: sc.money.Left(), AmountMinor: d.Amount.Minor, Currency: string(d.Amount.Currency), Reason: d.Reason,
	})
	if err != nil {
		return r, err
	}
	if err := w.write.OrderRaiseWork(ctx, sc.order.OrderID); err != nil {
		return r, err
	}
	return r, w.write.TransitionsInsert(ctx, sqlcgen.TransitionsInsertParams{
		OrderID: sc.order.OrderID, Kinds: []string{string(order.SubjectRefund)}, Ids: []string{string(d.ID)}, Froms: []string{""},
		Tos: []string{string(order.RefundRequested)}, Trigger: string(order.RefundOpened),
	})
}

// Refund reads one refund of the client; another client's is not found. An empty client reads any: for operators.
func (s *Store) Refund(ctx context.Context, client order.ClientID, id order.RefundID) (sqlcgen.Refund, error) {
	r, err := s.q().RefundGet(ctx, string(id))
	if err == nil && client != "" && r.ClientID != string(client) {
		return sqlcgen.Refund{}, fault.New(fault.NotFound, "read refund")
	}
	return r, translate("read refund", err)
}

// RefundByCallerKey finds the refund a caller's key made, for a request that comes again. Not found is a fault.
func (s *Store) RefundByCallerKey(ctx context.Context, client order.ClientID, key string) (sqlcgen.Refund, error) {
	r, err := s.q().RefundByCallerKey(ctx, string(client), key)
	return r, translate("read refund", err)
}

// RefundWork is a refund with all that a process needs that may send it.
type RefundWork struct {
	Refund    sqlcgen.Refund
	Attempt   sqlcgen.PaymentAttempt
	Operation sqlcgen.Operation
	Payment   sqlcgen.Payment
}

// RefundWork reads what is needed to go on with a refund, as it stands at one moment.
func (s *Store) RefundWork(ctx context.Context, id order.RefundID) (RefundWork, error) {
	r, err := s.q().RefundWork(ctx, string(id))
	return RefundWork{Refund: r.Refund, Attempt: r.PaymentAttempt, Operation: r.Operation, Payment: r.Payment}, translate("read refund", err)
}

// RefundClaim makes the caller the one who sends a refund first (rule 2) and moves it to sent. It reports false when somebody else was
// first, or when nothing is left to give back: then the refund comes back failed. The refund is as it is now, so its version is what
// the answer must carry. Credential marks the API key it goes out under.
func (s *Store) RefundClaim(ctx context.Context, id order.RefundID, credential string) (sqlcgen.Refund, bool, error) {
	var out sqlcgen.Refund
	won := false
	err := s.inTx(ctx, "claim refund", func(ctx context.Context, w *work) error {
		won = false
		sc, err := refundScene(ctx, w, id)
		if err != nil {
			return err
		}
		c := order.Apply(sc.facts(), order.Trigger{Kind: order.RefundClaimed})
		switch {
		case c.Why == "already_claimed":
		case c.Verdict != order.Applied:
			return fault.Reject(c.Why, "claim refund")
		default:
			if c.To(order.SubjectRefund) == order.RefundSent {
				_, err := w.read.RefundOperationClaim(ctx, credential, sc.refund.OperationID)
				if isNoRows(err) { // sent before its refund was: we cannot know what became of that
					return fault.New(fault.InternalError, "claim refund")
				}
				if err != nil {
					return err
				}
				won = true
			}
			if err := s.write(ctx, w, &sc, c, cause{trigger: order.RefundClaimed, code: c.Why, raises: len(c.Events) > 0}); err != nil {
				return err
			}
		}
		out = *sc.refund
		return nil
	})
	return out, won && err == nil, err
}

// RefundClaimAgain makes the caller the one who repeats a refund it saw sent seenSends times. One that was sent under another
// credential, or of which something is known, is not repeated.
func (s *Store) RefundClaimAgain(ctx context.Context, id order.RefundID, seenSends int, credential string) (bool, error) {
	_, err := s.q().RefundClaimAgain(ctx, sqlcgen.RefundClaimAgainParams{RefundID: string(id), SeenSends: int32(seenSends), Credential: credential})
	if isNoRows(err) {
		return false, nil
	}
	return err == nil, translate("claim refund again", err)
}

// RefundAnswer is one thing a provider said about a refund, with the operation it answers (empty for a lookup).
type RefundAnswer struct {
	Refund         order.RefundID
	Order          order.ID
	Operation      order.OperationID
	Source         string // "send", "lookup", "webhook", …
	Seen           order.RefundSeen
	ProviderStatus string
	RequestID      string
	ProviderTime   *time.Time
}

// RefundKeep stores an answer before anything is made of it. One that comes when nobody is sending the refund any more raises the
// order's work: somebody has to reflect it.
func (s *Store) RefundKeep(ctx context.Context, a RefundAnswer) error {
	late := false
	err := s.inTx(ctx, "keep refund's answer", func(ctx context.Context, w *work) error {
		p := a.Seen
		seen, err := w.read.RefundObserved(ctx, string(a.Refund))
		if err != nil {
			return err
		}
		late = refundNews(order.Status(seen.Status), p.Outcome)
		obs := sqlcgen.ObservationKeepParams{
			OrderID: seen.OrderID, RefundID: ptr(string(a.Refund)), Seq: seen.ObservedSeq, Source: a.Source, Outcome: string(p.Outcome), Final: p.Final,
			ProviderStatus: a.ProviderStatus, Gateway: p.Account.Gateway, Account: p.Account.Name, Environment: p.Account.Environment,
			ProviderPaymentID: p.ProviderPaymentID, MerchantReference: p.Reference, ProviderRefundID: p.ProviderRefundID, Currency: string(p.Currency),
			AmountMinor: p.AmountMinor, RefundedMinor: p.RefundedMinor, Code: p.Code, RequestID: a.RequestID, ReadVersion: p.ReadVersion, ReadAsks: p.ReadAsks,
			ProviderTime: a.ProviderTime,
		}
		if a.Operation != "" {
			obs.OperationID = ptr(string(a.Operation))
			done := sqlcgen.OperationOutcomeParams{Outcome: string(p.Outcome), Code: p.Code, OperationID: string(a.Operation)}
			if err := w.write.OperationOutcome(ctx, done); err != nil {
				return err
			}
		}
		return w.write.ObservationKeep(ctx, obs)
	})
	if err == nil && late {
		err = s.RaiseWork(ctx, a.Order) // by itself: a refund's row is never locked before its order's (rule 9)
	}
	return err
}

// refundNews reports an answer that may settle a refund which no step is sending any more.
func refundNews(s order.Status, o order.Outcome) bool {
	if s == order.RefundRequested || s == order.RefundSent {
		return false
	}
	switch o {
	case order.Succeeded:
		return s != order.RefundSucceeded
	case order.Declined:
		return s != order.RefundFailed
	case order.Pending:
		return s != order.RefundPending
	}
	return false
}

// RefundUnresolved parks a refund whose outcome could not be found within its bound: it becomes (or stays) unknown and a person gets
// it. One that could not even be sent stays what it is.
func (s *Store) RefundUnresolved(ctx context.Context, id order.RefundID, code string) (order.Change, error) {
	var c order.Change
	err := s.inTx(ctx, "park refund", func(ctx context.Context, w *work) error {
		sc, err := refundScene(ctx, w, id)
		if err != nil {
			return err
		}
		c = order.Apply(sc.facts(), order.Trigger{Kind: order.RefundUnresolved, Code: code})
		if c.Verdict != order.Applied {
			return nil
		}
		if len(c.Transitions) == 0 { // it stays what it is, and is looked at again all the same
			at := time.Now().Add(sc.policy.ReviewCheckEvery)
			if err := w.write.RefundCheckLater(ctx, &at, string(id)); err != nil {
				return err
			}
		}
		return s.write(ctx, w, &sc, c, cause{trigger: order.RefundUnresolved, code: code})
	})
	return c, err
}

// RefundCheckLater notes that a lookup was made and when the next is due.
func (s *Store) RefundCheckLater(ctx context.Context, id order.RefundID, next time.Time) error {
	return translate("schedule lookup", s.q().RefundCheckLater(ctx, &next, string(id)))
}
