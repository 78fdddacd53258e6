package main

import (
	"fmt"
	"strings"
)

// scenario is one order of the demo: what it buys, what goes wrong on the way, and how it must end.
type scenario struct {
	Name     string
	Gateway  string
	Currency string
	Lines    []map[string]any
	Method   func(id string, total int) map[string]any // what the buyer pays with
	Faults   []map[string]any                          // of the sandbox, for the next requests
	Notices  []map[string]any                          // what happens to the provider's webhooks
	Times    int                                       // how often "pay" is pressed at once, with one key
	Later    bool                                      // the bank only holds the money at first; the shop captures it when all is ready
	Buyer    string                                    // the button that the demo presses on the page of a pending payment; empty = a person does

	Order, Payment, Fulfillment string // how it must end
	Happened                    string
}

func item(sku, name, action, issuer string, quantity, unitAmount int) map[string]any {
	m := map[string]any{"sku": sku, "name": name, "quantity": quantity, "unit_amount": unitAmount, "tax_rate": "10", "action": action}
	if issuer != "" {
		m["issuer"] = issuer
	}
	return m
}

// with is a method whose token is made for one order: the sandbox knows by the word what to do with it. Providers' tokens
// are for one payment, so the order's id makes it unique.
func with(kind, word string) func(string, int) map[string]any {
	return func(id string, _ int) map[string]any {
		m := map[string]any{"type": kind}
		if word != "" {
			m["token"] = word + "__" + strings.ReplaceAll(id, "-", "_")
		}
		return m
	}
}

// atToss is a payment that the buyer has authenticated in Toss's window: what the window's redirect brought to the shop.
func atToss(kind, word string) func(string, int) map[string]any {
	return func(id string, total int) map[string]any {
		amount := fmt.Sprint(total) // a won has no smaller unit
		return map[string]any{"type": kind, "token": fmt.Sprintf("%s__%s__%s__KRW", word, id, amount), "reference": id, "amount": amount}
	}
}

func guide(price int) []map[string]any {
	return []map[string]any{item("guide", "Guide (PDF)", "grant", "", 1, price)}
}

func seats(n int) []map[string]any {
	return []map[string]any{item("seat", "Concert seat", "issue", "tickets", n, 4800)}
}

func lost(target, path string) []map[string]any {
	return []map[string]any{{"target": target, "method": "POST", "path_contains": path, "times": 1, "action": "lose_answer"}}
}

// ends are where most orders come to.
func (s scenario) ends(order, payment, fulfillment string) scenario {
	s.Order, s.Payment, s.Fulfillment = order, payment, fulfillment
	return s
}

func (s scenario) completed() scenario { return s.ends("completed", "paid", "fulfilled") }
func (s scenario) waits() scenario     { return s.ends("open", "action_needed", "none") }

// scenarios are the orders of a demo. Amounts are minor units.
func scenarios() []scenario {
	all := stripeScenarios()
	all = append(all, thaiScenarios()...)
	all = append(all, tossScenarios()...)
	return all
}

func stripeScenarios() []scenario {
	visa := with("card", "pm_card_visa")
	all := []scenario{
		scenario{
			Name: "plain", Lines: append([]map[string]any{item("mug", "Mug", "stock", "", 1, 1800)}, guide(500)...), Method: visa,
			Happened: "paid once, provided once",
		}.completed(),
		scenario{
			Name: "three tickets", Lines: seats(3), Method: visa,
			Happened: "three units, three issuances at the issuer",
		}.completed(),
		scenario{
			Name: "declined", Lines: guide(500), Method: with("card", "pm_card_visa_chargeDeclined"),
			Happened: "declined and closed at Stripe: the buyer may try again",
		}.ends("open", "declined", "none"),
		scenario{
			Name: "answer lost", Lines: guide(500), Method: visa, Faults: lost("stripe", "/confirm"),
			Happened: "the charge's answer was lost: looked up, charged once",
		}.completed(),
		scenario{
			Name: "captured later", Lines: guide(500), Method: visa, Later: true, Faults: lost("stripe", "/capture"),
			Happened: "held first; the capture's answer was lost: looked up, captured once",
		}.completed(),
		scenario{
			Name: "impatient buyer", Lines: guide(500), Method: visa, Times: 5,
			Happened: "pay was pressed five times at once: charged once",
		}.completed(),
		scenario{
			Name: "ticket answer lost", Lines: seats(1), Method: visa, Faults: lost("issuer", "/idempotent/"),
			Happened: "the issuer's answer was lost: looked up, issued once",
		}.completed(),
		scenario{
			Name: "voucher unknown", Lines: []map[string]any{item("gift", "Gift voucher", "issue", "vouchers", 1, 3000)}, Method: visa,
			Faults:   lost("issuer", "/opaque/"),
			Happened: "this issuer cannot be asked: parked, issued by nobody",
		}.ends("paid", "paid", "unknown"),
		scenario{
			Name: "receiver down", Lines: guide(500), Method: visa,
			Faults:   []map[string]any{{"target": "receiver", "times": 2, "action": "status", "status": 500}},
			Happened: "the event receiver was down: sent later, the same id",
		}.completed(),
		scenario{
			Name: "webhook tripled", Lines: guide(500), Method: with("konbini", "pm_konbini"), Buyer: "pass",
			Notices:  []map[string]any{{"gateway": "stripe", "kind": "payment_intent.succeeded", "copies": 2, "parallel": true, "times": 1}},
			Happened: "paid at the counter, the webhook came three times: paid once",
		}.completed(),
		scenario{
			Name: "3-D Secure", Lines: guide(500), Method: with("card", "pm_card_threeDSecure2Required"),
			Happened: "the buyer has to confirm at the bank",
		}.waits(),
	}
	for i := range all {
		all[i].Gateway, all[i].Currency = "stripe", "JPY"
	}
	return all
}

func thaiScenarios() []scenario {
	all := []scenario{
		scenario{
			Name: "card token", Gateway: "omise", Method: with("card", "tokn_test_ok"),
			Happened: "paid once: the token is good for one charge",
		}.completed(),
		scenario{
			Name: "PromptPay", Gateway: "omise", Method: with("source", "src_test_promptpay"),
			Happened: "the buyer has to scan a QR code",
		}.waits(),
		scenario{
			Name: "answer lost", Gateway: "twoctwop", Method: with("card", "ok"),
			Faults:   []map[string]any{{"target": "twoctwop", "path_suffix": "/payment", "times": 1, "action": "lose_answer"}},
			Happened: "Do Payment's answer was lost: inquired, charged once",
		}.completed(),
		scenario{
			Name: "hosted page", Gateway: "twoctwop", Method: with("redirect", ""),
			Happened: "the buyer has to choose and pay on 2C2P's page",
		}.waits(),
	}
	for i := range all {
		all[i].Currency, all[i].Lines = "THB", guide(45000)
	}
	return all
}

func tossScenarios() []scenario {
	all := []scenario{
		scenario{
			Name: "card", Method: atToss("card", "pay_ok"),
			Happened: "authenticated in Toss's window, confirmed once",
		}.completed(),
		scenario{
			Name: "virtual account", Method: atToss("virtual_account", "pay_va"),
			Happened: "an account was opened: the deposit is awaited",
		}.waits(),
	}
	for i := range all {
		all[i].Gateway, all[i].Currency, all[i].Lines = "toss", "KRW", guide(39000)
	}
	return all
}
