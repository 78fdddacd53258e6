package order

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Closing a review about a unit gives the unit up. That takes an order that owes nothing any more, and a request that is surely over.
func TestAUnitIsGivenUpOnlyWhereItIsNotOwed(t *testing.T) {
	t.Parallel()
	for _, reason := range []ReviewReason{ReviewIssuanceUnknown, ReviewIssuanceMismatch, ReviewIssuanceRefused} {
		for _, c := range []struct {
			order, unit Status
			safe        bool
			verdict     Verdict
			why         string
			to          Status
		}{
			{OrderPaid, UnitUnknown, true, Rejected, "still_owed", ""},
			{OrderCompleted, UnitRefused, true, Rejected, "still_owed", ""},
			{OrderCanceled, UnitUnknown, false, Rejected, "too_early", ""},
			{OrderCanceled, UnitUnknown, true, Applied, "", UnitCanceled},
			{OrderCanceled, UnitRefused, true, Applied, "", UnitCanceled},
			{OrderCanceled, UnitIssued, false, Applied, "", ""},
			{OrderCanceled, UnitCanceled, false, Applied, "", ""},
		} {
			f := Facts{
				Order:  OrderFacts{Status: c.order},
				Unit:   &UnitFacts{ID: "unit_1", Status: c.unit, Version: 3, RerunSafe: c.safe},
				Review: &ReviewFacts{ID: "rev_1", Reason: reason, Open: true, Version: 2, SubjectKind: SubjectUnit, SubjectVersion: 3},
			}
			d := Decision{ReviewID: "rev_1", Decision: DecideCloseWithEvidence, Actor: "ann", Reason: "asked", Evidence: Evidence{Proof: "ticket 4711"}}
			got := Apply(f, Trigger{Kind: DecisionMade, Decision: d, By: Actor{Name: "ann", Role: RoleOperator, Channel: ChannelPage, Authenticated: true}})
			require.Equal(t, c.verdict, got.Verdict, "%s %+v", reason, c)
			require.Equal(t, c.why, got.Why, "%s %+v", reason, c)
			require.Equal(t, c.to, got.To(SubjectUnit), "%s %+v", reason, c)
			require.False(t, got.NewOp || got.PlanUnits)
		}
	}
}
