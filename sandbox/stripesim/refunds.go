package stripesim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The statuses of a refund beside succeeded.
const (
	refundPending = "pending"
	refundFailed  = "failed"
)

type refund struct {
	id       string
	charge   *charge
	amount   int64
	reason   string
	status   string
	failure  string // why it failed
	metadata map[string]string
	created  time.Time
}

type refundView struct {
	ID            string            `json:"id"`
	Object        string            `json:"object"`
	Amount        int64             `json:"amount"`
	Charge        any               `json:"charge"` // its id, or the charge where the request expands it
	Created       int64             `json:"created"`
	Currency      string            `json:"currency"`
	FailureReason *string           `json:"failure_reason,omitempty"`
	Metadata      map[string]string `json:"metadata"`
	PaymentIntent string            `json:"payment_intent"`
	Reason        *string           `json:"reason"`
	Status        string            `json:"status"`
}

func (f *refund) view() refundView {
	return refundView{
		ID: f.id, Object: "refund", Amount: f.amount, Charge: f.charge.id, Created: f.created.Unix(), Currency: f.charge.intent.currency,
		Metadata: f.metadata, PaymentIntent: f.charge.intent.id, Reason: optional(f.reason), Status: f.status,
		FailureReason: optional(f.failure),
	}
}

// expandedRefund renders a refund with its charge as the request wants it.
func (r *request) expandedRefund(f *refund, name string) refundView {
	v := f.view()
	if slices.Contains(r.params.list("expand"), name) {
		v.Charge = f.charge.view()
	}
	return v
}

func createRefund(s *Sim, r *request, _ string) (any, *apiError) {
	p := r.params
	if bad := p.known("payment_intent", "charge", "amount", "reason", "metadata", "refund_application_fee", "reverse_transfer", "expand", "instructions_email"); bad != nil {
		return nil, bad
	}
	if bad := r.expandable("charge"); bad != nil {
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
	f := &refund{id: id("re"), charge: c, amount: amount, reason: reason, status: succeeded, metadata: meta, created: r.now}
	if s.settings.PendingRefunds {
		f.status = refundPending
	}
	r.account.refunds[f.id] = f
	r.account.refundBy = append(r.account.refundBy, f)
	c.refunded += amount
	if e := s.book.byID[c.id]; e != nil {
		e.Refunded += amount
		e.Refunds++
	}
	s.emit(r, "refund.created", f.view())
	s.emit(r, "charge.refunded", c.view())
	return r.expandedRefund(f, "charge"), nil
}

// release lets go what is held. Before 2025-03-31.basil Stripe makes a refund of it, although nothing was taken.
func (s *Sim) release(r *request, c *charge, amount int64) {
	if amount <= 0 {
		return
	}
	c.released += amount
	f := &refund{id: id("re"), charge: c, amount: amount, status: succeeded, metadata: map[string]string{}, created: r.now}
	r.account.refunds[f.id] = f
	r.account.refundBy = append(r.account.refundBy, f)
	s.emit(r, "charge.refunded", c.view())
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
	case c.disputed():
		return refused("charge_disputed", fmt.Sprintf("Charge %s has been charged back; cannot issue a refund.", c.id))
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

func getRefund(_ *Sim, r *request, id string) (any, *apiError) {
	if f, ok := r.account.refunds[id]; ok {
		return r.expandedRefund(f, "charge"), r.expandable("charge")
	}
	return nil, noSuch("refund", "refund", id)
}

// ErrNoRefund is said of a refund that does not exist or cannot end that way.
var ErrNoRefund = errors.New("there is no such refund that could end so")

// FinishRefund ends a refund as the buyer's bank would: one that is pending succeeds or fails. One that succeeded can still
// fail, when the bank sends the money back; then it counts as not given.
func (s *Sim) FinishRefund(refundID string, ok bool) error {
	s.mu.Lock()
	a, f := s.anyRefund(refundID)
	if f == nil || f.status == refundFailed || (ok && f.status != refundPending) {
		s.mu.Unlock()
		return ErrNoRefund
	}
	r := &request{account: a, now: s.cfg.Now()}
	if f.status = succeeded; !ok {
		f.status, f.failure = refundFailed, "unknown"
		f.charge.refunded -= f.amount
		if e := s.book.byID[f.charge.id]; e != nil {
			e.Refunded -= f.amount
			e.Refunds--
		}
	}
	s.emit(r, "refund.updated", f.view())
	events := s.drainEvents(a)
	s.mu.Unlock()
	s.publish(a, events)
	return nil
}

// anyRefund expects the lock to be held.
func (s *Sim) anyRefund(refundID string) (*account, *refund) {
	for _, a := range s.accounts {
		if f := a.refunds[refundID]; f != nil {
			return a, f
		}
	}
	return nil, nil
}
