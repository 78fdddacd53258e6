package idempotency_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/starter/idempotency"
)

// TestCost: the guard adds at most 2 ms at the median. Paired: each round calls the bare and the guarded handler once, in
// changing order, so that whatever else the machine does falls on both. The handler does what any of ours does at least:
// one transaction.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for a few seconds")
	}
	b := setup(t, time.Minute, func(http.ResponseWriter, *http.Request, string) {})
	work := func(r *http.Request) { _ = b.store.StockSet(r.Context(), "sku", 1) }
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		work(r)
		w.WriteHeader(http.StatusCreated)
	})
	guarded := b.guard(time.Minute, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := idempotency.From(r.Context()).Begin(r.Context(), func() string { return "s" }); err != nil {
			return
		}
		work(r)
		w.WriteHeader(http.StatusCreated)
	}))
	run := func(h http.Handler, n int) time.Duration {
		r := httptest.NewRequest(http.MethodPost, "/things", bytes.NewBufferString(`{"a":1}`))
		r.Header.Set("X-Caller", "shop")
		r.Header.Set("Idempotency-Key", fmt.Sprintf("cost-%d", n))
		w := httptest.NewRecorder()
		began := time.Now()
		h.ServeHTTP(w, r)
		took := time.Since(began)
		require.Equal(t, 201, w.Code)
		return took
	}
	const rounds = 1000
	var plain, with, added []time.Duration
	for n := range rounds + 50 {
		var p, g time.Duration
		if n%2 == 0 {
			p, g = run(bare, n), run(guarded, n)
		} else {
			g, p = run(guarded, n), run(bare, n)
		}
		if n >= 50 { // connections and caches are warm
			plain, with, added = append(plain, p), append(with, g), append(added, g-p)
		}
	}
	quantile := func(ds []time.Duration, q float64) time.Duration {
		s := slices.Clone(ds)
		slices.Sort(s)
		return s[int(float64(len(s)-1)*q)]
	}
	t.Logf("bare    median %v  p99 %v", quantile(plain, .5), quantile(plain, .99))
	t.Logf("guarded median %v  p99 %v", quantile(with, .5), quantile(with, .99))
	t.Logf("added   median %v  p99 %v", quantile(added, .5), quantile(added, .99))
	require.Less(t, quantile(added, .5), 2*time.Millisecond)
}
