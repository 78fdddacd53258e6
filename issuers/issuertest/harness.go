// Package issuertest is the conformance suite that every issuer passes: what it must answer when the far side works, when
// it refuses, and when the answer is lost, late, rubbish or somebody else's.
//
// It must not know any issuer's protocol: a Harness brings the issuer and a far side that can be made to misbehave.
// It may import issuers, internal/fault and testify.
package issuertest

import (
	"fmt"
	"testing"

	"orderflow/issuers"
)

// Call names the request that goes wrong.
type Call string

// The calls.
const (
	OnIssue  Call = "issue"
	OnLookup Call = "lookup"
	OnRevoke Call = "revoke"
)

// Trouble is what the far side does with one request instead of answering it as it should.
type Trouble struct {
	Effect bool // do what was asked for first
	Cut    bool // then cut the connection without a byte
	Hang   bool // then hold the request until the caller goes away
	// Otherwise this goes out.
	Status int
	Header map[string]string
	Body   string
}

// Side is one issuer and the far side it talks to.
type Side struct {
	Issuer issuers.Issuer
	// Arm makes exactly the next request of a kind go wrong. It reports false where this far side cannot do that, and the
	// subtest is skipped with the reason.
	Arm func(t *testing.T, on Call, trouble Trouble) bool
	// Sent counts the issue requests for an operation that reached the far side.
	Sent func(operationID string) int
	// Issued counts the issuances that exist, or existed, at the far side for an operation.
	Issued func(operationID string) int
}

// Harness opens a Side with a far side of its own, so that subtests run in parallel. It cleans up with t.Cleanup.
type Harness struct {
	Open func(t *testing.T) Side
}

func request(n int) issuers.Request {
	return issuers.Request{
		OperationID: fmt.Sprintf("op_%06d", n), OrderID: "order/1 é", UnitID: fmt.Sprintf("unit_%d", n), SKU: "TICKET-A&B <1>", RecipientRef: "buyer-7",
	}
}
