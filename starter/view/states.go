// Package view says what an order looks like to people and programs: three states, what the buyer should see, and
// everything behind them.
//
// It must not decide anything nor read anything: it turns stored rows into answers, for the API, the operator page and the
// command line alike. It may import order, store, internal/seal and internal/money.
package view

import (
	"orderflow/order"
	"orderflow/store"
)

// PaymentState is the roll-up over an order's attempts and payments.
type PaymentState string

// The payment states.
const (
	PaymentNone           PaymentState = "none"            // nothing was tried
	PaymentChecking       PaymentState = "checking"        // a confirm may have taken the money; the outcome is being found out
	PaymentActionNeeded   PaymentState = "action_needed"   // the buyer or the bank has to act
	PaymentAuthorized     PaymentState = "authorized"      // the buyer's bank holds the money until the merchant captures it
	PaymentPaid           PaymentState = "paid"            // the money is here
	PaymentPartlyCaptured PaymentState = "partly_captured" // only a part of what was asked for was taken: it pays for nothing
	PaymentPartlyRefunded PaymentState = "partly_refunded" // some of it went back
	PaymentRefunded       PaymentState = "refunded"        // all of it went back
	PaymentDeclined       PaymentState = "declined"        // the last try captured nothing
	PaymentMismatch       PaymentState = "mismatch"        // money is at the provider that is not what we asked for
	PaymentDisputed       PaymentState = "disputed"        // the buyer's bank may take it back
	PaymentChargedBack    PaymentState = "charged_back"    // and has
	PaymentTakenBack      PaymentState = "taken_back"      // the bank has taken a confirmed deposit back
	PaymentElsewhere      PaymentState = "elsewhere"       // paid by other means, as a person recorded
)

// FulfillmentState is the roll-up over an order's units.
type FulfillmentState string

// The fulfillment states.
const (
	FulfillmentNone       FulfillmentState = "none"        // nothing is owed yet
	FulfillmentInProgress FulfillmentState = "in_progress" // units are planned or being issued
	FulfillmentUnknown    FulfillmentState = "unknown"     // a unit may have been issued
	FulfillmentRefused    FulfillmentState = "refused"     // an issuer refused a unit for good
	FulfillmentPartial    FulfillmentState = "partial"     // some units were provided, the others are canceled or revoked
	FulfillmentFulfilled  FulfillmentState = "fulfilled"   // every unit was provided
	FulfillmentCanceled   FulfillmentState = "canceled"    // no unit will be provided
	FulfillmentRevoked    FulfillmentState = "revoked"     // what was provided was taken back
)

// States are the three an order is shown by.
type States struct {
	Order       order.Status     `json:"order" enum:"open,paid,completed,canceled,expired" doc:"the promise"`
	Payment     PaymentState     `json:"payment" enum:"none,checking,action_needed,authorized,paid,partly_captured,partly_refunded,refunded,declined,mismatch,disputed,charged_back,taken_back,elsewhere" doc:"what is known about the money"`
	Fulfillment FulfillmentState `json:"fulfillment" enum:"none,in_progress,unknown,refused,partial,fulfilled,canceled,revoked" doc:"what was provided"`
}

// StatesOf rolls an order up.
func StatesOf(h store.Head) States {
	return States{Order: order.Status(h.Order.Status), Payment: Payment(h), Fulfillment: Fulfillment(h.Units)}
}

// Payment rolls attempts and payments up. An attempt that may still have taken money outranks everything else: as long as
// one is there, nobody may be told that the order is unpaid.
func Payment(h store.Head) PaymentState {
	var last store.AttemptState
	part := false
	for _, a := range h.Attempts {
		last, part = a, part || a.Part
		switch a.Status {
		case order.AttemptCreated, order.AttemptSent, order.AttemptUnknown:
			return PaymentChecking
		}
	}
	away, here := h.Away, h.CapturedMinor-h.RefundedMinor-h.Away.Disputed-h.Away.Lost-h.Away.TakenBack
	switch {
	case h.Order.ExternalDecision != "" && (h.CapturedMinor == 0 || here <= 0):
		return PaymentElsewhere
	case away.TakenBack > 0 && here <= 0:
		return PaymentTakenBack
	case away.Disputed > 0 && (here <= 0 || h.Order.Hold != ""):
		return PaymentDisputed
	case away.Lost > 0 && (here <= 0 || h.Order.Hold != ""):
		return PaymentChargedBack
	case part && !whole(h) && (order.Status(h.Order.Status) != order.OrderCanceled || h.RefundedMinor < h.CapturedMinor):
		return PaymentPartlyCaptured // also when it went back: that is no refund of the whole
	case h.CapturedMinor > 0 && h.RefundedMinor == 0:
		return PaymentPaid
	case h.CapturedMinor > 0 && h.RefundedMinor < h.CapturedMinor:
		return PaymentPartlyRefunded
	case h.CapturedMinor > 0:
		return PaymentRefunded
	case h.PaymentsUnmatched > 0:
		return PaymentMismatch
	case last.Status == order.AttemptSucceeded:
		return PaymentChecking // captured, and about to be reflected
	case last.Capturing:
		return PaymentChecking // asked for: it may be captured by now
	case last.Held:
		return PaymentAuthorized
	case last.Status == order.AttemptPending:
		return PaymentActionNeeded
	case last.Status == order.AttemptDeclined, last.Status == order.AttemptClosed && declined(last.CloseReason):
		return PaymentDeclined
	}
	return PaymentNone
}

// whole reports that a payment of the order took all that was asked for.
func whole(h store.Head) bool {
	for _, a := range h.Attempts {
		if a.Status == order.AttemptSucceeded && !a.Part {
			return true
		}
	}
	return false
}

func declined(r order.CloseReason) bool { return r == order.ClosedDeclined || r == order.ClosedRefused }

// Fulfillment rolls unit counts up. What needs a person outranks what goes on by itself.
func Fulfillment(units map[order.Status]int64) FulfillmentState {
	has := func(ss ...order.Status) bool {
		for _, s := range ss {
			if units[s] > 0 {
				return true
			}
		}
		return false
	}
	switch {
	case has(order.UnitUnknown):
		return FulfillmentUnknown
	case has(order.UnitRefused):
		return FulfillmentRefused
	case has(order.UnitPlanned, order.UnitIssuing):
		return FulfillmentInProgress
	case has(order.UnitIssued) && has(order.UnitCanceled, order.UnitRevoked):
		return FulfillmentPartial
	case has(order.UnitIssued):
		return FulfillmentFulfilled
	case has(order.UnitRevoked):
		return FulfillmentRevoked
	case has(order.UnitCanceled):
		return FulfillmentCanceled
	}
	return FulfillmentNone
}

// Buyer is what the checkout shows to the buyer.
type Buyer struct {
	State   string `json:"state" doc:"a stable word for the checkout page to switch on"`
	Message string `json:"message" doc:"what the buyer should read"`
	CanPay  bool   `json:"can_pay" doc:"whether a pay button may be shown"`
}

// BuyerOf is total: every combination of states has a text, and none invites a second payment while the first may have
// taken the money.
func BuyerOf(s States) Buyer {
	switch s.Payment {
	case PaymentChecking, PaymentMismatch:
		return Buyer{State: "checking", Message: "We are checking your payment. Please do not pay again."}
	case PaymentPartlyCaptured:
		return partBuyer(s)
	case PaymentAuthorized:
		return heldBuyer(s)
	case PaymentRefunded:
		return Buyer{State: "refunded", Message: "Your payment was refunded."}
	case PaymentDisputed:
		return Buyer{State: "disputed", Message: "Your bank disputes the payment of this order. What you do not have yet waits until that is settled. Please do not pay again."}
	case PaymentChargedBack:
		return Buyer{State: "charged_back", Message: "Your bank has taken the payment of this order back. Please contact us."}
	case PaymentTakenBack:
		return Buyer{State: "taken_back", Message: "Your bank has taken your transfer back. What you do not have yet waits for it. Please contact us before you pay again."}
	case PaymentPaid, PaymentPartlyRefunded, PaymentElsewhere:
		return paidBuyer(s)
	}
	switch s.Order {
	case order.OrderPaid, order.OrderCompleted:
		return paidBuyer(s)
	case order.OrderExpired:
		return Buyer{State: "expired", Message: "The time to pay for this order is over. You were not charged."}
	case order.OrderCanceled:
		return Buyer{State: "canceled", Message: "This order was canceled. You were not charged."}
	}
	switch s.Payment {
	case PaymentActionNeeded:
		return Buyer{State: "action_needed", Message: "Please finish the payment you started. Do not start another one."}
	case PaymentDeclined:
		return Buyer{State: "declined", Message: "The payment did not go through. You were not charged. You can try again.", CanPay: true}
	}
	return Buyer{State: "payable", Message: "This order is waiting for your payment.", CanPay: true}
}

func heldBuyer(s States) Buyer {
	switch s.Order {
	case order.OrderCanceled, order.OrderExpired:
		return Buyer{State: "canceling", Message: "This order has ended. What your bank holds for it is being released."}
	case order.OrderPaid, order.OrderCompleted:
		return paidBuyer(s)
	}
	return Buyer{State: "authorized", Message: "Your bank has approved the payment. It is taken when your order is ready. Please do not pay again."}
}

func partBuyer(s States) Buyer {
	switch s.Order {
	case order.OrderCanceled:
		return Buyer{State: "canceling", Message: "This order was canceled. We are seeing to the part of your payment that was taken. Please do not pay again."}
	case order.OrderPaid, order.OrderCompleted:
		return paidBuyer(s)
	}
	return Buyer{State: "contact", Message: "Only a part of your payment was taken. We will contact you. Please do not pay again."}
}

func paidBuyer(s States) Buyer {
	switch {
	case s.Order == order.OrderCanceled && s.Payment == PaymentPartlyRefunded:
		return Buyer{State: "canceled", Message: "This order was canceled. A part of your payment was refunded."}
	case s.Order == order.OrderCanceled:
		return Buyer{State: "canceling", Message: "This order was canceled. We are seeing to your payment. Please do not pay again."}
	case s.Order == order.OrderExpired:
		return Buyer{State: "contact", Message: "We received your payment after the order had ended. We will contact you. Please do not pay again."}
	case s.Order == order.OrderOpen:
		return Buyer{State: "checking", Message: "We are checking your payment. Please do not pay again."}
	case s.Fulfillment == FulfillmentFulfilled:
		return Buyer{State: "done", Message: "Payment received. Your order is complete."}
	case s.Fulfillment == FulfillmentUnknown || s.Fulfillment == FulfillmentRefused:
		return Buyer{State: "delayed", Message: "Payment received. Your order takes a little longer; we are looking into it."}
	case s.Fulfillment == FulfillmentPartial:
		return Buyer{State: "partial", Message: "Payment received. A part of your order was provided."}
	case s.Fulfillment == FulfillmentCanceled || s.Fulfillment == FulfillmentRevoked:
		return Buyer{State: "contact", Message: "Payment received, but your order will not be provided. We will contact you."}
	}
	return Buyer{State: "paid", Message: "Payment received. We are preparing your order."}
}

// OutcomeOf is what one attempt came to, in the API's words.
func OutcomeOf(s order.Status) string {
	switch s {
	case order.AttemptSucceeded:
		return "succeeded"
	case order.AttemptPending:
		return "pending"
	case order.AttemptDeclined, order.AttemptClosed:
		return "declined"
	}
	return "checking" // created, sent, unknown: it may have taken the money
}
