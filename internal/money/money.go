// Package money holds amounts as whole numbers of a currency's minor unit (yen, satang, cents, fils).
//
// It must not know orders, providers or rounding policy: what cannot be said exactly is refused, never rounded.
// It may import the currency tables of bojanz/currency and nothing else outside the standard library.
package money

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/bojanz/currency"
)

// Errors of this package. They carry no input, so they are safe in an API answer.
var (
	ErrUnknownCurrency = errors.New("unknown ISO 4217 currency code")
	ErrTooPrecise      = errors.New("more decimal places than the currency has")
	ErrMalformed       = errors.New("not a plain decimal number")
	ErrOverflow        = errors.New("amount is out of range")
	ErrCurrencyDiffers = errors.New("amounts have different currencies")
)

// Currency is an upper-case ISO 4217 alpha-3 code.
type Currency string

// Exponent is the number of decimal places between the main and the minor unit: JPY and KRW 0, THB and USD 2, KWD 3.
func (c Currency) Exponent() (int, error) {
	d, ok := currency.GetDigits(string(c))
	if !ok {
		return 0, ErrUnknownCurrency
	}
	return int(d), nil
}

// Amount is a number of minor units of one currency. The two always travel together.
type Amount struct {
	Minor    int64    `json:"minor"`
	Currency Currency `json:"currency"`
}

// New makes an amount and refuses a currency that is not in ISO 4217.
func New(minor int64, code Currency) (Amount, error) {
	if _, err := code.Exponent(); err != nil {
		return Amount{}, err
	}
	return Amount{Minor: minor, Currency: code}, nil
}

// Parse reads a decimal text in main units, "80.50", exactly. It refuses every sign but a leading minus, exponents,
// separators, and any digit below the minor unit that is not zero ("80.500" THB is 80.50; "80.505" THB is refused).
func Parse(decimal string, code Currency) (Amount, error) {
	exp, err := code.Exponent()
	if err != nil {
		return Amount{}, err
	}
	body, negative := strings.CutPrefix(decimal, "-")
	whole, frac, dotted := strings.Cut(body, ".")
	if !digits(whole) || (dotted && !digits(frac)) || len(body) > 64 {
		return Amount{}, ErrMalformed
	}
	for len(frac) > exp {
		if frac[len(frac)-1] != '0' {
			return Amount{}, ErrTooPrecise
		}
		frac = frac[:len(frac)-1]
	}
	frac += strings.Repeat("0", exp-len(frac))
	n, _ := new(big.Int).SetString(whole+frac, 10)
	if negative {
		n.Neg(n)
	}
	if !n.IsInt64() {
		return Amount{}, ErrOverflow
	}
	return Amount{Minor: n.Int64(), Currency: code}, nil
}

func digits(s string) bool {
	if s == "" {
		return false
	}
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return true
}

// Decimal writes the amount in main units with all its places: "80", "80.50", "1.230".
func (a Amount) Decimal() string {
	exp, err := a.Currency.Exponent()
	if err != nil {
		return fmt.Sprintf("%d(minor)", a.Minor)
	}
	sign, n := "", new(big.Int).SetInt64(a.Minor)
	if n.Sign() < 0 {
		sign = "-"
		n.Neg(n)
	}
	s := n.String()
	if exp == 0 {
		return sign + s
	}
	if len(s) <= exp {
		s = strings.Repeat("0", exp-len(s)+1) + s
	}
	return sign + s[:len(s)-exp] + "." + s[len(s)-exp:]
}

// String is for people: "80.50 THB".
func (a Amount) String() string { return a.Decimal() + " " + string(a.Currency) }

// Add adds two amounts of one currency.
func (a Amount) Add(b Amount) (Amount, error) {
	if a.Currency != b.Currency {
		return Amount{}, ErrCurrencyDiffers
	}
	if (b.Minor > 0 && a.Minor > math.MaxInt64-b.Minor) || (b.Minor < 0 && a.Minor < math.MinInt64-b.Minor) {
		return Amount{}, ErrOverflow
	}
	return Amount{Minor: a.Minor + b.Minor, Currency: a.Currency}, nil
}

// Times multiplies by a quantity.
func (a Amount) Times(quantity int64) (Amount, error) {
	n := new(big.Int).Mul(big.NewInt(a.Minor), big.NewInt(quantity))
	if !n.IsInt64() {
		return Amount{}, ErrOverflow
	}
	return Amount{Minor: n.Int64(), Currency: a.Currency}, nil
}
