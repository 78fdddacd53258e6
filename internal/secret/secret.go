// Package secret holds values that must never be printed.
//
// A Value prints, logs and marshals as a fixed placeholder, so that a config dump, a log line or an error cannot carry it.
// It must not know what the secret is for; it may import only the standard library.
package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Value is a secret string. Its zero value is an absent secret, which equals nothing, not even itself (see Equal).
//
// The text sits behind a pointer because fmt calls no methods on unexported fields: a struct with a Value in one, printed
// with %v, shows an address instead of the text.
type Value struct{ plain *string }

// New wraps a plain text. An empty one gives the zero value.
func New(plain string) Value {
	if plain == "" {
		return Value{}
	}
	return Value{&plain}
}

// Reveal returns the plain text. Call it only where the secret leaves the process for the party that owns it.
func (v Value) Reveal() string {
	if v.plain == nil {
		return ""
	}
	return *v.plain
}

// IsZero reports that there is no secret here.
func (v Value) IsZero() bool { return v.plain == nil }

// Equal compares in constant time. An absent secret on either side is never equal: "none" must not match "none".
func (v Value) Equal(plain string) bool {
	if v.plain == nil || plain == "" {
		return false
	}
	a, b := sha256.Sum256([]byte(*v.plain)), sha256.Sum256([]byte(plain))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// String implements fmt.Stringer with a placeholder.
func (Value) String() string { return redacted }

// Format covers every verb, %#v and %x included.
func (Value) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(redacted)) }

// LogValue implements slog.LogValuer with a placeholder.
func (Value) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText covers JSON and every text encoder.
func (Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText lets environment parsers fill the value; an empty text is refused, since an empty secret is a mistake in
// the configuration and never a choice.
func (v *Value) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return errors.New("the secret is empty: set it, or leave the variable out")
	}
	*v = New(string(b))
	return nil
}
