package stripesim

import "time"

type charge struct {
	id       string
	intent   *intent
	amount   int64
	captured int64
	refunded int64
	released int64 // of a hold; this version calls it refunded
	disputes []*dispute
	voided   bool
	status   string // succeeded or failed
	method   string
	failure  decline
	created  time.Time
}

func (a *account) addCharge(c *charge) {
	a.charges[c.id] = c
	a.chargeBy = append(a.chargeBy, c)
}

type chargeView struct {
	ID             string            `json:"id"`
	Object         string            `json:"object"`
	Amount         int64             `json:"amount"`
	AmountCaptured int64             `json:"amount_captured"`
	AmountRefunded int64             `json:"amount_refunded"`
	Captured       bool              `json:"captured"`
	Created        int64             `json:"created"`
	Currency       string            `json:"currency"`
	Customer       *string           `json:"customer"`
	Description    *string           `json:"description"`
	Disputed       bool              `json:"disputed"`
	FailureCode    *string           `json:"failure_code"`
	FailureMessage *string           `json:"failure_message"`
	Livemode       bool              `json:"livemode"`
	Metadata       map[string]string `json:"metadata"`
	Paid           bool              `json:"paid"`
	PaymentIntent  string            `json:"payment_intent"`
	PaymentMethod  string            `json:"payment_method"`
	Refunded       bool              `json:"refunded"`
	Status         string            `json:"status"`
}

func (c *charge) view() chargeView {
	in := c.intent
	return chargeView{
		ID: c.id, Object: "charge", Amount: c.amount, AmountCaptured: c.captured, AmountRefunded: c.refunded + c.released,
		Captured: c.captured > 0, Created: c.created.Unix(), Currency: in.currency, Customer: optional(in.customer),
		Description: optional(in.description), Disputed: len(c.disputes) > 0, FailureCode: optional(c.failure.code), FailureMessage: optional(c.failure.message),
		Livemode: in.live, Metadata: in.metadata, Paid: c.status == succeeded, PaymentIntent: in.id, PaymentMethod: c.method,
		Refunded: c.voided || (c.captured > 0 && c.refunded+c.released == c.amount), Status: c.status,
	}
}

func getCharge(_ *Sim, r *request, id string) (any, *apiError) {
	if c, ok := r.account.charges[id]; ok {
		return c.view(), nil
	}
	return nil, noSuch("charge", "id", id)
}
