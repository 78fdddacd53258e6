package main

// mutants has one planted bug per guard. A gateway that gains a guard gains a line here.
var mutants = []mutant{
	{
		name: "an answer that is too long is cut", file: "gateways/shared/exchange.go",
		old: "case len(raw) > limit:", new: "case false:",
		run: ".",
	},
	{
		name: "a redirect's body is read as an answer", file: "gateways/shared/exchange.go",
		old: "if Redirects(res) {", new: "if false {",
		run: ".",
	},
	{
		name: "a live key leaves without encryption", file: "gateways/shared/shared.go",
		old: "case live && !Loopback(u.Hostname()):", new: "case false:",
		run: ".",
	},
	{
		name: "an error shows whatever it quotes", file: "gateways/shared/exchange.go",
		old: "\treturn ErrNoAnswer\n}", new: "\treturn err\n}",
		run: ".",
	},
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
		old: "\tif !shared.UsableKey(key, maxKey) {\n\t\treturn errNoKey\n\t}\n", new: "",
	},
	{
		name: "the SDK repeats by itself", file: "gateways/stripe/client.go",
		old: "MaxNetworkRetries: stripego.Int64(0)", new: "MaxNetworkRetries: stripego.Int64(1)",
	},
	{
		name: "a redirect counts as an answer", file: "gateways/stripe/client.go",
		old: "if shared.Redirects(res) {", new: "if false {",
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
		old: "\tif !shared.UsableKey(op.Key, maxKey) {\n", new: "\tif false && !shared.UsableKey(op.Key, maxKey) {\n",
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
		old: "\tif !a.signed {\n\t\treturn gateways.Observation{}, g.refused(read, r, a.code())\n\t}\n\to, err := g.observe", new: "\to, err := g.observe",
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
	{
		name: "a refund of no amount is done", file: "gateways/stripe/refund.go",
		old: "re.Status != \"\" && re.Amount > 0 &&", new: "re.Status != \"\" &&",
	},
	{
		name: "a refund that its charge does not count is done", file: "gateways/stripe/refund.go",
		old: "if seen.Outcome == gateways.Succeeded && c.AmountRefunded < re.Amount {", new: "if false {",
	},
	{
		name: "two refunds under one reference: the last one wins", file: "gateways/stripe/refund.go",
		old: "\t\t\tcase seen.Outcome != gateways.NotFound:\n", new: "\t\t\tcase false:\n",
		run: ".",
	},
	{
		name: "a list of refunds that was not read to its end says that nothing went back", file: "gateways/stripe/refund.go",
		old: "return gateways.RefundSeen{}, g.answered(fault.GatewayReadFailed, read, nil)", new: "return seen, nil",
		run: ".",
	},
	{
		name: "a stored refund goes out for another payment", file: "gateways/stripe/refund.go",
		old: "|| fields.Get(\"payment_intent\") != op.ProviderPaymentID ||", new: "||",
		run: ".",
	},
	{
		name: "another payment's refunds are read for this one's", file: "gateways/stripe/refund.go",
		old: "if !soundRefund(re) || re.PaymentIntent.ID != q.ProviderPaymentID {", new: "if !soundRefund(re) {",
		run: ".",
	},
	{
		name: "more than is left counts as unknown", file: "gateways/stripe/errors.go",
		old: "typ: \"invalid_request_error\", param: \"amount\", status: http.StatusBadRequest, to: fault.PaymentAlready", new: "typ: \"invalid_request_error\", param: \"amount\", status: http.StatusBadRequest, to: fault.PaymentUnknown",
	},
	{
		name: "a row of a list that cannot be read is left out", file: "gateways/stripe/list.go",
		old: "\t\t\treturn gateways.Page{}, unusable\n\t\t}\n\t\to := g.observe", new: "\t\t\tcontinue\n\t\t}\n\t\to := g.observe",
		run: ".",
	},
	{
		name: "a window loses the second it begins in", file: "gateways/stripe/list.go",
		old: "strconv.FormatInt(w.From.Unix(), 10)", new: "strconv.FormatInt(w.From.Unix()+1, 10)",
		run: ".",
	},
	{
		name: "a stored refund goes out to another charge", file: "gateways/omise/refund.go",
		old: "\t\tr.Metadata[chargeField] != charge || !refund", new: "\t\t!refund",
		run: ".",
	},
	{
		name: "a refund without a status is done", file: "gateways/omise/refund.go",
		old: "case r.Status == \"closed\", r.Status == \"\" && text(r.Transaction) != \"\":", new: "case r.Status == \"closed\", r.Status == \"\":",
	},
	{
		name: "a refund without a key is sent", file: "gateways/omise/refund.go",
		old: "\tif !shared.UsableKey(op.Key, maxKey) {\n", new: "\tif false && !shared.UsableKey(op.Key, maxKey) {\n",
	},
	{
		name: "a refund that its charge does not count is done", file: "gateways/omise/refund.go",
		old: "if seen.Outcome == gateways.Succeeded && seen.AmountMinor > c.refunded() {", new: "if false {",
		run: ".",
	},
	{
		name: "two refunds under one reference: the last one wins", file: "gateways/omise/refund.go",
		old: "\tif found > 1 {\n", new: "\tif false {\n",
		run: ".",
	},
	{
		name: "refunds behind the charge's first page are not looked for", file: "gateways/omise/refund.go",
		old: "page.Data != nil && page.Total == len(page.Data) {", new: "page.Data != nil {",
		run: ".",
	},
	{
		name: "a list that moved is read on", file: "gateways/omise/list.go",
		old: "if len(fresh) == 0 || fresh[0].ID != last {", new: "if len(fresh) == 0 {",
		run: ".",
	},
	{
		name: "a window reaches over its end", file: "gateways/omise/list.go",
		old: "w.To.UTC().Add(-time.Nanosecond).Truncate(time.Second)", new: "w.To.UTC().Truncate(time.Second)",
		run: ".",
	},
	{
		name: "taken on counts as given back", file: "gateways/twoctwop/refund.go",
		old: "Outcome: gateways.Pending, Status: a.Status,", new: "Outcome: gateways.Succeeded, Status: a.Status,",
	},
	{
		name: "of two refunds alike the first one is ours", file: "gateways/twoctwop/refund.go",
		old: "\tcase len(ours) > 1:\n", new: "\tcase false:\n",
		run: ".",
	},
	{
		name: "a refund of long before is ours", file: "gateways/twoctwop/refund.go",
		old: "return e.ProviderTime.IsZero() || q.Since.IsZero() || !e.ProviderTime.Before(q.Since.Add(-refundMargin))", new: "return true",
		run: ".",
	},
	{
		name: "another refund of our books is taken for this one", file: "gateways/twoctwop/refund.go",
		old: "case e.AmountMinor != q.Amount.Minor, e.ReferenceNo != \"\" && slices.Contains(q.Known, e.ReferenceNo):", new: "case e.AmountMinor != q.Amount.Minor, e.ReferenceNo != \"\" && len(q.Known) > 99 && slices.Contains(q.Known, e.ReferenceNo):",
		run: ".",
	},
	{
		name: "a stored refund goes out for another payment", file: "gateways/twoctwop/refund.go",
		old: "if d.Decode(&frozen) != nil || frozen.InvoiceNo != op.ProviderPaymentID ||", new: "if d.Decode(&frozen) != nil ||",
		run: ".",
	},
	{
		name: "a cancel of what was never paid is a refund", file: "gateways/toss/refund.go",
		old: "if !taken && seen.Outcome != gateways.Declined {", new: "if false {",
	},
	{
		name: "where there is no list, a part that nobody can see is waited for", file: "gateways/twoctwop/refund.go",
		old: "\tcase !listed && !alone && outcome != gateways.Pending:\n", new: "\tcase false:\n",
		run: ".",
	},
	{
		name: "where there is no list, nothing went back", file: "gateways/twoctwop/lookup.go",
		old: "case !listed || outcome != gateways.Unknown:", new: "case listed && false || outcome != gateways.Unknown:",
		run: ".",
	},
	{
		name: "what moves money needs no second person", file: "order/decision.go",
		old: "if c.Verdict == Applied && t.Approver == nil && t.Rules.second(d.Decision, t.By) {", new: "if false {",
		run: ".",
	},
	{
		name: "a decision on what has moved meanwhile counts", file: "order/decision.go",
		old: "case r.SubjectVersion != f.subjectVersion(r.SubjectKind):", new: "case false:",
		run: ".",
	},
	{
		name: "who proposes is the second person too", file: "order/decision.go",
		old: "case a.Same(t.By):", new: "case false:",
		run: ".",
	},
	{
		name: "more than is held is captured", file: "gateways/stripe/capture.go",
		old: "amount.Minor < 1 || amount.Minor > held.Minor", new: "amount.Minor < 1",
	},
	{
		name: "Omise is asked for a part, and captures the whole", file: "gateways/omise/plan.go",
		old: "case amount != held:", new: "case false:",
	},
	{
		name: "money that is to be captured later is captured at once", file: "gateways/omise/plan.go",
		old: "DontCapture: p.CaptureLater,", new: "DontCapture: false,",
	},
	{
		name: "what Toss cannot hold is taken", file: "gateways/toss/plan.go",
		old: "if p.CaptureLater {", new: "if false {",
	},
	{
		name: "held money is captured for an order that is to be canceled", file: "order/capture.go",
		old: "case f.Order.Cancel != \"\":", new: "case false:",
		run: ".",
	},
	{
		name: "another amount is captured of what was captured before", file: "order/capture.go",
		old: "case asked > 0:", new: "case false:",
		run: ".",
	},
}
