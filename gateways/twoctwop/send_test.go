package twoctwop

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/secret"
	"orderflow/sandbox/twoctwopsim"
)

// scripted is a provider that answers one thing, whatever it is asked, and keeps what it was asked.
type scripted struct {
	gw *Gateway

	mu     sync.Mutex
	status int
	body   []byte
	asked  []string // path and body
}

func script(t *testing.T, o Options) *scripted {
	t.Helper()
	s := &scripted{status: http.StatusOK}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))
		w.WriteHeader(s.status)
		_, _ = w.Write(s.body)
	}))
	t.Cleanup(srv.Close)
	gw, err := OpenWith(gateways.Settings{
		Name: "default", PublicKey: simMerchant, SecretKey: secret.New(simSecret), APIBase: srv.URL, Environment: gateways.Test,
	}, o)
	require.NoError(t, err)
	t.Cleanup(gw.client.idle)
	s.gw = gw
	return s
}

func (s *scripted) says(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = body
}

func (s *scripted) saysStatus(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, []byte(body)
}

func (s *scripted) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

var baht = money.Amount{Minor: 8050, Currency: "THB"}

const invoice = "OFABCDEFGH12345678"

func freshToken() kept {
	return kept{Token: "tok+/=", Page: "https://pay.example/p", Made: time.Now().Unix(), Amount: baht.Minor, Currency: baht.Currency}
}

// confirmed sends the confirm of a method and returns what came of the scripted answer.
func (s *scripted) confirmed(t *testing.T, m gateways.Method) (gateways.Observation, error) {
	t.Helper()
	planned, err := s.gw.Plan(gateways.Payment{MerchantReference: invoice, Amount: baht, Method: m})
	require.NoError(t, err)
	return s.gw.Send(t.Context(), gateways.Confirm, gateways.Operation{
		Key: "k", ProviderPaymentID: invoice, MerchantReference: invoice, Private: freshToken().seal(), Request: planned[1].Request,
	})
}

var card = gateways.Method{Type: "card", Token: "secure", ReturnURL: "https://shop.example/"}

func TestDoPaymentOnTheWire(t *testing.T) {
	t.Parallel()
	plain := script(t, Options{})
	plain.says([]byte(`{"invoiceNo":"` + invoice + `","respCode":"2000"}`))
	_, err := plain.confirmed(t, card)
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "a completed flow is looked up at once: %v", err)
	require.Equal(t, `/payment/4.3/payment application/json {"paymentToken":"tok+/=","clientID":"`+clientID(invoice)+`","locale":"en",`+
		`"responseReturnUrl":"https://shop.example/","payment":{"code":{"channelCode":"CC"},"data":{"securePayToken":"secure"}}}`, plain.last())

	signed := script(t, Options{WrapAll: true, PaymentPath: "doPayment"})
	signed.says([]byte(`{"respCode":"9041"}`))
	_, err = signed.confirmed(t, card)
	require.True(t, fault.IsCode(err, fault.PaymentAlready))
	path, body, _ := strings.Cut(signed.last(), " application/json ")
	require.Equal(t, "/payment/4.3/doPayment", path)
	require.JSONEq(t, strings.SplitN(plain.last(), " ", 3)[2], string(claimsOf(t, []byte(body))))
	require.Equal(t, string(wrapped(simSecret, string(claimsOf(t, []byte(body))))), body, "signed with HS256 by our secret")
}

func TestPrepareAndInquiryAreSigned(t *testing.T) {
	t.Parallel()
	s := script(t, Options{})
	planned, err := s.gw.Plan(gateways.Payment{MerchantReference: invoice, Amount: baht, Method: card})
	require.NoError(t, err)
	s.says(wrapped(simSecret, `{"respCode":"0000","paymentToken":"tok","webPaymentUrl":"https://x.example/"}`))
	o, err := s.gw.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: "k", Request: planned[0].Request})
	require.NoError(t, err)
	require.Equal(t, "/payment/4.3/paymentToken application/json "+string(wrapped(simSecret, string(planned[0].Request))), s.last(), "the frozen bytes are what is signed")
	require.Equal(t, gateways.Observation{
		Account: s.gw.Account(), ProviderPaymentID: invoice, MerchantReference: invoice, Outcome: gateways.Untouched, Status: "0000",
		Currency: "THB", AmountMinor: 8050, Private: o.Private,
	}, o)
	k, ok := unkeep(o.Private)
	require.True(t, ok)
	require.Equal(t, "tok", k.Token)

	s.says([]byte(`{"respCode":"2002"}`))
	_, err = s.gw.Lookup(t.Context(), gateways.Query{ProviderPaymentID: invoice, Currency: "THB"})
	require.NoError(t, err)
	require.Equal(t, "/payment/4.3/paymentInquiry application/json "+string(wrapped(simSecret, `{"merchantID":"SANDBOX01","invoiceNo":"`+invoice+`","locale":"en"}`)), s.last())
}

// TestPrepareBelievesOnlySignedTokens: a forged token would let the buyer pay somebody else.
func TestPrepareBelievesOnlySignedTokens(t *testing.T) {
	t.Parallel()
	s := script(t, Options{})
	hosted, err := s.gw.Plan(gateways.Payment{MerchantReference: invoice, Amount: baht, Method: gateways.Method{Type: "redirect", ReturnURL: "https://shop.example/"}})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		body []byte
		want fault.Code
	}{
		"Unsigned":       {[]byte(`{"respCode":"0000","paymentToken":"tok","webPaymentUrl":"https://x.example/"}`), fault.PaymentUnknown},
		"WrongSecret":    {wrapped(simSecret+"2", `{"respCode":"0000","paymentToken":"tok","webPaymentUrl":"https://x.example/"}`), fault.PaymentUnknown},
		"NoToken":        {wrapped(simSecret, `{"respCode":"0000","webPaymentUrl":"https://x.example/"}`), fault.PaymentUnknown},
		"NoPage":         {wrapped(simSecret, `{"respCode":"0000","paymentToken":"tok"}`), fault.PaymentUnknown},
		"ScriptPage":     {wrapped(simSecret, `{"respCode":"0000","paymentToken":"tok","webPaymentUrl":"javascript:alert(1)"}`), fault.PaymentUnknown},
		"UnsignedError":  {[]byte(`{"respCode":"9015","respDesc":"x"}`), fault.PaymentAlready},
		"SignedError":    {wrapped(simSecret, `{"respCode":"9015"}`), fault.PaymentAlready},
		"NotMade":        {[]byte(`{"respCode":"9038"}`), fault.GatewayUnavailable},
		"OurFault":       {[]byte(`{"respCode":"9009"}`), fault.PaymentInvalid},
		"OurCredentials": {[]byte(`{"respCode":"9042"}`), fault.GatewayMisconfigured},
		"Unlisted":       {[]byte(`{"respCode":"2014"}`), fault.PaymentUnknown},
	} {
		s.says(tc.body)
		o, err := s.gw.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: "k", Request: hosted[0].Request})
		require.True(t, fault.IsCode(err, tc.want), "%s: %v", name, err)
		require.Zero(t, o, name)
	}
}

func TestFlowsOfDoPayment(t *testing.T) {
	t.Parallel()
	s := script(t, Options{})
	link := "https://bank.example/3ds?x=1"
	for name, tc := range map[string]struct {
		code, data string
		want       gateways.NextAction
	}{
		"Frame":    {"1000", link, gateways.NextAction{Type: "redirect", URL: link}},
		"Redirect": {"1001", link, gateways.NextAction{Type: "redirect", URL: link}},
		"App":      {"1002", link, gateways.NextAction{Type: "redirect", URL: link}},
		"Slip":     {"1003", link, gateways.NextAction{Type: "voucher", URL: link}},
		"SlipCode": {"1003", "1234-5678", gateways.NextAction{Type: "voucher", Code: "1234-5678"}},
		"Scheme":   {"1004", "paypay://pay?x=1", gateways.NextAction{Type: "redirect", URL: "paypay://pay?x=1"}},
		"QRImage":  {"1005", link, gateways.NextAction{Type: "qr", QR: link, URL: link}},
		"QRText":   {"1005", "00020101021230", gateways.NextAction{Type: "qr", QR: "00020101021230"}},
	} {
		s.says([]byte(`{"invoiceNo":"` + invoice + `","channelCode":"X","respCode":"` + tc.code + `","data":"` + tc.data + `"}`))
		o, err := s.confirmed(t, card)
		require.NoError(t, err, name)
		require.Equal(t, gateways.Pending, o.Outcome, name)
		require.Equal(t, &tc.want, o.NextAction, name)
		require.Equal(t, int64(8050), o.AmountMinor)
		k, ok := unkeep(o.Private)
		require.True(t, ok)
		require.Equal(t, &tc.want, k.Next, "a later lookup can say it again")
		require.Equal(t, freshToken().Token, k.Token)
	}
	for name, body := range map[string]string{
		"NoData":       `{"invoiceNo":"` + invoice + `","respCode":"1001"}`,
		"Script":       `{"invoiceNo":"` + invoice + `","respCode":"1001","data":"javascript:alert(1)"}`,
		"ScriptCase":   `{"invoiceNo":"` + invoice + `","respCode":"1004","data":"JavaScript://%0aalert(1)"}`,
		"File":         `{"invoiceNo":"` + invoice + `","respCode":"1004","data":"file:///etc/passwd"}`,
		"NoInvoice":    `{"respCode":"1001","data":"https://x.example/"}`,
		"OtherInvoice": `{"invoiceNo":"OF2","respCode":"1001","data":"https://x.example/"}`,
		"OtherIsDone":  `{"invoiceNo":"OF2","respCode":"2000"}`,
		"Paid":         `{"invoiceNo":"` + invoice + `","respCode":"0000"}`,
	} {
		s.says([]byte(body))
		_, err := s.confirmed(t, card)
		require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%s: %v", name, err)
	}
	for code, want := range map[string]fault.Code{
		"4051": fault.PaymentAlready, "9020": fault.PaymentAlready, "9040": fault.PaymentInvalid, "2001": fault.PaymentInProgress, "9999": fault.PaymentUnknown,
	} {
		s.says([]byte(`{"respCode":"` + code + `","respDesc":"secure"}`))
		_, err := s.confirmed(t, card)
		require.True(t, fault.IsCode(err, want), "%s: %v", code, err)
		require.NotContains(t, err.Error(), "secure")
	}
}

// TestHTTPStatusDecidesNothing: a known code is read under any status, a success counts only under a 2xx one.
func TestHTTPStatusDecidesNothing(t *testing.T) {
	t.Parallel()
	s := script(t, Options{})
	for _, tc := range []struct {
		status int
		body   string
		want   fault.Code
	}{
		{400, `{"respCode":"9041"}`, fault.PaymentAlready},
		{500, `{"respCode":"9009"}`, fault.PaymentInvalid},
		{500, `{"invoiceNo":"` + invoice + `","respCode":"1001","data":"https://x.example/"}`, fault.PaymentUnknown},
		{401, ``, fault.PaymentUnknown},
		{403, `{}`, fault.PaymentUnknown},
		{404, `{"code":"x","message":"x"}`, fault.PaymentUnknown},
		{429, ``, fault.PaymentUnknown},
		{503, `<html>`, fault.PaymentUnknown},
	} {
		s.saysStatus(tc.status, tc.body)
		_, err := s.confirmed(t, card)
		require.True(t, fault.IsCode(err, tc.want), "%d %s: %v", tc.status, tc.body, err)
		require.Equal(t, tc.status, fault.As(err).Provider.HTTPStatus)
	}
}

// TestTheHostedPage goes through the whole life of a payment on 2C2P's own page, in the sandbox.
func TestTheHostedPage(t *testing.T) {
	t.Parallel()
	sim := startSimulated(t, func(s *twoctwopsim.Settings) { s.PageRetries = true }, Options{})
	g := sim.open(t, nil)
	now := time.Now()
	g.now = func() time.Time { return now }
	planned, err := g.Plan(gateways.Payment{MerchantReference: invoice, Amount: baht, Method: gateways.Method{Type: "redirect", ReturnURL: "https://shop.example/back"}})
	require.NoError(t, err)
	o, err := g.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: "p", Request: planned[0].Request})
	require.NoError(t, err)
	before := len(sim.front.Writes())
	o, err = g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: "c", ProviderPaymentID: invoice, Private: o.Private, Request: planned[1].Request})
	require.NoError(t, err)
	require.Len(t, sim.front.Writes(), before, "the buyer sends, not we")
	require.Equal(t, gateways.Pending, o.Outcome)
	require.Equal(t, "redirect", o.NextAction.Type)
	page := o.NextAction.URL
	require.True(t, strings.HasPrefix(page, sim.base+"/buyer/twoctwop/"), page)
	q := gateways.Query{ProviderPaymentID: invoice, MerchantReference: invoice, Currency: "THB", Private: o.Private}

	o, err = g.Lookup(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, gateways.Pending, o.Outcome, "no such transaction means not yet")
	require.Equal(t, page, o.NextAction.URL)
	require.Equal(t, int64(8050), o.AmountMinor)

	require.True(t, sim.sim.Act(invoice, false))
	o, err = g.Lookup(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, gateways.Declined, o.Outcome)
	require.False(t, o.Final, "the buyer may try again on the page")
	now = now.Add(payable)
	o, err = g.Lookup(t.Context(), q)
	require.NoError(t, err)
	require.True(t, o.Final, "the page is long dead")

	require.True(t, sim.sim.Act(invoice, true))
	o, err = g.Lookup(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, o.Outcome)
}

// TestNoSuchTransaction says what 2002 means over a payment's life.
func TestNoSuchTransaction(t *testing.T) {
	t.Parallel()
	s := script(t, Options{})
	made := time.Now()
	fresh := freshToken()
	asked := fresh
	asked.Next = &gateways.NextAction{Type: "qr", QR: "0002"}
	for name, tc := range map[string]struct {
		private secret.Value
		after   time.Duration
		want    gateways.Outcome
		final   bool
	}{
		"NoTokenKnown":           {secret.Value{}, 0, gateways.NotFound, false},
		"ForeignPrivate":         {secret.New(`{"x":1}`), 0, gateways.NotFound, false},
		"TokenAlive":             {fresh.seal(), 0, gateways.Untouched, false},
		"TokenAliveStill":        {fresh.seal(), repeatSafe - time.Minute, gateways.Untouched, false},
		"TokenTooOld":            {fresh.seal(), repeatSafe + time.Minute, gateways.NotFound, false},
		"TokenLongDead":          {fresh.seal(), 100 * time.Hour, gateways.NotFound, false},
		"BuyerWasAsked":          {asked.seal(), 0, gateways.Pending, false},
		"BuyerMayStillPay":       {asked.seal(), payable - time.Minute, gateways.Pending, false},
		"BuyerCanPayNoMore":      {asked.seal(), payable + time.Minute, gateways.Declined, true},
		"ClockBehindTheProvider": {fresh.seal(), -time.Hour, gateways.Untouched, false},
	} {
		for _, body := range [][]byte{[]byte(`{"respCode":"2002","respDesc":"Transaction not found"}`), wrapped(simSecret, `{"respCode":"2002"}`)} {
			s.says(body)
			s.gw.now = func() time.Time { return made.Add(tc.after) }
			o, err := s.gw.Lookup(t.Context(), gateways.Query{ProviderPaymentID: invoice, MerchantReference: invoice, Currency: "THB", Private: tc.private})
			require.NoError(t, err, name)
			require.Equal(t, tc.want, o.Outcome, name)
			require.Equal(t, tc.final, o.Final, name)
			if o.Outcome != gateways.NotFound {
				require.Equal(t, int64(8050), o.AmountMinor, "the caller compares")
				require.Equal(t, invoice, o.ProviderPaymentID)
			}
		}
	}
	s.says(wrapped(simSecret, `{"respCode":"2002","invoiceNo":"OF2"}`))
	_, err := s.gw.Lookup(t.Context(), gateways.Query{ProviderPaymentID: invoice, Private: fresh.seal()})
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%v", err)
	s.says(wrapped(simSecret, `{"respCode":"2002","merchantID":"JT01"}`))
	_, err = s.gw.Lookup(t.Context(), gateways.Query{ProviderPaymentID: invoice, Private: fresh.seal()})
	require.True(t, fault.IsCode(err, fault.PaymentMismatch), "%v", err)
}

// TestInquiryResults walks every result code through a lookup.
func TestInquiryResults(t *testing.T) {
	t.Parallel()
	s := script(t, Options{})
	for _, r := range codeTable {
		for code := range strings.FieldsSeq(r.codes) {
			if r.result == saysAbsent {
				continue
			}
			s.says(wrapped(simSecret, `{"merchantID":"`+simMerchant+`","invoiceNo":"`+invoice+`","amount":"000000000080.50000","currencyCode":"THB","tranRef":"1","transactionDateTime":"20260110093005","respCode":"`+code+`"}`))
			o, err := s.gw.Lookup(t.Context(), gateways.Query{ProviderPaymentID: invoice, Currency: "THB", Private: freshToken().seal()})
			switch r.result {
			case saysPaid:
				require.NoError(t, err, code)
				require.Equal(t, gateways.Succeeded, o.Outcome)
				require.Equal(t, int64(8050), o.CapturedMinor)
				require.Equal(t, time.Date(2026, 1, 10, 2, 30, 5, 0, time.UTC), o.ProviderTime)
			case saysPending:
				require.NoError(t, err, code)
				require.Equal(t, gateways.Pending, o.Outcome)
			case saysDeclined, saysEnded:
				require.NoError(t, err, code)
				require.Equal(t, gateways.Declined, o.Outcome)
				require.True(t, o.Final)
				require.Equal(t, code, o.DeclineCode)
			case saysReview:
				require.True(t, fault.IsCode(err, fault.PaymentNeedsReview), "%s: %v", code, err)
			default:
				require.Equal(t, bareCode(code), fault.As(err).Code, code)
			}
			require.Equal(t, r.result != saysPaid, o.CapturedMinor == 0)
		}
	}
	// A decline is final only for who knows that the payment was not on the hosted page.
	s.says(wrapped(simSecret, `{"merchantID":"`+simMerchant+`","invoiceNo":"`+invoice+`","amount":80.50,"currencyCode":"THB","respCode":"4051"}`))
	o, err := s.gw.Lookup(t.Context(), gateways.Query{MerchantReference: invoice})
	require.NoError(t, err)
	require.False(t, o.Final)
	// Another merchant's payment under our own signature is nobody's to guess about.
	s.says(wrapped(simSecret, `{"merchantID":"JT01","invoiceNo":"`+invoice+`","amount":"80.50","currencyCode":"THB","respCode":"0000"}`))
	_, err = s.gw.Lookup(t.Context(), gateways.Query{MerchantReference: invoice})
	require.True(t, fault.IsCode(err, fault.PaymentMismatch), "%v", err)
	// Our own credentials are wrong: every order would fail alike.
	s.says([]byte(`{"respCode":"9042","respDesc":"Hash value mismatch"}`))
	_, err = s.gw.Lookup(t.Context(), gateways.Query{MerchantReference: invoice})
	require.True(t, fault.IsCode(err, fault.GatewayMisconfigured), "%v", err)
	// A payment just begun may not say its amount yet.
	s.says(wrapped(simSecret, `{"merchantID":"`+simMerchant+`","invoiceNo":"`+invoice+`","respCode":"2001"}`))
	o, err = s.gw.Lookup(t.Context(), gateways.Query{MerchantReference: invoice, Private: freshToken().seal()})
	require.NoError(t, err)
	require.Equal(t, gateways.Pending, o.Outcome)
	require.Equal(t, int64(8050), o.AmountMinor)
}

// TestCancelClosesOnlyWhenSigned: an unsigned "canceled" is looked up.
func TestCancelClosesOnlyWhenSigned(t *testing.T) {
	t.Parallel()
	s := script(t, Options{WrapAll: true})
	planned, err := s.gw.PlanCancel(invoice)
	require.NoError(t, err)
	op := gateways.Operation{Key: "k", ProviderPaymentID: invoice, Private: freshToken().seal(), Request: planned.Request}
	s.says(wrapped(simSecret, `{"respCode":"0000","invoiceNo":"`+invoice+`"}`))
	o, err := s.gw.Send(t.Context(), gateways.Cancel, op)
	require.NoError(t, err)
	require.True(t, o.Final)
	require.Equal(t, gateways.Declined, o.Outcome)
	var sent map[string]string
	_, body, _ := strings.Cut(s.last(), " application/json ")
	require.NoError(t, json.Unmarshal(claimsOf(t, []byte(body)), &sent))
	require.Equal(t, "tok+/=", sent["paymentToken"])

	for _, tc := range []struct {
		body []byte
		want fault.Code
	}{
		{[]byte(`{"respCode":"0000"}`), fault.PaymentAlready},
		{[]byte(`{"respCode":"9041"}`), fault.PaymentAlready},
		{[]byte(`{"respCode":"9040"}`), fault.PaymentAlready},
		{[]byte(`{"respCode":"9020"}`), fault.PaymentAlready},
		{wrapped(simSecret, `{"respCode":"0000","invoiceNo":"OF2"}`), fault.PaymentUnknown},
		{wrapped(simSecret+"2", `{"respCode":"0000"}`), fault.PaymentUnknown},
	} {
		s.says(tc.body)
		_, err := s.gw.Send(t.Context(), gateways.Cancel, op)
		require.True(t, fault.IsCode(err, tc.want), "%s: %v", tc.body, err)
	}
}
