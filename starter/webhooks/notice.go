package webhooks

import (
	"crypto/sha256"
	"encoding/hex"

	"orderflow/gateways"
	"orderflow/order"
	"orderflow/store"
)

// receiptOf is what of a notice is kept: no body, no secret, and every text in a form that can stand anywhere.
func receiptOf(account order.Account, n gateways.Notice) store.Receipt {
	r := store.Receipt{
		Account: account, EventID: safe(n.EventID), EventType: cut(n.EventType), ProviderPaymentID: safe(n.ProviderPaymentID),
		MerchantReference: safe(n.MerchantReference), Proof: string(gateways.ProofNone), Says: says(n.Says),
	}
	if n.Proof == gateways.ProofSigned {
		r.Proof = string(gateways.ProofSigned)
	}
	if n.Environment != "" && string(n.Environment) != account.Environment {
		r.WrongEnvironment, r.Account.Environment = true, string(n.Environment)
	}
	if !n.ProviderTime.IsZero() {
		at := n.ProviderTime
		r.ProviderAt = &at
	}
	return r
}

// says keeps the words we know. Anything else claims nothing.
func says(o gateways.Outcome) order.Outcome {
	switch o {
	case gateways.Succeeded, gateways.Declined, gateways.Pending, gateways.Untouched, gateways.NotFound, gateways.Unknown:
		return order.Outcome(o)
	}
	return ""
}

const maxID = 255

// safe leaves an id as it is where it is short and plain, and otherwise stands for it by a digest: two ids stay two.
func safe(id string) string {
	if len(id) <= maxID && plain(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// cut makes an event's type short and plain. It is for people only.
func cut(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	if !plain(s) {
		return "other"
	}
	return s
}

// plain: visible ASCII.
func plain(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
