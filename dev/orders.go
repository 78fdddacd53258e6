package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// scenario is one order of the demo: what it buys, what goes wrong on the way, and how it must end.
type scenario struct {
	Name   string
	Lines  []map[string]any
	Method map[string]any
	Faults []map[string]any
	Times  int // how often "pay" is pressed at once, with one key

	Order, Payment, Fulfillment string // how it must end
	Happened                    string
}

func item(sku, name, action, issuer string, quantity, unitAmount int) map[string]any {
	m := map[string]any{"sku": sku, "name": name, "quantity": quantity, "unit_amount": unitAmount, "tax_rate": "10", "action": action}
	if issuer != "" {
		m["issuer"] = issuer
	}
	return m
}

func card(token string) map[string]any { return map[string]any{"type": "card", "token": token} }

func scenarios() []scenario {
	visa := card("pm_card_visa")
	return []scenario{
		{
			Name: "plain", Lines: []map[string]any{item("mug", "Mug", "stock", "", 1, 1800), item("guide", "Guide (PDF)", "grant", "", 1, 500)}, Method: visa,
			Order: "completed", Payment: "paid", Fulfillment: "fulfilled", Happened: "paid once, provided once",
		},
		{
			Name: "three tickets", Lines: []map[string]any{item("seat", "Concert seat", "issue", "tickets", 3, 4800)}, Method: visa,
			Order: "completed", Payment: "paid", Fulfillment: "fulfilled", Happened: "three units, three issuances at the issuer",
		},
		{
			Name: "declined", Lines: []map[string]any{item("guide", "Guide (PDF)", "grant", "", 1, 500)}, Method: card("pm_card_visa_chargeDeclined"),
			Order: "open", Payment: "declined", Fulfillment: "none", Happened: "the card was declined and the intent canceled: the buyer may try again",
		},
		{
			Name: "answer lost", Lines: []map[string]any{item("guide", "Guide (PDF)", "grant", "", 1, 500)}, Method: visa,
			Faults: []map[string]any{{"target": "stripe", "path_suffix": "/confirm", "times": 1, "action": "lose_answer"}},
			Order:  "completed", Payment: "paid", Fulfillment: "fulfilled", Happened: "the charge's answer was lost: looked up, found, charged once",
		},
		{
			Name: "impatient buyer", Lines: []map[string]any{item("guide", "Guide (PDF)", "grant", "", 1, 500)}, Method: visa, Times: 5,
			Order: "completed", Payment: "paid", Fulfillment: "fulfilled", Happened: "pay was pressed five times at once: charged once",
		},
		{
			Name: "ticket answer lost", Lines: []map[string]any{item("seat", "Concert seat", "issue", "tickets", 1, 4800)}, Method: visa,
			Faults: []map[string]any{{"target": "issuer", "path_contains": "/idempotent/", "method": "POST", "times": 1, "action": "lose_answer"}},
			Order:  "completed", Payment: "paid", Fulfillment: "fulfilled", Happened: "the issuer's answer was lost: looked up, issued once",
		},
		{
			Name: "voucher unknown", Lines: []map[string]any{item("gift", "Gift voucher", "issue", "vouchers", 1, 3000)}, Method: visa,
			Faults: []map[string]any{{"target": "issuer", "path_contains": "/opaque/", "method": "POST", "times": 1, "action": "lose_answer"}},
			Order:  "paid", Payment: "paid", Fulfillment: "unknown", Happened: "this issuer cannot be asked: parked, and issued again by nobody",
		},
		{
			Name: "receiver down", Lines: []map[string]any{item("guide", "Guide (PDF)", "grant", "", 1, 500)}, Method: visa,
			Faults: []map[string]any{{"target": "receiver", "times": 2, "action": "status", "status": 500}},
			Order:  "completed", Payment: "paid", Fulfillment: "fulfilled", Happened: "the event receiver was down: the event comes later, under the same id",
		},
		{
			Name: "3-D Secure", Lines: []map[string]any{item("guide", "Guide (PDF)", "grant", "", 1, 500)},
			Method: map[string]any{"type": "card", "token": "pm_card_threeDSecure2Required", "return_url": "https://shop.example/return"},
			Order:  "open", Payment: "action_needed", Fulfillment: "none", Happened: "the buyer has to confirm at the bank",
		},
	}
}

// row is one order of the final table.
type row struct {
	ID, Order, Payment, Fulfillment, Happened, Todo string
	Good                                            bool
}

// drive places and pays every order, one after the other since faults are armed for the next request, then waits until
// each has ended as it should or time is up.
func (d *demo) drive(ctx context.Context) ([]row, error) {
	c := demoClient{base: "http://" + local(d.ports.API), sandbox: d.sandboxURL()}
	if err := c.want(ctx, http.StatusOK, "PUT", "/v1/stock/mug", "", map[string]any{"on_hand": 1000}, nil); err != nil {
		return nil, err
	}
	run := time.Now().UTC().Format("0102-150405")
	all := scenarios()
	ids := make([]string, len(all))
	for i, s := range all {
		ids[i] = fmt.Sprintf("demo-%s-%d", run, i+1)
		d.say(fmt.Sprintf("order %d of %d: %s", i+1, len(all), s.Name))
		if err := c.order(ctx, ids[i], s); err != nil {
			return nil, fmt.Errorf("order %q: %w", s.Name, err)
		}
	}
	d.say("waiting until every order has come to where it can come by itself")
	rows := make([]row, len(all))
	deadline := time.Now().Add(60 * time.Second)
	for i, s := range all {
		for {
			r, err := c.row(ctx, ids[i], s)
			if err != nil {
				return nil, err
			}
			if rows[i] = r; r.Good || time.Now().After(deadline) {
				break
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	return rows, nil
}

// demoClient is a checkout backend in small.
type demoClient struct{ base, sandbox string }

func (c demoClient) order(ctx context.Context, id string, s scenario) error {
	total := 0
	for _, l := range s.Lines {
		total += l["quantity"].(int) * l["unit_amount"].(int)
	}
	body := map[string]any{
		"id": id, "currency": "JPY", "lines": s.Lines, "total": total, "buyer_ref": "buyer-" + id,
		"expires_at": time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339),
	}
	if err := c.want(ctx, http.StatusCreated, "POST", "/v1/orders", "place-"+id, body, nil); err != nil {
		return err
	}
	for _, f := range s.Faults {
		if err := c.arm(ctx, f); err != nil {
			return err
		}
	}
	pay := map[string]any{"gateway": "stripe", "method": s.Method}
	errs := make([]error, max(1, s.Times))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = c.want(ctx, 0, "POST", "/v1/orders/"+url.PathEscape(id)+"/payments", "pay-"+id, pay, nil)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// orderView is what the demo reads of an order.
type orderView struct {
	States   struct{ Order, Payment, Fulfillment string }
	Buyer    struct{ Message string }
	Attempts []struct {
		NextAction struct{ URL string } `json:"next_action"`
	}
	Reviews []struct {
		ID     string
		Status string
		Means  string
	}
	Deliveries []struct{ Status string }
}

func (c demoClient) row(ctx context.Context, id string, s scenario) (row, error) {
	var v orderView
	if err := c.want(ctx, http.StatusOK, "GET", "/v1/orders/"+url.PathEscape(id), "", nil, &v); err != nil {
		return row{}, err
	}
	r := row{ID: id, Order: v.States.Order, Payment: v.States.Payment, Fulfillment: v.States.Fulfillment, Happened: s.Happened}
	r.Good = r.Order == s.Order && r.Payment == s.Payment && r.Fulfillment == s.Fulfillment
	for _, d := range v.Deliveries {
		r.Good = r.Good && d.Status == "delivered"
	}
	for _, rev := range v.Reviews {
		if rev.Status == "open" {
			r.Todo = "decide review " + rev.ID
		}
	}
	if s.Fulfillment == "unknown" {
		r.Good = r.Good && r.Todo != ""
	}
	for _, a := range v.Attempts {
		if a.NextAction.URL != "" && r.Payment == "action_needed" {
			r.Todo = "be the buyer: open " + a.NextAction.URL
		}
	}
	if r.Todo == "" {
		r.Todo = "nothing"
	}
	if !r.Good {
		r.Happened = fmt.Sprintf("NOT AS IT SHOULD BE: expected %s / %s / %s", s.Order, s.Payment, s.Fulfillment)
	}
	return r, nil
}

// arm sets one fault in the sandbox.
func (c demoClient) arm(ctx context.Context, fault map[string]any) error {
	return send(ctx, "POST", c.sandbox+"/admin/faults", nil, fault, func(status int, body []byte) error {
		if status/100 != 2 {
			return fmt.Errorf("the sandbox refused a fault: %s", body)
		}
		return nil
	})
}

// want makes one API request; a status other than want (any 2xx or 409 for 0) is an error that quotes the answer.
func (c demoClient) want(ctx context.Context, want int, method, path, key string, in, out any) error {
	header := map[string]string{"Authorization": "Bearer " + playAPIKey}
	if key != "" {
		header["Idempotency-Key"] = `"` + key + `"`
	}
	return send(ctx, method, c.base+path, header, in, func(status int, body []byte) error {
		if status != want && (want != 0 || (status/100 != 2 && status != http.StatusConflict)) {
			return fmt.Errorf("%s %s answered %d: %s", method, path, status, body)
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(body, out)
	})
}

func send(ctx context.Context, method, to string, header map[string]string, in any, use func(status int, body []byte) error) error {
	var rd io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		rd = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, to, rd)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	client := http.Client{Timeout: 30 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	return use(res.StatusCode, body)
}
