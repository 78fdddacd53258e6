package omise

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
)

// signature is written down independently of the code under test.
func signature(key string, stamp int64, body []byte) string {
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, raw)
	mac.Write(strconv.AppendInt(nil, stamp, 10))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func sealed(key string, at time.Time, body []byte) gateways.Incoming {
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set("Omise-Signature-Timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("Omise-Signature", signature(key, at.Unix(), body))
	return gateways.Incoming{Header: h, Body: body, At: at}
}

func hooked(t *testing.T, key string) *Gateway {
	t.Helper()
	gw, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New(simKey), WebhookSecret: secret.New(key)})
	require.NoError(t, err)
	g, ok := gw.(*Gateway)
	require.True(t, ok)
	return g
}

var arrival = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func event(key, data string) []byte {
	return []byte(`{"object":"event","id":"evnt_test_1","livemode":false,"key":"` + key + `","created_at":"2026-01-02T03:04:00Z","data":` + data + `}`)
}

// For a day after the secret was changed, two signatures come, comma-separated, in any order.
func TestAChangedSecretVerifiesWithEitherKey(t *testing.T) {
	t.Parallel()
	older := base64.StdEncoding.EncodeToString([]byte("the key before the change"))
	body := event("charge.complete", paidCharge)
	one, two := signature(hookSecret, arrival.Unix(), body), signature(older, arrival.Unix(), body)
	for _, key := range []string{hookSecret, older} {
		for _, header := range [][]string{{one + "," + two}, {two + ", " + one}, {one, two}, {strings.ToUpper(two) + "," + one}} {
			in := sealed(hookSecret, arrival, body)
			in.Header["Omise-Signature"] = header
			n, err := hooked(t, key).ReadNotice(in)
			require.NoError(t, err, header)
			require.Equal(t, gateways.ProofSigned, n.Proof)
		}
	}
	neither := base64.StdEncoding.EncodeToString([]byte("a third key"))
	in := sealed(hookSecret, arrival, body)
	in.Header["Omise-Signature"] = []string{one + "," + two}
	_, err := hooked(t, neither).ReadNotice(in)
	require.True(t, fault.IsCode(err, fault.WebhookUnproven), "%v", err)
}

func TestASignatureIsReadStrictly(t *testing.T) {
	t.Parallel()
	g, body := hooked(t, hookSecret), event("charge.complete", paidCharge)
	good := signature(hookSecret, arrival.Unix(), body)
	for name, change := range map[string]func(http.Header){
		"NoSignature":    func(h http.Header) { h.Del("Omise-Signature") },
		"NoTimestamp":    func(h http.Header) { h.Del("Omise-Signature-Timestamp") },
		"NoHeaders":      func(h http.Header) { clear(h) },
		"TwoTimestamps":  func(h http.Header) { h.Add("Omise-Signature-Timestamp", "1") },
		"SignedTime":     func(h http.Header) { h.Set("Omise-Signature-Timestamp", "+"+h.Get("Omise-Signature-Timestamp")) },
		"PaddedTime":     func(h http.Header) { h.Set("Omise-Signature-Timestamp", "0"+h.Get("Omise-Signature-Timestamp")) },
		"OtherTime":      func(h http.Header) { h.Set("Omise-Signature-Timestamp", strconv.FormatInt(arrival.Unix()+1, 10)) },
		"CutSignature":   func(h http.Header) { h.Set("Omise-Signature", good[:32]) },
		"Prefixed":       func(h http.Header) { h.Set("Omise-Signature", "sha256="+good) },
		"EmptySignature": func(h http.Header) { h.Set("Omise-Signature", ",") },
		"ManySignatures": func(h http.Header) { h.Set("Omise-Signature", strings.Repeat("00,", 1000)+good) },
	} {
		in := sealed(hookSecret, arrival, body)
		change(http.Header(in.Header))
		_, err := g.ReadNotice(in)
		require.True(t, fault.IsCode(err, fault.WebhookUnproven), "%s: %v", name, err)
	}
}

// Without a configured secret even a signed event is a hint: nobody checked it.
func TestWithoutASecretAnEventIsAHint(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	for _, in := range []gateways.Incoming{sealed(hookSecret, arrival, event("charge.complete", paidCharge)), {Body: event("charge.complete", paidCharge), At: arrival}} {
		n, err := g.ReadNotice(in)
		require.NoError(t, err)
		require.Equal(t, gateways.Notice{
			EventID: "evnt_test_1", EventType: "charge.complete", ProviderPaymentID: "chrg_test_1", MerchantReference: "of-1",
			Environment: gateways.Test, Proof: gateways.ProofNone, ProviderTime: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC),
			Says: gateways.Succeeded,
		}, n)
	}
}

// charge.complete is sent when processing ends, however it ended: only the charge's own status says anything.
func TestWhatAnEventSays(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	for data, want := range map[string]gateways.Outcome{
		`"status":"successful","paid":true`:                                gateways.Succeeded,
		`"status":"successful","captured":true,"refunded":0`:               gateways.Succeeded,
		`"status":"successful","paid":true,"refunded_amount":1`:            "",
		`"status":"successful","captured":true,"refunded":1`:               "",
		`"status":"successful","paid":false`:                               "",
		`"status":"pending","paid":false`:                                  "", // something ended, or was authorized
		`"status":"pending","authorized":true`:                             "",
		`"status":"failed","failure_code":"insufficient_fund"`:             gateways.Declined,
		`"status":"failed","failure_code":"timeout"`:                       "",
		`"status":"failed","failure_code":"brand_new"`:                     "",
		`"status":"failed","failure_code":"insufficient_fund","paid":true`: "",
		`"status":"failed"`:                                                "",
		`"status":"expired"`:                                               gateways.Declined,
		`"status":"reversed"`:                                              gateways.Declined,
		`"status":"REVIEW","paid":true`:                                    "",
		`"status":null,"paid":"true","amount":"1500"`:                      "",
	} {
		n, err := g.ReadNotice(gateways.Incoming{Body: event("charge.complete", `{"object":"charge","id":"chrg_test_1",`+data+`}`), At: arrival})
		require.NoError(t, err)
		require.Equal(t, want, n.Says, data)
		require.Equal(t, "chrg_test_1", n.ProviderPaymentID)
	}
}

// The echo of our own charge is the one event that claims no more than that the charge waits.
func TestOnlyTheEchoSaysThatAChargeWaits(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	for key, want := range map[string]gateways.Outcome{"charge.create": gateways.Pending, "charge.complete": "", "charge.expire": "", "charge.update": ""} {
		n, err := g.ReadNotice(gateways.Incoming{Body: event(key, `{"object":"charge","id":"chrg_test_1","status":"pending","paid":false}`), At: arrival})
		require.NoError(t, err)
		require.Equal(t, want, n.Says, key)
	}
}

func TestEveryEventNamesItsChargeOrNone(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	for data, want := range map[string]string{
		`{"object":"refund","id":"rfnd_test_1","charge":"chrg_test_1"}`:       "chrg_test_1",
		`{"object":"dispute","id":"dspt_test_1","charge":"chrg_test_1"}`:      "chrg_test_1",
		`{"object":"refund","charge":{"object":"charge","id":"chrg_test_1"}}`: "chrg_test_1",
		`{"object":"refund","charge":{"object":"charge"}}`:                    "",
		`{"object":"refund","charge":null}`:                                   "",
		`{"object":"transfer","id":"trsf_test_1"}`:                            "",
		`{"object":"charge","id":"rfnd_test_1"}`:                              "",
		`{"object":"charge","id":["chrg_test_1"]}`:                            "",
		`{"object":"charge"}`:                                                 "",
		`{"object":"customer","id":"cust_test_1","deleted":true}`:             "",
		`null`: "", `[]`: "", `"x"`: "", `7`: "", `{}`: "",
	} {
		n, err := g.ReadNotice(gateways.Incoming{Body: event("some.thing", data), At: arrival})
		require.NoError(t, err, data)
		require.Equal(t, want, n.ProviderPaymentID, data)
		require.Empty(t, n.Says)
		require.Equal(t, "evnt_test_1", n.EventID)
	}
}

func TestTheModeAndTimeOfAnEvent(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	for body, want := range map[string]gateways.Environment{
		`{"object":"event","id":"evnt_1","livemode":true}`:         gateways.Live,
		`{"object":"event","id":"evnt_test_1","livemode":false}`:   gateways.Test,
		`{"object":"event","id":"evnt_test_1"}`:                    "",
		`{"object":"event","id":"evnt_test_1","livemode":"false"}`: "",
	} {
		n, err := g.ReadNotice(gateways.Incoming{Body: []byte(body), At: arrival})
		require.NoError(t, err)
		require.Equal(t, want, n.Environment, body)
		require.Zero(t, n.ProviderTime)
	}
	n, err := g.ReadNotice(gateways.Incoming{Body: []byte(`{"object":"event","id":"evnt_1","created":"2015-11-30T03:39:42Z"}`), At: arrival})
	require.NoError(t, err)
	require.Equal(t, time.Date(2015, 11, 30, 3, 39, 42, 0, time.UTC), n.ProviderTime, "as older accounts write it")
	for _, body := range []string{`{"object":"charge","id":"evnt_1"}`, `{"id":"evnt_1"}`, `{"object":"event"}`, `{"object":"event","id":"chrg_1"}`} {
		_, err := g.ReadNotice(gateways.Incoming{Body: []byte(body), At: arrival})
		require.True(t, fault.IsCode(err, fault.WebhookMalformed), "%s: %v", body, err)
	}
}

// Whatever bytes come, reading them ends in a notice with an id or in a fault, and never in a panic.
func FuzzReadNotice(f *testing.F) {
	for _, seed := range []string{"", "null", "{}", string(event("charge.complete", "null")), string(event("refund.create", paidCharge))} {
		f.Add([]byte(seed))
	}
	gw, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New(simKey)})
	if err != nil {
		f.Fatal(err)
	}
	reader, ok := gw.(gateways.Notifier)
	if !ok {
		f.Fatal("the gateway reads webhooks")
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := reader.ReadNotice(gateways.Incoming{Body: body, At: arrival})
		if (err == nil) != (n.EventID != "") || (err != nil && !fault.IsCode(err, fault.WebhookMalformed)) {
			t.Errorf("%+v, %v", n, err)
		}
	})
}
