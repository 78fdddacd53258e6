package toss

import (
	"context"
	"errors"
	"net/http"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// Lookup reads a payment by its key, or where that was never learnt by the order id. Both are reads of the payment itself
// and no listing. Not found is never final, see Capabilities.
func (g *Gateway) Lookup(ctx context.Context, q gateways.Query) (gateways.Observation, error) {
	switch {
	case paymentKeyShape.MatchString(q.ProviderPaymentID):
		return g.lookupAt(ctx, paymentPath(q.ProviderPaymentID), q)
	case q.ProviderPaymentID == "" && orderIDShape.MatchString(q.MerchantReference):
		return g.lookupAt(ctx, "/v1/payments/orders/"+q.MerchantReference, q)
	}
	return gateways.Observation{}, fault.Wrap(fault.InternalError, opName(read),
		errors.New("a lookup needs a Toss paymentKey, or the orderId that the checkout gave to Toss"))
}

func (g *Gateway) lookupAt(ctx context.Context, path string, q gateways.Query) (gateways.Observation, error) {
	a, err := g.client.read(ctx, g.timeout, path)
	if err != nil {
		return gateways.Observation{}, g.unanswered(read, a, err)
	}
	if p, ok := decodePayment(a); ok {
		return g.observe(p, a.header), nil
	}
	if code := errorCode(a.body); a.status == http.StatusNotFound && (code == "NOT_FOUND_PAYMENT" || code == "NOT_FOUND") {
		// A fact and not a failure, but a weak one: a key of another account gets the same answer.
		o := gateways.Observation{
			Account: g.account, ProviderPaymentID: q.ProviderPaymentID, Outcome: gateways.NotFound, RequestID: traceID(a.header),
		}
		if q.ProviderPaymentID == "" {
			o.MerchantReference = q.MerchantReference
		}
		return o, nil
	}
	return gateways.Observation{}, g.refused(read, a)
}
