//! PostgreSQL.
//!
//! The clock is `statement_timestamp()`: never `now()`, which is the start of the transaction, nor a volatile clock, which cannot use
//! an index.

use super::Sql;

macro_rules! now {
    () => {
        "(extract(epoch from statement_timestamp()) * 1000000)::bigint"
    };
}

macro_rules! row {
    () => {
        row!("receipt")
    };
    ($receipt:literal) => {
        concat!(
            "SELECT tenant, consumer, message_id, kind, form, downstream, summary, business_ref, amount_minor, currency,
    state, doubt, contradicted, fence, token, revision, due_at, not_before, send_by, created_at, window_from, last_end_at,
    attempts, repeats_granted, ruled_at, looks, closed_at, closed_by, error_class, provider_ref,
    fingerprint, idempotency_key, reference, request_type, credential,
    repeat_safety, key_window, landing_horizon, probe_lag, probe_proof, looks_max, call_timeout, attempts_max, age_max,
    ",
            $receipt,
            ", receipt_type, receipt_len, receipt_digest, traceparent, supersedes, purged_at,
    ",
            now!(),
            " AS now_at
FROM earmark_claim"
        )
    };
}

macro_rules! key {
    () => {
        "tenant = $1 AND consumer = $2 AND message_id = $3"
    };
}

/// The filter of a list of finished claims, which is asked for with and without payload: each by its own index, and merged.
macro_rules! closed {
    () => {
        concat!(
            "state = $1::text
    AND ($2::text IS NULL OR tenant = $3::text) AND ($4::text IS NULL OR consumer = $5::text)
    AND ($6::text IS NULL OR kind = $7::text) AND ($8::text IS NULL OR downstream = $9::text)
    AND ($10::text IS NULL OR error_class = $11::text)
    AND ($12::bigint IS NULL OR created_at <= ",
            now!(),
            " - $13::bigint)"
        )
    };
}

/// The ordinary confirmation of many claims at once, each by its key, its first fence and its token.
macro_rules! confirm {
    ($arrays:literal) => {
        concat!(
            "UPDATE earmark_claim AS c SET
        state = 'confirmed', revision = c.revision + 1,
        last_end_at = clock.at, due_at = NULL, closed_at = clock.at, closed_by = 'answer', error_class = NULL,
        provider_ref = s.provider_ref, receipt = s.receipt, receipt_type = s.receipt_type,
        receipt_len = s.receipt_len, receipt_digest = s.receipt_digest
    FROM unnest(",
            $arrays,
            ") AS s (
        tenant, consumer, message_id, token, provider_ref, receipt, receipt_type, receipt_len, receipt_digest)
    CROSS JOIN clock
    WHERE c.tenant = s.tenant AND c.consumer = s.consumer AND c.message_id = s.message_id
        AND c.state = 'in_flight' AND c.fence = 1 AND c.token = s.token
    RETURNING c.token"
        )
    };
}

pub(crate) const SQL: Sql = Sql {
    claim: concat!(
"INSERT INTO earmark_claim (
    tenant, consumer, message_id, kind, form, downstream, summary, business_ref, amount_minor, currency,
    state, fence, token, attempts, not_before, send_by, due_at, window_from, created_at,
    fingerprint, idempotency_key, reference, request, request_type, credential,
    repeat_safety, key_window, landing_horizon, probe_lag, probe_proof, looks_max, call_timeout, attempts_max, age_max,
    traceparent, supersedes, doubt, contradicted, revision, repeats_granted, looks)
VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
    $11, $12, $13, $14,
    COALESCE($15::bigint, ", now!(), " + $16::bigint),
    COALESCE($17::bigint, ", now!(), " + $18::bigint),
    GREATEST(COALESCE($19::bigint, ", now!(), " + $20::bigint, 0), ", now!(), ") + $21::bigint,
    CASE WHEN $22 THEN ", now!(), " END,
    ", now!(), ",
    $23, $24, $25, $26, $27, $28,
    $29, $30, $31, $32, $33, $34, $35, $36, $37,
    $38, $39, false, false, 1, 0, 0)
ON CONFLICT (tenant, consumer, message_id) DO NOTHING
RETURNING created_at"
),
    claim_batch: concat!(
// One clock for all, read once. The values that the claims of one kind share come once, and each row names the place of its own.
"WITH clock AS MATERIALIZED (SELECT ", now!(), " AS at),
made AS (
    INSERT INTO earmark_claim (
        tenant, consumer, message_id, kind, form, downstream, summary, business_ref, amount_minor, currency,
        state, fence, token, attempts,
        not_before, send_by, due_at, window_from, created_at,
        fingerprint, idempotency_key, reference, request, request_type, credential,
        repeat_safety, key_window, landing_horizon, probe_lag, probe_proof, looks_max, call_timeout, attempts_max, age_max,
        traceparent, supersedes, doubt, contradicted, revision, repeats_granted, looks)
    SELECT r.tenant, r.consumer, r.message_id,
        ($20::text[])[r.shape], ($21::text[])[r.shape], ($22::text[])[r.shape],
        r.summary, r.business_ref, r.amount_minor, r.currency,
        ($23::text[])[r.shape], ($24::int4[])[r.shape], r.token, ($24::int4[])[r.shape],
        COALESCE(r.not_before_at, clock.at + r.not_before_in),
        COALESCE(r.send_by_at, clock.at + r.send_by_in),
        GREATEST(COALESCE(r.not_before_at, clock.at + r.not_before_in, 0), clock.at) + ($25::int8[])[r.shape],
        CASE ($24::int4[])[r.shape] WHEN 1 THEN clock.at END,
        clock.at,
        r.fingerprint, r.idempotency_key, r.reference, r.request,
        ($26::text[])[r.shape], ($27::text[])[r.shape],
        ($28::text[])[r.shape], ($29::int8[])[r.shape], ($30::int8[])[r.shape], ($31::int8[])[r.shape],
        ($32::bool[])[r.shape], ($33::int4[])[r.shape], ($34::int8[])[r.shape], ($35::int4[])[r.shape], ($36::int8[])[r.shape],
        r.traceparent, r.supersedes, false, false, 1, 0, 0
    FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::text[], $8::bytea[],
        $9::int8[], $10::int8[], $11::int8[], $12::int8[],
        $13::bytea[], $14::text[], $15::text[], $16::bytea[], $17::text[], $18::text[], $19::int4[]
    ) AS r (
        tenant, consumer, message_id, summary, business_ref, amount_minor, currency, token,
        not_before_at, not_before_in, send_by_at, send_by_in,
        fingerprint, idempotency_key, reference, request, traceparent, supersedes, shape)
    CROSS JOIN clock
    ON CONFLICT (tenant, consumer, message_id) DO NOTHING
    RETURNING token, created_at),
done AS (
    ", confirm!("$37::text[], $38::text[], $39::text[], $40::bytea[], $41::text[], $42::bytea[], $43::text[], $44::int8[], $45::bytea[]"), ")
SELECT m.claims, m.at, m.tokens, d.confirms, d.tokens
FROM (SELECT count(*) AS claims, min(created_at) AS at, array_agg(token) AS tokens FROM made) AS m
CROSS JOIN (SELECT count(*) AS confirms, array_agg(token) AS tokens FROM done) AS d"
),
    confirm_batch: concat!(
"WITH clock AS MATERIALIZED (SELECT ", now!(), " AS at),
done AS (
    ", confirm!("$1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::bytea[], $7::text[], $8::int8[], $9::bytea[]"), ")
SELECT 0::int8 AS claims, NULL::int8 AS at, NULL::bytea[] AS tokens, count(*) AS confirms, array_agg(token) AS tokens FROM done"
),
    apply: concat!(
"UPDATE earmark_claim SET
    state = $1, doubt = $2, contradicted = $3, fence = $4, token = $5, revision = revision + $6,
    last_end_at = CASE $7 WHEN 1 THEN ", now!(), " WHEN 2 THEN due_at ELSE last_end_at END,
    window_from = CASE $8 WHEN 1 THEN NULL WHEN 2 THEN COALESCE(window_from, ", now!(), ") ELSE window_from END,
    due_at = CASE $9 WHEN 1 THEN NULL WHEN 2 THEN ", now!(), " + $10::bigint ELSE due_at END,
    attempts = $11, repeats_granted = $12, looks = $13,
    ruled_at = CASE WHEN $14 THEN ", now!(), " ELSE ruled_at END,
    closed_at = CASE $15 WHEN 1 THEN NULL WHEN 2 THEN ", now!(), " ELSE closed_at END,
    closed_by = CASE $16 WHEN 0 THEN closed_by ELSE $17 END,
    error_class = $18, provider_ref = $19, landing_horizon = COALESCE($20::bigint, landing_horizon),
    receipt = CASE WHEN $21 THEN $22 ELSE receipt END,
    receipt_type = CASE WHEN $23 THEN $24 ELSE receipt_type END,
    receipt_len = CASE WHEN $25 THEN $26::bigint ELSE receipt_len END,
    receipt_digest = CASE WHEN $27 THEN $28 ELSE receipt_digest END
WHERE tenant = $29 AND consumer = $30 AND message_id = $31
    AND state = $32 AND fence = $33 AND token = $34
    AND revision = COALESCE($35::bigint, revision)
    AND ($36 OR due_at <= ", now!(), ")
    AND ", now!(), " < $37::bigint"
),
    event: concat!(
"INSERT INTO earmark_event (
    fence, name, actor, from_state, to_state, provider_ref, detail, bytes, bytes_type,
    tenant, consumer, message_id, seq, at, revision)
SELECT $1::bigint, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::bytea, $9::text,
    c.tenant, c.consumer, c.message_id,
    (SELECT COALESCE(MAX(e.seq), 0) + 1 FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id),
    ", now!(), ", c.revision
FROM earmark_claim c
WHERE c.tenant = $10 AND c.consumer = $11 AND c.message_id = $12
ON CONFLICT (tenant, consumer, message_id, seq) DO NOTHING"
),
    keep_receipt: concat!(
"INSERT INTO earmark_event (
    name, from_state, to_state, tenant, consumer, message_id, seq, at, fence, revision, provider_ref, detail, bytes, bytes_type)
SELECT $1, c.state, c.state, c.tenant, c.consumer, c.message_id,
    (SELECT COALESCE(MAX(e.seq), 0) + 1 FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id),
    ", now!(), ", c.fence, c.revision, c.provider_ref, $2, c.receipt, c.receipt_type
FROM earmark_claim c
WHERE c.tenant = $3 AND c.consumer = $4 AND c.message_id = $5"
),
    row: concat!(row!(), " WHERE ", key!()),
    // OFFSET 0: each key is looked up by itself, whatever the planner thinks of a table that it has no statistics of yet.
    rows: concat!("SELECT c.* FROM unnest($1::text[], $2::text[], $3::text[]) AS k (tenant, consumer, message_id)
CROSS JOIN LATERAL (", row!(), " WHERE tenant = k.tenant AND consumer = k.consumer AND message_id = k.message_id OFFSET 0) AS c"),
    lock: concat!(row!(), " WHERE ", key!(), " FOR UPDATE"),
    lock_or_skip: concat!(row!(), " WHERE ", key!(), " FOR UPDATE SKIP LOCKED"),
    row_in_caller: concat!(row!(), " WHERE ", key!(), ""),
    held: concat!("SELECT 1 FROM earmark_claim WHERE ", key!(), " FOR UPDATE NOWAIT"),
    request: concat!("SELECT request FROM earmark_claim WHERE ", key!()),
    extend: concat!(
"UPDATE earmark_claim SET due_at = GREATEST(due_at, ", now!(), " + $1::bigint)
WHERE tenant = $2 AND consumer = $3 AND message_id = $4
    AND state = 'in_flight' AND fence = $5 AND token = $6"
),
    by_reference: concat!(row!(), " WHERE reference = $1 ORDER BY tenant, consumer, message_id"),
    by_provider_ref: concat!(row!(), " WHERE provider_ref = $1 ORDER BY tenant, consumer, message_id"),
    history: "SELECT seq, at, fence, revision, name, actor, from_state, to_state, provider_ref, detail, bytes, bytes_type
FROM earmark_event
WHERE tenant = $1 AND consumer = $2 AND message_id = $3
ORDER BY seq",
    fact_known: "SELECT 1 AS known FROM earmark_event
WHERE tenant = $1 AND consumer = $2 AND message_id = $3 AND actor = $4 AND detail = $5
LIMIT 1",
    orphan: concat!(
"INSERT INTO earmark_orphan (
    id, source, tenant, consumer, message_id, reference, idempotency_key, finding, detail, bytes, bytes_type, provider_ref, at)
SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::bytea, $11::text, $12::text, ", now!(), "
WHERE NOT EXISTS (SELECT 1 FROM earmark_orphan o
    WHERE o.source = $13::text AND o.detail = $14::text AND o.message_id IS NOT DISTINCT FROM $15::text
        AND o.reference IS NOT DISTINCT FROM $16::text AND o.idempotency_key IS NOT DISTINCT FROM $17::text AND o.provider_ref IS NOT DISTINCT FROM $18::text)"
),
    open_after: concat!(
        row!("NULL AS receipt"),
        "
WHERE due_at IS NOT NULL AND tenant >= $1 AND (tenant, consumer) > ($2, $3)
ORDER BY tenant, consumer, due_at
LIMIT $4"
    ),
    due_of_pair: concat!(
        row!("NULL AS receipt"),
        "
WHERE tenant = $1 AND consumer = $2 AND due_at <= ", now!(), "
    AND NOT (state = 'held' AND (send_by IS NULL OR send_by > ", now!(), ") AND EXISTS (SELECT 1 FROM earmark_pause p
        WHERE p.downstream = earmark_claim.downstream AND p.resumed_at IS NULL))
ORDER BY due_at
LIMIT $3"
    ),
    list_open: concat!(
        row!("NULL AS receipt"),
        "
WHERE (due_at IS NOT NULL OR state = 'escalated')
    AND ($1::text IS NULL OR state = $2::text)
    AND ($3::text IS NULL OR tenant = $4::text) AND ($5::text IS NULL OR consumer = $6::text)
    AND ($7::text IS NULL OR kind = $8::text) AND ($9::text IS NULL OR downstream = $10::text)
    AND ($11::text IS NULL OR error_class = $12::text)
    AND ($13::bigint IS NULL OR created_at <= ", now!(), " - $14::bigint)
ORDER BY LEAST(
    CASE WHEN key_window > 4000000000000000 THEN 9223372036854775807
        WHEN window_from + key_window > ", now!(), " THEN window_from + key_window ELSE 9223372036854775807 END,
    CASE WHEN send_by > ", now!(), " THEN send_by ELSE 9223372036854775807 END),
    created_at, tenant, consumer, message_id
LIMIT $15::bigint"
    ),
    list_closed: concat!(
        "(",
        row!("NULL AS receipt"),
        "
WHERE closed_at IS NOT NULL AND purged_at IS NULL AND ",
        closed!(),
        "
ORDER BY closed_at DESC LIMIT $14::bigint)
UNION ALL
(",
        row!("NULL AS receipt"),
        "
WHERE closed_at IS NOT NULL AND purged_at IS NOT NULL AND ",
        closed!(),
        "
ORDER BY closed_at DESC LIMIT $14::bigint)
ORDER BY closed_at DESC
LIMIT $14::bigint"
    ),
    open_tallies: concat!(
"SELECT consumer, kind, downstream, state, currency, COUNT(*) AS claims, MIN(COALESCE(window_from, created_at)) AS oldest,
    SUM(amount_minor::float8) AS minor, ", now!(), " AS now_at
FROM earmark_claim
WHERE (due_at IS NOT NULL OR state = 'escalated')
GROUP BY consumer, kind, downstream, state, currency"
    ),
    report_claims: concat!(
        row!("NULL AS receipt"),
        "
WHERE due_at IS NOT NULL OR state = 'escalated'
    OR (closed_at >= $1 AND purged_at IS NULL) OR (closed_at >= $2 AND purged_at IS NOT NULL)"
    ),
    report_events: "SELECT e.tenant, e.consumer, e.message_id, e.seq, e.at, e.fence, e.revision, e.name, e.actor,
    e.from_state, e.to_state, e.provider_ref, e.detail, NULL AS bytes, NULL AS bytes_type
FROM earmark_event e
WHERE e.at >= $1
UNION ALL
SELECT e.tenant, e.consumer, e.message_id, e.seq, e.at, e.fence, e.revision, e.name, e.actor,
    e.from_state, e.to_state, e.provider_ref, e.detail, NULL AS bytes, NULL AS bytes_type
FROM earmark_claim c
CROSS JOIN LATERAL (SELECT * FROM earmark_event e
    WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id
        AND e.name = 'mismatch' AND e.at < $2
    OFFSET 0) e
WHERE c.due_at IS NOT NULL OR c.state = 'escalated'",
    report_orphans: "SELECT id, at, source, tenant, consumer, message_id, reference, idempotency_key, provider_ref, finding, adopted_at
FROM earmark_orphan
WHERE at >= $1
ORDER BY at, id",
    sweepers: "SELECT name, started_at, last_success_at, passes, version FROM earmark_sweeper ORDER BY name",
    heartbeat: concat!(
        "INSERT INTO earmark_sweeper (name, version, passes, started_at, last_success_at)
VALUES ($1, $2, $3::bigint, ", now!(), ", ", now!(), ")
ON CONFLICT (name) DO UPDATE SET version = excluded.version, passes = excluded.passes,
    last_success_at = excluded.last_success_at"
    ),
    purge_pick: concat!(
"SELECT tenant, consumer, message_id, closed_at FROM earmark_claim
WHERE closed_at >= $1 AND closed_at <= ", now!(), " - $2::bigint AND purged_at IS NULL AND ", settled!(), "
ORDER BY closed_at
LIMIT $3
FOR UPDATE SKIP LOCKED"
    ),
    purge_events: "DELETE FROM earmark_event e
USING (SELECT k->>0 AS tenant, k->>1 AS consumer, k->>2 AS message_id FROM json_array_elements($1::json) AS k) AS picked
WHERE e.tenant = picked.tenant AND e.consumer = picked.consumer AND e.message_id = picked.message_id",
    purge_rows: concat!(
"UPDATE earmark_claim c SET purged_at = ", now!(), ", request = NULL, receipt = NULL, summary = NULL, traceparent = NULL
FROM (SELECT k->>0 AS tenant, k->>1 AS consumer, k->>2 AS message_id FROM json_array_elements($1::json) AS k) AS picked
WHERE c.tenant = picked.tenant AND c.consumer = picked.consumer AND c.message_id = picked.message_id"
    ),
    tombstone_pick: concat!(
"SELECT tenant, consumer, message_id, closed_at FROM earmark_claim
WHERE closed_at >= $1 AND closed_at <= ", now!(), " - $2::bigint AND purged_at IS NOT NULL AND ", settled!(), "
    AND (key_window IS NULL OR window_from IS NULL OR window_from < ", now!(), " - key_window)
ORDER BY closed_at
LIMIT $3
FOR UPDATE SKIP LOCKED"
    ),
    tombstone_rows: "DELETE FROM earmark_claim c
USING (SELECT k->>0 AS tenant, k->>1 AS consumer, k->>2 AS message_id FROM json_array_elements($1::json) AS k) AS picked
WHERE c.tenant = picked.tenant AND c.consumer = picked.consumer AND c.message_id = picked.message_id",
    purge_plan: concat!(
"SELECT tenant, consumer, state, COUNT(*) AS claims, COALESCE(SUM(bytes), 0)::bigint AS bytes, COALESCE(SUM(events), 0)::bigint AS events, COALESCE(SUM(event_bytes), 0)::bigint AS event_bytes
FROM (SELECT c.tenant, c.consumer, c.state, COALESCE(octet_length(c.request), 0) + COALESCE(octet_length(c.receipt), 0) AS bytes,
    (SELECT COUNT(*) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS events,
    (SELECT SUM(COALESCE(octet_length(e.detail), 0) + COALESCE(octet_length(e.bytes), 0)) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS event_bytes
    FROM earmark_claim c
    WHERE closed_at <= ", now!(), " - $1::bigint AND purged_at IS NULL AND ", settled!(), ") AS old
GROUP BY tenant, consumer, state
ORDER BY tenant, consumer, state"
    ),
    tombstone_plan: concat!(
"SELECT tenant, consumer, state, COUNT(*) AS claims, COALESCE(SUM(bytes), 0)::bigint AS bytes, COALESCE(SUM(events), 0)::bigint AS events, COALESCE(SUM(event_bytes), 0)::bigint AS event_bytes
FROM (SELECT c.tenant, c.consumer, c.state, COALESCE(octet_length(c.request), 0) + COALESCE(octet_length(c.receipt), 0) AS bytes,
    (SELECT COUNT(*) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS events,
    (SELECT SUM(COALESCE(octet_length(e.detail), 0) + COALESCE(octet_length(e.bytes), 0)) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS event_bytes
    FROM earmark_claim c
    WHERE closed_at <= ", now!(), " - $1::bigint AND purged_at IS NOT NULL AND ", settled!(), "
    AND (key_window IS NULL OR window_from IS NULL OR window_from < ", now!(), " - key_window)) AS old
GROUP BY tenant, consumer, state
ORDER BY tenant, consumer, state"
    ),
    purge_kept: concat!(
"SELECT COUNT(*) AS claims FROM earmark_claim
WHERE closed_at <= ", now!(), " - $1::bigint AND purged_at IS NULL AND NOT (", settled!(), ")"
    ),
    forget_sweepers: concat!(
"DELETE FROM earmark_sweeper WHERE COALESCE(last_success_at, started_at) < ", now!(), " - $1::bigint"
    ),
    pauses: "SELECT downstream, seq, at, actor, reason, resumed_at, resumed_by, resume_reason
FROM earmark_pause
WHERE resumed_at IS NULL OR at >= $1 OR resumed_at >= $2
ORDER BY downstream, seq",
    pause: concat!(
"INSERT INTO earmark_pause (downstream, seq, at, actor, reason)
SELECT $1::text, COALESCE(MAX(p.seq), 0) + 1, ", now!(), ", $2::text, $3::text
FROM earmark_pause p
WHERE p.downstream = $4
HAVING COUNT(*) = COUNT(p.resumed_at)
ON CONFLICT (downstream, seq) DO NOTHING"
),
    resume: concat!(
"UPDATE earmark_pause SET resumed_at = ", now!(), ", resumed_by = $1, resume_reason = $2
WHERE downstream = $3 AND resumed_at IS NULL"
),
    newest_pause: "SELECT downstream, seq, at, actor, reason, resumed_at, resumed_by, resume_reason
FROM earmark_pause
WHERE downstream = $1
ORDER BY seq DESC
LIMIT 1",
    now: concat!("SELECT ", now!(), " AS now_at"),
    meta: "SELECT name, value FROM earmark_meta",
};
