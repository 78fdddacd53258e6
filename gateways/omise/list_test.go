package omise

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

var morning = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// pageOf serves one page of charges and says what was asked for.
func pageOf(t *testing.T, cursor string, to time.Duration, total int, charges ...string) (gateways.Page, map[string]any, error) {
	t.Helper()
	base, seen := scripted(t, 200, fmt.Sprintf(`{"object":"list","total":%d,"data":[%s]}`, total, strings.Join(charges, ",")))
	page, err := open(t, base).List(t.Context(), gateways.Window{From: morning.Add(300 * time.Millisecond), To: morning.Add(to), Cursor: cursor})
	asked := map[string]any{}
	select {
	case r := <-seen:
		body, readErr := io.ReadAll(r.Body)
		require.NoError(t, readErr)
		require.NoError(t, json.Unmarshal(body, &asked))
	default:
	}
	return page, asked, err
}

func chargeAt(id string) string { return strings.Replace(paidCharge, "chrg_test_1", id, 1) }

func TestAWindowOfChargesHasAFixedEnd(t *testing.T) {
	t.Parallel()
	page, asked, err := pageOf(t, "", time.Hour, 3, chargeAt("chrg_test_1"), chargeAt("chrg_test_2"))
	require.NoError(t, err)
	require.Equal(t, "chronological", asked["order"])
	require.Equal(t, "2026-01-02T03:00:00Z", asked["from"])
	require.Equal(t, "2026-01-02T03:59:59Z", asked["to"], "Omise counts the end in, the window does not")
	require.Equal(t, "2:chrg_test_2", page.Next)
	require.Len(t, page.Items, 2)

	// Of one time, over two pages: the second begins with the last one read.
	page, asked, err = pageOf(t, page.Next, time.Hour, 3, chargeAt("chrg_test_2"), chargeAt("chrg_test_3"))
	require.NoError(t, err)
	require.EqualValues(t, 1, asked["offset"])
	require.Len(t, page.Items, 1)
	require.Equal(t, "chrg_test_3", page.Items[0].Seen.ProviderPaymentID)
	require.Empty(t, page.Next)

	page, asked, err = pageOf(t, "", 400*time.Millisecond, 0)
	require.NoError(t, err)
	require.Equal(t, "2026-01-02T03:00:00Z", asked["to"])
	require.Empty(t, page.Items)
}

func TestAListThatMovedIsRefused(t *testing.T) {
	t.Parallel()
	for name, charges := range map[string][]string{
		"AnotherFirst": {chargeAt("chrg_test_9"), chargeAt("chrg_test_3")},
		"Nothing":      {},
	} {
		_, _, err := pageOf(t, "2:chrg_test_2", time.Hour, len(charges), charges...)
		require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%s: %v", name, err)
		require.Equal(t, "list_moved", fault.As(err).Why)
	}
	_, _, err := pageOf(t, "2:chrg_test_2", time.Hour, 9, chargeAt("chrg_test_2"))
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "more of nothing")
	for _, cursor := range []string{"2", "0:chrg_test_2", "-1:chrg_test_2", "2:tokn_1", "2:chrg_test_2:", "99999999999:chrg_test_2"} {
		_, _, err := pageOf(t, cursor, time.Hour, 0)
		require.True(t, fault.IsCode(err, fault.InternalError), cursor)
	}
}

func TestEveryChargeOfAPageIsReadOrNone(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]string{
		"NoTime":   strings.Replace(paidCharge, `"created_at"`, `"created"`, 1),
		"NoAmount": strings.Replace(paidCharge, `"amount":1500`, `"amount":0`, 1),
	} {
		_, _, err := pageOf(t, "", time.Hour, 2, chargeAt("chrg_test_2"), odd)
		require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%s: %v", name, err)
	}
	// What only a person may judge is listed, and claims nothing.
	page, _, err := pageOf(t, "", time.Hour, 1, strings.NewReplacer(
		`"status":"successful"`, `"status":"failed","failure_code":"brand_new"`, `"paid":true`, `"paid":false`, `"captured_amount":1500`, `"captured_amount":0`,
	).Replace(paidCharge))
	require.NoError(t, err)
	require.Equal(t, gateways.Unknown, page.Items[0].Seen.Outcome)
	require.Equal(t, "chrg_test_1", page.Items[0].Seen.ProviderPaymentID)
	require.Equal(t, "of-1", page.Items[0].Seen.MerchantReference)
	require.Equal(t, gateways.Test, page.Items[0].Seen.Account.Environment)
}
