package money_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/bojanz/currency"
	"pgregory.net/rapid"

	"orderflow/internal/money"
)

func TestExponents(t *testing.T) {
	t.Parallel()
	for code, want := range map[money.Currency]int{
		"JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "ISK": 0, "THB": 2, "USD": 2, "EUR": 2, "GBP": 2, "SGD": 2, "TWD": 2,
		"HUF": 2, "IDR": 2, "KWD": 3, "BHD": 3, "JOD": 3, "OMR": 3, "TND": 3, "CLF": 4,
	} {
		if got, err := code.Exponent(); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", code, got, err, want)
		}
	}
	for _, code := range []money.Currency{"", "XXZ", "jpy", "JPY ", "YEN", "¥"} {
		if _, err := code.Exponent(); !errors.Is(err, money.ErrUnknownCurrency) {
			t.Errorf("%q is taken for a currency", code)
		}
		if _, err := money.New(1, code); !errors.Is(err, money.ErrUnknownCurrency) {
			t.Errorf("an amount in %q can be made", code)
		}
		if _, err := money.Parse("1", code); !errors.Is(err, money.ErrUnknownCurrency) {
			t.Errorf("an amount in %q can be read", code)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		code money.Currency
		want int64
		err  error
	}{
		// The values that binary floats get wrong.
		{"17.99", "USD", 1799, nil},
		{"8.20", "USD", 820, nil},
		{"67.96", "USD", 6796, nil},
		{"9.95", "THB", 995, nil},
		{"79.99", "THB", 7999, nil},
		{"1.005", "KWD", 1005, nil},
		{"0.285", "KWD", 285, nil},
		{"1.005", "USD", 0, money.ErrTooPrecise},
		{"0.285", "USD", 0, money.ErrTooPrecise},
		{"33.333", "USD", 0, money.ErrTooPrecise},
		{"17.99", "JPY", 0, money.ErrTooPrecise},
		{"0.1", "KRW", 0, money.ErrTooPrecise},
		// A currency's own places.
		{"80", "JPY", 80, nil},
		{"12345", "KRW", 12345, nil},
		{"80.50", "THB", 8050, nil},
		{"80.5", "THB", 8050, nil},
		{"80", "THB", 8000, nil},
		{"1.230", "KWD", 1230, nil},
		{"1.234", "KWD", 1234, nil},
		{"1.2345", "KWD", 0, money.ErrTooPrecise},
		// Zeros beyond the minor unit say nothing, so they are no precision.
		{"80.500", "THB", 8050, nil},
		{"80.000", "JPY", 80, nil},
		{"80.505", "THB", 0, money.ErrTooPrecise},
		{"80.5050", "THB", 0, money.ErrTooPrecise},
		{"00080.50", "THB", 8050, nil},
		{"0", "JPY", 0, nil},
		{"-0.00", "USD", 0, nil},
		{"-1.5", "USD", -150, nil},
		// The ends of the range.
		{"9223372036854775807", "JPY", math.MaxInt64, nil},
		{"9223372036854775808", "JPY", 0, money.ErrOverflow},
		{"-9223372036854775808", "JPY", math.MinInt64, nil},
		{"-9223372036854775809", "JPY", 0, money.ErrOverflow},
		{"92233720368547758.07", "USD", math.MaxInt64, nil},
		{"92233720368547758.08", "USD", 0, money.ErrOverflow},
		// Everything that is not a plain decimal number.
		{"", "USD", 0, money.ErrMalformed},
		{"-", "USD", 0, money.ErrMalformed},
		{".5", "USD", 0, money.ErrMalformed},
		{"5.", "USD", 0, money.ErrMalformed},
		{".", "USD", 0, money.ErrMalformed},
		{"+5", "USD", 0, money.ErrMalformed},
		{"--5", "USD", 0, money.ErrMalformed},
		{"5-", "USD", 0, money.ErrMalformed},
		{"1.2.3", "USD", 0, money.ErrMalformed},
		{"1.-2", "USD", 0, money.ErrMalformed},
		{"1,000", "JPY", 0, money.ErrMalformed},
		{"1_000", "JPY", 0, money.ErrMalformed},
		{"1 000", "JPY", 0, money.ErrMalformed},
		{" 5", "USD", 0, money.ErrMalformed},
		{"5\n", "USD", 0, money.ErrMalformed},
		{"1e3", "JPY", 0, money.ErrMalformed},
		{"0x10", "JPY", 0, money.ErrMalformed},
		{"NaN", "USD", 0, money.ErrMalformed},
		{"Inf", "USD", 0, money.ErrMalformed},
		{"$5", "USD", 0, money.ErrMalformed},
		{"５", "JPY", 0, money.ErrMalformed},
		{"٥", "JPY", 0, money.ErrMalformed},
		{strings.Repeat("0", 65), "JPY", 0, money.ErrMalformed},
		{"1." + strings.Repeat("0", 1<<20), "JPY", 0, money.ErrMalformed},
	} {
		got, err := money.Parse(tc.in, tc.code)
		if !errors.Is(err, tc.err) || (err == nil && (got.Minor != tc.want || got.Currency != tc.code)) {
			t.Errorf("%.30q %s: %d, %v; want %d, %v", tc.in, tc.code, got.Minor, err, tc.want, tc.err)
		}
	}
}

func TestDecimal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		minor int64
		code  money.Currency
		want  string
	}{
		{80, "JPY", "80"},
		{0, "JPY", "0"},
		{-80, "KRW", "-80"},
		{8050, "THB", "80.50"},
		{5, "USD", "0.05"},
		{-5, "USD", "-0.05"},
		{0, "USD", "0.00"},
		{1230, "KWD", "1.230"},
		{7, "KWD", "0.007"},
		{math.MinInt64, "USD", "-92233720368547758.08"},
		{math.MaxInt64, "KWD", "9223372036854775.807"},
		{42, "???", "42(minor)"},
	} {
		if got := (money.Amount{Minor: tc.minor, Currency: tc.code}).Decimal(); got != tc.want {
			t.Errorf("%d %s: %s, want %s", tc.minor, tc.code, got, tc.want)
		}
	}
	if got := (money.Amount{Minor: 8050, Currency: "THB"}).String(); got != "80.50 THB" {
		t.Error(got)
	}
}

func anyAmount(t *rapid.T) money.Amount {
	code := money.Currency(rapid.SampledFrom(currency.GetCurrencyCodes()).Draw(t, "currency"))
	a, err := money.New(rapid.Int64().Draw(t, "minor"), code)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestParseUndoesDecimal(t *testing.T) {
	t.Parallel()
	for _, code := range currency.GetCurrencyCodes() { // each currency at its edges, then any at random
		for _, minor := range []int64{math.MinInt64, -1001, -100, -1, 0, 1, 9, 10, 99, 100, 101, 999, 1000, math.MaxInt64} {
			a := money.Amount{Minor: minor, Currency: money.Currency(code)}
			if back, err := money.Parse(a.Decimal(), a.Currency); err != nil || back != a {
				t.Errorf("%s came back as %s, %v", a, back, err)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := anyAmount(t)
		zeros := strings.Repeat("0", rapid.IntRange(0, 5).Draw(t, "zeros"))
		text := a.Decimal()
		if strings.Contains(text, ".") {
			text += zeros
		}
		if back, err := money.Parse(text, a.Currency); err != nil || back != a {
			t.Fatalf("%s came back as %s, %v", a, back, err)
		}
	})
}

// What Parse takes is the same number in arithmetic of any size; what it refuses as too precise is not a whole number of
// minor units.
func TestParseIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?[0-9]{1,22}(\.[0-9]{1,6})?`).Draw(t, "text")
		code := money.Currency(rapid.SampledFrom([]string{"JPY", "KRW", "THB", "USD", "KWD", "CLF"}).Draw(t, "currency"))
		exp, _ := code.Exponent()
		exact, _ := new(big.Rat).SetString(text)
		exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exp)), nil)))
		got, err := money.Parse(text, code)
		switch {
		case err == nil:
			if exact.Cmp(new(big.Rat).SetInt64(got.Minor)) != 0 {
				t.Fatalf("%s %s became %d", text, code, got.Minor)
			}
		case errors.Is(err, money.ErrTooPrecise):
			if exact.IsInt() {
				t.Fatalf("%s %s is exact and was refused", text, code)
			}
		case errors.Is(err, money.ErrOverflow):
			if exact.IsInt() && exact.Num().IsInt64() {
				t.Fatalf("%s %s fits and was refused", text, code)
			}
		default:
			t.Fatalf("%s %s: %v", text, code, err)
		}
	})
}

func TestParseNeverPanics(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if a, err := money.Parse(text, "USD"); err != nil && strings.Contains(err.Error(), text) && len(text) > 3 {
			t.Fatalf("the error quotes its input: %v %v", a, err)
		}
	})
}

func TestAddIsExactOrRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := anyAmount(t)
		b := money.Amount{Minor: rapid.Int64().Draw(t, "other"), Currency: a.Currency}
		want := new(big.Int).Add(big.NewInt(a.Minor), big.NewInt(b.Minor))
		check(t, want, a.Currency)(a.Add(b))
	})
	max, one := money.Amount{Minor: math.MaxInt64, Currency: "JPY"}, money.Amount{Minor: 1, Currency: "JPY"}
	if _, err := max.Add(one); !errors.Is(err, money.ErrOverflow) {
		t.Error(err)
	}
	if _, err := (money.Amount{Minor: math.MinInt64, Currency: "JPY"}).Add(money.Amount{Minor: -1, Currency: "JPY"}); !errors.Is(err, money.ErrOverflow) {
		t.Error(err)
	}
	if _, err := one.Add(money.Amount{Minor: 1, Currency: "KRW"}); !errors.Is(err, money.ErrCurrencyDiffers) {
		t.Error("yen and won add up")
	}
}

func TestTimesIsExactOrRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := anyAmount(t)
		quantity := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1000, 1000)).Draw(t, "quantity")
		want := new(big.Int).Mul(big.NewInt(a.Minor), big.NewInt(quantity))
		check(t, want, a.Currency)(a.Times(quantity))
	})
	// The one product that two's complement gets wrong without a sign of it.
	if got, err := (money.Amount{Minor: math.MinInt64, Currency: "JPY"}).Times(-1); !errors.Is(err, money.ErrOverflow) {
		t.Errorf("%v, %v", got, err)
	}
}

func check(t *rapid.T, want *big.Int, code money.Currency) func(money.Amount, error) {
	return func(got money.Amount, err error) {
		if want.IsInt64() {
			if err != nil || got != (money.Amount{Minor: want.Int64(), Currency: code}) {
				t.Fatalf("%v, %v; want %s %s", got, err, want, code)
			}
		} else if !errors.Is(err, money.ErrOverflow) || got != (money.Amount{}) {
			t.Fatalf("%v, %v; want a refusal of %s", got, err, want)
		}
	}
}

func TestJSONTakesWholeMinorUnitsOnly(t *testing.T) {
	t.Parallel()
	out, err := json.Marshal(money.Amount{Minor: math.MaxInt64, Currency: "KRW"})
	if err != nil || string(out) != `{"minor":9223372036854775807,"currency":"KRW"}` {
		t.Errorf("%s, %v", out, err)
	}
	for _, in := range []string{`{"minor":17.99,"currency":"USD"}`, `{"minor":1e3,"currency":"USD"}`, `{"minor":"5","currency":"USD"}`, `{"minor":9223372036854775808,"currency":"USD"}`} {
		var a money.Amount
		if err := json.Unmarshal([]byte(in), &a); err == nil {
			t.Errorf("%s was taken as %v", in, a)
		}
	}
}
