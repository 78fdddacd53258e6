package store

// Goal: every named rule of the schema stops what it names, by itself: a bug in Go, a second process or a person with psql.
// Method: one whole order is stored by plain SQL; each statement below breaks one rule and must be refused by exactly that
// one; the names are compared with the catalog, so that a rule without a statement here fails.

import (
	"errors"
	"fmt"
	"sort"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"orderflow/order"
)

const wholeOrder = `
INSERT INTO api_keys VALUES ('key', 'shop', decode(repeat('00', 32), 'hex'), '{checkout}');
INSERT INTO orders (order_id, client_id, caller_key, status, currency, currency_exponent, lines_minor, adjustments_minor, total_minor, buyer_ref, policy,
    policy_version, expires_at, paid_at) VALUES
    ('o1', 'shop', 'k1', 'paid', 'JPY', 0, 1000, -100, 900, 'b', '{}', 1, now(), now()), ('o2', 'shop', 'k2', 'open', 'JPY', 0, 1000, 0, 1000, 'b', '{}', 1, now(), NULL);
INSERT INTO order_lines VALUES ('o1', 1, 'ticket', 'T', 2, 500, 1000, '', 'issue', 'iss'), ('o1', 2, 'mug', 'M', 1, 0, 0, '', 'stock', '');
INSERT INTO order_adjustments VALUES ('o1', 1, 'discount', -100);
INSERT INTO payment_attempts (attempt_id, order_id, client_id, caller_key, gateway, account, environment, merchant_reference, provider_payment_id, method_type, currency, amount_minor) VALUES
    ('a1', 'o1', 'shop', 'k1', 'stripe', 'default', 'test', 'R1', 'pi_1', 'card', 'JPY', 900), ('a2', 'o2', 'shop', 'k2', 'stripe', 'default', 'test', 'R2', 'pi_2', 'card', 'JPY', 1000);
INSERT INTO payments (payment_id, gateway, account, environment, provider_payment_id, order_id, attempt_id, currency, captured_minor, matched) VALUES
    ('p1', 'stripe', 'default', 'test', 'pi_1', 'o1', 'a1', 'JPY', 900, true), ('p2', 'stripe', 'default', 'test', 'pi_9', NULL, NULL, 'JPY', 5, false);
INSERT INTO fulfillment_units (unit_id, order_id, line_no, ordinal, action, revision) VALUES ('u1', 'o1', 1, 1, 'issue', 1), ('u2', 'o1', 1, 2, 'issue', 1);
INSERT INTO operations (operation_id, order_id, kind, attempt_id, unit_id, sealed_request, fingerprint) VALUES
    ('op1', 'o1', 'confirm', 'a1', NULL, '', ''), ('op2', 'o1', 'issue', NULL, 'u1', '', ''), ('op3', 'o1', 'refund', 'a1', NULL, '', '');
INSERT INTO operations (operation_id, order_id, kind, attempt_id, generation, sealed_request, fingerprint) VALUES ('op4', 'o1', 'refund', 'a1', 2, '', '');
INSERT INTO refunds (refund_id, order_id, attempt_id, payment_id, operation_id, client_id, caller_key, gateway, account, environment, reference,
    provider_refund_id, number, left_minor, amount_minor, currency, reason) VALUES
    ('f1', 'o1', 'a1', 'p1', 'op3', 'shop', 'k1', 'stripe', 'default', 'test', 'F1', 're_1', 1, 900, 300, 'JPY', 'requested_by_buyer'),
    ('f2', 'o1', 'a1', 'p1', 'op4', 'shop', 'k2', 'stripe', 'default', 'test', 'F2', 're_2', 2, 600, 600, 'JPY', 'requested_by_buyer');
INSERT INTO cancels (cancel_id, order_id, client_id, caller_key, reason, status) VALUES ('c1', 'o1', 'shop', 'k1', 'other', 'stopping'), ('c2', 'o2', 'shop', 'k2', 'other', 'waiting');
INSERT INTO issuances (issuance_id, unit_id, order_id, issuer, issuer_issuance_id, source) VALUES ('i1', 'u1', 'o1', 'iss', 'x1', 'issuer');
INSERT INTO stock VALUES ('mug', 10, 2);
INSERT INTO stock_movements VALUES ('o1', 2, 0, 'reserve', 'mug', 1);
INSERT INTO observations (order_id, attempt_id, seq, source, outcome) VALUES ('o1', 'a1', 1, 'send', 'succeeded');
INSERT INTO observations (order_id, refund_id, seq, source, outcome) VALUES ('o1', 'f1', 1, 'send', 'succeeded');
INSERT INTO outbox_events VALUES ('e1', 'o1', 1, 'order.paid', 'order.paid', '{}'), ('e2', 'o1', 2, 'x', 'x', '{}');
INSERT INTO event_deliveries (event_id, receiver, order_id, seq) VALUES ('e1', 'mail', 'o1', 1);
INSERT INTO webhook_receipts (gateway, account, environment, event_id, event_type, proof) VALUES ('stripe', 'default', 'test', 'evt_1', 't', 'signed');
INSERT INTO orphan_payments (orphan_id, gateway, account, environment, subject) VALUES ('orp1', 'stripe', 'default', 'test', 'pi_7');
INSERT INTO idempotency_keys (client_id, operation, key, fingerprint, subject_id, lease_token, lease_until) VALUES ('shop', 'op', 'k', '', 's', 't', now());
INSERT INTO reviews (review_id, order_id, subject_kind, subject_id, subject_version, reason, next_check_at) VALUES ('r1', 'o1', 'attempt', 'a1', 1, 'late_payment', now());
INSERT INTO review_decisions VALUES ('d1', 'r1', 1, 'o1', 'close_with_evidence', 'ann', 'operator', false, 'api', 'why', '{}', '{}', '{}');
INSERT INTO decision_proposals VALUES ('d2', 'r1', 1, 1, 'o1', 'refund', '{}', 'ann', '', 'operator', false, 'api');
INSERT INTO rate_buckets VALUES ('b', 1, now());
INSERT INTO transaction_records (order_id, client_id, seq, number, kind, transaction_key, payment_id, refund_id, currency, received_minor, refunded_minor, document)
    VALUES ('o1', 'shop', 8, 1, 'refund', 'f1/0', 'p1', 'f1', 'JPY', 0, 300, '{}');
INSERT INTO operators (login, name, role, password_hash) VALUES ('ann', 'Ann', 'operator', '$argon2id$x');
INSERT INTO operator_sessions (token_hash, login, expires_at) VALUES (decode(repeat('00', 32), 'hex'), 'ann', now() + interval '1 hour');
`

// breaches has one statement per rule, by the rule's name.
var breaches = map[string]string{
	"api_keys_hash_unique":    `INSERT INTO api_keys VALUES ('other', 'shop', decode(repeat('00', 32), 'hex'), '{checkout}')`,
	"api_keys_hash_is_sha256": `UPDATE api_keys SET hash = 'plain'`,
	"api_keys_scopes_known":   `UPDATE api_keys SET scopes = '{checkout,root}'`,

	"orders_caller_key_unique":  `UPDATE orders SET caller_key = 'k1' WHERE order_id = 'o2'`,
	"orders_id_length":          `INSERT INTO orders SELECT (jsonb_populate_record(o, jsonb_build_object('order_id', repeat('x', 65), 'caller_key', 'k3'))).* FROM orders o WHERE order_id = 'o2'`,
	"orders_status_known":       `UPDATE orders SET status = 'shipped' WHERE order_id = 'o2'`,
	"orders_currency_is_iso":    `UPDATE orders SET currency = 'yen'`,
	"orders_exponent_sane":      `UPDATE orders SET currency_exponent = -1`,
	"orders_total_adds_up":      `UPDATE orders SET total_minor = total_minor - 1`,
	"orders_total_positive":     `UPDATE orders SET lines_minor = 0, adjustments_minor = 0, total_minor = 0`,
	"orders_paid_has_time":      `UPDATE orders SET paid_at = NULL WHERE order_id = 'o1'`,
	"orders_completed_has_time": `UPDATE orders SET status = 'completed' WHERE order_id = 'o1'`,
	"orders_ended_has_time":     `UPDATE orders SET status = 'expired' WHERE order_id = 'o2'`,
	"orders_hold_known":         `UPDATE orders SET hold = 'mood' WHERE order_id = 'o1'`,
	"orders_hold_of_paid":       `UPDATE orders SET hold = 'dispute' WHERE order_id = 'o2'`,
	"orders_done_not_ahead":     `UPDATE orders SET done_seq = work_seq + 1`,

	"operators_login_form":             `INSERT INTO operators VALUES ('Ann!', 'Ann', 'viewer', '$argon2id$x')`,
	"operators_name_present":           `INSERT INTO operators VALUES ('ann', '', 'viewer', '$argon2id$x')`,
	"operators_role_known":             `INSERT INTO operators VALUES ('ann', 'Ann', 'king', '$argon2id$x')`,
	"operators_password_hashed":        `INSERT INTO operators VALUES ('ann', 'Ann', 'viewer', 'secret')`,
	"operator_sessions_hash_is_sha256": `INSERT INTO operator_sessions VALUES ('', 'ann', now(), now() + interval '1 hour')`,
	"operator_sessions_end":            `INSERT INTO operator_sessions VALUES (decode(repeat('00', 32), 'hex'), 'ann', now(), now())`,

	"order_lines_quantity_positive":   `UPDATE order_lines SET quantity = 0, amount_minor = 0`,
	"order_lines_amount_adds_up":      `UPDATE order_lines SET amount_minor = amount_minor + 1`,
	"order_lines_amount_not_negative": `UPDATE order_lines SET unit_amount_minor = -1, amount_minor = -quantity`,
	"order_lines_action_known":        `UPDATE order_lines SET action = 'teleport' WHERE line_no = 2`,
	"order_lines_issuer_iff_issue":    `UPDATE order_lines SET issuer = ''`,
	"order_adjustments_kind_known":    `UPDATE order_adjustments SET kind = 'tip', amount_minor = 1`,
	"order_adjustments_sign":          `UPDATE order_adjustments SET amount_minor = 1`,

	"attempts_status_known":          `UPDATE payment_attempts SET status = 'paid'`,
	"attempts_environment_known":     `UPDATE payment_attempts SET environment = 'prod'`,
	"attempts_amount_positive":       `UPDATE payment_attempts SET amount_minor = 0`,
	"attempts_capture_within_amount": `UPDATE payment_attempts SET capture_minor = amount_minor + 1`,
	"attempts_closed_has_time":       `UPDATE payment_attempts SET status = 'closed'`,
	"attempts_closed_has_reason":     `UPDATE payment_attempts SET status = 'closed', closed_at = now()`,
	"attempts_reflected_not_ahead":   `UPDATE payment_attempts SET reflected_seq = 1`,
	"attempts_caller_key_unique":     `UPDATE payment_attempts SET caller_key = 'same'`,
	"attempts_return_token_unique":   `UPDATE payment_attempts SET return_token_hash = '\\x00'`,
	"attempts_reference_unique":      `UPDATE payment_attempts SET merchant_reference = 'same'`,
	"attempts_one_open_per_order":    `UPDATE payment_attempts SET order_id = 'o1'`,
	"attempts_provider_id_unique":    `UPDATE payment_attempts SET provider_payment_id = 'same'`,

	"payments_identity_unique":         `UPDATE payments SET provider_payment_id = 'same'`,
	"payments_identity_present":        `UPDATE payments SET provider_payment_id = '' WHERE payment_id = 'p2'`,
	"payments_environment_known":       `UPDATE payments SET environment = 'prod'`,
	"payments_captured_not_negative":   `UPDATE payments SET captured_minor = -1, refunded_minor = -1 WHERE payment_id = 'p2'`,
	"payments_refund_within_capture":   `UPDATE payments SET refunded_minor = captured_minor + 1`,
	"payments_elsewhere_within_refund": `UPDATE payments SET elsewhere_minor = refunded_minor + 1`,
	"payments_dispute_known":           `UPDATE payments SET dispute = 'forgotten'`,
	"payments_disputed_has_amount":     `UPDATE payments SET dispute = 'open'`,
	"payments_matched_has_attempt":     `UPDATE payments SET matched = true WHERE payment_id = 'p2'`,
	"payments_one_per_attempt":         `UPDATE payments SET matched = true, attempt_id = 'a1', order_id = 'o1'`,

	"refunds_status_known":        `UPDATE refunds SET status = 'gone'`,
	"refunds_environment_known":   `UPDATE refunds SET environment = 'prod'`,
	"refunds_reason_is_word":      `UPDATE refunds SET reason = 'The buyer, Ann, called'`,
	"refunds_amount_positive":     `UPDATE refunds SET amount_minor = 0`,
	"refunds_amount_within_left":  `UPDATE refunds SET amount_minor = left_minor + 1`,
	"refunds_number_unique":       `UPDATE refunds SET number = 1`,
	"refunds_closed_has_time":     `UPDATE refunds SET status = 'succeeded'`,
	"refunds_reflected_not_ahead": `UPDATE refunds SET reflected_seq = 1`,
	"refunds_caller_key_unique":   `UPDATE refunds SET caller_key = 'same'`,
	"refunds_operation_unique":    `UPDATE refunds SET operation_id = 'op3'`,
	"refunds_reference_unique":    `UPDATE refunds SET reference = 'same'`,
	"refunds_provider_id_unique":  `UPDATE refunds SET provider_refund_id = 'same'`,

	"cancels_status_known":      `UPDATE cancels SET status = 'perhaps'`,
	"cancels_reason_is_word":    `UPDATE cancels SET reason = 'The buyer, Ann, called'`,
	"cancels_done_has_time":     `UPDATE cancels SET status = 'done'`,
	"cancels_one_per_order":     `UPDATE cancels SET order_id = 'o1'`,
	"cancels_caller_key_unique": `UPDATE cancels SET caller_key = 'same'`,

	"units_identity_unique": `UPDATE fulfillment_units SET ordinal = 1`,
	"units_status_known":    `UPDATE fulfillment_units SET status = 'lost'`,
	"units_issued_has_time": `UPDATE fulfillment_units SET status = 'issued'`,

	"operations_kind_known":         `UPDATE operations SET kind = 'guess'`,
	"operations_one_subject":        `UPDATE operations SET unit_id = 'u2' WHERE operation_id = 'op1'`,
	"operations_attempt_unique":     `INSERT INTO operations (operation_id, order_id, kind, attempt_id, sealed_request, fingerprint) VALUES ('op9', 'o1', 'confirm', 'a1', '', '')`,
	"operations_unit_unique":        `INSERT INTO operations (operation_id, order_id, kind, unit_id, sealed_request, fingerprint) VALUES ('op9', 'o1', 'issue', 'u1', '', '')`,
	"operations_sent_has_times":     `UPDATE operations SET sends = 1`,
	"operations_outcome_needs_send": `UPDATE operations SET outcome = 'unknown'`,
	"operations_finished_has_time":  `UPDATE operations SET outcome = 'succeeded', sends = 1, sent_at = now(), last_sent_at = now()`,

	"issuances_source_known":     `UPDATE issuances SET source = 'rumor'`,
	"issuances_one_per_unit":     `INSERT INTO issuances (issuance_id, unit_id, order_id, issuer, source) VALUES ('i2', 'u1', 'o1', 'iss', 'operator')`,
	"issuances_issuer_id_unique": `INSERT INTO issuances (issuance_id, unit_id, order_id, issuer, issuer_issuance_id, source) VALUES ('i2', 'u2', 'o1', 'iss', 'x1', 'issuer')`,

	"stock_reserved_within_on_hand": `UPDATE stock SET on_hand = 1`,
	"stock_movements_once":          `INSERT INTO stock_movements VALUES ('o1', 2, 0, 'reserve', 'mug', 1)`,
	"stock_movements_kind_known":    `INSERT INTO stock_movements VALUES ('o1', 2, 0, 'lose', 'mug', 1)`,
	"stock_movements_shape":         `INSERT INTO stock_movements VALUES ('o1', 2, 0, 'commit', 'mug', 1)`,

	"observations_one_subject":        `INSERT INTO observations (order_id, attempt_id, unit_id, seq, source, outcome) VALUES ('o1', 'a1', 'u1', 2, 'send', 'unknown')`,
	"observations_source_known":       `INSERT INTO observations (order_id, attempt_id, seq, source, outcome) VALUES ('o1', 'a1', 2, 'dream', 'unknown')`,
	"observations_dispute_known":      `INSERT INTO observations (order_id, attempt_id, seq, source, outcome, dispute) VALUES ('o1', 'a1', 2, 'send', 'unknown', 'perhaps')`,
	"observations_outcome_known":      `INSERT INTO observations (order_id, attempt_id, seq, source, outcome) VALUES ('o1', 'a1', 2, 'send', 'perhaps')`,
	"observations_attempt_seq_unique": `INSERT INTO observations (order_id, attempt_id, seq, source, outcome) VALUES ('o1', 'a1', 1, 'send', 'unknown')`,
	"observations_refund_seq_unique":  `INSERT INTO observations (order_id, refund_id, seq, source, outcome) VALUES ('o1', 'f1', 1, 'send', 'unknown')`,

	"outbox_business_event_unique":  `UPDATE outbox_events SET business_key = 'order.paid'`,
	"outbox_seq_unique":             `UPDATE outbox_events SET seq = 1`,
	"deliveries_status_known":       `UPDATE event_deliveries SET status = 'gone'`,
	"deliveries_delivered_has_time": `UPDATE event_deliveries SET status = 'delivered'`,

	"receipts_event_unique":           `INSERT INTO webhook_receipts (gateway, account, environment, event_id, event_type, proof) VALUES ('stripe', 'default', 'test', 'evt_1', 't', 'signed')`,
	"receipts_environment_known":      `UPDATE webhook_receipts SET environment = 'prod'`,
	"receipts_proof_known":            `UPDATE webhook_receipts SET proof = 'word of honor'`,
	"receipts_result_known":           `UPDATE webhook_receipts SET result = 'paid', processed_at = now()`,
	"receipts_processed_has_result":   `UPDATE webhook_receipts SET processed_at = now()`,
	"receipts_wrong_environment_idle": `UPDATE webhook_receipts SET wrong_environment = true, result = 'look', processed_at = now()`,

	"orphans_payment_unique":     `INSERT INTO orphan_payments (orphan_id, gateway, account, environment, subject) VALUES ('orp2', 'stripe', 'default', 'test', 'pi_7')`,
	"orphans_environment_known":  `UPDATE orphan_payments SET environment = 'prod'`,
	"orphans_subject_present":    `UPDATE orphan_payments SET subject = ''`,
	"orphans_status_known":       `UPDATE orphan_payments SET status = 'lost', ended_at = now()`,
	"orphans_linked_has_attempt": `UPDATE orphan_payments SET status = 'linked', ended_at = now()`,
	"orphans_ended_has_time":     `UPDATE orphan_payments SET status = 'closed'`,

	"orphans_amount_has_currency": `UPDATE orphan_payments SET captured_minor = 5, currency = ''`,
	"reconcile_environment_known": `INSERT INTO reconcile_cursors (gateway, account, environment) VALUES ('stripe', 'default', 'prod')`,
	"reconcile_window_whole":      `INSERT INTO reconcile_cursors (gateway, account, environment, window_from) VALUES ('stripe', 'default', 'test', now())`,
	"reconcile_page_in_window":    `INSERT INTO reconcile_cursors (gateway, account, environment, page_cursor) VALUES ('stripe', 'default', 'test', 'c')`,

	"idempotency_keys_scope":           `INSERT INTO idempotency_keys (client_id, operation, key, fingerprint, subject_id, lease_token, lease_until) VALUES ('shop', 'op', 'k', '', 's', 't', now())`,
	"idempotency_keys_key_length":      `UPDATE idempotency_keys SET key = repeat('x', 256)`,
	"idempotency_keys_completed_whole": `UPDATE idempotency_keys SET http_status = 201`,

	"reviews_status_known":       `UPDATE reviews SET status = 'forgotten'`,
	"reviews_resolved_has_time":  `UPDATE reviews SET status = 'resolved', resolved_by = 'x'`,
	"reviews_resolved_has_cause": `UPDATE reviews SET status = 'resolved', resolved_at = now()`,
	"reviews_one_open":           `INSERT INTO reviews (review_id, subject_kind, subject_id, subject_version, reason, next_check_at) VALUES ('r2', 'attempt', 'a1', 1, 'late_payment', now())`,
	"decisions_channel_known":    `INSERT INTO review_decisions VALUES ('d2', 'r1', 2, 'o1', 'x', 'ann', 'operator', false, 'rumor', 'why', '{}', '{}', '{}')`,
	"decisions_actor_present":    `INSERT INTO review_decisions VALUES ('d2', 'r1', 2, 'o1', 'x', '', 'operator', false, 'api', 'why', '{}', '{}', '{}')`,
	"reviews_owner_present":      `UPDATE reviews SET owner = ''`,
	"reviews_assigned_has_time":  `UPDATE reviews SET assigned_to = 'ann'`,
	"decisions_role_decides":     `INSERT INTO review_decisions VALUES ('d3', 'r1', 2, 'o1', 'x', 'ann', 'viewer', false, 'api', 'why', '{}', '{}', '{}')`,
	"decisions_approval_whole":   `INSERT INTO review_decisions VALUES ('d3', 'r1', 2, 'o1', 'x', 'ann', 'operator', false, 'api', 'why', '{}', '{}', '{}', '', 'a3', '', 'approver', 'api', 'ok')`,
	"decisions_approver_may":     `INSERT INTO review_decisions VALUES ('d3', 'r1', 2, 'o1', 'x', 'ann', 'operator', false, 'api', 'why', '{}', '{}', '{}', '', 'a3', 'bob', 'approver', 'temporal_update', 'ok')`,
	"decisions_two_persons":      `INSERT INTO review_decisions VALUES ('d3', 'r1', 2, 'o1', 'x', 'ann', 'operator', false, 'api', 'why', '{}', '{}', '{}', '', 'a3', 'Ann', 'approver', 'api', 'ok')`,
	"decisions_approval_unique": `INSERT INTO review_decisions VALUES ('d3', 'r1', 2, 'o1', 'x', 'ann', 'operator', false, 'api', 'why', '{}', '{}', '{}', '', 'a3', 'bob', 'approver', 'api', 'ok'),
		('d4', 'r1', 3, 'o1', 'x', 'ann', 'operator', false, 'api', 'why', '{}', '{}', '{}', '', 'a3', 'bob', 'approver', 'api', 'ok')`,
	"proposals_status_known":      `UPDATE decision_proposals SET status = 'forgotten', ended_at = now()`,
	"proposals_ended_has_time":    `UPDATE decision_proposals SET status = 'applied'`,
	"proposals_channel_known":     `UPDATE decision_proposals SET channel = 'rumor'`,
	"proposals_actor_present":     `UPDATE decision_proposals SET actor = ''`,
	"proposals_one_open":          `INSERT INTO decision_proposals VALUES ('d3', 'r1', 1, 1, 'o1', 'refund', '{}', 'bob', '', 'operator', false, 'api')`,
	"decisions_one_per_version":   `INSERT INTO review_decisions VALUES ('d2', 'r1', 1, 'o1', 'x', 'bob', 'operator', false, 'api', 'why', '{}', '{}', '{}')`,
	"records_transaction_unique":  record("'refund', 'f1/0', '', 'p1', 'f1', 0, 0, 300", 9),
	"records_seq_unique":          record("'refund', 'f1/1', '', 'p1', 'f1', 0, 0, 300", 8),
	"records_number_unique":       `UPDATE transaction_records SET number = 1 WHERE number IS NULL`,
	"records_kind_known":          record("'gift', 'f1/1', '', 'p1', 'f1', 0, 0, 300", 9),
	"records_subject_known":       record("'sale', 'o1', '', 'p1', NULL, 900, 0, 0", 9),
	"records_refund_known":        record("'refund', 'f1/1', '', 'p1', NULL, 0, 0, 300", 9),
	"records_correction_says_why": record("'correction', 'f1/1', '', 'p1', 'f1', 0, 0, -300", 9),
	"records_amounts_fit_kind":    record("'refund', 'f1/1', '', 'p1', 'f1', 0, 0, -300", 9),

	"rate_buckets_not_negative": `UPDATE rate_buckets SET tokens = -1`,
}

// record is a statement that appends one more transaction record.
func record(values string, seq int) string {
	return fmt.Sprintf(`INSERT INTO transaction_records (order_id, client_id, document, currency, kind, transaction_key, why, payment_id, refund_id,
		sold_minor, received_minor, refunded_minor, seq) VALUES ('o1', 'shop', '{}', 'JPY', %s, %d)`, values, seq)
}

func TestEveryNamedRuleOfTheSchemaFires(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.exec(wholeOrder)
	for name, sql := range breaches {
		_, err := e.owner.Exec(e.ctx(), sql)
		var pg *pgconn.PgError
		require.True(t, errors.As(err, &pg), "%s let it pass: %v", name, err)
		require.Equal(t, name, pg.ConstraintName, "%s", pg.Message)
	}
	rows, err := e.owner.Query(e.ctx(), `
		SELECT conname FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid JOIN pg_namespace n ON n.oid = t.relnamespace
		WHERE n.nspname = 'public' AND t.relname <> 'goose_db_version' AND (contype IN ('c', 'u', 'x') OR (contype = 'p' AND conname <> t.relname || '_pkey'))
		UNION SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'public' AND i.indisunique AND NOT EXISTS (SELECT 1 FROM pg_constraint x WHERE x.conindid = i.indexrelid)`)
	require.NoError(t, err)
	var catalog, tested []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		catalog = append(catalog, name)
	}
	require.NoError(t, rows.Err())
	for name := range breaches {
		tested = append(tested, name)
	}
	sort.Strings(catalog)
	sort.Strings(tested)
	require.Equal(t, catalog, tested)
}

// The states the schema allows are the states the rule knows.
func TestSchemaAndRuleKnowTheSameStates(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for constraint, states := range map[string][]order.Status{
		"orders_status_known": order.OrderStatuses, "attempts_status_known": order.AttemptStatuses, "units_status_known": order.UnitStatuses,
		"refunds_status_known": order.RefundStatuses,
	} {
		def := e.text("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1", constraint)
		got := e.text("SELECT string_agg(m[1], ', ' ORDER BY m[1]) FROM regexp_matches($1, '''([a-z_]+)''', 'g') AS m", def)
		want := e.text("SELECT string_agg(s, ', ' ORDER BY s) FROM unnest($1::text[]) AS s", states)
		require.Equal(t, want, got, constraint)
	}
}

// Columns of a unique rule are NOT NULL, since NULLs never collide. A return token is not there when the browser goes elsewhere; a record gets its number a moment later; the other five have a check beside them that says when
// the column is set: the one_subject rules and payments_matched_has_attempt.
func TestUniqueColumnsAreNotNull(t *testing.T) {
	t.Parallel()
	e := setup(t)
	got := e.text(`SELECT coalesce(string_agg(c.relname || '.' || a.attname, ' ' ORDER BY c.relname), '') FROM pg_index i
		JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
		WHERE n.nspname = 'public' AND i.indisunique AND NOT a.attnotnull`)
	require.Equal(t, "attempts_return_token_unique.return_token_hash observations_attempt_seq_unique.attempt_id observations_refund_seq_unique.refund_id operations_attempt_unique.attempt_id operations_unit_unique.unit_id payments_one_per_attempt.attempt_id records_number_unique.number", got)
}
