package view_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/starter/view"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// Goal: every combination of facts has an answer, and no answer invites a second payment while the first may have gone
// through (PC-66). Method: all combinations, and a table of those a person would ask about.

func closeReasons() []order.CloseReason {
	return []order.CloseReason{
		order.ClosedDeclined, order.ClosedCanceled, order.ClosedRefused, order.ClosedNeverSent, order.ClosedByDecision, order.ClosedBeforeSend, order.ClosedUnspecified,
	}
}

func TestPaymentOfEveryAttemptState(t *testing.T) {
	t.Parallel()
	want := map[order.Status]view.PaymentState{
		order.AttemptCreated: view.PaymentChecking, order.AttemptSent: view.PaymentChecking, order.AttemptUnknown: view.PaymentChecking,
		order.AttemptPending: view.PaymentActionNeeded, order.AttemptSucceeded: view.PaymentChecking, order.AttemptDeclined: view.PaymentDeclined,
	}
	for _, s := range order.AttemptStatuses {
		if s == order.AttemptClosed {
			continue
		}
		got := view.Payment(store.Head{Attempts: []store.AttemptState{{Status: s}}})
		require.Equal(t, want[s], got, s)
		require.NotEmpty(t, view.OutcomeOf(s))
	}
	for _, r := range closeReasons() {
		got := view.Payment(store.Head{Attempts: []store.AttemptState{{Status: order.AttemptClosed, CloseReason: r, Closed: true}}})
		if r == order.ClosedDeclined || r == order.ClosedRefused {
			require.Equal(t, view.PaymentDeclined, got, r)
		} else {
			require.Equal(t, view.PaymentNone, got, r)
		}
	}
}

func TestPayment(t *testing.T) {
	t.Parallel()
	paid := store.AttemptState{Status: order.AttemptSucceeded}
	part := store.AttemptState{Status: order.AttemptSucceeded, Part: true}
	unknown := store.AttemptState{Status: order.AttemptUnknown}
	closed := store.AttemptState{Status: order.AttemptClosed, CloseReason: order.ClosedDeclined, Closed: true}
	for name, c := range map[string]struct {
		head store.Head
		want view.PaymentState
	}{
		"Nothing":                       {store.Head{}, view.PaymentNone},
		"Held":                          {store.Head{Attempts: []store.AttemptState{paid}, CapturedMinor: 100}, view.PaymentPaid},
		"PartOfItBack":                  {store.Head{Attempts: []store.AttemptState{paid}, CapturedMinor: 100, RefundedMinor: 1}, view.PaymentPartlyRefunded},
		"HeldByTheBank":                 {store.Head{Attempts: []store.AttemptState{{Status: order.AttemptPending, Held: true}}}, view.PaymentAuthorized},
		"HeldAndAskedFor":               {store.Head{Attempts: []store.AttemptState{{Status: order.AttemptPending, Held: true, Capturing: true}}}, view.PaymentChecking},
		"PartTaken":                     {store.Head{Attempts: []store.AttemptState{part}, CapturedMinor: 100}, view.PaymentPartlyCaptured},
		"PartTakenAndBack":              {store.Head{Attempts: []store.AttemptState{part}, CapturedMinor: 100, RefundedMinor: 100}, view.PaymentPartlyCaptured},
		"PartTakenBackAndCanceled":      {store.Head{Order: sqlcgen.Order{Status: "canceled"}, Attempts: []store.AttemptState{part}, CapturedMinor: 100, RefundedMinor: 100}, view.PaymentRefunded},
		"PartTakenOnTopOfTheWhole":      {store.Head{Attempts: []store.AttemptState{paid, part}, CapturedMinor: 200}, view.PaymentPaid},
		"AllOfItBack":                   {store.Head{Attempts: []store.AttemptState{paid}, CapturedMinor: 100, RefundedMinor: 100}, view.PaymentRefunded},
		"Disputed":                      {store.Head{Attempts: []store.AttemptState{paid}, CapturedMinor: 100, Away: store.Away{Disputed: 100}}, view.PaymentDisputed},
		"LostAfterARefund":              {store.Head{Attempts: []store.AttemptState{paid}, CapturedMinor: 100, RefundedMinor: 40, Away: store.Away{Lost: 60}}, view.PaymentChargedBack},
		"TakenBack":                     {store.Head{Attempts: []store.AttemptState{paid}, CapturedMinor: 100, Away: store.Away{TakenBack: 100}}, view.PaymentTakenBack},
		"OneOfTwoDisputed":              {store.Head{Attempts: []store.AttemptState{paid, paid}, CapturedMinor: 200, Away: store.Away{Disputed: 100}}, view.PaymentPaid},
		"WrongAmount":                   {store.Head{Attempts: []store.AttemptState{closed}, PaymentsUnmatched: 1}, view.PaymentMismatch},
		"DeclinedThenPaid":              {store.Head{Attempts: []store.AttemptState{closed, paid}, CapturedMinor: 100}, view.PaymentPaid},
		"DeclinedThenUnknown":           {store.Head{Attempts: []store.AttemptState{closed, unknown}}, view.PaymentChecking},
		"UnknownOutranksWhatCameAfter":  {store.Head{Attempts: []store.AttemptState{unknown, closed}}, view.PaymentChecking},
		"UnknownOutranksMoneyThatIsOdd": {store.Head{Attempts: []store.AttemptState{unknown}, PaymentsUnmatched: 1}, view.PaymentChecking},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, view.Payment(c.head))
		})
	}
}

// Every set of unit states: which are there decides, their numbers do not.
func TestFulfillmentOfEverySet(t *testing.T) {
	t.Parallel()
	for mask := range 1 << len(order.UnitStatuses) {
		units, has := map[order.Status]int64{}, map[order.Status]bool{}
		for i, s := range order.UnitStatuses {
			if mask>>i&1 == 1 {
				units[s], has[s] = int64(i+1), true
			}
		}
		got := view.Fulfillment(units)
		switch {
		case mask == 0:
			require.Equal(t, view.FulfillmentNone, got)
		case has[order.UnitUnknown]:
			require.Equal(t, view.FulfillmentUnknown, got, units)
		case has[order.UnitRefused]:
			require.Equal(t, view.FulfillmentRefused, got, units)
		case has[order.UnitPlanned] || has[order.UnitIssuing]:
			require.Equal(t, view.FulfillmentInProgress, got, units)
		case has[order.UnitIssued] && len(has) == 1:
			require.Equal(t, view.FulfillmentFulfilled, got, units)
		case has[order.UnitIssued]:
			require.Equal(t, view.FulfillmentPartial, got, units)
		case has[order.UnitRevoked]:
			require.Equal(t, view.FulfillmentRevoked, got, units)
		default:
			require.Equal(t, view.FulfillmentCanceled, got, units)
		}
	}
}

func payments() []view.PaymentState {
	return []view.PaymentState{
		view.PaymentNone, view.PaymentChecking, view.PaymentActionNeeded, view.PaymentAuthorized, view.PaymentPaid, view.PaymentPartlyCaptured, view.PaymentPartlyRefunded, view.PaymentRefunded,
		view.PaymentDeclined, view.PaymentMismatch, view.PaymentDisputed, view.PaymentChargedBack, view.PaymentTakenBack, view.PaymentElsewhere,
	}
}

func fulfillments() []view.FulfillmentState {
	return []view.FulfillmentState{
		view.FulfillmentNone, view.FulfillmentInProgress, view.FulfillmentUnknown, view.FulfillmentRefused, view.FulfillmentPartial,
		view.FulfillmentFulfilled, view.FulfillmentCanceled, view.FulfillmentRevoked,
	}
}

func TestBuyerOfEveryCombination(t *testing.T) {
	t.Parallel()
	for _, o := range order.OrderStatuses {
		for _, p := range payments() {
			for _, f := range fulfillments() {
				s := view.States{Order: o, Payment: p, Fulfillment: f}
				b := view.BuyerOf(s)
				require.NotEmpty(t, b.State, s)
				require.NotEmpty(t, b.Message, s)
				payable := o == order.OrderOpen && (p == view.PaymentNone || p == view.PaymentDeclined)
				require.Equal(t, payable, b.CanPay, s)
				if p == view.PaymentChecking || p == view.PaymentMismatch {
					require.Contains(t, b.Message, "do not pay again", s)
				}
				if p != view.PaymentNone && p != view.PaymentDeclined && p != view.PaymentActionNeeded {
					require.NotContains(t, b.Message, "not charged", s)
				}
			}
		}
	}
}

func TestBuyer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		states view.States
		want   string
	}{
		"Fresh":              {view.States{Order: "open", Payment: view.PaymentNone, Fulfillment: view.FulfillmentNone}, "payable"},
		"Unknown":            {view.States{Order: "open", Payment: view.PaymentChecking, Fulfillment: view.FulfillmentNone}, "checking"},
		"Declined":           {view.States{Order: "open", Payment: view.PaymentDeclined, Fulfillment: view.FulfillmentNone}, "declined"},
		"AtTheBank":          {view.States{Order: "open", Payment: view.PaymentActionNeeded, Fulfillment: view.FulfillmentNone}, "action_needed"},
		"Paid":               {view.States{Order: "paid", Payment: view.PaymentPaid, Fulfillment: view.FulfillmentInProgress}, "paid"},
		"TicketMayBeOut":     {view.States{Order: "paid", Payment: view.PaymentPaid, Fulfillment: view.FulfillmentUnknown}, "delayed"},
		"Done":               {view.States{Order: "completed", Payment: view.PaymentPaid, Fulfillment: view.FulfillmentFulfilled}, "done"},
		"Lapsed":             {view.States{Order: "expired", Payment: view.PaymentNone, Fulfillment: view.FulfillmentNone}, "expired"},
		"PaidAfterItsExpiry": {view.States{Order: "expired", Payment: view.PaymentPaid, Fulfillment: view.FulfillmentNone}, "contact"},
		"Disputed":           {view.States{Order: "paid", Payment: view.PaymentDisputed, Fulfillment: view.FulfillmentInProgress}, "disputed"},
		"ChargedBack":        {view.States{Order: "completed", Payment: view.PaymentChargedBack, Fulfillment: view.FulfillmentFulfilled}, "charged_back"},
		"DepositTakenBack":   {view.States{Order: "paid", Payment: view.PaymentTakenBack, Fulfillment: view.FulfillmentInProgress}, "taken_back"},
		"PaidInCash":         {view.States{Order: "completed", Payment: view.PaymentElsewhere, Fulfillment: view.FulfillmentFulfilled}, "done"},
		"MoneyBack":          {view.States{Order: "completed", Payment: view.PaymentRefunded, Fulfillment: view.FulfillmentFulfilled}, "refunded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, view.BuyerOf(c.states).State)
		})
	}
}

// A declined attempt that its provider could still capture stands in the way of another one, so no pay button may be shown yet.
func TestNoPayButtonWhileAnAttemptIsBeingClosed(t *testing.T) {
	t.Parallel()
	h := store.Head{Attempts: []store.AttemptState{{Status: order.AttemptDeclined}}}
	h.Order.Status = string(order.OrderOpen)
	require.False(t, view.SummaryOf(h).Buyer.CanPay)
	h.Attempts[0].Status, h.Attempts[0].CloseReason, h.Attempts[0].Closed = order.AttemptClosed, order.ClosedDeclined, true
	require.True(t, view.SummaryOf(h).Buyer.CanPay)
}

func TestAHeldAttemptAsksNothingOfTheBuyer(t *testing.T) {
	t.Parallel()
	at := sqlcgen.PaymentAttempt{Status: "pending", NextAction: []byte(`{"type":"redirect","url":"https://bank.test/3ds"}`)}
	require.NotNil(t, view.AttemptOf(at).NextAction)
	at.HeldMinor = 100
	require.Nil(t, view.AttemptOf(at).NextAction, "the buyer has been there")
	require.Equal(t, "pending", view.AttemptOf(at).Outcome)
	at.CaptureMinor = 100
	require.Equal(t, "checking", view.AttemptOf(at).Outcome)
	at.HeldMinor = 0
	require.Equal(t, "checking", view.AttemptOf(at).Outcome, "answered, and not yet reflected")
	require.Nil(t, view.AttemptOf(at).NextAction)
}
