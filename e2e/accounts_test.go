package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
)

// Goal: the merchant account is part of every identity: what one account says or is told never moves a payment of another. Method:
// two accounts at one provider, with the same webhook secret, which is the worst case; webhooks go to the wrong address, a worker
// gets the wrong key, and one payment key exists in both. Not covered: live beside test (cases_webhooks_*_test.go).

// secondAccounts gives Stripe, Omise and Toss a second merchant account each.
func secondAccounts(w *world) {
	account := func(gateway, key, public, webhook, base string) map[string]any {
		m := map[string]any{"gateway": gateway, "name": "second", "secret_key": key, "api_base": base, "timeout": "2s"}
		if public != "" {
			m["public_key"] = public
		}
		if webhook != "" {
			m["webhook_secret"] = webhook
		}
		return m
	}
	b, err := json.Marshal(map[string]any{"accounts": []any{
		account("stripe", "sk_test_second", "", stripeWebhook, w.sandbox.StripeURL()),
		account("omise", "skey_test_second", "pkey_test_second", omiseWebhook, w.sandbox.OmiseURL()),
		account("toss", "test_sk_second", "", "", w.sandbox.TossURL()),
	}})
	require.NoError(w.t, err)
	file := filepath.Join(w.logs, "accounts.json")
	require.NoError(w.t, os.WriteFile(file, b, 0o600))
	w.env["ORDERFLOW_CONFIG_FILE"] = file
}

func TestTwoAccountsAtOneProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersDie, secondAccounts, nobodyLooksYet, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "4s"))
	w.sub("each payment belongs to the account that was asked", (*world).eachItsAccount)
	w.sub("a webhook at another account's address moves nothing", (*world).webhookOfAnotherAccount)
	w.sub("the key of another account finds nothing, and that proves nothing", (*world).keyOfAnotherAccount)
	w.booksAgree()
	// The sandbox's books are compared by payment id, so this comes after them and counts by itself.
	w.sub("one payment key at two accounts is two payments", (*world).oneKeyTwoAccounts)
}

// orderAt places and pays an order at one of the two accounts.
func (w *world) orderAt(p *psp, id, account string) answer {
	w.t.Helper()
	w.placeIn(id, p.currency, grant("g", 1, 500), issued("tickets", "t", 1, 100))
	at := *p
	at.account = account
	return w.call("POST", path(id)+"/payments", "pay-"+id, at.payment(id, ""))
}

func (w *world) eachItsAccount() {
	names := map[string]map[string]bool{} // the provider's names of the accounts, by gateway
	for _, p := range []*psp{&stripe, &omise, &toss} {
		names[p.gateway] = map[string]bool{}
		for _, account := range []string{"default", "second"} {
			id := "own_" + p.gateway + "_" + account
			oneOf(w.t, w.orderAt(p, id, account), http.StatusCreated, http.StatusAccepted)
			w.awaitStatus(id, "completed")
			w.settled(id)
			assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payments WHERE order_id = $1 AND gateway = $2 AND account = $3 AND environment = 'test'", id, p.gateway, account), id)
			assert.Equal(w.t, account, w.call("GET", path(id), "", nil).at("attempts", 0, "account"), id)
			names[p.gateway][w.accountInBooks(p, id)] = true
		}
		assert.Len(w.t, names[p.gateway], 2, "%s: two accounts took money, one each", p.gateway)
	}
	w.placeIn("own_third", "JPY", grant("g", 1, 500))
	body := payBody("pm_card_visa")
	body["account"] = "third"
	w.problem(w.call("POST", path("own_third")+"/payments", "own_third", body), http.StatusUnprocessableEntity, "validation")
	w.booksAgree()
}

// accountInBooks is the provider's name of the account that took an order's money.
func (w *world) accountInBooks(p *psp, id string) string {
	w.t.Helper()
	ref := w.references(id)[0]
	var out []string
	switch p.gateway {
	case "stripe":
		for _, c := range w.sandbox.Stripe().Charges(stripesim.Filter{MerchantReference: ref}) {
			out = append(out, c.Account)
		}
	case "omise":
		for _, c := range w.sandbox.Omise().Charges(omisesim.Filter{MerchantReference: ref}) {
			out = append(out, c.Account)
		}
	case "toss":
		for _, c := range w.sandbox.Toss().Charges(tosssim.Filter{MerchantReference: ref}) {
			out = append(out, c.Account)
		}
	}
	require.Len(w.t, out, 1, id)
	return out[0]
}

func (w *world) webhookOfAnotherAccount() {
	one := w.askAt("wrong", "default")
	two := w.askAt("wrong", "second")
	theirs := map[string]string{"default": w.accountInBooks(&omise, "own_omise_default"), "second": w.accountInBooks(&omise, "own_omise_second")}
	aim := func(swapped bool) {
		for ours, name := range theirs {
			if swapped {
				ours = map[string]string{"default": "second", "second": "default"}[ours]
			}
			require.NoError(w.t, w.sandbox.Webhooks().SetTarget("omise/"+name, w.base+"/webhooks/omise/"+ours))
		}
	}
	aim(true)
	for _, p := range []*pending{one, two} {
		require.True(w.t, p.act(w, p.payment, true), p.id)
	}
	w.await("both events weighed", func() bool {
		return w.number("SELECT count(*) FROM webhook_receipts WHERE provider_payment_id IN ($1, $2) AND event_type = 'charge.complete' AND tries > 1", one.payment, two.payment) == 2
	})
	assert.Zero(w.t, w.number("SELECT count(*) FROM webhook_receipts WHERE result = 'look'"), "neither is about a payment of the account it was sent to")
	w.standsAt([]*pending{one, two}, order.AttemptPending)
	assert.Zero(w.t, w.number("SELECT count(*) FROM observations WHERE order_id IN ($1, $2) AND source = 'lookup'", one.id, two.id), "nobody looked")

	aim(false)
	for _, d := range w.sandbox.Webhooks().Log(notify.Filter{Gateway: "omise"}) {
		require.NoError(w.t, w.sandbox.Webhooks().Resend(d.Message))
	}
	w.paidOff([]*pending{one, two})
	w.execute("DELETE FROM webhook_receipts WHERE processed_at IS NULL") // they would become payments that nobody explains, rightly
	w.booksAgree()
}

// askAt begins a PromptPay payment at one of Omise's accounts.
func (w *world) askAt(tag, account string) *pending {
	w.t.Helper()
	at, seller := *waysThat(named("omise_promptpay"))[0], omise
	seller.account, at.psp = account, &seller
	return w.ask(tag+"_"+account, []*way{&at})[0]
}

// keyOfAnotherAccount: somebody mixed the keys up. Every lookup says that there is no such payment.
func (w *world) keyOfAnotherAccount() {
	waiting := w.askAt("mixed", "default")
	require.NoError(w.t, w.sandbox.Webhooks().SetTarget("omise/"+w.accountInBooks(&omise, "own_omise_default"), ""))
	lost := &trial{name: "mixed_stripe", psp: &stripe, fault: faults.Fault{Action: faults.LoseAnswer}, want: done}
	lost.onConfirm()
	blind := w.arm(faults.Fault{Target: faults.Stripe, Method: "GET", Action: faults.Drop})
	answered := w.begin(lost)
	w.fired(lost.name, 1)
	w.killWorkers()
	<-answered
	require.True(w.t, waiting.act(w, waiting.payment, true))
	w.sandbox.Faults().Remove(blind)

	right := map[string]string{"STRIPE_SECRET_KEY": w.env["STRIPE_SECRET_KEY"], "OMISE_SECRET_KEY": w.env["OMISE_SECRET_KEY"], "OMISE_PUBLIC_KEY": w.env["OMISE_PUBLIC_KEY"]}
	w.env["STRIPE_SECRET_KEY"], w.env["OMISE_SECRET_KEY"], w.env["OMISE_PUBLIC_KEY"] = "sk_test_second", "skey_test_second", "pkey_test_second"
	w.startWorker()
	looks := []string{
		w.arm(faults.Fault{Target: faults.Omise, Method: "GET", PathContains: waiting.payment, Action: faults.Late, Delay: 1}),
		w.arm(faults.Fault{Target: faults.Stripe, Method: "GET", Action: faults.Late, Delay: 1}),
	}
	w.await("a look at both", func() bool {
		w.call("GET", path(waiting.id), "", nil) // a reader has it looked at
		one, _ := w.sandbox.Faults().Get(looks[0])
		two, _ := w.sandbox.Faults().Get(looks[1])
		return one.Fired > 0 && two.Fired > 0
	})
	w.awaitReview(lost.name, order.ReviewConfirmUnknown)
	w.standsAt([]*pending{waiting}, order.AttemptPending)
	assert.Equal(w.t, order.AttemptUnknown, w.cameTo(lost.name).attempt)
	assert.Len(w.t, w.writes(lost.name, "/confirm"), 1, "nothing is sent under another account's key")
	w.neverFailed(waiting.id)
	w.neverFailed(lost.name)

	for name, value := range right {
		w.env[name] = value
	}
	w.killWorkers()
	w.startWorker()
	w.await("both found", func() bool {
		for _, id := range []string{waiting.id, lost.name} {
			w.call("GET", path(id), "", nil)
		}
		return w.status(waiting.id) == "completed" && w.status(lost.name) == "completed"
	})
	w.paidOff([]*pending{waiting})
	w.ends(lost)
	w.settled(lost.name)
	w.booksAgree()
}

func (w *world) oneKeyTwoAccounts() {
	for _, account := range []string{"default", "second"} {
		id := "twice_" + account
		w.placeIn(id, toss.currency, grant("g", 1, 500), issued("tickets", "t", 1, 100))
		body := toss.payment("twice", "")
		body["account"] = account
		oneOf(w.t, w.call("POST", path(id)+"/payments", "pay-"+id, body), http.StatusCreated, http.StatusAccepted)
		w.awaitStatus(id, "completed")
		w.settled(id)
		assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payments WHERE order_id = $1 AND account = $2 AND matched AND captured_minor = $3", id, account, trialTotal), id)
	}
	taken := map[string]int{}
	for _, c := range w.sandbox.Toss().Charges(tosssim.Filter{MerchantReference: "ref-twice", CapturedOnly: true}) {
		taken[c.Account]++
	}
	assert.Len(w.t, taken, 2, "each account took its own: %v", taken)
	w.goodsAgree()
	w.noticesAgree()
	w.logAgrees()
}
