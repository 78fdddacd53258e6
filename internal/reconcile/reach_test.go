package reconcile

// Goal: every payment a provider lists within the overlap is met, whatever dies between two pages and however the windows fall.
// Method: a simulated provider that shows each payment some time after it was made, runs at random times, pages of random size, a crash
// at any page. Not covered: a list later than the overlap, which nobody can promise to meet.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type listed struct{ at, shown time.Duration }

func TestEveryListedPaymentIsMet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Spans{Window: time.Duration(rapid.IntRange(20, 200).Draw(t, "window")) * time.Minute, Overlap: time.Duration(rapid.IntRange(0, 15).Draw(t, "overlap")) * time.Minute}
		grace := time.Duration(rapid.IntRange(0, 15).Draw(t, "grace")) * time.Minute
		var books []listed
		for range rapid.IntRange(0, 20).Draw(t, "payments") {
			at := time.Duration(rapid.IntRange(0, 600).Draw(t, "at")) * time.Minute
			books = append(books, listed{at, at + time.Duration(rapid.IntRange(0, int(s.Overlap/time.Minute)).Draw(t, "lag"))*time.Minute})
		}
		start := noon
		met := map[int]bool{}      // judged old enough
		var r Reach                // what the database holds
		now := start.Add(s.Window) // the first pass reads one window back, so nothing is before it
		last := time.Time{}
		for now.Before(start.Add(24*time.Hour)) || r.UnderWay() || len(met) < len(books) {
			require.True(t, now.Before(start.Add(80*time.Hour)), "not met in time: %d of %d, reach %+v", len(met), len(books), r)
			w, ok := r.Begin(now, s)
			if !ok {
				now = now.Add(10 * time.Minute)
				continue
			}
			for w.UnderWay() {
				if rapid.IntRange(0, 5).Draw(t, "crash") == 0 {
					w, _ = r.Begin(now, s) // what was not stored is gone
				}
				pos := 0
				if w.Cursor != "" {
					pos = len(w.Cursor)
				}
				size := rapid.IntRange(1, 5).Draw(t, "page")
				count, hold, next := 0, time.Time{}, ""
				seen := 0
				for n, p := range books { // a list in a fixed order; the cursor is how many have been passed
					at := start.Add(p.at)
					if start.Add(p.shown).After(now) || at.Before(w.From) || !at.Before(w.Until) {
						continue
					}
					seen++
					if seen <= pos {
						continue
					}
					if count == size {
						next = string(make([]byte, pos+count))
						break
					}
					count++
					if now.Sub(at) < grace {
						if hold.IsZero() || at.Before(hold) {
							hold = at
						}
						continue
					}
					met[n] = true
				}
				w = w.Page(count, hold, next, s)
				r = w // one transaction with what the page led to
				require.False(t, r.To.Before(last), "it never goes back")
				last = r.To
			}
			now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "pause")) * time.Minute)
		}
	})
}

func TestWindows(t *testing.T) {
	t.Parallel()
	s := Spans{Window: 24 * time.Hour, Overlap: 15 * time.Minute}
	first, ok := Reach{}.Begin(noon, s)
	require.True(t, ok)
	require.Equal(t, noon.Add(-24*time.Hour), first.From)
	require.Equal(t, noon, first.Until)
	t.Run("AnEmptyWindowIsReadAgain", func(t *testing.T) {
		require.Equal(t, Reach{To: first.From}, first.Page(0, time.Time{}, "", s))
		r, _ := Reach{To: noon}.Begin(noon.Add(time.Hour), s)
		require.Equal(t, Reach{To: noon}, r.Page(0, time.Time{}, "", s))
	})
	t.Run("AFullOneIsNot", func(t *testing.T) {
		r, _ := Reach{To: noon}.Begin(noon.Add(48*time.Hour), s)
		require.Equal(t, noon.Add(24*time.Hour), r.Until)
		require.Equal(t, Reach{To: noon.Add(24 * time.Hour)}, r.Page(0, time.Time{}, "", s))
	})
	t.Run("WhatWaitsIsMetAgain", func(t *testing.T) {
		r, _ := Reach{To: noon}.Begin(noon.Add(3*time.Hour), s)
		hold := noon.Add(time.Hour)
		r = r.Page(5, hold, "", s)
		next, _ := r.Begin(noon.Add(4*time.Hour), s)
		require.Equal(t, hold, next.From)
	})
	t.Run("NothingNewYet", func(t *testing.T) {
		_, ok := Reach{To: noon}.Begin(noon, s)
		require.False(t, ok)
	})
	t.Run("OneUnderWayGoesOn", func(t *testing.T) {
		r, _ := Reach{To: noon}.Begin(noon.Add(time.Hour), s)
		r = r.Page(100, time.Time{}, "c1", s)
		again, ok := r.Begin(noon.Add(9*time.Hour), s)
		require.True(t, ok)
		require.Equal(t, r, again)
		require.Equal(t, noon.Add(time.Hour), again.Again().Until)
		require.Empty(t, again.Again().Cursor)
	})
}
