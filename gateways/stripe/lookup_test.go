package stripe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// listing serves intents, newest first, in pages of what is asked for.
type listing struct {
	mu      sync.Mutex
	intents []string // JSON
	queries []url.Values
}

func (l *listing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id, ok := strings.CutPrefix(r.URL.Path, "/v1/payment_intents/"); ok {
		for _, pi := range l.intents {
			if strings.Contains(pi, `"id":"`+id+`"`) {
				_, _ = fmt.Fprint(w, pi)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"error":{"type":"invalid_request_error","code":"resource_missing"}}`)
		return
	}
	l.queries = append(l.queries, r.URL.Query())
	from := 0
	for i, pi := range l.intents {
		if after := r.URL.Query().Get("starting_after"); after != "" && strings.Contains(pi, `"id":"`+after+`"`) {
			from = i + 1
		}
	}
	to := min(from+100, len(l.intents))
	_, _ = fmt.Fprintf(w, `{"object":"list","has_more":%v,"data":[%s]}`, to < len(l.intents), strings.Join(l.intents[from:to], ","))
}

func listed(id, status, reference string, received int) string {
	return fmt.Sprintf(`{"id":%q,"object":"payment_intent","status":%q,"amount":80,"amount_received":%d,"currency":"jpy","metadata":{"merchant_reference":%q}}`,
		id, status, received, reference)
}

func lookupByReference(t *testing.T, intents ...string) (gateways.Observation, *listing, error) {
	t.Helper()
	l := &listing{intents: intents}
	srv := httptest.NewServer(l)
	t.Cleanup(srv.Close)
	g := open(t, srv.URL)
	g.now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	o, err := g.Lookup(t.Context(), gateways.Query{MerchantReference: "of-1"})
	return o, l, err
}

func others(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = listed(fmt.Sprintf("pi_other%d", i), "succeeded", fmt.Sprintf("of-other%d", i), 80)
	}
	return out
}

func TestLookupByReferencePagesThroughAWindow(t *testing.T) {
	t.Parallel()
	o, l, err := lookupByReference(t, append(others(250), listed("pi_mine", "succeeded", "of-1", 80))...)
	require.NoError(t, err)
	require.Equal(t, "pi_mine", o.ProviderPaymentID)
	require.Equal(t, gateways.Succeeded, o.Outcome)
	require.Len(t, l.queries, 3)
	require.Equal(t, url.Values{"created[gte]": {"1699395200"}, "limit": {"100"}}, l.queries[0])
	require.Equal(t, "pi_other99", l.queries[1].Get("starting_after"))
}

func TestLookupByReferenceBeginsAtTheFirstSend(t *testing.T) {
	t.Parallel()
	l := &listing{intents: []string{listed("pi_mine", "succeeded", "of-1", 80)}}
	srv := httptest.NewServer(l)
	t.Cleanup(srv.Close)
	since := time.Unix(1_600_000_000, 0)
	o, err := open(t, srv.URL).Lookup(t.Context(), gateways.Query{MerchantReference: "of-1", Since: since})
	require.NoError(t, err)
	require.Equal(t, "pi_mine", o.ProviderPaymentID)
	require.Equal(t, strconv.FormatInt(since.Add(-listMargin).Unix(), 10), l.queries[0].Get("created[gte]"), "clocks differ")
}

func TestLookupByReferenceIsBoundedAndNeverFinal(t *testing.T) {
	t.Parallel()
	o, l, err := lookupByReference(t, append(others(listPages*listLimit+1), listed("pi_mine", "succeeded", "of-1", 80))...)
	require.NoError(t, err)
	require.Equal(t, gateways.NotFound, o.Outcome)
	require.False(t, o.Final)
	require.Len(t, l.queries, listPages)
}

func TestLookupByReferencePrefersTheIntentFurthestAlong(t *testing.T) {
	t.Parallel()
	order := []string{"canceled", "requires_confirmation", "requires_action", "succeeded"}
	for i, low := range order {
		for _, high := range order[i+1:] {
			received := map[string]int{"succeeded": 80}
			a, b := listed("pi_low", low, "of-1", received[low]), listed("pi_high", high, "of-1", received[high])
			for _, both := range [][]string{{a, b}, {b, a}} {
				o, _, err := lookupByReference(t, both...)
				require.NoError(t, err)
				require.Equal(t, "pi_high", o.ProviderPaymentID, "%s over %s", high, low)
			}
		}
	}
}

func TestTwoPaidIntentsUnderOneReferenceAreAPersons(t *testing.T) {
	t.Parallel()
	_, _, err := lookupByReference(t, listed("pi_a", "succeeded", "of-1", 80), listed("pi_b", "succeeded", "of-1", 80))
	require.True(t, fault.IsCode(err, fault.PaymentNeedsReview), "%v", err)
}

func TestAnAbsentIDIsNotFoundAndNothingElseIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		found  bool
	}{
		"ResourceMissing": {404, `{"error":{"type":"invalid_request_error","code":"resource_missing"}}`, true},
		"NoSuchURL":       {404, `{"error":{"type":"invalid_request_error"}}`, false},
		"Plain404":        {404, `not found`, false},
		"Nested400":       {400, `{"error":{"type":"invalid_request_error","code":"resource_missing"}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, _ := scripted(t, c.status, c.body)
			o, err := open(t, base).Lookup(t.Context(), gateways.Query{ProviderPaymentID: "pi_1"})
			if !c.found {
				require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, gateways.NotFound, o.Outcome)
			require.Equal(t, "pi_1", o.ProviderPaymentID)
			require.False(t, o.Final)
		})
	}
}

func TestAListThatIsNoneProvesNothing(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `null`, `[]`, `{"object":"list","data":[{"object":"charge"}]}`, `{"object":"search_result","data":[]}`, `<html>`} {
		base, _ := scripted(t, 200, body)
		_, err := open(t, base).Lookup(t.Context(), gateways.Query{MerchantReference: "of-1"})
		require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%s: %v", body, err)
	}
}

func TestRefundsAreReadFromTheCharge(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, strings.TrimSuffix(paidIntent, "}")+`,"latest_charge":{"id":"ch_1","object":"charge","amount_refunded":500}}`)
	o, err := open(t, base).Lookup(t.Context(), gateways.Query{ProviderPaymentID: "pi_1"})
	require.NoError(t, err)
	require.Equal(t, int64(500), o.RefundedMinor)
	require.Equal(t, "latest_charge", (<-seen).URL.Query().Get("expand[0]"))
}
