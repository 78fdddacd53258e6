package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"orderflow/gateways/all"
	"orderflow/internal/cleantext"
	"orderflow/internal/secret"
)

// Account is one PSP account.
type Account struct {
	Gateway       string       `json:"gateway"` // as registered: "stripe"
	Name          string       `json:"name"`    // "default" for the plain variables
	SecretKey     secret.Value `json:"secret_key"`
	PublicKey     string       `json:"public_key,omitempty"`
	WebhookSecret secret.Value `json:"webhook_secret,omitzero"`
	APIBase       string       `json:"api_base,omitempty"`
	Environment   string       `json:"environment,omitempty"` // test or live, where the key does not say it
	Timeout       Duration     `json:"timeout,omitempty"`

	MaintenanceURL string       `json:"maintenance_url,omitempty"`
	PrivateKey     secret.Value `json:"private_key,omitzero"`   // PEM
	ProviderKey    string       `json:"provider_key,omitempty"` // PEM

	Options map[string]string `json:"options,omitempty"` // where the provider's documents contradict each other
}

// Issuer is one external issuer that speaks the HTTP contract, with what it guards by itself.
type Issuer struct {
	Name               string       `json:"name"`
	BaseURL            string       `json:"base_url"`
	Token              secret.Value `json:"token"`
	Idempotent         bool         `json:"idempotent,omitempty"`            // the same operation id again answers the same issuance
	Lookup             bool         `json:"lookup,omitempty"`                // an operation can be read back
	Revoke             bool         `json:"revoke,omitempty"`                // an issuance can be taken back
	NotFoundFinalAfter Duration     `json:"not_found_final_after,omitempty"` // how long a 404 stays weak; left out = for ever
	Timeout            Duration     `json:"timeout,omitempty"`
}

// ReceiverConf is one party that takes events.
type ReceiverConf struct {
	Name           string       `json:"name"`
	URL            string       `json:"url"`
	Secret         secret.Value `json:"secret"`
	PreviousSecret secret.Value `json:"previous_secret,omitzero"`
}

// File is the shape of ORDERFLOW_CONFIG_FILE.
type File struct {
	Accounts  []Account      `json:"accounts,omitempty"`
	Issuers   []Issuer       `json:"issuers,omitempty"`
	Receivers []ReceiverConf `json:"receivers,omitempty"`
}

// Duration is a time.Duration written as text, "1.5s".
type Duration time.Duration

// UnmarshalText reads "1.5s".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return errors.New(`must be a duration such as "500ms" or "10s"`)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes "1.5s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// defaultAccount is the account the plain variables of a PSP make.
const defaultAccount = "default"

// accountVariable is one of the variables every registered gateway has.
type accountVariable struct {
	Name    string
	Secret  bool
	Default string
	Doc     string
}

func accountVariables() []accountVariable {
	var out []accountVariable
	for _, r := range all.Registrations() {
		p := r.EnvPrefix
		out = append(out,
			accountVariable{p + "_SECRET_KEY", true, "", "The secret key of the account \"default\" at " + r.Name + ". Left out, there is no such account."},
			accountVariable{p + "_PUBLIC_KEY", false, "", "Its public key, where the provider needs one."},
			accountVariable{p + "_WEBHOOK_SECRET", true, "", "Proves its webhooks. Left out where the provider signs, its webhooks are not taken."},
			accountVariable{p + "_API_BASE", false, "", "Another address than the provider's own, such as the sandbox's."},
			accountVariable{p + "_ENVIRONMENT", false, "", "test or live, for a provider whose keys do not say it."},
			accountVariable{p + "_TIMEOUT", false, "", "The longest one exchange may take; left out, the gateway's own."},
		)
		if r.Maintains {
			out = append(out,
				accountVariable{p + "_MAINTENANCE_URL", false, "", "Another address of its refunds than the provider's own."},
				accountVariable{p + "_PRIVATE_KEY", true, "", "Our RSA key for its refunds, as PEM. Left out, nothing is given back there by itself."},
				accountVariable{p + "_PROVIDER_KEY", false, "", "The provider's RSA public key or certificate for its refunds, as PEM."},
			)
		}
		if len(r.Options) == 0 {
			continue
		}
		meanings := make([]string, len(r.Options))
		for i, o := range r.Options {
			meanings[i] = o.Name + " (" + o.Meaning + ")"
		}
		out = append(out, accountVariable{p + "_OPTIONS", false, "", "name=value, separated by commas, where its documents contradict each other: " + strings.Join(meanings, ", ") + "."})
	}
	return out
}

// readAccounts makes the account "default" of every gateway whose variables are set.
func (c *Config) readAccounts() []error {
	var errs []error
	for _, r := range all.Registrations() {
		a, anySet := Account{Gateway: r.Name, Name: defaultAccount}, false
		read := func(suffix string) string {
			v := strings.TrimSpace(c.environ[r.EnvPrefix+suffix])
			anySet = anySet || v != ""
			return v
		}
		a.SecretKey, a.PublicKey, a.WebhookSecret = secret.New(read("_SECRET_KEY")), read("_PUBLIC_KEY"), secret.New(read("_WEBHOOK_SECRET"))
		a.APIBase, a.Environment = read("_API_BASE"), read("_ENVIRONMENT")
		if r.Maintains {
			a.MaintenanceURL, a.PrivateKey, a.ProviderKey = read("_MAINTENANCE_URL"), secret.New(read("_PRIVATE_KEY")), read("_PROVIDER_KEY")
		}
		if t := read("_TIMEOUT"); t != "" {
			if err := a.Timeout.UnmarshalText([]byte(t)); err != nil {
				errs = append(errs, fmt.Errorf("%s_TIMEOUT %w", r.EnvPrefix, err))
			}
		}
		if o := read("_OPTIONS"); o != "" && len(r.Options) > 0 {
			var err error
			if a.Options, err = readOptions(o); err != nil {
				errs = append(errs, fmt.Errorf("%s_OPTIONS %w", r.EnvPrefix, err))
			}
		}
		switch {
		case !anySet:
		case a.SecretKey.IsZero():
			errs = append(errs, fmt.Errorf("%s_SECRET_KEY is missing while other %s variables are set: set it, or leave all of them out", r.EnvPrefix, r.EnvPrefix))
		default:
			c.Accounts = append(c.Accounts, a)
		}
	}
	return errs
}

// readOptions reads "name=value,name=value".
func readOptions(text string) (map[string]string, error) {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := out[name]; !ok || name == "" || twice {
			return nil, errors.New("must be name=value, separated by commas, each name once")
		}
		out[name] = value
	}
	return out, nil
}

// readParties reads the file, then the two lists of the environment.
func (c *Config) readParties() []error {
	var errs []error
	if c.ConfigFile != "" {
		var f File
		raw, err := os.ReadFile(c.ConfigFile)
		if err != nil {
			errs = append(errs, errors.New("ORDERFLOW_CONFIG_FILE cannot be read: check the path and its rights"))
		} else if err := decode(raw, &f); err != nil {
			errs = append(errs, fmt.Errorf("ORDERFLOW_CONFIG_FILE %w", err))
		}
		c.Accounts, c.Issuers, c.Receivers = append(c.Accounts, f.Accounts...), f.Issuers, f.Receivers
	}
	if !c.IssuersJSON.IsZero() {
		var list []Issuer
		if err := decode([]byte(c.IssuersJSON.Reveal()), &list); err != nil {
			errs = append(errs, fmt.Errorf("ORDERFLOW_ISSUERS %w", err))
		}
		c.Issuers = append(c.Issuers, list...)
	}
	if !c.ReceiversJSON.IsZero() {
		var list []ReceiverConf
		if err := decode([]byte(c.ReceiversJSON.Reveal()), &list); err != nil {
			errs = append(errs, fmt.Errorf("ORDERFLOW_RECEIVERS %w", err))
		}
		c.Receivers = append(c.Receivers, list...)
	}
	return errs
}

// decode is strict, and its errors name a field but never quote a value.
func decode(raw []byte, into any) error {
	if err := cleantext.Check(raw); err != nil {
		return fmt.Errorf("is not usable: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return fmt.Errorf("is not usable: the field %q has another type than %s", wrong.Field, wrong.Type)
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return fmt.Errorf("is not usable: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return fmt.Errorf("is not usable: a value %w", err)
}

// parties checks what cannot be left to the parties' own constructors: names that clash.
func (c Config) parties() []error {
	var errs []error
	seen := map[string]bool{}
	once := func(kind, name string) {
		key := kind + " " + name
		if seen[key] {
			errs = append(errs, fmt.Errorf("%s is configured twice: give each its own name", key))
		}
		seen[key] = true
	}
	for _, a := range c.Accounts {
		once("account "+a.Gateway, a.Name)
	}
	for _, i := range c.Issuers {
		once("issuer", i.Name)
	}
	for _, r := range c.Receivers {
		once("receiver", r.Name)
	}
	if _, err := c.OpenGateways(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.OpenIssuers(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.EventReceivers(); err != nil {
		errs = append(errs, err)
	}
	return errs
}
