package toss

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// refundAccount is where the money of a deposited virtual account goes back to. It is personal data: it lives in the frozen
// request only, which is stored encrypted.
type refundAccount struct {
	Bank          string `json:"bank"`
	AccountNumber string `json:"accountNumber"`
	HolderName    string `json:"holderName"`
}

// refundRequest is the frozen body of a cancel that moves money back.
type refundRequest struct {
	CancelReason         string         `json:"cancelReason"`
	CancelAmount         json.Number    `json:"cancelAmount"`
	RefundableAmount     json.Number    `json:"refundableAmount"`
	Currency             string         `json:"currency"`
	RefundReceiveAccount *refundAccount `json:"refundReceiveAccount,omitempty"`
}

// reasonOf is how a refund of ours is known again: Toss has no field for our reference, but keeps the reason of every
// cancel.
func reasonOf(reference string) string { return "refund " + reference }

var refundReference = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// PlanRefund freezes a refund. A key at Toss does not cover the body, and two partial cancels under two keys both succeed,
// so every refund names what must be left before it: a second one fails with NOT_MATCHES_REFUNDABLE_AMOUNT. The buyer's bank
// account is needed for a virtual account that was paid, and for nothing else.
func (g *Gateway) PlanRefund(r gateways.GiveBack) (gateways.Planned, error) {
	if err := validRefund(r); err != nil {
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "toss plan refund", err)
	}
	request := refundRequest{
		CancelReason: reasonOf(r.Reference), CancelAmount: json.Number(r.Amount.Decimal()),
		RefundableAmount: json.Number(r.Left.Decimal()), Currency: string(r.Amount.Currency),
	}
	if r.Payout != (gateways.Payout{}) {
		request.RefundReceiveAccount = &refundAccount{r.Payout.Bank, r.Payout.Account, r.Payout.Holder}
	}
	body, err := json.Marshal(request)
	if err != nil {
		return gateways.Planned{}, fault.Wrap(fault.InternalError, "toss plan refund", errors.New("the refund cannot be encoded"))
	}
	return gateways.Planned{Kind: gateways.Refund, Request: body}, nil
}

func validRefund(r gateways.GiveBack) error {
	_, takes := currencies[r.Amount.Currency]
	p := r.Payout
	switch {
	case !paymentKeyShape.MatchString(r.ProviderPaymentID):
		return errors.New("the provider payment id is not a Toss paymentKey")
	case !refundReference.MatchString(r.Reference):
		return errors.New("the refund's reference must be 1 to 100 letters, digits, dots, - and _")
	case !takes || r.Amount.Currency != r.Left.Currency:
		return errors.New("the amount and what is left must be of one currency: KRW, JPY or USD")
	case r.Amount.Minor <= 0 || r.Amount.Minor > r.Left.Minor:
		return errors.New("the amount must be above zero and at most what is left of the payment")
	case r.Whole && r.Amount != r.Left:
		return errors.New("a refund of everything must give back all that is left")
	case p != (gateways.Payout{}) && (p.Bank == "" || p.Account == "" || p.Holder == ""):
		return errors.New("the buyer's bank account needs bank, number and holder")
	}
	return nil
}

// SendRefund puts one frozen refund on the wire, once. A conflict means that another cancel got in or that nothing is left;
// LookupRefund tells which.
func (g *Gateway) SendRefund(ctx context.Context, op gateways.Operation) (gateways.RefundSeen, error) {
	var frozen refundRequest
	d := json.NewDecoder(bytes.NewReader(op.Request))
	d.DisallowUnknownFields()
	if d.Decode(&frozen) != nil || frozen.RefundableAmount == "" || !paymentKeyShape.MatchString(op.ProviderPaymentID) {
		return gateways.RefundSeen{}, g.unanswered(gateways.Refund, answer{}, errFrozen)
	}
	a, err := g.client.write(ctx, g.timeout, paymentPath(op.ProviderPaymentID)+"/cancel", op.Key, op.Request)
	if err != nil {
		return gateways.RefundSeen{}, g.unanswered(gateways.Refund, a, err)
	}
	p, ok := decodePayment(a)
	if !ok {
		return gateways.RefundSeen{}, g.refused(gateways.Refund, a)
	}
	seen := g.refundIn(p, a, frozen.CancelReason)
	if seen.Outcome == gateways.NotFound {
		seen.Outcome = gateways.Unknown // an answer to a refund that does not show it contradicts itself
	}
	return seen, nil
}

// LookupRefund reads the payment and finds the refund among its cancels, by the reference in its reason.
func (g *Gateway) LookupRefund(ctx context.Context, q gateways.RefundQuery) (gateways.RefundSeen, error) {
	if !paymentKeyShape.MatchString(q.ProviderPaymentID) || !refundReference.MatchString(q.Reference) {
		return gateways.RefundSeen{}, fault.Wrap(fault.InternalError, opName(read),
			errors.New("a lookup of a refund needs the paymentKey and our reference"))
	}
	a, err := g.client.read(ctx, g.timeout, paymentPath(q.ProviderPaymentID))
	if err != nil {
		return gateways.RefundSeen{}, g.unanswered(read, a, err)
	}
	p, ok := decodePayment(a)
	if !ok {
		return gateways.RefundSeen{}, g.refused(read, a) // a payment that was paid and is not found is no fact about its refund
	}
	return g.refundIn(p, a, reasonOf(q.Reference)), nil
}

// refundVerdicts are the states of one cancel. Foreign easy payments give back in their own time.
var refundVerdicts = map[string]gateways.Outcome{
	"DONE": gateways.Succeeded, "IN_PROGRESS": gateways.Pending, "ABORTED": gateways.Declined,
}

// refundIn finds one refund of ours in a payment. Two under one reason would be a refund that happened twice: nothing is
// said then, and a person looks. The same where the payment never took its money: a cancel of the whole closes a virtual
// account that waits for its deposit, and nothing goes back by it.
func (g *Gateway) refundIn(p *payment, a answer, reason string) gateways.RefundSeen {
	seen := gateways.RefundSeen{
		Account: g.account, ProviderPaymentID: p.PaymentKey, Outcome: gateways.NotFound,
		Currency: money.Currency(p.Currency), RefundedMinor: -1, RequestID: traceID(a.header),
	}
	taken := judge(p).outcome == gateways.Succeeded
	if p.balance >= 0 && taken {
		seen.RefundedMinor = p.total - p.balance
	}
	for _, c := range p.Cancels {
		if c.Reason != reason {
			continue
		}
		if seen.Outcome != gateways.NotFound {
			seen.Outcome, seen.Code = gateways.Unknown, "TWO_CANCELS"
			return seen
		}
		amount, ok := c.Amount.minor(seen.Currency)
		seen.Outcome = gateways.Unknown
		if outcome, known := refundVerdicts[c.Status]; known && ok {
			seen.Outcome = outcome
		}
		if !taken && seen.Outcome != gateways.Declined {
			seen.Outcome, seen.Code = gateways.Unknown, "NOT_PAID"
		}
		seen.Reference, seen.RefundID, seen.Status = reason[len(reasonOf("")):], c.TransactionKey, word(c.Status)
		seen.AmountMinor = amount
		if at := korean(c.CanceledAt); !at.IsZero() {
			seen.ProviderTime = at.UTC()
		}
	}
	return seen
}
