package webhooks_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/order"
	"orderflow/starter/webhooks"
	"orderflow/store"
)

func orphanAfter(d time.Duration) func(*bundle, *webhooks.Deps) {
	return func(_ *bundle, deps *webhooks.Deps) { deps.OrphanAfter = d }
}

// PC-22: the event is ahead of the row it is about.
func TestEventBeforeItsRow(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	require.Equal(t, 200, b.post(event{ID: "evt_1", Payment: "p_early", Says: gateways.Succeeded}))
	require.Eventually(t, func() bool { return b.count("SELECT tries FROM webhook_receipts") > 0 }, 10*time.Second, 10*time.Millisecond)
	a := b.attempt()
	b.exec("UPDATE payment_attempts SET provider_payment_id = 'p_early' WHERE attempt_id = $1", a.AttemptID)
	b.quiet()
	require.Equal(t, "look", b.result("evt_1"))
	require.Equal(t, 1, b.runs.of(order.ID(a.OrderID)))
	require.Zero(t, b.count("SELECT count(*) FROM orphan_payments"))
}

func TestNewsAreLookedAtAndKnownThingsAreNot(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	for i, c := range []struct {
		is   order.Outcome
		says gateways.Outcome
		want string
	}{
		{order.Succeeded, gateways.Succeeded, "known"},
		{order.Succeeded, gateways.Pending, "look"}, // a deposit that was taken back
		{order.Succeeded, gateways.Declined, "look"},
		{order.Succeeded, "", "look"}, // a refund, a dispute: whatever it is
		{order.Pending, gateways.Pending, "known"},
		{order.Pending, gateways.Succeeded, "look"},
		{order.Declined, gateways.Declined, "known"},
		{order.Declined, gateways.Succeeded, "look"},
		{order.Unknown, gateways.Declined, "look"},
		{order.Unknown, gateways.Unknown, "look"},
		{order.Unknown, gateways.Untouched, "look"},
		{order.Succeeded, gateways.Untouched, "known"}, // the echo of our own preparing, late
	} {
		a := b.becomes(b.attempt(), c.is)
		id := fmt.Sprintf("evt_%d", i)
		require.Equal(t, 200, b.post(about(a, id, c.says)))
		b.quiet()
		require.Equal(t, c.want, b.result(id), "%s says %s", c.is, c.says)
		looks := 0
		if c.want == "look" {
			looks = 1
		}
		require.Equal(t, looks, b.runs.of(order.ID(a.OrderID)), "%s says %s", c.is, c.says)
		if order.Status(a.Status) == order.AttemptSucceeded { // a run looks at a settled attempt only where its row says so
			require.Equal(t, looks, b.count("SELECT count(*) FROM payment_attempts WHERE attempt_id = $1 AND next_check_at IS NOT NULL", a.AttemptID))
		}
	}
}

func TestOrphansGoToAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t, orphanAfter(300*time.Millisecond)).run()
	for _, e := range []event{
		{ID: "paid", Payment: "p_x", Says: gateways.Succeeded},
		{ID: "refunded", Payment: "p_x"},                                                  // of the same payment
		{ID: "by reference", Reference: "OF-nobody", Says: gateways.Unknown},              // may be money
		{ID: "failed", Payment: "p_y", Says: gateways.Declined},                           // no money
		{ID: "waiting", Payment: "p_z", Says: gateways.Pending},                           // not yet
		{ID: "hint", Payment: "p_w", Says: gateways.Succeeded, Proof: gateways.ProofNone}, // anybody's
	} {
		require.Equal(t, 200, b.post(e))
	}
	b.quiet()
	require.Equal(t, "orphan", b.result("paid"))
	require.Equal(t, "orphan", b.result("refunded"))
	for _, id := range []string{"failed", "waiting", "hint"} {
		require.Equal(t, "unmatched", b.result(id), id)
	}
	require.Equal(t, 2, b.count("SELECT count(*) FROM orphan_payments WHERE status = 'open'"))
	require.Equal(t, 2, b.count("SELECT count(*) FROM reviews WHERE subject_kind = 'orphan' AND reason = 'orphan_payment' AND status = 'open' AND order_id IS NULL"))
	require.Zero(t, b.runs.total())
	open, err := b.store.OrphansOpen(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, open, 2)

	// A person closes one, with proof; a further event does not open it again.
	id := b.text("SELECT r.review_id FROM reviews r JOIN orphan_payments p ON p.orphan_id = r.subject_id WHERE p.provider_payment_id = 'p_x'")
	d := order.Decision{ReviewID: order.ReviewID(id), Decision: order.DecideCloseWithEvidence, Actor: "ann", Reason: "another shop's", Evidence: order.Evidence{Proof: "ticket 4711"}}
	res, of, err := b.store.Decide(t.Context(), d, order.Actor{Name: "ann", Role: order.RoleOperator, Channel: order.ChannelAPI, Authenticated: true}, store.Door{})
	require.NoError(t, err)
	require.Equal(t, order.Applied, res.Verdict, res.Why)
	require.Empty(t, of)
	require.Equal(t, "closed", b.text("SELECT status FROM orphan_payments WHERE provider_payment_id = 'p_x'"))
	require.Equal(t, 200, b.post(event{ID: "again", Payment: "p_x", Says: gateways.Succeeded}))
	b.quiet()
	require.Equal(t, 1, b.count("SELECT count(*) FROM reviews WHERE status = 'open'"))

	// The other one turns out to be an attempt's.
	a := b.attempt()
	b.exec("UPDATE payment_attempts SET merchant_reference = 'OF-nobody' WHERE attempt_id = $1", a.AttemptID)
	require.Equal(t, 200, b.post(event{ID: "explained", Reference: "OF-nobody", Says: gateways.Succeeded}))
	b.quiet()
	require.Equal(t, a.AttemptID, b.text("SELECT attempt_id FROM orphan_payments WHERE status = 'linked'"))
	require.Zero(t, b.count("SELECT count(*) FROM reviews WHERE status = 'open'"))
	require.Equal(t, "evidence", b.text("SELECT resolved_by FROM reviews WHERE resolved_by NOT LIKE 'dec_%'"))
}

// What anybody could have sent first is no reason to ignore what the provider sends then.
func TestUnprovenCopyDoesNotBlockTheNext(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	a := b.becomes(b.attempt(), order.Unknown)
	forged := about(a, "guessed", gateways.Succeeded)
	forged.Proof = gateways.ProofNone
	require.Equal(t, 200, b.post(forged))
	require.Equal(t, 200, b.post(forged))
	b.quiet()
	require.Equal(t, 1, b.runs.total(), "copies within moments are one look")
	b.exec("UPDATE webhook_receipts SET processed_at = processed_at - interval '1 minute'")
	require.Equal(t, 200, b.post(forged))
	b.quiet()
	require.Equal(t, 2, b.runs.total(), "unproven again, a minute later")
	require.Equal(t, 200, b.post(about(a, "guessed", gateways.Succeeded)))
	b.quiet()
	require.Equal(t, 3, b.runs.total(), "proven, at once")
	require.Equal(t, "signed", b.text("SELECT proof FROM webhook_receipts"))
	require.Equal(t, 200, b.post(about(a, "guessed", gateways.Succeeded)))
	b.quiet()
	require.Equal(t, 3, b.runs.total(), "a copy of what is proven is a copy")
	require.Equal(t, 1, b.count("SELECT count(*) FROM webhook_receipts"))
}

// PC-61: what the rate does not allow waits, and is told later.
func TestRateIsKeptAndNothingIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *bundle, d *webhooks.Deps) { d.LookupsPerSecond = 2 })
	ids := map[order.ID]bool{}
	for i := range 6 {
		a := b.becomes(b.attempt(), order.Unknown)
		ids[order.ID(a.OrderID)] = true
		for j := range 3 {
			require.Equal(t, 200, b.post(about(a, fmt.Sprintf("evt_%d_%d", i, j), gateways.Succeeded)))
		}
	}
	began := time.Now()
	b.run()
	b.quiet()
	took := time.Since(began)
	for id := range ids {
		require.GreaterOrEqual(t, b.runs.of(id), 1, id)
	}
	// Two at once and two in every second begun since.
	require.LessOrEqual(t, b.runs.total(), 2*(int(took/time.Second)+2))
	require.Equal(t, 6, b.runs.total(), "one look for three events that came together")
}

// The usual race: the webhook overtakes the answer of the confirm it is about. Nobody has to be asked for what the answer says.
func TestWebhookAheadOfTheAnswer(t *testing.T) {
	t.Parallel()
	var away atomic.Bool // so that a slow machine cannot be too late
	away.Store(true)
	b := setup(t)
	b.runs.fail = func() error {
		if away.Load() {
			return errors.New("no engine")
		}
		return nil
	}
	b.run()
	answered, silent := b.attempt(), b.attempt()
	require.Equal(t, 200, b.post(about(answered, "evt_1", gateways.Succeeded)))
	require.Equal(t, 200, b.post(about(silent, "evt_2", gateways.Succeeded)))
	require.Eventually(t, func() bool { return b.count("SELECT count(*) FROM looks_wanted") == 2 }, 10*time.Second, time.Millisecond)
	b.becomes(answered, order.Succeeded)
	away.Store(false)
	b.quiet()
	require.Zero(t, b.runs.of(order.ID(answered.OrderID)))
	require.Equal(t, 1, b.runs.of(order.ID(silent.OrderID)))
}

func TestTemporalAwayIsOnlyLater(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	away.Store(true)
	b := setup(t)
	b.runs.fail = func() error {
		if away.Load() {
			return errors.New("no engine")
		}
		return nil
	}
	b.run()
	a := b.becomes(b.attempt(), order.Unknown)
	require.Equal(t, 200, b.post(about(a, "evt_1", gateways.Succeeded)))
	require.Eventually(t, func() bool { return b.result("evt_1") == "look" }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, 1, b.count("SELECT count(*) FROM looks_wanted"))
	away.Store(false)
	b.quiet()
	require.Equal(t, 1, b.runs.total())
}

func TestManyProcessesTellOnce(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	for range 3 {
		start(t, webhooks.New(webhooks.Deps{
			Store: b.open(b.db.AppURL), Engine: b.runs, Box: b.box, Period: 100 * time.Millisecond, LookupsPerSecond: 1000,
			Gateways: map[order.Account]gateways.Gateway{account: notifier{}},
		}))
	}
	for i := range 40 {
		a := b.becomes(b.attempt(), order.Unknown)
		require.Equal(t, 200, b.post(about(a, fmt.Sprintf("evt_%d", i), gateways.Succeeded)))
	}
	b.quiet()
	require.Equal(t, 40, b.runs.total())
}

// S13: a replay of what was forgotten is looked at once more and changes nothing.
func TestReplayAfterPruning(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	a := b.becomes(b.attempt(), order.Succeeded)
	require.Equal(t, 200, b.post(about(a, "evt_1", gateways.Succeeded)))
	b.quiet()
	n, err := b.store.ReceiptsPrune(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Zero(t, n, "it is young")
	b.exec("UPDATE webhook_receipts SET processed_at = processed_at - interval '31 days'")
	n, err = b.store.ReceiptsPrune(t.Context(), 30*24*time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	state := func() string {
		return b.text("SELECT (SELECT string_agg(p::text, ';') FROM payments p) || (SELECT count(*) FROM outbox_events) || (SELECT count(*) FROM fulfillment_units) || (SELECT string_agg(a::text, ';') FROM payment_attempts a)")
	}
	before := state()
	require.Equal(t, 200, b.post(about(a, "evt_1", gateways.Succeeded)))
	b.quiet()
	require.Equal(t, "known", b.result("evt_1"))
	require.Equal(t, before, state())
	require.Zero(t, b.runs.total())
}

// PC-23: the order of arrival decides nothing.
func TestOlderEventAfterANewerOne(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	a := b.becomes(b.attempt(), order.Succeeded)
	require.Equal(t, http.StatusOK, b.post(about(a, "evt_100", gateways.Succeeded)))
	require.Equal(t, http.StatusOK, b.post(about(a, "evt_99", gateways.Pending)))
	b.quiet()
	require.Equal(t, string(order.AttemptSucceeded), b.text("SELECT status FROM payment_attempts WHERE attempt_id = $1", a.AttemptID))
	require.Equal(t, 1, b.runs.total(), "it is a reason to look, and nothing more")
}
