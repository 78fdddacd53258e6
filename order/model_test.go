package order

// Goal: whatever the sequence of triggers, an order is paid once, completed once, provided once per unit, and no captured money
// is without a record.
// Method: rapid drives the rule against a small world: a provider that holds money per attempt, an issuer that holds
// issuances per operation, and the rows a store would keep. The world also lies: late, lost, wrong and doubled answers.
// Not covered: concurrency and SQL (package store).

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/internal/money"
)

type modelAttempt struct {
	AttemptFacts
	captured int64 // at the provider
	dead     bool  // at the provider: it can capture nothing any more
	shut     bool  // the store's closed_at: it stays set even if money comes late
	sent     bool
}

type modelUnit struct {
	UnitFacts
	generation int
}

type modelReview struct {
	ReviewFacts
	attempt, unit int // index, or -1
}

type model struct {
	order    OrderFacts
	attempts []*modelAttempt
	units    []*modelUnit
	reviews  []*modelReview
	issued   map[OperationID]bool // at the issuer
	recorded map[string]int64     // payments by provider id
	events   map[EventType]int
	log      []logged
	quantity int
}

type logged struct {
	Transition
	index int
}

func newModel(t *rapid.T) *model {
	return &model{
		order: OrderFacts{Status: OrderOpen, Version: 1}, issued: map[OperationID]bool{}, recorded: map[string]int64{},
		events: map[EventType]int{}, log: []logged{{Transition{SubjectOrder, "", OrderOpen}, 0}}, quantity: rapid.IntRange(1, 3).Draw(t, "quantity"),
	}
}

func (m *model) facts(attempt, unit int) Facts {
	f := Facts{Order: m.order}
	if attempt >= 0 {
		a := m.attempts[attempt].AttemptFacts
		f.Attempt = &a
	}
	if unit >= 0 {
		u := m.units[unit].UnitFacts
		f.Unit = &u
	}
	for _, u := range m.units {
		switch u.Status {
		case UnitIssued, UnitCanceled, UnitRevoked:
		default:
			f.UnitsOpen++
		}
	}
	return f
}

func (m *model) unclosed() int {
	for i, a := range m.attempts {
		if !a.shut {
			return i
		}
	}
	return -1
}

// apply runs the rule and does what a store does.
func (m *model) apply(t *rapid.T, attempt, unit int, f Facts, tr Trigger) Change {
	c := Apply(f, tr)
	for _, wrong := range judge(f, tr, c) {
		t.Fatalf("%s: %+v %+v", wrong, tr, c)
	}
	for _, e := range c.Transitions {
		i := 0
		switch e.Subject {
		case SubjectOrder:
			m.order.Status, m.order.Version = e.To, m.order.Version+1
		case SubjectAttempt:
			i = attempt
			a := m.attempts[i]
			a.Status, a.Version = e.To, a.Version+1
			a.shut = a.shut || e.To == AttemptClosed
		case SubjectUnit:
			i = unit
			u := m.units[i]
			u.Status, u.Version = e.To, u.Version+1
		case SubjectCancel:
			m.order.Cancel = e.To
		}
		m.log = append(m.log, logged{e, i})
	}
	m.order.External = m.order.External || c.External
	if c.Hold != nil {
		m.order.Hold = *c.Hold
	}
	if c.RecordMoney {
		m.recorded[tr.Payment.ProviderPaymentID] = tr.Payment.CapturedMinor
	}
	for _, e := range c.Events {
		m.events[e]++
	}
	if c.NewOp {
		u := m.units[unit]
		u.generation++
		u.Operation = IssueOperation(u.ID, u.generation)
	}
	if c.PlanUnits {
		m.plan()
	}
	if c.StopUnits {
		m.stop()
	}
	m.review(attempt, unit, c)
	return c
}

// stop cancels what nobody is issuing, as the store does.
func (m *model) stop() {
	for i, u := range m.units {
		if u.Status == UnitPlanned || u.Status == UnitRefused {
			m.log = append(m.log, logged{Transition{SubjectUnit, u.Status, UnitCanceled}, i})
			u.Status, u.Version = UnitCanceled, u.Version+1
		}
	}
}

func (m *model) cancel(t *rapid.T) {
	i := m.unclosed()
	m.apply(t, i, -1, m.facts(i, -1), Trigger{Kind: CancelAsked})
}

// stopped is a unit of a canceled order whose request provably did nothing.
func (m *model) stopped(t *rapid.T) {
	i := m.pickUnit(t)
	if m.issued[m.units[i].Operation] {
		t.Skip("it did something")
	}
	m.apply(t, -1, i, m.facts(-1, i), Trigger{Kind: UnitStopped})
}

func (m *model) plan() {
	for n := 1; n <= m.quantity; n++ {
		id := UnitKey{Order: "o", Line: 1, Ordinal: n, Action: ActionIssue, Revision: 1}.ID()
		m.log = append(m.log, logged{Transition{SubjectUnit, "", UnitPlanned}, len(m.units)})
		m.units = append(m.units, &modelUnit{UnitFacts: UnitFacts{ID: id, Status: UnitPlanned, Version: 1, Operation: IssueOperation(id, 1), RerunSafe: true}, generation: 1})
	}
}

func (m *model) review(attempt, unit int, c Change) {
	mine := func(r *modelReview) bool {
		return r.SubjectKind == SubjectAttempt && r.attempt == attempt || r.SubjectKind == SubjectUnit && r.unit == unit
	}
	version := func(k SubjectKind) int64 {
		if k == SubjectAttempt {
			return m.attempts[attempt].Version
		}
		return m.units[unit].Version
	}
	for _, r := range m.reviews {
		for _, reason := range c.Resolve {
			r.Open = r.Open && !(mine(r) && r.Reason == reason)
		}
		if r.Open && mine(r) && c.To(r.SubjectKind) != "" {
			r.Version, r.SubjectVersion = r.Version+1, version(r.SubjectKind)
		}
	}
next:
	for _, o := range c.Open {
		for _, r := range m.reviews {
			if r.Open && mine(r) && r.SubjectKind == o.Subject && r.Reason == o.Reason {
				continue next
			}
		}
		m.reviews = append(m.reviews, &modelReview{ReviewFacts{ID: "rev_1", Reason: o.Reason, Open: true, Version: 1, SubjectKind: o.Subject, SubjectVersion: version(o.Subject)}, attempt, unit})
	}
}

func (m *model) pickAttempt(t *rapid.T) int {
	if len(m.attempts) == 0 {
		t.Skip("no attempt")
	}
	return rapid.IntRange(0, len(m.attempts)-1).Draw(t, "attempt")
}

func (m *model) pickUnit(t *rapid.T) int {
	if len(m.units) == 0 {
		t.Skip("no unit")
	}
	return rapid.IntRange(0, len(m.units)-1).Draw(t, "unit")
}

func (m *model) openAttempt(t *rapid.T) {
	i := m.unclosed()
	f := m.facts(i, -1)
	if c := Apply(f, Trigger{Kind: AttemptOpened}); c.Verdict == Applied {
		n := len(m.attempts) + 1
		m.attempts = append(m.attempts, &modelAttempt{AttemptFacts: AttemptFacts{
			ID: AttemptID(rune('a' + n)), Status: AttemptCreated, Version: 1,
			Account: walkAccount, MerchantReference: "OF" + string(rune('a'+n)), ProviderPaymentID: "pi_" + string(rune('a'+n)), Amount: money.Amount{Minor: 1200, Currency: "JPY"},
		}})
		m.log = append(m.log, logged{Transition{SubjectAttempt, "", AttemptCreated}, len(m.attempts) - 1})
	}
}

func (m *model) send(t *rapid.T) {
	i := m.pickAttempt(t)
	if c := m.apply(t, i, -1, m.facts(i, -1), Trigger{Kind: AttemptClaimed}); c.To(SubjectAttempt) != AttemptSent {
		return
	}
	a := m.attempts[i]
	a.sent = true
	if rapid.Bool().Draw(t, "captures") {
		a.captured = rapid.SampledFrom([]int64{1200, 1200, 500}).Draw(t, "how much")
	}
}

// capture is the buyer or the bank acting late.
func (m *model) capture(t *rapid.T) {
	if a := m.attempts[m.pickAttempt(t)]; a.sent && !a.dead && a.captured == 0 {
		a.captured = rapid.SampledFrom([]int64{1200, 1200, 500}).Draw(t, "how much")
	}
}

func (m *model) truth(a *modelAttempt) PaymentSeen {
	return PaymentSeen{
		Outcome: Untouched, Account: a.Account, ProviderPaymentID: a.ProviderPaymentID, MerchantReference: a.MerchantReference, Currency: "JPY",
		AmountMinor: 1200, CapturedMinor: a.captured, ReadVersion: a.Version,
	}
}

// settle has everything looked up freshly: all money at the provider is then recorded, and pays or is shown to a person.
func (m *model) settle(t *rapid.T) {
	for i, a := range m.attempts {
		p := m.truth(a)
		if a.captured == 0 {
			continue
		}
		p.Outcome = Succeeded
		m.apply(t, i, -1, m.facts(i, -1), Trigger{Kind: PaymentObserved, Payment: p})
		require.Equal(t, AttemptSucceeded, a.Status, "captured money that no fresh look can bring in")
		m.paidBy(t, i)
	}
}

func (m *model) paidBy(t *rapid.T, attempt int) {
	for at, l := range m.log {
		if l.Subject == SubjectAttempt && l.index == attempt && l.To == AttemptSucceeded {
			if at+1 < len(m.log) && (m.log[at+1].To == OrderPaid || m.log[at+1].To == CancelStopping) {
				return
			}
		}
	}
	for _, r := range m.reviews {
		part := r.Reason == ReviewPaymentMismatch && m.attempts[attempt].captured < 1200
		if r.attempt == attempt && (part || r.Reason == ReviewExtraPayment || r.Reason == ReviewLatePayment) {
			return
		}
	}
	t.Fatalf("attempt %d holds money that neither pays nor shows", attempt)
}

// observe tells what the provider really holds, or something wrong about it.
func (m *model) observe(t *rapid.T) {
	i := m.pickAttempt(t)
	a := m.attempts[i]
	p := m.truth(a)
	p.ReadVersion -= int64(rapid.IntRange(0, 1).Draw(t, "behind"))
	switch lie := rapid.SampledFrom([]string{"", "", "", "lost", "untouched", "not found"}).Draw(t, "lie"); {
	case lie == "lost":
		p = PaymentSeen{Outcome: Unknown, Account: a.Account, ReadVersion: p.ReadVersion}
	case a.captured > 0:
		p.Outcome = Succeeded
	case lie == "untouched":
	case lie == "not found":
		p.Outcome, p.Final = NotFound, rapid.Bool().Draw(t, "final")
		a.dead = a.dead || p.Final
	default:
		p.Outcome = rapid.SampledFrom([]Outcome{Declined, Pending, Refused}).Draw(t, "outcome")
		p.Final = p.Outcome != Pending && rapid.Bool().Draw(t, "final")
		a.dead = a.dead || p.Final
	}
	if rapid.IntRange(0, 5).Draw(t, "spoiled") == 0 {
		p.MerchantReference = "OFother"
	}
	m.apply(t, i, -1, m.facts(i, -1), Trigger{Kind: PaymentObserved, Payment: p})
}

func (m *model) decide(t *rapid.T) {
	if len(m.reviews) == 0 {
		t.Skip("no review")
	}
	r := m.reviews[rapid.IntRange(0, len(m.reviews)-1).Draw(t, "review")]
	f := m.facts(r.attempt, r.unit)
	if r.SubjectKind == SubjectAttempt {
		f.Unit = nil
		if a := m.attempts[r.attempt]; a.captured > 0 && a.Status != AttemptSucceeded {
			t.Skip("a person who looks sees the money and does not close")
		}
	} else {
		f.Attempt = nil
	}
	d := Decision{ReviewID: r.ID, Decision: rapid.SampledFrom(DecisionKinds).Draw(t, "decision"), Actor: "ann", Reason: "looked", Evidence: Evidence{Reference: "iss", Proof: "seen"}}
	if r.unit >= 0 && (d.Decision == DecideRerunUnit || d.Decision == DecideCloseWithEvidence) && m.issued[m.units[r.unit].Operation] {
		t.Skip("a person who looks sees the issuance")
	}
	if r.unit >= 0 && d.Decision == DecideConfirmProvided && !m.issued[m.units[r.unit].Operation] {
		t.Skip("a person who looks sees that there is none")
	}
	x := r.ReviewFacts
	f.Review = &x
	if c := m.apply(t, r.attempt, r.unit, f, Trigger{Kind: DecisionMade, Decision: d, By: operator, Rules: DecisionRules{OnePerson: true}}); c.EndReview {
		r.Open = false
	}
}

func (m *model) issue(t *rapid.T) {
	i := m.pickUnit(t)
	if c := m.apply(t, -1, i, m.facts(-1, i), Trigger{Kind: UnitClaimed}); c.Verdict == Applied && rapid.Bool().Draw(t, "issues") {
		m.issued[m.units[i].Operation] = true
	}
}

func (m *model) issuerSays(t *rapid.T) {
	i := m.pickUnit(t)
	u := m.units[i]
	g := rapid.IntRange(1, u.generation).Draw(t, "generation")
	s := IssuanceSeen{OperationID: IssueOperation(u.ID, g), Outcome: Issued}
	if !m.issued[s.OperationID] {
		s.Outcome = rapid.SampledFrom([]Outcome{Refused, NotFound, Processing}).Draw(t, "outcome")
	}
	if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
		s.Outcome = Unknown
	}
	m.apply(t, -1, i, m.facts(-1, i), Trigger{Kind: IssuanceObserved, Issuance: s})
}

// sound is what must hold after every step.
func (m *model) sound(t *rapid.T) {
	require.LessOrEqual(t, m.events[EventOrderPaid], 1)
	require.LessOrEqual(t, m.events[EventOrderCompleted], 1)
	type subject struct {
		kind  SubjectKind
		index int
	}
	folded := map[subject]Status{}
	for _, l := range m.log {
		s := subject{l.Subject, l.index}
		require.Equal(t, folded[s], l.From, "the log of %v has a gap", s)
		folded[s] = l.To
	}
	require.Equal(t, folded[subject{SubjectOrder, 0}], m.order.Status)
	whole := 0
	for i, a := range m.attempts {
		require.Equal(t, folded[subject{SubjectAttempt, i}], a.Status)
		if a.Status == AttemptSucceeded {
			if a.captured == 1200 {
				whole++
			}
			require.Equal(t, a.captured, m.recorded[a.ProviderPaymentID], "money at the provider is not what we recorded (Q1)")
		}
	}
	ops := 0
	for i, u := range m.units {
		require.Equal(t, folded[subject{SubjectUnit, i}], u.Status)
		outside := 0
		for g := 1; g <= u.generation; g++ {
			if m.issued[IssueOperation(u.ID, g)] {
				outside++
			}
		}
		ops += outside
		require.LessOrEqual(t, outside, 1, "one unit was issued twice (S6)")
	}
	if m.order.Status == OrderPaid || m.order.Status == OrderCompleted {
		require.True(t, whole > 0 || m.order.External, "paid without captured money, and nobody said so")
		require.Len(t, m.units, m.quantity)
	} else if m.order.Status != OrderCanceled {
		require.Empty(t, m.units)
		require.Zero(t, ops, "provided without money (S7)")
	}
	if m.order.Status == OrderCompleted {
		for _, u := range m.units {
			require.Equal(t, UnitIssued, u.Status)
		}
	}
}

func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":              m.sound,
		"open attempt":  m.openAttempt,
		"send":          m.send,
		"buyer acts":    m.capture,
		"settle":        m.settle,
		"provider says": m.observe,
		"payment unresolved": func(t *rapid.T) {
			i := m.pickAttempt(t)
			m.apply(t, i, -1, m.facts(i, -1), Trigger{Kind: PaymentUnresolved})
		},
		"lapse": func(t *rapid.T) {
			if len(m.attempts) == 0 {
				t.Skip("an order without attempts only ends the run early")
			}
			i := m.unclosed()
			m.apply(t, i, -1, m.facts(i, -1), Trigger{Kind: OrderLapsed})
		},
		"issue":       m.issue,
		"issuer says": m.issuerSays,
		"unit unresolved": func(t *rapid.T) {
			i := m.pickUnit(t)
			m.apply(t, -1, i, m.facts(-1, i), Trigger{Kind: IssuanceUnresolved})
		},
		"check":        func(t *rapid.T) { m.apply(t, -1, -1, m.facts(-1, -1), Trigger{Kind: FulfillmentChecked}) },
		"decide":       m.decide,
		"cancel":       m.cancel,
		"unit stopped": m.stopped,
		"settled":      func(t *rapid.T) { m.apply(t, -1, -1, m.facts(-1, -1), Trigger{Kind: CancelSettled}) },
	}
}

func TestAnySequenceOfTriggersKeepsTheBooks(t *testing.T) {
	t.Parallel()
	for i := range 10 { // each is a hundred sequences from a seed of its own
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := newModel(t)
				for range 4 {
					t.Repeat(m.actions())
				}
			})
		})
	}
}
