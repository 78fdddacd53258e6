package operator_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/internal/door"
	"orderflow/internal/seal"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/starter/api"
	"orderflow/starter/operator"
	"orderflow/store"
)

// Goal: who may look and decide, what a page says and what a form does, and that a long queue stays quick. Method: real PostgreSQL, real
// HTTP through the API's listener, cookies as a browser keeps them. Not covered: how it looks and scripts, which e2e opens in Chromium.

const password = "a password for tests"

type bundle struct {
	t     *testing.T
	owner *pgxpool.Pool
	store *store.Store
	url   string
}

func setup(t *testing.T, change ...func(*operator.Deps)) *bundle {
	t.Helper()
	t.Parallel()
	db := testkit.Database(t)
	b := &bundle{t: t}
	var err error
	b.owner, err = pgxpool.New(t.Context(), db.OwnerURL)
	require.NoError(t, err)
	t.Cleanup(b.owner.Close)
	b.store, err = store.Open(t.Context(), db.AppURL, 8, store.Options{})
	require.NoError(t, err)
	t.Cleanup(b.store.Close)
	box, err := seal.ParseKeys("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	require.NoError(t, err)
	d := operator.Deps{Store: b.store, Box: box, Door: door.New(box, nil), Sides: []string{"stripe"}, TemporalUI: "http://ui.example", Namespace: "default"}
	for _, f := range change {
		f(&d)
	}
	srv := httptest.NewServer(api.New(api.Deps{Store: b.store, Box: box, Policy: order.DefaultPolicy(), Also: operator.Routes(d)}))
	t.Cleanup(srv.Close)
	b.url = srv.URL
	for login, role := range map[string]string{"vera": "viewer", "olga": "operator", "anna": "approver"} {
		require.NoError(t, b.store.OperatorAdd(t.Context(), store.Operator{Login: login, Name: strings.ToUpper(login), Role: role, PasswordHash: operator.HashPassword(password)}))
	}
	return b
}

// person is one browser.
type person struct {
	b      *bundle
	client *http.Client
}

func (b *bundle) person() *person {
	jar, err := cookiejar.New(nil)
	require.NoError(b.t, err)
	return &person{b, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

type page struct {
	status int
	header http.Header
	text   string
}

func (p *person) send(method, path string, form url.Values, header ...string) page {
	p.b.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequest(method, p.b.url+path, body)
	require.NoError(p.b.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := p.client.Do(req)
	require.NoError(p.b.t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(p.b.t, err)
	return page{res.StatusCode, res.Header, string(text)}
}

func (p *person) get(path string, header ...string) page {
	return p.send(http.MethodGet, path, nil, header...)
}

func (b *bundle) as(login string) *person {
	b.t.Helper()
	p := b.person()
	a := p.send(http.MethodPost, "/operator/login", url.Values{"login": {login}, "password": {password}})
	require.Equal(b.t, http.StatusSeeOther, a.status, a.text)
	require.Equal(b.t, "/operator", a.header.Get("Location"))
	return p
}

func (b *bundle) count(sql string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.owner.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.owner.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

// order stores one of entitlements, and returns its id.
func (b *bundle) order(id string) order.ID {
	b.t.Helper()
	d := order.Draft{
		ID: order.ID(id), Client: "shop", Currency: "JPY", BuyerRef: "buyer", ExpiresAt: time.Now().Add(time.Hour),
		Lines: []order.Line{{SKU: "pass", Name: "Pass", Quantity: 1, UnitAmount: 4800, Action: order.ActionGrant}},
	}
	d.Total = d.LinesSum()
	_, err := b.store.OrderPlace(b.t.Context(), d, "place-"+id, order.DefaultPolicy())
	require.NoError(b.t, err)
	return d.ID
}

// review opens one about the order as a whole.
func (b *bundle) review(id order.ID, reason order.ReviewReason) order.ReviewID {
	b.t.Helper()
	r := order.NewReviewID()
	b.exec(`INSERT INTO reviews (review_id, order_id, subject_kind, subject_id, subject_version, reason, next_check_at) VALUES ($1, $2, 'order', $3, 0, $4, now())`,
		string(r), string(id), string(id), string(reason))
	return r
}

func TestNobodyLooksWithoutALogin(t *testing.T) {
	b := setup(t)
	id := b.order("o-1")
	p := b.person()
	for _, path := range []string{"/operator", "/operator/order?id=" + string(id), "/operator/waiting", "/operator/search?q=o-1", "/operator/audit", "/operator/review?id=x"} {
		a := p.get(path)
		require.Equal(t, http.StatusSeeOther, a.status, path)
		require.True(t, strings.HasPrefix(a.header.Get("Location"), "/operator/login"), path)
		require.NotContains(t, a.text, "4800")
	}
	for _, path := range []string{"/operator/decide", "/operator/assign"} {
		require.Equal(t, "/operator/login", p.send(http.MethodPost, path, url.Values{}).header.Get("Location"))
	}
	a := p.get("/operator/login?to=https://evil.example/")
	require.NotContains(t, a.text, "evil.example", "a login leads to our own pages only")
	for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "same-origin"} {
		require.Equal(t, want, a.header.Get(name))
	}
	csp := a.header.Get("Content-Security-Policy")
	require.Contains(t, csp, "default-src 'none'")
	require.Contains(t, csp, "frame-ancestors 'none'")
	require.NotContains(t, csp, "unsafe")
	require.NotRegexp(t, `(?i)<script(?: [^>]*)?>[^<]|style="|on(click|load)=`, a.text, "nothing inline, which the policy would not run")
}

func TestLoginsLogoutsAndRefusals(t *testing.T) {
	b := setup(t)
	p := b.person()
	wrong := p.send(http.MethodPost, "/operator/login", url.Values{"login": {"anna"}, "password": {"not this one at all"}})
	unknown := p.send(http.MethodPost, "/operator/login", url.Values{"login": {"nobody"}, "password": {password}})
	odd := p.send(http.MethodPost, "/operator/login", url.Values{"login": {"a\x00' OR 1=1"}, "password": {password}})
	for _, a := range []page{wrong, unknown, odd} {
		require.Equal(t, http.StatusUnauthorized, a.status)
		require.Equal(t, wrong.text, a.text, "nothing tells why")
	}
	require.NoError(t, b.store.OperatorAdd(t.Context(), store.Operator{Login: "gone", Name: "Gone", Role: "approver", PasswordHash: operator.HashPassword(password)}))
	_, err := b.store.OperatorDisable(t.Context(), "gone")
	require.NoError(t, err)
	require.Equal(t, wrong.text, p.send(http.MethodPost, "/operator/login", url.Values{"login": {"gone"}, "password": {password}}).text)
	require.Equal(t, 4, b.count("SELECT count(*) FROM audit_log WHERE act = 'login_refused'"))
	require.Zero(t, b.count("SELECT count(*) FROM audit_log WHERE actor LIKE '%OR 1=1%' OR detail::text LIKE '%not this one%'"))

	anna := b.as("anna")
	require.Equal(t, http.StatusOK, anna.get("/operator").status)
	require.Zero(t, b.count("SELECT count(*) FROM operator_sessions s WHERE octet_length(token_hash) <> 32"))
	require.Equal(t, http.StatusSeeOther, anna.send(http.MethodPost, "/operator/logout", url.Values{}).status)
	require.Equal(t, http.StatusSeeOther, anna.get("/operator").status)
	require.Zero(t, b.count("SELECT count(*) FROM operator_sessions"))
	// A live update of a page whose session has ended sends the whole page to the login.
	require.Equal(t, "true", anna.get("/operator", "HX-Request", "true").header.Get("HX-Refresh"))
}

func TestGuessingIsSlow(t *testing.T) {
	b := setup(t)
	p := b.person()
	limited := 0
	for range 12 {
		if p.send(http.MethodPost, "/operator/login", url.Values{"login": {"anna"}, "password": {"a wrong password"}}).status == http.StatusTooManyRequests {
			limited++
		}
	}
	require.Positive(t, limited)
	require.Equal(t, http.StatusTooManyRequests, p.send(http.MethodPost, "/operator/login", url.Values{"login": {"ANNA"}, "password": {password}}).status, "letter case makes no second login")
	b.as("olga") // others come in meanwhile
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	b := setup(t)
	r := b.review(b.order("o-1"), order.ReviewRepeatedFailure)
	olga := b.as("olga")
	form := url.Values{"review": {string(r)}, "take": {"1"}}
	for _, from := range []string{"cross-site", "same-site"} {
		require.Equal(t, http.StatusForbidden, olga.send(http.MethodPost, "/operator/assign", form, "Sec-Fetch-Site", from).status)
	}
	require.Equal(t, http.StatusForbidden, olga.send(http.MethodPost, "/operator/assign", form, "Sec-Fetch-Site", "", "Origin", "https://evil.example").status)
	require.Equal(t, 1, b.count("SELECT count(*) FROM reviews WHERE assigned_to = ''"))
	require.Equal(t, 3, b.count("SELECT count(*) FROM audit_log WHERE detail->>'why' = 'cross_origin'"))
	require.Equal(t, http.StatusSeeOther, olga.send(http.MethodPost, "/operator/assign", form).status)
	require.Equal(t, 1, b.count("SELECT count(*) FROM reviews WHERE assigned_to = 'olga'"))
}

func TestAViewerReadsAndDecidesNothing(t *testing.T) {
	b := setup(t)
	id := b.order("o-1")
	r := b.review(id, order.ReviewRepeatedFailure)
	vera := b.as("vera")
	a := vera.get("/operator/order?id=o-1")
	require.Equal(t, http.StatusOK, a.status)
	require.Contains(t, a.text, "Your role reads only")
	require.NotContains(t, a.text, "/operator/decide")
	require.Equal(t, http.StatusForbidden, vera.send(http.MethodPost, "/operator/decide", url.Values{"review": {string(r)}}).status)
	require.Equal(t, http.StatusForbidden, vera.send(http.MethodPost, "/operator/assign", url.Values{"review": {string(r)}}).status)
	require.Equal(t, 2, b.count("SELECT count(*) FROM audit_log WHERE actor = 'vera' AND act = 'page_refused'"))
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// form reads a decision's form from a page, as a browser would send it.
func (a page) form(t *testing.T, kind order.DecisionKind) url.Values {
	t.Helper()
	_, rest, found := strings.Cut(a.text, `id="form-`)
	for found {
		text, _, _ := strings.Cut(rest, "</form>")
		v := url.Values{}
		for _, m := range hidden.FindAllStringSubmatch(text, -1) {
			v.Set(m[1], strings.NewReplacer("&#43;", "+", "&amp;", "&").Replace(m[2]))
		}
		if v.Get("decision") == string(kind) {
			return v
		}
		_, rest, found = strings.Cut(rest, `id="form-`)
	}
	t.Fatalf("no form for %s", kind)
	return nil
}

func TestAFormIsOneDecisionWithItsEvidence(t *testing.T) {
	b := setup(t)
	r := b.review(b.order("o-1"), order.ReviewRepeatedFailure)
	olga := b.as("olga")
	a := olga.get("/operator/order?id=o-1")
	form := a.form(t, order.DecideCloseWithEvidence)
	form.Set("reason", "done by hand")
	again := olga.send(http.MethodPost, "/operator/decide", form)
	require.Equal(t, http.StatusConflict, again.status, "without its evidence it is refused")
	require.Contains(t, again.text, "write what you looked at")
	require.Contains(t, again.text, "done by hand", "what was typed stays")
	require.Zero(t, b.count("SELECT count(*) FROM review_decisions"))

	form.Set("proof", "the log of the worker")
	for range 2 { // sent twice, it is one decision
		require.Equal(t, http.StatusSeeOther, olga.send(http.MethodPost, "/operator/decide", form).status)
	}
	require.Equal(t, 1, b.count("SELECT count(*) FROM review_decisions WHERE review_id = $1 AND actor = 'olga' AND NOT actor_claimed AND channel = 'page'", string(r)))
	stale := a.form(t, order.DecideRestoreReflection)
	stale.Set("reason", "again")
	require.Contains(t, olga.send(http.MethodPost, "/operator/decide", stale).text, "this review is over")

	audit := olga.get("/operator/audit").text
	require.NotContains(t, audit, ">{", "every cell is words")
	require.Contains(t, audit, "the log of the worker")
	require.Contains(t, audit, "done by hand")
	story := olga.get("/operator/order?id=o-1").text
	require.Contains(t, story, "the log of the worker")
	require.Contains(t, story, "http://ui.example/namespaces/default/workflows/order%2Fo-1")
}

func TestBothLanguagesAndHostileText(t *testing.T) {
	b := setup(t)
	b.order(`<img src=x>&"'`)
	olga := b.as("olga")
	a := olga.get("/operator/order?id=" + url.QueryEscape(`<img src=x>&"'`))
	require.Equal(t, http.StatusOK, a.status)
	require.NotContains(t, a.text, "<img")
	ja := olga.get("/operator", "Accept-Language", "ja-JP,ja;q=0.9,en;q=0.8")
	require.Contains(t, ja.text, `<html lang="ja">`)
	require.Contains(t, ja.text, "人の判断待ち")
	require.Equal(t, http.StatusSeeOther, olga.send(http.MethodPost, "/operator/language", url.Values{"language": {"ja"}, "to": {"//evil.example"}}).status)
	require.Contains(t, olga.get("/operator/order?id="+url.QueryEscape(`<img src=x>&"'`)).text, "分かっていること")
	for _, path := range []string{"/operator/order?id=nothing", "/operator/review?id=nothing", "/operator/order"} {
		require.Equal(t, http.StatusNotFound, olga.get(path).status)
	}
	for _, path := range []string{"/operator?after=x&at=y&reason=%00&side=%ff", "/operator/audit?before=x&at=zzz", "/operator/waiting?after=%00&at=1", "/operator/search?q=%00%ff"} {
		require.Equal(t, http.StatusOK, olga.get(path).status, path)
	}
}

func TestSearchFindsWholeIDs(t *testing.T) {
	b := setup(t)
	id := b.order("o-1")
	b.order("o-10")
	olga := b.as("olga")
	require.Equal(t, "/operator/order?id=o-1", olga.get("/operator/search?q="+string(id)).header.Get("Location"))
	require.Contains(t, olga.get("/operator/search?q=o-").text, "Nothing here has this id")
	b.exec(`INSERT INTO payment_attempts (attempt_id, order_id, client_id, caller_key, gateway, account, environment, merchant_reference, provider_payment_id, method_type, currency, amount_minor)
		SELECT 'att_' || n, 'o-1', 'shop', 'k' || n, 'g' || n % 3, 'a', 'test', 'REF' || n, 'pi_' || n, 'card', 'JPY', 1 FROM generate_series(1, 1) n`)
	for _, q := range []string{"att_1", "pi_1", "REF1"} {
		require.Equal(t, "/operator/order?id=o-1", olga.get("/operator/search?q="+q).header.Get("Location"), q)
	}
	r := b.review(id, order.ReviewLatePayment)
	require.Equal(t, "/operator/order?id=o-1", olga.get("/operator/search?q="+string(r)).header.Get("Location"))
}

func TestALivePageAsksForWhatChanged(t *testing.T) {
	b := setup(t)
	id := b.order("o-1")
	olga := b.as("olga")
	live := func() string {
		m := regexp.MustCompile(`hx-get="([^"]+)"`).FindStringSubmatch(olga.get("/operator/order?id=o-1").text)
		require.NotNil(t, m)
		return strings.ReplaceAll(m[1], "&amp;", "&")
	}
	address := live()
	require.Eventually(t, func() bool { // the minute may turn between two looks
		address = live()
		return olga.get(address, "HX-Request", "true").status == http.StatusNoContent
	}, 30*time.Second, 10*time.Millisecond)
	b.review(id, order.ReviewRepeatedFailure)
	moved := olga.get(address, "HX-Request", "true")
	require.Equal(t, http.StatusOK, moved.status)
	require.Contains(t, moved.text, "This order has moved since")
}

// With 10,000 open reviews the first page, a middle one and a filtered one stay quick. The bound is asserted where nobody else works
// on the machine; otherwise the figure is printed.
func TestALongQueueIsQuick(t *testing.T) {
	b := setup(t)
	reasons := []string{"confirm_outcome_unknown", "issuance_outcome_unknown", "orphan_payment", "repeated_failure", "poison_event"}
	b.exec(`INSERT INTO orders (order_id, client_id, caller_key, currency, currency_exponent, lines_minor, adjustments_minor, total_minor, buyer_ref, policy, policy_version, expires_at)
		SELECT 'q-' || n, 'shop', 'q-' || n, 'JPY', 0, 100, 0, 100, 'b', '{}', 1, now() FROM generate_series(1, 10000) n`)
	b.exec(`INSERT INTO reviews (review_id, order_id, subject_kind, subject_id, subject_version, reason, gateway, opened_at, next_check_at)
		SELECT 'rev_' || n, 'q-' || n, 'order', 'q-' || n, 0, ($1::text[])[1 + n % 5], CASE n % 2 WHEN 0 THEN 'stripe' ELSE 'omise' END, now() - n * interval '1 minute', now() FROM generate_series(1, 10000) n`, reasons)
	b.exec("ANALYZE")
	olga := b.as("olga")
	first := olga.get("/operator")
	require.Equal(t, 50, strings.Count(first.text, `class="small" id="take-`))
	require.Contains(t, first.text, "(10000)")
	next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(first.text)
	require.NotNil(t, next)
	second := olga.get(strings.ReplaceAll(next[1], "&amp;", "&"))
	require.NotContains(t, second.text, "rev_10000\"", "the second page begins where the first one ended")
	require.Contains(t, second.text, "rev_9950")
	for name, path := range map[string]string{
		"first page": "/operator", "second page": strings.ReplaceAll(next[1], "&amp;", "&"), "one reason": "/operator?reason=poison_event&owner=nobody", "one side": "/operator?side=stripe&age=week",
	} {
		best := time.Hour
		for range 5 {
			began := time.Now()
			require.Equal(t, http.StatusOK, olga.get(path).status)
			best = min(best, time.Since(began))
		}
		t.Logf("10,000 open reviews, %s: %s", name, best.Round(100*time.Microsecond))
		if os.Getenv("ORDERFLOW_ASSERT_TIMES") == "1" {
			assert.Less(t, best, 300*time.Millisecond, name)
		}
	}
}
