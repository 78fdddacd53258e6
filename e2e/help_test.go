package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
)

// Filters that match everything.
var (
	stripeAll   = stripesim.Filter{}
	receiverAll = receiver.Filter{}
)

// long reports that the long tests were asked for (make test-long). Without it the same tests run in a smaller size, or with the
// facts about a provider that most of its documents state.
func long() bool { return os.Getenv("ORDERFLOW_TEST_LONG") == "1" }

// sub runs a part of a world's test under its own name. Parts run one after the other: they share the books.
func (w *world) sub(name string, f func(w *world)) {
	w.t.Helper()
	outer := w.t
	outer.Run(name, func(t *testing.T) {
		w.t = t
		defer func() { w.t = outer }()
		f(w)
	})
}

// sideBySide runs parts of a world's test under their own names and at the same time, and waits for all of them. They share the
// books, so only what concerns their own orders may be judged in them. They do not queue with the tests of other worlds: this world
// would cost something all the while, and wait for minutes.
func (w *world) sideBySide(parts map[string]func(w *world)) {
	w.t.Helper()
	w.t.Run("side by side", func(t *testing.T) {
		var wg sync.WaitGroup
		for name, part := range parts {
			wg.Go(func() {
				t.Run(name, func(t *testing.T) {
					own := *w
					own.t = t
					part(&own)
				})
			})
		}
		wg.Wait()
	})
}

// swap changes part of a value of the environment; it fails when there is nothing to change.
func swap(name, from, to string) option {
	return func(w *world) {
		w.t.Helper()
		require.Contains(w.t, w.env[name], from)
		w.env[name] = strings.ReplaceAll(w.env[name], from, to)
	}
}

// awaitFor is await with a bound of its own, for what takes long by design.
func (w *world) awaitFor(within time.Duration, what string, cond func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(within)
	for !cond() {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited %s for: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond) // between two looks at the condition; nothing depends on its length
	}
}

// killWorkers ends every worker at once, as a power cut would.
func (w *world) killWorkers() {
	for _, p := range w.workers {
		p.kill()
	}
	w.workers = nil
}

// problem requires a problem answer (RFC 9457) of a status and a type.
func (w *world) problem(a answer, status int, kind string) {
	w.t.Helper()
	assert.Equal(w.t, status, a.Status, "%s", a.Raw)
	assert.Equal(w.t, "application/problem+json", a.Header.Get("Content-Type"))
	assert.Equal(w.t, "urn:orderflow:problem:"+kind, a.Body["type"], "%s", a.Raw)
	assert.EqualValues(w.t, status, a.Body["status"])
	assert.NotEmpty(w.t, a.Body["title"])
	assert.NotEmpty(w.t, a.Body["detail"], "a problem says what to do")
}

// at walks an answer's JSON: numbers are indexes.
func (a answer) at(keys ...any) any {
	var v any = a.Body
	for _, k := range keys {
		switch k := k.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[k]
		case int:
			l, _ := v.([]any)
			if k >= len(l) {
				return nil
			}
			v = l[k]
		}
	}
	return v
}

// later is one request in the background; its answer comes through the channel, an error as status 0.
func (w *world) later(method, path, key string, body any) <-chan answer {
	ch := make(chan answer, 1)
	go func() {
		a, _ := w.try(method, path, key, apiKey, body)
		ch <- a
	}()
	return ch
}

// do makes one request as it is.
func (w *world) do(req *http.Request) answer {
	w.t.Helper()
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	a := answer{Status: res.StatusCode, Header: res.Header}
	a.Raw, err = io.ReadAll(res.Body)
	require.NoError(w.t, err)
	_ = json.Unmarshal(a.Raw, &a.Body)
	return a
}

// atOnce makes n requests as nearly at the same moment as a machine can.
func atOnce(n int, one func(i int) answer) []answer {
	out := make([]answer, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			out[i] = one(i)
		})
	}
	close(start)
	wg.Wait()
	return out
}

// starterCommand runs the command line as a person would and returns its two outputs.
func (w *world) starterCommand(more map[string]string, args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	cmd := exec.Command(filepath.Join(w.bin, "starter"), args...)
	for _, env := range []map[string]string{w.env, more} {
		for k, v := range env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	var o, e strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if cmd.ProcessState == nil {
		require.NoError(w.t, err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// captured counts the charges that took money for an order, in the provider's books.
func (w *world) captured(id string) int {
	w.t.Helper()
	n := 0
	for _, ref := range w.references(id) {
		n += len(w.sandbox.Taken(ref))
	}
	return n
}

// references are what the provider knows an order's attempts by.
func (w *world) references(id string) []string {
	w.t.Helper()
	rows, err := w.owner.Query(context.Background(), "SELECT merchant_reference FROM payment_attempts WHERE order_id = $1 ORDER BY created_at", id)
	require.NoError(w.t, err)
	refs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(w.t, err)
	return refs
}

// writes are an order's write requests at the provider whose path ends so.
func (w *world) writes(id, suffix string) []stripesim.WriteEntry {
	w.t.Helper()
	var out []stripesim.WriteEntry
	for _, ref := range w.references(id) {
		intents := map[string]bool{}
		for _, c := range w.sandbox.Stripe().Charges(stripesim.Filter{MerchantReference: ref}) {
			intents[c.Intent] = true
		}
		if pi := w.text("SELECT provider_payment_id FROM payment_attempts WHERE merchant_reference = $1", ref); pi != "" {
			intents[pi] = true
		}
		for _, e := range w.sandbox.Stripe().Writes(stripesim.Filter{PathSuffix: suffix}) {
			part := strings.Split(e.Path, "/")
			if strings.Contains(e.Body, ref) || (len(part) > 3 && intents[part[3]]) {
				out = append(out, e)
			}
		}
	}
	return out
}

// neverFailed asserts that nothing anywhere said that a payment failed: not the log, not an event, not the receiver.
func (w *world) neverFailed(id string) {
	w.t.Helper()
	assert.Zero(w.t, w.number("SELECT count(*) FROM transitions WHERE order_id = $1 AND to_status IN ('declined', 'closed', 'canceled', 'expired', 'failed', 'refused')", id), "no failed state in the history of %s", id)
	assert.Zero(w.t, w.number("SELECT count(*) FROM outbox_events WHERE order_id = $1 AND type NOT IN ('order.paid', 'order.completed')", id), "no failure was sent out for %s", id)
}

// rowCounts counts the rows of every table, so that a refusal can be shown to have left nothing behind.
func (w *world) rowCounts() map[string]int {
	w.t.Helper()
	rows, err := w.owner.Query(context.Background(), "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT LIKE 'goose%'")
	require.NoError(w.t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(w.t, err)
	require.Greater(w.t, len(tables), 15, "all tables are seen")
	out := map[string]int{}
	for _, table := range tables {
		out[table] = w.number("SELECT count(*) FROM " + pgx.Identifier{table}.Sanitize())
	}
	return out
}

// execute runs SQL as the owner, to break something on purpose.
func (w *world) execute(sql string) {
	w.t.Helper()
	_, err := w.owner.Exec(context.Background(), sql)
	require.NoError(w.t, err)
}

// variant builds worker and starter from the present source with some of it replaced: the next release, as a deployment
// would bring it. Every replacement must be found.
func variant(t *testing.T, file string, replace map[string]string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	path := filepath.Join(root, filepath.FromSlash(file))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	source := string(b)
	for from, to := range replace {
		require.Contains(t, source, from, "the source to vary has changed: adapt the test")
		source = strings.ReplaceAll(source, from, to)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, "changed.go")
	require.NoError(t, os.WriteFile(changed, []byte(source), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	bin := filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin+string(filepath.Separator), "orderflow/worker", "orderflow/starter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

// restartStarter ends the API as asked and starts it again at the same address.
func (w *world) restartStarter(kill bool) {
	w.t.Helper()
	if kill {
		w.starter.kill()
	} else {
		w.starter.stop()
	}
	w.startStarter()
}

// oneOf asserts that a request was answered with one of the statuses.
func oneOf(t *testing.T, a answer, statuses ...int) {
	t.Helper()
	assert.Contains(t, statuses, a.Status, "%s", a.Raw)
}

// paid pays an order to its end. That the first answer is 202 on a slow machine is within the contract.
func (w *world) paid(id, key string) answer {
	w.t.Helper()
	a := w.pay(id, key)
	oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
	w.awaitStatus(id, "completed")
	w.settled(id)
	return a
}

// numbered makes n names.
func numbered(format string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}

// stopSchedules ends what would go on every second in the server that all worlds share, after the world's processes are gone:
// twenty left behind slow everybody else down to time-outs.
func (w *world) stopSchedules() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, id := range []string{order.ScheduleSweep, order.ScheduleRelay, order.ScheduleReconcile} {
		if err := w.temporal.ScheduleClient().GetHandle(ctx, id).Delete(ctx); err != nil {
			w.home.Logf("schedule %s stays behind: %v", id, err) // a private server may be gone already
		}
	}
}
