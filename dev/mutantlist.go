package main

// mutants has one planted bug per guard. A gateway that gains a guard gains a line here.
var mutants = []mutant{
	{
		name: "an answer of any size is read", file: "gateways/stripe/client.go",
		old: "res.Body = &capped{body: res.Body, left: maxAnswer}", new: "res.Body = &capped{body: res.Body, left: 1 << 60}",
	},
	{
		name: "net/http repeats a broken request by itself", file: "gateways/stripe/client.go",
		old: "once.Body, once.GetBody, once.ContentLength = nil, nil, 0", new: "once.Body, once.ContentLength = nil, 0",
	},
	{
		name: "a decline is believed without the intent it is about", file: "gateways/stripe/send.go",
		old: "if !sound(e.PaymentIntent) || !fitsDecline(e.PaymentIntent) {", new: "if false {",
		run: ".",
	},
	{
		name: "two payments under one reference: the first one wins", file: "gateways/stripe/lookup.go",
		old: "if best != nil && advance(best) == advance(pi) && judge(pi).outcome == gateways.Succeeded {", new: "if false {",
		run: ".",
	},
	{
		name: "a write without a key is sent, and the SDK invents one", file: "gateways/stripe/client.go",
		old: "\tif !usableKey(key) {\n\t\treturn errNoKey\n\t}\n", new: "",
	},
	{
		name: "the SDK repeats by itself", file: "gateways/stripe/client.go",
		old: "MaxNetworkRetries: stripego.Int64(0)", new: "MaxNetworkRetries: stripego.Int64(1)",
	},
	{
		name: "a redirect counts as an answer", file: "gateways/stripe/client.go",
		old: "if res.StatusCode >= 300 && res.StatusCode < 400 {", new: "if false {",
	},
	{
		name: "any JSON is taken for an intent", file: "gateways/stripe/send.go",
		old: "\tif !sound(pi) {\n\t\treturn gateways.Observation{}, g.answered(", new: "\tif false {\n\t\treturn gateways.Observation{}, g.answered(",
	},
	{
		name: "a confirm answered with 'untouched' is believed", file: "gateways/stripe/send.go",
		old: "if kind == gateways.Confirm && o.Outcome == gateways.Untouched {", new: "if false {",
	},
	{
		name: "the answer's mode is taken from the question", file: "gateways/stripe/status.go",
		old: "\tif pi.Livemode {\n", new: "\tif false {\n",
	},
	{
		name: "paid with nothing received counts as paid", file: "gateways/stripe/status.go",
		old: "if (v.outcome == gateways.Succeeded) != (pi.AmountReceived > 0) {", new: "if false {",
	},
	{
		name: "a third decimal that Stripe cannot take is sent", file: "gateways/stripe/plan.go",
		old: "if want == 3 && a.Minor%10 != 0 {", new: "if false {",
	},
	{
		name: "currencies with other units at Stripe are sent", file: "gateways/stripe/plan.go",
		old: "\tif exp != want {\n", new: "\tif false && exp != want {\n",
	},
}
