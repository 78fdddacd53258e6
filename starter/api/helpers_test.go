package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/stripe"
	"orderflow/internal/fault"
	"orderflow/internal/seal"
	"orderflow/internal/secret"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/sandbox/server"
	"orderflow/starter/api"
	"orderflow/store"
)

// bundle is one API on a database and a sandbox of its own.
type bundle struct {
	t      *testing.T
	db     *testkit.DB
	store  *store.Store
	box    *seal.Box
	url    string
	engine *engineFunc
	world  *server.Server
	keys   atomic.Int64
}

// engineFunc stands in for Temporal where a test is about HTTP. Tests of the engine itself use the real dev server.
type engineFunc struct {
	submit  func(ctx context.Context, id order.ID, a order.AttemptID) error
	capture func(ctx context.Context, id order.ID, a order.AttemptID) error
	refund  func(ctx context.Context, id order.ID, r order.RefundID) error
	look    func(ctx context.Context, id order.ID, source, reference string) error
	looks   atomic.Int64
}

func (e *engineFunc) Submit(ctx context.Context, id order.ID, a order.AttemptID) error {
	if e.submit == nil {
		return context.DeadlineExceeded
	}
	return e.submit(ctx, id, a)
}

func (e *engineFunc) Capture(ctx context.Context, id order.ID, a order.AttemptID) error {
	if e.capture == nil {
		return context.DeadlineExceeded
	}
	return e.capture(ctx, id, a)
}

func (e *engineFunc) Cancel(context.Context, order.ID, order.CancelID) error {
	return context.DeadlineExceeded
}

func (e *engineFunc) Refund(ctx context.Context, id order.ID, r order.RefundID) error {
	if e.refund == nil {
		return context.DeadlineExceeded
	}
	return e.refund(ctx, id, r)
}

func (e *engineFunc) LookAgain(ctx context.Context, id order.ID, source, reference string) error {
	e.looks.Add(1)
	if e.look == nil {
		return nil
	}
	return e.look(ctx, id, source, reference)
}

const (
	shopKey     = "key-of-the-shop-aaaaaaaaaaaa"
	otherKey    = "key-of-another-shop-bbbbbbbb"
	operatorKey = "key-of-an-operator-cccccccc"
)

func setup(t *testing.T, change ...func(*api.Deps)) *bundle {
	t.Helper()
	t.Parallel()
	b := &bundle{t: t, db: testkit.Database(t), engine: &engineFunc{}}
	var err error
	b.store, err = store.Open(t.Context(), b.db.AppURL, 16, store.Options{Receivers: []string{"mail"}})
	require.NoError(t, err)
	t.Cleanup(b.store.Close)
	b.box, err = seal.ParseKeys("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	require.NoError(t, err)
	b.world, err = server.New(server.Config{
		StripeKeys: []secret.Value{secret.New("sk_test_sandbox")}, IssuerToken: secret.New("issuer-token"),
		WebhookSecret: secret.New("whsec_c2FuZGJveC1vbmx5LW5vdC1hLXJlYWwtc2VjcmV0"),
	})
	require.NoError(t, err)
	require.NoError(t, b.world.Start("127.0.0.1:0"))
	t.Cleanup(func() { _ = b.world.Close() })
	gw, err := stripe.Open(gateways.Settings{Name: "default", SecretKey: secret.New("sk_test_sandbox"), APIBase: b.world.StripeURL()})
	require.NoError(t, err)
	for key, c := range map[string]store.Caller{
		shopKey:     {KeyID: "k1", Client: "shop", Scopes: []string{"checkout"}},
		otherKey:    {KeyID: "k2", Client: "other", Scopes: []string{"checkout"}},
		operatorKey: {KeyID: "k3", Client: "shop", Scopes: []string{"operate"}},
	} {
		sum := sha256.Sum256([]byte(key))
		require.NoError(t, b.store.APIKeyAdd(t.Context(), c, sum[:]))
	}
	d := api.Deps{
		Store: b.store, Engine: b.engine, Box: b.box, Issuers: []string{"tickets"}, Policy: order.DefaultPolicy(), AnswerBudget: time.Second,
		Gateways: map[order.Account]gateways.Gateway{{Gateway: "stripe", Name: "default", Environment: "test"}: gw},
	}
	for _, f := range change {
		f(&d)
	}
	srv := httptest.NewServer(api.New(d))
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
	json   map[string]any
}

func (a answer) problem() string {
	s, _ := a.json["type"].(string)
	return strings.TrimPrefix(s, "urn:orderflow:problem:")
}

// at walks into the JSON.
func (a answer) at(path ...string) any {
	var v any = a.json
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

type option func(*http.Request)

func with(name, value string) option { return func(r *http.Request) { r.Header.Set(name, value) } }
func without(name string) option     { return func(r *http.Request) { r.Header.Del(name) } }
func as(key string) option           { return with("Authorization", "Bearer "+key) }
func key(k string) option            { return with("Idempotency-Key", k) }

// call sends one request as the shop, with a fresh key for a POST.
func (b *bundle) call(method, path string, body any, options ...option) answer {
	b.t.Helper()
	var raw []byte
	switch x := body.(type) {
	case nil:
	case string:
		raw = []byte(x)
	case []byte:
		raw = x
	default:
		var err error
		raw, err = json.Marshal(x)
		require.NoError(b.t, err)
	}
	req, err := http.NewRequest(method, b.url+path, bytes.NewReader(raw))
	require.NoError(b.t, err)
	req.Header.Set("Authorization", "Bearer "+shopKey)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPost {
		req.Header.Set("Idempotency-Key", fmt.Sprintf("key-%d", b.keys.Add(1)))
	}
	for _, o := range options {
		o(req)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b.t, err)
	defer func() { _ = resp.Body.Close() }()
	a := answer{status: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	_ = json.Unmarshal(a.body, &a.json)
	return a
}

type fields = map[string]any

func line(change ...func(fields)) fields {
	l := fields{"sku": "TICKET-1", "name": "Concert, row 3", "quantity": 2, "unit_amount": 2400, "action": "grant"}
	for _, f := range change {
		f(l)
	}
	return l
}

func anOrder(id string, change ...func(fields)) fields {
	o := fields{
		"id": id, "currency": "JPY", "total": 4800, "buyer_ref": "buyer-7", "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		"lines": []any{line()},
	}
	for _, f := range change {
		f(o)
	}
	return o
}

func pathOf(id string) string { return "/v1/orders/" + url.PathEscape(id) }

func card(token string) fields {
	return fields{"gateway": "stripe", "method": fields{"type": "card", "token": token}}
}

func (b *bundle) place(id string) {
	b.t.Helper()
	a := b.call("POST", "/v1/orders", anOrder(id))
	require.Equal(b.t, 201, a.status, string(a.body))
}

// confirm does what the worker does for an attempt, against the real sandbox: send each stored write, keep the answer,
// reflect.
func (b *bundle) confirm(ctx context.Context, id order.AttemptID) error {
	w, err := b.store.AttemptWork(ctx, id)
	if err != nil {
		return err
	}
	gw, err := stripe.Open(gateways.Settings{Name: "default", SecretKey: secret.New("sk_test_sandbox"), APIBase: b.world.StripeURL()})
	if err != nil {
		return err
	}
	pid := ""
	for _, op := range w.Operations {
		at, won, err := b.store.OperationClaim(ctx, id, order.OperationID(op.OperationID), "")
		if err != nil || !won {
			return err
		}
		plain, err := b.box.Open(op.SealedRequest, order.OperationPlace(order.OperationID(op.OperationID)))
		if err != nil {
			return err
		}
		o, err := gw.Send(ctx, gateways.Kind(op.Kind), gateways.Operation{Key: op.OperationID, ProviderPaymentID: pid, Request: plain})
		seen := store.Seen{Attempt: id, Order: order.ID(w.Attempt.OrderID), Operation: order.OperationID(op.OperationID), Source: "send"}
		acc := order.Account{Gateway: "stripe", Name: "default", Environment: "test"}
		if err != nil {
			f := fault.As(err)
			outcome := order.Unknown
			if f.Class == fault.Declined {
				outcome = order.Declined
			}
			seen.Payment = order.PaymentSeen{Outcome: outcome, Account: acc, Code: string(f.Code), ReadVersion: at.Version, ReadAsks: at.LooksAsked}
		} else {
			pid = o.ProviderPaymentID
			outcome := order.Outcome(o.Outcome)
			if op.Kind == "prepare" {
				outcome = order.Prepared
			}
			seen.Payment = order.PaymentSeen{
				Outcome: outcome, Final: o.Final, Account: acc, ProviderPaymentID: o.ProviderPaymentID, MerchantReference: o.MerchantReference,
				Currency: o.Currency, AmountMinor: o.AmountMinor, CapturedMinor: o.CapturedMinor, Code: o.DeclineCode, ReadVersion: at.Version, ReadAsks: at.LooksAsked,
			}
			seen.LearnedID, seen.ProviderStatus = o.ProviderPaymentID, o.Status
			if o.NextAction != nil {
				seen.NextAction, _ = json.Marshal(o.NextAction)
			}
		}
		if _, err := b.store.ObservationKeep(ctx, seen, ""); err != nil {
			return err
		}
	}
	_, err = b.store.Reflect(ctx, id)
	return err
}

// working makes the engine do the worker's part at once.
func (b *bundle) working() {
	b.engine.submit = func(ctx context.Context, _ order.ID, a order.AttemptID) error { return b.confirm(ctx, a) }
}
