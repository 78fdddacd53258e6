package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/starter/view"
	"orderflow/store/sqlcgen"
)

// Goal: whoever reads an order reads in words what its money did. Method: the text of an order for each thing that money does on its
// own. Not covered: that the facts are those of the provider (e2e).

func TestMoneyIsToldInWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	whole := view.PaymentRow{ProviderPaymentID: "pi_1", AttemptID: "att_1", Currency: "JPY", Captured: 600, Matched: true}
	with := func(change func(*view.PaymentRow)) view.PaymentRow {
		p := whole
		change(&p)
		return p
	}
	for name, c := range map[string]struct {
		reason  order.ReviewReason
		subject order.SubjectKind
		payment view.PaymentRow
		says    string
	}{
		"ExtraPayment":     {order.ReviewExtraPayment, order.SubjectAttempt, whole, "A second payment of the same order captured money."},
		"LatePayment":      {order.ReviewLatePayment, order.SubjectAttempt, whole, "Money arrived for an order that is expired or canceled."},
		"Correction":       {order.ReviewCorrection, order.SubjectAttempt, with(func(p *view.PaymentRow) { p.Refunded = 200 }), "captured 600 JPY, refunded 200 JPY"},
		"Dispute":          {order.ReviewDispute, order.SubjectAttempt, with(func(p *view.PaymentRow) { p.Dispute, p.Disputed = "open", 600 }), "the buyer's bank disputes 600 JPY of it"},
		"DisputeLost":      {order.ReviewDisputeLost, order.SubjectAttempt, with(func(p *view.PaymentRow) { p.Dispute, p.Disputed = "lost", 600 }), "the buyer's bank has taken 600 JPY back"},
		"DepositTakenBack": {order.ReviewDepositTakenBack, order.SubjectAttempt, with(func(p *view.PaymentRow) { p.TakenBack = true }), "the bank has taken this deposit back"},
		"Orphan":           {order.ReviewOrphanPayment, order.SubjectOrphan, whole, "A provider reported a payment of this account that no order here explains."},
		"Part":             {order.ReviewPaymentMismatch, order.SubjectAttempt, with(func(p *view.PaymentRow) { p.Captured, p.Released = 250, 350 }), "350 JPY was never taken and is released"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := view.ReviewOf(sqlcgen.Review{
				ReviewID: "rev_1", Reason: string(c.reason), SubjectKind: string(c.subject), SubjectID: "att_1", Status: "open", Version: 1, OpenedAt: now.Add(-time.Hour),
			})
			var b strings.Builder
			require.NoError(t, view.Text(&b, view.Order{Payments: []view.PaymentRow{c.payment}, Reviews: []view.Review{r}}, now))
			require.Contains(t, b.String(), c.says)
			require.Contains(t, b.String(), order.GuidanceOf(c.reason).Means)
			require.Equal(t, order.GuidanceOf(c.reason).Means, r.Means, "the API says the same")
		})
	}
}
