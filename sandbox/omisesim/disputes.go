package omisesim

import (
	"errors"
	"time"
)

// The statuses of a dispute that the sandbox knows.
const (
	disputeOpen = "open"
	disputeWon  = "won"
	disputeLost = "lost"
)

type dispute struct {
	id      string
	charge  *charge
	amount  int64
	status  string
	created time.Time
}

func (d *dispute) view(live bool) map[string]any {
	return map[string]any{
		"object": "dispute", "id": d.id, "livemode": live, "location": "/disputes/" + d.id, "amount": d.amount, "currency": d.charge.currency,
		"status": d.status, "message": nil, "charge": d.charge.id, "created_at": stamp(d.created),
	}
}

// ErrNoDispute is said of a charge that cannot be disputed (again), or whose dispute is over.
var ErrNoDispute = errors.New("there is no such charge to dispute, or no dispute of it that is open")

// Dispute plays the buyer's bank that argues about minor units of a captured charge.
func (s *Sim) Dispute(chargeID string, minor int64) error {
	return s.bank(chargeID, func(r *request, c *charge) (string, bool) {
		if c.dispute != nil || minor < 1 || minor > c.captured-c.refunded {
			return "", false
		}
		c.dispute = &dispute{id: r.newID("dspt"), charge: c, amount: minor, status: disputeOpen, created: r.now}
		return "dispute.create", true
	})
}

// CloseDispute ends a charge's open dispute: won leaves the money here, lost takes it.
func (s *Sim) CloseDispute(chargeID string, won bool) error {
	return s.bank(chargeID, func(_ *request, c *charge) (string, bool) {
		if c.dispute == nil || c.dispute.status != disputeOpen {
			return "", false
		}
		if c.dispute.status = disputeWon; !won {
			c.dispute.status = disputeLost
			c.entry.Withdrawn += c.dispute.amount
		}
		return "dispute.close", true
	})
}

func (s *Sim) bank(chargeID string, act func(*request, *charge) (string, bool)) error {
	s.mu.Lock()
	for _, a := range s.accounts {
		c := a.charges[chargeID]
		if c == nil {
			continue
		}
		r := &request{account: a, now: s.cfg.Now()}
		kind, ok := act(r, c)
		if ok {
			s.record(r, kind, c.dispute.view(a.live))
		}
		s.mu.Unlock()
		s.publish(a)
		if !ok {
			return ErrNoDispute
		}
		return nil
	}
	s.mu.Unlock()
	return ErrNoDispute
}
