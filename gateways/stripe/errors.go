package stripe

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	stripego "github.com/stripe/stripe-go/v76"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
)

// verb is what was asked when an error came: a write's kind, or a read.
type verb = gateways.Kind

const read verb = "lookup"

// Where a row holds. A decline means something only where a payment method is tried: on a cancel the same word would say
// nothing about the cancel.
var (
	pays    = []verb{gateways.Prepare, gateways.Confirm}
	refunds = []verb{gateways.Refund}
	writes  = []verb{gateways.Prepare, gateways.Confirm, gateways.Capture, gateways.Cancel, gateways.Refund}
	always  = append([]verb{read}, writes...)
)

// row maps Stripe's words to a code of ours. An empty field matches anything; the first matching row wins, so narrower
// rows stand above wider ones.
type row struct {
	on      []verb
	decline string // decline_code
	codes   string // codes, separated by spaces
	typ     string // error type
	bare    bool   // only where the error has no code
	param   string // what the error complains about
	status  int    // HTTP status; never alone, only together with bare
	to      fault.Code
}

// errorTable is complete for what is known of Stripe's codes on payment intents, charges and refunds. What it does not
// list is unknown on a write, even if Stripe calls it a card error: a lookup of the intent tells a decline from a payment
// at the price of one read, and a wrong "declined" lets somebody charge again.
var errorTable = []row{
	{on: writes, decline: "duplicate_transaction", to: fault.PaymentAlready},

	{on: writes, codes: "idempotency_key_in_use", to: fault.PaymentInProgress},
	{on: always, codes: "rate_limit lock_timeout", to: fault.GatewayRateLimited},
	{on: always, typ: "rate_limit_error", to: fault.GatewayRateLimited},

	{on: writes, typ: "idempotency_error", to: fault.PaymentUnknown},
	{on: writes, codes: "payment_intent_unexpected_state intent_invalid_state return_intent_already_processed " +
		"charge_already_captured charge_already_refunded resource_already_exists token_already_used token_in_use " +
		"status_transition_invalid", to: fault.PaymentAlready},
	{on: writes, codes: "payment_method_provider_timeout payment_intent_payment_attempt_failed " +
		"payment_intent_payment_attempt_expired", to: fault.PaymentUnknown},

	{
		on: pays, codes: "card_declined expired_card incorrect_cvc incorrect_number invalid_number invalid_cvc " +
			"invalid_expiry_month invalid_expiry_year insufficient_funds processing_error authentication_required " +
			"payment_intent_authentication_failure payment_intent_action_required card_decline_rate_limit_exceeded " +
			"payment_method_provider_decline payment_method_customer_decline payment_method_not_available " +
			"payment_method_unactivated payment_intent_konbini_rejected_confirmation_number charge_exceeds_source_limit",
		to: fault.PaymentDeclined,
	},

	{on: writes, codes: "payment_method_unexpected_state payment_method_currency_mismatch " +
		"payment_intent_incompatible_payment_method payment_intent_invalid_parameter amount_too_small amount_too_large " +
		"parameter_missing parameter_unknown parameter_invalid_empty parameter_invalid_integer " +
		"parameter_invalid_string_blank parameter_invalid_string_empty parameters_exclusive url_invalid " +
		"resource_missing", to: fault.PaymentInvalid},

	{
		on: always, codes: "livemode_mismatch testmode_charges_only country_unsupported account_invalid " +
			"tls_version_unsupported api_key_expired platform_api_key_expired secret_key_required",
		to: fault.GatewayMisconfigured,
	},
	// A wrong or under-privileged key has no code, only its status beside a well-formed error. Neither was executed.
	{on: always, bare: true, typ: "invalid_request_error", status: http.StatusUnauthorized, to: fault.GatewayMisconfigured},
	{on: always, bare: true, typ: "invalid_request_error", status: http.StatusForbidden, to: fault.GatewayMisconfigured},

	// More than what is left, or a payment that took nothing: Stripe has no code for either, only the parameter it complains
	// about. What is left differs from our books then, so a look comes before anything else.
	{on: refunds, bare: true, typ: "invalid_request_error", param: "amount", status: http.StatusBadRequest, to: fault.PaymentAlready},
	{on: refunds, bare: true, typ: "invalid_request_error", param: "payment_intent", status: http.StatusBadRequest, to: fault.PaymentAlready},

	{on: writes, codes: "charge_expired_for_capture capture_charge_authorization_expired charge_disputed " +
		"refund_disputed_payment charge_not_refundable balance_insufficient", to: fault.PaymentNeedsReview},

	// The same answer for a day: Stripe stores a 500 under its key, so only a lookup tells what it did.
	{on: writes, typ: "api_error", to: fault.PaymentUnknown},
}

func (r row) matches(v verb, e *stripego.Error) bool {
	return slices.Contains(r.on, v) &&
		(r.decline == "" || r.decline == string(e.DeclineCode)) &&
		(r.codes == "" || (e.Code != "" && slices.Contains(strings.Fields(r.codes), string(e.Code)))) &&
		(r.typ == "" || r.typ == string(e.Type)) &&
		(!r.bare || e.Code == "") &&
		(r.param == "" || r.param == e.Param) &&
		(r.status == 0 || r.status == e.HTTPStatusCode)
}

// codeOf is the table's answer, or the verb's default: an unlisted word on a write may hide a payment.
func codeOf(v verb, e *stripego.Error) (code fault.Code, listed bool) {
	for _, r := range errorTable {
		if r.matches(v, e) {
			return r.to, true
		}
	}
	if v == read {
		return fault.GatewayReadFailed, false
	}
	return fault.PaymentUnknown, false
}

// refused makes the fault of an error that Stripe answered. The SDK's error is not its cause: it prints messages, which
// may quote what was sent, and the client secret.
func (g *Gateway) refused(v verb, e *stripego.Error) *fault.Error {
	code, _ := codeOf(v, e)
	f := g.answered(code, v, e.LastResponse)
	f.Provider.HTTPStatus = e.HTTPStatusCode
	f.Provider.Code = word(string(e.Code))
	if f.Provider.Code == "" {
		f.Provider.Code = word(string(e.Type))
	}
	f.Provider.Detail = word(string(e.DeclineCode))
	return f
}

// answered makes a fault with what the answer's frame says.
func (g *Gateway) answered(code fault.Code, v verb, res *stripego.APIResponse) *fault.Error {
	f := fault.New(code, opName(v))
	f.Provider.Name = name
	if res != nil {
		f.Provider.HTTPStatus = res.StatusCode
		f.Provider.RequestID = requestID(res.Header.Get("Request-Id"))
		f.RetryAfter = fault.ParseRetryAfter(res.Header.Get("Retry-After"), g.now())
	}
	return f
}

// unanswered makes the fault of a call without a decoded answer: unknown on a write, nothing proven on a read, and a bug
// of ours where the request never left.
func unanswered(v verb, err error) *fault.Error {
	code := fault.PaymentUnknown
	switch {
	case errors.Is(err, errNoKey), errors.Is(err, errFrozen):
		code = fault.InternalError
	case v == read:
		code = fault.GatewayReadFailed
	}
	f := fault.Wrap(code, opName(v), shared.PlainCause(err, errNoKey, errFrozen))
	if code != fault.InternalError {
		f.Provider.Name = name
	}
	return f
}

func opName(v verb) string { return name + " " + string(v) }
