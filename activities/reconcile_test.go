package activities

// Goal: a list that lags, shifts, repeats, forgets its cursor, is empty or fails leads to nothing wrong: every payment is met once it is
// shown, nothing is concluded from what is missing. Method: a provider of our own whose list does as it is told, against a real
// PostgreSQL. Not covered: Temporal and real providers' lists, which e2e and the gateways test.

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/reconcile"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/store"
)

var listAccount = gateways.Account{Gateway: "lists", Name: "default", Environment: gateways.Test}

// lists is a provider that only lists: newest first, by offset, so that every payment that comes shifts all pages.
type lists struct {
	gateways.Gateway
	payments []gateways.Listed // newest first
	hidden   map[string]bool   // not shown yet
	size     int
	before   func(l *lists, w gateways.Window) error // called before each page
	calls    int
}

func (l *lists) Account() gateways.Account           { return listAccount }
func (l *lists) Capabilities() gateways.Capabilities { return gateways.Capabilities{CanList: true} }

func (l *lists) List(_ context.Context, w gateways.Window) (gateways.Page, error) {
	l.calls++
	if l.before != nil {
		if err := l.before(l, w); err != nil {
			return gateways.Page{}, err
		}
	}
	var shown []gateways.Listed
	for _, p := range l.payments {
		if !l.hidden[p.Seen.ProviderPaymentID] && !p.At.Before(w.From) && p.At.Before(w.To) {
			shown = append(shown, p)
		}
	}
	from, _ := strconv.Atoi(w.Cursor)
	from = min(from, len(shown))
	to := min(from+l.size, len(shown))
	page := gateways.Page{Items: shown[from:to]}
	if to < len(shown) {
		page.Next = strconv.Itoa(to)
	}
	return page, nil
}

func (l *lists) add(id string, at time.Time) {
	l.payments = append(l.payments, gateways.Listed{At: at, Seen: gateways.Observation{
		Account: listAccount, ProviderPaymentID: id, Outcome: gateways.Succeeded, Currency: "JPY", AmountMinor: 100, CapturedMinor: 100,
	}})
	slices.SortStableFunc(l.payments, func(a, b gateways.Listed) int { return b.At.Compare(a.At) })
}

type books struct {
	t     *testing.T
	a     *Activities
	l     *lists
	acc   order.Account
	owner *pgxpool.Pool
}

func openBooks(t *testing.T, s reconcile.Spans) *books {
	t.Helper()
	db := testkit.Database(t)
	st, err := store.Open(t.Context(), db.AppURL, 4, store.Options{})
	require.NoError(t, err)
	t.Cleanup(st.Close)
	owner, err := pgxpool.New(t.Context(), db.OwnerURL)
	require.NoError(t, err)
	t.Cleanup(owner.Close)
	acc := order.Account{Gateway: listAccount.Gateway, Name: listAccount.Name, Environment: string(listAccount.Environment)}
	l := &lists{size: 3, hidden: map[string]bool{}}
	return &books{t: t, l: l, acc: acc, owner: owner, a: New(Deps{
		Store: st, Gateways: map[order.Account]gateways.Gateway{acc: l},
		Reconcile: ReconcileSettings{Spans: s, Rules: reconcile.Rules{Grace: time.Minute, HoldFor: time.Hour, Skew: time.Second}},
	})}
}

// round reads to the end, as the workflow does.
func (b *books) round() order.Reconciled {
	b.t.Helper()
	var all order.Reconciled
	for {
		step, err := b.a.reconcileStep(b.t.Context(), ReconcileInput{Account: b.acc})
		require.NoError(b.t, err)
		all.Add(step.Reconciled)
		if step.Done {
			return all
		}
	}
}

func (b *books) number(sql string) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.owner.QueryRow(b.t.Context(), sql).Scan(&n))
	return n
}

func (b *books) held() int { return b.number("SELECT count(*) FROM orphan_payments") }

func TestLaggingAndShiftingListsAreHarmless(t *testing.T) {
	t.Parallel()
	b := openBooks(t, reconcile.Spans{Window: 2 * time.Hour, Overlap: 30 * time.Minute})
	hour := time.Now().Add(-20 * time.Minute)
	for n := range 10 {
		b.l.add(fmt.Sprintf("p%02d", n), hour) // all of one instant, over four pages
	}
	b.l.hidden["p05"], b.l.hidden["p06"] = true, true
	shifts := 0
	b.l.before = func(l *lists, w gateways.Window) error { // payments come while pages are read, and shift what follows
		if w.Cursor != "" && shifts < 3 {
			shifts++
			l.add(fmt.Sprintf("late%d", shifts), time.Now().Add(-5*time.Minute))
		}
		return nil
	}
	b.round()
	b.l.before, b.l.hidden = nil, nil
	b.round()
	require.Equal(t, 13, b.held(), "what was shown late, and what came between two pages")
	require.Equal(t, 13, b.number("SELECT count(*) FROM reviews"))
	again := b.round()
	require.Zero(t, again.Orphans)
	require.Equal(t, 13, b.held())
}

func TestAnEmptyListOrAnErrorMovesNothing(t *testing.T) {
	t.Parallel()
	b := openBooks(t, reconcile.Spans{Window: 2 * time.Hour, Overlap: time.Minute})
	b.a.d.Reconcile.Rules.Grace = time.Second
	b.l.add("p0", time.Now().Add(-90*time.Minute))
	b.round()
	b.l.add("p1", time.Now().Add(-30*time.Second))
	b.l.hidden["p1"] = true
	row := "SELECT coalesce(sum(version), 0) FROM reconcile_cursors"
	first := b.number(row)
	b.round()
	require.Equal(t, first, b.number(row), "an empty list is read again from where it began")
	away := fault.New(fault.GatewayReadFailed, "list")
	b.l.before = func(*lists, gateways.Window) error { return away }
	_, err := b.a.reconcileStep(t.Context(), ReconcileInput{Account: b.acc})
	require.ErrorIs(t, err, away)
	require.Equal(t, first, b.number(row))
	b.l.before, b.l.hidden = nil, nil
	require.Equal(t, 1, b.round().Orphans, "and so what it did not show is met after all")
}

// A process dies at any moment: what it had stored is what the next one goes on from.
func TestDyingBetweenPagesLosesNothing(t *testing.T) {
	t.Parallel()
	b := openBooks(t, reconcile.Spans{Window: 2 * time.Hour, Overlap: time.Minute})
	for n := range 11 {
		b.l.add(fmt.Sprintf("p%02d", n), time.Now().Add(-time.Duration(10+n)*time.Minute))
	}
	dies := fault.New(fault.GatewayUnavailable, "list")
	for page := range 4 {
		calls := 0
		b.l.before = func(*lists, gateways.Window) error {
			if calls++; calls > 1 && page < 3 {
				return dies
			}
			return nil
		}
		_, err := b.a.reconcileStep(t.Context(), ReconcileInput{Account: b.acc})
		if page < 3 {
			require.ErrorIs(t, err, dies)
			require.Equal(t, 3*(page+1), b.held())
			require.Equal(t, 1, b.number(fmt.Sprintf("SELECT count(*) FROM reconcile_cursors WHERE page_cursor = '%d' AND items = %d", 3*(page+1), 3*(page+1))))
			continue
		}
		require.NoError(t, err)
	}
	require.Equal(t, 11, b.held())
	require.Equal(t, 1, b.number("SELECT count(*) FROM reconcile_cursors WHERE window_until IS NULL AND reached_at IS NOT NULL"))
}

func TestACursorThatIsNotTakenBeginsTheWindowAnew(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*fault.Error{
		"Refused": fault.New(fault.PaymentInvalid, "list"), "Moved": {Code: fault.GatewayReadFailed, Class: fault.Transient, Op: "list", Why: listMoved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBooks(t, reconcile.Spans{Window: 2 * time.Hour, Overlap: time.Minute})
			for n := range 7 {
				b.l.add(fmt.Sprintf("p%02d", n), time.Now().Add(-time.Duration(10+n)*time.Minute))
			}
			once := false
			b.l.before = func(_ *lists, w gateways.Window) error {
				if w.Cursor == "6" && !once {
					once = true
					return f
				}
				return nil
			}
			b.round()
			require.True(t, once)
			require.Equal(t, 7, b.held())
		})
	}
	t.Run("ForEverIsAnError", func(t *testing.T) {
		t.Parallel()
		b := openBooks(t, reconcile.Spans{Window: 2 * time.Hour, Overlap: time.Minute})
		for n := range 7 {
			b.l.add(fmt.Sprintf("p%02d", n), time.Now().Add(-10*time.Minute))
		}
		b.l.before = func(_ *lists, w gateways.Window) error {
			if w.Cursor == "6" {
				return fault.New(fault.PaymentInvalid, "list")
			}
			return nil
		}
		_, err := b.a.reconcileStep(t.Context(), ReconcileInput{Account: b.acc})
		require.True(t, fault.IsCode(err, fault.PaymentInvalid))
	})
}

func TestWhatSomebodyWroteIntoTheBooksIsOnlyText(t *testing.T) {
	t.Parallel()
	b := openBooks(t, reconcile.Spans{Window: 2 * time.Hour, Overlap: time.Minute})
	for n, ref := range []string{"' OR 1=1 --", "nul\x00", "\xff\xfe", "日本", fmt.Sprintf("%4000d", 1)} {
		b.l.add(fmt.Sprintf("p%d", n), time.Now().Add(-10*time.Minute))
		b.l.payments[0].Seen.MerchantReference = ref // the newest stands first
	}
	b.round()
	require.Equal(t, 5, b.held())
	before := b.number("SELECT count(*) FROM orphan_payments WHERE length(merchant_reference) > 255")
	require.Zero(t, before)
}

func TestAnotherAccountsListIsRefused(t *testing.T) {
	t.Parallel()
	b := openBooks(t, reconcile.Spans{Window: 2 * time.Hour, Overlap: time.Minute})
	b.l.add("p1", time.Now().Add(-10*time.Minute))
	b.l.payments[0].Seen.Account.Environment = gateways.Live
	_, err := b.a.reconcileStep(t.Context(), ReconcileInput{Account: b.acc})
	require.True(t, fault.IsCode(err, fault.PaymentMismatch), "%v", err)
	require.Zero(t, b.held())
}

// By hand a window is read from end to end and no stored place moves, however many steps it takes.
func TestByHandMovesNoCursor(t *testing.T) {
	t.Parallel()
	b := openBooks(t, reconcile.Spans{Window: 2 * time.Hour, Overlap: time.Minute})
	b.l.size = 1
	const payments = reconcilePages + 7
	for n := range payments {
		b.l.add(fmt.Sprintf("p%02d", n), time.Now().Add(-10*time.Minute))
	}
	in := ReconcileInput{Account: b.acc, From: time.Now().Add(-time.Hour), To: time.Now()}
	first, err := b.a.reconcileStep(t.Context(), in)
	require.NoError(t, err)
	require.False(t, first.Done)
	require.Equal(t, reconcilePages, b.held())
	in.Cursor = first.Cursor
	second, err := b.a.reconcileStep(t.Context(), in)
	require.NoError(t, err)
	require.True(t, second.Done)
	require.Equal(t, payments, b.held())
	require.Zero(t, b.number("SELECT count(*) FROM reconcile_cursors"))
	in.To = in.From
	_, err = b.a.reconcileStep(t.Context(), in)
	require.True(t, fault.IsCode(err, fault.Refused))
}

func TestCursorOfInquiriesKeepsItsPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999).Draw(t, "us")*1000).UTC()
		gotAt, gotID := afterOf(at.Format(time.RFC3339Nano) + " att_1")
		require.True(t, gotAt.Equal(at))
		require.Equal(t, order.AttemptID("att_1"), gotID)
	})
	at, id := afterOf("nonsense")
	require.True(t, at.IsZero())
	require.Empty(t, id)
}
