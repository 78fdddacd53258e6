package profiles

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProfilesAreServedOnlyWhenAskedForOnLoopback(t *testing.T) {
	health := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	for _, c := range []struct {
		env, listen string
		profiles    int
	}{
		{"1", "127.0.0.1:8082", http.StatusOK},
		{"1", "[::1]:8082", http.StatusOK},
		{"1", "0.0.0.0:8082", http.StatusNotFound},
		{"1", ":8082", http.StatusNotFound},
		{"1", "localhost:8082", http.StatusNotFound},
		{"true", "127.0.0.1:8082", http.StatusNotFound},
		{"", "127.0.0.1:8082", http.StatusNotFound},
	} {
		t.Run(c.env+" "+c.listen, func(t *testing.T) {
			t.Setenv(Env, c.env)
			h := Beside(health, c.listen)
			for path, want := range map[string]int{"/debug/pprof/": c.profiles, "/healthz": http.StatusOK, "/other": http.StatusNotFound} {
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
				require.Equal(t, want, rec.Code, path)
			}
		})
	}
}
