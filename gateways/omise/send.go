package omise

import (
	"context"
	"errors"
	"net/http"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
)

// Send puts one stored write on the wire, once.
func (g *Gateway) Send(ctx context.Context, kind gateways.Kind, op gateways.Operation) (gateways.Observation, error) {
	if !shared.UsableKey(op.Key, maxKey) {
		return gateways.Observation{}, unanswered(kind, errNoKey)
	}
	switch kind {
	case gateways.Confirm:
		return g.confirm(ctx, op)
	case gateways.Capture:
		return g.capture(ctx, op)
	case gateways.Cancel:
		return g.cancel(ctx, op)
	}
	return gateways.Observation{}, internal(kind, "the Omise gateway does not send this kind of write")
}

// confirm makes the charge. A charge on a stored customer whose id is known was made before, and a second one would be
// taken too, so that send is a bug of ours and does not leave.
func (g *Gateway) confirm(ctx context.Context, op gateways.Operation) (gateways.Observation, error) {
	method, err := thaw(op.Request)
	if err != nil {
		return gateways.Observation{}, unanswered(gateways.Confirm, err)
	}
	if method == methodCustomer && op.ProviderPaymentID != "" {
		return gateways.Observation{}, internal(gateways.Confirm, "a customer's charge that exists was about to be made again")
	}
	a, err := g.client.createCharge(ctx, op.Request)
	return g.written(gateways.Confirm, method, a, err)
}

// capture takes the money that the bank holds for a charge. Omise refuses it for one that is captured already or whose money was let
// go, so the charge itself is the guard; a lookup then says which it was.
func (g *Gateway) capture(ctx context.Context, op gateways.Operation) (gateways.Observation, error) {
	if !chargeShape.MatchString(op.ProviderPaymentID) {
		return gateways.Observation{}, internal(gateways.Capture, "the provider payment id is not the id of a charge")
	}
	if string(op.Request) != "{}" {
		return gateways.Observation{}, unanswered(gateways.Capture, errFrozen)
	}
	a, err := g.client.capture(ctx, op.ProviderPaymentID)
	return g.written(gateways.Capture, "", a, err)
}

// cancel closes a charge that captured nothing. It reads the charge first, since Omise has two ways to do it and refuses
// the wrong one: a charge that waits for its buyer is expired, one that the bank holds is reversed. A charge that is
// closed already needs no write, and one that is paid is never touched. The read may be old by the time the write
// arrives; then Omise refuses the write, and a lookup decides.
func (g *Gateway) cancel(ctx context.Context, op gateways.Operation) (gateways.Observation, error) {
	if !chargeShape.MatchString(op.ProviderPaymentID) {
		return gateways.Observation{}, internal(gateways.Cancel, "the provider payment id is not the id of a charge")
	}
	if string(op.Request) != "{}" {
		return gateways.Observation{}, unanswered(gateways.Cancel, errFrozen)
	}
	ctx, done := context.WithTimeout(ctx, g.timeout) // of both exchanges: SendTimeout is the bound of a send, not of a request
	defer done()
	c, a, err := g.fetch(ctx, op.ProviderPaymentID)
	if err != nil {
		return gateways.Observation{}, err
	}
	if c == nil {
		return gateways.Observation{}, g.answered(fault.PaymentNotFound, gateways.Cancel, a)
	}
	o, err := g.observe(read, c, a)
	switch {
	case err != nil:
		return gateways.Observation{}, err
	case o.Outcome == gateways.Succeeded:
		return gateways.Observation{}, g.answered(fault.PaymentAlready, gateways.Cancel, a)
	case o.Outcome != gateways.Pending:
		return o, nil
	case o.AuthorizedMinor > 0:
		a, err = g.client.reverse(ctx, op.ProviderPaymentID)
	default:
		a, err = g.client.expire(ctx, op.ProviderPaymentID)
	}
	return g.written(gateways.Cancel, "", a, err)
}

// written reads the answer to a write. Only status 200 is success; an answer that is no charge leaves the write unknown.
func (g *Gateway) written(kind gateways.Kind, method string, a answer, err error) (gateways.Observation, error) {
	if err != nil {
		return gateways.Observation{}, unanswered(kind, err)
	}
	if a.status != http.StatusOK {
		return gateways.Observation{}, g.refused(kind, method, a)
	}
	c, ok := readCharge(a.body)
	if !ok {
		return gateways.Observation{}, g.answered(fault.PaymentUnknown, kind, a)
	}
	return g.observe(kind, c, a)
}

// internal is a bug of ours, found before anything was sent.
func internal(v verb, why string) *fault.Error {
	return fault.Wrap(fault.InternalError, opName(v), errors.New(why))
}
