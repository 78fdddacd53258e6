package activities

import (
	"context"
	"time"

	"orderflow/gateways"
	"orderflow/internal/door"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store"
)

// RefundInput names the refund a step works on.
type RefundInput struct {
	RefundID order.RefundID `json:"refund_id"`
	Bounds   Bounds         `json:"bounds,omitzero"`
}

// RefundResult is what a step learned. The truth is in the database; this is for the workflow's next move.
type RefundResult struct {
	Outcome     order.Outcome `json:"outcome"`
	Code        string        `json:"code,omitempty"`
	LookPayment bool          `json:"look_payment,omitempty"` // the provider's books of the payment differ from ours
}

// SendRefund gives the money back: it sends what was never sent, and looks before it repeats what was (rules 1 and 2). Every
// answer is stored before it returns. An outcome that is not known is an ordinary result here; ResolveRefund goes on with it.
func (a *Activities) SendRefund(ctx context.Context, in RefundInput) (RefundResult, error) {
	defer alive(ctx)()
	r, err := a.giveBack(ctx, in.RefundID)
	if f := fault.As(err); f != nil && settlesLater(f) {
		return RefundResult{Outcome: order.Unknown, Code: string(f.Code)}, nil
	}
	return r, Fail(ctx, err, in.Bounds)
}

// ResolveRefund looks an unknown outcome up, and repeats the stored request where the provider's guard holds. It fails with the
// code of what is missing until there is an answer; the table and the bounds say how often it is asked.
func (a *Activities) ResolveRefund(ctx context.Context, in RefundInput) (RefundResult, error) {
	defer alive(ctx)()
	r, err := a.giveBack(ctx, in.RefundID)
	if err == nil && r.Outcome == order.Unknown {
		code := fault.Code(r.Code)
		if p := fault.PolicyOf(code); code == "" || !p.Retry { // what a first answer said ends no search
			code = fault.PaymentUnknown
		}
		err = fault.New(code, "resolve refund")
	}
	return r, Fail(ctx, err, in.Bounds)
}

// LookRefund asks the provider for the current state of a refund, whatever we believe, and sends nothing.
func (a *Activities) LookRefund(ctx context.Context, in RefundInput) (RefundResult, error) {
	defer alive(ctx)()
	t, err := a.openRefund(ctx, in.RefundID)
	if err != nil {
		return RefundResult{}, Fail(ctx, err, in.Bounds)
	}
	r, err := t.lookAfresh(ctx)
	return r, Fail(ctx, err, in.Bounds)
}

// ReflectRefund writes what was answered into the refund and the payment's books: one transaction, no outside call.
func (a *Activities) ReflectRefund(ctx context.Context, in RefundInput) (RefundReflected, error) {
	r, err := a.d.Store.RefundReflect(ctx, in.RefundID)
	return r, Fail(ctx, err, in.Bounds)
}

// refundTry is one process's work on one refund.
type refundTry struct {
	a    *Activities
	gw   gateways.Gateway
	back gateways.Refunder
	w    store.RefundWork // the refund's version is what answers are stored under (rule 5)

	claimed time.Time // just before the claim of what is sent next
}

func (a *Activities) openRefund(ctx context.Context, id order.RefundID) (*refundTry, error) {
	w, err := a.d.Store.RefundWork(ctx, id)
	if err != nil {
		return nil, err
	}
	gw, err := a.gateway(order.Account{Gateway: w.Refund.Gateway, Name: w.Refund.Account, Environment: w.Refund.Environment})
	if err != nil {
		return nil, err
	}
	back, ok := gw.(gateways.Refunder)
	if !ok || !gw.Capabilities().CanRefund {
		e := fault.New(fault.GatewayMisconfigured, "find gateway")
		e.Why = "refunds_not_configured"
		return nil, e
	}
	return &refundTry{a: a, gw: gw, back: back, w: w}, nil
}

// giveBack performs the refund's one write, at most once unless a repeat is safe.
func (a *Activities) giveBack(ctx context.Context, id order.RefundID) (RefundResult, error) {
	t, err := a.openRefund(ctx, id)
	if err != nil {
		return RefundResult{}, err
	}
	op := t.w.Operation
	if op.FinishedAt != nil {
		if t.unsettled() {
			return t.lookAfresh(ctx)
		}
		return RefundResult{Outcome: order.Outcome(op.Outcome), Code: op.OutcomeCode}, nil
	}
	if op.Sends > 0 {
		return t.resolve(ctx)
	}
	t.claimed = time.Now()
	r, won, err := a.d.Store.RefundClaim(ctx, id, t.gw.Credential())
	if err != nil {
		return RefundResult{}, err
	}
	t.w.Refund = r
	switch {
	case won:
		t.w.Operation.Sends = 1
		return t.send(ctx, false)
	case r.Status == string(order.RefundFailed): // what was noticed meanwhile leaves nothing to give back
		return RefundResult{Outcome: order.Declined, Code: r.Code}, nil
	}
	return RefundResult{Outcome: order.Unknown, Code: string(fault.PaymentInProgress)}, nil // somebody else is sending it now
}

// unsettled: every answer was weighed, and the refund is still open. The send's own answer was stale or did not match, so it decides
// nothing any more (rule 5).
func (t *refundTry) unsettled() bool {
	switch order.Status(t.w.Refund.Status) {
	case order.RefundSent, order.RefundUnknown:
		return t.w.Refund.ObservedSeq == t.w.Refund.ReflectedSeq
	}
	return false
}

func (t *refundTry) lookAfresh(ctx context.Context) (RefundResult, error) {
	seen, err := t.look(ctx)
	if err != nil {
		return RefundResult{}, err
	}
	return t.keep(ctx, seen, "", "lookup")
}

// resolve deals with a refund that was sent and whose answer is not stored. Not finding it is never final: no provider promises
// that its books of refunds are complete at once, and a wrong "nothing went back" gives the money back twice (PC-44).
func (t *refundTry) resolve(ctx context.Context) (RefundResult, error) {
	op := t.w.Operation
	age, err := t.a.d.Store.OperationAge(ctx, order.OperationID(op.OperationID))
	if err != nil {
		return RefundResult{}, err
	}
	seen, err := t.look(ctx)
	if err != nil {
		return RefundResult{}, err
	}
	caps := t.gw.Capabilities()
	switch {
	case seen.Outcome == gateways.Unknown:
		return t.keep(ctx, seen, "", "lookup")
	case seen.Outcome != gateways.NotFound:
		return t.keep(ctx, seen, order.OperationID(op.OperationID), "lookup")
	case notDone(op):
		return t.repeat(ctx)
	case age.First >= caps.RepeatSafe(gateways.Refund, t.w.Attempt.MethodType):
		return RefundResult{Outcome: order.Unknown, Code: string(fault.PaymentUnknown)}, nil
	case age.Last < caps.SendTimeout+caps.SendTimeout/2: // its last send may still be under way
		return RefundResult{Outcome: order.Unknown, Code: string(fault.PaymentNotFound)}, nil
	}
	return t.repeat(ctx)
}

// repeat sends the stored request again under its stored key, as the only one to do so now. There is no other key: one that the
// provider has spoiled leaves the refund to lookups and to a person, and who wants to try again opens another refund (rule 7).
func (t *refundTry) repeat(ctx context.Context) (RefundResult, error) {
	op, unknown := t.w.Operation, RefundResult{Outcome: order.Unknown, Code: string(fault.PaymentUnknown)}
	if op.Credential != "" && op.Credential != t.gw.Credential() {
		return unknown, nil // the API key was rotated meanwhile, and nobody promises that the guard outlives it
	}
	t.claimed = time.Now()
	won, err := t.a.d.Store.RefundClaimAgain(ctx, order.RefundID(t.w.Refund.RefundID), int(op.Sends), t.gw.Credential())
	if err != nil {
		return RefundResult{}, err
	}
	if !won {
		return RefundResult{Outcome: order.Unknown, Code: string(fault.PaymentInProgress)}, nil
	}
	t.w.Operation.Sends++
	return t.send(ctx, !notDone(op))
}

// send puts the stored bytes on the wire and stores what comes back. Doubtful: an earlier send may have given the money back.
func (t *refundTry) send(ctx context.Context, doubtful bool) (RefundResult, error) {
	op := t.w.Operation
	id := order.OperationID(op.OperationID)
	request, err := t.a.d.Box.Open(op.SealedRequest, OperationAAD(id))
	if err != nil {
		return RefundResult{}, fault.Wrap(fault.InternalError, "open stored request", err)
	}
	sctx, cancel := sending(ctx, t.claimed, t.gw.Capabilities().SendTimeout)
	defer cancel()
	began := time.Now()
	seen, err := t.back.SendRefund(sctx, gateways.Operation{
		Key: op.OperationID, ProviderPaymentID: t.w.Payment.ProviderPaymentID, MerchantReference: t.w.Attempt.MerchantReference, Request: request,
		Private: door.Private(t.a.d.Box, t.w.Attempt),
	})
	t.a.calledGateway(t.gw, "refund", began, err)
	if err == nil {
		return t.keep(ctx, seen, id, "send")
	}
	f := fault.As(err)
	if doubtful && f.Class != fault.Conflict {
		return RefundResult{}, err // a refusal of a repeat says nothing about the send before it: look again
	}
	switch f.Class {
	case fault.Invalid, fault.Misconfigured, fault.Declined:
		return t.keepFault(ctx, f, order.Refused)
	case fault.Unknown:
		return t.keepFault(ctx, f, order.Unknown)
	case fault.Conflict:
		return t.settleConflict(ctx, f, doubtful)
	case fault.Transient:
		kctx, cancel := keeping(ctx)
		defer cancel()
		if kerr := t.a.d.Store.OperationNotDone(kctx, id, int(op.Sends), string(f.Code)); kerr != nil {
			return RefundResult{}, kerr
		}
	}
	return RefundResult{}, err // in progress, internal: the operation stays sent without an answer
}

// settleConflict: the provider says that what it has does not fit what we ask: given back before, more than is left, disputed. Its
// books are asked at once. Where they do not show our refund and nothing was in doubt before, its answer stands: it refused.
func (t *refundTry) settleConflict(ctx context.Context, f *fault.Error, doubtful bool) (RefundResult, error) {
	seen, err := t.look(ctx)
	if err != nil {
		return RefundResult{}, err
	}
	r := RefundResult{Outcome: order.Unknown, Code: string(f.Code)}
	switch {
	case seen.Outcome != gateways.NotFound:
		r, err = t.keep(ctx, seen, order.OperationID(t.w.Operation.OperationID), "lookup")
	case !doubtful:
		r, err = t.keepFault(ctx, f, order.Refused)
	}
	r.LookPayment = true
	return r, err
}

// look reads the provider's books of the refund, within the account's rate.
func (t *refundTry) look(ctx context.Context) (gateways.RefundSeen, error) {
	if err := t.a.mayLook(ctx, t.gw.Account()); err != nil {
		return gateways.RefundSeen{}, err
	}
	r := t.w.Refund
	known, err := t.a.d.Store.RefundsKnown(ctx, order.ID(r.OrderID), order.RefundID(r.RefundID))
	if err != nil {
		return gateways.RefundSeen{}, err
	}
	q := gateways.RefundQuery{
		ProviderPaymentID: t.w.Payment.ProviderPaymentID, MerchantReference: t.w.Attempt.MerchantReference, RefundID: r.ProviderRefundID,
		Reference: r.Reference, Amount: money.Amount{Minor: r.AmountMinor, Currency: money.Currency(r.Currency)}, Since: r.CreatedAt,
		Known: known, Private: door.Private(t.a.d.Box, t.w.Attempt),
	}
	if at := t.w.Operation.SentAt; at != nil {
		q.Since = *at
	}
	began := time.Now()
	seen, err := t.back.LookupRefund(ctx, q)
	t.a.calledGateway(t.gw, "refund_lookup", began, err)
	return seen, err
}

func (t *refundTry) keep(ctx context.Context, s gateways.RefundSeen, op order.OperationID, source string) (RefundResult, error) {
	a := t.answer(order.RefundSeen{
		Outcome: order.Outcome(s.Outcome), Account: order.Account{Gateway: s.Account.Gateway, Name: s.Account.Name, Environment: string(s.Account.Environment)},
		ProviderPaymentID: s.ProviderPaymentID, ProviderRefundID: s.RefundID, Reference: s.Reference, Currency: s.Currency, AmountMinor: s.AmountMinor,
		RefundedMinor: s.RefundedMinor, Code: s.Code,
	}, op, source)
	a.ProviderStatus, a.RequestID = s.Status, s.RequestID
	if !s.ProviderTime.IsZero() {
		a.ProviderTime = &s.ProviderTime
	}
	return t.store(ctx, a)
}

func (t *refundTry) keepFault(ctx context.Context, f *fault.Error, outcome order.Outcome) (RefundResult, error) {
	code := string(f.Code)
	if outcome == order.Refused && f.Provider.Code != "" && f.Class != fault.Misconfigured {
		code = f.Provider.Code
	}
	a := t.answer(order.RefundSeen{Outcome: outcome, RefundedMinor: -1, Code: code}, order.OperationID(t.w.Operation.OperationID), "send")
	a.RequestID = f.Provider.RequestID
	return t.store(ctx, a)
}

func (t *refundTry) answer(seen order.RefundSeen, op order.OperationID, source string) store.RefundAnswer {
	seen.ReadVersion, seen.ReadAsks = t.w.Refund.Version, t.w.Refund.LooksAsked
	return store.RefundAnswer{
		Refund: order.RefundID(t.w.Refund.RefundID), Order: order.ID(t.w.Refund.OrderID), Operation: op, Source: source, Seen: seen,
	}
}

func (t *refundTry) store(ctx context.Context, a store.RefundAnswer) (RefundResult, error) {
	kctx, cancel := keeping(ctx)
	defer cancel()
	if err := t.a.d.Store.RefundKeep(kctx, a); err != nil {
		return RefundResult{}, err
	}
	return RefundResult{Outcome: a.Seen.Outcome, Code: a.Seen.Code}, nil
}
