// Package api is the HTTP API for checkout backends: orders in, payments in, states out.
//
// It must not decide anything about money or goods: it checks form, stores what was asked, hands it to the engine and
// reads the answer from PostgreSQL. It may import store, order, gateways' planning side, starter's view, engine and
// idempotency, and huma.
package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"orderflow/gateways"
	"orderflow/internal/seal"
	"orderflow/order"
	"orderflow/starter/idempotency"
	"orderflow/store"
)

// Engine is what the API asks of Temporal. Every call may fail without harm: the rows are there and the sweep finds them.
type Engine interface {
	// Submit waits for an attempt's first outcome until ctx ends.
	Submit(ctx context.Context, id order.ID, attempt order.AttemptID) error
	// Capture waits for the first outcome of an attempt's capture until ctx ends.
	Capture(ctx context.Context, id order.ID, attempt order.AttemptID) error
	// Refund waits for a refund's first outcome until ctx ends.
	Refund(ctx context.Context, id order.ID, refund order.RefundID) error
	// Cancel waits until a cancel is over, or waits for somebody else, or ctx ends.
	Cancel(ctx context.Context, id order.ID, cancel order.CancelID) error
	// LookAgain asks for a fresh look at an order and does not wait for it.
	LookAgain(ctx context.Context, id order.ID, source, reference string) error
}

// Deps are what the API works with.
type Deps struct {
	Store    *store.Store
	Engine   Engine
	Box      *seal.Box
	Gateways map[order.Account]gateways.Gateway
	Issuers  []string     // configured names: a line of action issue must name one
	Policy   order.Policy // what a new order is promised

	// PublicURL is our own address as buyers' browsers reach it: providers send them back there, and we send them on. "" = they
	// go straight to the checkout's page.
	PublicURL string

	Also []Route // of other packages, on the same listener

	AnswerBudget     time.Duration // how long a payment request waits for its outcome; 0 = 5s
	IdempotencyLease time.Duration // 0 = 30s
	LookupsPerSecond int           // per provider account; 0 = 10
	Log              *slog.Logger  // nil = silent
	Metrics          *Metrics      // nil = nobody counts
	Now              func() time.Time
}

// API serves the routes. It is made by New.
type API struct {
	d       Deps
	mux     *http.ServeMux
	keys    *keyRing
	fields  map[string]bool // every field name of the API, to answer with
	look    chan struct{}   // bounds lookups that readers asked for and that are on their way to the engine
	looked  lastLooks
	specs   map[string][]byte
	issuers map[string]bool
}

// New makes the handler: /v1/…, /openapi.json and /openapi.yaml. Everything else is a problem of type not-found.
func New(d Deps) http.Handler {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.AnswerBudget == 0 {
		d.AnswerBudget = 5 * time.Second
	}
	if d.IdempotencyLease == 0 {
		d.IdempotencyLease = 30 * time.Second
	}
	if d.LookupsPerSecond == 0 {
		d.LookupsPerSecond = 10
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	a := &API{
		d: d, mux: http.NewServeMux(), fields: map[string]bool{"body": true, "path": true}, look: make(chan struct{}, 32), issuers: map[string]bool{},
		keys: &keyRing{find: d.Store.APIKeyByHash, now: time.Now, known: map[[32]byte]seenCaller{}},
	}
	for _, name := range d.Issuers {
		a.issuers[name] = true
	}
	inner := http.NewServeMux()
	h := humago.New(inner, a.humaConfig())
	a.register(h)
	a.describe(h)
	a.mount(inner)
	return a.observe(a.route(a.mux))
}

// mount puts each route behind the checks it needs. The order is the contract: who asks, then how much, then whether this
// was asked before, then whether it can be read, then what it says.
func (a *API) mount(inner http.Handler) {
	guard := idempotency.Middleware(idempotency.Options{
		Keys: a.d.Store, Box: a.d.Box, Lease: a.d.IdempotencyLease, Log: a.d.Log,
		Caller: clientOf, Operation: func(r *http.Request) string { return entryOf(r.Context()).route }, Body: bodyOf,
		Refuse: refuseKey, Count: a.countGuard,
	})
	checkout := a.authenticate(scopeCheckout)
	operate := a.authenticate(scopeOperate, scopeApprove)
	read := a.authenticate(scopeCheckout, scopeView, scopeOperate, scopeApprove)
	a.mux.Handle("POST /v1/orders", checkout(readBody(guard(a.checkBody(inner)))))
	a.mux.Handle("POST /v1/orders/{id}/payments", checkout(readBody(guard(a.checkBody(inner)))))
	a.mux.Handle("POST /v1/orders/{id}/capture", checkout(readBody(guard(a.checkBody(inner)))))
	a.mux.Handle("POST /v1/orders/{id}/refunds", operate(readBody(guard(a.checkBody(inner)))))
	a.mux.Handle("POST /v1/orders/{id}/cancel", read(readBody(guard(a.checkBody(inner)))))
	a.mux.Handle("GET /v1/orders/{id}", read(inner))
	a.mux.Handle("GET /v1/orders/{id}/records", read(inner))
	a.mux.Handle("GET /v1/orders/{id}/records.csv", read(inner))
	see := a.authenticate(scopeView, scopeOperate, scopeApprove)
	a.mux.Handle("GET /v1/reviews", see(inner))
	a.mux.Handle("GET /v1/reviews/{id}", see(inner))
	a.mux.Handle("GET /v1/figures", see(inner))
	a.mux.Handle("POST /v1/reviews/{id}/decisions", see(readBody(a.checkBody(inner))))
	a.mux.Handle("POST /v1/reviews/{id}/take", see(readBody(a.checkBody(inner))))
	a.mux.Handle("PUT /v1/orders/{id}", checkout(readBody(a.checkBody(inner))))
	a.mux.Handle("PUT /v1/stock/{sku}", checkout(readBody(a.checkBody(inner))))
	for _, r := range a.d.Also {
		a.mux.Handle(r.Pattern, r.Handler)
	}
	for path, kind := range map[string]string{"/openapi.json": "application/openapi+json", "/openapi.yaml": "application/openapi+yaml"} {
		a.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(a.specs[path])
		})
	}
}

func (a *API) countGuard(r *http.Request, o idempotency.Outcome) {
	entryOf(r.Context()).guard = string(o)
	a.d.Metrics.outcome(o)
}

func refuseKey(w http.ResponseWriter, _ *http.Request, why idempotency.Refusal, after time.Duration) {
	name := map[idempotency.Refusal]string{
		idempotency.KeyMissing: typeKeyMissing, idempotency.KeyMalformed: typeKeyMalformed, idempotency.KeyReused: typeKeyReused,
		idempotency.Running: typeRunning, idempotency.Unavailable: typeUnavailable,
	}[why]
	p := problem(name, "")
	if after > 0 {
		p = p.after(after)
	}
	p.write(w)
}

func (a *API) humaConfig() huma.Config {
	c := huma.DefaultConfig("Orderflow", "1")
	c.Info.Description = "Orders are paid once and provided once; what cannot be known is shown as unknown. " +
		"Amounts are whole numbers of the currency's minor unit."
	// Its documentation page loads from elsewhere, and its specification routes are not made for concurrent use.
	c.DocsPath, c.OpenAPIPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no $schema fields
	c.Transformers = []huma.Transformer{a.humaProblem}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"apiKey": {Type: "http", Scheme: "bearer"}}
	c.Security = []map[string][]string{{"apiKey": {}}}
	return c
}

// humaProblem turns huma's own errors, which repeat input, into problems, which do not.
func (a *API) humaProblem(_ huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	name := map[int]string{
		http.StatusBadRequest: typeMalformed, http.StatusUnprocessableEntity: typeValidation, http.StatusUnsupportedMediaType: typeNotJSON,
		http.StatusRequestEntityTooLarge: typeTooLarge, http.StatusRequestTimeout: typeTooSlow,
	}[e.Status]
	if name == "" {
		name = typeInternal
	}
	p := problem(name, "")
	p.Status = e.Status // it is sent already
	for _, d := range e.Errors {
		if d == nil || name == typeInternal {
			continue
		}
		msg := d.Message
		switch {
		case strings.HasPrefix(msg, "json:"), strings.HasPrefix(msg, "invalid"):
			msg = "has another type than this API takes"
		case msg == "unexpected property":
			msg = "holds a field that this API does not have"
		}
		if len(p.Errors) < 20 {
			p.Errors = append(p.Errors, FieldError{a.known(d.Location), msg})
		}
	}
	return p, nil
}

// answersLater are the operations that may answer 202 before their outcome is known.
var answersLater = []string{"pay-order", "capture-order", "refund-order", "cancel-order"}

// describe finishes the specification: every operation answers problems, and the type names are listed.
func (a *API) describe(h huma.API) {
	spec := h.OpenAPI()
	schema := spec.Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	list := "Every error answer is a problem (RFC 9457) with one of these types:\n\n"
	for _, t := range problemTypes {
		list += "- `" + typePrefix + t.Name + "` (" + http.StatusText(t.Status) + "): " + t.Meaning + "\n"
	}
	problems := &huma.Response{Description: list, Content: map[string]*huma.MediaType{problemJSON: {Schema: schema}}}
	for _, item := range spec.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post} {
			if op == nil {
				continue
			}
			op.Responses["default"] = problems
			if made := op.Responses["201"]; made != nil && slices.Contains(answersLater, op.OperationID) {
				later := *made
				later.Description = "It takes longer than the answer budget: what is known so far. Ask again after Retry-After."
				op.Responses["202"] = &later
			}
			if op.Method == http.MethodPost && op.OperationID != "take-review" { // taking twice is taking once
				op.Parameters = append(op.Parameters, &huma.Param{
					Name: idempotency.Header, In: "header", Required: true, Schema: &huma.Schema{Type: "string"},
					Description: "1 to 255 visible ASCII characters, one per business operation. Repeating a request with its key is always safe.",
				})
			}
		}
	}
	describeOthers(spec, problems)
	for _, s := range spec.Components.Schemas.Map() {
		for name := range s.Properties {
			a.fields[name] = true
		}
	}
	asJSON, err1 := json.MarshalIndent(spec, "", "  ")
	asYAML, err2 := spec.YAML()
	if err1 != nil || err2 != nil {
		panic("api: the specification cannot be written") // it is made of our own types: the first test would see it
	}
	a.specs = map[string][]byte{"/openapi.json": append(asJSON, '\n'), "/openapi.yaml": asYAML}
}

// register adds the operations.
func (a *API) register(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "place-order", Method: http.MethodPost, Path: "/v1/orders", DefaultStatus: http.StatusCreated, MaxBodyBytes: MaxBody + 1,
		Summary: "Store an order", Description: "The caller is the price authority; the total is recomputed and refused when it does not add up.",
	}, a.placeOrder)
	huma.Register(h, huma.Operation{
		OperationID: "pay-order", Method: http.MethodPost, Path: "/v1/orders/{id}/payments", DefaultStatus: http.StatusCreated, MaxBodyBytes: MaxBody + 1,
		Summary: "Try to collect the money of an order once",
		Description: "201 with the outcome; 202 when it takes longer than the answer budget: poll the Location, or repeat the request with its key. " +
			"Never open a second payment while the outcome is checking.",
	}, a.payOrder)
	huma.Register(h, huma.Operation{
		OperationID: "capture-order", Method: http.MethodPost, Path: "/v1/orders/{id}/capture", DefaultStatus: http.StatusCreated, MaxBodyBytes: MaxBody + 1,
		Summary: "Take the money that the buyer's bank holds",
		Description: "Of a payment made with capture later, while it is authorized. 201 with the outcome; 202 when it takes longer than the answer budget: poll " +
			"the Location, or repeat the request with its key. Money is captured once; to let it go, cancel the order.",
	}, a.captureOrder)
	huma.Register(h, huma.Operation{
		OperationID: "refund-order", Method: http.MethodPost, Path: "/v1/orders/{id}/refunds", DefaultStatus: http.StatusCreated, MaxBodyBytes: MaxBody + 1,
		Summary: "Give money of an order back",
		Description: "Needs the scope operate. 201 with the outcome; 202 when it takes longer than the answer budget: poll the Location, or repeat the " +
			"request with its key. What is being found out counts as given back.",
	}, a.refundOrder)
	huma.Register(h, huma.Operation{
		OperationID: "cancel-order", Method: http.MethodPost, Path: "/v1/orders/{id}/cancel", DefaultStatus: http.StatusCreated, MaxBodyBytes: MaxBody + 1,
		Summary: "Have an order not carried out",
		Description: "Needs checkout or operate; operate where the order is paid, since its money goes back. 201 when it is canceled; 202 while a payment or " +
			"goods under way are found out: poll the Location, or repeat the request with its key. An order has one cancel.",
	}, a.cancelOrder)
	huma.Register(h, huma.Operation{
		OperationID: "replace-order", Method: http.MethodPut, Path: "/v1/orders/{id}", MaxBodyBytes: MaxBody + 1, Summary: "State an open order anew",
		Description: "Whole, as when it was placed; a new revision. Only while nobody is paying for it. Stating what stands changes nothing.",
	}, a.replaceOrder)
	huma.Register(h, huma.Operation{
		OperationID: "read-order", Method: http.MethodGet, Path: "/v1/orders/{id}", Summary: "Read an order in full",
		Description: "Asks the provider again, rate-limited and without waiting, when a payment's outcome is unknown.",
	}, a.readOrder)
	huma.Register(h, huma.Operation{
		OperationID: "read-records", Method: http.MethodGet, Path: "/v1/orders/{id}/records", Summary: "Read an order's transaction records",
		Description: "What was sold, received and given back, one immutable record per transaction, oldest first.",
	}, a.readRecords)
	huma.Register(h, huma.Operation{
		OperationID: "read-records-csv", Method: http.MethodGet, Path: "/v1/orders/{id}/records.csv", Summary: "Read an order's transaction records as CSV",
	}, a.readRecordsCSV)
	huma.Register(h, huma.Operation{
		OperationID: "set-stock", Method: http.MethodPut, Path: "/v1/stock/{sku}", MaxBodyBytes: MaxBody + 1, Summary: "Set what is on hand of a sku",
	}, a.setStock)
	a.registerReviews(h)
}
