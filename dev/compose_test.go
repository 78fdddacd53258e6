package main

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// places are where things listen, which differ between a laptop and containers, and secrets that are new for every demo.
var (
	placeSettings = map[string]bool{
		"DATABASE_URL": true, "MIGRATE_DATABASE_URL": true, "TEMPORAL_ADDRESS": true, "ORDERFLOW_DATA_KEY": true, "ORDERFLOW_BOOTSTRAP_API_KEY": true,
		"ORDERFLOW_LISTEN": true, "ORDERFLOW_OPS_LISTEN": true, "ORDERFLOW_WORKER_OPS_LISTEN": true,
		"SANDBOX_ISSUER_TOKEN": true, "SANDBOX_WEBHOOK_SECRET": true, "SANDBOX_PUBLIC_URL": true, "SANDBOX_ADDR": true,
	}
	host   = regexp.MustCompile(`http://[^/"]+`)
	secret = regexp.MustCompile(`"(token|secret)": ?"[^"]*"`)
)

// TestComposeAndDemoRunTheSame: what a person learns in one holds in the other.
func TestComposeAndDemoRunTheSame(t *testing.T) {
	t.Parallel()
	o, err := cli.NewProjectOptions([]string{"../docker-compose.yml"}, cli.WithoutEnvironmentResolution)
	require.NoError(t, err)
	p, err := o.LoadProject(t.Context())
	require.NoError(t, err)
	composed := func(services ...string) map[string]string {
		all := map[string]string{}
		for _, name := range services {
			s, err := p.GetService(name)
			require.NoError(t, err)
			for k, v := range s.Environment {
				all[k] = *v
			}
		}
		return all
	}
	demo := demoSettings("db", "owner", "temporal", "http://sandbox", ports{})
	demo.Sandbox["SANDBOX_ADDR"] = "set when it is started"
	for _, pair := range []struct {
		name       string
		mine, file map[string]string
	}{{"worker and starter", demo.App, composed("setup", "worker", "starter")}, {"sandbox", demo.Sandbox, composed("sandbox")}} {
		for k, v := range pair.mine {
			other, ok := pair.file[k]
			assert.True(t, ok, "%s: %s is in the demo only", pair.name, k)
			if !placeSettings[k] {
				assert.Equal(t, comparable(t, v), comparable(t, other), "%s: %s", pair.name, k)
			}
		}
		for k := range pair.file {
			_, ok := pair.mine[k]
			assert.True(t, ok, "%s: %s is in docker-compose.yml only", pair.name, k)
		}
	}
}

// comparable leaves out hosts and secrets, and spaces in JSON.
func comparable(t *testing.T, s string) string {
	t.Helper()
	s = secret.ReplaceAllString(host.ReplaceAllString(s, "http://host"), `"$1":"…"`)
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
