package main

import (
	"context"

	"orderflow/order"
	"orderflow/store"
)

type settledCommand struct {
	Order     string `required:"" help:"The order that was paid by other means, such as in cash or by a transfer to the house bank."`
	Actor     string `required:"" help:"Who saw the money. It is stored as claimed: nobody checks it here."`
	Reason    string `required:"" help:"Why it is recorded, in words somebody else understands later."`
	Reference string `required:"" help:"What the money is known by: a receipt, a line of a bank statement."`
	Proof     string `required:"" help:"What was looked at, in words."`
}

// Run asks the question and decides it: the order is owed from then on, whatever its attempts come to.
func (c settledCommand) Run(ctx context.Context, s *streams) error {
	review, err := c.ask(ctx, s)
	if err != nil {
		return err
	}
	return decideCommand{
		Review: string(review), Decision: string(order.DecideRecordExternal), Actor: c.Actor, Reason: c.Reason, Reference: c.Reference, Proof: c.Proof,
	}.Run(ctx, s)
}

func (c settledCommand) ask(ctx context.Context, s *streams) (order.ReviewID, error) {
	conf, _, err := s.load()
	if err != nil {
		return "", err
	}
	st, err := store.Open(ctx, conf.DatabaseURL.Reveal(), 2, store.Options{Receivers: conf.ReceiverNames()})
	if err != nil {
		return "", err
	}
	defer st.Close()
	return st.SettledElsewhere(ctx, order.ID(c.Order))
}
