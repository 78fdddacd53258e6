package omise

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	omisego "github.com/omise/omise-go"
	"github.com/omise/omise-go/operations"
	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
)

func bodyOf(t *testing.T, r *http.Request) string {
	t.Helper()
	raw, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(raw)
}

func TestTheWireCarriesWhatWasStored(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, paidCharge)
	g := open(t, base)
	op := cardOp(t, g)
	for range 2 {
		_, err := g.Send(t.Context(), gateways.Confirm, op)
		require.NoError(t, err)
		r := <-seen
		require.Equal(t, string(op.Request), bodyOf(t, r))
		require.Equal(t, int64(len(op.Request)), r.ContentLength, "whole, not chunked")
		require.Equal(t, http.MethodPost, r.Method)
		require.Equal(t, "/charges", r.URL.Path)
		require.Equal(t, "2019-05-29", r.Header.Get("Omise-Version"))
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		require.Empty(t, r.Header.Get("Idempotency-Key"), "Omise has none, so nobody may rely on one")
		require.NotContains(t, r.Header.Get("Accept-Encoding"), "gzip")
		user, password, ok := r.BasicAuth()
		require.True(t, ok)
		require.Equal(t, simKey, user)
		require.Empty(t, password)
	}
}

// The bytes are those that omise-go itself would send for the same charge.
func TestAChargeIsTheOneOfTheSDK(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, paidCharge)
	sdk, err := omisego.NewClient("", simKey)
	require.NoError(t, err)
	sdk.Endpoints[defaultBase] = base
	sdk.Client = &http.Client{Timeout: time.Minute}
	require.NoError(t, sdk.Do(&omisego.Charge{}, &operations.CreateCharge{
		Amount: 1500, Currency: "jpy", Card: "tokn_test_1", Description: "one gift", Metadata: map[string]any{"merchant_reference": "of-1"},
	}))
	theirs := <-seen
	g := open(t, base)
	_, err = g.Send(t.Context(), gateways.Confirm, cardOp(t, g))
	require.NoError(t, err)
	ours := <-seen
	require.Equal(t, bodyOf(t, theirs), bodyOf(t, ours))
	for _, header := range []string{"Omise-Version", "Content-Type", "Authorization", "User-Agent"} {
		require.Equal(t, theirs.Header.Get(header), ours.Header.Get(header), header)
	}
}

// A GET of omise-go has a body, and its list parameters stand there.
func TestALookupWritesNothingAndItsParametersAreInTheBody(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, `{"object":"list","data":[],"total":0}`)
	g := open(t, base)
	g.now = func() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 5, time.UTC) }
	_, err := g.Lookup(t.Context(), gateways.Query{MerchantReference: "of-1", Since: time.Date(2026, 1, 2, 11, 50, 0, 7, time.UTC)})
	require.NoError(t, err)
	r := <-seen
	require.Equal(t, http.MethodGet, r.Method)
	require.Equal(t, "/charges", r.URL.RequestURI())
	require.JSONEq(t, `{"limit":100,"order":"chronological","from":"2026-01-02T11:45:00Z","to":"2026-01-02T12:00:01Z"}`, bodyOf(t, r))
}

func TestABrokenKeptConnectionIsNotRetriedUnseen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var requests atomic.Int32
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1)%2 == 0 {
			panic(http.ErrAbortHandler) // the request was read, the effect may have happened
		}
		_, _ = io.WriteString(w, paidCharge)
	})}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })

	g := open(t, "http://"+l.Addr().String())
	_, err = g.Send(t.Context(), gateways.Confirm, cardOp(t, g))
	require.NoError(t, err)
	_, err = g.Send(t.Context(), gateways.Confirm, cardOp(t, g))
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
	require.Equal(t, int32(2), requests.Load(), "one send is one request on the wire")
	_, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: "chrg_test_1"})
	require.NoError(t, err)
	_, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: "chrg_test_1"})
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%v", err)
	require.Equal(t, int32(4), requests.Load(), "a read is not repeated either")
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
		_, _ = io.WriteString(w, paidCharge)
	}))
	t.Cleanup(srv.Close)
	g := open(t, srv.URL)
	_, err := g.Send(t.Context(), gateways.Confirm, cardOp(t, g))
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
	_, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: "chrg_test_1"})
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%v", err)
	require.Zero(t, elsewhere.Load())

	base, _ := scripted(t, http.StatusFound, `{"object":"error","code":"invalid_card"}`)
	g = open(t, base)
	_, err = g.Send(t.Context(), gateways.Confirm, cardOp(t, g))
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "a redirect is not Omise's answer: %v", err)
}

// What is longer than the limit is not cut to something that parses.
func TestAnAnswerBeyondTheLimitIsNone(t *testing.T) {
	t.Parallel()
	for length, ok := range map[int]bool{maxAnswer: true, maxAnswer + 1: false, maxAnswer + 100: false} {
		base, _ := scripted(t, 200, paidCharge+strings.Repeat(" ", length-len(paidCharge)))
		g := open(t, base)
		_, err := g.Send(t.Context(), gateways.Confirm, cardOp(t, g))
		require.Equal(t, !ok, fault.IsCode(err, fault.PaymentUnknown), "%d: %v", length, err)
		_, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: "chrg_test_1"})
		require.Equal(t, !ok, fault.IsCode(err, fault.GatewayReadFailed), "%d: %v", length, err)
	}
}

// Only status 200 is success: a charge in any other answer is not believed.
func TestAnotherSuccessStatusLeavesTheWriteUnknown(t *testing.T) {
	t.Parallel()
	for _, status := range []int{201, 202, 206} {
		base, _ := scripted(t, status, paidCharge)
		g := open(t, base)
		_, err := g.Send(t.Context(), gateways.Confirm, cardOp(t, g))
		require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%d: %v", status, err)
	}
}

// The headers come in time and the body never ends: the bound covers the whole exchange, although omise-go has none.
func TestAnAnswerThatNeverEndsIsCutOff(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, paidCharge[:20])
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
	_, err = g.Send(ctx, gateways.Confirm, cardOp(t, g))
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
	require.NoError(t, ctx.Err(), "the gateway bounds its own time")
}

// omise-go keeps context and extra headers on the client, for whoever calls next. Here one call's end never touches
// another one, and each carries its own charge.
func TestCallsShareNothing(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 64), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Card     string            `json:"card"`
			Amount   int64             `json:"amount"`
			Metadata map[string]string `json:"metadata"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		arrived <- struct{}{}
		<-release
		answer := strings.ReplaceAll(paidCharge, `"of-1"`, `"`+body.Metadata["merchant_reference"]+`"`)
		_, _ = io.WriteString(w, strings.ReplaceAll(answer, "chrg_test_1", "chrg_test_"+body.Card))
	}))
	t.Cleanup(srv.Close)
	g := open(t, srv.URL)
	doomed, cancel := context.WithCancel(t.Context())
	var wg, canceled sync.WaitGroup
	const calls = 16
	for i := range calls {
		p := payment(methodCard, "tokn_test_"+string(rune('a'+i)))
		p.MerchantReference = "of-" + p.Method.Token
		op := confirmOp(t, g, p)
		if i%2 == 1 {
			canceled.Go(func() {
				if _, err := g.Send(doomed, gateways.Confirm, op); !fault.IsCode(err, fault.PaymentUnknown) {
					t.Errorf("a canceled call: %v", err)
				}
			})
			continue
		}
		wg.Go(func() {
			o, err := g.Send(t.Context(), gateways.Confirm, op)
			if err != nil || o.MerchantReference != p.MerchantReference || o.ProviderPaymentID != "chrg_test_"+p.Method.Token {
				t.Errorf("%s got %s of %s: %v", p.MerchantReference, o.ProviderPaymentID, o.MerchantReference, err)
			}
		})
	}
	for range calls {
		<-arrived
	}
	cancel()
	canceled.Wait() // before any answer is written: one that arrives with the cancel may win
	close(release)
	wg.Wait()
}

func TestARequestThatIsNoFrozenChargeIsNotSent(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, paidCharge)
	g := open(t, base)
	good := string(cardOp(t, g).Request)
	for _, frozen := range []string{
		"", "{}", "null", "[]", "a=b", " " + good, good + " ", good + good, `{"amount":1,"currency":"jpy"}`,
		`{"amount":1.5,"card":"tokn_test_1"}`, `{"amount":"1","card":"tokn_test_1"}`, `{"amount":0,"card":"tokn_test_1"}`,
		`{"amount":1,"card":"tokn_test_1","customer":"cust_test_1"}`, `{"amount":1,"card":"a<b"}`, `{"amount": 1,"card":"tokn_test_1"}`,
	} {
		op := cardOp(t, g)
		op.Request = []byte(frozen)
		_, err := g.Send(t.Context(), gateways.Confirm, op)
		require.True(t, fault.IsCode(err, fault.InternalError), "%q: %v", frozen, err)
	}
	op := cancelOp(t, g, "chrg_test_1")
	op.Request = []byte(`{"x":1}`)
	_, err := g.Send(t.Context(), gateways.Cancel, op)
	require.True(t, fault.IsCode(err, fault.InternalError), "%v", err)
	require.Empty(t, seen)
}

func TestIDsNeverEscapeTheirPath(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, paidCharge)
	g := open(t, base)
	for _, id := range []string{"", "chrg_", "rfnd_1", "chrg_1/../../refunds", "chrg_1?x=1", "chrg_1%2f", "chrg_1\n", "../chrg_1", " chrg_1"} {
		op := cancelOp(t, g, "chrg_test_1")
		op.ProviderPaymentID = id
		_, err := g.Send(t.Context(), gateways.Cancel, op)
		require.True(t, fault.IsCode(err, fault.InternalError), "%q: %v", id, err)
		_, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: id})
		require.True(t, fault.IsCode(err, fault.InternalError), "%q: %v", id, err)
		_, err = g.PlanCancel(id)
		require.True(t, fault.IsCode(err, fault.PaymentInvalid), "%q: %v", id, err)
	}
	require.Empty(t, seen)
}

// What exists is never made a second time where nothing at Omise would stop it.
func TestACustomersChargeThatExistsIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, paidCharge)
	g := open(t, base)
	op := confirmOp(t, g, payment(methodCustomer, "cust_test_1"))
	op.ProviderPaymentID = "chrg_test_1"
	_, err := g.Send(t.Context(), gateways.Confirm, op)
	require.True(t, fault.IsCode(err, fault.InternalError), "%v", err)
	require.Empty(t, seen)
}
