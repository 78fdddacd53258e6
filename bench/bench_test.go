package main

// Goal: a bench whose books do not agree, or whose targets are missed, cannot pass. Method: each check is given something
// that is wrong. Not covered here: the runs themselves, which `bench --short` is.

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func agreeing() ([]placed, map[string]ours, far) {
	pay := func(n string, minor int64) charge {
		return charge{Intent: "pi_" + n, Reference: "ref_" + n, Currency: "JPY", Captured: minor}
	}
	db := map[string]ours{}
	var theirs far
	var orders []placed
	for i, n := range []string{"a", "b"} {
		minor := int64(1000 + i)
		orders = append(orders, placed{ID: orderID("run", i), Minor: minor})
		id := string(orderID("run", i))
		db[id] = ours{
			ID: id, Status: "completed", TotalMinor: minor, Currency: "JPY", Rested: true, Payments: []charge{pay(n, minor)},
			UnitsOwed: 1, UnitsIssued: 1, Issuances: 1, Grants: 1, Events: []string{"order.paid/evt_" + n, "order.completed/evt2_" + n},
		}
		c := pay(n, minor)
		c.Currency = "jpy"
		theirs.Charges = append(theirs.Charges, c)
		theirs.Effects = append(theirs.Effects, effect{ID: "evt_" + n, OrderID: id, Type: "order.paid"}, effect{ID: "evt2_" + n, OrderID: id, Type: "order.completed"})
	}
	return orders, db, theirs
}

func TestBooksThatAgreePass(t *testing.T) {
	t.Parallel()
	require.Empty(t, compare(agreeing()))
}

func TestEveryMismatchFails(t *testing.T) {
	t.Parallel()
	change := func(f func(*ours)) func([]placed, map[string]ours, *far) {
		return func(_ []placed, db map[string]ours, _ *far) {
			o := db["run-0"]
			f(&o)
			db["run-0"] = o
		}
	}
	theirs := func(f func(*far)) func([]placed, map[string]ours, *far) {
		return func(_ []placed, _ map[string]ours, t *far) { f(t) }
	}
	for name, spoil := range map[string]func([]placed, map[string]ours, *far){
		"OrderLost":             func(_ []placed, db map[string]ours, _ *far) { delete(db, "run-0") },
		"OrderNobodyAskedFor":   func(_ []placed, db map[string]ours, _ *far) { db["run-9"] = db["run-0"] },
		"OrderNotCompleted":     change(func(o *ours) { o.Status = "paid" }),
		"OrderWithWorkLeft":     change(func(o *ours) { o.Rested = false }),
		"OtherTotal":            change(func(o *ours) { o.TotalMinor++ }),
		"NoPayment":             change(func(o *ours) { o.Payments = nil }),
		"TwoPayments":           change(func(o *ours) { o.Payments = append(o.Payments, o.Payments[0]) }),
		"PaymentOfOtherAmount":  change(func(o *ours) { o.Payments[0].Captured++ }),
		"PaymentOfOtherPerson":  change(func(o *ours) { o.Payments[0].Reference = "ref_b" }),
		"RefundNobodyAskedFor":  change(func(o *ours) { o.Payments[0].Refunded = 1 }),
		"UnitNotIssued":         change(func(o *ours) { o.UnitsIssued = 0 }),
		"IssuedTwice":           change(func(o *ours) { o.Issuances = 2 }),
		"NoGrant":               change(func(o *ours) { o.Grants = 0 }),
		"NoEvents":              change(func(o *ours) { o.Events = nil }),
		"EventTwice":            change(func(o *ours) { o.Events[1] = "order.paid/evt_a" }),
		"EventNotDelivered":     change(func(o *ours) { o.OpenDeliver = 1 }),
		"ReviewOpen":            change(func(o *ours) { o.OpenReviews = 1 }),
		"AttemptOpen":           change(func(o *ours) { o.OpenAttempts = 1 }),
		"ChargeWithoutPayment":  theirs(func(f *far) { f.Charges = append(f.Charges, charge{Intent: "pi_x", Captured: 5}) }),
		"ChargedTwice":          theirs(func(f *far) { f.Charges = append(f.Charges, f.Charges[0]) }),
		"PaymentWithoutCharge":  theirs(func(f *far) { f.Charges = f.Charges[1:] }),
		"ChargeInOtherCurrency": theirs(func(f *far) { f.Charges[0].Currency = "usd" }),
		"EffectMissing":         theirs(func(f *far) { f.Effects = f.Effects[1:] }),
		"EffectTwice":           theirs(func(f *far) { f.Effects = append(f.Effects, f.Effects[0]) }),
		"EffectFromNowhere":     theirs(func(f *far) { f.Effects = append(f.Effects, effect{ID: "evt_x", OrderID: "run-0", Type: "order.paid"}) }),
		"IssuedOutside":         theirs(func(f *far) { f.Issuances = 1 }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			orders, db, other := agreeing()
			spoil(orders, db, &other)
			require.NotEmpty(t, compare(orders, db, other))
		})
	}
}

func rounds(n int, orders, floor float64, answer, bare time.Duration, events int) *report {
	r := &report{Clients: 50}
	per := func(rate float64) outcome {
		return outcome{Done: int(rate * 10), Elapsed: 10 * time.Second, Answers: []time.Duration{time.Millisecond}, CPU: map[string]time.Duration{"worker": time.Second}, Events: []int{events}}
	}
	for range n {
		r.Rounds = append(r.Rounds, round{
			Update: per(floor), Orders: per(orders), Activities: per(floor),
			Bare: outcome{Answers: []time.Duration{bare}}, Single: outcome{Answers: []time.Duration{answer}, Events: []int{events}},
		})
	}
	return r
}

func TestTargetsCanBeMissed(t *testing.T) {
	t.Parallel()
	good := rounds(5, 60, 100, 40*time.Millisecond, 20*time.Millisecond, 20)
	require.NoError(t, good.finish(&bytes.Buffer{}, settings{}))
	for name, bad := range map[string]*report{
		"Throughput": rounds(5, 59, 100, 40*time.Millisecond, 20*time.Millisecond, 20),
		"Answer":     rounds(5, 60, 100, 41*time.Millisecond, 20*time.Millisecond, 20),
		"History":    rounds(5, 60, 100, 40*time.Millisecond, 20*time.Millisecond, 21),
		"NoHistory":  {Rounds: []round{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history, ratios := bad.misses()
			require.NotEmpty(t, append(history, ratios...))
		})
	}
	require.NoError(t, rounds(2, 10, 100, time.Second, 20*time.Millisecond, 20).finish(&bytes.Buffer{}, settings{Short: true}), "a short run shows its ratios and judges only history and books")
	require.Error(t, rounds(2, 60, 100, 40*time.Millisecond, 20*time.Millisecond, 21).finish(&bytes.Buffer{}, settings{Short: true}))
}

func TestClientsStopAtTheFirstErrorAtTheCountAndAtTheTime(t *testing.T) {
	t.Parallel()
	never := func(context.Context, int) error { return nil }
	answers, err := clientsRun(t.Context(), 4, 10, time.Now().Add(time.Minute), load{
		one: func(context.Context, int) (time.Duration, error) { return time.Millisecond, nil }, last: never,
	})
	require.NoError(t, err)
	require.Len(t, answers, 10)

	broken := errors.New("broken")
	_, err = clientsRun(t.Context(), 4, 1000, time.Now().Add(time.Minute), load{
		one: func(_ context.Context, i int) (time.Duration, error) {
			if i == 3 {
				return 0, broken
			}
			return 0, nil
		}, last: never,
	})
	require.ErrorIs(t, err, broken)

	_, err = clientsRun(t.Context(), 1, 3, time.Now().Add(time.Minute), load{
		one:  func(context.Context, int) (time.Duration, error) { return 0, nil },
		last: func(_ context.Context, i int) error { require.Equal(t, 2, i); return broken },
	})
	require.ErrorIs(t, err, broken, "an end that failed is not passed over")

	answers, err = clientsRun(t.Context(), 1, 1000, time.Now(), load{one: nil, last: never})
	require.NoError(t, err)
	require.Empty(t, answers)
}

func TestQuantilesAndMedians(t *testing.T) {
	t.Parallel()
	var ds []time.Duration
	for i := 1; i <= 100; i++ {
		ds = append(ds, time.Duration(i))
	}
	require.Equal(t, []time.Duration{1, 50, 95, 99, 100}, []time.Duration{quantile(ds, 0), quantile(ds, 0.5), quantile(ds, 0.95), quantile(ds, 0.99), quantile(ds, 1)})
	require.Zero(t, quantile(nil, 0.5))
	require.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
	require.Zero(t, median(nil))
}

func TestCPUIsReadBehindAnyProgramName(t *testing.T) {
	t.Parallel()
	s, err := parseStat("42 (a b) c) S 7 42 42 0 -1 4194560 100 0 0 0 150 50 20 10 20 0 9 0 100 200 300")
	require.NoError(t, err)
	require.Equal(t, procStat{parent: 7, own: 2 * time.Second, reaped: 300 * time.Millisecond}, s)
	for _, broken := range []string{"", "42 (a", "42 (a) S 7"} {
		_, err := parseStat(broken)
		require.Error(t, err)
	}
}
