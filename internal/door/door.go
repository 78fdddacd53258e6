// Package door makes what a person's decision needs of the process it comes in by: the API, the operator page, the command line and
// Temporal's doors decide with the same means.
//
// It must not decide anything, nor send anything: it seals and freezes. It may import store, order, gateways and the internal leaves.
package door

import (
	"context"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/seal"
	"orderflow/internal/secret"
	"orderflow/order"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// New makes the door of a process with this box and these accounts. Its client is empty: it decides everybody's reviews.
func New(box *seal.Box, accounts map[order.Account]gateways.Gateway) store.Door {
	return store.Door{
		Seal: func(u order.UnitID, reference string) []byte {
			return box.Seal([]byte(reference), order.ReferencePlace(u))
		},
		Refund: func(_ context.Context, p store.RefundPlan) (store.RefundDraft, error) {
			return planRefund(box, accounts, p)
		},
	}
}

// planRefund is a refund that a person decided.
func planRefund(box *seal.Box, accounts map[order.Account]gateways.Gateway, p store.RefundPlan) (store.RefundDraft, error) {
	f, err := Freeze(box, accounts, p, gateways.Payout{})
	return f.Into(box, store.RefundDraft{ID: order.NewRefundID()}), err
}

// Frozen is the request of a refund as it will be sent, however often.
type Frozen struct {
	attempt   order.AttemptID
	reference string
	amount    money.Amount
	left      int64
	request   []byte
}

// Freeze freezes a refund's request; payout only where the gateway asks for it. It has no effect. Errors: gateway_misconfigured, whose
// Why is account_not_configured or account_cannot_refund; payment_invalid where this payment does not go back in this form.
func Freeze(box *seal.Box, accounts map[order.Account]gateways.Gateway, p store.RefundPlan, payout gateways.Payout) (Frozen, error) {
	gw, configured := accounts[order.Account{Gateway: p.Payment.Gateway, Name: p.Payment.Account, Environment: p.Payment.Environment}]
	back, can := gw.(gateways.Refunder)
	if !can || !gw.Capabilities().CanRefund {
		e := fault.New(fault.GatewayMisconfigured, "plan refund")
		if e.Why = "account_cannot_refund"; !configured {
			e.Why = "account_not_configured"
		}
		return Frozen{}, e
	}
	out := Frozen{attempt: order.AttemptID(p.Attempt.AttemptID), reference: order.NewRefundReference(), amount: p.Amount, left: p.Left}
	frozen, err := back.PlanRefund(gateways.GiveBack{
		Reference: out.reference, ProviderPaymentID: p.Payment.ProviderPaymentID, MerchantReference: p.Attempt.MerchantReference, Amount: p.Amount,
		Left: money.Amount{Minor: p.Left, Currency: p.Amount.Currency}, Whole: p.Amount.Minor == p.Payment.CapturedMinor,
		Payout: payout, Private: Private(box, p.Attempt),
	})
	out.request = frozen.Request
	return out, err
}

// Into completes the draft of a refund whose id is chosen: whose money, how much, and the sealed request of its one operation.
func (f Frozen) Into(box *seal.Box, d store.RefundDraft) store.RefundDraft {
	d.Attempt, d.Reference, d.Amount, d.LeftMinor = f.attempt, f.reference, f.amount, f.left
	op := order.RefundOperation(d.ID)
	d.Operation = store.OperationDraft{
		ID: op, Kind: string(gateways.Refund), Sealed: box.Seal(f.request, order.OperationPlace(op)), Fingerprint: box.Fingerprint(f.request),
	}
	return d
}

// Private is what the provider gave for later calls about an attempt. One that does not open (its data key is gone) counts as none.
func Private(box *seal.Box, at sqlcgen.PaymentAttempt) secret.Value {
	if len(at.SealedPrivate) == 0 {
		return secret.Value{}
	}
	plain, err := box.Open(at.SealedPrivate, order.AttemptPlace(order.AttemptID(at.AttemptID)))
	if err != nil {
		return secret.Value{}
	}
	return secret.New(string(plain))
}
