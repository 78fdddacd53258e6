package omisesim

import (
	"fmt"
	"net/http"
)

// apiError is Omise's error object with its HTTP status.
type apiError struct {
	Object   string `json:"object"`
	Location string `json:"location"`
	Code     string `json:"code"`
	Message  string `json:"message"`

	status int
}

func refused(status int, code, format string, args ...any) *apiError {
	return &apiError{
		Object: "error", Location: "https://docs.omise.co/api/errors#" + code, Code: code,
		Message: fmt.Sprintf(format, args...), status: status,
	}
}

func badRequest(format string, args ...any) *apiError {
	return refused(http.StatusBadRequest, "bad_request", format, args...)
}

func notFound(kind, id string) *apiError {
	return refused(http.StatusNotFound, "not_found", "%s %s was not found", kind, id)
}

func serverError() *apiError {
	return refused(http.StatusInternalServerError, "internal_error", "request could not be completed due to an internal error")
}
