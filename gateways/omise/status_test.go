package omise

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

func charged(t *testing.T, fields string) (*charge, bool) {
	t.Helper()
	return readCharge([]byte(`{"object":"charge","id":"chrg_test_1","amount":1500,"currency":"JPY",` + fields + `}`))
}

func TestEveryStatus(t *testing.T) {
	t.Parallel()
	g := &Gateway{now: time.Now}
	for name, c := range map[string]struct {
		fields  string
		outcome gateways.Outcome
		final   bool
	}{
		"Paid":                   {`"status":"successful","paid":true,"captured_amount":1500`, gateways.Succeeded, false},
		"PaidWithoutAmount":      {`"status":"successful","paid":true`, gateways.Succeeded, false},
		"PaidByTheBuyer":         {`"status":"successful","paid":true,"capture":true,"captured_amount":0`, gateways.Succeeded, false},
		"CapturedInPart":         {`"status":"successful","paid":true,"capture":false,"captured_amount":700`, gateways.Succeeded, false},
		"Waiting":                {`"status":"pending","paid":false`, gateways.Pending, false},
		"Held":                   {`"status":"pending","authorized":true,"capture":false,"paid":false`, gateways.Pending, false},
		"Declined":               {`"status":"failed","failure_code":"insufficient_fund"`, gateways.Declined, true},
		"Expired":                {`"status":"expired","expired":true`, gateways.Declined, true},
		"Reversed":               {`"status":"reversed","reversed":true`, gateways.Declined, true},
		"SuccessfulUnpaid":       {`"status":"successful","paid":false`, gateways.Unknown, false},
		"SuccessfulNothingTaken": {`"status":"successful","paid":true,"capture":false,"captured_amount":0`, gateways.Unknown, false},
		"SuccessfulUnpaidTaken":  {`"status":"successful","paid":false,"captured_amount":1500`, gateways.Unknown, false},
		"PendingPaid":            {`"status":"pending","paid":true`, gateways.Unknown, false},
		"PendingExpired":         {`"status":"pending","expired":true`, gateways.Unknown, false},
		"PendingReversed":        {`"status":"pending","authorized":true,"reversed":true`, gateways.Unknown, false},
		"FailedPaid":             {`"status":"failed","failure_code":"insufficient_fund","paid":true`, gateways.Unknown, false},
		"ExpiredTaken":           {`"status":"expired","captured_amount":1`, gateways.Unknown, false},
		"ReversedPaid":           {`"status":"reversed","paid":true`, gateways.Unknown, false},
		"NewStatus":              {`"status":"REVIEW"`, gateways.Unknown, false},
		"NoStatus":               {`"paid":true`, gateways.Unknown, false},
		"NullStatus":             {`"status":null`, gateways.Unknown, false},
	} {
		ch, ok := charged(t, c.fields)
		require.True(t, ok, name)
		for _, v := range []verb{gateways.Confirm, gateways.Cancel, read} {
			require.Equal(t, verdict{outcome: c.outcome, final: c.final}, g.judge(v, ch), "%s of %s", v, name)
		}
	}
}

// What each failure code becomes at once, after a fresh read, and after a read some time later. "" is a person's.
func TestEveryFailureCode(t *testing.T) {
	t.Parallel()
	rows := maps.Clone(failures)
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	no, maybe, person := gateways.Declined, gateways.Unknown, gateways.Outcome("")
	for code, want := range map[string][3]gateways.Outcome{
		"insufficient_fund":         {no, no, no},
		"insufficient_balance":      {no, no, no},
		"stolen_or_lost_card":       {no, no, no},
		"payment_rejected":          {no, no, no},
		"invalid_security_code":     {no, no, no},
		"failed_fraud_check":        {no, no, no},
		"invalid_account_number":    {no, no, no},
		"invalid_account":           {no, no, no},
		"expired_card":              {no, no, no},
		"payment_cancelled":         {no, no, no},
		"failed_processing":         {maybe, no, no},
		"timeout":                   {maybe, maybe, no},
		"confirmed_amount_mismatch": {person, person, person},
		"brand_new":                 {person, person, person},
		"":                          {person, person, person},
	} {
		ch, ok := charged(t, fmt.Sprintf(`"status":"failed","failure_code":%q,"paid":false,"created_at":"2026-01-02T03:04:05Z"`, code))
		require.True(t, ok)
		for i, at := range []struct {
			v   verb
			age time.Duration
		}{{gateways.Confirm, time.Hour}, {read, time.Second}, {read, timeoutSettles}} {
			g := &Gateway{now: func() time.Time { return made.Add(at.age) }}
			o, err := g.observe(at.v, ch, answer{status: 200})
			if want[i] == person {
				require.True(t, fault.IsCode(err, fault.PaymentNeedsReview), "%q: %v", code, err)
				require.Equal(t, code, fault.As(err).Provider.Detail)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want[i], o.Outcome, "%q, case %d", code, i)
			require.Equal(t, want[i] == no, o.Final)
			if want[i] == no {
				require.Equal(t, code, o.DeclineCode)
			}
		}
		delete(rows, code)
	}
	require.Empty(t, rows, "rows without an expectation")
}

func TestAmountsAreWholeNumbersOrNothing(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{
		`"amount":1500.5`, `"amount":"1500"`, `"amount":-1`, `"amount":0`, `"amount":1e3`, `"amount":9223372036854775808`,
		`"captured_amount":-1`, `"captured_amount":0.5`, `"captured_amount":"1500"`, `"refunded_amount":-1`, `"authorized_amount":-1`,
		`"currency":"YEN!"`, `"currency":7`, `"id":"chrg_"`, `"object":"refund"`, `"livemode":"false"`,
	} {
		_, ok := charged(t, `"status":"successful","paid":true,`+fields)
		require.False(t, ok, fields)
	}
	for fields, want := range map[string][3]int64{
		`"status":"pending","authorized":true,"authorized_amount":1000`:                 {1000, 0, 0},
		`"status":"pending","authorized":true`:                                          {1500, 0, 0},
		`"status":"pending"`:                                                            {0, 0, 0},
		`"status":"successful","paid":true,"captured_amount":1500,"refunded_amount":20`: {0, 1500, 20},
		`"status":"successful","captured":true,"refunded":20`:                           {0, 1500, 20},
		`"status":"successful","paid":true,"refunded":true`:                             {0, 1500, 0},
		`"status":"successful","paid":true,"authorized":true,"captured_amount":700`:     {0, 700, 0},
	} {
		ch, ok := charged(t, fields)
		require.True(t, ok, fields)
		require.Equal(t, want, [3]int64{ch.held(), ch.taken(), ch.refunded()}, fields)
	}
}

func TestModesAreTheAnswers(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]gateways.Environment{
		`"livemode":false`:                      gateways.Test,
		`"livemode":true`:                       gateways.Live,
		`"status":"pending"`:                    gateways.Test, // by the id
		`"id":"chrg_5abc"`:                      gateways.Live,
		`"id":"chrg_5abc","livemode":false`:     gateways.Test,
		`"id":"chrg_test_5abc","livemode":null`: gateways.Test,
	} {
		ch, ok := charged(t, fields)
		require.True(t, ok)
		require.Equal(t, want, ch.environment(), fields)
	}
}

func TestWhatTheBuyerHasToDo(t *testing.T) {
	t.Parallel()
	const page, code = `"https://pay.example/a"`, `"https://api.example/qr.png"`
	scan := func(uri string) string {
		return `"source":{"type":"promptpay","scannable_code":{"image":{"download_uri":` + uri + `}}}`
	}
	for name, c := range map[string]struct {
		fields string
		want   *gateways.NextAction
	}{
		"Redirect":    {`"authorize_uri":` + page + `,"expires_at":"2026-01-02T03:04:05+09:00"`, &gateways.NextAction{Type: "redirect", URL: "https://pay.example/a", Due: "2026-01-01T18:04:05Z"}},
		"QR":          {scan(code), &gateways.NextAction{Type: "qr", QR: "https://api.example/qr.png"}},
		"QRPage":      {scan(code) + `,"authorize_uri":` + page, &gateways.NextAction{Type: "qr", QR: "https://api.example/qr.png", URL: "https://pay.example/a"}},
		"Konbini":     {`"source":{"type":"econtext"},"authorize_uri":` + page, &gateways.NextAction{Type: "voucher", URL: "https://pay.example/a"}},
		"Counter":     {`"source":{"type":"econtext","references":{"payment_code":"123-456"}},"authorize_uri":` + page, &gateways.NextAction{Type: "voucher", URL: "https://pay.example/a", Code: "123-456"}},
		"Bill":        {`"source":{"type":"bill_payment_tesco_lotus","references":{"payment_code":null,"reference_number_1":"75818","barcode":` + code + `}}`, &gateways.NextAction{Type: "voucher", URL: "https://api.example/qr.png", Code: "75818"}},
		"Script":      {`"authorize_uri":"javascript:alert(1)"`, nil},
		"ScriptQR":    {scan(`"data:text/html,x"`), nil},
		"Odd":         {`"source":7,"authorize_uri":` + page, &gateways.NextAction{Type: "redirect", URL: "https://pay.example/a"}},
		"OddCode":     {`"source":{"type":"econtext","references":{"payment_code":"<b>"}}`, nil},
		"Nothing":     {`"source":null`, nil},
		"NoDate":      {`"authorize_uri":` + page + `,"expires_at":"soon"`, &gateways.NextAction{Type: "redirect", URL: "https://pay.example/a"}},
		"NothingHeld": {`"authorized":true,"authorize_uri":` + page, nil},
	} {
		ch, ok := charged(t, `"status":"pending",`+c.fields)
		require.True(t, ok, name)
		o, err := (&Gateway{now: time.Now}).observe(read, ch, answer{})
		require.NoError(t, err)
		require.Equal(t, gateways.Pending, o.Outcome)
		require.Equal(t, c.want, o.NextAction, name)
	}
}

// Metadata belongs to the merchant and may hold anything.
func TestOddMetadataIsNoReference(t *testing.T) {
	t.Parallel()
	for metadata, want := range map[string]string{
		`{"merchant_reference":"of-1","x":{"y":[1]}}`: "of-1",
		`{"merchant_reference":7}`:                    "",
		`{"merchant_reference":null}`:                 "",
		`{"Merchant_Reference":"of-1"}`:               "",
		`{}`:                                          "", `[]`: "", `null`: "", `"of-1"`: "", `7`: "",
	} {
		ch, ok := charged(t, `"metadata":`+metadata)
		require.True(t, ok)
		require.Equal(t, want, ch.merchantReference, metadata)
	}
	require.Empty(t, word(strings.Repeat("a", 101)))
}

// Whatever Omise says, an order is paid only by a charge that is successful and paid, and an attempt is closed only by one
// that took nothing, in a status that is final by itself.
func TestNoAnswerPaysOrClosesByAccident(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g := &Gateway{now: func() time.Time { return now }}
	rapid.Check(t, func(t *rapid.T) {
		fields := map[string]any{"object": "charge", "id": "chrg_test_1", "amount": rapid.Int64Range(1, 5000).Draw(t, "amount"), "currency": "JPY"}
		for name, values := range map[string][]any{
			"status":          {"pending", "successful", "failed", "expired", "reversed", "REVIEW", "", nil},
			"paid":            {true, false, nil},
			"captured":        {true, false, nil, "true"},
			"authorized":      {true, false, nil},
			"reversed":        {true, false, nil},
			"expired":         {true, false, nil},
			"capture":         {true, false, nil},
			"captured_amount": {0, 1, 1500, nil},
			"failure_code":    {"insufficient_fund", "failed_processing", "timeout", "confirmed_amount_mismatch", "brand_new", "", nil},
			"created_at":      {"2026-01-02T03:04:05Z", "2025-01-02T03:04:05Z", "soon", nil},
		} {
			fields[name] = rapid.SampledFrom(values).Draw(t, name)
		}
		raw, err := json.Marshal(fields)
		require.NoError(t, err)
		c, ok := readCharge(raw)
		require.True(t, ok)
		o, err := g.observe(rapid.SampledFrom([]verb{gateways.Confirm, gateways.Cancel, read}).Draw(t, "verb"), c, answer{status: 200})
		if err != nil {
			require.True(t, fault.IsCode(err, fault.PaymentNeedsReview))
			require.Equal(t, "failed", fields["status"])
			return
		}
		switch o.Outcome {
		case gateways.Succeeded:
			require.Equal(t, []any{"successful", true}, []any{fields["status"], fields["paid"]})
			require.Positive(t, o.CapturedMinor)
			require.False(t, o.Final)
		case gateways.Declined:
			require.Contains(t, []any{"failed", "expired", "reversed"}, fields["status"])
			require.Zero(t, o.CapturedMinor)
			require.True(t, o.Final)
			require.NotEmpty(t, o.DeclineCode)
		case gateways.Pending:
			require.Equal(t, "pending", fields["status"])
			require.Zero(t, o.CapturedMinor)
			require.False(t, o.Final)
		default:
			require.Equal(t, gateways.Unknown, o.Outcome)
			require.False(t, o.Final)
		}
	})
}
