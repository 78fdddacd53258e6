package tosssim

import (
	"encoding/json"
	"unicode/utf8"
)

type cancelOrder struct {
	Reason        string           `json:"cancelReason"`
	Amount        json.Number      `json:"cancelAmount"`
	Refundable    json.Number      `json:"refundableAmount"`
	RefundAccount *json.RawMessage `json:"refundReceiveAccount"`
}

// cancel closes a payment that waits for its deposit, or gives money back.
func cancel(s *Sim, r *request, key string) (any, *apiError) {
	var in cancelOrder
	if bad := decodeBody(r, &in); bad != nil {
		return nil, bad
	}
	if in.Reason == "" || utf8.RuneCountInString(in.Reason) > 200 {
		return nil, invalid("cancelReason is required and at most 200 characters long.")
	}
	p := s.find(r.account, key)
	if p == nil {
		return nil, noPayment()
	}
	if r.refuse != "" {
		return nil, coded(r.refuse, "The cancel was refused.")
	}
	amount, bad := cancelable(p, in)
	if bad != nil {
		return nil, bad
	}
	s.cancelNow(r, p, amount, in.Reason)
	return s.view(p), nil
}

// cancelable is the guard: how much is to go back, or why nothing does.
func cancelable(p *payment, in cancelOrder) (int64, *apiError) {
	amount, ok := p.balance, true
	if in.Amount != "" {
		amount, ok = parseAmount(in.Amount.String(), p.currency)
	}
	switch {
	case !ok || amount < 0 || (in.Amount != "" && amount == 0):
		return 0, invalid("cancelAmount is not an amount of the payment's currency above zero.")
	case p.status == canceled:
		return 0, coded("ALREADY_CANCELED_PAYMENT", "The payment was canceled already.")
	case p.status != waiting && p.status != done && p.status != partialCanceled:
		return 0, coded("NOT_CANCELABLE_PAYMENT", "The payment cannot be canceled.")
	case p.status == waiting && amount != p.total:
		return 0, coded("NOT_ALLOWED_PARTIAL_REFUND_WAITING_DEPOSIT", "Before the deposit only the whole amount can be canceled.")
	}
	if in.Refundable != "" {
		if want, ok := parseAmount(in.Refundable.String(), p.currency); !ok || want != p.balance {
			return 0, coded("NOT_MATCHES_REFUNDABLE_AMOUNT", "refundableAmount is not what is left of the payment.")
		}
	}
	switch {
	case p.balance == 0 || amount > p.balance:
		return 0, coded("NOT_CANCELABLE_AMOUNT", "The amount is more than what is left of the payment.")
	case p.va != nil && p.status != waiting && in.RefundAccount == nil:
		return 0, coded("INVALID_REFUND_ACCOUNT_INFO", "refundReceiveAccount is required for a deposited virtual account.")
	}
	return amount, nil
}

func (s *Sim) cancelNow(r *request, p *payment, amount int64, reason string) {
	deposited := p.status != waiting
	whole := amount == p.total
	p.balance -= amount
	c := &cancellation{amount: amount, left: p.balance, reason: reason, at: r.now, key: transactionKey(), status: done}
	if s.settings.SlowForeignCancels && p.foreign {
		c.status = inProgress
	}
	p.cancels = append(p.cancels, c)
	p.last = c.key
	// Reached in several steps, a full refund stays PARTIAL_CANCELED with nothing left.
	if p.status = partialCanceled; whole {
		p.status = canceled
	}
	if deposited {
		r.account.book(transaction{p: p, key: c.key, status: p.status, amount: -amount, at: r.now})
		s.book.refund(p.key, amount)
		if p.va != nil {
			p.va.refund = "COMPLETED"
		}
	}
	s.changed(p)
}

// Refund plays the merchant's dashboard, where somebody gives minor units of a payment back. It names no reference of ours.
func (s *Sim) Refund(paymentKey string, minor int64) error {
	return s.bank(paymentKey, func(p *payment) error {
		if (p.status != done && p.status != partialCanceled) || minor <= 0 || minor > p.balance {
			return ErrNotPaid
		}
		r := &request{account: s.accounts[p.account], now: s.cfg.Now()}
		s.cancelNow(r, p, minor, "dashboard")
		return nil
	})
}

// FinishCancel ends the cancels of a foreign easy payment that are still in progress, and reports whether there were any.
func (s *Sim) FinishCancel(paymentKey string) bool {
	s.mu.Lock()
	p, any := s.anyPayment(paymentKey), false
	if p != nil {
		for _, c := range p.cancels {
			if c.status == inProgress {
				c.status, any = done, true
				s.cancelChanged(p, c)
			}
		}
	}
	out := s.drain()
	s.mu.Unlock()
	s.publish(out)
	return any
}

// anyPayment expects the lock to be held.
func (s *Sim) anyPayment(key string) *payment {
	for _, acc := range s.accounts {
		if p := acc.payments[key]; p != nil {
			s.refresh(p)
			return p
		}
	}
	return nil
}
