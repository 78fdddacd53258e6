package twoctwop

import (
	"errors"
	"net/http"
	"slices"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

const read gateways.Kind = "lookup"

func opName(v gateways.Kind) string { return name + " " + string(v) }

// answered makes a fault of an answer that was decoded.
func (g *Gateway) answered(code fault.Code, v gateways.Kind, r reply, said string) *fault.Error {
	f := fault.New(code, opName(v))
	f.Provider = fault.Provider{Name: name, HTTPStatus: r.status, Code: said}
	f.RetryAfter = fault.ParseRetryAfter(r.header.Get("Retry-After"), g.now())
	return f
}

// refused makes the fault of an error code that 2C2P answered. HTTP's own status decides nothing.
func (g *Gateway) refused(v gateways.Kind, r reply, code string) *fault.Error {
	if v == read {
		return g.answered(bareCode(code), v, r, code)
	}
	return g.answered(writeCode(code), v, r, code)
}

// unusable makes the fault of an answer that says nothing: unknown on a write, nothing proven on a read.
func (g *Gateway) unusable(v gateways.Kind, r reply, cause error) *fault.Error {
	code := fault.PaymentUnknown
	if v == read {
		code = fault.GatewayReadFailed
		if r.status == http.StatusTooManyRequests {
			code = fault.GatewayRateLimited
		}
	}
	f := g.answered(code, v, r, "")
	f.Cause = cause
	return f
}

// unanswered makes the fault of a call without an answer, or one that never left.
func unanswered(v gateways.Kind, err error) *fault.Error {
	code := fault.PaymentUnknown
	switch {
	case slices.ContainsFunc(ours, func(o error) bool { return errors.Is(err, o) }):
		return fault.Wrap(fault.InternalError, opName(v), err)
	case v == read:
		code = fault.GatewayReadFailed
	}
	f := fault.Wrap(code, opName(v), err)
	f.Provider.Name = name
	return f
}
