package scripts_test

// Goal: every pair of money events at every provider, in every order of arrival, ends in the right three states with money conserved
// and goods provided once. Method: the API, the webhooks, the workflow and the steps as they are, on a real PostgreSQL and over HTTP
// with the simulated providers; only Temporal's server is left out, whose place the SDK's test environment takes, so that thousands
// of orders fit into a minute. Judged by the books of the sandbox. Not covered here: processes that die, and what Temporal's server
// does (e2e plays some of the same scripts with it).

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/scripts"
)

func TestEveryPairOfMoneyEvents(t *testing.T) {
	t.Parallel()
	all := scripts.All()
	require.GreaterOrEqual(t, len(all), 3000)
	list := scripts.Spread(all, 500)
	if os.Getenv("ORDERFLOW_TEST_LONG") == "1" {
		list = all
	}
	if only := os.Getenv("ORDERFLOW_SCRIPTS"); only != "" { // part of a name, as a failure prints it
		list = slices.DeleteFunc(list, func(s scripts.Script) bool { return !strings.Contains(s.Name(), only) })
	}
	p := newProduct(t)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	plays, err := scripts.Run(ctx, p.world, list)
	require.NoError(t, err)
	wrong, err := scripts.Judge(ctx, p.world, plays)
	require.NoError(t, err)
	took := time.Since(begin)
	t.Logf("%d scripts of %d in %s: %.0f a second", len(list), len(all), took.Round(time.Millisecond), float64(len(list))/took.Seconds())
	for _, why := range scripts.Report(wrong) {
		t.Error(why)
	}
	before := p.history()
	require.NoError(t, p.world.Look(ctx))
	require.NoError(t, p.world.Calm(ctx))
	require.Equal(t, before, p.history(), "comparing the books of a settled system writes nothing")
}

// TestCover: what e2e plays holds every pair of events, and every event in every telling.
func TestCover(t *testing.T) {
	t.Parallel()
	all := scripts.All()
	pairs := func(list []scripts.Script) map[string]bool {
		out := map[string]bool{}
		for _, s := range list {
			out[s.First+" then "+s.Second] = true
			out[s.First+" told "+string(s.Telling)] = true
			out[s.Gateway+" told "+string(s.Telling)] = true
		}
		return out
	}
	some := scripts.Cover(all, 300)
	require.Len(t, some, 300)
	require.Equal(t, pairs(all), pairs(some))
	require.Equal(t, some[:20], scripts.Cover(all, 20), "always the same ones")
}

// call is one request to our API, without a socket.
func (p *product) call(ctx context.Context, method, path, key string, body any) (scripts.Answer, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return scripts.Answer{}, err
	}
	req := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(raw))
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	rec := httptest.NewRecorder()
	p.api.ServeHTTP(rec, req)
	a := scripts.Answer{Status: rec.Code, Raw: rec.Body.Bytes()}
	_ = json.Unmarshal(a.Raw, &a.Body)
	return a, nil
}

// post is a provider's webhook, as it came.
func (p *product) post(ctx context.Context, gateway string, header http.Header, body []byte) (int, error) {
	req := httptest.NewRequestWithContext(ctx, "POST", "/webhooks/"+gateway+"/default", bytes.NewReader(body))
	req.Header = header.Clone()
	rec := httptest.NewRecorder()
	p.api.ServeHTTP(rec, req)
	return rec.Code, nil
}
