package toss

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
)

// verb is what was asked when an error came: a write's kind, or a read.
type verb = gateways.Kind

const read verb = "lookup"

var (
	onConfirm = []verb{gateways.Confirm}
	onCancel  = []verb{gateways.Cancel, gateways.Refund} // one address at Toss
	onRead    = []verb{read}
	writes    = append(onCancel[:2:2], gateways.Confirm)
	always    = append([]verb{read}, writes...)
)

// row maps Toss's codes, separated by spaces, to a code of ours. The HTTP status plays no part: at Toss 400 holds "done
// already", "unknown", "declined" and "invalid" at once.
type row struct {
	on    []verb
	codes string
	to    fault.Code
}

// errorTable is complete for what is known of Toss's codes on confirm, cancel and query. What it does not list is unknown
// on a write, even where Toss's word sounds like a decline: a lookup tells the truth at the price of one read, and a wrong
// "declined" lets somebody charge again.
var errorTable = []row{
	{always, "UNAUTHORIZED_KEY INCORRECT_BASIC_AUTH_FORMAT FORBIDDEN_REQUEST INVALID_API_KEY INSECURE_KEY_USAGE", fault.GatewayMisconfigured},
	{onConfirm, "NOT_FOUND_TERMINAL_ID INVALID_UNREGISTERED_SUBMALL NOT_REGISTERED_BUSINESS", fault.GatewayMisconfigured},

	{writes, "IDEMPOTENT_REQUEST_PROCESSING", fault.PaymentInProgress},
	{onConfirm, "ALREADY_PROCESSED_PAYMENT DUPLICATED_ORDER_ID", fault.PaymentAlready},
	{onConfirm, "NOT_FOUND_PAYMENT", fault.PaymentNotFound},
	// The lookup mostly says EXPIRED for the first (the ten minutes are over) and ABORTED for the second.
	{onConfirm, "NOT_FOUND_PAYMENT_SESSION PAY_PROCESS_ABORTED UNAPPROVED_ORDER_ID CARD_PROCESSING_ERROR UNKNOWN_PAYMENT_ERROR", fault.PaymentUnknown},
	{writes, "PROVIDER_ERROR FAILED_PAYMENT_INTERNAL_SYSTEM_PROCESSING FAILED_INTERNAL_SYSTEM_PROCESSING", fault.PaymentUnknown},

	{
		onConfirm, "REJECT_CARD_PAYMENT REJECT_CARD_COMPANY REJECT_ACCOUNT_PAYMENT REJECT_TOSSPAY_INVALID_ACCOUNT " +
			"EXCEED_MAX_AUTH_COUNT EXCEED_MAX_ONE_DAY_AMOUNT INVALID_PASSWORD NOT_AVAILABLE_BANK FDS_ERROR " +
			"INVALID_REJECT_CARD INVALID_STOPPED_CARD INVALID_CARD_LOST_OR_STOLEN INVALID_CARD_NUMBER " +
			"INVALID_CARD_EXPIRATION RESTRICTED_TRANSFER_ACCOUNT INVALID_ACCOUNT_INFO_RE_REGISTER INVALID_AUTHORIZE_AUTH " +
			"EXCEED_MAX_DAILY_PAYMENT_COUNT EXCEED_MAX_PAYMENT_AMOUNT EXCEED_MAX_ONE_DAY_WITHDRAW_AMOUNT " +
			"EXCEED_MAX_ONE_TIME_WITHDRAW_AMOUNT EXCEED_MAX_AMOUNT EXCEED_MAX_MONTHLY_PAYMENT_AMOUNT " +
			"EXCEED_MAX_CARD_INSTALLMENT_PLAN INVALID_CARD_INSTALLMENT_PLAN " +
			"NOT_SUPPORTED_INSTALLMENT_PLAN_CARD_OR_MERCHANT NOT_SUPPORTED_MONTHLY_INSTALLMENT_PLAN " +
			"NOT_SUPPORTED_MONTHLY_INSTALLMENT_PLAN_BELOW_AMOUNT NOT_ALLOWED_POINT_USE NOT_AVAILABLE_PAYMENT",
		fault.PaymentDeclined,
	},
	{onConfirm, "BELOW_MINIMUM_AMOUNT INVALID_PAYMENT_KEY NOT_SUPPORTED_METHOD", fault.PaymentInvalid},
	{writes, "INVALID_REQUEST INVALID_IDEMPOTENCY_KEY", fault.PaymentInvalid},

	{
		onCancel, "ALREADY_CANCELED_PAYMENT ALREADY_REFUND_PAYMENT NOT_CANCELABLE_AMOUNT NOT_MATCHES_REFUNDABLE_AMOUNT",
		fault.PaymentAlready,
	},
	{onCancel, "FAILED_REFUND_PROCESS FAILED_METHOD_HANDLING_CANCEL FAILED_PARTIAL_REFUND COMMON_ERROR " +
		"FORBIDDEN_CONSECUTIVE_REQUEST NOT_AVAILABLE_BANK", fault.PaymentUnknown},
	{
		onCancel, "NOT_FOUND_PAYMENT INVALID_REFUND_ACCOUNT_INFO INVALID_REFUND_ACCOUNT_NUMBER INVALID_BANK " +
			"REFUND_REJECTED FORBIDDEN_BANK_REFUND_REQUEST EXCEED_CANCEL_AMOUNT_DISCOUNT_AMOUNT NOT_CANCELABLE_PAYMENT " +
			"NOT_CANCELABLE_PAYMENT_FOR_DORMANT_USER EXCEED_MAX_REFUND_DUE EXCEED_CANCEL_LIMIT " +
			"NOT_ALLOWED_PARTIAL_REFUND NOT_ALLOWED_PARTIAL_REFUND_WAITING_DEPOSIT",
		fault.PaymentNeedsReview,
	},

	// NOT_FOUND_PAYMENT and NOT_FOUND on a lookup of a payment are observations before they come here; in a listing they
	// are no usable answer.
	{onRead, "NOT_FOUND_PAYMENT NOT_FOUND FAILED_PAYMENT_INTERNAL_SYSTEM_PROCESSING", fault.GatewayReadFailed},
	{onRead, "FORBIDDEN_CONSECUTIVE_REQUEST", fault.GatewayRateLimited},
	{onRead, "INVALID_TRANSACTION_KEY", fault.PaymentInvalid},
}

// codeOf is the table's answer, or the default. 429 has no code of its own in Toss's list, so it counts only together with
// a well-formed error that the table does not know: a page of a proxy says nothing about what happened behind it.
func codeOf(v verb, status int, code string) (to fault.Code, listed bool) {
	for _, r := range errorTable {
		if slices.Contains(r.on, v) && slices.Contains(strings.Fields(r.codes), code) {
			return r.to, true
		}
	}
	switch {
	case status == http.StatusTooManyRequests && (code != "" || v == read):
		return fault.GatewayRateLimited, false
	case v == read:
		return fault.GatewayReadFailed, false
	}
	return fault.PaymentUnknown, false
}

var (
	codeShape  = regexp.MustCompile(`^[A-Z0-9_]{1,100}$`)
	traceShape = regexp.MustCompile(`^[A-Za-z0-9_.,:-]{1,200}$`)
)

// errorCode reads Toss's error body. It is a code only when it looks like one: codes go into errors and logs, sentences
// never do.
func errorCode(body []byte) string {
	var e struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	return word(e.Code)
}

func word(s string) string {
	if !codeShape.MatchString(s) {
		return ""
	}
	return s
}

func traceID(h http.Header) string {
	id := strings.ReplaceAll(h.Get("X-Tosspayments-Trace-Id"), " ", "")
	if !traceShape.MatchString(id) {
		return ""
	}
	return id
}

// refused makes the fault of an answer that is no payment. On a success status it can only be rubbish: unknown on a write.
// HTTPStatus is never zero in it, which tells an error that was received, and may be kept under the key for 15 days, from
// no answer at all.
func (g *Gateway) refused(v verb, a answer) *fault.Error {
	code, raw := fault.PaymentUnknown, ""
	if v == read {
		code = fault.GatewayReadFailed
	}
	if a.status >= 400 {
		raw = errorCode(a.body)
		code, _ = codeOf(v, a.status, raw)
	}
	f := fault.New(code, opName(v))
	f.Provider = fault.Provider{Name: name, HTTPStatus: a.status, Code: raw, RequestID: traceID(a.header)}
	f.RetryAfter = fault.ParseRetryAfter(a.header.Get("Retry-After"), g.now())
	return f
}

// unanswered makes the fault of a call without a whole answer: unknown on a write, nothing proven on a read, and a bug of
// ours where the request never left.
func (g *Gateway) unanswered(v verb, a answer, err error) *fault.Error {
	code := fault.PaymentUnknown
	switch {
	case errors.Is(err, errNoKey), errors.Is(err, errFrozen):
		code = fault.InternalError
	case v == read:
		code = fault.GatewayReadFailed
	}
	f := fault.Wrap(code, opName(v), shared.PlainCause(err, errNoKey, errFrozen))
	if code != fault.InternalError {
		f.Provider = fault.Provider{Name: name, HTTPStatus: a.status, RequestID: traceID(a.header)}
	}
	return f
}

func opName(v verb) string { return name + " " + string(v) }
