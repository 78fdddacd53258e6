// Package returns takes buyers' browsers back from a payment provider and sends them on: it has the payment looked at, waits a
// moment for the outcome, and shows or forwards no more than what is known.
//
// It must not believe or keep anything of the query or the form: anybody can write an address. It may import store, order, starter's
// view and starter/api for routes.
package returns

import (
	"bytes"
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/starter/api"
	"orderflow/starter/view"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// Deps are what returns work with.
type Deps struct {
	Store *store.Store
	Wake  func() // says that a look was noted; nil = it is found in the next period

	Wait   time.Duration // how long a browser waits for the outcome; 0 = 3s
	AtOnce int           // how many browsers wait side by side; the others are sent on without waiting; 0 = 200
	Poll   time.Duration // how often a waiting browser's attempt is read; 0 = 150ms
	Log    *slog.Logger  // nil = silent
}

type returns struct {
	d     Deps
	slots chan struct{}
}

// Routes are what the API's listener serves for returning browsers. The token in the address is all they show.
func Routes(d Deps) []api.Route {
	if d.Wake == nil {
		d.Wake = func() {}
	}
	if d.Wait == 0 {
		d.Wait = 3 * time.Second
	}
	if d.AtOnce == 0 {
		d.AtOnce = 200
	}
	if d.Poll == 0 {
		d.Poll = 150 * time.Millisecond
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	r := &returns{d: d, slots: make(chan struct{}, d.AtOnce)}
	h := http.HandlerFunc(r.serve)
	return []api.Route{{Pattern: "GET /return/{token}", Handler: h}, {Pattern: "POST /return/{token}", Handler: h}}
}

// maxToken is more than a token of ours has: a longer one is not worth a digest.
const maxToken = 200

func (h *returns) serve(w http.ResponseWriter, r *http.Request) {
	token := r.PathValue("token")
	if token == "" || len(token) > maxToken {
		h.page(w, http.StatusNotFound, notFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.d.Wait+5*time.Second)
	defer cancel()
	a, err := h.d.Store.AttemptByReturnToken(ctx, api.ReturnTokenHash(token))
	switch {
	case fault.IsCode(err, fault.NotFound):
		h.page(w, http.StatusNotFound, notFound)
		return
	case err != nil:
		h.page(w, http.StatusServiceUnavailable, checking)
		return
	}
	if r.Method != http.MethodHead {
		a = h.settle(ctx, a)
	}
	if web(a.ReturnUrl) {
		onward(w, a.ReturnUrl)
		return
	}
	head, err := h.d.Store.OrderHead(ctx, "", order.ID(a.OrderID))
	if err != nil {
		h.page(w, http.StatusServiceUnavailable, checking)
		return
	}
	h.page(w, http.StatusOK, shown(view.SummaryOf(head).Buyer))
}

// settled: nothing the buyer did at the provider can be news any more, or it is known already.
func settled(a sqlcgen.PaymentAttempt) bool {
	switch order.Status(a.Status) {
	case order.AttemptSucceeded, order.AttemptDeclined, order.AttemptClosed:
		return true
	}
	return false
}

// settle has an open attempt looked at, and waits a moment for what comes of it. Not waiting long enough harms nobody: the checkout
// asks for the order as it does after any payment.
func (h *returns) settle(ctx context.Context, a sqlcgen.PaymentAttempt) sqlcgen.PaymentAttempt {
	if settled(a) {
		return a
	}
	if err := h.d.Store.LookWant(ctx, order.AttemptID(a.AttemptID), "return"); err != nil {
		h.d.Log.InfoContext(ctx, "a returning buyer's payment is not looked at now", "error", err)
		return a
	}
	h.d.Wake()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, h.d.Wait)
	defer cancel()
	tick := time.NewTicker(h.d.Poll)
	defer tick.Stop()
	for !settled(a) {
		select {
		case <-ctx.Done():
			return a
		case <-tick.C:
		}
		now, err := h.d.Store.Attempt(ctx, order.AttemptID(a.AttemptID))
		if err != nil {
			return a
		}
		a = now
	}
	return a
}

// web: an address a browser may be sent to.
func web(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// onward sends the browser to the address the checkout gave with the payment, as it gave it.
func onward(w http.ResponseWriter, to string) {
	harden(w)
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// harden keeps the page to itself: nothing is loaded, framed, cached, or told to the next page of where the buyer came from.
func harden(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+styleHash+"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func (h *returns) page(w http.ResponseWriter, status int, c content) {
	var b bytes.Buffer
	if err := page.Execute(&b, c); err != nil {
		h.d.Log.Error("the return page cannot be written", "error", err)
		status = http.StatusInternalServerError
	}
	harden(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// content is all a page shows. None of it comes from the request.
type content struct {
	Title   string
	Message string
	Style   template.CSS
	Again   bool // the page asks again by itself
}

var (
	notFound = content{Title: "Not found", Message: "There is no payment at this address. If you have just paid, please return to the shop and look at your order there.", Style: style}
	checking = content{Title: "Your payment", Message: "We are checking your payment. Please do not pay again.", Style: style, Again: true}
)

// shown says what the API's buyer field says.
func shown(b view.Buyer) content {
	return content{Title: "Your payment", Message: b.Message, Style: style, Again: b.State == "checking" || b.State == "action_needed"}
}
