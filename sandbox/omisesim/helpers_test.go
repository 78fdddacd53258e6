package omisesim_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	omisego "github.com/omise/omise-go"
	"github.com/stretchr/testify/require"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/omisesim"
)

const (
	secretKey = "skey_test_a"
	publicKey = "pkey_test_a"
	liveKey   = "skey_live1"
)

var hookSecret = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef"))

type world struct {
	sim    *omisesim.Sim
	faults *faults.Injector
	base   string

	mu      sync.Mutex
	clock   time.Time
	notices []notify.Message
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{faults: faults.New(), clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	var err error
	w.sim, err = omisesim.New(omisesim.Config{
		Keys: []omisesim.KeyPair{
			{Secret: secret.New(secretKey), Public: publicKey},
			{Secret: secret.New(liveKey), Public: "pkey_live1"},
		},
		Faults: w.faults, Now: w.now, WebhookSecret: secret.New(hookSecret),
		OnNotice: func(m notify.Message) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notices = append(w.notices, m)
		},
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", w.sim)
	mux.Handle("/buyer/", w.sim.Buyer())
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Cleanup(w.faults.Close)
	w.base = srv.URL
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

func (w *world) kinds() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, m := range w.notices {
		out = append(out, m.Kind)
	}
	return out
}

// sdk is the real omise-go against the simulator.
func (w *world) sdk(t *testing.T) *omisego.Client {
	t.Helper()
	c, err := omisego.NewClient(publicKey, secretKey)
	require.NoError(t, err)
	c.Client = &http.Client{Timeout: time.Minute}
	c.Endpoints["https://api.omise.co"], c.Endpoints["https://vault.omise.co"] = w.base, w.base
	return c
}

// ask sends a request in process and decodes the answer.
func (w *world) ask(t require.TestingT, method, path, key, body string) (int, map[string]any) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.SetBasicAuth(key, "")
	}
	rec := httptest.NewRecorder()
	w.sim.ServeHTTP(rec, r)
	var out map[string]any
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &out), rec.Body.String())
	return rec.Code, out
}

func (w *world) charge(t require.TestingT, fields string) map[string]any {
	status, c := w.ask(t, http.MethodPost, "/charges", secretKey, `{"amount":10000,"currency":"thb",`+fields+`}`)
	require.Equal(t, 200, status, "%v", c)
	return c
}
