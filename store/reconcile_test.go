package store

// Goal: a page leads to looks, orphans with an owned review, and a moved cursor, all or nothing; a settled page writes nothing at all.
// Method: real PostgreSQL; every row of every table is compared by its transaction. Not covered: what is found, which internal/reconcile
// tests, and providers.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/internal/reconcile"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

var reconcileRules = reconcile.Rules{Grace: 15 * time.Minute, HoldFor: 24 * time.Hour, Skew: time.Minute}

func listed(a sqlcgen.PaymentAttempt, o order.Outcome) reconcile.Item {
	i := reconcile.Item{
		ProviderPaymentID: "pi_" + a.AttemptID, MerchantReference: a.MerchantReference, Outcome: o, Currency: "JPY", AmountMinor: a.AmountMinor,
		At: time.Now().Add(-time.Hour),
	}
	if o == order.Succeeded {
		i.CapturedMinor = a.AmountMinor
	}
	return i
}

func (e *env) page(items ...reconcile.Item) reconcile.Findings {
	e.t.Helper()
	done, err := e.s.ReconcilePage(e.ctx(), Page{Account: account, Items: items, Rules: reconcileRules, Source: "reconcile"})
	require.NoError(e.t, err)
	return done.Findings
}

// rows is every row there is, as it was last written: a row that was touched has another transaction.
func (e *env) rows() string {
	e.t.Helper()
	var out []string
	tables, err := e.owner.Query(e.ctx(), "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname")
	require.NoError(e.t, err)
	var names []string
	for tables.Next() {
		var n string
		require.NoError(e.t, tables.Scan(&n))
		names = append(names, n)
	}
	require.NoError(e.t, tables.Err())
	for _, n := range names {
		out = append(out, n+": "+e.text(fmt.Sprintf("SELECT count(*) || ' rows, ' || coalesce(string_agg(xmin::text || '/' || ctid::text, ',' ORDER BY ctid), '') FROM %q", n)))
	}
	return strings.Join(out, "\n")
}

func TestReconcilePageFindsWhatDiffers(t *testing.T) {
	t.Parallel()
	e := setup(t)
	paid := e.pay(e.place("O-paid", grantLine(1)))
	unknown := e.unknown("O-unknown")
	closed := e.open(e.place("O-closed", grantLine(1)), "pay-closed")
	declined := answer(closed, order.Declined)
	declined.Payment.Final = true
	e.keep(declined)
	e.reflect(closed)
	require.Equal(t, "closed", e.attempt(closed).Status)
	orphan := reconcile.Item{ProviderPaymentID: "pk_9", MerchantReference: "O-UNKNOWN-9", Outcome: order.Succeeded, Currency: "JPY", AmountMinor: 1270, CapturedMinor: 1270, At: time.Now().Add(-time.Hour)}
	young := orphan
	young.ProviderPaymentID, young.At = "pk_young", time.Now()

	f := e.page(listed(paid, order.Succeeded), listed(unknown, order.Succeeded), listed(closed, order.Succeeded), orphan, young)
	require.Equal(t, 1, f.Agreed)
	require.Equal(t, 1, f.Waiting)
	require.Len(t, f.Looks, 2)
	require.Len(t, f.Orphans, 1)
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM looks_wanted WHERE source = 'reconcile' AND says = 'succeeded'"))
	require.Equal(t, "pk_9 O-UNKNOWN-9 JPY 1270 open", e.text("SELECT subject || ' ' || merchant_reference || ' ' || currency || ' ' || captured_minor || ' ' || status FROM orphan_payments"))
	require.Equal(t, "orphan_payment operations", e.text("SELECT r.reason || ' ' || r.owner FROM reviews r JOIN orphan_payments p ON p.orphan_id = r.subject_id WHERE r.status = 'open' AND r.order_id IS NULL"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM orphan_payments WHERE provider_at < now() - interval '30 minutes' AND attempt_id IS NULL"))

	t.Run("APersonClosesTheOrphanForGood", func(t *testing.T) {
		e.exec("UPDATE orphan_payments SET status = 'closed', ended_at = now()")
		before := e.rows()
		e.page(orphan)
		require.Equal(t, before, e.rows())
	})
}

func TestReconcilingASettledSystemWritesNothing(t *testing.T) {
	t.Parallel()
	e := setup(t)
	paid := e.pay(e.place("O-1", grantLine(1)))
	orphan := reconcile.Item{ProviderPaymentID: "pk_9", Outcome: order.Succeeded, Currency: "JPY", AmountMinor: 1270, CapturedMinor: 1270, At: time.Now().Add(-time.Hour)}
	moved := orphan
	moved.Outcome, moved.CapturedMinor = order.Unknown, 0
	items := []reconcile.Item{listed(paid, order.Succeeded), orphan, moved}
	e.page(items...)
	n, err := e.s.OrphansExplain(e.ctx(), account)
	require.NoError(t, err)
	require.Zero(t, n)
	before := e.rows()
	f := e.page(items...)
	require.True(t, f.Empty())
	_, err = e.s.OrphansExplain(e.ctx(), account)
	require.NoError(t, err)
	e.page()
	require.Equal(t, before, e.rows())
	e.exec("UPDATE orphan_payments SET last_seen_at = now()")
	require.NotEqual(t, before, e.rows(), "the comparison can fail")
}

func TestReconcileCursorMovesWithItsPage(t *testing.T) {
	t.Parallel()
	e := setup(t)
	spans := reconcile.Spans{Window: 24 * time.Hour, Overlap: 15 * time.Minute}
	orphan := reconcile.Item{ProviderPaymentID: "pk_9", Outcome: order.Succeeded, Currency: "JPY", AmountMinor: 5, CapturedMinor: 5, At: time.Now().Add(-time.Hour)}
	step := func(next string) (PageDone, error) {
		seen, err := e.s.ReconcileReach(e.ctx(), account)
		require.NoError(t, err)
		w, ok := seen.Begin(seen.Now, spans)
		require.True(t, ok)
		return e.s.ReconcilePage(e.ctx(), Page{
			Account: account, Items: []reconcile.Item{orphan}, Rules: reconcileRules, Seen: seen,
			Move: func(hold time.Time) reconcile.Reach { return w.Page(1, hold, next, spans) },
		})
	}
	_, err := step("cursor-1")
	require.NoError(t, err)
	under, err := e.s.ReconcileReach(e.ctx(), account)
	require.NoError(t, err)
	require.True(t, under.UnderWay())
	require.Equal(t, "cursor-1", under.Cursor)
	done, err := step("")
	require.NoError(t, err)
	now, err := e.s.ReconcileReach(e.ctx(), account)
	require.NoError(t, err)
	require.False(t, now.UnderWay())
	require.WithinDuration(t, under.Until, now.To, 0)
	require.Equal(t, done.Reach.Version, now.Version)

	t.Run("OfTwoThatReadOnePageOneMovesIt", func(t *testing.T) {
		e.exec("DELETE FROM reviews; DELETE FROM orphan_payments")
		other := orphan
		other.ProviderPaymentID = "pk_10"
		_, err := e.s.ReconcilePage(e.ctx(), Page{
			Account: account, Items: []reconcile.Item{other}, Rules: reconcileRules, Seen: under,
			Move: func(hold time.Time) reconcile.Reach { return under.Page(1, hold, "", spans) },
		})
		require.True(t, fault.IsCode(err, fault.VersionMoved), "%v", err)
		require.Zero(t, e.count("SELECT count(*) FROM orphan_payments"), "and nothing of its page is kept")
	})
}

func TestOrphanIsExplainedLater(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.unknown("O-1")
	b := e.pay(e.place("O-2", grantLine(1)))
	e.exec("INSERT INTO orphan_payments (orphan_id, gateway, account, environment, subject, provider_payment_id, merchant_reference) VALUES "+
		"('o1', 'stripe', 'default', 'test', 'reference ' || $1::text, '', $1), ('o2', 'stripe', 'default', 'test', $2::text, $2, ''), "+
		"('o3', 'stripe', 'default', 'test', 'pi_second', 'pi_second', $3), ('o4', 'stripe', 'default', 'live', $2::text, $2, ''), ('o5', 'stripe', 'default', 'test', 'pi_5', 'pi_5', '')",
		a.MerchantReference, b.ProviderPaymentID, b.MerchantReference)
	n, err := e.s.OrphansExplain(e.ctx(), account)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, "o3 o4 o5", e.text("SELECT string_agg(orphan_id, ' ' ORDER BY orphan_id) FROM orphan_payments WHERE status = 'open'"),
		"a second payment under one reference is not the first one's, nor is another environment's")
	require.Equal(t, a.AttemptID, e.text("SELECT attempt_id FROM looks_wanted"), "of the two only that one is not paid")
	t.Run("NorByAWebhook", func(t *testing.T) {
		r := receipt("evt_1", b, order.Succeeded)
		r.ProviderPaymentID = "pi_second"
		_, err := e.s.ReceiptKeep(e.ctx(), r)
		require.NoError(t, err)
		_, err = e.s.ReceiptsProcess(e.ctx(), time.Hour, 10)
		require.NoError(t, err)
		require.Equal(t, "open", e.text("SELECT status FROM orphan_payments WHERE orphan_id = 'o3'"))
	})
}

func TestAttemptsToInquire(t *testing.T) {
	t.Parallel()
	e := setup(t)
	same := time.Now().Add(-time.Hour).Truncate(time.Second)
	want := map[order.AttemptID]bool{}
	for i := range 7 {
		want[idOf(e.unknown(order.ID(fmt.Sprintf("O-%d", i))))] = true
	}
	e.exec("UPDATE payment_attempts SET created_at = $1", same) // all of one instant
	e.pay(e.place("O-paid", grantLine(1)))
	_, err := e.s.AttemptOpen(e.ctx(), attemptDraft(e.place("O-unsent", grantLine(1)), "k"))
	require.NoError(t, err)
	got := map[order.AttemptID]bool{}
	at, id := time.Time{}, order.AttemptID("")
	for range 4 {
		rows, err := e.s.AttemptsToInquire(e.ctx(), account, same, time.Now().Add(time.Minute), at, id, 3)
		require.NoError(t, err)
		for _, r := range rows {
			require.False(t, got[r.Attempt], "twice")
			got[r.Attempt] = true
			at, id = r.At, r.Attempt
		}
	}
	require.Equal(t, want, got)
	rows, err := e.s.AttemptsToInquire(e.ctx(), account, same.Add(time.Second), time.Now().Add(time.Minute), time.Time{}, "", 10)
	require.NoError(t, err)
	require.Empty(t, rows)
}
