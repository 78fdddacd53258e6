package scripts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/server"
)

var issuances = issuersim.Filter{LiveOnly: true}

// ours is what our database says of one order.
type ours struct {
	status   string
	payments map[string]money // by gateway and the provider's id; what a bank took counts as gone
	refunded int64            // by refunds of ours that succeeded
	asked    int64            // by refunds of ours that a person has to say of whether they went through
	units    map[string]int   // by state
	external int              // units that an issuer has issued, as we say
	internal int              // units that we have provided ourselves, as we say
	reviews  []string         // open, by reason
	open     []string         // what is not over and neither owned nor looked at again
}

type money struct{ captured, refunded, withdrawn int64 }

func (m money) here() int64 { return m.captured - m.refunded - m.withdrawn }

// Wrong is one thing that is wrong with one script.
type Wrong struct {
	Script Script
	Why    string
	Ours   string
}

// String names the script, so that it can be played alone.
func (w Wrong) String() string { return fmt.Sprintf("%s: %s [%s]", w.Script.Name(), w.Why, w.Ours) }

// Judge compares the books of the outside with our database, order by order, and says what is wrong. Nothing is right only because
// our code says so: what it is compared with is what providers and issuers have written down, and what the script did there.
func Judge(ctx context.Context, w *World, plays []*Play) ([]Wrong, error) {
	names, err := w.names(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := w.ours(ctx)
	if err != nil {
		return nil, err
	}
	b := w.books()
	var wrong []Wrong
	for _, p := range plays {
		o := rows[p.ID]
		if o == nil {
			wrong = append(wrong, Wrong{Script: p.Script, Why: "there is no such order"})
			continue
		}
		var taken []server.Taken
		for _, n := range names[p.ID] {
			taken = append(taken, b.taken[n.reference]...)
		}
		for _, why := range p.judge(o, taken, b.issued[p.ID]) {
			wrong = append(wrong, Wrong{p.Script, why, o.String()})
		}
		if slices.Contains(b.double, p.ID) {
			wrong = append(wrong, Wrong{p.Script, "a unit was issued twice", o.String()})
		}
	}
	why, err := w.total(ctx, b)
	if why != "" {
		wrong = append(wrong, Wrong{Why: why})
	}
	return wrong, err
}

func (p *Play) judge(o *ours, taken []server.Taken, issued []time.Time) []string {
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }

	theirs, captures := map[string]money{}, map[string]int{}
	var all money
	for _, t := range taken {
		id := t.Gateway + " " + t.PaymentID
		m := theirs[id]
		theirs[id] = money{m.captured + t.Captured, m.refunded + t.Refunded, m.withdrawn + t.Withdrawn}
		all = money{all.captured + t.Captured, all.refunded + t.Refunded, all.withdrawn + t.Withdrawn}
		if captures[t.Reference]++; captures[t.Reference] > 1 && !p.mayCaptureAgain() {
			bad("one attempt took money %d times", captures[t.Reference])
		}
	}
	for id, m := range theirs {
		// What came and went before anybody here heard of it need not be known.
		if h := o.payments[id]; h.here() != m.here() || (h.captured == 0 && m.here() > 0) {
			bad("the provider says %d of %d, we say %d of %d", m.here(), m.captured, h.here(), h.captured)
		}
	}
	for id := range o.payments {
		if _, there := theirs[id]; !there {
			bad("we say that a payment took money, and it did not")
		}
	}
	if own := all.refunded - p.elsewhere; own < o.refunded || own > o.refunded+o.asked {
		bad("%d went back by us in the provider's books, and %d in ours", own, o.refunded)
	}
	for _, why := range p.wrongGoods(o, all, issued) {
		bad("%s", why)
	}
	for _, why := range p.wrongState(o, all) {
		bad("%s", why)
	}
	for _, what := range o.open {
		bad("nobody owns or looks at %s", what)
	}
	return wrong
}

// wrongGoods: goods against money.
func (p *Play) wrongGoods(o *ours, all money, issued []time.Time) []string {
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(issued) != o.external && o.units["unknown"] == 0 {
		bad("the issuer has issued %d, we say %d", len(issued), o.external)
	}
	if all.captured == 0 && len(issued)+o.internal > 0 {
		bad("goods without money")
	}
	back, gone := p.wentBackAt()
	if !gone || len(o.reviews) > 0 {
		return wrong
	}
	for _, at := range issued {
		if at.After(back) {
			bad("goods were provided for money that had gone back, and no review says so")
		}
	}
	if len(issued)+o.internal > 0 && p.elsewhere+all.withdrawn > 0 && !p.cameAgain() {
		bad("the money of goods that were provided went back by somebody else's hand, and no review says so")
	}
	return wrong
}

// wentBackAt is when the last of an order's money had gone back, if it has.
func (p *Play) wentBackAt() (time.Time, bool) {
	for i, m := range p.history {
		if m.captured > 0 && m.captured == m.back && !slices.ContainsFunc(p.history[i:], func(later moment) bool { return later.captured > later.back }) {
			return m.after, true
		}
	}
	return time.Time{}, false
}

func (o *ours) String() string {
	var units []string
	for s, n := range o.units {
		units = append(units, fmt.Sprintf("%d %s", n, s))
	}
	slices.Sort(units)
	return fmt.Sprintf("order %s, units %s, reviews %s", o.status, strings.Join(units, " "), strings.Join(o.reviews, " "))
}

// total: over everything, captured less refunded is the same in the providers' books and in ours, with the payments that nothing
// explains.
func (w *World) total(ctx context.Context, b books) (string, error) {
	var theirs int64
	for _, list := range b.taken {
		for _, t := range list {
			theirs += t.Captured - t.Refunded - t.Withdrawn
		}
	}
	var linked, held int64
	err := w.Owner.QueryRow(ctx, `SELECT (SELECT coalesce(sum(`+here+`), 0) FROM payments)::bigint,
		(SELECT coalesce(sum(captured_minor), 0) FROM orphan_payments WHERE status = 'open')::bigint`).Scan(&linked, &held)
	if err == nil && theirs != linked+held {
		return fmt.Sprintf("over everything the providers hold %d, we say %d and %d in orphans", theirs, linked, held), nil
	}
	return "", err
}

// Report says what is wrong with many scripts, one line for those that go wrong in the same way.
func Report(wrong []Wrong) []string {
	kinds, examples := map[string]int{}, map[string]Wrong{}
	var order []string
	for _, w := range wrong {
		kind := fmt.Sprint(w.Script.Gateway, w.Script.First, w.Script.Second, w.Script.Early, w.Why)
		if kinds[kind]++; kinds[kind] == 1 {
			examples[kind] = w
			order = append(order, kind)
		}
	}
	out := make([]string, 0, len(order))
	for _, kind := range order {
		out = append(out, fmt.Sprintf("%d scripts, such as %s", kinds[kind], examples[kind]))
	}
	return out
}
