// Package config reads what worker and starter need to know at their start: environment first, a small JSON file for
// what does not fit there.
//
// It must not know what the values are used for beyond checking their form, and it keeps every secret as secret.Value.
// It may import order, gateways, issuers, the internal leaves, caarlos0/env and Temporal's envconfig.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"orderflow/internal/eventsend"
	"orderflow/internal/reconcile"
	"orderflow/internal/seal"
	"orderflow/internal/secret"
	"orderflow/order"
)

// Config is everything a process can be told. The doc tag of a field is its line in the README's table.
type Config struct {
	DatabaseURL        secret.Value `env:"DATABASE_URL" doc:"PostgreSQL for worker and starter: the application role, without DDL. Required."`
	MigrateDatabaseURL secret.Value `env:"MIGRATE_DATABASE_URL" doc:"PostgreSQL for setup: the owner of the schema. Left out, DATABASE_URL is used for both."`
	DatabasePool       int32        `env:"ORDERFLOW_DATABASE_POOL" envDefault:"20" doc:"Most connections one process holds."`
	DataKey            secret.Value `env:"ORDERFLOW_DATA_KEY" doc:"Encrypts what must be stored but not read: 32 random bytes in base64; to rotate, put a new key in front, as id:key,id:key. Required."`
	ConfigFile         string       `env:"ORDERFLOW_CONFIG_FILE" doc:"A JSON file with more accounts, issuers and receivers."`
	IssuersJSON        secret.Value `env:"ORDERFLOW_ISSUERS" doc:"The list of issuers as JSON, as in the file."`
	ReceiversJSON      secret.Value `env:"ORDERFLOW_RECEIVERS" doc:"The list of event receivers as JSON, as in the file."`
	BootstrapAPIKey    secret.Value `env:"ORDERFLOW_BOOTSTRAP_API_KEY" doc:"setup stores this API key: client:scopes:key, scopes joined by a plus sign (shop:checkout+operate:…), the key at least 24 characters."`
	LogLevel           slog.Level   `env:"ORDERFLOW_LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error."`

	Listen          string `env:"ORDERFLOW_LISTEN" envDefault:"127.0.0.1:8080" doc:"Where starter serves the API."`
	OpsListen       string `env:"ORDERFLOW_OPS_LISTEN" envDefault:"127.0.0.1:8081" doc:"Where starter serves health and metrics."`
	WorkerOpsListen string `env:"ORDERFLOW_WORKER_OPS_LISTEN" envDefault:"127.0.0.1:8082" doc:"Where worker serves health and metrics."`

	PublicURL string `env:"ORDERFLOW_PUBLIC_URL" doc:"This service's address as buyers' browsers reach it, such as https://pay.example. Providers send buyers back to it, and it sends them on to the checkout's page. Left out, they go straight there."`

	TemporalUI      string        `env:"ORDERFLOW_TEMPORAL_UI_URL" doc:"Temporal's Web UI as operators' browsers reach it, such as http://127.0.0.1:8233. The operator page links to it. Left out, it does not."`
	OperatorSession time.Duration `env:"ORDERFLOW_OPERATOR_SESSION" envDefault:"8h" doc:"How long a login to the operator page lasts."`

	AnswerBudget     time.Duration `env:"ORDERFLOW_ANSWER_BUDGET" envDefault:"5s" doc:"How long a payment request waits for the first outcome before it answers 202."`
	IdempotencyLease time.Duration `env:"ORDERFLOW_IDEMPOTENCY_LEASE" envDefault:"30s" doc:"How long a request holds its Idempotency-Key before another try may go on with it. Longer than the answer budget."`
	IdempotencyLife  time.Duration `env:"ORDERFLOW_IDEMPOTENCY_LIFETIME" envDefault:"720h" doc:"How long an answer is kept for replay."`
	SweepPeriod      time.Duration `env:"ORDERFLOW_SWEEP_PERIOD" envDefault:"10s" doc:"How often the sweep looks for work nobody does."`
	SweepMinAge      time.Duration `env:"ORDERFLOW_SWEEP_MIN_AGE" envDefault:"30s" doc:"How long work rests before the sweep takes it up."`
	SweepAgain       time.Duration `env:"ORDERFLOW_SWEEP_AGAIN" envDefault:"1m" doc:"How long until the sweep looks at the same order again; it grows while nothing new comes."`
	LookupsPerSecond int           `env:"ORDERFLOW_LOOKUPS_PER_SECOND" envDefault:"10" doc:"Lookups per second and provider account, over all processes."`
	WebhookPeriod    time.Duration `env:"ORDERFLOW_WEBHOOK_PERIOD" envDefault:"1s" doc:"How often starter takes up webhooks and looks that wait in the database; what it stored itself it takes up at once."`
	ReturnWait       time.Duration `env:"ORDERFLOW_RETURN_WAIT" envDefault:"3s" doc:"How long the browser of a buyer who comes back waits for the outcome before it is sent on."`
	OrphanAfter      time.Duration `env:"ORDERFLOW_ORPHAN_AFTER" envDefault:"15m" doc:"How long a webhook waits for the payment it is about before that payment is an orphan, for a person to explain."`
	WebhookRetention time.Duration `env:"ORDERFLOW_WEBHOOK_RETENTION" envDefault:"720h" doc:"How long a processed webhook is kept."`
	EventRetention   time.Duration `env:"ORDERFLOW_EVENT_RETENTION" envDefault:"2160h" doc:"How long it is kept which receiver took an event when. The events themselves stay."`
	RelayPeriod      time.Duration `env:"ORDERFLOW_RELAY_PERIOD" envDefault:"10s" doc:"How often the relay sends events that were not taken at once."`

	ReconcilePeriod  time.Duration `env:"ORDERFLOW_RECONCILE_PERIOD" envDefault:"1h" doc:"How often providers' books are compared with ours."`
	ReconcileOverlap time.Duration `env:"ORDERFLOW_RECONCILE_OVERLAP" envDefault:"15m" doc:"How far each comparison goes back behind the last one. A provider's list may show a payment late by this much."`
	ReconcileGrace   time.Duration `env:"ORDERFLOW_RECONCILE_GRACE" envDefault:"15m" doc:"How old a payment in a provider's list that no order explains must be before it is an orphan, for a person to explain."`
	ReconcileWindow  time.Duration `env:"ORDERFLOW_RECONCILE_WINDOW" envDefault:"24h" doc:"The longest stretch of a provider's books read at once, and how far back the first comparison goes. Longer than overlap and grace."`

	TwoPersons        bool   `env:"ORDERFLOW_TWO_PERSONS" envDefault:"true" doc:"Refunds and forced reruns that a person decides, and orders recorded as paid elsewhere, take effect only when a second person with the role approver agrees."`
	TemporalDecisions string `env:"ORDERFLOW_TEMPORAL_DECISIONS" envDefault:"decide" doc:"What a decision typed in Temporal may do, where nobody checks who types: decide (never as the second person), propose (a second person has to agree to all of them) or refuse."`

	UnknownToReviewAfter time.Duration `env:"ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER" doc:"How long an unknown outcome is looked up before a person gets it. Frozen with each order."`
	FirstLookupAfter     time.Duration `env:"ORDERFLOW_FIRST_LOOKUP_AFTER" doc:"The wait before the first lookup of an unknown outcome. Frozen with each order."`
	LongestRetryInterval time.Duration `env:"ORDERFLOW_LONGEST_RETRY_INTERVAL" doc:"The longest wait between two tries. Frozen with each order."`
	LatePaymentRevives   time.Duration `env:"ORDERFLOW_LATE_PAYMENT_REVIVES" doc:"How long after its expiry an order is still kept when its money comes after all, if the stock is there; later money waits for a person. 0 = never. Frozen with each order."`
	ReviewCheckEvery     time.Duration `env:"ORDERFLOW_REVIEW_CHECK_EVERY" doc:"How often the sweep looks again at what is parked. Frozen with each order."`
	RerunSafeAfter       time.Duration `env:"ORDERFLOW_RERUN_SAFE_AFTER" doc:"How long after the last send a person may run a unit again. Frozen with each order."`
	StepTimeout          time.Duration `env:"ORDERFLOW_STEP_TIMEOUT" doc:"The longest one try of a step that talks to the outside; longer than a gateway's own timeout. Frozen with each order."`
	DeadWorkerAfter      time.Duration `env:"ORDERFLOW_DEAD_WORKER_AFTER" doc:"How long a worker may show no life before its step is run again elsewhere. Frozen with each order."`
	DeliveryLocalBudget  time.Duration `env:"ORDERFLOW_DELIVERY_LOCAL_BUDGET" doc:"How long an event may be tried inside a workflow task; 0 sends from activities only. Frozen with each order."`
	UnitsAtOnce          int           `env:"ORDERFLOW_UNITS_AT_ONCE" doc:"How many units of one order are issued side by side. Frozen with each order."`
	HistoryMax           int           `env:"ORDERFLOW_HISTORY_MAX" doc:"After how many events a workflow run carries on with an empty history. Frozen with each order."`
	BatchMax             int           `env:"ORDERFLOW_BATCH_MAX" doc:"How many units one workflow run works on. Frozen with each order."`

	EventTimeout       time.Duration `env:"ORDERFLOW_EVENT_TIMEOUT" envDefault:"20s" doc:"The longest one sending of an event may take."`
	EventAllowHTTP     bool          `env:"ORDERFLOW_EVENT_ALLOW_HTTP" envDefault:"false" doc:"Permits event receivers without TLS."`
	EventAllowLoopback bool          `env:"ORDERFLOW_EVENT_ALLOW_LOOPBACK" envDefault:"false" doc:"Permits event receivers on this machine; for development."`
	EventAllowPrivate  bool          `env:"ORDERFLOW_EVENT_ALLOW_PRIVATE" envDefault:"false" doc:"Permits event receivers in private networks."`

	Accounts  []Account      // from PREFIX_* variables and the file
	Issuers   []Issuer       // from ORDERFLOW_ISSUERS and the file
	Receivers []ReceiverConf // from ORDERFLOW_RECEIVERS and the file

	environ map[string]string // for Temporal's own loader
}

// shortest is the least any interval, bound, lease or period may be.
const shortest = 100 * time.Millisecond

// defaults are what the policy fields stand at before the environment is read.
func defaults() Config {
	p := order.DefaultPolicy()
	return Config{
		UnknownToReviewAfter: p.UnknownToReviewAfter, FirstLookupAfter: p.FirstLookupAfter, LongestRetryInterval: p.LongestRetryInterval,
		LatePaymentRevives: p.LatePaymentRevives,
		ReviewCheckEvery:   p.ReviewCheckEvery, RerunSafeAfter: p.RerunSafeAfter, StepTimeout: p.StepTimeout, DeadWorkerAfter: p.DeadWorkerAfter,
		DeliveryLocalBudget: p.DeliveryLocalBudget,
		UnitsAtOnce:         p.UnitsAtOnce, BatchMax: p.BatchMax, HistoryMax: p.HistoryMax,
	}
}

// Load reads the configuration from an environment as os.Environ gives it. All that is wrong comes back as one error with
// a line per variable; it never quotes a secret.
func Load(environ []string) (Config, error) {
	c := defaults()
	c.environ = env.ToMap(environ)
	var errs []error
	errs = append(errs, emptySecrets(c.environ)...)
	if err := env.ParseWithOptions(&c, env.Options{Environment: c.environ, FuncMap: map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[secret.Value](): func(s string) (any, error) { return secret.New(s), nil },
	}}); err != nil {
		errs = append(errs, readable(err)...)
	}
	errs = append(errs, c.readAccounts()...)
	errs = append(errs, c.readParties()...)
	errs = append(errs, c.problems()...)
	if len(errs) == 0 {
		return c, nil
	}
	lines := make([]string, len(errs))
	for i, e := range errs {
		lines[i] = "  - " + e.Error()
	}
	slices.Sort(lines)
	return c, fmt.Errorf("the configuration cannot be used:\n%s", strings.Join(slices.Compact(lines), "\n"))
}

// LoadOS is Load with the environment of this process.
func LoadOS() (Config, error) { return Load(os.Environ()) }

// Validate checks a configuration that was built by hand.
func (c Config) Validate() error { return errors.Join(c.problems()...) }

// emptySecrets refuses a secret that is set to nothing: an empty secret is a mistake and never a choice.
func emptySecrets(environ map[string]string) []error {
	names := map[string]bool{}
	for _, f := range fields() {
		if f.Type == reflect.TypeFor[secret.Value]() {
			names[f.Tag.Get("env")] = true
		}
	}
	for _, v := range accountVariables() {
		names[v.Name] = v.Secret
	}
	var errs []error
	for name := range maps.Keys(names) {
		if value, set := environ[name]; set && names[name] && strings.TrimSpace(value) == "" {
			errs = append(errs, fmt.Errorf("%s is set but empty: set it, or leave the variable out", name))
		}
	}
	return errs
}

// readable turns the parser's errors into lines that name the variable and never quote a value.
func readable(err error) []error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return []error{errors.New("the environment cannot be read")}
	}
	var out []error
	for _, e := range all.Errors {
		var parse env.ParseError
		if !errors.As(e, &parse) {
			out = append(out, errors.New("the environment cannot be read"))
			continue
		}
		name, want := parse.Name, "a value of the right form"
		if f, ok := reflect.TypeFor[Config]().FieldByName(parse.Name); ok {
			name = f.Tag.Get("env")
			want = wanted(f.Type)
		}
		out = append(out, fmt.Errorf("%s must be %s", name, want))
	}
	return out
}

func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return `a duration such as "500ms", "10s" or "720h"`
	case t == reflect.TypeFor[slog.Level]():
		return "debug, info, warn or error"
	case t.Kind() == reflect.Bool:
		return "true or false"
	}
	return "a whole number"
}

func (c Config) problems() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.DatabaseURL.IsZero() {
		bad("DATABASE_URL is missing: set it to a URL such as postgres://user:password@host:5432/database")
	}
	for name, v := range map[string]secret.Value{"DATABASE_URL": c.DatabaseURL, "MIGRATE_DATABASE_URL": c.MigrateDatabaseURL} {
		if err := checkDatabaseURL(v.Reveal()); err != "" {
			bad("%s %s", name, err)
		}
	}
	if !slices.Contains([]string{"decide", "propose", "refuse"}, c.TemporalDecisions) {
		bad("ORDERFLOW_TEMPORAL_DECISIONS must be decide, propose or refuse")
	}
	if _, err := seal.ParseKeys(c.DataKey.Reveal()); err != nil {
		bad("%s", err.Error())
	}
	if _, _, _, err := c.Bootstrap(); err != nil {
		errs = append(errs, err)
	}
	if c.DatabasePool < 2 || c.DatabasePool > 10_000 {
		bad("ORDERFLOW_DATABASE_POOL must be between 2 and 10000")
	}
	for name, addr := range map[string]string{"ORDERFLOW_LISTEN": c.Listen, "ORDERFLOW_OPS_LISTEN": c.OpsListen, "ORDERFLOW_WORKER_OPS_LISTEN": c.WorkerOpsListen} {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			bad("%s must be host:port, such as 127.0.0.1:8080", name)
		}
	}
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" && (err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || (u.Scheme != "https" && u.Scheme != "http")) {
		bad("ORDERFLOW_PUBLIC_URL must be a plain web address such as https://pay.example")
	}
	if u, err := url.Parse(c.TemporalUI); c.TemporalUI != "" && (err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || (u.Scheme != "https" && u.Scheme != "http")) {
		bad("ORDERFLOW_TEMPORAL_UI_URL must be a plain web address such as http://127.0.0.1:8233")
	}
	errs = append(errs, c.numbers()...)
	errs = append(errs, c.parties()...)
	return errs
}

func checkDatabaseURL(raw string) string {
	if raw == "" {
		return ""
	}
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return "must be a URL such as postgres://user:password@host:5432/database"
	}
	return ""
}

func (c Config) numbers() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	v := reflect.ValueOf(c)
	for _, f := range fields() {
		d, ok := v.FieldByIndex(f.Index).Interface().(time.Duration)
		if !ok {
			continue
		}
		name := f.Tag.Get("env")
		switch {
		case name == "ORDERFLOW_DELIVERY_LOCAL_BUDGET":
			if d < 0 || d > 5*time.Second {
				bad("%s must be between 0 and 5s: it is spent inside a workflow task", name)
			}
		case name == "ORDERFLOW_LATE_PAYMENT_REVIVES" && d == 0: // never
		case d < shortest:
			bad("%s must be 100ms or more", name)
		case d > 10*365*24*time.Hour:
			bad("%s must be ten years or less", name)
		}
	}
	if c.IdempotencyLease <= c.AnswerBudget {
		bad("ORDERFLOW_IDEMPOTENCY_LEASE must be longer than ORDERFLOW_ANSWER_BUDGET, or a waiting request loses its key")
	}
	if c.ReconcileWindow <= c.ReconcileOverlap || c.ReconcileWindow <= c.ReconcileGrace {
		bad("ORDERFLOW_RECONCILE_WINDOW must be longer than ORDERFLOW_RECONCILE_OVERLAP and ORDERFLOW_RECONCILE_GRACE, or a comparison reads nothing new")
	}
	if c.ReturnWait > 30*time.Second {
		bad("ORDERFLOW_RETURN_WAIT must be 30s or less: a buyer looks at an empty page meanwhile")
	}
	if c.LookupsPerSecond < 1 || c.LookupsPerSecond > 1000 {
		bad("ORDERFLOW_LOOKUPS_PER_SECOND must be between 1 and 1000")
	}
	if c.UnitsAtOnce < 1 || c.UnitsAtOnce > 500 {
		bad("ORDERFLOW_UNITS_AT_ONCE must be between 1 and 500")
	}
	if c.HistoryMax < 50 || c.HistoryMax > 10_000 {
		bad("ORDERFLOW_HISTORY_MAX must be between 50 and 10000")
	}
	if c.BatchMax < 1 || c.BatchMax > 500 { // six events per unit at worst, on top of the 4,096 at which Temporal asks to carry on
		bad("ORDERFLOW_BATCH_MAX must be between 1 and 500: a workflow's history has limits")
	}
	return errs
}

// Policy is what a new order is promised.
func (c Config) Policy() order.Policy {
	p := order.DefaultPolicy()
	p.UnknownToReviewAfter, p.FirstLookupAfter, p.LongestRetryInterval = c.UnknownToReviewAfter, c.FirstLookupAfter, c.LongestRetryInterval
	p.LatePaymentRevives = c.LatePaymentRevives
	p.ReviewCheckEvery, p.RerunSafeAfter, p.DeliveryLocalBudget = c.ReviewCheckEvery, c.RerunSafeAfter, c.DeliveryLocalBudget
	p.StepTimeout, p.DeadWorkerAfter = c.StepTimeout, c.DeadWorkerAfter
	p.UnitsAtOnce, p.BatchMax, p.HistoryMax = c.UnitsAtOnce, c.BatchMax, c.HistoryMax
	return p
}

// Reconcile are the bounds of a comparison of a provider's books with ours.
func (c Config) Reconcile() (reconcile.Spans, reconcile.Rules) {
	return reconcile.Spans{Window: c.ReconcileWindow, Overlap: c.ReconcileOverlap},
		reconcile.Rules{Grace: c.ReconcileGrace, HoldFor: min(24*time.Hour, c.ReconcileWindow), Skew: min(time.Minute, c.ReconcileGrace)}
}

// Box opens the data keys.
func (c Config) Box() (*seal.Box, error) { return seal.ParseKeys(c.DataKey.Reveal()) }

// MigrateURL is the owner's database URL.
func (c Config) MigrateURL() secret.Value {
	if c.MigrateDatabaseURL.IsZero() {
		return c.DatabaseURL
	}
	return c.MigrateDatabaseURL
}

// AppRole is the role setup gives the application's rights to: the user of DATABASE_URL where the owner is another one,
// else "".
func (c Config) AppRole() string {
	app, err1 := url.Parse(c.DatabaseURL.Reveal())
	owner, err2 := url.Parse(c.MigrateURL().Reveal())
	if err1 != nil || err2 != nil || app.User.Username() == owner.User.Username() {
		return ""
	}
	return app.User.Username()
}

// EventSender is how events are sent.
func (c Config) EventSender() eventsend.Config {
	return eventsend.Config{
		Timeout: c.EventTimeout, AllowHTTP: c.EventAllowHTTP, AllowLoopback: c.EventAllowLoopback, AllowPrivate: c.EventAllowPrivate,
	}
}

// DecisionRules are how people may decide.
func (c Config) DecisionRules() order.DecisionRules {
	return order.DecisionRules{OnePerson: !c.TwoPersons, Temporal: order.TemporalRule(c.TemporalDecisions)}
}

// Bootstrap splits ORDERFLOW_BOOTSTRAP_API_KEY. An empty client means that it is not set.
func (c Config) Bootstrap() (client string, scopes []string, key secret.Value, err error) {
	if c.BootstrapAPIKey.IsZero() {
		return "", nil, secret.Value{}, nil
	}
	parts := strings.SplitN(c.BootstrapAPIKey.Reveal(), ":", 3)
	if len(parts) != 3 || parts[0] == "" || len(parts[0]) > 100 || len(parts[2]) < 24 {
		return "", nil, secret.Value{}, errors.New("ORDERFLOW_BOOTSTRAP_API_KEY must be client:scopes:key with a key of 24 characters or more")
	}
	scopes = strings.Split(parts[1], "+")
	for _, s := range scopes {
		if !slices.Contains([]string{"checkout", "view", "operate", "approve"}, s) {
			return "", nil, secret.Value{}, errors.New("ORDERFLOW_BOOTSTRAP_API_KEY: scopes are checkout, view, operate and approve, joined by plus signs")
		}
	}
	return parts[0], scopes, secret.New(parts[2]), nil
}
