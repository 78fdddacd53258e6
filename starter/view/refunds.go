package view

import (
	"time"

	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Refund is one try to give money back. The buyer's bank account is not in it: nobody can read it any more.
type Refund struct {
	ID               order.RefundID  `json:"id"`
	Outcome          string          `json:"outcome" enum:"succeeded,pending,failed,checking"`
	Status           order.Status    `json:"status"`
	Code             string          `json:"code,omitempty" doc:"why it failed, or what is wrong"`
	Reason           string          `json:"reason"`
	Amount           int64           `json:"amount" doc:"minor units"`
	Currency         string          `json:"currency"`
	AttemptID        order.AttemptID `json:"attempt_id" doc:"whose money goes back"`
	Reference        string          `json:"reference" doc:"what the provider knows this refund by, where it keeps one"`
	ProviderRefundID string          `json:"provider_refund_id,omitempty"`
	Unreflected      bool            `json:"unreflected,omitempty" doc:"the provider answered, and the answer is not yet written into the order"`
	CreatedAt        time.Time       `json:"created_at"`
	ClosedAt         *time.Time      `json:"closed_at,omitempty" doc:"when it last succeeded or failed; banks turn either into the other, rarely"`
}

// RefundOf makes the view of one refund.
func RefundOf(r sqlcgen.Refund) Refund {
	return Refund{
		ID: order.RefundID(r.RefundID), Outcome: RefundOutcomeOf(order.Status(r.Status)), Status: order.Status(r.Status), Code: r.Code, Reason: r.Reason,
		Amount: r.AmountMinor, Currency: r.Currency, AttemptID: order.AttemptID(r.AttemptID), Reference: r.Reference,
		ProviderRefundID: r.ProviderRefundID, Unreflected: r.ObservedSeq > r.ReflectedSeq, CreatedAt: r.CreatedAt.UTC(), ClosedAt: utc(r.ClosedAt),
	}
}

// RefundOutcomeOf is what one refund came to, in the API's words.
func RefundOutcomeOf(s order.Status) string {
	switch s {
	case order.RefundSucceeded:
		return "succeeded"
	case order.RefundPending:
		return "pending"
	case order.RefundFailed:
		return "failed"
	}
	return "checking" // requested, sent, unknown: the money may have gone back
}

func refundsOf(rows []sqlcgen.Refund) []Refund {
	out := make([]Refund, 0, len(rows))
	for _, r := range rows {
		out = append(out, RefundOf(r))
	}
	return out
}

func (t *text) refunds(o Order) {
	for _, r := range o.Refunds {
		t.line("  refund %s: %s%s  %s of attempt %s, %s", r.ID, r.Status, because(r.Code), amount(r.Amount, r.Currency), r.AttemptID, r.Reason)
		t.line("    known to the provider as %s%s", r.Reference, orNothing(", refund ", r.ProviderRefundID))
		if r.Unreflected {
			t.line("    the provider's last answer is stored and not yet reflected in the order; the step is retried by itself")
		}
	}
}
