package store

import (
	"context"
	"encoding/json"
	"time"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Snapshot is what a run of the workflow decides by.
type Snapshot struct {
	OrderID         order.ID
	Status          order.Status
	Hold            order.Hold `json:",omitempty"` // why what is owed waits
	WorkSeq         int64
	DoneSeq         int64
	ExpiresAt       time.Time
	Policy          order.Policy
	Attempts        []AttemptHead
	InternalPlanned int64
	ExternalOpen    []UnitHead // units to issue or resolve that no review holds, a batch at most
	UnitCounts      map[order.Status]int64
	DeliveriesFresh int64 // events nobody has tried to deliver yet
	Reviews         []ReviewHead
	UnitsHeld       []order.UnitID `json:",omitempty"` // units a person has, the next to be asked about first; a few at a time
	Refunds         []RefundHead   `json:",omitempty"`
	Cancel          *CancelHead    `json:",omitempty"` // the order's cancel, until it is over
}

// RefundHead is a refund that is unfinished, has answers that were not reflected, or has to be asked about once more.
type RefundHead struct {
	ID          order.RefundID  `json:"id"`
	Attempt     order.AttemptID `json:"attempt_id"`
	Status      order.Status    `json:"status"`
	Gateway     string          `json:"gateway"`
	Account     string          `json:"account"`
	Environment string          `json:"environment"`
	Unreflected bool            `json:"unreflected"`
	Look        bool            `json:"look,omitempty"` // settled, and something says otherwise: a fresh answer decides (rule 5)
}

// AttemptHead is an attempt that is unclosed, has answers that were not reflected, or has to be asked about once more.
type AttemptHead struct {
	ID          order.AttemptID `json:"id"`
	Status      order.Status    `json:"status"`
	Gateway     string          `json:"gateway"`
	Account     string          `json:"account"`
	Environment string          `json:"environment"`
	Unreflected bool            `json:"unreflected"`
	Closed      bool            `json:"closed"`
	Look        bool            `json:"look,omitempty"`    // settled, and a stale answer says otherwise: a fresh one decides (rule 5)
	Capture     bool            `json:"capture,omitempty"` // the bank holds its money, and somebody has asked for it
}

// UnitHead is a unit to work on.
type UnitHead struct {
	ID     order.UnitID `json:"id"`
	Status order.Status `json:"status"`
}

// ReviewHead is an open review.
type ReviewHead struct {
	ID          order.ReviewID     `json:"id"`
	Version     int64              `json:"version"`
	Reason      order.ReviewReason `json:"reason"`
	SubjectKind order.SubjectKind  `json:"subject_kind"`
	SubjectID   string             `json:"subject_id"`
	Owner       string             `json:"owner"`
	OpenedAt    time.Time          `json:"opened_at"`
}

// Snapshot loads an order in one round trip.
func (s *Store) Snapshot(ctx context.Context, id order.ID, batch int) (Snapshot, error) {
	row, err := s.q().OrderSnapshot(ctx, int32(batch), string(id))
	if err != nil {
		return Snapshot{}, translate("load order", err)
	}
	p, err := readPolicy(row.Order.Policy)
	if err != nil {
		return Snapshot{}, fault.Wrap(fault.InternalError, "load order", err)
	}
	out := Snapshot{
		OrderID: id, Status: order.Status(row.Order.Status), Hold: order.Hold(row.Order.Hold), WorkSeq: row.Order.WorkSeq, DoneSeq: row.Order.DoneSeq, ExpiresAt: row.Order.ExpiresAt,
		Policy: p, InternalPlanned: row.InternalPlanned, DeliveriesFresh: row.DeliveriesFresh,
	}
	if out.Cancel, err = readCancelHead(row.Cancel); err != nil {
		return Snapshot{}, err
	}
	for _, part := range []struct {
		from []byte
		to   any
	}{
		{row.Attempts, &out.Attempts},
		{row.ExternalOpen, &out.ExternalOpen},
		{row.UnitCounts, &out.UnitCounts},
		{row.Reviews, &out.Reviews},
		{row.UnitsHeld, &out.UnitsHeld},
		{row.Refunds, &out.Refunds},
	} {
		if err := json.Unmarshal(part.from, part.to); err != nil {
			return Snapshot{}, fault.Wrap(fault.InternalError, "load order", err)
		}
	}
	return out, nil
}

// Rest marks the order's work as done, if it is still the work the run has seen (rule 8). False means that more came.
func (s *Store) Rest(ctx context.Context, id order.ID, seen int64) (bool, error) {
	n, err := s.lazy().OrderRest(ctx, seen, string(id))
	return n == 1, translate("rest", err)
}

// OrderStuck opens the review of an order whose step keeps failing by a fault of our own: nothing is guessed, a person looks.
func (s *Store) OrderStuck(ctx context.Context, id order.ID, code string) error {
	return translate("open review", s.q().ReviewOpen(ctx, sqlcgen.ReviewOpenParams{
		ReviewID: string(order.NewReviewID()), OrderID: ptr(string(id)), SubjectKind: string(order.SubjectOrder), SubjectID: string(id),
		Reason: string(order.ReviewRepeatedFailure), Code: code, NextCheckAt: time.Now().Add(order.DefaultPolicy().ReviewCheckEvery),
	}))
}

// OrderRecovered ends that review: the step went through.
func (s *Store) OrderRecovered(ctx context.Context, id order.ID) error {
	return translate("resolve review", s.q().ReviewsResolve(ctx, sqlcgen.ReviewsResolveParams{
		ResolvedBy: "evidence", SubjectKind: string(order.SubjectOrder), SubjectID: string(id), Reasons: []string{string(order.ReviewRepeatedFailure)},
	}))
}

// RaiseWork notes that there is something to do, so that a sweep starts a run if nobody else does.
func (s *Store) RaiseWork(ctx context.Context, id order.ID) error {
	return translate("raise work", s.q().OrderRaiseWork(ctx, string(id)))
}
