package order

// Goal: whatever the sequence of refunds, answers, looks and decisions, our refunds never ask a provider for more than was captured,
// none is made twice, and once everything is looked at the books are the provider's.
// Method: as model_test.go, with a provider that guards nothing: every send executes, and it counts.
// Not covered: repeats of one request, which the store claims and a provider's key guards.

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/internal/money"
)

const modelCaptured = 1000

type modelRefund struct {
	RefundFacts
	there  bool   // the provider has it
	truth  Status // what it is there
	made   int    // how often it was executed
	events map[EventType]int
}

type refundModel struct {
	order   Status
	attempt AttemptFacts
	money   MoneyFacts
	refunds []*modelRefund
	reviews []*modelReview // attempt is 0 for those of the payment; unit is the refund's index
	foreign int64          // refunded at the provider by others
	undone  bool           // the provider took a success back, or others refunded: only then may what is left be less than the books say
}

func (m *refundModel) facts(i int) Facts {
	a, b := m.attempt, m.money
	f := Facts{Order: OrderFacts{Status: m.order}, Attempt: &a, Money: &b}
	if i >= 0 {
		r := m.refunds[i].RefundFacts
		f.Refund = &r
	}
	return f
}

func (m *refundModel) apply(t *rapid.T, i int, f Facts, tr Trigger) Change {
	c := Apply(f, tr)
	for _, wrong := range judge(f, tr, c) {
		t.Fatalf("%s: %s %+v %+v", wrong, describe(f), tr, c)
	}
	booked := c.Books != nil
	if to := c.To(SubjectRefund); to != "" && i >= 0 {
		r := m.refunds[i]
		m.money = m.money.Moved(r.Status, to, r.Amount.Minor)
		r.Status, r.Version = to, r.Version+1
		booked = booked || to == RefundSucceeded || to == RefundFailed
	}
	if c.Books != nil {
		m.money.RefundedMinor, m.money.ElsewhereMinor = c.Books.RefundedMinor, c.Books.ElsewhereMinor
	}
	if booked {
		m.attempt.Version++
	}
	if c.To(SubjectOrder) != "" {
		m.order = c.To(SubjectOrder)
	}
	for _, e := range c.Events {
		if e != EventOrderCanceled {
			m.refunds[i].events[e]++
		}
	}
	m.review(i, c)
	return c
}

func (m *refundModel) review(i int, c Change) {
	about := func(r *modelReview, k SubjectKind) bool {
		return r.SubjectKind == k && (k == SubjectAttempt || r.unit == i)
	}
	for _, r := range m.reviews {
		for _, reason := range c.Resolve {
			r.Open = r.Open && !(about(r, SubjectRefund) && r.Reason == reason)
		}
		if r.Open && about(r, SubjectRefund) && c.To(SubjectRefund) != "" {
			r.SubjectVersion = m.refunds[i].Version
		}
	}
next:
	for _, o := range c.Open {
		for _, r := range m.reviews {
			if r.Open && about(r, o.Subject) && r.Reason == o.Reason {
				continue next
			}
		}
		rv := &modelReview{ReviewFacts{ID: "rev_1", Reason: o.Reason, Open: true, Version: 1, SubjectKind: o.Subject}, 0, i}
		if o.Subject == SubjectRefund {
			rv.SubjectVersion = m.refunds[i].Version
		}
		m.reviews = append(m.reviews, rv)
	}
}

func (m *refundModel) pick(t *rapid.T) int {
	if len(m.refunds) == 0 {
		t.Skip("no refund")
	}
	return rapid.IntRange(0, len(m.refunds)-1).Draw(t, "refund")
}

// gone is what went back at the provider, ours and others'.
func (m *refundModel) gone() int64 {
	sum := m.foreign
	for _, r := range m.refunds {
		if r.there && r.truth != RefundFailed {
			sum += r.Amount.Minor
		}
	}
	return sum
}

func (m *refundModel) open(t *rapid.T) {
	ask := money.Amount{Minor: int64(rapid.IntRange(1, 700).Draw(t, "amount")), Currency: "JPY"}
	f := m.facts(-1)
	c := m.apply(t, -1, f, Trigger{Kind: RefundOpened, Ask: ask})
	require.Equal(t, ask.Minor <= f.Money.Left(), c.Verdict == Applied)
	if c.Verdict != Applied {
		return
	}
	n := len(m.refunds)
	m.money = m.money.Moved("", RefundRequested, ask.Minor)
	m.refunds = append(m.refunds, &modelRefund{
		RefundFacts: RefundFacts{ID: RefundID(fmt.Sprint("ref_", n)), Status: RefundRequested, Version: 1, Account: walkAccount, ProviderPaymentID: "pi_1", Reference: fmt.Sprint("RF", n), Amount: ask, Quiet: true},
		events:      map[EventType]int{},
	})
}

func (m *refundModel) send(t *rapid.T) {
	i := m.pick(t)
	if c := m.apply(t, i, m.facts(i), Trigger{Kind: RefundClaimed}); c.To(SubjectRefund) != RefundSent {
		return
	}
	r := m.refunds[i]
	r.Sends++
	fits := m.gone()+r.Amount.Minor <= modelCaptured
	require.True(t, fits || m.undone, "the provider is asked for more than was captured (PC-43)")
	if fits && rapid.Bool().Draw(t, "executes") {
		r.there, r.truth, r.made = true, rapid.SampledFrom([]Status{RefundSucceeded, RefundPending}).Draw(t, "as"), r.made+1
	}
}

// provider is what happens there by itself.
func (m *refundModel) provider(t *rapid.T) {
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		if more := int64(rapid.IntRange(1, 200).Draw(t, "foreign")); m.gone()+more <= modelCaptured {
			m.foreign, m.undone = m.foreign+more, true
		}
	default:
		r := m.refunds[m.pick(t)]
		switch {
		case r.there && r.truth == RefundPending:
			r.truth = rapid.SampledFrom([]Status{RefundSucceeded, RefundFailed}).Draw(t, "ends")
		case r.there && r.truth == RefundSucceeded && rapid.IntRange(0, 3).Draw(t, "undone") == 0:
			r.truth, m.undone = RefundFailed, true
		}
	}
}

func (m *refundModel) truth(r *modelRefund) RefundSeen {
	p := RefundSeen{Outcome: NotFound, Account: walkAccount, ReadVersion: r.Version, RefundedMinor: -1}
	if r.there {
		p.ProviderPaymentID, p.Reference, p.Currency, p.AmountMinor = "pi_1", r.Reference, "JPY", r.Amount.Minor
		p.Outcome = map[Status]Outcome{RefundSucceeded: Succeeded, RefundPending: Pending, RefundFailed: Declined}[r.truth]
	}
	return p
}

func (m *refundModel) observe(t *rapid.T) {
	i := m.pick(t)
	r := m.refunds[i]
	p := m.truth(r)
	p.ReadVersion -= int64(rapid.IntRange(0, 1).Draw(t, "behind"))
	p.RefundedMinor = int64(rapid.IntRange(-1, modelCaptured).Draw(t, "total"))
	switch rapid.SampledFrom([]string{"", "", "", "lost", "spoiled", "refused"}).Draw(t, "lie") {
	case "lost":
		p.Outcome = Unknown
	case "spoiled":
		p.Reference = "RFother"
	case "refused":
		if !r.there && r.Status == RefundSent {
			p.Outcome = Refused
		}
	}
	if p.Outcome == NotFound {
		p.Final = r.Status != RefundRequested && rapid.Bool().Draw(t, "final") // it is final where it is true
	}
	m.apply(t, i, m.facts(i), Trigger{Kind: RefundObserved, Refund: p})
}

func (m *refundModel) lookAt(t *rapid.T, behind int64, back int64) {
	m.apply(t, -1, m.facts(-1), Trigger{Kind: PaymentObserved, Payment: PaymentSeen{
		Outcome: Succeeded, Account: walkAccount, ProviderPaymentID: "pi_1", MerchantReference: "OF1", Currency: "JPY", AmountMinor: modelCaptured,
		CapturedMinor: modelCaptured, RefundedMinor: back, ReadVersion: m.attempt.Version - behind,
	}})
}

func (m *refundModel) decide(t *rapid.T) {
	if len(m.reviews) == 0 {
		t.Skip("no review")
	}
	rv := m.reviews[rapid.IntRange(0, len(m.reviews)-1).Draw(t, "review")]
	d := Decision{ReviewID: rv.ID, Decision: rapid.SampledFrom(DecisionKinds).Draw(t, "decision"), Actor: "ann", Reason: "looked", Evidence: Evidence{Reference: "re", Proof: "seen"}}
	i := rv.unit
	if rv.SubjectKind == SubjectAttempt {
		i, rv.SubjectVersion = -1, m.attempt.Version
	} else {
		r := m.refunds[i]
		went, not := r.there && r.truth == RefundSucceeded, !r.there || r.truth == RefundFailed
		if d.Decision == DecideConfirmRefunded && !went || d.Decision == DecideCloseWithEvidence && !not {
			t.Skip("a person who looks sees what is there")
		}
	}
	f, x := m.facts(i), rv.ReviewFacts
	f.Review = &x
	if c := m.apply(t, i, f, Trigger{Kind: DecisionMade, Decision: d, By: operator, Rules: DecisionRules{OnePerson: true}}); c.EndReview {
		rv.Open = false
	}
}

// settle looks at everything freshly: refunds first, then the payment.
func (m *refundModel) settle(t *rapid.T) {
	for i, r := range m.refunds {
		if r.Status == RefundRequested {
			continue
		}
		p := m.truth(r)
		p.Final = !r.there
		m.apply(t, i, m.facts(i), Trigger{Kind: RefundObserved, Refund: p})
		want := RefundFailed
		if r.there {
			want = r.truth
		}
		require.Equal(t, want, r.Status, "a fresh look does not bring in what is there")
	}
	m.lookAt(t, 0, m.gone())
	require.Equal(t, m.gone(), m.money.RefundedMinor, "what went back is not what we recorded (Q1)")
	require.LessOrEqual(t, m.money.Left(), modelCaptured-m.gone(), "more is left than the provider has")
	if !m.undone {
		require.Zero(t, m.money.ElsewhereMinor, "nobody else gave anything back")
		require.Equal(t, modelCaptured-m.gone()-m.money.RequestedMinor, m.money.Left(), "what could go back is held back for ever")
	}
}

func (m *refundModel) sound(t *rapid.T) {
	sums := MoneyFacts{}
	for _, r := range m.refunds {
		require.LessOrEqual(t, r.made, 1)
		for e, n := range r.events {
			require.Positive(t, n, e)
		}
		sums = sums.Moved("", r.Status, r.Amount.Minor)
	}
	require.Equal(t, [4]int64{sums.RequestedMinor, sums.UnderwayMinor, sums.PendingMinor, sums.SucceededMinor},
		[4]int64{m.money.RequestedMinor, m.money.UnderwayMinor, m.money.PendingMinor, m.money.SucceededMinor})
	require.LessOrEqual(t, m.money.RefundedMinor, int64(modelCaptured))
	if m.money.SucceededMinor+m.money.PendingMinor+m.money.RequestedMinor >= modelCaptured {
		require.Equal(t, OrderCanceled, m.order, "nothing of the money is left, and goods may still go out")
	}
	if !m.undone {
		require.False(t, m.money.Over())
	}
}

func TestAnySequenceOfRefundsKeepsTheBooks(t *testing.T) {
	t.Parallel()
	for i := range 10 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := &refundModel{
					order:   OrderPaid,
					attempt: AttemptFacts{ID: "att_1", Status: AttemptSucceeded, Version: 3, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: "pi_1", Amount: money.Amount{Minor: modelCaptured, Currency: "JPY"}},
					money:   MoneyFacts{Currency: "JPY", CapturedMinor: modelCaptured, Dispute: DisputeNone},
				}
				for range 3 {
					t.Repeat(map[string]func(*rapid.T){
						"": m.sound, "open": m.open, "send": m.send, "provider acts": m.provider, "provider says": m.observe, "decide": m.decide, "settle": m.settle,
						"look": func(t *rapid.T) {
							m.lookAt(t, int64(rapid.IntRange(0, 1).Draw(t, "behind")), m.gone())
						},
						"unresolved": func(t *rapid.T) {
							i := m.pick(t)
							m.apply(t, i, m.facts(i), Trigger{Kind: RefundUnresolved, Code: "code"})
						},
					})
				}
			})
		})
	}
}
