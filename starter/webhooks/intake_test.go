package webhooks_test

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/starter/webhooks"
)

// Goal: what is answered 200 is stored, once; what cannot be proven changes nothing; and neither depends on Temporal. Method: real
// PostgreSQL and real HTTP through the API's listener; the provider is a fake that signs like one. Not covered: what the looks find,
// which is the workflow's business.

// PC-11, PC-12.
func TestFiftyCopiesAtOnceAreOneRowAndOneLook(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	a := b.becomes(b.attempt(), order.Unknown)
	var all sync.WaitGroup
	statuses := make([]int, 50)
	for i := range statuses {
		all.Go(func() { statuses[i], _ = b.try(bodyOf(about(a, "evt_1", gateways.Succeeded))) })
	}
	all.Wait()
	for _, s := range statuses {
		require.Equal(t, http.StatusOK, s)
	}
	b.quiet()
	require.Equal(t, 1, b.count("SELECT count(*) FROM webhook_receipts"))
	require.Equal(t, 1, b.runs.of(order.ID(a.OrderID)))
	require.Equal(t, "look", b.result("evt_1"))
}

// PC-24, PC-25, PC-53, S15.
func TestWhatIsRefusedChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	a := b.becomes(b.attempt(), order.Unknown)
	b.holds(a, "the-payments-own-secret")
	good := about(a, "evt_1", gateways.Succeeded)
	at := func(d time.Duration) option {
		return func(r *http.Request) {
			unix := time.Now().Add(d).Unix()
			r.Header.Set("Event-Time", strconv.FormatInt(unix, 10))
			r.Header.Set("Event-Signature", sign(unix, bodyOf(good)))
		}
	}
	path := func(p string) option { return func(r *http.Request) { r.URL.Path = p } }
	bearing := func(s *string) []byte {
		e := good
		e.Proof, e.Secret = gateways.ProofSecret, s
		return bodyOf(e)
	}
	wrong, empty, now := "another secret", "", time.Now().Unix()
	signed := header("Event-Signature", sign(now, bodyOf(good)))
	timed := header("Event-Time", strconv.FormatInt(now, 10))
	for _, c := range []struct {
		name   string
		body   []byte
		opts   []option
		status int
	}{
		{"OneByteMore", append(bodyOf(good), '\n'), []option{timed, signed}, 401},
		{"OtherSpacing", bytes.Replace(bodyOf(good), []byte(`","`), []byte(`", "`), 1), []option{timed, signed}, 401},
		{"ByteOrderMark", append([]byte("\xef\xbb\xbf"), bodyOf(good)...), []option{timed, signed}, 400},
		{"Unsigned", bodyOf(good), []option{header("Event-Signature", "")}, 401},
		{"SignatureOfNoMeaning", bodyOf(good), []option{header("Event-Signature", "x")}, 401},
		{"TooOld", bodyOf(good), []option{at(-301 * time.Second)}, 401},
		{"FromTheFuture", bodyOf(good), []option{at(302 * time.Second)}, 401},
		{"FromTheFarFuture", bodyOf(good), []option{at(10 * 365 * 24 * time.Hour)}, 401},
		{"WrongSecret", bearing(&wrong), nil, 401},
		{"EmptySecret", bearing(&empty), nil, 401},
		{"NullSecret", bearing(nil), nil, 401},
		{"Compressed", bodyOf(good), []option{header("Content-Encoding", "gzip")}, 415},
		{"TooLarge", bytes.Repeat([]byte("x"), 2_500_000), nil, 413},
		{"TooLargeWithoutALength", bytes.Repeat([]byte("x"), 2_500_000), []option{func(r *http.Request) { r.ContentLength = -1 }}, 413},
		{"NotTheProvidersForm", []byte(`{"id":"","payment":"p"}`), nil, 400},
		{"NoBody", nil, nil, 400},
		{"OtherMethod", bodyOf(good), []option{func(r *http.Request) { r.Method = "PUT" }}, 405},
		{"UnknownGateway", bodyOf(good), []option{path("/webhooks/nobody/default")}, 404},
		{"UnknownAccount", bodyOf(good), []option{path("/webhooks/fake/other")}, 404},
		{"GatewayWithoutWebhooks", bodyOf(good), []option{path("/webhooks/silent/default")}, 404},
	} {
		require.Equal(t, c.status, b.raw(c.body, c.opts...), c.name)
	}
	require.Zero(t, b.count("SELECT count(*) FROM webhook_receipts"))
	require.Zero(t, b.count("SELECT count(*) FROM looks_wanted"))
	require.Zero(t, b.runs.total())
	for _, d := range []time.Duration{-299 * time.Second, 298 * time.Second} { // the window is open on both sides
		require.Equal(t, 200, b.raw(bodyOf(good), at(d)), d)
	}
}

func TestPaymentsOwnSecret(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	post := func(id string, s *string) int {
		a := b.becomes(b.attempt(), order.Unknown)
		if id != "unheld" {
			b.holds(a, "own-secret-marker")
		}
		e := about(a, id, gateways.Succeeded)
		e.Proof, e.Secret = gateways.ProofSecret, s
		return b.post(e)
	}
	right := "own-secret-marker"
	require.Equal(t, 200, post("right", &right))
	require.Equal(t, "secret", b.text("SELECT proof FROM webhook_receipts WHERE event_id = 'right'"))
	// Nothing is held, so null is equal to nothing: a hint.
	require.Equal(t, 200, post("unheld", nil))
	require.Equal(t, "none", b.text("SELECT proof FROM webhook_receipts WHERE event_id = 'unheld'"))
	a := b.becomes(b.attempt(), order.Unknown)
	b.holds(a, "") // an empty secret is none
	e := about(a, "empty", gateways.Succeeded)
	e.Proof = gateways.ProofSecret
	require.Equal(t, 200, b.post(e))
	require.Equal(t, "none", b.text("SELECT proof FROM webhook_receipts WHERE event_id = 'empty'"))
	b.quiet()
	require.Equal(t, 3, b.runs.total())
	require.Zero(t, b.count("SELECT count(*) FROM webhook_receipts w WHERE w::text LIKE '%marker%'"), "a secret is in a row")
}

// S14.
func TestWhatCannotBeStoredIsNotAccepted(t *testing.T) {
	t.Parallel()
	var proxy *testkit.TCPProxy
	b := setup(t, func(b *bundle, d *webhooks.Deps) {
		proxy = testkit.NewTCPProxy(t, b.db.AppURL)
		d.Store = b.open(proxy.Through(b.db.AppURL))
	})
	e := event{ID: "evt_1", Payment: "p_1"}
	proxy.Down()
	require.Equal(t, 503, b.post(e))
	proxy.Up()
	require.Eventually(t, func() bool { return b.post(e) == 200 }, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, 1, b.count("SELECT count(*) FROM webhook_receipts"))
}

// PC-65: stored, and the process dies before anything is made of it.
func TestAnotherProcessTakesUpWhatOneHasStored(t *testing.T) {
	t.Parallel()
	b := setup(t) // does not run
	a := b.becomes(b.attempt(), order.Unknown)
	require.Equal(t, 200, b.post(about(a, "evt_1", gateways.Succeeded)))
	other := webhooks.New(webhooks.Deps{
		Store: b.open(b.db.AppURL), Engine: b.runs, Box: b.box, Period: 100 * time.Millisecond,
		Gateways: map[order.Account]gateways.Gateway{account: notifier{}},
	})
	start(t, other)
	b.quiet()
	require.Equal(t, 1, b.runs.of(order.ID(a.OrderID)))
}

// PC-27.
func TestOtherEnvironmentHasNoEffect(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	a := b.becomes(b.attempt(), order.Unknown)
	e := about(a, "evt_1", gateways.Succeeded)
	e.Environment = "live"
	require.Equal(t, 200, b.post(e))
	b.quiet()
	require.Equal(t, "wrong_environment", b.result("evt_1"))
	require.Equal(t, "live", b.text("SELECT environment FROM webhook_receipts"))
	require.Zero(t, b.runs.total())
	// The genuine event of that id is another one.
	require.Equal(t, 200, b.post(about(a, "evt_1", gateways.Succeeded)))
	b.quiet()
	require.Equal(t, 1, b.runs.total())
}

// PC-51, PC-52: odd contents are stored and harmless.
func TestOddNoticesAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t).run()
	for i, e := range []event{
		{ID: "plain", Type: "customer.updated"},
		{ID: strings.Repeat("long", 100), Type: strings.Repeat("t", 300), Payment: strings.Repeat("p", 5000)},
		{ID: "line\nbreak\x00", Type: "tab\there", Payment: "p\n1", Says: "REVIEW"},
	} {
		require.Equal(t, 200, b.post(e), i)
	}
	require.Equal(t, "ignored", b.result("plain"))
	require.Equal(t, 3, b.count("SELECT count(*) FROM webhook_receipts WHERE event_id ~ '^[!-~]{1,255}$' AND provider_payment_id ~ '^[!-~]{0,255}$' AND event_type ~ '^[!-~]{0,100}$'"))
}

// Anybody can send what nothing proves; it must not fill the database, nor stand in the way of what is known or proven.
func TestHintsAboutNobodysPaymentsAreLimited(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *bundle, d *webhooks.Deps) { d.LookupsPerSecond = 1 })
	a := b.becomes(b.attempt(), order.Unknown)
	limited := 0
	for i := range 200 {
		switch s := b.post(event{ID: strconv.Itoa(i), Payment: "p_" + strconv.Itoa(i), Proof: gateways.ProofNone}); s {
		case http.StatusTooManyRequests:
			limited++
		default:
			require.Equal(t, 200, s)
		}
	}
	require.Positive(t, limited)
	require.Equal(t, 200-limited, b.count("SELECT count(*) FROM webhook_receipts"))
	hint := about(a, "evt_hint", gateways.Succeeded)
	hint.Proof = gateways.ProofNone
	for range 20 {
		require.Equal(t, 200, b.post(hint), "about a payment of ours")
	}
	require.Equal(t, 200, b.post(event{ID: "evt_signed", Payment: "p_9999"}), "proven")
}

func TestSlowBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *bundle, d *webhooks.Deps) { d.ReadTimeout = 200 * time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", b.url+"/webhooks/fake/default", neverEnds{ctx})
	require.NoError(t, err)
	r.ContentLength = 100
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusRequestTimeout, res.StatusCode)
}

type neverEnds struct{ ctx context.Context }

func (n neverEnds) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, n.ctx.Err()
}
