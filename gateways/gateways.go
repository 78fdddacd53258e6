// Package gateways is the seam to payment providers: what one can be asked, what it can answer, what it promises.
//
// It must not know any provider's name, nor orders, storage or Temporal: activities translate between it and the domain.
// It may import internal/money, internal/fault and internal/secret.
package gateways

import (
	"context"
	"time"

	"orderflow/internal/money"
	"orderflow/internal/secret"
)

// Environment tells real money from play money. It is part of every identity: a test fact never touches a live order.
type Environment string

// The environments.
const (
	Test Environment = "test"
	Live Environment = "live"
)

// Outcome is what one answer says about a payment. The zero value is no answer of ours and is refused everywhere.
type Outcome string

// The outcomes. Unknown is a real, stored answer: it may have happened.
const (
	Succeeded Outcome = "succeeded" // the money is captured
	Declined  Outcome = "declined"  // this try captured nothing; see Final
	Pending   Outcome = "pending"   // the buyer or the bank still has to act
	Unknown   Outcome = "unknown"   // no usable answer to a write
	Untouched Outcome = "untouched" // the object exists at the provider and no confirm has reached it (yet)
	NotFound  Outcome = "not_found" // the provider shows no such object; final only by NotFoundFinalAfter
)

// Kind names one outside write on a payment.
type Kind string

// The kinds a gateway may plan. Prepare takes no money: it makes the provider's object whose id is stored before the
// confirm that does.
const (
	Prepare Kind = "prepare"
	Confirm Kind = "confirm"
	Capture Kind = "capture"
	Void    Kind = "void"
	Cancel  Kind = "cancel"
	Refund  Kind = "refund"
)

// Capabilities say what a provider guards by itself, as data. Code outside a gateway asks these, never a name.
type Capabilities struct {
	// Prepares: the confirm needs an object that an earlier, harmless write makes.
	Prepares bool
	// RepeatSafeFor is how long after its first send a write may be sent again byte-identical under the same key, a
	// margin already taken off. Zero: the provider has no guard and a write is sent once, ever.
	RepeatSafeFor map[Kind]time.Duration
	// NotFoundFinalAfter is how long after the last send a strongly consistent lookup's "not found" proves that nothing
	// happened. Zero: it never does.
	NotFoundFinalAfter time.Duration
	// DeclineLeavesOpen: after a decline the same object can still be paid, so the attempt is closed by a cancel.
	DeclineLeavesOpen bool
	// CanCancel, CanCapture, CanRefund, CanList: the optional interfaces below are implemented.
	CanCancel, CanCapture, CanRefund, CanList bool
	// WebhookProof: a webhook that verifies may be believed to come from the provider (its facts are looked up all the same).
	WebhookProof bool
	// SendTimeout is the longest one write may take before its outcome counts as unknown.
	SendTimeout time.Duration
	// Methods are the payment method types the gateway accepts.
	Methods []string
}

// Account is one merchant account at one provider in one environment.
type Account struct {
	Gateway     string      `json:"gateway"` // "stripe"
	Name        string      `json:"name"`    // ours: "default" or a name from the configuration file
	Environment Environment `json:"environment"`
}

// Settings are what a gateway needs to reach its account. Empty optional fields mean the provider's default.
type Settings struct {
	Name          string // account name
	SecretKey     secret.Value
	PublicKey     string
	WebhookSecret secret.Value
	APIBase       string        // https://… of the provider or of the sandbox
	Timeout       time.Duration // one HTTP exchange; 0 = the gateway's default
}

// Method is what the buyer pays with: a type and the provider's single-use or stored reference to it. Token is treated as
// a secret: it is only ever stored encrypted.
type Method struct {
	Type      string // "card"
	Token     string // "pm_…", "tokn_…", a paymentKey
	ReturnURL string // where the provider sends the buyer back; empty = the buyer is not redirected
}

// Payment is one attempt to collect, as the gateway needs it to freeze its requests.
type Payment struct {
	MerchantReference string // ours, short and charset-safe, unique per attempt; never the order id
	Amount            money.Amount
	Method            Method
	Description       string // cut to whole characters by the gateway; may be empty
}

// Planned is one frozen outside write: the exact bytes that every send of this operation puts on the wire.
type Planned struct {
	Kind    Kind
	Request []byte
}

// Operation is a stored outside write on its way out.
type Operation struct {
	Key               string // the stored idempotency key; a write without one is a programming error
	ProviderPaymentID string // what Prepare returned; empty for Prepare itself
	Request           []byte // as planned
}

// Query asks for the current truth about one payment.
type Query struct {
	ProviderPaymentID string // preferred: the strongly consistent path
	MerchantReference string // when the id was never learnt
	Currency          money.Currency
}

// Observation is one thing a provider said, and when. Money fields are minor units of Currency.
type Observation struct {
	Account           Account
	ProviderPaymentID string
	MerchantReference string
	Outcome           Outcome
	Final             bool   // nothing was captured and nothing can be captured any more (rule 4)
	Status            string // the provider's own word
	Currency          money.Currency
	AmountMinor       int64 // what the object was made for
	CapturedMinor     int64
	RefundedMinor     int64
	DeclineCode       string      // the provider's code for a decline
	NextAction        *NextAction // for Pending
	ProviderTime      time.Time   // the provider's clock; zero when it gave none
	RequestID         string      // for the provider's support
}

// NextAction is what the buyer has to do, for the API's answer.
type NextAction struct {
	Type string `json:"type"` // "redirect", "voucher", "transfer", "qr"
	URL  string `json:"url,omitempty"`
	Due  string `json:"due,omitempty"` // RFC 3339
}

// Gateway is one provider account. Errors are *fault.Error. An implementation sends at most one write per call, never
// retries, bounds time and size itself, and is safe for concurrent use.
type Gateway interface {
	Account() Account
	Capabilities() Capabilities
	// Plan validates a payment and freezes its writes, in sending order: Prepare (where Capabilities say so), then Confirm.
	// It is pure: no clock, no network, no randomness. It refuses what the provider would refuse by form (fault class invalid).
	Plan(Payment) ([]Planned, error)
	// Send puts one stored write on the wire. A nil error means a decoded answer (Declined included). A fault of class
	// unknown means it may have happened.
	Send(ctx context.Context, kind Kind, op Operation) (Observation, error)
	// Lookup reads the provider's current state. It never sends a write; its faults prove nothing.
	Lookup(ctx context.Context, q Query) (Observation, error)
}

// Canceler is the optional ability to close a payment that captured nothing, so that it never will.
type Canceler interface {
	PlanCancel(providerPaymentID string) (Planned, error)
}

// Registration is a gateway's entry in the one list (gateways/all).
type Registration struct {
	Name      string // as in URLs and rows: "stripe"
	EnvPrefix string // "STRIPE": STRIPE_SECRET_KEY, STRIPE_WEBHOOK_SECRET, STRIPE_API_BASE, …
	Open      func(Settings) (Gateway, error)
}
