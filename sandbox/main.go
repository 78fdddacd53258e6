// Command sandbox is the simulated outside world as its own process: a PSP, three issuers, an event receiver, a buyer's
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
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/caarlos0/env/v11"

	"orderflow/internal/secret"
	"orderflow/sandbox/server"
)

// secrets come from the environment only, so that no process list shows them. The defaults are play values: nothing real
// is behind them.
type secrets struct {
	StripeKeys    []secret.Value `env:"SANDBOX_STRIPE_KEYS" envSeparator:","`
	IssuerToken   secret.Value   `env:"SANDBOX_ISSUER_TOKEN"`
	WebhookSecret secret.Value   `env:"SANDBOX_WEBHOOK_SECRET"`
}

type flags struct {
	Addr      string `help:"Address to listen on." default:"127.0.0.1:8090" env:"SANDBOX_ADDR"`
	PublicURL string `help:"Base address of the buyer's bank page, when it differs from the address that requests come to." env:"SANDBOX_PUBLIC_URL"`
	LogLevel  string `help:"debug shows every request." enum:"debug,info,warn,error" default:"info" env:"SANDBOX_LOG_LEVEL"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var f flags
	kong.Parse(&f, kong.Name("sandbox"), kong.Description(
		"The simulated outside world: Stripe, issuers, an event receiver. It keeps everything in memory.\n\n"+
			"Secrets come from SANDBOX_STRIPE_KEYS (comma-separated), SANDBOX_ISSUER_TOKEN and SANDBOX_WEBHOOK_SECRET."))
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
	srv, err := server.New(server.Config{
		StripeKeys: s.StripeKeys, IssuerToken: s.IssuerToken, WebhookSecret: s.WebhookSecret, PublicURL: f.PublicURL, Logger: log,
	})
	if err != nil {
		return err
	}
	if err := srv.Start(f.Addr); err != nil {
		return err
	}
	log.Info("the sandbox is up", "url", srv.URL(), "stripe", srv.StripeURL(), "receiver", srv.ReceiverURL())
	select {
	case <-ctx.Done():
		log.Info("the sandbox stops")
		return srv.Close()
	case err := <-srv.Failed():
		return errors.Join(fmt.Errorf("the sandbox stopped serving: %w", err), srv.Close())
	}
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
