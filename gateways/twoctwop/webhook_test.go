package twoctwop

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

const noticeClaims = `{"merchantID":"SANDBOX01","invoiceNo":"OF1","amount":"000000000080.50000","currencyCode":"THB","tranRef":"4567","transactionDateTime":"20260110093005","respCode":"0000"}`

func read1(g *Gateway, body []byte) (gateways.Notice, error) {
	return g.ReadNotice(gateways.Incoming{Body: body, At: time.Now()})
}

func TestNotice(t *testing.T) {
	t.Parallel()
	g := offline(t)
	n, err := read1(g, wrapped(simSecret, noticeClaims))
	require.NoError(t, err)
	require.Equal(t, gateways.Notice{
		EventID: "OF1|4567|0000", EventType: "payment.0000", ProviderPaymentID: "OF1", MerchantReference: "OF1", Proof: gateways.ProofSigned,
		ProviderTime: time.Date(2026, 1, 10, 2, 30, 5, 0, time.UTC), Says: gateways.Succeeded,
	}, n)
	for code, says := range map[string]gateways.Outcome{
		"4051": gateways.Declined, "0003": gateways.Declined, "0001": gateways.Pending, "2002": gateways.Unknown, "AE": gateways.Unknown,
		"4120": gateways.Unknown, "7777": gateways.Unknown,
	} {
		n, err := read1(g, wrapped(simSecret, strings.Replace(noticeClaims, `"0000"`, `"`+code+`"`, 1)))
		require.NoError(t, err)
		require.Equal(t, says, n.Says, code)
		require.NotEqual(t, "OF1|4567|0000", n.EventID, "another result is another event")
	}
	n, err = read1(g, wrapped(simSecret, strings.Replace(noticeClaims, `"4567"`, `"`+strings.Repeat("x", 300)+`"`, 1)))
	require.NoError(t, err)
	require.LessOrEqual(t, len(n.EventID), 200)
}

// TestAlgorithmConfusion: what a token says about its own algorithm never chooses how it is checked.
func TestAlgorithmConfusion(t *testing.T) {
	t.Parallel()
	g := offline(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	publicPEM := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	enc := base64.RawURLEncoding.EncodeToString
	head := func(alg string) string { return segment(`{"alg":"`+alg+`","typ":"JWT"}`) + "." + segment(noticeClaims) }
	sum := sha256.Sum256([]byte(head("RS256")))
	rs, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	require.NoError(t, err)
	h512 := hmac.New(sha512.New, []byte(simSecret))
	_, _ = h512.Write([]byte(head("HS512")))
	good := strings.TrimSuffix(strings.TrimPrefix(string(wrapped(simSecret, noticeClaims)), `{"payload":"`), `"}`)
	for name, token := range map[string]string{
		"None":            head("none") + ".",
		"NoneSigned":      head("none") + "." + mac256(simSecret, head("none")),
		"NoneCase":        head("NoNe") + ".",
		"RS256":           head("RS256") + "." + enc(rs),
		"RS256AsHS256":    head("RS256") + "." + mac256(simSecret, head("RS256")),
		"PublicKeyAsHMAC": head("HS256") + "." + mac256(publicPEM, head("HS256")),
		"HS512":           head("HS512") + "." + enc(h512.Sum(nil)),
		"HS384":           head("HS384") + "." + mac256(simSecret, head("HS384")),
		"LowerCase":       head("hs256") + "." + mac256(simSecret, head("hs256")),
		"NoAlgorithm":     segment(`{"typ":"JWT"}`) + "." + segment(noticeClaims) + "." + mac256(simSecret, segment(`{"typ":"JWT"}`)+"."+segment(noticeClaims)),
		"EmptySecret":     head("HS256") + "." + mac256("", head("HS256")),
		"OtherSecret":     head("HS256") + "." + mac256(simSecret+"2", head("HS256")),
		"NoSignature":     head("HS256") + ".",
		"TwoParts":        head("HS256"),
		"FourParts":       good + ".x",
		"Padded":          good + "=",
		"Space":           good + " ",
	} {
		_, err := read1(g, payload(token))
		require.True(t, fault.IsCode(err, fault.WebhookUnproven), "%s: %v", name, err)
		_, err = open(g.secret, payload(token))
		require.ErrorIs(t, err, errSignature, "answers are checked alike: %s", name)
	}
	_, err = read1(g, payload(good))
	require.NoError(t, err, "the check can pass")
}

func TestNoticesThatProveNothing(t *testing.T) {
	t.Parallel()
	g := offline(t)
	for name, tc := range map[string]struct {
		body []byte
		want fault.Code
	}{
		"OtherMerchant":    {wrapped(simSecret, strings.Replace(noticeClaims, "SANDBOX01", "JT01", 1)), fault.WebhookUnproven},
		"NoMerchant":       {wrapped(simSecret, strings.Replace(noticeClaims, `"merchantID":"SANDBOX01",`, "", 1)), fault.WebhookUnproven},
		"NoInvoice":        {wrapped(simSecret, strings.Replace(noticeClaims, `"OF1"`, "null", 1)), fault.WebhookMalformed},
		"OddInvoice":       {wrapped(simSecret, strings.Replace(noticeClaims, `"OF1"`, `"../x"`, 1)), fault.WebhookMalformed},
		"NoCode":           {wrapped(simSecret, strings.Replace(noticeClaims, `,"respCode":"0000"`, "", 1)), fault.WebhookMalformed},
		"Plain":            {[]byte(noticeClaims), fault.WebhookUnproven},
		"PayloadAndPlain":  {[]byte(`{"payload":"","respCode":"0000"}`), fault.WebhookUnproven},
		"BrowserReturn":    {[]byte("paymentResponse=eyJyZXNwQ29kZSI6IjIwMDAifQ=="), fault.WebhookMalformed},
		"TwoDocuments":     {append(wrapped(simSecret, noticeClaims), wrapped(simSecret, noticeClaims)...), fault.WebhookMalformed},
		"TwoClaimObjects":  {wrapped(simSecret, noticeClaims+noticeClaims), fault.WebhookUnproven},
		"ClaimsAreAList":   {wrapped(simSecret, `[]`), fault.WebhookUnproven},
		"ClaimsAreNothing": {wrapped(simSecret, ``), fault.WebhookUnproven},
	} {
		_, err := read1(g, tc.body)
		if name == "TwoClaimObjects" || name == "ClaimsAreAList" || name == "ClaimsAreNothing" {
			require.Contains(t, []fault.Code{fault.WebhookUnproven, fault.WebhookMalformed}, fault.As(err).Code, name)
			continue
		}
		require.True(t, fault.IsCode(err, tc.want), "%s: %v", name, err)
	}
}
