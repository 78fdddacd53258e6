package toss

import (
	"encoding/json"
	"math/big"
	"regexp"

	"orderflow/internal/money"
)

// decimal is an amount as Toss writes it: a JSON number in main units. Some of its documents show a string, and a null
// where there is nothing to say; both are read.
type decimal string

// numberShape bounds what is computed with: 1.0E7 is ten million, written by a serializer that likes exponents, and a
// thousand digits are an attack.
var numberShape = regexp.MustCompile(`^-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?$`)

// UnmarshalJSON never fails: what is no number stays empty and makes the payment unreadable where the number counts.
func (d *decimal) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	*d = ""
	if numberShape.MatchString(text) {
		*d = decimal(text)
	}
	return nil
}

// minor converts exactly. What the currency cannot say in whole minor units is refused, never rounded.
func (d decimal) minor(c money.Currency) (int64, bool) {
	exp, err := c.Exponent()
	if err != nil || d == "" {
		return 0, false
	}
	n, ok := new(big.Rat).SetString(string(d))
	if !ok {
		return 0, false
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exp)), nil)
	n.Mul(n, new(big.Rat).SetInt(scale))
	if !n.IsInt() || !n.Num().IsInt64() {
		return 0, false
	}
	return n.Num().Int64(), true
}
