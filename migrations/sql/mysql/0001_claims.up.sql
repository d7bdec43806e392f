-- Earmark 0001: the tables of the claims, for MySQL 8.0.16 and later and MariaDB 10.6 and later.
-- (Before 8.0.16 MySQL reads CHECKs and ignores them: Earmark refuses to start there.)
--
-- By hand:
--     mysql --default-character-set=utf8mb4 <database> < 0001_claims.up.sql
-- MySQL commits at each CREATE TABLE, so this script can stop half-way. It may be run again: tables that are there
-- are left alone, and the version is written by the last statement, when all of them are.
--
-- Rules that hold for every column:
--   * times are microseconds since 1970 by the database's clock; each CHECK refuses anything outside 2001..2286,
--     so that seconds or milliseconds typed by hand do not pass for times;
--   * durations are microseconds; a null duration means "not declared";
--   * keys and ids are VARBINARY: utf8mb4_bin takes 'x' and 'x ' for one, which would lose a message;
--   * every text names its character set: a server's default may be latin1, and blind to case;
--   * the width of a binary or ASCII column is its type (bytes); a utf8mb4 type counts characters, so a CHECK counts
--     its bytes. A server with an empty sql_mode cuts what is too wide without a word: Earmark measures before;
--   * closed sets are words, so that a query typed by hand reads well. `NOT LIKE '% '` is there because 'held ' is
--     equal to 'held' in every collation that pads.
-- Every CHECK is named: the name is what a person sees when a row is refused.

CREATE TABLE IF NOT EXISTS earmark_claim (
    -- InnoDB stores rows in the order of the primary key: a short one that grows keeps the indexes small.
    id              BIGINT NOT NULL AUTO_INCREMENT,

    -- The key: one effect for each.
    tenant          VARBINARY(128) NOT NULL,
    consumer        VARBINARY(128) NOT NULL,
    message_id      VARBINARY(512) NOT NULL,

    -- What it is about: for people, metrics and policy.
    kind            VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    form            VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    downstream      VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    summary         VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    business_ref    VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    amount_minor    BIGINT NULL,
    currency        VARCHAR(3) CHARACTER SET ascii COLLATE ascii_bin NULL,

    -- Where it stands.
    state           VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    doubt           TINYINT NOT NULL,
    contradicted    TINYINT NOT NULL,
    fence           BIGINT NOT NULL,
    token           VARBINARY(16) NOT NULL,
    revision        BIGINT NOT NULL,
    due_at          BIGINT NULL,
    not_before      BIGINT NULL,
    send_by         BIGINT NULL,
    created_at      BIGINT NOT NULL,
    window_from     BIGINT NULL,
    last_end_at     BIGINT NULL,
    attempts        INT NOT NULL,
    repeats_granted INT NOT NULL,
    ruled_at        BIGINT NULL,
    looks           INT NOT NULL,
    closed_at       BIGINT NULL,
    closed_by       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
    error_class     VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    provider_ref    VARBINARY(255) NULL,

    -- What was asked for: frozen at the claim, the same at every attempt.
    fingerprint     VARBINARY(32) NOT NULL,
    idempotency_key VARBINARY(512) NOT NULL,
    reference       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    request         MEDIUMBLOB NULL,
    request_type    VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    credential      VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,

    -- What the effect declared: frozen too.
    repeat_safety   VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    key_window      BIGINT NULL,
    landing_horizon BIGINT NULL,
    probe_lag       BIGINT NULL,
    probe_proof     TINYINT NOT NULL,
    looks_max       INT NOT NULL,
    call_timeout    BIGINT NOT NULL,
    attempts_max    INT NOT NULL,
    age_max         BIGINT NOT NULL,

    -- What was answered. The length and digest are of what was received, so that a cut receipt shows.
    receipt         MEDIUMBLOB NULL,
    receipt_type    VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    receipt_len     BIGINT NULL,
    receipt_digest  VARBINARY(32) NULL,

    traceparent     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
    supersedes      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NULL,
    purged_at       BIGINT NULL,

    -- No partial index here: tenant and consumer of what the sweep may come for, null in all else, so that finished claims
    -- stand together at the index's end and no walk over it meets them. Stored, since a purge of old row versions that has to
    -- compute an indexed column is where both servers have had their faults.
    due_tenant      VARBINARY(128) AS (CASE WHEN due_at IS NOT NULL THEN tenant END) STORED,
    due_consumer    VARBINARY(128) AS (CASE WHEN due_at IS NOT NULL THEN consumer END) STORED,

    PRIMARY KEY (id),
    UNIQUE KEY earmark_claim_key (tenant, consumer, message_id),
    -- A person or a statement has the short handle or the provider's id, not the key.
    KEY earmark_claim_reference (reference),
    KEY earmark_claim_provider_ref (provider_ref),
    -- The sweep walks this pair by pair.
    KEY earmark_claim_due (due_tenant, due_consumer, due_at),
    -- What is old enough to be purged, oldest first: purged_at leads, so that no tombstone is read on the way. Then tombstones
    -- by their own age, what was closed of late, and, as null, what is open.
    KEY earmark_claim_closed (purged_at, closed_at),
    KEY earmark_claim_tombstone (closed_at),

    -- Each column by itself.
    CONSTRAINT earmark_claim_consumer_check CHECK (OCTET_LENGTH(consumer) >= 1),
    CONSTRAINT earmark_claim_message_id_check CHECK (OCTET_LENGTH(message_id) >= 1),
    CONSTRAINT earmark_claim_kind_check CHECK (OCTET_LENGTH(kind) BETWEEN 1 AND 128),
    CONSTRAINT earmark_claim_form_check CHECK (OCTET_LENGTH(form) >= 1),
    CONSTRAINT earmark_claim_downstream_check CHECK (OCTET_LENGTH(downstream) BETWEEN 1 AND 64),
    CONSTRAINT earmark_claim_summary_check CHECK (OCTET_LENGTH(summary) <= 256),
    CONSTRAINT earmark_claim_business_ref_check CHECK (OCTET_LENGTH(business_ref) <= 128),
    CONSTRAINT earmark_claim_currency_check CHECK (OCTET_LENGTH(currency) = 3),
    CONSTRAINT earmark_claim_state_check CHECK (
        state IN ('held', 'in_flight', 'retryable', 'in_doubt', 'escalated', 'confirmed', 'abandoned')
        AND state NOT LIKE '% '),
    CONSTRAINT earmark_claim_doubt_check CHECK (doubt IN (0, 1)),
    CONSTRAINT earmark_claim_contradicted_check CHECK (contradicted IN (0, 1)),
    CONSTRAINT earmark_claim_fence_check CHECK (fence >= 0),
    -- VARBINARY and a CHECK: BINARY would fill a short value up with zeros.
    CONSTRAINT earmark_claim_token_check CHECK (OCTET_LENGTH(token) = 16),
    CONSTRAINT earmark_claim_fingerprint_check CHECK (OCTET_LENGTH(fingerprint) = 32),
    CONSTRAINT earmark_claim_receipt_digest_check CHECK (OCTET_LENGTH(receipt_digest) = 32),
    CONSTRAINT earmark_claim_revision_check CHECK (revision >= 1),
    CONSTRAINT earmark_claim_due_at_check CHECK (due_at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_claim_not_before_check CHECK (not_before BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_claim_send_by_check CHECK (send_by BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_claim_created_at_check CHECK (created_at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_claim_window_from_check CHECK (window_from BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_claim_last_end_at_check CHECK (last_end_at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_claim_attempts_check CHECK (attempts >= 0),
    CONSTRAINT earmark_claim_repeats_granted_check CHECK (repeats_granted >= 0),
    CONSTRAINT earmark_claim_ruled_at_check CHECK (ruled_at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_claim_looks_check CHECK (looks >= 0),
    CONSTRAINT earmark_claim_closed_at_check CHECK (closed_at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_claim_closed_by_check CHECK (
        closed_by IN ('answer', 'probe', 'evidence', 'ruling', 'refused', 'cancelled', 'expired')
        AND closed_by NOT LIKE '% '),
    CONSTRAINT earmark_claim_error_class_check CHECK (OCTET_LENGTH(error_class) <= 128),
    CONSTRAINT earmark_claim_idempotency_key_check CHECK (OCTET_LENGTH(idempotency_key) >= 1),
    CONSTRAINT earmark_claim_reference_check CHECK (OCTET_LENGTH(reference) >= 1),
    CONSTRAINT earmark_claim_request_type_check CHECK (OCTET_LENGTH(request_type) <= 128),
    CONSTRAINT earmark_claim_credential_check CHECK (OCTET_LENGTH(credential) <= 128),
    CONSTRAINT earmark_claim_repeat_safety_check CHECK (
        repeat_safety IN ('keyed', 'natural', 'never') AND repeat_safety NOT LIKE '% '),
    CONSTRAINT earmark_claim_key_window_check CHECK (key_window > 0),
    CONSTRAINT earmark_claim_landing_horizon_check CHECK (landing_horizon >= 0),
    CONSTRAINT earmark_claim_probe_lag_check CHECK (probe_lag >= 0),
    CONSTRAINT earmark_claim_probe_proof_check CHECK (probe_proof IN (0, 1)),
    CONSTRAINT earmark_claim_looks_max_check CHECK (looks_max >= 0),
    CONSTRAINT earmark_claim_call_timeout_check CHECK (call_timeout > 0),
    CONSTRAINT earmark_claim_attempts_max_check CHECK (attempts_max > 0),
    CONSTRAINT earmark_claim_age_max_check CHECK (age_max > 0),
    CONSTRAINT earmark_claim_receipt_type_check CHECK (OCTET_LENGTH(receipt_type) <= 128),
    CONSTRAINT earmark_claim_receipt_len_check CHECK (receipt_len >= 0),
    CONSTRAINT earmark_claim_supersedes_check CHECK (OCTET_LENGTH(supersedes) >= 1),
    CONSTRAINT earmark_claim_purged_at_check CHECK (purged_at BETWEEN 1000000000000000 AND 9999999999999999),

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
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The history, appended in the transaction of the move that it tells of, never edited.
CREATE TABLE IF NOT EXISTS earmark_event (
    tenant       VARBINARY(128) NOT NULL,
    consumer     VARBINARY(128) NOT NULL,
    message_id   VARBINARY(512) NOT NULL,
    seq          BIGINT NOT NULL,
    at           BIGINT NOT NULL,
    fence        BIGINT NOT NULL,
    revision     BIGINT NOT NULL,
    name         VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Who did it; null for the machine.
    actor        VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    -- Equal where nothing moved.
    from_state   VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    to_state     VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    provider_ref VARBINARY(255) NULL,
    -- JSON, as text: only Earmark reads it.
    detail       MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    bytes        MEDIUMBLOB NULL,
    bytes_type   VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,

    PRIMARY KEY (tenant, consumer, message_id, seq),
    -- A report is about what happened since.
    KEY earmark_event_at (at),
    CONSTRAINT earmark_event_consumer_check CHECK (OCTET_LENGTH(consumer) >= 1),
    CONSTRAINT earmark_event_message_id_check CHECK (OCTET_LENGTH(message_id) >= 1),
    CONSTRAINT earmark_event_seq_check CHECK (seq >= 1),
    CONSTRAINT earmark_event_at_check CHECK (at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_event_fence_check CHECK (fence >= 0),
    CONSTRAINT earmark_event_revision_check CHECK (revision >= 1),
    CONSTRAINT earmark_event_name_check CHECK (OCTET_LENGTH(name) >= 1),
    CONSTRAINT earmark_event_actor_check CHECK (OCTET_LENGTH(actor) <= 128),
    CONSTRAINT earmark_event_from_state_check CHECK (
        from_state IN ('held', 'in_flight', 'retryable', 'in_doubt', 'escalated', 'confirmed', 'abandoned')
        AND from_state NOT LIKE '% '),
    CONSTRAINT earmark_event_to_state_check CHECK (
        to_state IN ('held', 'in_flight', 'retryable', 'in_doubt', 'escalated', 'confirmed', 'abandoned')
        AND to_state NOT LIKE '% '),
    CONSTRAINT earmark_event_bytes_type_check CHECK (OCTET_LENGTH(bytes_type) <= 128)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Evidence of which no claim is known: kept, since evidence is never refused.
CREATE TABLE IF NOT EXISTS earmark_orphan (
    id              VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    at              BIGINT NOT NULL,
    source          VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    tenant          VARBINARY(128) NULL,
    consumer        VARBINARY(128) NULL,
    message_id      VARBINARY(512) NULL,
    reference       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NULL,
    idempotency_key VARBINARY(512) NULL,
    provider_ref    VARBINARY(255) NULL,
    finding         VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    detail          MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    bytes           MEDIUMBLOB NULL,
    bytes_type      VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    -- When a claim that it fits was found.
    adopted_at      BIGINT NULL,

    PRIMARY KEY (id),
    CONSTRAINT earmark_orphan_id_check CHECK (id REGEXP '^[0-9a-f]{32}$'),
    CONSTRAINT earmark_orphan_at_check CHECK (at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_orphan_source_check CHECK (OCTET_LENGTH(source) BETWEEN 1 AND 128),
    CONSTRAINT earmark_orphan_consumer_check CHECK (OCTET_LENGTH(consumer) >= 1),
    CONSTRAINT earmark_orphan_message_id_check CHECK (OCTET_LENGTH(message_id) >= 1),
    CONSTRAINT earmark_orphan_reference_check CHECK (OCTET_LENGTH(reference) >= 1),
    CONSTRAINT earmark_orphan_idempotency_key_check CHECK (OCTET_LENGTH(idempotency_key) >= 1),
    CONSTRAINT earmark_orphan_finding_check CHECK (OCTET_LENGTH(finding) >= 1),
    CONSTRAINT earmark_orphan_bytes_type_check CHECK (OCTET_LENGTH(bytes_type) <= 128),
    CONSTRAINT earmark_orphan_adopted_at_check CHECK (adopted_at BETWEEN 1000000000000000 AND 9999999999999999)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Heartbeats, so that a sweep that has stopped is seen.
CREATE TABLE IF NOT EXISTS earmark_sweeper (
    name            VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    started_at      BIGINT NOT NULL,
    last_success_at BIGINT NULL,
    passes          BIGINT NOT NULL,
    version         VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,

    PRIMARY KEY (name),
    CONSTRAINT earmark_sweeper_name_check CHECK (OCTET_LENGTH(name) BETWEEN 1 AND 128),
    CONSTRAINT earmark_sweeper_started_at_check CHECK (started_at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_sweeper_last_success_at_check CHECK (
        last_success_at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_sweeper_passes_check CHECK (passes >= 0),
    CONSTRAINT earmark_sweeper_version_check CHECK (OCTET_LENGTH(version) BETWEEN 1 AND 64)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Downstreams that nothing is sent to, by a person's word: one row a pause, kept when it is over. At most one of a
-- downstream is not over: it is inserted with the next number, and only where none is.
CREATE TABLE IF NOT EXISTS earmark_pause (
    downstream    VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    seq           BIGINT NOT NULL,
    at            BIGINT NOT NULL,
    actor         VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    reason        VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    resumed_at    BIGINT NULL,
    resumed_by    VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    resume_reason VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,

    PRIMARY KEY (downstream, seq),
    CONSTRAINT earmark_pause_downstream_check CHECK (OCTET_LENGTH(downstream) BETWEEN 1 AND 64),
    CONSTRAINT earmark_pause_seq_check CHECK (seq >= 1),
    CONSTRAINT earmark_pause_at_check CHECK (at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_pause_actor_check CHECK (OCTET_LENGTH(actor) BETWEEN 1 AND 128),
    CONSTRAINT earmark_pause_reason_check CHECK (OCTET_LENGTH(reason) BETWEEN 1 AND 4096),
    CONSTRAINT earmark_pause_resumed_at_check CHECK (resumed_at BETWEEN 1000000000000000 AND 9999999999999999),
    CONSTRAINT earmark_pause_resumed_by_check CHECK (OCTET_LENGTH(resumed_by) BETWEEN 1 AND 128),
    CONSTRAINT earmark_pause_resume_reason_check CHECK (OCTET_LENGTH(resume_reason) BETWEEN 1 AND 4096),
    -- Over: all three, or none.
    CONSTRAINT earmark_pause_over_check CHECK (
        (resumed_at IS NULL) = (resumed_by IS NULL) AND (resumed_at IS NULL) = (resume_reason IS NULL))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- schema_version: what this script makes. schema_breaking: the oldest code that can read it.
-- namespace: enters every idempotency key, so that a copy of this database does not speak for the original.
CREATE TABLE IF NOT EXISTS earmark_meta (
    name       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    value      VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    written_at BIGINT NOT NULL,

    PRIMARY KEY (name),
    CONSTRAINT earmark_meta_name_check CHECK (OCTET_LENGTH(name) >= 1),
    CONSTRAINT earmark_meta_value_check CHECK (OCTET_LENGTH(value) <= 256),
    CONSTRAINT earmark_meta_written_at_check CHECK (written_at BETWEEN 1000000000000000 AND 9999999999999999)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One statement, so that a namespace never stands without a version or the other way round.
-- A namespace of your own choice: SET @earmark_namespace = '...' before this script, in the same session; afterwards
-- it must not change, since every idempotency key is made from it.
INSERT INTO earmark_meta (name, value, written_at)
SELECT fact.name, fact.value, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))
FROM (
    SELECT 'namespace' AS name,
           COALESCE(@earmark_namespace,
                    LEFT(SHA2(CONCAT(UUID(), RAND(), CONNECTION_ID(), UTC_TIMESTAMP(6)), 256), 32)) AS value
    UNION ALL SELECT 'schema_version', '1'
    UNION ALL SELECT 'schema_breaking', '1'
) AS fact
-- As bytes, so that the client's character set is no matter.
WHERE NOT EXISTS (
    SELECT 1 FROM earmark_meta AS present WHERE CAST(present.name AS BINARY) = CAST(fact.name AS BINARY)
);
