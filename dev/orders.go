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
	"strings"
	"sync"
	"time"

	"orderflow/internal/money"
)

// row is one order of the final table.
type row struct {
	ID, Paid, Order, Payment, Fulfillment, Happened, Todo string
	Good                                                  bool
}

// driven is a scenario under way.
type driven struct {
	scenario
	ID    string
	Total int
	Armed []string // admin paths of its faults and webhook rules
}

// drive places and pays every order, one after the other since faults are armed for the next request, then waits until
// each has ended as it should or time is up.
func (d *demo) drive(ctx context.Context) ([]row, error) {
	c := demoClient{base: "http://" + local(d.ports.API), sandbox: d.sandboxURL(), shop: d.shopURL}
	if err := c.want(ctx, http.StatusOK, "PUT", "/v1/stock/mug", "", map[string]any{"on_hand": 1000}, nil); err != nil {
		return nil, err
	}
	run := time.Now().UTC().Format("150405")
	all := make([]*driven, len(scenarios()))
	for i, s := range scenarios() {
		all[i] = &driven{scenario: s, ID: fmt.Sprintf("demo-%s-%02d", run, i+1)}
		d.say(fmt.Sprintf("order %d of %d: %s, %s", i+1, len(all), providerNames[s.Gateway], s.Name))
		if err := c.order(ctx, all[i]); err != nil {
			return nil, fmt.Errorf("order %q at %s: %w", s.Name, s.Gateway, err)
		}
	}
	d.say("waiting until every order has come to where it can come by itself")
	rows := make([]row, len(all))
	deadline := time.Now().Add(60 * time.Second)
	for i, s := range all {
		for {
			r, err := c.row(ctx, s)
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
type demoClient struct{ base, sandbox, shop string }

func orderPath(id string) string { return "/v1/orders/" + url.PathEscape(id) }

func (c demoClient) order(ctx context.Context, s *driven) error {
	for _, l := range s.Lines {
		s.Total += l["quantity"].(int) * l["unit_amount"].(int)
	}
	body := map[string]any{
		"id": s.ID, "currency": s.Currency, "lines": s.Lines, "total": s.Total, "buyer_ref": "buyer-" + s.ID,
		"expires_at": time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339),
	}
	if err := c.want(ctx, http.StatusCreated, "POST", "/v1/orders", "place-"+s.ID, body, nil); err != nil {
		return err
	}
	if err := c.arm(ctx, s); err != nil {
		return err
	}
	method := s.Method(s.ID, s.Total)
	if s.Gateway != "toss" { // its window has sent the buyer back to the shop before
		method["return_url"] = c.shop + "/orders/" + url.PathEscape(s.ID)
	}
	pay := map[string]any{"gateway": s.Gateway, "method": method}
	if s.Later {
		pay["capture"] = "later"
	}
	errs := make([]error, max(1, s.Times))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = c.want(ctx, 0, "POST", orderPath(s.ID)+"/payments", "pay-"+s.ID, pay, nil)
		}()
	}
	wg.Wait()
	err := errors.Join(errs...)
	switch {
	case err != nil:
		return err
	case s.Later:
		return c.capture(ctx, s)
	case s.Buyer != "":
		return c.press(ctx, s)
	}
	return nil
}

// capture is the shop that takes what the buyer's bank holds.
func (c demoClient) capture(ctx context.Context, s *driven) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		v, err := c.view(ctx, s.ID)
		if err != nil {
			return err
		}
		if v.States.Payment == "authorized" {
			return c.want(ctx, 0, "POST", orderPath(s.ID)+"/capture", "capture-"+s.ID, map[string]any{}, nil)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the payment of %s is %s, not authorized", s.ID, v.States.Payment)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// press is the buyer who opens the page of a pending payment and presses a button.
func (c demoClient) press(ctx context.Context, s *driven) error {
	v, err := c.view(ctx, s.ID)
	if err != nil {
		return err
	}
	page := c.page(v)
	if page == "" {
		return errors.New("the payment has no page for the buyer")
	}
	return send(ctx, "POST", page+"/"+s.Buyer, nil, nil, func(status int, body []byte) error {
		if status != http.StatusOK {
			return fmt.Errorf("the buyer's page answered %d: %s", status, body)
		}
		return nil
	})
}

// orderView is what the demo reads of an order.
type orderView struct {
	States   struct{ Order, Payment, Fulfillment string }
	Buyer    struct{ State, Message string }
	Attempts []struct {
		Gateway    string
		NextAction struct{ URL, Account string } `json:"next_action"`
	}
	Reviews []struct {
		ID     string
		Status string
	}
	Deliveries []struct{ Status string }
}

func (c demoClient) view(ctx context.Context, id string) (v orderView, err error) {
	err = c.want(ctx, http.StatusOK, "GET", orderPath(id), "", nil, &v)
	return v, err
}

// page is where a buyer finishes a pending payment. A bank account has no page at its provider; the sandbox plays the
// bank under the account's number.
func (c demoClient) page(v orderView) string {
	for _, a := range v.Attempts {
		switch {
		case a.NextAction.URL != "":
			return a.NextAction.URL
		case a.NextAction.Account != "":
			return c.sandbox + "/buyer/" + a.Gateway + "/" + url.PathEscape(a.NextAction.Account)
		}
	}
	return ""
}

func (c demoClient) row(ctx context.Context, s *driven) (row, error) {
	v, err := c.view(ctx, s.ID)
	if err != nil {
		return row{}, err
	}
	r := row{
		ID: s.ID, Order: v.States.Order, Payment: v.States.Payment, Fulfillment: v.States.Fulfillment, Happened: s.Happened, Todo: "nothing",
		Paid: providerNames[s.Gateway] + " " + s.Currency + " " + money.Amount{Minor: int64(s.Total), Currency: money.Currency(s.Currency)}.Decimal(),
	}
	r.Good = r.Order == s.Order && r.Payment == s.Payment && r.Fulfillment == s.Fulfillment
	for _, d := range v.Deliveries {
		r.Good = r.Good && d.Status == "delivered"
	}
	asked := false
	for _, rev := range v.Reviews {
		if rev.Status == "open" {
			r.Todo, asked = "decide review "+rev.ID, true
		}
	}
	r.Good = r.Good && asked == (s.Fulfillment == "unknown")
	if page := c.page(v); page != "" && r.Payment == "action_needed" {
		r.Todo = "be the buyer: open " + page
	} else if s.Payment == "action_needed" {
		r.Good = false
	}
	if !r.Good {
		r.Happened = fmt.Sprintf("NOT AS IT SHOULD BE: expected %s / %s / %s", s.Order, s.Payment, s.Fulfillment)
		return r, nil
	}
	for _, path := range s.Armed {
		met, err := c.met(ctx, path)
		if err != nil {
			return row{}, err
		}
		if !met {
			r.Good, r.Happened = false, "NOT AS IT SHOULD BE: what was to go wrong did not"
		}
	}
	return r, nil
}

// arm sets an order's faults and webhook rules in the sandbox.
func (c demoClient) arm(ctx context.Context, s *driven) error {
	for path, list := range map[string][]map[string]any{"/admin/faults": s.Faults, "/admin/notices/rules": s.Notices} {
		for _, f := range list {
			err := send(ctx, "POST", c.sandbox+path, nil, f, func(status int, body []byte) error {
				var made struct{ ID string }
				if status/100 != 2 {
					return fmt.Errorf("the sandbox refused a fault: %s", body)
				}
				if err := json.Unmarshal(body, &made); err != nil {
					return err
				}
				s.Armed = append(s.Armed, path+"/"+url.PathEscape(made.ID))
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// met tells whether a fault or a rule was used up, so that the table does not tell of what did not happen.
func (c demoClient) met(ctx context.Context, path string) (met bool, err error) {
	err = send(ctx, "GET", c.sandbox+path, nil, nil, func(status int, body []byte) error {
		var state struct {
			UsedUp bool `json:"used_up"`
		}
		if status != http.StatusOK {
			return fmt.Errorf("the sandbox no longer knows a fault: %s", body)
		}
		err := json.Unmarshal(body, &state)
		met = state.UsedUp
		return err
	})
	return met, err
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
	var rd io.Reader = strings.NewReader("")
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
