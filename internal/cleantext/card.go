package cleantext

import (
	"slices"
	"unicode"
)

// LooksLikeCard reports whether a text holds what may be a card number: 13 to 19 digits, written together or in groups
// with spaces or dashes between, that pass the Luhn check. About one in ten other numbers of that length passes as well,
// so it is meant for free text, not for fields that carry numbers by design.
func LooksLikeCard(s string) bool {
	var groups []group
	var glued bool // nothing but spaces and dashes since the last group
	var before rune
	runes := []rune(s)
	for at := 0; at < len(runes); {
		d := digit(runes[at])
		if d < 0 {
			glued = glued && separator(runes[at])
			before = runes[at]
			at++
			continue
		}
		g := group{loose: !unicode.IsLetter(before)}
		for at < len(runes) && digit(runes[at]) >= 0 {
			g.digits = append(g.digits, byte(digit(runes[at])))
			at++
		}
		g.closed = at == len(runes) || !unicode.IsLetter(runes[at])
		if !glued {
			groups = groups[:0]
		}
		if groups = append(groups, g); cardEndsHere(groups) {
			return true
		}
		glued, before = true, '0'
	}
	return false
}

// group is one unbroken run of digits.
type group struct {
	digits []byte
	loose  bool // no letter right before it
	closed bool // no letter right after it
}

// cardEndsHere looks for a card number made of the last group and those before it. A number in groups needs free ends, so
// that the pieces of a UUID do not count; an unbroken one counts wherever it stands.
func cardEndsHere(groups []group) bool {
	var number []byte
	last := len(groups) - 1
	for first := last; first >= 0; first-- {
		if len(number)+len(groups[first].digits) > 19 {
			return false
		}
		number = append(slices.Clone(groups[first].digits), number...)
		whole := first == last || (groups[first].loose && groups[last].closed)
		if len(number) >= 13 && whole && number[0] != 0 && luhn(number) {
			return true
		}
	}
	return false
}

// zeros are the digits zero of the scripts people type here: ASCII, full width, Arabic-Indic, Persian, Thai.
var zeros = [...]rune{'0', '０', '٠', '۰', '๐'}

func digit(r rune) int {
	for _, zero := range zeros {
		if r >= zero && r <= zero+9 {
			return int(r - zero)
		}
	}
	return -1
}

func separator(r rune) bool {
	return r == '\t' || r == '\u2212' || unicode.In(r, unicode.Zs, unicode.Pd)
}

// luhn expects digit values, not characters.
func luhn(number []byte) bool {
	sum := 0
	for i, d := range number {
		v := int(d)
		if (len(number)-i)%2 == 0 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}
