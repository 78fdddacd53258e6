package omise

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/secret"
)

func TestOpenReadsTheEnvironmentFromTheKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]gateways.Environment{
		"skey_test_5abc": gateways.Test, "skey_5abc": gateways.Live, "skey_live_5abc": gateways.Live, "skey_testify": gateways.Live,
	} {
		gw, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New(key)})
		require.NoError(t, err)
		require.Equal(t, gateways.Account{Gateway: "omise", Name: "default", Environment: want}, gw.Account(), key)
		require.Equal(t, gateways.Mark(secret.New(key)), gw.Credential())
		_, err = Open(gateways.Settings{Name: "default", SecretKey: secret.New(key), Environment: want})
		require.NoError(t, err)
	}
}

func TestOpenRefusesWhatCannotWorkAndQuotesNoKey(t *testing.T) {
	t.Parallel()
	const marker = "MARKER"
	for name, change := range map[string]func(*gateways.Settings){
		"NoName":            func(s *gateways.Settings) { s.Name = "" },
		"NoKey":             func(s *gateways.Settings) { s.SecretKey = secret.Value{} },
		"PublicAsSecret":    func(s *gateways.Settings) { s.SecretKey = secret.New("pkey_test_" + marker) },
		"StripeKey":         func(s *gateways.Settings) { s.SecretKey = secret.New("sk_test_" + marker) },
		"KeyWithSpace":      func(s *gateways.Settings) { s.SecretKey = secret.New("skey_test_ " + marker) },
		"KeyWithColon":      func(s *gateways.Settings) { s.SecretKey = secret.New("skey_test_:" + marker) },
		"SecretAsPublic":    func(s *gateways.Settings) { s.PublicKey = "skey_test_" + marker },
		"PublicOfOtherMode": func(s *gateways.Settings) { s.PublicKey = "pkey_" + marker },
		"OtherEnvironment":  func(s *gateways.Settings) { s.Environment = gateways.Live },
		"WebhookNoBase64":   func(s *gateways.Settings) { s.WebhookSecret = secret.New(marker + "!") },
		"NegativeTimeout":   func(s *gateways.Settings) { s.Timeout = -time.Second },
		"OmiseOverHTTP":     func(s *gateways.Settings) { s.APIBase = "http://api.omise.co" },
		"LiveOverHTTP": func(s *gateways.Settings) {
			s.SecretKey, s.APIBase = secret.New("skey_"+marker), "http://sandbox.example"
		},
	} {
		s := gateways.Settings{Name: "default", SecretKey: secret.New("skey_test_" + marker)}
		change(&s)
		gw, err := Open(s)
		require.Error(t, err, name)
		require.Nil(t, gw)
		require.NotContains(t, err.Error(), marker)
	}
}

func TestCapabilitiesPromiseOnlyWhatATokenGuards(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	c := g.Capabilities()
	require.Positive(t, c.RepeatSafe(gateways.Confirm, methodCard))
	require.Positive(t, c.RepeatSafe(gateways.Confirm, methodSource))
	require.Zero(t, c.RepeatSafe(gateways.Confirm, methodCustomer), "sent once, ever")
	require.Zero(t, c.RepeatSafe(gateways.Confirm, "new"))
	for _, kind := range []gateways.Kind{gateways.Prepare, gateways.Void, gateways.Refund} {
		require.Zero(t, c.RepeatSafe(kind, methodCard), kind)
	}
	require.Positive(t, c.RepeatSafe(gateways.Cancel, methodCustomer), "a cancel takes no money, and the charge's state guards it")
	require.Positive(t, c.RepeatSafe(gateways.Capture, methodCustomer), "a charge is captured once")
	require.Zero(t, c.NotFoundFinalAfter)
	require.False(t, c.Prepares)
	require.False(t, c.DeclineLeavesOpen)
	require.False(t, c.WebhookProof, "no secret is configured")
	require.Equal(t, shared.DefaultTimeout, c.SendTimeout)
}

func TestAGatewayPrintsNoSecret(t *testing.T) {
	t.Parallel()
	const marker = "MARKERMARKERMARKERMARKER" // base64 as well
	gw, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New("skey_test_" + marker), WebhookSecret: secret.New(marker)})
	require.NoError(t, err)
	decoded, err := base64.StdEncoding.DecodeString(marker)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		out := fmt.Sprintf(verb, gw)
		require.NotContains(t, out, marker)
		require.NotContains(t, out, string(decoded))
		require.NotContains(t, out, strings.Trim(fmt.Sprint(decoded), "[]"))
	}
}
