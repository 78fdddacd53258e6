package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/reconcile"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Reach is how far an account's books were read, as it is stored.
type Reach struct {
	reconcile.Reach
	Version int64     // 0 = nothing is stored
	Now     time.Time // the database's clock
}

// ReconcileReach reads how far an account's books were read.
func (s *Store) ReconcileReach(ctx context.Context, a order.Account) (Reach, error) {
	var out Reach
	now, err := s.q().ReconcileNow(ctx)
	if err != nil {
		return out, translate("read clock", err)
	}
	out.Now = now
	c, err := s.q().ReconcileReach(ctx, sqlcgen.ReconcileReachParams{Gateway: a.Gateway, Account: a.Name, Environment: a.Environment})
	if isNoRows(err) {
		return out, nil
	}
	out.Version = c.Version
	out.Reach = reconcile.Reach{
		To: orZero(c.ReachedAt), From: orZero(c.WindowFrom), Until: orZero(c.WindowUntil), Cursor: c.PageCursor, Items: int(c.Items), Hold: orZero(c.HoldAt),
	}
	return out, translate("read cursor", err)
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Page is one page of a provider's books, or a part of a settlement file.
type Page struct {
	Account order.Account
	Items   []reconcile.Item
	Rules   reconcile.Rules
	Source  string // who asks for looks: "reconcile", "statement"
	DryRun  bool   // only say what it would lead to

	// Move, where given, moves the stored cursor together with what the page led to. It is told what has to be met again.
	Move func(hold time.Time) reconcile.Reach
	Seen Reach // the cursor that the page was read by
}

// PageDone is what a page led to.
type PageDone struct {
	Findings reconcile.Findings
	Reach    Reach
}

// ReconcilePage compares a page with our books and keeps what it led to - wanted looks, orphans with their reviews, the cursor - in
// one transaction. A page that says what is known writes nothing. A cursor that moved meanwhile is a fault of code version_moved.
func (s *Store) ReconcilePage(ctx context.Context, p Page) (PageDone, error) {
	var out PageDone
	err := s.inTx(ctx, "reconcile page", func(ctx context.Context, w *work) error {
		out = PageDone{Reach: p.Seen}
		now, err := w.read.ReconcileNow(ctx)
		if err != nil {
			return err
		}
		books, err := readBooks(ctx, w, p)
		if err != nil {
			return err
		}
		f := reconcile.Judge(books, p.Items, now, p.Rules)
		out.Findings = f
		if p.DryRun {
			return nil
		}
		if len(f.Orphans) == 0 { // else a person relies on the review
			w.lazily()
		}
		if err := moveReach(ctx, w, p, f.Hold, &out.Reach); err != nil {
			return err
		}
		if err := noteOrphans(ctx, w, listedOrphans(p.Account, f.Orphans), DefaultOwner); err != nil {
			return err
		}
		return wantLooks(ctx, w, p.Source, f.Looks)
	})
	return out, err
}

// ReconcileMove moves the stored cursor alone.
func (s *Store) ReconcileMove(ctx context.Context, a order.Account, seen Reach, to reconcile.Reach) (Reach, error) {
	out := seen
	err := s.inTx(ctx, "move cursor", func(ctx context.Context, w *work) error {
		out = seen
		return moveReach(ctx, w, Page{Account: a, Seen: seen, Move: func(time.Time) reconcile.Reach { return to }}, time.Time{}, &out)
	})
	return out, err
}

// moveReach writes only what differs from what is stored.
func moveReach(ctx context.Context, w *work, p Page, hold time.Time, r *Reach) error {
	if p.Move == nil {
		return nil
	}
	to := p.Move(hold)
	if to == p.Seen.Reach {
		return nil
	}
	version, err := w.read.ReconcileMove(ctx, sqlcgen.ReconcileMoveParams{
		Gateway: p.Account.Gateway, Account: p.Account.Name, Environment: p.Account.Environment, ReachedAt: orNil(to.To), WindowFrom: orNil(to.From),
		WindowUntil: orNil(to.Until), PageCursor: to.Cursor, Items: int32(to.Items), HoldAt: orNil(to.Hold), SeenVersion: p.Seen.Version,
	})
	if isNoRows(err) {
		return fault.New(fault.VersionMoved, "move cursor")
	}
	r.Reach, r.Version = to, version
	return err
}

// readBooks reads what ours hold about a page's ids. The ids come from outside and are parameters, of bounded length.
func readBooks(ctx context.Context, w *work, p Page) (reconcile.Books, error) {
	b := reconcile.Books{Payments: map[string]order.AttemptID{}, Orphans: map[string]reconcile.Orphan{}}
	var ids, refs, subjects []string
	var first, last time.Time // of items that bear no reference
	for _, i := range p.Items {
		subjects = append(subjects, i.Subjects()...)
		if i.ProviderPaymentID != "" {
			ids = append(ids, i.ProviderPaymentID)
		}
		if i.MerchantReference != "" {
			refs = append(refs, i.MerchantReference)
			continue
		}
		if first.IsZero() || i.At.Before(first) {
			first = i.At
		}
		if i.At.After(last) {
			last = i.At
		}
	}
	if len(subjects) == 0 {
		return b, nil
	}
	if err := readAttempts(ctx, w, p.Account, ids, refs, &b); err != nil {
		return b, err
	}
	orphans, err := w.read.ReconcileOrphans(ctx, sqlcgen.ReconcileOrphansParams{Gateway: p.Account.Gateway, Account: p.Account.Name, Environment: p.Account.Environment, Subjects: subjects})
	if err != nil {
		return b, err
	}
	for _, o := range orphans {
		b.Orphans[o.Subject] = reconcile.Orphan{Open: o.Status == "open", Says: order.Outcome(o.Says), Amount: o.CapturedMinor}
	}
	if last.IsZero() {
		return b, nil
	}
	unresolved, err := w.read.ReconcileUnresolved(ctx, sqlcgen.ReconcileUnresolvedParams{
		Since: first.Add(-p.Rules.HoldFor), Until: last.Add(p.Rules.Skew), Gateway: p.Account.Gateway, Account: p.Account.Name, Environment: p.Account.Environment,
	})
	for _, u := range unresolved {
		b.Unresolved = append(b.Unresolved, reconcile.Unresolved{Amount: money.Amount{Minor: u.AmountMinor, Currency: money.Currency(u.Currency)}, SentAt: u.CreatedAt})
	}
	return b, err
}

func readAttempts(ctx context.Context, w *work, a order.Account, ids, refs []string, b *reconcile.Books) error {
	rows, err := w.read.ReconcileAttempts(ctx, sqlcgen.ReconcileAttemptsParams{Gateway: a.Gateway, Account: a.Name, Environment: a.Environment, Ids: ids, Refs: refs})
	if err != nil {
		return err
	}
	for _, r := range rows {
		at := reconcile.Attempt{
			ID: order.AttemptID(r.AttemptID), Status: order.Status(r.Status), ProviderPaymentID: r.ProviderPaymentID, MerchantReference: r.MerchantReference,
			Amount: money.Amount{Minor: r.AmountMinor, Currency: money.Currency(r.Currency)},
		}
		if r.Recorded {
			at.Recorded = &reconcile.Recorded{Currency: money.Currency(r.RecordedCurrency), CapturedMinor: r.RecordedCaptured, RefundedMinor: r.RecordedRefunded, Dispute: order.Dispute(r.RecordedDispute)}
		}
		if r.LastOutcome != "" {
			at.Last = &reconcile.Answer{
				Outcome: order.Outcome(r.LastOutcome), ProviderPaymentID: r.LastPaymentID, MerchantReference: r.LastReference, Currency: money.Currency(r.LastCurrency),
				AmountMinor: r.LastAmount, CapturedMinor: r.LastCaptured, RefundedMinor: r.LastRefunded, At: r.LastAt,
			}
		}
		b.Attempts = append(b.Attempts, at)
	}
	payments, err := w.read.ReconcilePayments(ctx, sqlcgen.ReconcilePaymentsParams{Gateway: a.Gateway, Account: a.Name, Environment: a.Environment, Ids: ids})
	for _, p := range payments {
		b.Payments[p.ProviderPaymentID] = order.AttemptID(p.AttemptID)
	}
	return err
}

func listedOrphans(a order.Account, items []reconcile.Item) []orphanNote {
	out := make([]orphanNote, len(items))
	for n, i := range items {
		out[n] = orphanNote{account: a, id: i.ProviderPaymentID, reference: i.MerchantReference, says: string(i.Outcome), at: orNil(i.At)}
		if i.CapturedMinor > 0 {
			out[n].currency, out[n].capturedMinor = string(i.Currency), i.CapturedMinor
		}
	}
	return out
}

func wantLooks(ctx context.Context, w *work, source string, looks []reconcile.Look) error {
	if len(looks) == 0 {
		return nil
	}
	p := sqlcgen.LooksWantParams{Source: source, SendingWait: sendingWait}
	for _, l := range looks {
		p.AttemptIds, p.Says = append(p.AttemptIds, string(l.Attempt)), append(p.Says, string(l.Says))
	}
	return w.write.LooksWant(ctx, p)
}

// OrphansExplain ends open orphans of an account that an attempt explains after all, and has those looked at that are not paid. It
// returns how many there were.
func (s *Store) OrphansExplain(ctx context.Context, a order.Account) (int, error) {
	n := 0
	err := s.inTx(ctx, "explain orphans", func(ctx context.Context, w *work) error {
		rows, err := w.read.OrphansExplain(ctx, sqlcgen.OrphansExplainParams{Gateway: a.Gateway, Account: a.Name, Environment: a.Environment})
		if err != nil {
			return err
		}
		n = len(rows)
		var looks []reconcile.Look
		for _, r := range rows {
			if r.Status != string(order.AttemptSucceeded) {
				looks = append(looks, reconcile.Look{Attempt: order.AttemptID(r.AttemptID)})
			}
		}
		slices.SortFunc(looks, func(a, b reconcile.Look) int { return cmp.Compare(a.Attempt, b.Attempt) })
		looks = slices.CompactFunc(looks, func(a, b reconcile.Look) bool { return a.Attempt == b.Attempt })
		return wantLooks(ctx, w, "reconcile", looks)
	})
	return n, err
}

// Inquiry is an attempt at a provider without a list, to be asked about.
type Inquiry struct {
	Attempt           order.AttemptID
	MerchantReference string
	ProviderPaymentID string
	Currency          money.Currency
	Status            order.Status
	SealedPrivate     []byte
	At                time.Time
}

// AttemptsToInquire pages through the attempts of an account that were sent in a window and are not paid, oldest first, after the
// one named.
func (s *Store) AttemptsToInquire(ctx context.Context, a order.Account, from, until, afterAt time.Time, afterID order.AttemptID, max int) ([]Inquiry, error) {
	rows, err := s.q().AttemptsToInquire(ctx, sqlcgen.AttemptsToInquireParams{
		Since: from, Until: until, AfterAt: afterAt, AfterID: string(afterID), Gateway: a.Gateway, Account: a.Name, Environment: a.Environment, MaxRows: int32(max),
	})
	out := make([]Inquiry, len(rows))
	for i, r := range rows {
		out[i] = Inquiry{
			Attempt: order.AttemptID(r.AttemptID), MerchantReference: r.MerchantReference, ProviderPaymentID: r.ProviderPaymentID, Currency: money.Currency(r.Currency),
			Status: order.Status(r.Status), SealedPrivate: r.SealedPrivate, At: r.CreatedAt,
		}
	}
	return out, translate("list attempts to inquire", err)
}

// ReachAge is how old what was last read of an account's books is.
type ReachAge struct {
	Account order.Account
	At      *time.Time
}

// ReconcileReaches lists how far every account's books were read, for a gauge.
func (s *Store) ReconcileReaches(ctx context.Context) ([]ReachAge, error) {
	rows, err := s.q().ReconcileReaches(ctx)
	out := make([]ReachAge, len(rows))
	for i, r := range rows {
		out[i] = ReachAge{order.Account{Gateway: r.Gateway, Name: r.Account, Environment: r.Environment}, r.ReachedAt}
	}
	return out, translate("list cursors", err)
}

// OrphansHeld counts the payments that nothing explains yet, and how long the oldest of them has been held.
func (s *Store) OrphansHeld(ctx context.Context) (n int64, oldest time.Duration, err error) {
	r, err := s.q().OrphansHeld(ctx)
	return r.Held, time.Duration(r.OldestSeconds) * time.Second, translate("count orphans", err)
}
