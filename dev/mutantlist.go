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
	{
		name: "a write without a key is sent", file: "gateways/omise/send.go",
		old: "\tif !usableKey(op.Key) {\n", new: "\tif false {\n",
	},
	{
		name: "successful counts as paid with nothing taken", file: "gateways/omise/status.go",
		old: "case !ok, (out.outcome == gateways.Succeeded) != (c.taken() > 0), out.outcome == gateways.Succeeded && !c.Paid:", new: "case !ok:",
	},
	{
		name: "a live charge passes for a test one", file: "gateways/omise/status.go",
		old: "\tcase *c.Livemode:\n", new: "\tcase false:\n",
	},
	{
		name: "a webhook signed in the future is believed", file: "gateways/omise/webhook.go",
		old: "off > signatureAge || off < -signatureAge", new: "off > signatureAge",
	},
	{
		name: "any signature is right", file: "gateways/omise/webhook.go",
		old: "\tif !right {\n", new: "\tif !right && len(want) == 0 {\n",
	},
	{
		name: "an unsigned payment token is believed", file: "gateways/twoctwop/send.go",
		old: "\tcase !a.signed:\n\t\treturn gateways.Observation{}, g.unusable(kind, r, errUnsigned)\n", new: "",
		run: ".",
	},
	{
		name: "an unsigned inquiry is believed", file: "gateways/twoctwop/lookup.go",
		old: "\tif !a.signed {\n\t\treturn gateways.Observation{}, g.refused(read, r, a.code())\n\t}\n\treturn g.observe", new: "\treturn g.observe",
	},
	{
		name: "one payment's request goes out with another's token", file: "gateways/twoctwop/send.go",
		old: "if op.ProviderPaymentID != invoice || (op.MerchantReference != \"\" && op.MerchantReference != invoice) {", new: "if false {",
		run: ".",
	},
	{
		name: "what went back is not counted", file: "gateways/toss/status.go",
		old: "o.CapturedMinor, o.RefundedMinor = p.total, p.total-p.balance", new: "o.CapturedMinor = p.total",
	},
	{
		name: "the redirect's amount is believed", file: "gateways/toss/plan.go",
		old: "\tif a != ordered {\n", new: "\tif false && a != ordered {\n",
		run: ".",
	},
	{
		name: "a confirm answered with 'untouched' is believed", file: "gateways/toss/send.go",
		old: "if o.Outcome == gateways.Untouched {\n\t\t\to.Outcome = gateways.Unknown", new: "if false {\n\t\t\to.Outcome = gateways.Unknown",
	},
	{
		name: "a webhook signed long ago is believed", file: "gateways/stripe/webhook.go",
		old: "; off > noticeTolerance {", new: "; off < 0 {",
	},
	{
		name: "any signature is right", file: "gateways/stripe/webhook.go",
		old: "right = (err == nil && hmac.Equal(got, want)) || right", new: "right = (err == nil && len(got) > 0 && len(want) > 0) || right",
	},
}
