package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"orderflow/activities"
	"orderflow/internal/fault"
	"orderflow/order"
)

// holding is side with money that is held.
type holding struct {
	*side
	load    func() (activities.Loaded, error)
	capture func() (activities.PaymentResult, error)
}

func (h *holding) LoadOrder(ctx context.Context, _ activities.OrderInput) (activities.Loaded, error) {
	h.did(ctx)
	f, err := h.load()
	return f, activities.Fail(ctx, err, activities.Bounds{})
}

func (h *holding) CapturePayment(ctx context.Context, in activities.AttemptInput) (activities.PaymentResult, error) {
	h.did(ctx)
	r, err := h.capture()
	return r, activities.Fail(ctx, err, in.Bounds)
}

// The facts may be on their way from a slow database when the capture is asked for, and not know it yet.
func TestACaptureAskedForDuringALoadIsMade(t *testing.T) {
	t.Parallel()
	for name, began := range map[string]bool{"AtTheStart": false, "Later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newSide(order.AttemptPending)
			d.look = func() (activities.PaymentResult, error) { return activities.PaymentResult{Outcome: order.Pending}, nil }
			slow, asked, after := !began, false, 0
			h := &holding{side: d, capture: succeeds(d), load: func() (activities.Loaded, error) {
				if slow && !asked {
					return activities.Loaded{}, fault.New(fault.DatabaseUnavailable, "test")
				}
				if asked {
					after++
				}
				f := d.facts
				f.Attempts = append([]activities.AttemptHead(nil), f.Attempts...)
				if len(f.Attempts) > 0 {
					f.Attempts[0].Capture = after > 1 && f.Attempts[0].Status == order.AttemptPending // the first was read before it was stored
				}
				return f, nil
			}}
			env := environment(t, d)
			env.RegisterActivity(h)
			start := env.Now()
			at := 30 * time.Second
			if began {
				env.RegisterDelayedCallback(func() {
					slow = true
					env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "webhook"})
				}, time.Minute)
				at += time.Minute
			}
			var result order.SubmitResult
			env.RegisterDelayedCallback(func() {
				asked = true
				env.UpdateWorkflow(order.UpdateCapture, "c-1", &testsuite.TestUpdateCallback{
					OnAccept: func() {}, OnReject: func(err error) { t.Errorf("rejected: %v", err) },
					OnComplete: func(r any, err error) {
						require.NoError(t, err)
						result = r.(order.SubmitResult)
					},
				}, order.CapturePayment{AttemptID: attempt})
			}, at)
			env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
			require.NoError(t, env.GetWorkflowError())
			assert.Equal(t, 1, d.calls["CapturePayment"])
			assert.Equal(t, order.AttemptSucceeded, result.Status)
			assert.Less(t, env.Now().Sub(start), time.Hour, "no sweep was needed")
		})
	}
}
