package store

import (
	"context"

	"orderflow/order"
)

// RefundsKnown lists the provider's ids of an order's other refunds: none of them is this one.
func (s *Store) RefundsKnown(ctx context.Context, id order.ID, but order.RefundID) ([]string, error) {
	rows, err := s.q().RefundsByOrder(ctx, string(id))
	var out []string
	for _, r := range rows {
		if r.ProviderRefundID != "" && r.RefundID != string(but) {
			out = append(out, r.ProviderRefundID)
		}
	}
	return out, translate("read refunds", err)
}
