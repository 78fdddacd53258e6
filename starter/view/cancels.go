package view

import (
	"time"

	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Cancel is the wish that an order is not carried out, and what came of it.
type Cancel struct {
	ID        order.CancelID `json:"id"`
	Outcome   string         `json:"outcome" enum:"canceled,checking" doc:"checking: a payment or goods that are under way are found out first"`
	Status    order.Status   `json:"status" enum:"waiting,stopping,done"`
	Reason    string         `json:"reason"`
	Code      string         `json:"code,omitempty" doc:"why a person says how much goes back"`
	RefundID  order.RefundID `json:"refund_id,omitempty" doc:"what goes back"`
	CreatedAt time.Time      `json:"created_at"`
	ClosedAt  *time.Time     `json:"closed_at,omitempty"`
}

// CancelOf makes the view of a cancel.
func CancelOf(c sqlcgen.Cancel) Cancel {
	v := Cancel{
		ID: order.CancelID(c.CancelID), Outcome: "checking", Status: order.Status(c.Status), Reason: c.Reason, Code: c.Code,
		CreatedAt: c.CreatedAt.UTC(), ClosedAt: utc(c.ClosedAt),
	}
	if v.Status == order.CancelDone {
		v.Outcome = "canceled"
	}
	if c.RefundID != nil {
		v.RefundID = order.RefundID(*c.RefundID)
	}
	return v
}

func (t *text) canceling(o Order) {
	c := o.Cancel
	if c == nil {
		return
	}
	t.line("\nCancel %s: %s (%s), asked for %s", c.ID, c.Status, c.Reason, stamp(c.CreatedAt))
	switch {
	case c.Status == order.CancelWaiting:
		t.line("  a payment may have gone through: that is found out first, and nothing new is sent meanwhile")
	case c.Status == order.CancelStopping:
		t.line("  the order is canceled; goods that were on their way are found out before money goes back")
	case c.RefundID != "":
		t.line("  gave back by refund %s", c.RefundID)
	case c.Code != "":
		t.line("  a person says how much goes back (%s)", c.Code)
	}
}
