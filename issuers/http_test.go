package issuers_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/internal/secret"
	"orderflow/issuers"
	"orderflow/issuers/issuertest"
)

var kinds = map[string]issuers.Capabilities{
	"idempotent": {Idempotent: true, Lookup: true, Revoke: true},
	"repeatable": {Idempotent: true},
	"lookup":     {Lookup: true, Revoke: true, NotFoundFinalAfter: time.Minute},
	"opaque":     {},
}

func TestHTTPIssuerConforms(t *testing.T) {
	t.Parallel()
	for kind, caps := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			issuertest.Run(t, issuertest.Harness{Open: func(t *testing.T) issuertest.Side {
				far := newFarSide(t, caps)
				return issuertest.Side{
					Issuer: far.issuer(t, nil),
					Arm: func(_ *testing.T, on issuertest.Call, trouble issuertest.Trouble) bool {
						far.arm(on, trouble)
						return true
					},
					Sent:   far.sent,
					Issued: far.issued,
				}
			}})
		})
	}
}

func request() issuers.Request {
	return issuers.Request{OperationID: "op_1", OrderID: "order-1", UnitID: "unit_1", SKU: "A&B <1> é", RecipientRef: "buyer-1"}
}

func TestFrozenBytesGoOutAsTheyAre(t *testing.T) {
	t.Parallel()
	far := newFarSide(t, kinds["idempotent"])
	issuer := far.issuer(t, nil)
	// As an older release might have frozen them: other order, other spacing, a field this one does not know.
	frozen := []byte("{ \"sku\":\"T\",\"operation_id\" : \"op_1\", \"v\":1.50}\n")
	for range 3 {
		_, err := issuer.Issue(t.Context(), "op_1", frozen)
		require.NoError(t, err)
	}
	for _, r := range far.seen() {
		require.Equal(t, string(frozen), r.body)
		require.Equal(t, "op_1", r.header.Get("Idempotency-Key"))
		require.Equal(t, "application/json", r.header.Get("Content-Type"))
		require.Equal(t, "POST /v1/issuances", r.method+" "+r.path)
	}
}

func TestPathsAndHeadersOfTheContract(t *testing.T) {
	t.Parallel()
	far := newFarSide(t, kinds["idempotent"])
	issuer := far.issuer(t, func(c *issuers.HTTPConfig) { c.BaseURL += "//" })
	frozen, err := issuer.Freeze(request())
	require.NoError(t, err)
	require.JSONEq(t, `{"operation_id":"op_1","order_id":"order-1","unit_id":"unit_1","sku":"A&B <1> é","recipient_ref":"buyer-1"}`, string(frozen))
	require.Contains(t, string(frozen), "A&B <1> é", "no escapes that nobody needs")
	_, err = issuer.Issue(t.Context(), "op_1", frozen)
	require.NoError(t, err)
	_, err = issuer.Lookup(t.Context(), "op_1")
	require.NoError(t, err)
	_, err = issuer.Revoke(t.Context(), "op_1")
	require.NoError(t, err)
	var lines []string
	for _, r := range far.seen() {
		lines = append(lines, r.method+" "+r.path)
		require.Equal(t, "Bearer "+token, r.header.Get("Authorization"))
	}
	require.Equal(t, []string{"POST /v1/issuances", "GET /v1/issuances/op_1", "POST /v1/issuances/op_1/revoke"}, lines)
}

// net/http sends a request again by itself when a resting connection closes under it and the request carries an
// Idempotency-Key. An issuer without a guard would then issue twice.
func TestAConnectionThatDiesIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for kind, caps := range kinds {
		far := newFarSide(t, caps)
		issuer := far.issuer(t, nil)
		for n := range 5 {
			warm := fmt.Sprintf("op_warm_%d", n)
			_, err := issuer.Issue(t.Context(), warm, []byte(`{"operation_id":"`+warm+`"}`))
			require.NoError(t, err)
			far.arm(issuertest.OnIssue, issuertest.Trouble{Effect: true, Cut: true})
			lost := fmt.Sprintf("op_lost_%d", n)
			_, err = issuer.Issue(t.Context(), lost, []byte(`{"operation_id":"`+lost+`"}`))
			require.True(t, fault.IsCode(err, fault.IssuanceUnknown), "%v", err)
			require.Equal(t, 1, far.sent(lost), kind)
			require.Equal(t, 1, far.issued(lost), kind)
		}
	}
}

func TestOnlyOpaqueIssuersGetANewConnectionEachTime(t *testing.T) {
	t.Parallel()
	for kind, caps := range kinds {
		far := newFarSide(t, caps)
		_, err := far.issuer(t, nil).Issue(t.Context(), "op_1", []byte(`{"operation_id":"op_1"}`))
		require.NoError(t, err)
		require.Equal(t, kind == "opaque", far.seen()[0].closes, kind)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var visits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		far := newFarSide(t, kinds["idempotent"])
		issuer := far.issuer(t, nil)
		there := issuertest.Trouble{Status: status, Header: map[string]string{"Location": elsewhere.URL + "/v1/issuances"}}
		far.arm(issuertest.OnIssue, there)
		far.arm(issuertest.OnLookup, there)
		_, err := issuer.Issue(t.Context(), "op_1", []byte(`{"operation_id":"op_1"}`))
		require.True(t, fault.IsCode(err, fault.IssuanceUnknown), "%v", err)
		_, err = issuer.Lookup(t.Context(), "op_1")
		require.True(t, fault.IsCode(err, fault.IssuerReadFailed), "%v", err)
	}
	require.Zero(t, visits.Load())
}

// raw is an issuer on a handler that answers as no Trouble can.
func raw(t *testing.T, timeout time.Duration, handler http.HandlerFunc) issuers.Issuer {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	issuer, err := issuers.NewHTTP(issuers.HTTPConfig{
		Name: "raw", BaseURL: server.URL, Token: secret.New(token), Timeout: timeout, MaxAnswer: 4096, Capabilities: kinds["idempotent"],
	})
	require.NoError(t, err)
	return issuer
}

func TestAnswersOfTheWrongSize(t *testing.T) {
	t.Parallel()
	good := `{"issuance_id":"iss_1","operation_id":"op_1","status":"issued","reference":"V"}`
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		code    fault.Code
	}{
		"AtTheCap": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, good+strings.Repeat(" ", 4096-len(good)))
		}, ""},
		"OverTheCap": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, good+strings.Repeat(" ", 4097-len(good)))
		}, fault.IssuanceUnknown},
		"WithoutEnd": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1024)); err != nil {
					return
				}
			}
		}, fault.IssuanceUnknown},
		"ShorterThanAnnounced": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4000")
			_, _ = io.WriteString(w, good)
		}, fault.IssuanceUnknown},
		"RefusalShorterThanAnnounced": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4000")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"code":"sold_out"}`)
		}, fault.IssuanceUnknown},
		"Compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, good+strings.Repeat(" ", 1<<20))
			_ = z.Close()
		}, fault.IssuanceUnknown},
		"EndlessHeader": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
			_, _ = io.WriteString(w, good)
		}, fault.IssuanceUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := raw(t, 15*time.Second, tc.handler).Issue(t.Context(), "op_1", []byte(`{"operation_id":"op_1"}`))
			if tc.code == "" {
				require.NoError(t, err)
				require.Equal(t, issuers.Issued, o.Outcome)
				return
			}
			require.True(t, fault.IsCode(err, tc.code), "%v", err)
		})
	}
}

func TestTheTimeoutCoversTheWholeExchange(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"NoAnswer": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"HalfABody": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"issuance_id":`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, err := raw(t, 150*time.Millisecond, handler).Issue(context.Background(), "op_1", []byte(`{"operation_id":"op_1"}`))
			require.True(t, fault.IsCode(err, fault.IssuanceUnknown), "%v", err)
			require.Less(t, time.Since(start), 10*time.Second)
		})
	}
}

func TestNobodyListening(t *testing.T) {
	t.Parallel()
	far := newFarSide(t, kinds["idempotent"])
	issuer := far.issuer(t, nil)
	far.server.Close()
	_, err := issuer.Issue(t.Context(), "op_1", []byte(`{"operation_id":"op_1"}`))
	require.True(t, fault.IsCode(err, fault.IssuanceUnknown), "%v", err)
	_, err = issuer.Lookup(t.Context(), "op_1")
	require.True(t, fault.IsCode(err, fault.IssuerReadFailed), "%v", err)
}

func TestFaultsCarryNoSecretAndNoInput(t *testing.T) {
	t.Parallel()
	far := newFarSide(t, kinds["idempotent"])
	issuer := far.issuer(t, nil)
	for _, trouble := range []issuertest.Trouble{
		{Cut: true},
		{Status: 500, Body: `{"code":"mArKeR in words"}`},
		{Status: 503, Header: map[string]string{"X-Request-Id": "mArKeR and\tmore"}},
		{Status: 200, Body: "mArKeR"},
	} {
		far.arm(issuertest.OnIssue, trouble)
		_, err := issuer.Issue(t.Context(), "op_1", []byte(`{"operation_id":"op_1","sku":"mArKeR"}`))
		require.Error(t, err)
		require.NotContains(t, err.Error(), "mArKeR")
	}
	require.NotContains(t, fmt.Sprintf("%v %+v", issuer, issuer), token)
	far.arm(issuertest.OnIssue, issuertest.Trouble{Status: 500, Header: map[string]string{"X-Request-Id": "req-1"}, Body: `{"code":"boom"}`})
	_, err := issuer.Issue(t.Context(), "op_1", []byte(`{"operation_id":"op_1"}`))
	require.Equal(t, fault.Provider{Name: "tickets", HTTPStatus: 500, Code: "boom", RequestID: "req-1"}, fault.As(err).Provider)
}

func TestConfigurationsThatDoNotStart(t *testing.T) {
	t.Parallel()
	good := issuers.HTTPConfig{Name: "tickets", BaseURL: "https://issuer.example/base", Token: secret.New(token)}
	_, err := issuers.NewHTTP(good)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		change func(*issuers.HTTPConfig)
		says   string
	}{
		"NoName":             {func(c *issuers.HTTPConfig) { c.Name = "" }, "set a name"},
		"OddName":            {func(c *issuers.HTTPConfig) { c.Name = "Tickets / 1" }, "set a name"},
		"NoToken":            {func(c *issuers.HTTPConfig) { c.Token = secret.Value{} }, "set its token"},
		"TokenWithLineBreak": {func(c *issuers.HTTPConfig) { c.Token = secret.New(token + "\n") }, "exactly as"},
		"NoURL":              {func(c *issuers.HTTPConfig) { c.BaseURL = "" }, "set its base URL"},
		"NoScheme":           {func(c *issuers.HTTPConfig) { c.BaseURL = "issuer.example" }, "http or https"},
		"FTP":                {func(c *issuers.HTTPConfig) { c.BaseURL = "ftp://issuer.example" }, "http or https"},
		"File":               {func(c *issuers.HTTPConfig) { c.BaseURL = "file:///etc/passwd" }, "http or https"},
		"NoHost":             {func(c *issuers.HTTPConfig) { c.BaseURL = "https:///x" }, "http or https"},
		"PortWithoutHost":    {func(c *issuers.HTTPConfig) { c.BaseURL = "https://:443" }, "http or https"},
		"NotAURL":            {func(c *issuers.HTTPConfig) { c.BaseURL = "https://a b" }, "http or https"},
		"Password":           {func(c *issuers.HTTPConfig) { c.BaseURL = "https://u:mArKeR@issuer.example" }, "leave user"},
		"Query":              {func(c *issuers.HTTPConfig) { c.BaseURL = "https://issuer.example?key=mArKeR" }, "leave user"},
		"Fragment":           {func(c *issuers.HTTPConfig) { c.BaseURL = "https://issuer.example#" }, "leave user"},
		"ShortTimeout":       {func(c *issuers.HTTPConfig) { c.Timeout = time.Millisecond }, "100ms"},
		"ShortSendTimeout":   {func(c *issuers.HTTPConfig) { c.Capabilities.SendTimeout = time.Millisecond }, "100ms"},
		"NegativeTimeout":    {func(c *issuers.HTTPConfig) { c.Timeout = -time.Second }, "100ms"},
		"TwoTimeouts": {func(c *issuers.HTTPConfig) {
			c.Timeout, c.Capabilities.SendTimeout = time.Second, 2*time.Second
		}, "set one of the two"},
		"FinalWithoutLookup": {func(c *issuers.HTTPConfig) { c.Capabilities.NotFoundFinalAfter = time.Hour }, "set lookup"},
		"NegativeFinal":      {func(c *issuers.HTTPConfig) { c.Capabilities.NotFoundFinalAfter = -1 }, "negative"},
		"NegativeCap":        {func(c *issuers.HTTPConfig) { c.MaxAnswer = -1 }, "above zero"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := good
			tc.change(&config)
			issuer, err := issuers.NewHTTP(config)
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "mArKeR")
			require.Nil(t, issuer)
		})
	}
}

func TestTheSendTimeoutIsTheTimeout(t *testing.T) {
	t.Parallel()
	base := issuers.HTTPConfig{Name: "tickets", BaseURL: "https://issuer.example", Token: secret.New(token)}
	for want, change := range map[time.Duration]func(*issuers.HTTPConfig){
		issuers.DefaultTimeout: func(*issuers.HTTPConfig) {},
		2 * time.Second:        func(c *issuers.HTTPConfig) { c.Timeout = 2 * time.Second },
		3 * time.Second:        func(c *issuers.HTTPConfig) { c.Capabilities.SendTimeout = 3 * time.Second },
	} {
		config := base
		change(&config)
		issuer, err := issuers.NewHTTP(config)
		require.NoError(t, err)
		require.Equal(t, want, issuer.Capabilities().SendTimeout)
	}
}
