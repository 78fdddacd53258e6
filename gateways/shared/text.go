package shared

import (
	"strings"
	"unicode"
)

// Shorten makes a text fit: invalid bytes and control characters go, and it ends between whole characters, so that a family emoji
// or an accented letter is kept or dropped, never halved. A description must not stop a payment.
func Shorten(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	runes := []rune(strings.TrimSpace(s))
	if len(runes) <= limit {
		return string(runes)
	}
	end := limit
	for end > 0 && joined(runes, end) {
		end--
	}
	return strings.TrimSpace(string(runes[:end]))
}

// joined reports that runes[i] belongs to the same written character as runes[i-1].
func joined(runes []rune, i int) bool {
	const joiner = '\u200d'
	r, before := runes[i], runes[i-1]
	switch {
	case r == joiner || before == joiner, unicode.Is(unicode.M, r):
		return true
	case r >= 0x1F3FB && r <= 0x1F3FF: // skin tones
		return true
	case flag(r) && flag(before): // flags are pairs counted from the start of their run
		n := 0
		for j := i - 1; j >= 0 && flag(runes[j]); j-- {
			n++
		}
		return n%2 == 1
	}
	return false
}

func flag(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }
