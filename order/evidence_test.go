package order

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: Needs, which the forms are made from, says exactly what the rule asks for. Method: every decision that has an effect, once more
// without its reference and without its proof. Not covered: whether the words convince.
func TestNeedsIsWhatTheRuleAsksFor(t *testing.T) {
	t.Parallel()
	seen := map[DecisionKind]bool{}
	for _, s := range tableSubjects() {
		for _, r := range allReasons() {
			for _, k := range DecisionKinds {
				if !slices.Contains(mayDecide[r], k) || !s.fits(r, k) {
					continue
				}
				seen[k] = true
				reference, proof := k.Needs(r)
				for what, x := range map[string]struct {
					needed bool
					change func(*Evidence)
				}{"reference": {reference, func(e *Evidence) { e.Reference = "" }}, "proof": {proof, func(e *Evidence) { e.Proof = "" }}} {
					f, tr := s.trigger(r, k, Actor{Name: "ann", Role: RoleOperator, Channel: ChannelPage, Authenticated: true}, &tableSecond, DecisionRules{})
					x.change(&tr.Decision.Evidence)
					c := Apply(f, tr)
					refused := c.Verdict == Rejected && strings.HasPrefix(c.Why, "evidence_")
					require.Equal(t, x.needed, refused, "%s about %s %s (%s) without its %s: %s %s", k, s.kind, s.state, r, what, c.Verdict, c.Why)
				}
			}
		}
	}
	require.Len(t, seen, len(DecisionKinds), "every decision was made")
}
