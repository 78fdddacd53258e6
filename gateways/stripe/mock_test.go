package stripe

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/money"
)

// TestStripeMockAcceptsEveryRequest holds every request against stripe-mock, which checks parameters by Stripe's own
// description of its API. It answers from fixtures and keeps no state, so only acceptance is looked at, never outcomes.
func TestStripeMockAcceptsEveryRequest(t *testing.T) {
	t.Parallel()
	base := startStripeMock(t)
	// A transport of its own: every httptest server that any test closes also closes the idle connections of the default one, and a
	// POST that has just taken such a connection fails.
	inner := &http.Transport{}
	t.Cleanup(inner.CloseIdleConnections)
	spy := &statusSpy{inner: inner, target: base}
	front := startFront(t, spy)
	g := open(t, front)
	for _, p := range mockPayments() {
		planned, err := g.Plan(p)
		require.NoError(t, err)
		o, err := g.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: p.MerchantReference + "-p", Request: planned[0].Request})
		require.NoError(t, err)
		_, err = g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: p.MerchantReference + "-c", ProviderPaymentID: o.ProviderPaymentID, Request: planned[1].Request})
		require.NoError(t, err)
		capture, err := g.PlanCapture(o.ProviderPaymentID, p.Amount, p.Amount)
		require.NoError(t, err)
		_, err = g.Send(t.Context(), gateways.Capture, gateways.Operation{Key: p.MerchantReference + "-t", ProviderPaymentID: o.ProviderPaymentID, Request: capture.Request})
		require.NoError(t, err)
		cancel, err := g.PlanCancel(o.ProviderPaymentID)
		require.NoError(t, err)
		_, err = g.Send(t.Context(), gateways.Cancel, gateways.Operation{Key: p.MerchantReference + "-x", ProviderPaymentID: o.ProviderPaymentID, Request: cancel.Request})
		require.NoError(t, err)
		_, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: o.ProviderPaymentID})
		require.NoError(t, err)
		_, err = g.Lookup(t.Context(), gateways.Query{MerchantReference: p.MerchantReference})
		require.NoError(t, err)
		// Fixtures of refunds name no intent, so these answers decide nothing; what is asked is what is looked at.
		_, _ = g.SendRefund(t.Context(), refundOp(t, g, gateways.GiveBack{
			Reference: "R1", ProviderPaymentID: o.ProviderPaymentID, Amount: p.Amount, Left: p.Amount,
		}))
		_, _ = g.LookupRefund(t.Context(), gateways.RefundQuery{RefundID: "re_1"})
		_, _ = g.LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: o.ProviderPaymentID, Reference: "R1"})
		_, err = g.List(t.Context(), gateways.Window{From: time.Unix(1, 0), To: time.Now(), Cursor: o.ProviderPaymentID})
		require.NoError(t, err)
	}
	seen := spy.seen()
	require.GreaterOrEqual(t, len(seen), 10*len(mockPayments()))
	for _, s := range seen {
		require.Equal(t, http.StatusOK, s.status, s.request)
	}

	// The check can fail: a parameter that Stripe does not have is refused.
	_, err := g.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: "k-bad", Request: []byte("amount=80&currency=jpy&no_such_parameter=1")})
	require.Error(t, err)
}

func mockPayments() []gateways.Payment {
	base := func(ref, typ, returnURL string) gateways.Payment {
		return gateways.Payment{
			MerchantReference: ref, Amount: money.Amount{Minor: 1500, Currency: "JPY"}, Description: "gift 👨‍👩‍👧 & more",
			Method: gateways.Method{Type: typ, Token: "pm_card_visa", ReturnURL: returnURL},
		}
	}
	transfer := func(ref, token, customer string, currency money.Currency) gateways.Payment {
		p := base(ref, "customer_balance", "")
		p.Method.Token, p.Method.Reference, p.Amount.Currency = token, customer, currency
		return p
	}
	const back = "https://shop.example/back?o=1"
	later := base("of-0", "card", back)
	later.CaptureLater = true
	return []gateways.Payment{
		later, base("of-1", "card", back), base("of-2", "card", ""), base("of-3", "automatic", back),
		base("of-4", "automatic", ""), base("of-5", "konbini", ""), base("of-6", "konbini", back),
		transfer("of-7", "cus_1", "", "JPY"), transfer("of-8", "pm_1", "cus_1", "JPY"), transfer("of-9", "cus_1", "", "USD"),
		transfer("of-10", "cus_1", "", "GBP"), transfer("of-11", "cus_1", "", "MXN"),
	}
}

// startStripeMock runs the pinned tool on a loopback port and returns its address.
func startStripeMock(t *testing.T) string {
	t.Helper()
	binary := stripeMockBinary(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, "-http-addr", addr)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		stop()
		<-exited
	})
	require.Eventually(t, func() bool {
		select {
		case <-exited:
			t.Fatalf("stripe-mock ended at once: %s", log.String())
		default:
		}
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, 30*time.Second, 20*time.Millisecond, "stripe-mock listens")
	return "http://" + addr
}

// stripeMockBinary takes the path from the environment, or asks the tools module for it. The binary itself is run, never
// `go tool`, whose child would outlive a stopped test.
func stripeMockBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("ORDERFLOW_STRIPE_MOCK"); path != "" {
		return path
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", "stripe-mock")
	cmd.Dir = filepath.Join("..", "..", "internal", "tools")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	path := strings.TrimSpace(string(out))
	if err == nil && path != "" {
		if _, err = os.Stat(path); err == nil {
			return path
		}
	}
	const why = "stripe-mock is not here: set ORDERFLOW_STRIPE_MOCK to its binary, or make `go tool -n stripe-mock` work in internal/tools"
	if os.Getenv("ORDERFLOW_REQUIRE_TOOLS") == "1" {
		t.Fatalf("%s (%v)", why, err)
	}
	t.Skipf("%s (%v)", why, err)
	return ""
}

// statusSpy passes requests on and remembers what became of them.
type statusSpy struct {
	inner  http.RoundTripper
	target string

	mu  sync.Mutex
	all []spied
}

type spied struct {
	request string
	status  int
}

func (s *statusSpy) seen() []spied {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]spied(nil), s.all...)
}

func (s *statusSpy) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.inner.RoundTrip(r)
	if err == nil {
		s.mu.Lock()
		s.all = append(s.all, spied{r.Method + " " + r.URL.RequestURI(), res.StatusCode})
		s.mu.Unlock()
	}
	return res, err
}

func startFront(t *testing.T, spy *statusSpy) string {
	t.Helper()
	target, err := url.Parse(spy.target)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = spy
	srv := httptest.NewServer(proxy)
	t.Cleanup(srv.Close)
	return srv.URL
}
