package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/secret"
	"orderflow/sandbox/server"
)

// Goal: every switch of every simulated provider can be turned from outside, one at a time, as a test in this process turns it.
// Method: all settings are read, and each is sent back changed. Not covered: what a switch does (the simulators' own tests).
func TestEverySettingCanBeTurned(t *testing.T) {
	t.Parallel()
	sb, err := server.New(server.Config{IssuerToken: secret.New("t"), WebhookSecret: secret.New("whsec_c2FuZGJveC1vbmx5LW5vdC1hLXJlYWwtc2VjcmV0")})
	require.NoError(t, err)
	ask := func(method, provider, body string) (int, map[string]any) {
		rec := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), method, "/admin/"+provider+"/settings", strings.NewReader(body))
		sb.Handler().ServeHTTP(rec, req)
		var out map[string]any
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &out), "%s", rec.Body)
		return rec.Code, out
	}
	for _, provider := range []string{"stripe", "omise", "twoctwop", "toss"} {
		_, have := ask(http.MethodGet, provider, "")
		require.NotEmpty(t, have)
		for name, v := range have {
			var other any
			switch v := v.(type) {
			case bool:
				other = !v
			case float64:
				other = v + 4
			case string:
				other = "7s" // durations are text too, and a word may be any
			}
			body, err := json.Marshal(map[string]any{name: other})
			require.NoError(t, err)
			status, now := ask(http.MethodPost, provider, string(body))
			require.Equal(t, http.StatusOK, status, "%s %s: %v", provider, name, now)
			require.Equal(t, other, now[name], "%s %s", provider, name)
			have[name] = other
			require.Equal(t, have, now, "and nothing else has changed")
		}
	}
	for _, body := range []string{`{"no_such":true}`, `{"minimums":"yes"}`, `{"key_ttl":5}`, `{"key_ttl":"soon"}`, `[]`} {
		status, said := ask(http.MethodPost, "stripe", body)
		require.Equal(t, http.StatusBadRequest, status, body)
		require.NotEmpty(t, said["error"], body)
	}
	require.Equal(t, true, func() any { _, now := ask(http.MethodGet, "stripe", ""); return now["minimums"] }(), "what is refused changes nothing")
}
