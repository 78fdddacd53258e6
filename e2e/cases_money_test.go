package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
)

// Goal: the public double-charge and lost-answer cases, driven as a checkout drives them, with the processes dying in
// between. Not covered here: goods (the effects tests) and input (cases_input_test.go).

func TestMoneyCases(t *testing.T) {
	t.Parallel()
	// The processes are killed within the answer budget, so it must be long on a slow machine too.
	w := newWorld(t, workersDie, with("ORDERFLOW_ANSWER_BUDGET", "8s"), with("ORDERFLOW_IDEMPOTENCY_LEASE", "9s"))
	w.sub("PC-01 the API dies after the charge and the buyer pays again with a new key", (*world).pc01)
	w.sub("PC-01 API and worker die after the charge", (*world).pc01Both)
	w.sub("PC-02 forty payments of one order in one moment", (*world).pc02)
	w.sub("PC-03 one cart confirmed from two devices", (*world).pc03)
	w.sub("PC-05 a deadlock after the charge is retried as a local step", (*world).pc05)
	w.sub("PC-05 a reflection that keeps failing is shown as paid and not reflected, and heals", (*world).pc05Stuck)
	w.sub("PC-34 three requests on the wire carry one key", (*world).pc34)
}

func (w *world) pc01() {
	id := "pc01"
	w.place(id, grant("g", 1, 4800))
	f := w.arm(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.Late, Delay: 1500 * time.Millisecond, Times: 1})
	first := w.later("POST", path(id)+"/payments", "pc01-k1", payBody("pm_card_visa"))
	w.fired(f, 1)
	w.await("the money taken", func() bool { return w.captured(id) == 1 })
	w.restartStarter(true)
	assert.Zero(w.t, (<-first).Status, "the buyer's page got no answer")

	second := w.pay(id, "pc01-k2")
	for n := 0; second.at("type") == "urn:orderflow:problem:attempt-unresolved" && n < 10; n++ { // a slow machine: the buyer is told to ask again
		second = w.pay(id, fmt.Sprintf("pc01-k2-%d", n))
	}
	w.problem(second, 409, "already-paid")
	assert.Equal(w.t, "succeeded", second.at("payment", "outcome"), "it answers as paid: %s", second.Raw)
	assert.Equal(w.t, w.references(id)[0], second.at("payment", "merchant_reference"))
	w.paidOnce(id, "pc01-k1")
}

func (w *world) pc01Both() {
	id := "pc01-both"
	w.place(id, grant("g", 1, 4800))
	f := w.arm(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.Late, Delay: 1500 * time.Millisecond, Times: 1})
	first := w.later("POST", path(id)+"/payments", "pc01-both-k1", payBody("pm_card_visa"))
	w.fired(f, 1)
	w.await("the money taken", func() bool { return w.captured(id) == 1 })
	w.killWorkers()
	w.starter.kill()
	assert.Zero(w.t, (<-first).Status)
	w.startStarter()
	second := w.pay(id, "pc01-both-k2") // no worker: it is being found out, and nobody may pay again
	w.problem(second, 409, "attempt-unresolved")
	assert.NotEmpty(w.t, second.Header.Get("Retry-After"))
	assert.Equal(w.t, "checking", second.at("payment", "outcome"), "%s", second.Raw)
	assert.Equal(w.t, false, w.call("GET", path(id), "", nil).at("buyer", "can_pay"), "no pay button while the outcome is open")
	w.startWorker()
	w.awaitStatus(id, "completed")
	w.problem(w.pay(id, "pc01-both-k3"), 409, "already-paid")
	w.paidOnce(id, "pc01-both-k1")
}

// paidOnce ends a case of one order that is paid by its first key.
func (w *world) paidOnce(id, firstKey string) {
	w.t.Helper()
	w.awaitStatus(id, "completed")
	w.settled(id)
	var again answer
	w.await("the crashed holder's lease to pass on", func() bool {
		again = w.pay(id, firstKey)
		return again.at("type") != "urn:orderflow:problem:request-in-progress"
	})
	assert.Equal(w.t, 201, again.Status, "the first key continues its own attempt: %s", again.Raw)
	assert.Equal(w.t, "succeeded", again.at("outcome"))
	assert.Equal(w.t, 1, w.captured(id), "charges")
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1", id), "attempts")
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payments WHERE order_id = $1", id), "payment records")
	w.neverFailed(id)
	w.booksAgree()
}

func (w *world) pc02() {
	id := "pc02"
	w.place(id, grant("g", 2, 300))
	answers := atOnce(40, func(i int) answer {
		key := fmt.Sprintf("pc02-k%d", i)
		if i%2 == 0 {
			key = "pc02-same"
		}
		a, err := w.try("POST", path(id)+"/payments", key, apiKey, payBody("pm_card_visa"))
		assert.NoError(w.t, err)
		return a
	})
	attempt := w.text("SELECT attempt_id FROM payment_attempts WHERE order_id = $1", id)
	for _, a := range answers {
		oneOf(w.t, a, 201, 202, 409)
		if a.Status != 409 {
			assert.Equal(w.t, attempt, a.at("id"), "every payment that was taken is the same one: %s", a.Raw)
			continue
		}
		assert.Contains(w.t, []any{"urn:orderflow:problem:already-paid", "urn:orderflow:problem:attempt-unresolved", "urn:orderflow:problem:request-in-progress"},
			a.at("type"), "%s", a.Raw)
		assert.True(w.t, a.at("type") == "urn:orderflow:problem:already-paid" || a.Header.Get("Retry-After") != "", "a conflict that passes says when: %s", a.Raw)
	}
	w.awaitStatus(id, "completed")
	w.settled(id)
	assert.Len(w.t, w.writes(id, "/confirm"), 1, "at most one reaches the provider")
	assert.Equal(w.t, 1, w.captured(id))
	first, again := w.pay(id, "pc02-same"), w.pay(id, "pc02-same")
	assert.Equal(w.t, first.Status, again.Status)
	assert.Equal(w.t, string(first.Raw), string(again.Raw), "a finished key answers the same bytes")
	w.booksAgree()
}

func (w *world) pc03() {
	id := "pc03 cart C1"
	body := orderBody(id, "JPY", grant("g", 1, 1200))
	placed := atOnce(2, func(i int) answer {
		time.Sleep(time.Duration(i) * 5 * time.Millisecond) // the case's own 0 and 5 ms
		a, err := w.try("POST", "/v1/orders", fmt.Sprintf("pc03-session-%d", i), apiKey, body)
		assert.NoError(w.t, err)
		return a
	})
	won, lost := placed[0], placed[1]
	if won.Status != 201 {
		won, lost = lost, won
	}
	require.Equal(w.t, 201, won.Status, "%s", won.Raw)
	w.problem(lost, 409, "order-exists")
	assert.Equal(w.t, won.Header.Get("Location"), lost.Header.Get("Location"), "the loser is sent to the order that is there")
	assert.Equal(w.t, 200, w.call("GET", lost.Header.Get("Location"), "", nil).Status)

	paid := atOnce(2, func(i int) answer {
		time.Sleep(time.Duration(i) * 5 * time.Millisecond) // the same 0 and 5 ms for the two payments
		a, err := w.try("POST", path(id)+"/payments", fmt.Sprintf("pc03-pay-%d", i), apiKey, payBody("pm_card_visa"))
		assert.NoError(w.t, err)
		return a
	})
	for _, a := range paid {
		oneOf(w.t, a, 201, 202, 409)
	}
	w.awaitStatus(id, "completed")
	w.settled(id)
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM orders WHERE order_id = $1", id))
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1", id))
	assert.Equal(w.t, 1, w.captured(id))
	w.booksAgree()
}

// deadlocks makes the reflect transaction of one order fail with 40P01, the first n times or, with n = 0, always.
func (w *world) deadlocks(id string, n int) (stop func()) {
	w.t.Helper()
	name := strings.ReplaceAll(strings.ReplaceAll(id, "-", "_"), " ", "_")
	w.execute("CREATE SEQUENCE hits_" + name)
	w.execute(fmt.Sprintf(`CREATE FUNCTION deadlock_%[1]s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		DECLARE hit bigint;
		BEGIN
			IF NEW.order_id <> '%[2]s' THEN
				RETURN NEW;
			END IF;
			hit := nextval('hits_%[1]s'); -- a sequence counts on through a rollback
			IF hit <= %[3]d OR %[3]d = 0 THEN
				RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01';
			END IF;
			RETURN NEW;
		END $$`, name, id, n))
	w.execute(fmt.Sprintf("CREATE TRIGGER deadlock_%[1]s BEFORE INSERT ON payments FOR EACH ROW EXECUTE FUNCTION deadlock_%[1]s()", name))
	return func() { w.execute("DROP TRIGGER deadlock_" + name + " ON payments") }
}

// hits is how often the trigger ran.
func (w *world) hits(id string) int {
	w.t.Helper()
	return w.number("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM hits_" + strings.ReplaceAll(id, "-", "_"))
}

func (w *world) pc05() {
	id := "pc05"
	w.place(id, grant("g", 1, 980))
	defer w.deadlocks(id, 3)()
	a := w.pay(id, "pc05-k1")
	oneOf(w.t, a, 201, 202)
	w.awaitStatus(id, "completed")
	w.settled(id)
	assert.Equal(w.t, 4, w.hits(id), "three deadlocks, then it went through")
	assert.Len(w.t, w.writes(id, "/confirm"), 1, "the charge is not repeated for a deadlock of ours")
	w.neverFailed(id)
	w.booksAgree()
}

func (w *world) pc05Stuck() {
	id := "pc05-stuck"
	w.place(id, grant("g", 1, 980))
	stop := w.deadlocks(id, 0)
	a := w.pay(id, "pc05-stuck-k1")
	require.Equal(w.t, 202, a.Status, "%s", a.Raw)
	w.await("many failed tries", func() bool { return w.hits(id) > 12 })
	assert.Equal(w.t, "open", w.status(id))
	assert.Zero(w.t, w.number("SELECT count(*) FROM payments WHERE order_id = $1", id))

	shown := w.call("GET", path(id), "", nil)
	assert.Equal(w.t, "checking", shown.at("states", "payment"), "%s", shown.Raw)
	assert.Equal(w.t, true, shown.at("attempts", 0, "unreflected"), "shown as answered by the provider and not yet reflected: %s", shown.Raw)
	assert.Equal(w.t, false, shown.at("buyer", "can_pay"))
	text, _, code := w.starterCommand(nil, "explain", id)
	assert.Zero(w.t, code)
	assert.Contains(w.t, text, "says succeeded", "the provider's answer is in the history")
	assert.Contains(w.t, text, "not yet reflected")
	w.problem(w.pay(id, "pc05-stuck-k2"), 409, "attempt-unresolved")

	stop()
	w.awaitStatus(id, "completed")
	w.settled(id)
	assert.Equal(w.t, false, w.call("GET", path(id), "", nil).at("attempts", 0, "unreflected") == true)
	assert.Len(w.t, w.writes(id, "/confirm"), 1)
	assert.Equal(w.t, 1, w.captured(id))
	w.neverFailed(id)
	w.booksAgree()
}

func (w *world) pc34() {
	for verb, suffix := range map[string]string{"confirm": "/confirm", "prepare": "/v1/payment_intents"} {
		id := "pc34-" + verb
		w.place(id, grant("g", 1, 700))
		w.arm(faults.Fault{Target: faults.Stripe, Method: "POST", PathSuffix: suffix, Action: faults.Drop, Times: 2})
		a := w.pay(id, id+"-k1")
		oneOf(w.t, a, 201, 202)
		w.awaitStatus(id, "completed")
		w.settled(id)
		sent := w.writes(id, suffix)
		require.Len(w.t, sent, 3, "two cut connections and the one that went through: %s", verb)
		for _, r := range sent {
			assert.Equal(w.t, sent[0].Key, r.Key, "the key of every request")
			assert.Equal(w.t, sent[0].Body, r.Body, "the body of every request")
		}
		assert.Equal(w.t, 1, w.captured(id))
		w.neverFailed(id)
	}
	w.booksAgree()
}

// TestPC07_AGatewayTimeoutIsNotAFailure has the provider charge after our time-out and then go away for longer than anybody
// looks. PC-08 is its second part: every lookup refused beyond the whole budget, and the answer on another day.
func TestPC07_AGatewayTimeoutIsNotAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("STRIPE_TIMEOUT", "1s"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "2s"), with("ORDERFLOW_ANSWER_BUDGET", "1s"))
	w.sub("PC-07 charged after the time-out, then the provider is gone", func(w *world) {
		id := "pc07"
		w.place(id, grant("g", 1, 2500))
		slow := w.arm(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.Slow, Delay: 2500 * time.Millisecond, Times: 1})
		down := w.arm(faults.Fault{Target: faults.Stripe, PathContains: "/pi_", Action: faults.Drop})
		a := w.pay(id, "pc07-k1")
		require.Equal(w.t, 202, a.Status, "%s", a.Raw)
		w.fired(slow, 1)
		w.await("the money taken", func() bool { return w.captured(id) == 1 })
		review := w.awaitReview(id, order.ReviewConfirmUnknown)
		w.stillUnknown(id, down)
		w.sandbox.Faults().Remove(down)
		w.awaitStatus(id, "completed") // the sweep's own look: nobody decided anything
		w.settled(id)
		assert.Equal(w.t, 1, w.number("SELECT count(*) FROM reviews WHERE review_id = $1 AND status = 'resolved' AND resolved_by = 'evidence'", string(review)))
		assert.Len(w.t, w.writes(id, "/confirm"), 1)
		w.neverFailed(id)
		w.booksAgree()
	})
	w.sub("PC-08 every lookup answers 503 beyond the budget, and a person asks on another day", func(w *world) {
		id := "pc08"
		w.place(id, grant("g", 1, 2600))
		w.arm(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.LoseAnswer, Times: 1})
		down := w.arm(faults.Fault{Target: faults.Stripe, PathContains: "/pi_", Action: faults.Status, Status: 503})
		require.Equal(w.t, 202, w.pay(id, "pc08-k1").Status)
		review := w.awaitReview(id, order.ReviewConfirmUnknown)
		w.stillUnknown(id, down)
		w.nobodyLooks(id, down) // so that only the person's question can find it
		w.sandbox.Faults().Remove(down)
		out, errs, code := w.starterCommand(nil, "decide", "--review", string(review), "--decision", "requery_payment", "--actor", "op-1", "--reason", "the provider is back")
		require.Zero(w.t, code, "%s%s", out, errs)
		w.awaitStatus(id, "completed")
		w.settled(id)
		assert.Equal(w.t, 1, w.captured(id))
		w.neverFailed(id)
		w.booksAgree()
	})
}

// nobodyLooks puts every automatic look a day off and waits until those under way have ended.
func (w *world) nobodyLooks(id, down string) {
	w.t.Helper()
	fired, since := -1, time.Now()
	w.await("no look under way", func() bool {
		_, err := w.owner.Exec(w.t.Context(), `WITH a AS (UPDATE payment_attempts SET next_check_at = now() + interval '1 day' WHERE order_id = $1)
			UPDATE orders SET work_at = now() + interval '1 day' WHERE order_id = $1`, id)
		require.NoError(w.t, err)
		if s, _ := w.sandbox.Faults().Get(down); s.Fired != fired {
			fired, since = s.Fired, time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
}

// stillUnknown watches an attempt through several more fruitless looks.
func (w *world) stillUnknown(id, down string) {
	w.t.Helper()
	state, ok := w.sandbox.Faults().Get(down)
	require.True(w.t, ok)
	w.fired(down, state.Fired+3)
	assert.Equal(w.t, "unknown", w.text("SELECT status FROM payment_attempts WHERE order_id = $1", id))
	shown := w.call("GET", path(id), "", nil)
	assert.Equal(w.t, "checking", shown.at("states", "payment"), "%s", shown.Raw)
	assert.Equal(w.t, false, shown.at("buyer", "can_pay"))
	assert.Contains(w.t, shown.at("buyer", "message"), "do not pay again")
	w.problem(w.pay(id, id+"-impatient"), 409, "attempt-unresolved")
	w.neverFailed(id)
	assert.Empty(w.t, w.sandbox.Receiver().Effects(receiver.Filter{OrderID: id}), "nobody was told anything")
}

// TestPC35_TheStoredRequestIsSentAgain kills the worker after its first request and deploys a release that would build other
// requests: one more metadata field, and another way to confirm.
func TestPC35_TheStoredRequestIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersDie, with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "30s"))
	next := variant(t, "gateways/stripe/plan.go", map[string]string{
		`	f.Add("metadata["+referenceField+"]", p.MerchantReference)`: `	f.Add("metadata["+referenceField+"]", p.MerchantReference)
	f.Add("metadata[trace_id]", "trace-of-the-next-release")`,
		`	f.Add("expand[0]", "latest_charge")`: `	f.Add("expand[0]", "latest_charge")
	f.Add("use_stripe_sdk", "false")`,
	})
	suffixes := map[string]string{"pc35-prepare": "/v1/payment_intents", "pc35-confirm": "/confirm"}
	var first []<-chan answer
	for id, suffix := range suffixes {
		w.place(id, grant("g", 1, 900))
		f := w.arm(faults.Fault{Target: faults.Stripe, Method: "POST", PathSuffix: suffix, Action: faults.Hang, Times: 1})
		first = append(first, w.later("POST", path(id)+"/payments", id+"-k1", payBody("pm_card_visa")))
		w.fired(f, 1)
	}
	w.killWorkers()
	w.starter.stop()
	for _, ch := range first {
		<-ch
	}
	w.bin = next
	w.startStarter()
	w.startWorker()
	for id, suffix := range suffixes {
		w.awaitStatus(id, "completed")
		w.settled(id)
		sent := w.writes(id, suffix)
		require.GreaterOrEqual(t, len(sent), 2, id)
		for _, r := range sent {
			assert.Equal(t, sent[0].Body, r.Body, "the bytes of the first release")
			assert.Equal(t, sent[0].Key, r.Key)
			assert.NotContains(t, r.Body, "trace")
		}
		assert.Equal(t, 1, w.captured(id))
		w.neverFailed(id)
	}
	w.place("pc35-new", grant("g", 1, 900)) // the new release does build other requests: without this, nothing is shown
	w.paid("pc35-new", "pc35-new-k1")
	made, confirmed := w.writes("pc35-new", "/v1/payment_intents"), w.writes("pc35-new", "/confirm")
	require.Len(t, made, 1)
	require.Len(t, confirmed, 1)
	fields, err := url.ParseQuery(made[0].Body)
	require.NoError(t, err)
	assert.Equal(t, "trace-of-the-next-release", fields.Get("metadata[trace_id]"))
	assert.Contains(t, confirmed[0].Body, "use_stripe_sdk")
	w.booksAgree()
	assert.Len(t, w.sandbox.Stripe().Charges(stripesim.Filter{CapturedOnly: true}), 3)
}
