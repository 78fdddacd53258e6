package stripe

import (
	"context"
	"errors"

	stripego "github.com/stripe/stripe-go/v76"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// Send puts one stored write on the wire, once.
func (g *Gateway) Send(ctx context.Context, kind gateways.Kind, op gateways.Operation) (gateways.Observation, error) {
	path, err := pathOf(kind, op.ProviderPaymentID)
	if err != nil {
		return gateways.Observation{}, fault.Wrap(fault.InternalError, opName(kind), err)
	}
	pi := &stripego.PaymentIntent{}
	err = g.client.write(ctx, path, op.Key, op.Request, pi)
	var refusal *stripego.Error
	switch {
	case err == nil:
		return g.accepted(kind, pi)
	case errors.As(err, &refusal):
		return g.declinedOr(kind, refusal)
	default:
		return gateways.Observation{}, unanswered(kind, err)
	}
}

// pathOf is where a kind goes. The id is checked before it becomes part of a path.
func pathOf(kind gateways.Kind, id string) (string, error) {
	const intents = "/v1/payment_intents"
	if kind == gateways.Prepare {
		if id != "" {
			return "", errors.New("a prepare makes the intent, so it cannot have an id yet")
		}
		return intents, nil
	}
	if !intentShape.MatchString(id) {
		return "", errors.New("the provider payment id is not the id of a payment intent")
	}
	switch kind {
	case gateways.Confirm:
		return intents + "/" + id + "/confirm", nil
	case gateways.Capture:
		return intents + "/" + id + "/capture", nil
	case gateways.Cancel:
		return intents + "/" + id + "/cancel", nil
	}
	return "", errors.New("the Stripe gateway does not send this kind of write")
}

// accepted reads a 2xx answer. One that is no intent leaves the write unknown. An intent that says "no confirm reached
// me" in answer to a confirm contradicts itself, so its outcome is unknown and a lookup decides.
func (g *Gateway) accepted(kind gateways.Kind, pi *stripego.PaymentIntent) (gateways.Observation, error) {
	if !sound(pi) {
		return gateways.Observation{}, g.answered(fault.PaymentUnknown, kind, pi.LastResponse)
	}
	o := g.observe(pi, headerOf(pi.LastResponse))
	if kind == gateways.Confirm && o.Outcome == gateways.Untouched {
		o.Outcome = gateways.Unknown
	}
	return o, nil
}

// declinedOr turns a decline into an observation, since it is a decoded answer about this payment. It believes a decline
// only together with an intent in a state that fits: where the intent is missing the caller could not compare it with
// what it asked for, and where the intent moved on the decline is old news. Both are looked up.
func (g *Gateway) declinedOr(kind gateways.Kind, e *stripego.Error) (gateways.Observation, error) {
	f := g.refused(kind, e)
	if f.Code != fault.PaymentDeclined {
		return gateways.Observation{}, f
	}
	if kind == gateways.Prepare && e.PaymentIntent == nil {
		return gateways.Observation{}, f // no intent was made, so there is nothing to observe or to charge
	}
	if !sound(e.PaymentIntent) || !fitsDecline(e.PaymentIntent) {
		f.Code, f.Class = fault.PaymentUnknown, fault.Unknown
		return gateways.Observation{}, f
	}
	o := g.observe(e.PaymentIntent, headerOf(e.LastResponse))
	o.Outcome = gateways.Declined
	if c := declineCode(e); c != "" {
		o.DeclineCode = c
	}
	return o, nil
}

func fitsDecline(pi *stripego.PaymentIntent) bool {
	v, ok := verdicts[pi.Status]
	return ok && (v.outcome == gateways.Untouched || v.outcome == gateways.Declined) && pi.AmountReceived == 0
}
