package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"orderflow/internal/door"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store"
)

type decideCommand struct {
	Review     string `required:"" help:"The review's id (rev_…)."`
	Decision   string `required:"" help:"One of the decisions that explain lists as allowed."`
	Actor      string `required:"" help:"Who decides. It is stored as claimed: nobody checks it here."`
	Reason     string `required:"" help:"Why, in words somebody else understands later."`
	Reference  string `help:"The other side's id that the decision rests on."`
	Proof      string `help:"What was looked at, in words."`
	Amount     string `help:"For refund: how much, as a decimal in the payment's currency such as 12.50; left out, all that is left."`
	Attempt    string `help:"For link_payment: the attempt (att_…) whose payment it is."`
	Version    int64  `help:"The review's version as you saw it; a moved one is refused. 0 takes whatever is current."`
	DecisionID string `help:"Makes a repeat recognizable; left out, it is made from the content."`
}

// Run stores the decision and tells the order's workflow to look again.
func (d decideCommand) Run(ctx context.Context, s *streams) error {
	c, log, err := s.load()
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, c.DatabaseURL.Reveal(), 2, store.Options{Receivers: c.ReceiverNames(), Decisions: c.DecisionRules()})
	if err != nil {
		return err
	}
	defer st.Close()
	box, err := c.Box()
	if err != nil {
		return err
	}
	accounts, err := c.OpenGateways()
	if err != nil {
		return err
	}
	minor, err := d.minor(ctx, st)
	if err != nil {
		return err
	}
	res, orderID, err := st.Decide(ctx, order.Decision{
		ReviewID: order.ReviewID(d.Review), ReviewVersion: d.Version, DecisionID: d.DecisionID, Decision: order.DecisionKind(d.Decision),
		Actor: d.Actor, Reason: d.Reason, Evidence: order.Evidence{Reference: d.Reference, Proof: d.Proof},
		AmountMinor: minor, AttemptID: order.AttemptID(d.Attempt),
	}, order.Actor{Role: order.RoleOperator, Channel: order.ChannelCommandLine}, door.New(box, accounts))
	if err != nil {
		return err
	}
	e := json.NewEncoder(s.out)
	e.SetIndent("", "  ")
	if err := e.Encode(res); err != nil {
		return err
	}
	if res.Verdict == order.Proposed {
		say(s, "the decision is kept as a proposal: it takes effect when a second person approves it")
		return nil
	}
	if res.Verdict != order.Applied {
		say(s, "the decision is refused: "+res.Why)
		return exitCode(2)
	}
	if orderID == "" {
		return nil
	}
	en, closeClient, err := openEngine(c, log)
	if err != nil {
		return err
	}
	defer closeClient()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := en.LookAgain(ctx, orderID, "operator", d.Review); err != nil {
		say(s, "the decision is stored; Temporal does not answer, so the sweep will act on it")
	}
	return nil
}

// minor converts the amount exactly, in the currency of the review's order, or refuses it.
func (d decideCommand) minor(ctx context.Context, st *store.Store) (int64, error) {
	if d.Amount == "" {
		return 0, nil
	}
	f, err := st.ReviewFile(ctx, "", order.ReviewID(d.Review))
	if err != nil {
		return 0, err
	}
	if f.Order == nil {
		return 0, errors.New("this review is about no order, so it has no amount: leave --amount out")
	}
	a, err := money.Parse(d.Amount, money.Currency(f.Order.Currency))
	return a.Minor, err
}
