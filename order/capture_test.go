package order_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/money"
	"orderflow/order"
)

// Goal: money is captured only for a promise that stands, only what is held, and once. Method: every state of order and attempt with
// every kind of amount, judged by sentences of their own. Not covered: who asks (the API), and what the provider makes of it.

func TestMayCapture(t *testing.T) {
	t.Parallel()
	const price = 600
	for _, o := range order.OrderStatuses {
		for _, a := range append([]order.Status{""}, order.AttemptStatuses...) {
			for _, cancel := range []order.Status{"", order.CancelWaiting, order.CancelStopping} {
				for _, held := range []int64{0, price, price + 100} {
					for _, asked := range []int64{0, 400, price} {
						for _, minor := range []int64{-1, 0, 1, 400, price, price + 1} {
							f := order.Facts{Order: order.OrderFacts{Status: o, Cancel: cancel}}
							if a != "" {
								f.Attempt = &order.AttemptFacts{Status: a, Amount: money.Amount{Minor: price, Currency: "JPY"}}
							}
							why := f.MayCapture(held, asked, minor)
							if why == "" {
								require.Equal(t, order.OrderOpen, o, "a promise that stands")
								require.Empty(t, cancel, "that nobody wants to end")
								require.Equal(t, order.AttemptPending, a, "money that waits")
								require.Zero(t, asked, "asked for once")
								require.True(t, minor >= 1 && minor <= price && minor <= held, "no more than is held, or was asked for: %d of %d", minor, held)
								continue
							}
							if why == order.CaptureStands {
								require.Equal(t, asked, minor, "the very same, and nothing new is sent")
							}
							ok := o == order.OrderOpen && cancel == "" && a == order.AttemptPending && asked == 0 && minor >= 1 && minor <= price && minor <= held
							require.False(t, ok, "refused without a reason: %s", why)
						}
					}
				}
			}
		}
	}
}
