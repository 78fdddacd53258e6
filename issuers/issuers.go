// Package issuers is the seam to external issuers of goods (tickets, vouchers, labels) and its HTTP implementation.
//
// It must not know orders beyond opaque ids, storage or Temporal. It may import internal/fault, internal/secret and
// internal/cleantext.
package issuers

import (
	"context"
	"time"
)

// Outcome is what one answer says about an issuance. The zero value is refused everywhere.
type Outcome string

// The outcomes.
const (
	Issued     Outcome = "issued"
	Processing Outcome = "processing"
	NotFound   Outcome = "not_found" // final only by Capabilities.NotFoundFinalAfter
	Refused    Outcome = "refused"   // definite: nothing was issued
	Revoked    Outcome = "revoked"   // it was issued and is taken back
)

// Capabilities say what an issuer guards by itself. An issuer with neither Idempotent nor Lookup is opaque: a request is
// sent once, ever, and a lost answer goes to a person.
type Capabilities struct {
	Idempotent         bool          // the same operation id again answers the same issuance
	Lookup             bool          // an operation can be read back by its id
	Revoke             bool          // an issuance can be taken back
	NotFoundFinalAfter time.Duration // a 404 this long after the last send proves that nothing was issued; 0 = never
	SendTimeout        time.Duration // the longest one request may take before its outcome counts as unknown
}

// Opaque reports that nothing can resolve a lost answer but a person.
func (c Capabilities) Opaque() bool { return !c.Idempotent && !c.Lookup }

// Request is one issuance. RecipientRef is the caller's reference to the recipient, never contact data.
type Request struct {
	OperationID  string `json:"operation_id"`
	OrderID      string `json:"order_id"`
	UnitID       string `json:"unit_id"`
	SKU          string `json:"sku"`
	RecipientRef string `json:"recipient_ref"`
}

// Observation is one thing an issuer said.
type Observation struct {
	OperationID string
	IssuanceID  string
	Outcome     Outcome
	Reference   string // what the buyer gets to hold: a voucher number, a ticket id. Stored, never logged.
	Code        string // the issuer's refusal code
}

// Issuer is one configured issuer. Errors are *fault.Error; a fault of class unknown means it may have issued. An
// implementation never retries and is safe for concurrent use.
type Issuer interface {
	Name() string
	Capabilities() Capabilities
	// Freeze makes the exact bytes that every send of this operation carries.
	Freeze(Request) ([]byte, error)
	// Issue sends frozen bytes under the operation's id as idempotency key.
	Issue(ctx context.Context, operationID string, frozen []byte) (Observation, error)
	// Lookup reads an operation back. Only where Capabilities().Lookup.
	Lookup(ctx context.Context, operationID string) (Observation, error)
	// Revoke takes an issuance back. Only where Capabilities().Revoke.
	Revoke(ctx context.Context, operationID string) (Observation, error)
}
