package scripts

import (
	"context"
	"fmt"
	"net/http"
)

// need names the event that has to come before another one for it to mean anything.
type need string

const (
	needMoney   need = "charge"
	needDeposit need = "deposit"
	needDecline need = "decline"
)

// Event is one thing that happens to an order's money. Its error means that the test itself is broken; what the product or a provider
// refuses is noted in the play.
type Event struct {
	Name  string
	Needs need
	Pays  bool
	At    []string // the gateways where it exists; none = everywhere
	Do    func(ctx context.Context, p *Play) error
}

func (e *Event) existsAt(p *provider) bool {
	for _, g := range e.At {
		if g == p.gateway {
			return true
		}
	}
	return len(e.At) == 0
}

func (e *Event) brings(has map[need]bool) {
	has[need(e.Name)] = true
	if e.Pays {
		has[needMoney] = true
	}
}

// Total is the amount of every script's order, and Part what partial refunds give back. Minor units.
const (
	Total = 600
	Part  = 250
)

// events are all of them. Another one is a row here, what it does below, and its part of the judgment in expected.go.
var events = []*Event{
	{Name: "charge", Pays: true, Do: func(ctx context.Context, p *Play) error { return p.pay(ctx, p.psp.card) }},
	{Name: "decline", Do: func(ctx context.Context, p *Play) error { return p.pay(ctx, p.psp.refused) }},
	{Name: "deposit", Pays: true, Do: deposit},
	{Name: "cancel", Do: cancel},
	{Name: "refund", Needs: needMoney, Do: func(ctx context.Context, p *Play) error { return p.refund(ctx, 0) }},
	{Name: "partial_refund", Needs: needMoney, Do: func(ctx context.Context, p *Play) error { return p.refund(ctx, Part) }},
	{Name: "dashboard_refund", Needs: needMoney, Do: dashboardRefund},
	{Name: "correction", Needs: needDeposit, At: []string{"toss"}, Do: correction},
	{Name: "dispute", Needs: needMoney, At: []string{"stripe", "omise"}, Do: dispute},
	{Name: "dispute_lost", Needs: needMoney, At: []string{"stripe", "omise"}, Do: disputeLost},
	{Name: "expiry", Do: expiry},
	{Name: "second_attempt", Needs: needDecline, Pays: true, Do: func(ctx context.Context, p *Play) error { return p.pay(ctx, p.psp.card) }},
}

func event(name string) *Event {
	for _, e := range events {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// pay presses pay once. That the order takes no payment now is an answer like another.
func (p *Play) pay(ctx context.Context, method func(name string) map[string]any) error {
	p.pays++
	name := fmt.Sprintf("%s_%d", p.ID, p.pays)
	a, err := p.w.API(ctx, "POST", "/v1/orders/"+p.ID+"/payments", "pay-"+name, map[string]any{"gateway": p.Gateway, "method": method(name)})
	if err != nil {
		return err
	}
	p.payment, _ = a.Body["provider_payment_id"].(string)
	return a.oneOf(http.StatusCreated, http.StatusAccepted, http.StatusConflict)
}

// begin has the buyer choose a way to pay that ends elsewhere.
func (p *Play) begin(ctx context.Context) error {
	if err := p.pay(ctx, p.psp.deposit); err != nil {
		return err
	}
	p.waiting, p.payment = p.payment, ""
	return nil
}

// deposit: the buyer's money arrives at the provider, for what was begun before or now.
func deposit(ctx context.Context, p *Play) error {
	if p.waiting == "" {
		if err := p.begin(ctx); err != nil || p.waiting == "" {
			return err
		}
	}
	if p.psp.arrive(p.w, p.waiting) {
		p.deposited, p.takenBack = p.waiting, false
	}
	p.waiting = ""
	return nil
}

// refund asks for money back at our API; 0 is all that is left.
func (p *Play) refund(ctx context.Context, minor int64) error {
	p.refunds++
	body := map[string]any{"reason": "requested_by_buyer"}
	if minor > 0 {
		body["amount"] = minor
	}
	if p.deposited != "" && p.psp.payout {
		body["payout"] = map[string]any{"bank": "20", "account": "110934512345", "holder": "Buyer"}
	}
	a, err := p.w.API(ctx, "POST", "/v1/orders/"+p.ID+"/refunds", fmt.Sprintf("refund-%s-%d", p.ID, p.refunds), body)
	if err != nil {
		return err
	}
	return a.oneOf(http.StatusCreated, http.StatusAccepted, http.StatusConflict)
}

// cancel asks our API for the order not to be carried out.
func cancel(ctx context.Context, p *Play) error {
	p.cancels++
	a, err := p.w.API(ctx, "POST", "/v1/orders/"+p.ID+"/cancel", fmt.Sprintf("cancel-%s-%d", p.ID, p.cancels), map[string]any{"reason": "requested_by_buyer"})
	if err != nil {
		return err
	}
	p.canceled = p.canceled || a.Status != http.StatusConflict
	return a.oneOf(http.StatusCreated, http.StatusAccepted, http.StatusConflict)
}

// dashboardRefund: somebody gives a part back at the provider, under no reference of ours.
func dashboardRefund(ctx context.Context, p *Play) error {
	list, err := p.took(ctx)
	for _, taken := range list {
		minor := min(Part, taken.Captured-taken.Refunded-taken.Withdrawn)
		if minor > 0 && p.psp.dashboard(ctx, p.w, taken.PaymentID, minor) == nil {
			p.elsewhere += minor
			return err
		}
	}
	return err
}

// correction: the bank takes the deposit back. The account waits for money again.
func correction(_ context.Context, p *Play) error {
	if p.w.Sandbox.Toss().Correct(p.deposited) == nil {
		p.takenBack, p.waiting = true, p.deposited
	}
	return nil
}

// dispute: the buyer's bank argues about what is there, or gives up what it argued about before.
func dispute(ctx context.Context, p *Play) error {
	list, err := p.took(ctx)
	for _, taken := range list {
		minor := taken.Captured - taken.Refunded - taken.Withdrawn
		switch {
		case p.disputed && p.psp.disputeEnds(p.w, taken.PaymentID, true) == nil:
			p.disputed = false
		case minor > 0 && p.psp.dispute(p.w, taken.PaymentID, minor) == nil:
			p.disputed = true
		}
	}
	return err
}

// disputeLost: the buyer's bank takes what is there.
func disputeLost(ctx context.Context, p *Play) error {
	list, err := p.took(ctx)
	for _, taken := range list {
		minor := taken.Captured - taken.Refunded - taken.Withdrawn
		if minor > 0 && !p.disputed {
			p.disputed = p.psp.dispute(p.w, taken.PaymentID, minor) == nil
		}
		if p.disputed && p.psp.disputeEnds(p.w, taken.PaymentID, false) == nil {
			p.disputed = false
		}
	}
	return err
}

// expiry: the promise's time and that of a payment that waits for its buyer are over, by every clock.
func expiry(ctx context.Context, p *Play) error {
	p.expired = p.step
	if p.waiting != "" && p.psp.lapse != nil {
		if err := p.psp.lapse(ctx, p.w, p.waiting); err != nil {
			return err
		}
	}
	_, err := p.w.Owner.Exec(ctx, "UPDATE orders SET expires_at = now() - interval '1 minute' WHERE order_id = $1", p.ID)
	if err == nil {
		_, err = p.w.Owner.Exec(ctx, `UPDATE payment_attempts SET created_at = created_at - interval '3 hours', due_at = now() - interval '2 minutes', next_check_at = now()
			WHERE order_id = $1 AND status = 'pending'`, p.ID)
	}
	return err
}
