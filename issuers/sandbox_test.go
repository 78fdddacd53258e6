package issuers_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/secret"
	"orderflow/issuers"
	"orderflow/issuers/issuertest"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
)

// TestHTTPIssuerConformsWithTheSandbox runs the suite against the simulated issuers, which were written apart from this
// package. It leaves out answers with an empty body, which the sandbox fills with rubbish.
func TestHTTPIssuerConformsWithTheSandbox(t *testing.T) {
	t.Parallel()
	for kind, caps := range map[issuersim.Kind]issuers.Capabilities{
		issuersim.Idempotent: {Idempotent: true, Lookup: true, Revoke: true},
		issuersim.Lookup:     {Lookup: true, Revoke: true},
		issuersim.Opaque:     {},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			issuertest.Run(t, issuertest.Harness{Open: func(t *testing.T) issuertest.Side { return openSandbox(t, kind, caps) }})
		})
	}
}

func openSandbox(t *testing.T, kind issuersim.Kind, caps issuers.Capabilities) issuertest.Side {
	t.Helper()
	injector := faults.New()
	sim, err := issuersim.New(issuersim.Config{Token: secret.New(token), Faults: injector})
	require.NoError(t, err)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() {
		injector.Close()
		server.Close()
	})
	issuer, err := issuers.NewHTTP(issuers.HTTPConfig{
		Name: "sandbox-" + string(kind), BaseURL: server.URL + "/issuers/" + string(kind), Token: secret.New(token),
		Capabilities: caps, Timeout: 15 * time.Second,
	})
	require.NoError(t, err)
	return issuertest.Side{
		Issuer: issuer,
		Arm: func(t *testing.T, on issuertest.Call, trouble issuertest.Trouble) bool {
			f, ok := sandboxFault(on, trouble)
			if !ok {
				return false
			}
			_, err := injector.Add(f)
			require.NoError(t, err)
			return true
		},
		Sent: func(operation string) int {
			n := 0
			for _, r := range sim.Books(issuersim.Filter{Kind: kind, OperationID: operation}).Requests {
				if r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/v1/issuances") {
					n++
				}
			}
			return n
		},
		Issued: func(operation string) int {
			return len(sim.Books(issuersim.Filter{Kind: kind, OperationID: operation}).Issuances)
		},
	}
}

func sandboxFault(on issuertest.Call, trouble issuertest.Trouble) (faults.Fault, bool) {
	f := faults.Fault{
		Target: faults.Issuer, Times: 1, Effect: trouble.Effect, Status: trouble.Status, Header: trouble.Header, Body: trouble.Body,
		Action: faults.Garbage,
	}
	switch on {
	case issuertest.OnIssue:
		f.Method, f.PathSuffix = http.MethodPost, "/v1/issuances"
	case issuertest.OnLookup:
		f.Method = http.MethodGet
	case issuertest.OnRevoke:
		f.Method, f.PathSuffix = http.MethodPost, "/revoke"
	}
	switch {
	case trouble.Hang:
		f.Action = faults.Hang
	case trouble.Cut && trouble.Effect:
		f.Action, f.Effect = faults.LoseAnswer, false
	case trouble.Cut:
		f.Action = faults.Drop
	case trouble.Body == "":
		return f, false
	}
	return f, true
}
