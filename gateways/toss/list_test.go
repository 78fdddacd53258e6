package toss

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/sandbox/tosssim"
)

// Rows of one second, over several pages, with refunds between: each comes exactly once.
func TestTheListingHasEveryRowOnce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 6, 5, 7, 58, 18, 0, time.UTC)
	s := startSimulated(t, func(c *tosssim.Config) { c.Now = func() time.Time { return at } })
	var y try
	want := map[string]int64{}
	for i := range 25 {
		y = s.begin(t, "pay_ok", fmt.Sprintf("order-%02d", i), won(1000))
		_, err := y.confirm(t)
		require.NoError(t, err)
		want[y.ref] = 1000
		if i%5 == 0 {
			_, err = y.refund(t, "r-"+y.ref, won(300), won(1000), gateways.Payout{})
			require.NoError(t, err)
			want[y.ref] = 700
		}
	}
	got, pages, after := map[string]int64{}, 0, ""
	keys := map[string]bool{}
	for {
		rows, err := y.gw.Transactions(t.Context(), TransactionWindow{From: at, To: at, After: after, Limit: 7})
		require.NoError(t, err)
		pages++
		for _, r := range rows {
			require.False(t, keys[r.Key], "twice")
			keys[r.Key] = true
			require.Equal(t, money.Currency("KRW"), r.Amount.Currency)
			require.True(t, r.At.Equal(at))
			require.NotEmpty(t, r.PaymentID)
			got[r.Reference] += r.Amount.Minor
			after = r.Key
		}
		if len(rows) < 7 {
			break
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, 5, pages)

	rows, err := y.gw.Transactions(t.Context(), TransactionWindow{From: at.Add(time.Minute), To: at.Add(time.Hour)})
	require.NoError(t, err)
	require.Empty(t, rows)
	_, err = y.gw.Transactions(t.Context(), TransactionWindow{From: at, To: at, After: "txn_none"})
	require.Equal(t, fault.PaymentInvalid, code(t, err))
	for _, w := range []TransactionWindow{{}, {From: at, To: at.Add(-time.Second)}, {From: at, To: at, Limit: 5001}, {From: at, To: at, Limit: -1}} {
		_, err = y.gw.Transactions(t.Context(), w)
		require.Equal(t, fault.InternalError, code(t, err))
	}
}

// The seam's listing: every approval in the window once, over pages; a cancel's row names its payment and claims nothing.
func TestListPagesThroughAWindow(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 6, 5, 7, 58, 18, 500_000_000, time.UTC)
	s := startSimulated(t, func(c *tosssim.Config) { c.Now = func() time.Time { return at } })
	const payments = listPage + 3
	var y try
	for i := range payments {
		y = s.begin(t, "pay_ok", fmt.Sprintf("order-%04d", i), won(1000))
		_, err := y.confirm(t)
		require.NoError(t, err)
	}
	require.NoError(t, s.sim.Refund(y.p.Method.Token, 300))
	w := gateways.Window{From: at.Add(-time.Minute), To: at.Add(time.Minute)}
	seen, moved, pages := map[string]bool{}, 0, 0
	for {
		page, err := y.gw.List(t.Context(), w)
		require.NoError(t, err)
		pages++
		for _, item := range page.Items {
			o := item.Seen
			require.Equal(t, y.gw.Account(), o.Account)
			if o.Outcome != gateways.Succeeded {
				require.Equal(t, gateways.Unknown, o.Outcome)
				require.Equal(t, y.ref, o.MerchantReference)
				moved++
				continue
			}
			require.False(t, seen[o.MerchantReference], "twice")
			seen[o.MerchantReference] = true
			require.EqualValues(t, 1000, o.CapturedMinor)
		}
		if page.Next == "" {
			break
		}
		w.Cursor = page.Next
	}
	require.Len(t, seen, payments)
	require.Equal(t, []int{1, 2}, []int{moved, pages})

	for _, outside := range []gateways.Window{
		{From: at.Add(time.Second), To: at.Add(time.Minute)}, {From: at.Add(-time.Minute), To: at.Truncate(time.Second)},
	} {
		page, err := y.gw.List(t.Context(), outside)
		require.NoError(t, err)
		require.Empty(t, page.Items, "from inclusive, to exclusive")
	}
}

// Whether Toss counts the ends of a window as ours is not documented, and a row can say anything.
func TestListLeavesOutWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	y := begin(t, "pay_ok", "order-1", won(12345))
	row := func(key, status string, amount int, at string) string {
		return fmt.Sprintf(`{"transactionKey":%q,"paymentKey":"tgen_1","orderId":"order-1","status":%q,"currency":"KRW","amount":%d,"transactionAt":%q}`, key, status, amount, at)
	}
	y.Arm(t, gatewaytest.Fault{Kind: gatewaytest.Answer, On: gatewaytest.Lookup, Body: []byte("[" + strings.Join([]string{
		row("t1", "DONE", 1, "2026-06-05T08:59:59+09:00"), row("t2", "DONE", 2, "2026-06-05T09:00:00+09:00"),
		row("t3", "CANCELED", 3, "2026-06-05T09:30:00+09:00"), row("t4", "DONE", -4, "2026-06-05T09:30:00+09:00"),
		row("t5", "WAITING_FOR_DEPOSIT", 5, "2026-06-05T09:30:00+09:00"), row("t6", "DONE", 6, "2026-06-05T10:00:00+09:00"),
	}, ",") + "]")})
	page, err := y.gw.List(t.Context(), gateways.Window{
		From: time.Date(2026, 6, 5, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 6, 5, 1, 0, 0, 0, time.UTC),
	})
	require.NoError(t, err)
	require.Empty(t, page.Next)
	var captured []int64
	for _, item := range page.Items {
		require.Equal(t, item.Seen.Outcome == gateways.Succeeded, item.Seen.CapturedMinor > 0)
		captured = append(captured, item.Seen.CapturedMinor)
	}
	require.Equal(t, []int64{2, 0, 0, 0}, captured)
}

func TestAPageWithOneUnreadableRowIsNoPage(t *testing.T) {
	t.Parallel()
	const row = `{"transactionKey":"t1","paymentKey":"tgen_1","orderId":"order-1","status":"DONE","currency":"USD","amount":17.99,"transactionAt":"2026-06-05T16:58:18+09:00"}`
	rows, ok := decodeTransactions([]byte(`[` + row + `]`))
	require.True(t, ok)
	require.EqualValues(t, 1799, rows[0].Amount.Minor)
	for name, body := range map[string]string{
		"Object": `{}`, "Null": `null`, "NullRow": `[` + row + `,null]`,
		"NoAmount": `[` + row + `,{"transactionKey":"t2","paymentKey":"tgen_1","currency":"USD","transactionAt":"2026-06-05T16:58:18+09:00"}]`,
		"Fraction": `[{"transactionKey":"t2","paymentKey":"tgen_1","currency":"KRW","amount":0.5,"transactionAt":"2026-06-05T16:58:18+09:00"}]`,
	} {
		_, ok := decodeTransactions([]byte(body))
		require.False(t, ok, name)
	}
}
