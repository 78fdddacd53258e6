package twoctwop

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
	"orderflow/sandbox/twoctwopsim"
)

const paidClaims = `{"merchantID":"SANDBOX01","invoiceNo":"` + invoice + `","amount":"80.50","currencyCode":"THB","respCode":"0000"}`

func (s *scripted) looked(t *testing.T) (gateways.Observation, error) {
	t.Helper()
	return s.gw.Lookup(t.Context(), gateways.Query{ProviderPaymentID: invoice, Currency: "THB", Private: freshToken().seal()})
}

// TestFramesThatSpoilAnAnswer: what would be right in another frame decides nothing in these.
func TestFramesThatSpoilAnAnswer(t *testing.T) {
	t.Parallel()
	s := script(t, Options{})
	right := wrapped(simSecret, paidClaims)
	s.says(right)
	o, err := s.looked(t)
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, o.Outcome, "the answer can be believed")

	for status, want := range map[int]fault.Code{
		http.StatusInternalServerError: fault.GatewayReadFailed, http.StatusFound: fault.GatewayReadFailed, http.StatusBadRequest: fault.GatewayReadFailed,
	} {
		s.saysStatus(status, string(right))
		_, err = s.looked(t)
		require.True(t, fault.IsCode(err, want), "%d: %v", status, err)
	}
	s.saysStatus(http.StatusTooManyRequests, "")
	_, err = s.looked(t)
	require.True(t, fault.IsCode(err, fault.GatewayRateLimited), "%v", err)
	s.saysStatus(http.StatusFound, `{"respCode":"9041"}`)
	_, err = s.confirmed(t, card)
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "a redirect is no answer: %v", err)

	s.saysStatus(http.StatusOK, string(right)+strings.Repeat(" ", maxAnswer))
	_, err = s.looked(t)
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%v", err)
	require.ErrorIs(t, err, shared.ErrTooBig)
	s.saysStatus(http.StatusOK, string(wrapped(simSecret, strings.Replace(paidClaims, invoice, "../x", 1))))
	_, err = s.looked(t)
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%v", err)
}

// TestOneTokenOneText: base64 leaves bits over at the end, and a token that differs in them only is another text with the
// same signature. It is refused, so that no two texts pass for one.
func TestOneTokenOneText(t *testing.T) {
	t.Parallel()
	g := offline(t)
	token := strings.TrimSuffix(strings.TrimPrefix(string(wrapped(simSecret, paidClaims)), `{"payload":"`), `"}`)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	_, err := open(g.secret, payload(token))
	require.NoError(t, err)
	for bits := 1; bits < 4; bits++ {
		_, err = open(g.secret, payload(token[:len(token)-1]+string(alphabet[last^bits])))
		require.ErrorIs(t, err, errSignature)
	}
}

func TestLinksForTheBuyer(t *testing.T) {
	t.Parallel()
	for link, ok := range map[string]bool{
		"https://bank.example/x": true, "http://127.0.0.1:8090/x": true, "paypay://x": true, "intent://scan/#Intent;end": true,
		"https://user:pass@bank.example/": false, "https:///x": false, "https:x": false, "//bank.example/x": false, "bank.example": false, "": false,
		"javascript:alert(1)": false, "javascript://%0aalert(1)": false, "JAVASCRIPT://x": false, "data:text/html,x": false, "data://x": false,
		"vbscript://x": false, "file://x": false, "blob://x": false, "https://bank.example/\nx": false, "https://bänk.example/": false, "mailto:x@y": false,
	} {
		require.Equal(t, ok, address(link), "%q", link)
	}
}

func TestSmallKeysAreRefused(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0") // the library itself would not make one
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	own, err := x509.MarshalPKCS8PrivateKey(small)
	require.NoError(t, err)
	shown, err := x509.MarshalPKIXPublicKey(&small.PublicKey)
	require.NoError(t, err)
	_, err = privateKey(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: own})))
	require.ErrorIs(t, err, errPrivateKey)
	_, err = publicKey(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: shown})))
	require.ErrorIs(t, err, errPublicKey)
	large := pairs().ourKey
	got, err := privateKey(string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(large)})))
	require.NoError(t, err)
	require.True(t, got.Equal(large))
	public, err := publicKey(string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&large.PublicKey)})))
	require.NoError(t, err)
	require.True(t, public.Equal(&large.PublicKey))
}

// TestPrivateHoldsAndHides: the payment token travels as a secret and is in no error.
func TestPrivateHoldsAndHides(t *testing.T) {
	t.Parallel()
	k := freshToken()
	k.Next = &gateways.NextAction{Type: "qr", QR: "0002"}
	again, ok := unkeep(k.seal())
	require.True(t, ok)
	require.Equal(t, k, again)
	require.NotContains(t, k.seal().String(), k.Token)
	s := script(t, Options{})
	for _, body := range [][]byte{nil, []byte(`{"respCode":"9040","respDesc":"tok+/="}`), bytes.Repeat([]byte("tok+/="), 10)} {
		s.says(body)
		_, err := s.confirmed(t, card)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "tok")
	}
}

// TestALostPrepare: the token went out and its answer never came. What a second try meets is not documented, so all three
// possibilities are gone through. In none of them is money taken or another invoice number used.
func TestALostPrepare(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		configure func(*twoctwopsim.Settings)
		again     bool
	}{
		"TheNumberIsTakenAtOnce":     {func(s *twoctwopsim.Settings) { s.DuplicateAt = twoctwopsim.AtToken }, false},
		"TheNumberIsTakenByAPayment": {func(s *twoctwopsim.Settings) { s.DuplicateAt = twoctwopsim.AtPayment }, true},
		"TheIdempotencyIDHelps":      {func(s *twoctwopsim.Settings) { s.IdempotencyReplay = true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := startSimulated(t, tc.configure, Options{})
			g := sim.open(t, nil)
			planned, err := g.Plan(byCard(invoice, "ok__x", baht))
			require.NoError(t, err)
			prepare := gateways.Operation{Key: "p", MerchantReference: invoice, Request: planned[0].Request}
			sim.front.Arm(gatewaytest.Fault{Kind: gatewaytest.LoseAnswer, On: gateways.Prepare})
			_, err = g.Send(t.Context(), gateways.Prepare, prepare)
			require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
			o, err := g.Lookup(t.Context(), gateways.Query{MerchantReference: invoice, Currency: "THB"})
			require.NoError(t, err)
			require.Equal(t, gateways.NotFound, o.Outcome, "nobody holds the token, so nobody can pay with it")

			o, err = g.Send(t.Context(), gateways.Prepare, prepare)
			if !tc.again {
				require.True(t, fault.IsCode(err, fault.PaymentAlready), "%v", err)
				require.Empty(t, sim.Captures(t, invoice))
				return
			}
			require.NoError(t, err)
			_, err = g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: "c", ProviderPaymentID: invoice, Private: o.Private, Request: planned[1].Request})
			require.True(t, fault.IsCode(err, fault.PaymentAlready), "%v", err)
			require.Len(t, sim.Captures(t, invoice), 1)
			_, err = g.Send(t.Context(), gateways.Prepare, prepare)
			if tc.again && name == "TheNumberIsTakenByAPayment" {
				require.True(t, fault.IsCode(err, fault.PaymentAlready), "a begun payment holds its number: %v", err)
			}
			require.Len(t, sim.Captures(t, invoice), 1)
		})
	}
}

func TestOpenGivesNothingBesideAnError(t *testing.T) {
	t.Parallel()
	gw, err := Open(gateways.Settings{})
	require.Error(t, err)
	require.True(t, gw == nil, "not even an interface that holds nothing")
}
