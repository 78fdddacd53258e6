package stripesim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v76/webhook"

	"orderflow/internal/secret"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/stripesim"
)

const (
	konbini  = "amount=1500&currency=jpy&payment_method_types[]=konbini&payment_method=pm_konbini__a"
	transfer = "amount=1500&currency=jpy&payment_method_types[]=customer_balance&payment_method=pm_bank_transfer__a&customer=cus_1" +
		"&payment_method_options[customer_balance][funding_type]=bank_transfer&payment_method_options[customer_balance][bank_transfer][type]=jp_bank_transfer"
	hookKey = "whsec_sandbox"
)

// shop is a simulator whose webhooks are kept.
type shop struct {
	*stripesim.Sim
	clock
	notices []notify.Message
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{}
	var err error
	s.Sim, err = stripesim.New(stripesim.Config{
		Keys: []secret.Value{secret.New("sk_test_a")}, Now: s.now, WebhookSecret: secret.New(hookKey),
		OnNotice: func(m notify.Message) { s.notices = append(s.notices, m) },
	})
	require.NoError(t, err)
	return s
}

func (s *shop) kinds() string {
	var out []string
	for _, n := range s.notices {
		out = append(out, n.Kind)
	}
	return strings.Join(out, " ")
}

func (s *shop) call(t *testing.T, method, path, form string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form))
	r.Header.Set("Authorization", "Bearer sk_test_a")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var body map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	return w.Code, body
}

// waits makes an intent that waits for its buyer, and returns it.
func (s *shop) waits(t *testing.T, form string) (string, map[string]any) {
	t.Helper()
	status, in := s.call(t, "POST", "/v1/payment_intents", form)
	require.Equal(t, 200, status, "%v", in)
	id := in["id"].(string)
	status, in = s.call(t, "POST", "/v1/payment_intents/"+id+"/confirm", "")
	require.Equal(t, 200, status, "%v", in)
	require.Equal(t, "requires_action", in["status"])
	return id, in["next_action"].(map[string]any)
}

func (s *shop) read(t *testing.T, id string) map[string]any {
	t.Helper()
	_, in := s.call(t, "GET", "/v1/payment_intents/"+id, "")
	return in
}

// press is a click on the buyer's page.
func (s *shop) press(t *testing.T, page, button string) (int, string) {
	t.Helper()
	u, err := url.Parse(page)
	require.NoError(t, err)
	method, path := http.MethodGet, u.Path
	if button != "" {
		method, path = http.MethodPost, path+"/"+button
	}
	w := httptest.NewRecorder()
	s.Buyer().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func TestAVoucherIsPaidAtTheCounterOrExpires(t *testing.T) {
	t.Parallel()
	t.Run("Paid", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		id, next := s.waits(t, konbini)
		details := next["konbini_display_details"].(map[string]any)
		page := details["hosted_voucher_url"].(string)
		lawson := details["stores"].(map[string]any)["lawson"].(map[string]any)
		require.Len(t, lawson["confirmation_number"], 11)
		require.Len(t, lawson["payment_code"], 6)
		due := time.Unix(int64(details["expires_at"].(float64)), 0).In(time.FixedZone("JST", 9*3600))
		require.Equal(t, "2023-11-18 23:59:59", due.Format(time.DateTime), "three days from November 15 in Japan")
		status, html := s.press(t, page, "")
		require.Equal(t, 200, status)
		require.Contains(t, html, "1500 JPY")
		require.Contains(t, html, "Pay at the counter")
		status, _ = s.press(t, page, "part")
		require.Equal(t, 404, status, "a voucher is paid whole")
		status, _ = s.press(t, page, "pass")
		require.Equal(t, 200, status)
		require.Equal(t, "succeeded", s.read(t, id)["status"])
		status, _ = s.press(t, page, "pass")
		require.Equal(t, http.StatusGone, status)
		require.Len(t, s.Charges(stripesim.Filter{Intent: id, CapturedOnly: true}), 1)
		require.Equal(t, "payment_intent.created payment_intent.requires_action charge.succeeded payment_intent.succeeded", s.kinds())
	})
	t.Run("ExpiredByTheClock", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		id, next := s.waits(t, konbini+"&payment_method_options[konbini][expires_after_days]=1")
		page := next["konbini_display_details"].(map[string]any)["hosted_voucher_url"].(string)
		s.advance(48 * time.Hour)
		status, _ := s.press(t, page, "pass")
		require.Equal(t, http.StatusGone, status)
		in := s.read(t, id)
		require.Equal(t, "requires_payment_method", in["status"])
		require.Equal(t, "payment_intent_payment_attempt_expired", in["last_payment_error"].(map[string]any)["code"])
		require.Nil(t, in["payment_method"])
		require.False(t, s.Challenge(id, true))
		require.Empty(t, s.Charges(stripesim.Filter{}))
	})
	t.Run("ExpiredByHand", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		id, _ := s.waits(t, konbini)
		require.True(t, s.Challenge(id, false))
		require.Equal(t, "requires_payment_method", s.read(t, id)["status"])
		require.True(t, strings.HasSuffix(s.kinds(), "payment_intent.requires_action payment_intent.payment_failed"), s.kinds())
	})
	t.Run("Canceled", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		id, _ := s.waits(t, konbini)
		status, _ := s.call(t, "POST", "/v1/payment_intents/"+id+"/cancel", "")
		require.Equal(t, 200, status)
		s.advance(30 * 24 * time.Hour)
		require.Equal(t, "canceled", s.read(t, id)["status"], "what is canceled does not expire")
		require.False(t, s.Challenge(id, true))
	})
}

func TestABankTransferMayComeInParts(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id, next := s.waits(t, transfer)
	instructions := func() map[string]any {
		return s.read(t, id)["next_action"].(map[string]any)["display_bank_transfer_instructions"].(map[string]any)
	}
	require.Equal(t, "display_bank_transfer_instructions", next["type"])
	require.EqualValues(t, 1500, instructions()["amount_remaining"])
	zengin := instructions()["financial_addresses"].([]any)[0].(map[string]any)["zengin"].(map[string]any)
	require.Equal(t, "1234567", zengin["account_number"])

	require.True(t, s.Transfer(id, 500))
	require.Equal(t, "requires_action", s.read(t, id)["status"])
	require.EqualValues(t, 0, s.read(t, id)["amount_received"])
	require.EqualValues(t, 1000, instructions()["amount_remaining"])
	page := instructions()["hosted_instructions_url"].(string)
	status, html := s.press(t, page, "")
	require.Equal(t, 200, status)
	require.Contains(t, html, "1000 JPY")
	status, _ = s.press(t, page, "part")
	require.Equal(t, 200, status)
	require.EqualValues(t, 500, instructions()["amount_remaining"])
	status, _ = s.press(t, page, "fail")
	require.Equal(t, 404, status, "a transfer cannot be refused")
	require.False(t, s.Challenge(id, false))
	require.True(t, s.Transfer(id, 700), "too much is enough")
	in := s.read(t, id)
	require.Equal(t, "succeeded", in["status"])
	require.EqualValues(t, 1500, in["amount_received"])
	require.False(t, s.Transfer(id, 1), "it waits no more")
	require.Equal(t, 2, strings.Count(s.kinds(), "payment_intent.partially_funded"))
	require.Equal(t, 3, strings.Count(s.kinds(), "customer_cash_balance_transaction.created"))
	require.Len(t, s.Charges(stripesim.Filter{Intent: id, CapturedOnly: true}), 1)
}

func TestWhatVouchersAndTransfersRefuse(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name, form := range map[string]string{
		"KonbiniInDollars":     strings.Replace(konbini, "jpy", "usd", 1),
		"CardForKonbini":       strings.Replace(konbini, "pm_konbini__a", "pm_card_visa", 1),
		"KonbiniForCard":       strings.Replace(konbini, "[]=konbini", "[]=card", 1),
		"SixtyOneDays":         konbini + "&payment_method_options[konbini][expires_after_days]=61",
		"NoCustomer":           strings.Replace(transfer, "&customer=cus_1", "", 1),
		"TransferTypeOfOther":  strings.Replace(transfer, "jp_bank_transfer", "us_bank_transfer", 1),
		"OtherFunding":         strings.Replace(transfer, "funding_type]=bank_transfer", "funding_type]=cash", 1),
		"MethodDataBeside":     transfer + "&payment_method_data[type]=customer_balance",
		"MethodDataOfCard":     "amount=5&currency=jpy&payment_method_types[]=card&payment_method_data[type]=card",
		"UnknownPaymentMethod": strings.Replace(konbini, "pm_konbini__a", "pm_konbinis", 1),
	} {
		status, body := s.call(t, "POST", "/v1/payment_intents", form)
		require.Equal(t, 400, status, "%s: %v", name, body)
	}
	require.Empty(t, s.notices)

	unfunded, _, _ := strings.Cut(transfer, "&payment_method_options")
	_, in := s.call(t, "POST", "/v1/payment_intents", unfunded)
	status, body := s.call(t, "POST", "/v1/payment_intents/"+in["id"].(string)+"/confirm", "")
	require.Equal(t, 400, status)
	require.Equal(t, "parameter_missing", body["error"].(map[string]any)["code"])

	_, in = s.call(t, "POST", "/v1/payment_intents", konbini)
	status, body = s.call(t, "POST", "/v1/payment_intents/"+in["id"].(string)+"/confirm", "error_on_requires_action=true")
	require.Equal(t, 402, status)
	require.Equal(t, "payment_intent_action_required", body["error"].(map[string]any)["code"])
}

func TestACustomerBalanceNeedsNoPaymentMethod(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, next := s.waits(t, strings.Replace(transfer, "payment_method=pm_bank_transfer__a", "payment_method_data[type]=customer_balance", 1))
	require.Equal(t, "display_bank_transfer_instructions", next["type"])
}

func TestWebhooksAreSignedAnewForEachTry(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id, _ := s.waits(t, konbini)
	require.Len(t, s.notices, 2)
	for _, n := range s.notices {
		require.Equal(t, "stripe", n.Gateway)
		require.NotEmpty(t, n.Account)
		at := time.Now()
		for try := range 2 {
			header := n.Header(at.Add(time.Duration(try)*time.Second), try)
			// Stripe's own library judges.
			event, err := webhook.ConstructEvent(n.Body, header.Get("Stripe-Signature"), hookKey)
			require.NoError(t, err)
			require.Equal(t, n.Kind, string(event.Type))
			require.Equal(t, id, event.Data.Object["id"])
			require.True(t, strings.HasPrefix(header.Get("Stripe-Signature"), fmt.Sprintf("t=%d,", at.Unix()+int64(try))))
		}
		_, err := webhook.ConstructEvent(n.Body, n.Header(at, 0).Get("Stripe-Signature"), "whsec_other")
		require.Error(t, err)
	}
	_, err := stripesim.New(stripesim.Config{Keys: []secret.Value{secret.New("sk_test_a")}, OnNotice: func(notify.Message) {}})
	require.ErrorContains(t, err, "whsec_")
}
