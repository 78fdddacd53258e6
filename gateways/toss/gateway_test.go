package toss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/secret"
)

func TestTheKeyAloneDecidesTheEnvironment(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]gateways.Environment{
		"test_sk_abc": gateways.Test, "live_sk_abc": gateways.Live, "test_gsk_abc": gateways.Test, "live_gsk_abc": gateways.Live,
	} {
		gw, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New(key)})
		require.NoError(t, err)
		require.Equal(t, gateways.Account{Gateway: "toss", Name: "default", Environment: want}, gw.Account())
		require.Equal(t, gateways.Mark(secret.New(key)), gw.Credential())
	}
}

func TestWrongSettingsSayWhatToDo(t *testing.T) {
	t.Parallel()
	const hush = "HUSH"
	for name, c := range map[string]struct {
		s    gateways.Settings
		says string
	}{
		"NoKey":         {gateways.Settings{}, "TOSS_SECRET_KEY"},
		"ClientKey":     {gateways.Settings{SecretKey: secret.New("test_ck_" + hush)}, "client key"},
		"WidgetClient":  {gateways.Settings{SecretKey: secret.New("live_gck_" + hush)}, "client key"},
		"OtherKey":      {gateways.Settings{SecretKey: secret.New("sk_test_" + hush)}, "copy it again"},
		"Colon":         {gateways.Settings{SecretKey: secret.New("test_sk_" + hush + ":")}, "colon"},
		"ByteOrderMark": {gateways.Settings{SecretKey: secret.New("\ufefftest_sk_" + hush)}, "byte-order mark"},
		"LineBreak":     {gateways.Settings{SecretKey: secret.New("test_sk_" + hush + "\n")}, "line break"},
		"OtherMode":     {gateways.Settings{SecretKey: secret.New("test_sk_" + hush), Environment: gateways.Live}, "environment"},
		"SecurityKey":   {gateways.Settings{SecretKey: secret.New("test_sk_x"), WebhookSecret: secret.New(hush)}, "64 hexadecimal"},
		"LiveInClear":   {gateways.Settings{SecretKey: secret.New("live_sk_" + hush), APIBase: "http://proxy.example"}, "https"},
		"TossInClear":   {gateways.Settings{SecretKey: secret.New("test_sk_" + hush), APIBase: "http://api.tosspayments.com"}, "https"},
	} {
		t.Run(name, func(t *testing.T) {
			c.s.Name = "default"
			gw, err := Open(c.s)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), hush)
			require.Nil(t, gw)
		})
	}
}

func TestAPlainKeyGoesToASimulatorOnly(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "https://proxy.example/toss/", "http://127.0.0.1:8090/toss", "http://sandbox:8090/toss"} {
		_, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New("test_sk_x"), APIBase: base})
		require.NoError(t, err, base)
	}
}
