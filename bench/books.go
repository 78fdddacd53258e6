package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// charge is one of the sandbox's charges. It is declared here again, with only what is compared, because the sandbox is the
// other side: its books are read as anybody would read them.
type charge struct {
	Intent    string `json:"intent"`
	Reference string `json:"merchant_reference"`
	Currency  string `json:"currency"`
	Captured  int64  `json:"captured"`
	Refunded  int64  `json:"refunded"`
}

// effect is an event that the sandbox's receiver took.
type effect struct {
	ID      string `json:"id"`
	OrderID string `json:"order_id"`
	Type    string `json:"type"`
}

// ours is one order of a run as our database has it. The lists are everything there is, not the first of it.
type ours struct {
	ID           string
	Status       string
	TotalMinor   int64
	Currency     string
	Rested       bool     // done_seq = work_seq
	Payments     []charge // with our reference
	UnitsOwed    int      // quantities of the lines
	UnitsIssued  int
	Issuances    int      // not revoked
	Grants       int      // not revoked
	Events       []string // type/id of each outbox event
	OpenDeliver  int      // deliveries that are not delivered
	OpenReviews  int
	OpenAttempts int
}

// far is what the other side has.
type far struct {
	Charges   []charge
	Effects   []effect
	Issuances int // an external issuer's; these orders ask none
}

// reconcile compares both sides over the whole run: every order once, every charge, every event, every issuance. What does
// not agree is an error, whatever the speed was.
func (l *lab) reconcile(ctx context.Context, run string, orders []placed) error {
	err := until(ctx, "events stay undelivered", func() (bool, error) { // a first try that failed is the relay's, in its own time
		var open int
		err := l.db.QueryRow(ctx, `SELECT count(*) FROM event_deliveries WHERE starts_with(order_id, $1) AND status = 'pending'`, run+"-").Scan(&open)
		return open == 0, err
	})
	if err != nil {
		return err
	}
	db, err := l.ourBooks(ctx, run)
	if err != nil {
		return err
	}
	theirs, err := l.farBooks(ctx)
	if err != nil {
		return err
	}
	if wrong := compare(orders, db, theirs); len(wrong) > 0 {
		more := ""
		if len(wrong) > 10 {
			more = fmt.Sprintf("\n  … and %d more", len(wrong)-10)
		}
		return fmt.Errorf("the books of %s do not agree:\n  %s%s", run, strings.Join(wrong[:min(len(wrong), 10)], "\n  "), more)
	}
	return nil
}

// compare lists what does not agree; an empty list means that both sides say the same.
func compare(orders []placed, db map[string]ours, theirs far) []string {
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(db) != len(orders) {
		bad("%d orders were answered and %d are stored", len(orders), len(db))
	}
	charges := map[string][]charge{}
	for _, c := range theirs.Charges {
		charges[c.Intent] = append(charges[c.Intent], c)
	}
	effects := map[string]int{}
	for _, e := range theirs.Effects {
		effects[e.OrderID+" "+e.Type+"/"+e.ID]++
	}
	for _, p := range orders {
		o, ok := db[string(p.ID)]
		if !ok {
			bad("order %s is not stored", p.ID)
			continue
		}
		wrong = append(wrong, compareOrder(p, o, charges, effects)...)
	}
	for intent, cs := range charges {
		bad("the provider took money %d times for %s, which no order of the run explains", len(cs), intent)
	}
	for e := range effects {
		bad("the receiver took %s, which no order of the run explains", e)
	}
	if theirs.Issuances != 0 {
		bad("an external issuer issued %d times for orders that ask none", theirs.Issuances)
	}
	slices.Sort(wrong)
	return wrong
}

// compareOrder checks one order, and takes what it explains out of the other side's books.
func compareOrder(p placed, o ours, charges map[string][]charge, effects map[string]int) []string {
	var wrong []string
	bad := func(format string, args ...any) {
		wrong = append(wrong, "order "+o.ID+": "+fmt.Sprintf(format, args...))
	}
	if o.Status != "completed" || !o.Rested || o.TotalMinor != p.Minor {
		bad("status %s, rested %t, total %d instead of %d", o.Status, o.Rested, o.TotalMinor, p.Minor)
	}
	if len(o.Payments) != 1 {
		bad("%d payments", len(o.Payments))
	}
	for _, pay := range o.Payments {
		cs := charges[pay.Intent]
		delete(charges, pay.Intent)
		if len(cs) != 1 {
			bad("the provider has %d charges for %s", len(cs), pay.Intent)
			continue
		}
		c := cs[0]
		c.Currency = strings.ToUpper(c.Currency)
		if c != pay || c.Captured != p.Minor || c.Refunded != 0 || c.Currency != o.Currency {
			bad("payment %+v, charge %+v, total %d", pay, c, p.Minor)
		}
	}
	if o.UnitsOwed != 1 || o.UnitsIssued != 1 || o.Issuances != 1 || o.Grants != 1 {
		bad("%d units owed, %d issued, %d issuances, %d grants", o.UnitsOwed, o.UnitsIssued, o.Issuances, o.Grants)
	}
	types := map[string]int{}
	for _, e := range o.Events {
		kind, _, _ := strings.Cut(e, "/")
		types[kind]++
		if effects[o.ID+" "+e] != 1 {
			bad("event %s had %d effects", e, effects[o.ID+" "+e])
		}
		delete(effects, o.ID+" "+e)
	}
	if len(types) == 0 || len(types) != len(o.Events) {
		bad("events %v: at least one, and each kind once", o.Events)
	}
	if o.OpenDeliver != 0 || o.OpenReviews != 0 || o.OpenAttempts != 0 {
		bad("%d deliveries, %d reviews and %d attempts are open", o.OpenDeliver, o.OpenReviews, o.OpenAttempts)
	}
	return wrong
}

const ourBooksSQL = `
SELECT o.order_id, o.status, o.total_minor, o.currency, o.done_seq = o.work_seq,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('intent', p.provider_payment_id, 'merchant_reference', a.merchant_reference, 'currency', p.currency,
            'captured', p.captured_minor, 'refunded', p.refunded_minor)), '[]'::jsonb)
     FROM payments p LEFT JOIN payment_attempts a USING (attempt_id) WHERE p.order_id = o.order_id),
    (SELECT coalesce(sum(l.quantity), 0)::int FROM order_lines l WHERE l.order_id = o.order_id AND l.revision = o.revision),
    (SELECT count(*)::int FROM fulfillment_units u WHERE u.order_id = o.order_id AND u.status = 'issued'),
    (SELECT count(*)::int FROM issuances i WHERE i.order_id = o.order_id AND i.revoked_at IS NULL),
    (SELECT count(*)::int FROM grants g WHERE g.order_id = o.order_id AND g.revoked_at IS NULL),
    ARRAY(SELECT e.type || '/' || e.event_id FROM outbox_events e WHERE e.order_id = o.order_id),
    (SELECT count(*)::int FROM event_deliveries d WHERE d.order_id = o.order_id AND d.status <> 'delivered'),
    (SELECT count(*)::int FROM reviews r WHERE r.order_id = o.order_id AND r.status = 'open'),
    (SELECT count(*)::int FROM payment_attempts a WHERE a.order_id = o.order_id AND a.status <> 'succeeded')
FROM orders o WHERE starts_with(o.order_id, $1)`

func (l *lab) ourBooks(ctx context.Context, run string) (map[string]ours, error) {
	rows, err := l.db.Query(ctx, ourBooksSQL, run+"-")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]ours{}
	for rows.Next() {
		var o ours
		var payments []byte
		if err := rows.Scan(&o.ID, &o.Status, &o.TotalMinor, &o.Currency, &o.Rested, &payments, &o.UnitsOwed, &o.UnitsIssued, &o.Issuances, &o.Grants,
			&o.Events, &o.OpenDeliver, &o.OpenReviews, &o.OpenAttempts); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(payments, &o.Payments); err != nil {
			return nil, err
		}
		out[o.ID] = o
	}
	return out, rows.Err()
}

// farBooks reads what the sandbox did since its last reset, which is the beginning of the run.
func (l *lab) farBooks(ctx context.Context) (far, error) {
	var stripe struct {
		Charges []charge `json:"charges"`
	}
	var receiver struct {
		Effects []effect `json:"effects"`
	}
	var issuers struct {
		Issuances []json.RawMessage `json:"issuances"`
	}
	err := errors.Join(l.sandboxGet(ctx, "/admin/books/stripe", &stripe), l.sandboxGet(ctx, "/admin/books/receiver", &receiver),
		l.sandboxGet(ctx, "/admin/books/issuers", &issuers))
	return far{Charges: stripe.Charges, Effects: receiver.Effects, Issuances: len(issuers.Issuances)}, err
}

func (l *lab) sandboxGet(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.sandboxURL+path, nil)
	if err != nil {
		return err
	}
	res, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the sandbox's books: %s answered %d", path, res.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(res.Body, 256<<20)).Decode(into)
}

// resetSandbox empties the sandbox's books, so that they stay small however long the bench goes on.
func (l *lab) resetSandbox(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.sandboxURL+"/admin/reset", nil)
	if err != nil {
		return err
	}
	res, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the sandbox's reset answered %d", res.StatusCode)
	}
	return nil
}
