package scripts_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"orderflow/activities"
	"orderflow/internal/config"
	"orderflow/internal/reconcile"
	"orderflow/internal/scripts"
	"orderflow/internal/secret"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/server"
	"orderflow/sandbox/twoctwopsim"
	"orderflow/starter/api"
	"orderflow/starter/webhooks"
	"orderflow/store"
	"orderflow/workflows"
)

const (
	apiKey    = "key-of-the-shop-aaaaaaaaaaaa"
	stripeKey = "sk_test_scripts"
	merchant  = "SCRIPTS01"
)

// product is starter and worker in one process. Runs of the workflow are made by the SDK's test environment.
type product struct {
	t     *testing.T
	world *scripts.World
	store *store.Store
	acts  *activities.Activities
	api   http.Handler
	rules reconcile.Rules

	mu   sync.Mutex
	told map[order.ID]bool // orders whose run has to be made, and whether it is told to look
	busy map[order.ID]*sync.Mutex
}

func newProduct(t *testing.T) *product {
	t.Helper()
	p := &product{t: t, told: map[order.ID]bool{}, busy: map[order.ID]*sync.Mutex{}, rules: reconcile.Rules{Grace: time.Millisecond, HoldFor: time.Second}}
	db := testkit.Database(t)
	var err error
	p.store, err = store.Open(t.Context(), db.AppURL, 24, store.Options{})
	require.NoError(t, err)
	t.Cleanup(p.store.Close)
	owner, err := pgxpool.New(t.Context(), db.OwnerURL)
	require.NoError(t, err)
	t.Cleanup(owner.Close)
	sum := sha256.Sum256([]byte(apiKey))
	require.NoError(t, p.store.APIKeyAdd(t.Context(), store.Caller{KeyID: "k1", Client: "shop", Scopes: []string{"checkout", "operate"}}, sum[:]))

	ours, ourPublic, err := twoctwopsim.GenerateKeys()
	require.NoError(t, err)
	theirs, theirPublic, err := twoctwopsim.GenerateKeys()
	require.NoError(t, err)
	sb, err := server.New(server.Config{
		StripeKeys: []secret.Value{secret.New(stripeKey)}, StripeWebhook: secret.New("whsec_scripts"),
		OmiseKeys:    []omisesim.KeyPair{{Secret: secret.New("skey_test_scripts"), Public: "pkey_test_scripts"}},
		Merchants:    []twoctwopsim.Merchant{{ID: merchant, Secret: secret.New("merchant-secret-of-scripts-012345"), PublicKey: ourPublic}},
		MerchantsKey: theirs, TossKeys: []secret.Value{secret.New("test_sk_scripts")},
		Webhooks: notify.Config{Queue: 1_000_000, Kept: 1000}, IssuerToken: secret.New("issuer-token"), WebhookSecret: secret.New("whsec_" + random(32)),
	})
	require.NoError(t, err)
	require.NoError(t, sb.Start("127.0.0.1:0"))
	t.Cleanup(func() { _ = sb.Close() })
	sb.TwoCTwoP().Configure(func(s *twoctwopsim.Settings) { s.SettlesAtOnce = true }) // what is not settled cannot be refunded
	p.world = &scripts.World{
		API: p.call, Post: p.post, Calm: p.calm, Sweep: p.sweep, Look: p.look, Sandbox: sb, Owner: owner, StripeKey: stripeKey, OmiseKey: "skey_test_scripts", Merchant: merchant,
	}
	require.NoError(t, p.world.Open())
	t.Cleanup(p.world.Close)
	p.open(db, ours, theirPublic)
	return p
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// open puts the product together as its mains do.
func (p *product) open(db *testkit.DB, ours secret.Value, theirs string) {
	p.t.Helper()
	sb := p.world.Sandbox
	file := filepath.Join(p.t.TempDir(), "config.json")
	raw, err := json.Marshal(map[string]any{"accounts": []map[string]any{{
		"gateway": "twoctwop", "name": "default", "secret_key": "merchant-secret-of-scripts-012345", "public_key": merchant, "environment": "test",
		"api_base": sb.TwoCTwoPURL(), "maintenance_url": sb.TwoCTwoPURL() + "/maintenance", "private_key": ours.Reveal(), "provider_key": theirs,
	}}})
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(file, raw, 0o600))
	c, err := config.Load([]string{
		"DATABASE_URL=" + db.AppURL, "ORDERFLOW_DATA_KEY=" + random(32), "ORDERFLOW_CONFIG_FILE=" + file,
		"STRIPE_SECRET_KEY=" + stripeKey, "STRIPE_API_BASE=" + sb.StripeURL(), "STRIPE_WEBHOOK_SECRET=whsec_scripts",
		"OMISE_SECRET_KEY=skey_test_scripts", "OMISE_PUBLIC_KEY=pkey_test_scripts", "OMISE_API_BASE=" + sb.OmiseURL(),
		"TOSS_SECRET_KEY=test_sk_scripts", "TOSS_API_BASE=" + sb.TossURL(),
		fmt.Sprintf(`ORDERFLOW_ISSUERS=[{"name":"tickets","base_url":%q,"token":"issuer-token","idempotent":true,"lookup":true,"revoke":true}]`, sb.IssuerURL(issuersim.Idempotent)),
		"ORDERFLOW_FIRST_LOOKUP_AFTER=100ms", "ORDERFLOW_LONGEST_RETRY_INTERVAL=300ms", "ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER=10s",
		"ORDERFLOW_STEP_TIMEOUT=60s",
	})
	require.NoError(p.t, err)
	gws, err := c.OpenGateways()
	require.NoError(p.t, err)
	iss, err := c.OpenIssuers()
	require.NoError(p.t, err)
	box, err := c.Box()
	require.NoError(p.t, err)
	p.acts = activities.New(activities.Deps{
		Store: p.store, Gateways: gws, Issuers: iss, Box: box, Temporal: starts{p: p},
		Sweep:     activities.SweepSettings{Again: time.Minute, Max: 100_000},
		Reconcile: activities.ReconcileSettings{Spans: reconcile.Spans{Window: 24 * time.Hour, Overlap: time.Hour}, Rules: p.rules},
	})
	hooks := webhooks.New(webhooks.Deps{Store: p.store, Engine: p, Box: box, Gateways: gws, LookupsPerSecond: 5000, OrphanAfter: time.Second})
	p.api = api.New(api.Deps{
		Store: p.store, Engine: p, Box: box, Gateways: gws, Issuers: []string{"tickets"}, Policy: c.Policy(), AnswerBudget: time.Minute, IdempotencyLease: 5 * time.Minute,
		LookupsPerSecond: 5000, Also: hooks.Routes(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		hooks.Run(ctx)
	}()
	p.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// run makes one run of an order's workflow, from the facts, as after a start. Where it comes to wait for somebody it is cut off there:
// any later run has to go on from the database.
func (p *product) run(id order.ID, look bool) error {
	p.mu.Lock()
	one := p.busy[id]
	if one == nil {
		one = &sync.Mutex{}
		p.busy[id] = one
	}
	p.mu.Unlock()
	one.Lock()
	defer one.Unlock()
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := s.NewTestWorkflowEnvironment()
	env.RegisterActivity(p.acts)
	env.SetTestTimeout(2 * time.Minute)
	if look {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "test"}) }, 0)
	}
	cut := false
	env.RegisterDelayedCallback(func() { cut = true; env.CancelWorkflow() }, time.Hour) // time skips while nothing runs
	env.ExecuteWorkflow(workflows.OrderWorkflow, id, workflows.Carried{})
	if err := env.GetWorkflowError(); err != nil && !cut {
		return fmt.Errorf("the run of %s ended: %w", id, err)
	}
	return nil
}

// Submit, Refund, Cancel and LookAgain are Temporal's part towards the API and the webhooks.
func (p *product) Submit(_ context.Context, id order.ID, _ order.AttemptID) error {
	return p.run(id, false)
}

// Refund is Submit for a refund.
func (p *product) Refund(_ context.Context, id order.ID, _ order.RefundID) error {
	return p.run(id, false)
}

// Capture is Submit for a capture.
func (p *product) Capture(_ context.Context, id order.ID, _ order.AttemptID) error {
	return p.run(id, false)
}

// Cancel is Submit for a cancel.
func (p *product) Cancel(_ context.Context, id order.ID, _ order.CancelID) error {
	return p.run(id, false)
}

// LookAgain is noted and done later.
func (p *product) LookAgain(_ context.Context, id order.ID, _, _ string) error {
	p.tell(id, true)
	return nil
}

func (p *product) tell(id order.ID, look bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told[id] = p.told[id] || look
}

// starts is Temporal's part towards the sweep.
type starts struct {
	client.Client
	p *product
}

func (s starts) ExecuteWorkflow(_ context.Context, _ client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	s.p.tell(args[0].(order.ID), false)
	return nil, nil
}

func (s starts) SignalWithStartWorkflow(_ context.Context, _, _ string, _ any, _ client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	s.p.tell(args[0].(order.ID), true)
	return nil, nil
}

// calm makes the runs that were asked for, until nobody asks any more.
func (p *product) calm(ctx context.Context) error {
	for {
		p.mu.Lock()
		told := p.told
		p.told = map[order.ID]bool{}
		p.mu.Unlock()
		if err := p.runAll(told); err != nil {
			return err
		}
		var waiting int
		err := p.world.Owner.QueryRow(ctx, "SELECT (SELECT count(*) FROM webhook_receipts WHERE processed_at IS NULL AND next_try_at < now() + interval '10 seconds') + (SELECT count(*) FROM looks_wanted)").Scan(&waiting)
		if err != nil {
			return err
		}
		p.mu.Lock()
		quiet := len(p.told) == 0 && waiting == 0
		p.mu.Unlock()
		if quiet {
			return nil
		}
		time.Sleep(10 * time.Millisecond) // between two looks at the condition; nothing depends on its length
	}
}

func (p *product) runAll(told map[order.ID]bool) error {
	var wg sync.WaitGroup
	work := make(chan order.ID)
	var once sync.Once
	var failed error
	for range 8 {
		wg.Go(func() {
			for id := range work {
				if err := p.run(id, told[id]); err != nil {
					once.Do(func() { failed = err })
				}
			}
		})
	}
	for id := range told {
		work <- id
	}
	close(work)
	wg.Wait()
	return failed
}

func (p *product) sweep(ctx context.Context) error {
	_, err := p.acts.Sweep(ctx)
	return err
}

// look compares every provider's books with ours: lists, inquiries, and 2C2P's settlement file.
func (p *product) look(ctx context.Context) error {
	accounts, err := p.acts.ReconcileAccounts(ctx, order.ReconcileAsk{})
	if err != nil {
		return err
	}
	for _, a := range accounts {
		for done := false; !done; {
			step, err := p.acts.ReconcileStep(ctx, activities.ReconcileInput{Account: a})
			if err != nil {
				return err
			}
			done = step.Done
		}
		if a.Gateway == "twoctwop" {
			if err := p.settlement(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// settlement imports the file that 2C2P would send.
func (p *product) settlement(ctx context.Context, a order.Account) error {
	page := store.Page{Account: a, Rules: p.rules, Source: "statement"}
	err := reconcile.ReadStatement(bytes.NewReader(p.world.Settlement()), reconcile.StatementForm{InvoiceIsID: true},
		func(_ int, i reconcile.Item) error { page.Items = append(page.Items, i); return nil },
		func(line int, why string) { p.t.Errorf("line %d of the settlement file %s", line, why) })
	if err == nil && len(page.Items) > 0 {
		_, err = p.store.ReconcilePage(ctx, page)
	}
	return err
}

// history counts what was written down so far.
func (p *product) history() map[string]int {
	p.t.Helper()
	out := map[string]int{}
	for _, table := range []string{"transitions", "payments", "refunds", "reviews", "orphan_payments", "outbox_events", "operations", "observations"} {
		var n int
		require.NoError(p.t, p.world.Owner.QueryRow(p.t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
		out[table] = n
	}
	return out
}
