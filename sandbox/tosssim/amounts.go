package tosssim

import (
	"encoding/json"
	"strconv"
	"strings"
)

// decimals are the places of the currencies Toss takes. Amounts are whole minor units inside and main units on the wire.
var decimals = map[string]int{"KRW": 0, "JPY": 0, "USD": 2}

// parseAmount reads main units exactly: "17.99" USD is 1799.
func parseAmount(text, currency string) (int64, bool) {
	places, ok := decimals[currency]
	whole, frac, _ := strings.Cut(text, ".")
	if !ok || whole == "" || strings.Trim(whole+frac, "0123456789") != "" {
		return 0, false
	}
	for len(frac) > places && strings.HasSuffix(frac, "0") {
		frac = frac[:len(frac)-1]
	}
	if len(frac) > places {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+frac+strings.Repeat("0", places-len(frac)), 10, 64)
	return n, err == nil
}

// formatAmount writes main units as a JSON number.
func formatAmount(minor int64, currency string) json.Number {
	places := decimals[currency]
	text, sign := strconv.FormatInt(minor, 10), ""
	if minor < 0 {
		text, sign = text[1:], "-"
	}
	if places == 0 {
		return json.Number(sign + text)
	}
	if len(text) <= places {
		text = strings.Repeat("0", places-len(text)+1) + text
	}
	return json.Number(sign + text[:len(text)-places] + "." + text[len(text)-places:])
}
