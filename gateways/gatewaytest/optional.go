package gatewaytest

import (
	"testing"
	"time"

	"orderflow/gateways"
	"orderflow/internal/money"
)

// Buying is an optional part of a Provider: payments on which the buyer has to act after the confirm.
type Buying interface {
	// Waiting is a payment that the provider accepts and that then waits for its buyer.
	Waiting(t *testing.T, reference string, amount money.Amount) gateways.Payment
	// Act lets the buyer of a waiting payment pay or refuse. The id is empty where no answer told it.
	Act(t *testing.T, providerPaymentID, reference string, pay bool)
}

// Refunding is an optional part of a Provider: money given back by somebody else, at the provider's dashboard.
type Refunding interface {
	// Refund gives back minor units of a captured payment.
	Refund(t *testing.T, providerPaymentID, reference string, minor int64)
}

// Notifying is an optional part of a Provider: its webhooks.
type Notifying interface {
	// NoticeBody is what the provider says by webhook about a captured payment, as JSON and before it is signed.
	NoticeBody(t *testing.T, providerPaymentID, reference string) []byte
	// Seal makes the webhook request that carries a body, genuine unless told otherwise. Incoming.At is how.Now, or how.At
	// when that is zero.
	Seal(t *testing.T, body []byte, how Seal) gateways.Incoming
}

// Seal says how a webhook is signed and when it arrives.
type Seal struct {
	At          time.Time // the provider's clock at signing
	Now         time.Time // our clock at arrival; zero = At
	WrongSecret bool      // signed under a secret that is not the account's
	Unsigned    bool      // without what would prove it
}

// Webhook describes the form of a provider's webhooks to the suite. Field names are keys of the body's top level, or
// paths with dots; an empty one leaves its cases out.
type Webhook struct {
	Proof        gateways.Proof // what a genuine notice proves
	Tolerance    time.Duration  // how far the signed time may be off, both ways; zero = no time is signed
	OffUnsecured bool           // without a configured webhook secret the account takes no webhooks
	EventID      string         // the provider always sends it: "id"
	Type         string         // "type"
	Version      string         // "api_version"
	// OtherMode turns a test-mode body into a live one. Nil: the body does not say its mode.
	OtherMode func(body []byte) []byte
}

// Field names what an altered answer says differently from what was asked.
type Field string

// The fields.
const (
	FieldAmount    Field = "amount" // also what was captured
	FieldCurrency  Field = "currency"
	FieldReference Field = "reference"
	FieldID        Field = "id"
	FieldAccount   Field = "account" // the provider's name of the merchant account, where its answers carry one
)
