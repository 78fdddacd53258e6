package store

// text, number, … make fields of one type.
func text(name, means string) ExportField { return ExportField{Name: name, Type: "text", Means: means} }

func number(name, means string) ExportField {
	return ExportField{Name: name, Type: "number", Means: means}
}

func boolean(name, means string) ExportField {
	return ExportField{Name: name, Type: "boolean", Means: means}
}

func moment(name, means string) ExportField {
	return ExportField{Name: name, Type: "time", Means: means}
}

func object(name, means string) ExportField {
	return ExportField{Name: name, Type: "object", Means: means}
}

func (f ExportField) as(sql string) ExportField {
	f.sql = sql
	return f
}

func account3() []ExportField {
	return []ExportField{
		text("gateway", "the provider"),
		text("account", "our account there"),
		text("environment", "`test` or `live`"),
	}
}

func fields(parts ...any) []ExportField {
	var out []ExportField
	for _, p := range parts {
		switch p := p.(type) {
		case ExportField:
			out = append(out, p)
		case []ExportField:
			out = append(out, p...)
		}
	}
	return out
}

// ExportKinds lists what is exported, in the order in which it comes: what is referred to comes first. A test compares it with the
// schema, so that no column is exported, or left out, without somebody having said so.
func ExportKinds() []ExportKind {
	return append(append(exportPromises(), exportMoney()...), append(exportGoods(), exportLogs()...)...)
}

func exportPromises() []ExportKind {
	return []ExportKind{
		{
			Kind: "order", Table: "orders", Order: "order_id", Means: "What we promised.",
			Fields: fields(
				text("order_id", "the caller's id"), text("client_id", "whose order it is"), text("status", "where it is, see docs/states.md"),
				number("version", "rises with every change of status"), number("revision", "of the promise"), text("cancel_id", "the order's cancel; empty where nobody asked for one"), text("currency", "ISO 4217"),
				number("currency_exponent", "decimals of the currency"), number("lines_minor", "sum of the lines"),
				number("adjustments_minor", "sum of the adjustments"), number("total_minor", "what is charged"),
				object("policy", "the settings frozen with it; durations in nanoseconds"), number("policy_version", "their version"),
				moment("expires_at", "until when it may be paid"), number("work_seq", "work asked for"), number("done_seq", "work done"),
				moment("work_at", "when work was last asked for, or told"), moment("created_at", "when it was made"), moment("paid_at", "when it came to paid"),
				moment("completed_at", "when all was provided"), moment("ended_at", "when it expired or was canceled"),
				text("hold", "why what is owed waits: `dispute`, `taken_back` or empty"), text("external_decision", "the decision that recorded a payment by other means"),
			),
			Withheld: []string{"caller_key", "buyer_ref", "swept_seq", "sweeps"},
		},
		{
			Kind: "line", Table: "order_lines", Order: "order_id, revision, line_no", Means: "One thing bought, some times over.",
			Fields: fields(
				text("order_id", ""), number("revision", "of the promise; the order names the one that stands"), number("line_no", "from 1"), text("sku", "the caller's"), number("quantity", "pieces"),
				number("unit_amount_minor", "of one piece"), number("amount_minor", "of all pieces"), text("tax_rate", "percent, as the order stated it"),
				text("action", "`stock`, `grant` or `issue`"), text("issuer", "who issues it, for `issue`"),
			),
			Withheld: []string{"name"},
		},
		{
			Kind: "adjustment", Table: "order_adjustments", Order: "order_id, revision, adj_no", Means: "A signed amount beside the lines.",
			Fields: fields(text("order_id", ""), number("revision", "of the promise"), number("adj_no", "from 1"), text("kind", "`discount`, `shipping`, `tax` or `included_tax`"), number("amount_minor", "negative for a discount"),
				text("tax_rate", "what it is stated for")),
		},
	}
}

func exportMoney() []ExportKind {
	return []ExportKind{
		{
			Kind: "attempt", Table: "payment_attempts", Order: "attempt_id", Means: "What we asked a provider to collect.",
			Fields: fields(
				text("attempt_id", ""), text("order_id", ""), text("client_id", ""), account3(), text("merchant_reference", "what the provider knows it by"),
				text("provider_payment_id", "the provider's id; empty until it is known"), text("method_type", "how the buyer pays"), text("currency", ""),
				number("amount_minor", "what is asked for"), text("status", "see docs/states.md"), number("version", ""), text("code", "why it was declined, or what is wrong"),
				text("close_reason", "why it can capture nothing any more"), moment("due_at", "until when the buyer can act"),
				number("observed_seq", "answers kept"), number("reflected_seq", "answers applied"), number("looks_asked", "looks wanted after it was settled"), number("checks", "looks so far"),
				moment("next_check_at", "when it is looked at again"), moment("created_at", ""), moment("closed_at", ""),
				number("revision", "of the promise it pays for"), number("held_minor", "what the bank holds, as the provider last said"),
				number("capture_minor", "what was asked to be captured of it; 0 = not asked"),
			),
			Withheld: []string{"caller_key", "next_action", "sealed_private", "return_token_hash", "return_url"},
		},
		{
			Kind: "payment", Table: "payments", Order: "payment_id", Means: "What a provider confirmed.",
			Fields: fields(
				text("payment_id", ""), account3(), text("provider_payment_id", ""), text("order_id", "null where it fits none"), text("attempt_id", "null where it fits none"),
				text("currency", ""), number("captured_minor", "taken"), number("refunded_minor", "given back, by us or by anybody"),
				number("elsewhere_minor", "of that, what no refund of ours explains"), text("dispute", "`none`, `open`, `won` or `lost`"), number("disputed_minor", "what it is about"), boolean("taken_back", "a deposit that the bank has taken back"),
				boolean("matched", "whether it is what was asked for"), number("version", ""), moment("first_seen_at", ""),
			),
		},
		{
			Kind: "operation", Table: "operations", Order: "operation_id", Means: "One write to the outside: the id is its key there.",
			Fields: fields(
				text("operation_id", ""), text("order_id", ""), text("kind", "what was asked, such as `confirm` or `refund`"), text("attempt_id", "null for goods"),
				text("unit_id", "null for money"), number("generation", "a new one is a new key"), boolean("answered", "an error that left the outcome open was received"),
				number("sends", "how often it was sent"), moment("sent_at", "first"), moment("last_sent_at", ""), text("outcome", "empty until an answer came"),
				text("outcome_code", ""), moment("created_at", ""), moment("finished_at", ""),
			),
			Withheld: []string{"sealed_request", "fingerprint", "credential"},
		},
		{
			Kind: "refund", Table: "refunds", Order: "refund_id", Means: "One try to give money back.",
			Fields: fields(
				text("refund_id", ""), text("order_id", ""), text("attempt_id", ""), text("payment_id", ""), text("operation_id", ""), text("client_id", ""), account3(),
				text("reference", "what the provider knows it by"), text("provider_refund_id", "the provider's id; empty until it is known"), number("number", "of the attempt's refunds, from 1"),
				number("left_minor", "what could go back when it was asked for"), number("amount_minor", ""), text("currency", ""), text("reason", "one word"),
				text("status", "see docs/states.md"), number("version", ""), text("code", "why it failed"), number("observed_seq", "answers kept"),
				number("reflected_seq", "answers applied"), number("looks_asked", "looks wanted after it was settled"), number("checks", "looks so far"), moment("next_check_at", ""),
				moment("created_at", ""), moment("closed_at", "when it last came to an end"),
			),
			Withheld: []string{"caller_key"},
		},
		{
			Kind: "record", Table: "transaction_records", Order: "record_id", Means: "What was sold, received or given back, see docs/records.md. Never changed.",
			Fields: fields(
				number("record_id", ""), text("order_id", ""), text("client_id", ""), number("seq", "of the order's records, from 1"),
				number("number", "of the client's records, from 1; null for a moment"), text("kind", "`sale`, `receipt`, `refund` or `correction`"),
				text("transaction_key", "one record per kind and key, ever"), text("why", "of a correction"), number("corrects_seq", "the order's record it is about"),
				text("payment_id", ""), text("refund_id", ""), text("currency", ""), number("currency_exponent", "null where it is not the order's currency"),
				number("sold_minor", ""), number("received_minor", ""), number("refunded_minor", ""), moment("at", ""),
			),
			Withheld: []string{"document"},
		},
		{
			Kind: "cancel", Table: "cancels", Order: "cancel_id", Means: "Somebody wants an order not to be carried out.",
			Fields: fields(
				text("cancel_id", ""), text("order_id", ""), text("client_id", ""), text("reason", "one word"), text("status", "see docs/states.md"),
				text("refund_id", "what it gave back"), text("code", "why the money was left to a person"), moment("created_at", ""), moment("closed_at", ""),
			),
			Withheld: []string{"caller_key"},
		},
		{
			Kind: "orphan", Table: "orphan_payments", Order: "orphan_id", Means: "A payment at a provider that no order explains.",
			Fields: fields(
				text("orphan_id", ""), account3(), text("subject", "what it is known by"), text("provider_payment_id", ""), text("merchant_reference", ""),
				text("says", "what the provider's newest word claims"), text("currency", ""), number("captured_minor", "0 = not known"), moment("provider_at", "the provider's clock"),
				text("status", "`open`, `linked` or `closed`"), text("attempt_id", "what explains it"), moment("first_seen_at", ""), moment("last_seen_at", ""), moment("ended_at", ""),
			),
		},
		{
			Kind: "cursor", Table: "reconcile_cursors", Order: "gateway, account, environment", Means: "How far a provider's books were read.",
			Fields: fields(
				account3(), moment("reached_at", "what is before was met"), moment("window_from", "of the stretch being read"), moment("window_until", ""),
				number("items", "met in it so far"), moment("hold_at", "the oldest payment to meet again"), number("version", ""), moment("moved_at", ""),
			),
			Withheld: []string{"page_cursor"},
		},
	}
}

func exportGoods() []ExportKind {
	return []ExportKind{
		{
			Kind: "unit", Table: "fulfillment_units", Order: "unit_id", Means: "One thing to provide once.",
			Fields: fields(
				text("unit_id", ""), text("order_id", ""), number("line_no", ""), number("ordinal", "of the line's pieces, from 1"), text("action", ""), number("revision", ""),
				text("status", "see docs/states.md"), number("version", ""), number("generation", "of its issuing operation"), text("code", ""), number("checks", "looks so far"),
				moment("next_check_at", ""), moment("created_at", ""), moment("issued_at", ""),
			),
		},
		{
			Kind: "issuance", Table: "issuances", Order: "issuance_id", Means: "What was really provided.",
			Fields: fields(
				text("issuance_id", ""), text("unit_id", ""), text("order_id", ""), text("operation_id", "null where none was sent"), text("issuer", "empty for our own"),
				text("issuer_issuance_id", "the issuer's id"), text("source", "`internal`, `issuer` or `operator`"), moment("issued_at", ""), moment("revoked_at", ""),
			),
			Withheld: []string{"sealed_reference"},
		},
		{
			Kind: "grant", Table: "grants", Order: "unit_id", Means: "An entitlement of ours.",
			Fields:   fields(text("unit_id", ""), text("order_id", ""), text("sku", ""), moment("granted_at", ""), moment("revoked_at", "")),
			Withheld: []string{"buyer_ref"},
		},
		{
			Kind: "stock", Table: "stock", Order: "sku", Means: "What is on hand of a thing of ours.",
			Fields: fields(text("sku", ""), number("on_hand", "pieces, reserved ones included"), number("reserved", "promised")),
		},
		{
			Kind: "stock_movement", Table: "stock_movements", Order: "order_id, revision, line_no, ordinal, kind", Means: "A reservation, and what became of it.",
			Fields: fields(
				text("order_id", ""), number("line_no", ""), number("ordinal", "of the piece; 0 = of the line"), text("kind", "`reserve`, `commit` or `release`"),
				text("sku", ""), number("quantity", ""), moment("at", ""), number("revision", "of the promise"),
			),
		},
		{
			Kind: "event", Table: "outbox_events", Order: "order_id, seq", Means: "What receivers are told.",
			Fields: fields(
				text("event_id", "the `webhook-id`, the same for every delivery"), text("order_id", ""), number("seq", "of the order's events, from 1"), text("type", "such as `order.paid`"),
				text("business_key", "one event per key and order, ever"), object("payload", "what is sent"), moment("created_at", ""),
			),
		},
		{
			Kind: "delivery", Table: "event_deliveries", Order: "event_id, receiver", Means: "An event on its way to one receiver.",
			Fields: fields(
				text("event_id", ""), text("receiver", ""), text("order_id", ""), number("seq", ""), text("status", "`pending`, `delivered`, `parked` or `skipped`"),
				number("tries", ""), moment("next_try_at", ""), text("last_code", "why the last try failed"), moment("delivered_at", ""),
			),
		},
	}
}

func exportLogs() []ExportKind {
	return []ExportKind{
		{
			Kind: "observation", Table: "observations", Order: "observation_id", Means: "One thing somebody said, as it was said. Never changed.",
			Fields: fields(
				number("observation_id", "in the order they were kept"), text("order_id", ""), text("attempt_id", "null where it is about another subject"),
				text("unit_id", "null where it is about another subject"), text("refund_id", "null where it is about another subject"),
				text("operation_id", "the write it answers; null for a look"), number("seq", "of the subject's answers"), text("source", "`send`, `lookup`, `webhook`, `list` or `operator`"),
				text("outcome", "in our words"), boolean("final", "whether it can never change"), text("provider_status", "in the other side's words"), account3(),
				text("provider_payment_id", ""), text("merchant_reference", ""), text("provider_refund_id", ""), text("currency", ""), number("amount_minor", ""),
				number("authorized_minor", "held"), number("captured_minor", ""), number("refunded_minor", "in all; -1 = it does not say"),
				text("dispute", "empty = it does not say"), number("disputed_minor", ""), text("code", ""),
				text("request_id", "the other side's, for its support"), number("read_version", "of the subject before it was asked"), number("read_asks", "its `looks_asked` then"),
				moment("provider_time", "the other side's clock"), moment("observed_at", "ours"),
			),
			Withheld: []string{"next_action"},
		},
		{
			Kind: "transition", Table: "transitions", Order: "transition_id", Means: "One change of state of one subject. Never changed; folded in order it gives the present states.",
			Fields: fields(
				number("transition_id", "in order"), text("order_id", ""), text("subject_kind", "`order`, `attempt`, `unit`, `refund` or `cancel`"), text("subject_id", ""),
				text("from_status", "empty for the first"), text("to_status", ""), text("trigger", "what happened"), number("observation_id", "the answer that caused it"),
				text("decision_id", "the decision that caused it"), moment("at", ""),
			),
		},
		{
			Kind: "receipt", Table: "webhook_receipts", Order: "receipt_id", Means: "A webhook that came in; its body is not kept.",
			Fields: fields(
				number("receipt_id", ""), account3(), text("event_id", "the provider's, or made from what names the event"), text("event_type", ""), text("provider_payment_id", ""),
				text("merchant_reference", ""), text("proof", "`signed`, `secret` or `none`"), text("says", "the outcome it claims"), boolean("wrong_environment", ""),
				moment("provider_at", "the provider's clock"), moment("received_at", "ours"), number("tries", ""), moment("next_try_at", ""), moment("processed_at", ""),
				text("result", "what came of it"),
			),
		},
		{
			Kind: "review", Table: "reviews", Order: "review_id", Means: "A question for a person.",
			Fields: fields(
				text("review_id", ""), text("order_id", "null for an orphan"), text("subject_kind", ""), text("subject_id", ""), number("subject_version", ""),
				text("reason", "see docs/runbook.md"), text("code", ""), text("status", "`open` or `resolved`"), number("version", ""), text("owner", "the group that answers for it"),
				text("assigned_to", "the person who has taken it"), moment("assigned_at", ""), text("gateway", "the other side it is about"),
				moment("opened_at", ""), moment("next_check_at", ""), moment("resolved_at", ""), text("resolved_by", "a decision's id, or `evidence`"),
			),
		},
		{
			Kind: "decision", Table: "review_decisions", Order: "at, decision_id", Means: "What a person decided, with its reason. Never changed.",
			Fields: fields(
				text("decision_id", ""), text("review_id", ""), number("review_version", "that was decided on"), text("order_id", ""), text("decision", ""), text("actor", "who"),
				text("actor_role", "as what"), boolean("actor_claimed", "nobody checked who"), text("channel", "through which door"), text("reason", "in the person's words"),
				object("evidence", "in the person's words; the goods' own reference of `confirm_provided` is left out").
					as("CASE WHEN decision = 'confirm_provided' THEN evidence - 'reference' ELSE evidence END"),
				object("before", "states before"), object("after", "states after"), text("operation_id", ""),
				text("approval_id", "the second person's decision; empty where none was needed"), text("approver", "the second person"), text("approver_role", ""),
				text("approver_channel", ""), text("approver_reason", "in that person's words"), moment("at", ""),
			),
		},
		{
			Kind: "proposal", Table: "decision_proposals", Order: "at, decision_id", Means: "What a first person decided and needed a second one for.",
			Fields: fields(
				text("decision_id", "also the decision's, once it is effective"), text("review_id", ""), number("review_version", "that was looked at"),
				number("subject_version", "that it is about"), text("order_id", ""), text("decision", ""), text("actor", "who"), text("actor_role", "as what"),
				boolean("actor_claimed", "nobody checked who"), text("channel", "through which door"), text("status", "`open`, `applied` or `replaced`"),
				moment("at", ""), moment("ended_at", ""),
			),
			Withheld: []string{"content", "actor_person"},
		},
		{
			Kind: "refusal", Table: "audit_log", Order: "audit_id", Means: "What was refused, and other acts that leave no row elsewhere. Never changed.",
			Fields: fields(
				number("audit_id", ""), text("order_id", ""), text("review_id", ""), text("actor", "as claimed"), text("channel", ""), text("act", ""), object("detail", "ids and words of ours"), moment("at", ""),
			),
		},
	}
}
