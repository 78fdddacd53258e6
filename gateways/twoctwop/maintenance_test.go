package twoctwop

import (
	"crypto/rand"
	"crypto/rsa"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/twoctwopsim"
)

// pairs are the keys of both sides, made once: they are slow.
var pairs = sync.OnceValue(func() (p struct {
	ours, theirs       secret.Value
	ourPub, theirPub   string
	stranger           *rsa.PrivateKey
	ourKey, theirKey   *rsa.PrivateKey
	provider, merchant *maintenance
},
) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var err error
	p.ours, p.ourPub, err = twoctwopsim.GenerateKeys()
	must(err)
	p.theirs, p.theirPub, err = twoctwopsim.GenerateKeys()
	must(err)
	p.stranger, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	p.ourKey, err = privateKey(p.ours.Reveal())
	must(err)
	p.theirKey, err = privateKey(p.theirs.Reveal())
	must(err)
	p.merchant = &maintenance{own: p.ourKey, theirs: &p.theirKey.PublicKey}
	p.provider = &maintenance{own: p.theirKey, theirs: &p.ourKey.PublicKey}
	return p
})

type maintained struct {
	*simulated
	gw *Gateway
}

func startMaintained(t *testing.T) maintained {
	t.Helper()
	p := pairs()
	in := faults.New()
	sim, err := twoctwopsim.New(twoctwopsim.Config{
		Merchants:  []twoctwopsim.Merchant{{ID: simMerchant, Secret: secret.New(simSecret), PublicKey: p.ourPub}},
		PrivateKey: p.theirs, Faults: in,
	})
	require.NoError(t, err)
	srv := httptest.NewServer(sim)
	t.Cleanup(srv.Close)
	t.Cleanup(in.Close)
	s := &simulated{sim: sim, faults: in, base: srv.URL}
	return maintained{s, s.open(t, func(set *gateways.Settings) {
		set.MaintenanceURL, set.PrivateKey, set.ProviderKey = srv.URL+"/maintenance", p.ours, p.theirPub
	})}
}

// paid brings a payment to the provider's books.
func (m maintained) paid(t *testing.T, reference string, amount money.Amount) {
	t.Helper()
	planned, err := m.gw.Plan(byCard(reference, "ok__x", amount))
	require.NoError(t, err)
	o, err := m.gw.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: "p", Request: planned[0].Request})
	require.NoError(t, err)
	_, err = m.gw.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: "c", ProviderPaymentID: reference, Private: o.Private, Request: planned[1].Request})
	require.True(t, fault.IsCode(err, fault.PaymentAlready))
}

func (m maintained) do(t *testing.T, p Process, reference string, amount money.Amount) (MaintenanceAnswer, error) {
	t.Helper()
	return m.gw.Maintain(t.Context(), Action{Key: "k", Process: p, InvoiceNo: reference, Amount: amount})
}

func TestMaintenanceGoesThroughALife(t *testing.T) {
	t.Parallel()
	m := startMaintained(t)
	m.paid(t, "OF1", baht)
	a, err := m.do(t, Inquiry, "OF1", baht)
	require.NoError(t, err)
	require.Equal(t, StateAuthorized, a.State)
	require.Equal(t, int64(8050), a.AmountMinor)
	require.False(t, a.ProviderTime.IsZero())

	_, err = m.do(t, Refund, "OF1", baht)
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "nothing is given back before it is settled: %v", err)
	a, err = m.do(t, Settle, "OF1", baht)
	require.NoError(t, err)
	require.Equal(t, StateSettled, a.State)
	_, err = m.do(t, Settle, "OF1", baht)
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "%v", err)

	part := money.Amount{Minor: 2025, Currency: "THB"}
	for range 2 {
		_, err = m.do(t, Refund, "OF1", part)
		require.NoError(t, err)
	}
	a, err = m.do(t, RefundStatus, "OF1", baht)
	require.NoError(t, err)
	require.Len(t, a.Refunds, 2, "nothing at 2C2P tells a repeat from a second refund")
	for _, r := range a.Refunds {
		require.Equal(t, int64(2025), r.AmountMinor)
		require.Equal(t, StateRefunded, r.State)
		require.NotEmpty(t, r.ReferenceNo)
	}
	_, err = m.do(t, Refund, "OF1", money.Amount{Minor: 4001, Currency: "THB"})
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "more than is left: %v", err)
	a, err = m.do(t, Refund, "OF1", money.Amount{Minor: 4000, Currency: "THB"})
	require.NoError(t, err)
	require.Equal(t, StateRefunded, a.State)
	require.Equal(t, int64(8050), m.sim.Charges(twoctwopsim.Filter{MerchantReference: "OF1"})[0].Refunded)

	m.paid(t, "OF2", money.Amount{Minor: 80, Currency: "JPY"})
	a, err = m.do(t, Void, "OF2", money.Amount{Currency: "JPY"})
	require.NoError(t, err)
	require.Equal(t, StateVoided, a.State)
	require.Equal(t, int64(80), a.AmountMinor)
	_, err = m.do(t, Void, "OF2", money.Amount{Currency: "JPY"})
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "%v", err)

	_, err = m.do(t, Inquiry, "OF9", baht)
	require.True(t, fault.IsCode(err, fault.PaymentNotFound), "%v", err)
	_, err = m.do(t, Void, "OF9", baht)
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "%v", err)
}

func TestMoneyAgainstThePlanIsShownForReview(t *testing.T) {
	t.Parallel()
	m := startMaintained(t)
	m.paid(t, "OF1", baht)
	require.True(t, m.sim.Receive("OF1", 8049))
	a, err := m.do(t, Inquiry, "OF1", baht)
	require.NoError(t, err)
	require.Equal(t, "AL", a.Status)
	require.Equal(t, StateReview, a.State)
	_, err = m.gw.Lookup(t.Context(), gateways.Query{MerchantReference: "OF1"})
	require.True(t, fault.IsCode(err, fault.PaymentNeedsReview), "%v", err)
}

func TestALostRefundIsFoundInTheList(t *testing.T) {
	t.Parallel()
	m := startMaintained(t)
	m.paid(t, "OF1", baht)
	_, err := m.do(t, Settle, "OF1", baht)
	require.NoError(t, err)
	_, err = m.faults.Add(faults.Fault{Target: faults.TwoCTwoP, Action: faults.LoseAnswer, Times: 1, BodyContains: "<processType>R</processType>"})
	require.NoError(t, err)
	_, err = m.do(t, Refund, "OF1", money.Amount{Minor: 50, Currency: "THB"})
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
	require.Len(t, m.sim.Writes(twoctwopsim.Filter{MerchantReference: "OF1", PathSuffix: "/maintenance"}), 2, "one write per call")
	a, err := m.do(t, RefundStatus, "OF1", baht)
	require.NoError(t, err)
	require.Len(t, a.Refunds, 1)
	require.Equal(t, int64(50), a.Refunds[0].AmountMinor)
}

// TestMaintenanceAnswersMustBeProven: an answer counts only signed by 2C2P, for us, and about what was asked.
func TestMaintenanceAnswersMustBeProven(t *testing.T) {
	t.Parallel()
	p := pairs()
	var mu sync.Mutex
	var body []byte
	status := http.StatusOK
	var seen string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		raw, _ := io.ReadAll(r.Body)
		document, err := p.provider.unwrap(raw)
		if err == nil {
			seen = r.Header.Get("Content-Type") + " " + string(document)
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	t.Cleanup(srv.Close)
	gw, err := OpenWith(gateways.Settings{
		Name: "default", PublicKey: simMerchant, SecretKey: secret.New(simSecret), Environment: gateways.Test,
		MaintenanceURL: srv.URL, PrivateKey: p.ours, ProviderKey: p.theirPub,
	}, Options{})
	require.NoError(t, err)
	t.Cleanup(gw.client.idle)
	gw.now = func() time.Time { return time.Date(2026, 1, 10, 2, 30, 5, 0, time.UTC) }

	const document = `<PaymentProcessResponse><merchantID>SANDBOX01</merchantID><invoiceNo>OF1</invoiceNo><processType>R</processType><respCode>00</respCode><status>RP</status><amount>80.50000</amount><referenceNo>77</referenceNo></PaymentProcessResponse>`
	wrap := func(m *maintenance, doc string) []byte {
		b, err := m.wrap([]byte(doc))
		require.NoError(t, err)
		return b
	}
	say := func(b []byte) (MaintenanceAnswer, error) {
		mu.Lock()
		body = b
		mu.Unlock()
		return gw.Maintain(t.Context(), Action{Key: "k", Process: Refund, InvoiceNo: "OF1", Amount: baht, NotifyURL: "https://shop.example/n"})
	}
	a, err := say(wrap(p.provider, document))
	require.NoError(t, err)
	require.Equal(t, MaintenanceAnswer{InvoiceNo: "OF1", Code: "00", Status: "RP", State: StateRefunding, AmountMinor: 8050, ReferenceNo: "77"}, a)
	require.Equal(t, `text/plain <PaymentProcessRequest><version>4.3</version><timeStamp>20260110093005</timeStamp><merchantID>SANDBOX01</merchantID>`+
		`<invoiceNo>OF1</invoiceNo><actionAmount>80.50</actionAmount><processType>R</processType><notifyURL>https://shop.example/n</notifyURL></PaymentProcessRequest>`, seen)

	unencrypted, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.PS256, Key: p.theirKey}, nil)
	require.NoError(t, err)
	signed, err := unencrypted.Sign([]byte(document))
	require.NoError(t, err)
	onlySigned, err := signed.CompactSerialize()
	require.NoError(t, err)
	rs, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: p.theirKey}, nil)
	require.NoError(t, err)
	signed, err = rs.Sign([]byte(onlySigned))
	require.NoError(t, err)
	otherAlgorithm, err := signed.CompactSerialize()
	require.NoError(t, err)

	for name, b := range map[string][]byte{
		"Empty":          nil,
		"PlainXML":       []byte(document),
		"PlainCode":      []byte("96"),
		"HTML":           []byte("<html>"),
		"OnlySigned":     []byte(onlySigned),
		"OtherAlgorithm": []byte(otherAlgorithm),
		"SignedByOther":  wrap(&maintenance{own: p.stranger, theirs: &p.ourKey.PublicKey}, document),
		"ForSomebody":    wrap(&maintenance{own: p.theirKey, theirs: &p.stranger.PublicKey}, document),
		"OwnEcho":        wrap(p.merchant, document),
		"OtherInvoice":   wrap(p.provider, strings.Replace(document, "OF1", "OF2", 1)),
		"OtherMerchant":  wrap(p.provider, strings.Replace(document, "SANDBOX01", "JT01", 1)),
		"OtherProcess":   wrap(p.provider, strings.Replace(document, ">R<", ">V<", 1)),
		"NoCode":         wrap(p.provider, strings.Replace(document, "<respCode>00</respCode>", "", 1)),
		"NewStatus":      wrap(p.provider, strings.Replace(document, "RP", "ZZ", 1)),
		"NoStatus":       wrap(p.provider, strings.Replace(document, "<status>RP</status>", "", 1)),
		"OddAmount":      wrap(p.provider, strings.Replace(document, "80.50000", "80.505", 1)),
		"NegativeAmount": wrap(p.provider, strings.Replace(document, "80.50000", "-80.50", 1)),
		"OtherDocument":  wrap(p.provider, "<html/>"),
		"Cut":            wrap(p.provider, document[:40]),
		"NewCode":        wrap(p.provider, strings.Replace(document, ">00<", ">98<", 1)),
	} {
		_, err := say(b)
		require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%s: %v", name, err)
	}
	_, err = say(wrap(p.provider, strings.Replace(document, ">00<", ">42<", 1)))
	require.True(t, fault.IsCode(err, fault.PaymentInProgress), "%v", err)
	mu.Lock()
	status = http.StatusInternalServerError
	mu.Unlock()
	_, err = say(wrap(p.provider, document))
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "a success under a server error: %v", err)
	mu.Lock()
	status = http.StatusOK
	mu.Unlock()
	_, err = gw.Maintain(t.Context(), Action{Process: Inquiry, InvoiceNo: "OF1", Amount: baht})
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "a read that answers about a refund proves nothing: %v", err)
}

func TestActionsAreChecked(t *testing.T) {
	t.Parallel()
	m := startMaintained(t)
	for name, tc := range map[string]struct {
		act  Action
		want fault.Code
	}{
		"NoProcess":       {Action{Key: "k", InvoiceNo: "OF1", Amount: baht}, fault.InternalError},
		"NoKey":           {Action{Process: Refund, InvoiceNo: "OF1", Amount: baht}, fault.InternalError},
		"OddInvoice":      {Action{Key: "k", Process: Refund, InvoiceNo: "<x>", Amount: baht}, fault.PaymentInvalid},
		"NoCurrency":      {Action{Key: "k", Process: Void, InvoiceNo: "OF1"}, fault.PaymentInvalid},
		"NoAmount":        {Action{Key: "k", Process: Refund, InvoiceNo: "OF1", Amount: money.Amount{Currency: "THB"}}, fault.PaymentInvalid},
		"RefundOfSen":     {Action{Key: "k", Process: Refund, InvoiceNo: "OF1", Amount: money.Amount{Minor: 150, Currency: "IDR"}}, fault.PaymentInvalid},
		"NotifyIsNoWeb":   {Action{Key: "k", Process: Refund, InvoiceNo: "OF1", Amount: baht, NotifyURL: "file:///x"}, fault.PaymentInvalid},
		"UnknownProcess":  {Action{Key: "k", Process: "X", InvoiceNo: "OF1", Amount: baht}, fault.InternalError},
		"NegativeRefunds": {Action{Key: "k", Process: Refund, InvoiceNo: "OF1", Amount: money.Amount{Minor: -1, Currency: "THB"}}, fault.PaymentInvalid},
	} {
		_, err := m.gw.Maintain(t.Context(), tc.act)
		require.True(t, fault.IsCode(err, tc.want), "%s: %v", name, err)
	}
	require.Empty(t, m.sim.Writes(twoctwopsim.Filter{}), "nothing left")
	_, err := offline(t).Maintain(t.Context(), Action{Key: "k", Process: Refund, InvoiceNo: "OF1", Amount: baht})
	require.True(t, fault.IsCode(err, fault.GatewayMisconfigured), "%v", err)
}

func TestMaintenanceKeys(t *testing.T) {
	t.Parallel()
	p := pairs()
	for _, text := range []string{"", "x", p.theirPub, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"} {
		_, err := privateKey(text)
		require.Error(t, err)
	}
	for _, text := range []string{"", "x", p.ours.Reveal(), "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"} {
		_, err := publicKey(text)
		require.Error(t, err)
	}
	for _, tc := range []struct {
		url string
		env gateways.Environment
		ok  bool
	}{
		{"", gateways.Test, true},
		{"", gateways.Live, true},
		{"http://t.2c2p.com/x", gateways.Test, false},
		{"http://x.example/x", gateways.Live, false},
		{"http://127.0.0.1/x", gateways.Live, true},
		{"https://u:p@x.example/", gateways.Test, false},
		{"ftp://x.example/", gateways.Test, false},
	} {
		_, err := openMaintenance(gateways.Settings{MaintenanceURL: tc.url, PrivateKey: p.ours, ProviderKey: p.theirPub}, tc.env)
		require.Equal(t, tc.ok, err == nil, "%s %s: %v", tc.url, tc.env, err)
	}
}
