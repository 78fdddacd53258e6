package order

// Goal and method are walk_test.go's, for refunds and the books: every refund state x books x answer x trigger.

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/money"
)

const walkRefundAmount = 300

func walkRefundStates() []*RefundFacts {
	out := []*RefundFacts{nil}
	for _, s := range RefundStatuses {
		for _, id := range []string{"", "re_1"} {
			for _, sent := range []struct {
				sends int
				quiet bool
			}{{1, false}, {1, true}, {2, false}} {
				out = append(out, &RefundFacts{
					ID: "ref_1", Status: s, Version: 4, Account: walkAccount, ProviderPaymentID: "pi_1", Reference: "RF1", ProviderRefundID: id,
					Amount: money.Amount{Minor: walkRefundAmount, Currency: "JPY"}, Sends: sent.sends, Quiet: sent.quiet,
				})
			}
		}
	}
	return out
}

// walkMoney are books in which the refund of the given state is counted, with others beside it; the last ones say that too much went
// back.
func walkMoney(s Status, each func(*MoneyFacts)) {
	each(nil)
	for _, refunded := range []int64{0, 300, 700, 1200} {
		for _, elsewhere := range []int64{0, 100} {
			for _, others := range []int64{0, 600, 900} {
				for _, d := range []Dispute{DisputeNone, DisputeOpen, DisputeLost} {
					m := MoneyFacts{Currency: "JPY", CapturedMinor: 1200, RefundedMinor: refunded, ElsewhereMinor: min(elsewhere, refunded), UnderwayMinor: others / 2, SucceededMinor: others / 2, Dispute: d}
					m = m.Moved("", s, walkRefundAmount)
					each(&m)
				}
			}
		}
	}
}

func goodRefund(o Outcome) RefundSeen {
	return RefundSeen{Outcome: o, Account: walkAccount, ProviderPaymentID: "pi_1", ProviderRefundID: "re_1", Reference: "RF1", Currency: "JPY", AmountMinor: walkRefundAmount, RefundedMinor: -1, ReadVersion: 4}
}

// refundWrongs is the binding with one field wrong each.
var refundWrongs = map[string]func(*RefundSeen){
	"":              func(*RefundSeen) {},
	"gateway":       func(p *RefundSeen) { p.Account.Gateway = "omise" },
	"environment":   func(p *RefundSeen) { p.Account.Environment = "live" },
	"payment id":    func(p *RefundSeen) { p.ProviderPaymentID = "pi_2" },
	"no payment id": func(p *RefundSeen) { p.ProviderPaymentID = "" },
	"reference":     func(p *RefundSeen) { p.Reference = "RF2" },
	"refund id":     func(p *RefundSeen) { p.ProviderRefundID = "re_2" },
	"taken":         func(p *RefundSeen) { p.Taken = true },
	"currency":      func(p *RefundSeen) { p.Currency = "USD" },
	"less":          func(p *RefundSeen) { p.AmountMinor-- },
	"more":          func(p *RefundSeen) { p.AmountMinor++ },
	"nothing":       func(p *RefundSeen) { p.AmountMinor = 0 },
}

func refundAnswers(each func(RefundSeen)) {
	for _, o := range paymentOutcomes {
		for wrong, spoil := range refundWrongs {
			if wrong != "" && o != Succeeded && o != Declined && o != Pending {
				continue // no refund in the answer, so nothing of one can be wrong
			}
			for _, final := range []bool{false, true} {
				for _, read := range []int64{3, 4} {
					p := goodRefund(o)
					spoil(&p)
					p.Final, p.ReadVersion, p.Code = final, read, "code"
					each(p)
				}
			}
		}
		for _, told := range []int64{0, 300, 600, 1200, 5000} {
			p := goodRefund(o)
			p.RefundedMinor, p.Reference, p.ProviderRefundID = told, "", ""
			each(p)
		}
	}
}

func walkRefunds(w *walker) {
	attempts := []*AttemptFacts{nil}
	for _, s := range AttemptStatuses {
		attempts = append(attempts, &AttemptFacts{ID: "att_1", Status: s, Version: 4, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: "pi_1", Amount: walkAmount})
	}
	asks := []money.Amount{{}, {Minor: -1, Currency: "JPY"}, {Minor: 1, Currency: "USD"}, {Minor: 1, Currency: "JPY"}, {Minor: 300, Currency: "JPY"}, {Minor: 1200, Currency: "JPY"}, {Minor: 1201, Currency: "JPY"}}
	for _, r := range walkRefundStates() {
		status := Status("")
		if r != nil {
			status = r.Status
		}
		walkMoney(status, func(m *MoneyFacts) {
			for _, a := range attempts {
				f := Facts{Order: OrderFacts{Status: OrderPaid, Version: 2}, Attempt: a, Refund: r, Money: m}
				if r == nil {
					for _, ask := range asks {
						w.try(f, Trigger{Kind: RefundOpened, Ask: ask})
					}
					for _, told := range []int64{-1, 0, 100, 300, 650, 1200, 1201} {
						for _, read := range []int64{3, 4} {
							p := goodPayment(Succeeded)
							p.RefundedMinor, p.ReadVersion = told, read
							if told < 0 && (a == nil || a.Status != AttemptSucceeded) {
								continue // no answer about a payment is silent about it; the books must not believe one all the same
							}
							w.try(f, Trigger{Kind: PaymentObserved, Payment: p})
						}
					}
				}
				if a != nil && a.Status != AttemptSucceeded {
					continue // a refund's attempt has captured
				}
				w.try(f, Trigger{Kind: RefundClaimed})
				for _, code := range []string{"code", "gateway_misconfigured"} {
					w.try(f, Trigger{Kind: RefundUnresolved, Code: code})
				}
				if (m == nil || a != nil && m.Dispute == DisputeNone) && (r == nil || !r.Quiet) {
					refundAnswers(func(p RefundSeen) { w.try(f, Trigger{Kind: RefundObserved, Refund: p}) })
				}
			}
		})
	}
}

func walkRefundDecisions(w *walker) {
	a := &AttemptFacts{ID: "att_1", Status: AttemptSucceeded, Version: 9, Account: walkAccount, ProviderPaymentID: "pi_1", Amount: walkAmount}
	for _, r := range walkRefundStates() {
		if r == nil || r.Sends > 1 {
			continue
		}
		m := MoneyFacts{Currency: "JPY", CapturedMinor: 1200}.Moved("", r.Status, walkRefundAmount)
		for _, reason := range append(allReasons(), "bogus") {
			for _, open := range []bool{true, false} {
				for _, v := range []int64{3, 4} {
					rv := &ReviewFacts{ID: "rev_1", Reason: reason, Open: open, Version: 6, SubjectKind: SubjectRefund, SubjectVersion: v}
					f := Facts{Order: OrderFacts{Status: OrderCompleted}, Attempt: a, Refund: r, Money: &m, Review: rv}
					decisions(func(d Decision) {
						w.try(f, Trigger{Kind: DecisionMade, Decision: d, By: operator, Rules: DecisionRules{OnePerson: true}})
					})
				}
			}
		}
	}
}

func refundAt(s Status) Facts {
	m := MoneyFacts{Currency: "JPY", CapturedMinor: 1200, Dispute: DisputeNone}.Moved("", s, walkRefundAmount)
	if s == RefundSucceeded {
		m.RefundedMinor = walkRefundAmount
	}
	return Facts{
		Order:   OrderFacts{Status: OrderPaid},
		Attempt: &AttemptFacts{ID: "att_1", Status: AttemptSucceeded, Version: 9, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: "pi_1", Amount: walkAmount},
		Refund:  &RefundFacts{ID: "ref_1", Status: s, Version: 4, Account: walkAccount, ProviderPaymentID: "pi_1", Reference: "RF1", Amount: money.Amount{Minor: walkRefundAmount, Currency: "JPY"}, Sends: 1},
		Money:   &m,
	}
}

func TestOneWrongFieldNeverSettlesARefund(t *testing.T) {
	t.Parallel()
	for wrong, spoil := range refundWrongs {
		for _, s := range []Status{RefundSent, RefundUnknown, RefundPending} {
			for o, settled := range map[Outcome]Status{Succeeded: RefundSucceeded, Declined: RefundFailed} {
				f := refundAt(s)
				if wrong == "refund id" {
					f.Refund.ProviderRefundID = "re_1"
				}
				p := goodRefund(o)
				spoil(&p)
				c := Apply(f, Trigger{Kind: RefundObserved, Refund: p})
				if wrong == "" {
					require.Equal(t, settled, c.To(SubjectRefund), "the walk must be able to settle")
					continue
				}
				require.Equal(t, Mismatch, c.Verdict, wrong)
				require.Equal(t, ReviewRefundUnknown, c.Open[0].Reason, wrong)
				require.Contains(t, []Status{"", RefundUnknown}, c.To(SubjectRefund), wrong)
			}
		}
	}
}

// Banks send money back that a provider has called refunded: that is news and no contradiction, and the amount may go back again.
func TestARefundMayTurnEitherWay(t *testing.T) {
	t.Parallel()
	f := refundAt(RefundSucceeded)
	require.EqualValues(t, 900, f.Money.Left())
	c := Apply(f, Trigger{Kind: RefundObserved, Refund: goodRefund(Declined)})
	require.Equal(t, RefundFailed, c.To(SubjectRefund))
	require.Equal(t, &Books{}, c.Books)
	require.Equal(t, ReviewRefundFailed, c.Open[0].Reason)

	c = Apply(refundAt(RefundFailed), Trigger{Kind: RefundObserved, Refund: goodRefund(Succeeded)})
	require.Equal(t, RefundSucceeded, c.To(SubjectRefund))
	require.Equal(t, &Books{RefundedMinor: walkRefundAmount}, c.Books)
	require.Contains(t, c.Resolve, ReviewRefundFailed)

	over := refundAt(RefundFailed) // and another refund has taken its place meanwhile
	over.Money.SucceededMinor, over.Money.RefundedMinor = 1200, 1200
	c = Apply(over, Trigger{Kind: RefundObserved, Refund: goodRefund(Succeeded)})
	require.Equal(t, RefundSucceeded, c.To(SubjectRefund), "a fact is not dropped because it is unwelcome")
	require.Equal(t, []Opening{{SubjectAttempt, ReviewCorrection, "more_than_captured"}}, c.Open)
	require.Nil(t, c.Books, "the row says no more than was captured")
}

// A refusal speaks of one request. When an earlier one is in doubt it proves nothing (rule 1).
func TestARefusedRepeatIsNoProof(t *testing.T) {
	t.Parallel()
	f := refundAt(RefundSent)
	require.Equal(t, RefundFailed, Apply(f, Trigger{Kind: RefundObserved, Refund: goodRefund(Refused)}).To(SubjectRefund))
	f.Refund.Sends = 2
	require.Equal(t, RefundUnknown, Apply(f, Trigger{Kind: RefundObserved, Refund: goodRefund(Refused)}).To(SubjectRefund))
	for _, s := range []Status{RefundUnknown, RefundPending, RefundSucceeded, RefundFailed} {
		require.Equal(t, Unchanged, Apply(refundAt(s), Trigger{Kind: RefundObserved, Refund: goodRefund(Refused)}).Verdict, s)
	}
}

// What a look at the payment says of money that went back is compared with our own refunds.
func TestMoneyThatWentBackElsewhere(t *testing.T) {
	t.Parallel()
	base := MoneyFacts{Currency: "JPY", CapturedMinor: 1200, RefundedMinor: 300, SucceededMinor: 300, UnderwayMinor: 200}
	look := func(m MoneyFacts, back int64) Change {
		f := refundAt(RefundSucceeded)
		f.Refund, f.Money = nil, &m
		p := goodPayment(Succeeded)
		p.RefundedMinor, p.ReadVersion = back, f.Attempt.Version
		return Apply(f, Trigger{Kind: PaymentObserved, Payment: p})
	}
	require.Equal(t, Unchanged, look(base, 300).Verdict)

	c := look(base, 500)
	require.Equal(t, &Books{RefundedMinor: 500}, c.Books)
	require.Empty(t, c.Open, "the one under way explains it")

	c = look(base, 600)
	require.Equal(t, &Books{RefundedMinor: 600, ElsewhereMinor: 100}, c.Books, "a part of it nobody of us gave back")
	require.Equal(t, []Opening{{SubjectAttempt, ReviewCorrection, "refunded_elsewhere"}}, c.Open)

	c = look(base, 0)
	require.Equal(t, &Books{}, c.Books)
	require.True(t, c.LookRefunds)
	require.Equal(t, []Opening{{SubjectAttempt, ReviewCorrection, "refund_undone"}}, c.Open)

	c = look(base, 1201)
	require.Equal(t, Mismatch, c.Verdict)
	require.Nil(t, c.Books)

	failed := base // what explained it has failed: now it is explained by nothing, though the sum has not changed
	failed.RefundedMinor, failed.UnderwayMinor = 500, 0
	require.Equal(t, &Books{RefundedMinor: 500, ElsewhereMinor: 200}, look(failed, 500).Books)
}
