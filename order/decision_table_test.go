package order

// Goal: what a person may decide is exactly what this table says, by reason, decision, role, door and state of the subject; what is
// allowed has exactly its effect, once, and everything else is refused with a word that says why. Method: every combination, against
// expectations written here and not in the rule; then every allowed decision is made again on what it left behind, with the review
// forced open, and the goods and the money are counted. Not covered: what the store makes of it (store/decisions_test.go).

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/money"
)

// mayDecide is the table: what each reason allows.
var mayDecide = map[ReviewReason][]DecisionKind{
	ReviewConfirmUnknown:   {DecideRequeryPayment, DecideRecordExternal, DecideCloseWithEvidence},
	ReviewIssuanceUnknown:  {DecideRequeryIssuance, DecideConfirmProvided, DecideRerunUnit, DecideCloseWithEvidence},
	ReviewPaymentMismatch:  {DecideRequeryPayment, DecideCloseWithEvidence},
	ReviewIssuanceMismatch: {DecideRequeryIssuance, DecideConfirmProvided, DecideRerunUnit, DecideCloseWithEvidence},
	ReviewIssuanceRefused:  {DecideRequeryIssuance, DecideConfirmProvided, DecideRerunUnit, DecideCloseWithEvidence},
	ReviewRequestRefused:   {DecideRequeryPayment, DecideCloseWithEvidence},
	ReviewMisconfigured:    {DecideRequeryPayment, DecideCloseWithEvidence},
	ReviewLatePayment:      {DecideRestoreReflection, DecideRefund, DecideCloseWithEvidence},
	ReviewDispute:          {DecideRequeryPayment, DecideRecordExternal, DecideCloseWithEvidence},
	ReviewDisputeLost:      {DecideRequeryPayment, DecideRecordExternal, DecideCloseWithEvidence},
	ReviewDepositTakenBack: {DecideRequeryPayment, DecideRecordExternal, DecideCloseWithEvidence},
	ReviewSettledElsewhere: {DecideRecordExternal, DecideCloseWithEvidence},
	ReviewExtraPayment:     {DecideRefund, DecideCloseWithEvidence},
	ReviewContradiction:    {DecideRequeryPayment, DecideRequeryIssuance, DecideCloseWithEvidence},
	ReviewRepeatedFailure:  {DecideRequeryPayment, DecideRestoreReflection, DecideRequeryIssuance, DecideCloseWithEvidence},
	ReviewPoisonEvent:      {DecideCloseWithEvidence},
	ReviewOrphanPayment:    {DecideLinkPayment, DecideCloseWithEvidence},
	ReviewRefundUnknown:    {DecideRequeryPayment, DecideConfirmRefunded, DecideCloseWithEvidence},
	ReviewRefundFailed:     {DecideRequeryPayment, DecideConfirmRefunded, DecideRefund, DecideCloseWithEvidence},
	ReviewCorrection:       {DecideRequeryPayment, DecideCloseWithEvidence},

	ReviewIssuedAfterCancel: {DecideCloseWithEvidence},
	ReviewRefundProposed:    {DecideCloseWithEvidence},
}

// tableSubject is a subject in one state, with what surrounds it.
type tableSubject struct {
	kind  SubjectKind
	state Status
	quiet bool // no request can still be under way
	facts func() Facts
}

func tableSubjects() []tableSubject {
	attempt := func(s Status) *AttemptFacts {
		return &AttemptFacts{ID: "att_1", Status: s, Version: 4, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: "pi_1", Amount: walkAmount}
	}
	captured := func() *MoneyFacts { return &MoneyFacts{Currency: "JPY", CapturedMinor: walkAmount.Minor} }
	out := []tableSubject{
		{SubjectEvent, "", true, func() Facts { return Facts{Order: OrderFacts{Status: OrderPaid}} }},
		{SubjectOrder, "", true, func() Facts { return Facts{Order: OrderFacts{Status: OrderPaid}} }},
		{SubjectOrder, OrderOpen, true, func() Facts { return Facts{Order: OrderFacts{Status: OrderOpen}} }},
		{SubjectAttempt, "late", true, func() Facts {
			return Facts{Order: OrderFacts{Status: OrderExpired, StockThere: true}, Attempt: attempt(AttemptSucceeded), Money: captured()}
		}},
	}
	for _, s := range AttemptStatuses {
		out = append(out, tableSubject{SubjectAttempt, s, true, func() Facts {
			f := Facts{Order: OrderFacts{Status: OrderPaid}, Attempt: attempt(s)}
			if s == AttemptSucceeded {
				f.Money = captured()
			}
			return f
		}})
	}
	for _, quiet := range []bool{true, false} {
		for _, s := range UnitStatuses {
			out = append(out, tableSubject{SubjectUnit, s, quiet, func() Facts {
				return Facts{Order: OrderFacts{Status: OrderPaid}, Unit: &UnitFacts{ID: walkUnit, Status: s, Version: 7, Operation: IssueOperation(walkUnit, 1), RerunSafe: quiet}}
			}})
		}
		for _, s := range RefundStatuses {
			out = append(out, tableSubject{SubjectRefund, s, quiet, func() Facts {
				m := captured()
				*m.sum(s) += 400
				if s == RefundSucceeded {
					m.RefundedMinor = 400
				}
				return Facts{
					Order: OrderFacts{Status: OrderPaid}, Attempt: attempt(AttemptSucceeded), Money: m,
					Refund: &RefundFacts{ID: "ref_1", Status: s, Version: 3, Account: walkAccount, ProviderPaymentID: "pi_1", Amount: money.Amount{Minor: 400, Currency: "JPY"}, Quiet: quiet},
				}
			}})
		}
	}
	for _, s := range []Status{"open", "linked"} {
		out = append(out, tableSubject{SubjectOrphan, s, true, func() Facts {
			a := attempt(AttemptClosed)
			a.ProviderPaymentID = ""
			return Facts{Attempt: a, Orphan: &OrphanFacts{ID: "orp_1", Open: s == "open", Account: walkAccount, ProviderPaymentID: "pi_9", Amount: walkAmount}}
		}})
	}
	return out
}

// fits says whether a decision that the reason allows is one about this subject in this state.
func (s tableSubject) fits(r ReviewReason, k DecisionKind) bool {
	if k == DecideRestoreReflection && r == ReviewLatePayment {
		return s.state == "late"
	}
	switch k {
	case DecideRecordExternal:
		return s.state == "late" || s.state == OrderOpen && s.kind == SubjectOrder
	case DecideRequeryPayment, DecideRestoreReflection:
		return s.kind == SubjectAttempt || s.kind == SubjectOrder || s.kind == SubjectRefund
	case DecideRequeryIssuance:
		return s.kind == SubjectUnit
	case DecideConfirmProvided:
		return s.kind == SubjectUnit && (s.state == UnitUnknown || s.state == UnitRefused)
	case DecideRerunUnit:
		return s.kind == SubjectUnit && (s.state == UnitUnknown || s.state == UnitRefused) && s.quiet
	case DecideConfirmRefunded:
		return s.kind == SubjectRefund && (s.state == RefundUnknown || s.state == RefundPending || s.state == RefundFailed)
	case DecideRefund:
		return s.kind == SubjectAttempt && (s.state == AttemptSucceeded || s.state == "late") || s.kind == SubjectRefund && s.state == RefundFailed
	case DecideLinkPayment:
		return s.kind == SubjectOrphan && s.state == "open"
	case DecideCloseWithEvidence:
		switch r {
		case ReviewIssuanceUnknown, ReviewIssuanceMismatch, ReviewIssuanceRefused:
			if s.kind == SubjectUnit {
				return false // these orders are paid: the unit is owed (TestAUnitIsGivenUp has those that are not)
			}
		}
		return s.kind != SubjectRefund || s.state != RefundUnknown || r != ReviewRefundUnknown || s.quiet
	}
	return false
}

var (
	tableFirst  = Actor{Name: "ann", Channel: ChannelPage, Authenticated: true}
	tableSecond = Actor{Name: "bob", Role: RoleApprover, Channel: ChannelPage, Authenticated: true}
)

func (s tableSubject) trigger(r ReviewReason, k DecisionKind, by Actor, second *Actor, rules DecisionRules) (Facts, Trigger) {
	f := s.facts()
	f.Review = &ReviewFacts{ID: "rev_1", Reason: r, Open: true, Version: 6, SubjectKind: s.kind, SubjectVersion: f.subjectVersion(s.kind)}
	d := Decision{
		ReviewID: "rev_1", ReviewVersion: 6, Decision: k, Actor: by.Name, Reason: "looked it up", AttemptID: "att_1",
		Evidence: Evidence{Reference: "pi_9", Proof: "ticket 4711"},
	}
	return f, Trigger{Kind: DecisionMade, Decision: d, By: by, Approver: second, Rules: rules}
}

func TestEveryReasonDecisionRoleAndState(t *testing.T) {
	t.Parallel()
	require.Len(t, mayDecide, len(GuidanceTable()), "a reason that this table does not know")
	cases, applied := 0, 0
	for _, s := range tableSubjects() {
		for _, r := range allReasons() {
			for _, k := range DecisionKinds {
				for _, role := range append([]Role{""}, Roles...) {
					for _, channel := range Channels {
						for _, rules := range []DecisionRules{{}, {OnePerson: true}, {Temporal: TemporalProposes}, {OnePerson: true, Temporal: TemporalRefused}} {
							for _, second := range []*Actor{nil, &tableSecond} {
								by := Actor{Name: "ann", Role: role, Channel: channel, Authenticated: !channel.Temporal()}
								f, tr := s.trigger(r, k, by, second, rules)
								c := Apply(f, tr)
								cases++
								want, why := s.expected(r, k, by, second != nil, rules)
								if c.Verdict != want {
									t.Fatalf("%s about %s %s (%v): %s by %q at %s, second %v, %+v: %s %s", r, s.kind, s.state, s.quiet, k, role, channel, second != nil, rules, c.Verdict, c.Why)
								}
								switch c.Verdict {
								case Rejected:
									if c.Why == "" || (why != "" && why != c.Why) {
										t.Fatalf("refused for %q, not %q", c.Why, why)
									}
									if !reflect.DeepEqual(Change{Verdict: Rejected, Why: c.Why}, c) {
										t.Fatalf("a refusal moves something: %+v", c)
									}
								case Proposed:
									require.Equal(t, Change{Verdict: Proposed}, c, "a proposal moves nothing")
								default:
									applied++
									s.hasItsEffect(t, k, f, c)
								}
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d cases, %d with an effect", cases, applied)
	require.Greater(t, applied, 1000)
}

// expected is the verdict, and of a refusal by who decides or by the reason's row also the word.
func (s tableSubject) expected(r ReviewReason, k DecisionKind, by Actor, second bool, rules DecisionRules) (Verdict, string) {
	switch {
	case by.Role != RoleOperator && by.Role != RoleApprover:
		return Rejected, "role_too_low"
	case by.Channel.Temporal() && rules.Temporal == TemporalRefused:
		return Rejected, "channel_closed"
	case !slices.Contains(mayDecide[r], k):
		return Rejected, "decision_not_allowed"
	case !s.fits(r, k):
		return Rejected, ""
	case second:
		return Applied, ""
	case !rules.OnePerson && (k == DecideRefund || k == DecideRerunUnit || k == DecideRecordExternal), by.Channel.Temporal() && rules.Temporal == TemporalProposes:
		return Proposed, ""
	}
	return Applied, ""
}

func (s tableSubject) hasItsEffect(t *testing.T, k DecisionKind, f Facts, c Change) {
	t.Helper()
	require.Equal(t, k == DecideRerunUnit, c.NewOp, "a new operation is a rerun's")
	require.Equal(t, k == DecideRefund, c.OpenRefund != nil, "money goes back by a refund")
	require.Equal(t, k == DecideLinkPayment, c.Link)
	require.Equal(t, k == DecideConfirmProvided, c.To(SubjectUnit) == UnitIssued)
	require.Equal(t, k == DecideRerunUnit, c.To(SubjectUnit) == UnitPlanned)
	require.Equal(t, k == DecideConfirmRefunded, c.To(SubjectRefund) == RefundSucceeded)
	require.NotEqual(t, c.EndReview, c.LookAgain, "it ends the review or has something looked at")
	kept := k == DecideRestoreReflection && f.Review.Reason == ReviewLatePayment
	require.True(t, k == DecideRecordExternal || c.EndReview == (kept || !k.Asks()))
	require.Equal(t, k == DecideRecordExternal, c.External)
	require.Equal(t, k == DecideRecordExternal || kept, c.To(SubjectOrder) == OrderPaid, "nothing else moves the promise")
	require.Equal(t, c.To(SubjectOrder) == OrderPaid, c.PlanUnits)
	require.False(t, c.RecordMoney, "a decision invents money")
	if c.OpenRefund != nil {
		require.LessOrEqual(t, c.OpenRefund.Minor, f.Money.Left())
		require.Positive(t, c.OpenRefund.Minor)
	}
}

// Whatever is decided, again and again, in whatever order, with every review forced open: a unit that was provided is not run again, and
// no more goes back than came in.
func TestDecidedTwiceNothingHappensTwice(t *testing.T) {
	t.Parallel()
	for _, s := range tableSubjects() {
		for _, r := range allReasons() {
			for _, first := range mayDecide[r] {
				for _, then := range mayDecide[r] {
					f, tr := s.trigger(r, first, tableFirst, &tableSecond, DecisionRules{})
					tr.By.Role = RoleOperator
					provided, reruns, planned := 0, 0, 0
					for i, k := range []DecisionKind{first, then, first, then} {
						tr.Decision.Decision, tr.Decision.ReviewVersion = k, f.Review.Version
						c := Apply(f, tr)
						if c.Verdict != Applied {
							continue
						}
						f.follow(c)
						switch {
						case c.To(SubjectUnit) == UnitIssued:
							provided++
						case c.NewOp:
							reruns++
						case c.PlanUnits:
							planned++
						}
						if c.EndReview && i == 0 {
							closed := f
							over := *f.Review
							over.Open = false
							closed.Review = &over
							require.Equal(t, "review_closed", Apply(closed, tr).Why)
						}
					}
					require.LessOrEqual(t, provided, 1, "%s: %s then %s", r, first, then)
					require.LessOrEqual(t, reruns, 1, "%s: %s then %s: a rerun is not run again before its own answer", r, first, then)
					require.False(t, provided > 0 && reruns > 0 && first == DecideConfirmProvided, "provided, and run again all the same")
					require.LessOrEqual(t, planned, 1, "%s: %s then %s: the goods are owed once", r, first, then)
					if m := f.Money; m != nil {
						require.LessOrEqual(t, m.RequestedMinor+m.SucceededMinor+m.UnderwayMinor+m.PendingMinor, m.CapturedMinor, "%s: %s then %s", r, first, then)
					}
				}
			}
		}
	}
}

// follow makes the facts what they are after a change; the review stays open, one version on.
func (f *Facts) follow(c Change) {
	for _, t := range c.Transitions {
		switch t.Subject {
		case SubjectOrder:
			f.Order.Status = t.To
		case SubjectAttempt:
			a := *f.Attempt
			a.Status, a.Version = t.To, a.Version+1
			f.Attempt = &a
		case SubjectUnit:
			u := *f.Unit
			u.Status, u.Version = t.To, u.Version+1
			f.Unit = &u
		case SubjectRefund:
			m := f.Money.Moved(f.Refund.Status, t.To, f.Refund.Amount.Minor)
			r := *f.Refund
			r.Status, r.Version = t.To, r.Version+1
			f.Refund, f.Money = &r, &m
		}
	}
	f.Order.External = f.Order.External || c.External
	if c.OpenRefund != nil {
		m := *f.Money
		m.RequestedMinor += c.OpenRefund.Minor
		f.Money = &m
	}
	if c.Link {
		o := *f.Orphan
		o.Open = false
		f.Orphan = &o
	}
	r := *f.Review
	r.Version, r.SubjectVersion = r.Version+1, f.subjectVersion(r.SubjectKind)
	f.Review = &r
}

func TestTheSecondPersonIsAnother(t *testing.T) {
	t.Parallel()
	unit := tableSubject{SubjectUnit, UnitRefused, true, func() Facts {
		return Facts{Order: OrderFacts{Status: OrderPaid}, Unit: &UnitFacts{ID: walkUnit, Status: UnitRefused, Version: 7, RerunSafe: true}}
	}}
	ann := Actor{Name: "ann", Person: "ann lee", Role: RoleApprover, Channel: ChannelPage, Authenticated: true}
	for name, x := range map[string]struct {
		second Actor
		why    string
	}{
		"another approver":     {Actor{Name: "bob", Role: RoleApprover, Channel: ChannelAPI, Authenticated: true}, ""},
		"the same name":        {ann, "same_person"},
		"in other letters":     {Actor{Name: " ANN ", Role: RoleApprover, Channel: ChannelAPI, Authenticated: true}, "same_person"},
		"under another name":   {Actor{Name: "key-7", Person: "Ann  Lee", Role: RoleApprover, Channel: ChannelAPI, Authenticated: true}, "same_person"},
		"an operator":          {Actor{Name: "bob", Role: RoleOperator, Channel: ChannelAPI, Authenticated: true}, "role_too_low"},
		"somebody who says so": {Actor{Name: "bob", Role: RoleApprover, Channel: ChannelTemporalUpdate}, "approver_not_authenticated"},
	} {
		f, tr := unit.trigger(ReviewIssuanceRefused, DecideRerunUnit, ann, &x.second, DecisionRules{})
		require.Equal(t, x.why, Apply(f, tr).Why, name)
	}
}

// Only ids, and only where nothing that is known speaks against it.
func TestLinkingByIdsOnly(t *testing.T) {
	t.Parallel()
	orphan := tableSubject{SubjectOrphan, "open", true, func() Facts {
		return Facts{
			Attempt: &AttemptFacts{ID: "att_1", Status: AttemptClosed, Version: 4, Account: walkAccount, MerchantReference: "OF1", Amount: walkAmount},
			Orphan:  &OrphanFacts{ID: "orp_1", Open: true, Account: walkAccount, ProviderPaymentID: "pi_9", Amount: walkAmount},
		}
	}}
	for why, spoil := range map[string]func(f *Facts, d *Decision){
		"":                           func(*Facts, *Decision) {},
		"attempt_missing":            func(_ *Facts, d *Decision) { d.AttemptID = "" },
		"no_such_attempt":            func(f *Facts, _ *Decision) { f.Attempt = nil },
		"orphan_settled":             func(f *Facts, _ *Decision) { f.Orphan.Open = false },
		"payment_id_not_known":       func(f *Facts, _ *Decision) { f.Orphan.ProviderPaymentID = "" },
		"evidence_reference_differs": func(_ *Facts, d *Decision) { d.Evidence.Reference = "pi_8" },
		"evidence_proof_missing":     func(_ *Facts, d *Decision) { d.Evidence.Proof = "" },
		"account_differs":            func(f *Facts, _ *Decision) { f.Orphan.Account.Environment = "live" },
		"attempt_has_payment":        func(f *Facts, _ *Decision) { f.Attempt.ProviderPaymentID = "pi_1" },
		"reference_differs":          func(f *Facts, _ *Decision) { f.Orphan.MerchantReference = "OF2" },
		"amount_not_known":           func(f *Facts, _ *Decision) { f.Orphan.Amount = money.Amount{} },
		"currency_differs":           func(f *Facts, _ *Decision) { f.Orphan.Amount.Currency = "THB" },
		"amount_differs":             func(f *Facts, _ *Decision) { f.Orphan.Amount.Minor++ },
		"attempt_not_sent":           func(f *Facts, _ *Decision) { f.Attempt.Status = AttemptCreated },
	} {
		by := tableFirst
		by.Role = RoleOperator
		f, tr := orphan.trigger(ReviewOrphanPayment, DecideLinkPayment, by, nil, DecisionRules{})
		spoil(&f, &tr.Decision)
		c := Apply(f, tr)
		require.Equal(t, why, c.Why)
		require.Equal(t, why == "", c.Link)
		require.Empty(t, c.Transitions, "the provider's answer decides, not the person")
	}
}
