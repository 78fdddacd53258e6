package issuers

import (
	"net/http"
	"time"

	"orderflow/internal/fault"
)

// The verbs of this package, as they stand in faults.
const (
	opFreeze = "issuer freeze"
	opIssue  = "issuer issue"
	opLookup = "issuer lookup"
	opRevoke = "issuer revoke"
)

// statusCodes maps the statuses that say by themselves what a write came to. Statuses with a body to read (200, 201, 202,
// 404, 422) are not here; everything else leaves a write unknown, a 500 as much as a 302: it may have happened.
var statusCodes = map[string]map[int]fault.Code{
	opIssue: {
		http.StatusConflict:        fault.IssuanceInProgress,
		http.StatusUnauthorized:    fault.IssuerMisconfigured,
		http.StatusForbidden:       fault.IssuerMisconfigured,
		http.StatusTooManyRequests: fault.IssuerRateLimited,
	},
	opRevoke: {
		http.StatusConflict:        fault.IssuanceInProgress,
		http.StatusUnauthorized:    fault.IssuerMisconfigured,
		http.StatusForbidden:       fault.IssuerMisconfigured,
		http.StatusTooManyRequests: fault.IssuerRateLimited,
	},
}

// noAnswer is what a verb comes to without a usable answer: a write may have happened, a read proves nothing.
func noAnswer(op string) fault.Code {
	if op == opLookup {
		return fault.IssuerReadFailed
	}
	return fault.IssuanceUnknown
}

// faultOf makes the fault of an answer that gives no observation.
func (h *httpIssuer) faultOf(op string, a answer, cause error) *fault.Error {
	code, known := statusCodes[op][a.status]
	if !known {
		code = noAnswer(op)
	}
	return h.coded(code, op, a, cause)
}

func (h *httpIssuer) coded(code fault.Code, op string, a answer, cause error) *fault.Error {
	f := fault.Wrap(code, op, cause)
	f.Provider = fault.Provider{Name: h.config.Name, HTTPStatus: a.status, Code: a.code(), RequestID: a.requestID()}
	if a.header != nil {
		f.RetryAfter = fault.ParseRetryAfter(a.header.Get("Retry-After"), time.Now())
	}
	return f
}

// misuse is a call that our own rules should have stopped. Nothing was sent.
func (h *httpIssuer) misuse(op string, cause error) *fault.Error {
	f := fault.Wrap(fault.InternalError, op, cause)
	f.Provider.Name = h.config.Name
	return f
}
