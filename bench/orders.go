package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"orderflow/order"
)

// placed is one order of a run and its client's times.
type placed struct {
	ID       order.ID
	Minor    int64
	Began    time.Time // the order's request
	Pays     time.Time // the payment's request
	Answered time.Time // the payment's answer
}

// book collects what the clients of one run did.
type book struct {
	mu     sync.Mutex
	orders []placed
	late   int
}

func (b *book) add(p placed, status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orders = append(b.orders, p)
	if status == http.StatusAccepted {
		b.late++
	}
}

// orders drives n full orders: POST /v1/orders, POST …/payments, until all of them are complete, and reconciles the books.
func (l *lab) orders(ctx context.Context, clients, n int) (outcome, error) {
	name := l.nextRun("orders")
	if err := l.resetSandbox(ctx); err != nil {
		return outcome{}, err
	}
	b := &book{}
	out, err := l.flood(ctx, name, clients, n, load{
		one:  func(ctx context.Context, i int) (time.Duration, error) { return l.order(ctx, b, name, i) },
		last: func(ctx context.Context, i int) error { return l.ended(ctx, order.WorkflowID(orderID(name, i))) },
		all:  func(ctx context.Context) error { return l.settled(ctx, name) },
	})
	if err != nil {
		return out, err
	}
	return out, l.finish(ctx, b, &out)
}

// answers alternates, at one client, the bare update-with-start of one no-op activity and an order with its payment, so that
// both medians come from the same seconds.
func (l *lab) answers(ctx context.Context, n int) (bare, single outcome, err error) {
	name, floor := l.nextRun("orders"), l.nextRun("floor-bare")
	if err := l.resetSandbox(ctx); err != nil {
		return bare, single, err
	}
	b := &book{}
	single, err = l.flood(ctx, name, 1, n, load{
		one: func(ctx context.Context, i int) (time.Duration, error) {
			took, err := timed(func() error { return l.askFloor(ctx, floorBare, floorID(floor, i)) })
			if err != nil {
				return 0, err
			}
			bare.Answers = append(bare.Answers, took)
			return l.order(ctx, b, name, i)
		},
		last: func(ctx context.Context, i int) error { return l.ended(ctx, order.WorkflowID(orderID(name, i))) },
		all:  func(ctx context.Context) error { return l.settled(ctx, name) },
	})
	if err != nil {
		return bare, single, err
	}
	slices.Sort(bare.Answers)
	bare.Name, bare.Clients, bare.Done = floor, 1, len(bare.Answers)
	return bare, single, l.finish(ctx, b, &single)
}

// finish looks at what a run left: the books, when each order was complete, and how long the histories are.
func (l *lab) finish(ctx context.Context, b *book, out *outcome) error {
	out.Late = b.late
	l.ordersAll += int64(len(b.orders))
	if err := l.reconcile(ctx, out.Name, b.orders); err != nil {
		return err
	}
	var err error
	if out.Completed, err = l.completionTimes(ctx, out.Name, b.orders); err != nil {
		return err
	}
	if out.Stages, err = l.stages(ctx, out.Name, b.orders); err != nil {
		return err
	}
	const sample = 20 // describing each would take longer than the run
	for i := 0; i < len(b.orders); i += max(1, len(b.orders)/sample) {
		d, err := l.temporal.DescribeWorkflow(ctx, order.WorkflowID(b.orders[i].ID), "")
		if err != nil {
			return err
		}
		info := d.RawResponse.GetWorkflowExecutionInfo()
		if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
			return fmt.Errorf("the workflow of order %s is %s, not completed", b.orders[i].ID, info.GetStatus())
		}
		out.Events = append(out.Events, int(info.GetHistoryLength()))
	}
	slices.Sort(out.Events)
	return nil
}

func orderID(run string, i int) order.ID { return order.ID(fmt.Sprintf("%s-%d", run, i)) }

// order is one buyer: an order with one entitlement to grant, and its payment by card. It returns how long the payment's
// answer took.
func (l *lab) order(ctx context.Context, b *book, run string, i int) (time.Duration, error) {
	p := placed{ID: orderID(run, i), Minor: 1000 + int64(i), Began: time.Now()} // amounts differ, so that mixing orders up shows
	status, err := l.post(ctx, "/v1/orders", "order-"+string(p.ID), map[string]any{
		"id": p.ID, "currency": "JPY", "total": p.Minor, "buyer_ref": "buyer-" + string(p.ID),
		"expires_at": p.Began.Add(time.Hour).UTC().Format(time.RFC3339),
		"lines":      []map[string]any{{"sku": "course", "name": "Online course", "quantity": 1, "unit_amount": p.Minor, "tax_rate": "10", "action": "grant"}},
	})
	if err != nil {
		return 0, err
	}
	if status != http.StatusCreated {
		return 0, fmt.Errorf("order %s: answered %d, not 201", p.ID, status)
	}
	p.Pays = time.Now()
	took, err := timed(func() error {
		status, err = l.post(ctx, "/v1/orders/"+url.PathEscape(string(p.ID))+"/payments", "pay-"+string(p.ID), map[string]any{
			"gateway": "stripe", "account": "default", "method": map[string]any{"type": "card", "token": "pm_card_visa"},
		})
		return err
	})
	p.Answered = p.Pays.Add(took)
	b.add(p, status)
	return took, err
}

// post sends one request and reads its answer. What is not 2xx is an error that names the problem.
func (l *lab) post(ctx context.Context, path, key string, body any) (int, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.apiURL+path, bytes.NewReader(raw))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+l.apiKey)
	req.Header.Set("Idempotency-Key", `"`+key+`"`)
	res, err := l.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return 0, err
	}
	if res.StatusCode >= 300 {
		return res.StatusCode, fmt.Errorf("POST %s: %d %s", path, res.StatusCode, answer)
	}
	return res.StatusCode, nil
}

// settled waits until every order of the run is complete and its run of the workflow has nothing left. One query asks for
// all of them, and only after the last answer.
func (l *lab) settled(ctx context.Context, run string) error {
	return until(ctx, "orders stay incomplete", func() (bool, error) {
		var open int
		err := l.db.QueryRow(ctx, `SELECT count(*) FROM orders WHERE starts_with(order_id, $1) AND (status <> 'completed' OR done_seq <> work_seq)`, run+"-").Scan(&open)
		return open == 0, err
	})
}

// completionTimes are from each client's first request to the transaction that completed the order, by the machine's clock.
func (l *lab) completionTimes(ctx context.Context, run string, orders []placed) ([]time.Duration, error) {
	rows, err := l.db.Query(ctx, `SELECT order_id, completed_at FROM orders WHERE starts_with(order_id, $1)`, run+"-")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	at := map[string]time.Time{}
	for rows.Next() {
		var id string
		var t time.Time
		if err := rows.Scan(&id, &t); err != nil {
			return nil, err
		}
		at[id] = t
	}
	var out []time.Duration
	for _, p := range orders {
		out = append(out, at[string(p.ID)].Sub(p.Began))
	}
	slices.Sort(out)
	return out, rows.Err()
}

// until asks again every 20 ms until the answer is yes or ctx ends.
func until(ctx context.Context, otherwise string, ready func() (bool, error)) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", otherwise, context.Cause(ctx))
		case <-t.C:
		}
	}
}
