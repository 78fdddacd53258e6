package api_test

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/store"
)

// Goal: who sees which reviews, who may take and decide them, and that each refusal has a problem of its own and changes nothing. Method:
// real HTTP and PostgreSQL; two persons are needed, as by default. Not covered: what the worker does with a decision (e2e), and every
// reason and decision (order's table).

const (
	viewKey    = "key-that-views-dddddddddddd"
	approveKey = "key-that-approves-eeeeeeeee"
	sameKey    = "key-of-the-same-person-ffff"
	wholeKey   = "key-of-the-installation-ggg"
)

// reviewing is a setup with people's keys beside those of the shops.
func reviewing(t *testing.T) *bundle {
	t.Helper()
	b := setup(t)
	for key, c := range map[string]store.Caller{
		viewKey:    {KeyID: "k4", Client: "shop", Scopes: []string{"view"}},
		approveKey: {KeyID: "k5", Client: "shop", Scopes: []string{"approve"}, Name: "anna"},
		sameKey:    {KeyID: "k6", Client: "shop", Scopes: []string{"approve"}, Name: "SHOP"},
		wholeKey:   {KeyID: "k7", Client: store.Everyone, Scopes: []string{"view"}},
	} {
		sum := sha256.Sum256([]byte(key))
		require.NoError(t, b.store.APIKeyAdd(t.Context(), c, sum[:]))
	}
	return b
}

// review opens one about an order as a whole, a number of hours ago.
func (b *bundle) review(id string, reason order.ReviewReason, hours int) string {
	b.t.Helper()
	r := string(order.NewReviewID())
	b.exec(fmt.Sprintf(`INSERT INTO reviews (review_id, order_id, subject_kind, subject_id, subject_version, reason, gateway, opened_at, next_check_at)
		VALUES ('%s', '%s', 'order', '%s', 0, '%s', 'stripe', now() - interval '%d hours', now())`, r, id, id, reason, hours))
	return r
}

func decisionOf(kind order.DecisionKind, change ...func(fields)) fields {
	f := fields{"decision": kind, "review_version": 1, "reason": "looked at the portal", "evidence": fields{"proof": "ticket 4711", "reference": "T-1"}}
	for _, c := range change {
		c(f)
	}
	return f
}

func (b *bundle) decide(review string, body any, options ...option) answer {
	b.t.Helper()
	return b.call("POST", "/v1/reviews/"+review+"/decisions", body, append([]option{as(operatorKey)}, options...)...)
}

func ids(a answer) (out []string) {
	list, _ := a.at("reviews").([]any)
	for _, r := range list {
		id, _ := r.(map[string]any)["id"].(string)
		out = append(out, id)
	}
	return out
}

func TestListReviews(t *testing.T) {
	b := reviewing(t)
	for _, id := range []string{"O-1", "O-2", "O-3"} {
		b.place(id)
	}
	old := b.review("O-1", order.ReviewRepeatedFailure, 30)
	mid := b.review("O-2", order.ReviewSettledElsewhere, 20)
	young := b.review("O-3", order.ReviewRepeatedFailure, 0)
	list := func(query string, options ...option) answer {
		return b.call("GET", "/v1/reviews"+query, nil, append([]option{as(viewKey)}, options...)...)
	}
	for query, want := range map[string][]string{
		"": {old, mid, young}, "?reason=settled_elsewhere": {mid}, "?min_age=10h": {old, mid}, "?min_age=25h&reason=repeated_failure": {old},
		"?gateway=stripe": {old, mid, young}, "?gateway=omise": nil, "?owner=nobody-such": nil, "?unassigned=true": {old, mid, young}, "?proposed=true": nil,
	} {
		a := list(query)
		require.Equal(t, 200, a.status, "%s: %s", query, a.body)
		require.Equal(t, want, ids(a), query)
	}
	first := list("?limit=2")
	require.Equal(t, []string{old, mid}, ids(first))
	next, _ := first.at("next").(string)
	last := list("?limit=2&after=" + url.QueryEscape(next))
	require.Equal(t, []string{young}, ids(last))
	require.Nil(t, last.at("next"))

	require.Equal(t, "forbidden", list("", as(otherKey)).problem())
	require.Equal(t, "forbidden", list("", as(shopKey)).problem())
	require.Equal(t, 401, list("", without("Authorization")).status)
	require.Len(t, ids(list("", as(wholeKey))), 3, "the client * sees all")
	for _, query := range []string{"?min_age=soon", "?min_age=-1h", "?limit=201", "?limit=-1", "?after=%00", "?after=bm90aGluZw", "?reason=" + url.QueryEscape("a\x00b")} {
		require.Equal(t, "validation", list(query).problem(), query)
	}
	require.Equal(t, 200, b.call("GET", "/v1/figures", nil, as(wholeKey)).status)
	require.Equal(t, "forbidden", b.call("GET", "/v1/figures", nil, as(viewKey)).problem())

	a := b.call("GET", "/v1/reviews/"+old, nil, as(viewKey))
	require.Equal(t, 200, a.status, string(a.body))
	require.Equal(t, old, a.at("id"))
	require.NotEmpty(t, a.at("allowed"))
	require.NotEmpty(t, a.at("forbidden"))
	for _, id := range []string{"rev_NONE", "x", "rev_%00"} {
		require.Equal(t, "not-found", b.call("GET", "/v1/reviews/"+id, nil, as(viewKey)).problem(), id)
	}
}

func TestTakeReview(t *testing.T) {
	b := reviewing(t)
	b.place("O-1")
	r := b.review("O-1", order.ReviewRepeatedFailure, 1)
	take := func(key string, body any) answer {
		return b.call("POST", "/v1/reviews/"+r+"/take", body, as(key))
	}
	require.Equal(t, "forbidden", take(shopKey, fields{}).problem())
	require.Contains(t, []string{"decision-forbidden"}, take(viewKey, fields{}).problem(), "a viewer takes nothing")
	require.Zero(t, b.count("SELECT count(*) FROM reviews WHERE assigned_to <> ''"))
	a := take(approveKey, fields{})
	require.Equal(t, 200, a.status, string(a.body))
	require.Equal(t, 200, take(approveKey, fields{}).status, "taking twice is taking once")
	require.Equal(t, []string{r}, ids(b.call("GET", "/v1/reviews?assigned_to=anna", nil, as(viewKey))))
	held := take(operatorKey, fields{})
	require.Equal(t, "review-taken", held.problem(), string(held.body))
	require.Equal(t, 409, held.status)
	require.Equal(t, 200, take(operatorKey, fields{"from": "anna"}).status, "taken over by name")
	require.Equal(t, 200, take(operatorKey, fields{"from": "shop", "to": ""}).status)
	require.Zero(t, b.count("SELECT count(*) FROM reviews WHERE assigned_to <> ''"), "given back")
	require.Equal(t, "validation", take(operatorKey, fields{"to": strings.Repeat("a", 101)}).problem())
	require.Equal(t, "not-found", b.call("POST", "/v1/reviews/rev_NONE/take", fields{}, as(operatorKey)).problem())
}

func TestDecideReview(t *testing.T) {
	b := reviewing(t)
	b.place("O-1")
	r := b.review("O-1", order.ReviewRepeatedFailure, 1)
	closing := decisionOf(order.DecideCloseWithEvidence)
	set := func(name string, v any) func(fields) { return func(f fields) { f[name] = v } }
	no := func(problem string, status int, a answer) {
		t.Helper()
		require.Equal(t, problem, a.problem(), string(a.body))
		require.Equal(t, status, a.status)
	}
	no("forbidden", 403, b.decide(r, closing, as(shopKey)))
	no("decision-forbidden", 403, b.decide(r, closing, as(viewKey)))
	require.Equal(t, 401, b.decide(r, closing, without("Authorization")).status)
	no("not-found", 404, b.decide("rev_NONE", closing))
	no("not-found", 404, b.decide("nothing", closing))
	no("idempotency-key-missing", 400, b.decide(r, closing, without("Idempotency-Key")))
	for name, body := range map[string]any{"no JSON": `{"decision":`, "an unknown field": decisionOf(order.DecideCloseWithEvidence, set("role", "approver")), "an actor": decisionOf(order.DecideCloseWithEvidence, set("actor", "anna"))} {
		a := b.decide(r, body)
		require.Contains(t, []int{400, 422}, a.status, "%s: %s", name, a.body)
		require.NotContains(t, string(a.body), "approver", "an error echoes nothing")
	}
	for _, bad := range []fields{
		decisionOf(""), decisionOf(order.DecideCloseWithEvidence, set("review_version", 0)), decisionOf(order.DecideCloseWithEvidence, set("reason", "")),
		decisionOf(order.DecideCloseWithEvidence, set("amount", -1)),
	} {
		no("validation", 422, b.decide(r, bad))
	}
	a := b.decide(r, decisionOf(order.DecideCloseWithEvidence, set("evidence", fields{})))
	require.Equal(t, "evidence_proof_missing", a.at("why"), string(a.body))
	no("review-moved", 409, b.decide(r, decisionOf(order.DecideCloseWithEvidence, set("review_version", 7))))
	a = b.decide(r, decisionOf(order.DecideRefund))
	require.Equal(t, "decision_not_allowed", a.at("why"), string(a.body))
	a = b.decide(r, decisionOf(order.DecideCloseWithEvidence, set("reason", "paid with 4242 4242 4242 4242")))
	require.Equal(t, "looks_like_card_number", a.at("why"), string(a.body))
	require.Zero(t, b.count("SELECT count(*) FROM review_decisions"))
	require.Zero(t, b.engine.looks.Load(), "a refusal wakes nobody")

	for i := range 3 {
		a := b.decide(r, closing, key("d-1"))
		require.Equal(t, 200, a.status, string(a.body))
		require.Equal(t, "applied", a.at("verdict"))
		require.Equal(t, i > 0, a.at("replayed") == true, "the same key is the same decision")
	}
	no("idempotency-key-reused", 422, b.decide(r, decisionOf(order.DecideRequeryPayment), key("d-1")))
	no("review-moved", 409, b.decide(r, closing, key("d-2")))
	require.Equal(t, 1, b.count("SELECT count(*) FROM review_decisions WHERE channel = 'api' AND actor = 'shop' AND NOT actor_claimed"))
	require.EqualValues(t, 1, b.engine.looks.Load())
}

func TestASecondPersonDecidesByTheAPI(t *testing.T) {
	b := reviewing(t)
	b.place("O-1")
	r := b.review("O-1", order.ReviewSettledElsewhere, 1)
	body := decisionOf(order.DecideRecordExternal)
	a := b.decide(r, body, key("p-1"))
	require.Equal(t, 200, a.status, string(a.body))
	require.Equal(t, "proposed", a.at("verdict"))
	require.Zero(t, b.count("SELECT count(*) FROM orders WHERE external_decision <> ''"))
	listed := b.call("GET", "/v1/reviews?proposed=true", nil, as(viewKey))
	require.Equal(t, []string{r}, ids(listed))
	row, _ := listed.at("reviews").([]any)[0].(map[string]any)
	proposal, _ := row["proposal_id"].(string)
	require.NotEmpty(t, proposal)
	body["approves"], body["reason"] = proposal, "seen as well"
	body["review_version"] = row["version"]
	for _, k := range []string{operatorKey, sameKey} {
		a := b.decide(r, body, as(k))
		require.Equal(t, "decision-forbidden", a.problem(), string(a.body))
	}
	require.Zero(t, b.count("SELECT count(*) FROM review_decisions"))
	for range 2 {
		a = b.decide(r, body, as(approveKey), key("a-1"))
		require.Equal(t, 200, a.status, string(a.body))
		require.Equal(t, "applied", a.at("verdict"))
	}
	require.Equal(t, 1, b.count("SELECT count(*) FROM review_decisions WHERE actor = 'shop' AND approver = 'anna' AND approver_reason = 'seen as well'"))
	require.Equal(t, 1, b.count("SELECT count(*) FROM orders WHERE external_decision <> ''"))
}
