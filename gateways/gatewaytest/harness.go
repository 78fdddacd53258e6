// Package gatewaytest is the conformance suite that every payment gateway passes: it decides whether a gateway is done.
//
// It must not know any provider: it sees a gateway through package gateways, and the provider through a Harness that
// simulates it over real HTTP. It may import gateways, internal/fault, internal/money and test helpers.
package gatewaytest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"orderflow/gateways"
	"orderflow/internal/money"
)

// Lookup is the target of a fault that hits reads; writes are named by their kinds.
const Lookup gateways.Kind = "lookup"

// RefundLookup is the target of a fault that hits reads about a refund.
const RefundLookup gateways.Kind = "refund_lookup"

// FaultKind is one way in which the provider or the network misbehaves.
type FaultKind string

// The kinds. "Effect" is what was asked for: the charge, the cancel.
const (
	LoseAnswer FaultKind = "lose_answer" // the effect happens, then the connection is cut without a byte
	CutBefore  FaultKind = "cut_before"  // the connection is cut and nothing happens
	Hang       FaultKind = "hang"        // the effect happens, then the request is held until the caller goes away
	Slow       FaultKind = "slow"        // the effect happens only after Delay, even when the caller has gone by then
	Stored     FaultKind = "stored"      // a server error that the provider keeps and repeats for the same request
	Answer     FaultKind = "answer"      // Status and Body instead of the provider's own answer
	Busy       FaultKind = "busy"        // refused, not executed: too many requests, asking for RetryAfter
)

// Fault is armed for the next matching request.
type Fault struct {
	Kind       FaultKind
	On         gateways.Kind // a write's kind, or Lookup
	Effect     bool          // for Stored and Answer: whether the effect happened all the same
	Delay      time.Duration // for Slow
	RetryAfter time.Duration // for Busy, whole seconds
	Status     int           // for Answer; 0 = 200
	Body       []byte        // for Answer
	Header     http.Header   // for Answer: beside the content type
	Times      int           // requests it hits; 0 = one
}

// Write is one write request as the provider received it.
type Write struct {
	Kind gateways.Kind
	Key  string // the idempotency key header; empty where the provider has none
	Body []byte // raw
}

// Capture is money that moved, from the provider's own books.
type Capture struct {
	ProviderPaymentID string
	Amount            money.Amount
}

// Provider is one simulated provider with empty books, reached over real HTTP. It may also be Buying and Notifying.
type Provider interface {
	// Open makes a new client of the provider; change may be nil.
	Open(t *testing.T, change func(*gateways.Settings)) gateways.Gateway
	// Payment is a payment that the provider will accept. Where payments begin in the buyer's browser (gateways.Identifier)
	// the buyer has been there under this reference and everything the checkout brings along is filled in.
	Payment(t *testing.T, reference string, amount money.Amount) gateways.Payment
	// Declined is a payment that the provider will decline.
	Declined(t *testing.T, reference string, amount money.Amount) gateways.Payment
	// Arm makes the next matching request meet a fault. The returned function waits until it was hit n times.
	Arm(t *testing.T, f Fault) (await func(ctx context.Context, n int) error)
	// Writes are the write requests received so far, faulty ones included, in order.
	Writes(t *testing.T) []Write
	// Captures are the captures under a merchant reference.
	Captures(t *testing.T, reference string) []Capture
	// Raw is the provider's own answer body about an existing payment, as a write or a lookup would carry it.
	Raw(t *testing.T, providerPaymentID string) []byte
}

// Price is an amount and the text that the write request must hold for it.
type Price struct {
	Amount money.Amount
	Wire   string // "amount=80"
}

// Harness describes a provider to the suite. Empty parts leave out cases with a reason in the test log.
type Harness struct {
	// New brings up a provider of its own for one case and takes it down at the end of the test.
	New func(t *testing.T) Provider
	// Prices are taken; Refused cannot be said exactly and must not pass Plan.
	Prices  []Price
	Refused []money.Amount
	// WrongObjects are well-formed answers of the provider that are about no payment.
	WrongObjects map[string][]byte
	// Quoting is the provider's refusal of a request with a message that quotes text.
	Quoting func(text string) (status int, body []byte)
	// OtherMode turns a test-mode answer into a live one. Nil: the provider's answers do not say their mode.
	OtherMode func(raw []byte) []byte
	// ReplaysErrors: the provider stores a server error and repeats it for the same request.
	ReplaysErrors bool
	// SignsRequests: the bytes on the wire are made from the frozen ones (signed, encrypted) and differ from them.
	SignsRequests bool
	// RepeatIsConflict: the provider's guard is a single-use token, so a repeat of an executed confirm is answered as "done
	// already" (class conflict) instead of with the first answer.
	RepeatIsConflict bool
	// Altered turn the provider's answer about a payment into one that says something else in one field.
	Altered map[Field]func(raw []byte) []byte
	// Registration opens the gateway where Provider.Open cannot: with settings that must be refused.
	Registration *gateways.Registration
	// ListPage is the page size where a lookup without an id walks a listing; zero = it does not.
	ListPage int
	// Webhook describes the webhooks of a Provider that is Notifying.
	Webhook *Webhook
	// NoKeys: the provider has no idempotency key header, so the stored key never goes out.
	NoKeys bool
	// AnswersAreHints: the answer to an executed write only says that it is over (class conflict); a lookup tells the rest.
	AnswersAreHints bool
	// ActionSaidOnce: what a waiting buyer has to do stands in the confirm's answer and in no lookup.
	ActionSaidOnce bool
	// BusyIsUnknown: the provider documents no "slow down", so such an answer to a write proves nothing.
	BusyIsUnknown bool
	// WrongRefunds are well-formed answers of the provider that are about no refund, or say nothing usable of one.
	WrongRefunds map[string][]byte
	// RefundsAreAccepted: the answer to a refund only says that it was taken on; a lookup tells what became of it.
	RefundsAreAccepted bool
	// RefundsAreNameless: the provider keeps no reference of ours with a refund.
	RefundsAreNameless bool
	// SlowPrice is what a payment of SlowlyGiving costs, where that needs another currency; zero = the first of Prices.
	SlowPrice money.Amount
	// Page is how many payments a page of the gateway's listing holds, where it can list.
	Page int
	// EmptyLists are the names of rubbish answers that are an empty list at this provider.
	EmptyLists []string
}
