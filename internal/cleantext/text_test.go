package cleantext_test

import (
	"strings"
	"testing"

	"orderflow/internal/cleantext"
)

func TestOrderID(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]cleantext.Kind{
		"1":                              "",
		"order-2026/11-30#7":             "",
		"two words":                      "",
		"注文-１２":                          "",
		"...":                            "",
		strings.Repeat("é", 64):          "",
		strings.Repeat("😀", 64):          "",
		strings.Repeat("x", 65):          cleantext.TooLong,
		strings.Repeat("é", 65):          cleantext.TooLong,
		"":                               cleantext.Empty,
		".":                              cleantext.DotSegment,
		"..":                             cleantext.DotSegment,
		"/":                              cleantext.DotSegment,
		"//":                             "",
		" x":                             cleantext.OuterSpace,
		"x ":                             cleantext.OuterSpace,
		" ":                              cleantext.OuterSpace,
		"a\u00a0b":                       cleantext.UnprintableChar, // a space that is not the plain one
		"a\tb":                           cleantext.ControlChar,
		"a\nb":                           cleantext.ControlChar,
		"a\x1b[31m":                      cleantext.ControlChar,
		"a\x7f":                          cleantext.ControlChar,
		"a\u0085":                        cleantext.ControlChar,
		"a\u2028b":                       cleantext.ControlChar,
		"a\x00":                          cleantext.NUL,
		"a\xff":                          cleantext.InvalidUTF8,
		"\xed\xa0\x80":                   cleantext.InvalidUTF8,
		"a\u202eb":                       cleantext.BidiOverride,
		"a\u202db":                       cleantext.BidiOverride,
		"a\u2066b":                       cleantext.UnprintableChar,
		"a\u200fb":                       cleantext.UnprintableChar,
		"a\u200bb":                       cleantext.UnprintableChar,
		"a\ufeffb":                       cleantext.UnprintableChar,
		"a\ufe0fb":                       cleantext.UnprintableChar,
		"a\u3164b":                       cleantext.UnprintableChar, // a letter that shows as nothing
		"a\ue000b":                       cleantext.UnprintableChar, // private use
		strings.Repeat("x", 1<<20):       cleantext.TooLong,
		strings.Repeat("x", 63) + "\x00": cleantext.NUL,
	} {
		if got := kindOf(t, cleantext.OrderID(in)); got != want {
			t.Errorf("%.40q: kind %q, want %q", in, got, want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]cleantext.Kind{
		"":                  "",
		"👨‍👩‍👧 ギフト券 ﷽":      "", // joiners are part of real text
		"שלום\u200f":        "", // so are direction marks
		"❤\ufe0f":           "",
		"\ufffd":            "", // the real replacement character, not a decoding failure
		"0123456789":        "",
		"01234567890123456": cleantext.TooLong,
		"a\x00":             cleantext.NUL,
		"a\r\nb":            cleantext.ControlChar,
		"a\u202eb":          cleantext.BidiOverride,
		"a\xc3":             cleantext.InvalidUTF8,
	} {
		if got := kindOf(t, cleantext.Text(in, 16)); got != want {
			t.Errorf("%q: kind %q, want %q", in, got, want)
		}
	}
}

func TestLooksLikeCard(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		// Test numbers that the networks and providers publish.
		"4242424242424242":          true,
		"4242 4242 4242 4242":       true,
		"4242-4242-4242-4242":       true,
		"4242 - 4242 - 4242 - 4242": true,
		"4242\u00a04242–4242−4242":  true,
		"４２４２　４２４２　４２４２　４２４２":          true,
		"pay with 4111111111111111 ok": true,
		"card:378282246310005":         true,
		"3782 822463 10005":            true,
		"5555555555554444":             true,
		"3530111333300000":             true,
		"30569309025904":               true,
		"6011111111111117":             true,
		"4222222222222":                true,  // 13 digits
		"6304000000000000000":          true,  // 19 digits
		"visa4242424242424242":         true,  // unbroken: letters beside it do not hide it
		"4242 4242 4242 4242 12 30":    true,  // an expiry behind it does not hide it
		"12 4242 4242 4242 4242":       true,  // nor a number before it
		"qty 2\n4242424242424242":      true,  // a line break ends a number
		"4242424242424241":             false, // fails Luhn
		"4242 4242\n4242 4242":         false,
		"0000000000000000":             false, // no card starts with zero
		"424242424242":                 false, // 12 digits
		"":                             false,
		"ギフト券":                         false,
		"2026-11-30":                   false,
		"090-1234-5678":                false,
		"4242.4242.4242.4242":          false,
		"ab42-4242-4242-4242-4242ab":   false, // pieces of an id
		strings.Repeat("4", 200):       false, // too long to be a card
	} {
		if got := cleantext.LooksLikeCard(in); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}
