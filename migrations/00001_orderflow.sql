-- +goose Up
-- The whole model. Every rule about money or identity stands here once more as a named constraint, with its reason: Go may
-- have a bug, a second process may race, a person may use psql. The database is the last guard.

-- Log tables are append-only for everybody, the owner included; the application role has no UPDATE or DELETE on them either.
-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd

CREATE TABLE api_keys (
    key_id     text PRIMARY KEY,
    client_id  text NOT NULL,
    hash       bytea NOT NULL,
    scopes     text[] NOT NULL,
    name       text NOT NULL DEFAULT '', -- what the audit calls whoever holds it; '' = the client
    person     text NOT NULL DEFAULT '', -- the human it was given to, if it is one person's
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,
    CONSTRAINT api_keys_hash_unique UNIQUE (hash),
    CONSTRAINT api_keys_hash_is_sha256 CHECK (octet_length(hash) = 32),
    CONSTRAINT api_keys_scopes_known CHECK (scopes <@ ARRAY['checkout', 'view', 'operate', 'approve'] AND cardinality(scopes) > 0)
);

-- ---------------------------------------------------------------- the promise

CREATE TABLE orders (
    order_id          text PRIMARY KEY,
    client_id         text NOT NULL,
    caller_key        text NOT NULL, -- the Idempotency-Key that made it: a crashed request finds its own order again
    status            text NOT NULL DEFAULT 'open',
    version           bigint NOT NULL DEFAULT 1,
    revision          integer NOT NULL DEFAULT 1,
    currency          text NOT NULL,
    currency_exponent smallint NOT NULL,
    lines_minor       bigint NOT NULL,
    adjustments_minor bigint NOT NULL,
    total_minor       bigint NOT NULL,
    buyer_ref         text NOT NULL,
    policy            jsonb NOT NULL,
    policy_version    integer NOT NULL,
    expires_at        timestamptz NOT NULL,
    work_seq          bigint NOT NULL DEFAULT 0,
    done_seq          bigint NOT NULL DEFAULT 0,
    cancel_id         text NOT NULL DEFAULT '', -- somebody wants it not to be carried out: nothing that takes money is sent any more
    work_at           timestamptz NOT NULL DEFAULT now(),
    swept_seq         bigint NOT NULL DEFAULT 0, -- the work the sweep has told the order's run about
    sweeps            integer NOT NULL DEFAULT 0,
    hold              text NOT NULL DEFAULT '', -- why what is owed and not provided waits
    external_decision text NOT NULL DEFAULT '', -- the decision that recorded a payment by other means
    created_at        timestamptz NOT NULL DEFAULT now(),
    paid_at           timestamptz,
    completed_at      timestamptz,
    ended_at          timestamptz,
    CONSTRAINT orders_caller_key_unique UNIQUE (client_id, caller_key),
    -- The id is the caller's; its length is bounded because it travels in URLs, workflow ids and logs.
    CONSTRAINT orders_id_length CHECK (char_length(order_id) BETWEEN 1 AND 64),
    CONSTRAINT orders_status_known CHECK (status IN ('open', 'paid', 'completed', 'canceled', 'expired')),
    CONSTRAINT orders_hold_known CHECK (hold IN ('', 'dispute', 'taken_back')),
    -- Only what is owed can wait.
    CONSTRAINT orders_hold_of_paid CHECK (hold = '' OR status IN ('paid', 'completed', 'canceled')),
    -- An amount without its exponent is not an amount: 80 is eighty yen or eighty cents.
    CONSTRAINT orders_currency_is_iso CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT orders_exponent_sane CHECK (currency_exponent BETWEEN 0 AND 4),
    -- What is charged is what the lines say: recomputed here as well as in Go.
    CONSTRAINT orders_total_adds_up CHECK (lines_minor + adjustments_minor = total_minor),
    CONSTRAINT orders_total_positive CHECK (total_minor > 0),
    -- A status without its time, or a time without its status, means that a transaction wrote half of a transition.
    CONSTRAINT orders_paid_has_time CHECK ((status IN ('paid', 'completed')) <= (paid_at IS NOT NULL)),
    CONSTRAINT orders_completed_has_time CHECK ((status = 'completed') = (completed_at IS NOT NULL)),
    CONSTRAINT orders_ended_has_time CHECK ((status IN ('canceled', 'expired')) <= (ended_at IS NOT NULL)),
    -- Nothing can be marked done that was never asked for (rule 8).
    CONSTRAINT orders_done_not_ahead CHECK (done_seq <= work_seq)
);
-- The sweep reads open work only; its cost follows unfinished orders, not all orders.
CREATE INDEX orders_with_work ON orders (work_at) WHERE work_seq <> done_seq;
CREATE INDEX orders_paid_by_age ON orders (paid_at) WHERE status = 'paid';
CREATE INDEX orders_open_by_expiry ON orders (expires_at) WHERE status = 'open';

CREATE TABLE order_lines (
    order_id          text NOT NULL REFERENCES orders,
    line_no           integer NOT NULL,
    sku               text NOT NULL,
    name              text NOT NULL,
    quantity          integer NOT NULL,
    unit_amount_minor bigint NOT NULL,
    amount_minor      bigint NOT NULL,
    tax_rate          text NOT NULL,
    action            text NOT NULL,
    issuer            text NOT NULL,
    revision          integer NOT NULL DEFAULT 1, -- of the promise; what was promised before stays
    PRIMARY KEY (order_id, revision, line_no),
    CONSTRAINT order_lines_quantity_positive CHECK (quantity > 0),
    CONSTRAINT order_lines_amount_adds_up CHECK (amount_minor = unit_amount_minor * quantity),
    CONSTRAINT order_lines_amount_not_negative CHECK (unit_amount_minor >= 0),
    CONSTRAINT order_lines_action_known CHECK (action IN ('stock', 'grant', 'issue')),
    -- Only an external issue has an issuer, and it always has one: otherwise nobody would know whom to ask.
    CONSTRAINT order_lines_issuer_iff_issue CHECK ((action = 'issue') = (issuer <> ''))
);

CREATE TABLE order_adjustments (
    order_id     text NOT NULL REFERENCES orders,
    adj_no       integer NOT NULL,
    kind         text NOT NULL,
    amount_minor bigint NOT NULL,
    tax_rate     text NOT NULL DEFAULT '', -- what it is stated for; empty = not stated
    revision     integer NOT NULL DEFAULT 1,
    PRIMARY KEY (order_id, revision, adj_no),
    -- An included tax is in the prices already: it informs records and enters no sum.
    CONSTRAINT order_adjustments_kind_known CHECK (kind IN ('discount', 'shipping', 'tax', 'included_tax')),
    CONSTRAINT order_adjustments_sign CHECK ((kind = 'discount') = (amount_minor < 0))
);

-- ---------------------------------------------------------------- what we asked

CREATE TABLE payment_attempts (
    attempt_id          text PRIMARY KEY,
    order_id            text NOT NULL REFERENCES orders,
    client_id           text NOT NULL,
    caller_key          text NOT NULL,
    gateway             text NOT NULL,
    account             text NOT NULL,
    environment         text NOT NULL,
    merchant_reference  text NOT NULL,
    provider_payment_id text NOT NULL DEFAULT '',
    method_type         text NOT NULL,
    currency            text NOT NULL,
    amount_minor        bigint NOT NULL,
    status              text NOT NULL DEFAULT 'created',
    version             bigint NOT NULL DEFAULT 1,
    code                text NOT NULL DEFAULT '',
    close_reason        text NOT NULL DEFAULT '',
    next_action         jsonb,
    due_at              timestamptz, -- until when the buyer can act; what the provider says, or what the gateway knows of the method
    sealed_private      bytea,       -- what the provider gave for later calls and notices about this payment
    return_token_hash   bytea,       -- of the token in the address the provider sends the buyer's browser back to
    return_url          text NOT NULL DEFAULT '', -- the checkout's own page, where we send the browser on
    observed_seq        integer NOT NULL DEFAULT 0,
    reflected_seq       integer NOT NULL DEFAULT 0,
    checks              integer NOT NULL DEFAULT 0,
    next_check_at       timestamptz,
    looks_asked         bigint NOT NULL DEFAULT 0, -- how often somebody wanted a settled attempt looked at; a look answers those it had read
    created_at          timestamptz NOT NULL DEFAULT now(),
    closed_at           timestamptz,
    revision            integer NOT NULL DEFAULT 1, -- of the promise it pays for
    held_minor          bigint NOT NULL DEFAULT 0, -- what the bank holds and nobody has captured, as the provider last said
    capture_minor       bigint NOT NULL DEFAULT 0, -- what the merchant asked to be captured of it; 0 = not asked
    CONSTRAINT attempts_status_known CHECK (status IN ('created', 'sent', 'unknown', 'pending', 'succeeded', 'declined', 'closed')),
    CONSTRAINT attempts_environment_known CHECK (environment IN ('test', 'live')),
    CONSTRAINT attempts_amount_positive CHECK (amount_minor > 0),
    -- An attempt is captured once; it never takes more than was asked for.
    CONSTRAINT attempts_capture_within_amount CHECK (held_minor >= 0 AND capture_minor BETWEEN 0 AND amount_minor),
    CONSTRAINT attempts_closed_has_time CHECK ((status = 'closed') <= (closed_at IS NOT NULL)),
    CONSTRAINT attempts_closed_has_reason CHECK ((closed_at IS NOT NULL) = (close_reason <> '')),
    CONSTRAINT attempts_reflected_not_ahead CHECK (reflected_seq <= observed_seq),
    -- The caller's key binds one-to-one to the attempt, for good: idempotency rows are pruned, this one never is (rule 10).
    CONSTRAINT attempts_caller_key_unique UNIQUE (client_id, caller_key),
    -- A reference names one attempt in the provider's books; two attempts under one reference could not be told apart.
    CONSTRAINT attempts_reference_unique UNIQUE (gateway, account, environment, merchant_reference)
);
-- At most one attempt of an order may still be able to take money (rule 4).
CREATE UNIQUE INDEX attempts_one_open_per_order ON payment_attempts (order_id) WHERE closed_at IS NULL;
-- One provider payment belongs to one attempt: another order's approval cannot be used twice.
CREATE UNIQUE INDEX attempts_provider_id_unique ON payment_attempts (gateway, account, environment, provider_payment_id)
    WHERE provider_payment_id <> '';
CREATE UNIQUE INDEX attempts_return_token_unique ON payment_attempts (return_token_hash) WHERE return_token_hash IS NOT NULL;
CREATE INDEX attempts_to_check ON payment_attempts (next_check_at) WHERE next_check_at IS NOT NULL;
CREATE INDEX attempts_unknown_by_age ON payment_attempts (created_at) WHERE status = 'unknown';
CREATE INDEX attempts_by_order ON payment_attempts (order_id, created_at);

-- What a provider confirmed. It exists also for money that fits no attempt; it is never dropped.
CREATE TABLE payments (
    payment_id          text PRIMARY KEY,
    gateway             text NOT NULL,
    account             text NOT NULL,
    environment         text NOT NULL,
    provider_payment_id text NOT NULL,
    order_id            text REFERENCES orders,
    attempt_id          text REFERENCES payment_attempts,
    currency            text NOT NULL,
    captured_minor      bigint NOT NULL,
    refunded_minor      bigint NOT NULL DEFAULT 0, -- what the provider says went back, by us or by anybody
    elsewhere_minor     bigint NOT NULL DEFAULT 0, -- of that, what no refund of ours explains
    dispute             text NOT NULL DEFAULT 'none',
    disputed_minor      bigint NOT NULL DEFAULT 0, -- what the dispute is about; when it is lost, the buyer's bank has taken this
    taken_back          boolean NOT NULL DEFAULT false, -- a confirmed deposit that the bank has taken back: nothing of it is here
    matched             boolean NOT NULL,
    version             bigint NOT NULL DEFAULT 1,
    first_seen_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT payments_identity_unique UNIQUE (gateway, account, environment, provider_payment_id),
    CONSTRAINT payments_identity_present CHECK (provider_payment_id <> ''),
    CONSTRAINT payments_environment_known CHECK (environment IN ('test', 'live')),
    CONSTRAINT payments_captured_not_negative CHECK (captured_minor >= 0),
    -- More can never go back than came in.
    CONSTRAINT payments_refund_within_capture CHECK (refunded_minor BETWEEN 0 AND captured_minor),
    CONSTRAINT payments_elsewhere_within_refund CHECK (elsewhere_minor BETWEEN 0 AND refunded_minor),
    CONSTRAINT payments_dispute_known CHECK (dispute IN ('none', 'open', 'won', 'lost')),
    -- A dispute is about an amount of this payment.
    CONSTRAINT payments_disputed_has_amount CHECK ((dispute = 'none') = (disputed_minor = 0) AND disputed_minor BETWEEN 0 AND captured_minor),
    -- Money that matched has an attempt, and the attempt has an order.
    CONSTRAINT payments_matched_has_attempt CHECK (NOT matched OR (attempt_id IS NOT NULL AND order_id IS NOT NULL))
);
CREATE INDEX payments_by_order ON payments (order_id);
-- One attempt causes at most one payment that counts (S1).
CREATE UNIQUE INDEX payments_one_per_attempt ON payments (attempt_id) WHERE matched;

-- ---------------------------------------------------------------- what is provided

CREATE TABLE fulfillment_units (
    unit_id       text PRIMARY KEY,
    order_id      text NOT NULL,
    line_no       integer NOT NULL,
    ordinal       integer NOT NULL,
    action        text NOT NULL,
    revision      integer NOT NULL,
    status        text NOT NULL DEFAULT 'planned',
    version       bigint NOT NULL DEFAULT 1,
    generation    integer NOT NULL DEFAULT 1,
    code          text NOT NULL DEFAULT '',
    checks        integer NOT NULL DEFAULT 0,
    next_check_at timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now(),
    issued_at     timestamptz,
    FOREIGN KEY (order_id, revision, line_no) REFERENCES order_lines,
    -- The unit is the key of goods, never the attempt: two captures still give one ticket (S6).
    CONSTRAINT units_identity_unique UNIQUE (order_id, line_no, ordinal, action, revision),
    CONSTRAINT units_status_known CHECK (status IN ('planned', 'issuing', 'unknown', 'issued', 'refused', 'canceled', 'revoked')),
    CONSTRAINT units_issued_has_time CHECK ((status IN ('issued', 'revoked')) = (issued_at IS NOT NULL))
);
CREATE INDEX units_unfinished ON fulfillment_units (order_id) WHERE status IN ('planned', 'issuing', 'unknown', 'refused');
CREATE INDEX units_unknown_by_age ON fulfillment_units (created_at) WHERE status = 'unknown';
CREATE INDEX units_to_check ON fulfillment_units (next_check_at) WHERE next_check_at IS NOT NULL;

-- One outside write is one row (rule 2). Rows that guard are never freed (rule 10).
CREATE TABLE operations (
    operation_id    text PRIMARY KEY,
    order_id        text NOT NULL REFERENCES orders,
    kind            text NOT NULL,
    attempt_id      text REFERENCES payment_attempts,
    unit_id         text REFERENCES fulfillment_units,
    generation      integer NOT NULL DEFAULT 1,
    sealed_request  bytea NOT NULL,
    fingerprint     bytea NOT NULL,
    answered        boolean NOT NULL DEFAULT false, -- an error that left the outcome open was received, and may be kept under the key
    credential      text NOT NULL DEFAULT '', -- mark of the API key it was last sent under: a repeat goes out under no other
    sends           integer NOT NULL DEFAULT 0,
    sent_at         timestamptz,
    last_sent_at    timestamptz,
    outcome         text NOT NULL DEFAULT '',
    outcome_code    text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz,
    CONSTRAINT operations_kind_known CHECK (kind IN ('prepare', 'confirm', 'capture', 'void', 'cancel', 'refund', 'issue', 'revoke')),
    CONSTRAINT operations_one_subject CHECK (num_nonnulls(attempt_id, unit_id) = 1),
    -- A second row for the same write would be a second key for the same money or the same goods (rule 7).
    CONSTRAINT operations_attempt_unique UNIQUE (attempt_id, kind, generation),
    CONSTRAINT operations_unit_unique UNIQUE (unit_id, kind, generation),
    CONSTRAINT operations_sent_has_times CHECK ((sends = 0) = (sent_at IS NULL) AND (sends = 0) = (last_sent_at IS NULL)),
    CONSTRAINT operations_outcome_needs_send CHECK (outcome = '' OR sends > 0),
    CONSTRAINT operations_finished_has_time CHECK ((outcome NOT IN ('', 'unknown')) = (finished_at IS NOT NULL))
) WITH (fillfactor = 70); -- claimed and answered in place: no index holds what these updates change
CREATE INDEX operations_by_order ON operations (order_id);
-- Requests that hold a buyer's token, until it is forgotten: when the attempt has ended none is sent again.
CREATE INDEX operations_with_token ON operations (attempt_id) WHERE kind IN ('prepare', 'confirm') AND sealed_request <> '';

-- One try to give captured money back. Its operation is of kind 'refund', belongs to the attempt, and has the refund's number as
-- its generation: the numbers of an attempt's refunds are one row of operations each, and no refund has two (rule 7).
CREATE TABLE refunds (
    refund_id          text PRIMARY KEY,
    order_id           text NOT NULL REFERENCES orders,
    attempt_id         text NOT NULL REFERENCES payment_attempts,
    payment_id         text NOT NULL REFERENCES payments,
    operation_id       text NOT NULL REFERENCES operations,
    client_id          text NOT NULL,
    caller_key         text NOT NULL,
    gateway            text NOT NULL,
    account            text NOT NULL,
    environment        text NOT NULL,
    reference          text NOT NULL,
    provider_refund_id text NOT NULL DEFAULT '',
    number             integer NOT NULL,
    left_minor         bigint NOT NULL, -- what could still go back when it was opened
    amount_minor       bigint NOT NULL,
    currency           text NOT NULL,
    reason             text NOT NULL,
    status             text NOT NULL DEFAULT 'requested',
    version            bigint NOT NULL DEFAULT 1,
    code               text NOT NULL DEFAULT '',
    observed_seq       integer NOT NULL DEFAULT 0,
    reflected_seq      integer NOT NULL DEFAULT 0,
    checks             integer NOT NULL DEFAULT 0,
    next_check_at      timestamptz,
    looks_asked        bigint NOT NULL DEFAULT 0, -- as at payment_attempts
    created_at         timestamptz NOT NULL DEFAULT now(),
    closed_at          timestamptz, -- when it last came to succeeded or failed; either may still turn into the other
    CONSTRAINT refunds_status_known CHECK (status IN ('requested', 'sent', 'unknown', 'pending', 'succeeded', 'failed')),
    CONSTRAINT refunds_environment_known CHECK (environment IN ('test', 'live')),
    CONSTRAINT refunds_reason_is_word CHECK (reason ~ '^[a-z][a-z0-9_]{0,49}$'),
    CONSTRAINT refunds_amount_positive CHECK (amount_minor > 0),
    -- Together these two keep refunds within the capture without a lock: what is left is counted with the refunds there are, and of
    -- two that counted the same ones only one gets the next number (PC-43).
    CONSTRAINT refunds_amount_within_left CHECK (amount_minor <= left_minor),
    CONSTRAINT refunds_number_unique UNIQUE (attempt_id, number),
    CONSTRAINT refunds_closed_has_time CHECK ((status IN ('succeeded', 'failed')) = (closed_at IS NOT NULL)),
    CONSTRAINT refunds_reflected_not_ahead CHECK (reflected_seq <= observed_seq),
    -- The caller's key binds one-to-one to the refund, for good (rule 10).
    CONSTRAINT refunds_caller_key_unique UNIQUE (client_id, caller_key),
    CONSTRAINT refunds_operation_unique UNIQUE (operation_id),
    -- Two refunds under one reference could not be told apart in the provider's books.
    CONSTRAINT refunds_reference_unique UNIQUE (gateway, account, environment, reference)
);
-- One refund in the provider's books is one of ours: another one's success cannot be taken for it (PC-42).
CREATE UNIQUE INDEX refunds_provider_id_unique ON refunds (gateway, account, environment, provider_refund_id) WHERE provider_refund_id <> '';
CREATE INDEX refunds_to_check ON refunds (next_check_at) WHERE next_check_at IS NOT NULL;
CREATE INDEX refunds_unknown_by_age ON refunds (created_at) WHERE status = 'unknown';
CREATE INDEX refunds_by_order ON refunds (order_id, created_at);

-- Somebody wants an order not to be carried out.
CREATE TABLE cancels (
    cancel_id  text PRIMARY KEY,
    order_id   text NOT NULL REFERENCES orders,
    client_id  text NOT NULL,
    caller_key text NOT NULL,
    reason     text NOT NULL,
    status     text NOT NULL,
    refund_id  text REFERENCES refunds, -- what it gave back; none where nothing was owed, or a person says how much
    code       text NOT NULL DEFAULT '', -- why the money was left to a person
    created_at timestamptz NOT NULL DEFAULT now(),
    closed_at  timestamptz,
    CONSTRAINT cancels_status_known CHECK (status IN ('waiting', 'stopping', 'done')),
    CONSTRAINT cancels_reason_is_word CHECK (reason ~ '^[a-z][a-z0-9_]{0,49}$'),
    CONSTRAINT cancels_done_has_time CHECK ((status = 'done') = (closed_at IS NOT NULL)),
    -- The money of an order is given back by one cancel, once.
    CONSTRAINT cancels_one_per_order UNIQUE (order_id),
    CONSTRAINT cancels_caller_key_unique UNIQUE (client_id, caller_key)
);

CREATE TABLE issuances (
    issuance_id        text PRIMARY KEY,
    unit_id            text NOT NULL REFERENCES fulfillment_units,
    order_id           text NOT NULL,
    operation_id       text REFERENCES operations,
    issuer             text NOT NULL,
    issuer_issuance_id text NOT NULL DEFAULT '',
    sealed_reference   bytea,
    source             text NOT NULL,
    issued_at          timestamptz NOT NULL DEFAULT now(),
    revoked_at         timestamptz,
    CONSTRAINT issuances_source_known CHECK (source IN ('internal', 'issuer', 'operator'))
);
-- A unit has at most one issuance that is not revoked (S6).
CREATE UNIQUE INDEX issuances_one_per_unit ON issuances (unit_id) WHERE revoked_at IS NULL;
-- One issuance of an issuer serves one unit.
CREATE UNIQUE INDEX issuances_issuer_id_unique ON issuances (issuer, issuer_issuance_id) WHERE issuer_issuance_id <> '';
CREATE INDEX issuances_by_order ON issuances (order_id);

CREATE TABLE stock (
    sku      text PRIMARY KEY,
    on_hand  bigint NOT NULL,
    reserved bigint NOT NULL DEFAULT 0,
    -- What is promised must be there: selling beyond it is refused when the order is made, not when it is packed.
    CONSTRAINT stock_reserved_within_on_hand CHECK (reserved BETWEEN 0 AND on_hand)
);

-- Reserve once per line (ordinal 0), commit once per unit, release once per line. An expired order that is paid after all has its
-- stock reserved again, once, and that may be released once.
CREATE TABLE stock_movements (
    order_id text NOT NULL,
    line_no  integer NOT NULL,
    ordinal  integer NOT NULL,
    kind     text NOT NULL,
    sku      text NOT NULL REFERENCES stock,
    quantity bigint NOT NULL,
    at       timestamptz NOT NULL DEFAULT now(),
    revision integer NOT NULL DEFAULT 1,
    FOREIGN KEY (order_id, revision, line_no) REFERENCES order_lines,
    CONSTRAINT stock_movements_once PRIMARY KEY (order_id, revision, line_no, ordinal, kind),
    CONSTRAINT stock_movements_kind_known CHECK (kind IN ('reserve', 'commit', 'release', 'reserve_again', 'release_again')),
    CONSTRAINT stock_movements_shape CHECK (quantity > 0 AND (ordinal = 0) = (kind <> 'commit'))
);

CREATE TABLE grants (
    unit_id    text PRIMARY KEY REFERENCES fulfillment_units, -- one grant per unit
    order_id   text NOT NULL,
    sku        text NOT NULL,
    buyer_ref  text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);

-- ---------------------------------------------------------------- what was said

CREATE TABLE observations (
    observation_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id            text NOT NULL,
    attempt_id          text REFERENCES payment_attempts,
    unit_id             text REFERENCES fulfillment_units,
    refund_id           text REFERENCES refunds,
    operation_id        text REFERENCES operations,
    seq                 integer NOT NULL,
    source              text NOT NULL,
    outcome             text NOT NULL,
    final               boolean NOT NULL DEFAULT false,
    provider_status     text NOT NULL DEFAULT '',
    gateway             text NOT NULL DEFAULT '',
    account             text NOT NULL DEFAULT '',
    environment         text NOT NULL DEFAULT '',
    provider_payment_id text NOT NULL DEFAULT '',
    merchant_reference  text NOT NULL DEFAULT '',
    provider_refund_id  text NOT NULL DEFAULT '',
    currency            text NOT NULL DEFAULT '',
    amount_minor        bigint NOT NULL DEFAULT 0,
    authorized_minor    bigint NOT NULL DEFAULT 0, -- held, which says nothing about captured
    captured_minor      bigint NOT NULL DEFAULT 0,
    refunded_minor      bigint NOT NULL DEFAULT 0, -- in all; -1 = an answer about a refund that does not say
    dispute             text NOT NULL DEFAULT '', -- empty = the answer does not say
    disputed_minor      bigint NOT NULL DEFAULT 0,
    code                text NOT NULL DEFAULT '',
    request_id          text NOT NULL DEFAULT '',
    read_version        bigint NOT NULL DEFAULT 0,
    read_asks           bigint NOT NULL DEFAULT 0, -- the subject's looks_asked, read with its version before the call
    next_action         jsonb,
    provider_time       timestamptz,
    observed_at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT observations_one_subject CHECK (num_nonnulls(attempt_id, unit_id, refund_id) = 1),
    CONSTRAINT observations_source_known CHECK (source IN ('send', 'lookup', 'webhook', 'list', 'operator')),
    CONSTRAINT observations_outcome_known CHECK (outcome IN ('succeeded', 'declined', 'pending', 'unknown', 'untouched', 'not_found',
        'refused', 'prepared', 'issued', 'processing')),
    CONSTRAINT observations_dispute_known CHECK (dispute IN ('', 'none', 'open', 'won', 'lost')),
    CONSTRAINT observations_attempt_seq_unique UNIQUE (attempt_id, seq),
    CONSTRAINT observations_refund_seq_unique UNIQUE (refund_id, seq)
);
CREATE INDEX observations_by_order ON observations (order_id, observation_id);

CREATE TABLE transitions (
    transition_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id       text NOT NULL,
    subject_kind   text NOT NULL,
    subject_id     text NOT NULL,
    from_status    text NOT NULL,
    to_status      text NOT NULL,
    trigger        text NOT NULL,
    observation_id bigint,
    decision_id    text NOT NULL DEFAULT '',
    at             timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX transitions_by_order ON transitions (order_id, transition_id);

-- ---------------------------------------------------------------- what goes out

CREATE TABLE outbox_events (
    event_id     text PRIMARY KEY,
    order_id     text NOT NULL REFERENCES orders,
    seq          integer NOT NULL,
    type         text NOT NULL,
    business_key text NOT NULL,
    payload      jsonb NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    -- One outside notice per business event, however often the step behind it ran (I6).
    CONSTRAINT outbox_business_event_unique UNIQUE (order_id, business_key),
    CONSTRAINT outbox_seq_unique UNIQUE (order_id, seq)
);

CREATE TABLE event_deliveries (
    event_id     text NOT NULL REFERENCES outbox_events,
    receiver     text NOT NULL,
    order_id     text NOT NULL,
    seq          integer NOT NULL,
    status       text NOT NULL DEFAULT 'pending',
    tries        integer NOT NULL DEFAULT 0,
    next_try_at  timestamptz NOT NULL DEFAULT now(),
    last_code    text NOT NULL DEFAULT '',
    delivered_at timestamptz,
    PRIMARY KEY (event_id, receiver),
    CONSTRAINT deliveries_status_known CHECK (status IN ('pending', 'delivered', 'parked', 'skipped')),
    CONSTRAINT deliveries_delivered_has_time CHECK ((status = 'delivered') = (delivered_at IS NOT NULL))
);
CREATE INDEX deliveries_due ON event_deliveries (next_try_at) WHERE status = 'pending';
CREATE INDEX deliveries_by_age ON event_deliveries (delivered_at) WHERE status = 'delivered';
CREATE INDEX deliveries_open_by_order ON event_deliveries (order_id, receiver, seq) WHERE status IN ('pending', 'parked');

-- ---------------------------------------------------------------- what comes in

-- One event of a provider is one row. It holds no body and no secret: only what is needed to find the payment it is about.
CREATE TABLE webhook_receipts (
    receipt_id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    gateway             text NOT NULL,
    account             text NOT NULL,
    environment         text NOT NULL, -- what the event says, else the account's
    event_id            text NOT NULL,
    event_type          text NOT NULL,
    provider_payment_id text NOT NULL DEFAULT '',
    merchant_reference  text NOT NULL DEFAULT '',
    proof               text NOT NULL,
    says                text NOT NULL DEFAULT '',
    wrong_environment   boolean NOT NULL DEFAULT false,
    provider_at         timestamptz, -- the provider's clock
    received_at         timestamptz NOT NULL DEFAULT now(), -- ours
    tries               integer NOT NULL DEFAULT 0,
    next_try_at         timestamptz NOT NULL DEFAULT now(),
    processed_at        timestamptz,
    result              text NOT NULL DEFAULT '',
    CONSTRAINT receipts_event_unique UNIQUE (gateway, account, environment, event_id),
    CONSTRAINT receipts_environment_known CHECK (environment IN ('test', 'live')),
    CONSTRAINT receipts_proof_known CHECK (proof IN ('signed', 'secret', 'none')),
    -- Received and processed are two facts; the second one always says what came of it.
    CONSTRAINT receipts_result_known CHECK (result IN ('', 'look', 'known', 'ignored', 'unmatched', 'orphan', 'wrong_environment')),
    CONSTRAINT receipts_processed_has_result CHECK ((processed_at IS NOT NULL) = (result <> '')),
    -- A test event has no effect on a live account, whatever the code does.
    CONSTRAINT receipts_wrong_environment_idle CHECK (NOT wrong_environment OR result = 'wrong_environment')
);
CREATE INDEX receipts_open ON webhook_receipts (next_try_at) WHERE processed_at IS NULL;
CREATE INDEX receipts_by_age ON webhook_receipts (processed_at) WHERE processed_at IS NOT NULL;
CREATE INDEX receipts_hints_by_age ON webhook_receipts (processed_at) WHERE proof = 'none' AND result IN ('ignored', 'unmatched', 'wrong_environment');

-- Attempts somebody wants looked at, one row each however many have said so. The row goes when the order's run was told, unless it
-- was asked for again meanwhile. It has no foreign key: that would wait for whoever works on the attempt, and attempts stay.
CREATE TABLE looks_wanted (
    attempt_id  text PRIMARY KEY,
    order_id    text NOT NULL,
    gateway     text NOT NULL,
    account     text NOT NULL,
    environment text NOT NULL,
    source      text NOT NULL,
    says        text NOT NULL DEFAULT '', -- what makes the look needless, once the attempt has come to it: a claim, or 'settled'
    waited_for  boolean NOT NULL DEFAULT false, -- a buyer stands at the door: before all others
    asked_seq   bigint NOT NULL DEFAULT 1,
    asked_at    timestamptz NOT NULL DEFAULT now(),
    next_try_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX looks_wanted_by_turn ON looks_wanted (gateway, account, environment, waited_for DESC, next_try_at);

-- A payment at a provider that no attempt of ours explains. It is never dropped: a person says what it is.
CREATE TABLE orphan_payments (
    orphan_id           text PRIMARY KEY,
    gateway             text NOT NULL,
    account             text NOT NULL,
    environment         text NOT NULL,
    subject             text NOT NULL, -- the provider's id, or "reference " and ours where the id is not known
    provider_payment_id text NOT NULL DEFAULT '',
    merchant_reference  text NOT NULL DEFAULT '',
    says                text NOT NULL DEFAULT '', -- what the newest notice or list claims
    currency            text NOT NULL DEFAULT '',
    captured_minor      bigint NOT NULL DEFAULT 0, -- as a list says it; 0 = not known
    provider_at         timestamptz, -- the provider's clock
    status              text NOT NULL DEFAULT 'open',
    attempt_id          text REFERENCES payment_attempts,
    first_seen_at       timestamptz NOT NULL DEFAULT now(),
    last_seen_at        timestamptz NOT NULL DEFAULT now(),
    ended_at            timestamptz,
    CONSTRAINT orphans_payment_unique UNIQUE (gateway, account, environment, subject),
    CONSTRAINT orphans_environment_known CHECK (environment IN ('test', 'live')),
    CONSTRAINT orphans_subject_present CHECK (subject <> ''),
    CONSTRAINT orphans_amount_has_currency CHECK (captured_minor >= 0 AND (captured_minor > 0) <= (currency <> '')),
    CONSTRAINT orphans_status_known CHECK (status IN ('open', 'linked', 'closed')),
    CONSTRAINT orphans_linked_has_attempt CHECK ((status = 'linked') = (attempt_id IS NOT NULL)),
    CONSTRAINT orphans_ended_has_time CHECK ((status = 'open') = (ended_at IS NULL))
);
CREATE INDEX orphans_open ON orphan_payments (first_seen_at) WHERE status = 'open';

-- How far a provider account's books were read: what is before reached_at was met. A window that was begun stands beside it, and moves
-- in the transaction that keeps what its page led to: a process that dies between page and cursor has done neither.
CREATE TABLE reconcile_cursors (
    gateway      text NOT NULL,
    account      text NOT NULL,
    environment  text NOT NULL,
    reached_at   timestamptz,
    window_from  timestamptz,
    window_until timestamptz,
    page_cursor  text NOT NULL DEFAULT '', -- the provider's; empty = the first page
    items        integer NOT NULL DEFAULT 0, -- met in the window so far: an empty one proves nothing and moves nothing
    hold_at      timestamptz, -- the oldest payment of the window that has to be met again
    version      bigint NOT NULL DEFAULT 1, -- of two processes that read one page, one moves the cursor
    moved_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (gateway, account, environment),
    CONSTRAINT reconcile_environment_known CHECK (environment IN ('test', 'live')),
    CONSTRAINT reconcile_window_whole CHECK ((window_from IS NULL) = (window_until IS NULL) AND window_from <= window_until),
    CONSTRAINT reconcile_page_in_window CHECK (window_until IS NOT NULL OR (page_cursor = '' AND items = 0 AND hold_at IS NULL))
);
-- Who has no list is asked for every attempt of a stretch of time. Rows come in the order of their time, so a few pages of summaries do.
CREATE INDEX attempts_by_age ON payment_attempts USING brin (created_at);

CREATE TABLE idempotency_keys (
    client_id       text NOT NULL,
    operation       text NOT NULL,
    key             text NOT NULL,
    fingerprint     bytea NOT NULL,
    subject_id      text NOT NULL,
    lease_token     text NOT NULL,
    lease_until     timestamptz NOT NULL,
    http_status     integer,
    sealed_response bytea,
    created_at      timestamptz NOT NULL DEFAULT now(),
    completed_at    timestamptz,
    CONSTRAINT idempotency_keys_scope PRIMARY KEY (client_id, operation, key), -- never without the caller in it
    CONSTRAINT idempotency_keys_key_length CHECK (char_length(key) BETWEEN 1 AND 255),
    CONSTRAINT idempotency_keys_completed_whole CHECK ((http_status IS NULL) = (completed_at IS NULL))
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- ---------------------------------------------------------------- who decides

CREATE TABLE reviews (
    review_id       text PRIMARY KEY,
    order_id        text,
    subject_kind    text NOT NULL,
    subject_id      text NOT NULL,
    subject_version bigint NOT NULL,
    reason          text NOT NULL,
    code            text NOT NULL DEFAULT '',
    status          text NOT NULL DEFAULT 'open',
    version         bigint NOT NULL DEFAULT 1,
    owner           text NOT NULL DEFAULT 'operations', -- the group that answers for it
    assigned_to     text NOT NULL DEFAULT '', -- the person who has taken it
    assigned_at     timestamptz,
    gateway         text NOT NULL DEFAULT '', -- the other side it is about: a provider, an issuer or a receiver
    opened_at       timestamptz NOT NULL DEFAULT now(),
    next_check_at   timestamptz NOT NULL,
    resolved_at     timestamptz,
    resolved_by     text NOT NULL DEFAULT '',
    CONSTRAINT reviews_status_known CHECK (status IN ('open', 'resolved')),
    CONSTRAINT reviews_resolved_has_time CHECK ((status = 'resolved') = (resolved_at IS NOT NULL)),
    CONSTRAINT reviews_resolved_has_cause CHECK ((status = 'resolved') = (resolved_by <> '')),
    -- Nothing waits for a person without a group that answers for it.
    CONSTRAINT reviews_owner_present CHECK (owner <> ''),
    CONSTRAINT reviews_assigned_has_time CHECK ((assigned_to <> '') = (assigned_at IS NOT NULL))
);
-- One open question per subject and reason: a repeat finds it instead of asking twice.
CREATE UNIQUE INDEX reviews_one_open ON reviews (subject_kind, subject_id, reason) WHERE status = 'open';
-- The queue pages by age, within all or one of these; only open reviews are in them, so years of resolved ones cost nothing.
CREATE INDEX reviews_open_by_age ON reviews (opened_at, review_id) WHERE status = 'open';
CREATE INDEX reviews_open_by_reason ON reviews (reason, opened_at, review_id) WHERE status = 'open';
CREATE INDEX reviews_open_by_gateway ON reviews (gateway, opened_at, review_id) WHERE status = 'open';
CREATE INDEX reviews_open_by_assigned ON reviews (assigned_to, opened_at, review_id) WHERE status = 'open';
CREATE INDEX reviews_by_order ON reviews (order_id);

CREATE TABLE review_decisions (
    decision_id    text PRIMARY KEY, -- the same decision twice is one effect (A2)
    review_id      text NOT NULL REFERENCES reviews,
    review_version bigint NOT NULL,
    order_id       text,
    decision       text NOT NULL,
    actor          text NOT NULL,
    actor_role     text NOT NULL,
    actor_claimed  boolean NOT NULL, -- nobody checked who it was
    channel        text NOT NULL,
    reason         text NOT NULL,
    evidence       jsonb NOT NULL,
    before         jsonb NOT NULL,
    after          jsonb NOT NULL,
    operation_id   text NOT NULL DEFAULT '',
    -- The second person, where one was needed: who, and the id and words of the approval.
    approval_id      text NOT NULL DEFAULT '',
    approver         text NOT NULL DEFAULT '',
    approver_role    text NOT NULL DEFAULT '',
    approver_channel text NOT NULL DEFAULT '',
    approver_reason  text NOT NULL DEFAULT '',
    at             timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT decisions_channel_known CHECK (channel IN ('api', 'page', 'command_line', 'temporal_update', 'temporal_signal')),
    CONSTRAINT decisions_actor_present CHECK (actor <> '' AND reason <> ''),
    CONSTRAINT decisions_role_decides CHECK (actor_role IN ('operator', 'approver')),
    -- An approval is whole, by an approver, through a door that knows who comes in, and by another one than the first person.
    CONSTRAINT decisions_approval_whole CHECK ((approval_id = '') = (approver = '') AND (approval_id = '') = (approver_reason = '')),
    CONSTRAINT decisions_approver_may CHECK (approval_id = '' OR (approver_role = 'approver' AND approver_channel IN ('api', 'page', 'command_line'))),
    CONSTRAINT decisions_two_persons CHECK (approval_id = '' OR lower(approver) <> lower(actor)),
    -- Two different decisions on one version of a review: one wins, the other is told so.
    CONSTRAINT decisions_one_per_version UNIQUE (review_id, review_version)
);

-- The same approval twice is one effect.
CREATE UNIQUE INDEX decisions_approval_unique ON review_decisions (approval_id) WHERE approval_id <> '';
CREATE INDEX decisions_by_order ON review_decisions (order_id);

-- What a first person decided and a second one has not yet made effective. It moves nothing; its content is what will be decided.
CREATE TABLE decision_proposals (
    decision_id     text PRIMARY KEY,
    review_id       text NOT NULL REFERENCES reviews,
    review_version  bigint NOT NULL, -- of the review as the first person saw it
    subject_version bigint NOT NULL, -- of what it is about: a proposal is about no other state
    order_id        text,
    decision        text NOT NULL,
    content         jsonb NOT NULL,
    actor           text NOT NULL,
    actor_person    text NOT NULL DEFAULT '',
    actor_role      text NOT NULL,
    actor_claimed   boolean NOT NULL,
    channel         text NOT NULL,
    status          text NOT NULL DEFAULT 'open',
    at              timestamptz NOT NULL DEFAULT now(),
    ended_at        timestamptz,
    CONSTRAINT proposals_status_known CHECK (status IN ('open', 'applied', 'replaced')),
    CONSTRAINT proposals_ended_has_time CHECK ((status = 'open') = (ended_at IS NULL)),
    CONSTRAINT proposals_channel_known CHECK (channel IN ('api', 'page', 'command_line', 'temporal_update', 'temporal_signal')),
    CONSTRAINT proposals_actor_present CHECK (actor <> '')
);
-- One proposal of a review waits at a time: an approver never has to guess which one is meant.
CREATE UNIQUE INDEX proposals_one_open ON decision_proposals (review_id) WHERE status = 'open';
CREATE INDEX proposals_by_order ON decision_proposals (order_id);

-- People who may use the operator page. A row stays when its login is disabled: decisions name it.
CREATE TABLE operators (
    login         text PRIMARY KEY,
    name          text NOT NULL,
    role          text NOT NULL,
    password_hash text NOT NULL, -- argon2id with its parameters and salt
    created_at    timestamptz NOT NULL DEFAULT now(),
    disabled_at   timestamptz,
    CONSTRAINT operators_login_form CHECK (login ~ '^[a-z0-9][a-z0-9._@-]{0,63}$'),
    CONSTRAINT operators_name_present CHECK (char_length(name) BETWEEN 1 AND 100),
    CONSTRAINT operators_role_known CHECK (role IN ('viewer', 'operator', 'approver')),
    -- A password that slipped in as it was typed would be readable by everybody who reads the table.
    CONSTRAINT operators_password_hashed CHECK (password_hash LIKE '$argon2id$%')
);

-- Who is logged in. The token itself is in the browser only: who reads this table cannot use it.
CREATE TABLE operator_sessions (
    token_hash bytea PRIMARY KEY,
    login      text NOT NULL REFERENCES operators,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT operator_sessions_hash_is_sha256 CHECK (octet_length(token_hash) = 32),
    CONSTRAINT operator_sessions_end CHECK (expires_at > created_at)
);
CREATE INDEX operator_sessions_by_login ON operator_sessions (login);
CREATE INDEX operator_sessions_by_end ON operator_sessions (expires_at);

-- What was refused, and other acts that leave no row elsewhere.
CREATE TABLE audit_log (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id text,
    review_id text,
    actor    text NOT NULL,
    channel  text NOT NULL,
    act      text NOT NULL,
    detail   jsonb NOT NULL,
    at       timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX audit_by_review ON audit_log (review_id, audit_id) WHERE review_id IS NOT NULL;
CREATE INDEX audit_by_order ON audit_log (order_id, audit_id) WHERE order_id IS NOT NULL;

-- ---------------------------------------------------------------- what was sold, received and given back

-- The transaction record: one row per sale, receipt, refund and correction, written by triggers in the transaction of its effect. A
-- trigger and not a statement of each path that moves money: one that forgot it would be missed by nobody until the audit. What is
-- written once stays; a later fact is a later row. seq counts an order's rows without a gap, at once, under the order's lock; number
-- counts a client's without a gap, a moment later, so that orders of one client do not wait for each other.
CREATE TABLE transaction_records (
    record_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id          text NOT NULL REFERENCES orders,
    client_id         text NOT NULL,
    seq               integer NOT NULL,
    number            bigint,
    kind              text NOT NULL,
    transaction_key   text NOT NULL, -- what makes it the same transaction, however often it is told
    why               text NOT NULL DEFAULT '', -- of a correction
    corrects_seq      integer, -- the record of the order that a refund or correction is about
    payment_id        text REFERENCES payments,
    refund_id         text REFERENCES refunds,
    currency          text NOT NULL,
    currency_exponent smallint, -- null where money came in another currency than the order's
    sold_minor        bigint NOT NULL DEFAULT 0,
    received_minor    bigint NOT NULL DEFAULT 0,
    refunded_minor    bigint NOT NULL DEFAULT 0,
    document          jsonb NOT NULL,
    at                timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT records_kind_known CHECK (kind IN ('sale', 'receipt', 'refund', 'correction')),
    -- One record per transaction.
    CONSTRAINT records_transaction_unique UNIQUE (kind, transaction_key),
    CONSTRAINT records_seq_unique UNIQUE (order_id, seq),
    CONSTRAINT records_number_unique UNIQUE (client_id, number),
    -- Money that moved has a payment, but for what was paid by other means.
    CONSTRAINT records_subject_known CHECK (CASE kind WHEN 'sale' THEN payment_id IS NULL WHEN 'receipt' THEN true ELSE payment_id IS NOT NULL END),
    CONSTRAINT records_refund_known CHECK (kind <> 'refund' OR refund_id IS NOT NULL),
    CONSTRAINT records_correction_says_why CHECK ((kind = 'correction') = (why <> '')),
    -- A sale is sold, a receipt received, a refund refunded; only a correction takes away.
    CONSTRAINT records_amounts_fit_kind CHECK (CASE kind
        WHEN 'sale' THEN sold_minor > 0 AND received_minor = 0 AND refunded_minor = 0
        WHEN 'receipt' THEN sold_minor = 0 AND received_minor > 0 AND refunded_minor = 0
        WHEN 'refund' THEN sold_minor = 0 AND received_minor = 0 AND refunded_minor > 0
        ELSE sold_minor = 0 AND (received_minor <> 0 OR refunded_minor <> 0) END)
);
CREATE INDEX records_to_number ON transaction_records (client_id, record_id) WHERE number IS NULL;
CREATE INDEX records_by_payment ON transaction_records (payment_id);

-- +goose StatementBegin
CREATE FUNCTION append_record(of_order text, of_kind text, key text, reason text, payment text, refund text, money text,
                              sold bigint, received bigint, refunded bigint, says jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO transaction_records (order_id, client_id, seq, kind, transaction_key, why, corrects_seq, payment_id, refund_id, currency,
                                     currency_exponent, sold_minor, received_minor, refunded_minor, document)
    SELECT o.order_id, o.client_id, 1 + coalesce((SELECT max(r.seq) FROM transaction_records r WHERE r.order_id = o.order_id), 0), of_kind, key, reason,
           CASE WHEN of_kind IN ('refund', 'correction') THEN (SELECT r.seq FROM transaction_records r
               WHERE r.order_id = o.order_id AND (r.kind = 'sale' OR (r.kind = 'receipt' AND r.payment_id = payment)) ORDER BY r.kind = 'sale' DESC, r.seq LIMIT 1) END,
           payment, refund, money, CASE WHEN money = o.currency THEN o.currency_exponent END, sold, received, refunded, says
    FROM orders o WHERE o.order_id = of_order;
$$;
-- +goose StatementEnd

-- What was sold, as the order stated it when it was paid: one sale per order, ever.
-- +goose StatementBegin
CREATE FUNCTION record_sale() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM transaction_records r WHERE r.kind = 'sale' AND r.transaction_key = NEW.order_id) THEN
        RETURN NULL;
    END IF;
    PERFORM append_record(NEW.order_id, 'sale', NEW.order_id, '', NULL, NULL, NEW.currency, NEW.total_minor, 0, 0, jsonb_build_object(
        'revision', NEW.revision, 'lines_minor', NEW.lines_minor, 'adjustments_minor', NEW.adjustments_minor, 'total_minor', NEW.total_minor,
        'lines', (SELECT jsonb_agg(jsonb_build_object('no', l.line_no, 'sku', l.sku, 'name', l.name, 'quantity', l.quantity,
                      'unit_amount_minor', l.unit_amount_minor, 'amount_minor', l.amount_minor, 'tax_rate', l.tax_rate) ORDER BY l.line_no)
                  FROM order_lines l WHERE l.order_id = NEW.order_id),
        'adjustments', (SELECT coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'tax_rate', a.tax_rate, 'amount_minor', a.amount_minor) ORDER BY a.adj_no), '[]')
                        FROM order_adjustments a WHERE a.order_id = NEW.order_id),
        'by_rate', (SELECT jsonb_agg(jsonb_build_object('tax_rate', y.rate, 'lines_minor', y.lines, 'discount_minor', y.discount, 'shipping_minor', y.shipping,
                        'tax_minor', y.tax, 'included_tax_minor', y.included) ORDER BY y.rate)
                    FROM (SELECT x.rate, sum(x.amount) FILTER (WHERE x.kind = 'line') AS lines, sum(x.amount) FILTER (WHERE x.kind = 'discount') AS discount,
                                 sum(x.amount) FILTER (WHERE x.kind = 'shipping') AS shipping, sum(x.amount) FILTER (WHERE x.kind = 'tax') AS tax,
                                 sum(x.amount) FILTER (WHERE x.kind = 'included_tax') AS included
                          FROM (SELECT l.tax_rate AS rate, 'line' AS kind, l.amount_minor AS amount FROM order_lines l WHERE l.order_id = NEW.order_id
                                UNION ALL SELECT a.tax_rate, a.kind, a.amount_minor FROM order_adjustments a WHERE a.order_id = NEW.order_id) x
                          GROUP BY x.rate) y)));
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- What came in by a payment, and what went back of it that no refund of ours explains. The difference to what was recorded is recorded,
-- so it does not matter which statement moved the money.
-- +goose StatementBegin
CREATE FUNCTION record_payment() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was  record;
    n    bigint;
    back bigint := CASE WHEN NEW.matched THEN NEW.elsewhere_minor ELSE NEW.refunded_minor END;
    here bigint := NEW.captured_minor - CASE WHEN NEW.taken_back THEN NEW.captured_minor - NEW.refunded_minor WHEN NEW.dispute = 'lost' THEN NEW.disputed_minor ELSE 0 END;
    gone text   := 'captured_changed';
    says jsonb := jsonb_build_object('gateway', NEW.gateway, 'account', NEW.account, 'environment', NEW.environment,
                                     'provider_payment_id', NEW.provider_payment_id, 'attempt_id', NEW.attempt_id, 'matched', NEW.matched);
BEGIN
    SELECT count(*) INTO n FROM transaction_records r WHERE r.payment_id = NEW.payment_id;
    IF TG_OP = 'UPDATE' AND OLD.taken_back <> NEW.taken_back THEN
        gone := 'taken_back';
    ELSIF TG_OP = 'UPDATE' AND OLD.dispute <> NEW.dispute THEN
        gone := 'charged_back';
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.order_id IS NOT NULL AND (OLD.order_id, OLD.currency) IS DISTINCT FROM (NEW.order_id, NEW.currency) THEN
        -- It turns out to be another order's, or to be in another currency: it is taken back here, and recorded anew below.
        SELECT sum(r.received_minor)::bigint AS received, sum(r.refunded_minor)::bigint AS refunded INTO was FROM transaction_records r
        WHERE r.payment_id = NEW.payment_id AND r.order_id = OLD.order_id AND r.currency = OLD.currency;
        IF was.received <> 0 OR was.refunded <> 0 THEN
            PERFORM append_record(OLD.order_id, 'correction', NEW.payment_id || '/' || n, 'payment_moved', NEW.payment_id, NULL, OLD.currency,
                                  0, -was.received, -was.refunded, says);
            n := n + 1;
        END IF;
    END IF;
    SELECT coalesce(sum(r.received_minor), 0)::bigint AS received, coalesce(sum(r.refunded_minor) FILTER (WHERE r.refund_id IS NULL), 0)::bigint AS refunded, count(*) AS n
    INTO was FROM transaction_records r WHERE r.payment_id = NEW.payment_id AND r.order_id = NEW.order_id AND r.currency = NEW.currency;
    IF was.n = 0 AND here > 0 THEN
        PERFORM append_record(NEW.order_id, 'receipt', NEW.payment_id || '/' || NEW.order_id || '/' || NEW.currency, '', NEW.payment_id, NULL, NEW.currency,
                              0, here, 0, says);
        n := n + 1;
    ELSIF here <> was.received THEN
        PERFORM append_record(NEW.order_id, 'correction', NEW.payment_id || '/' || n, gone, NEW.payment_id, NULL, NEW.currency,
                              0, here - was.received, 0, says);
        n := n + 1;
    END IF;
    IF back <> was.refunded THEN
        PERFORM append_record(NEW.order_id, 'correction', NEW.payment_id || '/' || n, 'refunded_elsewhere', NEW.payment_id, NULL, NEW.currency,
                              0, 0, back - was.refunded, says);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- What a person has seen paid by other means.
-- +goose StatementBegin
CREATE FUNCTION record_external() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM append_record(NEW.order_id, 'receipt', NEW.order_id || '/' || NEW.external_decision, '', NULL, NULL, NEW.currency,
                          0, NEW.total_minor, 0, jsonb_build_object('decision_id', NEW.external_decision));
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- What went back by a refund of ours, and a refund that turned out not to have.
-- +goose StatementBegin
CREATE FUNCTION record_refund() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    n    bigint;
    says jsonb := jsonb_build_object('gateway', NEW.gateway, 'account', NEW.account, 'environment', NEW.environment, 'attempt_id', NEW.attempt_id,
                                     'reference', NEW.reference, 'provider_refund_id', NEW.provider_refund_id, 'reason', NEW.reason);
BEGIN
    SELECT count(*) INTO n FROM transaction_records r WHERE r.refund_id = NEW.refund_id;
    IF NEW.status = 'succeeded' THEN
        PERFORM append_record(NEW.order_id, 'refund', NEW.refund_id || '/' || n, '', NEW.payment_id, NEW.refund_id, NEW.currency, 0, 0, NEW.amount_minor, says);
    ELSE
        PERFORM append_record(NEW.order_id, 'correction', NEW.refund_id || '/' || n, 'refund_undone', NEW.payment_id, NEW.refund_id, NEW.currency,
                              0, 0, -NEW.amount_minor, says);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER orders_recorded AFTER UPDATE OF status ON orders FOR EACH ROW WHEN (NEW.status = 'paid' AND OLD.status <> 'paid') EXECUTE FUNCTION record_sale();
CREATE TRIGGER orders_paid_elsewhere AFTER UPDATE OF external_decision ON orders
    FOR EACH ROW WHEN (NEW.external_decision <> '' AND OLD.external_decision = '') EXECUTE FUNCTION record_external();
CREATE TRIGGER payments_recorded AFTER INSERT OR UPDATE OF order_id, currency, captured_minor, refunded_minor, elsewhere_minor, matched, dispute, disputed_minor, taken_back ON payments
    FOR EACH ROW EXECUTE FUNCTION record_payment();
CREATE TRIGGER refunds_recorded AFTER UPDATE OF status ON refunds
    FOR EACH ROW WHEN ((NEW.status = 'succeeded') <> (OLD.status = 'succeeded')) EXECUTE FUNCTION record_refund();

-- A record is never changed; only its number is put in, once.
-- +goose StatementBegin
CREATE FUNCTION refuse_record_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.number IS NULL AND NEW.number IS NOT NULL AND to_jsonb(NEW) - 'number' = to_jsonb(OLD) - 'number' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'transaction_records is append-only' USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER transaction_records_append_only BEFORE UPDATE OR DELETE ON transaction_records FOR EACH ROW EXECUTE FUNCTION refuse_record_change();
CREATE TRIGGER transaction_records_no_truncate BEFORE TRUNCATE ON transaction_records FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- One token bucket per provider account and purpose, so that all processes together keep one rate.
CREATE TABLE rate_buckets (
    bucket      text PRIMARY KEY,
    tokens      integer NOT NULL,
    refilled_at timestamptz NOT NULL,
    CONSTRAINT rate_buckets_not_negative CHECK (tokens >= 0)
);

CREATE TRIGGER observations_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON observations FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER transitions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON transitions FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER review_decisions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON review_decisions FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down
-- Migrations go forward only: money facts are not something to drop by a command.
SELECT 1;
