package config

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	temporallog "go.temporal.io/sdk/log"

	"orderflow/gateways"
	"orderflow/gateways/all"
	"orderflow/internal/eventsend"
	"orderflow/issuers"
	"orderflow/order"
)

// OpenGateways opens every account, by its identity. Nothing is sent.
func (c Config) OpenGateways() (map[order.Account]gateways.Gateway, error) {
	out := map[order.Account]gateways.Gateway{}
	var errs []error
	for _, a := range c.Accounts {
		r, ok := all.Find(a.Gateway)
		if !ok {
			errs = append(errs, fmt.Errorf("account %q names a gateway that this program is not built with", a.Name))
			continue
		}
		if err := r.Takes(a.Options); err != nil {
			errs = append(errs, fmt.Errorf("account %q: %w", a.Name, err))
			continue
		}
		g, err := r.Open(gateways.Settings{
			Name: a.Name, SecretKey: a.SecretKey, PublicKey: a.PublicKey, WebhookSecret: a.WebhookSecret, APIBase: a.APIBase, Timeout: time.Duration(a.Timeout),
			Environment: gateways.Environment(a.Environment), MaintenanceURL: a.MaintenanceURL, PrivateKey: a.PrivateKey, ProviderKey: a.ProviderKey,
			Options: a.Options,
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("account %q: %w", a.Name, err))
			continue
		}
		id := g.Account()
		out[order.Account{Gateway: id.Gateway, Name: id.Name, Environment: string(id.Environment)}] = g
	}
	return out, errors.Join(errs...)
}

// OpenIssuers opens every issuer, by name. Nothing is sent.
func (c Config) OpenIssuers() (map[string]issuers.Issuer, error) {
	out := map[string]issuers.Issuer{}
	var errs []error
	for _, i := range c.Issuers {
		opened, err := issuers.NewHTTP(issuers.HTTPConfig{
			Name: i.Name, BaseURL: i.BaseURL, Token: i.Token, Timeout: time.Duration(i.Timeout),
			Capabilities: issuers.Capabilities{
				Idempotent: i.Idempotent, Lookup: i.Lookup, Revoke: i.Revoke, NotFoundFinalAfter: time.Duration(i.NotFoundFinalAfter),
			},
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[i.Name] = opened
	}
	return out, errors.Join(errs...)
}

// EventReceivers returns every receiver, checked.
func (c Config) EventReceivers() ([]eventsend.Receiver, error) {
	sender, err := eventsend.New(c.EventSender())
	if err != nil {
		return nil, err
	}
	defer sender.Close()
	var out []eventsend.Receiver
	var errs []error
	for _, r := range c.Receivers {
		e := eventsend.Receiver{Name: r.Name, URL: r.URL, Secret: r.Secret, PreviousSecret: r.PreviousSecret}
		errs = append(errs, sender.Check(e))
		out = append(out, e)
	}
	return out, errors.Join(errs...)
}

// ReceiverNames are what the store makes delivery rows for.
func (c Config) ReceiverNames() []string {
	var out []string
	for _, r := range c.Receivers {
		out = append(out, r.Name)
	}
	return out
}

// Temporal are the client's options: Temporal's own variables and file (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE,
// TEMPORAL_API_KEY, TEMPORAL_TLS_*, TEMPORAL_CONFIG_FILE), with our logger.
func (c Config) Temporal(log *slog.Logger) (client.Options, error) {
	o, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{EnvLookup: lookup(c.environ)})
	if err != nil {
		return o, errors.New("the TEMPORAL_* variables or the file they name cannot be used")
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	o.Logger = temporallog.NewStructuredLogger(log)
	if o.ConnectionOptions.GrpcCompression == nil {
		// The SDK's default squeezes every message. Ours are a few kilobytes, and squeezing cost more time here than sending.
		o.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	return o, nil
}

// lookup serves Temporal's loader from the environment we were given.
type lookup map[string]string

func (l lookup) Environ() []string {
	out := make([]string, 0, len(l))
	for k, v := range l {
		out = append(out, k+"="+v)
	}
	return out
}

func (l lookup) LookupEnv(name string) (string, bool) {
	v, ok := l[name]
	return v, ok
}

// Row is one line of the README's table.
type Row struct {
	Name    string // of the variable
	Default string // "" = none
	Meaning string
}

// Table lists every variable in the order a person would read them.
func Table() []Row {
	var out []Row
	base := reflect.ValueOf(defaults())
	for _, f := range fields() {
		def := f.Tag.Get("envDefault")
		if d, ok := base.FieldByIndex(f.Index).Interface().(time.Duration); ok && def == "" {
			def = short(d)
		} else if n, ok := base.FieldByIndex(f.Index).Interface().(int); ok && def == "" {
			def = fmt.Sprint(n)
		}
		out = append(out, Row{f.Tag.Get("env"), def, f.Tag.Get("doc")})
	}
	for _, v := range accountVariables() {
		out = append(out, Row{v.Name, v.Default, v.Doc})
	}
	return out
}

// short writes 15m instead of 15m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// fields are those that a variable fills.
func fields() []reflect.StructField {
	var out []reflect.StructField
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if f.Tag.Get("env") != "" {
			out = append(out, f)
		}
	}
	return out
}
