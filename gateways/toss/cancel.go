package toss

import (
	"context"
	"encoding/json"
	"errors"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
)

// cancelRequest is the frozen body of a cancel that moves no money. It never names an account to refund to: without one
// Toss refuses to cancel a virtual account that was paid meanwhile, which is the guard against a deposit that overtakes us.
type cancelRequest struct {
	CancelReason string `json:"cancelReason"`
}

var frozenCancel = []byte(`{"cancelReason":"abandoned before payment"}`)

// PlanCancel freezes the write that closes a virtual account before its deposit, so that nobody can pay into it any more.
func (g *Gateway) PlanCancel(providerPaymentID string) (gateways.Planned, error) {
	if !paymentKeyShape.MatchString(providerPaymentID) {
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "toss plan cancel",
			errors.New("the provider payment id is not a Toss paymentKey"))
	}
	return gateways.Planned{Kind: gateways.Cancel, Request: append([]byte(nil), frozenCancel...)}, nil
}

// sendCancel closes a payment that captured nothing. At Toss the same call refunds a paid one, so the status is read first
// and the write leaves only for a payment that waits for its deposit. What ended already is its own answer; what was paid,
// or waits for a confirm, is a conflict that the caller looks into.
func (g *Gateway) sendCancel(ctx context.Context, op gateways.Operation) (gateways.Observation, error) {
	var frozen cancelRequest
	switch {
	case !shared.UsableKey(op.Key, maxKey):
		return gateways.Observation{}, g.unanswered(gateways.Cancel, answer{}, errNoKey)
	case json.Unmarshal(op.Request, &frozen) != nil, frozen.CancelReason == "":
		return gateways.Observation{}, g.unanswered(gateways.Cancel, answer{}, errFrozen)
	case !paymentKeyShape.MatchString(op.ProviderPaymentID):
		return gateways.Observation{}, fault.Wrap(fault.InternalError, opName(gateways.Cancel),
			errors.New("a cancel needs the paymentKey"))
	}
	now, err := g.lookupAt(ctx, paymentPath(op.ProviderPaymentID), gateways.Query{ProviderPaymentID: op.ProviderPaymentID})
	switch {
	case err != nil:
		return gateways.Observation{}, err // nothing was sent: transient, or a misconfigured account
	case now.Outcome == gateways.Declined && now.Final:
		return now, nil
	case now.Outcome != gateways.Pending:
		f := fault.New(fault.PaymentAlready, opName(gateways.Cancel))
		f.Provider = fault.Provider{Name: name, HTTPStatus: 200, Code: now.Status, RequestID: now.RequestID}
		return gateways.Observation{}, f
	}
	a, err := g.client.write(ctx, g.timeout, paymentPath(op.ProviderPaymentID)+"/cancel", op.Key, op.Request)
	if err != nil {
		return gateways.Observation{}, g.unanswered(gateways.Cancel, a, err)
	}
	if p, ok := decodePayment(a); ok {
		return g.observe(p, a.header), nil
	}
	return gateways.Observation{}, g.refused(gateways.Cancel, a)
}
