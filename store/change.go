package store

import (
	"context"
	"encoding/json"
	"time"

	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// DueGrace is how long after a pending payment's deadline it is asked about and closed: clocks differ, and a payment made in
// the last second takes a moment to show.
const DueGrace = time.Minute

// scene is what a change is written against: the locked rows.
type scene struct {
	order   sqlcgen.Order
	attempt *sqlcgen.PaymentAttempt
	unit    *sqlcgen.UnitLockRow
	refund  *sqlcgen.Refund
	payment string            // the id of the row that money speaks of
	money   *order.MoneyFacts // of the attempt's payment, once it matched
	paid    sqlcgen.Payment   // that payment
	refunds int32             // the number of its last refund
	orphan  *sqlcgen.OrphanPayment
	sends   sqlcgen.RefundSendsRow
	cancel  order.Status // of the order's cancel, where it was read or has moved
	policy  order.Policy
	outlook sqlcgen.OrderOutlookRow // for an answer about captured money

	termsHold, stockThere bool // of an expired order, see weighPromise

	lines []sqlcgen.OrderLine // of an open order whose payment is being reflected

	seen      int32 // the number of the answer that is being reflected; 0 = none
	reflected int32 // the highest that a queued move has noted as reflected
}

func newScene(o sqlcgen.Order) (scene, error) {
	p, err := readPolicy(o.Policy)
	return scene{order: o, policy: p}, err
}

func readPolicy(b []byte) (order.Policy, error) {
	p := order.DefaultPolicy()
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fault.Wrap(fault.InternalError, "read policy", err) // no outage: trying again would change nothing
	}
	return p, nil
}

func (sc scene) facts() order.Facts {
	f := order.Facts{Order: order.OrderFacts{
		Status: order.Status(sc.order.Status), Version: sc.order.Version, Hold: order.Hold(sc.order.Hold), External: sc.order.ExternalDecision != "",
		TermsHold: sc.termsHold, StockThere: sc.stockThere, Revision: int(sc.order.Revision), Cancel: sc.cancelOf(),
	}}
	f.OtherMoney, f.UnitsOpen, f.UnitsOut = sc.outlook.OtherMoney, int(sc.outlook.UnitsOpen), int(sc.outlook.UnitsOut)
	if a := sc.attempt; a != nil {
		f.Attempt = attemptFacts(*a)
	}
	if u := sc.unit; u != nil {
		f.Unit = &order.UnitFacts{ID: order.UnitID(u.UnitID), Status: order.Status(u.Status), Version: u.Version}
		if order.Action(u.Action) == order.ActionIssue {
			f.Unit.Operation = order.IssueOperation(f.Unit.ID, int(u.Generation))
		}
	}
	if sc.money != nil {
		m := *sc.money
		f.Money = &m
	}
	if o := sc.orphan; o != nil {
		f.Orphan = &order.OrphanFacts{
			ID: order.OrphanID(o.OrphanID), Open: o.Status == "open", Account: order.Account{Gateway: o.Gateway, Name: o.Account, Environment: o.Environment},
			ProviderPaymentID: o.ProviderPaymentID, MerchantReference: o.MerchantReference,
			Amount: money.Amount{Minor: o.CapturedMinor, Currency: money.Currency(o.Currency)},
		}
	}
	if r := sc.refund; r != nil {
		f.Refund = refundFacts(*r, sc.attempt.ProviderPaymentID)
		f.Refund.Sends, f.Refund.Quiet = int(sc.sends.Sends), sc.sends.Quiet
	}
	return f
}

func attemptFacts(a sqlcgen.PaymentAttempt) *order.AttemptFacts {
	return &order.AttemptFacts{
		ID: order.AttemptID(a.AttemptID), Status: order.Status(a.Status), Version: a.Version,
		Account:           order.Account{Gateway: a.Gateway, Name: a.Account, Environment: a.Environment},
		MerchantReference: a.MerchantReference, ProviderPaymentID: a.ProviderPaymentID,
		Amount: money.Amount{Minor: a.AmountMinor, Currency: money.Currency(a.Currency)}, Revision: int(a.Revision),
	}
}

// cause is where a change came from, for the log.
type cause struct {
	trigger     order.TriggerKind
	observation *int64
	decision    string
	code        string
	nextAction  []byte
	raises      bool // it makes work, so the order's work is raised with it (rule 8)
}

// write queues everything a change says, and moves the scene along so that a second change of the same transaction sees it.
func (s *Store) write(ctx context.Context, w *work, sc *scene, c order.Change, why cause) error {
	if err := writeTransitions(ctx, w, sc, c, why); err != nil {
		return err
	}
	if c.StopUnits {
		if err := stopUnits(ctx, w, sc, why); err != nil {
			return err
		}
	}
	booked, err := writeBooks(ctx, w, sc, c)
	if err != nil {
		return err
	}
	if err := writeStanding(ctx, w, sc, c, why); err != nil {
		return err
	}
	if why.raises && c.To(order.SubjectOrder) == "" { // else its move raised it
		if err := w.write.OrderRaiseWork(ctx, sc.order.OrderID); err != nil {
			return err
		}
	}
	for _, about := range sc.subjects(c, booked) {
		if err := writeReviews(ctx, w, sc, c, about, why); err != nil {
			return err
		}
	}
	return s.writeEvents(ctx, w, sc, c)
}

// subject is one row whose reviews a change may touch.
type subject struct {
	kind    order.SubjectKind
	id      string
	version int64
	moved   bool // its version rose: its open reviews are about what it is now
	settles bool // the reviews the change ends are its own
}

func (sc *scene) subjects(c order.Change, booked bool) []subject {
	var out []subject
	for _, o := range c.Open {
		if o.Subject == order.SubjectOrder {
			out = append(out, subject{kind: order.SubjectOrder, id: sc.order.OrderID, version: sc.order.Version})
			break
		}
	}
	if r := sc.refund; r != nil {
		out = append(out, subject{order.SubjectRefund, r.RefundID, r.Version, c.To(order.SubjectRefund) != "", true})
	}
	if a := sc.attempt; a != nil {
		out = append(out, subject{order.SubjectAttempt, a.AttemptID, a.Version, booked || c.To(order.SubjectAttempt) != "", sc.refund == nil})
	}
	if u := sc.unit; u != nil {
		out = append(out, subject{order.SubjectUnit, u.UnitID, u.Version, c.To(order.SubjectUnit) != "", true})
	}
	return out
}

func writeTransitions(ctx context.Context, w *work, sc *scene, c order.Change, why cause) error {
	if len(c.Transitions) == 0 {
		return nil
	}
	log := sqlcgen.TransitionsInsertParams{OrderID: sc.order.OrderID, Trigger: string(why.trigger), ObservationID: why.observation, DecisionID: why.decision}
	for _, t := range c.Transitions {
		id := sc.order.OrderID
		var err error
		switch t.Subject {
		case order.SubjectOrder:
			err = moveOrder(ctx, w, sc, t, why.raises)
		case order.SubjectAttempt:
			id = sc.attempt.AttemptID
			err = moveAttempt(ctx, w, sc, t, c, why)
		case order.SubjectUnit:
			id = sc.unit.UnitID
			err = moveUnit(ctx, w, sc, t, c, why)
		case order.SubjectRefund:
			id = sc.refund.RefundID
			err = moveRefund(ctx, w, sc, t, why)
		case order.SubjectCancel:
			id = sc.order.CancelID
			err = moveCancel(ctx, w, sc, t)
		default:
			err = fault.New(fault.InternalError, "write transition")
		}
		if err != nil {
			return err
		}
		log.Kinds, log.Ids = append(log.Kinds, string(t.Subject)), append(log.Ids, id)
		log.Froms, log.Tos = append(log.Froms, string(t.From)), append(log.Tos, string(t.To))
	}
	return w.write.TransitionsInsert(ctx, log)
}

func moveOrder(ctx context.Context, w *work, sc *scene, t order.Transition, raises bool) error {
	p := sqlcgen.OrderMoveParams{ToStatus: string(t.To), OrderID: sc.order.OrderID, FromStatus: string(t.From), Version: sc.order.Version}
	if raises {
		p.RaiseBy = 1
	}
	err := w.write.OrderMove(ctx, p)
	sc.order.Status, sc.order.Version = string(t.To), sc.order.Version+1
	if t.To == order.OrderExpired || t.To == order.OrderCanceled {
		if err := w.write.StockRelease(ctx, sc.order.OrderID); err != nil {
			return err
		}
	}
	return err
}

func moveAttempt(ctx context.Context, w *work, sc *scene, t order.Transition, c order.Change, why cause) error {
	p := sqlcgen.AttemptMoveParams{
		ToStatus: string(t.To), AttemptID: sc.attempt.AttemptID, FromStatus: string(t.From), Version: sc.attempt.Version,
		Code: why.code, CloseReason: string(c.CloseReason), ReflectedSeq: sc.seen,
	}
	sc.reflected = max(sc.reflected, sc.seen)
	switch t.To {
	case order.AttemptUnknown, order.AttemptPending, order.AttemptDeclined, order.AttemptSent:
		at := time.Now().Add(sc.policy.ReviewCheckEvery)
		if due := sc.attempt.DueAt; due != nil && sc.attempt.HeldMinor == 0 && t.To == order.AttemptPending && due.Add(DueGrace).Before(at) {
			at = due.Add(DueGrace) // its deadline passes in silence at some providers, so we look by our own clock
		}
		p.NextCheckAt = &at
		p.NextAction = why.nextAction
	}
	sc.attempt.Status, sc.attempt.Version = string(t.To), sc.attempt.Version+1
	return w.write.AttemptMove(ctx, p)
}

func moveUnit(ctx context.Context, w *work, sc *scene, t order.Transition, c order.Change, why cause) error {
	p := sqlcgen.UnitMoveParams{ToStatus: string(t.To), UnitID: sc.unit.UnitID, FromStatus: string(t.From), Version: sc.unit.Version, Code: why.code}
	if c.NewOp {
		p.NewGeneration = 1
	}
	if t.To == order.UnitUnknown || t.To == order.UnitIssuing {
		at := time.Now().Add(sc.policy.ReviewCheckEvery)
		p.NextCheckAt = &at
	}
	sc.unit.Status, sc.unit.Version, sc.unit.Generation = string(t.To), sc.unit.Version+1, sc.unit.Generation+p.NewGeneration
	return w.write.UnitMove(ctx, p)
}

func writeReviews(ctx context.Context, w *work, sc *scene, c order.Change, about subject, why cause) error {
	kind, id, version := about.kind, about.id, about.version
	if len(c.Resolve) > 0 && about.settles {
		by := "evidence"
		if why.decision != "" {
			by = why.decision
		}
		reasons := make([]string, len(c.Resolve))
		for i, r := range c.Resolve {
			reasons[i] = string(r)
		}
		if err := w.write.ReviewsResolve(ctx, sqlcgen.ReviewsResolveParams{ResolvedBy: by, SubjectKind: string(kind), SubjectID: id, Reasons: reasons}); err != nil {
			return err
		}
	}
	if about.moved {
		if err := w.write.ReviewsTouch(ctx, sqlcgen.ReviewsTouchParams{SubjectVersion: version, SubjectKind: string(kind), SubjectID: id}); err != nil {
			return err
		}
	}
	for _, o := range c.Open {
		if o.Subject != kind {
			continue
		}
		orderID := sc.order.OrderID
		err := w.write.ReviewOpen(ctx, sqlcgen.ReviewOpenParams{
			ReviewID: string(order.NewReviewID()), OrderID: &orderID, SubjectKind: string(kind), SubjectID: id, SubjectVersion: version,
			Reason: string(o.Reason), Code: o.Code, Gateway: sc.otherSide(kind), NextCheckAt: time.Now().Add(sc.policy.ReviewCheckEvery),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// otherSide is who a review is about, for the queue's filter.
func (sc *scene) otherSide(kind order.SubjectKind) string {
	switch {
	case kind == order.SubjectUnit && sc.unit != nil:
		return sc.unit.Issuer
	case sc.attempt != nil:
		return sc.attempt.Gateway
	}
	return ""
}

// eventBody is what receivers get. It names ids, states and money, and nothing of the buyer.
type eventBody struct {
	Type      order.EventType `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      eventData       `json:"data"`
}

type eventData struct {
	OrderID   string `json:"order_id"`
	Status    string `json:"status"`
	Currency  string `json:"currency"`
	Total     int64  `json:"total_minor"`
	AttemptID string `json:"attempt_id,omitempty"`
	RefundID  string `json:"refund_id,omitempty"`
	Refund    int64  `json:"refund_minor,omitempty"`
}

func (s *Store) writeEvents(ctx context.Context, w *work, sc *scene, c order.Change) error {
	for _, t := range c.Events {
		body := eventBody{Type: t, Timestamp: time.Now().UTC(), Data: eventData{
			OrderID: sc.order.OrderID, Status: sc.order.Status, Currency: sc.order.Currency, Total: sc.order.TotalMinor,
		}}
		key := string(t)
		if sc.attempt != nil {
			body.Data.AttemptID = sc.attempt.AttemptID
		}
		if t == order.EventPaymentDeclined {
			key += "/" + sc.attempt.AttemptID
		}
		if t == order.EventRefundSucceeded || t == order.EventRefundFailed {
			key += "/" + sc.refund.RefundID
			body.Data.RefundID, body.Data.Refund = sc.refund.RefundID, sc.refund.AmountMinor
		}
		payload, err := json.Marshal(body)
		if err != nil {
			return err
		}
		err = w.write.OutboxInsertQueued(ctx, sqlcgen.OutboxInsertQueuedParams{
			EventID: string(order.NewEventID()), OrderID: sc.order.OrderID, Type: string(t), BusinessKey: key, Payload: payload, Receivers: s.opts.Receivers,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
