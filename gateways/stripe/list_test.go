package stripe

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

func TestAWindowIsAskedForInWholeSeconds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to time.Duration
		gte, lt  string
	}{
		"Whole":  {0, 10 * time.Second, "1700000000", "1700000010"},
		"Within": {300 * time.Millisecond, 10*time.Second + 300*time.Millisecond, "1700000000", "1700000011"},
	} {
		t.Run(name, func(t *testing.T) {
			base, seen := scripted(t, 200, `{"object":"list","has_more":false,"data":[]}`)
			at := time.Unix(1_700_000_000, 0)
			page, err := open(t, base).List(t.Context(), gateways.Window{From: at.Add(c.from), To: at.Add(c.to), Cursor: "pi_7"})
			require.NoError(t, err)
			require.Empty(t, page.Items)
			require.Empty(t, page.Next)
			q := (<-seen).URL.Query()
			require.Equal(t, c.gte, q.Get("created[gte]"))
			require.Equal(t, c.lt, q.Get("created[lt]"))
			require.Equal(t, "pi_7", q.Get("starting_after"))
			require.Equal(t, "data.latest_charge", q.Get("expand[0]"), "refunds stand on the charge")
		})
	}
}

func TestAPageIsReadWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	const item = `{"id":"pi_1","object":"payment_intent","status":"succeeded","amount":80,"amount_received":80,"currency":"jpy",` +
		`"created":1700000000,"livemode":false,"metadata":{"merchant_reference":"of-1"},"latest_charge":{"id":"ch_1","object":"charge","amount_refunded":30}}`
	window := gateways.Window{From: time.Unix(1_700_000_000, 0), To: time.Unix(1_700_000_001, 0)}
	list := func(cursor, more, data string) (gateways.Page, error) {
		base, _ := scripted(t, 200, fmt.Sprintf(`{"object":"list","has_more":%s,"data":%s}`, more, data))
		window.Cursor = cursor
		return open(t, base).List(t.Context(), window)
	}
	page, err := list("", "true", "["+item+"]")
	require.NoError(t, err)
	require.Equal(t, "pi_1", page.Next)
	require.Len(t, page.Items, 1)
	require.True(t, page.Items[0].At.Equal(window.From))
	require.Equal(t, gateways.Succeeded, page.Items[0].Seen.Outcome)
	require.EqualValues(t, 30, page.Items[0].Seen.RefundedMinor)
	require.Equal(t, "of-1", page.Items[0].Seen.MerchantReference)

	for name, c := range map[string][3]string{
		"OneUnreadable":   {"", "false", `[` + item + `,{"id":"pi_2","object":"payment_intent"}]`},
		"OneNull":         {"", "false", `[` + item + `,null]`},
		"WithoutATime":    {"", "false", `[{"id":"pi_1","object":"payment_intent","status":"processing","amount":80,"currency":"jpy"}]`},
		"MoreOfNothing":   {"", "true", `[]`},
		"TheCursorItself": {"pi_1", "true", `[` + item + `]`},
		"NoData":          {"", "false", `null`},
	} {
		_, err := list(c[0], c[1], c[2])
		require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%s: %v", name, err)
	}
	_, err = list("../charges", "false", "[]")
	require.True(t, fault.IsCode(err, fault.InternalError))
}
