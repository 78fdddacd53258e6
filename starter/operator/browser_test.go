package operator_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
)

// Goal: a person with a browser logs in, finds what waits, reads why, and decides with evidence, with nothing in the console and nothing
// that axe-core calls a hindrance. Method: real Chromium on the real page over PostgreSQL; screenshots go to ORDERFLOW_SCREENSHOTS where
// that names a folder. Not covered: other browsers, and the worker that acts on the decision.

// chromium is an installed browser, or the end of the test; ORDERFLOW_REQUIRE_BROWSER=1 makes a missing one a failure.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("ORDERFLOW_REQUIRE_BROWSER") == "1" {
		t.Fatal("no browser: install Chromium")
	}
	t.Skip("no browser: install Chromium; ORDERFLOW_REQUIRE_BROWSER=1 makes this a failure")
	return ""
}

// window is one person's browser window.
type window struct {
	b   *bundle
	ctx context.Context

	mu    sync.Mutex
	noise []string
}

func (b *bundle) window(width, height int) *window {
	b.t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(chromium(b.t)),
		chromedp.NoSandbox, // Chromium's own sandbox cannot be made by root, nor in most containers
		chromedp.WSURLReadTimeout(90*time.Second), chromedp.WindowSize(width, height))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	b.t.Cleanup(stop)
	w := &window{b: b}
	ctx, end := chromedp.NewContext(allocator, chromedp.WithListener(w.hear))
	b.t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	b.t.Cleanup(cancel)
	w.ctx = ctx
	return w
}

func (w *window) hear(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			w.noise = append(w.noise, e.Entry.Text+" "+e.Entry.URL)
		}
	case *cdpruntime.EventExceptionThrown:
		w.noise = append(w.noise, e.ExceptionDetails.Text)
	}
}

func (w *window) quiet() {
	w.b.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Empty(w.b.t, w.noise, "errors in the console")
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.b.t.Helper()
	require.NoError(w.b.t, chromedp.Do(w.ctx, steps...))
}

func (w *window) read(what chromedp.Action[string]) string {
	w.b.t.Helper()
	text, err := chromedp.Run(w.ctx, what)
	require.NoError(w.b.t, err)
	return text
}

// look keeps a screenshot and has axe-core judge the page.
func (w *window) look(name string) {
	w.b.t.Helper()
	if dir := os.Getenv("ORDERFLOW_SCREENSHOTS"); dir != "" {
		png, err := chromedp.Run(w.ctx, chromedp.FullScreenshot(100))
		require.NoError(w.b.t, err)
		require.NoError(w.b.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
	}
	axe, err := os.ReadFile(filepath.Join("testdata", "axe.min.js"))
	require.NoError(w.b.t, err)
	_, err = chromedp.Run(w.ctx, chromedp.Evaluate[string](string(axe)+";'loaded'"))
	require.NoError(w.b.t, err)
	found := w.read(chromedp.Evaluate[string](`axe.run(document,{runOnly:["wcag2a","wcag2aa","wcag21a","wcag21aa"]}).then(r=>JSON.stringify(r.violations.map(v=>({id:v.id,nodes:v.nodes.map(n=>n.html.slice(0,160))}))))`, chromedp.EvalAwaitPromise))
	var violations []any
	require.NoError(w.b.t, json.Unmarshal([]byte(found), &violations))
	assert.Empty(w.b.t, violations, "%s: axe-core", name)
}

func TestAPersonDecidesInABrowser(t *testing.T) {
	b := setup(t)
	b.review(b.order("concert-4711"), order.ReviewConfirmUnknown)
	r := b.review(b.order("concert-4712"), order.ReviewRepeatedFailure)
	w := b.window(1280, 900)
	w.do(chromedp.Navigate(b.url+"/operator"), chromedp.WaitVisible(chromedp.CSS("#login")))
	w.look("login")
	w.do(chromedp.SendKeys(chromedp.CSS("#login"), "olga"), chromedp.SendKeys(chromedp.CSS("#password"), password), chromedp.Click(chromedp.CSS("button.main")), chromedp.WaitVisible(chromedp.CSS("#queue")))
	w.look("queue")
	w.do(chromedp.Navigate(b.url+"/operator/review?id="+string(r)), chromedp.WaitVisible(chromedp.CSS("#"+string(r))))
	assert.Contains(t, strings.ToLower(w.read(chromedp.Text(chromedp.CSS("main")))), "a new charge or issuance instead of the failing step")
	w.look("order")
	form := "#form-" + string(r) + "-close_with_evidence"
	w.do(chromedp.Click(chromedp.CSS("details.decision:last-of-type summary")), chromedp.WaitVisible(chromedp.CSS(form)))
	w.look("form")
	w.do(chromedp.SendKeys(chromedp.CSS(form+" [name=proof]"), "the provider's portal"), chromedp.SendKeys(chromedp.CSS(form+" [name=reason]"), "settled there"),
		chromedp.Click(chromedp.CSS(form+" button.main")), chromedp.WaitVisible(chromedp.CSS(".said")))
	w.do(chromedp.Navigate(b.url+"/operator/audit"), chromedp.WaitVisible(chromedp.CSS("#audit")))
	assert.Contains(t, w.read(chromedp.Text(chromedp.CSS("#audit"))), "the provider's portal")
	w.look("audit")
	w.do(chromedp.Click(chromedp.CSS(".language button")), chromedp.WaitVisible(chromedp.CSS("html[lang=ja] #audit")))
	w.do(chromedp.Navigate(b.url+"/operator/order?id=concert-4711"), chromedp.WaitVisible(chromedp.CSS(".states")))
	w.look("order-ja")
	w.quiet()

	phone := b.window(390, 844)
	phone.do(chromedp.Navigate(b.url+"/operator/login?to=/operator/order%3Fid%3Dconcert-4711"), chromedp.WaitVisible(chromedp.CSS("#login")), chromedp.SendKeys(chromedp.CSS("#login"), "olga"),
		chromedp.SendKeys(chromedp.CSS("#password"), password), chromedp.Click(chromedp.CSS("button.main")), chromedp.WaitVisible(chromedp.CSS(".states")))
	phone.look("order-phone")
	phone.do(chromedp.Navigate(b.url+"/operator"), chromedp.WaitVisible(chromedp.CSS("#queue")))
	phone.look("queue-phone")
	phone.quiet()
}
