package toss

import (
	"context"
	"errors"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// Send puts one stored write on the wire, once. Reads may stand around it: before a cancel, which at Toss could refund,
// and after a decline, whose answer is a bare code without a payment.
func (g *Gateway) Send(ctx context.Context, kind gateways.Kind, op gateways.Operation) (gateways.Observation, error) {
	// One bound for the whole, so that SendTimeout holds whatever is read beside the write.
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	switch kind {
	case gateways.Confirm:
		return g.sendConfirm(ctx, op)
	case gateways.Cancel:
		return g.sendCancel(ctx, op)
	}
	return gateways.Observation{}, fault.Wrap(fault.InternalError, opName(kind),
		errors.New("the Toss gateway does not send this kind of write"))
}

func (g *Gateway) sendConfirm(ctx context.Context, op gateways.Operation) (gateways.Observation, error) {
	frozen, err := thawConfirm(op.Request)
	if err == nil && op.ProviderPaymentID != "" && op.ProviderPaymentID != frozen.PaymentKey {
		err = errFrozen // the attempt is bound to another payment
	}
	if err != nil {
		return gateways.Observation{}, g.unanswered(gateways.Confirm, answer{}, err)
	}
	a, err := g.client.write(ctx, g.timeout, "/v1/payments/confirm", op.Key, op.Request)
	if err != nil {
		return gateways.Observation{}, g.unanswered(gateways.Confirm, a, err)
	}
	if p, ok := decodePayment(a); ok {
		o := g.observe(p, a.header)
		if o.Outcome == gateways.Untouched {
			o.Outcome = gateways.Unknown // "no confirm reached me" in answer to a confirm contradicts itself
		}
		return o, nil
	}
	f := g.refused(gateways.Confirm, a)
	if f.Code != fault.PaymentDeclined {
		return gateways.Observation{}, f
	}
	return g.declined(ctx, frozen.PaymentKey, f)
}

// declined turns a decline into an observation. The answer was a code alone, so the payment itself is read: its status
// says whether anything can be captured any more, and the caller gets an amount and names to compare. Where it cannot be
// read, or is in a state that does not fit a decline, the outcome is unknown and a lookup decides.
func (g *Gateway) declined(ctx context.Context, paymentKey string, f *fault.Error) (gateways.Observation, error) {
	o, err := g.lookupAt(ctx, paymentPath(paymentKey), gateways.Query{ProviderPaymentID: paymentKey})
	fits := err == nil && (o.Outcome == gateways.Untouched || o.Outcome == gateways.Declined)
	if !fits {
		f.Code, f.Class = fault.PaymentUnknown, fault.Unknown
		return gateways.Observation{}, f
	}
	o.Outcome, o.DeclineCode = gateways.Declined, f.Provider.Code
	return o, nil
}
