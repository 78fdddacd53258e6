// Package fault is the one error type of the system: what class of thing went wrong, under which stable code.
//
// It must not know providers, SQL or Temporal: gateways and issuers and the store translate into it, activities translate
// out of it. It may import only the standard library.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Class says whether the thing may have happened outside, which is the only question that decides what is safe next.
type Class string

// The classes. An outside write without an answer is Unknown, always.
const (
	Invalid       Class = "invalid"       // our request is wrong; nothing happened
	Declined      Class = "declined"      // the other side said no for good; nothing happened
	Misconfigured Class = "misconfigured" // credentials or account; nothing happened, every order would fail alike
	Transient     Class = "transient"     // answered and certainly not executed, or a read: the same operation again, later
	InProgress    Class = "in_progress"   // the same operation is being worked on: wait, same key
	Conflict      Class = "conflict"      // something else is there ("already", a version moved): look before anything else
	Unknown       Class = "unknown"       // perhaps it happened: look it up within bounds, then a person
	Internal      Class = "internal"      // we broke a rule of ours: stop and show it, never guess
)

// Provider is what the other side said, in its own words. It never holds card data, tokens or free text for people.
type Provider struct {
	Name       string `json:"name,omitempty"`        // "stripe", an issuer's or a receiver's name
	HTTPStatus int    `json:"http_status,omitempty"` // 0 when there was no answer
	Code       string `json:"code,omitempty"`        // the provider's error code
	Detail     string `json:"detail,omitempty"`      // a second code, such as a decline code
	RequestID  string `json:"request_id,omitempty"`  // what the provider's support asks for
}

// Error is a fault. Class and Code decide; the rest explains.
type Error struct {
	Class      Class
	Code       Code
	Op         string        // the operation, as a verb: "stripe confirm"
	Why        string        // one stable word of our own rule or constraint: "already_paid", "attempts_one_open_per_order"
	Provider   Provider      // zero when no provider was involved
	RetryAfter time.Duration // a delay the other side asked for; 0 when it did not
	Cause      error         // for logs of this process only: it is never sent anywhere
}

// New makes a fault whose class is the one the table gives the code.
func New(code Code, op string) *Error {
	return &Error{Class: PolicyOf(code).Class, Code: code, Op: op}
}

// Wrap is New with a cause.
func Wrap(code Code, op string, cause error) *Error {
	e := New(code, op)
	e.Cause = cause
	return e
}

// Reject makes a refused_by_rule fault with the rule's word.
func Reject(why, op string) *Error {
	e := New(Refused, op)
	e.Why = why
	return e
}

// Error names code, operation and provider codes. The cause is left out on purpose: it may quote input or URLs.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", e.Op, e.Code)
	if e.Why != "" {
		s += " [" + e.Why + "]"
	}
	if e.Provider.Name != "" {
		s += fmt.Sprintf(" (%s http=%d code=%q detail=%q request=%q)",
			e.Provider.Name, e.Provider.HTTPStatus, e.Provider.Code, e.Provider.Detail, e.Provider.RequestID)
	}
	return s
}

// Unwrap lets errors.Is see context errors and driver errors below.
func (e *Error) Unwrap() error { return e.Cause }

// As returns the fault inside err. An error that is none of ours becomes internal_error: an unclassified error is a bug
// of ours, and must stop rather than be retried for ever.
func As(err error) *Error {
	if err == nil {
		return nil
	}
	var f *Error
	if errors.As(err, &f) {
		return f
	}
	return Wrap(InternalError, "unclassified", err)
}

// IsCode reports whether err carries the code.
func IsCode(err error, code Code) bool {
	var f *Error
	return errors.As(err, &f) && f.Code == code
}
