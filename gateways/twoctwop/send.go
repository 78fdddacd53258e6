package twoctwop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// Send puts one stored write on the wire, once. It reads nothing: what an answer leaves open is the caller's to look up.
func (g *Gateway) Send(ctx context.Context, kind gateways.Kind, op gateways.Operation) (gateways.Observation, error) {
	if !shared.UsableKey(op.Key, maxKey) {
		return gateways.Observation{}, unanswered(kind, errNoKey)
	}
	switch kind {
	case gateways.Prepare:
		return g.sendPrepare(ctx, op)
	case gateways.Confirm:
		return g.sendConfirm(ctx, op)
	case gateways.Cancel:
		return g.sendCancel(ctx, op)
	}
	return gateways.Observation{}, fault.Wrap(fault.InternalError, opName(kind), errors.New("the 2C2P gateway does not send this kind of write"))
}

// sendPrepare makes the payment token. The answer names neither payment nor amount, so both are taken from the request that
// it answers. Only a signed answer makes a token: whoever could forge one could make the buyer pay somebody else.
func (g *Gateway) sendPrepare(ctx context.Context, op gateways.Operation) (gateways.Observation, error) {
	const kind = gateways.Prepare
	var req tokenRequest
	if err := thaw(op.Request, &req); err != nil {
		return gateways.Observation{}, unanswered(kind, err)
	}
	amount, err := money.Parse(req.Amount.String(), money.Currency(req.CurrencyCode))
	switch {
	case err != nil:
		return gateways.Observation{}, unanswered(kind, errFrozen)
	case req.MerchantID != g.merchant:
		return gateways.Observation{}, unanswered(kind, errMerchant)
	case op.ProviderPaymentID != "" && op.ProviderPaymentID != req.InvoiceNo:
		return gateways.Observation{}, unanswered(kind, errOtherID)
	}
	body, err := seal(g.secret, op.Request)
	if err != nil {
		return gateways.Observation{}, unanswered(kind, err)
	}
	r, a, err := g.call(ctx, kind, "paymentToken", body)
	if err != nil {
		return gateways.Observation{}, err
	}
	if a.code() != "0000" {
		return gateways.Observation{}, g.refused(kind, r, a.code())
	}
	k := kept{Token: a.text("paymentToken"), Page: a.text("webPaymentUrl"), Made: g.now().Unix(), Amount: amount.Minor, Currency: amount.Currency}
	switch {
	case !a.signed:
		return gateways.Observation{}, g.unusable(kind, r, errUnsigned)
	case !tokenLike(k.Token), !success(r), len(req.PaymentChannel) == 0 && !address(k.Page):
		return gateways.Observation{}, g.unusable(kind, r, shared.ErrNoAnswer) // without a channel the buyer needs the page
	}
	o := g.planned(req.InvoiceNo, amount, a)
	o.Outcome, o.Private = gateways.Untouched, k.seal()
	return o, nil
}

// sendConfirm is Do Payment. Its answer is a flow code: what the buyer has to do next is believed, that something is over is
// a hint to look at once (class conflict), and everything else leaves the outcome open. On the hosted page the buyer sends,
// so there is nothing to put on the wire.
func (g *Gateway) sendConfirm(ctx context.Context, op gateways.Operation) (gateways.Observation, error) {
	const kind = gateways.Confirm
	var plan confirmPlan
	if err := thaw(op.Request, &plan); err != nil {
		return gateways.Observation{}, unanswered(kind, err)
	}
	amount, err := money.Parse(plan.Amount.String(), money.Currency(plan.CurrencyCode))
	if err != nil {
		return gateways.Observation{}, unanswered(kind, errFrozen)
	}
	k, err := keptFor(op, plan.InvoiceNo)
	if err != nil {
		return gateways.Observation{}, unanswered(kind, err)
	}
	if plan.Method == methodRedirect {
		return g.hosted(plan, amount, k)
	}
	body, err := g.withToken(k.Token, plan.Send)
	if err != nil {
		return gateways.Observation{}, unanswered(kind, err)
	}
	r, a, err := g.call(ctx, kind, g.options.PaymentPath, body)
	if err != nil {
		return gateways.Observation{}, err
	}
	if other := a.text("invoiceNo"); other != "" && other != plan.InvoiceNo {
		return gateways.Observation{}, g.unusable(kind, r, errOtherID)
	}
	if a.code() == doneFlow {
		return gateways.Observation{}, g.answered(fault.PaymentAlready, kind, r, doneFlow)
	}
	flow, waits := flowTable[a.code()]
	if !waits {
		return gateways.Observation{}, g.refused(kind, r, a.code())
	}
	next, ok := nextAction(flow, a.text("data"))
	if !ok || !success(r) || a.text("invoiceNo") == "" {
		return gateways.Observation{}, g.unusable(kind, r, shared.ErrNoAnswer)
	}
	k.Next = next
	o := g.planned(plan.InvoiceNo, amount, a)
	o.Outcome, o.NextAction, o.Private = gateways.Pending, next, k.seal()
	return o, nil
}

// hosted sends the buyer to the page that the prepare's answer named.
func (g *Gateway) hosted(plan confirmPlan, amount money.Amount, k kept) (gateways.Observation, error) {
	next, ok := nextAction(flowTable["1001"], k.Page)
	if !ok {
		return gateways.Observation{}, unanswered(gateways.Confirm, errNoToken) // the prepare made sure of the page
	}
	k.Hosted, k.Next = true, next
	o := g.planned(plan.InvoiceNo, amount, answer{})
	o.Outcome, o.NextAction, o.Private = gateways.Pending, next, k.seal()
	return o, nil
}

// sendCancel ends an unpaid token. A signed success closes the payment; an unsigned one is looked up at once, since a
// close that is believed wrongly lets somebody charge again.
func (g *Gateway) sendCancel(ctx context.Context, op gateways.Operation) (gateways.Observation, error) {
	const kind = gateways.Cancel
	var plan cancelPlan
	if err := thaw(op.Request, &plan); err != nil {
		return gateways.Observation{}, unanswered(kind, err)
	}
	k, err := keptFor(op, plan.InvoiceNo)
	if err != nil {
		return gateways.Observation{}, unanswered(kind, err)
	}
	body, err := g.withToken(k.Token, plan.Send)
	if err != nil {
		return gateways.Observation{}, unanswered(kind, err)
	}
	r, a, err := g.call(ctx, kind, g.options.CancelPath, body)
	if err != nil {
		return gateways.Observation{}, err
	}
	if other := a.text("invoiceNo"); other != "" && other != plan.InvoiceNo {
		return gateways.Observation{}, g.unusable(kind, r, errOtherID)
	}
	switch {
	case a.code() == "9040": // a token that is no good any more leaves nothing to cancel, so what became of it is looked up
		return gateways.Observation{}, g.answered(fault.PaymentAlready, kind, r, a.code())
	case a.code() != "0000":
		return gateways.Observation{}, g.refused(kind, r, a.code())
	case !success(r):
		return gateways.Observation{}, g.unusable(kind, r, shared.ErrNoAnswer)
	case !a.signed:
		return gateways.Observation{}, g.answered(fault.PaymentAlready, kind, r, a.code())
	}
	o := g.planned(plan.InvoiceNo, money.Amount{Minor: k.Amount, Currency: k.Currency}, a)
	o.Outcome, o.Final, o.DeclineCode = gateways.Declined, true, "canceled"
	return o, nil
}

// call posts one body and decodes the answer. An answer that cannot be decoded is the fault it returns.
func (g *Gateway) call(ctx context.Context, kind gateways.Kind, path string, body []byte) (reply, answer, error) {
	r, err := g.client.post(ctx, g.base+"/"+path, "application/json", body)
	if err != nil {
		return reply{}, answer{}, unanswered(kind, err)
	}
	a, err := open(g.secret, r.body)
	if err != nil {
		return reply{}, answer{}, g.unusable(kind, r, err)
	}
	return r, a, nil
}

// keptFor finds the payment token for a write, and refuses to send one payment's request with another's token.
func keptFor(op gateways.Operation, invoice string) (kept, error) {
	if op.ProviderPaymentID != invoice || (op.MerchantReference != "" && op.MerchantReference != invoice) {
		return kept{}, errOtherID
	}
	k, ok := unkeep(op.Private)
	if !ok {
		return kept{}, errNoToken
	}
	return k, nil
}

// withToken adds the payment token in front of frozen bytes, and wraps them where that is chosen.
func (g *Gateway) withToken(token string, frozen json.RawMessage) ([]byte, error) {
	if len(frozen) < 3 || frozen[0] != '{' {
		return nil, errFrozen
	}
	body := bytes.Join([][]byte{[]byte(`{"paymentToken":`), encode(token), []byte(","), frozen[1:]}, nil)
	if g.options.WrapAll {
		return seal(g.secret, body)
	}
	return body, nil
}

// planned is an observation of what we asked for; 2C2P's answers to writes do not repeat it.
func (g *Gateway) planned(invoice string, amount money.Amount, a answer) gateways.Observation {
	return gateways.Observation{
		Account: g.account, ProviderPaymentID: invoice, MerchantReference: invoice, Status: a.code(),
		Currency: amount.Currency, AmountMinor: amount.Minor,
	}
}

func success(r reply) bool { return r.status >= 200 && r.status < 300 }
