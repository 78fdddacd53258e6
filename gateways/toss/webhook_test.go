package toss

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/tosssim"
)

var security = strings.Repeat("0123456789abcdef", 4)

func notice(t *testing.T, body string) (gateways.Notice, error) {
	t.Helper()
	return opened(t, nil).ReadNotice(gateways.Incoming{Header: http.Header{}, Body: []byte(body), At: time.Now()})
}

func TestThreeEnvelopes(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 6, 5, 7, 58, 18, 123456000, time.UTC)
	for name, c := range map[string]struct {
		body string
		want gateways.Notice
		ps   string
	}{
		"General": {
			`{"eventType":"PAYMENT_STATUS_CHANGED","createdAt":"2026-06-05T16:58:18.123456","data":{"paymentKey":"tgen_1",
			"orderId":"order-1","status":"DONE","lastTransactionKey":"t1","secret":"ps_x"}}`,
			gateways.Notice{
				EventType: "PAYMENT_STATUS_CHANGED", ProviderPaymentID: "tgen_1", MerchantReference: "order-1",
				Proof: gateways.ProofSecret, ProviderTime: created, Says: gateways.Succeeded,
			},
			"ps_x",
		},
		"GeneralNullSecret": {
			`{"eventType":"PAYMENT_STATUS_CHANGED","createdAt":"2026-06-05T16:58:18.123456","data":{"paymentKey":"tgen_1",
			"orderId":"order-1","status":"EXPIRED","lastTransactionKey":null,"secret":null,"card":null,"cancels":null,"totalAmount":"12345"}}`,
			gateways.Notice{
				EventType: "PAYMENT_STATUS_CHANGED", ProviderPaymentID: "tgen_1", MerchantReference: "order-1",
				Proof: gateways.ProofNone, ProviderTime: created, Says: gateways.Declined,
			},
			"",
		},
		"Flat": {
			`{"createdAt":"2026-06-05T16:58:18.123456","secret":"ps_x","status":"WAITING_FOR_DEPOSIT","transactionKey":"t1","orderId":"order-1"}`,
			gateways.Notice{
				EventType: "DEPOSIT_CALLBACK", MerchantReference: "order-1", Proof: gateways.ProofSecret, ProviderTime: created,
				Says: gateways.Pending,
			},
			"ps_x",
		},
		"FlatAfterARefund": {
			`{"status":"CANCELED","secret":"ps_x","transactionKey":"t2","orderId":"order_1","createdAt":"2026-06-05T16:58:18.123456"}`,
			gateways.Notice{
				EventType: "DEPOSIT_CALLBACK", MerchantReference: "order_1", Proof: gateways.ProofSecret, ProviderTime: created,
				Says: gateways.Unknown,
			},
			"ps_x",
		},
		"FlatEmptySecret": {
			`{"createdAt":"2026-06-05T07:58:18.123456Z","secret":"","status":"DONE","transactionKey":"t1","orderId":"order-1"}`,
			gateways.Notice{
				EventType: "DEPOSIT_CALLBACK", MerchantReference: "order-1", Proof: gateways.ProofSecret, ProviderTime: created,
				Says: gateways.Succeeded,
			},
			"",
		},
		"ForeignCancel": {
			`{"eventType":"CANCEL_STATUS_CHANGED","createdAt":"2026-06-05T16:58:18.123456","data":{"paymentKey":"tgen_1","cancelStatus":"DONE","transactionKey":"t9"}}`,
			gateways.Notice{
				EventType: "CANCEL_STATUS_CHANGED", ProviderPaymentID: "tgen_1", Proof: gateways.ProofNone, ProviderTime: created,
				Says: gateways.Unknown,
			},
			"",
		},
		"NewStatus": {
			`{"eventType":"PAYMENT_STATUS_CHANGED","createdAt":null,"data":{"paymentKey":"tgen_1","status":"REVIEW"}}`,
			gateways.Notice{EventType: "PAYMENT_STATUS_CHANGED", ProviderPaymentID: "tgen_1", Proof: gateways.ProofNone, Says: gateways.Unknown},
			"",
		},
		"NewEventAboutAPayment": {
			`{"eventType":"PAYMENT_DISPUTED","createdAt":"2026-06-05T16:58:18.123456","data":{"orderId":"order-1","status":"DONE"}}`,
			gateways.Notice{EventType: "PAYMENT_DISPUTED", MerchantReference: "order-1", Proof: gateways.ProofNone, ProviderTime: created, Says: gateways.Succeeded},
			"",
		},
		"AboutNoPayment": {
			`{"eventType":"BILLING_DELETED","createdAt":"2026-06-05T16:58:18.123456","data":{"billingKey":"b","customerKey":"c"}}`,
			gateways.Notice{EventType: "BILLING_DELETED", Proof: gateways.ProofNone, ProviderTime: created, Says: gateways.Unknown},
			"",
		},
		"UnknownEntity": {
			`{"eventType":"wallet.changed","createdAt":"2026-06-05T16:58:18.123456","version":"x","eventId":"e","entityType":"wallet","entityBody":{"id":"w"}}`,
			gateways.Notice{EventType: "wallet.changed", Proof: gateways.ProofNone, ProviderTime: created, Says: gateways.Unknown},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := notice(t, c.body)
			require.NoError(t, err)
			require.Regexp(t, `^toss-[0-9a-f]{32}$`, n.EventID)
			require.Equal(t, c.ps, n.Secret.Reveal())
			require.True(t, c.want.ProviderTime.Equal(n.ProviderTime), n.ProviderTime)
			n.EventID, n.Secret, n.ProviderTime, c.want.ProviderTime = "", secret.Value{}, time.Time{}, time.Time{}
			require.Equal(t, c.want, n)
		})
	}
}

func TestAPaymentEventWithoutAPaymentIsMalformed(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"eventType":"PAYMENT_STATUS_CHANGED","createdAt":"2026-06-05T16:58:18.123456"}`,
		`{"eventType":"PAYMENT_STATUS_CHANGED","data":null}`,
		`{"eventType":"PAYMENT_STATUS_CHANGED","data":[]}`,
		`{"eventType":"PAYMENT_STATUS_CHANGED","data":{"paymentKey":null,"orderId":null,"status":"DONE"}}`,
		`{"eventType":"CANCEL_STATUS_CHANGED","data":{"cancelStatus":"DONE"}}`,
		`{"createdAt":"x","secret":"ps_x","status":"DONE","transactionKey":"t"}`,
		`{"secret":"ps_x","status":"DONE","orderId":"../../refunds"}`,
		`{"secret":"ps_x","status":"DONE","orderId":7}`,
		`{}`, `[]`, `null`, ``, `{"data"`, strings.Repeat(" ", maxNotice) + `{"orderId":"order-1"}`,
	} {
		_, err := notice(t, body)
		require.Equal(t, fault.WebhookMalformed, code(t, err), "%.80s", body)
	}
}

// One change keeps its id over resends; a status that comes back (a deposit taken back, paid again) is another event.
func TestEventIDsTellEventsApart(t *testing.T) {
	t.Parallel()
	const flat = `{"createdAt":"2026-06-05T16:58:18.1","secret":"ps_x","status":"WAITING_FOR_DEPOSIT","transactionKey":"t1","orderId":"order-1"}`
	id := func(body string) string {
		n, err := notice(t, body)
		require.NoError(t, err)
		return n.EventID
	}
	first := id(flat)
	for range 7 {
		require.Equal(t, first, id(flat))
	}
	seen := map[string]bool{first: true}
	for _, change := range [][2]string{
		{`WAITING_FOR_DEPOSIT`, `DONE`},
		{`"t1"`, `"t2"`},
		{`order-1`, `order-2`},
		{`16:58:18.1`, `17:58:18.1`},
		{`"t1"`, `null`},
		{`"secret":"ps_x","status":"WAITING_FOR_DEPOSIT"`, `"status":"WAITING_FOR_DEPOSITt1"`},
	} {
		other := id(strings.Replace(flat, change[0], change[1], 1))
		require.False(t, seen[other], change)
		seen[other] = true
	}
	require.Equal(t, first, id(strings.Replace(flat, "ps_x", "ps_y", 1)), "the secret proves and names nothing")
}

func sealed(t *testing.T, key []byte, body, sent string) string {
	t.Helper()
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(body + ":" + sent))
	return "v1:" + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestOnlyPayoutAndSellerEventsNeedTheSignature(t *testing.T) {
	t.Parallel()
	const body = `{"eventType":"payout.changed","createdAt":"2026-06-05T16:58:18.1","version":"x","eventId":"evt_1","entityType":"payout","entityBody":{}}`
	at := time.Date(2026, 6, 5, 8, 0, 0, 0, time.UTC)
	sent := "2026-06-05T17:00:00.000000+09:00"
	spelled, err := hex.DecodeString(security)
	require.NoError(t, err)
	right := sealed(t, []byte(security), body, sent)
	g := opened(t, func(s *gateways.Settings) { s.WebhookSecret = secret.New(security) })
	other := sealed(t, []byte(strings.Repeat("f", 64)), body, sent)
	for name, c := range map[string]struct {
		body, sent, signature string
		at                    time.Time
		want                  fault.Code
	}{
		"Right":        {body, sent, right, at, ""},
		"SpelledKey":   {body, sent, sealed(t, spelled, body, sent), at, ""},
		"SecondOfTwo":  {body, sent, other + "," + right, at, ""},
		"Resent":       {body, sent, right, at.Add(92 * time.Hour), ""},
		"Seller":       {strings.Replace(body, "payout.", "seller.", 1), sent, sealed(t, []byte(security), strings.Replace(body, "payout.", "seller.", 1), sent), at, ""},
		"OtherKey":     {body, sent, other, at, fault.WebhookUnproven},
		"None":         {body, sent, "", at, fault.WebhookUnproven},
		"NoTime":       {body, "", right, at, fault.WebhookUnproven},
		"OtherTime":    {body, "2026-06-05T17:00:01.000000+09:00", right, at, fault.WebhookUnproven},
		"OtherBody":    {body + " ", sent, right, at, fault.WebhookUnproven},
		"NoVersion":    {body, sent, strings.TrimPrefix(right, "v1:"), at, fault.WebhookUnproven},
		"EmptyValue":   {body, sent, "v1:", at, fault.WebhookUnproven},
		"Late":         {body, sent, right, at.Add(6 * 24 * time.Hour), fault.WebhookUnproven},
		"Early":        {body, sent, right, at.Add(-6 * 24 * time.Hour), fault.WebhookUnproven},
		"TooManyTries": {body, sent, strings.Repeat(other+",", maxSignatures) + right, at, fault.WebhookUnproven},
	} {
		t.Run(name, func(t *testing.T) {
			in := gateways.Incoming{Header: http.Header{}, Body: []byte(c.body), At: c.at}
			http.Header(in.Header).Set("tosspayments-webhook-signature", c.signature)
			http.Header(in.Header).Set("tosspayments-webhook-transmission-time", c.sent)
			n, err := g.ReadNotice(in)
			if c.want != "" {
				require.Equal(t, c.want, code(t, err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, gateways.ProofSigned, n.Proof)
			require.Empty(t, n.ProviderPaymentID+n.MerchantReference)
			require.NotEmpty(t, n.EventID)
		})
	}
	_, err = notice(t, body)
	require.Equal(t, fault.WebhookOff, code(t, err), "without the key such events are not taken")
	in := gateways.Incoming{Header: http.Header{}, Body: []byte(strings.Replace(body, "evt_1", "", 1)), At: at}
	http.Header(in.Header).Set(headerSignature, sealed(t, []byte(security), string(in.Body), sent))
	http.Header(in.Header).Set(headerTime, sent)
	_, err = g.ReadNotice(in)
	require.Equal(t, fault.WebhookMalformed, code(t, err))
}

// mailbox keeps the simulator's webhooks as they would arrive.
type mailbox struct {
	mu  sync.Mutex
	all []notify.Message
}

func (m *mailbox) put(n notify.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, n)
}

func (m *mailbox) take() []notify.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.all
	m.all = nil
	return out
}

// The whole life of a virtual account, read from the simulator's webhooks: every one names the payment, the callbacks carry
// its secret, and no two changes share an id.
func TestTheLifeOfAVirtualAccountByWebhook(t *testing.T) {
	t.Parallel()
	for _, callbackFirst := range []bool{true, false} {
		box := &mailbox{}
		s := startSimulated(t, func(c *tosssim.Config) { c.OnNotice, c.SecurityKey = box.put, secret.New(security) })
		s.sim.Configure(func(c *tosssim.Settings) { c.CallbackFirst = callbackFirst })
		y := s.begin(t, "pay_va", "order-1", won(12345))
		gw := s.Open(t, func(c *gateways.Settings) { c.WebhookSecret = secret.New(security) }).(*Gateway)
		o, err := y.confirm(t)
		require.NoError(t, err)
		require.NoError(t, s.sim.Deposit(y.p.Method.Token))
		require.NoError(t, s.sim.Correct(y.p.Method.Token))
		require.Equal(t, gateways.Pending, y.look(t).Outcome, "the deposit was taken back")
		require.NoError(t, s.sim.Deposit(y.p.Method.Token))
		s.sim.Payout(s.sim.Account(simKey), "po_1")

		ids, says := map[string]bool{}, []gateways.Outcome{}
		for _, m := range box.take() {
			at := time.Now()
			n, err := gw.ReadNotice(gateways.Incoming{Header: m.Header(at, 0), Body: m.Body, At: at})
			require.NoError(t, err)
			require.Equal(t, m.Kind, n.EventType)
			require.False(t, ids[n.EventID], "every change is an event of its own")
			ids[n.EventID] = true
			again, err := gw.ReadNotice(gateways.Incoming{Header: m.Header(at, 3), Body: m.Body, At: at})
			require.NoError(t, err)
			require.Equal(t, n.EventID, again.EventID, "a resend is the same event, whatever its transmission id")
			if n.EventType == "payout.changed" {
				require.Equal(t, gateways.ProofSigned, n.Proof)
				continue
			}
			require.Equal(t, "order-1", n.MerchantReference)
			require.Equal(t, gateways.ProofSecret, n.Proof)
			require.True(t, o.Private.Equal(n.Secret.Reveal()), "the secret is the one that the confirm's answer carried")
			if n.EventType == "DEPOSIT_CALLBACK" {
				says = append(says, n.Says)
			}
		}
		require.Equal(t, []gateways.Outcome{gateways.Pending, gateways.Succeeded, gateways.Pending, gateways.Succeeded}, says)
		require.Len(t, ids, 4+2+1, "two webhooks for each deposit")
	}
}

func TestForeignCancelsAreReadInProgress(t *testing.T) {
	t.Parallel()
	box := &mailbox{}
	s := startSimulated(t, func(c *tosssim.Config) { c.OnNotice = box.put })
	s.sim.Configure(func(c *tosssim.Settings) { c.SlowForeignCancels = true })
	y := s.begin(t, "pay_foreign", "order-1", usd(1799))
	_, err := y.confirm(t)
	require.NoError(t, err)
	seen, err := y.refund(t, "r1", usd(99), usd(1799), gateways.Payout{})
	require.NoError(t, err)
	require.EqualValues(t, 99, seen.RefundedMinor)
	require.True(t, s.sim.FinishCancel(y.p.Method.Token))
	require.False(t, s.sim.FinishCancel(y.p.Method.Token))
	all := box.take()
	last := all[len(all)-1]
	n, err := y.gw.ReadNotice(gateways.Incoming{Header: last.Header(time.Now(), 0), Body: last.Body, At: time.Now()})
	require.NoError(t, err)
	require.Equal(t, "CANCEL_STATUS_CHANGED", n.EventType)
	require.Equal(t, y.p.Method.Token, n.ProviderPaymentID)
	require.Equal(t, gateways.Unknown, n.Says, "how much went back is in the payment only")
}

func TestAnyJSONIsReadOrRefusedButNeverBreaks(t *testing.T) {
	t.Parallel()
	g := opened(t, func(s *gateways.Settings) { s.WebhookSecret = secret.New(security) })
	values := []any{nil, 7, -1.5, true, "", "x", []any{}, []any{nil}, map[string]any{}, map[string]any{"orderId": "order-1"}}
	names := []string{"eventType", "createdAt", "data", "secret", "status", "transactionKey", "orderId", "entityBody", "eventId"}
	for _, name := range names {
		for _, v := range values {
			for _, second := range names {
				body, err := json.Marshal(map[string]any{name: v, second: "payout.changed", "paymentKey": v})
				require.NoError(t, err)
				n, err := g.ReadNotice(gateways.Incoming{Body: body})
				if err != nil {
					require.Contains(t, []fault.Code{fault.WebhookMalformed, fault.WebhookUnproven}, code(t, err), string(body))
					continue
				}
				require.NotEmpty(t, n.EventID)
			}
		}
	}
}
