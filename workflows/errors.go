package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"

	"orderflow/internal/fault"
)

// codeOf reads a step's error back: the fault code it failed with. A time-out of any kind means that the other side may
// have acted, so it is the code of an unknown outcome.
func codeOf(err error, unknown fault.Code) fault.Code {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return fault.Code(app.Type())
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return unknown
	}
	return fault.InternalError
}

// again reports whether a database step should go on as a normal activity. What the table ends, stays ended.
func again(err error) bool {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return fault.PolicyOf(fault.Code(app.Type())).Retry
	}
	return !temporal.IsCanceledError(err)
}
