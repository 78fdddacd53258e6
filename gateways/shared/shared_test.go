package shared_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"orderflow/gateways/shared"
)

// Goal: what the gateways share bounds, refuses and hides by itself. Method: tables, and a server that answers badly. Not covered:
// what each gateway makes of it (their own tests and the conformance suite).

func TestWhereRequestsMayGo(t *testing.T) {
	t.Parallel()
	p := shared.Place{Gateway: "bank", Title: "Bank", Base: "https://api.bank.example", Domain: "bank.example"}
	for raw, want := range map[string]struct {
		test, live string // empty = refused
	}{
		"":                                 {p.Base, p.Base},
		"https://other.example/x/":         {"https://other.example/x", "https://other.example/x"},
		"http://sandbox:8090/bank":         {"http://sandbox:8090/bank", ""},
		"http://127.0.0.1:8090":            {"http://127.0.0.1:8090", "http://127.0.0.1:8090"},
		"http://localhost:1/":              {"http://localhost:1", "http://localhost:1"},
		"http://api.bank.example":          {"", ""},
		"ftp://sandbox/x":                  {"", ""},
		"https://user:pw@other.example":    {"", ""},
		"https://other.example/?key=HUSH":  {"", ""},
		"https://other.example/#HUSH":      {"", ""},
		"://HUSH":                          {"", ""},
		"/only/a/path":                     {"", ""},
		"http://localhost.evil.example/x/": {"http://localhost.evil.example/x", ""},
	} {
		for live, address := range map[bool]string{false: want.test, true: want.live} {
			got, err := p.URL(raw, live)
			require.Equal(t, address, got, "%s, live %t", raw, live)
			require.Equal(t, address == "", err != nil, "%s, live %t: %v", raw, live, err)
			require.NotContains(t, fmt.Sprint(err), "HUSH")
		}
	}
}

func TestSmallThings(t *testing.T) {
	t.Parallel()
	d, err := shared.Timeout("bank", 0)
	require.NoError(t, err)
	require.Equal(t, shared.DefaultTimeout, d)
	d, err = shared.Timeout("bank", time.Second)
	require.NoError(t, err)
	require.Equal(t, time.Second, d)
	_, err = shared.Timeout("bank", -1)
	require.ErrorContains(t, err, "bank:")
	for key, ok := range map[string]bool{"": false, "a": true, "abcde": true, "abcdef": false, "a b": false, "a\n": false, "é": false, "~!": true} {
		require.Equal(t, ok, shared.UsableKey(key, 5), "%q", key)
	}
	for raw, ok := range map[string]bool{
		"": true, "https://shop.example/back?x=1": true, "http://shop.example": true, "shop.example": false, "/back": false,
		"javascript:alert(1)": false, "https://u:p@shop.example": false, "https://shop.example/\xff": false, "https://shop.example/" + strings.Repeat("x", 100): false,
	} {
		require.Equal(t, ok, shared.ReturnURL(raw, 60) == nil, "%q", raw)
	}
}

func TestAnAnswerIsWholeOrNone(t *testing.T) {
	t.Parallel()
	const limit = 1000
	answers := map[string]func(w http.ResponseWriter){
		"/fits":   func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, limit)) },
		"/long":   func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, limit+1)) },
		"/moved":  func(w http.ResponseWriter) { w.Header().Set("Location", "/fits"); w.WriteHeader(http.StatusFound) },
		"/broken": func(w http.ResponseWriter) { w.Header().Set("Content-Length", "9"); _, _ = w.Write([]byte("cut")) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers[r.URL.Path](w) }))
	t.Cleanup(server.Close)
	over := shared.Transport(10 * time.Second)
	t.Cleanup(over.CloseIdleConnections)
	for path, want := range map[string]error{"/fits": nil, "/long": shared.ErrTooBig, "/moved": shared.ErrRedirect, "/broken": io.ErrUnexpectedEOF} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		res, err := shared.Client(over, 10*time.Second).Do(req)
		require.NoError(t, err)
		body, err := shared.Body(res, limit)
		_ = res.Body.Close()
		if want == nil {
			require.NoError(t, err, path)
			require.Len(t, body, limit)
			continue
		}
		require.ErrorIs(t, err, want, path)
		require.Nil(t, body, "%s: nothing that could still parse", path)
	}
}

func TestOnlyPlainCausesAreShown(t *testing.T) {
	t.Parallel()
	own := errors.New("ours")
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, c := range []struct{ err, want error }{
		{fmt.Errorf("HUSH: %w", context.Canceled), context.Canceled},
		{&url.Error{Op: "Get", URL: "https://HUSH", Err: io.EOF}, io.EOF},
		{fmt.Errorf("HUSH: %w", own), own},
		{&url.Error{Op: "Get", URL: "https://HUSH", Err: refused}, refused},
		{&url.Error{Op: "Get", URL: "https://HUSH", Err: errors.New("HUSH")}, shared.ErrNoAnswer},
		{fmt.Errorf("HUSH: %w", shared.ErrRedirect), shared.ErrRedirect},
	} {
		require.Equal(t, c.want, shared.PlainCause(c.err, own), "%v", c.err)
	}
}

func TestTextsEndBetweenWholeCharacters(t *testing.T) {
	t.Parallel()
	family, flags := "👨\u200d👩\u200d👧", "🇯🇵🇰🇷"
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"  a\x00b\xff\n ", 9, "ab"}, {"abc", 2, "ab"}, {"a " + family, 4, "a"}, {"xe\u0301y", 2, "x"}, {flags, 2, "🇯🇵"}, {flags, 3, "🇯🇵"}, {"👍🏽", 1, ""},
	} {
		got := shared.Shorten(c.in, c.limit)
		require.Equal(t, c.want, got, "%q", c.in)
		require.LessOrEqual(t, utf8.RuneCountInString(got), c.limit)
	}
}
