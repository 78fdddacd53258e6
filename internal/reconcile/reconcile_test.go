package reconcile

// Goal: a page of a provider's books leads to looks, orphans and waiting, and to nothing else; by ids alone; whatever the order, the
// copies, the gaps and the page edges. Method: random books and lists that share few ids, so that everything collides, and a provider
// whose books are the truth. Not covered: SQL, and what a look finds.

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/internal/money"
	"orderflow/order"
)

var (
	noon  = time.Date(2026, 6, 5, 12, 0, 0, 0, time.UTC)
	rules = Rules{Grace: 15 * time.Minute, HoldFor: 24 * time.Hour, Skew: time.Minute}
)

func ref(n int) string { return fmt.Sprintf("OF%d", n) }
func pid(n int) string { return fmt.Sprintf("pi_%d", n) }

var outcomes = []order.Outcome{order.Succeeded, order.Declined, order.Pending, order.Untouched, order.NotFound, order.Unknown}

func genItem() *rapid.Generator[Item] {
	return rapid.Custom(func(t *rapid.T) Item {
		i := Item{Outcome: rapid.SampledFrom(outcomes).Draw(t, "outcome"), Currency: "JPY", At: noon.Add(-time.Duration(rapid.IntRange(0, 3000).Draw(t, "minutes")) * time.Minute)}
		kind := rapid.IntRange(0, 2).Draw(t, "ids")
		if kind != 1 {
			i.ProviderPaymentID = pid(rapid.IntRange(0, 5).Draw(t, "id"))
		}
		if kind != 0 {
			i.MerchantReference = ref(rapid.IntRange(0, 5).Draw(t, "ref"))
		}
		i.AmountMinor = int64(rapid.IntRange(0, 2).Draw(t, "amount")) * 100
		if i.Outcome == order.Succeeded {
			i.CapturedMinor = max(i.AmountMinor, 100)
			i.RefundedMinor = int64(rapid.IntRange(0, 1).Draw(t, "refunded")) * 50
		}
		return i
	})
}

func genAttempt(n int) *rapid.Generator[Attempt] {
	return rapid.Custom(func(t *rapid.T) Attempt {
		a := Attempt{
			ID: order.AttemptID(fmt.Sprintf("att_%d", n)), Status: rapid.SampledFrom(order.AttemptStatuses).Draw(t, "status"),
			MerchantReference: ref(n), Amount: money.Amount{Minor: 100, Currency: "JPY"},
		}
		if rapid.Bool().Draw(t, "id known") {
			a.ProviderPaymentID = pid(n)
		}
		if a.Status == order.AttemptSucceeded {
			a.Recorded = &Recorded{"JPY", 100, int64(rapid.IntRange(0, 1).Draw(t, "refunded")) * 50, order.DisputeNone}
		}
		if rapid.Bool().Draw(t, "asked") {
			l := Answer(answerOf(genItem().Draw(t, "last")))
			l.At = noon.Add(-time.Duration(rapid.IntRange(0, 3000).Draw(t, "asked minutes ago")) * time.Minute)
			a.Last = &l
		}
		return a
	})
}

func answerOf(i Item) Answer {
	return Answer{
		Outcome: i.Outcome, ProviderPaymentID: i.ProviderPaymentID, MerchantReference: i.MerchantReference, Currency: i.Currency,
		AmountMinor: i.AmountMinor, CapturedMinor: i.CapturedMinor, RefundedMinor: i.RefundedMinor, At: i.At,
	}
}

func genBooks() *rapid.Generator[Books] {
	return rapid.Custom(func(t *rapid.T) Books {
		b := Books{Payments: map[string]order.AttemptID{}, Orphans: map[string]Orphan{}}
		for n := range 4 {
			if rapid.Bool().Draw(t, "attempt") {
				b.Attempts = append(b.Attempts, genAttempt(n).Draw(t, "a"))
			}
		}
		for n := range 6 {
			if rapid.IntRange(0, 4).Draw(t, "orphan") == 0 {
				b.Orphans[pid(n)] = Orphan{Open: rapid.Bool().Draw(t, "open"), Says: rapid.SampledFrom(outcomes).Draw(t, "says")}
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "unresolved") == 0 {
			b.Unresolved = append(b.Unresolved, Unresolved{money.Amount{Minor: 100, Currency: "JPY"}, noon.Add(-time.Hour)})
		}
		return b
	})
}

func genItems() *rapid.Generator[[]Item] { return rapid.SliceOfN(genItem(), 0, 12) }

func looks(f Findings) map[order.AttemptID]bool {
	out := map[order.AttemptID]bool{}
	for _, l := range f.Looks {
		out[l.Attempt] = true
	}
	return out
}

func orphans(f Findings) map[string]bool {
	out := map[string]bool{}
	for _, i := range f.Orphans {
		out[Subject(i.ProviderPaymentID, i.MerchantReference)] = true
	}
	return out
}

// merge is what several pages lead to together.
func merge(all ...Findings) (map[order.AttemptID]bool, map[string]bool, time.Time) {
	l, o, hold := map[order.AttemptID]bool{}, map[string]bool{}, time.Time{}
	for _, f := range all {
		for id := range looks(f) {
			l[id] = true
		}
		for s := range orphans(f) {
			o[s] = true
		}
		if !f.Hold.IsZero() && (hold.IsZero() || f.Hold.Before(hold)) {
			hold = f.Hold
		}
	}
	return l, o, hold
}

func TestOrderAndCopiesDoNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, items := genBooks().Draw(t, "books"), genItems().Draw(t, "items")
		one := Judge(b, items, noon, rules)
		again := Judge(b, rapid.Permutation(append(append([]Item{}, items...), items...)).Draw(t, "shuffled"), noon, rules)
		require.Equal(t, looks(one), looks(again))
		require.Equal(t, orphans(one), orphans(again))
		require.Equal(t, one.Hold, again.Hold)
	})
}

func TestPageEdgesDoNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, items := genBooks().Draw(t, "books"), genItems().Draw(t, "items")
		cut := rapid.IntRange(0, len(items)).Draw(t, "cut")
		back := rapid.IntRange(0, cut).Draw(t, "overlap")
		l, o, hold := merge(Judge(b, items, noon, rules))
		l2, o2, hold2 := merge(Judge(b, items[:cut], noon, rules), Judge(b, items[cut-back:], noon, rules))
		require.Equal(t, l, l2)
		require.Equal(t, o, o2)
		require.Equal(t, hold, hold2)
	})
}

// A list that lags shows less. Less never leads to more, and nothing to nothing.
func TestWhatIsMissingProvesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, items := genBooks().Draw(t, "books"), genItems().Draw(t, "items")
		all := Judge(b, items, noon, rules)
		var some []Item
		for _, i := range items {
			if rapid.Bool().Draw(t, "shown") {
				some = append(some, i)
			}
		}
		less := Judge(b, some, noon, rules)
		require.Subset(t, looks(all), looks(less))
		require.Subset(t, orphans(all), orphans(less))
		none := Judge(b, nil, noon, rules)
		require.True(t, none.Empty())
		require.Zero(t, none.Waiting)
	})
}

// Whatever an attempt is looked at for shares an id with it; amounts, times and states choose no attempt.
func TestLinksAreByIdsAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, items := genBooks().Draw(t, "books"), genItems().Draw(t, "items")
		f := Judge(b, items, noon, rules)
		for _, a := range b.Attempts {
			named := false
			for _, i := range items {
				named = named || (i.ProviderPaymentID != "" && i.ProviderPaymentID == a.ProviderPaymentID) || (i.MerchantReference != "" && i.MerchantReference == a.MerchantReference)
			}
			if !named {
				require.False(t, looks(f)[a.ID], "nothing named it")
			}
		}
	})
}

// No payment that was captured is left out: it is agreed with, looked at, held as an orphan, or met again.
func TestNoMoneyIsForgotten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, i := genBooks().Draw(t, "books"), genItem().Draw(t, "item")
		i.Outcome, i.CapturedMinor = order.Succeeded, 100
		f := Judge(b, []Item{i}, noon, rules)
		kept := false
		for _, s := range i.Subjects() {
			_, there := b.Orphans[s]
			kept = kept || there
		}
		require.True(t, kept || f.Agreed == 1 || len(f.Looks) > 0 || len(f.Orphans) == 1 || (f.Waiting == 1 && !f.Hold.IsZero()), "%+v", f)
		if f.Waiting == 1 {
			require.Less(t, noon.Sub(i.At), rules.HoldFor)
		}
		for _, o := range f.Orphans {
			require.True(t, kept || noon.Sub(o.At) >= rules.Grace, "too young")
		}
	})
}

// A provider whose lists tell its truth: after one round of looks, and after what waits has grown old, a second round finds nothing.
func TestASecondRoundFindsNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, drawn := genBooks().Draw(t, "books"), genItems().Draw(t, "items")
		truth := map[string]Item{} // one payment per id, one reference per payment
		var items []Item
		for _, i := range drawn {
			key := Subject(i.ProviderPaymentID, i.MerchantReference)
			if i.ProviderPaymentID == "" {
				continue
			}
			if _, there := truth[key]; !there {
				truth[key] = i
				items = append(items, i)
			}
		}
		b.Unresolved = nil
		later := noon.Add(rules.Grace + rules.Skew + time.Minute)
		for round := 0; ; round++ {
			f := Judge(b, items, later, rules)
			if f.Empty() {
				require.Zero(t, f.Waiting)
				return
			}
			require.Less(t, round, 4, "it does not come to rest: %+v", f)
			b = settle(t, b, f, items, later)
		}
	})
}

// settle makes the looks and keeps the orphans, as the store and the runs do.
func settle(t *rapid.T, b Books, f Findings, items []Item, now time.Time) Books {
	for _, l := range f.Looks {
		for n, a := range b.Attempts {
			if a.ID != l.Attempt {
				continue
			}
			for _, i := range items { // by its own id, else by the reference, as a lookup does
				if a.ProviderPaymentID == i.ProviderPaymentID || (a.ProviderPaymentID == "" && a.MerchantReference == i.MerchantReference) {
					answer := answerOf(i)
					if answer.Outcome == order.Unknown {
						answer.Outcome = order.Succeeded
					}
					answer.At = now
					b.Attempts[n].Last = &answer
					if a.ProviderPaymentID == "" {
						b.Attempts[n].ProviderPaymentID = i.ProviderPaymentID
					}
					break
				}
			}
		}
	}
	for _, o := range f.Orphans {
		b.Orphans[Subject(o.ProviderPaymentID, o.MerchantReference)] = Orphan{Open: true, Says: o.Outcome, Amount: o.CapturedMinor}
	}
	return b
}

// What each item leads to, as a table that a person can read.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	hundred := money.Amount{Minor: 100, Currency: "JPY"}
	paid := Attempt{ID: "att", Status: order.AttemptSucceeded, ProviderPaymentID: "pi", MerchantReference: "OF", Amount: hundred, Recorded: &Recorded{"JPY", 100, 0, order.DisputeNone}}
	closed := Attempt{ID: "att", Status: order.AttemptClosed, ProviderPaymentID: "pi", MerchantReference: "OF", Amount: hundred}
	unknown := Attempt{ID: "att", Status: order.AttemptUnknown, MerchantReference: "OF", Amount: hundred}
	captured := Item{ProviderPaymentID: "pi", MerchantReference: "OF", Outcome: order.Succeeded, Currency: "JPY", AmountMinor: 100, CapturedMinor: 100, At: noon.Add(-time.Hour)}
	with := func(i Item, f func(*Item)) Item { f(&i); return i }
	asked := func(a Attempt, l Answer) Attempt { a.Last = &l; return a }
	type want struct{ look, orphan, wait bool }
	for name, c := range map[string]struct {
		a    Attempt
		i    Item
		b    Books
		want want
	}{
		"PaidAndListed":              {paid, captured, Books{}, want{}},
		"CapturedThoughClosed":       {closed, captured, Books{}, want{look: true}},
		"CapturedThoughUnknown":      {unknown, captured, Books{}, want{look: true}},
		"DeclinedAndClosed":          {closed, with(captured, func(i *Item) { i.Outcome, i.CapturedMinor = order.Declined, 0 }), Books{}, want{}},
		"OtherAmount":                {paid, with(captured, func(i *Item) { i.AmountMinor, i.CapturedMinor = 90, 90 }), Books{}, want{look: true}},
		"OtherCurrency":              {paid, with(captured, func(i *Item) { i.Currency = "KRW" }), Books{}, want{look: true}},
		"OtherReference":             {paid, with(captured, func(i *Item) { i.MerchantReference = "OTHER" }), Books{}, want{look: true}},
		"RefundedElsewhere":          {paid, with(captured, func(i *Item) { i.RefundedMinor = 30 }), Books{}, want{look: true}},
		"ListLagsBehind":             {paid, with(captured, func(i *Item) { i.Outcome, i.CapturedMinor = order.Untouched, 0 }), Books{}, want{}},
		"MovedAndAskedSince":         {asked(paid, Answer{Outcome: order.Succeeded, At: noon}), with(captured, func(i *Item) { i.Outcome = order.Unknown }), Books{}, want{}},
		"MovedAndNotAskedSince":      {asked(paid, Answer{Outcome: order.Succeeded, At: noon.Add(-2 * time.Hour)}), with(captured, func(i *Item) { i.Outcome = order.Unknown }), Books{}, want{look: true}},
		"DifferenceAPersonHas":       {asked(paid, answerOf(with(captured, func(i *Item) { i.AmountMinor, i.CapturedMinor = 90, 90 }))), with(captured, func(i *Item) { i.AmountMinor, i.CapturedMinor = 90, 90 }), Books{}, want{}},
		"SecondPaymentOfAReference":  {paid, with(captured, func(i *Item) { i.ProviderPaymentID = "pi_2" }), Books{}, want{orphan: true}},
		"NothingExplainsIt":          {paid, with(captured, func(i *Item) { i.ProviderPaymentID, i.MerchantReference = "pi_2", "O-UNKNOWN-9" }), Books{}, want{orphan: true}},
		"SameAmountIsNoLink":         {unknown, with(captured, func(i *Item) { i.ProviderPaymentID, i.MerchantReference = "pi_2", "O-UNKNOWN-9" }), Books{Unresolved: []Unresolved{{hundred, noon.Add(-2 * time.Hour)}}}, want{orphan: true}},
		"MayBeAnUnresolvedOne":       {unknown, with(captured, func(i *Item) { i.ProviderPaymentID, i.MerchantReference = "pi_2", "" }), Books{Unresolved: []Unresolved{{hundred, noon.Add(-2 * time.Hour)}}}, want{wait: true}},
		"BeforeTheUnresolvedOne":     {unknown, with(captured, func(i *Item) { i.ProviderPaymentID, i.MerchantReference = "pi_2", "" }), Books{Unresolved: []Unresolved{{hundred, noon.Add(-time.Minute)}}}, want{orphan: true}},
		"Young":                      {paid, with(captured, func(i *Item) { i.ProviderPaymentID, i.MerchantReference, i.At = "pi_2", "", noon.Add(-time.Minute) }), Books{}, want{wait: true}},
		"NothingCaptured":            {paid, with(captured, func(i *Item) { i.ProviderPaymentID, i.MerchantReference, i.Outcome = "pi_2", "", order.Pending }), Books{}, want{}},
		"HeldAlready":                {paid, with(captured, func(i *Item) { i.ProviderPaymentID, i.MerchantReference = "pi_2", "" }), Books{Orphans: map[string]Orphan{"pi_2": {true, order.Succeeded, 100}}}, want{}},
		"ClosedByAPerson":            {paid, with(captured, func(i *Item) { i.ProviderPaymentID, i.MerchantReference = "pi_2", "" }), Books{Orphans: map[string]Orphan{"pi_2": {}}}, want{}},
		"HeldWithoutItsAmount":       {paid, with(captured, func(i *Item) { i.ProviderPaymentID, i.MerchantReference = "pi_2", "" }), Books{Orphans: map[string]Orphan{"pi_2": {true, order.Succeeded, 0}}}, want{orphan: true}},
		"MoneyThatFittedNothing":     {closed, with(captured, func(i *Item) { i.ProviderPaymentID, i.MerchantReference = "pi_2", "" }), Books{Payments: map[string]order.AttemptID{"pi_2": "att"}}, want{look: true}},
		"NotFoundIsNoProof":          {unknown, with(captured, func(i *Item) { i.Outcome, i.CapturedMinor = order.NotFound, 0 }), Books{}, want{}},
		"PendingThatWeCallPending":   {Attempt{ID: "att", Status: order.AttemptPending, MerchantReference: "OF", Amount: hundred}, with(captured, func(i *Item) { i.Outcome, i.CapturedMinor = order.Pending, 0 }), Books{}, want{}},
		"CapturedThatWeCallPending":  {Attempt{ID: "att", Status: order.AttemptPending, MerchantReference: "OF", Amount: hundred}, captured, Books{}, want{look: true}},
		"SucceededWithoutOurRecord":  {Attempt{ID: "att", Status: order.AttemptSucceeded, ProviderPaymentID: "pi", MerchantReference: "OF", Amount: hundred}, captured, Books{}, want{look: true}},
		"DeclinedThatWeCallCaptured": {paid, with(captured, func(i *Item) { i.Outcome, i.CapturedMinor = order.Declined, 0 }), Books{}, want{look: true}},
	} {
		c.b.Attempts = []Attempt{c.a}
		f := Judge(c.b, []Item{c.i}, noon, rules)
		require.Equal(t, c.want, want{len(f.Looks) == 1, len(f.Orphans) == 1, f.Waiting == 1}, name)
	}
}

func TestALookIsNeedlessOnlyWhereTheStateWasTheNews(t *testing.T) {
	t.Parallel()
	a := Attempt{ID: "att", Status: order.AttemptUnknown, MerchantReference: "OF", Amount: money.Amount{Minor: 100, Currency: "JPY"}}
	i := Item{MerchantReference: "OF", Outcome: order.Succeeded, Currency: "JPY", AmountMinor: 100, CapturedMinor: 100, At: noon}
	says := func(a Attempt, items ...Item) order.Outcome {
		f := Judge(Books{Attempts: []Attempt{a}}, items, noon, rules)
		require.Len(t, f.Looks, 1)
		return f.Looks[0].Says
	}
	require.Equal(t, order.Succeeded, says(a, i))
	refunded := i
	refunded.RefundedMinor = 10
	require.Empty(t, says(a, refunded))
	require.Empty(t, says(a, i, refunded), "two claims are none")
	a.Status, a.Recorded = order.AttemptSucceeded, &Recorded{"JPY", 100, 0, order.DisputeNone}
	require.Empty(t, says(a, refunded))
}

// A bank that argues is heard of in the list where its notice was lost, and asked about once.
func TestADisputeInTheListIsNews(t *testing.T) {
	t.Parallel()
	looks := func(known, listed order.Dispute) bool {
		a := Attempt{
			ID: "att", Status: order.AttemptSucceeded, ProviderPaymentID: "pi", MerchantReference: "OF", Amount: money.Amount{Minor: 100, Currency: "JPY"},
			Recorded: &Recorded{"JPY", 100, 0, known},
			Last:     &Answer{Outcome: order.Succeeded, ProviderPaymentID: "pi", MerchantReference: "OF", Currency: "JPY", AmountMinor: 100, CapturedMinor: 100, At: noon},
		}
		i := Item{
			ProviderPaymentID: "pi", MerchantReference: "OF", Outcome: order.Succeeded, Currency: "JPY", AmountMinor: 100, CapturedMinor: 100, Dispute: listed, At: noon,
		}
		return len(Judge(Books{Attempts: []Attempt{a}}, []Item{i}, noon, rules).Looks) == 1
	}
	for _, c := range []struct {
		known, listed order.Dispute
		news          bool
	}{
		{order.DisputeNone, order.DisputeOpen, true},
		{order.DisputeNone, order.DisputeLost, true},
		{order.DisputeOpen, order.DisputeLost, true},
		{order.DisputeOpen, order.DisputeWon, true},
		{order.DisputeOpen, order.DisputeNone, true},
		{order.DisputeOpen, order.DisputeOpen, false},
		{order.DisputeOpen, "", false},
		{order.DisputeWon, order.DisputeNone, false},
		{order.DisputeNone, order.DisputeWon, false},
		{order.DisputeNone, order.DisputeNone, false},
	} {
		require.Equal(t, c.news, looks(c.known, c.listed), "known %q, listed %q", c.known, c.listed)
	}
}
