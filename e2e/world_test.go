// Package e2e drives whole orders through real processes - worker and starter as a user runs them - against a real PostgreSQL,
// a real Temporal dev server and the sandbox over HTTP.
//
// Goal: what the design promises holds with an answer lost, a process killed or a history gone, counted in the books of the
// sandbox, never in our own. Method: faults are armed in the sandbox, processes are killed with SIGKILL, and every test ends
// in the same comparison of books and database (books_test.go). Not covered: speed (bench/), single tables (unit tests).
package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"orderflow/internal/secret"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/server"
	"orderflow/sandbox/twoctwopsim"
)

const (
	apiKey   = "shop-key-for-tests-0123456789"
	otherKey = "other-key-for-tests-0123456789"

	stripeWebhook  = "whsec_stripe_e2e"
	omiseWebhook   = "b21pc2Utd2ViaG9vay1zZWNyZXQtZm9yLXRlc3RzISE="
	merchantSecret = "merchant-secret-for-tests-0123456789"
)

// built is the folder of programs, once there is one.
var built atomic.Pointer[string]

// programs builds worker and starter once per test process.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "orderflow-e2e-")
	if err != nil {
		return "", err
	}
	built.Store(&dir)
	cmd := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "orderflow/worker", "orderflow/starter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "5") // on two cores more of them only wait for each other
	}
	code := m.Run()
	if dir := built.Load(); dir != nil {
		_ = os.RemoveAll(*dir)
	}
	os.Exit(code)
}

// world is one test's own everything.
type world struct {
	t        *testing.T
	home     *testing.T // the test that the world belongs to: processes end with it, also those a subtest started
	db       *testkit.DB
	owner    *pgxpool.Pool // reads and breaks things as the owner
	temporal client.Client
	sandbox  *server.Server
	env      map[string]string
	bin      string
	logs     string
	base     string // of the API
	workers  []*process
	starter  *process
	inDoubt  map[string]bool // references whose money a person still has to judge, as the test itself has asserted
}

// option changes the environment before anything starts.
type option func(*world)

func with(name, value string) option { return func(w *world) { w.env[name] = value } }

// workersDie is for worlds that kill them: it is noticed soon. In the others a worker that gets no processor for a second is
// not taken for a dead one, whose step would be done again where the test counts.
func workersDie(w *world) { w.env["ORDERFLOW_DEAD_WORKER_AFTER"] = "1s" }

// onServer puts the world on a Temporal server of its own, which the test may kill.
func onServer(p *testkit.PrivateServer) option {
	return func(w *world) {
		w.temporal = testkit.Dial(w.t, p.Address, "default")
		w.env["TEMPORAL_ADDRESS"], w.env["TEMPORAL_NAMESPACE"] = p.Address, "default"
	}
}

// throughProxy leads the worker's database connections through p.
func throughProxy(p **testkit.TCPProxy) option {
	return func(w *world) {
		*p = testkit.NewTCPProxy(w.t, w.db.AppURL)
		w.env["WORKER_DATABASE_URL"] = (*p).Through(w.db.AppURL)
	}
}

// newWorld brings everything up: database, sandbox, setup, starter and one worker.
func newWorld(t *testing.T, opts ...option) *world {
	t.Helper()
	bin, err := programs()
	require.NoError(t, err)
	w := &world{t: t, home: t, db: testkit.Database(t), bin: bin, logs: t.TempDir()}
	w.owner, err = pgxpool.New(t.Context(), w.db.OwnerURL)
	require.NoError(t, err)
	t.Cleanup(w.owner.Close)
	w.openSandbox()
	w.env = w.environment()
	for _, o := range opts {
		o(w)
	}
	if w.temporal == nil {
		s := testkit.Temporal(t)
		w.temporal = s.Client
		w.env["TEMPORAL_ADDRESS"], w.env["TEMPORAL_NAMESPACE"] = s.Address, s.Namespace
	}
	t.Cleanup(w.stopSchedules)
	w.setup()
	w.startStarter()
	w.startWorker()
	return w
}

func (w *world) openSandbox() {
	whsec := "whsec_" + random(32)
	sb, err := server.New(server.Config{
		StripeKeys:    []secret.Value{secret.New("sk_test_e2e"), secret.New("sk_test_e2e+rotated"), secret.New("sk_live_e2e"), secret.New("sk_test_second")},
		StripeWebhook: secret.New(stripeWebhook),
		OmiseKeys:     []omisesim.KeyPair{{Secret: secret.New("skey_test_e2e"), Public: "pkey_test_e2e"}, {Secret: secret.New("skey_e2e"), Public: "pkey_e2e"}, {Secret: secret.New("skey_test_second"), Public: "pkey_test_second"}},
		OmiseWebhook:  secret.New(omiseWebhook),
		Merchants:     []twoctwopsim.Merchant{{ID: "E2E01", Secret: secret.New(merchantSecret), PublicKey: maintenance().public}}, MerchantsKey: maintenance().theirs,
		TossKeys:    []secret.Value{secret.New("test_sk_e2e"), secret.New("test_sk_second")},
		Webhooks:    notify.Config{Scale: 0.0001},
		IssuerToken: secret.New("issuer-token-e2e"), WebhookSecret: secret.New(whsec),
	})
	require.NoError(w.t, err)
	require.NoError(w.t, sb.Start("127.0.0.1:0"))
	w.t.Cleanup(func() { _ = sb.Close() })
	w.sandbox = sb
	w.env = map[string]string{"ORDERFLOW_RECEIVERS": fmt.Sprintf(`[{"name":"shop","url":%q,"secret":%q}]`, sb.ReceiverURL(), whsec)}
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// environment is what a user would set, with every wait short.
func (w *world) environment() map[string]string {
	issuer := func(name string, k issuersim.Kind, caps string) string {
		return fmt.Sprintf(`{"name":%q,"base_url":%q,"token":"issuer-token-e2e","timeout":"2s"%s}`, name, w.sandbox.IssuerURL(k), caps)
	}
	return map[string]string{
		"DATABASE_URL": w.db.AppURL, "MIGRATE_DATABASE_URL": w.db.OwnerURL,
		"ORDERFLOW_DATA_KEY": random(32), "ORDERFLOW_RECEIVERS": w.env["ORDERFLOW_RECEIVERS"],
		"ORDERFLOW_ISSUERS": "[" + strings.Join([]string{
			issuer("tickets", issuersim.Idempotent, `,"idempotent":true,"lookup":true,"revoke":true`),
			issuer("labels", issuersim.Lookup, `,"lookup":true,"revoke":true`),
			issuer("vouchers", issuersim.Opaque, ""),
		}, ",") + "]",
		"STRIPE_SECRET_KEY": "sk_test_e2e", "STRIPE_API_BASE": w.sandbox.StripeURL(), "STRIPE_TIMEOUT": "2s", "STRIPE_WEBHOOK_SECRET": stripeWebhook,
		"OMISE_SECRET_KEY": "skey_test_e2e", "OMISE_PUBLIC_KEY": "pkey_test_e2e", "OMISE_API_BASE": w.sandbox.OmiseURL(), "OMISE_TIMEOUT": "2s",
		"OMISE_WEBHOOK_SECRET": omiseWebhook,
		"TWOCTWOP_SECRET_KEY":  merchantSecret, "TWOCTWOP_PUBLIC_KEY": "E2E01", "TWOCTWOP_ENVIRONMENT": "test",
		"TWOCTWOP_API_BASE": w.sandbox.TwoCTwoPURL(), "TWOCTWOP_TIMEOUT": "2s",
		"TOSS_SECRET_KEY": "test_sk_e2e", "TOSS_API_BASE": w.sandbox.TossURL(), "TOSS_TIMEOUT": "2s",
		"ORDERFLOW_BOOTSTRAP_API_KEY": "shop:checkout+operate:" + apiKey,
		"ORDERFLOW_LISTEN":            freeAddr(w.t), "ORDERFLOW_OPS_LISTEN": freeAddr(w.t),
		"ORDERFLOW_EVENT_ALLOW_HTTP": "true", "ORDERFLOW_EVENT_ALLOW_LOOPBACK": "true", "ORDERFLOW_EVENT_TIMEOUT": "2s",
		"ORDERFLOW_STEP_TIMEOUT": "8s", "ORDERFLOW_DEAD_WORKER_AFTER": "8s",
		"ORDERFLOW_FIRST_LOOKUP_AFTER": "100ms", "ORDERFLOW_LONGEST_RETRY_INTERVAL": "300ms", "ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER": "3s",
		// Each start of a schedule costs Temporal about 70 ms of a core: at one a second, ten worlds would leave nothing for the tests.
		"ORDERFLOW_SWEEP_PERIOD": "3s", "ORDERFLOW_RELAY_PERIOD": "8s",
		"ORDERFLOW_TWO_PERSONS": "false", "ORDERFLOW_REVIEW_CHECK_EVERY": "1s", "ORDERFLOW_RERUN_SAFE_AFTER": "1s", "ORDERFLOW_SWEEP_MIN_AGE": "1s", "ORDERFLOW_SWEEP_AGAIN": "1s", "ORDERFLOW_LOOKUPS_PER_SECOND": "200",
		"ORDERFLOW_RECONCILE_PERIOD":  "720h", // tests that want it say so: it would find what others hide
		"ORDERFLOW_IDEMPOTENCY_LEASE": "8s", "ORDERFLOW_ANSWER_BUDGET": "5s",
		"PATH": os.Getenv("PATH"), "HOME": w.logs,
	}
}

// freeAddr is an address to listen on a little later. It is below the ports that the system hands out by itself, to
// connections and to listeners on port 0: one of those could take it first.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+mrand.IntN(12000)))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }()
		return l.Addr().String()
	}
	t.Fatal("no free port")
	return ""
}

// process is one program under test.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	log  string
	ops  string // address of its health and metrics
}

// run starts a program with the world's environment and more on top.
func (w *world) run(name string, more map[string]string, args ...string) *process {
	w.t.Helper()
	env := map[string]string{}
	for k, v := range w.env {
		env[k] = v
	}
	for k, v := range more {
		env[k] = v
	}
	cmd := exec.Command(filepath.Join(w.bin, name), args...)
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	f, err := os.CreateTemp(w.logs, name+"-*.log")
	require.NoError(w.t, err)
	cmd.Stdout, cmd.Stderr = f, f
	require.NoError(w.t, cmd.Start())
	p := &process{cmd: cmd, done: make(chan struct{}), log: f.Name()}
	go func() {
		defer close(p.done)
		_ = cmd.Wait()
		_ = f.Close()
	}()
	w.home.Cleanup(func() {
		p.kill()
		if w.home.Failed() {
			b, _ := os.ReadFile(p.log)
			w.home.Logf("---- %s %v (last lines)\n%s", name, args, tail(b, 6000))
		}
	})
	return p
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		return b[len(b)-n:]
	}
	return b
}

// kill is SIGKILL: the process gets no moment to tidy up.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop asks the process to end and waits.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
}

func (w *world) setup() {
	w.t.Helper()
	p := w.run("starter", nil, "setup")
	<-p.done
	b, _ := os.ReadFile(p.log)
	require.True(w.t, p.cmd.ProcessState.Success(), "starter setup: %s", b)
}

func (w *world) startStarter() *process {
	w.t.Helper()
	w.base = "http://" + w.env["ORDERFLOW_LISTEN"]
	w.starter = w.run("starter", nil, "serve")
	w.awaitHTTP("http://"+w.env["ORDERFLOW_OPS_LISTEN"]+"/readyz", w.starter)
	return w.starter
}

// startWorker starts one more worker and waits until it is ready.
func (w *world) startWorker() *process {
	w.t.Helper()
	more := map[string]string{"ORDERFLOW_WORKER_OPS_LISTEN": freeAddr(w.t)}
	if u := w.env["WORKER_DATABASE_URL"]; u != "" {
		more["DATABASE_URL"] = u
	}
	p := w.run("worker", more)
	w.awaitHTTP("http://"+more["ORDERFLOW_WORKER_OPS_LISTEN"]+"/readyz", p)
	p.ops = more["ORDERFLOW_WORKER_OPS_LISTEN"]
	w.workers = append(w.workers, p)
	return p
}

func (w *world) awaitHTTP(url string, p *process) {
	w.t.Helper()
	w.await("ready: "+url, func() bool {
		select {
		case <-p.done:
			b, _ := os.ReadFile(p.log)
			w.t.Fatalf("ended before it was ready: %s", b)
		default:
		}
		res, err := http.Get(url)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// await polls a condition; there is no other way to wait for another process.
func (w *world) await(what string, cond func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited too long for: %s", what)
		}
		time.Sleep(20 * time.Millisecond) // between two looks at the condition; nothing depends on its length
	}
}

// answer is one HTTP answer.
type answer struct {
	Status int
	Header http.Header
	Body   map[string]any
	Raw    []byte
}

// call makes one request as the shop.
func (w *world) call(method, path, key string, body any) answer {
	w.t.Helper()
	a, err := w.try(method, path, key, apiKey, body)
	require.NoError(w.t, err)
	return a
}

func (w *world) try(method, path, key, bearer string, body any) (answer, error) {
	var rd io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		rd = strings.NewReader(b)
	default:
		j, err := json.Marshal(b)
		if err != nil {
			return answer{}, err
		}
		rd = bytes.NewReader(j)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, rd)
	if err != nil {
		return answer{}, err
	}
	req.GetBody = nil
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	a := answer{Status: res.StatusCode, Header: res.Header}
	if a.Raw, err = io.ReadAll(res.Body); err != nil {
		return a, err
	}
	_ = json.Unmarshal(a.Raw, &a.Body)
	return a, nil
}

// line is one order line as the API takes it.
type line map[string]any

func grant(sku string, quantity, unitAmount int) line {
	return line{"sku": sku, "name": "Item " + sku, "quantity": quantity, "unit_amount": unitAmount, "tax_rate": "10", "action": "grant"}
}

func issued(issuer, sku string, quantity, unitAmount int) line {
	return line{"sku": sku, "name": "Item " + sku, "quantity": quantity, "unit_amount": unitAmount, "tax_rate": "10", "action": "issue", "issuer": issuer}
}

// place stores an order of JPY lines and requires that it worked.
func (w *world) place(id string, lines ...line) {
	w.t.Helper()
	a := w.call("POST", "/v1/orders", "place-"+url.QueryEscape(id), orderBody(id, "JPY", lines...))
	require.Equal(w.t, http.StatusCreated, a.Status, "%s", a.Raw)
}

// placeIn is place in another currency.
func (w *world) placeIn(id, currency string, lines ...line) {
	w.t.Helper()
	a := w.call("POST", "/v1/orders", "place-"+url.QueryEscape(id), orderBody(id, currency, lines...))
	require.Equal(w.t, http.StatusCreated, a.Status, "%s", a.Raw)
}

// webhooks leads the providers' webhooks to this world's starter. Without it none is sent.
func (w *world) webhooks() {
	w.t.Helper()
	for _, gateway := range []string{"stripe", "omise", "twoctwop", "toss"} {
		require.NoError(w.t, w.sandbox.Webhooks().SetTarget(gateway, w.base+"/webhooks/"+gateway+"/default"))
	}
}

func orderBody(id, currency string, lines ...line) map[string]any {
	total := 0
	for _, l := range lines {
		total += l["quantity"].(int) * l["unit_amount"].(int)
	}
	return map[string]any{"id": id, "currency": currency, "lines": lines, "total": total, "buyer_ref": "buyer-1", "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
}

func payBody(token string) map[string]any {
	return map[string]any{"gateway": "stripe", "method": map[string]any{"type": "card", "token": token}}
}

func path(id string) string { return "/v1/orders/" + url.PathEscape(id) }

// pay presses pay with a card that works.
func (w *world) pay(id, key string) answer {
	w.t.Helper()
	return w.call("POST", path(id)+"/payments", key, payBody("pm_card_visa"))
}

// buy is pay for tests that wait for what comes of it anyway: on a busy machine the answer may be that it takes longer.
func (w *world) buy(id, key string) {
	w.t.Helper()
	a := w.pay(id, key)
	require.Contains(w.t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s", a.Raw)
}

// status reads the order's own state from the database: the API may be down in a test.
func (w *world) status(id string) string {
	w.t.Helper()
	var s string
	require.NoError(w.t, w.owner.QueryRow(context.Background(), "SELECT status FROM orders WHERE order_id = $1", id).Scan(&s))
	return s
}

func (w *world) awaitStatus(id, want string) {
	w.t.Helper()
	w.await("order "+id+" "+want, func() bool { return w.status(id) == want })
}

// number runs a query that counts.
func (w *world) number(sql string, args ...any) int {
	w.t.Helper()
	var n int
	require.NoError(w.t, w.owner.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

func (w *world) text(sql string, args ...any) string {
	w.t.Helper()
	var s string
	require.NoError(w.t, w.owner.QueryRow(context.Background(), sql, args...).Scan(&s))
	return s
}

// awaitReview waits for an open review of the order and returns its id.
func (w *world) awaitReview(id string, reason order.ReviewReason) order.ReviewID {
	w.t.Helper()
	const open = "SELECT count(*) FROM reviews WHERE order_id = $1 AND reason = $2 AND status = 'open'"
	w.await("review "+string(reason), func() bool { return w.number(open, id, string(reason)) > 0 })
	return order.ReviewID(w.text("SELECT review_id FROM reviews WHERE order_id = $1 AND reason = $2 AND status = 'open' ORDER BY opened_at LIMIT 1", id, string(reason)))
}
