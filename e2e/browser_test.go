package e2e

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/sandbox/twoctwopsim"
)

// Goal: what a person does works: open the page of a pending payment, press a button, come back to the shop, have the order -
// at every provider, refused ones too. Method: a real Chromium opens what the API calls next_action; a small server plays the
// shop's page; where the browser went and what it complained of is kept. Not covered: other browsers, and Toss's own script
// (the sandbox's window stands for it).

// requireBrowser set to 1 turns the skip on a machine without Chromium into a failure.
const requireBrowser = "ORDERFLOW_REQUIRE_BROWSER"

// chromium is an installed browser, or the end of the test.
func chromium(t *testing.T) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const why = "no browser: install Chromium (such as apt-get install chromium), so that one of these is on PATH: "
	if os.Getenv(requireBrowser) == "1" {
		t.Fatal(why + strings.Join(names, ", "))
	}
	t.Skip(why + strings.Join(names, ", ") + "; " + requireBrowser + "=1 makes this a failure")
	return ""
}

// browse starts a browser that ends with the test.
func browse(t *testing.T) context.Context {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromium(t)),
		chromedp.NoSandbox, // Chromium's own sandbox cannot be made by root, nor in most containers
		chromedp.WSURLReadTimeout(90*time.Second),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	require.NoError(t, chromedp.Do(ctx), "the browser starts")
	return ctx
}

// tab is one person's window, with what it asked for and what it complained of.
type tab struct {
	w   *world
	ctx context.Context

	mu      sync.Mutex
	visited []string // documents, in order
	noise   []string // errors and warnings of the console
}

func (w *world) tab(browser context.Context) *tab {
	w.t.Helper()
	t, p := w.t, &tab{w: w}
	ctx, end := chromedp.NewContext(browser, chromedp.WithListener(p.hear))
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	p.ctx = ctx
	t.Cleanup(func() { // runs before the tab is closed
		visited, noise := p.heard()
		assert.Empty(t, noise, "errors in the console")
		if t.Failed() {
			page, _ := chromedp.Run(ctx, chromedp.OuterHTML(chromedp.CSS("html")))
			t.Logf("visited:\n%s\npage:\n%s", strings.Join(visited, "\n"), page)
		}
	})
	return p
}

func (p *tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if e.Type == network.ResourceTypeDocument {
			p.visited = append(p.visited, e.Request.Method+" "+e.Request.URL)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			p.noise = append(p.noise, e.Entry.Text+" "+e.Entry.URL)
		}
	case *cdpruntime.EventExceptionThrown:
		p.noise = append(p.noise, e.ExceptionDetails.Text)
	case *cdpruntime.EventConsoleAPICalled:
		if e.Type == cdpruntime.ConsoleAPICalledTypeError || e.Type == cdpruntime.ConsoleAPICalledTypeWarning || e.Type == cdpruntime.ConsoleAPICalledTypeAssert {
			p.noise = append(p.noise, fmt.Sprintf("console.%s: %v", e.Type, e.Args))
		}
	}
}

func (p *tab) heard() (visited, noise []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.visited), slices.Clone(p.noise)
}

// forgive takes one complaint back that has to be there.
func (p *tab) forgive(complaint string) {
	p.w.t.Helper()
	p.w.await(complaint, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		n := slices.Index(p.noise, complaint)
		if n >= 0 {
			p.noise = slices.Delete(p.noise, n, n+1)
		}
		return n >= 0
	})
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.w.t.Helper()
	require.NoError(p.w.t, chromedp.Do(p.ctx, steps...))
}

// read is what an action finds out.
func (p *tab) read(what chromedp.Action[string]) string {
	p.w.t.Helper()
	text, err := chromedp.Run(p.ctx, what)
	require.NoError(p.w.t, err)
	return text
}

// open goes to a page that shows a button, and returns what a person reads on it.
func (p *tab) open(address string, button chromedp.CSS) (text string) {
	p.w.t.Helper()
	require.NotEmpty(p.w.t, address, "there is a page to open")
	p.do(chromedp.Navigate(address), chromedp.WaitVisible(button))
	return p.read(chromedp.Text(chromedp.CSS("body")))
}

// press clicks and waits until the browser has come to a page with the mark.
func (p *tab) press(button, mark chromedp.CSS) {
	p.w.t.Helper()
	p.do(chromedp.Click(button), chromedp.WaitVisible(mark))
}

// backAtShop: the browser stands at the shop's page exactly as the checkout named it, and came by way of our return page.
func (p *tab) backAtShop(returnURL string, byPost bool) {
	p.w.t.Helper()
	assert.Equal(p.w.t, returnURL, p.read(chromedp.Location()))
	assert.Empty(p.w.t, p.read(chromedp.Evaluate[string]("document.referrer")), "the shop's page is not told of the token")
	visited, _ := p.heard()
	method := "GET "
	if byPost {
		method = "POST "
	}
	n := slices.IndexFunc(visited, func(v string) bool { return strings.HasPrefix(v, method+p.w.base+"/return/") })
	require.GreaterOrEqual(p.w.t, n, 0, "%v", visited)
	sent, _, _ := strings.Cut(returnURL, "#") // the rest stays in the browser
	assert.Equal(p.w.t, []string{"GET " + sent}, visited[n+1:], "from our page the browser goes to the shop's and nowhere else")
}

var shopPage = template.Must(template.New("shop").Parse(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Shop</title>
<link rel="icon" href="data:,"></head><body><h1 id="shop">The shop</h1><p id="outcome">{{.}}</p></body></html>`))

// shop plays the checkout: a page to come back to, and the page that Toss's window sends an authenticated payment to.
func (w *world) shop() string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /back/{order}", func(rw http.ResponseWriter, _ *http.Request) { _ = shopPage.Execute(rw, "") })
	mux.HandleFunc("GET /toss/{order}/{type}", func(rw http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		pay := func() (answer, error) {
			return w.try("POST", path(r.PathValue("order"))+"/payments", "pay-"+q.Get("paymentKey"), apiKey, map[string]any{"gateway": "toss", "method": map[string]any{
				"type": r.PathValue("type"), "token": q.Get("paymentKey"), "reference": q.Get("orderId"), "amount": q.Get("amount"),
			}})
		}
		a, err := pay()
		for n := 0; n < 10 && err == nil && a.Status == http.StatusAccepted; n++ { // it takes longer: the same key asks again
			a, err = pay()
		}
		if err != nil {
			a.Body = map[string]any{"outcome": "no answer"}
		}
		_ = shopPage.Execute(rw, a.Body["outcome"])
	})
	s := httptest.NewServer(mux)
	w.home.Cleanup(s.Close)
	return s.URL
}

// throughReturn makes this world's API the place that providers send buyers back to.
func throughReturn(w *world) { w.env["ORDERFLOW_PUBLIC_URL"] = "http://" + w.env["ORDERFLOW_LISTEN"] }

// sentOff starts a payment that waits for its buyer, and returns where the buyer has to go and comes back to.
func (w *world) sentOff(id, key, shop, gateway string, method map[string]any) (page, back string) {
	w.t.Helper()
	back = shop + "/back/" + id + "?from=checkout&x=%2F#done"
	body := map[string]any{"return_url": back}
	for k, v := range method {
		body[k] = v
	}
	a := w.call("POST", path(id)+"/payments", key, map[string]any{"gateway": gateway, "method": body})
	oneOf(w.t, a, http.StatusCreated, http.StatusAccepted)
	return w.nextURL(id), back
}

// nextURL waits until the last attempt of an order waits for the buyer, and reads where.
func (w *world) nextURL(id string) (page string) {
	w.t.Helper()
	w.await("a page for the buyer of "+id, func() bool {
		a := w.call("GET", path(id), "", nil)
		attempts, _ := a.at("attempts").([]any)
		page, _ = a.at("attempts", len(attempts)-1, "next_action", "url").(string)
		return page != ""
	})
	return page
}

// completes waits for the end of a paid order.
func (w *world) completes(id string) {
	w.t.Helper()
	w.awaitStatus(id, "completed")
	w.settled(id)
	assert.Equal(w.t, 1, w.captured(id), "paid once")
	assert.Equal(w.t, "done", w.call("GET", path(id), "", nil).at("buyer", "state"))
}

// walks are the pages a buyer can meet.
type walk struct {
	name, gateway, currency, shows string
	method                         func(n string) map[string]any // n tells the tokens of one order apart
	byPost                         bool                          // the provider's page posts the buyer back
}

func walks() []walk {
	token := func(kind, word string) func(string) map[string]any {
		return func(n string) map[string]any { return map[string]any{"type": kind, "token": word + "__" + n} }
	}
	hosted := func(string) map[string]any { return map[string]any{"type": "redirect"} }
	return []walk{
		{name: "stripe_3ds", gateway: "stripe", currency: "JPY", shows: "45000 JPY", method: token("card", "pm_card_threeDSecure2Required")},
		{name: "omise_promptpay", gateway: "omise", currency: "THB", shows: "45000 THB", method: token("source", "src_test_promptpay")},
		{name: "omise_3ds", gateway: "omise", currency: "THB", shows: "45000 THB", method: token("card", "tokn_test_3ds")},
		{name: "twoctwop_hosted", gateway: "twoctwop", currency: "THB", shows: "THB", method: hosted},
		{name: "twoctwop_posted", gateway: "twoctwop", currency: "THB", shows: "THB", method: hosted, byPost: true},
		{name: "twoctwop_3ds", gateway: "twoctwop", currency: "THB", shows: "THB", method: token("card", "3ds")},
	}
}

func TestABuyerInABrowser(t *testing.T) {
	t.Parallel()
	browser := browse(t)
	w := newWorld(t, throughReturn)
	w.webhooks()
	shop := w.shop()
	for _, x := range walks() {
		w.sub("Pays/"+x.name, func(w *world) { w.paysInABrowser(browser, shop, x) })
	}
	for _, x := range walks() {
		if !x.byPost {
			w.sub("RefusesAndPaysAgain/"+x.name, func(w *world) { w.refusesInABrowser(browser, shop, x) })
		}
	}
	w.sub("PaysByCardAtToss", func(w *world) { w.paysAtToss(browser, shop) })
	w.sub("GoesBackIsRefusedAndPaysAtToss", func(w *world) { w.paysAtTossAtLast(browser, shop) })
	w.sub("DepositsAtToss", func(w *world) { w.depositsAtToss(browser, shop) })
	w.sub("HasALinkThatLeadsNowhere", func(w *world) { w.hasADeadLink(browser) })
	w.booksAgree()
}

// paysInABrowser: the buyer pays on the provider's page and is back at the shop with a paid order.
func (w *world) paysInABrowser(browser context.Context, shop string, x walk) {
	w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.ReturnByPost = x.byPost })
	id := "pays_" + x.name
	w.placeIn(id, x.currency, grant("g", 1, 45000))
	page, back := w.sentOff(id, "pay-"+id, shop, x.gateway, x.method(id))
	p := w.tab(browser)
	assert.Contains(w.t, p.open(page, "#pass"), x.shows)
	p.press("#pass", "#shop")
	p.backAtShop(back, x.byPost)
	w.completes(id)
	assert.Contains(w.t, p.open(page, "body"), "This payment no longer waits for you", "opened once more, the page takes no second payment")
	p.forgive("Failed to load resource: the server responded with a status of 410 (Gone) " + page)
}

// refusesInABrowser: the buyer refuses, is told so, and pays with a second payment.
func (w *world) refusesInABrowser(browser context.Context, shop string, x walk) {
	// On 2C2P's own page a refused buyer may try another card, so what was begun there is canceled before another payment.
	w.sandbox.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.ReturnByPost, s.PageRetries = false, true })
	id := "refuses_" + x.name
	w.placeIn(id, x.currency, grant("g", 1, 45000))
	page, back := w.sentOff(id, "pay-"+id, shop, x.gateway, x.method(id))
	p := w.tab(browser)
	p.open(page, "#fail")
	p.press("#fail", "#shop")
	p.backAtShop(back, false)
	w.await("the refusal of "+id, func() bool {
		a := w.call("GET", path(id), "", nil)
		return a.at("buyer", "state") == "declined" && a.at("buyer", "can_pay") == true && a.at("attempts", 0, "status") == string(order.AttemptClosed)
	})
	assert.Zero(w.t, w.captured(id))
	again, back := w.sentOff(id, "again-"+id, shop, x.gateway, x.method(id+"_again"))
	require.NotEqual(w.t, page, again)
	p = w.tab(browser)
	p.open(again, "#pass")
	p.press("#pass", "#shop")
	p.backAtShop(back, false)
	w.completes(id)
}

// tossWindow is the address of Toss's window, as its script opens it.
func (w *world) tossWindow(shop, id, reference, method string) string {
	success := fmt.Sprintf("%s/toss/%s/%s", shop, id, method)
	return w.sandbox.URL() + "/buyer/toss/checkout?" + url.Values{
		"orderId": {reference}, "amount": {"39000"}, "currency": {"KRW"}, "method": {method}, "successUrl": {success}, "failUrl": {shop + "/back/" + id},
	}.Encode()
}

// outcome is what the shop's page says of a payment that it asked us to confirm.
func (p *tab) outcome() string {
	p.w.t.Helper()
	return p.read(chromedp.Text(chromedp.CSS("#outcome")))
}

// paysAtToss: the buyer authenticates in a window that the shop opens; the shop's page then asks us to confirm.
func (w *world) paysAtToss(browser context.Context, shop string) {
	const id = "toss_card"
	w.placeIn(id, "KRW", grant("g", 1, 39000))
	p := w.tab(browser)
	assert.Contains(w.t, p.open(w.tossWindow(shop, id, id+"-1", "card"), "#pass"), "39000 KRW")
	p.press("#pass", "#shop")
	assert.Equal(w.t, "succeeded", p.outcome())
	w.completes(id)
}

func (w *world) paysAtTossAtLast(browser context.Context, shop string) {
	const id = "toss_again"
	w.placeIn(id, "KRW", grant("g", 1, 39000))
	p := w.tab(browser)
	p.open(w.tossWindow(shop, id, id+"-1", "card"), "#fail")
	p.press("#fail", "#shop")
	assert.Empty(w.t, w.references(id), "a buyer who goes back has not begun a payment")
	p.open(w.tossWindow(shop, id, id+"-2", "card"), "#decline")
	p.press("#decline", "#shop")
	assert.Equal(w.t, "declined", p.outcome())
	w.await("the way is free", func() bool {
		return w.call("GET", path(id), "", nil).at("attempts", 0, "status") == string(order.AttemptClosed)
	})
	assert.Equal(w.t, true, w.call("GET", path(id), "", nil).at("buyer", "can_pay"))
	p.open(w.tossWindow(shop, id, id+"-3", "card"), "#pass")
	p.press("#pass", "#shop")
	assert.Equal(w.t, "succeeded", p.outcome())
	w.completes(id)
}

// depositsAtToss: nobody comes back to a page; the webhook tells.
func (w *world) depositsAtToss(browser context.Context, shop string) {
	const id = "toss_account"
	w.placeIn(id, "KRW", grant("g", 1, 39000))
	p := w.tab(browser)
	p.open(w.tossWindow(shop, id, id+"-1", "virtual_account"), "#pass")
	p.press("#pass", "#shop")
	assert.Equal(w.t, "pending", p.outcome())
	number, _ := w.call("GET", path(id), "", nil).at("attempts", 0, "next_action", "account").(string)
	require.NotEmpty(w.t, number)
	assert.Contains(w.t, p.open(w.sandbox.URL()+"/buyer/toss/"+number, "#deposit"), number) // the buyer's bank, days later
	p.press("#deposit", "#status")
	w.completes(id)
}

// hasADeadLink: a page of ours that a browser shows, instead of being sent on, is quiet: its policy forbids nothing it needs.
func (w *world) hasADeadLink(browser context.Context) {
	p := w.tab(browser)
	address := w.base + "/return/nobody-has-this-token"
	assert.Contains(w.t, p.open(address, "main"), "There is no payment at this address.")
	assert.Equal(w.t, "32rem", p.read(chromedp.Evaluate[string]("[...document.styleSheets[0].cssRules][0].style.maxWidth")), "its style is let through")
	p.forgive("Failed to load resource: the server responded with a status of 404 (Not Found) " + address)
}
