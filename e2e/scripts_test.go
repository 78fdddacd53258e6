package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"orderflow/internal/scripts"
	"orderflow/internal/secret"
	"orderflow/order"
	"orderflow/sandbox/twoctwopsim"
)

// Goal: scripts of money end right with real processes too. Method: some of internal/scripts' stories - every pair of events, every
// event in every telling - all orders side by side in one world, over HTTP with worker and Temporal, judged by the same books.
// Not covered: the other thousands, which internal/scripts plays without Temporal's server.
func TestScriptsOfMoney(t *testing.T) {
	t.Parallel()
	n := 20
	if long() {
		n = 300
	}
	list := scripts.Cover(scripts.All(), n)
	if only := os.Getenv("ORDERFLOW_SCRIPTS"); only != "" { // a part of a name, as a failure prints it
		list = nil
		for _, s := range scripts.All() {
			if strings.Contains(s.Name(), only) {
				list = append(list, s)
			}
		}
	}
	w := newWorld(t, refundable, with("ORDERFLOW_REVIEW_CHECK_EVERY", "1h"), with("ORDERFLOW_RECONCILE_GRACE", "100ms"), with("ORDERFLOW_LOOKUPS_PER_SECOND", "1000"),
		with("ORDERFLOW_ANSWER_BUDGET", "20s"), with("ORDERFLOW_IDEMPOTENCY_LEASE", "25s"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "10s"))
	sw := &scripts.World{
		API: w.script, Post: w.scriptNotice, Calm: w.scriptsCalm, Sweep: w.scriptsSwept, Sandbox: w.sandbox, Owner: w.owner,
		StripeKey: w.env["STRIPE_SECRET_KEY"], OmiseKey: w.env["OMISE_SECRET_KEY"], Merchant: "E2E01",
	}
	sw.Look = func(context.Context) error { return w.scriptsLook(sw.Settlement()) }
	require.NoError(t, sw.Open())
	t.Cleanup(sw.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	begin := time.Now()
	plays, err := scripts.Run(ctx, sw, list)
	require.NoError(t, err)
	wrong, err := scripts.Judge(ctx, sw, plays)
	require.NoError(t, err)
	t.Logf("%d scripts over HTTP, with worker and Temporal, in %s", len(list), time.Since(begin).Round(time.Second))
	for _, why := range scripts.Report(wrong) {
		t.Error(why)
	}
}

// merchantKeys are those of 2C2P's maintenance API, both sides'.
type merchantKeys struct {
	ours, theirs        secret.Value
	public, theirPublic string
}

// maintenance makes them once; what they guard is played.
var maintenance = sync.OnceValue(func() (k merchantKeys) {
	var mine, other error
	k.ours, k.public, mine = twoctwopsim.GenerateKeys()
	k.theirs, k.theirPublic, other = twoctwopsim.GenerateKeys()
	if err := errors.Join(mine, other); err != nil {
		panic(err)
	}
	return k
})

func (w *world) script(_ context.Context, method, path, key string, body any) (scripts.Answer, error) {
	a, err := w.try(method, path, key, apiKey, body)
	return scripts.Answer{Status: a.Status, Body: a.Body, Raw: a.Raw}, err
}

func (w *world) scriptNotice(ctx context.Context, gateway string, header http.Header, body []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", w.base+"/webhooks/"+gateway+"/default", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header = header.Clone()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// scriptsCalm waits until every webhook is worked on, every wanted look was told and made, no order has work that nobody waits for,
// and no run of an order is doing anything.
func (w *world) scriptsCalm(ctx context.Context) error {
	for {
		err := errors.Join(
			w.until(ctx, "webhooks to work on", "SELECT receipt_id::text FROM webhook_receipts WHERE processed_at IS NULL"),
			w.until(ctx, "looks to tell", "SELECT attempt_id FROM looks_wanted"),
			w.until(ctx, "attempts under way", `SELECT attempt_id || ' ' || status || ' ' || order_id FROM payment_attempts WHERE status IN ('created', 'sent') OR observed_seq <> reflected_seq
				OR (next_check_at <= now() AND closed_at IS NULL)`),
			w.until(ctx, "refunds under way", `SELECT refund_id || ' ' || status || ' ' || order_id FROM refunds f WHERE status IN ('requested', 'sent')
				OR (observed_seq <> reflected_seq AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.subject_id = f.refund_id AND r.status = 'open'))`),
			w.until(ctx, "orders with work", `SELECT o.order_id || ' ' || o.status FROM orders o WHERE o.work_seq <> o.done_seq
				AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.order_id = o.order_id AND r.status = 'open')
				AND NOT EXISTS (SELECT 1 FROM payment_attempts a WHERE a.order_id = o.order_id AND a.status = 'pending')
				AND NOT EXISTS (SELECT 1 FROM refunds f WHERE f.order_id = o.order_id AND f.status = 'pending')`))
		if err != nil {
			return err
		}
		busy, err := w.busyRuns(ctx)
		if err != nil || busy == 0 {
			return err
		}
	}
}

// busyRuns waits for each order's run to do nothing, and counts those that did something.
func (w *world) busyRuns(ctx context.Context) (int, error) {
	rows, err := w.owner.Query(ctx, "SELECT order_id FROM orders")
	if err != nil {
		return 0, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var errs []error
	busy := 0
	work := make(chan string)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for id := range work {
				n, err := w.runIdle(ctx, id)
				mu.Lock()
				busy += n
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	for _, id := range ids {
		work <- id
	}
	close(work)
	wg.Wait()
	return busy, errors.Join(errs...)
}

// runIdle returns when an order's run neither decides nor does anything: 1 = it had to be waited for.
func (w *world) runIdle(ctx context.Context, id string) (busy int, err error) {
	for {
		d, err := w.temporal.DescribeWorkflow(ctx, order.WorkflowID(order.ID(id)), "")
		var none *serviceerror.NotFound
		if errors.As(err, &none) {
			return busy, nil
		}
		if err != nil {
			return busy, fmt.Errorf("run of %s: %w", id, err)
		}
		if len(d.RawResponse.GetPendingActivities()) == 0 && d.RawResponse.GetPendingWorkflowTask() == nil {
			return busy, nil
		}
		busy = 1
		time.Sleep(50 * time.Millisecond) // between two looks at the condition; nothing depends on its length
	}
}

// scriptsSwept waits for the sweep, which runs by itself, to have lapsed what is over.
func (w *world) scriptsSwept(ctx context.Context) error {
	return w.until(ctx, "orders to lapse", `SELECT order_id FROM orders o WHERE o.status = 'open' AND o.expires_at < now()
		AND NOT EXISTS (SELECT 1 FROM payment_attempts a WHERE a.order_id = o.order_id AND a.closed_at IS NULL)`)
}

// until waits for a question to have no answers. An error names those that stayed for minutes.
func (w *world) until(ctx context.Context, what, question string) error {
	deadline := time.Now().Add(3 * time.Minute)
	for {
		rows, err := w.owner.Query(ctx, question)
		if err != nil {
			return err
		}
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %v", what, left[:min(len(left), 20)])
		}
		time.Sleep(100 * time.Millisecond) // between two looks at the condition; nothing depends on its length
	}
}

func (w *world) scriptsLook(settlement []byte) error {
	if _, stderr, code := w.starterCommand(nil, "reconcile", "run"); code != 0 {
		return fmt.Errorf("reconcile run: %s", stderr)
	}
	file := filepath.Join(w.logs, "settlement.csv")
	if err := os.WriteFile(file, settlement, 0o600); err != nil {
		return err
	}
	if _, stderr, code := w.starterCommand(nil, "reconcile", "import", "--gateway", "twoctwop", file); code != 0 {
		return fmt.Errorf("reconcile import: %s", stderr)
	}
	return nil
}
