package store

import (
	"context"
	"encoding/json"
	"time"

	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// PaidOrder is an order whose money is held and whose goods are owed.
type PaidOrder struct {
	ID          order.ID
	Client      order.ClientID
	Currency    string
	TotalMinor  int64
	PaidAt      time.Time
	Units       int64
	Issued      int64
	Unknown     int64 // units of which nobody knows whether they were provided
	ReviewsOpen int64
}

// PaidWaiting lists paid orders that are not provided, the longest first, a page at a time: after is the last page's last order.
func (s *Store) PaidWaiting(ctx context.Context, afterAt time.Time, afterID order.ID, limit int) ([]PaidOrder, error) {
	rows, err := s.q().OrdersPaidWaiting(ctx, sqlcgen.OrdersPaidWaitingParams{AfterAt: afterAt, AfterID: string(afterID), MaxRows: int32(min(max(limit, 1), MaxQueuePage+1))})
	out := make([]PaidOrder, len(rows))
	for i, r := range rows {
		out[i] = PaidOrder{
			ID: order.ID(r.OrderID), Client: order.ClientID(r.ClientID), Currency: r.Currency, TotalMinor: r.TotalMinor, Units: r.Units, Issued: r.Issued,
			Unknown: r.Unknown, ReviewsOpen: r.ReviewsOpen,
		}
		if r.PaidAt != nil {
			out[i].PaidAt = *r.PaidAt
		}
	}
	return out, translate("list paid orders", err)
}

// Hit is something that an exact id names.
type Hit struct {
	Kind  string // "order", "attempt", "payment", "reference", "refund", "unit", "operation" or "review"
	ID    string
	Order order.ID // empty where no order of ours explains it
}

// Search finds what an exact id names: ours, or a provider's id or our reference there. Parts of ids find nothing: money is never
// linked by what looks alike.
func (s *Store) Search(ctx context.Context, q string) ([]Hit, error) {
	rows, err := s.q().SearchIDs(ctx, q)
	var out []Hit
	seen := map[Hit]bool{}
	for _, r := range rows {
		h := Hit{Kind: r.Kind, ID: r.ID, Order: order.ID(r.OrderID)}
		if !seen[h] {
			seen[h], out = true, append(out, h)
		}
	}
	return out, translate("search", err)
}

// Act is what somebody decided, or did, or was refused.
type Act struct {
	At             time.Time
	ID             string // where a page ended
	Order          order.ID
	Review         order.ReviewID
	Actor          string
	Role           string
	Claimed        bool // nobody checked who the actor is
	Channel        string
	Act            string // a decision, or the word of the audit log
	Reason         string
	Evidence       order.Evidence
	Why            string // of a refusal
	Decision       string // that was refused
	Approver       string
	ApproverReason string
}

// Acts lists the audit, the newest first, a page at a time: before is where the last page ended; the zero time is now.
func (s *Store) Acts(ctx context.Context, before time.Time, beforeID string, limit int) ([]Act, error) {
	if before.IsZero() {
		before = time.Now().Add(time.Hour)
	}
	rows, err := s.q().AuditPage(ctx, sqlcgen.AuditPageParams{BeforeAt: before, BeforeID: beforeID, MaxRows: int32(min(max(limit, 1), MaxQueuePage+1))})
	out := make([]Act, len(rows))
	for i, r := range rows {
		out[i] = Act{
			At: r.At, ID: r.ID, Order: order.ID(r.OrderID), Review: order.ReviewID(r.ReviewID), Actor: r.Actor, Role: r.Role, Claimed: r.Claimed,
			Channel: r.Channel, Act: r.Act, Reason: r.Reason, Approver: r.Approver, ApproverReason: r.ApproverReason,
		}
		var detail struct {
			order.Evidence
			Why      string `json:"why"`
			Decision string `json:"decision"`
		}
		if json.Unmarshal(r.Detail, &detail) == nil {
			out[i].Evidence, out[i].Why, out[i].Decision = detail.Evidence, detail.Why, detail.Decision
		}
	}
	return out, translate("list the audit", err)
}
