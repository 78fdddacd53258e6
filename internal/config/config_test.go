package config_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways/all"
	"orderflow/internal/config"
	"orderflow/internal/reconcile"
	"orderflow/order"
	"orderflow/sandbox/twoctwopsim"
)

// Goal: a process starts with what was meant, or says everything that is wrong at once, by variable, and never a secret.
// Method: whole environments. Not covered: whether the addresses answer.

const dataKey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func environ(more ...string) []string {
	return append([]string{"DATABASE_URL=postgres://app:pw@127.0.0.1:5432/orderflow", "ORDERFLOW_DATA_KEY=" + dataKey}, more...)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	t.Run("Defaults", func(t *testing.T) {
		t.Parallel()
		c, err := config.Load(environ())
		require.NoError(t, err)
		require.Equal(t, order.DefaultPolicy(), c.Policy())
		require.Equal(t, "127.0.0.1:8080", c.Listen)
		require.Equal(t, "127.0.0.1:8081", c.OpsListen)
		require.Equal(t, 5*time.Second, c.AnswerBudget)
		require.Equal(t, 10*time.Second, c.SweepPeriod)
		spans, rules := c.Reconcile()
		require.Equal(t, reconcile.Spans{Window: 24 * time.Hour, Overlap: 15 * time.Minute}, spans)
		require.Equal(t, reconcile.Rules{Grace: 15 * time.Minute, HoldFor: 24 * time.Hour, Skew: time.Minute}, rules)
		require.Equal(t, 30*24*time.Hour, c.IdempotencyLife)
		require.Empty(t, c.AppRole())
		require.Equal(t, slog.LevelInfo, c.LogLevel)
	})
	t.Run("EverythingSet", func(t *testing.T) {
		t.Parallel()
		c, err := config.Load(environ(
			"MIGRATE_DATABASE_URL=postgres://owner:pw@127.0.0.1/orderflow", "ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER=100ms", "ORDERFLOW_UNITS_AT_ONCE=3",
			"ORDERFLOW_DELIVERY_LOCAL_BUDGET=0s", "ORDERFLOW_LOG_LEVEL=debug", "STRIPE_SECRET_KEY=sk_test_x", "STRIPE_API_BASE=http://127.0.0.1:8090/stripe",
			"STRIPE_TIMEOUT=2s", "ORDERFLOW_BOOTSTRAP_API_KEY=shop:checkout+operate:aaaaaaaaaaaaaaaaaaaaaaaa:b",
			`ORDERFLOW_ISSUERS=[{"name":"tickets","base_url":"http://127.0.0.1:8090/issuers/idempotent","token":"t","idempotent":true,"lookup":true,"not_found_final_after":"1m"}]`,
			`ORDERFLOW_RECEIVERS=[{"name":"mail","url":"https://mail.example/events","secret":"whsec_`+dataKey+`"}]`,
			"TEMPORAL_ADDRESS=temporal.example:7233", "TEMPORAL_NAMESPACE=shop",
		))
		require.NoError(t, err)
		require.Equal(t, "app", c.AppRole())
		require.Equal(t, 100*time.Millisecond, c.Policy().UnknownToReviewAfter)
		require.Equal(t, 3, c.Policy().UnitsAtOnce)
		require.Zero(t, c.Policy().DeliveryLocalBudget)
		gws, err := c.OpenGateways()
		require.NoError(t, err)
		require.Contains(t, gws, order.Account{Gateway: "stripe", Name: "default", Environment: "test"})
		iss, err := c.OpenIssuers()
		require.NoError(t, err)
		require.Equal(t, time.Minute, iss["tickets"].Capabilities().NotFoundFinalAfter)
		recs, err := c.EventReceivers()
		require.NoError(t, err)
		require.Equal(t, "mail", recs[0].Name)
		client, scopes, key, err := c.Bootstrap()
		require.NoError(t, err)
		require.Equal(t, "shop", client)
		require.Equal(t, []string{"checkout", "operate"}, scopes)
		require.True(t, key.Equal("aaaaaaaaaaaaaaaaaaaaaaaa:b"))
		o, err := c.Temporal(slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Equal(t, "temporal.example:7233", o.HostPort)
		require.Equal(t, "shop", o.Namespace)
	})
	t.Run("FileAddsAccounts", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "orderflow.json")
		require.NoError(t, os.WriteFile(path, []byte(`{"accounts":[{"gateway":"stripe","name":"jp","secret_key":"sk_test_jp","timeout":"5s"}],
			"issuers":[{"name":"labels","base_url":"https://labels.example","token":"t"}]}`), 0o600))
		c, err := config.Load(environ("STRIPE_SECRET_KEY=sk_test_x", "ORDERFLOW_CONFIG_FILE="+path))
		require.NoError(t, err)
		gws, err := c.OpenGateways()
		require.NoError(t, err)
		require.Len(t, gws, 2)
		require.Len(t, c.Issuers, 1)
	})
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	const marker = "MARKER-secret"
	for name, c := range map[string]struct {
		set  []string
		says string
	}{
		"EmptySecret":            {[]string{"STRIPE_SECRET_KEY="}, "STRIPE_SECRET_KEY is set but empty"},
		"BlankWebhookSecret":     {[]string{"STRIPE_SECRET_KEY=sk_test_x", "STRIPE_WEBHOOK_SECRET= "}, "STRIPE_WEBHOOK_SECRET is set but empty"},
		"EmptyDatabaseURL":       {[]string{"DATABASE_URL="}, "DATABASE_URL is set but empty"},
		"BaseWithoutKey":         {[]string{"STRIPE_API_BASE=http://127.0.0.1:1"}, "STRIPE_SECRET_KEY is missing"},
		"BadKey":                 {[]string{"STRIPE_SECRET_KEY=" + marker}, "stripe:"},
		"BadDatabaseURL":         {[]string{"DATABASE_URL=" + marker}, "DATABASE_URL must be a URL"},
		"BadDataKey":             {[]string{"ORDERFLOW_DATA_KEY=" + marker}, "ORDERFLOW_DATA_KEY"},
		"BadDuration":            {[]string{"ORDERFLOW_SWEEP_PERIOD=" + marker}, "ORDERFLOW_SWEEP_PERIOD must be a duration"},
		"BareNumber":             {[]string{"ORDERFLOW_ANSWER_BUDGET=5"}, "ORDERFLOW_ANSWER_BUDGET must be a duration"},
		"TooShort":               {[]string{"ORDERFLOW_RELAY_PERIOD=99ms"}, "ORDERFLOW_RELAY_PERIOD must be 100ms or more"},
		"PolicyTooShort":         {[]string{"ORDERFLOW_FIRST_LOOKUP_AFTER=0s"}, "ORDERFLOW_FIRST_LOOKUP_AFTER must be 100ms or more"},
		"LocalBudgetTooLong":     {[]string{"ORDERFLOW_DELIVERY_LOCAL_BUDGET=1m"}, "ORDERFLOW_DELIVERY_LOCAL_BUDGET"},
		"WindowWithinTheGrace":   {[]string{"ORDERFLOW_RECONCILE_WINDOW=15m"}, "ORDERFLOW_RECONCILE_WINDOW must be longer"},
		"LeaseWithinTheBudget":   {[]string{"ORDERFLOW_IDEMPOTENCY_LEASE=5s"}, "ORDERFLOW_IDEMPOTENCY_LEASE must be longer"},
		"BadNumber":              {[]string{"ORDERFLOW_UNITS_AT_ONCE=many"}, "ORDERFLOW_UNITS_AT_ONCE must be a whole number"},
		"BadBool":                {[]string{"ORDERFLOW_EVENT_ALLOW_HTTP=perhaps"}, "ORDERFLOW_EVENT_ALLOW_HTTP must be true or false"},
		"BadListen":              {[]string{"ORDERFLOW_LISTEN=8080"}, "ORDERFLOW_LISTEN must be host:port"},
		"BadLevel":               {[]string{"ORDERFLOW_LOG_LEVEL=loud"}, "ORDERFLOW_LOG_LEVEL must be debug"},
		"FileMissing":            {[]string{"ORDERFLOW_CONFIG_FILE=/nowhere/at/all"}, "ORDERFLOW_CONFIG_FILE cannot be read"},
		"IssuersNotJSON":         {[]string{"ORDERFLOW_ISSUERS=" + marker}, "ORDERFLOW_ISSUERS is not usable"},
		"IssuerUnknownField":     {[]string{`ORDERFLOW_ISSUERS=[{"name":"a","url":"x"}]`}, "unknown field"},
		"IssuerBadCapability":    {[]string{`ORDERFLOW_ISSUERS=[{"name":"a","base_url":"http://a","token":"t","not_found_final_after":"1m"}]`}, "issuer a:"},
		"IssuerEmptyToken":       {[]string{`ORDERFLOW_ISSUERS=[{"name":"a","base_url":"http://a","token":""}]`}, "ORDERFLOW_ISSUERS"},
		"IssuerTwice":            {[]string{`ORDERFLOW_ISSUERS=[{"name":"a","base_url":"http://a","token":"t"},{"name":"a","base_url":"http://b","token":"t"}]`}, "issuer a is configured twice"},
		"ReceiverBadSecret":      {[]string{`ORDERFLOW_RECEIVERS=[{"name":"a","url":"https://a","secret":"` + marker + `"}]`}, "event receiver a"},
		"ReceiverWithoutTLS":     {[]string{`ORDERFLOW_RECEIVERS=[{"name":"a","url":"http://a","secret":"whsec_` + dataKey + `"}]`}, "no TLS"},
		"BootstrapKeyWithoutKey": {[]string{"ORDERFLOW_BOOTSTRAP_API_KEY=shop:checkout"}, "client:scopes:key"},
		"BootstrapKeyShort":      {[]string{"ORDERFLOW_BOOTSTRAP_API_KEY=shop:checkout:short"}, "24 characters"},
		"OptionsNoPairs":         {[]string{"TWOCTWOP_SECRET_KEY=0123456789abcdef", "TWOCTWOP_OPTIONS=" + marker}, "TWOCTWOP_OPTIONS must be name=value"},
		"OptionTwice":            {[]string{"TWOCTWOP_SECRET_KEY=0123456789abcdef", "TWOCTWOP_OPTIONS=wrap_all=true,wrap_all=false"}, "TWOCTWOP_OPTIONS must be name=value"},
		"OptionUnknown":          {[]string{"TWOCTWOP_SECRET_KEY=0123456789abcdef", "TWOCTWOP_OPTIONS=" + marker + "=1"}, "none that it has (wrap_all, payment_path, cancel_path)"},
		"OptionBadValue":         {[]string{"TWOCTWOP_SECRET_KEY=0123456789abcdef", "TWOCTWOP_OPTIONS=wrap_all=" + marker}, "wrap_all must be true or false"},
		"BootstrapScope":         {[]string{"ORDERFLOW_BOOTSTRAP_API_KEY=shop:admin:aaaaaaaaaaaaaaaaaaaaaaaa"}, "scopes are"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(environ(c.set...))
			require.Error(t, err)
			require.Contains(t, err.Error(), c.says)
			require.NotContains(t, err.Error(), marker)
		})
	}
	t.Run("AllAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := config.Load([]string{"ORDERFLOW_SWEEP_PERIOD=1ms", "STRIPE_SECRET_KEY=", "ORDERFLOW_LISTEN=x"})
		for _, name := range []string{"DATABASE_URL", "ORDERFLOW_DATA_KEY", "ORDERFLOW_SWEEP_PERIOD", "STRIPE_SECRET_KEY", "ORDERFLOW_LISTEN"} {
			require.ErrorContains(t, err, name)
		}
	})
}

// TestOptionsReachTheirGateway: from the variable and from the file, and only where a gateway has any.
func TestOptionsReachTheirGateway(t *testing.T) {
	t.Parallel()
	account := []string{"TWOCTWOP_SECRET_KEY=0123456789abcdef", "TWOCTWOP_PUBLIC_KEY=SHOP01", "TWOCTWOP_ENVIRONMENT=test"}
	c, err := config.Load(environ(append(account, "TWOCTWOP_OPTIONS=wrap_all=true, payment_path=doPayment")...))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"wrap_all": "true", "payment_path": "doPayment"}, c.Accounts[0].Options)
	file := filepath.Join(t.TempDir(), "parties.json")
	for options, says := range map[string]string{
		`"gateway":"twoctwop","environment":"test","options":{"payment_path":"doPayment"}`: "",
		`"gateway":"twoctwop","environment":"test","options":{"payment_path":"../x"}`:      "may hold letters, digits and slashes only",
		`"gateway":"twoctwop","environment":"test","options":{"path":"doPayment"}`:         "none that it has",
		`"gateway":"stripe","environment":"test","options":{"wrap_all":"1"}`:               "the gateway stripe has no options",
	} {
		require.NoError(t, os.WriteFile(file, []byte(`{"accounts":[{"name":"a","secret_key":"0123456789abcdef","public_key":"SHOP01",`+options+`}]}`), 0o600))
		_, err := config.Load(environ("ORDERFLOW_CONFIG_FILE=" + file))
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, says)
	}
}

// TestKeysOfRefundsReachTheirGateway: where refunds have keys of their own, the plain variables are enough to set them.
func TestKeysOfRefundsReachTheirGateway(t *testing.T) {
	t.Parallel()
	account := []string{"TWOCTWOP_SECRET_KEY=0123456789abcdef", "TWOCTWOP_PUBLIC_KEY=SHOP01", "TWOCTWOP_ENVIRONMENT=test"}
	refunds := func(more ...string) bool {
		c, err := config.Load(environ(append(account, more...)...))
		require.NoError(t, err)
		open, err := c.OpenGateways()
		require.NoError(t, err)
		return open[order.Account{Gateway: "twoctwop", Name: "default", Environment: "test"}].Capabilities().CanRefund
	}
	require.False(t, refunds())
	own, theirs, err := twoctwopsim.GenerateKeys() // nobody decrypts here, so one pair is enough
	require.NoError(t, err)
	ours := "TWOCTWOP_PRIVATE_KEY=" + own.Reveal()
	_, err = config.Load(environ(append(account, ours)...))
	require.ErrorContains(t, err, "TWOCTWOP_PROVIDER_KEY")
	require.True(t, refunds(ours, "TWOCTWOP_PROVIDER_KEY="+theirs))
}

func TestNothingSecretIsPrinted(t *testing.T) {
	t.Parallel()
	c, err := config.Load(environ("DATABASE_URL=postgres://app:MARKER@h/d", "STRIPE_SECRET_KEY=sk_test_MARKER", "STRIPE_WEBHOOK_SECRET=whsec_MARKER",
		"ORDERFLOW_BOOTSTRAP_API_KEY=shop:checkout:MARKERMARKERMARKERMARKERMARKER",
		`ORDERFLOW_ISSUERS=[{"name":"a","base_url":"http://a","token":"MARKER"}]`))
	require.NoError(t, err)
	c2 := struct {
		A []config.Account
		I []config.Issuer
		C any
	}{c.Accounts, c.Issuers, c.DatabaseURL}
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", c2, c2, c2), "MARKER")
}

func TestTable(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range config.Table() {
		require.NotEmpty(t, r.Meaning, r.Name)
		require.True(t, strings.HasSuffix(r.Meaning, "."), r.Name)
		require.False(t, seen[r.Name], r.Name)
		seen[r.Name] = true
	}
	for _, r := range all.Registrations() {
		require.True(t, seen[r.EnvPrefix+"_SECRET_KEY"], r.Name)
	}
	require.Contains(t, config.Table(), config.Row{Name: "ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", Default: "15m", Meaning: "How long an unknown outcome is looked up before a person gets it. Frozen with each order."})
}
