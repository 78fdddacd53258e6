// Package operator is the page where people see what waits for them and decide it: a queue, one order explained, and forms that
// ask for exactly the evidence a decision needs.
//
// It must not decide anything nor hold SQL: the store says what there is, the rule behind it says what may be done, and this package
// shows both. It may import order, store, starter's view and starter/api for routes, and internal leaves.
package operator

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"orderflow/internal/seal"
	"orderflow/order"
	"orderflow/starter/api"
	"orderflow/store"
)

// Deps are what the page works with.
type Deps struct {
	Store *store.Store
	Box   *seal.Box  // opens the references that buyers hold
	Door  store.Door // what a decision needs of this process: sealing a confirmed reference, freezing a refund's request

	// Look tells the engine that an order has something new. It may fail without harm: the sweep finds the work.
	Look func(ctx context.Context, id order.ID, review order.ReviewID) error
	// PaymentPage is the provider's own page about a payment; "" = there is none that can be named.
	PaymentPage func(a order.Account, providerPaymentID string) string

	Sides      []string            // names of providers, issuers and receivers, to filter by
	Rules      order.DecisionRules // whether a second person is needed; the store has the same
	TemporalUI string              // address of Temporal's Web UI as operators' browsers reach it; "" = no links to it
	Namespace  string              // Temporal's

	SessionLasts time.Duration // 0 = 8h
	Log          *slog.Logger  // nil = silent
	Now          func() time.Time
}

// Operator serves the page. It is made by Routes.
type Operator struct {
	d      Deps
	pages  pages
	assets assets
	csrf   *http.CrossOriginProtection
	hashes chan struct{} // bounds the passwords that are checked side by side: each takes 19 MiB
	dummy  string        // a hash that no password fits, so that an unknown login takes as long as a known one
}

// Routes are what the API's listener serves below /operator.
func Routes(d Deps) []api.Route {
	if d.Look == nil {
		d.Look = func(context.Context, order.ID, order.ReviewID) error { return nil }
	}
	if d.PaymentPage == nil {
		d.PaymentPage = func(order.Account, string) string { return "" }
	}
	if d.SessionLasts == 0 {
		d.SessionLasts = 8 * time.Hour
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	o := &Operator{
		d: d, assets: loadAssets(), csrf: http.NewCrossOriginProtection(), hashes: make(chan struct{}, 2), dummy: HashPassword("nobody has this password"),
	}
	o.pages = loadPages(o.assets)
	o.csrf.SetDenyHandler(http.HandlerFunc(o.crossOrigin))
	return o.routes()
}

// routes lists every address with the least role that may ask for it; "" = everybody, nobody logged in included.
func (o *Operator) routes() []api.Route {
	var out []api.Route
	add := func(pattern string, role order.Role, h func(http.ResponseWriter, *http.Request, *screen)) {
		out = append(out, api.Route{Pattern: pattern, Handler: o.behind(role, h)})
	}
	add("GET /operator", order.RoleViewer, o.queue)
	add("GET /operator/order", order.RoleViewer, o.order)
	add("GET /operator/review", order.RoleViewer, o.review)
	add("GET /operator/waiting", order.RoleViewer, o.waiting)
	add("GET /operator/search", order.RoleViewer, o.search)
	add("GET /operator/audit", order.RoleViewer, o.audit)
	add("POST /operator/decide", order.RoleOperator, o.decide)
	add("POST /operator/assign", order.RoleOperator, o.assign)
	add("GET /operator/login", "", o.loginForm)
	add("POST /operator/login", "", o.login)
	add("POST /operator/logout", "", o.logout)
	add("POST /operator/language", "", o.language)
	out = append(out, api.Route{Pattern: "GET /operator/static/{name}", Handler: http.HandlerFunc(o.static)})
	return out
}

// behind is what stands before every page: the headers, the check of where a form comes from, who asks, and whether they may.
func (o *Operator) behind(least order.Role, h func(http.ResponseWriter, *http.Request, *screen)) http.Handler {
	return o.csrf.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w)
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		s := o.screenOf(r)
		who, err := o.whoIs(r)
		switch {
		case err != nil:
			o.d.Log.WarnContext(r.Context(), "a session cannot be checked", "error", err)
			o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
			return
		case who != nil:
			s.Who = who
		case least != "":
			o.toLogin(w, r)
			return
		}
		if least != "" && !may(order.Role(who.Role), least) {
			o.auditRefusal(r, who.Login, "page_refused", "role_too_low")
			o.refuse(w, s, http.StatusForbidden, "error.role")
			return
		}
		if r.Method == http.MethodPost {
			if err := r.ParseForm(); err != nil {
				o.refuse(w, s, http.StatusBadRequest, "error.form")
				return
			}
		}
		h(w, r, s)
	}))
}

// maxForm is more than every form of ours takes.
const maxForm = 64 << 10

func may(has, least order.Role) bool {
	switch least {
	case order.RoleViewer:
		return has.Reads()
	case order.RoleOperator:
		return has.Decides()
	case order.RoleApprover:
		return has.Approves()
	}
	return false
}

// harden keeps the page to itself: it runs only what we serve, is in nobody's frame, and tells the next page nothing.
func harden(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=()")
}

// crossOrigin answers a form that another site sent with somebody's session.
func (o *Operator) crossOrigin(w http.ResponseWriter, r *http.Request) {
	harden(w)
	o.auditRefusal(r, "unknown", "page_refused", "cross_origin")
	o.refuse(w, o.screenOf(r), http.StatusForbidden, "error.origin")
}

// auditRefusal keeps what was refused. A refusal has no effect, so failing to write it must not fail the answer.
func (o *Operator) auditRefusal(r *http.Request, actor, act, why string) {
	o.d.Log.WarnContext(r.Context(), "refused on the operator page", "act", act, "why", why, "actor", actor)
	if err := o.d.Store.Audit(r.Context(), actor, string(order.ChannelPage), act, map[string]string{"why": why}); err != nil {
		o.d.Log.WarnContext(r.Context(), "a refusal is not in the audit log", "error", err)
	}
}
