package e2e

import (
	"fmt"
	"strings"

	"orderflow/sandbox/faults"
)

// psp is one payment provider as the end-to-end tests use it.
type psp struct {
	gateway  string
	account  string // ours; empty = the default one
	currency string
	pays     string // the word of a card that pays, as the sandbox knows it
	declines string
	token    func(word, name, currency string, total int) map[string]any // the method of a payment request
	prepare  func(x *trial)                                              // aims a fault at the write before the confirm; nil = there is none
	confirm  func(x *trial)
}

// trialTotal is the total of a trial's order, in minor units.
const trialTotal = 600

func (p *psp) payment(name, card string) map[string]any {
	if card == "" {
		card = p.pays
	}
	return p.at(map[string]any{"gateway": p.gateway, "method": p.token(card, name, p.currency, trialTotal)})
}

func (p *psp) at(body map[string]any) map[string]any {
	if p.account != "" {
		body["account"] = p.account
	}
	return body
}

func (p *psp) onConfirm(x *trial) { p.confirm(x) }

func (p *psp) onPrepare(x *trial) { p.prepare(x) }

func backTo(name string) string { return "https://shop.example/" + name + "/" }

var stripe = psp{
	gateway: "stripe", currency: "JPY", pays: "pm_card_visa", declines: "pm_card_visa_chargeDeclined",
	token: func(word, name, _ string, _ int) map[string]any {
		return map[string]any{"type": "card", "token": word + "__" + name, "return_url": backTo(name)}
	},
	prepare: func(x *trial) { x.aim(faults.Stripe, "POST", "/v1/payment_intents", "__"+x.name+"&") },
	confirm: func(x *trial) { x.aim(faults.Stripe, "POST", "/confirm", "%2F"+x.name+"%2F") },
}

var omise = psp{
	gateway: "omise", currency: "THB", pays: "tokn_test_ok", declines: "tokn_test_insufficient",
	token: func(word, name, _ string, _ int) map[string]any {
		return map[string]any{"type": "card", "token": word + "__" + name, "return_url": backTo(name)}
	},
	confirm: func(x *trial) { x.aim(faults.Omise, "POST", "/charges", "__"+x.name+`"`) },
}

// omiseCustomer charges a stored card: nothing guards it, so it is sent once, ever.
var omiseCustomer = psp{
	gateway: "omise", currency: "THB", pays: "cust_test_ok", declines: "cust_test_insufficient",
	token: func(word, name, _ string, _ int) map[string]any {
		return map[string]any{"type": "customer", "token": word + "__" + name, "return_url": backTo(name)}
	},
	confirm: omise.confirm,
}

var twoctwop = psp{
	gateway: "twoctwop", currency: "THB", pays: "ok", declines: "insufficient",
	token: func(word, name, _ string, _ int) map[string]any {
		return map[string]any{"type": "card", "token": word + "__" + name, "return_url": backTo(name)}
	},
	prepare: func(x *trial) { x.aim(faults.TwoCTwoP, "POST", "/paymentToken", "/"+x.name+"/") },
	confirm: func(x *trial) { x.aim(faults.TwoCTwoP, "POST", "/payment", "__"+x.name+`"`) },
}

var toss = psp{
	gateway: "toss", currency: "KRW", pays: "pay_ok", declines: "pay_declined",
	token: func(word, name, currency string, total int) map[string]any {
		reference := "ref-" + strings.ReplaceAll(name, ".", "-")
		return map[string]any{
			"type": "card", "token": fmt.Sprintf("%s__%s__%d__%s", word, reference, total, currency), "reference": reference, "amount": fmt.Sprint(total),
		}
	},
	confirm: func(x *trial) { x.aim(faults.Toss, "POST", "/v1/payments/confirm", "__ref-"+x.name+"__") },
}
