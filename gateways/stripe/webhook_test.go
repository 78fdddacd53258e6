package stripe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v76/webhook"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
	"orderflow/sandbox/stripesim"
)

var noticeTime = time.Unix(1_700_000_000, 0)

func withHook(t *testing.T, key string) *Gateway {
	t.Helper()
	gw, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New(simKey), WebhookSecret: secret.New(key)})
	require.NoError(t, err)
	g, ok := gw.(*Gateway)
	require.True(t, ok)
	return g
}

// stamped is a body with a header of the test's making; %t and %s stand for the time and the right signature, which
// Stripe's own library computes.
func stamped(body, header string) gateways.Incoming {
	sig := fmt.Sprintf("%x", webhook.ComputeSignature(noticeTime, []byte(body), hookKey))
	header = strings.NewReplacer("%t", strconv.FormatInt(noticeTime.Unix(), 10), "%s", sig).Replace(header)
	return gateways.Incoming{Header: http.Header{"Stripe-Signature": {header}}, Body: []byte(body), At: noticeTime}
}

const right = "t=%t,v1=%s"

const succeededEvent = `{"id":"evt_1","object":"event","api_version":"2023-10-16","created":1700000000,"type":"payment_intent.succeeded",` +
	`"livemode":false,"pending_webhooks":1,"request":{"id":null,"idempotency_key":null},"data":{"object":` + paidIntent + `}}`

func TestTheSignatureHeader(t *testing.T) {
	t.Parallel()
	g := withHook(t, hookKey)
	const wrong = "v1=0000000000000000000000000000000000000000000000000000000000000000"
	for name, c := range map[string]struct {
		header string
		ok     bool
	}{
		"Plain":                     {right, true},
		"WhileTheSecretIsRolled":    {"t=%t," + wrong + ",v1=%s", true},
		"RightOneFirst":             {"t=%t,v1=%s," + wrong, true},
		"OldSchemeBeside":           {"t=%t,v1=%s,v0=abc", true},
		"SpacesBetween":             {"t=%t, v1=%s", true},
		"SignatureFirst":            {"v1=%s,t=%t", true},
		"NotHexBeside":              {"t=%t,v1=zz,v1=%s", true},
		"OldSchemeOnly":             {"t=%t,v0=%s", false},
		"NoTime":                    {"v1=%s", false},
		"EmptyTime":                 {"t=,v1=%s", false},
		"TwoTimes":                  {"t=%t,t=%t,v1=%s", false},
		"OtherTime":                 {"t=1700000001,v1=%s", false},
		"TimeWithSpace":             {"t= %t,v1=%s", false},
		"TimeIsNoNumber":            {"t=now,v1=%s", false},
		"TimeBeyondNumbers":         {"t=99999999999999999999,v1=%s", false},
		"TimeAtTheEndOfNumbers":     {"t=9223372036854775807,v1=%s", false},
		"NoSignature":               {"t=%t", false},
		"EmptySignature":            {"t=%t,v1=", false},
		"CutSignature":              {"t=%t,v1=00", false},
		"Wrong":                     {"t=%t," + wrong, false},
		"Nothing":                   {"", false},
		"Rubbish":                   {"x", false},
		"SignaturesInMasses":        {"t=%t," + strings.Repeat(wrong+",", 17) + "v1=%s", false},
		"AHeaderTheSizeOfAMovie":    {right + strings.Repeat(",x=y", 2000), false},
		"CapitalsInTheSchemeName":   {"t=%t,V1=%s", false},
		"AnotherSchemeWithOurWords": {"t=%t,v1a=%s", false},
	} {
		n, err := g.ReadNotice(stamped(succeededEvent, c.header))
		if c.ok {
			require.NoError(t, err, name)
			require.Equal(t, "pi_1", n.ProviderPaymentID, name)
			continue
		}
		require.True(t, fault.IsCode(err, fault.WebhookUnproven), "%s: %v", name, err)
		require.NotContains(t, fault.As(err).Cause.Error(), hookKey)
	}
	twice := stamped(succeededEvent, right)
	twice.Header["Stripe-Signature"] = append(twice.Header["Stripe-Signature"], twice.Header["Stripe-Signature"][0])
	_, err := g.ReadNotice(twice)
	require.True(t, fault.IsCode(err, fault.WebhookUnproven), "which of the two counts? %v", err)

	_, err = g.ReadNotice(stamped(succeededEvent+strings.Repeat(" ", maxNotice), right))
	require.True(t, fault.IsCode(err, fault.WebhookUnproven), "%v", err)
}

// The window is five minutes both ways, its ends included.
func TestTheSignedTimeIsNearOurs(t *testing.T) {
	t.Parallel()
	g := withHook(t, hookKey)
	for off, ok := range map[time.Duration]bool{
		0: true, 299 * time.Second: true, 300 * time.Second: true, 301 * time.Second: false,
		-299 * time.Second: true, -300 * time.Second: true, -301 * time.Second: false, -87600 * time.Hour: false, 87600 * time.Hour: false,
	} {
		in := stamped(succeededEvent, right)
		in.At = noticeTime.Add(off)
		_, err := g.ReadNotice(in)
		require.Equal(t, ok, err == nil, "%s: %v", off, err)
	}
	in := stamped(succeededEvent, right)
	in.At = time.Time{}
	_, err := g.ReadNotice(in)
	require.Error(t, err, "a caller without a clock gets no proof")
}

func eventOf(kind, object string) string {
	return `{"id":"evt_1","object":"event","created":1700000000,"type":"` + kind + `","livemode":false,"data":{"object":` + object + `}}`
}

// wholeCharge is a charge that took all of its amount, with later fields in the place of its own.
func wholeCharge(more string) string {
	return `{"id":"ch_1","object":"charge","payment_intent":"pi_1","status":"succeeded","paid":true,"captured":true,"amount":1500,"amount_captured":1500,` +
		`"amount_refunded":0,"refunded":false,"disputed":false` + more + `}`
}

func TestWhatEventsAreAbout(t *testing.T) {
	t.Parallel()
	g := withHook(t, hookKey)
	for name, c := range map[string]struct {
		body          string
		id, reference string
		says          gateways.Outcome
	}{
		"Succeeded":             {eventOf("payment_intent.succeeded", paidIntent), "pi_1", "of-1", gateways.Succeeded},
		"Created":               {eventOf("payment_intent.created", intent("requires_confirmation", "")), "pi_1", "of-1", gateways.Untouched},
		"RequiresAction":        {eventOf("payment_intent.requires_action", intent("requires_action", "")), "pi_1", "of-1", gateways.Pending},
		"PartiallyFunded":       {eventOf("payment_intent.partially_funded", intent("requires_action", "")), "pi_1", "of-1", gateways.Pending},
		"Capturable":            {eventOf("payment_intent.amount_capturable_updated", intent("requires_capture", "")), "pi_1", "of-1", ""},
		"Failed":                {eventOf("payment_intent.payment_failed", intent("requires_payment_method", `,"last_payment_error":{"code":"card_declined"}`)), "pi_1", "of-1", gateways.Declined},
		"Canceled":              {eventOf("payment_intent.canceled", intent("canceled", "")), "pi_1", "of-1", gateways.Declined},
		"NewStatus":             {eventOf("payment_intent.succeeded", intent("REVIEW", "")), "pi_1", "of-1", ""},
		"AmountAsText":          {eventOf("payment_intent.succeeded", strings.Replace(paidIntent, "1500", `"1500"`, 1)), "pi_1", "of-1", ""},
		"IntentWithoutMetadata": {eventOf("payment_intent.succeeded", `{"id":"pi_1","object":"payment_intent","metadata":null}`), "pi_1", "", ""},
		"IntentOfOtherShape":    {eventOf("payment_intent.succeeded", `{"id":"../pi_1"}`), "", "", ""},
		"Charge":                {eventOf("charge.succeeded", `{"id":"ch_1","object":"charge","payment_intent":"pi_1"}`), "pi_1", "", ""},
		"WholeCharge":           {eventOf("charge.succeeded", wholeCharge("")), "pi_1", "", gateways.Succeeded},
		"UncapturedCharge":      {eventOf("charge.succeeded", wholeCharge(`,"captured":false,"amount_captured":0`)), "pi_1", "", ""},
		"PartOfACharge":         {eventOf("charge.succeeded", wholeCharge(`,"amount_captured":100`)), "pi_1", "", ""},
		"ChargeGivenBack":       {eventOf("charge.succeeded", wholeCharge(`,"amount_refunded":1`)), "pi_1", "", ""},
		"DisputedCharge":        {eventOf("charge.succeeded", wholeCharge(`,"disputed":true`)), "pi_1", "", ""},
		"PendingCharge":         {eventOf("charge.succeeded", wholeCharge(`,"status":"pending"`)), "pi_1", "", ""},
		"OtherEventOfACharge":   {eventOf("charge.updated", wholeCharge("")), "pi_1", "", ""},
		"Refunded":              {eventOf("charge.refunded", `{"id":"ch_1","object":"charge","payment_intent":"pi_1","metadata":{"merchant_reference":"of-9"}}`), "pi_1", "", ""},
		"ChargeOfNoIntent":      {eventOf("charge.succeeded", `{"id":"ch_1","object":"charge","payment_intent":null}`), "", "", ""},
		"ExpandedIntent":        {eventOf("charge.succeeded", `{"id":"ch_1","object":"charge","payment_intent":{"id":"pi_1"}}`), "pi_1", "", ""},
		"RefundUpdated":         {eventOf("charge.refund.updated", `{"id":"re_1","object":"refund","payment_intent":"pi_1","status":"failed"}`), "pi_1", "", ""},
		"RefundCreated":         {eventOf("refund.created", `{"id":"re_1","object":"refund","payment_intent":"pi_1"}`), "pi_1", "", ""},
		"Dispute":               {eventOf("charge.dispute.created", `{"id":"dp_1","object":"dispute","charge":"ch_1","payment_intent":"pi_1"}`), "pi_1", "", ""},
		"Customer":              {eventOf("customer.created", `{"id":"cus_1","object":"customer"}`), "", "", ""},
		"CashBalance":           {eventOf("customer_cash_balance_transaction.created", `{"id":"ccsbtxn_1","applied_to_payment":{"payment_intent":"pi_1"}}`), "", "", ""},
		"Invoice":               {eventOf("invoice.paid", `{"id":"in_1","object":"invoice","payment_intent":"pi_1"}`), "", "", ""},
		"NeverHeardOf":          {eventOf("teapot.boiled", `{"id":"pi_1","payment_intent":"pi_1"}`), "", "", ""},
		"NoData":                {`{"id":"evt_1","type":"payment_intent.succeeded"}`, "", "", ""},
		"NullObject":            {eventOf("payment_intent.succeeded", "null"), "", "", ""},
	} {
		n, err := g.ReadNotice(stamped(c.body, right))
		require.NoError(t, err, name)
		require.Equal(t, "evt_1", n.EventID, name)
		require.Equal(t, gateways.ProofSigned, n.Proof, name)
		require.Equal(t, c.id, n.ProviderPaymentID, name)
		require.Equal(t, c.reference, n.MerchantReference, name)
		require.Equal(t, c.says, n.Says, name)
	}
}

func TestANoticeSaysItsModeAndTime(t *testing.T) {
	t.Parallel()
	g := withHook(t, hookKey)
	n, err := g.ReadNotice(stamped(succeededEvent, right))
	require.NoError(t, err)
	require.Equal(t, gateways.Notice{
		EventID: "evt_1", EventType: "payment_intent.succeeded", ProviderPaymentID: "pi_1", MerchantReference: "of-1",
		Environment: gateways.Test, Proof: gateways.ProofSigned, ProviderTime: noticeTime.UTC(), Says: gateways.Succeeded,
	}, n)
	for livemode, want := range map[string]gateways.Environment{"true": gateways.Live, "false": gateways.Test, "null": "", `"true"`: "", "1": ""} {
		n, err := g.ReadNotice(stamped(strings.Replace(succeededEvent, `"livemode":false`, `"livemode":`+livemode, 1), right))
		require.NoError(t, err)
		require.Equal(t, want, n.Environment, livemode)
	}
}

// Stripe's own library judges what this account's simulator signs, and this gateway what Stripe's library signs: neither
// is only checked against itself.
func TestSimulatorLibraryAndGatewayAgree(t *testing.T) {
	t.Parallel()
	body := []byte(succeededEvent)
	at := time.Now()
	header := stripesim.Sign(secret.New(hookKey), at, body)
	_, err := webhook.ConstructEvent(body, header.Get("Stripe-Signature"), hookKey)
	require.NoError(t, err)
	g := withHook(t, hookKey)
	_, err = g.ReadNotice(gateways.Incoming{Header: header, Body: body, At: at})
	require.NoError(t, err)
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: hookKey, Timestamp: at})
	_, err = g.ReadNotice(gateways.Incoming{Header: http.Header{"Stripe-Signature": {signed.Header}}, Body: body, At: at})
	require.NoError(t, err)
}

func TestWebhooksAreOffWithoutASecret(t *testing.T) {
	t.Parallel()
	g := open(t, "")
	require.False(t, g.Capabilities().WebhookProof)
	for _, in := range []gateways.Incoming{{}, stamped(succeededEvent, right), {Header: http.Header{"Stripe-Signature": {"x"}}}} {
		_, err := g.ReadNotice(in)
		require.True(t, fault.IsCode(err, fault.WebhookOff), "%v", err)
	}
	for _, bad := range []string{"sk_test_1", "whsec_", "whsec_a b c d e f", "whsec_abcdef\n", " whsec_abcdef"} {
		_, err := Open(gateways.Settings{Name: "a", SecretKey: secret.New(simKey), WebhookSecret: secret.New(bad)})
		require.ErrorContains(t, err, "webhook secret", bad)
		require.NotContains(t, err.Error(), "abcdef")
	}
	require.True(t, withHook(t, hookKey).Capabilities().WebhookProof)
}

// FuzzReadNotice: whatever is signed, reading it ends in a notice that names something or in a fault, and never in a panic.
func FuzzReadNotice(f *testing.F) {
	f.Add(succeededEvent)
	f.Add(eventOf("charge.refunded", `{"payment_intent":{"id":null}}`))
	f.Add(`{"id":"evt_1","type":"payment_intent.x","data":{"object":{"id":"pi_1","latest_charge":[],"next_action":{"type":7}}}}`)
	gw, err := Open(gateways.Settings{Name: "default", SecretKey: secret.New(simKey), WebhookSecret: secret.New(hookKey)})
	if err != nil {
		f.Fatal(err)
	}
	g := gw.(*Gateway)
	f.Fuzz(func(t *testing.T, body string) {
		n, err := g.ReadNotice(stamped(body, right))
		if err != nil {
			require.Contains(t, []fault.Code{fault.WebhookMalformed, fault.WebhookUnproven}, fault.As(err).Code)
			return
		}
		require.True(t, json.Valid([]byte(body)))
		require.NotEmpty(t, n.EventID)
		require.NotEmpty(t, n.EventType)
		require.False(t, n.ProviderPaymentID != "" && !intentShape.MatchString(n.ProviderPaymentID))
	})
}
