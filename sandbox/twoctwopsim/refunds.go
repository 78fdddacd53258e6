package twoctwopsim

import (
	"errors"
	"time"
)

// refund is one that was given, or is on its way.
type refund struct {
	minor     int64
	status    string // RP, RF or RFF
	reference string
	at        time.Time
}

// refund gives money back. Nothing tells a repeated partial refund from a second one, so it is given twice.
func (s *Sim) refund(in *invoice, amount string) string {
	minor, ok := parseAmount(amount, in.currency)
	switch {
	case in.status == "RF":
		return "49"
	case in.status == "RP":
		return "42"
	case in.status != "S":
		return "12"
	case !ok || minor <= 0:
		return "14"
	case s.settings.OneRefund && len(in.refunds) > 0:
		return "44"
	}
	return s.giveBack(in, minor)
}

func (s *Sim) giveBack(in *invoice, minor int64) string {
	if in.charge.Refunded+minor > in.charge.Captured {
		return "40"
	}
	in.charge.Refunded += minor
	in.charge.Refunds++
	r := refund{minor: minor, status: "RF", reference: text(12), at: s.cfg.Now()}
	switch {
	case s.settings.PendingRefunds:
		r.status, in.status = "RP", "RP"
	case in.charge.Refunded == in.charge.Captured:
		in.status = "RF"
	}
	in.refunds = append(in.refunds, r)
	return "00"
}

// ErrNoRefund is said of a refund that does not exist or is not pending.
var ErrNoRefund = errors.New("there is no such refund that is pending")

// FinishRefund ends a pending refund: it succeeds, or it fails and counts as not given.
func (s *Sim) FinishRefund(merchant, invoiceNo, reference string, ok bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.invoices[invoiceKey(merchant, invoiceNo)]
	if in == nil {
		return ErrNoRefund
	}
	for i := range in.refunds {
		r := &in.refunds[i]
		if r.reference != reference || r.status != "RP" {
			continue
		}
		if r.status = "RF"; !ok {
			r.status = "RFF"
			in.charge.Refunded -= r.minor
			in.charge.Refunds--
		}
		if in.status = "S"; in.charge.Refunded == in.charge.Captured {
			in.status = "RF"
		}
		return nil
	}
	return ErrNoRefund
}

// Refund plays the merchant's portal, where somebody gives minor units of a payment back.
func (s *Sim) Refund(merchant, invoiceNo string, minor int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.invoices[invoiceKey(merchant, invoiceNo)]
	if in == nil || in.charge == nil || in.charge.Captured == 0 || s.giveBack(in, minor) != "00" {
		return ErrNoRefund
	}
	return nil
}
