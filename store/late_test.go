package store

// Goal: an answer that comes too late is neither applied nor forgotten.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
