package activities

import (
	"context"
	"time"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// repeat sends the stored request again under its stored key, as the only one to do so now.
func (t *try) repeat(ctx context.Context, op sqlcgen.Operation, maySend bool) (PaymentResult, error) {
	if !maySend {
		return PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentUnknown)}, nil
	}
	if op.Credential != "" && op.Credential != t.gw.Credential() {
		// The API key was rotated meanwhile, and nobody promises that the guard outlives it: only lookups and a person go on.
		return PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentUnknown)}, nil
	}
	t.claimed = time.Now()
	won, err := t.a.d.Store.OperationClaimAgain(ctx, order.OperationID(op.OperationID), int(op.Sends), t.gw.Credential())
	if err != nil {
		return PaymentResult{}, err
	}
	if !won {
		return PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentInProgress)}, nil
	}
	return t.send(ctx, op, true)
}

// mostGenerations bounds how often a write gets a new key: a provider that answers every one with an error is a person's.
const mostGenerations = 4

// renew makes the same write anew under a new key (rule 7): the provider answered an error that it keeps under the old one, a
// lookup found the object untouched, and the object can be paid only once.
func (t *try) renew(ctx context.Context, op sqlcgen.Operation, maySend bool) (PaymentResult, error) {
	if !maySend || op.Generation >= mostGenerations || time.Since(t.att.CreatedAt) > within(t.gw.Capabilities().ConfirmWithin) {
		return PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentUnknown)}, nil
	}
	request, err := t.a.d.Box.Open(op.SealedRequest, OperationAAD(order.OperationID(op.OperationID)))
	if err != nil {
		return PaymentResult{}, fault.Wrap(fault.InternalError, "open stored request", err)
	}
	id := order.NewOperationID()
	d := store.OperationDraft{ID: id, Kind: op.Kind, Sealed: t.a.d.Box.Seal(request, OperationAAD(id)), Fingerprint: t.a.d.Box.Fingerprint(request)}
	renewed, err := t.a.d.Store.OperationRenew(ctx, order.AttemptID(t.att.AttemptID), order.OperationID(op.OperationID), d, int(op.Generation)+1)
	if err != nil || !renewed {
		return PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentInProgress)}, err
	}
	w, err := t.a.d.Store.AttemptWork(ctx, order.AttemptID(t.att.AttemptID))
	if err != nil {
		return PaymentResult{}, err
	}
	t.att, t.ops = w.Attempt, w.Operations
	return t.perform(ctx, *t.operation(gateways.Kind(op.Kind)), maySend)
}

// within turns "no limit" into one that never ends.
func within(d time.Duration) time.Duration {
	if d <= 0 {
		return 1<<63 - 1
	}
	return d
}

// send puts the stored bytes on the wire and stores what comes back.
func (t *try) send(ctx context.Context, op sqlcgen.Operation, repeated bool) (PaymentResult, error) {
	request, err := t.a.d.Box.Open(op.SealedRequest, OperationAAD(order.OperationID(op.OperationID)))
	if err != nil {
		return PaymentResult{}, fault.Wrap(fault.InternalError, "open stored request", err)
	}
	kind := gateways.Kind(op.Kind)
	sctx, cancel := sending(ctx, t.claimed, t.gw.Capabilities().SendTimeout)
	defer cancel()
	began := time.Now()
	o, err := t.gw.Send(sctx, kind, gateways.Operation{
		Key: op.OperationID, ProviderPaymentID: t.att.ProviderPaymentID, MerchantReference: t.att.MerchantReference, Request: request, Private: t.private(),
	})
	t.a.calledGateway(t.gw, string(kind), began, err)
	if err == nil {
		if kind == gateways.Capture && o.Outcome == gateways.Pending {
			o.Outcome = gateways.Unknown // "still held" in answer to a capture contradicts itself: a lookup decides
		}
		return t.keep(ctx, o, op, "send")
	}
	f := fault.As(err)
	if f.Class == fault.Unknown && f.Provider.HTTPStatus != 0 && t.gw.Capabilities().NewKeyAfterError[kind] {
		if err := t.a.d.Store.OperationAnswered(ctx, order.OperationID(op.OperationID)); err != nil {
			return PaymentResult{}, err
		}
	}
	if repeated && f.Class != fault.Conflict {
		return PaymentResult{}, err // a refusal of a repeat says nothing about the send before it: look again
	}
	switch f.Class {
	case fault.Invalid, fault.Misconfigured, fault.Declined:
		if kind == gateways.Cancel || kind == gateways.Capture {
			return PaymentResult{}, err // the attempt is as open as before: a person gets it, and each look sends the same request again while its key guards
		}
		// Answered: it was refused and nothing happened. Without an object at the provider nothing ever can.
		final := kind == gateways.Prepare || !t.gw.Capabilities().DeclineLeavesOpen
		return t.keepFault(ctx, f, op, order.Refused, final)
	case fault.Unknown:
		return t.keepFault(ctx, f, op, order.Unknown, false)
	case fault.Conflict:
		return t.settleConflict(ctx, op, f)
	}
	return PaymentResult{}, err // transient, in progress, internal: the operation stays sent without an answer
}

// settleConflict: the provider says that this was done before. Its current state decides, and is asked for at once.
func (t *try) settleConflict(ctx context.Context, op sqlcgen.Operation, f *fault.Error) (PaymentResult, error) {
	o, err := t.look(ctx)
	if err != nil {
		return PaymentResult{}, err
	}
	if o.Outcome == gateways.Untouched || o.Outcome == gateways.NotFound || op.Kind == string(gateways.Capture) && o.Outcome == gateways.Pending {
		return PaymentResult{Outcome: order.Unknown, Code: string(f.Code)}, nil
	}
	return t.keep(ctx, o, op, "lookup")
}
