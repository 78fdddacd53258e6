package stripesim_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/secret"
	"orderflow/sandbox/stripesim"
)

// clock is a time that only a test moves.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_700_000_000, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

func do(t *testing.T, s *stripesim.Sim, method, path, form string) string {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form))
	r.Header.Set("Authorization", "Bearer sk_test_a")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	return w.Body.String()
}

func TestSearchShowsTheStateOneLagAgo(t *testing.T) {
	t.Parallel()
	var c clock
	s, err := stripesim.New(stripesim.Config{Keys: []secret.Value{secret.New("sk_test_a")}, Now: c.now})
	require.NoError(t, err)
	s.Configure(func(set *stripesim.Settings) { set.SearchLag = time.Minute })
	search := func() string {
		return do(t, s, http.MethodGet, "/v1/payment_intents/search?query="+url.QueryEscape(`metadata["o"]:"1"`), "")
	}
	body := do(t, s, http.MethodPost, "/v1/payment_intents", "amount=5&currency=jpy&payment_method_types[]=card&metadata[o]=1")
	_, rest, _ := strings.Cut(body, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)

	c.advance(59 * time.Second)
	require.Contains(t, search(), `"data":[]`)
	c.advance(time.Second)
	require.Contains(t, search(), `"status":"requires_payment_method"`)
	do(t, s, http.MethodPost, "/v1/payment_intents/"+id+"/confirm", "payment_method=pm_card_visa")
	c.advance(59 * time.Second)
	require.Contains(t, search(), `"status":"requires_payment_method"`, "paid, and the index does not know yet")
	c.advance(time.Second)
	require.Contains(t, search(), `"status":"succeeded"`)
}

func TestEveryEventReachesTheHookOnceAndInOrder(t *testing.T) {
	t.Parallel()
	var got []string
	s, err := stripesim.New(stripesim.Config{
		Keys:    []secret.Value{secret.New("sk_test_a")},
		OnEvent: func(_ string, event []byte) { got = append(got, string(event)) },
	})
	require.NoError(t, err)
	do(t, s, http.MethodPost, "/v1/payment_intents", "amount=5&currency=jpy&payment_method_types[]=card&confirm=true&payment_method=pm_card_visa")
	do(t, s, http.MethodGet, "/v1/payment_intents", "")
	require.Len(t, got, 3)
	for i, kind := range []string{"payment_intent.created", "charge.succeeded", "payment_intent.succeeded"} {
		require.Contains(t, got[i], `"type":"`+kind+`"`)
		require.Contains(t, got[i], `"api_version":"2023-10-16"`)
	}
	require.Contains(t, got[0], `"status":"requires_confirmation"`, "an event shows the object as it was then")
}

// BenchmarkPayment is the cost of one create and one confirm without the network.
func BenchmarkPayment(b *testing.B) {
	s, err := stripesim.New(stripesim.Config{Keys: []secret.Value{secret.New("sk_test_a")}})
	require.NoError(b, err)
	send := func(path, form string) string {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form))
		r.Header.Set("Authorization", "Bearer sk_test_a")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Body.String()
	}
	for b.Loop() {
		body := send("/v1/payment_intents", "amount=5&currency=jpy&payment_method_types[]=card&metadata[o]=1")
		_, rest, _ := strings.Cut(body, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		send("/v1/payment_intents/"+id+"/confirm", "payment_method=pm_card_visa")
	}
}
