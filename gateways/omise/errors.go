package omise

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
)

// verb is what was asked when an error came: a write's kind, or a read.
type verb = gateways.Kind

const read verb = "lookup"

// apiError is Omise's error object. Its message is never read: it may quote what was sent.
type apiError struct {
	Object string `json:"object"`
	Code   string `json:"code"`
	status int
}

// Where a row holds.
var (
	reads    = []verb{read}
	confirms = []verb{gateways.Confirm}
	onCharge = []verb{gateways.Capture, gateways.Cancel, gateways.Refund}
	writes   = append(onCharge[:3:3], gateways.Confirm)
	always   = append(writes[:4:4], read)
)

// row maps Omise's words to a code of ours. An empty field matches anything; the first matching row wins, so narrower
// rows stand above wider ones.
type row struct {
	on     []verb
	method string // only for a charge on this method type
	codes  string // separated by spaces
	status int    // of a well-formed error with a code of no other row; never alone where a code is known
	to     fault.Code
}

// errorTable is complete for what is known of Omise's error codes. What it does not list is unknown on a write: a lookup
// tells a refusal from a charge at the price of one read, and a wrong "declined" lets somebody charge again.
var errorTable = []row{
	{on: always, codes: "too_many_requests", to: fault.GatewayRateLimited},
	{on: always, codes: "authentication_failure service_not_found", to: fault.GatewayMisconfigured},

	{on: writes, codes: "internal_error service_unavailable backend_error failed_multi_currency", to: fault.PaymentUnknown},
	{on: reads, codes: "internal_error service_unavailable backend_error", to: fault.GatewayReadFailed},

	// Done before, or in a state that only a look explains.
	{on: writes, codes: "used_token invalid_charge failed_capture failed_expire failed_void failed_reverse failed_refund", to: fault.PaymentAlready},
	{on: writes, codes: "expired_charge", to: fault.PaymentNeedsReview},

	{on: confirms, codes: "failed_fraud_check invalid_card brand_not_supported", to: fault.PaymentDeclined},

	// How Omise refuses a second charge on one source is documented nowhere; these are what it could be called. A lookup
	// finds the first charge, where calling it invalid would say that nothing was charged.
	{on: confirms, method: methodSource, codes: "bad_request not_found", to: fault.PaymentAlready},

	{on: writes, codes: "invalid_card_token missing_card invalid_amount bad_request invalid_filters invalid_page invalid_scope " +
		"invalid_bank_account invalid_link documents_locked", to: fault.PaymentInvalid},
	{on: confirms, codes: "not_found", to: fault.PaymentInvalid},  // the token or the customer
	{on: onCharge, codes: "not_found", to: fault.PaymentNotFound}, // the charge

	{on: always, status: http.StatusUnauthorized, to: fault.GatewayMisconfigured},
	{on: always, status: http.StatusForbidden, to: fault.GatewayMisconfigured},
	{on: writes, status: http.StatusUnprocessableEntity, to: fault.PaymentInvalid},
}

func (r row) matches(v verb, method string, e apiError) bool {
	return slices.Contains(r.on, v) &&
		(r.method == "" || r.method == method) &&
		(r.codes == "" || slices.Contains(strings.Fields(r.codes), e.Code)) &&
		(r.status == 0 || r.status == e.status)
}

// codeOf is the table's answer, or the verb's default: an unlisted word on a write may hide a charge.
func codeOf(v verb, method string, e apiError) (code fault.Code, listed bool) {
	for _, r := range errorTable {
		if e.Object == "error" && r.matches(v, method, e) {
			return r.to, true
		}
	}
	if v == read {
		return fault.GatewayReadFailed, false
	}
	return fault.PaymentUnknown, false
}

// readError decodes an error; one without a usable code is none.
func readError(a answer) apiError {
	e := apiError{}
	if json.Unmarshal(a.body, &e) != nil || word(e.Code) == "" {
		e = apiError{}
	}
	e.status = a.status
	return e
}

// refused makes the fault of an answer that is no success.
func (g *Gateway) refused(v verb, method string, a answer) *fault.Error {
	e := readError(a)
	code, _ := codeOf(v, method, e)
	f := g.answered(code, v, a)
	f.Provider.Code = word(e.Code)
	return f
}

// answered makes a fault with what the answer's frame says. Omise gives no request ids.
func (g *Gateway) answered(code fault.Code, v verb, a answer) *fault.Error {
	f := fault.New(code, opName(v))
	f.Provider.Name = name
	f.Provider.HTTPStatus = a.status
	f.RetryAfter = fault.ParseRetryAfter(a.header.Get("Retry-After"), g.now())
	return f
}

// unanswered makes the fault of a call without an answer: unknown on a write, nothing proven on a read, and a bug of ours
// where the request never left.
func unanswered(v verb, err error) *fault.Error {
	code := fault.PaymentUnknown
	switch {
	case errors.Is(err, errNoKey), errors.Is(err, errFrozen):
		code = fault.InternalError
	case v == read:
		code = fault.GatewayReadFailed
	}
	f := fault.Wrap(code, opName(v), shared.PlainCause(err, errNoKey, errFrozen, errTruncated))
	if code != fault.InternalError {
		f.Provider.Name = name
	}
	return f
}

func opName(v verb) string { return name + " " + string(v) }
