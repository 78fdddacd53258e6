// Command sandbox is the simulated outside world as its own process: four PSPs, three issuers, an event receiver, a buyer's
// bank page, with faults on demand and books of what really happened.
//
// It must not know Orderflow: what it books is what the tests believe. It may import the packages below it,
// internal/secret, kong and env.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/caarlos0/env/v11"

	"orderflow/internal/secret"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/server"
	"orderflow/sandbox/twoctwopsim"
)

// secrets come from the environment only, so that no process list shows them. The defaults are play values: nothing real
// is behind them.
type secrets struct {
	StripeKeys    []secret.Value `env:"SANDBOX_STRIPE_KEYS" envSeparator:","`
	StripeWebhook secret.Value   `env:"SANDBOX_STRIPE_WEBHOOK_SECRET"`
	OmiseSecret   secret.Value   `env:"SANDBOX_OMISE_SECRET_KEY"`
	OmisePublic   string         `env:"SANDBOX_OMISE_PUBLIC_KEY"`
	OmiseWebhook  secret.Value   `env:"SANDBOX_OMISE_WEBHOOK_SECRET"`
	MerchantID    string         `env:"SANDBOX_TWOCTWOP_MERCHANT_ID"`
	MerchantKey   secret.Value   `env:"SANDBOX_TWOCTWOP_SECRET_KEY"`
	TossKeys      []secret.Value `env:"SANDBOX_TOSS_KEYS" envSeparator:","`
	IssuerToken   secret.Value   `env:"SANDBOX_ISSUER_TOKEN"`
	WebhookSecret secret.Value   `env:"SANDBOX_WEBHOOK_SECRET"`
}

type flags struct {
	Addr      string  `help:"Address to listen on." default:"127.0.0.1:8090" env:"SANDBOX_ADDR"`
	Webhooks  string  `help:"Where the providers' webhooks go: the API's address, such as http://127.0.0.1:8080. Empty = nowhere." env:"SANDBOX_WEBHOOKS_TO"`
	Scale     float64 `help:"Shortens the waits between two tries of a webhook: 0.001 makes an hour 3.6 seconds." default:"0.001" env:"SANDBOX_WEBHOOKS_SCALE"`
	PublicURL string  `help:"Base address of the buyer's bank page, when it differs from the address that requests come to." env:"SANDBOX_PUBLIC_URL"`
	LogLevel  string  `help:"debug shows every request." enum:"debug,info,warn,error" default:"info" env:"SANDBOX_LOG_LEVEL"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var f flags
	kong.Parse(&f, kong.Name("sandbox"), kong.Description(
		"The simulated outside world: four payment providers, issuers, an event receiver. It keeps everything in memory.\n\n"+
			"Secrets come from SANDBOX_STRIPE_KEYS and SANDBOX_TOSS_KEYS (comma-separated), SANDBOX_OMISE_SECRET_KEY and _PUBLIC_KEY,\n"+
			"SANDBOX_TWOCTWOP_MERCHANT_ID and _SECRET_KEY, SANDBOX_STRIPE_WEBHOOK_SECRET, SANDBOX_OMISE_WEBHOOK_SECRET,\n"+
			"SANDBOX_ISSUER_TOKEN and SANDBOX_WEBHOOK_SECRET."))
	if err := run(ctx, f, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox: "+err.Error())
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, f flags, logs io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.LogLevel)); err != nil {
		return fmt.Errorf("log level: %w", err)
	}
	log := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: level}))
	s, err := readSecrets()
	if err != nil {
		return err
	}
	srv, err := server.New(s.config(f, log))
	if err != nil {
		return err
	}
	if err := srv.Start(f.Addr); err != nil {
		return err
	}
	log.Info("the sandbox is up", "url", srv.URL(), "stripe", srv.StripeURL(), "omise", srv.OmiseURL(), "twoctwop", srv.TwoCTwoPURL(),
		"toss", srv.TossURL(), "receiver", srv.ReceiverURL(), "webhooks_to", f.Webhooks)
	select {
	case <-ctx.Done():
		log.Info("the sandbox stops")
		return srv.Close()
	case err := <-srv.Failed():
		return errors.Join(fmt.Errorf("the sandbox stopped serving: %w", err), srv.Close())
	}
}

func (s secrets) config(f flags, log *slog.Logger) server.Config {
	c := server.Config{
		StripeKeys: s.StripeKeys, StripeWebhook: s.StripeWebhook, OmiseWebhook: s.OmiseWebhook, TossKeys: s.TossKeys,
		IssuerToken: s.IssuerToken, WebhookSecret: s.WebhookSecret, PublicURL: f.PublicURL, Logger: log,
		Webhooks: notify.Config{Scale: f.Scale, Targets: map[string]string{}},
	}
	if !s.OmiseSecret.IsZero() {
		c.OmiseKeys = []omisesim.KeyPair{{Secret: s.OmiseSecret, Public: s.OmisePublic}}
	}
	if s.MerchantID != "" {
		c.Merchants = []twoctwopsim.Merchant{{ID: s.MerchantID, Secret: s.MerchantKey}}
	}
	if f.Webhooks != "" {
		for _, gateway := range []string{"stripe", "omise", "twoctwop", "toss"} {
			c.Webhooks.Targets[gateway] = strings.TrimRight(f.Webhooks, "/") + "/webhooks/" + gateway + "/default"
		}
	}
	return c
}

func readSecrets() (secrets, error) {
	s := secrets{
		StripeKeys:    []secret.Value{secret.New("sk_test_sandbox")},
		IssuerToken:   secret.New("sandbox-issuer-token"),
		WebhookSecret: secret.New("whsec_c2FuZGJveC1vbmx5LW5vdC1hLXJlYWwtc2VjcmV0"),
	}
	if err := env.Parse(&s); err != nil {
		return secrets{}, fmt.Errorf("environment: %w", err)
	}
	return s, nil
}
