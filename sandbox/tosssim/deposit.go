package tosssim

import "errors"

// Errors of what a bank is asked to do.
var (
	ErrNotWaiting = errors.New("the payment waits for no deposit: it has no virtual account, was paid, canceled, or its deadline has passed")
	ErrNotPaid    = errors.New("the payment holds no money that could be taken or given back")
)

// Deposit plays the buyer who pays into the virtual account.
func (s *Sim) Deposit(paymentKey string) error {
	return s.bank(paymentKey, func(p *payment) error {
		now := s.cfg.Now()
		if p.va == nil || p.status != waiting || now.After(p.va.due) {
			return ErrNotWaiting
		}
		s.paid(p, now)
		s.changed(p)
		return nil
	})
}

// Correct plays the bank that takes a deposit back: a DONE that was true becomes WAITING_FOR_DEPOSIT again.
func (s *Sim) Correct(paymentKey string) error {
	return s.bank(paymentKey, func(p *payment) error {
		if p.va == nil || p.status != done {
			return ErrNotPaid
		}
		now := s.cfg.Now()
		p.last, p.approved, p.status = transactionKey(), nil, waiting
		if s.settings.CorrectionCancels {
			p.status, p.balance = canceled, 0
		}
		s.accounts[p.account].book(transaction{p: p, key: p.last, status: p.status, amount: -p.total, at: now})
		if e := s.book.last(p.key); e != nil {
			e.Refunded, e.Corrected = e.Captured, true
		}
		s.changed(p)
		return nil
	})
}

func (s *Sim) bank(paymentKey string, act func(*payment) error) error {
	s.mu.Lock()
	err := ErrNotWaiting
	if p := s.anyPayment(paymentKey); p != nil {
		err = act(p)
	}
	out := s.drain()
	s.mu.Unlock()
	s.publish(out)
	return err
}
