package twoctwopsim

import (
	"strconv"
	"strings"
)

// exponents are the currencies with other than two decimals. Rupiah have two in the books and none on the wire.
var exponents = map[string]int{
	"JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "ISK": 0, "XAF": 0, "XOF": 0, "XPF": 0, "UGX": 0, "PYG": 0,
	"BHD": 3, "JOD": 3, "KWD": 3, "OMR": 3, "TND": 3,
}

func exponent(currency string) int {
	if e, ok := exponents[currency]; ok {
		return e
	}
	return 2
}

// parseAmount reads D(12,5) in main units into minor units. Digits below the minor unit are refused, zeros too: JPY is
// written "1500" and THB "1500.00", so that a wrong notion of a currency shows.
func parseAmount(text, currency string) (int64, bool) {
	if len(currency) != 3 || strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return 0, false
	}
	whole, places, dotted := strings.Cut(text, ".")
	want := exponent(currency)
	if currency == "IDR" && dotted {
		return 0, false
	}
	if whole == "" || len(whole) > 12 || (dotted && places == "") || len(places) > want || strings.Trim(whole+places, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+places+strings.Repeat("0", want-len(places)), 10, 64)
	return n, err == nil && n > 0
}

// formatAmount writes minor units as 2C2P does: with the currency's decimals, or padded with zeros to 12 and 5 places.
func formatAmount(minor int64, currency string, padded bool) string {
	e := exponent(currency)
	digits := strconv.FormatInt(minor, 10)
	if len(digits) <= e {
		digits = strings.Repeat("0", e-len(digits)+1) + digits
	}
	whole, places := digits[:len(digits)-e], digits[len(digits)-e:]
	if padded {
		return strings.Repeat("0", max(12-len(whole), 0)) + whole + "." + places + strings.Repeat("0", 5-len(places))
	}
	if e == 0 || currency == "IDR" {
		return whole
	}
	return whole + "." + places
}
