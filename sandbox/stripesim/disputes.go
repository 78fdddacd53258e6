package stripesim

import (
	"errors"
	"time"
)

// The statuses of a dispute that the sandbox knows.
const (
	needsResponse = "needs_response"
	disputeWon    = "won"
	disputeLost   = "lost"
)

type dispute struct {
	id      string
	charge  *charge
	amount  int64
	status  string
	created time.Time
}

type disputeView struct {
	ID                 string `json:"id"`
	Object             string `json:"object"`
	Amount             int64  `json:"amount"`
	Charge             string `json:"charge"`
	Created            int64  `json:"created"`
	Currency           string `json:"currency"`
	IsChargeRefundable bool   `json:"is_charge_refundable"`
	Livemode           bool   `json:"livemode"`
	PaymentIntent      string `json:"payment_intent"`
	Reason             string `json:"reason"`
	Status             string `json:"status"`
}

func (d *dispute) view() disputeView {
	in := d.charge.intent
	return disputeView{
		ID: d.id, Object: "dispute", Amount: d.amount, Charge: d.charge.id, Created: d.created.Unix(), Currency: in.currency,
		Livemode: in.live, PaymentIntent: in.id, Reason: "fraudulent", Status: d.status,
	}
}

// disputed reports a dispute that forbids refunds: the money is with the bank, or gone.
func (c *charge) disputed() bool {
	for _, d := range c.disputes {
		if d.status != disputeWon {
			return true
		}
	}
	return false
}

func listDisputes(_ *Sim, r *request, _ string) (any, *apiError) {
	if bad := r.params.known("created", "limit", "starting_after", "ending_before", "payment_intent", "charge"); bad != nil {
		return nil, bad
	}
	intent, charge := r.params.text("payment_intent"), r.params.text("charge")
	var all []*dispute
	for _, c := range r.account.chargeBy {
		if (intent == "" || c.intent.id == intent) && (charge == "" || c.id == charge) {
			all = append(all, c.disputes...)
		}
	}
	return r.list(series{
		kind: "dispute", length: len(all),
		id:      func(i int) string { return all[i].id },
		created: func(i int) time.Time { return all[i].created },
		keep:    func(int) bool { return true },
		view:    func(i int) any { return all[i].view() },
	})
}

// ErrNoDispute is said of a payment that cannot be disputed (again), or whose dispute is over.
var ErrNoDispute = errors.New("there is no such payment to dispute, or no dispute of it that is open")

// Dispute plays the buyer's bank that argues about minor units of a captured payment.
func (s *Sim) Dispute(intentID string, minor int64) error {
	return s.bank(intentID, func(r *request, c *charge) bool {
		if c.disputed() || minor < 1 || minor > c.captured-c.refunded {
			return false
		}
		d := &dispute{id: id("dp"), charge: c, amount: minor, status: needsResponse, created: r.now}
		c.disputes = append(c.disputes, d)
		s.emit(r, "charge.dispute.created", d.view())
		return true
	})
}

// CloseDispute ends a payment's open dispute: won leaves the money here, lost takes it.
func (s *Sim) CloseDispute(intentID string, won bool) error {
	return s.bank(intentID, func(r *request, c *charge) bool {
		for _, d := range c.disputes {
			if d.status != needsResponse {
				continue
			}
			if d.status = disputeWon; !won {
				d.status = disputeLost
				if e := s.book.byID[c.id]; e != nil {
					e.Withdrawn += d.amount
				}
			}
			s.emit(r, "charge.dispute.closed", d.view())
			return true
		}
		return false
	})
}

func (s *Sim) bank(intentID string, act func(*request, *charge) bool) error {
	s.mu.Lock()
	for _, a := range s.accounts {
		in := a.intents[intentID]
		if in == nil || in.charge == nil || in.charge.captured == 0 {
			continue
		}
		ok := act(&request{account: a, now: s.cfg.Now()}, in.charge)
		events := s.drainEvents(a)
		s.mu.Unlock()
		s.publish(a, events)
		if !ok {
			return ErrNoDispute
		}
		return nil
	}
	s.mu.Unlock()
	return ErrNoDispute
}
