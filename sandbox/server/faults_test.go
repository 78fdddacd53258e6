package server_test

// Goal: every fault does what it says, at every party, and the books tell it apart from what the caller saw.
// Method: one request per action and party over real HTTP, then the books.
// Not covered: faults of the network below TCP.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
)

func (b *bundle) issue(kind issuersim.Kind, operation, unit string) (wire, error) {
	body, err := json.Marshal(map[string]string{"operation_id": operation, "order_id": "o-1", "unit_id": unit, "sku": "ticket", "recipient_ref": "r-1"})
	require.NoError(b.t, err)
	return b.call(http.MethodPost, "/issuers/"+string(kind)+"/v1/issuances", string(body), map[string]string{
		"Authorization": "Bearer issuer-token", "Content-Type": "application/json", "Idempotency-Key": operation,
	})
}

func (b *bundle) event(id, body string) map[string]string {
	judge, err := standardwebhooks.NewWebhook(webhookSecret)
	require.NoError(b.t, err)
	now := time.Now()
	signature, err := judge.Sign(id, now, []byte(body))
	require.NoError(b.t, err)
	return map[string]string{
		"Content-Type": "application/json", "webhook-id": id, "webhook-timestamp": strconv.FormatInt(now.Unix(), 10), "webhook-signature": signature,
	}
}

func (b *bundle) deliver(id, body string) (wire, error) {
	return b.call(http.MethodPost, "/receiver", body, b.event(id, body))
}

// party is one simulated party as the table below needs it: one write, and how many effects it has had.
type party struct {
	target  faults.Target
	write   func() (wire, error)
	effects func() int
	last    func() (status int, fault string) // of the last write in the books
	good    int
	refused int
}

func parties(b *bundle) []party {
	intent := b.post("payment_intents", cardForm, "").str("id")
	return []party{
		{
			target: faults.Stripe, good: 200, refused: 402,
			write: func() (wire, error) {
				return b.call(http.MethodPost, "/stripe/v1/payment_intents/"+intent+"/confirm", "payment_method=pm_card_visa", map[string]string{
					"Authorization": "Bearer " + testKey, "Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": "k",
				})
			},
			effects: func() int { return len(b.Stripe().Charges(stripesim.Filter{CapturedOnly: true})) },
			last: func() (int, string) {
				w := b.Stripe().Writes(stripesim.Filter{})
				return w[len(w)-1].Status, w[len(w)-1].Fault
			},
		},
		{
			target: faults.Issuer, good: 201, refused: 422,
			write:   func() (wire, error) { return b.issue(issuersim.Opaque, "op-1", "u-1") },
			effects: func() int { return len(b.Issuers().Issuances(issuersim.Filter{UnitID: "u-1"})) },
			last: func() (int, string) {
				r := b.Issuers().Requests(issuersim.Filter{})
				return r[len(r)-1].Status, r[len(r)-1].Fault
			},
		},
		{
			target: faults.Receiver, good: 200, refused: 400,
			write:   func() (wire, error) { return b.deliver("evt-1", `{"type":"t","data":{"order_id":"o-1"}}`) },
			effects: func() int { return len(b.Receiver().Effects(receiver.Filter{OrderID: "o-1"})) },
			last: func() (int, string) {
				d := b.Receiver().Deliveries(receiver.Filter{})
				return d[len(d)-1].Status, d[len(d)-1].Fault
			},
		},
	}
}

func TestEveryFaultAtEveryParty(t *testing.T) {
	t.Parallel()
	const wait = 60 * time.Millisecond
	for name, c := range map[string]struct {
		fault   faults.Fault
		cut     bool
		status  int // 0 = the party's own good answer, -1 = its refusal
		effects int
	}{
		"LoseAnswer":           {faults.Fault{Action: faults.LoseAnswer}, true, 0, 1},
		"Drop":                 {faults.Fault{Action: faults.Drop}, true, 0, 0},
		"Late":                 {faults.Fault{Action: faults.Late, Delay: wait}, false, 0, 1},
		"Slow":                 {faults.Fault{Action: faults.Slow, Delay: wait}, false, 0, 1},
		"Status":               {faults.Fault{Action: faults.Status, Status: 503}, false, 503, 0},
		"GarbageWithoutEffect": {faults.Fault{Action: faults.Garbage}, false, 200, 0},
		"GarbageWithEffect":    {faults.Fault{Action: faults.Garbage, Effect: true, Status: 502}, false, 502, 1},
		"Refuse":               {faults.Fault{Action: faults.Refuse}, false, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for _, p := range parties(b) {
				f := c.fault
				f.Target, f.Method, f.Times = p.target, http.MethodPost, 1
				b.fault(f)
				started := time.Now()
				w, err := p.write()
				require.Equal(t, c.cut, err != nil, p.target)
				require.GreaterOrEqual(t, time.Since(started), f.Delay)
				want := map[int]int{0: p.good, -1: p.refused}[c.status]
				if c.status > 0 {
					want = c.status
				}
				if c.cut {
					want = 0
				}
				require.Equal(t, want, w.status, p.target)
				require.Equal(t, c.effects, p.effects(), p.target)
				status, fault := p.last()
				require.Equal(t, want, status, "the books know what went out")
				require.Equal(t, string(f.Action), fault)
			}
		})
	}
}

func TestHangHoldsUntilTheCallerGoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, p := range parties(b) {
		id := b.fault(faults.Fault{Target: p.target, Method: http.MethodPost, Times: 1, Action: faults.Hang, Effect: i == 0})
		timeout := *b.http
		timeout.Timeout = 80 * time.Millisecond
		own := b.http
		b.http = &timeout
		_, err := p.write()
		b.http = own
		require.Error(t, err)
		require.NoError(t, b.Faults().AwaitFired(t.Context(), id, 1))
		require.Equal(t, i == 0, p.effects() == 1, p.target)
	}
}

func TestSlowEffectComesAfterTheCallerGaveUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, p := range parties(b) {
		b.fault(faults.Fault{Target: p.target, Method: http.MethodPost, Times: 1, Action: faults.Slow, Delay: 250 * time.Millisecond})
		own := b.http
		timeout := *own
		timeout.Timeout = 50 * time.Millisecond
		b.http = &timeout
		_, err := p.write()
		b.http = own
		require.Error(t, err)
		within(t, "the effect comes all the same", func() bool { return p.effects() == 1 })
	}
}

func TestFaultMatching(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.fault(faults.Fault{
		Target: faults.Stripe, Method: "post", PathSuffix: "/payment_intents", BodyContains: "metadata[merchant_reference]=bad",
		Skip: 1, Times: 2, Action: faults.Status, Status: 500,
	})
	var got []int
	for _, ref := range []string{"good", "bad", "bad", "good", "bad", "bad"} {
		got = append(got, b.post("payment_intents", cardForm+"&metadata[merchant_reference]="+ref, "").status)
	}
	require.Equal(t, []int{200, 200, 500, 200, 500, 200}, got, "other bodies pass, one is skipped, two are hit")
	s, ok := b.Faults().Get(id)
	require.True(t, ok)
	require.Equal(t, 2, s.Fired)

	require.Equal(t, 401, func() int {
		b.fault(faults.Fault{Target: faults.Stripe, Times: 1, Action: faults.Status, Status: 503})
		w, err := b.call(http.MethodPost, "/stripe/v1/payment_intents", cardForm, map[string]string{"Authorization": "Bearer sk_test_x"})
		require.NoError(t, err)
		return w.status
	}(), "a stranger does not use up a fault")
	require.Equal(t, 503, b.post("payment_intents", cardForm, "").status)
}

func TestAdminOverHTTP(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := func(method, path, body string) wire {
		w, err := b.call(method, "/admin/"+path, body, nil)
		require.NoError(t, err)
		return w
	}
	w := admin(http.MethodPost, "faults", `{"id":"f","target":"stripe","action":"late","delay":"20ms","times":1}`)
	require.Equal(t, 201, w.status, w.text)
	b.post("payment_intents", cardForm, "")
	w = admin(http.MethodGet, "faults/f", "")
	require.Equal(t, []any{"20ms", 1.0, true}, []any{w.body["delay"], w.body["fired"], w.body["used_up"]})
	var back faults.State
	require.NoError(t, json.Unmarshal([]byte(w.text), &back))
	require.Equal(t, 20*time.Millisecond, back.Delay)
	require.Equal(t, 1, back.Fired)
	require.Len(t, admin(http.MethodGet, "faults", "").body["faults"], 1)
	require.Equal(t, 422, admin(http.MethodPost, "faults", `{"id":"f","target":"stripe","action":"drop"}`).status, "an id twice")
	require.Equal(t, 400, admin(http.MethodPost, "faults", `{"target":"stripe","action":"drop","path_sufix":"/x"}`).status, "a misspelled match field")
	require.Equal(t, 422, admin(http.MethodPost, "faults", `{"target":"bank","action":"drop"}`).status)
	require.Equal(t, 204, admin(http.MethodDelete, "faults/f", "").status)
	require.Equal(t, 404, admin(http.MethodGet, "faults/f", "").status)

	require.Equal(t, "30ms", admin(http.MethodPost, "latency", `{"stripe":"30ms"}`).body["stripe"])
	started := time.Now()
	b.post("payment_intents", cardForm, "")
	require.GreaterOrEqual(t, time.Since(started), 30*time.Millisecond)
	require.Equal(t, "1s", admin(http.MethodPost, "stripe/settings", `{"key_ttl":"1s"}`).body["key_ttl"])
	require.Equal(t, "1s", admin(http.MethodPost, "issuers/settings", `{"lookup_lag":"1s"}`).body["lookup_lag"])
	require.Len(t, admin(http.MethodGet, "books/stripe", "").body["writes"], 2)
	stranger, err := b.call(http.MethodPost, "/admin/reset", "", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"})
	require.NoError(t, err)
	require.Equal(t, 403, stranger.status, "another site's page in the same browser")
	require.Len(t, admin(http.MethodGet, "books/stripe", "").body["writes"], 2)
	require.Equal(t, 204, admin(http.MethodPost, "reset", "").status)
	require.Empty(t, admin(http.MethodGet, "books/stripe", "").body["writes"])
	require.Equal(t, "0s", admin(http.MethodGet, "latency", "").body["stripe"])
}

func TestCloseLetsGoOfHeldRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.fault(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.Slow, Delay: time.Hour})
	intent := b.post("payment_intents", cardForm, "").str("id")
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = b.call(http.MethodPost, "/stripe/v1/payment_intents/"+intent+"/confirm", "payment_method=pm_card_visa", map[string]string{
			"Authorization": "Bearer " + testKey, "Content-Type": "application/x-www-form-urlencoded",
		})
	})
	require.NoError(t, b.Faults().AwaitFired(t.Context(), id, 1))
	require.NoError(t, b.Close())
	wg.Wait()
	require.Empty(t, b.Stripe().Charges(stripesim.Filter{}))
}

func TestAReleasedFaultLetsItsRequestsDoTheirWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.fault(faults.Fault{Target: faults.Stripe, PathSuffix: "/confirm", Action: faults.Slow, Delay: time.Hour})
	intent := b.post("payment_intents", cardForm, "").str("id")
	confirm := func() wire {
		w, _ := b.call(http.MethodPost, "/stripe/v1/payment_intents/"+intent+"/confirm", "payment_method=pm_card_visa", map[string]string{
			"Authorization": "Bearer " + testKey, "Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": "one-key",
		})
		return w
	}
	first := make(chan wire, 1)
	go func() { first <- confirm() }()
	require.NoError(t, b.Faults().AwaitFired(t.Context(), id, 1))
	require.Equal(t, http.StatusConflict, confirm().status, "the held request holds its key")
	require.Empty(t, b.Stripe().Charges(stripesim.Filter{}))
	require.True(t, b.Faults().Release(id))
	require.True(t, b.Faults().Release(id), "twice is once")
	require.False(t, b.Faults().Release("nope"))
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Len(t, b.Stripe().Charges(stripesim.Filter{}), 1)
}

func TestAwaitFiredEndsWithItsContext(t *testing.T) {
	t.Parallel()
	in := faults.New()
	id, err := in.Add(faults.Fault{Target: faults.Stripe, Action: faults.Drop})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, in.AwaitFired(ctx, id, 1), context.Canceled)
	require.Error(t, in.AwaitFired(t.Context(), "nope", 1))
}

func TestTakenPortIsExplained(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second := setup(t)
	require.NoError(t, second.Close())
	err := second.Start(b.Addr())
	require.ErrorContains(t, err, fmt.Sprintf("the address %s is taken by another program", b.Addr()))
}

func TestResetForgetsRequestsAtWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, p := range parties(b)[:2] {
		id := b.fault(faults.Fault{Target: p.target, Method: http.MethodPost, Times: 1, Action: faults.Slow, Delay: 100 * time.Millisecond})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = p.write() })
		require.NoError(t, b.Faults().AwaitFired(t.Context(), id, 1))
		within(t, "the request is in the books", func() bool {
			return len(b.Stripe().Writes(stripesim.Filter{Key: "k"}))+len(b.Issuers().Requests(issuersim.Filter{})) > 0
		})
		b.Stripe().Reset()
		b.Issuers().Reset()
		wg.Wait()
		require.Zero(t, p.effects(), "nothing of the old books comes into the new ones")
	}
}
