package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// env is one test's database, the store on the application's role, and the owner's connections to look and to disturb.
type env struct {
	t     *testing.T
	db    *testkit.DB
	s     *Store
	owner *pgxpool.Pool
}

const client order.ClientID = "shop"

// ann may decide; who she is was proven.
var ann = order.Actor{Name: "ann", Role: order.RoleOperator, Channel: order.ChannelAPI, Authenticated: true}

var account = order.Account{Gateway: "stripe", Name: "default", Environment: "test"}

func setup(t *testing.T, receivers ...string) *env { return setupConns(t, 12, "", receivers...) }

// setupConns also sets the pool's size and session settings ("deadlock_timeout=100ms").
func setupConns(t *testing.T, conns int32, ownerSetting string, receivers ...string) *env {
	t.Helper()
	db := testkit.Database(t)
	owner, err := pgxpool.New(t.Context(), db.OwnerURL)
	require.NoError(t, err)
	t.Cleanup(owner.Close)
	if ownerSetting != "" {
		_, err := owner.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %s SET %s", db.Name, ownerSetting))
		require.NoError(t, err)
	}
	s, err := Open(t.Context(), db.AppURL, conns, Options{Receivers: receivers, Decisions: order.DecisionRules{OnePerson: true}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return &env{t: t, db: db, s: s, owner: owner}
}

func (e *env) ctx() context.Context { return e.t.Context() }

func (e *env) exec(sql string, args ...any) {
	e.t.Helper()
	_, err := e.owner.Exec(e.ctx(), sql, args...)
	require.NoError(e.t, err)
}

// count is the first column of the first row, a number.
func (e *env) count(sql string, args ...any) (n int64) {
	e.t.Helper()
	require.NoError(e.t, e.owner.QueryRow(e.ctx(), sql, args...).Scan(&n))
	return n
}

func (e *env) text(sql string, args ...any) (s string) {
	e.t.Helper()
	require.NoError(e.t, e.owner.QueryRow(e.ctx(), sql, args...).Scan(&s))
	return s
}

func grantLine(quantity int) order.Line {
	return order.Line{SKU: "pass", Name: "Pass", Quantity: quantity, UnitAmount: 100, Action: order.ActionGrant}
}

func stockLine(sku string, quantity int) order.Line {
	return order.Line{SKU: sku, Name: "Thing", Quantity: quantity, UnitAmount: 100, Action: order.ActionStock}
}

func issueLine(quantity int) order.Line {
	return order.Line{SKU: "ticket", Name: "Ticket", Quantity: quantity, UnitAmount: 100, Action: order.ActionIssue, Issuer: "tickets"}
}

func draftOf(id order.ID, lines ...order.Line) order.Draft {
	d := order.Draft{ID: id, Client: client, Currency: "JPY", Lines: lines, BuyerRef: "buyer-1", ExpiresAt: time.Now().Add(time.Hour)}
	d.Total = d.LinesSum()
	return d
}

func (e *env) place(id order.ID, lines ...order.Line) order.Draft {
	e.t.Helper()
	d := draftOf(id, lines...)
	require.Empty(e.t, d.Validate())
	created, err := e.s.OrderPlace(e.ctx(), d, "place-"+string(id), order.DefaultPolicy())
	require.NoError(e.t, err)
	require.True(e.t, created)
	return d
}

// lapse moves the promise's end into the past.
func (e *env) lapse(id order.ID) {
	e.exec("UPDATE orders SET expires_at = now() - interval '1 second' WHERE order_id = $1", string(id))
}

func attemptDraft(d order.Draft, key string) AttemptDraft {
	id := order.NewAttemptID()
	return AttemptDraft{
		ID: id, OrderID: d.ID, Client: d.Client, CallerKey: key, Account: account, MerchantReference: order.NewMerchantReference(),
		MethodType: "card", Amount: money.Amount{Minor: d.Total, Currency: d.Currency},
		Operations: []OperationDraft{
			{ID: order.OperationID("op_prepare_" + string(id)), Kind: "prepare", Sealed: []byte("p"), Fingerprint: []byte("f")},
			{ID: order.OperationID("op_confirm_" + string(id)), Kind: "confirm", Sealed: []byte("c"), Fingerprint: []byte("f")},
		},
	}
}

func confirmOf(a sqlcgen.PaymentAttempt) order.OperationID {
	return order.OperationID("op_confirm_" + a.AttemptID)
}

func prepareOf(a sqlcgen.PaymentAttempt) order.OperationID {
	return order.OperationID("op_prepare_" + a.AttemptID)
}

func idOf(a sqlcgen.PaymentAttempt) order.AttemptID { return order.AttemptID(a.AttemptID) }

// open makes an attempt and claims its confirm, as a process that is about to send it.
func (e *env) open(d order.Draft, key string) sqlcgen.PaymentAttempt {
	e.t.Helper()
	a, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d, key))
	require.NoError(e.t, err)
	a, won, err := e.s.OperationClaim(e.ctx(), idOf(a), confirmOf(a), "")
	require.NoError(e.t, err)
	require.True(e.t, won)
	return a
}

// answer is what the provider says of an attempt, read at its present version.
func answer(a sqlcgen.PaymentAttempt, o order.Outcome) Seen {
	s := Seen{Attempt: idOf(a), Order: order.ID(a.OrderID), Source: "lookup", Payment: order.PaymentSeen{
		Outcome: o, Account: order.Account{Gateway: a.Gateway, Name: a.Account, Environment: a.Environment}, ProviderPaymentID: "pi_" + a.AttemptID,
		MerchantReference: a.MerchantReference, Currency: money.Currency(a.Currency), AmountMinor: a.AmountMinor, ReadVersion: a.Version, ReadAsks: a.LooksAsked,
	}}
	if o == order.Succeeded {
		s.Payment.CapturedMinor = a.AmountMinor
	}
	s.LearnedID = s.Payment.ProviderPaymentID
	return s
}

func (e *env) keep(s Seen) {
	e.t.Helper()
	_, err := e.s.ObservationKeep(e.ctx(), s, "")
	require.NoError(e.t, err)
}

func (e *env) reflect(a sqlcgen.PaymentAttempt) Reflected {
	e.t.Helper()
	r, err := e.s.Reflect(e.ctx(), idOf(a))
	require.NoError(e.t, err)
	return r
}

func (e *env) attempt(a sqlcgen.PaymentAttempt) sqlcgen.PaymentAttempt {
	e.t.Helper()
	now, err := e.s.Attempt(e.ctx(), idOf(a))
	require.NoError(e.t, err)
	return now
}

// pay takes an order from placed to paid.
func (e *env) pay(d order.Draft) sqlcgen.PaymentAttempt {
	e.t.Helper()
	a := e.open(d, "pay-"+string(d.ID))
	s := answer(a, order.Succeeded)
	s.Operation, s.Source = confirmOf(a), "send"
	e.keep(s)
	require.Equal(e.t, order.OrderPaid, e.reflect(a).Order)
	return e.attempt(a)
}

func (e *env) status(id order.ID) order.Status {
	e.t.Helper()
	return order.Status(e.text("SELECT status FROM orders WHERE order_id = $1", string(id)))
}

func (e *env) unitIDs(id order.ID) []order.UnitID {
	e.t.Helper()
	rows, err := e.s.q().UnitsByOrder(e.ctx(), string(id))
	require.NoError(e.t, err)
	out := make([]order.UnitID, len(rows))
	for i, r := range rows {
		out[i] = order.UnitID(r.UnitID)
	}
	return out
}

func (e *env) unit(u order.UnitID) sqlcgen.UnitGetRow {
	e.t.Helper()
	row, err := e.s.q().UnitGet(e.ctx(), string(u))
	require.NoError(e.t, err)
	return row
}

func issueDraft(u order.UnitID, generation int) OperationDraft {
	return OperationDraft{ID: order.IssueOperation(u, generation), Kind: "issue", Sealed: []byte("s"), Fingerprint: []byte("f")}
}

func (e *env) claimUnit(u order.UnitID, id order.ID, generation int) bool {
	e.t.Helper()
	won, err := e.s.UnitClaim(e.ctx(), u, id, issueDraft(u, generation), generation)
	require.NoError(e.t, err)
	return won
}

// issuer records what the issuer says of the unit's given generation.
func (e *env) issuer(u order.UnitID, id order.ID, generation int, o order.Outcome) (order.Change, order.Status) {
	e.t.Helper()
	a := IssuanceAnswer{Unit: u, Order: id, Source: "send", Seen: order.IssuanceSeen{Outcome: o, OperationID: order.IssueOperation(u, generation), Code: "code"}}
	if o == order.Issued {
		a.IssuerIssuance, a.SealedReference = "i_"+string(u), []byte("sealed")
	}
	c, s, err := e.s.IssuanceRecord(e.ctx(), a)
	require.NoError(e.t, err)
	return c, s
}

// review is the one open review of a subject.
func (e *env) review(subject string) sqlcgen.Review {
	e.t.Helper()
	id := e.text("SELECT review_id FROM reviews WHERE subject_id = $1 AND status = 'open'", subject)
	r, err := e.s.Review(e.ctx(), order.ReviewID(id))
	require.NoError(e.t, err)
	return r
}

func decision(r sqlcgen.Review, k order.DecisionKind) order.Decision {
	return order.Decision{
		ReviewID: order.ReviewID(r.ReviewID), ReviewVersion: r.Version, Decision: k, Actor: "ann", Reason: "looked it up",
		Evidence: order.Evidence{Reference: "iss_77", Proof: "ticket 4711"},
	}
}

func (e *env) decide(d order.Decision) order.DecisionResult {
	e.t.Helper()
	r, _, err := e.s.Decide(e.ctx(), d, ann, Door{})
	require.NoError(e.t, err)
	return r
}

// quiet makes the last send of a unit's operations long ago, so that a rerun is not too early.
func (e *env) quiet(u order.UnitID) {
	e.exec("UPDATE operations SET sent_at = now() - interval '1 day', last_sent_at = now() - interval '1 day' WHERE unit_id = $1", string(u))
}

// together runs f n times at the same moment and returns the errors.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

func requireWhy(t *testing.T, err error, code fault.Code, why string) {
	t.Helper()
	require.Error(t, err)
	f := fault.As(err)
	require.Equal(t, code, f.Code, "%v", err)
	require.Equal(t, why, f.Why)
}

// folds requires that replaying the transition log gives the rows, for every subject there is (A4).
func (e *env) folds() {
	e.t.Helper()
	rows, err := e.owner.Query(e.ctx(), "SELECT subject_kind, subject_id, from_status, to_status FROM transitions ORDER BY transition_id")
	require.NoError(e.t, err)
	folded := map[string]string{}
	for rows.Next() {
		var kind, id, from, to string
		require.NoError(e.t, rows.Scan(&kind, &id, &from, &to))
		require.Equal(e.t, folded[kind+"/"+id], from, "the log of %s %s has a gap", kind, id)
		folded[kind+"/"+id] = to
	}
	require.NoError(e.t, rows.Err())
	current := map[string]string{}
	now, err := e.owner.Query(e.ctx(), `SELECT 'order/' || order_id, status FROM orders UNION ALL SELECT 'attempt/' || attempt_id, status FROM payment_attempts
		UNION ALL SELECT 'unit/' || unit_id, status FROM fulfillment_units UNION ALL SELECT 'refund/' || refund_id, status FROM refunds
		UNION ALL SELECT 'cancel/' || cancel_id, status FROM cancels`)
	require.NoError(e.t, err)
	for now.Next() {
		var subject, status string
		require.NoError(e.t, now.Scan(&subject, &status))
		current[subject] = status
	}
	require.NoError(e.t, now.Err())
	require.Equal(e.t, current, folded)
	e.recorded()
}

// waitBlocked returns when n backends of the test's database wait for a lock.
func (e *env) waitBlocked(n int64) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		var got int64
		err := e.owner.QueryRow(e.ctx(), "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'", e.db.Name).Scan(&got)
		return err == nil && got >= n
	}, 10*time.Second, 5*time.Millisecond, "nobody waits for the lock")
}
