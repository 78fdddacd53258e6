package stripesim

import (
	"fmt"
	"slices"
	"time"
)

type charge struct {
	id       string
	intent   *intent
	amount   int64
	captured int64
	refunded int64
	voided   bool
	status   string // succeeded or failed
	method   string
	failure  decline
	created  time.Time
}

type refund struct {
	id       string
	charge   *charge
	amount   int64
	reason   string
	metadata map[string]string
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
		ID: c.id, Object: "charge", Amount: c.amount, AmountCaptured: c.captured, AmountRefunded: c.refunded,
		Captured: c.captured > 0, Created: c.created.Unix(), Currency: in.currency, Customer: optional(in.customer),
		Description: optional(in.description), FailureCode: optional(c.failure.code), FailureMessage: optional(c.failure.message),
		Livemode: in.live, Metadata: in.metadata, Paid: c.status == succeeded, PaymentIntent: in.id, PaymentMethod: c.method,
		Refunded: c.voided || (c.captured > 0 && c.refunded == c.captured), Status: c.status,
	}
}

type refundView struct {
	ID            string            `json:"id"`
	Object        string            `json:"object"`
	Amount        int64             `json:"amount"`
	Charge        string            `json:"charge"`
	Created       int64             `json:"created"`
	Currency      string            `json:"currency"`
	Metadata      map[string]string `json:"metadata"`
	PaymentIntent string            `json:"payment_intent"`
	Reason        *string           `json:"reason"`
	Status        string            `json:"status"`
}

func (f *refund) view() refundView {
	return refundView{
		ID: f.id, Object: "refund", Amount: f.amount, Charge: f.charge.id, Created: f.created.Unix(), Currency: f.charge.intent.currency,
		Metadata: f.metadata, PaymentIntent: f.charge.intent.id, Reason: optional(f.reason), Status: succeeded,
	}
}

func createRefund(s *Sim, r *request, _ string) (any, *apiError) {
	p := r.params
	if bad := p.known("payment_intent", "charge", "amount", "reason", "metadata", "refund_application_fee", "reverse_transfer", "expand", "instructions_email"); bad != nil {
		return nil, bad
	}
	c, bad := r.refundable()
	if bad != nil {
		return nil, bad
	}
	amount, has, bad := p.integer("amount")
	if bad != nil {
		return nil, bad
	}
	if has && amount < 1 {
		return nil, badParameter("parameter_invalid_integer", "amount", "This value must be greater than or equal to 1.")
	}
	meta, bad := p.metadata()
	if bad != nil {
		return nil, bad
	}
	reason := p.text("reason")
	if reason != "" && !slices.Contains([]string{"duplicate", "fraudulent", "requested_by_customer"}, reason) {
		return nil, badParameter("", "reason", "Invalid reason: must be one of duplicate, fraudulent, or requested_by_customer")
	}
	if r.refuse != nil {
		return nil, r.refuse.err()
	}
	left := c.captured - c.refunded
	if !has {
		amount = left
	}
	if bad := refundGuard(c, amount, left); bad != nil {
		return nil, bad
	}
	f := &refund{id: id("re"), charge: c, amount: amount, reason: reason, metadata: meta, created: r.now}
	r.account.refunds[f.id] = f
	r.account.refundBy = append(r.account.refundBy, f)
	c.refunded += amount
	if e := s.book.byID[c.id]; e != nil {
		e.Refunded += amount
		e.Refunds++
	}
	s.emit(r, "refund.created", f.view())
	s.emit(r, "charge.refunded", c.view())
	return f.view(), nil
}

// refundGuard is the last line against paying back more than was taken.
func refundGuard(c *charge, amount, left int64) *apiError {
	refused := func(code, message string) *apiError {
		e := badParameter(code, "amount", "%s", message)
		e.stored = true
		return e
	}
	switch {
	case c.captured == 0:
		return refused("", fmt.Sprintf("This PaymentIntent (%s) does not have a successful charge to refund.", c.intent.id))
	case left == 0:
		return refused("charge_already_refunded", fmt.Sprintf("Charge %s has already been refunded.", c.id))
	case amount > left:
		return refused("", fmt.Sprintf("Refund amount (%d) is greater than unrefunded amount on charge (%d)", amount, left))
	}
	return nil
}

// refundable finds the charge that a refund names by itself or by its intent.
func (r *request) refundable() (*charge, *apiError) {
	byIntent, byCharge := r.params.text("payment_intent"), r.params.text("charge")
	switch {
	case byIntent == "" && byCharge == "":
		return nil, badParameter("parameter_missing", "payment_intent", "One of the following params should be provided for this request: payment_intent or charge.")
	case byIntent != "":
		in, ok := r.account.intents[byIntent]
		if !ok {
			return nil, noSuch("payment_intent", "payment_intent", byIntent)
		}
		if in.charge == nil || (byCharge != "" && in.charge.id != byCharge) {
			e := badParameter("", "payment_intent", "This PaymentIntent (%s) does not have a successful charge to refund.", byIntent)
			e.stored = true
			return nil, e
		}
		return in.charge, nil
	}
	c, ok := r.account.charges[byCharge]
	if !ok {
		return nil, noSuch("charge", "charge", byCharge)
	}
	return c, nil
}

func getCharge(_ *Sim, r *request, id string) (any, *apiError) {
	if c, ok := r.account.charges[id]; ok {
		return c.view(), nil
	}
	return nil, noSuch("charge", "id", id)
}

func getRefund(_ *Sim, r *request, id string) (any, *apiError) {
	if f, ok := r.account.refunds[id]; ok {
		return f.view(), nil
	}
	return nil, noSuch("refund", "refund", id)
}
