package idempotency_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/starter/idempotency"
)

// Goal: one key whichever way it is written, and no guess about a broken one. Method: a table of the draft's forms.
func TestParseKey(t *testing.T) {
	t.Parallel()
	const uuid = "8e03978e-40d5-43dd-bc93-6894a57f9324"
	for name, c := range map[string]struct {
		values  []string
		key     string
		missing bool
	}{
		"Quoted":                    {values: []string{`"` + uuid + `"`}, key: uuid},
		"Bare":                      {values: []string{uuid}, key: uuid},
		"SpaceAround":               {values: []string{"  \"" + uuid + "\"\t"}, key: uuid},
		"EscapedQuote":              {values: []string{`"a\"b\\c"`}, key: `a"b\c`},
		"OneCharacter":              {values: []string{"x"}, key: "x"},
		"Longest":                   {values: []string{strings.Repeat("k", 255)}, key: strings.Repeat("k", 255)},
		"LongestQuoted":             {values: []string{`"` + strings.Repeat("k", 255) + `"`}, key: strings.Repeat("k", 255)},
		"PunctuationIsVisible":      {values: []string{"order/17;try=1,a"}, key: "order/17;try=1,a"},
		"NoHeader":                  {missing: true},
		"EmptyHeader":               {values: []string{""}, missing: true},
		"OnlySpace":                 {values: []string{"  "}, missing: true},
		"EmptyString":               {values: []string{`""`}},
		"TooLong":                   {values: []string{strings.Repeat("k", 256)}},
		"TooLongQuoted":             {values: []string{`"` + strings.Repeat("k", 256) + `"`}},
		"SpaceInside":               {values: []string{"a b"}},
		"SpaceInsideQuoted":         {values: []string{`"a b"`}},
		"ControlCharacter":          {values: []string{"a\x01b"}},
		"Delete":                    {values: []string{"a\x7fb"}},
		"NotASCII":                  {values: []string{"schlüssel"}},
		"OpenQuotation":             {values: []string{`"abc`}},
		"QuotationInTheMiddle":      {values: []string{`ab"c`}},
		"BackslashInABareKey":       {values: []string{`ab\c`}},
		"UnknownEscape":             {values: []string{`"a\nb"`}},
		"EscapeAtTheEnd":            {values: []string{`"ab\`}},
		"ParametersBehindTheString": {values: []string{`"abc";p=1`}},
		"TwoHeaders":                {values: []string{"a", "a"}},
		"TwoKeysInOneHeader":        {values: []string{`"a", "b"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, missing, ok := idempotency.ParseKey(c.values)
			require.Equal(t, c.missing, missing)
			require.Equal(t, c.key != "", ok)
			require.Equal(t, c.key, key)
		})
	}
}
