package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/stripesim"
	"orderflow/starter/api"
)

// Goal: whatever happens between "pay" and the answer, the caller learns what PostgreSQL knows, money is asked for once,
// and nobody is told to pay again while the first payment may have gone through. Method: the real sandbox behind the real
// gateway; the engine's part is done in place, or left undone. The engine by itself is tested against a real Temporal.

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), b.db.OwnerURL)
	require.NoError(b.t, err)
	defer func() { _ = conn.Close(b.t.Context()) }()
	_, err = conn.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *bundle) count(sql string) (n int) {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), b.db.OwnerURL)
	require.NoError(b.t, err)
	defer func() { _ = conn.Close(b.t.Context()) }()
	require.NoError(b.t, conn.QueryRow(b.t.Context(), sql).Scan(&n))
	return n
}

func (b *bundle) charges() []stripesim.ChargeEntry {
	return b.world.Stripe().Charges(stripesim.Filter{})
}

func (b *bundle) pay(id string, body any, options ...option) answer {
	b.t.Helper()
	return b.call("POST", pathOf(id)+"/payments", body, options...)
}

func TestPayOrder(t *testing.T) {
	t.Run("PaidInTheSameAnswer", func(t *testing.T) {
		b := setup(t)
		b.working()
		b.place("O-1")
		a := b.pay("O-1", card("pm_card_visa"), key("pay-1"))
		require.Equal(t, 201, a.status, string(a.body))
		require.Equal(t, "succeeded", a.at("outcome"))
		require.Equal(t, "paid", a.at("order", "states", "order"))
		again := b.pay("O-1", card("pm_card_visa"), key("pay-1"))
		require.Equal(t, 201, again.status)
		require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
		require.Equal(t, string(a.body), string(again.body))
		g := b.call("GET", pathOf("O-1"), nil)
		require.Equal(t, "paid", g.at("states", "payment"))
		require.NotContains(t, string(g.body), "pm_card_visa")
		require.Len(t, b.charges(), 1)
	})
	t.Run("DeclinedSaysWhy", func(t *testing.T) {
		b := setup(t)
		b.working()
		b.place("O-1")
		a := b.pay("O-1", card("pm_card_chargeDeclined"))
		require.Equal(t, 201, a.status, string(a.body))
		require.Equal(t, "declined", a.at("outcome"))
		require.NotEmpty(t, a.at("code"))
	})
	t.Run("NoOutcomeInTimeIs202AndItsReplayReadsTheState", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		a := b.pay("O-1", card("pm_card_visa"), key("pay-1"))
		require.Equal(t, 202, a.status, string(a.body))
		require.Equal(t, "checking", a.at("outcome"))
		require.Equal(t, "checking", a.at("order", "buyer", "state"))
		require.Equal(t, false, a.at("order", "buyer", "can_pay"))
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Equal(t, pathOf("O-1"), a.header.Get("Location"))
		b.working()
		again := b.pay("O-1", card("pm_card_visa"), key("pay-1"))
		require.Equal(t, 201, again.status, string(again.body))
		require.Equal(t, "succeeded", again.at("outcome"))
		require.Equal(t, a.at("id"), again.at("id"))
		require.Empty(t, again.header.Get("Idempotency-Replayed"))
		require.Equal(t, 1, b.count("SELECT count(*) FROM payment_attempts"))
	})
	t.Run("EngineDownIs202WithTheAttemptStored", func(t *testing.T) {
		b := setup(t)
		b.engine.submit = func(context.Context, order.ID, order.AttemptID) error { return errors.New("connection refused") }
		b.place("O-1")
		require.Equal(t, 202, b.pay("O-1", card("pm_card_visa")).status)
		require.Equal(t, 1, b.count("SELECT count(*) FROM orders WHERE work_seq <> done_seq")) // the sweep will find it
	})
	t.Run("AnswerTakesNoLongerThanTheBudget", func(t *testing.T) {
		b := setup(t, func(d *api.Deps) { d.AnswerBudget = 300 * time.Millisecond })
		b.engine.submit = func(ctx context.Context, _ order.ID, _ order.AttemptID) error { <-ctx.Done(); return ctx.Err() }
		b.place("O-1")
		began := time.Now()
		require.Equal(t, 202, b.pay("O-1", card("pm_card_visa")).status)
		require.Less(t, time.Since(began), 5*time.Second)
	})
}

// The buyer's browser is sent on to the checkout's page by us, so no other kind of address is ever stored.
func TestPayOrderTakesNoOtherReturnURL(t *testing.T) {
	b := setup(t, func(d *api.Deps) { d.PublicURL = "https://pay.example" })
	b.place("O-1")
	for _, bad := range []string{"javascript:alert(1)", "not a url", "/relative", "data:text/html,x", "https://user@shop.example/", "ftp://shop.example/"} {
		a := b.pay("O-1", fields{"gateway": "stripe", "method": fields{"type": "card", "token": "pm_card_visa", "return_url": bad}})
		require.Equal(t, 422, a.status, "%s: %s", bad, a.body)
		require.Equal(t, "payment-invalid", a.problem(), bad)
	}
	require.Zero(t, b.count("SELECT count(*) FROM payment_attempts"))
}

func TestPayOrderRefused(t *testing.T) {
	b := setup(t)
	b.place("O-1")
	for name, c := range map[string]struct {
		body    fields
		problem string
	}{
		"UnknownGateway":   {fields{"gateway": "MARKER", "method": fields{"type": "card", "token": "pm_x"}}, "validation"},
		"UnknownAccount":   {fields{"gateway": "stripe", "account": "MARKER", "method": fields{"type": "card", "token": "pm_x"}}, "validation"},
		"CardNumber":       {card("4242424242424242"), "validation"},
		"CardWithSpaces":   {card("4242 4242 4242 4242"), "validation"},
		"TokenOfOtherForm": {card("MARKER"), "payment-invalid"},
		"UnknownMethod":    {fields{"gateway": "stripe", "method": fields{"type": "MARKER", "token": "pm_x"}}, "payment-invalid"},
		"BadReturnURL":     {fields{"gateway": "stripe", "method": fields{"type": "card", "token": "pm_x", "return_url": "javascript:MARKER"}}, "payment-invalid"},
		"UnknownField":     {fields{"gateway": "stripe", "amount": 1, "method": fields{"type": "card", "token": "pm_x"}}, "validation"},
		"MethodMissing":    {fields{"gateway": "stripe"}, "validation"},
	} {
		t.Run(name, func(t *testing.T) {
			a := b.pay("O-1", c.body)
			require.Equal(t, 422, a.status, string(a.body))
			require.Equal(t, c.problem, a.problem())
			require.NotContains(t, string(a.body), "MARKER")
			require.NotContains(t, string(a.body), "4242")
		})
	}
	require.Zero(t, b.count("SELECT count(*) FROM payment_attempts"))
	require.Equal(t, 1, b.count("SELECT count(*) FROM idempotency_keys"), "a refused request leaves no row; the one is the order's")
	require.Equal(t, 404, b.pay("O-none", card("pm_card_visa")).status)
}

func TestSecondPayment(t *testing.T) {
	t.Run("WhileTheFirstIsUnknownNobodyPaysAgain", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		require.Equal(t, 202, b.pay("O-1", card("pm_card_visa"), key("k1")).status)
		a := b.pay("O-1", card("pm_card_visa"), key("k2"))
		require.Equal(t, 409, a.status, string(a.body))
		require.Equal(t, "attempt-unresolved", a.problem())
		require.Contains(t, string(a.body), "Do not pay again")
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Equal(t, "checking", a.at("payment", "outcome"))
		require.Equal(t, false, a.at("order", "buyer", "can_pay"))
		require.Equal(t, 1, b.count("SELECT count(*) FROM payment_attempts"))
	})
	// PC-01: the page died after the card was charged; the buyer presses pay again with a new key.
	t.Run("ChargedAndLostIsAnsweredAsPaid", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		require.Equal(t, 202, b.pay("O-1", card("pm_card_visa"), key("k1")).status)
		b.working()
		a := b.pay("O-1", card("pm_card_visa"), key("k2"))
		require.Equal(t, 409, a.status)
		require.Equal(t, "already-paid", a.problem())
		require.Equal(t, "succeeded", a.at("payment", "outcome"))
		require.Equal(t, "paid", a.at("order", "states", "order"))
		require.Empty(t, a.header.Get("Retry-After"))
		require.Len(t, b.charges(), 1)
		again := b.pay("O-1", card("pm_card_visa"), key("k2"))
		require.Equal(t, string(a.body), string(again.body))
		require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	})
	t.Run("PaidOrderIsNotPaidAgain", func(t *testing.T) {
		b := setup(t)
		b.working()
		b.place("O-1")
		require.Equal(t, 201, b.pay("O-1", card("pm_card_visa")).status)
		a := b.pay("O-1", card("pm_card_mastercard"))
		require.Equal(t, 409, a.status)
		require.Equal(t, "already-paid", a.problem())
		require.Equal(t, "succeeded", a.at("payment", "outcome"))
	})
	t.Run("PendingShowsWhatTheBuyerHasToDo", func(t *testing.T) {
		b := setup(t)
		b.working()
		b.place("O-1")
		body := card("pm_card_threeDSecure2Required")
		body["method"].(fields)["return_url"] = "https://shop.example/back"
		first := b.pay("O-1", body)
		require.Equal(t, 201, first.status, string(first.body))
		require.Equal(t, "pending", first.at("outcome"))
		require.NotEmpty(t, first.at("next_action", "url"))
		a := b.pay("O-1", card("pm_card_visa"))
		require.Equal(t, "attempt-pending", a.problem())
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Equal(t, first.at("next_action", "url"), a.at("payment", "next_action", "url"))
	})
	t.Run("DeclinedAndClosingMayPass", func(t *testing.T) {
		b := setup(t)
		b.working()
		b.place("O-1")
		require.Equal(t, "declined", b.pay("O-1", card("pm_card_chargeDeclined")).at("outcome"))
		a := b.pay("O-1", card("pm_card_visa"), key("k2"))
		require.Equal(t, "attempt-closing", a.problem())
		require.NotEmpty(t, a.header.Get("Retry-After"))
		b.exec("UPDATE payment_attempts SET status = 'closed', close_reason = 'declined', closed_at = now()") // what the cancel does
		require.Equal(t, 201, b.pay("O-1", card("pm_card_visa"), key("k2")).status, "the same key gets through")
	})
	t.Run("ExpiredOrder", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		b.exec("UPDATE orders SET expires_at = now() - interval '1 second'")
		a := b.pay("O-1", card("pm_card_visa"))
		require.Equal(t, 409, a.status)
		require.Equal(t, "order-expired", a.problem())
	})
	t.Run("KeyOfAnotherOrder", func(t *testing.T) {
		b := setup(t)
		b.place("O-1")
		b.place("O-2")
		require.Equal(t, 202, b.pay("O-1", card("pm_card_visa"), key("k1")).status)
		a := b.pay("O-2", card("pm_card_visa"), key("k1"))
		require.Equal(t, 422, a.status)
		require.Equal(t, "idempotency-key-reused", a.problem())
	})
}

// TestManyAtOnce is PC-02: 20 keys and one key 20 times, all in the same moment.
func TestManyAtOnce(t *testing.T) {
	b := setup(t)
	b.place("O-1")
	var once sync.Map
	var confirmed atomic.Int64
	b.engine.submit = func(ctx context.Context, _ order.ID, a order.AttemptID) error {
		done, loaded := once.LoadOrStore(a, make(chan struct{}))
		if loaded {
			<-done.(chan struct{})
			return nil
		}
		defer close(done.(chan struct{}))
		confirmed.Add(1)
		return b.confirm(ctx, a)
	}
	var wg sync.WaitGroup
	answers := make([]answer, 40)
	for i := range answers {
		k := "same"
		if i%2 == 0 {
			k = "own-" + strings.Repeat("x", i+1)
		}
		wg.Go(func() { answers[i] = b.pay("O-1", card("pm_card_visa"), key(k)) })
	}
	wg.Wait()
	for _, a := range answers {
		switch a.status {
		case http.StatusCreated:
			require.Equal(t, "succeeded", a.at("outcome"))
		case http.StatusConflict:
			require.Contains(t, []string{"already-paid", "attempt-unresolved", "request-in-progress"}, a.problem())
		default:
			t.Errorf("status %d: %s", a.status, a.body)
		}
	}
	require.EqualValues(t, 1, confirmed.Load())
	require.Len(t, b.charges(), 1)
	require.Equal(t, 1, b.count("SELECT count(*) FROM payment_attempts"))
}

// TestCrashedHolder: the process that opened the attempt dies before it answers; the same key goes on with that attempt.
func TestCrashedHolder(t *testing.T) {
	b := setup(t)
	b.place("O-1")
	var first order.AttemptID
	b.engine.submit = func(_ context.Context, _ order.ID, a order.AttemptID) error {
		first = a
		panic("the process dies here")
	}
	require.Equal(t, 500, b.pay("O-1", card("pm_card_visa"), key("k1")).status)
	b.working()
	a := b.pay("O-1", card("pm_card_visa"), key("k1"))
	require.Equal(t, 201, a.status, string(a.body))
	require.Equal(t, string(first), a.at("id"))
	require.Len(t, b.charges(), 1)
}

// TestReadersMakeSomebodyLook: a page that polls an unknown payment makes the engine look, and is no way to flood anybody.
func TestReadersMakeSomebodyLook(t *testing.T) {
	var ahead atomic.Int64
	b := setup(t, func(d *api.Deps) { d.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } })
	b.place("O-1")
	require.Equal(t, 202, b.pay("O-1", card("pm_card_visa")).status)
	b.call("GET", pathOf("O-1"), nil)
	require.Zero(t, b.engine.looks.Load(), "a young attempt is being worked on")
	ahead.Store(int64(10 * time.Second))
	began := time.Now()
	for range 30 {
		require.Equal(t, 200, b.call("GET", pathOf("O-1"), nil).status)
	}
	require.Eventually(t, func() bool { return b.engine.looks.Load() > 0 }, 5*time.Second, 10*time.Millisecond)
	require.LessOrEqual(t, b.engine.looks.Load(), int64(time.Since(began).Seconds())+2)
}

// TestSecretsStayInside: what must not be seen is in no table, no answer and no log in the clear.
func TestSecretsStayInside(t *testing.T) {
	b := setup(t)
	b.working()
	b.place("O-1")
	require.Equal(t, 201, b.pay("O-1", card("pm_card_visa")).status)
	require.Zero(t, b.count(`SELECT count(*) FROM payment_attempts a WHERE a::text LIKE '%pm_card_visa%'`))
	require.Zero(t, b.count(`SELECT count(*) FROM operations o WHERE encode(o.sealed_request, 'escape') LIKE '%pm_card_visa%' OR o::text LIKE '%pm_card_visa%'`))
	require.Zero(t, b.count(`SELECT count(*) FROM idempotency_keys k WHERE encode(k.sealed_response, 'escape') LIKE '%merchant%'`), "a stored answer is sealed")
	require.Zero(t, b.count(`SELECT count(*) FROM api_keys k WHERE k::text LIKE '%key-of-the-shop%'`))
}
