package stripe

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
)

const paidIntent = `{"id":"pi_1","object":"payment_intent","status":"succeeded","amount":1500,"amount_received":1500,` +
	`"currency":"jpy","livemode":false,"metadata":{"merchant_reference":"of-1"}}`

// scripted serves one answer to every request and hands the requests over with their bodies.
func scripted(t *testing.T, status int, body string) (string, <-chan *http.Request) {
	t.Helper()
	seen := make(chan *http.Request, 16)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		kept := r.Clone(t.Context())
		kept.Body = io.NopCloser(strings.NewReader(string(raw)))
		seen <- kept
		w.Header().Set("Request-Id", "req_1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, seen
}

func confirmOp(g *Gateway, t *testing.T) gateways.Operation {
	t.Helper()
	planned, err := g.Plan(card(""))
	require.NoError(t, err)
	return gateways.Operation{Key: "key-1", ProviderPaymentID: "pi_1", Request: planned[1].Request}
}

func TestTheWireCarriesWhatWasStoredAndNothingAboutUs(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, paidIntent)
	g := open(t, base)
	op := confirmOp(g, t)
	for range 2 { // telemetry of the first would ride on the second
		_, err := g.Send(t.Context(), gateways.Confirm, op)
		require.NoError(t, err)
		r := <-seen
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, string(op.Request), string(body))
		require.Equal(t, int64(len(op.Request)), r.ContentLength, "whole, not chunked")
		require.Equal(t, "/v1/payment_intents/pi_1/confirm", r.URL.Path)
		require.Equal(t, []string{"key-1"}, r.Header.Values("Idempotency-Key"))
		require.Equal(t, "application/x-www-form-urlencoded", r.Header.Get("Content-Type"))
		require.Equal(t, "2023-10-16", r.Header.Get("Stripe-Version"))
		require.Empty(t, r.Header.Get("X-Stripe-Client-Telemetry"))
		require.Empty(t, r.Header.Get("X-Stripe-Client-User-Agent"), "it would carry the machine's name")
		require.NotContains(t, r.Header.Get("Accept-Encoding"), "gzip")
	}
	_, err := g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: "pi_1"})
	require.NoError(t, err)
	require.Empty(t, (<-seen).Header.Get("Idempotency-Key"), "a read has no key")
}

// A kept connection that the server closes while the next write is on it: net/http would send a keyed write again by
// itself, unseen by the one who counts sends.
func TestABrokenKeptConnectionIsNotRetriedUnseen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var writes atomic.Int32
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if writes.Add(1) == 2 {
			panic(http.ErrAbortHandler) // the request was read, the effect may have happened
		}
		_, _ = io.WriteString(w, paidIntent)
	})}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })

	g := open(t, "http://"+l.Addr().String())
	op := confirmOp(g, t)
	_, err = g.Send(t.Context(), gateways.Confirm, op)
	require.NoError(t, err)
	_, err = g.Send(t.Context(), gateways.Confirm, op)
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
	require.Equal(t, int32(2), writes.Load(), "one send is one request on the wire")
}

func TestRedirectsAreNeitherFollowedNorBelieved(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			elsewhere.Add(1)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = io.WriteString(w, paidIntent)
	}))
	t.Cleanup(srv.Close)
	g := open(t, srv.URL)
	_, err := g.Send(t.Context(), gateways.Confirm, confirmOp(g, t))
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
	_, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: "pi_1"})
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%v", err)
	require.Zero(t, elsewhere.Load())
}

// The headers come in time and the body never ends: the bound covers the whole exchange.
func TestAnAnswerThatNeverEndsIsCutOff(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, paidIntent[:20])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-done:
		}
	}))
	t.Cleanup(func() {
		close(done)
		srv.Close()
	})
	gw, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New(simKey), APIBase: srv.URL, Timeout: 200 * time.Millisecond})
	require.NoError(t, err)
	g, ok := gw.(*Gateway)
	require.True(t, ok)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = g.Send(ctx, gateways.Confirm, confirmOp(g, t))
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
	require.NoError(t, ctx.Err(), "the gateway bounds its own time")
}

func TestAFormThatWouldNotComeOutTheSameIsNotSent(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, paidIntent)
	g := open(t, base)
	for _, frozen := range []string{"", "a", "a=b&", "&a=b", "a=%zz", "a=%2f", "a=b c", "a=b%20c", "a%5B0%5D=b", `{"a":1}`, "a=b;c=d"} {
		op := confirmOp(g, t)
		op.Request = []byte(frozen)
		_, err := g.Send(t.Context(), gateways.Confirm, op)
		require.True(t, fault.IsCode(err, fault.InternalError), "%q: %v", frozen, err)
	}
	require.Empty(t, seen)
	for _, frozen := range []string{"a=", "a=b", "a=b+c&a=b", "a[0]=%2F&b[c][d]=%E3%82%AE"} {
		fields, err := thaw([]byte(frozen))
		require.NoError(t, err)
		require.Equal(t, frozen, fields.Encode())
	}
}

func TestIDsNeverEscapeTheirPath(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, paidIntent)
	g := open(t, base)
	for _, id := range []string{"", "pi_", "ch_1", "pi_1/../../refunds", "pi_1?x=1", "pi_1%2f", "pi_1\n", "../pi_1", " pi_1"} {
		op := confirmOp(g, t)
		op.ProviderPaymentID = id
		_, err := g.Send(t.Context(), gateways.Confirm, op)
		require.True(t, fault.IsCode(err, fault.InternalError), "%q: %v", id, err)
		_, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: id})
		require.True(t, fault.IsCode(err, fault.InternalError), "%q: %v", id, err)
	}
	op := confirmOp(g, t)
	_, err := g.Send(t.Context(), gateways.Prepare, op)
	require.True(t, fault.IsCode(err, fault.InternalError), "a prepare has no id: %v", err)
	require.Empty(t, seen)
}
