package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

// Goal: a payment that nobody makes in time is closed, at the provider too, so that the buyer may pay again; and it is closed only
// by what the provider says. Method: the provider's own clock is set short in the sandbox; ours is set back in the database where
// the provider names no end. Not covered: money that comes after the end (the late payments of the store's tests).

func named(names ...string) func(*way) bool {
	return func(x *way) bool {
		for _, n := range names {
			if x.name == n {
				return true
			}
		}
		return false
	}
}

func TestRule04_PaymentsThatTimeEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, publicURL)
	w.sub("the provider says so when it is asked", func(w *world) {
		w.sandbox.Omise().Configure(func(s *omisesim.Settings) { s.PendingFor = time.Second })
		w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.PaymentExpiry = time.Second })
		w.sandbox.Toss().Configure(func(s *tosssim.Settings) { s.DepositWindow = time.Second }) // only virtualAccount.expired tells
		list := w.ask("lapsed", waysThat(named("omise_promptpay", "omise_bank", "omise_3ds", "twoctwop_3ds", "twoctwop_qr", "toss_account")))
		w.refused(list)
		for _, p := range list {
			assert.Zero(w.t, w.number("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'cancel'", p.id), "%s: there was nothing to cancel", p.id)
		}
		w.booksAgree()
		w.sandbox.Omise().Configure(func(s *omisesim.Settings) { s.PendingFor = time.Hour })
		w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.PaymentExpiry = time.Hour })
		w.sandbox.Toss().Configure(func(s *tosssim.Settings) { s.DepositWindow = time.Hour })
	})
	w.sub("only our clock notices", func(w *world) {
		list := w.ask("overdue", waysThat(named("stripe_3ds", "stripe_transfer", "twoctwop_hosted", "twoctwop_3ds", "twoctwop_qr")))
		for _, p := range list {
			looks := "SELECT count(*) FROM observations WHERE order_id = $1 AND source = 'lookup' AND outcome = 'pending'"
			w.await(p.id+": a look that changes nothing", func() bool { return w.number(looks, p.id) > 0 })
		}
		w.standsAt(list, order.AttemptPending)
		// Where the provider names no end, it is a time after the beginning, or none.
		w.execute(`UPDATE payment_attempts SET created_at = created_at - interval '3 hours', due_at = now() - interval '2 minutes' WHERE order_id LIKE 'overdue%'`)
		w.refused(list)
		for _, p := range list {
			assert.Equal(w.t, 1, w.number("SELECT count(*) FROM operations WHERE order_id = $1 AND kind = 'cancel' AND sends > 0", p.id), "%s: it was ended at the provider", p.id)
		}
		w.booksAgree()
	})
	assert.Zero(t, w.number("SELECT count(*) FROM webhook_receipts"), "nobody told anything")
}

// TestRule04_ThePaymentsEndIsTold: the same, where only the provider's webhook tells.
func TestRule04_ThePaymentsEndIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, publicURL, nobodyLooksYet)
	w.webhooks()
	w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.PaymentExpiry = time.Second })
	list := w.ask("told_end", waysThat(named("stripe_konbini", "omise_promptpay", "omise_bank", "omise_3ds", "twoctwop_3ds", "twoctwop_qr")))
	for _, p := range list {
		switch p.psp.gateway {
		case "stripe":
			require.True(t, p.act(w, p.payment, false), p.id) // lets the voucher run out
		case "omise":
			w.omiseCall("/charges/" + p.payment + "/expire")
		case "twoctwop":
			w.await(p.id+" told", func() bool {
				w.sandbox.TwoCTwoP().Act("nobody's", false) // lets its time pass
				return w.number("SELECT count(*) FROM webhook_receipts WHERE merchant_reference = $1", p.payment) > 0
			})
		}
	}
	w.refused(list)
	w.booksAgree()
}

// omiseCall is the merchant at Omise's own dashboard.
func (w *world) omiseCall(path string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", w.sandbox.OmiseURL()+path, strings.NewReader("{}"))
	require.NoError(w.t, err)
	req.SetBasicAuth(w.env["OMISE_SECRET_KEY"], "")
	req.Header.Set("Content-Type", "application/json")
	a := w.do(req)
	require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Raw)
	return a
}
