package omise

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// listing serves charges in the order of the slice, or turned around. between runs after each page.
type listing struct {
	mu      sync.Mutex
	charges []string // JSON, oldest first
	queries []listQuery
	between func(*listing)
}

type listQuery struct {
	From, To, Order string
	Offset, Limit   int
}

func (l *listing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id, ok := strings.CutPrefix(r.URL.Path, "/charges/"); ok {
		for _, c := range l.charges {
			if strings.Contains(c, `"id":"`+id+`"`) {
				_, _ = io.WriteString(w, c)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"object":"error","code":"not_found"}`)
		return
	}
	q := listQuery{Limit: 20}
	_ = json.NewDecoder(r.Body).Decode(&q)
	l.queries = append(l.queries, q)
	all := slices.Clone(l.charges)
	if q.Order == "reverse_chronological" {
		slices.Reverse(all)
	}
	page := all[min(q.Offset, len(all)):min(q.Offset+q.Limit, len(all))]
	_, _ = fmt.Fprintf(w, `{"object":"list","total":%d,"data":[%s]}`, len(all), strings.Join(page, ","))
	if l.between != nil {
		l.between(l)
	}
}

func listed(id, status, reference string) string {
	paid, code := status == "successful", "null"
	if status == "failed" {
		code = `"insufficient_fund"`
	}
	authorized := status == "held"
	if authorized {
		status = "pending"
	}
	return fmt.Sprintf(`{"object":"charge","id":%q,"livemode":false,"status":%q,"paid":%v,"authorized":%v,"failure_code":%s,"amount":80,`+
		`"currency":"JPY","created_at":"2026-01-02T03:04:05Z","metadata":{"merchant_reference":%q}}`, id, status, paid, authorized, code, reference)
}

func others(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = listed(fmt.Sprintf("chrg_test_other%d", i), "successful", fmt.Sprintf("of-other%d", i))
	}
	return out
}

var since = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func lookup(t *testing.T, l *listing, q gateways.Query) (gateways.Observation, error) {
	t.Helper()
	srv := httptest.NewServer(l)
	t.Cleanup(srv.Close)
	g := open(t, srv.URL)
	g.now = func() time.Time { return since.Add(time.Hour) }
	return g.Lookup(t.Context(), q)
}

func byReference(t *testing.T, charges ...string) (gateways.Observation, *listing, error) {
	t.Helper()
	l := &listing{charges: charges}
	o, err := lookup(t, l, gateways.Query{MerchantReference: "of-1", Since: since})
	return o, l, err
}

// All charges carry the same second, so only the place in the list can page.
func TestLookupByReferencePagesWithAnOverlap(t *testing.T) {
	t.Parallel()
	o, l, err := byReference(t, append(others(250), listed("chrg_test_mine", "successful", "of-1"))...)
	require.NoError(t, err)
	require.Equal(t, "chrg_test_mine", o.ProviderPaymentID)
	require.Equal(t, gateways.Succeeded, o.Outcome)
	require.Len(t, l.queries, 3)
	for i, offset := range []int{0, 90, 180} {
		require.Equal(t, listQuery{
			From: "2026-01-02T02:55:00Z", To: "2026-01-02T04:00:01Z", Order: "chronological", Offset: offset, Limit: 100,
		}, l.queries[i], "a closed window that does not move between pages")
	}
}

// Without the time of the first send, the newest come first.
func TestLookupWithoutATimeBeginsAtTheNewest(t *testing.T) {
	t.Parallel()
	l := &listing{charges: append(others(3000), listed("chrg_test_mine", "successful", "of-1"))}
	o, err := lookup(t, l, gateways.Query{MerchantReference: "of-1"})
	require.NoError(t, err)
	require.Equal(t, "chrg_test_mine", o.ProviderPaymentID)
	require.Equal(t, "reverse_chronological", l.queries[0].Order)
	require.Equal(t, "2025-12-26T04:00:01Z", l.queries[0].From)
}

// The list loses or gains up to the overlap between two pages; the charge is found all the same.
func TestAShiftingListHidesNothing(t *testing.T) {
	t.Parallel()
	for at := range 21 {
		for name, shift := range map[string]func(*listing){
			"Loses": func(l *listing) { l.charges = l.charges[listOverlap:] },
			"Gains": func(l *listing) { l.charges = append(others(listOverlap), l.charges...) },
		} {
			l := &listing{between: func(l *listing) {
				if len(l.queries) == 1 {
					shift(l)
				}
			}}
			l.charges = others(90 + at)
			l.charges = append(l.charges, listed("chrg_test_mine", "successful", "of-1"))
			l.charges = append(l.charges, others(150)...)
			o, err := lookup(t, l, gateways.Query{MerchantReference: "of-1", Since: since})
			require.NoError(t, err)
			require.Equal(t, gateways.Succeeded, o.Outcome, "%s with the charge at %d", name, 90+at)
		}
	}
}

// A window that is longer than a lookup reads is no "not found".
func TestATruncatedWindowProvesNothing(t *testing.T) {
	t.Parallel()
	l := &listing{charges: append(others(listPages*listLimit), listed("chrg_test_mine", "successful", "of-1"))}
	_, err := lookup(t, l, gateways.Query{MerchantReference: "of-1", Since: since})
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%v", err)
	require.ErrorIs(t, err, errTruncated)
	require.Len(t, l.queries, listPages)
}

func TestLookupByReferencePrefersTheChargeFurthestAlong(t *testing.T) {
	t.Parallel()
	order := []string{"expired", "pending", "held", "half_done", "successful"}
	for i, low := range order {
		for _, high := range order[i+1:] {
			a, b := listed("chrg_test_low", low, "of-1"), listed("chrg_test_high", high, "of-1")
			for _, both := range [][]string{{a, b}, {b, a}} {
				o, _, err := byReference(t, both...)
				require.NoError(t, err)
				require.Equal(t, "chrg_test_high", o.ProviderPaymentID, "%s over %s", high, low)
			}
		}
	}
}

// Two charges that are as far along: every lookup names the same one, whatever the order of the list.
func TestLookupByReferenceIsStable(t *testing.T) {
	t.Parallel()
	a, b := listed("chrg_test_a", "pending", "of-1"), listed("chrg_test_b", "pending", "of-1")
	for _, both := range [][]string{{a, b}, {b, a}, {a, b, a, b}} {
		o, _, err := byReference(t, both...)
		require.NoError(t, err)
		require.Equal(t, "chrg_test_a", o.ProviderPaymentID)
	}
	older := strings.Replace(b, "03:04:05Z", "03:04:04Z", 1)
	for _, both := range [][]string{{a, older}, {older, a}} {
		o, _, err := byReference(t, both...)
		require.NoError(t, err)
		require.Equal(t, "chrg_test_b", o.ProviderPaymentID, "the older one")
	}
}

func TestTwoPaidChargesUnderOneReferenceAreAPersons(t *testing.T) {
	t.Parallel()
	_, _, err := byReference(t, listed("chrg_test_a", "successful", "of-1"), listed("chrg_test_b", "successful", "of-1"))
	require.True(t, fault.IsCode(err, fault.PaymentNeedsReview), "%v", err)
	one := listed("chrg_test_a", "successful", "of-1")
	o, _, err := byReference(t, one, one, listed("chrg_test_b", "failed", "of-1"))
	require.NoError(t, err, "one charge that is listed twice is one")
	require.Equal(t, gateways.Succeeded, o.Outcome)
}

func TestAnAbsentIDIsNotFoundAndNothingElseIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		found  bool
	}{
		"NotFound":  {404, `{"object":"error","code":"not_found"}`, true},
		"NoService": {404, `{"object":"error","code":"service_not_found"}`, false},
		"Plain404":  {404, `not found`, false},
		"Status400": {400, `{"object":"error","code":"not_found"}`, false},
		"NoObject":  {404, `{"code":"not_found"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, _ := scripted(t, c.status, c.body)
			o, err := open(t, base).Lookup(t.Context(), gateways.Query{ProviderPaymentID: "chrg_test_1"})
			if !c.found {
				require.Error(t, err)
				require.NotEqual(t, fault.Declined, fault.As(err).Class)
				return
			}
			require.NoError(t, err)
			require.Equal(t, gateways.NotFound, o.Outcome)
			require.Equal(t, "chrg_test_1", o.ProviderPaymentID)
			require.False(t, o.Final)
		})
	}
}

func TestAListThatIsNoneProvesNothing(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{}`, `null`, `[]`, `<html>`, `{"object":"search","data":[],"total":0}`, `{"object":"list","data":null,"total":0}`, `{"object":"list","total":0}`,
		`{"object":"list","data":[]}`, `{"object":"list","data":[],"total":1}`, `{"object":"list","data":[{"object":"refund"}],"total":1}`,
		`{"object":"list","data":[null],"total":1}`, `{"object":"list","data":{},"total":0}`, `{"object":"list","data":[],"total":-1}`,
		`{"object":"list","data":[{"object":"charge","id":"chrg_1","metadata":{"merchant_reference":"of-1"}}],"total":1}`,
	} {
		base, _ := scripted(t, 200, body)
		_, err := open(t, base).Lookup(t.Context(), gateways.Query{MerchantReference: "of-1"})
		require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%s: %v", body, err)
	}
	base, seen := scripted(t, 200, `{}`)
	_, err := open(t, base).Lookup(t.Context(), gateways.Query{})
	require.True(t, fault.IsCode(err, fault.InternalError), "%v", err)
	require.Empty(t, seen)
}

// Whatever the list holds, in whatever order and pages: the answer is the charge with the reference that is furthest
// along, a person's case, or not found - never another order's charge.
func TestALookupNeverAnswersWithAnothersCharge(t *testing.T) {
	t.Parallel()
	l := &listing{}
	srv := httptest.NewServer(l)
	t.Cleanup(srv.Close)
	g := open(t, srv.URL)
	rapid.Check(t, func(rt *rapid.T) {
		charges := make([]string, rapid.IntRange(0, 260).Draw(rt, "charges"))
		paid, mine := 0, 0
		for i := range charges {
			status := rapid.SampledFrom([]string{"pending", "successful", "failed", "expired", "reversed", "held"}).Draw(rt, "status")
			ref := rapid.SampledFrom([]string{"of-10", "of-", "OF-1", "of-2", "of-3", "of-4", "of-5"}).Draw(rt, "reference")
			if rapid.IntRange(0, 60).Draw(rt, "mine") == 0 {
				ref = "of-1"
				mine++
				if status == "successful" {
					paid++
				}
			}
			charges[i] = listed(fmt.Sprintf("chrg_test_%d", i), status, ref)
		}
		l.mu.Lock()
		l.charges = charges
		l.mu.Unlock()
		o, err := g.Lookup(t.Context(), gateways.Query{MerchantReference: "of-1", Since: since})
		switch {
		case paid > 1:
			require.True(rt, fault.IsCode(err, fault.PaymentNeedsReview), "%v", err)
		case mine == 0:
			require.NoError(rt, err)
			require.Equal(rt, gateways.NotFound, o.Outcome)
		default:
			require.NoError(rt, err)
			require.Equal(rt, "of-1", o.MerchantReference)
			require.Equal(rt, paid == 1, o.Outcome == gateways.Succeeded)
		}
	})
}
