package e2e

import (
	"context"
	"net/http"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
)

// requestsAgree looks at what went over the wire, where a doubled or changed request shows even when the other side's own
// guard kept it from taking effect.
//
//	S3 every request of one outside write is the same, under one key
//	I4 one key per intent and verb: no second charge beside an unknown one
//	I5 money is linked to the very attempt that asked for it
//	Q6 what we call delivered was taken, unchanged
func (w *world) requestsAgree() {
	w.t.Helper()
	w.stripeRequestsAgree()
	w.issuerRequestsAgree()
	w.paymentsAreTheirAttempts()
	w.deliveriesAgree()
}

func (w *world) stripeRequestsAgree() {
	t := w.t
	t.Helper()
	bodies, keys := map[string]string{}, map[string]string{}
	for _, r := range w.sandbox.Stripe().Writes(stripesim.Filter{}) {
		if !assert.NotEmpty(t, r.Key, "S3: every write has a key: %s", r.Path) {
			continue
		}
		said := r.Path + "\n" + r.Body
		if first, seen := bodies[r.Key]; seen {
			assert.Equal(t, first, said, "S3: the same key carries the same request, byte for byte")
		}
		bodies[r.Key] = said
		subject := r.Path // names the intent, but for the write that makes it
		if strings.HasSuffix(r.Path, "/payment_intents") || strings.HasSuffix(r.Path, "/refunds") {
			subject = r.Body
		}
		if first, seen := keys[subject]; seen {
			assert.Equal(t, first, r.Key, "I4: one operation, one key: %s", r.Path)
		}
		keys[subject] = r.Key
		assert.Equal(t, 1, w.number("SELECT count(*) FROM operations WHERE operation_id = $1 AND sends > 0", r.Key), "rule 2: a request has its operation row, claimed before it was sent: %s", r.Path)
	}
}

func (w *world) issuerRequestsAgree() {
	t := w.t
	t.Helper()
	bodies, doubt := map[string]string{}, map[string]bool{}
	for _, r := range w.sandbox.Issuers().Requests(issuersim.Filter{}) {
		if r.Method != "POST" || !strings.HasSuffix(r.Path, "/issuances") {
			continue
		}
		said := r.Path + "\n" + r.Body
		if first, seen := bodies[r.Key]; seen {
			assert.Equal(t, first, said, "S3: the same operation is the same request, byte for byte")
		}
		bodies[r.Key] = said
		if r.Kind == issuersim.Opaque {
			assert.False(t, doubt[r.Key], "rule 3: an issuer without any guard gets nothing after a request that may have issued: %s", r.Key)
		}
		doubt[r.Key] = r.Status != http.StatusTooManyRequests // the one answer that says that nothing was done, yet
	}
	for key := range bodies {
		assert.Equal(t, 1, w.number("SELECT count(*) FROM operations WHERE operation_id = $1 AND kind = 'issue' AND sends > 0", key), "rule 2: an issuing has its operation row: %s", key)
	}
}

// paymentsAreTheirAttempts compares the reference in the provider's books with the attempt that the payment hangs on.
func (w *world) paymentsAreTheirAttempts() {
	t := w.t
	t.Helper()
	rows, err := w.owner.Query(context.Background(), `SELECT p.provider_payment_id, a.merchant_reference, a.amount_minor, a.order_id = p.order_id,
			EXISTS (SELECT 1 FROM reviews r WHERE r.subject_id = a.attempt_id AND r.code = 'partly_captured')
		FROM payments p JOIN payment_attempts a USING (attempt_id) WHERE p.captured_minor > 0 AND p.matched`)
	require.NoError(t, err)
	for rows.Next() {
		var id, reference string
		var amount int64
		var sameOrder, part bool
		require.NoError(t, rows.Scan(&id, &reference, &amount, &sameOrder, &part))
		assert.True(t, sameOrder, "I5: payment and attempt are of one order: %s", id)
		for _, c := range w.sandbox.Stripe().Charges(stripesim.Filter{Intent: id, CapturedOnly: true}) {
			assert.Equal(t, reference, c.MerchantReference, "I5: linked to the attempt that asked: %s", id)
			if part { // it pays for nothing (moneyAgrees), and a person was told
				assert.Less(t, c.Captured, amount, "S4: a part is less than what was asked for: %s", id)
				continue
			}
			assert.Equal(t, amount, c.Captured, "S4: the amount taken is the amount asked for: %s", id)
		}
	}
	require.NoError(t, rows.Err())
}

func (w *world) deliveriesAgree() {
	t := w.t
	t.Helper()
	taken := map[string]bool{}
	for _, e := range w.sandbox.Receiver().Effects(receiver.Filter{}) {
		taken[e.ID] = true
	}
	for _, d := range w.sandbox.Receiver().Deliveries(receiver.Filter{}) {
		assert.Empty(t, d.Problem, "a repeated event is the same event: %s", d.ID)
	}
	rows, err := w.owner.Query(context.Background(), "SELECT event_id FROM event_deliveries WHERE status = 'delivered'")
	require.NoError(t, err)
	for rows.Next() {
		var id string
		require.NoError(t, rows.Scan(&id))
		assert.True(t, taken[id], "Q6: what we call delivered, the receiver has: %s", id)
	}
	require.NoError(t, rows.Err())
	assert.Zero(t, w.number(`SELECT count(*) FROM orders o WHERE status IN ('paid', 'completed') AND NOT EXISTS
		(SELECT 1 FROM outbox_events e WHERE e.order_id = o.order_id AND e.type = 'order.paid')`), "S8: a paid order has its event")
}
