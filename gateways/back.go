package gateways

import (
	"context"
	"time"

	"orderflow/internal/money"
	"orderflow/internal/secret"
)

// Payout is the buyer's bank account, for providers that cannot send money back the way it came.
type Payout struct {
	Bank    string // the provider's code
	Account string
	Holder  string
}

// GiveBack is one refund as a gateway needs it to freeze its request. Amount and Left are in the payment's currency.
type GiveBack struct {
	Reference         string // ours: unique per refund, short and charset-safe; the provider keeps it where it has a place for it
	ProviderPaymentID string
	MerchantReference string // of the payment
	Amount            money.Amount
	Left              money.Amount // what our books say could still go back before this refund; a guard where the provider has one
	Whole             bool         // Amount is everything that was captured, and nothing went back before
	Payout            Payout       // only where a gateway asks for it
	Private           secret.Value // as in Operation
}

// RefundQuery asks what became of one refund.
type RefundQuery struct {
	ProviderPaymentID string
	MerchantReference string // of the payment
	RefundID          string // the provider's, once learnt
	Reference         string // ours
	Amount            money.Amount
	Since             time.Time // not before this was it first sent
	Known             []string  // the provider's ids of other refunds of the payment that our books hold: none of them is this one
	Private           secret.Value
}

// RefundSeen is one thing a provider said about a refund. Succeeded: the money went back. Pending: it is under way. Declined:
// nothing went back and nothing will by this refund. NotFound: the provider does not show it, maybe only not yet.
type RefundSeen struct {
	Account           Account
	ProviderPaymentID string
	RefundID          string // the provider's; empty where it has none
	Reference         string // ours, where the provider says it
	Outcome           Outcome
	Status            string // the provider's own word
	Currency          money.Currency
	AmountMinor       int64
	RefundedMinor     int64 // what went back of the payment in all, by the same answer; -1 = the answer does not say
	Code              string
	ProviderTime      time.Time
	RequestID         string
}

// Refunder is the optional ability to give captured money back. A refund is an operation as any other: frozen, claimed, sent at
// most once per call, never retried inside. RepeatSafeFor[Refund] says whether its stored request may be sent again; without a
// guard it is sent once, ever, and only a lookup or a person goes on.
type Refunder interface {
	// PlanRefund validates and freezes. It is pure.
	PlanRefund(GiveBack) (Planned, error)
	// SendRefund puts one stored refund on the wire. A nil error means a decoded answer.
	SendRefund(ctx context.Context, op Operation) (RefundSeen, error)
	// LookupRefund reads what became of a refund. It never sends a write; its faults prove nothing.
	LookupRefund(ctx context.Context, q RefundQuery) (RefundSeen, error)
}

// PaymentPager is optional: the provider has a page for people about each payment, whose address is made of its id.
type PaymentPager interface {
	// PaymentPage is that page's address; "" where there is none, as for an account at another address than the provider's own.
	PaymentPage(providerPaymentID string) string
}

// Window is a stretch of a provider's books, by its clock: From inclusive, To exclusive.
type Window struct {
	From, To time.Time
	Cursor   string // of the page before; empty = the first page
}

// Listed is one payment in a provider's list, as the list says it. Facts are looked up before anything is decided.
type Listed struct {
	Seen Observation
	At   time.Time // by which the list is ordered; items of one time may stand on two pages
}

// Page is a part of a window. Next is empty on the last page.
type Page struct {
	Items []Listed
	Next  string
}

// Lister is the optional ability to page through an account's payments. An empty page proves nothing.
type Lister interface {
	List(ctx context.Context, w Window) (Page, error)
}
