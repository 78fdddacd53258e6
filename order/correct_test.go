package order

// Goal and method are walk_test.go's, for money that moves on its own: every standing x hold x answer x trigger; then the cases one
// by one, in words.

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func walkStandings(each func(*MoneyFacts)) {
	each(nil)
	for _, d := range Disputes {
		for _, back := range []bool{false, true} {
			for _, refunded := range []int64{0, 300, 1200} {
				m := MoneyFacts{Currency: "JPY", CapturedMinor: 1200, RefundedMinor: refunded, Dispute: d, TakenBack: back}
				if d != DisputeNone {
					m.DisputedMinor = 1200
				}
				each(&m)
			}
		}
	}
}

func walkOrders(each func(OrderFacts)) {
	for _, s := range OrderStatuses {
		each(OrderFacts{Status: s, Version: 2})
		each(OrderFacts{Status: s, Version: 2, External: true})
		if s == OrderPaid {
			for _, h := range Holds[1:] {
				each(OrderFacts{Status: s, Version: 2, Hold: h})
			}
		}
		if s == OrderExpired {
			each(OrderFacts{Status: s, Version: 2, TermsHold: true})
			each(OrderFacts{Status: s, Version: 2, StockThere: true})
			each(OrderFacts{Status: s, Version: 2, TermsHold: true, StockThere: true})
		}
	}
}

func walkCorrections(w *walker) {
	attempts := []Status{AttemptPending, AttemptClosed, AttemptSucceeded}
	walkOrders(func(o OrderFacts) {
		for _, s := range attempts {
			walkStandings(func(m *MoneyFacts) {
				if m != nil && s != AttemptSucceeded {
					return
				}
				for _, other := range []bool{false, true} {
					f := Facts{Order: o, Money: m, OtherMoney: other, UnitsOut: 1, UnitsOpen: 1}
					f.Attempt = &AttemptFacts{ID: "att_1", Status: s, Version: 4, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: "pi_1", Amount: walkAmount}
					walkToldStandings(func(p PaymentSeen) { w.try(f, Trigger{Kind: PaymentObserved, Payment: p}) })
					w.try(f, Trigger{Kind: RefundOpened, Ask: walkAmount})
					for _, u := range walkUnits() {
						f.Unit = u
						w.try(f, Trigger{Kind: UnitClaimed})
						w.try(f, Trigger{Kind: UnitProvided})
						w.try(f, Trigger{Kind: IssuanceUnresolved, Code: "issuance_invalid"})
					}
				}
			})
		}
	})
}

func walkToldStandings(each func(PaymentSeen)) {
	for _, o := range []Outcome{Succeeded, Pending, Declined, Untouched} {
		for _, d := range append([]Dispute{""}, Disputes...) {
			for _, disputed := range []int64{0, 500} {
				for _, refunded := range []int64{0, 1200} {
					for _, read := range []int64{3, 4} {
						for _, wrong := range []string{"", "amount"} {
							p := goodPayment(o)
							p.Dispute, p.DisputedMinor, p.RefundedMinor, p.ReadVersion = d, disputed, refunded, read
							wrongs[wrong](&p)
							p.Final = o == Declined && disputed > 0
							each(p)
						}
					}
				}
			}
		}
	}
}

func walkCorrectionDecisions(w *walker) {
	moneys := []*MoneyFacts{nil}
	for _, m := range []MoneyFacts{{Dispute: DisputeNone}, {Dispute: DisputeLost, DisputedMinor: 1200}, {Dispute: DisputeNone, TakenBack: true}, {Dispute: DisputeNone, RefundedMinor: 1}} {
		m.Currency, m.CapturedMinor = "JPY", 1200
		moneys = append(moneys, &m)
	}
	kinds := []DecisionKind{DecideRestoreReflection, DecideRecordExternal, DecideCloseWithEvidence, DecideRequeryPayment}
	walkOrders(func(o OrderFacts) {
		for _, m := range moneys {
			for _, kind := range []SubjectKind{SubjectAttempt, SubjectOrder} {
				f := Facts{Order: o, Money: m}
				version := int64(0)
				if kind == SubjectAttempt {
					version = 4
					f.Attempt = &AttemptFacts{ID: "att_1", Status: AttemptSucceeded, Version: 4, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: "pi_1", Amount: walkAmount}
				}
				for _, r := range allReasons() {
					f.Review = &ReviewFacts{ID: "rev_1", Reason: r, Open: true, Version: 6, SubjectKind: kind, SubjectVersion: version}
					for _, k := range kinds {
						for _, ev := range []Evidence{{}, {Reference: "r 1"}, {Proof: "seen"}, {Reference: "r 1", Proof: "seen"}} {
							w.try(f, Trigger{Kind: DecisionMade, By: operator, Rules: DecisionRules{OnePerson: true}, Decision: Decision{ReviewID: "rev_1", Decision: k, Actor: "ann", Reason: "looked it up", Evidence: ev}})
						}
					}
				}
			}
		}
	})
}

// paidFacts is an order that was paid by one attempt.
func paidFacts(m MoneyFacts) Facts {
	m.Currency, m.CapturedMinor = "JPY", 1200
	if m.Dispute == "" {
		m.Dispute = DisputeNone
	}
	return Facts{
		Order:   OrderFacts{Status: OrderPaid, Version: 2},
		Attempt: &AttemptFacts{ID: "att_1", Status: AttemptSucceeded, Version: 4, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: "pi_1", Amount: walkAmount},
		Money:   &m, UnitsOpen: 2,
	}
}

func saysDispute(d Dispute) Trigger {
	p := goodPayment(Succeeded)
	p.Dispute, p.DisputedMinor = d, 1200
	return Trigger{Kind: PaymentObserved, Payment: p}
}

func TestDisputesHoldWhatIsNotProvided(t *testing.T) {
	t.Parallel()
	c := Apply(paidFacts(MoneyFacts{}), saysDispute(DisputeOpen))
	require.Equal(t, HoldDispute, *c.Hold)
	require.Equal(t, []Opening{{SubjectAttempt, ReviewDispute, "nothing_provided"}}, c.Open)

	held := paidFacts(MoneyFacts{Dispute: DisputeOpen, DisputedMinor: 1200})
	held.Order.Hold = HoldDispute
	held.Unit = &UnitFacts{ID: walkUnit, Status: UnitPlanned, Version: 1, Operation: IssueOperation(walkUnit, 1)}
	require.Equal(t, "order_held", Apply(held, Trigger{Kind: UnitClaimed}).Why)
	require.Equal(t, "order_held", Apply(held, Trigger{Kind: UnitProvided}).Why)
	require.Equal(t, "not_sent", Apply(held, Trigger{Kind: IssuanceUnresolved, Code: "issuance_invalid"}).Why, "a unit that waits is not refused for it")
	require.Equal(t, "refund_disputed", Apply(held, Trigger{Kind: RefundOpened, Ask: walkAmount}).Why)

	c = Apply(held, saysDispute(DisputeWon))
	require.Equal(t, HoldNone, *c.Hold)
	require.Contains(t, c.Resolve, ReviewDispute)

	c = Apply(held, saysDispute(DisputeLost))
	require.Nil(t, c.Hold, "it waits on")
	require.Contains(t, c.Resolve, ReviewDispute)
	require.Equal(t, ReviewDisputeLost, c.Open[0].Reason)
	require.Equal(t, Unchanged, Apply(held, saysDispute("")).Verdict, "who does not speak of disputes ends none")
}

func TestADepositTakenBackStopsAndComesAgain(t *testing.T) {
	t.Parallel()
	f := paidFacts(MoneyFacts{})
	f.UnitsOut, f.UnitsOpen = 1, 1
	gone := Trigger{Kind: PaymentObserved, Payment: goodPayment(Pending)}
	gone.Payment.CapturedMinor = 0
	c := Apply(f, gone)
	require.Equal(t, Applied, c.Verdict)
	require.True(t, c.Standing.TakenBack)
	require.Equal(t, HoldDeposit, *c.Hold)
	require.Equal(t, []Opening{{SubjectAttempt, ReviewDepositTakenBack, "partly_provided"}}, c.Open)

	f.Money.TakenBack, f.Order.Hold = true, HoldDeposit
	require.Equal(t, Unchanged, Apply(f, gone).Verdict)
	require.Equal(t, "money_taken_back", Apply(f, Trigger{Kind: RefundOpened, Ask: walkAmount}).Why)
	c = Apply(f, Trigger{Kind: PaymentObserved, Payment: goodPayment(Succeeded)})
	require.False(t, c.Standing.TakenBack)
	require.Equal(t, HoldNone, *c.Hold)
	require.Equal(t, []ReviewReason{ReviewDepositTakenBack}, c.Resolve)

	f.Order = OrderFacts{Status: OrderCanceled, Version: 3}
	c = Apply(f, Trigger{Kind: PaymentObserved, Payment: goodPayment(Succeeded)})
	require.Equal(t, ReviewLatePayment, c.Open[0].Reason, "the order ended meanwhile")
}

// A second payment of the order that is here pays for the goods as well as the first.
func TestAnotherPaymentCoversTheOrder(t *testing.T) {
	t.Parallel()
	f := paidFacts(MoneyFacts{})
	f.OtherMoney = true
	require.Nil(t, Apply(f, saysDispute(DisputeOpen)).Hold)
	f.Order.Hold = HoldDispute
	require.Equal(t, HoldNone, *Apply(f, saysDispute(DisputeOpen)).Hold, "also where it came later")
}

func TestLateMoneyKeepsThePromiseWhereItCan(t *testing.T) {
	t.Parallel()
	f := Facts{
		Order:   OrderFacts{Status: OrderExpired, Version: 2, TermsHold: true, StockThere: true},
		Attempt: &AttemptFacts{ID: "att_1", Status: AttemptClosed, Version: 4, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: "pi_1", Amount: walkAmount},
	}
	late := Trigger{Kind: PaymentObserved, Payment: goodPayment(Succeeded)}
	c := Apply(f, late)
	require.Equal(t, OrderPaid, c.To(SubjectOrder))
	require.True(t, c.PlanUnits && c.Restock && c.RecordMoney)
	require.Empty(t, c.Open)
	why := func(change func(*OrderFacts)) string {
		x := f
		change(&x.Order)
		c := Apply(x, late)
		require.True(t, c.RecordMoney, "money is never dropped")
		require.Empty(t, c.To(SubjectOrder))
		require.Equal(t, ReviewLatePayment, c.Open[0].Reason)
		return c.Open[0].Code
	}
	require.Equal(t, "too_late", why(func(o *OrderFacts) { o.TermsHold = false }))
	require.Equal(t, "out_of_stock", why(func(o *OrderFacts) { o.StockThere = false }))
	require.Equal(t, "order_canceled", why(func(o *OrderFacts) { o.Status = OrderCanceled }), "the terms of a canceled order hold no more")
}

func TestPaidByOtherMeansStaysPaid(t *testing.T) {
	t.Parallel()
	d := Decision{ReviewID: "rev_1", Decision: DecideRecordExternal, Actor: "ann", Reason: "paid in cash", Evidence: Evidence{Reference: "receipt 7", Proof: "seen in the till"}}
	f := Facts{Order: OrderFacts{Status: OrderOpen, Version: 2}, Review: &ReviewFacts{ID: "rev_1", Reason: ReviewSettledElsewhere, Open: true, Version: 1, SubjectKind: SubjectOrder}}
	c := Apply(f, Trigger{Kind: DecisionMade, By: operator, Rules: DecisionRules{OnePerson: true}, Decision: d})
	require.Equal(t, OrderPaid, c.To(SubjectOrder))
	require.True(t, c.External && c.PlanUnits && c.EndReview)
	require.Equal(t, []EventType{EventOrderPaid}, c.Events)
	bare := d
	bare.Evidence.Reference = ""
	require.Equal(t, "evidence_missing", Apply(f, Trigger{Kind: DecisionMade, By: operator, Rules: DecisionRules{OnePerson: true}, Decision: bare}).Why)
	f.Order = OrderFacts{Status: OrderPaid, External: true}
	require.Equal(t, "already_recorded", Apply(f, Trigger{Kind: DecisionMade, By: operator, Rules: DecisionRules{OnePerson: true}, Decision: d}).Why)

	require.Equal(t, Rejected, Apply(f, Trigger{Kind: OrderLapsed}).Verdict, "no expiry undoes it")
	held := paidFacts(MoneyFacts{})
	held.Order.External = true
	require.Nil(t, Apply(held, saysDispute(DisputeOpen)).Hold, "what a bank does with another payment holds nothing")
}
