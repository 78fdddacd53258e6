package toss

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

const maxReason = 200

// RefundAccount is where the money of a deposited virtual account goes back to. It is personal data: it lives in the frozen
// request only, which is stored encrypted.
type RefundAccount struct {
	Bank          string `json:"bank"`
	AccountNumber string `json:"accountNumber"`
	HolderName    string `json:"holderName"`
}

// RefundOrder is a cancel that moves money back.
type RefundOrder struct {
	PaymentID  string
	Amount     money.Amount   // what goes back
	Refundable money.Amount   // what was left before, as the last lookup said: the guard against a second refund
	Reason     string         // 1 to 200 characters, shown by Toss
	Account    *RefundAccount // for a deposited virtual account only
}

// refundRequest is its frozen body.
type refundRequest struct {
	CancelReason         string         `json:"cancelReason"`
	CancelAmount         json.Number    `json:"cancelAmount"`
	RefundableAmount     json.Number    `json:"refundableAmount"`
	Currency             string         `json:"currency"`
	RefundReceiveAccount *RefundAccount `json:"refundReceiveAccount,omitempty"`
}

// PlanRefund freezes a refund. Toss keys do not cover the body, and two partial cancels under two keys both succeed, so
// every refund names what must be left before it: the second one fails with NOT_MATCHES_REFUNDABLE_AMOUNT. It is a
// building block: no capability offers it yet.
func (g *Gateway) PlanRefund(r RefundOrder) (gateways.Planned, error) {
	_, takes := currencies[r.Amount.Currency]
	var err error
	switch {
	case !paymentKeyShape.MatchString(r.PaymentID):
		err = errors.New("the payment id is not a Toss paymentKey")
	case !takes || r.Amount.Currency != r.Refundable.Currency:
		err = errors.New("the amount and what is left must be of one currency: KRW, JPY or USD")
	case r.Amount.Minor <= 0 || r.Amount.Minor > r.Refundable.Minor:
		err = errors.New("the amount must be above zero and at most what is left of the payment")
	case r.Reason == "" || !utf8.ValidString(r.Reason) || utf8.RuneCountInString(r.Reason) > maxReason:
		err = errors.New("the reason must be 1 to 200 characters")
	case r.Account != nil && (r.Account.Bank == "" || r.Account.AccountNumber == "" || r.Account.HolderName == ""):
		err = errors.New("the account to refund to needs bank, number and holder")
	}
	if err != nil {
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "toss plan refund", err)
	}
	body, err := json.Marshal(refundRequest{
		CancelReason: r.Reason, CancelAmount: json.Number(r.Amount.Decimal()), RefundableAmount: json.Number(r.Refundable.Decimal()),
		Currency: string(r.Amount.Currency), RefundReceiveAccount: r.Account,
	})
	if err != nil {
		return gateways.Planned{}, fault.Wrap(fault.InternalError, "toss plan refund", errors.New("the refund cannot be encoded"))
	}
	return gateways.Planned{Kind: gateways.Refund, Request: body}, nil
}

// SendRefund puts one frozen refund on the wire, once. A nil error is the payment after it; a conflict means that another
// cancel got in or that nothing is left, and a lookup tells which.
func (g *Gateway) SendRefund(ctx context.Context, op gateways.Operation) (gateways.Observation, error) {
	var frozen refundRequest
	d := json.NewDecoder(bytes.NewReader(op.Request))
	d.DisallowUnknownFields()
	if d.Decode(&frozen) != nil || frozen.RefundableAmount == "" || !paymentKeyShape.MatchString(op.ProviderPaymentID) {
		return gateways.Observation{}, g.unanswered(gateways.Refund, answer{}, errFrozen)
	}
	a, err := g.client.write(ctx, g.timeout, paymentPath(op.ProviderPaymentID)+"/cancel", op.Key, op.Request)
	if err != nil {
		return gateways.Observation{}, g.unanswered(gateways.Refund, a, err)
	}
	if p, ok := decodePayment(a); ok {
		return g.observe(p, a.header), nil
	}
	return gateways.Observation{}, g.refused(gateways.Refund, a)
}
