package omisesim

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// refund is money given back, or on its way.
type refund struct {
	id       string
	charge   *charge
	amount   int64
	voided   bool
	pending  bool
	metadata map[string]any
	created  time.Time
}

func createRefund(s *Sim, r *request, id string) (any, *apiError) {
	c, bad := s.find(r, id)
	if bad != nil {
		return nil, bad
	}
	amount, _, bad := r.params.integer("amount")
	if bad != nil {
		return nil, bad
	}
	void, bad := r.params.boolean("void", false)
	if bad != nil {
		return nil, bad
	}
	meta, bad := r.params.object("metadata")
	switch {
	case bad != nil:
		return nil, bad
	case r.refuse != "" || c.captured == 0 || amount > c.captured-c.refunded:
		return nil, refused(http.StatusBadRequest, "failed_refund", "charge can't be refunded by this amount")
	case amount <= 0:
		return nil, refused(http.StatusBadRequest, "invalid_amount", "amount must be greater than 0")
	}
	f := &refund{id: r.newID("rfnd"), charge: c, amount: amount, voided: void && amount == c.captured, metadata: meta, created: r.now, pending: s.settings.PendingRefunds}
	c.refunds = append(c.refunds, f)
	c.refunded += amount
	c.entry.Refunded += amount
	c.entry.Refunds++
	s.emitRefund(r, f)
	return f.view(r.account.live), nil
}

func listRefunds(s *Sim, r *request, id string) (any, *apiError) {
	c, bad := s.find(r, id)
	if bad != nil {
		return nil, bad
	}
	return r.list(series{
		length: len(c.refunds), created: func(i int) time.Time { return c.refunds[i].created },
		view: func(i int) any { return c.refunds[i].view(r.account.live) },
	})
}

func (f *refund) view(live bool) map[string]any {
	status := "closed"
	if f.pending {
		status = "pending"
	}
	return map[string]any{
		"object": "refund", "id": f.id, "livemode": live, "location": "/charges/" + f.charge.id + "/refunds/" + f.id,
		"amount": f.amount, "currency": f.charge.currency, "charge": f.charge.id, "voided": f.voided, "status": status,
		"metadata": maps.Clone(f.metadata), "created_at": stamp(f.created),
		"transaction": strings.Replace(f.id, "rfnd_", "trxn_", 1),
	}
}

// ErrNoRefund is said of a refund that does not exist or is not pending.
var ErrNoRefund = errors.New("there is no such refund that is pending")

// FinishRefund closes a pending refund.
func (s *Sim) FinishRefund(refundID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accounts {
		for _, c := range a.ordered {
			for _, f := range c.refunds {
				if f.id == refundID && f.pending {
					f.pending = false
					return nil
				}
			}
		}
	}
	return ErrNoRefund
}

// Refund plays the merchant's dashboard, where somebody gives minor units of a charge back under no reference of ours.
func (s *Sim) Refund(chargeID string, minor int64) error {
	s.mu.Lock()
	for _, a := range s.accounts {
		c := a.charges[chargeID]
		if c == nil {
			continue
		}
		r := &request{account: a, now: s.cfg.Now(), params: params{"amount": strconv.FormatInt(minor, 10)}}
		_, bad := createRefund(s, r, chargeID)
		s.mu.Unlock()
		if bad != nil {
			return ErrNoRefund
		}
		s.publish(a)
		return nil
	}
	s.mu.Unlock()
	return ErrNoRefund
}
