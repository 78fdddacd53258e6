package stripesim

import "strings"

const supported = " aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp byn bzd cad cdf " +
	"chf clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd hnl htg huf idr ils inr isk " +
	"jmd jod jpy kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn " +
	"nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp sle sos srd std szl thb tjs tnd " +
	"top try ttd twd tzs uah ugx usd uyu uzs vnd vuv wst xaf xcd xof xpf yer zar zmw "

const threeDecimals = " bhd jod kwd omr tnd "

func listed(list, currency string) bool {
	return len(currency) == 3 && strings.Contains(list, " "+currency+" ")
}

// minimum is Stripe's smallest charge in minor units, by memory and for the currencies that matter here; 1 for the others.
func minimum(currency string) int64 {
	switch currency {
	case "usd", "eur", "cad", "aud", "sgd":
		return 50
	case "gbp":
		return 30
	case "jpy":
		return 50
	case "thb":
		return 1000
	case "hkd":
		return 400
	}
	return 1
}

// maximum is Stripe's longest amount: eight digits, more for currencies of small units.
func maximum(currency string) int64 {
	switch currency {
	case "idr":
		return 999_999_999_999
	case "cop", "huf", "lbp", "jpy":
		return 9_999_999_999
	case "inr":
		return 999_999_999
	}
	return 99_999_999
}

func (s *Sim) checkAmount(amount int64, currency string) *apiError {
	switch {
	case amount < 1:
		return badParameter("parameter_invalid_integer", "amount", "This value must be greater than or equal to 1.")
	case amount > maximum(currency):
		return badParameter("amount_too_large", "amount", "Amount must be no more than %d in the smallest unit of %s.", maximum(currency), currency)
	case s.settings.Minimums && amount < minimum(currency):
		return badParameter("amount_too_small", "amount", "Amount must be at least %d in the smallest unit of %s.", minimum(currency), currency)
	case listed(threeDecimals, currency) && amount%10 != 0:
		return badParameter("parameter_invalid_integer", "amount", "Amounts in %s must end with a 0: the last of the three decimal places is not supported.", currency)
	}
	return nil
}
