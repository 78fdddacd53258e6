package store

import (
	"context"
	"time"
)

// pruneBatch is how many rows one statement forgets: it has ten seconds, and holds its locks no longer.
const pruneBatch = 10_000

// inBatches calls prune until it finds less than a whole batch, and counts.
func inBatches(op string, prune func(max int32) (int64, error)) (int64, error) {
	var all int64
	for n := int64(pruneBatch); n == pruneBatch; {
		var err error
		if n, err = prune(pruneBatch); err != nil {
			return all, translate(op, err)
		}
		all += n
	}
	return all, nil
}

// KeysPrune forgets rate buckets that are full again, and stored answers older than maxAge. What they guarded stays guarded: an order by its
// id and caller key, an attempt and a refund by theirs (rule 10).
func (s *Store) KeysPrune(ctx context.Context, maxAge time.Duration) (int64, error) {
	if err := s.q().BucketsPrune(ctx); err != nil {
		return 0, translate("prune rate buckets", err)
	}
	return inBatches("prune idempotency keys", func(max int32) (int64, error) { return s.q().KeysPrune(ctx, maxAge, max) })
}

// ReceiptsPrune forgets processed receipts older than maxAge, and those that nothing proves and that met no attempt after a day. A replay
// of one is stored and looked at as a new one: what it told is in the attempt's state, so it has no second effect (S13).
func (s *Store) ReceiptsPrune(ctx context.Context, maxAge time.Duration) (int64, error) {
	const op = "prune webhooks"
	n, err := inBatches(op, func(max int32) (int64, error) { return s.q().ReceiptsPrune(ctx, maxAge, max) })
	if err != nil {
		return n, err
	}
	m, err := inBatches(op, func(max int32) (int64, error) { return s.q().HintsPrune(ctx, min(maxAge, 24*time.Hour), max) })
	return n + m, err
}

// DeliveriesPrune forgets who was told of events more than maxAge ago. The events stay, so none is told a second time.
func (s *Store) DeliveriesPrune(ctx context.Context, maxAge time.Duration) (int64, error) {
	return inBatches("prune deliveries", func(max int32) (int64, error) { return s.q().DeliveriesPrune(ctx, maxAge, max) })
}

// RequestsForget erases the requests of payments that have ended and were last sent more than minAge ago: a buyer's token in one is
// of no use any more. The operations stay, with their keys and fingerprints (rule 10).
func (s *Store) RequestsForget(ctx context.Context, minAge time.Duration) (int64, error) {
	return inBatches("forget requests", func(max int32) (int64, error) { return s.q().RequestsForget(ctx, minAge, max) })
}
