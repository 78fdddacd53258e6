package main

import (
	"context"
	"encoding/json"
	"errors"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/starter/view"
	"orderflow/store"
)

type recordsCommand struct {
	Order  string `arg:"" optional:"" help:"The order's id; left out, all records of --client by their number."`
	Client string `help:"Whose records, without an order."`
	After  int64  `help:"Without an order: only records with a greater number."`
	CSV    bool   `name:"csv" help:"As CSV, amounts in main units; otherwise one JSON object per line, amounts in minor units."`
}

// recordsPage is how many records are read at a time.
const recordsPage = 500

// Run writes the transaction records of one order, or of all orders of a client.
func (r recordsCommand) Run(ctx context.Context, s *streams) error {
	if (r.Order == "") == (r.Client == "") || (r.Order != "" && r.After != 0) {
		return errors.New("name an order, or --client with or without --after")
	}
	c, _, err := s.load()
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, c.DatabaseURL.Reveal(), 2, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	csv := view.NewRecordWriter(s.out)
	write := func(records []view.Record) error {
		if r.CSV {
			return csv.Write(records)
		}
		e := json.NewEncoder(s.out)
		e.SetEscapeHTML(false)
		for _, one := range records {
			if err := e.Encode(one); err != nil {
				return err
			}
		}
		return nil
	}
	if r.Order == "" {
		return r.all(ctx, st, write)
	}
	rows, err := st.Records(ctx, "", order.ID(r.Order))
	if fault.IsCode(err, fault.NotFound) {
		say(s, "there is no such order")
		return exitCode(3)
	}
	if err != nil {
		return err
	}
	return write(view.RecordsOf(rows))
}

// all pages through the books of one client.
func (r recordsCommand) all(ctx context.Context, st *store.Store, write func([]view.Record) error) error {
	if _, err := st.RecordsNumber(ctx); err != nil {
		return err
	}
	for after, first := r.After, true; ; first = false {
		rows, err := st.RecordsAfter(ctx, order.ClientID(r.Client), after, recordsPage)
		if err != nil {
			return err
		}
		if len(rows) == 0 && !first {
			return nil
		}
		if err := write(view.RecordsOf(rows)); err != nil {
			return err
		}
		if len(rows) < recordsPage {
			return nil
		}
		after = *rows[len(rows)-1].Number
	}
}
