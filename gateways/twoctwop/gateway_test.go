package twoctwop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/secret"
)

func TestWhereRequestsGo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		base string
		env  gateways.Environment
		want string
		is   gateways.Environment
		ok   bool
	}{
		{"", gateways.Test, "https://sandbox-pgw.2c2p.com/payment/4.3", gateways.Test, true},
		{"", gateways.Live, "https://pgw.2c2p.com/payment/4.3", gateways.Live, true},
		{"", "", "", "", false},
		{"https://sandbox-pgw.2c2p.com", "", "https://sandbox-pgw.2c2p.com/payment/4.3", gateways.Test, true},
		{"https://SANDBOX-pgw.2c2p.com/", "", "https://SANDBOX-pgw.2c2p.com/payment/4.3", gateways.Test, true},
		{"https://pgw.2c2p.com/payment/4.3/", "", "https://pgw.2c2p.com/payment/4.3", gateways.Live, true},
		{"https://pgw.2c2p.com", gateways.Test, "", "", false},
		{"https://sandbox-pgw.2c2p.com", gateways.Live, "", "", false},
		{"http://sandbox-pgw.2c2p.com", "", "", "", false},
		{"http://demo2.2c2p.com", gateways.Test, "", "", false},
		{"https://pgw.2c2p.com.example", "", "", "", false},
		{"https://pgw.2c2p.com.example", gateways.Test, "https://pgw.2c2p.com.example/payment/4.3", gateways.Test, true},
		{"http://127.0.0.1:9", "", "", "", false},
		{"http://127.0.0.1:9", gateways.Test, "http://127.0.0.1:9/payment/4.3", gateways.Test, true},
		{"http://127.0.0.1:9", gateways.Live, "http://127.0.0.1:9/payment/4.3", gateways.Live, true},
		{"http://sandbox:9", gateways.Test, "http://sandbox:9/payment/4.3", gateways.Test, true},
		{"http://sandbox:9", gateways.Live, "", "", false},
		{"http://sandbox:9", "production", "", "", false},
		{"ftp://sandbox:9", gateways.Test, "", "", false},
		{"sandbox:9", gateways.Test, "", "", false},
		{"https://x.example?a=b", gateways.Test, "", "", false},
		{"https://u:p@x.example", gateways.Test, "", "", false},
	} {
		got, is, err := where(tc.base, tc.env)
		if !tc.ok {
			require.Error(t, err, "%s %s", tc.base, tc.env)
			continue
		}
		require.NoError(t, err, "%s %s", tc.base, tc.env)
		require.Equal(t, tc.want, got)
		require.Equal(t, tc.is, is)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	const hush = "HUSH-0123456789-HUSH"
	good := gateways.Settings{Name: "default", PublicKey: "JT01", SecretKey: secret.New(hush), Environment: gateways.Test}
	for name, spoil := range map[string]func(*gateways.Settings){
		"NoMerchant":       func(s *gateways.Settings) { s.PublicKey = "" },
		"MerchantWithDash": func(s *gateways.Settings) { s.PublicKey = "JT-01" },
		"MerchantTooLong":  func(s *gateways.Settings) { s.PublicKey = "JT01234567890123456789012345" },
		"SecretWithSpace":  func(s *gateways.Settings) { s.SecretKey = secret.New(hush + " ") },
		"SecretTooShort":   func(s *gateways.Settings) { s.SecretKey = secret.New(hush[:15]) },
		"OnlyAnURL":        func(s *gateways.Settings) { s.MaintenanceURL = "https://t.2c2p.com/x" },
		"OnlyOurKey":       func(s *gateways.Settings) { s.PrivateKey = secret.New("x") },
		"OnlyTheirKey":     func(s *gateways.Settings) { s.ProviderKey = "x" },
		"KeysAreNoPEM":     func(s *gateways.Settings) { s.PrivateKey, s.ProviderKey = secret.New(hush), "x" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good
			spoil(&s)
			_, err := Open(s)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "HUSH")
		})
	}
	gw, err := Open(good)
	require.NoError(t, err)
	require.Equal(t, gateways.Account{Gateway: "twoctwop", Name: "default", Environment: gateways.Test}, gw.Account())
	require.Equal(t, gateways.Mark(good.SecretKey), gw.Credential())
	require.Equal(t, 30*time.Second, gw.Capabilities().SendTimeout)
	_, err = OpenWith(good, Options{PaymentPath: "../x"})
	require.Error(t, err)
	set := good
	set.Options = map[string]string{"wrap_all": "true", "payment_path": "doPayment", "cancel_path": "canceltransaction"}
	gw, err = Open(set)
	require.NoError(t, err)
	require.Equal(t, Options{WrapAll: true, PaymentPath: "doPayment", CancelPath: "canceltransaction"}, gw.(*Gateway).options)
	set.Options = map[string]string{"wrap_some": "true"}
	_, err = Open(set)
	require.Error(t, err)
}

// TestLivesAreInOrder: a confirm is repeated only while its token surely lives, and "not found" counts only long after.
func TestLivesAreInOrder(t *testing.T) {
	t.Parallel()
	require.Less(t, repeatSafe, tokenLife)
	require.GreaterOrEqual(t, payable, tokenLife+20*time.Minute+time.Hour)
	c := (&Gateway{timeout: shared.DefaultTimeout}).Capabilities()
	require.Equal(t, payable, c.NotFoundFinalAfter)
	for _, m := range methods {
		require.Equal(t, repeatSafe, c.RepeatSafe(gateways.Confirm, m))
	}
	require.NotContains(t, c.PendingFor, methodCounter, "a slip's deadline is the account's setting")
}
