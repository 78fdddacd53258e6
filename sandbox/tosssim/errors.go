package tosssim

import (
	"net/http"
	"strings"
)

// apiError is Toss's error body with its HTTP status.
type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) body() map[string]string {
	return map[string]string{"code": e.code, "message": e.message}
}

func invalid(message string) *apiError {
	return &apiError{http.StatusBadRequest, "INVALID_REQUEST", message}
}

func noPayment() *apiError {
	return &apiError{http.StatusNotFound, "NOT_FOUND_PAYMENT", "The payment does not exist."}
}

// statusOf is the HTTP status that belongs to a code of Toss's list; it matters to nobody and is right all the same.
func statusOf(code string) int {
	has := func(codes string) bool {
		for _, c := range strings.Fields(codes) {
			if c == code {
				return true
			}
		}
		return false
	}
	switch {
	case has("IDEMPOTENT_REQUEST_PROCESSING"):
		return http.StatusConflict
	case has("UNAUTHORIZED_KEY"):
		return http.StatusUnauthorized
	case has("NOT_FOUND_PAYMENT NOT_FOUND_PAYMENT_SESSION NOT_FOUND"):
		return http.StatusNotFound
	case has("FAILED_PAYMENT_INTERNAL_SYSTEM_PROCESSING FAILED_INTERNAL_SYSTEM_PROCESSING UNKNOWN_PAYMENT_ERROR " +
		"FAILED_REFUND_PROCESS FAILED_METHOD_HANDLING_CANCEL FAILED_PARTIAL_REFUND COMMON_ERROR"):
		return http.StatusInternalServerError
	case has("REJECT_CARD_PAYMENT REJECT_CARD_COMPANY REJECT_ACCOUNT_PAYMENT REJECT_TOSSPAY_INVALID_ACCOUNT EXCEED_MAX_AUTH_COUNT " +
		"EXCEED_MAX_ONE_DAY_AMOUNT INVALID_PASSWORD NOT_AVAILABLE_BANK FDS_ERROR INCORRECT_BASIC_AUTH_FORMAT FORBIDDEN_REQUEST " +
		"INSECURE_KEY_USAGE FORBIDDEN_CONSECUTIVE_REQUEST NOT_CANCELABLE_AMOUNT NOT_CANCELABLE_PAYMENT EXCEED_MAX_REFUND_DUE " +
		"NOT_CANCELABLE_PAYMENT_FOR_DORMANT_USER EXCEED_CANCEL_LIMIT NOT_ALLOWED_PARTIAL_REFUND " +
		"NOT_ALLOWED_PARTIAL_REFUND_WAITING_DEPOSIT"):
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

func coded(code, message string) *apiError { return &apiError{statusOf(code), code, message} }
