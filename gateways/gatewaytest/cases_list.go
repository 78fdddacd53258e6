package gatewaytest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

func lister(t *testing.T, b bench) gateways.Lister {
	t.Helper()
	if !b.caps.CanList {
		t.Skip("the gateway lists nothing")
	}
	return b.gw.(gateways.Lister)
}

// listWhole: a window over more payments than a page holds, most of them of one second and so of one time, with more
// payments made while the pages are read. Every payment that was there stands on exactly one page.
func listWhole(t *testing.T, h Harness) {
	b := setup(t, h)
	l := lister(t, b)
	require.Positive(t, h.Page, "the harness says how many payments a page holds")
	begun := time.Now()
	attempts := map[string]*attempt{}
	for range 2*h.Page + 3 {
		a := b.prepared(t)
		_, err := b.confirm(t.Context(), a)
		require.NoError(t, err)
		attempts[a.id] = a
	}
	grow := func() {
		for range 5 {
			a := b.prepared(t)
			_, err := b.confirm(t.Context(), a)
			require.NoError(t, err)
		}
	}
	w := gateways.Window{From: begun.Add(-time.Minute), To: time.Now().Add(time.Minute)}
	seen, pages := map[string]int{}, 0
	for {
		page, err := l.List(t.Context(), w)
		require.NoError(t, err)
		pages++
		require.LessOrEqual(t, pages, 8, "a listing comes to an end")
		for _, item := range page.Items {
			o := item.Seen
			seen[o.ProviderPaymentID]++
			require.False(t, item.At.Before(w.From.Add(-time.Second)) || !item.At.Before(w.To), "outside of the window")
			require.Equal(t, b.gw.Account(), o.Account)
			if a := attempts[o.ProviderPaymentID]; a != nil {
				b.paid(t, a, o)
			}
		}
		if page.Next == "" {
			break
		}
		require.NotEqual(t, w.Cursor, page.Next, "a cursor moves")
		w.Cursor = page.Next
		grow()
	}
	require.GreaterOrEqual(t, pages, 3)
	for id := range attempts {
		require.Equal(t, 1, seen[id], "every payment of the window exactly once")
	}
	for id, times := range seen {
		require.Equal(t, 1, times, "%s", id)
	}
}

// listEmpty: an empty page is an answer, and none about a payment.
func listEmpty(t *testing.T, h Harness) {
	b := setup(t, h)
	l := lister(t, b)
	a := b.prepared(t)
	_, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	for _, w := range []gateways.Window{
		{From: time.Now().Add(-48 * time.Hour), To: time.Now().Add(-24 * time.Hour)},
		{From: time.Now().Add(time.Hour), To: time.Now().Add(2 * time.Hour)},
	} {
		page, err := l.List(t.Context(), w)
		require.NoError(t, err)
		require.Empty(t, page.Items)
		require.Empty(t, page.Next)
	}
	o, err := b.lookup(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)

	for _, w := range []gateways.Window{
		{},
		{From: time.Now(), To: time.Now().Add(-time.Hour)},
	} {
		_, err := l.List(t.Context(), w)
		class(t, err, fault.Internal)
	}
}

// listGarbage: a page that cannot be read is a fault and never an empty page, which would look like the end of the list.
func listGarbage(t *testing.T, h Harness) {
	b := setup(t, h)
	l := lister(t, b)
	a := b.prepared(t)
	_, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	w := gateways.Window{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}
	answers := append(rubbishes(h, b.Raw(t, a.id)), rubbish{"APayment", 200, b.Raw(t, a.id)})
	for _, r := range answers {
		t.Run(r.name, func(t *testing.T) {
			b.Arm(t, Fault{Kind: Answer, On: Lookup, Status: r.status, Body: r.body})
			page, err := l.List(t.Context(), w)
			if err != nil {
				class(t, err, fault.Transient)
				return
			}
			require.Contains(t, h.EmptyLists, r.name, "this answer is an empty list of the provider's")
			require.Empty(t, page.Items)
		})
	}
	b.Arm(t, Fault{Kind: Busy, On: Lookup, RetryAfter: 3 * time.Second})
	_, err = l.List(t.Context(), w)
	require.Equal(t, 3*time.Second, class(t, err, fault.Transient).RetryAfter)
}
