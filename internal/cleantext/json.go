package cleantext

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxDepth is how deeply objects and arrays of a request body may be nested.
const MaxDepth = 32

// Check reads a raw JSON body once, in linear time, and refuses what two JSON readers could take differently or what
// PostgreSQL cannot store: invalid UTF-8, NUL (raw or escaped), half surrogate pairs, a key twice in one object or in two
// cases (Go's decoder matches names without regard to case), more than MaxDepth levels, more than one value, a byte order
// mark. The error is an *Error.
func Check(raw []byte) error {
	if bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")) {
		return refuse(ByteOrderMark, 0)
	}
	if at := firstInvalid(raw); at >= 0 {
		return refuse(InvalidUTF8, at)
	}
	if at := bytes.IndexByte(raw, 0); at >= 0 {
		return refuse(NUL, at)
	}
	s := scanner{raw: raw}
	s.space()
	if s.at == len(raw) {
		return refuse(Empty, 0)
	}
	if err := s.value(0); err != nil {
		return err
	}
	s.space()
	if s.at != len(raw) {
		return refuse(TrailingData, s.at)
	}
	return nil
}

func firstInvalid(raw []byte) int {
	if utf8.Valid(raw) {
		return -1
	}
	for at := 0; at < len(raw); {
		r, size := utf8.DecodeRune(raw[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// scanner walks a body by recursive descent; MaxDepth bounds the recursion.
type scanner struct {
	raw []byte
	at  int
}

func (s *scanner) malformed() error { return refuse(Malformed, s.at) }

// peek is the byte at the cursor, or 0 at the end: NUL was refused before.
func (s *scanner) peek() byte {
	if s.at < len(s.raw) {
		return s.raw[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for c := s.peek(); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = s.peek() {
		s.at++
	}
}

// accept steps over one byte when it is the wanted one.
func (s *scanner) accept(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '{' || c == '[':
		if depth == MaxDepth {
			return refuse(TooDeep, s.at)
		}
		s.at++
		if c == '{' {
			return s.object(depth + 1)
		}
		return s.array(depth + 1)
	case c == '"':
		return s.text(nil)
	case c == '-' || isDigit(c):
		return s.number()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(s.raw[s.at:], []byte(word)) {
			s.at += len(word)
			return nil
		}
	}
	return s.malformed()
}

func (s *scanner) object(depth int) error {
	s.space()
	if s.accept('}') {
		return nil
	}
	seen := map[string]string{} // folded key -> key as sent
	for {
		s.space()
		start := s.at
		if s.peek() != '"' {
			return s.malformed()
		}
		var key []byte
		if err := s.text(&key); err != nil {
			return err
		}
		folded := fold(key)
		if before, twice := seen[folded]; twice {
			if before == string(key) {
				return refuse(DuplicateKey, start)
			}
			return refuse(CaseVariantKey, start)
		}
		seen[folded] = string(key)
		s.space()
		if !s.accept(':') {
			return s.malformed()
		}
		s.space()
		if err := s.value(depth); err != nil {
			return err
		}
		s.space()
		if s.accept('}') {
			return nil
		}
		if !s.accept(',') {
			return s.malformed()
		}
	}
}

func (s *scanner) array(depth int) error {
	s.space()
	if s.accept(']') {
		return nil
	}
	for {
		s.space()
		if err := s.value(depth); err != nil {
			return err
		}
		s.space()
		if s.accept(']') {
			return nil
		}
		if !s.accept(',') {
			return s.malformed()
		}
	}
}

// text steps over a string. Where into is given, the decoded text goes there: keys are compared by meaning, so that an
// escaped letter is no way around the check for duplicates.
func (s *scanner) text(into *[]byte) error {
	s.at++ // the opening quote
	for {
		c := s.peek()
		switch {
		case c == '"':
			s.at++
			return nil
		case c < 0x20: // a raw control character, or the end
			return s.malformed()
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return err
			}
			if into != nil {
				*into = utf8.AppendRune(*into, r)
			}
		default:
			if into != nil {
				*into = append(*into, c)
			}
			s.at++
		}
	}
}

const shortEscapes = `"\/bfnrt`

func (s *scanner) escape() (rune, error) {
	start := s.at
	s.at++ // the backslash
	c := s.peek()
	if c != 'u' {
		at := strings.IndexByte(shortEscapes, c)
		if c == 0 || at < 0 {
			return 0, s.malformed()
		}
		s.at++
		return rune("\"\\/\b\f\n\r\t"[at]), nil
	}
	r, ok := s.hex4()
	switch {
	case !ok:
		return 0, s.malformed()
	case r == 0:
		return 0, refuse(NUL, start)
	case r >= 0xDC00 && r <= 0xDFFF:
		return 0, refuse(LoneSurrogate, start)
	case r < 0xD800 || r > 0xDBFF:
		return r, nil
	}
	if !s.accept('\\') || s.peek() != 'u' {
		return 0, refuse(LoneSurrogate, start)
	}
	low, ok := s.hex4()
	if !ok {
		return 0, s.malformed()
	}
	if low < 0xDC00 || low > 0xDFFF {
		return 0, refuse(LoneSurrogate, start)
	}
	return (r-0xD800)<<10 + (low - 0xDC00) + 0x10000, nil
}

// hex4 reads "uXXXX" with the cursor on the u.
func (s *scanner) hex4() (rune, bool) {
	if s.at+5 > len(s.raw) {
		return 0, false
	}
	var r rune
	for _, c := range s.raw[s.at+1 : s.at+5] {
		switch {
		case isDigit(c):
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	s.at += 5
	return r, true
}

func (s *scanner) number() error {
	s.accept('-')
	if !s.accept('0') && !s.digits() {
		return s.malformed()
	}
	if s.accept('.') && !s.digits() {
		return s.malformed()
	}
	if s.accept('e') || s.accept('E') {
		if !s.accept('+') {
			s.accept('-')
		}
		if !s.digits() {
			return s.malformed()
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.at
	for isDigit(s.peek()) {
		s.at++
	}
	return s.at > start
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// fold maps keys that Go's decoder takes for one another to one text, by the same rule: the smallest rune of each
// simple case-folding orbit.
func fold(key []byte) string {
	out := make([]byte, 0, len(key))
	for _, r := range string(key) {
		if r < utf8.RuneSelf {
			if r >= 'a' && r <= 'z' {
				r -= 'a' - 'A'
			}
			out = append(out, byte(r))
			continue
		}
		low := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			low = min(low, next)
		}
		out = utf8.AppendRune(out, low)
	}
	return string(out)
}
