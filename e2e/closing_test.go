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

// A unit that cannot even be asked for is a person's, not a run's that tries for ever; what the order owes besides is provided.
func TestAUnitThatCannotBeAskedForIsParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.place("unreadable", grant("g", 1, 500), issued("tickets", "t", 1, 100))
	w.execute("UPDATE orders SET buyer_ref = repeat('b', 300) WHERE order_id = 'unreadable'") // longer than issuers take
	w.call("POST", path("unreadable")+"/payments", "pay-unreadable", payBody("pm_card_visa"))
	w.await("the unit parked", func() bool {
		return w.number("SELECT count(*) FROM reviews WHERE order_id = 'unreadable' AND status = 'open' AND reason = 'issuance_refused'") == 1
	})
	w.await("the rest provided", func() bool {
		return w.number("SELECT count(*) FROM fulfillment_units WHERE order_id = 'unreadable' AND status = 'issued'") == 1
	})
	w.settled("unreadable")
	w.shortHistories("unreadable", 60)
	w.booksAgree()
}
