package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"orderflow/internal/config"
	"orderflow/order"
)

// attributesRegistered asks Temporal for the three search attributes. Upserting one that is not registered hangs a workflow,
// so without them the worker leaves them alone.
func attributesRegistered(ctx context.Context, cfg config.Config, tc client.Client) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	opts, err := cfg.Temporal(nil)
	if err != nil {
		return false, err
	}
	ns := opts.Namespace
	if ns == "" {
		ns = client.DefaultNamespace
	}
	res, err := tc.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: ns})
	if err != nil {
		return false, fmt.Errorf("ask Temporal for its search attributes: %w", err)
	}
	for _, name := range []string{order.AttributeOrderStatus, order.AttributeReviewReason, order.AttributeReviewSince} {
		if _, ok := res.CustomAttributes[name]; !ok {
			return false, nil
		}
	}
	return true, nil
}
