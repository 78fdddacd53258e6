package cleantext_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"orderflow/internal/cleantext"
)

func kindOf(t *testing.T, err error) cleantext.Kind {
	t.Helper()
	if err == nil {
		return ""
	}
	var refusal *cleantext.Error
	if !errors.As(err, &refusal) {
		t.Fatalf("error is a %T, want *cleantext.Error", err)
	}
	return refusal.Kind
}

func TestCheck(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, tc := range map[string]struct {
		in     string
		kind   cleantext.Kind
		offset int
	}{
		"PlainObjectPasses":           {in: `{"a":1,"b":[true,false,null,-0.5e+3,"x\n\u00e9"],"c":{"a":1}}`},
		"SurroundingSpacePasses":      {in: " \t\r\n{} \n"},
		"ScalarPasses":                {in: `"x"`},
		"EmojiPasses":                 {in: `{"name":"👨‍👩‍👧 ギフト券 ﷽ \ud83d\ude00"}`},
		"SameKeyInSiblingsPasses":     {in: `[{"a":1},{"a":2},{"A":3}]`},
		"SameKeyInOtherLevelPasses":   {in: `{"a":{"a":{"a":1}}}`},
		"EmptyKeyOncePasses":          {in: `{"":1}`},
		"DepthAtLimitPasses":          {in: deep(cleantext.MaxDepth)},
		"DepthBeyondLimit":            {in: deep(cleantext.MaxDepth + 1), kind: cleantext.TooDeep, offset: cleantext.MaxDepth},
		"MixedDepthBeyondLimit":       {in: strings.Repeat(`{"a":[`, 17) + strings.Repeat(`]}`, 17), kind: cleantext.TooDeep, offset: 16 * 6},
		"VeryDeepStopsEarly":          {in: strings.Repeat("[", 1<<20), kind: cleantext.TooDeep, offset: cleantext.MaxDepth},
		"Nothing":                     {in: "", kind: cleantext.Empty},
		"OnlySpace":                   {in: " \n ", kind: cleantext.Empty},
		"ByteOrderMark":               {in: "\ufeff{}", kind: cleantext.ByteOrderMark},
		"InvalidUTF8":                 {in: "{\"a\":\"\xff\"}", kind: cleantext.InvalidUTF8, offset: 6},
		"EncodedSurrogateIsNotUTF8":   {in: "\"\xed\xa0\x80\"", kind: cleantext.InvalidUTF8, offset: 1},
		"OverlongIsNotUTF8":           {in: "\"\xc0\x80\"", kind: cleantext.InvalidUTF8, offset: 1},
		"RawNUL":                      {in: "{\"a\":\"x\x00\"}", kind: cleantext.NUL, offset: 7},
		"EscapedNUL":                  {in: `{"a":"x\u0000"}`, kind: cleantext.NUL, offset: 7},
		"EscapedNULInKey":             {in: `{"\u0000":1}`, kind: cleantext.NUL, offset: 2},
		"EscapedBackslashIsNoNUL":     {in: `{"a":"\\u0000"}`},
		"HighSurrogateAlone":          {in: `"\ud83d"`, kind: cleantext.LoneSurrogate, offset: 1},
		"HighSurrogateThenText":       {in: `"\ud83dx"`, kind: cleantext.LoneSurrogate, offset: 1},
		"HighSurrogateTwice":          {in: `"\ud83d\ud83d"`, kind: cleantext.LoneSurrogate, offset: 1},
		"LowSurrogateAlone":           {in: `"\uDE00"`, kind: cleantext.LoneSurrogate, offset: 1},
		"HighSurrogateThenShort":      {in: `"\ud83d\n"`, kind: cleantext.LoneSurrogate, offset: 1},
		"DuplicateKey":                {in: `{"a":1,"a":1}`, kind: cleantext.DuplicateKey, offset: 7},
		"DuplicateKeyByEscape":        {in: `{"a":1,"\u0061":1}`, kind: cleantext.DuplicateKey, offset: 7},
		"DuplicateKeyDeepDown":        {in: `[{"x":{"a":1, "b":2, "a":3}}]`, kind: cleantext.DuplicateKey, offset: 21},
		"DuplicateEmptyKey":           {in: `{"":1,"":2}`, kind: cleantext.DuplicateKey, offset: 6},
		"KeysDifferInCase":            {in: `{"id":1,"ID":2}`, kind: cleantext.CaseVariantKey, offset: 8},
		"KeysDifferInFoldedCase":      {in: `{"sku":1,"` + "\u017f\u212a" + `u":2}`, kind: cleantext.CaseVariantKey, offset: 9},
		"KeysDifferInCaseByEscape":    {in: `{"id":1,"\u0049d":2}`, kind: cleantext.CaseVariantKey, offset: 8},
		"TwoValues":                   {in: `{}{}`, kind: cleantext.TrailingData, offset: 2},
		"TrailingWord":                {in: `{} x`, kind: cleantext.TrailingData, offset: 3},
		"LeadingZero":                 {in: `01`, kind: cleantext.TrailingData, offset: 1},
		"TrailingCommaInObject":       {in: `{"a":1,}`, kind: cleantext.Malformed, offset: 7},
		"TrailingCommaInArray":        {in: `[1,]`, kind: cleantext.Malformed, offset: 3},
		"UnquotedKey":                 {in: `{a:1}`, kind: cleantext.Malformed, offset: 1},
		"MissingColon":                {in: `{"a" 1}`, kind: cleantext.Malformed, offset: 5},
		"MissingComma":                {in: `[1 2]`, kind: cleantext.Malformed, offset: 3},
		"OpenString":                  {in: `"abc`, kind: cleantext.Malformed, offset: 4},
		"OpenEscape":                  {in: `"\`, kind: cleantext.Malformed, offset: 2},
		"ShortHex":                    {in: `"\u00`, kind: cleantext.Malformed, offset: 2},
		"BadHex":                      {in: `"\u00g0"`, kind: cleantext.Malformed, offset: 2},
		"UnknownEscape":               {in: `"\x41"`, kind: cleantext.Malformed, offset: 2},
		"RawLineBreakInString":        {in: "\"a\nb\"", kind: cleantext.Malformed, offset: 2},
		"BarePoint":                   {in: `1.`, kind: cleantext.Malformed, offset: 2},
		"BareExponent":                {in: `1e`, kind: cleantext.Malformed, offset: 2},
		"BareMinus":                   {in: `-`, kind: cleantext.Malformed, offset: 1},
		"PlusSign":                    {in: `+1`, kind: cleantext.Malformed},
		"NotANumber":                  {in: `NaN`, kind: cleantext.Malformed},
		"HalfAWord":                   {in: `tru`, kind: cleantext.Malformed},
		"Comment":                     {in: `{/**/}`, kind: cleantext.Malformed, offset: 1},
		"NonBreakingSpaceIsNoSpace":   {in: "\u00a0{}", kind: cleantext.Malformed},
		"SingleQuotes":                {in: `{'a':1}`, kind: cleantext.Malformed, offset: 1},
		"DelCharacterInStringIsLegal": {in: "\"\x7f\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := cleantext.Check([]byte(tc.in))
			if got := kindOf(t, err); got != tc.kind {
				t.Fatalf("kind %q, want %q", got, tc.kind)
			}
			var refusal *cleantext.Error
			if errors.As(err, &refusal) && refusal.Offset != tc.offset {
				t.Errorf("offset %d, want %d", refusal.Offset, tc.offset)
			}
		})
	}
}

func TestErrorsNeverQuoteTheInput(t *testing.T) {
	t.Parallel()
	const marker = "mArKeR"
	for _, in := range []string{
		`{"mArKeR":1,"mArKeR":2}`, `{"mArKeR":1,"MARKER":2}`, `mArKeR`, `{} mArKeR`, `"mArKeR\ud800"`, `{"mArKeR":"\u0000"}`,
	} {
		err := cleantext.Check([]byte(in))
		if err == nil || strings.Contains(strings.ToLower(err.Error()), strings.ToLower(marker)) {
			t.Errorf("%v", err)
		}
		if !strings.Contains(err.Error(), "at byte") {
			t.Errorf("no place named: %v", err)
		}
	}
	for _, err := range []error{
		cleantext.OrderID(marker + "\u202e"), cleantext.OrderID(" " + marker), cleantext.Text(marker, 3), cleantext.Text(marker+"\x00", 99),
	} {
		if err == nil || strings.Contains(err.Error(), marker) {
			t.Errorf("%v", err)
		}
	}
}

// A body built to make each key collide, or each level repeat work, must not cost more than its size. The bound is far
// above what a linear pass takes (some 20 ms) and far below what a quadratic one does (minutes).
func TestTimeIsLinear(t *testing.T) {
	t.Parallel()
	var keys bytes.Buffer
	keys.WriteByte('{')
	for i := range 100_000 {
		if i > 0 {
			keys.WriteByte(',')
		}
		b, _ := json.Marshal(strings.Repeat("k", 3) + string(rune('a'+i%26)) + time.Unix(int64(i), 0).UTC().Format("150405.000000000") + strings.Repeat("x", i%7) + string(rune(0x4e00+i/26)))
		keys.Write(b)
		keys.WriteString(":0")
	}
	keys.WriteByte('}')
	for name, in := range map[string][]byte{
		"ManyKeys":   keys.Bytes(),
		"LongString": []byte(`"` + strings.Repeat(`\u00e9`, 1<<18) + `"`),
		"LongNumber": []byte(strings.Repeat("9", 2<<20)),
		"LongSpace":  []byte(strings.Repeat(" ", 2<<20) + "1"),
		"LongArray":  []byte("[" + strings.Repeat("1,", 1<<20) + "1]"),
	} {
		start := time.Now()
		if err := cleantext.Check(in); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: %d bytes took %s", name, len(in), took)
		}
	}
}

// FuzzCheck holds Check against Go's own reader: what passes is JSON in UTF-8, what is called malformed is none, and what
// passes means the same after decoding and encoding.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"A":2}`, `{"a":"\ud83d\ude00"}`, `[1,2,{"b":[]}]`, `"\u0000"`, `-0.0e-1`, "\xef\xbb\xbf{}", `{"":{"":""}}`, `[[[[[[[]]]]]]]`, `"\ud800"`, `{"k":1,"` + "\u212a" + `":2}`, ` null `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := cleantext.Check(raw)
		switch kind := kindOf(t, err); kind {
		case "":
			if !json.Valid(raw) || !utf8.Valid(raw) {
				t.Fatalf("passed, and is no JSON in UTF-8: %q", raw)
			}
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				var unmarshal *json.UnmarshalTypeError
				if !errors.As(err, &unmarshal) { // a number beyond float64 is still JSON
					t.Fatal(err)
				}
				return
			}
			again, err := json.Marshal(v)
			if err != nil || cleantext.Check(again) != nil {
				t.Fatalf("decoded and encoded again it fails: %q", again)
			}
		case cleantext.Malformed, cleantext.TrailingData, cleantext.Empty, cleantext.ByteOrderMark:
			if json.Valid(raw) {
				t.Fatalf("%s, but Go reads it: %q", kind, raw)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	body := []byte(`{"order_id":"order-1","currency":"JPY","lines":[` + strings.Repeat(`{"sku":"T-1","name":"ギフト券","quantity":3,"unit_amount":1200,"tax_rate":"10"},`, 9) + `{"sku":"x"}],"total":33000}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := cleantext.Check(body); err != nil {
			b.Fatal(err)
		}
	}
}
