package toss

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
)

func opened(t *testing.T, change func(*gateways.Settings)) *Gateway {
	t.Helper()
	s := gateways.Settings{Name: "default", SecretKey: secret.New(simKey), APIBase: "http://127.0.0.1:1"}
	if change != nil {
		change(&s)
	}
	gw, err := Open(s)
	require.NoError(t, err)
	return gw.(*Gateway)
}

func errorAnswer(status int, code string) answer {
	b, err := json.Marshal(map[string]string{"code": code, "message": "a sentence for people"})
	if err != nil {
		panic(err)
	}
	return answer{status: status, header: http.Header{"X-Tosspayments-Trace-Id": {"trace1"}}, body: b}
}

// documented are Toss's codes as its error pages list them, with what each must lead to. A code without a row in the
// gateway's table fails here, whatever the default would have made of it.
var documented = []struct {
	on    verb
	want  fault.Class
	codes string
}{
	{gateways.Confirm, fault.InProgress, "IDEMPOTENT_REQUEST_PROCESSING"},
	{gateways.Confirm, fault.Conflict, "ALREADY_PROCESSED_PAYMENT DUPLICATED_ORDER_ID NOT_FOUND_PAYMENT"},
	{gateways.Confirm, fault.Unknown, `PROVIDER_ERROR CARD_PROCESSING_ERROR FAILED_PAYMENT_INTERNAL_SYSTEM_PROCESSING
		FAILED_INTERNAL_SYSTEM_PROCESSING UNKNOWN_PAYMENT_ERROR PAY_PROCESS_ABORTED NOT_FOUND_PAYMENT_SESSION UNAPPROVED_ORDER_ID`},
	{gateways.Confirm, fault.Declined, `REJECT_CARD_PAYMENT REJECT_CARD_COMPANY REJECT_ACCOUNT_PAYMENT
		REJECT_TOSSPAY_INVALID_ACCOUNT EXCEED_MAX_AUTH_COUNT EXCEED_MAX_ONE_DAY_AMOUNT INVALID_PASSWORD NOT_AVAILABLE_BANK
		FDS_ERROR INVALID_REJECT_CARD INVALID_STOPPED_CARD INVALID_CARD_LOST_OR_STOLEN INVALID_CARD_NUMBER
		INVALID_CARD_EXPIRATION RESTRICTED_TRANSFER_ACCOUNT INVALID_ACCOUNT_INFO_RE_REGISTER INVALID_AUTHORIZE_AUTH
		EXCEED_MAX_DAILY_PAYMENT_COUNT EXCEED_MAX_PAYMENT_AMOUNT EXCEED_MAX_ONE_DAY_WITHDRAW_AMOUNT
		EXCEED_MAX_ONE_TIME_WITHDRAW_AMOUNT EXCEED_MAX_AMOUNT EXCEED_MAX_MONTHLY_PAYMENT_AMOUNT
		EXCEED_MAX_CARD_INSTALLMENT_PLAN INVALID_CARD_INSTALLMENT_PLAN NOT_SUPPORTED_INSTALLMENT_PLAN_CARD_OR_MERCHANT
		NOT_SUPPORTED_MONTHLY_INSTALLMENT_PLAN NOT_SUPPORTED_MONTHLY_INSTALLMENT_PLAN_BELOW_AMOUNT NOT_ALLOWED_POINT_USE
		NOT_AVAILABLE_PAYMENT`},
	{gateways.Confirm, fault.Invalid, "BELOW_MINIMUM_AMOUNT INVALID_REQUEST INVALID_PAYMENT_KEY NOT_SUPPORTED_METHOD INVALID_IDEMPOTENCY_KEY"},
	{gateways.Confirm, fault.Misconfigured, `INVALID_API_KEY NOT_FOUND_TERMINAL_ID INVALID_UNREGISTERED_SUBMALL
		NOT_REGISTERED_BUSINESS UNAUTHORIZED_KEY INCORRECT_BASIC_AUTH_FORMAT FORBIDDEN_REQUEST INSECURE_KEY_USAGE`},

	{read, fault.Transient, "FORBIDDEN_CONSECUTIVE_REQUEST FAILED_PAYMENT_INTERNAL_SYSTEM_PROCESSING NOT_FOUND_PAYMENT NOT_FOUND"},
	{read, fault.Invalid, "INVALID_TRANSACTION_KEY"},
	{read, fault.Misconfigured, "UNAUTHORIZED_KEY INCORRECT_BASIC_AUTH_FORMAT"},

	{gateways.Cancel, fault.InProgress, "IDEMPOTENT_REQUEST_PROCESSING"},
	{gateways.Cancel, fault.Conflict, `ALREADY_CANCELED_PAYMENT ALREADY_REFUND_PAYMENT NOT_CANCELABLE_AMOUNT
		NOT_MATCHES_REFUNDABLE_AMOUNT NOT_FOUND_PAYMENT INVALID_REFUND_ACCOUNT_INFO INVALID_REFUND_ACCOUNT_NUMBER INVALID_BANK
		REFUND_REJECTED FORBIDDEN_BANK_REFUND_REQUEST EXCEED_CANCEL_AMOUNT_DISCOUNT_AMOUNT NOT_CANCELABLE_PAYMENT
		NOT_CANCELABLE_PAYMENT_FOR_DORMANT_USER EXCEED_MAX_REFUND_DUE EXCEED_CANCEL_LIMIT NOT_ALLOWED_PARTIAL_REFUND
		NOT_ALLOWED_PARTIAL_REFUND_WAITING_DEPOSIT`},
	{gateways.Cancel, fault.Unknown, `PROVIDER_ERROR FAILED_INTERNAL_SYSTEM_PROCESSING
		FAILED_PAYMENT_INTERNAL_SYSTEM_PROCESSING FAILED_REFUND_PROCESS FAILED_METHOD_HANDLING_CANCEL FAILED_PARTIAL_REFUND
		COMMON_ERROR FORBIDDEN_CONSECUTIVE_REQUEST NOT_AVAILABLE_BANK`},
	{gateways.Cancel, fault.Invalid, "INVALID_REQUEST"},
	{gateways.Cancel, fault.Misconfigured, "UNAUTHORIZED_KEY FORBIDDEN_REQUEST INCORRECT_BASIC_AUTH_FORMAT"},
}

func TestEveryDocumentedCodeHasARowAndTheStatusDecidesNothing(t *testing.T) {
	t.Parallel()
	g := opened(t, nil)
	seen := 0
	for _, group := range documented {
		for _, code := range strings.Fields(group.codes) {
			for _, status := range []int{400, 401, 403, 404, 409, 429, 500, 503} {
				_, listed := codeOf(group.on, status, code)
				require.True(t, listed, "%s %s has no row", group.on, code)
				f := g.refused(group.on, errorAnswer(status, code))
				require.Equal(t, group.want, f.Class, "%s %s on %d", group.on, code, status)
				require.Equal(t, fault.PolicyOf(f.Code).Class, f.Class)
				require.Equal(t, fault.Provider{Name: "toss", HTTPStatus: status, Code: code, RequestID: "trace1"}, f.Provider)
				require.NotContains(t, f.Error(), "sentence")
			}
			seen++
		}
	}
	require.Greater(t, seen, 90)
}

// A refund and a cancel are one address at Toss, and a code means the same on both.
func TestRefundsReadTheCancelTable(t *testing.T) {
	t.Parallel()
	for _, group := range documented {
		if group.on != gateways.Cancel {
			continue
		}
		for _, code := range strings.Fields(group.codes) {
			to, listed := codeOf(gateways.Refund, 400, code)
			require.True(t, listed, code)
			require.Equal(t, group.want, fault.PolicyOf(to).Class, code)
		}
	}
}

func TestUnlistedWordsNeverDecide(t *testing.T) {
	t.Parallel()
	g := opened(t, nil)
	for _, status := range []int{400, 401, 402, 403, 404, 409, 418, 500, 502} {
		for _, code := range []string{"REJECT_SOMETHING_NEW", "", "reject_card_payment", "REJECT_CARD_PAYMENT "} {
			require.Equal(t, fault.PaymentUnknown, g.refused(gateways.Confirm, errorAnswer(status, code)).Code, "%d %q", status, code)
			require.Equal(t, fault.PaymentUnknown, g.refused(gateways.Cancel, errorAnswer(status, code)).Code, "%d %q", status, code)
			require.Equal(t, fault.GatewayReadFailed, g.refused(read, errorAnswer(status, code)).Code, "%d %q", status, code)
		}
	}
	// A decline's word in a success answer, or on a cancel, is none.
	require.Equal(t, fault.PaymentUnknown, g.refused(gateways.Confirm, errorAnswer(200, "REJECT_CARD_PAYMENT")).Code)
	require.Equal(t, fault.PaymentUnknown, g.refused(gateways.Cancel, errorAnswer(403, "REJECT_CARD_PAYMENT")).Code)
}

func TestTooManyRequestsNeedsAWellFormedErrorOnAWrite(t *testing.T) {
	t.Parallel()
	g := opened(t, nil)
	g.now = func() time.Time { return time.Date(2026, 6, 5, 7, 58, 18, 0, time.UTC) }
	a := errorAnswer(429, "TOO_MANY_REQUESTS")
	a.header.Set("Retry-After", "Fri, 05 Jun 2026 07:59:18 GMT")
	f := g.refused(gateways.Confirm, a)
	require.Equal(t, fault.GatewayRateLimited, f.Code)
	require.Equal(t, time.Minute, f.RetryAfter)
	require.Equal(t, fault.GatewayRateLimited, g.refused(read, answer{status: 429, header: http.Header{}}).Code)
	require.Equal(t, fault.PaymentUnknown, g.refused(gateways.Confirm, answer{status: 429, header: http.Header{}, body: []byte("<html>")}).Code)
	require.Equal(t, fault.PaymentAlready, g.refused(gateways.Confirm, errorAnswer(429, "ALREADY_PROCESSED_PAYMENT")).Code, "a code beats the status")
}

func TestTraceIDsAreKeptOnlyWhenTheyLookLikeOnes(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"abc123": "abc123", "abc, def": "abc,def", "": "", "a\nb": "", "<b>": "", strings.Repeat("x", 201): "", "카드": "",
	} {
		require.Equal(t, want, traceID(http.Header{"X-Tosspayments-Trace-Id": {raw}}), "%q", raw)
	}
}
