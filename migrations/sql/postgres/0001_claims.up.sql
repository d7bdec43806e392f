-- Earmark 0001: the tables of the claims, for PostgreSQL 13 and later.
--
-- The crate runs this text inside one transaction. By hand:
--     psql --single-transaction -v ON_ERROR_STOP=1 -f 0001_claims.up.sql <database>
-- The tables are made in the first schema of the search path, and found through it.
--
-- Rules that hold for every column:
--   * times are microseconds since 1970 by the database's clock; each CHECK refuses anything outside 2001..2286,
--     so that seconds or milliseconds typed by hand do not pass for times;
--   * durations are microseconds; a null duration means "not declared";
--   * keys are compared byte for byte (COLLATE "C"), so that two spellings are two messages;
--   * closed sets are words, so that a query typed by hand reads well.
-- Every CHECK is named: the name is what a person sees when a row is refused.

CREATE TABLE earmark_claim (
    -- The key: one effect for each.
    tenant          text COLLATE "C" NOT NULL
        CONSTRAINT earmark_claim_tenant_check CHECK (octet_length(tenant) <= 128),
    consumer        text COLLATE "C" NOT NULL
        CONSTRAINT earmark_claim_consumer_check CHECK (octet_length(consumer) BETWEEN 1 AND 128),
    message_id      text COLLATE "C" NOT NULL
        CONSTRAINT earmark_claim_message_id_check CHECK (octet_length(message_id) BETWEEN 1 AND 512),

    -- What it is about: for people, metrics and policy.
    kind            text NOT NULL
        CONSTRAINT earmark_claim_kind_check CHECK (octet_length(kind) BETWEEN 1 AND 128),
    form            text NOT NULL
        CONSTRAINT earmark_claim_form_check CHECK (octet_length(form) BETWEEN 1 AND 32),
    downstream      text NOT NULL
        CONSTRAINT earmark_claim_downstream_check CHECK (octet_length(downstream) BETWEEN 1 AND 64),
    summary         text
        CONSTRAINT earmark_claim_summary_check CHECK (octet_length(summary) <= 256),
    business_ref    text
        CONSTRAINT earmark_claim_business_ref_check CHECK (octet_length(business_ref) <= 128),
    amount_minor    bigint,
    currency        text
        CONSTRAINT earmark_claim_currency_check CHECK (octet_length(currency) = 3),

    -- Where it stands.
    state           text NOT NULL
        CONSTRAINT earmark_claim_state_check CHECK (
            state IN ('held', 'in_flight', 'retryable', 'in_doubt', 'escalated', 'confirmed', 'abandoned')),
    doubt           boolean NOT NULL,
    contradicted    boolean NOT NULL,
    fence           bigint NOT NULL
        CONSTRAINT earmark_claim_fence_check CHECK (fence >= 0),
    token           bytea NOT NULL
        CONSTRAINT earmark_claim_token_check CHECK (octet_length(token) = 16),
    revision        bigint NOT NULL
        CONSTRAINT earmark_claim_revision_check CHECK (revision >= 1),
    due_at          bigint
        CONSTRAINT earmark_claim_due_at_check CHECK (due_at BETWEEN 1000000000000000 AND 9999999999999999),
    not_before      bigint
        CONSTRAINT earmark_claim_not_before_check CHECK (not_before BETWEEN 1000000000000000 AND 9999999999999999),
    send_by         bigint
        CONSTRAINT earmark_claim_send_by_check CHECK (send_by BETWEEN 1000000000000000 AND 9999999999999999),
    created_at      bigint NOT NULL
        CONSTRAINT earmark_claim_created_at_check CHECK (created_at BETWEEN 1000000000000000 AND 9999999999999999),
    window_from     bigint
        CONSTRAINT earmark_claim_window_from_check CHECK (window_from BETWEEN 1000000000000000 AND 9999999999999999),
    last_end_at     bigint
        CONSTRAINT earmark_claim_last_end_at_check CHECK (last_end_at BETWEEN 1000000000000000 AND 9999999999999999),
    attempts        integer NOT NULL
        CONSTRAINT earmark_claim_attempts_check CHECK (attempts >= 0),
    repeats_granted integer NOT NULL
        CONSTRAINT earmark_claim_repeats_granted_check CHECK (repeats_granted >= 0),
    ruled_at        bigint
        CONSTRAINT earmark_claim_ruled_at_check CHECK (ruled_at BETWEEN 1000000000000000 AND 9999999999999999),
    looks           integer NOT NULL
        CONSTRAINT earmark_claim_looks_check CHECK (looks >= 0),
    closed_at       bigint
        CONSTRAINT earmark_claim_closed_at_check CHECK (closed_at BETWEEN 1000000000000000 AND 9999999999999999),
    closed_by       text
        CONSTRAINT earmark_claim_closed_by_check CHECK (
            closed_by IN ('answer', 'probe', 'evidence', 'ruling', 'refused', 'cancelled', 'expired')),
    error_class     text
        CONSTRAINT earmark_claim_error_class_check CHECK (octet_length(error_class) <= 128),
    provider_ref    text COLLATE "C"
        CONSTRAINT earmark_claim_provider_ref_check CHECK (octet_length(provider_ref) <= 255),

    -- What was asked for: frozen at the claim, the same at every attempt.
    fingerprint     bytea NOT NULL
        CONSTRAINT earmark_claim_fingerprint_check CHECK (octet_length(fingerprint) = 32),
    idempotency_key text COLLATE "C" NOT NULL
        CONSTRAINT earmark_claim_idempotency_key_check CHECK (octet_length(idempotency_key) BETWEEN 1 AND 512),
    reference       text COLLATE "C" NOT NULL
        CONSTRAINT earmark_claim_reference_check CHECK (octet_length(reference) BETWEEN 1 AND 16),
    request         bytea
        CONSTRAINT earmark_claim_request_check CHECK (octet_length(request) <= 16777215),
    request_type    text NOT NULL
        CONSTRAINT earmark_claim_request_type_check CHECK (octet_length(request_type) <= 128),
    credential      text
        CONSTRAINT earmark_claim_credential_check CHECK (octet_length(credential) <= 128),

    -- What the effect declared: frozen too.
    repeat_safety   text NOT NULL
        CONSTRAINT earmark_claim_repeat_safety_check CHECK (repeat_safety IN ('keyed', 'natural', 'never')),
    key_window      bigint
        CONSTRAINT earmark_claim_key_window_check CHECK (key_window > 0),
    landing_horizon bigint
        CONSTRAINT earmark_claim_landing_horizon_check CHECK (landing_horizon >= 0),
    probe_lag       bigint
        CONSTRAINT earmark_claim_probe_lag_check CHECK (probe_lag >= 0),
    probe_proof     boolean NOT NULL,
    looks_max       integer NOT NULL
        CONSTRAINT earmark_claim_looks_max_check CHECK (looks_max >= 0),
    call_timeout    bigint NOT NULL
        CONSTRAINT earmark_claim_call_timeout_check CHECK (call_timeout > 0),
    attempts_max    integer NOT NULL
        CONSTRAINT earmark_claim_attempts_max_check CHECK (attempts_max > 0),
    age_max         bigint NOT NULL
        CONSTRAINT earmark_claim_age_max_check CHECK (age_max > 0),

    -- What was answered. The length and digest are of what was received, so that a cut receipt shows.
    receipt         bytea
        CONSTRAINT earmark_claim_receipt_check CHECK (octet_length(receipt) <= 16777215),
    receipt_type    text
        CONSTRAINT earmark_claim_receipt_type_check CHECK (octet_length(receipt_type) <= 128),
    receipt_len     bigint
        CONSTRAINT earmark_claim_receipt_len_check CHECK (receipt_len >= 0),
    receipt_digest  bytea
        CONSTRAINT earmark_claim_receipt_digest_check CHECK (octet_length(receipt_digest) = 32),

    traceparent     text
        CONSTRAINT earmark_claim_traceparent_check CHECK (octet_length(traceparent) <= 64),
    supersedes      text COLLATE "C"
        CONSTRAINT earmark_claim_supersedes_check CHECK (octet_length(supersedes) BETWEEN 1 AND 16),
    purged_at       bigint
        CONSTRAINT earmark_claim_purged_at_check CHECK (purged_at BETWEEN 1000000000000000 AND 9999999999999999),

    CONSTRAINT earmark_claim_pkey PRIMARY KEY (tenant, consumer, message_id),

    -- Columns that stand or fall together.
    CONSTRAINT earmark_claim_amount_check CHECK ((amount_minor IS NULL) = (currency IS NULL)),
    CONSTRAINT earmark_claim_window_declared_check CHECK ((key_window IS NOT NULL) = (repeat_safety = 'keyed')),
    CONSTRAINT earmark_claim_probe_check CHECK (NOT probe_proof OR probe_lag IS NOT NULL),
    CONSTRAINT earmark_claim_receipt_parts_check CHECK (
        (receipt_type IS NULL) = (receipt_len IS NULL)
        AND (receipt_digest IS NULL) = (receipt_len IS NULL)
        AND (receipt IS NULL OR receipt_len IS NOT NULL)),

    -- Columns that the state binds: a row cannot say two things at once.
    -- A finished claim and one that waits for a person are due to nobody: the sweep's index does not hold them.
    CONSTRAINT earmark_claim_due_state_check CHECK (
        (due_at IS NULL) = (state IN ('escalated', 'confirmed', 'abandoned'))),
    CONSTRAINT earmark_claim_closed_state_check CHECK (
        (closed_at IS NOT NULL) = (state IN ('confirmed', 'abandoned'))
        AND (closed_by IS NOT NULL) = (state IN ('confirmed', 'abandoned'))),
    -- Evidence that conflicts waits for a person, and whoever carries it cannot say that nothing happened.
    CONSTRAINT earmark_claim_contradicted_state_check CHECK (
        NOT contradicted OR (state = 'escalated' AND doubt)),
    -- Nothing open is ever purged, and only the purge takes the request away: an open claim can be performed.
    CONSTRAINT earmark_claim_purged_state_check CHECK (
        purged_at IS NULL OR state IN ('confirmed', 'abandoned', 'escalated')),
    CONSTRAINT earmark_claim_request_kept_check CHECK (
        request IS NOT NULL OR purged_at IS NOT NULL),
    -- Held: nothing was sent.
    CONSTRAINT earmark_claim_held_check CHECK (
        state <> 'held'
        OR (fence = 0 AND attempts = 0 AND repeats_granted = 0 AND NOT doubt
            AND window_from IS NULL AND last_end_at IS NULL AND receipt_len IS NULL)),
    -- In flight: somebody holds it, and the provider's memory may have begun to run.
    CONSTRAINT earmark_claim_in_flight_check CHECK (
        state <> 'in_flight' OR (fence >= 1 AND attempts >= 1 AND window_from IS NOT NULL)),
    -- A machine may repeat a doubtful effect only on a person's word.
    CONSTRAINT earmark_claim_retryable_check CHECK (
        state <> 'retryable' OR NOT doubt OR repeats_granted >= 1),
    -- In doubt: some attempt has ended, and proof is counted from that end.
    CONSTRAINT earmark_claim_in_doubt_check CHECK (
        state <> 'in_doubt' OR last_end_at IS NOT NULL)
    -- Each claim leaves one dead row, that of before its settle, and the new one is in other indexes: room kept for it on the
    -- page would be of no use (fillfactor stays 100). Vacuum is to come while the dead are few, not when a fifth of a large
    -- table is dead.
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000, autovacuum_analyze_scale_factor = 0.02);

-- A person or a statement has the short handle or the provider's id, not the key.
CREATE INDEX earmark_claim_reference ON earmark_claim (reference);
CREATE INDEX earmark_claim_provider_ref ON earmark_claim (provider_ref) WHERE provider_ref IS NOT NULL;
-- The sweep walks this pair by pair; finished claims are not in it.
CREATE INDEX earmark_claim_due ON earmark_claim (tenant, consumer, due_at) WHERE due_at IS NOT NULL;
-- What waits for a person: few, and no ordinary claim is ever in it. What is due and what is escalated is all that is open.
CREATE INDEX earmark_claim_escalated ON earmark_claim (created_at) WHERE state = 'escalated';
-- What is old enough to be purged, oldest first, and what was closed of late. Then the tombstones by their own age; one that
-- evidence has reopened has no closed_at and stands in neither.
CREATE INDEX earmark_claim_closed ON earmark_claim (closed_at) WHERE closed_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX earmark_claim_tombstone ON earmark_claim (closed_at) WHERE closed_at IS NOT NULL AND purged_at IS NOT NULL;

-- The history, appended in the transaction of the move that it tells of, never edited.
CREATE TABLE earmark_event (
    tenant       text COLLATE "C" NOT NULL
        CONSTRAINT earmark_event_tenant_check CHECK (octet_length(tenant) <= 128),
    consumer     text COLLATE "C" NOT NULL
        CONSTRAINT earmark_event_consumer_check CHECK (octet_length(consumer) BETWEEN 1 AND 128),
    message_id   text COLLATE "C" NOT NULL
        CONSTRAINT earmark_event_message_id_check CHECK (octet_length(message_id) BETWEEN 1 AND 512),
    seq          bigint NOT NULL
        CONSTRAINT earmark_event_seq_check CHECK (seq >= 1),
    at           bigint NOT NULL
        CONSTRAINT earmark_event_at_check CHECK (at BETWEEN 1000000000000000 AND 9999999999999999),
    fence        bigint NOT NULL
        CONSTRAINT earmark_event_fence_check CHECK (fence >= 0),
    revision     bigint NOT NULL
        CONSTRAINT earmark_event_revision_check CHECK (revision >= 1),
    name         text NOT NULL
        CONSTRAINT earmark_event_name_check CHECK (octet_length(name) BETWEEN 1 AND 32),
    -- Who did it; null for the machine.
    actor        text
        CONSTRAINT earmark_event_actor_check CHECK (octet_length(actor) <= 128),
    -- Equal where nothing moved.
    from_state   text NOT NULL
        CONSTRAINT earmark_event_from_state_check CHECK (
            from_state IN ('held', 'in_flight', 'retryable', 'in_doubt', 'escalated', 'confirmed', 'abandoned')),
    to_state     text NOT NULL
        CONSTRAINT earmark_event_to_state_check CHECK (
            to_state IN ('held', 'in_flight', 'retryable', 'in_doubt', 'escalated', 'confirmed', 'abandoned')),
    provider_ref text COLLATE "C"
        CONSTRAINT earmark_event_provider_ref_check CHECK (octet_length(provider_ref) <= 255),
    -- JSON, as text: only Earmark reads it.
    detail       text,
    bytes        bytea
        CONSTRAINT earmark_event_bytes_check CHECK (octet_length(bytes) <= 16777215),
    bytes_type   text
        CONSTRAINT earmark_event_bytes_type_check CHECK (octet_length(bytes_type) <= 128),

    CONSTRAINT earmark_event_pkey PRIMARY KEY (tenant, consumer, message_id, seq)
);

-- A report is about what happened since.
CREATE INDEX earmark_event_at ON earmark_event (at);

-- Evidence of which no claim is known: kept, since evidence is never refused.
CREATE TABLE earmark_orphan (
    id              text COLLATE "C" NOT NULL
        CONSTRAINT earmark_orphan_id_check CHECK (id ~ '^[0-9a-f]{32}$'),
    at              bigint NOT NULL
        CONSTRAINT earmark_orphan_at_check CHECK (at BETWEEN 1000000000000000 AND 9999999999999999),
    source          text NOT NULL
        CONSTRAINT earmark_orphan_source_check CHECK (octet_length(source) BETWEEN 1 AND 128),
    tenant          text COLLATE "C"
        CONSTRAINT earmark_orphan_tenant_check CHECK (octet_length(tenant) <= 128),
    consumer        text COLLATE "C"
        CONSTRAINT earmark_orphan_consumer_check CHECK (octet_length(consumer) BETWEEN 1 AND 128),
    message_id      text COLLATE "C"
        CONSTRAINT earmark_orphan_message_id_check CHECK (octet_length(message_id) BETWEEN 1 AND 512),
    reference       text COLLATE "C"
        CONSTRAINT earmark_orphan_reference_check CHECK (octet_length(reference) BETWEEN 1 AND 16),
    idempotency_key text COLLATE "C"
        CONSTRAINT earmark_orphan_idempotency_key_check CHECK (octet_length(idempotency_key) BETWEEN 1 AND 512),
    provider_ref    text COLLATE "C"
        CONSTRAINT earmark_orphan_provider_ref_check CHECK (octet_length(provider_ref) <= 255),
    finding         text NOT NULL
        CONSTRAINT earmark_orphan_finding_check CHECK (octet_length(finding) BETWEEN 1 AND 32),
    detail          text,
    bytes           bytea
        CONSTRAINT earmark_orphan_bytes_check CHECK (octet_length(bytes) <= 16777215),
    bytes_type      text
        CONSTRAINT earmark_orphan_bytes_type_check CHECK (octet_length(bytes_type) <= 128),
    -- When a claim that it fits was found.
    adopted_at      bigint
        CONSTRAINT earmark_orphan_adopted_at_check CHECK (adopted_at BETWEEN 1000000000000000 AND 9999999999999999),

    CONSTRAINT earmark_orphan_pkey PRIMARY KEY (id)
);

-- Heartbeats, so that a sweep that has stopped is seen.
CREATE TABLE earmark_sweeper (
    name            text NOT NULL
        CONSTRAINT earmark_sweeper_name_check CHECK (octet_length(name) BETWEEN 1 AND 128),
    started_at      bigint NOT NULL
        CONSTRAINT earmark_sweeper_started_at_check CHECK (started_at BETWEEN 1000000000000000 AND 9999999999999999),
    last_success_at bigint
        CONSTRAINT earmark_sweeper_last_success_at_check CHECK (
            last_success_at BETWEEN 1000000000000000 AND 9999999999999999),
    passes          bigint NOT NULL
        CONSTRAINT earmark_sweeper_passes_check CHECK (passes >= 0),
    version         text NOT NULL
        CONSTRAINT earmark_sweeper_version_check CHECK (octet_length(version) BETWEEN 1 AND 64),

    CONSTRAINT earmark_sweeper_pkey PRIMARY KEY (name)
);

-- Downstreams that nothing is sent to, by a person's word: one row a pause, kept when it is over. At most one of a
-- downstream is not over: it is inserted with the next number, and only where none is.
CREATE TABLE earmark_pause (
    downstream    text NOT NULL
        CONSTRAINT earmark_pause_downstream_check CHECK (octet_length(downstream) BETWEEN 1 AND 64),
    seq           bigint NOT NULL
        CONSTRAINT earmark_pause_seq_check CHECK (seq >= 1),
    at            bigint NOT NULL
        CONSTRAINT earmark_pause_at_check CHECK (at BETWEEN 1000000000000000 AND 9999999999999999),
    actor         text NOT NULL
        CONSTRAINT earmark_pause_actor_check CHECK (octet_length(actor) BETWEEN 1 AND 128),
    reason        text NOT NULL
        CONSTRAINT earmark_pause_reason_check CHECK (octet_length(reason) BETWEEN 1 AND 4096),
    resumed_at    bigint
        CONSTRAINT earmark_pause_resumed_at_check CHECK (resumed_at BETWEEN 1000000000000000 AND 9999999999999999),
    resumed_by    text
        CONSTRAINT earmark_pause_resumed_by_check CHECK (octet_length(resumed_by) BETWEEN 1 AND 128),
    resume_reason text
        CONSTRAINT earmark_pause_resume_reason_check CHECK (octet_length(resume_reason) BETWEEN 1 AND 4096),

    CONSTRAINT earmark_pause_pkey PRIMARY KEY (downstream, seq),
    -- Over: all three, or none.
    CONSTRAINT earmark_pause_over_check CHECK (
        (resumed_at IS NULL) = (resumed_by IS NULL) AND (resumed_at IS NULL) = (resume_reason IS NULL))
);

-- schema_version: what this script makes. schema_breaking: the oldest code that can read it.
-- namespace: enters every idempotency key, so that a copy of this database does not speak for the original.
CREATE TABLE earmark_meta (
    name       text NOT NULL
        CONSTRAINT earmark_meta_name_check CHECK (octet_length(name) BETWEEN 1 AND 64),
    value      text NOT NULL
        CONSTRAINT earmark_meta_value_check CHECK (octet_length(value) <= 256),
    written_at bigint NOT NULL
        CONSTRAINT earmark_meta_written_at_check CHECK (written_at BETWEEN 1000000000000000 AND 9999999999999999),

    CONSTRAINT earmark_meta_pkey PRIMARY KEY (name)
);

-- A namespace of your own choice: UPDATE this row before the first claim is made, never after.
INSERT INTO earmark_meta (name, value, written_at)
SELECT fact.name, fact.value, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
FROM (VALUES
    ('namespace', replace(gen_random_uuid()::text, '-', '')),
    ('schema_version', '1'),
    ('schema_breaking', '1')
) AS fact (name, value);
