package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/order"
)

// Goal: what was pruned and comes again has no second effect, and pruning takes no row that guards. Method: everything old is pruned, then
// told again through the same functions. A pruned idempotency key is in rules_test.go, a pruned webhook that comes again in starter/webhooks,
// a pruned key of a refund in starter/api.

const aMonth = 30 * 24 * time.Hour

// A business event whose deliveries are forgotten is not told again, though the same thing happens again.
func TestRule10_PrunedEventIsNotToldAgain(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail", "warehouse")
	a := e.open(e.place("o", grantLine(1)), "pay")
	e.keep(answer(a, order.Declined))
	require.Equal(t, order.AttemptDeclined, e.reflect(a).Status)
	ds, err := e.s.DeliveriesClaim(e.ctx(), "o", time.Minute)
	require.NoError(t, err)
	require.Len(t, ds, 2)
	require.NoError(t, e.s.DeliveriesRecord(e.ctx(), "o", []DeliveryResult{{EventID: ds[0].EventID, Receiver: ds[0].Receiver, Taken: true}}))
	e.exec("UPDATE event_deliveries SET delivered_at = now() - interval '40 days' WHERE status = 'delivered'")
	e.exec("UPDATE outbox_events SET created_at = now() - interval '40 days'")

	n, err := e.s.DeliveriesPrune(e.ctx(), aMonth)
	require.NoError(t, err)
	require.EqualValues(t, 1, n, "what is still to be told stays, however old")
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM event_deliveries"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM outbox_events"))

	e.keep(answer(e.attempt(a), order.Pending)) // the buyer tries again, and is declined again
	require.Equal(t, order.AttemptPending, e.reflect(a).Status)
	e.keep(answer(e.attempt(a), order.Declined))
	require.Equal(t, order.AttemptDeclined, e.reflect(a).Status)
	require.EqualValues(t, 1, e.events(order.EventPaymentDeclined))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM event_deliveries"), "nobody is told a second time")
	e.folds()
}

// More than a batch goes, and what is young or still under way stays.
func TestPruningGoesInBatches(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.exec(`INSERT INTO idempotency_keys (client_id, operation, key, fingerprint, subject_id, lease_token, lease_until, created_at, http_status, completed_at)
		SELECT 'shop', 'op', 'k' || n, '', 's', 't', now(), now() - interval '40 days', 201, now() FROM generate_series(1, $1) n`, 2*pruneBatch+5)
	e.exec(`INSERT INTO idempotency_keys (client_id, operation, key, fingerprint, subject_id, lease_token, lease_until, created_at) VALUES
		('shop', 'op', 'running', '', 's', 't', now() + interval '1 minute', now() - interval '40 days'), ('shop', 'op', 'young', '', 's', 't', now(), now())`)
	n, err := e.s.KeysPrune(e.ctx(), aMonth)
	require.NoError(t, err)
	require.EqualValues(t, 2*pruneBatch+5, n)
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM idempotency_keys WHERE key IN ('running', 'young')"))
	n, err = e.s.KeysPrune(e.ctx(), aMonth)
	require.NoError(t, err)
	require.Zero(t, n)
}

// A token is kept until the attempt is closed and no longer; what may still be sent keeps its request.
func TestRequestsAreForgottenWhenThePaymentHasEnded(t *testing.T) {
	t.Parallel()
	e := setup(t)
	want := map[order.Status]int{order.AttemptSucceeded: 0, order.AttemptClosed: 0, order.AttemptDeclined: 1, order.AttemptUnknown: 1, order.AttemptPending: 1}
	for status := range want { // what is left of each, in an order of that name
		a := e.open(e.place(order.ID(status), grantLine(1)), "pay-"+string(status))
		seen := answer(a, order.Outcome(status))
		if status == order.AttemptClosed {
			seen = answer(a, order.Declined)
			seen.Payment.Final = true
		}
		e.keep(seen)
		require.Equal(t, status, e.reflect(a).Status)
	}
	left := func() map[order.Status]int {
		got := map[order.Status]int{}
		for id := range want {
			got[id] = int(e.count("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'confirm' AND sealed_request <> ''", id))
		}
		return got
	}
	marks := e.text("SELECT string_agg(encode(fingerprint, 'hex'), ' ' ORDER BY operation_id) FROM operations")
	n, err := e.s.RequestsForget(e.ctx(), time.Hour)
	require.NoError(t, err)
	require.Zero(t, n, "one that was sent a moment ago may be on its way")
	e.exec("UPDATE operations SET created_at = now() - interval '2 hours', sent_at = now() - interval '2 hours', last_sent_at = now() - interval '2 hours' WHERE sends > 0")
	e.exec("UPDATE operations SET created_at = now() - interval '2 hours' WHERE sends = 0")
	_, err = e.s.RequestsForget(e.ctx(), time.Hour)
	require.NoError(t, err)
	require.Equal(t, want, left())
	require.Equal(t, marks, e.text("SELECT string_agg(encode(fingerprint, 'hex'), ' ' ORDER BY operation_id) FROM operations"))
	n, err = e.s.RequestsForget(e.ctx(), time.Hour)
	require.NoError(t, err)
	require.Zero(t, n)
}
