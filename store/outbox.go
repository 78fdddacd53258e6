package store

import (
	"context"
	"time"

	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Delivery is one event that this caller has leased for one receiver.
type Delivery struct {
	EventID   string
	Receiver  string
	Tries     int // this one included
	Payload   []byte
	CreatedAt time.Time
}

// DeliveriesClaim leases the order's due deliveries, in order per receiver.
func (s *Store) DeliveriesClaim(ctx context.Context, id order.ID, lease time.Duration) ([]Delivery, error) {
	rows, err := s.lazy().DeliveriesClaim(ctx, lease, string(id))
	if err != nil {
		return nil, translate("claim deliveries", err)
	}
	out := make([]Delivery, len(rows))
	seqs := make(map[string]int32, len(rows))
	for i, r := range rows {
		out[i] = Delivery{EventID: r.EventID, Receiver: r.Receiver, Tries: int(r.Tries), Payload: r.Payload, CreatedAt: r.CreatedAt}
		seqs[r.EventID] = r.Seq
	}
	sortBySeq(out, seqs)
	return out, nil
}

func sortBySeq(ds []Delivery, seqs map[string]int32) {
	for i := 1; i < len(ds); i++ {
		for j := i; j > 0 && seqs[ds[j].EventID] < seqs[ds[j-1].EventID]; j-- {
			ds[j], ds[j-1] = ds[j-1], ds[j]
		}
	}
}

// DeliveryResult is what became of one leased delivery.
type DeliveryResult struct {
	EventID  string
	Receiver string
	Taken    bool      // the receiver answered 2xx
	NotSent  bool      // an earlier one of the same receiver failed, so this one was held back
	Parked   bool      // no further try without a person
	Code     string    // fault code of a failed try
	NextTry  time.Time // for a failed or held back one
}

// DeliveriesRecord writes the results of a round of sends, and says how many deliveries of the order are still pending.
func (s *Store) DeliveriesRecord(ctx context.Context, id order.ID, results []DeliveryResult) error {
	return s.inTx(ctx, "record deliveries", func(ctx context.Context, w *work) error {
		var events, receivers []string
		for _, r := range results {
			var err error
			switch {
			case r.Taken:
				events, receivers = append(events, r.EventID), append(receivers, r.Receiver)
			case r.NotSent:
				err = w.write.DeliveryReturned(ctx, sqlcgen.DeliveryReturnedParams{NextTryAt: r.NextTry, EventID: r.EventID, Receiver: r.Receiver})
			default:
				err = s.deliveryFailed(ctx, w, id, r)
			}
			if err != nil {
				return err
			}
		}
		if len(events) == len(results) {
			w.lazily() // a failure may open a review, which a person relies on
		}
		if len(events) == 0 {
			return nil
		}
		return w.write.DeliveriesDone(ctx, events, receivers)
	})
}

func (s *Store) deliveryFailed(ctx context.Context, w *work, id order.ID, r DeliveryResult) error {
	status := "pending"
	if r.Parked {
		status = "parked"
		err := w.write.ReviewOpen(ctx, sqlcgen.ReviewOpenParams{
			ReviewID: string(order.NewReviewID()), OrderID: ptr(string(id)), SubjectKind: string(order.SubjectEvent), SubjectID: r.EventID + "/" + r.Receiver,
			Reason: string(order.ReviewPoisonEvent), Code: r.Code, Gateway: r.Receiver, NextCheckAt: time.Now().Add(24 * time.Hour),
		})
		if err != nil {
			return err
		}
	}
	return w.write.DeliveryFailed(ctx, sqlcgen.DeliveryFailedParams{NextTryAt: r.NextTry, Code: r.Code, Status: status, EventID: r.EventID, Receiver: r.Receiver})
}

// DeliveriesOpen counts what is still pending.
func (s *Store) DeliveriesOpen(ctx context.Context, id order.ID) (int64, error) {
	n, err := s.q().DeliveriesOpen(ctx, string(id))
	return n, translate("count deliveries", err)
}

// DeliveriesDue names orders with deliveries that are due since at least minAge: the relay's work.
func (s *Store) DeliveriesDue(ctx context.Context, minAge time.Duration, max int) ([]order.ID, error) {
	rows, err := s.q().DeliveriesDueOrders(ctx, minAge, int32(max))
	out := make([]order.ID, len(rows))
	for i, r := range rows {
		out[i] = order.ID(r)
	}
	return out, translate("list due deliveries", err)
}
