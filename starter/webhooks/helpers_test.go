package webhooks_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/seal"
	"orderflow/internal/secret"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/starter/api"
	"orderflow/starter/webhooks"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// provider is a gateway of which only the webhooks are real: signed over the raw bytes and a time, as providers do it.
type provider struct{ account gateways.Account }

const webhookSecret = "webhook-secret-marker"

func (p provider) Account() gateways.Account                       { return p.account }
func (provider) Credential() string                                { return "mark" }
func (provider) Capabilities() gateways.Capabilities               { return gateways.Capabilities{} }
func (provider) Plan(gateways.Payment) ([]gateways.Planned, error) { return nil, errUnused }
func (provider) Lookup(context.Context, gateways.Query) (o gateways.Observation, err error) {
	return o, errUnused
}

func (provider) Send(context.Context, gateways.Kind, gateways.Operation) (o gateways.Observation, err error) {
	return o, errUnused
}

var errUnused = fault.New(fault.InternalError, "test: nothing is sent here")

// event is the provider's JSON.
type event struct {
	ID          string           `json:"id"`
	Type        string           `json:"type"`
	Payment     string           `json:"payment,omitempty"`
	Reference   string           `json:"reference,omitempty"`
	Environment string           `json:"environment,omitempty"`
	Says        gateways.Outcome `json:"says,omitempty"`
	Secret      *string          `json:"secret,omitempty"`
	Proof       gateways.Proof   `json:"proof,omitempty"` // how the event is proven; left out, it is signed
	Note        string           `json:"note,omitempty"`
}

type notifier struct{ provider }

func (notifier) ReadNotice(in gateways.Incoming) (gateways.Notice, error) {
	var e event
	if json.Unmarshal(in.Body, &e) != nil || e.ID == "" {
		return gateways.Notice{}, fault.New(fault.WebhookMalformed, "read notice")
	}
	n := gateways.Notice{
		EventID: e.ID, EventType: e.Type, ProviderPaymentID: e.Payment, MerchantReference: e.Reference, Environment: gateways.Environment(e.Environment),
		Proof: e.Proof, Says: e.Says,
	}
	if e.Secret != nil {
		n.Secret = secret.New(*e.Secret)
	}
	if e.Proof != "" {
		return n, nil
	}
	header := http.Header(in.Header)
	at, err := strconv.ParseInt(header.Get("Event-Time"), 10, 64)
	if err != nil || !hmac.Equal([]byte(header.Get("Event-Signature")), []byte(sign(at, in.Body))) {
		return n, fault.New(fault.WebhookUnproven, "read notice")
	}
	n.ProviderTime = time.Unix(at, 0)
	if in.At.Sub(n.ProviderTime).Abs() > 5*time.Minute {
		f := fault.New(fault.WebhookUnproven, "read notice")
		f.Why = "outside_time_window"
		return n, f
	}
	n.Proof = gateways.ProofSigned
	return n, nil
}

func sign(at int64, body []byte) string {
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	fmt.Fprintf(mac, "%d.", at)
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// runs stands in for Temporal and remembers who was told.
type runs struct {
	mu   sync.Mutex
	told map[order.ID]int
	all  []order.ID
	fail func() error
}

// Capture, Cancel and Refund are what webhooks never ask for.
func (r *runs) Capture(context.Context, order.ID, order.AttemptID) error { return nil }

func (r *runs) Cancel(context.Context, order.ID, order.CancelID) error { return nil }

func (r *runs) Refund(context.Context, order.ID, order.RefundID) error { return nil }

func (r *runs) LookAgain(_ context.Context, id order.ID, _, _ string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		if err := r.fail(); err != nil {
			return err
		}
	}
	r.told[id]++
	r.all = append(r.all, id)
	return nil
}

func (r *runs) Submit(context.Context, order.ID, order.AttemptID) error { return nil }

func (r *runs) of(id order.ID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[id]
}

func (r *runs) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// bundle is one starter's webhooks on a database of their own.
type bundle struct {
	t     testing.TB
	db    *testkit.DB
	owner *pgxpool.Pool
	store *store.Store
	box   *seal.Box
	hooks *webhooks.Webhooks
	runs  *runs
	url   string
	n     int
}

var account = order.Account{Gateway: "fake", Name: "default", Environment: "test"}

func setup(t testing.TB, change ...func(*bundle, *webhooks.Deps)) *bundle {
	t.Helper()
	b := &bundle{t: t, db: testkit.Database(t), runs: &runs{told: map[order.ID]int{}}}
	var err error
	b.owner, err = pgxpool.New(t.Context(), b.db.OwnerURL)
	require.NoError(t, err)
	t.Cleanup(b.owner.Close)
	b.store = b.open(b.db.AppURL)
	b.box, err = seal.ParseKeys("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	require.NoError(t, err)
	silent := provider{gateways.Account{Gateway: "silent", Name: "default", Environment: gateways.Test}}
	d := webhooks.Deps{
		Store: b.store, Engine: b.runs, Box: b.box, LookupsPerSecond: 1000, Period: 100 * time.Millisecond,
		Gateways: map[order.Account]gateways.Gateway{
			account: notifier{provider{gateways.Account{Gateway: "fake", Name: "default", Environment: gateways.Test}}},
			{Gateway: "silent", Name: "default", Environment: "test"}: silent,
		},
	}
	for _, f := range change {
		f(b, &d)
	}
	b.hooks = webhooks.New(d)
	srv := httptest.NewServer(api.New(api.Deps{Store: d.Store, Engine: b.runs, Box: b.box, Policy: order.DefaultPolicy(), Also: b.hooks.Routes()}))
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}

func (b *bundle) open(url string) *store.Store {
	b.t.Helper()
	s, err := store.Open(b.t.Context(), url, 16, store.Options{Receivers: []string{"mail"}})
	require.NoError(b.t, err)
	b.t.Cleanup(s.Close)
	return s
}

// run works on what was taken until the test ends.
func (b *bundle) run() *bundle {
	start(b.t, b.hooks)
	return b
}

func start(t testing.TB, h *webhooks.Webhooks) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// attempt stores an order and an attempt whose confirm has been claimed.
func (b *bundle) attempt() sqlcgen.PaymentAttempt {
	b.t.Helper()
	b.n++
	d := order.Draft{
		ID: order.ID(fmt.Sprintf("order-%d", b.n)), Client: "shop", Currency: "JPY", BuyerRef: "buyer", ExpiresAt: time.Now().Add(time.Hour),
		Lines: []order.Line{{SKU: "pass", Name: "Pass", Quantity: 1, UnitAmount: 100, Action: order.ActionGrant}},
	}
	d.Total = d.LinesSum()
	_, err := b.store.OrderPlace(b.t.Context(), d, "place-"+string(d.ID), order.DefaultPolicy())
	require.NoError(b.t, err)
	id := order.NewAttemptID()
	op := order.OperationID("op_confirm_" + string(id))
	_, err = b.store.AttemptOpen(b.t.Context(), store.AttemptDraft{
		ID: id, OrderID: d.ID, Client: d.Client, CallerKey: "pay-" + string(d.ID), Account: account, MerchantReference: order.NewMerchantReference(),
		MethodType: "card", Amount: money.Amount{Minor: d.Total, Currency: d.Currency},
		Operations: []store.OperationDraft{{ID: op, Kind: "confirm", Sealed: []byte("c"), Fingerprint: []byte("f")}},
	})
	require.NoError(b.t, err)
	a, won, err := b.store.OperationClaim(b.t.Context(), id, op, "mark")
	require.NoError(b.t, err)
	require.True(b.t, won)
	return a
}

// becomes has the provider say what the attempt came to.
func (b *bundle) becomes(a sqlcgen.PaymentAttempt, o order.Outcome) sqlcgen.PaymentAttempt {
	b.t.Helper()
	p := order.PaymentSeen{
		Outcome: o, Account: account, ProviderPaymentID: "p_" + a.AttemptID, MerchantReference: a.MerchantReference,
		Currency: money.Currency(a.Currency), AmountMinor: a.AmountMinor, ReadVersion: a.Version, ReadAsks: a.LooksAsked,
	}
	if o == order.Succeeded {
		p.CapturedMinor = a.AmountMinor
	}
	_, err := b.store.ObservationKeep(b.t.Context(), store.Seen{
		Attempt: order.AttemptID(a.AttemptID), Order: order.ID(a.OrderID), Source: "lookup", Payment: p, LearnedID: p.ProviderPaymentID,
	}, "")
	require.NoError(b.t, err)
	_, err = b.store.Reflect(b.t.Context(), order.AttemptID(a.AttemptID))
	require.NoError(b.t, err)
	now, err := b.store.Attempt(b.t.Context(), order.AttemptID(a.AttemptID))
	require.NoError(b.t, err)
	return now
}

// holds seals a per-payment secret at the attempt.
func (b *bundle) holds(a sqlcgen.PaymentAttempt, text string) {
	b.exec("UPDATE payment_attempts SET sealed_private = $1 WHERE attempt_id = $2", b.box.Seal([]byte(text), order.AttemptPlace(order.AttemptID(a.AttemptID))), a.AttemptID)
}

type option func(*http.Request)

func header(name, value string) option { return func(r *http.Request) { r.Header.Set(name, value) } }

// raw posts bytes, signed now over exactly these bytes unless an option says otherwise.
func (b *bundle) raw(body []byte, opts ...option) int {
	b.t.Helper()
	status, err := b.try(body, opts...)
	require.NoError(b.t, err)
	return status
}

func (b *bundle) try(body []byte, opts ...option) (int, error) {
	r, err := http.NewRequest("POST", b.url+"/webhooks/fake/default", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	at := time.Now().Unix()
	r.Header.Set("Event-Time", strconv.FormatInt(at, 10))
	r.Header.Set("Event-Signature", sign(at, body))
	for _, o := range opts {
		o(r)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Body.Close()
}

func bodyOf(e event) []byte {
	body, _ := json.Marshal(e) // strings always marshal
	return body
}

func (b *bundle) post(e event, opts ...option) int {
	b.t.Helper()
	return b.raw(bodyOf(e), opts...)
}

func about(a sqlcgen.PaymentAttempt, id string, says gateways.Outcome) event {
	return event{ID: id, Type: "payment.changed", Payment: a.ProviderPaymentID, Reference: a.MerchantReference, Environment: "test", Says: says}
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.owner.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *bundle) count(sql string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.owner.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

func (b *bundle) text(sql string, args ...any) (s string) {
	b.t.Helper()
	require.NoError(b.t, b.owner.QueryRow(b.t.Context(), sql, args...).Scan(&s))
	return s
}

func (b *bundle) result(id string) string {
	return b.text("SELECT result FROM webhook_receipts WHERE event_id = $1", id)
}

// quiet returns when nothing is left to process or to tell.
func (b *bundle) quiet() {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		var n int
		err := b.owner.QueryRow(context.Background(), "SELECT (SELECT count(*) FROM webhook_receipts WHERE processed_at IS NULL) + (SELECT count(*) FROM looks_wanted)").Scan(&n)
		return err == nil && n == 0
	}, 20*time.Second, 10*time.Millisecond, "something waits for ever")
}
