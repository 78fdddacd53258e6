package omisesim

import (
	"net/http"
	"strings"
)

// behavior is what a token, a source or a customer's card does when it is charged. The zero value charges.
type behavior struct {
	failure   string // failure_code of a charge that fails
	refusal   string // code of an error instead of a charge
	challenge bool   // the buyer has to act first
	used      bool   // spent before it came here
	kind      string // a source's type
	brand     string
	last      string // last digits of the card
}

// outcomes are the words that magic tokens and customers carry.
var outcomes = map[string]behavior{
	"ok":           {},
	"insufficient": {failure: "insufficient_fund"},
	"stolen":       {failure: "stolen_or_lost_card"},
	"processing":   {failure: "failed_processing"},
	"rejected":     {failure: "payment_rejected"},
	"timeout":      {failure: "timeout"},
	"mismatch":     {failure: "confirmed_amount_mismatch"},
	"3ds":          {challenge: true},
	"used":         {used: true},
	"brand":        {refusal: "brand_not_supported"},
	"invalid":      {refusal: "invalid_card"},
}

// sourceTypes are the words that magic sources carry.
var sourceTypes = map[string]string{
	"promptpay": "promptpay",
	"konbini":   "econtext",
	"econtext":  "econtext",
	"paypay":    "paypay",
	"bank":      "internet_banking_bbl",
	"bill":      "bill_payment_tesco_lotus",
}

// magic reads an id such as tokn_test_insufficient__order-7 without it having been made before. What stands behind the
// two underscores makes it unique. tokn_test_fail_<failure code>__… fails with that code, tokn_test_error_<code>__… is
// refused with it. ok is false for an id that is no magic one.
func magic(prefix, id string, live bool) (behavior, bool) {
	rest, ok := strings.CutPrefix(id, prefix)
	if !ok {
		return behavior{}, false
	}
	rest, test := strings.CutPrefix(rest, "test_")
	if test == live {
		return behavior{}, false
	}
	word, _, _ := strings.Cut(rest, "__")
	if prefix == "src_" {
		kind, known := sourceTypes[word]
		return behavior{kind: kind, challenge: true}, known
	}
	if code, has := strings.CutPrefix(word, "fail_"); has && code != "" {
		return behavior{failure: code, brand: "Visa", last: "4242"}, true
	}
	if code, has := strings.CutPrefix(word, "error_"); has && code != "" {
		return behavior{refusal: code, brand: "Visa", last: "4242"}, true
	}
	b, known := outcomes[word]
	b.brand, b.last = "Visa", "4242"
	return b, known
}

// testCards are Omise's test numbers that fail when they are charged; every other valid number pays.
var testCards = map[string]string{
	"4111111111140011": "insufficient_fund", "5555551111110011": "insufficient_fund", "3530111111190011": "insufficient_fund",
	"4111111111130012": "stolen_or_lost_card", "5555551111100012": "stolen_or_lost_card", "3530111111180012": "stolen_or_lost_card",
	"4111111111120013": "failed_processing", "5555551111190013": "failed_processing", "3530111111170013": "failed_processing",
	"4111111111110014": "payment_rejected", "5555551111180014": "payment_rejected", "3530111111160014": "payment_rejected",
}

// token is a card token made here. The number itself is not kept.
type token struct {
	id       string
	behavior behavior
	used     bool
	created  string
}

func createToken(_ *Sim, r *request, _ string) (any, *apiError) {
	card, bad := r.params.object("card")
	if bad != nil {
		return nil, bad
	}
	number, _ := card["number"].(string)
	number = strings.ReplaceAll(number, " ", "")
	if !luhn(number) {
		return nil, refused(http.StatusBadRequest, "invalid_card", "number is invalid")
	}
	b := behavior{failure: testCards[number], brand: "Visa", last: number[len(number)-4:]}
	switch number[0] {
	case '5':
		b.brand = "MasterCard"
	case '3':
		b.brand = "JCB"
	}
	t := &token{id: r.newID("tokn"), behavior: b, created: stamp(r.now)}
	r.account.tokens[t.id] = t
	return t.view(r.account.live), nil
}

func getToken(_ *Sim, r *request, id string) (any, *apiError) {
	t, ok := r.account.tokens[id]
	if !ok {
		return nil, notFound("token", id)
	}
	return t.view(r.account.live), nil
}

func (t *token) view(live bool) map[string]any {
	return map[string]any{
		"object": "token", "id": t.id, "livemode": live, "location": "/tokens/" + t.id, "used": t.used,
		"charge_status": "unknown", "card": t.behavior.cardView(live), "created_at": t.created,
	}
}

func (b behavior) cardView(live bool) map[string]any {
	return map[string]any{"object": "card", "livemode": live, "brand": b.brand, "last_digits": b.last, "deleted": false}
}

func luhn(number string) bool {
	if len(number) < 12 || len(number) > 19 || strings.Trim(number, "0123456789") != "" {
		return false
	}
	sum := 0
	for i := range len(number) {
		n := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// source is a source made here.
type source struct {
	id       string
	kind     string
	amount   int64
	currency string
	created  string
}

func createSource(_ *Sim, r *request, _ string) (any, *apiError) {
	kind, bad := r.params.text("type")
	if bad != nil {
		return nil, bad
	}
	amount, _, bad := r.params.integer("amount")
	if bad != nil {
		return nil, bad
	}
	currency, bad := r.params.text("currency")
	switch {
	case bad != nil:
		return nil, bad
	case kind == "":
		return nil, badRequest("type is missing")
	case amount <= 0:
		return nil, refused(http.StatusBadRequest, "invalid_amount", "amount must be greater than 0")
	case len(currency) != 3:
		return nil, badRequest("currency is not supported")
	}
	src := &source{id: r.newID("src"), kind: kind, amount: amount, currency: strings.ToUpper(currency), created: stamp(r.now)}
	r.account.sources[src.id] = src
	return src.view(r.account.live), nil
}

func getSource(_ *Sim, r *request, id string) (any, *apiError) {
	src, ok := r.account.sources[id]
	if !ok {
		return nil, notFound("source", id)
	}
	return src.view(r.account.live), nil
}

func (src *source) view(live bool) map[string]any {
	return map[string]any{
		"object": "source", "id": src.id, "livemode": live, "location": "/sources/" + src.id, "type": src.kind,
		"flow": flowOf(src.kind), "amount": src.amount, "currency": src.currency, "scannable_code": nil, "references": nil,
		"charge_status": "unknown", "created_at": src.created,
	}
}

func flowOf(kind string) string {
	switch kind {
	case "promptpay", "paynow", "bill_payment_tesco_lotus":
		return "offline"
	}
	return "redirect"
}
