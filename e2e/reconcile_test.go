package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
)

// Goal: money at a provider that no order of ours knows is found and held by a person, money of an attempt that we believe closed is
// found, a worker that dies between page and cursor costs nothing, and a second run over a settled system writes nothing. Method: four
// providers in one world, real processes, the command line. Not covered: lists that lag, which internal/reconcile and activities test.

// reconciled runs the command line and returns what each account led to.
func (w *world) reconciled(args ...string) map[string]order.Reconciled {
	w.t.Helper()
	stdout, stderr, code := w.starterCommand(nil, append([]string{"reconcile", "run"}, args...)...)
	require.Zero(w.t, code, stderr)
	var list []order.Reconciled
	require.NoError(w.t, json.Unmarshal([]byte(stdout), &list), stdout)
	out := map[string]order.Reconciled{}
	for _, r := range list {
		require.True(w.t, r.Done, "%+v", r)
		require.Empty(w.t, r.Code)
		out[r.Account.Gateway] = r
	}
	return out
}

// everyRow is every row of every table with the transaction that wrote it.
func (w *world) everyRow(except ...string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for table := range w.rowCounts() {
		out[table] = w.text("SELECT count(*) || ' rows ' || coalesce(string_agg(xmin::text || '/' || ctid::text, ',' ORDER BY ctid), '') FROM " + pgx.Identifier{table}.Sanitize())
	}
	for _, table := range except {
		delete(out, table)
	}
	return out
}

// lastHour is a window by hand.
func lastHour() []string {
	now := time.Now().UTC()
	return []string{"--from", now.Add(-time.Hour).Format(time.RFC3339), "--to", now.Add(time.Minute).Format(time.RFC3339)}
}

// closedThoughCaptured brings an order to where a person has said, wrongly, that its payment did not happen.
func (w *world) closedThoughCaptured(p *psp, id string) {
	w.t.Helper()
	w.placeIn(id, p.currency, grant("g", 1, trialTotal))
	x := &trial{name: id, psp: p, fault: faults.Fault{Action: faults.LoseAnswer}}
	x.onConfirm()
	w.arm(x.fault)
	away := faults.Fault{Target: faults.Target(p.gateway), Method: "GET", Action: faults.Status, Status: 503}
	if p == &twoctwop {
		away.Method, away.PathSuffix = "POST", "/paymentInquiry"
	}
	down := w.arm(away)
	w.call("POST", path(id)+"/payments", "pay-"+id, x.payment())
	w.decide(w.awaitReview(id, order.ReviewConfirmUnknown), order.DecideCloseWithEvidence, "the dashboard shows nothing")
	w.await(id+" closed", func() bool {
		return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1 AND status = 'closed'", id) == 1
	})
	require.True(w.t, w.sandbox.Faults().Remove(down))
	require.Equal(w.t, 1, w.captured(id), "the money is taken all the same")
}

// stray charges somebody at a provider past us, and returns what the provider knows the payment by.
func (w *world) stray(gateway string, n int) string {
	w.t.Helper()
	post := func(address, auth, kind, body string) map[string]any {
		req, err := http.NewRequestWithContext(w.t.Context(), "POST", address, strings.NewReader(body))
		require.NoError(w.t, err)
		req.Header.Set("Authorization", auth)
		req.Header.Set("Content-Type", kind)
		req.Header.Set("Idempotency-Key", fmt.Sprintf("stray-%s-%d-%s", gateway, n, filepath.Base(address)))
		a := w.do(req)
		require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Raw)
		return a.Body
	}
	basic := func(key string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(key+":")) }
	switch gateway {
	case "stripe":
		form := "application/x-www-form-urlencoded"
		base := w.sandbox.StripeURL() + "/v1/payment_intents"
		made := post(base, "Bearer sk_test_e2e", form, url.Values{"amount": {"1270"}, "currency": {"jpy"}, "payment_method_types[]": {"card"}}.Encode())
		id := made["id"].(string)
		post(base+"/"+id+"/confirm", "Bearer sk_test_e2e", form, url.Values{"payment_method": {"pm_card_visa"}}.Encode())
		return id
	case "omise":
		return post(w.sandbox.OmiseURL()+"/charges", basic("skey_test_e2e"), "application/json",
			fmt.Sprintf(`{"amount":127000,"currency":"thb","card":"tokn_test_ok__stray%d"}`, n))["id"].(string)
	}
	key := fmt.Sprintf("pay_ok__O-UNKNOWN-%d__1270__KRW", n)
	return post(w.sandbox.TossURL()+"/v1/payments/confirm", basic("test_sk_e2e"), "application/json",
		fmt.Sprintf(`{"paymentKey":%q,"orderId":"O-UNKNOWN-%d","amount":1270}`, key, n))["paymentKey"].(string)
}

// nothingIsLost compares the provider's books with ours and with what people hold (Q1, Q2).
func (w *world) nothingIsLost() {
	w.t.Helper()
	theirs, ours := map[string]int64{}, map[string]int64{}
	for _, c := range w.sandbox.Taken("") {
		theirs[c.Gateway+" "+c.PaymentID] += c.Captured
	}
	rows, err := w.owner.Query(context.Background(), `SELECT gateway || ' ' || provider_payment_id, captured_minor FROM payments WHERE matched
		UNION ALL SELECT p.gateway || ' ' || p.provider_payment_id, p.captured_minor FROM orphan_payments p JOIN reviews r ON r.subject_id = p.orphan_id
		WHERE p.status = 'open' AND r.status = 'open' AND r.owner <> ''`)
	require.NoError(w.t, err)
	for rows.Next() {
		var id string
		var minor int64
		require.NoError(w.t, rows.Scan(&id, &minor))
		ours[id] += minor
	}
	require.NoError(w.t, rows.Err())
	assert.Equal(w.t, theirs, ours, "Q1: what was captured is linked to one order, or a person has it")
}

func TestPC06_PaidWithoutAnOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_RECONCILE_GRACE", "12s"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "1s"))
	providers := []*psp{&stripe, &omise, &twoctwop, &toss}
	for _, p := range providers {
		w.closedThoughCaptured(p, "closed_"+p.gateway)
		w.placeIn("paid_"+p.gateway, p.currency, grant("g", 1, trialTotal))
		w.call("POST", path("paid_"+p.gateway)+"/payments", "pay-paid-"+p.gateway, p.payment("paid_"+p.gateway, ""))
		w.awaitStatus("paid_"+p.gateway, "completed")
		if p != &twoctwop {
			w.awaitRefund(w.refunded("paid_"+p.gateway, "back-"+p.gateway, 100).Body["id"], order.RefundSucceeded)
		}
	}
	strays := map[string]string{}
	for _, g := range []string{"stripe", "omise", "toss"} {
		strays[g] = w.stray(g, 9)
	}
	young := w.reconciled(lastHour()...)
	assert.Zero(t, young["toss"].Orphans, "it may still be on its way to our books: %+v", young["toss"])
	assert.Equal(t, 1, young["toss"].Waiting)
	w.await("captured payments of closed attempts found", func() bool {
		for _, p := range providers {
			if w.status("closed_"+p.gateway) != "completed" {
				return false
			}
		}
		return true
	})
	w.await("everything old enough, and what moved asked about since", func() bool {
		open := 0
		for _, r := range w.reconciled(lastHour()...) {
			open += r.Waiting + r.Looks
		}
		return open == 0
	})
	for gateway, id := range strays {
		assert.Equal(t, "open operations", w.text(`SELECT p.status || ' ' || r.owner FROM orphan_payments p JOIN reviews r ON r.subject_kind = 'orphan' AND r.subject_id = p.orphan_id
			WHERE p.gateway = $1 AND p.provider_payment_id = $2 AND p.attempt_id IS NULL AND p.provider_at < now() AND r.status = 'open' AND r.order_id IS NULL`, gateway, id))
	}
	assert.Equal(t, 3, w.number("SELECT count(*) FROM orphan_payments"), "one each, however often it was met")
	assert.Zero(t, w.number("SELECT count(*) FROM orders WHERE order_id LIKE 'O-UNKNOWN%'"), "no order is invented")
	w.nothingIsLost()

	for _, p := range providers {
		w.settled("closed_"+p.gateway, "paid_"+p.gateway)
	}
	w.processed()
	before := w.everyRow("rate_buckets")
	again := w.reconciled(lastHour()...)
	assert.Equal(t, before, w.everyRow("rate_buckets"), "Q5: a second run writes nothing")
	for g, r := range again {
		assert.Zero(t, r.Looks+r.Orphans+r.Linked, "%s: %+v", g, r)
	}
	assert.Equal(t, 4, again["toss"].Items, "two orders of ours, somebody's, and a refund")
}

// TestReconciliationOnItsSchedule: nobody runs anything by hand, and what an answer's loss hid comes up.
func TestReconciliationOnItsSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_RECONCILE_PERIOD", "1s"), with("ORDERFLOW_RECONCILE_GRACE", "1s"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "1s"))
	id := w.stray("toss", 1)
	w.closedThoughCaptured(&stripe, "closed_stripe")
	w.awaitStatus("closed_stripe", "completed")
	w.await("the orphan held", func() bool {
		return w.number("SELECT count(*) FROM orphan_payments WHERE provider_payment_id = $1 AND captured_minor = 1270 AND currency = 'KRW'", id) == 1
	})
	w.await("every cursor moved", func() bool {
		return w.number("SELECT count(*) FROM reconcile_cursors WHERE reached_at IS NOT NULL") >= 2
	})
	w.settled("closed_stripe")
	w.processed()
	w.nothingIsLost()
	before := w.everyRow("rate_buckets", "reconcile_cursors")
	version := w.number("SELECT version FROM reconcile_cursors WHERE gateway = 'toss'")
	w.await("more runs", func() bool {
		return w.number("SELECT version FROM reconcile_cursors WHERE gateway = 'toss'") >= version+3
	})
	assert.Equal(t, before, w.everyRow("rate_buckets", "reconcile_cursors"), "Q5: on its schedule it writes its own place and nothing else")
}

// TestAWorkerDiesBetweenPageAndCursor: the page after it is asked for by somebody else, and nothing is missed or doubled.
func TestAWorkerDiesBetweenPageAndCursor(t *testing.T) {
	t.Parallel()
	const strays = 130 // more than a page
	w := newWorld(t, workersDie, with("ORDERFLOW_RECONCILE_GRACE", "100ms"), with("STRIPE_TIMEOUT", "30s"))
	for n := range strays {
		w.stray("stripe", n)
	}
	hang := w.arm(faults.Fault{Target: faults.Stripe, Method: "GET", PathSuffix: "/payment_intents", Skip: 1, Times: 1, Action: faults.Hang})
	done := make(chan string, 1)
	go func() {
		_, stderr, code := w.starterCommand(nil, "reconcile", "run", "--gateway", "stripe")
		done <- fmt.Sprintf("%d %s", code, stderr)
	}()
	w.fired(hang, 1)
	assert.Equal(t, 1, w.number("SELECT count(*) FROM reconcile_cursors WHERE page_cursor <> '' AND window_until IS NOT NULL"), "its place between two pages is stored")
	held := w.number("SELECT count(*) FROM orphan_payments")
	assert.Positive(t, held)
	assert.Less(t, held, strays)
	w.killWorkers()
	w.startWorker()
	require.True(t, strings.HasPrefix(<-done, "0 "), "the run goes on elsewhere")
	w.await("the youngest old enough", func() bool {
		w.reconciled("--gateway", "stripe")
		return w.number("SELECT count(*) FROM orphan_payments") == strays
	})
	assert.Equal(t, strays, w.number("SELECT count(*) FROM reviews WHERE reason = 'orphan_payment' AND status = 'open'"), "one review each")
	w.nothingIsLost()
}

// TestSettlementFile: what a provider without a list says in its file is compared as a list is.
func TestSettlementFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "1s"))
	w.closedThoughCaptured(&twoctwop, "closed_twoctwop")
	w.placeIn("paid", "THB", grant("g", 1, trialTotal))
	w.call("POST", path("paid")+"/payments", "pay-paid", twoctwop.payment("paid", ""))
	w.awaitStatus("paid", "completed")
	w.settled("paid")
	ref := func(id string) string {
		return w.text("SELECT merchant_reference FROM payment_attempts WHERE order_id = $1", id)
	}
	at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	file := filepath.Join(t.TempDir(), "settlement.csv")
	require.NoError(t, os.WriteFile(file, []byte("invoice_number,amount,currency,status,time\n"+
		ref("paid")+",6.00,THB,S,"+at+"\nOF_NOT_OURS,80.50,THB,S,"+at+"\n"+ref("closed_twoctwop")+",six,THB,S,"+at+"\n"+ref("closed_twoctwop")+",6.00,THB,S,"+at+"\n"), 0o600))
	run := func(args ...string) (map[string]any, string) {
		stdout, stderr, code := w.starterCommand(nil, append([]string{"reconcile", "import", "--gateway", "twoctwop", "--account", "default", file}, args...)...)
		require.Equal(t, 2, code, "one line is bad: %s", stderr)
		out := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(stdout), &out))
		return out, stderr
	}
	want := map[string]any{"dry_run": true, "payments": 3.0, "bad_lines": 1.0, "agreed": 1.0, "looks": 1.0, "orphans": 1.0, "waiting": 0.0, "linked": 0.0}
	before := w.everyRow()
	out, stderr := run("--dry-run")
	assert.Equal(t, want, out)
	assert.Contains(t, stderr, "line 4 amount must be")
	assert.Equal(t, before, w.everyRow(), "a dry run writes nothing")
	want["dry_run"] = false
	out, _ = run()
	assert.Equal(t, want, out)
	w.awaitStatus("closed_twoctwop", "completed")
	w.settled("closed_twoctwop")
	w.processed()
	assert.Equal(t, "OF_NOT_OURS OF_NOT_OURS THB 8050 operations", w.text(`SELECT p.provider_payment_id || ' ' || p.merchant_reference || ' ' || p.currency || ' ' || p.captured_minor || ' ' || r.owner
		FROM orphan_payments p JOIN reviews r ON r.subject_id = p.orphan_id AND r.status = 'open'`))
	before = w.everyRow("rate_buckets")
	out, _ = run()
	assert.Equal(t, before, w.everyRow("rate_buckets"), "a second import writes nothing")
	assert.Equal(t, 2.0, out["agreed"])
}
