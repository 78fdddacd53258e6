package store

// Goal: an answer that comes too late is neither applied nor forgotten.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
)

// A person closes an unknown attempt while its request is still under way, and then the provider says "captured". The answer was
// read before the decision, so it moves nothing; but nobody asks about a closed attempt by himself, and the money must not be
// forgotten.
func TestRule05_ALateCaptureOfAClosedAttemptIsLookedUp(t *testing.T) {
	t.Parallel()
	e := setup(t)
	d := e.place("o", grantLine(1))
	a := e.open(d, "k")
	lost := answer(a, order.Unknown)
	e.keep(lost)
	e.reflect(a)
	_, err := e.s.AttemptUnresolved(e.ctx(), idOf(a), "payment_outcome_unknown")
	require.NoError(t, err)
	under := e.attempt(a) // what the request under way has read
	require.Equal(t, order.Applied, e.decide(decision(e.review(a.AttemptID), order.DecideCloseWithEvidence)).Verdict)
	attempts := func() []AttemptHead {
		s, err := e.s.Snapshot(e.ctx(), d.ID, 10)
		require.NoError(t, err)
		return s.Attempts
	}
	require.Empty(t, attempts())

	e.keep(answer(under, order.Succeeded))
	require.Equal(t, order.Stale, e.reflect(a).Verdict)
	require.Len(t, attempts(), 1, "the run asks about it")
	require.True(t, attempts()[0].Look)
	due, err := e.s.ChecksDue(e.ctx(), time.Minute, 10)
	require.NoError(t, err)
	require.Len(t, due, 1, "and without a run the sweep does")

	e.keep(answer(e.attempt(a), order.Unknown))
	e.reflect(a)
	require.Len(t, attempts(), 1, "an answer that says nothing ends no question")
	e.keep(answer(e.attempt(a), order.Succeeded))
	require.Equal(t, order.OrderPaid, e.reflect(a).Order)
	require.Empty(t, attempts())
}

// A look that read "not tried yet" may be weighed after the charge it was overtaken by. It contradicts nothing: it is an older truth,
// and a fresh look says so without a person.
func TestRule05_AnOlderTruthAboutACapturedPaymentIsNoContradiction(t *testing.T) {
	t.Parallel()
	for _, old := range []order.Outcome{order.Untouched, order.Pending, order.Declined} {
		t.Run(string(old), func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			d := e.place("o", grantLine(1))
			a := e.open(d, "k")
			e.keep(answer(a, order.Succeeded))
			require.Equal(t, order.OrderPaid, e.reflect(a).Order)
			look := func() bool {
				s, err := e.s.Snapshot(e.ctx(), d.ID, 10)
				require.NoError(t, err)
				return len(s.Attempts) == 1 && s.Attempts[0].Look
			}
			e.keep(answer(a, old)) // read before the capture was applied
			require.Equal(t, order.Stale, e.reflect(a).Verdict)
			require.Zero(t, e.count("SELECT count(*) FROM reviews"))
			require.True(t, look(), "somebody looks again")
			e.keep(answer(e.attempt(a), order.Succeeded))
			require.Equal(t, order.Unchanged, e.reflect(a).Verdict)
			require.False(t, look())

			e.keep(answer(e.attempt(a), old)) // and what is read now does contradict, or the money has gone since
			r := e.reflect(a)
			if old == order.Pending {
				require.Equal(t, order.Applied, r.Verdict)
				require.Equal(t, string(order.ReviewDepositTakenBack), e.review(a.AttemptID).Reason)
				return
			}
			require.Equal(t, order.Mismatch, r.Verdict)
			require.Equal(t, string(order.ReviewContradiction), e.review(a.AttemptID).Reason)
		})
	}
}

// A repeated prepare whose key has lapsed makes a second object at the provider. Confirming that one, while lookups ask about the
// first, could charge twice.
func TestTheConfirmGoesToTheObjectTheRowNames(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a, err := e.s.AttemptOpen(e.ctx(), attemptDraft(e.place("o", grantLine(1)), "k"))
	require.NoError(t, err)
	a, _, err = e.s.OperationClaim(e.ctx(), idOf(a), prepareOf(a), "")
	require.NoError(t, err)
	e.keep(answer(a, order.Prepared)) // one try has learned the object's id
	other := answer(a, order.Prepared)
	other.LearnedID, other.Payment.ProviderPaymentID = "pi_other", "pi_other"
	won, err := e.s.ObservationKeep(e.ctx(), other, confirmOf(a))
	require.NoError(t, err)
	require.False(t, won)
	won, err = e.s.ObservationKeep(e.ctx(), answer(a, order.Prepared), confirmOf(a))
	require.NoError(t, err)
	require.True(t, won)
}

// A fault of ours is not an outage: it would be tried for a day, and nobody would be told.
func TestAnUnreadablePolicyIsNoOutage(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.place("o", grantLine(1))
	e.exec(`UPDATE orders SET policy = '{"batch_max": "many"}' WHERE order_id = 'o'`)
	_, err := e.s.FulfillInternal(e.ctx(), "o", 10)
	require.True(t, fault.IsCode(err, fault.InternalError), "%v", err)
}
