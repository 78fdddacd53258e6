package idempotency

import "strings"

// MaxKey is how many characters a key may have.
const MaxKey = 255

// ParseKey reads the Idempotency-Key header. The draft makes it a structured-field string, "in quotes"; a bare one is
// accepted because most clients send that. The key itself is 1 to MaxKey visible ASCII characters, the same one whichever
// way it is written. More than one header, and parameters behind the string, are refused.
func ParseKey(values []string) (key string, missing, ok bool) {
	if len(values) == 0 || (len(values) == 1 && strings.Trim(values[0], " \t") == "") {
		return "", true, false
	}
	if len(values) > 1 {
		return "", false, false
	}
	raw := strings.Trim(values[0], " \t")
	if strings.HasPrefix(raw, `"`) {
		if raw, ok = unquote(raw); !ok {
			return "", false, false
		}
	} else if strings.ContainsAny(raw, `"\`) {
		return "", false, false // half a quotation is a broken client
	}
	if raw == "" || len(raw) > MaxKey {
		return "", false, false
	}
	for _, c := range []byte(raw) {
		if c < '!' || c > '~' {
			return "", false, false
		}
	}
	return raw, false, true
}

// unquote reads a structured-field string (RFC 8941 3.3.3): only \" and \\ are escapes.
func unquote(raw string) (string, bool) {
	var b strings.Builder
	for at := 1; at < len(raw); at++ {
		switch c := raw[at]; c {
		case '"':
			return b.String(), at == len(raw)-1
		case '\\':
			at++
			if at == len(raw) || (raw[at] != '"' && raw[at] != '\\') {
				return "", false
			}
			b.WriteByte(raw[at])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
