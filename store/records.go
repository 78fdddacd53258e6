package store

import (
	"context"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Records lists what was sold, received and given back for one order, as triggers recorded it, oldest first. Another client's order is not
// found; an empty client reads any: for operators.
func (s *Store) Records(ctx context.Context, client order.ClientID, id order.ID) ([]sqlcgen.TransactionRecord, error) {
	const op = "read records"
	if _, err := s.RecordsNumber(ctx); err != nil {
		return nil, err
	}
	var o sqlcgen.Order
	var rows []sqlcgen.TransactionRecord
	if err := s.readTogether(ctx,
		func(q *sqlcgen.Queries) (err error) { o, err = q.OrderGet(ctx, string(id)); return },
		func(q *sqlcgen.Queries) (err error) { rows, err = q.RecordsByOrder(ctx, string(id)); return },
	); err != nil {
		return nil, translate(op, err)
	}
	if client != "" && o.ClientID != string(client) {
		return nil, fault.New(fault.NotFound, op)
	}
	return rows, nil
}

// RecordsAfter lists a client's records by their number, after the one named: the next page of its books.
func (s *Store) RecordsAfter(ctx context.Context, client order.ClientID, number int64, max int) ([]sqlcgen.TransactionRecord, error) {
	rows, err := s.q().RecordsByNumber(ctx, sqlcgen.RecordsByNumberParams{ClientID: string(client), AfterNumber: number, MaxRows: int32(max)})
	return rows, translate("read records", err)
}

// recordsBatch is how many records one transaction numbers.
const recordsBatch = 1000

// RecordsNumber gives every record that has none the next number of its client, without a gap, and says how many there were. While another
// process does it, nothing is done. Records are made without a number, so that orders of one client never wait for each other.
func (s *Store) RecordsNumber(ctx context.Context) (int64, error) {
	var all int64
	for {
		var n int64
		err := s.inTx(ctx, "number records", func(ctx context.Context, w *work) (err error) {
			n = 0
			mine, err := w.read.RecordsNumberLock(ctx)
			if err != nil || !mine {
				return err
			}
			n, err = w.read.RecordsNumber(ctx, recordsBatch)
			return err
		})
		all += n
		if err != nil || n < recordsBatch {
			return all, err
		}
	}
}
