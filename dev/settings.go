package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"strconv"
)

// Play secrets: what guards only play money on a laptop. A real setup makes its own.
const (
	playStripeKey     = "sk_test_sandbox"
	playStripeWebhook = "whsec_sandbox_only_not_a_real_secret"
	playOmiseKey      = "skey_test_sandbox"
	playOmisePublic   = "pkey_test_sandbox"
	playOmiseWebhook  = "c2FuZGJveC1vbmx5LW5vdC1hLXJlYWwtc2VjcmV0" // base64: "sandbox-only-not-a-real-secret"
	playMerchantID    = "sandbox01"
	playMerchantKey   = "sandbox-merchant-key-not-a-real-secret"
	playTossKey       = "test_sk_sandbox"
	playIssuerToken   = "issuer-token-for-the-demo"
	playAPIKey        = "demo-key-for-the-checkout-0001"
)

// ports are where a demo listens, each with the variable that moves it.
type ports struct {
	API       int `env:"DEMO_API_PORT" default:"8080" help:"Port of the HTTP API." group:"Ports"`
	Ops       int `env:"DEMO_OPS_PORT" default:"8081" help:"Port of starter's health and metrics." group:"Ports"`
	WorkerOps int `env:"DEMO_WORKER_OPS_PORT" default:"8082" help:"Port of worker's health and metrics." group:"Ports"`
	Sandbox   int `env:"DEMO_SANDBOX_PORT" default:"8090" help:"Port of the sandbox." group:"Ports"`
	Temporal  int `env:"DEMO_TEMPORAL_PORT" default:"7233" help:"Port of the Temporal dev server." group:"Ports"`
	UI        int `env:"DEMO_TEMPORAL_UI_PORT" default:"8233" help:"Port of the Temporal Web UI." group:"Ports"`
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// settings is the whole configuration of a demo. docker-compose.yml carries the same; a test compares them.
type settings struct {
	App     map[string]string // worker and starter
	Sandbox map[string]string
}

// demoSettings fills in addresses and the secrets that are new for every run.
func demoSettings(databaseURL, migrateURL, temporal, sandbox string, p ports) settings {
	whsec := "whsec_" + randomKey()
	issuer := func(name, kind, caps string) string {
		return fmt.Sprintf(`{"name":%q,"base_url":"%s/issuers/%s","token":%q%s}`, name, sandbox, kind, playIssuerToken, caps)
	}
	api := "http://" + local(p.API)
	return settings{
		App: map[string]string{
			"DATABASE_URL": databaseURL, "MIGRATE_DATABASE_URL": migrateURL, "TEMPORAL_ADDRESS": temporal,
			"ORDERFLOW_DATA_KEY":          randomKey(),
			"ORDERFLOW_BOOTSTRAP_API_KEY": "demo:checkout+operate:" + playAPIKey,
			"ORDERFLOW_LISTEN":            local(p.API), "ORDERFLOW_OPS_LISTEN": local(p.Ops), "ORDERFLOW_WORKER_OPS_LISTEN": local(p.WorkerOps),
			"ORDERFLOW_PUBLIC_URL": api, "ORDERFLOW_TEMPORAL_UI_URL": "http://" + local(p.UI),
			"STRIPE_SECRET_KEY": playStripeKey, "STRIPE_WEBHOOK_SECRET": playStripeWebhook, "STRIPE_API_BASE": sandbox + "/stripe",
			"OMISE_SECRET_KEY": playOmiseKey, "OMISE_PUBLIC_KEY": playOmisePublic, "OMISE_WEBHOOK_SECRET": playOmiseWebhook, "OMISE_API_BASE": sandbox + "/omise",
			"TWOCTWOP_SECRET_KEY": playMerchantKey, "TWOCTWOP_PUBLIC_KEY": playMerchantID, "TWOCTWOP_ENVIRONMENT": "test", "TWOCTWOP_API_BASE": sandbox + "/twoctwop",
			"TOSS_SECRET_KEY": playTossKey, "TOSS_API_BASE": sandbox + "/toss",
			"ORDERFLOW_ISSUERS": "[" + issuer("tickets", "idempotent", `,"idempotent":true,"lookup":true,"revoke":true`) + "," +
				issuer("labels", "lookup", `,"lookup":true,"revoke":true`) + "," + issuer("vouchers", "opaque", "") + "]",
			"ORDERFLOW_RECEIVERS":        fmt.Sprintf(`[{"name":"shop","url":"%s/receiver","secret":%q}]`, sandbox, whsec),
			"ORDERFLOW_EVENT_ALLOW_HTTP": "true", "ORDERFLOW_EVENT_ALLOW_LOOPBACK": "true", "ORDERFLOW_EVENT_ALLOW_PRIVATE": "true",
			// A person watches: waits that are minutes in production are seconds here.
			"ORDERFLOW_FIRST_LOOKUP_AFTER": "500ms", "ORDERFLOW_LONGEST_RETRY_INTERVAL": "2s", "ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER": "20s",
			"ORDERFLOW_TWO_PERSONS": "false", "ORDERFLOW_REVIEW_CHECK_EVERY": "30s", "ORDERFLOW_RERUN_SAFE_AFTER": "30s", "ORDERFLOW_SWEEP_PERIOD": "5s", "ORDERFLOW_SWEEP_MIN_AGE": "10s",
			"ORDERFLOW_RELAY_PERIOD": "2s",
		},
		Sandbox: map[string]string{
			"SANDBOX_STRIPE_KEYS": playStripeKey, "SANDBOX_STRIPE_WEBHOOK_SECRET": playStripeWebhook,
			"SANDBOX_OMISE_SECRET_KEY": playOmiseKey, "SANDBOX_OMISE_PUBLIC_KEY": playOmisePublic, "SANDBOX_OMISE_WEBHOOK_SECRET": playOmiseWebhook,
			"SANDBOX_TWOCTWOP_MERCHANT_ID": playMerchantID, "SANDBOX_TWOCTWOP_SECRET_KEY": playMerchantKey,
			"SANDBOX_TOSS_KEYS":    playTossKey,
			"SANDBOX_WEBHOOKS_TO":  api,
			"SANDBOX_ISSUER_TOKEN": playIssuerToken, "SANDBOX_WEBHOOK_SECRET": whsec, "SANDBOX_PUBLIC_URL": sandbox,
		},
	}
}

func randomKey() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// over lays settings over this process's environment, without the variables of another setup that would change a demo.
func over(set map[string]string) []string {
	var out []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+v)
		}
	}
	for k, v := range set {
		out = append(out, k+"="+v)
	}
	return out
}
