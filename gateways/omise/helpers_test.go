package omise

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/money"
	"orderflow/internal/secret"
)

const paidCharge = `{"object":"charge","id":"chrg_test_1","livemode":false,"status":"successful","paid":true,"authorized":true,` +
	`"capture":true,"amount":1500,"captured_amount":1500,"refunded_amount":0,"currency":"JPY","created_at":"2026-01-02T03:04:05Z",` +
	`"metadata":{"merchant_reference":"of-1"}}`

func open(t *testing.T, base string) *Gateway {
	t.Helper()
	gw, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New(simKey), APIBase: base})
	require.NoError(t, err)
	g, ok := gw.(*Gateway)
	require.True(t, ok)
	t.Cleanup(g.client.idle)
	return g
}

// scripted serves one answer to every request and hands the requests over with their bodies.
func scripted(t *testing.T, status int, body string) (string, <-chan *http.Request) {
	t.Helper()
	seen := make(chan *http.Request, 64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		kept := r.Clone(t.Context())
		kept.Body = io.NopCloser(strings.NewReader(string(raw)))
		seen <- kept
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, seen
}

func payment(method, token string) gateways.Payment {
	return gateways.Payment{
		MerchantReference: "of-1", Amount: money.Amount{Minor: 1500, Currency: "JPY"}, Description: "one gift",
		Method: gateways.Method{Type: method, Token: token},
	}
}

func confirmOp(t *testing.T, g *Gateway, p gateways.Payment) gateways.Operation {
	t.Helper()
	planned, err := g.Plan(p)
	require.NoError(t, err)
	require.Len(t, planned, 1)
	return gateways.Operation{Key: "key-1", MerchantReference: p.MerchantReference, Request: planned[0].Request}
}

func cardOp(t *testing.T, g *Gateway) gateways.Operation {
	t.Helper()
	return confirmOp(t, g, payment(methodCard, "tokn_test_1"))
}

func cancelOp(t *testing.T, g *Gateway, id string) gateways.Operation {
	t.Helper()
	planned, err := g.PlanCancel(id)
	require.NoError(t, err)
	require.Equal(t, gateways.Cancel, planned.Kind)
	return gateways.Operation{Key: "key-2", ProviderPaymentID: id, Request: planned.Request}
}
