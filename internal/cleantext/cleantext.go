// Package cleantext refuses text that would mean different things to different readers: JSON with two values for one key,
// texts PostgreSQL cannot store, names that hide characters, card numbers where free text was expected.
//
// It must not know orders, HTTP or storage, and its errors never quote what they refuse.
// It may import only the standard library.
package cleantext

import "fmt"

// Kind names one reason for a refusal. Kinds are stable words, fit for an API answer.
type Kind string

// The kinds. The first group comes from Check, the second from OrderID and Text.
const (
	Malformed       Kind = "malformed_json"
	InvalidUTF8     Kind = "invalid_utf8"
	NUL             Kind = "nul_character"
	LoneSurrogate   Kind = "lone_surrogate"
	DuplicateKey    Kind = "duplicate_key"
	CaseVariantKey  Kind = "key_differs_only_in_case"
	TooDeep         Kind = "nested_too_deeply"
	TrailingData    Kind = "more_than_one_value"
	ByteOrderMark   Kind = "byte_order_mark"
	Empty           Kind = "empty"
	TooLong         Kind = "too_long"
	OuterSpace      Kind = "leading_or_trailing_space"
	DotSegment      Kind = "dot_segment"
	ControlChar     Kind = "control_character"
	BidiOverride    Kind = "bidirectional_override"
	UnprintableChar Kind = "unprintable_character"
)

var advice = map[Kind]string{
	Malformed:       "this is not JSON (RFC 8259)",
	InvalidUTF8:     "the text is not valid UTF-8; encode it as UTF-8",
	NUL:             "the text holds a NUL character; remove it",
	LoneSurrogate:   "an escape names half of a surrogate pair; send the whole character",
	DuplicateKey:    "an object has the same key twice; send each key once",
	CaseVariantKey:  "an object has two keys that differ only in case; send the one the API names",
	TooDeep:         fmt.Sprintf("objects and arrays are nested more than %d levels deep", MaxDepth),
	TrailingData:    "there is something after the first JSON value; send exactly one",
	ByteOrderMark:   "the body starts with a byte order mark; send UTF-8 without one",
	Empty:           "the text is empty",
	TooLong:         "the text has too many characters",
	OuterSpace:      "the text starts or ends with a space; trim it",
	DotSegment:      `".", ".." and "/" alone have a meaning in URLs; choose another id`,
	ControlChar:     "the text holds a control character or line break; remove it",
	BidiOverride:    "the text holds a character that reverses the reading direction of others; remove it",
	UnprintableChar: "the text holds an invisible character; use printable characters only",
}

// Error is a refusal: what kind, and at which byte of the input. It never holds the input.
type Error struct {
	Kind   Kind
	Offset int // bytes from the start
}

// Error says what is wrong, what to do and where.
func (e *Error) Error() string { return fmt.Sprintf("%s (at byte %d)", advice[e.Kind], e.Offset) }

func refuse(kind Kind, offset int) error { return &Error{Kind: kind, Offset: offset} }
