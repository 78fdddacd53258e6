package toss

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/money"
)

// seen reads one payment of 12,345 won as a lookup would.
func seen(t *testing.T, fields string) gateways.Observation {
	t.Helper()
	body := `{"paymentKey":"tgen_1","orderId":"order-1","currency":"KRW","totalAmount":12345,` + fields + `}`
	p, ok := decodePayment(answer{status: 200, body: []byte(body)})
	require.True(t, ok, body)
	return opened(t, nil).observe(p, http.Header{})
}

func TestEveryStatusHasItsOutcome(t *testing.T) {
	t.Parallel()
	const (
		whole  = `,"balanceAmount":12345`
		none   = `,"balanceAmount":0`
		at     = `,"approvedAt":"2026-06-05T16:58:18+09:00"`
		cancel = `,"cancels":[{"cancelAmount":12345,"canceledAt":"2026-06-06T10:00:00+09:00","cancelStatus":"DONE"}]`
		va     = `,"virtualAccount":{"accountNumber":"X1","bankCode":"20","customerName":"h","dueDate":"2026-12-01T23:59:59+09:00","expired":%t}`
	)
	type want struct {
		outcome            gateways.Outcome
		final              bool
		captured, refunded int64
		code               string
	}
	for name, c := range map[string]struct {
		fields string
		want   want
	}{
		"Ready":              {`"status":"READY"` + whole, want{outcome: gateways.Untouched}},
		"InProgress":         {`"status":"IN_PROGRESS"` + whole, want{outcome: gateways.Untouched}},
		"Waiting":            {`"status":"WAITING_FOR_DEPOSIT"` + whole + fmt.Sprintf(va, false), want{outcome: gateways.Pending}},
		"WaitingExpired":     {`"status":"WAITING_FOR_DEPOSIT"` + whole + fmt.Sprintf(va, true), want{outcome: gateways.Declined, final: true, code: "EXPIRED"}},
		"WaitingNoAccount":   {`"status":"WAITING_FOR_DEPOSIT","virtualAccount":null` + whole, want{outcome: gateways.Pending}},
		"Done":               {`"status":"DONE"` + whole + at, want{outcome: gateways.Succeeded, captured: 12345}},
		"DoneText":           {`"status":"DONE","balanceAmount":"12345"` + at, want{outcome: gateways.Succeeded, captured: 12345}},
		"DoneExponent":       {`"status":"DONE","balanceAmount":1.2345E4` + at, want{outcome: gateways.Succeeded, captured: 12345}},
		"DoneNoBalance":      {`"status":"DONE"` + at, want{outcome: gateways.Unknown}},
		"DoneMoreLeft":       {`"status":"DONE","balanceAmount":12346` + at, want{outcome: gateways.Unknown}},
		"PartCanceled":       {`"status":"PARTIAL_CANCELED","balanceAmount":345` + at + cancel, want{outcome: gateways.Succeeded, captured: 12345, refunded: 12000}},
		"PartCanceledToZero": {`"status":"PARTIAL_CANCELED"` + none + at + cancel, want{outcome: gateways.Succeeded, captured: 12345, refunded: 12345}},
		"CanceledPaid":       {`"status":"CANCELED"` + none + at + cancel, want{outcome: gateways.Succeeded, captured: 12345, refunded: 12345}},
		"CanceledPaidLeft":   {`"status":"CANCELED"` + whole + at + cancel, want{outcome: gateways.Unknown}},
		"CanceledNeverPaid":  {`"status":"CANCELED","approvedAt":null` + none + cancel, want{outcome: gateways.Declined, final: true, code: "CANCELED"}},
		"CanceledByCorrection": {
			`"status":"CANCELED","cancels":null` + none + at,
			want{outcome: gateways.Declined, final: true, code: "CANCELED"},
		},
		"Aborted":       {`"status":"ABORTED","failure":{"code":"REJECT_CARD_COMPANY","message":"x"}` + whole, want{outcome: gateways.Declined, final: true, code: "REJECT_CARD_COMPANY"}},
		"AbortedNull":   {`"status":"ABORTED","failure":null`, want{outcome: gateways.Declined, final: true, code: "ABORTED"}},
		"Expired":       {`"status":"EXPIRED","failure":{"code":"EXPIRED_PAYMENT","message":"x"}`, want{outcome: gateways.Declined, final: true, code: "EXPIRED_PAYMENT"}},
		"NewStatus":     {`"status":"REVIEW"` + whole + at, want{outcome: gateways.Unknown}},
		"LowerCase":     {`"status":"done"` + whole + at, want{outcome: gateways.Unknown}},
		"StatusOfWords": {`"status":"it is done"` + whole + at, want{outcome: gateways.Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			o := seen(t, c.fields)
			require.Equal(t, c.want, want{o.Outcome, o.Final, o.CapturedMinor, o.RefundedMinor, o.DeclineCode})
			require.Equal(t, "order-1", o.MerchantReference)
			require.Equal(t, "tgen_1", o.ProviderPaymentID)
			require.EqualValues(t, 12345, o.AmountMinor)
			require.NotContains(t, o.Status, " ")
			if o.Final {
				require.Zero(t, o.CapturedMinor, "final means that nothing was captured")
			}
		})
	}
}

func TestEveryStatusHasARow(t *testing.T) {
	t.Parallel()
	all := strings.Fields("READY IN_PROGRESS WAITING_FOR_DEPOSIT DONE PARTIAL_CANCELED CANCELED ABORTED EXPIRED")
	require.Len(t, verdicts, len(all))
	for _, s := range all {
		require.Contains(t, verdicts, s)
	}
}

// The published case of an issued account that a shop showed as paid.
func TestAnIssuedAccountIsSomethingToDoAndNotPaid(t *testing.T) {
	t.Parallel()
	o := seen(t, `"status":"WAITING_FOR_DEPOSIT","virtualAccount":{"dueDate":"2026-12-01T23:59:59+09:00","accountNumber":"X6505636518308",
		"bankCode":"20","customerName":"토스"},"secret":"ps_a"`)
	require.Equal(t, gateways.Pending, o.Outcome)
	require.Zero(t, o.CapturedMinor)
	require.Equal(t, &gateways.NextAction{
		Type: "transfer", Bank: "20", Account: "X6505636518308", Holder: "토스", Due: "2026-12-01T23:59:59+09:00",
	}, o.NextAction)
	require.True(t, o.Private.Equal("ps_a"))
}

func TestAnEmptySecretIsNoSecret(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{``, `,"secret":null`, `,"secret":""`} {
		require.True(t, seen(t, `"status":"IN_PROGRESS"`+fields).Private.IsZero(), fields)
	}
}

func TestProviderTimeIsTheLastThingThatHappenedToTheMoney(t *testing.T) {
	t.Parallel()
	approved := time.Date(2026, 6, 5, 7, 58, 18, 0, time.UTC)
	for name, c := range map[string]struct {
		fields string
		want   time.Time
	}{
		"Approved": {`"status":"DONE","balanceAmount":12345,"approvedAt":"2026-06-05T16:58:18+09:00"`, approved},
		"NoOffset": {`"status":"DONE","balanceAmount":12345,"approvedAt":"2026-06-05T16:58:18"`, approved},
		"Canceled": {`"status":"PARTIAL_CANCELED","balanceAmount":1,"approvedAt":"2026-06-05T16:58:18+09:00",
			"cancels":[{"canceledAt":"2026-06-05T17:58:18+09:00"},{"canceledAt":null}]`, approved.Add(time.Hour)},
		"None":    {`"status":"IN_PROGRESS","approvedAt":null`, time.Time{}},
		"Rubbish": {`"status":"DONE","balanceAmount":12345,"approvedAt":"yesterday"`, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, seen(t, c.fields).ProviderTime)
		})
	}
}

func TestNumbersAreExactOrRefused(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		currency string
		minor    int64
		ok       bool
	}{
		`12345`:                    {"KRW", 12345, true},
		`12345.00`:                 {"KRW", 12345, true},
		`"12345"`:                  {"KRW", 12345, true},
		`1.0E7`:                    {"KRW", 10_000_000, true},
		`1e-1`:                     {"KRW", 0, false},
		`80.5`:                     {"JPY", 0, false},
		`17.99`:                    {"USD", 1799, true},
		`0.1`:                      {"USD", 10, true},
		`17.999`:                   {"USD", 0, false},
		`-5`:                       {"KRW", -5, true},
		`null`:                     {"KRW", 0, false},
		`""`:                       {"KRW", 0, false},
		`"1,500"`:                  {"KRW", 0, false},
		`{}`:                       {"KRW", 0, false},
		`99999999999999999`:        {"USD", 0, false},
		`1e99`:                     {"KRW", 0, false},
		`1e999999999`:              {"KRW", 0, false},
		`12345678901234567890`:     {"KRW", 0, false},
		`0.000000000000000000001`:  {"USD", 0, false},
		`"1E7"`:                    {"ZZZ", 0, false},
		strings.Repeat("9", 5_000): {"KRW", 0, false},
	} {
		var d decimal
		require.NoError(t, d.UnmarshalJSON([]byte(text)), text)
		minor, ok := d.minor(money.Currency(c.currency))
		require.Equal(t, c.ok, ok, text)
		if c.ok {
			require.Equal(t, c.minor, minor, text)
		}
	}
}
