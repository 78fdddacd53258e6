package tosssim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/sandbox/tosssim"
)

const va = "pay_va__order-1__12345__KRW"

func TestAVirtualAccountFromIssueToCorrection(t *testing.T) {
	t.Parallel()
	for _, callbackFirst := range []bool{true, false} {
		b := setup(t)
		b.sim.Configure(func(s *tosssim.Settings) { s.CallbackFirst = callbackFirst })
		r := b.confirm("k", va, "order-1", "12345")
		require.Equal(t, "WAITING_FOR_DEPOSIT", r.m["status"])
		require.NotEmpty(t, r.m["secret"])
		require.Zero(t, b.captured("order-1"))
		require.Equal(t, []string{"DEPOSIT_CALLBACK WAITING_FOR_DEPOSIT"}, b.kinds())
		require.Equal(t, "NOT_ALLOWED_PARTIAL_REFUND_WAITING_DEPOSIT", b.cancel("c", va, `{"cancelReason":"x","cancelAmount":1}`).code())
		require.ErrorIs(t, b.sim.Correct(va), tosssim.ErrNotPaid)

		require.NoError(t, b.sim.Deposit(va))
		require.ErrorIs(t, b.sim.Deposit(va), tosssim.ErrNotWaiting)
		require.Equal(t, 1, b.captured("order-1"))
		both := []string{"DEPOSIT_CALLBACK DONE", "PAYMENT_STATUS_CHANGED DONE"}
		if !callbackFirst {
			both[0], both[1] = both[1], both[0]
		}
		require.Equal(t, both, b.kinds(), "two webhooks for one change")
		require.Equal(t, "INVALID_REFUND_ACCOUNT_INFO", b.cancel("c2", va, `{"cancelReason":"x"}`).code())

		require.NoError(t, b.sim.Correct(va))
		require.Equal(t, "WAITING_FOR_DEPOSIT", b.get(va).m["status"])
		require.Equal(t, []string{"DEPOSIT_CALLBACK WAITING_FOR_DEPOSIT"}, b.kinds())
		entry := b.sim.Charges(tosssim.Filter{MerchantReference: "order-1"})[0]
		require.True(t, entry.Corrected)
		require.Equal(t, entry.Captured, entry.Refunded)
	}
}

func TestADeadlinePassesInSilence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.confirm("k", va, "order-1", "12345")
	b.kinds()
	b.forward(169 * time.Hour)
	b.sim.Sweep()
	r := b.get(va)
	require.Equal(t, "WAITING_FOR_DEPOSIT", r.m["status"])
	require.Equal(t, true, r.m["virtualAccount"].(map[string]any)["expired"])
	require.Empty(t, b.kinds())
	require.ErrorIs(t, b.sim.Deposit(va), tosssim.ErrNotWaiting)
}

func TestAnOldAPIVersionCancelsOnCorrection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sim.Configure(func(s *tosssim.Settings) { s.CorrectionCancels = true })
	b.confirm("k", va, "order-1", "12345")
	require.NoError(t, b.sim.Deposit(va))
	require.NoError(t, b.sim.Correct(va))
	require.Equal(t, "CANCELED", b.get(va).m["status"])
}

func TestTransmissionIDsAreStableOrNotAsSet(t *testing.T) {
	t.Parallel()
	for _, stable := range []bool{true, false} {
		b := setup(t)
		b.sim.Configure(func(s *tosssim.Settings) { s.StableTransmissionID = stable })
		b.confirm("k", ok, "order-1", "12345")
		m := b.notices[0]
		first, resent := m.Header(time.Now(), 0), m.Header(time.Now(), 3)
		const id = "Tosspayments-Webhook-Transmission-Id"
		require.True(t, strings.HasPrefix(first.Get(id), "whtrans_"))
		require.Equal(t, stable, first.Get(id) == resent.Get(id))
		require.Equal(t, "3", resent.Get("Tosspayments-Webhook-Transmission-Retried-Count"))
		require.Empty(t, first.Get("Tosspayments-Webhook-Signature"), "payment events are unsigned")
		require.Equal(t, "toss", m.Gateway)
		require.Equal(t, b.sim.Account(testKey), m.Account)
	}
}

// follow answers a redirect without going there.
func (b *bench) form(path string, form url.Values) (int, string, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+path, strings.NewReader(form.Encode()))
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(b.t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	return res.StatusCode, res.Header.Get("Location"), string(raw)
}

func TestTheBuyersWindowSendsBackWhatTheCheckoutNeeds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	q := url.Values{
		"orderId": {"order-1"}, "amount": {"17.99"}, "currency": {"USD"}, "method": {"foreign_easy_pay"},
		"successUrl": {"https://shop.example/back?x=1"}, "failUrl": {"https://shop.example/fail"},
	}
	page := b.call(http.MethodGet, "/buyer/toss/checkout?"+q.Encode(), "", "")
	require.Equal(t, 200, page.status)
	require.Contains(t, page.body, `value="17.99"`)
	q.Set("verdict", "pass")
	status, location, _ := b.form("/buyer/toss/checkout", q)
	require.Equal(t, http.StatusSeeOther, status)
	u, err := url.Parse(location)
	require.NoError(t, err)
	back := u.Query()
	require.Equal(t, []string{"order-1", "17.99", "1"}, []string{back.Get("orderId"), back.Get("amount"), back.Get("x")})
	require.Equal(t, "DONE", b.confirm("k", back.Get("paymentKey"), "order-1", "17.99").m["status"])

	q.Set("verdict", "decline")
	q.Set("orderId", "order-2")
	_, location, _ = b.form("/buyer/toss/checkout", q)
	u, err = url.Parse(location)
	require.NoError(t, err)
	require.Equal(t, "REJECT_CARD_PAYMENT", b.confirm("k2", u.Query().Get("paymentKey"), "order-2", "17.99").code())

	q.Set("verdict", "fail")
	_, location, _ = b.form("/buyer/toss/checkout", q)
	require.True(t, strings.HasPrefix(location, "https://shop.example/fail?code=PAY_PROCESS_CANCELED"), location)

	for field, bad := range map[string]string{"amount": "17.999", "successUrl": "javascript:alert(1)", "orderId": "x", "method": "coins"} {
		spoiled := url.Values{}
		for k, v := range q {
			spoiled[k] = v
		}
		spoiled.Set("verdict", "pass")
		spoiled.Set(field, bad)
		status, _, _ := b.form("/buyer/toss/checkout", spoiled)
		require.Equal(t, http.StatusBadRequest, status, field)
	}
}

func TestTheBanksPageDepositsAndTakesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.confirm("k", va, "order-1", "12345")
	page := b.sim.BuyerURL(va)
	require.Equal(t, page, r.m["checkout"].(map[string]any)["url"])
	path := strings.TrimPrefix(page, b.url)
	require.Regexp(t, `^/buyer/toss/[A-Z2-7]+$`, path)
	require.Contains(t, b.call(http.MethodGet, path, "", "").body, "WAITING_FOR_DEPOSIT")
	status, location, _ := b.form(path+"/deposit", nil)
	require.Equal(t, http.StatusSeeOther, status)
	require.Equal(t, path, location)
	require.Equal(t, "DONE", b.get(va).m["status"])
	status, _, body := b.form(path+"/deposit", nil)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, body, "waits for no deposit")
	status, _, _ = b.form(path+"/correct", nil)
	require.Equal(t, http.StatusSeeOther, status)
	require.Equal(t, "WAITING_FOR_DEPOSIT", b.get(va).m["status"])
	for _, gone := range []string{"/buyer/toss/NOBODY", path + "/pay"} {
		status, _, _ = b.form(gone+"", nil)
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, status)
	}
}

func TestTransactionsHaveARowForEachApprovalAndCancel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.confirm("k", ok, "order-1", "12345")
	b.cancel("c", ok, `{"cancelReason":"x","cancelAmount":345}`)
	kst := time.FixedZone("KST", 9*3600)
	window := url.Values{
		"startDate": {time.Now().Add(-time.Hour).In(kst).Format("2006-01-02T15:04:05")},
		"endDate":   {time.Now().Add(time.Hour).In(kst).Format("2006-01-02T15:04:05")}, "limit": {"1"},
	}
	read := func(after string) (rows []map[string]any) {
		window.Set("startingAfter", after)
		r := b.call(http.MethodGet, "/v1/transactions?"+window.Encode(), "", "")
		require.NoError(t, json.Unmarshal([]byte(r.body), &rows), r.body)
		return rows
	}
	first := read("")
	require.Len(t, first, 1)
	require.EqualValues(t, 12345, first[0]["amount"])
	second := read(first[0]["transactionKey"].(string))
	require.EqualValues(t, -345, second[0]["amount"])
	require.Empty(t, read(second[0]["transactionKey"].(string)))
	window.Set("startingAfter", "nobody")
	require.Equal(t, "INVALID_TRANSACTION_KEY", b.call(http.MethodGet, "/v1/transactions?"+window.Encode(), "", "").code())
	require.Equal(t, "INVALID_REQUEST", b.call(http.MethodGet, "/v1/transactions", "", "").code())
}
