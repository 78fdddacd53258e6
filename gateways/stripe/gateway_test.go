package stripe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/secret"
)

func TestTheKeyDecidesTheEnvironment(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]gateways.Environment{
		"sk_test_1": gateways.Test, "rk_test_1": gateways.Test, "sk_live_1": gateways.Live, "rk_live_1": gateways.Live,
	} {
		gw, err := Open(gateways.Settings{Name: "eu", SecretKey: secret.New(key)})
		require.NoError(t, err)
		require.Equal(t, gateways.Account{Gateway: "stripe", Name: "eu", Environment: want}, gw.Account())
		require.Equal(t, 30*time.Second, gw.Capabilities().SendTimeout)
	}
}

func TestOpenRefusesWithoutQuotingTheKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s    gateways.Settings
		says string
	}{
		"NoName":           {gateways.Settings{SecretKey: secret.New("sk_test_1")}, "name"},
		"NoKey":            {gateways.Settings{Name: "a"}, "STRIPE_SECRET_KEY"},
		"Publishable":      {gateways.Settings{Name: "a", SecretKey: secret.New("pk_test_HUSH")}, "publishable"},
		"OtherPrefix":      {gateways.Settings{Name: "a", SecretKey: secret.New("skey_HUSH")}, "sk_test_"},
		"LineBreak":        {gateways.Settings{Name: "a", SecretKey: secret.New("sk_test_HUSH\n")}, "line break"},
		"NegativeTimeout":  {gateways.Settings{Name: "a", SecretKey: secret.New("sk_test_1"), Timeout: -1}, "timeout"},
		"OtherMode":        {gateways.Settings{Name: "a", SecretKey: secret.New("sk_test_HUSH"), Environment: gateways.Live}, "environment"},
		"UnknownMode":      {gateways.Settings{Name: "a", SecretKey: secret.New("sk_test_HUSH"), Environment: "staging"}, "environment"},
		"NotAURL":          {gateways.Settings{Name: "a", SecretKey: secret.New("sk_test_1"), APIBase: "sandbox:8090"}, "API base"},
		"FTP":              {gateways.Settings{Name: "a", SecretKey: secret.New("sk_test_1"), APIBase: "ftp://x"}, "https://"},
		"LiveOverHTTP":     {gateways.Settings{Name: "a", SecretKey: secret.New("sk_live_HUSH"), APIBase: "http://sandbox:8090"}, "live key"},
		"StripeOverHTTP":   {gateways.Settings{Name: "a", SecretKey: secret.New("sk_test_1"), APIBase: "http://api.stripe.com"}, "https only"},
		"CredentialsInURL": {gateways.Settings{Name: "a", SecretKey: secret.New("sk_test_1"), APIBase: "https://u:HUSH@x"}, "plain URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gw, err := Open(c.s)
			require.Nil(t, gw)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "HUSH")
		})
	}
}

func TestRegistrationOpensThisGateway(t *testing.T) {
	t.Parallel()
	r := Registration()
	require.Equal(t, "stripe", r.Name)
	require.Equal(t, "STRIPE", r.EnvPrefix)
	gw, err := r.Open(gateways.Settings{Name: "a", SecretKey: secret.New("sk_test_1"), APIBase: "http://sandbox:8090/"})
	require.NoError(t, err)
	require.Equal(t, r.Name, gw.Account().Gateway)
}
