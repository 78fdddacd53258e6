package store

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Head is what an order's three states are made of.
type Head struct {
	Order             sqlcgen.Order
	Attempts          []AttemptState // oldest first
	CapturedMinor     int64          // of payments that match an attempt
	RefundedMinor     int64
	Away              Away
	PaymentsUnmatched int64 // money that fits no attempt as it should
	Units             map[order.Status]int64
	ReviewsOpen       int64
}

// Away is captured money that is not here although nobody refunded it, in minor units of the order's currency.
type Away struct {
	Disputed  int64 `json:"open"`       // the buyer's bank may take it
	Lost      int64 `json:"lost"`       // and has
	TakenBack int64 `json:"taken_back"` // deposits that the bank corrected
}

// AttemptState is an attempt as the roll-up sees it.
type AttemptState struct {
	ID          order.AttemptID   `json:"id"`
	Status      order.Status      `json:"status"`
	CloseReason order.CloseReason `json:"close_reason"`
	Code        string            `json:"code"`
	Closed      bool              `json:"closed"`
	Held        bool              `json:"held"`      // the bank holds the money until it is captured
	Capturing   bool              `json:"capturing"` // and somebody has asked for it
	Part        bool              `json:"part"`      // less was captured than was asked for, and the rest never will be
}

// Part reports that an attempt took only a part of what was asked for.
func (h Head) Part(id order.AttemptID) bool {
	for _, a := range h.Attempts {
		if a.ID == id {
			return a.Part
		}
	}
	return false
}

// OrderHead reads an order of the client; another client's order is not found, exactly like one that does not exist. An
// empty client reads any order: for operators.
func (s *Store) OrderHead(ctx context.Context, client order.ClientID, id order.ID) (Head, error) {
	return orderHead(ctx, s.q(), client, id)
}

// AttemptHead reads an attempt and the head of its order, which must be the client's, in one round trip.
func (s *Store) AttemptHead(ctx context.Context, client order.ClientID, id order.ID, attempt order.AttemptID) (sqlcgen.PaymentAttempt, Head, error) {
	var a sqlcgen.PaymentAttempt
	var row sqlcgen.OrderHeadRow
	if err := s.readTogether(ctx,
		func(q *sqlcgen.Queries) (err error) { a, err = q.AttemptGet(ctx, string(attempt)); return },
		func(q *sqlcgen.Queries) (err error) { row, err = q.OrderHead(ctx, string(id)); return },
	); err != nil {
		return a, Head{}, translate("read attempt", err)
	}
	h, err := headOf(row, client)
	return a, h, err
}

func orderHead(ctx context.Context, q *sqlcgen.Queries, client order.ClientID, id order.ID) (Head, error) {
	row, err := q.OrderHead(ctx, string(id))
	if err != nil {
		return Head{}, translate("read order", err)
	}
	return headOf(row, client)
}

func headOf(row sqlcgen.OrderHeadRow, client order.ClientID) (Head, error) {
	if client != "" && row.Order.ClientID != string(client) {
		return Head{}, fault.New(fault.NotFound, "read order")
	}
	h := Head{
		Order: row.Order, CapturedMinor: row.CapturedMinor, RefundedMinor: row.RefundedMinor, PaymentsUnmatched: row.PaymentsUnmatched,
		ReviewsOpen: row.ReviewsOpen,
	}
	if err := json.Unmarshal(row.Attempts, &h.Attempts); err != nil {
		return h, fault.Wrap(fault.InternalError, "read order", err)
	}
	if err := json.Unmarshal(row.Away, &h.Away); err != nil {
		return h, fault.Wrap(fault.InternalError, "read order", err)
	}
	if err := json.Unmarshal(row.UnitCounts, &h.Units); err != nil {
		return h, fault.Wrap(fault.InternalError, "read order", err)
	}
	return h, nil
}

// View is everything an order is known by, as one moment saw it.
type View struct {
	Head         Head
	Lines        []sqlcgen.OrderLine
	Adjustments  []sqlcgen.OrderAdjustment
	Attempts     []sqlcgen.PaymentAttempt
	Operations   []sqlcgen.OperationsByOrderRow
	Payments     []sqlcgen.Payment
	Refunds      []sqlcgen.Refund
	Cancel       *sqlcgen.Cancel // nil = nobody asked for one
	Units        []sqlcgen.UnitsByOrderRow
	Issuances    []sqlcgen.Issuance
	Deliveries   []sqlcgen.DeliveriesByOrderRow
	Reviews      []sqlcgen.Review
	Decisions    []sqlcgen.ReviewDecision
	Transitions  []sqlcgen.Transition
	Observations []sqlcgen.Observation
}

// OrderView reads an order with all that belongs to it in one snapshot. Ownership is as in OrderHead.
func (s *Store) OrderView(ctx context.Context, client order.ClientID, id order.ID) (View, error) {
	var v View
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		q, key := sqlcgen.New(tx), string(id)
		var err error
		if v.Head, err = orderHead(ctx, q, client, id); err != nil {
			return err
		}
		steps := []func() error{
			func() (err error) { v.Lines, err = q.OrderLinesGet(ctx, key); return },
			func() (err error) { v.Adjustments, err = q.OrderAdjustmentsGet(ctx, key); return },
			func() (err error) { v.Attempts, err = q.AttemptsByOrder(ctx, key); return },
			func() (err error) { v.Operations, err = q.OperationsByOrder(ctx, key); return },
			func() (err error) { v.Payments, err = q.PaymentsByOrder(ctx, &key); return },
			func() (err error) { v.Refunds, err = q.RefundsByOrder(ctx, key); return },
			func() (err error) { v.Cancel, err = cancelOf(ctx, q, v.Head.Order); return },
			func() (err error) { v.Units, err = q.UnitsByOrder(ctx, key); return },
			func() (err error) { v.Issuances, err = q.IssuancesByOrder(ctx, key); return },
			func() (err error) { v.Deliveries, err = q.DeliveriesByOrder(ctx, key); return },
			func() (err error) { v.Reviews, err = q.ReviewsByOrder(ctx, &key); return },
			func() (err error) { v.Decisions, err = q.DecisionsByOrder(ctx, &key); return },
			func() (err error) { v.Transitions, err = q.TransitionsByOrder(ctx, key); return },
			func() (err error) { v.Observations, err = q.ObservationsByOrder(ctx, key); return },
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	return v, translate("read order", err)
}

// AttemptByCallerKey finds the attempt a caller's key made, for a request that comes again. Not found is a fault.
func (s *Store) AttemptByCallerKey(ctx context.Context, client order.ClientID, key string) (sqlcgen.PaymentAttempt, error) {
	a, err := s.q().AttemptByCallerKey(ctx, string(client), key)
	return a, translate("read attempt", err)
}

// AttemptUnclosed finds the attempt of an order that may still take money. Not found is a fault.
func (s *Store) AttemptUnclosed(ctx context.Context, id order.ID) (sqlcgen.PaymentAttempt, error) {
	a, err := s.q().AttemptUnclosed(ctx, string(id))
	return a, translate("read attempt", err)
}
