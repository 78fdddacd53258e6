package omisesim

import "net/http"

func captureCharge(s *Sim, r *request, id string) (any, *apiError) {
	c, bad := s.find(r, id)
	if bad != nil {
		return nil, bad
	}
	amount, given, bad := r.params.integer("capture_amount")
	switch {
	case bad != nil:
		return nil, bad
	case c.status == expired:
		return nil, refused(http.StatusBadRequest, "expired_charge", "charge expired")
	case c.status != pending || !c.authorized:
		return nil, refused(http.StatusBadRequest, "failed_capture", "charge is not authorized or was already captured")
	case !given:
		amount = c.amount
	case amount <= 0 || amount > c.amount:
		return nil, refused(http.StatusBadRequest, "invalid_amount", "capture_amount must be between 1 and %d", c.amount)
	}
	s.take(r, c, amount)
	s.emit(r, "charge.capture", c)
	return c.view(r.account.live), nil
}

func reverseCharge(s *Sim, r *request, id string) (any, *apiError) {
	c, bad := s.find(r, id)
	switch {
	case bad != nil:
		return nil, bad
	case c.status == expired:
		return nil, refused(http.StatusBadRequest, "expired_charge", "charge expired")
	case c.status != pending || !c.authorized:
		return nil, refused(http.StatusBadRequest, "failed_reverse", "charge cannot be reversed")
	}
	s.end(r, c, reversed, "charge.reverse")
	return c.view(r.account.live), nil
}

func expireCharge(s *Sim, r *request, id string) (any, *apiError) {
	c, bad := s.find(r, id)
	switch {
	case bad != nil:
		return nil, bad
	case c.status != pending || c.authorized:
		return nil, refused(http.StatusBadRequest, "failed_expire", "charge cannot be expired")
	}
	c.expires = r.now
	s.end(r, c, expired, "charge.expire")
	return c.view(r.account.live), nil
}

// markPaid and markFailed are Omise's own switches for charges in test mode.
func markPaid(s *Sim, r *request, id string) (any, *apiError) { return s.mark(r, id, true) }

func markFailed(s *Sim, r *request, id string) (any, *apiError) { return s.mark(r, id, false) }

func (s *Sim) mark(r *request, id string, paid bool) (any, *apiError) {
	c, bad := s.find(r, id)
	switch {
	case bad != nil:
		return nil, bad
	case r.account.live:
		return nil, badRequest("only charges in test mode can be marked")
	case c.status != pending || c.authorized:
		return nil, refused(http.StatusBadRequest, "invalid_charge", "charge is not waiting for its buyer")
	case paid:
		s.pay(r, c)
	default:
		s.fail(r, c, "payment_rejected")
	}
	return c.view(r.account.live), nil
}
