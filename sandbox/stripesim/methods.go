package stripesim

import "strings"

// The kinds of payment method.
const (
	kindCard     = "card"
	kindKonbini  = "konbini"
	kindTransfer = "customer_balance"
)

// method is a test payment method. One without brand, decline and challenge charges.
type method struct {
	kind      string
	brand     string
	decline   *decline
	challenge bool // the buyer has to authenticate first
	held      bool // the bank only holds the money until the merchant captures it, as with a manual capture
}

// declines are Stripe's test declines by the end of the payment method's name.
func declineOf(suffix string) (decline, bool) {
	switch suffix {
	case "":
		return cardDeclined("generic_decline"), true
	case "InsufficientFunds":
		return decline{"card_declined", "insufficient_funds", "Your card has insufficient funds."}, true
	case "LostCard":
		return cardDeclined("lost_card"), true
	case "StolenCard":
		return cardDeclined("stolen_card"), true
	case "Fraudulent":
		return cardDeclined("fraudulent"), true
	case "VelocityLimitExceeded":
		return cardDeclined("card_velocity_exceeded"), true
	case "DuplicateTransaction":
		return cardDeclined("duplicate_transaction"), true
	case "ExpiredCard":
		return decline{"expired_card", "expired_card", "Your card has expired."}, true
	case "IncorrectCvc":
		return decline{"incorrect_cvc", "incorrect_cvc", "Your card's security code is incorrect."}, true
	case "ProcessingError":
		return decline{"processing_error", "processing_error", "An error occurred while processing your card. Try again in a little bit."}, true
	case "IssuerNotAvailable":
		return cardDeclined("issuer_not_available"), true
	}
	return decline{}, false
}

// lookupMethod knows pm_card_<brand>, pm_card_[<brand>_]chargeDeclined<Why>, the 3-D Secure ones, pm_konbini and
// pm_bank_transfer. A name may be made unique with a "__" and anything behind it, so that a test can tell its payments
// apart.
func lookupMethod(id string) (method, bool) {
	id, _, _ = strings.Cut(id, "__")
	switch id {
	case "pm_konbini":
		return method{kind: kindKonbini}, true
	case "pm_bank_transfer":
		return method{kind: kindTransfer}, true
	}
	if name, ok := strings.CutPrefix(id, "pm_card_"); ok {
		m, known := lookupCard(name)
		m.kind = kindCard
		return m, known
	}
	return method{}, false
}

func lookupCard(name string) (method, bool) {
	brand := "visa"
	for _, b := range []string{"visa", "mastercard", "amex", "jcb", "unionpay", "discover", "diners"} {
		if name == b {
			return method{brand: b}, true
		}
		if rest, has := strings.CutPrefix(name, b+"_"); has {
			brand, name = b, rest
			break
		}
	}
	switch name {
	case "heldForCapture": // this simulator's own: an account whose payments are captured by hand
		return method{brand: brand, held: true}, true
	case "debit", "prepaid":
		return method{brand: brand}, true
	case "threeDSecure2Required", "threeDSecureRequired", "authenticationRequired":
		return method{brand: brand, challenge: true}, true
	case "radarBlock":
		d := cardDeclined("fraudulent")
		return method{brand: brand, decline: &d}, true
	}
	if why, has := strings.CutPrefix(name, "chargeDeclined"); has {
		if d, known := declineOf(why); known {
			return method{brand: brand, decline: &d}, true
		}
	}
	return method{}, false
}

type methodView struct {
	ID     string    `json:"id"`
	Object string    `json:"object"`
	Type   string    `json:"type"`
	Card   *cardView `json:"card,omitempty"`
}

type cardView struct {
	Brand string `json:"brand"`
}

func viewMethod(id string) *methodView {
	if id == "" {
		return nil
	}
	m, _ := lookupMethod(id)
	v := &methodView{ID: id, Object: "payment_method", Type: m.kind}
	if m.kind == kindCard {
		v.Card = &cardView{Brand: m.brand}
	}
	return v
}
