package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/internal/testkit"
)

// Goal: a worker that dies at any boundary of a page costs the reconciliation nothing: what was found is what an unkilled one finds in the
// same books, once. Method: SIGKILL at ten pages each - with a page in hand and nothing of it stored, with the page stored and its COMMIT
// not answered, with everything stored and the step's end not told to Temporal - then the findings are wiped, and the same books are
// read again undisturbed. Not covered: lists that lag or shift, which activities tests.

const (
	killedPages = 10
	perPage     = 100 // as the provider's list has them
)

// findings are all that reconciliation has found, in the order of what it found.
func (w *world) findings() string {
	w.t.Helper()
	return w.text(`SELECT coalesce(string_agg(concat_ws(' ', p.gateway, p.subject, p.merchant_reference, p.says, p.currency, p.captured_minor, p.provider_at, p.status,
			(SELECT string_agg(concat_ws(' ', r.reason, r.status, r.owner), ',') FROM reviews r WHERE r.subject_kind = 'orphan' AND r.subject_id = p.orphan_id)), E'\n' ORDER BY p.subject), '')
		FROM orphan_payments p`)
}

// forgotten takes all findings away, and how far was read.
func (w *world) forgotten() {
	w.execute("DELETE FROM reviews WHERE subject_kind = 'orphan'")
	w.execute("DELETE FROM orphan_payments")
	w.execute("DELETE FROM reconcile_cursors")
}

// reading runs the reconciliation in the background until a run has read everything: one that a worker died in too often fails, and
// the next goes on where it ended.
func (w *world) reading(args ...string) (whole <-chan error) {
	done := make(chan error, 1)
	go func() {
		var stderr string
		for range killedPages + 1 {
			var code int
			if _, stderr, code = w.starterCommand(nil, append([]string{"reconcile", "run", "--gateway", "stripe"}, args...)...); code == 0 {
				done <- nil
				return
			}
		}
		done <- fmt.Errorf("never read to the end: %s", stderr)
	}()
	return done
}

func TestReconciliationKilledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	if !long() {
		t.Skip("thirty workers die, and Temporal takes five seconds to notice each: in the long run only. A short test kills one: TestAWorkerDiesBetweenPageAndCursor")
	}
	for name, kill := range map[string]func(w *world, proxy *testkit.TCPProxy, marks []time.Time){
		"PageInHand": killedWithPageInHand, "PageStored": killedWithPageStored, "StepDone": killedWithStepDone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var proxy *testkit.TCPProxy
			w := newWorld(t, workersDie, throughProxy(&proxy), with("ORDERFLOW_RECONCILE_GRACE", "100ms"), with("STRIPE_TIMEOUT", "30s"))
			w.place("paid", grant("g", 1, trialTotal))
			w.paid("paid", "k")
			marks := w.strayBatches()
			w.givenBackElsewhere("paid", 50)

			kill(w, proxy, marks)

			strays := (killedPages + 1) * perPage
			w.await("the youngest old enough", func() bool {
				w.reconciled("--gateway", "stripe")
				return w.number("SELECT count(*) FROM orphan_payments") == strays
			})
			w.knowsOf("paid", 50)
			w.nothingIsLost()
			killed := w.findings()
			assert.Equal(t, strays, strings.Count(killed, "orphan_payment open operations"), "one review each")

			w.forgotten()
			w.givenBackElsewhere("paid", 30)
			w.reconciled("--gateway", "stripe")
			assert.Equal(t, w.findings(), killed, "what was found by those that died is what is found by one that does not")
			w.knowsOf("paid", 80)
			w.nothingIsLost()
		})
	}
}

// strayBatches has somebody pay past us, so that each second between two marks holds one page and the last one more.
func (w *world) strayBatches() []time.Time {
	w.t.Helper()
	var marks []time.Time
	for batch := range killedPages + 1 {
		mark := time.Now().Add(time.Second).Truncate(time.Second)
		w.await("the next second, by which the provider counts", func() bool { return !time.Now().Before(mark) })
		marks = append(marks, mark)
		atOnce(perPage, func(i int) answer {
			w.stray("stripe", batch*perPage+i)
			return answer{}
		})
	}
	return append(marks, time.Now().Add(2*time.Second).Truncate(time.Second))
}

// givenBackElsewhere: somebody gives a part of an order's money back at the provider, and the notice of it is lost.
func (w *world) givenBackElsewhere(id string, minor int) {
	w.t.Helper()
	form := url.Values{"payment_intent": {w.text("SELECT provider_payment_id FROM payment_attempts WHERE order_id = $1", id)}, "amount": {fmt.Sprint(minor)}}
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", w.sandbox.StripeURL()+"/v1/refunds", strings.NewReader(form.Encode()))
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer sk_test_e2e")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	a := w.do(req)
	require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Raw)
}

// knowsOf waits until our books say how much of an order's money somebody else gave back.
func (w *world) knowsOf(id string, minor int) {
	w.t.Helper()
	w.await(fmt.Sprintf("%d given back elsewhere", minor), func() bool {
		return w.number("SELECT elsewhere_minor FROM payments WHERE order_id = $1", id) == minor
	})
	w.settled(id)
}

// killedWithPageInHand: the page is fetched, and the transaction that keeps what it leads to waits for a lock of ours.
func killedWithPageInHand(w *world, _ *testkit.TCPProxy, _ []time.Time) {
	w.execute("DELETE FROM reconcile_cursors")
	waiting := func(mode string) func() bool {
		return func() bool {
			return w.number("SELECT count(*) FROM pg_locks WHERE relation = 'reconcile_cursors'::regclass AND mode = $1 AND NOT granted", mode) > 0
		}
	}
	lock := func() pgx.Tx {
		tx, err := w.owner.Begin(w.t.Context())
		require.NoError(w.t, err)
		_, err = tx.Exec(w.t.Context(), "LOCK TABLE reconcile_cursors IN EXCLUSIVE MODE") // who reads may go on
		require.NoError(w.t, err)
		return tx
	}
	held := lock()
	whole := w.reading()
	for page := range killedPages {
		w.await(fmt.Sprintf("page %d in hand", page+1), waiting("RowExclusiveLock"))
		require.Equal(w.t, page, w.number("SELECT coalesce(sum(version), 0) FROM reconcile_cursors"), "nothing of this page is stored")
		w.killWorkers()
		require.NoError(w.t, held.Rollback(w.t.Context()))
		w.await("the dead worker's transaction over", func() bool {
			return w.number("SELECT count(*) FROM pg_locks WHERE relation = 'reconcile_cursors'::regclass AND mode = 'RowExclusiveLock'") == 0
		})
		held = lock()
		w.startWorker()
		w.await("the same page in another hand", waiting("RowExclusiveLock"))
		next := make(chan pgx.Tx, 1)
		go func() { next <- lock() }() // in the queue behind the page, so that it lets this one through and no other
		w.await("the lock asked for", waiting("ExclusiveLock"))
		require.NoError(w.t, held.Rollback(w.t.Context()))
		held = <-next
	}
	require.NoError(w.t, held.Rollback(w.t.Context()))
	require.NoError(w.t, <-whole)
}

// killedWithPageStored: what the page led to and the cursor are stored, and nobody has been told.
func killedWithPageStored(w *world, proxy *testkit.TCPProxy, _ []time.Time) {
	hold := in("ReconcileMove", 1)
	hold.Hold = true
	stored := proxy.LoseCommitAnswer(hold)
	whole := w.reading()
	for page := range killedPages {
		w.firedWithin(stored, fmt.Sprintf("page %d stored", page+1))
		require.Equal(w.t, page+1, w.number("SELECT sum(version) FROM reconcile_cursors"), "this page is stored, and no other")
		w.killWorkers()
		if page+1 < killedPages {
			stored = proxy.LoseCommitAnswer(hold)
		}
		w.startWorker()
	}
	require.NoError(w.t, <-whole)
}

// killedWithStepDone: all that a step of one page has to write is written, and Temporal has not been told.
func killedWithStepDone(w *world, proxy *testkit.TCPProxy, marks []time.Time) {
	hold := in("OrphansExplain", 1)
	hold.Hold = true
	found := 0
	for page := range killedPages {
		done := proxy.LoseCommitAnswer(hold)
		whole := w.reading("--from", marks[page].UTC().Format(time.RFC3339), "--to", marks[page+1].UTC().Format(time.RFC3339))
		w.firedWithin(done, fmt.Sprintf("step %d done", page+1))
		now := w.number("SELECT count(*) FROM orphan_payments")
		require.Greater(w.t, now, found, "this page is stored")
		found = now
		w.killWorkers()
		w.startWorker()
		require.NoError(w.t, <-whole)
		require.Equal(w.t, found, w.number("SELECT count(*) FROM orphan_payments"), "done again, it finds nothing anew")
	}
}

func (w *world) firedWithin(l *testkit.Loss, what string) {
	w.t.Helper()
	w.await(what, func() bool {
		select {
		case <-l.Fired():
			return true
		default:
			return false
		}
	})
}
