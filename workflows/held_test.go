package workflows

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/activities"
	"orderflow/order"
)

// IssueUnit issues what it is asked for, and notes it.
func (d *side) IssueUnit(ctx context.Context, in activities.UnitInput) (activities.UnitResult, error) {
	d.did(ctx)
	d.issued = append(d.issued, in.UnitID)
	d.facts.ExternalOpen = slices.DeleteFunc(d.facts.ExternalOpen, func(u activities.UnitHead) bool { return u.ID == in.UnitID })
	return activities.UnitResult{Status: order.UnitIssued}, nil
}

// While the money is not here nothing more goes out, and what was sent before is found out; when it is here again all goes on.
func TestWhatIsOwedWaitsForItsMoney(t *testing.T) {
	t.Parallel()
	d := newSide(order.AttemptSucceeded)
	d.facts.Status, d.facts.Hold, d.facts.InternalPlanned = order.OrderPaid, order.HoldDispute, 1
	d.facts.UnitCounts = map[order.Status]int64{order.UnitPlanned: 2, order.UnitIssuing: 1}
	d.facts.ExternalOpen = []activities.UnitHead{{ID: "unit_planned", Status: order.UnitPlanned}, {ID: "unit_sent", Status: order.UnitIssuing}}
	d.facts.Reviews = []activities.ReviewHead{{ID: "rev_1", Version: 1, Reason: order.ReviewDispute, SubjectKind: order.SubjectAttempt, SubjectID: string(attempt)}}
	env := environment(t, d)
	env.RegisterDelayedCallback(func() {
		assert.Equal(t, []order.UnitID{"unit_sent"}, d.issued)
		assert.Zero(t, d.calls["FulfillInternal"], "our own goods wait too")
		assert.Less(t, d.calls["LoadOrder"], 5, "and nothing spins meanwhile")
		d.facts.Hold, d.facts.Reviews = order.HoldNone, nil
		env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "webhook"})
	}, 24*time.Hour)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, []order.UnitID{"unit_sent", "unit_planned"}, d.issued)
	assert.Equal(t, order.OrderCompleted, d.facts.Status)
}
