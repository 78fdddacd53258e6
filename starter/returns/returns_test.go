package returns_test

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"orderflow/internal/money"
	"orderflow/internal/seal"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/starter/api"
	"orderflow/starter/returns"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// Goal: a browser that comes back is sent where the checkout said and nowhere else, learns nothing but what is known, and makes one
// look. Method: real PostgreSQL, real HTTP through the API's listener; the provider's answers are written as the worker writes them.
// Not covered: browsers; the page has no script to run.

const back = "https://shop.example/thanks?order=7&x=%2F#done"

type bundle struct {
	t     *testing.T
	owner *pgxpool.Pool
	store *store.Store
	url   string
	n     int
	woken atomic.Int64
	wake  func()
}

func setup(t *testing.T, change ...func(*returns.Deps)) *bundle {
	t.Helper()
	t.Parallel()
	db := testkit.Database(t)
	b := &bundle{t: t}
	var err error
	b.owner, err = pgxpool.New(t.Context(), db.OwnerURL)
	require.NoError(t, err)
	t.Cleanup(b.owner.Close)
	b.store, err = store.Open(t.Context(), db.AppURL, 16, store.Options{})
	require.NoError(t, err)
	t.Cleanup(b.store.Close)
	box, err := seal.ParseKeys("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	require.NoError(t, err)
	d := returns.Deps{Store: b.store, Wait: 300 * time.Millisecond, Poll: 20 * time.Millisecond, Wake: func() {
		b.woken.Add(1)
		if b.wake != nil {
			b.wake()
		}
	}}
	for _, f := range change {
		f(&d)
	}
	srv := httptest.NewServer(api.New(api.Deps{Store: b.store, Box: box, Policy: order.DefaultPolicy(), Also: returns.Routes(d)}))
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}

// attempt stores one whose buyer comes back with the token.
func (b *bundle) attempt(returnURL string) (a sqlcgen.PaymentAttempt, token string) {
	b.t.Helper()
	b.n++
	id, oid := order.NewAttemptID(), order.ID("order-"+rand.Text())
	d := order.Draft{
		ID: oid, Client: "shop", Currency: "JPY", BuyerRef: "buyer", ExpiresAt: time.Now().Add(time.Hour),
		Lines: []order.Line{{SKU: "pass", Name: "Pass", Quantity: 1, UnitAmount: 100, Action: order.ActionGrant}},
	}
	d.Total = d.LinesSum()
	_, err := b.store.OrderPlace(b.t.Context(), d, "place-"+string(oid), order.DefaultPolicy())
	require.NoError(b.t, err)
	token = rand.Text() + rand.Text()
	op := order.OperationID("op_" + string(id))
	_, err = b.store.AttemptOpen(b.t.Context(), store.AttemptDraft{
		ID: id, OrderID: oid, Client: "shop", CallerKey: string(oid), Account: order.Account{Gateway: "fake", Name: "default", Environment: "test"},
		MerchantReference: order.NewMerchantReference(), MethodType: "card", Amount: money.Amount{Minor: d.Total, Currency: "JPY"},
		ReturnTokenHash: api.ReturnTokenHash(token), ReturnURL: returnURL,
		Operations: []store.OperationDraft{{ID: op, Kind: "confirm", Sealed: []byte("c"), Fingerprint: []byte("f")}},
	})
	require.NoError(b.t, err)
	a, _, err = b.store.OperationClaim(b.t.Context(), id, op, "mark")
	require.NoError(b.t, err)
	return a, token
}

func (b *bundle) becomes(a sqlcgen.PaymentAttempt, o order.Outcome) error {
	p := order.PaymentSeen{
		Outcome: o, Account: order.Account{Gateway: a.Gateway, Name: a.Account, Environment: a.Environment}, ProviderPaymentID: "p_" + a.AttemptID,
		MerchantReference: a.MerchantReference, Currency: money.Currency(a.Currency), AmountMinor: a.AmountMinor, ReadVersion: a.Version, ReadAsks: a.LooksAsked,
	}
	if o == order.Succeeded {
		p.CapturedMinor = a.AmountMinor
	}
	ctx := context.Background()
	if _, err := b.store.ObservationKeep(ctx, store.Seen{
		Attempt: order.AttemptID(a.AttemptID), Order: order.ID(a.OrderID), Source: "lookup", Payment: p, LearnedID: p.ProviderPaymentID,
	}, ""); err != nil {
		return err
	}
	_, err := b.store.Reflect(ctx, order.AttemptID(a.AttemptID))
	return err
}

type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

func (b *bundle) visit(method, path string, form url.Values) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	require.NoError(b.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	began := time.Now()
	res, err := http.DefaultTransport.RoundTrip(r) // follows nothing
	require.NoError(b.t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, res.Body.Close())
	return answer{res.StatusCode, res.Header, string(body), time.Since(began)}
}

func (b *bundle) text(sql string, args ...any) (s string) {
	b.t.Helper()
	require.NoError(b.t, b.owner.QueryRow(b.t.Context(), sql, args...).Scan(&s))
	return s
}

func TestGoesOnToTheStoredAddress(t *testing.T) {
	b := setup(t)
	a, token := b.attempt(back)
	require.NoError(t, b.becomes(a, order.Succeeded))
	for _, method := range []string{"GET", "POST", "HEAD"} {
		got := b.visit(method, "/return/"+token+"?return_url=https://evil.example/&status=paid", url.Values{"paymentResponse": {"e30"}, "return_url": {"https://evil.example"}})
		require.Equal(t, http.StatusSeeOther, got.status)
		require.Equal(t, back, got.header.Get("Location"))
		require.Equal(t, "no-referrer", got.header.Get("Referrer-Policy"))
		require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	}
	require.Zero(t, b.woken.Load(), "what is settled is not asked about")
}

func TestWaitsForTheOutcome(t *testing.T) {
	b := setup(t, func(d *returns.Deps) { d.Wait = 20 * time.Second })
	a, token := b.attempt(back)
	failed := make(chan error, 1)
	b.wake = func() { go func() { failed <- b.becomes(a, order.Succeeded) }() }
	got := b.visit("GET", "/return/"+token, nil)
	require.NoError(t, <-failed)
	require.Equal(t, http.StatusSeeOther, got.status)
	require.Less(t, got.took, 10*time.Second)
	require.Equal(t, "return true", b.text("SELECT source || ' ' || waited_for FROM looks_wanted WHERE attempt_id = $1", a.AttemptID))
}

// PC-16: a payment that is still pending is neither failed nor canceled, whatever the return address says.
func TestPendingStaysPending(t *testing.T) {
	b := setup(t)
	a, token := b.attempt("")
	require.NoError(t, b.becomes(a, order.Pending))
	state := func() string {
		return b.text("SELECT (SELECT string_agg(o::text, ';') FROM orders o) || (SELECT string_agg(a::text, ';') FROM payment_attempts a) || (SELECT count(*) FROM observations)")
	}
	before := state()
	got := b.visit("POST", "/return/"+token+"?respCode=0000&status=failed", url.Values{"result": {"canceled"}})
	require.Equal(t, http.StatusOK, got.status)
	require.GreaterOrEqual(t, got.took, 300*time.Millisecond)
	require.Contains(t, got.body, "Do not start another one.")
	require.Equal(t, before, state())
	require.EqualValues(t, 1, b.woken.Load())
}

func TestPageSaysWhatTheAPISays(t *testing.T) {
	b := setup(t)
	for outcome, text := range map[order.Outcome]string{
		order.Unknown:   "We are checking your payment. Please do not pay again.",
		order.Succeeded: "Payment received.",
		order.Declined:  "The payment did not go through.",
	} {
		a, token := b.attempt("")
		require.NoError(t, b.becomes(a, outcome))
		got := b.visit("GET", "/return/"+token+"?name=<script>alert(1)</script>", nil)
		require.Equal(t, http.StatusOK, got.status, outcome)
		require.Contains(t, got.body, text)
		require.NotContains(t, got.body, "script")
		require.NotContains(t, got.body, token)
		require.NotContains(t, got.body, a.OrderID)
		require.Equal(t, outcome == order.Unknown, strings.Contains(got.body, "http-equiv=\"refresh\""))
		require.Equal(t, "text/html; charset=utf-8", got.header.Get("Content-Type"))
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		} {
			require.Equal(t, want, got.header.Get(name), name)
		}
		require.Contains(t, got.header.Get("Content-Security-Policy"), "default-src 'none'")
	}
}

func TestUnknownTokens(t *testing.T) {
	b := setup(t)
	_, token := b.attempt(back)
	for _, path := range []string{"/return/" + rand.Text(), "/return/" + token[:20], "/return/" + strings.Repeat("x", 5000), "/return/%00", "/return/" + token + "%20"} {
		got := b.visit("GET", path, nil)
		require.Equal(t, http.StatusNotFound, got.status, path)
		require.Contains(t, got.body, "There is no payment at this address.")
		require.NotContains(t, got.body, "xxx")
	}
	require.Equal(t, http.StatusMethodNotAllowed, b.visit("DELETE", "/return/"+token, nil).status)
	require.Equal(t, http.StatusNotFound, b.visit("GET", "/return/", nil).status)
	require.Zero(t, b.woken.Load())
}

// Whatever stands in the row, a browser is sent to web addresses only.
func TestOnlyWebAddresses(t *testing.T) {
	b := setup(t)
	a, token := b.attempt("javascript:alert(1)")
	require.NoError(t, b.becomes(a, order.Succeeded))
	got := b.visit("GET", "/return/"+token, nil)
	require.Equal(t, http.StatusOK, got.status)
	require.Empty(t, got.header.Get("Location"))
}

func TestOnlySoManyWait(t *testing.T) {
	b := setup(t, func(d *returns.Deps) { d.Wait, d.AtOnce = time.Minute, 1 })
	first, token := b.attempt(back)
	second, other := b.attempt(back)
	done := make(chan string, 2)
	for _, tk := range []string{token, other} {
		go func() {
			r, _ := http.NewRequestWithContext(context.Background(), "GET", b.url+"/return/"+tk, nil)
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				done <- err.Error()
				return
			}
			_ = res.Body.Close()
			done <- res.Header.Get("Location")
		}()
	}
	select {
	case got := <-done: // whoever came second is not kept waiting
		require.Equal(t, back, got)
	case <-time.After(20 * time.Second):
		t.Fatal("both wait")
	}
	require.NoError(t, b.becomes(first, order.Succeeded))
	require.NoError(t, b.becomes(second, order.Succeeded))
	require.Equal(t, back, <-done)
}
