//! SQLite.
//!
//! The clock is `unixepoch('subsec')`: milliseconds, fixed for the length of a statement.
//!
//! A comparison of rows uses an index beyond its first column only where the right side has no affinity
//! (`CAST(…) || ''`, not `CAST(…)`), and where no other condition asks for that index (`+tenant` does not).
//!
//! An index serves one arm of a union, and seldom an OR: what is open is what is due some day and what is escalated.
//!
//! There are no row locks: whoever writes began with `BEGIN IMMEDIATE` and is alone, so `LOCK` is a read.

use super::Sql;

macro_rules! now {
    () => {
        "CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000"
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
        "tenant = ?1 AND consumer = ?2 AND message_id = ?3"
    };
}

/// The filter of a list of finished claims, which is asked for with and without payload: each by its own index, and merged.
macro_rules! closed {
    () => {
        concat!(
            "state = ?1
    AND (?2 IS NULL OR tenant = ?3) AND (?4 IS NULL OR consumer = ?5)
    AND (?6 IS NULL OR kind = ?7) AND (?8 IS NULL OR downstream = ?9)
    AND (?10 IS NULL OR error_class = ?11)
    AND (?12 IS NULL OR created_at <= ",
            now!(),
            " - ?13)"
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
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
    ?11, ?12, ?13, ?14,
    COALESCE(?15, ", now!(), " + ?16),
    COALESCE(?17, ", now!(), " + ?18),
    MAX(COALESCE(?19, ", now!(), " + ?20, 0), ", now!(), ") + ?21,
    CASE WHEN ?22 THEN ", now!(), " END,
    ", now!(), ",
    ?23, ?24, ?25, ?26, ?27, ?28,
    ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37,
    ?38, ?39, FALSE, FALSE, 1, 0, 0)
ON CONFLICT (tenant, consumer, message_id) DO NOTHING
RETURNING created_at"
),
    claim_batch: concat!(
"INSERT INTO earmark_claim (
    tenant, consumer, message_id, kind, form, downstream, summary, business_ref, amount_minor, currency,
    state, fence, token, attempts, not_before, send_by, due_at, window_from, created_at,
    fingerprint, idempotency_key, reference, request, request_type, credential,
    repeat_safety, key_window, landing_horizon, probe_lag, probe_proof, looks_max, call_timeout, attempts_max, age_max,
    traceparent, supersedes, doubt, contradicted, revision, repeats_granted, looks)
SELECT
    r.value ->> 0, r.value ->> 1, r.value ->> 2, s.value ->> 1, s.value ->> 2, s.value ->> 3, r.value ->> 3, r.value ->> 4, r.value ->> 5, r.value ->> 6,
    s.value ->> 4, s.value ->> 5, unhex(r.value ->> 7), s.value ->> 5,
    COALESCE(r.value ->> 8, ", now!(), " + (r.value ->> 9)),
    COALESCE(r.value ->> 10, ", now!(), " + (r.value ->> 11)),
    MAX(COALESCE(r.value ->> 8, ", now!(), " + (r.value ->> 9), 0), ", now!(), ") + (s.value ->> 6),
    CASE s.value ->> 5 WHEN 1 THEN ", now!(), " END,
    ", now!(), ",
    unhex(r.value ->> 12), r.value ->> 13, r.value ->> 14, unhex(r.value ->> 15), s.value ->> 7, s.value ->> 8,
    s.value ->> 9, s.value ->> 10, s.value ->> 11, s.value ->> 12, s.value ->> 13, s.value ->> 14, s.value ->> 15, s.value ->> 16, s.value ->> 17,
    r.value ->> 16, r.value ->> 17, FALSE, FALSE, 1, 0, 0
FROM json_each(?) AS r CROSS JOIN json_each(?) AS s ON s.key = r.value ->> 18
WHERE TRUE
ON CONFLICT (tenant, consumer, message_id) DO NOTHING"
),
    confirm_batch: concat!(
"UPDATE earmark_claim AS c SET
    state = 'confirmed', revision = c.revision + 1,
    last_end_at = ", now!(), ", due_at = NULL, closed_at = ", now!(), ", closed_by = 'answer', error_class = NULL,
    provider_ref = s.value ->> 4, receipt = unhex(s.value ->> 5), receipt_type = s.value ->> 6,
    receipt_len = s.value ->> 7, receipt_digest = unhex(s.value ->> 8)
FROM json_each(?) AS s
WHERE (c.tenant, c.consumer, c.message_id) = (s.value ->> 0, s.value ->> 1, s.value ->> 2)
    AND c.state = 'in_flight' AND c.fence = 1 AND c.token = unhex(s.value ->> 3)"
),
    apply: concat!(
"UPDATE earmark_claim SET
    state = ?1, doubt = ?2, contradicted = ?3, fence = ?4, token = ?5, revision = revision + ?6,
    last_end_at = CASE ?7 WHEN 1 THEN ", now!(), " WHEN 2 THEN due_at ELSE last_end_at END,
    window_from = CASE ?8 WHEN 1 THEN NULL WHEN 2 THEN COALESCE(window_from, ", now!(), ") ELSE window_from END,
    due_at = CASE ?9 WHEN 1 THEN NULL WHEN 2 THEN ", now!(), " + ?10 ELSE due_at END,
    attempts = ?11, repeats_granted = ?12, looks = ?13,
    ruled_at = CASE WHEN ?14 THEN ", now!(), " ELSE ruled_at END,
    closed_at = CASE ?15 WHEN 1 THEN NULL WHEN 2 THEN ", now!(), " ELSE closed_at END,
    closed_by = CASE ?16 WHEN 0 THEN closed_by ELSE ?17 END,
    error_class = ?18, provider_ref = ?19, landing_horizon = COALESCE(?20, landing_horizon),
    receipt = CASE WHEN ?21 THEN ?22 ELSE receipt END,
    receipt_type = CASE WHEN ?23 THEN ?24 ELSE receipt_type END,
    receipt_len = CASE WHEN ?25 THEN ?26 ELSE receipt_len END,
    receipt_digest = CASE WHEN ?27 THEN ?28 ELSE receipt_digest END
WHERE tenant = ?29 AND consumer = ?30 AND message_id = ?31
    AND state = ?32 AND fence = ?33 AND token = ?34
    AND revision = COALESCE(?35, revision)
    AND (?36 OR due_at <= ", now!(), ")
    AND ", now!(), " < ?37"
),
    event: concat!(
"INSERT INTO earmark_event (
    fence, name, actor, from_state, to_state, provider_ref, detail, bytes, bytes_type,
    tenant, consumer, message_id, seq, at, revision)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
    c.tenant, c.consumer, c.message_id,
    (SELECT COALESCE(MAX(e.seq), 0) + 1 FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id),
    ", now!(), ", c.revision
FROM earmark_claim c
WHERE c.tenant = ?10 AND c.consumer = ?11 AND c.message_id = ?12
ON CONFLICT (tenant, consumer, message_id, seq) DO NOTHING"
),
    keep_receipt: concat!(
"INSERT INTO earmark_event (
    name, from_state, to_state, tenant, consumer, message_id, seq, at, fence, revision, provider_ref, detail, bytes, bytes_type)
SELECT ?1, c.state, c.state, c.tenant, c.consumer, c.message_id,
    (SELECT COALESCE(MAX(e.seq), 0) + 1 FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id),
    ", now!(), ", c.fence, c.revision, c.provider_ref, ?2, c.receipt, c.receipt_type
FROM earmark_claim c
WHERE c.tenant = ?3 AND c.consumer = ?4 AND c.message_id = ?5"
),
    row: concat!(row!(), " WHERE ", key!()),
    rows: concat!(row!(), " WHERE (tenant, consumer, message_id) IN (
    SELECT k.value ->> 0, k.value ->> 1, k.value ->> 2 FROM json_each(?) AS k)"),
    lock: concat!(row!(), " WHERE ", key!(), ""),
    lock_or_skip: concat!(row!(), " WHERE ", key!(), ""),
    row_in_caller: concat!(row!(), " WHERE ", key!(), ""),
    held: concat!("SELECT 1 FROM earmark_claim WHERE ", key!()),
    request: concat!("SELECT request FROM earmark_claim WHERE ", key!()),
    extend: concat!(
"UPDATE earmark_claim SET due_at = MAX(due_at, ", now!(), " + ?1)
WHERE tenant = ?2 AND consumer = ?3 AND message_id = ?4
    AND state = 'in_flight' AND fence = ?5 AND token = ?6"
),
    by_reference: concat!(row!(), " WHERE reference = ?1 ORDER BY tenant, consumer, message_id"),
    by_provider_ref: concat!(row!(), " WHERE provider_ref = ?1 ORDER BY tenant, consumer, message_id"),
    history: "SELECT seq, at, fence, revision, name, actor, from_state, to_state, provider_ref, detail, bytes, bytes_type
FROM earmark_event
WHERE tenant = ?1 AND consumer = ?2 AND message_id = ?3
ORDER BY seq",
    fact_known: "SELECT 1 AS known FROM earmark_event
WHERE tenant = ?1 AND consumer = ?2 AND message_id = ?3 AND actor = ?4 AND detail = ?5
LIMIT 1",
    orphan: concat!(
"INSERT INTO earmark_orphan (
    id, source, tenant, consumer, message_id, reference, idempotency_key, finding, detail, bytes, bytes_type, provider_ref, at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ", now!(), "
WHERE NOT EXISTS (SELECT 1 FROM earmark_orphan o
    WHERE o.source = ?13 AND o.detail = ?14 AND o.message_id IS ?15
        AND o.reference IS ?16 AND o.idempotency_key IS ?17 AND o.provider_ref IS ?18)"
),
    open_after: concat!(
        row!("NULL AS receipt"),
        "
WHERE due_at IS NOT NULL AND +tenant >= CAST(?1 AS TEXT)
    AND (tenant, consumer) > (CAST(?2 AS TEXT) || '', CAST(?3 AS TEXT) || '')
ORDER BY tenant, consumer, due_at
LIMIT ?4"
    ),
    due_of_pair: concat!(
        row!("NULL AS receipt"),
        "
WHERE tenant = CAST(?1 AS TEXT) AND consumer = CAST(?2 AS TEXT) AND due_at <= ", now!(), "
    AND NOT (state = 'held' AND (send_by IS NULL OR send_by > ", now!(), ") AND EXISTS (SELECT 1 FROM earmark_pause p
        WHERE p.downstream = earmark_claim.downstream AND p.resumed_at IS NULL))
ORDER BY due_at
LIMIT ?3"
    ),
    list_open: concat!(
        "SELECT * FROM (",
        row!("NULL AS receipt"),
        "
WHERE due_at IS NOT NULL
UNION ALL
",
        row!("NULL AS receipt"),
        "
WHERE state = 'escalated')
WHERE (?1 IS NULL OR state = ?2)
    AND (?3 IS NULL OR tenant = ?4) AND (?5 IS NULL OR consumer = ?6)
    AND (?7 IS NULL OR kind = ?8) AND (?9 IS NULL OR downstream = ?10)
    AND (?11 IS NULL OR error_class = ?12)
    AND (?13 IS NULL OR created_at <= ", now!(), " - ?14)
ORDER BY MIN(
    CASE WHEN key_window > 4000000000000000 THEN 9223372036854775807
        WHEN window_from + key_window > ", now!(), " THEN window_from + key_window ELSE 9223372036854775807 END,
    CASE WHEN send_by > ", now!(), " THEN send_by ELSE 9223372036854775807 END),
    created_at, tenant, consumer, message_id
LIMIT ?15"
    ),
    list_closed: concat!(
        row!("NULL AS receipt"),
        "
WHERE closed_at IS NOT NULL AND purged_at IS NULL AND ",
        closed!(),
        "
UNION ALL
",
        row!("NULL AS receipt"),
        "
WHERE closed_at IS NOT NULL AND purged_at IS NOT NULL AND ",
        closed!(),
        "
ORDER BY closed_at DESC
LIMIT ?14"
    ),
    open_tallies: concat!(
"SELECT consumer, kind, downstream, state, currency, COUNT(*) AS claims, MIN(COALESCE(window_from, created_at)) AS oldest,
    SUM(amount_minor * 1.0) AS minor, ", now!(), " AS now_at
FROM (SELECT consumer, kind, downstream, state, currency, window_from, created_at, amount_minor
    FROM earmark_claim WHERE due_at IS NOT NULL
    UNION ALL
    SELECT consumer, kind, downstream, state, currency, window_from, created_at, amount_minor
    FROM earmark_claim WHERE state = 'escalated')
GROUP BY consumer, kind, downstream, state, currency"
    ),
    report_claims: concat!(
        row!("NULL AS receipt"),
        "
WHERE due_at IS NOT NULL
UNION ALL
",
        row!("NULL AS receipt"),
        "
WHERE state = 'escalated'
UNION ALL
",
        row!("NULL AS receipt"),
        "
WHERE closed_at >= ?1 AND purged_at IS NULL
UNION ALL
",
        row!("NULL AS receipt"),
        "
WHERE closed_at >= ?2 AND purged_at IS NOT NULL"
    ),
    report_events: "SELECT e.tenant, e.consumer, e.message_id, e.seq, e.at, e.fence, e.revision, e.name, e.actor,
    e.from_state, e.to_state, e.provider_ref, e.detail, NULL AS bytes, NULL AS bytes_type
FROM earmark_event e
WHERE e.at >= ?1
UNION ALL
SELECT e.tenant, e.consumer, e.message_id, e.seq, e.at, e.fence, e.revision, e.name, e.actor,
    e.from_state, e.to_state, e.provider_ref, e.detail, NULL AS bytes, NULL AS bytes_type
FROM (SELECT tenant, consumer, message_id FROM earmark_claim WHERE due_at IS NOT NULL
    UNION ALL SELECT tenant, consumer, message_id FROM earmark_claim WHERE state = 'escalated') c
CROSS JOIN earmark_event e ON e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id
WHERE e.name = 'mismatch' AND e.at < ?2",
    report_orphans: "SELECT id, at, source, tenant, consumer, message_id, reference, idempotency_key, provider_ref, finding, adopted_at
FROM earmark_orphan
WHERE at >= ?1
ORDER BY at, id",
    sweepers: "SELECT name, started_at, last_success_at, passes, version FROM earmark_sweeper ORDER BY name",
    heartbeat: concat!(
        "INSERT INTO earmark_sweeper (name, version, passes, started_at, last_success_at)
VALUES (?1, ?2, ?3, ", now!(), ", ", now!(), ")
ON CONFLICT (name) DO UPDATE SET version = excluded.version, passes = excluded.passes,
    last_success_at = excluded.last_success_at"
    ),
    purge_pick: concat!(
"SELECT tenant, consumer, message_id, closed_at FROM earmark_claim
WHERE closed_at >= ?1 AND closed_at <= ", now!(), " - ?2 AND purged_at IS NULL AND ", settled!(), "
ORDER BY closed_at
LIMIT ?3"
    ),
    purge_events: "DELETE FROM earmark_event
WHERE (tenant, consumer, message_id) IN (
    SELECT k.value ->> 0, k.value ->> 1, k.value ->> 2 FROM json_each(?1) AS k)",
    purge_rows: concat!(
"UPDATE earmark_claim SET purged_at = ", now!(), ", request = NULL, receipt = NULL, summary = NULL, traceparent = NULL
WHERE (tenant, consumer, message_id) IN (
    SELECT k.value ->> 0, k.value ->> 1, k.value ->> 2 FROM json_each(?1) AS k)"
    ),
    tombstone_pick: concat!(
"SELECT tenant, consumer, message_id, closed_at FROM earmark_claim
WHERE closed_at >= ?1 AND closed_at <= ", now!(), " - ?2 AND purged_at IS NOT NULL AND ", settled!(), "
    AND (key_window IS NULL OR window_from IS NULL OR window_from < ", now!(), " - key_window)
ORDER BY closed_at
LIMIT ?3"
    ),
    tombstone_rows: "DELETE FROM earmark_claim WHERE (tenant, consumer, message_id) IN (
    SELECT k.value ->> 0, k.value ->> 1, k.value ->> 2 FROM json_each(?1) AS k)",
    purge_plan: concat!(
"SELECT tenant, consumer, state, COUNT(*) AS claims, COALESCE(SUM(bytes), 0) AS bytes, COALESCE(SUM(events), 0) AS events, COALESCE(SUM(event_bytes), 0) AS event_bytes
FROM (SELECT c.tenant, c.consumer, c.state, COALESCE(LENGTH(CAST(c.request AS BLOB)), 0) + COALESCE(LENGTH(CAST(c.receipt AS BLOB)), 0) AS bytes,
    (SELECT COUNT(*) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS events,
    (SELECT SUM(COALESCE(LENGTH(CAST(e.detail AS BLOB)), 0) + COALESCE(LENGTH(CAST(e.bytes AS BLOB)), 0)) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS event_bytes
    FROM earmark_claim c
    WHERE closed_at <= ", now!(), " - ?1 AND purged_at IS NULL AND ", settled!(), ") AS old
GROUP BY tenant, consumer, state
ORDER BY tenant, consumer, state"
    ),
    tombstone_plan: concat!(
"SELECT tenant, consumer, state, COUNT(*) AS claims, COALESCE(SUM(bytes), 0) AS bytes, COALESCE(SUM(events), 0) AS events, COALESCE(SUM(event_bytes), 0) AS event_bytes
FROM (SELECT c.tenant, c.consumer, c.state, COALESCE(LENGTH(CAST(c.request AS BLOB)), 0) + COALESCE(LENGTH(CAST(c.receipt AS BLOB)), 0) AS bytes,
    (SELECT COUNT(*) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS events,
    (SELECT SUM(COALESCE(LENGTH(CAST(e.detail AS BLOB)), 0) + COALESCE(LENGTH(CAST(e.bytes AS BLOB)), 0)) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS event_bytes
    FROM earmark_claim c
    WHERE closed_at <= ", now!(), " - ?1 AND purged_at IS NOT NULL AND ", settled!(), "
    AND (key_window IS NULL OR window_from IS NULL OR window_from < ", now!(), " - key_window)) AS old
GROUP BY tenant, consumer, state
ORDER BY tenant, consumer, state"
    ),
    purge_kept: concat!(
"SELECT COUNT(*) AS claims FROM earmark_claim
WHERE closed_at <= ", now!(), " - ?1 AND purged_at IS NULL AND NOT (", settled!(), ")"
    ),
    forget_sweepers: concat!(
"DELETE FROM earmark_sweeper WHERE COALESCE(last_success_at, started_at) < ", now!(), " - ?1"
    ),
    pauses: "SELECT downstream, seq, at, actor, reason, resumed_at, resumed_by, resume_reason
FROM earmark_pause
WHERE resumed_at IS NULL OR at >= ?1 OR resumed_at >= ?2
ORDER BY downstream, seq",
    pause: concat!(
"INSERT INTO earmark_pause (downstream, seq, at, actor, reason)
SELECT ?1, COALESCE(MAX(p.seq), 0) + 1, ", now!(), ", ?2, ?3
FROM earmark_pause p
WHERE p.downstream = ?4
HAVING COUNT(*) = COUNT(p.resumed_at)
ON CONFLICT (downstream, seq) DO NOTHING"
),
    resume: concat!(
"UPDATE earmark_pause SET resumed_at = ", now!(), ", resumed_by = ?1, resume_reason = ?2
WHERE downstream = ?3 AND resumed_at IS NULL"
),
    newest_pause: "SELECT downstream, seq, at, actor, reason, resumed_at, resumed_by, resume_reason
FROM earmark_pause
WHERE downstream = ?1
ORDER BY seq DESC
LIMIT 1",
    now: concat!("SELECT ", now!(), " AS now_at"),
    meta: "SELECT name, value FROM earmark_meta",
};
