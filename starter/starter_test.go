package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"orderflow/activities"
	"orderflow/internal/config"
	"orderflow/internal/eventsend"
	"orderflow/internal/secret"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/server"
	"orderflow/store"
	"orderflow/workflows"
)

// Goal: the commands work together as a person uses them: set up, serve, place, pay, explain, decide. Method: everything is
// real - database, Temporal, the sandbox, the worker's workflows - and the commands are called as kong calls them. Not
// covered: processes that die; the end-to-end tests kill them.

type bundle struct {
	t       *testing.T
	db      *testkit.DB
	world   *server.Server
	environ []string
	config  config.Config
	api     string
	ops     string
}

const apiKey = "bootstrap-key-aaaaaaaaaaaaaaaa"

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	b := &bundle{t: t, db: testkit.Database(t)}
	temporal := testkit.Temporal(t)
	var err error
	b.world, err = server.New(server.Config{
		StripeKeys: []secret.Value{secret.New("sk_test_sandbox")}, IssuerToken: secret.New("issuer-token"),
		WebhookSecret: secret.New("whsec_c2FuZGJveC1vbmx5LW5vdC1hLXJlYWwtc2VjcmV0"),
	})
	require.NoError(t, err)
	require.NoError(t, b.world.Start("127.0.0.1:0"))
	t.Cleanup(func() { _ = b.world.Close() })
	b.environ = []string{
		"DATABASE_URL=" + b.db.AppURL, "MIGRATE_DATABASE_URL=" + b.db.OwnerURL, "ORDERFLOW_DATA_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		"ORDERFLOW_BOOTSTRAP_API_KEY=shop:checkout+operate:" + apiKey, "TEMPORAL_ADDRESS=" + temporal.Address, "TEMPORAL_NAMESPACE=" + temporal.Namespace,
		"STRIPE_SECRET_KEY=sk_test_sandbox", "STRIPE_API_BASE=" + b.world.StripeURL(), "ORDERFLOW_LISTEN=127.0.0.1:0", "ORDERFLOW_OPS_LISTEN=127.0.0.1:0",
		`ORDERFLOW_ISSUERS=[{"name":"vouchers","base_url":"` + b.world.IssuerURL(issuersim.Opaque) + `","token":"issuer-token","timeout":"1s"}]`,
		"ORDERFLOW_RERUN_SAFE_AFTER=100ms", "ORDERFLOW_ANSWER_BUDGET=15s", "ORDERFLOW_IDEMPOTENCY_LEASE=20s",
	}
	b.config, err = config.Load(b.environ)
	require.NoError(t, err)
	return b
}

// run calls a command and returns what it wrote.
func (b *bundle) run(command interface {
	Run(context.Context, *streams) error
},
) (string, error) {
	var out, errs bytes.Buffer
	err := command.Run(b.t.Context(), &streams{out: &out, err: &errs, environ: b.environ})
	return out.String() + errs.String(), err
}

func (b *bundle) serve() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	up, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- serve(ctx, b.config, slog.New(slog.DiscardHandler), func(api, ops string) {
			b.api, b.ops = "http://"+api, "http://"+ops
			close(up)
		})
	}()
	select {
	case <-up:
	case err := <-done:
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		cancel()
		require.NoError(b.t, <-done)
	})
}

func (b *bundle) work() {
	b.t.Helper()
	pool, err := pgxpool.New(b.t.Context(), b.db.AppURL)
	require.NoError(b.t, err)
	b.t.Cleanup(pool.Close)
	o, err := b.config.Temporal(slog.New(slog.DiscardHandler))
	require.NoError(b.t, err)
	tc := testkit.Dial(b.t, o.HostPort, o.Namespace)
	gws, err := b.config.OpenGateways()
	require.NoError(b.t, err)
	iss, err := b.config.OpenIssuers()
	require.NoError(b.t, err)
	box, err := b.config.Box()
	require.NoError(b.t, err)
	sender, err := eventsend.New(b.config.EventSender())
	require.NoError(b.t, err)
	w := worker.New(tc, order.TaskQueue, worker.Options{DisableRegistrationAliasing: true})
	workflows.Register(w, activities.New(activities.Deps{
		Store: store.New(pool, store.Options{}), Gateways: gws, Issuers: iss, Sender: sender, Box: box, Temporal: tc,
		Sweep: activities.SweepSettings{MinAge: time.Second, Again: time.Second},
	}))
	require.NoError(b.t, w.Start())
	b.t.Cleanup(w.Stop)
}

func (b *bundle) get(url string, header ...string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(b.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b.t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return resp.StatusCode, string(raw)
}

func (b *bundle) pay(id string) (int, string) {
	b.t.Helper()
	status, body, err := post(b.t.Context(), b.api+"/v1/orders/"+id+"/payments", secret.New(apiKey), "pay-"+id,
		[]byte(`{"gateway":"stripe","method":{"type":"card","token":"pm_card_visa"}}`))
	require.NoError(b.t, err)
	return status, string(body)
}

func TestFromSetupToDecision(t *testing.T) {
	b := setup(t)
	for range 2 { // safe to repeat
		said, err := b.run(setupCommand{Wait: 10 * time.Second})
		require.NoError(t, err, said)
		require.NotContains(t, said, apiKey)
	}
	b.serve()
	b.work()
	require.Eventually(t, func() bool { s, _ := b.get(b.ops + "/readyz"); return s == 200 }, 20*time.Second, 50*time.Millisecond)
	status, _ := b.get(b.ops + "/healthz")
	require.Equal(t, 200, status)

	said, err := b.run(placeCommand{
		API: b.api, APIKey: secret.New(apiKey), ID: "O-1", Currency: "USD", Line: []string{"TICKET,2,80.50,grant"}, Discount: "1.00", Expires: time.Hour,
	})
	require.NoError(t, err, said)
	require.Contains(t, said, `"total":16000`)
	status, body := b.pay("O-1")
	require.Equal(t, 201, status, body)
	require.Contains(t, body, `"outcome":"succeeded"`)
	require.Eventually(t, func() bool {
		_, body := b.get(b.api+"/v1/orders/O-1", "Authorization", "Bearer "+apiKey)
		return strings.Contains(body, `"fulfillment":"fulfilled"`)
	}, 20*time.Second, 50*time.Millisecond)
	text, err := b.run(explainCommand{Order: "O-1"})
	require.NoError(t, err)
	for _, part := range []string{"order        completed", "160.00 USD", "Nothing waits for a person", "captured 160.00 USD", "order O-1: open -> paid"} {
		require.Contains(t, text, part)
	}
	_, metrics := b.get(b.ops + "/metrics")
	require.Contains(t, metrics, `orderflow_idempotency_total{outcome="completed"}`)
	require.Contains(t, metrics, `route="POST /v1/orders/{id}/payments"`)
	require.NotContains(t, metrics, "O-1")
}

// An issuer that can be asked nothing loses its answer: a person gets it, sees what to do, and does it.
func TestDecideOnTheCommandLine(t *testing.T) {
	b := setup(t)
	said, err := b.run(setupCommand{Wait: 10 * time.Second})
	require.NoError(t, err, said)
	b.serve()
	b.work()
	said, err = b.run(placeCommand{API: b.api, APIKey: secret.New(apiKey), ID: "O-2", Currency: "JPY", Line: []string{"VOUCHER,1,4800,issue,vouchers"}, Expires: time.Hour})
	require.NoError(t, err, said)
	_, err = b.world.Faults().Add(faults.Fault{Target: faults.Issuer, Method: http.MethodPost, Times: 1, Action: faults.LoseAnswer})
	require.NoError(t, err)
	status, body := b.pay("O-2")
	require.Equal(t, 201, status, body)
	var o struct {
		Reviews []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
			Paste  struct {
				ReviewID string `json:"review_id"`
			} `json:"paste"`
		} `json:"reviews"`
	}
	require.Eventually(t, func() bool {
		text, err := b.run(explainCommand{Order: "O-2", JSON: true})
		return err == nil && json.Unmarshal([]byte(text), &o) == nil && len(o.Reviews) == 1
	}, 30*time.Second, 100*time.Millisecond)
	text, err := b.run(explainCommand{Order: "O-2"})
	require.NoError(t, err)
	for _, part := range []string{"Waits for a person", "issuance_outcome_unknown", "forbidden", "resolve_review", `"review_id":"` + o.Reviews[0].ID} {
		require.Contains(t, text, part)
	}
	for _, c := range []reviewsCommand{{}, {Reason: "issuance_outcome_unknown", Gateway: "vouchers", Unassigned: true}} {
		text, err = b.run(c)
		require.NoError(t, err, text)
		require.Regexp(t, o.Reviews[0].ID+` .*issuance_outcome_unknown .*O-2 .*4800 JPY .*a decision`, text)
	}
	text, err = b.run(reviewsCommand{JSON: true})
	require.NoError(t, err)
	require.Contains(t, text, `"allowed":["requery_issuance","confirm_provided"`)
	text, err = b.run(reviewsCommand{MinAge: time.Hour})
	require.NoError(t, err)
	require.Equal(t, "nothing waits for a person\n", text)
	_, err = b.run(reviewsCommand{Reason: "no_such_reason"})
	require.ErrorContains(t, err, "no such reason")
	_, err = b.run(decideCommand{Review: o.Reviews[0].ID, Decision: "refund", Actor: "yuki", Reason: "x", Amount: "1.5"})
	require.Error(t, err, "a yen has no parts")

	d := decideCommand{Review: o.Reviews[0].ID, Decision: "confirm_provided", Actor: "yuki", Reason: "the issuer's portal shows it"}
	said, err = b.run(d)
	require.ErrorIs(t, err, exitCode(2), "without evidence it is refused")
	require.Contains(t, said, "evidence_reference_missing")
	d.Reference = "voucher-4711"
	said, err = b.run(d)
	require.NoError(t, err, said)
	again, err := b.run(d)
	require.NoError(t, err)
	require.Contains(t, again, `"replayed": true`)
	require.Eventually(t, func() bool {
		_, body := b.get(b.api+"/v1/orders/O-2", "Authorization", "Bearer "+apiKey)
		return strings.Contains(body, `"order":"completed"`) && strings.Contains(body, `"reference":"voucher-4711"`)
	}, 30*time.Second, 100*time.Millisecond)
	b.exported()
}

// exported is what an auditor gets of the order above.
func (b *bundle) exported() {
	var out, said bytes.Buffer
	require.NoError(b.t, exportCommand{}.Run(b.t.Context(), &streams{out: &out, err: &said, environ: b.environ}))
	require.Contains(b.t, said.String(), "rows exported")
	rows := exportedLines(b.t, out.String())
	require.Len(b.t, rows["order"], 1)
	require.Equal(b.t, "completed", rows["order"][0]["status"])
	require.Equal(b.t, "yuki", rows["decision"][0]["actor"])
	require.NotEmpty(b.t, rows["refusal"])
	for _, c := range []recordsCommand{{Order: "O-2", CSV: true}, {Client: "shop", CSV: true}} {
		said, err := b.run(c)
		require.NoError(b.t, err, said)
		require.Contains(b.t, said, "1,O-2,1,record,receipt")
		require.Contains(b.t, said, ",O-2,2,line,sale")
	}
	text, err := b.run(recordsCommand{Client: "shop", After: 1})
	require.NoError(b.t, err)
	require.Equal(b.t, 1, strings.Count(text, "\n"), text)
	require.Contains(b.t, text, `"number":2,"order_id":"O-2","seq":2,"kind":"sale"`)
	_, err = b.run(recordsCommand{Order: "none"})
	require.ErrorIs(b.t, err, exitCode(3))
	_, err = b.run(recordsCommand{})
	require.ErrorContains(b.t, err, "name an order")
	require.NotContains(b.t, out.String(), "voucher-4711", "what was provided is nobody's but the buyer's")
}

func TestExplainOfNothing(t *testing.T) {
	b := setup(t)
	said, err := b.run(explainCommand{Order: "none"})
	require.ErrorIs(t, err, exitCode(3))
	require.Contains(t, said, "no such order")
}

func TestCodes(t *testing.T) {
	t.Parallel()
	var text, asJSON bytes.Buffer
	require.NoError(t, codesCommand{}.Run(&streams{out: &text}))
	require.NoError(t, codesCommand{JSON: true}.Run(&streams{out: &asJSON}))
	var rows []codeRow
	require.NoError(t, json.Unmarshal(asJSON.Bytes(), &rows))
	require.NotEmpty(t, rows)
	for _, r := range rows {
		require.Contains(t, text.String(), string(r.Code))
		require.NotEmpty(t, r.Meaning)
	}
}

// Amounts on the command line are converted exactly or refused (PC-30, PC-32).
func TestPlaceAmounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		currency, amount string
		quantity         string
		minor            int64 // -1: refused
	}{
		"Yen":              {"JPY", "80", "1", 80},
		"YenWithZeros":     {"JPY", "80.00", "1", 80},
		"YenWithCents":     {"JPY", "80.50", "1", -1},
		"Satang":           {"THB", "80.50", "3", 8050},
		"SeventeenNinety9": {"USD", "17.99", "3", 1799},
		"TooPrecise":       {"USD", "1.005", "1", -1},
		"Fils":             {"KWD", "1.230", "1", 1230},
		"Exponent":         {"USD", "1e2", "1", -1},
		"Negative":         {"USD", "-1.00", "1", -1},
		"Comma":            {"USD", "1,00", "1", -1},
		"QuantityZero":     {"USD", "1.00", "0", -1},
		"QuantityHalf":     {"USD", "1.00", "0.5", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := placeCommand{ID: "O", Currency: c.currency, Line: []string{"SKU," + c.quantity + "," + c.amount + ",grant"}, Expires: time.Hour}.request(time.Now())
			if c.minor < 0 {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.minor, req.Lines[0].UnitAmount)
			require.Equal(t, c.minor*int64(req.Lines[0].Quantity), req.Total)
		})
	}
}
