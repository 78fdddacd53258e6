package store

import (
	"context"
	"time"

	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// OpenWork is an order whose work is not done.
type OpenWork struct {
	Order order.ID
	Fresh bool // its run was not told of this work yet
	Seq   int64
}

// OrdersWithWork names orders whose work is not done and has not moved for minAge, and puts their next look off by again, and
// by more when nothing new has come. It touches open work only.
func (s *Store) OrdersWithWork(ctx context.Context, minAge, again time.Duration, max int) ([]OpenWork, error) {
	rows, err := s.q().OrdersWithWork(ctx, sqlcgen.OrdersWithWorkParams{AgainAfter: again, MinAge: minAge, MaxRows: int32(max)})
	out := make([]OpenWork, len(rows))
	for i, r := range rows {
		out[i] = OpenWork{Order: order.ID(r.OrderID), Fresh: r.Fresh, Seq: r.WorkSeq}
	}
	return out, translate("list orders with work", err)
}

// OrdersTold notes which work runs were told of. Until then it stays fresh.
func (s *Store) OrdersTold(ctx context.Context, told []OpenWork) error {
	if len(told) == 0 {
		return nil
	}
	ids, seqs := make([]string, len(told)), make([]int64, len(told))
	for i, o := range told {
		ids[i], seqs[i] = string(o.Order), o.Seq
	}
	return translate("note what was told", s.q().OrdersTold(ctx, ids, seqs))
}

// OrdersLapsed names open orders whose time is over and that hold no unclosed attempt.
func (s *Store) OrdersLapsed(ctx context.Context, max int) ([]order.ID, error) {
	rows, err := s.q().OrdersLapsed(ctx, int32(max))
	out := make([]order.ID, len(rows))
	for i, r := range rows {
		out[i] = order.ID(r)
	}
	return out, translate("list lapsed orders", err)
}

// Due is a subject whose next check time has come.
type Due struct {
	Order   order.ID
	Subject string
}

// ChecksDue names attempts, units and refunds to look up again, and puts their next look off by again.
func (s *Store) ChecksDue(ctx context.Context, again time.Duration, max int) ([]Due, error) {
	var out []Due
	attempts, err := s.q().AttemptsToCheck(ctx, again, int32(max))
	if err != nil {
		return nil, translate("list due lookups", err)
	}
	for _, a := range attempts {
		out = append(out, Due{Order: order.ID(a.OrderID), Subject: a.AttemptID})
	}
	units, err := s.q().UnitsToCheck(ctx, again, int32(max))
	if err != nil {
		return nil, translate("list due lookups", err)
	}
	for _, u := range units {
		out = append(out, Due{Order: order.ID(u.OrderID), Subject: u.UnitID})
	}
	refunds, err := s.RefundsToCheck(ctx, again, max)
	return append(out, refunds...), err
}

// RefundsToCheck names refunds to look up again, and puts their next look off by again; ever more rarely.
func (s *Store) RefundsToCheck(ctx context.Context, again time.Duration, max int) ([]Due, error) {
	rows, err := s.q().RefundsToCheck(ctx, again, int32(max))
	out := make([]Due, len(rows))
	for i, r := range rows {
		out[i] = Due{Order: order.ID(r.OrderID), Subject: r.RefundID}
	}
	return out, translate("list due lookups", err)
}
