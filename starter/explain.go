package main

import (
	"context"
	"encoding/json"
	"time"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/starter/view"
	"orderflow/store"
)

type explainCommand struct {
	Order string `arg:"" help:"The order's id."`
	JSON  bool   `help:"As JSON."`
}

// Run explains one order from the database; neither worker nor Temporal has to be up.
func (x explainCommand) Run(ctx context.Context, s *streams) error {
	c, _, err := s.load()
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, c.DatabaseURL.Reveal(), 2, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	box, err := c.Box()
	if err != nil {
		return err
	}
	v, err := st.OrderView(ctx, "", order.ID(x.Order))
	if fault.IsCode(err, fault.NotFound) {
		say(s, "there is no such order")
		return exitCode(3)
	}
	if err != nil {
		return err
	}
	o := view.OrderOf(v, box)
	if x.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(o)
	}
	return view.Text(s.out, o, time.Now())
}
