package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
)

// Goal: an account that is refused for a moment costs no buyer his second card. A declined attempt whose cancel is refused has
// an owner at once, and is closed by the same request when the account works again.
func TestARefusedCancelIsSentAgainWhenTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := &trial{
		name: "cancel_refused", card: "pm_card_visa_chargeDeclined", want: declined,
		fault: faults.Fault{Action: faults.Status, Status: http.StatusUnauthorized, Code: "api_key_expired"},
	}
	x.aim(faults.Stripe, "POST", "/cancel", "")
	x.want.attempt, x.want.review = order.AttemptDeclined, order.ReviewRepeatedFailure
	w.all([]*trial{x})
	review := order.ReviewID(w.text("SELECT review_id FROM reviews WHERE order_id = $1 AND status = 'open'", x.name))
	res := w.decideInTemporal(x.name, order.Decision{ReviewID: review, Decision: order.DecideRequeryPayment, Actor: "ann", Reason: "the key works again"})
	require.Equal(t, order.Applied, res.Verdict, res.Why)
	w.await("the attempt closed", func() bool {
		return w.text("SELECT status FROM payment_attempts WHERE order_id = $1", x.name) == string(order.AttemptClosed)
	})
	a := w.call("POST", path(x.name)+"/payments", "again-"+x.name, payBody("pm_card_visa"))
	require.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s", a.Raw)
	w.awaitStatus(x.name, "completed")
	w.settled(x.name)
	assert.Equal(t, 1, w.captured(x.name))
	w.booksAgree()
}
