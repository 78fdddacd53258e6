package activities

import (
	"context"

	"orderflow/gateways"
	"orderflow/order"
)

// CapturePayment takes the money that the bank holds for an attempt, by the one operation there is for it. What became of a capture
// that was sent before is looked up first, as with every write. It fails with the code of what is missing until there is an answer.
func (a *Activities) CapturePayment(ctx context.Context, in AttemptInput) (PaymentResult, error) {
	defer alive(ctx)()
	r, err := a.capture(ctx, in.AttemptID)
	return r, Fail(ctx, r.known(err, "capture payment"), in.Bounds)
}

func (a *Activities) capture(ctx context.Context, id order.AttemptID) (PaymentResult, error) {
	t, err := a.open(ctx, id)
	if err != nil {
		return PaymentResult{}, err
	}
	op := t.operation(gateways.Capture)
	if op == nil || op.FinishedAt != nil {
		return t.lookAfresh(ctx)
	}
	return t.perform(ctx, *op, true)
}
