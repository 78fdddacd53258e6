package activities

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/reconcile"
	"orderflow/internal/secret"
	"orderflow/order"
	"orderflow/store"
)

// ReconcileSettings bound the reconciliation of a provider's books with ours.
type ReconcileSettings struct {
	Spans reconcile.Spans
	Rules reconcile.Rules
}

const (
	reconcilePages = 20               // pages of one step, so that a step is short and its end is seen
	reconcileFor   = 30 * time.Second // no further page begins after this
	inquiriesPage  = 50
	inquiryPause   = 100 * time.Millisecond // the wait for the lookup rate
)

// ReconcileAccounts names the accounts that an ask means, in a fixed order. None is a fault.
func (a *Activities) ReconcileAccounts(ctx context.Context, ask order.ReconcileAsk) ([]order.Account, error) {
	var out []order.Account
	for acc := range a.d.Gateways {
		if (ask.Gateway == "" || ask.Gateway == acc.Gateway) && (ask.Account == "" || ask.Account == acc.Name) {
			out = append(out, acc)
		}
	}
	slices.SortFunc(out, func(x, y order.Account) int {
		return cmp.Or(cmp.Compare(x.Gateway, y.Gateway), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Environment, y.Environment))
	})
	if len(out) == 0 && (ask.Gateway != "" || ask.Account != "") {
		_, err := a.gateway(order.Account{Gateway: ask.Gateway, Name: ask.Account})
		return nil, Fail(ctx, err, Bounds{})
	}
	return out, nil
}

// ReconcileInput is one step of reading an account's books. With a window it is read by hand, Cursor being where it goes on; without
// one the stored cursor says what to read.
type ReconcileInput struct {
	Account order.Account `json:"account"`
	From    time.Time     `json:"from,omitzero"`
	To      time.Time     `json:"to,omitzero"`
	Cursor  string        `json:"cursor,omitempty"`
}

func (in ReconcileInput) byHand() bool { return !in.From.IsZero() || !in.To.IsZero() }

// ReconcileStepped is what a step did, and where one by hand goes on.
type ReconcileStepped struct {
	order.Reconciled
	Cursor string `json:"cursor,omitempty"`
}

// ReconcileStep reads some pages of an account's books and keeps what each leads to: attempts to look at, orphans, the cursor. Facts
// never come from a list; an empty one, or an error, proves nothing. Doing it again is harmless.
func (a *Activities) ReconcileStep(ctx context.Context, in ReconcileInput) (ReconcileStepped, error) {
	defer alive(ctx)()
	out, err := a.reconcileStep(ctx, in)
	if err != nil {
		f := fault.As(err)
		a.d.Log.WarnContext(ctx, "a provider's books could not be read; nothing is concluded from that", "gateway", in.Account.Gateway,
			"account", in.Account.Name, "code", string(f.Code))
	}
	return out, Fail(ctx, err, Bounds{})
}

func (a *Activities) reconcileStep(ctx context.Context, in ReconcileInput) (ReconcileStepped, error) {
	var out ReconcileStepped
	out.Account = in.Account
	gw, err := a.gateway(in.Account)
	if err != nil {
		return out, err
	}
	r, err := a.openReader(ctx, gw, in)
	if err != nil {
		return out, err
	}
	stop := time.Now().Add(reconcileFor)
	for !r.done && out.Pages < reconcilePages && time.Now().Before(stop) {
		done, err := r.page(ctx)
		if err != nil {
			return out, err
		}
		out.Pages, out.Items, out.Agreed, out.Waiting = out.Pages+1, out.Items+r.items, out.Agreed+done.Agreed, out.Waiting+done.Waiting
		out.Looks, out.Orphans = out.Looks+len(done.Looks), out.Orphans+len(done.Orphans)
		if n := len(done.Orphans); n > 0 {
			a.d.Log.WarnContext(ctx, "payments at a provider are not explained by any order: a person has to look", "gateway", in.Account.Gateway,
				"account", in.Account.Name, "payments", n)
		}
	}
	if r.done {
		if out.Linked, err = a.d.Store.OrphansExplain(ctx, in.Account); err != nil {
			return out, err
		}
	}
	out.Done, out.Cursor, out.Reached = r.done, r.window.Cursor, r.stored.To
	if in.byHand() {
		out.Reached = in.To
	}
	return out, nil
}

// booksReader reads one account's books, window after window.
type booksReader struct {
	a      *Activities
	gw     gateways.Gateway
	in     ReconcileInput
	stored store.Reach     // as the database has it
	window reconcile.Reach // what is being read
	done   bool
	items  int  // of the last page
	again  bool // the window was begun anew once
}

func (a *Activities) openReader(ctx context.Context, gw gateways.Gateway, in ReconcileInput) (*booksReader, error) {
	r := &booksReader{a: a, gw: gw, in: in}
	if in.byHand() {
		r.window = reconcile.Reach{From: in.From, Until: in.To, Cursor: in.Cursor}
		if !in.From.Before(in.To) {
			e := fault.New(fault.Refused, "reconcile")
			e.Why = "window_is_empty"
			return r, e
		}
		return r, nil
	}
	var err error
	if r.stored, err = a.d.Store.ReconcileReach(ctx, in.Account); err != nil {
		return r, err
	}
	r.begin()
	return r, nil
}

// begin takes up the window under way, or the next one; where there is none the books are read to their end.
func (r *booksReader) begin() {
	w, ok := r.stored.Begin(r.stored.Now, r.a.d.Reconcile.Spans)
	r.window, r.done = w, !ok
}

// page reads one page and keeps what it leads to, together with the cursor.
func (r *booksReader) page(ctx context.Context) (reconcile.Findings, error) {
	items, next, err := r.read(ctx)
	if err != nil {
		return reconcile.Findings{}, r.spoiled(ctx, err)
	}
	r.items = len(items)
	p := store.Page{Account: r.in.Account, Items: items, Rules: r.a.d.Reconcile.Rules, Source: "reconcile"}
	if !r.in.byHand() {
		spans := r.a.d.Reconcile.Spans
		p.Seen, p.Move = r.stored, func(hold time.Time) reconcile.Reach { return r.window.Page(len(items), hold, next, spans) }
	}
	done, err := r.a.d.Store.ReconcilePage(ctx, p)
	if err != nil {
		return done.Findings, err
	}
	if r.in.byHand() {
		r.window.Cursor, r.done = next, next == ""
		return done.Findings, nil
	}
	until := r.window.Until
	r.stored = done.Reach
	switch {
	case next != "":
		r.window = r.stored.Reach
	case until.Equal(r.stored.Now) || !r.stored.To.Equal(until): // read up to now, or what follows is read together with this
		r.done = true
	default:
		r.begin()
	}
	return done.Findings, nil
}

// listMoved is a gateway's reason where a list has changed under its cursor.
const listMoved = "list_moved"

// spoiled begins a window anew, once, whose cursor the provider does not take any more: pages change while they are read. What only
// passes is tried again from the same page.
func (r *booksReader) spoiled(ctx context.Context, err error) error {
	f := fault.As(err)
	if r.window.Cursor == "" || r.again || (f.Class == fault.Transient && f.Why != listMoved) {
		return err
	}
	r.again, r.window, r.items = true, r.window.Again(), 0
	if r.in.byHand() {
		return nil
	}
	r.stored, err = r.a.d.Store.ReconcileMove(ctx, r.in.Account, r.stored, r.window)
	return err
}

// read gives one page of the provider's list, or where it has none the answers to one inquiry per attempt.
func (r *booksReader) read(ctx context.Context) ([]reconcile.Item, string, error) {
	l, ok := r.gw.(gateways.Lister)
	if !ok || !r.gw.Capabilities().CanList {
		return r.inquire(ctx)
	}
	began := time.Now()
	page, err := l.List(ctx, gateways.Window{From: r.window.From, To: r.window.Until, Cursor: r.window.Cursor})
	r.a.calledGateway(r.gw, "list", began, err)
	if err != nil {
		return nil, "", err
	}
	if page.Next != "" && page.Next == r.window.Cursor {
		return nil, "", fault.New(fault.GatewayReadFailed, "list payments") // it would go on for ever
	}
	items := make([]reconcile.Item, 0, len(page.Items))
	for _, i := range page.Items {
		if i.Seen.Account != r.gw.Account() {
			return nil, "", fault.New(fault.PaymentMismatch, "list payments")
		}
		items = append(items, itemOf(i.Seen, i.At))
	}
	return items, page.Next, nil
}

func itemOf(o gateways.Observation, at time.Time) reconcile.Item {
	if at.IsZero() {
		at = o.ProviderTime
	}
	return reconcile.Item{
		ProviderPaymentID: reconcile.SafeID(o.ProviderPaymentID), MerchantReference: reconcile.SafeID(o.MerchantReference), Outcome: order.Outcome(o.Outcome),
		Currency: o.Currency, AmountMinor: o.AmountMinor, CapturedMinor: o.CapturedMinor, RefundedMinor: o.RefundedMinor,
		Dispute: order.Dispute(o.Dispute), At: at,
	}
}

// inquire asks about every attempt of the window that was sent and is not paid, within the lookup rate.
func (r *booksReader) inquire(ctx context.Context) ([]reconcile.Item, string, error) {
	afterAt, afterID := afterOf(r.window.Cursor)
	rows, err := r.a.d.Store.AttemptsToInquire(ctx, r.in.Account, r.window.From, r.window.Until, afterAt, afterID, inquiriesPage)
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(rows) == inquiriesPage {
		last := rows[len(rows)-1]
		next = last.At.UTC().Format(time.RFC3339Nano) + " " + string(last.Attempt)
	}
	items := make([]reconcile.Item, 0, len(rows))
	for _, q := range rows {
		o, err := r.ask(ctx, q)
		if fault.IsCode(err, fault.PaymentMismatch) || fault.IsCode(err, fault.PaymentNeedsReview) {
			continue // of this one payment, and its own run has heard the same
		}
		if err != nil {
			return nil, "", err
		}
		items = append(items, itemOf(o, q.At))
	}
	return items, next, nil
}

func afterOf(cursor string) (time.Time, order.AttemptID) {
	at, id, _ := strings.Cut(cursor, " ")
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return time.Time{}, ""
	}
	return t, order.AttemptID(id)
}

// ask inquires once. Where the rate is spent it waits: what orders need comes first.
func (r *booksReader) ask(ctx context.Context, q store.Inquiry) (gateways.Observation, error) {
	acc := r.in.Account
	for per := r.a.d.Sweep.PerSecond; per > 0; {
		ok, err := r.a.d.Store.TakeLookup(ctx, "lookup/"+acc.Gateway+"/"+acc.Name+"/"+acc.Environment, 2*per, per)
		if err != nil {
			return gateways.Observation{}, err
		}
		if ok {
			break
		}
		select {
		case <-ctx.Done():
			return gateways.Observation{}, fault.Wrap(fault.GatewayRateLimited, "inquire", ctx.Err())
		case <-time.After(inquiryPause):
		}
	}
	query := gateways.Query{ProviderPaymentID: q.ProviderPaymentID, MerchantReference: q.MerchantReference, Currency: q.Currency, Since: q.At}
	if len(q.SealedPrivate) > 0 {
		if b, err := r.a.d.Box.Open(q.SealedPrivate, order.AttemptPlace(q.Attempt)); err == nil {
			query.Private = secret.New(string(b))
		}
	}
	began := time.Now()
	o, err := r.gw.Lookup(ctx, query)
	r.a.calledGateway(r.gw, "lookup", began, err)
	if err == nil && o.MerchantReference == "" && o.Outcome == gateways.NotFound {
		o.MerchantReference = q.MerchantReference
	}
	return o, err
}
