package scripts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"orderflow/sandbox/server"
)

// Play is one script under way, with what the outside has done for it.
type Play struct {
	Script
	w   *World
	psp *provider

	step    int
	pays    int // how often pay was pressed
	refunds int
	cancels int

	payment   string // the provider's id of the last payment that was begun
	waiting   string // of a deposit that waits for its money
	deposited string // of a deposit that came

	elsewhere int64 // given back by hand at the provider
	takenBack bool  // the bank took the deposit back, and it did not come again
	disputed  bool  // a dispute is open
	canceled  bool  // our API said that the order is, or will be, canceled
	expired   int   // the step in which its time ended; -1 = none

	known   []string // every id its payments have, here and there
	kept    []*notice
	history []moment
}

// moment is what the books of the outside said of an order after one step.
type moment struct {
	after    time.Time // when the step was over
	captured int64
	back     int64 // refunded, or withdrawn by a bank
	issued   int
}

// atOnce is how many orders are worked on side by side.
const atOnce = 8

// Run plays scripts side by side, step by step, each told in its own way, until every one is at rest. Only what breaks the test itself
// is an error.
func Run(ctx context.Context, w *World, list []Script) ([]*Play, error) {
	plays := make([]*Play, len(list))
	longest := 0
	for i, s := range list {
		plays[i] = &Play{Script: s, w: w, psp: providerOf(s.Gateway), expired: -1}
		longest = max(longest, len(s.Steps))
	}
	if err := each(plays, func(p *Play) error { return p.place(ctx) }); err != nil {
		return nil, err
	}
	for n := range longest {
		if err := w.stage(ctx, plays, n); err != nil {
			return nil, fmt.Errorf("step %d: %w", n+1, err)
		}
	}
	// What was kept back comes now.
	if err := w.post(ctx, plays, longest, true); err != nil {
		return nil, err
	}
	if err := errors.Join(w.Calm(ctx), w.rest(ctx)); err != nil {
		return nil, err
	}
	_, err := w.look(ctx, plays, -1)
	return plays, err
}

// stage makes the n-th step of every script that has one.
func (w *World) stage(ctx context.Context, plays []*Play, n int) error {
	var now []*Play
	for _, p := range plays {
		if n < len(p.Steps) {
			p.step = n
			now = append(now, p)
		}
	}
	if err := each(now, func(p *Play) error { return p.Steps[n].Do(ctx, p) }); err != nil {
		return err
	}
	if err := w.Sandbox.Webhooks().AwaitIdle(ctx); err != nil {
		return err
	}
	if _, err := w.look(ctx, now, n); err != nil {
		return err
	}
	if err := w.post(ctx, now, n, false); err != nil {
		return err
	}
	return errors.Join(w.Calm(ctx), w.Sweep(ctx), w.Calm(ctx))
}

// rest lets time pass until every book was compared twice, and everything that waits for its time was looked at.
func (w *World) rest(ctx context.Context) error {
	for range 2 {
		for _, table := range []string{"payment_attempts", "refunds", "fulfillment_units"} {
			if _, err := w.Owner.Exec(ctx, "UPDATE "+table+" SET next_check_at = now() WHERE next_check_at > now()"); err != nil {
				return err
			}
		}
		if err := errors.Join(w.Sweep(ctx), w.Calm(ctx), w.Look(ctx), w.Calm(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// place stores the script's order, and begins a deposit that comes before everything else.
func (p *Play) place(ctx context.Context) error {
	lines := []map[string]any{{"sku": "g", "name": "Good", "quantity": 1, "unit_amount": Total, "action": "grant"}}
	if p.Issuer != "" {
		lines[0]["unit_amount"] = Total - 100
		lines = append(lines, map[string]any{"sku": "t", "name": "Ticket", "quantity": 1, "unit_amount": 100, "action": "issue", "issuer": p.Issuer})
	}
	a, err := p.w.API(ctx, "POST", "/v1/orders", "place-"+p.ID, map[string]any{
		"id": p.ID, "currency": p.psp.currency, "lines": lines, "total": Total, "buyer_ref": "buyer", "expires_at": time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339),
	})
	if err == nil {
		err = a.oneOf(http.StatusCreated)
	}
	if err == nil && p.Early {
		err = p.begin(ctx)
	}
	return err
}

// each does the same for many plays side by side.
func each(plays []*Play, do func(p *Play) error) error {
	var wg sync.WaitGroup
	work := make(chan *Play)
	errs := make([]error, atOnce)
	for i := range atOnce {
		wg.Go(func() {
			for p := range work {
				if err := do(p); err != nil {
					errs[i] = errors.Join(errs[i], fmt.Errorf("%s: %w", p.Name(), err))
				}
			}
		})
	}
	for _, p := range plays {
		work <- p
	}
	close(work)
	wg.Wait()
	return errors.Join(errs...)
}

// post hands on what has come about the plays' payments, as each is told.
func (w *World) post(ctx context.Context, plays []*Play, step int, last bool) error {
	return each(plays, func(p *Play) error {
		came := w.box.take(p.known)
		lost := p.Telling == Never || (!last && (p.Telling == FirstLost && p.isFirst(step) || p.Telling == SecondLost && step == len(p.Steps)-1))
		if !lost {
			p.kept = append(p.kept, came...)
		}
		if !last && (p.Telling == Together || p.Telling == Reversed) {
			return nil
		}
		if p.Telling == Reversed {
			slices.Reverse(p.kept)
		}
		out := p.kept
		p.kept = nil
		for _, n := range out {
			for range map[bool]int{true: 2, false: 1}[p.Telling == Twice] {
				if err := w.hand(ctx, n); err != nil {
					return fmt.Errorf("%s: %w", p.Name(), err)
				}
			}
		}
		return nil
	})
}

func (p *Play) isFirst(step int) bool {
	return step < len(p.Steps) && p.Steps[step].Name == p.First && step < len(p.Steps)-1
}

func (w *World) hand(ctx context.Context, n *notice) error {
	header := n.header
	if n.gateway == "stripe" { // each try is signed anew, so that one that was kept back for minutes is not taken for a replay
		header = w.Sandbox.Stripe().Notice("", "", n.body).Header(time.Now(), 0)
	}
	status, err := w.Post(ctx, n.gateway, header, n.body)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("a notice of %s was answered %d: %.300s", n.gateway, status, readable(n.body))
	}
	return err
}

// books are the outside's, by what things are called there.
type books struct {
	taken  map[string][]server.Taken // by reference
	issued map[string][]time.Time    // of units that were not taken back, by order
	double []string                  // units that were issued more than once
}

func (w *World) books() books {
	b := books{taken: map[string][]server.Taken{}, issued: map[string][]time.Time{}}
	for _, t := range w.Sandbox.Taken("") {
		b.taken[t.Reference] = append(b.taken[t.Reference], t)
	}
	units := map[string]int{}
	for _, i := range w.Sandbox.Issuers().Issuances(issuances) {
		b.issued[i.OrderID] = append(b.issued[i.OrderID], i.At)
		if units[i.UnitID]++; units[i.UnitID] == 2 {
			b.double = append(b.double, i.OrderID)
		}
	}
	return b
}

// look notes what the books of the outside say of each play's order, after a step; -1 = at the end.
func (w *World) look(ctx context.Context, plays []*Play, step int) (books, error) {
	b := w.books()
	names, err := w.names(ctx)
	if err != nil {
		return b, err
	}
	now := time.Now()
	for _, p := range plays {
		m := moment{after: now, issued: len(b.issued[p.ID])}
		p.known = p.known[:0]
		for _, n := range names[p.ID] {
			p.known = append(p.known, n.reference, n.payment)
			for _, t := range b.taken[n.reference] {
				m.captured, m.back = m.captured+t.Captured, m.back+t.Refunded+t.Withdrawn
			}
		}
		p.history = append(p.history, m)
	}
	return b, nil
}

// name is what one payment of an order is called.
type name struct{ reference, payment string }

// names are those of every order.
func (w *World) names(ctx context.Context) (map[string][]name, error) {
	out := map[string][]name{}
	rows, err := w.Owner.Query(ctx, "SELECT order_id, merchant_reference, provider_payment_id FROM payment_attempts ORDER BY created_at")
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var id string
		var n name
		if err := rows.Scan(&id, &n.reference, &n.payment); err != nil {
			return nil, err
		}
		out[id] = append(out[id], n)
	}
	return out, rows.Err()
}

// took is what the provider's books hold of this order now.
func (p *Play) took(ctx context.Context) ([]server.Taken, error) {
	rows, err := p.w.Owner.Query(ctx, "SELECT merchant_reference FROM payment_attempts WHERE order_id = $1 ORDER BY created_at", p.ID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []server.Taken
	for rows.Next() {
		var reference string
		if err := rows.Scan(&reference); err != nil {
			return nil, err
		}
		out = append(out, p.w.Sandbox.Taken(reference)...)
	}
	return out, rows.Err()
}
