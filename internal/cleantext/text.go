package cleantext

import (
	"unicode"
	"unicode/utf8"
)

// MaxOrderID is how many characters an order id may have.
const MaxOrderID = 64

// OrderID refuses an order id that a person, a URL or a log could misread: it has 1 to MaxOrderID printable characters,
// plain spaces only inside, and is not ".", ".." or "/": as a segment of a path these are taken for something else, even
// percent-encoded, so such an order could be placed and never be reached. The error is an *Error.
func OrderID(id string) error {
	if id == "." || id == ".." || id == "/" {
		return refuse(DotSegment, 0)
	}
	if id == "" {
		return refuse(Empty, 0)
	}
	if err := walk(id, MaxOrderID, func(r rune) Kind {
		if !unicode.IsPrint(r) || invisible(r) {
			return UnprintableChar
		}
		return ""
	}); err != nil {
		return err
	}
	if id[0] == ' ' {
		return refuse(OuterSpace, 0)
	}
	if id[len(id)-1] == ' ' {
		return refuse(OuterSpace, len(id)-1)
	}
	return nil
}

// Text refuses a name or a description that cannot be stored or shown as sent: invalid UTF-8, control characters and line
// breaks, direction overrides, more than limit characters. Emoji, joiners and direction marks are real text and pass; an
// empty text passes too, since whether a field is required is the caller's rule. The error is an *Error.
func Text(s string, limit int) error {
	return walk(s, limit, func(rune) Kind { return "" })
}

// walk applies what every text must keep, then the caller's rule, to each character.
func walk(s string, limit int, rule func(rune) Kind) error {
	count := 0
	for at, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[at:]); size == 1 {
				return refuse(InvalidUTF8, at)
			}
		}
		if count++; count > limit {
			return refuse(TooLong, at)
		}
		kind := common(r)
		if kind == "" {
			kind = rule(r)
		}
		if kind != "" {
			return refuse(kind, at)
		}
	}
	return nil
}

func common(r rune) Kind {
	switch {
	case r == 0:
		return NUL
	case unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
		return ControlChar
	case r == '\u202d' || r == '\u202e':
		return BidiOverride
	}
	return ""
}

// invisible reports letters and marks that count as printable and show as nothing, so that two ids could look alike.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == '\u2800'
}
