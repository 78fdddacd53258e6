package order

// Goal: no combination of states and triggers makes the rule panic, guess, or do half of something.
// Method: every order status x attempt status x unit status x review x trigger x answer is applied, and each change is judged
// by invariants written independently of the rule; the edges seen are compared with the published graph (graph_test.go).
// Not covered: what the store makes of a change, and sequences of triggers (model_test.go).

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/money"
)

var (
	walkAccount = Account{Gateway: "stripe", Name: "default", Environment: "test"}
	walkAmount  = money.Amount{Minor: 1200, Currency: "JPY"}
	walkUnit    = UnitKey{Order: "o-1", Line: 1, Ordinal: 1, Action: ActionIssue, Revision: 1}.ID()
)

// operator decides where nothing else is said of who does.
var operator = Actor{Name: "ann", Role: RoleOperator, Channel: ChannelAPI, Authenticated: true}

// allReasons is every review reason the code knows, from the guidance table.
func allReasons() []ReviewReason {
	var rs []ReviewReason
	for _, g := range GuidanceTable() {
		rs = append(rs, g.Reason)
	}
	return rs
}

// walker applies one case after another and keeps what it has seen.
type walker struct {
	t     *testing.T
	cases int
	edges map[Transition]bool
}

func (w *walker) try(f Facts, tr Trigger) Change {
	w.cases++
	before := freeze(f)
	c := Apply(f, tr)
	if before != freeze(f) {
		w.t.Fatalf("the rule changed its facts: %+v %+v", f, tr)
	}
	for _, wrong := range judge(f, tr, c) {
		w.t.Fatalf("%s\nfacts:   %s\ntrigger: %+v\nchange:  %+v", wrong, describe(f), tr, c)
	}
	for _, e := range c.Transitions {
		w.edges[e] = true
	}
	return c
}

type frozen struct {
	order   OrderFacts
	attempt AttemptFacts
	unit    UnitFacts
	refund  RefundFacts
	money   MoneyFacts
	review  ReviewFacts
}

func freeze(f Facts) (z frozen) {
	z.order = f.Order
	if f.Attempt != nil {
		z.attempt = *f.Attempt
	}
	if f.Unit != nil {
		z.unit = *f.Unit
	}
	if f.Refund != nil {
		z.refund = *f.Refund
	}
	if f.Money != nil {
		z.money = *f.Money
	}
	if f.Review != nil {
		z.review = *f.Review
	}
	return z
}

func walkAttempts() []*AttemptFacts {
	out := []*AttemptFacts{nil}
	for _, s := range AttemptStatuses {
		for _, known := range []string{"", "pi_1"} {
			out = append(out, &AttemptFacts{ID: "att_1", Status: s, Version: 4, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: known, Amount: walkAmount})
		}
	}
	return out
}

func walkUnits() []*UnitFacts {
	out := []*UnitFacts{nil}
	for _, s := range UnitStatuses {
		for _, safe := range []bool{false, true} {
			out = append(out, &UnitFacts{ID: walkUnit, Status: s, Version: 7, Operation: IssueOperation(walkUnit, 2), RerunSafe: safe})
		}
	}
	return out
}

func goodPayment(o Outcome) PaymentSeen {
	return PaymentSeen{
		Outcome: o, Account: walkAccount, ProviderPaymentID: "pi_1", MerchantReference: "OF1", Currency: "JPY",
		AmountMinor: 1200, CapturedMinor: 1200, ReadVersion: 4,
	}
}

// wrongs is the binding with one field wrong each.
var wrongs = map[string]func(*PaymentSeen){
	"":                 func(*PaymentSeen) {},
	"gateway":          func(p *PaymentSeen) { p.Account.Gateway = "omise" },
	"account":          func(p *PaymentSeen) { p.Account.Name = "other" },
	"environment":      func(p *PaymentSeen) { p.Account.Environment = "live" },
	"payment id":       func(p *PaymentSeen) { p.ProviderPaymentID = "pi_2" },
	"no payment id":    func(p *PaymentSeen) { p.ProviderPaymentID = "" },
	"reference":        func(p *PaymentSeen) { p.MerchantReference = "OF2" },
	"currency":         func(p *PaymentSeen) { p.Currency = "USD" },
	"amount":           func(p *PaymentSeen) { p.AmountMinor, p.CapturedMinor = 12, 12 },
	"captured less":    func(p *PaymentSeen) { p.CapturedMinor = 1199 },
	"captured more":    func(p *PaymentSeen) { p.CapturedMinor = 1201 },
	"given back":       func(p *PaymentSeen) { p.RefundedMinor = 1 },
	"captured nothing": func(p *PaymentSeen) { p.CapturedMinor = 0 },
}

var paymentOutcomes = []Outcome{Succeeded, Declined, Pending, Unknown, Untouched, NotFound, Refused, Prepared, Issued, Processing, "", "bogus"}

func payments(each func(PaymentSeen)) {
	for _, o := range paymentOutcomes {
		for wrong := range wrongs {
			for _, final := range []bool{false, true} {
				for _, read := range []int64{3, 4, 5} {
					for _, code := range []string{"", "card_declined", "gateway_misconfigured"} {
						p := goodPayment(o)
						wrongs[wrong](&p)
						p.Final, p.ReadVersion, p.Code = final, read, code
						each(p)
					}
				}
			}
		}
	}
}

func goodPayments(each func(PaymentSeen)) {
	for _, o := range paymentOutcomes {
		for _, final := range []bool{false, true} {
			for _, read := range []int64{3, 4} {
				p := goodPayment(o)
				p.Final, p.ReadVersion = final, read
				each(p)
			}
		}
	}
}

func issuances(each func(IssuanceSeen)) {
	for _, o := range []Outcome{Issued, Processing, Refused, Unknown, NotFound, Succeeded, "", "bogus"} {
		for _, op := range []OperationID{"", IssueOperation(walkUnit, 1), IssueOperation(walkUnit, 2), IssueOperation(walkUnit, 3), "op_issue_unit_OTHER"} {
			each(IssuanceSeen{Outcome: o, OperationID: op, Code: "issuance_refused"})
		}
	}
}

// walkPromises is every order with the cancels it can have, and once with another promise than the attempts pay for.
func walkPromises() []OrderFacts {
	var out []OrderFacts
	for _, os := range OrderStatuses {
		out = append(out, OrderFacts{Status: os, Version: 2})
	}
	return append(out,
		OrderFacts{Status: OrderOpen, Version: 2, Revision: 2},
		OrderFacts{Status: OrderExpired, Version: 2, Revision: 2, TermsHold: true, StockThere: true},
		OrderFacts{Status: OrderOpen, Version: 2, Cancel: CancelWaiting},
		OrderFacts{Status: OrderCanceled, Version: 2, Cancel: CancelStopping},
		OrderFacts{Status: OrderCanceled, Version: 2, Cancel: CancelDone})
}

// walkAll applies every trigger but decisions to every state.
func walkAll(w *walker) {
	for i, o := range walkPromises() {
		for _, a := range walkAttempts() {
			f := Facts{Order: o, Attempt: a}
			payments := payments
			if i >= len(OrderStatuses) { // what is wrong with an answer is weighed before what it means for the order
				payments = goodPayments
			}
			payments(func(p PaymentSeen) { w.try(f, Trigger{Kind: PaymentObserved, Payment: p}) })
			for _, u := range walkUnits() {
				f.Unit = u
				for _, k := range append(slices.Clone(TriggerKinds), "", "bogus") {
					for _, open := range []int{0, 1} {
						f.UnitsOpen = open
						w.try(f, Trigger{Kind: k, Code: "some_code", Payment: goodPayment(Succeeded), Issuance: IssuanceSeen{Outcome: Issued, OperationID: IssueOperation(walkUnit, 2)}})
					}
				}
				issuances(func(s IssuanceSeen) { w.try(f, Trigger{Kind: IssuanceObserved, Issuance: s}) })
			}
		}
	}
}

// decisions are every kind, each with every part missing once.
func decisions(each func(Decision)) {
	for _, k := range append(slices.Clone(DecisionKinds), "", "retry_everything") {
		for _, ev := range []Evidence{{}, {Reference: "iss_77"}, {Proof: "ticket 4711"}, {Reference: "iss_77", Proof: "ticket 4711"}} {
			d := Decision{ReviewID: "rev_1", Decision: k, Actor: "ann", Reason: "looked it up", Evidence: ev}
			each(d)
			for _, v := range []int64{5, 6, 7} {
				d.ReviewVersion = v
				each(d)
			}
			d.ReviewVersion = 0
			for _, spoil := range []func(*Decision){func(d *Decision) { d.Actor = "" }, func(d *Decision) { d.Reason = "" }, func(d *Decision) { d.ReviewID = "" }} {
				x := d
				spoil(&x)
				each(x)
			}
		}
	}
}

func walkDecisions(w *walker) {
	type subject struct {
		kind    SubjectKind
		attempt *AttemptFacts
		unit    *UnitFacts
		version int64
	}
	subjects := []subject{{kind: SubjectPayment}, {kind: SubjectEvent}, {kind: SubjectOrphan}, {kind: SubjectOrder}}
	for _, a := range walkAttempts() {
		subjects = append(subjects, subject{SubjectAttempt, a, nil, 4})
	}
	for _, u := range walkUnits() {
		subjects = append(subjects, subject{SubjectUnit, nil, u, 7})
	}
	for _, os := range OrderStatuses {
		for _, s := range subjects {
			f := Facts{Order: OrderFacts{Status: os, Version: 2}, Attempt: s.attempt, Unit: s.unit}
			reviews := []*ReviewFacts{nil}
			for _, r := range append(allReasons(), "bogus") {
				for _, open := range []bool{true, false} {
					for _, v := range []int64{s.version - 1, s.version} {
						reviews = append(reviews, &ReviewFacts{ID: "rev_1", Reason: r, Open: open, Version: 6, SubjectKind: s.kind, SubjectVersion: v})
					}
				}
			}
			for _, r := range reviews {
				f.Review = r
				decisions(func(d Decision) {
					w.try(f, Trigger{Kind: DecisionMade, Decision: d, By: operator, Rules: DecisionRules{OnePerson: true}})
				})
			}
		}
	}
}

func TestEveryStateAndTriggerHasASoundAnswer(t *testing.T) {
	t.Parallel()
	w := &walker{t: t, edges: map[Transition]bool{}}
	walkAll(w)
	walkDecisions(w)
	walkRefunds(w)
	walkRefundDecisions(w)
	walkCorrections(w)
	walkCorrectionDecisions(w)
	require.Greater(t, w.cases, 500_000, "the walk lost a dimension")
	require.Equal(t, published, w.edges, "the published graph is what the rule does, and all of it")
}

func TestOneWrongFieldNeverPays(t *testing.T) {
	t.Parallel()
	a := &AttemptFacts{ID: "att_1", Status: AttemptSent, Version: 4, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: "pi_1", Amount: walkAmount}
	for wrong, spoil := range wrongs {
		for _, s := range []Status{AttemptSent, AttemptUnknown, AttemptPending, AttemptDeclined, AttemptClosed} {
			p := goodPayment(Succeeded)
			spoil(&p)
			x := *a
			x.Status = s
			c := Apply(Facts{Order: OrderFacts{Status: OrderOpen}, Attempt: &x}, Trigger{Kind: PaymentObserved, Payment: p})
			if wrong == "" {
				require.Equal(t, OrderPaid, c.To(SubjectOrder), "the walk must be able to pay")
				continue
			}
			if wrong != "captured less" { // a part is money all the same
				require.Equal(t, Mismatch, c.Verdict, wrong)
				require.NotEqual(t, AttemptSucceeded, c.To(SubjectAttempt), wrong)
			}
			require.Equal(t, ReviewPaymentMismatch, c.Open[0].Reason, wrong)
			require.Empty(t, c.To(SubjectOrder), wrong)
		}
	}
}

func TestGuidanceIsWhole(t *testing.T) {
	t.Parallel()
	seen := map[ReviewReason]bool{}
	for _, g := range GuidanceTable() {
		require.False(t, seen[g.Reason], "two rows for %s", g.Reason)
		seen[g.Reason] = true
		require.NotEmpty(t, g.Means)
		require.NotEmpty(t, g.Allowed, "nobody could end a review of %s", g.Reason)
		require.NotEmpty(t, g.Forbidden)
		for _, d := range g.Allowed {
			require.Contains(t, DecisionKinds, d)
		}
	}
	require.Len(t, seen, 22)
	require.Empty(t, GuidanceOf("bogus").Allowed)
	require.False(t, GuidanceOf("").Allows(DecideCloseWithEvidence))
}

// A late word about an earlier generation must not move the unit whose new operation may be under way.
func TestAnswersAboutAnEarlierOperation(t *testing.T) {
	t.Parallel()
	first := IssueOperation(walkUnit, 1)
	at := func(s Status, o Outcome, op OperationID) Change {
		u := &UnitFacts{ID: walkUnit, Status: s, Version: 7, Operation: IssueOperation(walkUnit, 2)}
		return Apply(Facts{Order: OrderFacts{Status: OrderPaid}, Unit: u}, Trigger{Kind: IssuanceObserved, Issuance: IssuanceSeen{Outcome: o, OperationID: op}})
	}
	for _, s := range []Status{UnitPlanned, UnitIssuing, UnitUnknown} {
		require.Equal(t, Stale, at(s, Refused, first).Verdict, "a late refusal of the first operation on %s", s)
		require.Equal(t, Stale, at(s, Unknown, first).Verdict)
	}
	for _, s := range []Status{UnitPlanned, UnitIssuing} {
		c := at(s, Issued, first)
		require.Equal(t, UnitUnknown, c.To(SubjectUnit), "goods may be out: %s must not be issued again", s)
		require.Equal(t, ReviewIssuanceMismatch, c.Open[0].Reason)
	}
	require.Equal(t, Mismatch, at(UnitIssuing, Refused, "op_issue_unit_OTHER").Verdict)
	require.Equal(t, UnitRefused, at(UnitIssuing, Refused, "").To(SubjectUnit), "a refusal need not repeat the id")
}

// A buyer is waited for, and the provider answers what only a person can settle: it is in doubt from then on.
func TestAPendingPaymentCanNeedAPerson(t *testing.T) {
	t.Parallel()
	a := &AttemptFacts{ID: "att_1", Status: AttemptPending, Version: 3, Account: walkAccount, MerchantReference: "OF1", Amount: walkAmount}
	c := Apply(Facts{Order: OrderFacts{Status: OrderOpen}, Attempt: a}, Trigger{Kind: PaymentUnresolved, Code: "payment_needs_review"})
	require.Equal(t, AttemptUnknown, c.To(SubjectAttempt))
	require.Equal(t, []Opening{{Subject: SubjectAttempt, Reason: ReviewConfirmUnknown, Code: "payment_needs_review"}}, c.Open)
}

// What cannot even be sent gets an owner like what was lost: otherwise nobody would ever look, or a run would try for ever.
func TestWhatCannotBeSentGetsAnOwner(t *testing.T) {
	t.Parallel()
	park := func(code string) Change {
		a := &AttemptFacts{ID: "att_1", Status: AttemptCreated, Version: 1, Account: walkAccount, MerchantReference: "OF1", Amount: walkAmount}
		return Apply(Facts{Order: OrderFacts{Status: OrderOpen}, Attempt: a}, Trigger{Kind: PaymentUnresolved, Code: code})
	}
	require.Equal(t, ReviewMisconfigured, park("gateway_misconfigured").Open[0].Reason)
	require.Equal(t, ReviewRepeatedFailure, park("payment_outcome_unknown").Open[0].Reason)
	require.Empty(t, park("payment_outcome_unknown").Transitions, "nothing was sent, so nothing is unknown")

	unit := func(code string) Change {
		u := &UnitFacts{ID: walkUnit, Status: UnitPlanned, Version: 1, Operation: IssueOperation(walkUnit, 1)}
		return Apply(Facts{Order: OrderFacts{Status: OrderPaid}, Unit: u}, Trigger{Kind: IssuanceUnresolved, Code: code})
	}
	for _, code := range []string{"issuance_invalid", "issuer_misconfigured", "internal_error"} {
		c := unit(code)
		require.Equal(t, UnitRefused, c.To(SubjectUnit), code)
		require.Equal(t, ReviewIssuanceRefused, c.Open[0].Reason, code)
	}
	require.Equal(t, Rejected, unit("issuance_outcome_unknown").Verdict, "a step that ran out of time before it sent runs again")
}
