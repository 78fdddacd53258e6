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

// planRefund freezes the request of a refund. It has no effect.
func planRefund(box *seal.Box, accounts map[order.Account]gateways.Gateway, p store.RefundPlan) (store.RefundDraft, error) {
	gw := accounts[order.Account{Gateway: p.Payment.Gateway, Name: p.Payment.Account, Environment: p.Payment.Environment}]
	back, ok := gw.(gateways.Refunder)
	if !ok || !gw.Capabilities().CanRefund {
		return store.RefundDraft{}, fault.New(fault.GatewayMisconfigured, "plan refund")
	}
	d := store.RefundDraft{ID: order.NewRefundID(), Reference: order.NewRefundReference()}
	frozen, err := back.PlanRefund(gateways.GiveBack{
		Reference: d.Reference, ProviderPaymentID: p.Payment.ProviderPaymentID, MerchantReference: p.Attempt.MerchantReference, Amount: p.Amount,
		Left: money.Amount{Minor: p.Left, Currency: p.Amount.Currency}, Whole: p.Amount.Minor == p.Payment.CapturedMinor, Private: private(box, p),
	})
	if err != nil {
		return store.RefundDraft{}, err
	}
	op := order.RefundOperation(d.ID)
	d.Operation = store.OperationDraft{
		ID: op, Kind: string(gateways.Refund), Sealed: box.Seal(frozen.Request, order.OperationPlace(op)), Fingerprint: box.Fingerprint(frozen.Request),
	}
	return d, nil
}

// private is what the provider gave for later calls. One that does not open counts as none.
func private(box *seal.Box, p store.RefundPlan) secret.Value {
	if len(p.Attempt.SealedPrivate) == 0 {
		return secret.Value{}
	}
	plain, err := box.Open(p.Attempt.SealedPrivate, order.AttemptPlace(order.AttemptID(p.Attempt.AttemptID)))
	if err != nil {
		return secret.Value{}
	}
	return secret.New(string(plain))
}
