package order

// Goal: a part of what was asked for is counted, shown to a person and given back, and pays for nothing (PC-47).
// Method: the rule over every promise the part can meet. Not covered: what is shown (package view), and the providers (e2e).

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func partOf(minor int64) PaymentSeen {
	p := goodPayment(Succeeded)
	p.CapturedMinor = minor
	return p
}

func waitingAttempt(s Status) *AttemptFacts {
	return &AttemptFacts{ID: "att_1", Status: s, Version: 4, Account: walkAccount, MerchantReference: "OF1", ProviderPaymentID: "pi_1", Amount: walkAmount}
}

func TestPC47_APartPaysForNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		order  OrderFacts
		review ReviewReason
		code   string
	}{
		"Open":         {OrderFacts{Status: OrderOpen}, ReviewPaymentMismatch, "partly_captured"},
		"StillRevived": {OrderFacts{Status: OrderExpired, TermsHold: true, StockThere: true}, ReviewLatePayment, "partly_captured"},
		"Expired":      {OrderFacts{Status: OrderExpired}, ReviewLatePayment, "too_late"},
		"Canceled":     {OrderFacts{Status: OrderCanceled}, ReviewLatePayment, "order_canceled"},
		"PaidAlready":  {OrderFacts{Status: OrderPaid}, ReviewExtraPayment, ""},
		"PaidAndHeld":  {OrderFacts{Status: OrderPaid, Hold: HoldDispute}, ReviewExtraPayment, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range []Status{AttemptSent, AttemptUnknown, AttemptPending, AttemptDeclined, AttemptClosed} {
				got := Apply(Facts{Order: c.order, Attempt: waitingAttempt(s)}, Trigger{Kind: PaymentObserved, Payment: partOf(500)})
				require.Equal(t, Applied, got.Verdict)
				require.Equal(t, AttemptSucceeded, got.To(SubjectAttempt))
				require.Equal(t, []Opening{{SubjectAttempt, c.review, c.code}}, got.Open)
				require.Empty(t, got.To(SubjectOrder))
				require.Nil(t, got.Hold, "what waits for the whole goes on waiting")
				require.True(t, got.RecordMoney)
				require.False(t, got.PlanUnits)
				require.Empty(t, got.Events)
			}
		})
	}
}

func TestPC47_APartGoesBack(t *testing.T) {
	t.Parallel()
	f := Facts{Order: OrderFacts{Status: OrderOpen}, Attempt: waitingAttempt(AttemptSucceeded), Money: &MoneyFacts{Currency: "JPY", CapturedMinor: 500}}
	ask := walkAmount
	ask.Minor = 500
	require.Equal(t, RefundRequested, Apply(f, Trigger{Kind: RefundOpened, Ask: ask}).To(SubjectRefund))
	ask.Minor = 501
	require.Equal(t, "more_than_left", Apply(f, Trigger{Kind: RefundOpened, Ask: ask}).Why, "what was never taken is not given back")

	back := partOf(500)
	back.RefundedMinor = 500
	c := Apply(f, Trigger{Kind: PaymentObserved, Payment: back})
	require.Equal(t, &Books{RefundedMinor: 500, ElsewhereMinor: 500}, c.Books, "given back elsewhere, it is counted")
	require.Equal(t, Unchanged, Apply(f, Trigger{Kind: PaymentObserved, Payment: partOf(500)}).Verdict, "told again")
	require.Equal(t, Mismatch, Apply(f, Trigger{Kind: PaymentObserved, Payment: partOf(499)}).Verdict, "a part that shrinks is for a person")

	require.Equal(t, "already_paid", Apply(f, Trigger{Kind: AttemptOpened}).Why, "no second charge beside a part")
	c = Apply(f, Trigger{Kind: CancelAsked})
	require.Equal(t, CancelStopping, c.To(SubjectCancel), "what it took is seen to")
	require.Equal(t, OrderCanceled, c.To(SubjectOrder))

	f = Facts{Order: OrderFacts{Status: OrderOpen, Cancel: CancelWaiting}, Attempt: waitingAttempt(AttemptUnknown)}
	c = Apply(f, Trigger{Kind: PaymentObserved, Payment: partOf(500)})
	require.Equal(t, CancelStopping, c.To(SubjectCancel), "a cancel that waits gives the part back")
	require.Equal(t, OrderCanceled, c.To(SubjectOrder))
}

// A part that grows is counted, and pays once it is the whole; not after something of it went back.
func TestAPartThatGrows(t *testing.T) {
	t.Parallel()
	f := Facts{Order: OrderFacts{Status: OrderOpen}, Attempt: waitingAttempt(AttemptSucceeded), Money: &MoneyFacts{Currency: "JPY", CapturedMinor: 500}}
	at := func(f Facts, p PaymentSeen) Change {
		tr := Trigger{Kind: PaymentObserved, Payment: p}
		c := Apply(f, tr)
		require.Empty(t, judge(f, tr, c))
		return c
	}
	c := at(f, partOf(900))
	require.True(t, c.RecordMoney && c.Verdict == Applied && c.To(SubjectOrder) == "", "still a part")
	c = at(f, partOf(1200))
	require.True(t, c.RecordMoney && c.PlanUnits)
	require.Equal(t, OrderPaid, c.To(SubjectOrder))
	require.Equal(t, []ReviewReason{ReviewPaymentMismatch}, c.Resolve)
	older := partOf(1200)
	older.ReadVersion = 3
	require.Equal(t, Stale, at(f, older).Verdict)
	f.Money.PendingMinor = 100
	require.Equal(t, Mismatch, at(f, partOf(1200)).Verdict, "some of it is on its way back")
}
