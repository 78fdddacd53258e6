package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/stripesim"
)

// Goal: what is open at a provider survives a change of our API key and the end of its own time. Method: the key is rotated while
// a confirm is unknown; a pending payment's deadline is moved into the past. Not covered: keys rotated at Omise, 2C2P and Toss, whose
// simulators know one key per account; what is compared is the same for all four.

// An API key that is rotated while an outcome is unknown: nobody promises that the old key's guard holds under the new one, so
// there are lookups and a person, and no second send.
func TestRule01_ARotatedAPIKeyIsNoReasonToSendAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersDie, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "2s"))
	x := &trial{name: "rotated", fault: faults.Fault{Action: faults.Drop, Times: 1000}, want: done}
	x.onConfirm()
	answered := w.begin(x)
	w.fired(x.name, 2) // it is repeated as long as the key is the same
	w.killWorkers()
	<-answered
	sent := len(w.writes(x.name, "/confirm"))
	require.True(t, w.sandbox.Faults().Remove(x.name))

	old := w.env["STRIPE_SECRET_KEY"]
	w.env["STRIPE_SECRET_KEY"] = "sk_test_e2e+rotated" // another key of the same account
	w.startWorker()
	w.awaitReview(x.name, order.ReviewConfirmUnknown)
	reads := w.sandbox.Stripe().Books(stripesim.Filter{}).Reads
	w.await("it is still looked up", func() bool { return w.sandbox.Stripe().Books(stripesim.Filter{}).Reads > reads })
	assert.Len(t, w.writes(x.name, "/confirm"), sent, "nothing is sent under the new key")
	assert.Equal(t, order.AttemptUnknown, w.cameTo(x.name).attempt)

	w.env["STRIPE_SECRET_KEY"] = old
	w.killWorkers()
	w.startWorker()
	w.ends(x)
	w.settled(x.name)
	w.booksAgree()
}

// A buyer who never comes back from the bank: the provider says nothing when the time is over, so our own clock closes the
// payment there, and the buyer may try again.
func TestRule04_APendingPaymentPastItsTimeIsClosedAtTheProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.place("left", grant("g", 1, 500))
	body := payBody("pm_card_threeDSecure2Required__left")
	body["method"].(map[string]any)["return_url"] = "https://shop.example/left"
	a := w.call("POST", path("left")+"/payments", "k1", body)
	require.Equal(t, 201, a.Status, "%s", a.Raw)
	require.Equal(t, "pending", a.Body["outcome"], "%s", a.Raw)
	w.await("two looks that change nothing", func() bool {
		return w.number("SELECT count(*) FROM observations WHERE order_id = 'left' AND source = 'lookup' AND outcome = 'pending'") >= 2
	})
	require.Equal(t, order.AttemptPending, w.cameTo("left").attempt)

	w.execute("UPDATE payment_attempts SET due_at = now() - interval '2 minutes' WHERE order_id = 'left'")
	w.await("the attempt is closed", func() bool { return w.cameTo("left").attempt == order.AttemptClosed })
	w.buy("left", "k2")
	w.awaitStatus("left", "completed")
	w.settled("left")
	assert.Equal(t, 1, w.captured("left"))
	w.booksAgree()
}
