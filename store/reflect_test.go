package store

// Goal: a confirmed payment becomes visible whole or not at all, once, whatever breaks on the way; the log tells the truth.
// Method: statements that fail in the middle, deadlocks on demand, COMMIT's answer lost by a proxy, and random histories whose
// log is folded and compared with the rows.

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/internal/fault"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// effects counts everything that reflecting a payment writes.
func (e *env) effects() map[string]int64 {
	m := map[string]int64{}
	for name, sql := range map[string]string{
		"paid": "SELECT count(*) FROM orders WHERE status = 'paid'", "succeeded": "SELECT count(*) FROM payment_attempts WHERE status = 'succeeded'",
		"payments": "SELECT count(*) FROM payments", "units": "SELECT count(*) FROM fulfillment_units", "events": "SELECT count(*) FROM outbox_events",
		"deliveries": "SELECT count(*) FROM event_deliveries", "log": "SELECT count(*) FROM transitions WHERE trigger = 'payment_observed'",
		"reflected": "SELECT coalesce(sum(reflected_seq), 0) FROM payment_attempts", "work": "SELECT coalesce(sum(work_seq), 0) - 1 FROM orders",
	} {
		m[name] = e.count(sql)
	}
	return m
}

var (
	nothing = map[string]int64{"paid": 0, "succeeded": 0, "payments": 0, "units": 0, "events": 0, "deliveries": 0, "log": 0, "reflected": 0, "work": 0}
	whole   = map[string]int64{"paid": 1, "succeeded": 1, "payments": 1, "units": 3, "events": 1, "deliveries": 2, "log": 5, "reflected": 1, "work": 1}
)

// raise makes the next n writes on a table fail with an SQLSTATE. A sequence counts them: it does not roll back.
func (e *env) raise(table, on, sqlstate string, n int) {
	e.exec("CREATE SEQUENCE IF NOT EXISTS fails")
	e.exec(fmt.Sprintf(`CREATE OR REPLACE FUNCTION fail_on_demand() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN IF nextval('fails') <= %d THEN RAISE EXCEPTION 'on demand' USING ERRCODE = '%s'; END IF; RETURN NEW; END $$`, n, sqlstate))
	e.exec(fmt.Sprintf("CREATE OR REPLACE TRIGGER fail_on_demand BEFORE %s ON %s FOR EACH ROW EXECUTE FUNCTION fail_on_demand()", on, table))
}

func TestReflectIsAllOrNothing(t *testing.T) {
	t.Parallel()
	for _, at := range []struct{ table, on string }{
		{"orders", "UPDATE"},
		{"payment_attempts", "UPDATE"},
		{"payments", "INSERT"},
		{"fulfillment_units", "INSERT"},
		{"outbox_events", "INSERT"},
		{"event_deliveries", "INSERT"},
		{"transitions", "INSERT"},
	} {
		t.Run(at.table, func(t *testing.T) {
			t.Parallel()
			e := setup(t, "mail", "warehouse")
			a := e.open(e.place("o", grantLine(2), issueLine(1)), "k")
			e.keep(answer(a, order.Succeeded))
			e.raise(at.table, at.on, "58030", 1) // io_error
			_, err := e.s.Reflect(e.ctx(), idOf(a))
			require.Error(t, err)
			require.Equal(t, nothing, e.effects())
			require.Equal(t, order.OrderPaid, e.reflect(a).Order, "the same call again does all of it")
			require.Equal(t, whole, e.effects())
			e.folds()
		})
	}
}

func TestReflectTwiceAndTogetherIsOnce(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail", "warehouse")
	a := e.open(e.place("o", grantLine(2), issueLine(1)), "k")
	e.keep(answer(a, order.Succeeded))
	for _, err := range together(20, func(int) error { _, err := e.s.Reflect(e.ctx(), idOf(a)); return err }) {
		require.NoError(t, err)
	}
	require.Equal(t, whole, e.effects())
	r := e.reflect(a)
	require.Equal(t, order.Unchanged, r.Verdict)
	require.Equal(t, r.WorkFrom, r.WorkTo)
	e.keep(answer(e.attempt(a), order.Succeeded)) // the webhook says it again, under the new version
	e.keep(answer(a, order.Succeeded))            // and a late try under the old one
	r = e.reflect(a)
	require.Equal(t, order.Unchanged, r.Verdict)
	require.False(t, r.NeedsLook)
	again := e.effects()
	again["reflected"] = 1
	require.Equal(t, whole, again)
}

// PC-05: the transaction deadlocks three times after the provider said yes. Only the local step runs again.
func TestReflectSurvivesThreeDeadlocks(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail", "warehouse")
	a := e.open(e.place("o", grantLine(2), issueLine(1)), "k")
	s := answer(a, order.Succeeded)
	s.Operation, s.Source = confirmOf(a), "send"
	e.keep(s)
	e.raise("payments", "INSERT", "40P01", 3)
	_, err := e.s.Reflect(e.ctx(), idOf(a))
	require.True(t, fault.IsCode(err, fault.DatabaseContention), "three tries inside, then the caller's retry table: %v", err)
	require.Equal(t, nothing, e.effects())
	require.Equal(t, order.OrderPaid, e.reflect(a).Order)
	require.Equal(t, whole, e.effects())
	require.EqualValues(t, 1, e.count("SELECT sum(sends) FROM operations"), "nothing was sent again")
}

func TestReflectSurvivesALostCommitAnswer(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail", "warehouse")
	p := testkit.NewTCPProxy(t, e.db.AppURL)
	s, err := Open(e.ctx(), p.Through(e.db.AppURL), 2, Options{Receivers: []string{"mail", "warehouse"}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	d := e.place("o", grantLine(2), issueLine(1))

	lost := func(after string, f func() error) error {
		t.Helper()
		l := p.LoseCommitAnswer(testkit.CommitFilter{After: after})
		err := f()
		require.True(t, fault.IsCode(err, fault.DatabaseUnavailable), "%v", err)
		select {
		case <-l.Fired():
		default:
			t.Fatalf("the loss after %q did not happen", after)
		}
		return f()
	}
	ad := attemptDraft(d, "k")
	var a sqlcgen.PaymentAttempt
	require.NoError(t, lost("INSERT INTO payment_attempts", func() (err error) { a, err = s.AttemptOpen(e.ctx(), ad); return err }))
	require.Equal(t, string(ad.ID), a.AttemptID)
	won := true
	require.NoError(t, lost("UPDATE operations", func() (err error) { a, won, err = s.OperationClaim(e.ctx(), ad.ID, confirmOf(a), ""); return err }))
	require.False(t, won, "the claim holds: who asks again has to look, not to send")
	require.Equal(t, string(order.AttemptSent), a.Status)
	require.NoError(t, lost("INSERT INTO observations", func() error { _, err := s.ObservationKeep(e.ctx(), answer(a, order.Succeeded), ""); return err }))
	var r Reflected
	require.NoError(t, lost("INSERT INTO payments", func() (err error) { r, err = s.Reflect(e.ctx(), ad.ID); return err }))
	require.Equal(t, order.OrderPaid, r.Order)
	got := e.effects()
	got["reflected"] = 1 // the observation was kept twice, and that is all
	require.Equal(t, whole, got)

	u := e.unitIDs("o")[2]
	require.NoError(t, lost("INSERT INTO operations", func() (err error) { won, err = s.UnitClaim(e.ctx(), u, "o", issueDraft(u, 1), 1); return err }))
	require.False(t, won)
	require.NoError(t, lost("INSERT INTO issuances", func() error { _, err := s.FulfillInternal(e.ctx(), "o", 10); return err }))
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM grants"))
	d2 := draftOf("o2", grantLine(1))
	created := true
	require.NoError(t, lost("INSERT INTO orders", func() (err error) {
		created, err = s.OrderPlace(e.ctx(), d2, "place-o2", order.DefaultPolicy())
		return err
	}))
	require.False(t, created)
	e.folds()
}

// Money in the wrong amount is recorded and shown, and pays nothing.
func TestReflectKeepsMismatchedMoney(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	a := e.open(e.place("o", grantLine(2)), "k")
	s := answer(a, order.Succeeded)
	s.Payment.AmountMinor, s.Payment.CapturedMinor, s.LearnedID = 150, 150, ""
	e.keep(s)
	r := e.reflect(a)
	require.Equal(t, order.Mismatch, r.Verdict)
	require.True(t, r.ReviewOpen)
	require.Equal(t, order.OrderOpen, r.Order)
	require.Equal(t, order.AttemptUnknown, r.Status)
	require.EqualValues(t, 150, e.count("SELECT captured_minor FROM payments WHERE NOT matched"))
	require.EqualValues(t, 0, e.count("SELECT count(*) FROM outbox_events"))
	rv := e.review(a.AttemptID)
	require.Equal(t, string(order.ReviewPaymentMismatch), rv.Reason)
	require.Equal(t, e.attempt(a).Version, rv.SubjectVersion, "a review opened by the move that it is about must allow a decision")
	e.folds()
}

// What a wrong answer said of the currency goes with its amount, once the provider says what is true.
func TestReflectCorrectsAMismatchedCurrencyWithItsAmount(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	a := e.open(e.place("o", grantLine(2)), "k")
	wrong := answer(a, order.Succeeded)
	wrong.Payment.Currency, wrong.Payment.CapturedMinor, wrong.LearnedID = "EUR", 150, ""
	e.keep(wrong)
	require.Equal(t, order.Mismatch, e.reflect(a).Verdict)
	require.Equal(t, "EUR", e.text("SELECT currency FROM payments"))
	e.keep(answer(e.attempt(a), order.Succeeded))
	require.Equal(t, order.OrderPaid, e.reflect(a).Order)
	require.Equal(t, a.Currency, e.text("SELECT currency FROM payments WHERE matched"))
	require.Equal(t, a.AmountMinor, e.count("SELECT captured_minor FROM payments"))
	e.folds()
}

// A payment that another attempt has cannot pay a second order, whatever the answer says about its reference.
func TestOneProviderPaymentPaysOneOrder(t *testing.T) {
	t.Parallel()
	e := setup(t)
	first := e.pay(e.place("o1", grantLine(1)))
	a := e.open(e.place("o2", grantLine(1)), "k2")
	stolen := answer(a, order.Succeeded)
	stolen.Payment.ProviderPaymentID = "pi_" + first.AttemptID

	stolen.LearnedID = stolen.Payment.ProviderPaymentID
	_, err := e.s.ObservationKeep(e.ctx(), stolen, "")
	requireWhy(t, err, fault.ConstraintViolated, "attempts_provider_id_unique")

	stolen.LearnedID = "" // nobody bound it when it was kept: reflecting does
	e.keep(stolen)
	_, err = e.s.Reflect(e.ctx(), idOf(a))
	requireWhy(t, err, fault.ConstraintViolated, "attempts_provider_id_unique")
	require.Equal(t, order.OrderOpen, e.status("o2"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM payments"))
	require.Equal(t, first.AttemptID, e.text("SELECT attempt_id FROM payments"))
}

// Two attempts that both captured: the order is paid once, the second is shown, the goods are planned once.
func TestSecondCaptureIsShownNotProvided(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	d := e.place("o", grantLine(2))
	a := e.open(d, "k1")
	_, err := e.s.AttemptUnresolved(e.ctx(), idOf(a), "code")
	require.NoError(t, err)
	require.Equal(t, order.Applied, e.decide(decision(e.review(a.AttemptID), order.DecideCloseWithEvidence)).Verdict)
	b := e.open(d, "k2")
	for _, x := range []sqlcgen.PaymentAttempt{b, a} {
		e.keep(answer(e.attempt(x), order.Succeeded))
		e.reflect(x)
	}
	require.Equal(t, string(order.AttemptSucceeded), e.attempt(a).Status)
	require.Equal(t, string(order.ReviewExtraPayment), e.review(a.AttemptID).Reason)
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM fulfillment_units"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM outbox_events WHERE type = 'order.paid'"))
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM payments WHERE matched"))
	e.folds()
}

// A4 over random histories: whatever is called in whatever order, the log folds to the rows and the books agree.
func TestLogFoldsToTheRows(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 1_000_000))
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		h := &history{env: e, id: order.ID(fmt.Sprint("o", n))}
		h.d = e.place(h.id, grantLine(1), stockLine("mug", 2), issueLine(2))
		for range rapid.IntRange(5, 30).Draw(t, "steps") {
			h.step(t)
		}
	})
	e.folds()
	require.EqualValues(t, 0, e.count("SELECT count(*) FROM (SELECT 1 FROM outbox_events GROUP BY order_id, type HAVING count(*) > 1 AND type <> 'payment.declined') x"))
	require.EqualValues(t, 0, e.count(`SELECT count(*) FROM fulfillment_units u JOIN orders o USING (order_id) WHERE o.status NOT IN ('paid', 'completed')`))
	require.EqualValues(t, 0, e.count(`SELECT count(*) FROM fulfillment_units u WHERE (u.status = 'issued') <> EXISTS (SELECT 1 FROM issuances i WHERE i.unit_id = u.unit_id)`))
	require.EqualValues(t, 0, e.count(`SELECT count(*) FROM payment_attempts a WHERE (a.status = 'succeeded') <> EXISTS (SELECT 1 FROM payments p WHERE p.attempt_id = a.attempt_id AND p.matched)`))
	reserved := e.count(`SELECT coalesce(sum(CASE WHEN kind IN ('reserve', 'reserve_again') THEN quantity ELSE -quantity END), 0) FROM stock_movements`)
	require.Equal(t, reserved, e.count("SELECT reserved FROM stock"), "the movements explain the stock")
	require.Equal(t, 1_000_000-e.count("SELECT count(*) FROM stock_movements WHERE kind = 'commit'"), e.count("SELECT on_hand FROM stock"))
}

type history struct {
	*env
	id       order.ID
	d        order.Draft
	attempts []sqlcgen.PaymentAttempt
}

func (h *history) step(t *rapid.T) {
	var err error
	one := func() (a sqlcgen.PaymentAttempt) {
		if len(h.attempts) > 0 {
			a, err = h.s.Attempt(h.ctx(), idOf(h.attempts[rapid.IntRange(0, len(h.attempts)-1).Draw(t, "attempt")]))
		}
		return a
	}
	switch k := rapid.IntRange(0, 9).Draw(t, "step"); k {
	case 0, 1:
		a, oerr := h.s.AttemptOpen(h.ctx(), attemptDraft(h.d, fmt.Sprint(h.id, "-", len(h.attempts))))
		if err = oerr; err == nil {
			h.attempts = append(h.attempts, a)
		}
	case 2:
		if a := one(); a.AttemptID != "" {
			_, _, err = h.s.OperationClaim(h.ctx(), idOf(a), confirmOf(a), "")
		}
	case 3, 4:
		if a := one(); a.AttemptID != "" {
			s := answer(a, rapid.SampledFrom([]order.Outcome{order.Succeeded, order.Succeeded, order.Declined, order.Pending, order.Unknown, order.NotFound, order.Refused}).Draw(t, "outcome"))
			s.Payment.Final = s.Payment.Outcome != order.Succeeded && rapid.Bool().Draw(t, "final")
			s.Payment.ReadVersion -= int64(rapid.IntRange(0, 3).Draw(t, "behind") / 3)
			h.keep(s)
			_, err = h.s.Reflect(h.ctx(), idOf(a))
		}
	case 5:
		_, err = h.s.FulfillInternal(h.ctx(), h.id, rapid.IntRange(1, 3).Draw(t, "batch"))
	case 6, 7:
		if us := h.unitIDs(h.id); len(us) > 0 {
			u := us[rapid.IntRange(3, 4).Draw(t, "unit")]
			g := int(h.unit(u).Generation)
			if k == 6 {
				_, err = h.s.UnitClaim(h.ctx(), u, h.id, issueDraft(u, g), g)
			} else {
				h.issuer(u, h.id, rapid.IntRange(1, g).Draw(t, "generation"), rapid.SampledFrom([]order.Outcome{order.Issued, order.Refused, order.Unknown}).Draw(t, "said"))
			}
		}
	case 8:
		h.lapse(h.id)
		_, err = h.s.OrderExpire(h.ctx(), h.id)
		h.exec("UPDATE orders SET expires_at = now() + interval '1 hour' WHERE order_id = $1", string(h.id))
	case 9:
		rs, rerr := h.s.q().ReviewsOpenByOrder(h.ctx(), ptr(string(h.id)))
		require.NoError(t, rerr)
		if len(rs) > 0 {
			h.exec("UPDATE operations SET last_sent_at = now() - interval '1 day' WHERE order_id = $1 AND sends > 0", string(h.id))
			h.decide(decision(rs[0], rapid.SampledFrom(order.DecisionKinds).Draw(t, "decision")))
		}
	}
	var f *fault.Error
	if err != nil && (!errors.As(err, &f) || f.Code != fault.Refused) {
		t.Fatalf("%v", err)
	}
}
