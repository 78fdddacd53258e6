package api

import (
	"bytes"
	"context"

	"orderflow/internal/cleantext"
	"orderflow/order"
	"orderflow/starter/view"
)

// RecordsView lists an order's transaction records, oldest first.
type RecordsView struct {
	Records []view.Record `json:"records"`
}

type recordsOutput struct{ Body RecordsView }

type recordsCSVOutput struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (a *API) records(ctx context.Context, id string) ([]view.Record, error) {
	if cleantext.OrderID(id) != nil {
		return nil, problem(typeNotFound, "") // no order can have this id
	}
	rows, err := a.d.Store.Records(ctx, callerOf(ctx).Client, order.ID(id))
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	return view.RecordsOf(rows), nil
}

func (a *API) readRecords(ctx context.Context, in *readInput) (*recordsOutput, error) {
	rs, err := a.records(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &recordsOutput{Body: RecordsView{rs}}, nil
}

func (a *API) readRecordsCSV(ctx context.Context, in *readInput) (*recordsCSVOutput, error) {
	rs, err := a.records(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := view.NewRecordWriter(&b).Write(rs); err != nil {
		return nil, a.failure(ctx, err)
	}
	return &recordsCSVOutput{ContentType: "text/csv; charset=utf-8; header=present", Body: b.Bytes()}, nil
}
