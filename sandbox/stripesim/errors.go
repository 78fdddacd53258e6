package stripesim

import (
	"fmt"
	"net/http"
)

// apiError is Stripe's error object with its HTTP status.
type apiError struct {
	Code          string      `json:"code,omitempty"`
	DeclineCode   string      `json:"decline_code,omitempty"`
	Message       string      `json:"message"`
	Param         string      `json:"param,omitempty"`
	Charge        string      `json:"charge,omitempty"`
	PaymentMethod *methodView `json:"payment_method,omitempty"`
	PaymentIntent *intentView `json:"payment_intent,omitempty"`
	DocURL        string      `json:"doc_url,omitempty"`
	Type          string      `json:"type"`

	status int
	stored bool // the endpoint had begun executing, so the answer is kept under the idempotency key
}

func (e *apiError) body() map[string]*apiError { return map[string]*apiError{"error": e} }

// badParameter is found before execution begins and is never stored.
func badParameter(code, param, format string, args ...any) *apiError {
	return &apiError{Type: "invalid_request_error", Code: code, Param: param, Message: fmt.Sprintf(format, args...), status: http.StatusBadRequest}
}

func missing(param string) *apiError {
	return badParameter("parameter_missing", param, "Missing required param: %s.", param)
}

func noSuch(kind, param, id string) *apiError {
	e := badParameter("resource_missing", param, "No such %s: '%s'", kind, id)
	e.status = http.StatusNotFound
	return e
}

// unexpectedState is an answer of the executing endpoint: it is stored, and it carries the intent.
func unexpectedState(in *intent, format string, args ...any) *apiError {
	v := in.view()
	return &apiError{
		Type: "invalid_request_error", Code: "payment_intent_unexpected_state", Message: fmt.Sprintf(format, args...),
		PaymentIntent: &v, status: http.StatusBadRequest, stored: true,
	}
}

func serverError() *apiError {
	return &apiError{
		Type:    "api_error",
		Message: "An unknown error occurred",
		status:  http.StatusInternalServerError, stored: true,
	}
}

// decline is what a payment method answers.
type decline struct {
	code        string // error code
	declineCode string
	message     string
}

func (d decline) err() *apiError {
	return &apiError{
		Type: "card_error", Code: d.code, DeclineCode: d.declineCode, Message: d.message,
		DocURL: "https://stripe.com/docs/error-codes/" + d.code,
		status: http.StatusPaymentRequired, stored: true,
	}
}

func cardDeclined(declineCode string) decline {
	return decline{code: "card_declined", declineCode: declineCode, message: "Your card was declined."}
}
