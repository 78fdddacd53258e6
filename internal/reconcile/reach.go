package reconcile

import "time"

// Reach is how far an account's books were read. What is before To was met; a window that was begun and not finished stands
// beside it, so that a process that dies between two pages is followed by one that goes on.
type Reach struct {
	To     time.Time // by the provider's clock; zero = nothing was ever read
	From   time.Time // of the window under way; zero = none
	Until  time.Time
	Cursor string    // the next page of it
	Items  int       // met in it so far
	Hold   time.Time // the oldest of them that has to be met again; zero = none
}

// Spans bound a window.
type Spans struct {
	Window  time.Duration // the longest stretch of time one window reads anew
	Overlap time.Duration // how far it goes back behind what was read: a list may show a payment late by this much
}

// UnderWay reports that a window was begun and not finished.
func (r Reach) UnderWay() bool { return !r.Until.IsZero() }

// Begin gives the window to read at now: the one under way, else the next. The second result is false where there is none yet.
func (r Reach) Begin(now time.Time, s Spans) (Reach, bool) {
	if r.UnderWay() {
		return r, true
	}
	to, from := r.To, r.To.Add(-s.Overlap)
	if to.IsZero() {
		to = now.Add(-s.Window)
		from = to
	}
	until := to.Add(s.Window)
	if until.After(now) {
		until = now
	}
	r.From, r.Until, r.Cursor, r.Items, r.Hold = from, until, "", 0, time.Time{}
	return r, until.After(to)
}

// Page notes one page that was read and judged. Next is the cursor of the page after it; empty ends the window.
func (r Reach) Page(items int, hold time.Time, next string, s Spans) Reach {
	r.Items += items
	if !hold.IsZero() && (r.Hold.IsZero() || hold.Before(r.Hold)) {
		r.Hold = hold
	}
	r.Cursor = next
	if next != "" {
		return r
	}
	return r.end(s)
}

// end moves To. An empty list proves nothing, so a window without a payment is read again from its beginning, together with what
// came after it, until it has its full length. What has to be met again lies within the next window's overlap.
func (r Reach) end(s Spans) Reach {
	to := r.Until
	if !r.Hold.IsZero() && r.Hold.Add(s.Overlap).Before(to) {
		to = r.Hold.Add(s.Overlap)
	}
	full := r.Until.Sub(r.From) >= s.Window+s.Overlap
	switch {
	case (r.Items > 0 || full) && to.After(r.To):
		r.To = to
	case r.To.IsZero(): // where the first one began: the next must not begin later
		r.To = r.From
	}
	return Reach{To: r.To}
}

// Again begins the window under way anew: the provider does not take the cursor any more.
func (r Reach) Again() Reach {
	r.Cursor, r.Items, r.Hold = "", 0, time.Time{}
	return r
}
