// Package gateways is the seam to payment providers: what one can be asked, what it can answer, what it promises.
//
// It must not know any provider's name, nor orders, storage or Temporal: activities translate between it and the domain.
// It may import internal/money, internal/fault and internal/secret.
package gateways

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
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

// Dispute says whether the buyer's bank takes captured money back on its own. The words are those of the domain.
type Dispute string

// The disputes. Empty means that an answer does not say.
const (
	DisputeNone Dispute = "none"
	DisputeOpen Dispute = "open" // it may
	DisputeWon  Dispute = "won"  // the money stays
	DisputeLost Dispute = "lost" // it has
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
	// RepeatSafeByMethod replaces RepeatSafeFor[Confirm] for method types whose guard is another one: a single-use token
	// makes a second charge impossible where the provider itself guards nothing.
	RepeatSafeByMethod map[string]time.Duration
	// NewKeyAfterError: the provider keeps an error it answered under the key, and the object itself can be paid only once.
	// After such an error a lookup that says Untouched proves that the operation did nothing, and a new one may follow.
	NewKeyAfterError map[Kind]bool
	// ConfirmWithin is how long after the buyer's consent a confirm can still succeed. Zero: no such limit.
	ConfirmWithin time.Duration
	// PendingFor is how long a payment of a method type stays payable when the provider names no deadline. Zero: no limit.
	PendingFor map[string]time.Duration
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

// RepeatSafe is how long after its first send a write may be sent again byte-identical under the same key, for a payment
// of the method type. Zero: it is sent once, ever.
func (c Capabilities) RepeatSafe(kind Kind, method string) time.Duration {
	safe := c.RepeatSafeFor[kind]
	if by, ok := c.RepeatSafeByMethod[method]; ok && kind == Confirm {
		safe = by
	}
	if kind == Confirm && c.ConfirmWithin > 0 {
		safe = min(safe, c.ConfirmWithin)
	}
	return safe
}

// Account is one merchant account at one provider in one environment.
type Account struct {
	Gateway     string      `json:"gateway"` // "stripe"
	Name        string      `json:"name"`    // ours: "default" or a name from the configuration file
	Environment Environment `json:"environment"`
}

// Settings are what a gateway needs to reach its account. Empty optional fields mean the provider's default.
type Settings struct {
	Name           string // account name
	SecretKey      secret.Value
	PublicKey      string
	WebhookSecret  secret.Value
	APIBase        string        // https://… of the provider or of the sandbox
	Environment    Environment   // only for providers whose keys do not say it; otherwise it must agree with the key or be empty
	MaintenanceURL string        // where a provider has captures and refunds behind another address; empty = not used
	PrivateKey     secret.Value  // PEM, where a provider wants requests signed or answers decrypted with our own key
	ProviderKey    string        // PEM of the provider's public key
	Timeout        time.Duration // one HTTP exchange; 0 = the gateway's default
	// Options are choices where a provider's own documents contradict each other, by the names of Registration.Options.
	Options map[string]string
}

// Method is what the buyer pays with: a type and the provider's single-use or stored reference to it. Token is treated as
// a secret: it is only ever stored encrypted.
type Method struct {
	Type      string // "card"
	Token     string // "pm_…", "tokn_…", a paymentKey
	ReturnURL string // where the provider sends the buyer back; empty = the buyer is not redirected
	Reference string // the reference the checkout used towards the provider before it came to us; only where a gateway asks for it
	Amount    string // the amount the provider's redirect carried, in main units; compared, never used
}

// Payment is one attempt to collect, as the gateway needs it to freeze its requests.
type Payment struct {
	MerchantReference string // ours, short and charset-safe, unique per attempt; never the order id
	Amount            money.Amount
	Method            Method
	Description       string // cut to whole characters by the gateway; may be empty
	// CaptureLater: the bank only holds the money until a capture takes it. A gateway that cannot do that refuses the payment.
	CaptureLater bool
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
	MerchantReference string
	Request           []byte       // as planned
	Private           secret.Value // what an earlier observation carried as Private; zero when none did
}

// Query asks for the current truth about one payment.
type Query struct {
	ProviderPaymentID string // preferred: the strongly consistent path
	MerchantReference string // when the id was never learnt
	Currency          money.Currency
	Since             time.Time    // not before this was the first write sent; zero = not known. Bounds a listing
	Private           secret.Value // as in Operation
}

// Observation is one thing a provider said, and when. Money fields are minor units of Currency. RefundedMinor is what went back in all,
// and -1 where the answer does not say.
type Observation struct {
	Account           Account
	ProviderPaymentID string
	MerchantReference string
	Outcome           Outcome
	Final             bool   // nothing was captured and nothing can be captured any more (rule 4)
	Status            string // the provider's own word
	Currency          money.Currency
	AmountMinor       int64 // what the object was made for
	AuthorizedMinor   int64 // held by the bank and not (yet) captured; says nothing about capture or settlement
	CapturedMinor     int64
	RefundedMinor     int64
	Dispute           Dispute     // of captured money; empty where the answer does not say
	DisputedMinor     int64       // what the dispute is about; 0 = not said, and then all of it
	DeclineCode       string      // the provider's code for a decline
	NextAction        *NextAction // for Pending
	ProviderTime      time.Time   // the provider's clock; zero when it gave none
	RequestID         string      // for the provider's support
	// Private is what the provider gave for later calls and notices about this payment (a payment token, a per-payment
	// secret). It is stored encrypted with the attempt; zero leaves what is stored.
	Private secret.Value
}

// NextAction is what the buyer has to do, for the API's answer.
type NextAction struct {
	Type    string `json:"type"` // "redirect", "voucher", "transfer", "qr"
	URL     string `json:"url,omitempty"`
	Due     string `json:"due,omitempty"`     // RFC 3339
	Code    string `json:"code,omitempty"`    // a number to show at the counter
	QR      string `json:"qr,omitempty"`      // the text or image address of a QR code
	Bank    string `json:"bank,omitempty"`    // the provider's code or name of the bank to transfer to
	Account string `json:"account,omitempty"` // the account number to transfer to
	Holder  string `json:"holder,omitempty"`  // in whose name that account is
}

// Gateway is one provider account. Errors are *fault.Error. An implementation sends at most one write per call, never
// retries, bounds time and size itself, and is safe for concurrent use.
type Gateway interface {
	Account() Account
	// Credential is a one-way mark of the API key in use (Mark). A write that was first sent under another one is looked up
	// and never repeated: nobody promises that a key's guard outlives the credential.
	Credential() string
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

// Capturer is the optional ability to have the bank only hold the money at first, and to take it later. What Payment.CaptureLater
// asks for is refused by gateways without it.
type Capturer interface {
	// PlanCapture freezes the one capture of a payment whose money is held: amount of what is held, in its currency. The provider
	// lets the rest go. It refuses what the provider would refuse by form (fault class invalid).
	PlanCapture(providerPaymentID string, amount, held money.Amount) (Planned, error)
}

// Known is what stands before the first send, where the buyer has already been at the provider.
type Known struct {
	MerchantReference string
	ProviderPaymentID string
}

// Identifier is the optional ability of a gateway whose payments begin in the buyer's browser: the provider's id and our
// reference come with the request, are bound to the attempt before anything is sent, and are unique.
type Identifier interface {
	// Identify reads both from a payment that Plan accepts.
	Identify(Payment) Known
}

// Incoming is one webhook request as it arrived. Body is the raw bytes; nothing has been decoded.
type Incoming struct {
	Header map[string][]string // canonical names, as http.Header has them
	Body   []byte
	At     time.Time // our clock
}

// Proof says how far a notice is believed to come from the provider. Whatever it is, facts are looked up.
type Proof string

// The proofs.
const (
	ProofSigned Proof = "signed" // a signature over the raw bytes was right
	ProofSecret Proof = "secret" // the notice carries a per-payment secret, to be compared with the stored one by the caller
	ProofNone   Proof = "none"   // nothing proves it: a hint that triggers a lookup of a known payment, at a limited rate
)

// Notice is what a webhook is about. It triggers a lookup and carries no truth.
type Notice struct {
	// EventID is the same for every delivery of one event: the provider's, or derived from payment, status and transaction
	// where the provider has none.
	EventID           string
	EventType         string // the provider's word, cut to a safe form
	ProviderPaymentID string // one of these two names the payment; both empty = the event is not about a payment
	MerchantReference string
	Environment       Environment // empty when the notice does not say
	Proof             Proof
	Secret            secret.Value // for ProofSecret
	ProviderTime      time.Time    // the provider's clock; zero when it gave none
	// Says is what the notice claims. It only saves a lookup when it claims what is known already.
	Says Outcome
}

// Notifier is the optional ability to read webhooks. Errors are *fault.Error with code webhook_unproven (the signature or
// the secret is wrong, missing or stale), webhook_malformed (not of the provider's form; an id is missing where the
// provider always sends one) or webhook_off (no secret is configured where the provider signs).
type Notifier interface {
	ReadNotice(Incoming) (Notice, error)
}

// Mark is a one-way mark of a credential: 16 hexadecimal digits, useless for finding the credential.
func Mark(credential secret.Value) string {
	sum := sha256.Sum256([]byte("orderflow credential\x00" + credential.Reveal()))
	return hex.EncodeToString(sum[:8])
}

// Registration is a gateway's entry in the one list (gateways/all).
type Registration struct {
	Name      string // as in URLs and rows: "stripe"
	EnvPrefix string // "STRIPE": STRIPE_SECRET_KEY, STRIPE_WEBHOOK_SECRET, STRIPE_API_BASE, …
	Open      func(Settings) (Gateway, error)
	Options   []Option // what Settings.Options may hold; mostly nothing

	// Maintains: captures and refunds are behind an address with keys of its own, Settings.MaintenanceURL and the two keys.
	Maintains bool
}

// Option is one choice that an account may make. Left out, it is what most of the provider's documents say.
type Option struct {
	Name    string // "wrap_all"
	Meaning string // values and what they change, for the configuration table
}

// Takes refuses options that the gateway does not have. Its error names those it has and never quotes what was set.
func (r Registration) Takes(options map[string]string) error {
	var names []string
	for _, o := range r.Options {
		names = append(names, o.Name)
	}
	for set := range options {
		if slices.Contains(names, set) {
			continue
		}
		if len(names) == 0 {
			return fmt.Errorf("the gateway %s has no options: leave them out", r.Name)
		}
		return fmt.Errorf("an option of %s is none that it has (%s): correct its name", r.Name, strings.Join(names, ", "))
	}
	return nil
}
