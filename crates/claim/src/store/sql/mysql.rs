//! MySQL 8.0.16 and later, MariaDB 10.6 and later.
//!
//! The clock is `UTC_TIMESTAMP(6)`: independent of the session's time zone, and fixed for the length of a statement.
//!
//! `UPDATE … SET` assigns from left to right and reads what it has just assigned: in `APPLY`, `last_end_at` reads the old
//! `due_at` and so must stand before it.
//!
//! In batches bytes come in hex, as `MEDIUMTEXT` (16 MiB, beyond what a batch holds): of a `LONGTEXT`, MariaDB 10.11 writes an empty `UNHEX` where the
//! rows pass through a temporary table of its own.
//!
//! For claims there is no `ON DUPLICATE KEY`, which answers a duplicate as if it were an insert, and no `INSERT IGNORE`, which cuts values: a
//! duplicate is error 1062, and a row under the very key.

use super::Sql;

macro_rules! now {
    () => {
        "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
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
        "tenant = ? AND consumer = ? AND message_id = ?"
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
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?,
    COALESCE(?, ", now!(), " + ?),
    COALESCE(?, ", now!(), " + ?),
    GREATEST(COALESCE(?, ", now!(), " + ?, 0), ", now!(), ") + ?,
    CASE WHEN ? THEN ", now!(), " END,
    ", now!(), ",
    ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, FALSE, FALSE, 1, 0, 0)"
),
    // Keys that exist are left out, so that one of them does not undo the others; one that somebody is making at this moment is
    // error 1062 all the same.
    claim_batch: concat!(
"INSERT INTO earmark_claim (
    tenant, consumer, message_id, kind, form, downstream, summary, business_ref, amount_minor, currency,
    state, fence, token, attempts, not_before, send_by, due_at, window_from, created_at,
    fingerprint, idempotency_key, reference, request, request_type, credential,
    repeat_safety, key_window, landing_horizon, probe_lag, probe_proof, looks_max, call_timeout, attempts_max, age_max,
    traceparent, supersedes, doubt, contradicted, revision, repeats_granted, looks)
SELECT
    r.tenant, r.consumer, r.message_id, s.kind, s.form, s.downstream, r.summary, r.business_ref, r.amount_minor, r.currency,
    s.state, s.fence, UNHEX(r.token), s.fence,
    COALESCE(r.not_before_at, ", now!(), " + r.not_before_in),
    COALESCE(r.send_by_at, ", now!(), " + r.send_by_in),
    GREATEST(COALESCE(r.not_before_at, ", now!(), " + r.not_before_in, 0), ", now!(), ") + s.due_in,
    CASE s.fence WHEN 1 THEN ", now!(), " END,
    ", now!(), ",
    UNHEX(r.fingerprint), r.idempotency_key, r.reference, UNHEX(r.request), s.request_type, s.credential,
    s.repeat_safety, s.key_window, s.landing_horizon, s.probe_lag, s.probe_proof, s.looks_max, s.call_timeout, s.attempts_max, s.age_max,
    r.traceparent, r.supersedes, FALSE, FALSE, 1, 0, 0
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    tenant VARBINARY(128) PATH '$[0]', consumer VARBINARY(128) PATH '$[1]', message_id VARBINARY(512) PATH '$[2]',
    summary VARCHAR(256) CHARACTER SET utf8mb4 PATH '$[3]', business_ref VARCHAR(128) CHARACTER SET utf8mb4 PATH '$[4]',
    amount_minor BIGINT PATH '$[5]', currency CHAR(3) PATH '$[6]', token CHAR(32) PATH '$[7]',
    not_before_at BIGINT PATH '$[8]', not_before_in BIGINT PATH '$[9]', send_by_at BIGINT PATH '$[10]', send_by_in BIGINT PATH '$[11]',
    fingerprint CHAR(64) PATH '$[12]', idempotency_key VARBINARY(512) PATH '$[13]', reference VARCHAR(16) PATH '$[14]',
    request MEDIUMTEXT PATH '$[15]', traceparent VARCHAR(64) PATH '$[16]', supersedes VARCHAR(16) PATH '$[17]',
    place INT PATH '$[18]')) AS r
STRAIGHT_JOIN JSON_TABLE(?, '$[*]' COLUMNS (
    place INT PATH '$[0]', kind VARCHAR(128) PATH '$[1]', form VARCHAR(32) PATH '$[2]', downstream VARCHAR(64) PATH '$[3]',
    state VARCHAR(16) PATH '$[4]', fence INT PATH '$[5]', due_in BIGINT PATH '$[6]',
    request_type VARCHAR(128) CHARACTER SET utf8mb4 PATH '$[7]', credential VARCHAR(128) CHARACTER SET utf8mb4 PATH '$[8]',
    repeat_safety VARCHAR(8) PATH '$[9]', key_window BIGINT PATH '$[10]', landing_horizon BIGINT PATH '$[11]',
    probe_lag BIGINT PATH '$[12]', probe_proof INT PATH '$[13]', looks_max BIGINT PATH '$[14]', call_timeout BIGINT PATH '$[15]',
    attempts_max BIGINT PATH '$[16]', age_max BIGINT PATH '$[17]')) AS s ON s.place = r.place
LEFT JOIN earmark_claim e ON e.tenant = r.tenant AND e.consumer = r.consumer AND e.message_id = r.message_id
WHERE e.tenant IS NULL"
),
    confirm_batch: concat!(
"UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    tenant VARBINARY(128) PATH '$[0]', consumer VARBINARY(128) PATH '$[1]', message_id VARBINARY(512) PATH '$[2]',
    token CHAR(32) PATH '$[3]', provider_ref VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[4]', receipt MEDIUMTEXT PATH '$[5]',
    receipt_type VARCHAR(128) CHARACTER SET utf8mb4 PATH '$[6]', receipt_len BIGINT PATH '$[7]', receipt_digest CHAR(64) PATH '$[8]')) AS s
STRAIGHT_JOIN earmark_claim AS c
    ON c.tenant = s.tenant AND c.consumer = s.consumer AND c.message_id = s.message_id
SET c.state = 'confirmed', c.revision = c.revision + 1,
    c.last_end_at = ", now!(), ", c.due_at = NULL, c.closed_at = ", now!(), ", c.closed_by = 'answer', c.error_class = NULL,
    c.provider_ref = s.provider_ref, c.receipt = UNHEX(s.receipt), c.receipt_type = s.receipt_type,
    c.receipt_len = s.receipt_len, c.receipt_digest = UNHEX(s.receipt_digest)
WHERE c.state = 'in_flight' AND c.fence = 1 AND c.token = UNHEX(s.token)"
),
    apply: concat!(
"UPDATE earmark_claim SET
    state = ?, doubt = ?, contradicted = ?, fence = ?, token = ?, revision = revision + ?,
    last_end_at = CASE ? WHEN 1 THEN ", now!(), " WHEN 2 THEN due_at ELSE last_end_at END,
    window_from = CASE ? WHEN 1 THEN NULL WHEN 2 THEN COALESCE(window_from, ", now!(), ") ELSE window_from END,
    due_at = CASE ? WHEN 1 THEN NULL WHEN 2 THEN ", now!(), " + ? ELSE due_at END,
    attempts = ?, repeats_granted = ?, looks = ?,
    ruled_at = CASE WHEN ? THEN ", now!(), " ELSE ruled_at END,
    closed_at = CASE ? WHEN 1 THEN NULL WHEN 2 THEN ", now!(), " ELSE closed_at END,
    closed_by = CASE ? WHEN 0 THEN closed_by ELSE ? END,
    error_class = ?, provider_ref = ?, landing_horizon = COALESCE(?, landing_horizon),
    receipt = CASE WHEN ? THEN ? ELSE receipt END,
    receipt_type = CASE WHEN ? THEN ? ELSE receipt_type END,
    receipt_len = CASE WHEN ? THEN ? ELSE receipt_len END,
    receipt_digest = CASE WHEN ? THEN ? ELSE receipt_digest END
WHERE tenant = ? AND consumer = ? AND message_id = ?
    AND state = ? AND fence = ? AND token = ?
    AND revision = COALESCE(?, revision)
    AND (? OR due_at <= ", now!(), ")
    AND ", now!(), " < ?"
),
    event: concat!(
"INSERT INTO earmark_event (
    fence, name, actor, from_state, to_state, provider_ref, detail, bytes, bytes_type,
    tenant, consumer, message_id, seq, at, revision)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?,
    c.tenant, c.consumer, c.message_id,
    (SELECT COALESCE(MAX(e.seq), 0) + 1 FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id),
    ", now!(), ", c.revision
FROM earmark_claim c
WHERE c.tenant = ? AND c.consumer = ? AND c.message_id = ?"
),
    keep_receipt: concat!(
"INSERT INTO earmark_event (
    name, from_state, to_state, tenant, consumer, message_id, seq, at, fence, revision, provider_ref, detail, bytes, bytes_type)
SELECT ?, c.state, c.state, c.tenant, c.consumer, c.message_id,
    (SELECT COALESCE(MAX(e.seq), 0) + 1 FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id),
    ", now!(), ", c.fence, c.revision, c.provider_ref, ?, c.receipt, c.receipt_type
FROM earmark_claim c
WHERE c.tenant = ? AND c.consumer = ? AND c.message_id = ?"
),
    row: concat!(row!(), " WHERE ", key!()),
    rows: concat!(row!("c.receipt"), " AS c
JOIN JSON_TABLE(?, '$[*]' COLUMNS (
    k_tenant VARBINARY(128) PATH '$[0]', k_consumer VARBINARY(128) PATH '$[1]', k_message_id VARBINARY(512) PATH '$[2]')) AS k
    ON c.tenant = k.k_tenant AND c.consumer = k.k_consumer AND c.message_id = k.k_message_id"),
    lock: concat!(row!(), " WHERE ", key!(), " FOR UPDATE"),
    lock_or_skip: concat!(row!(), " WHERE ", key!(), " FOR UPDATE SKIP LOCKED"),
    row_in_caller: concat!(row!(), " WHERE ", key!(), " LOCK IN SHARE MODE"),
    held: concat!("SELECT 1 FROM earmark_claim WHERE ", key!(), " FOR UPDATE NOWAIT"),
    request: concat!("SELECT request FROM earmark_claim WHERE ", key!()),
    extend: concat!(
"UPDATE earmark_claim SET due_at = GREATEST(due_at, ", now!(), " + ?)
WHERE tenant = ? AND consumer = ? AND message_id = ?
    AND state = 'in_flight' AND fence = ? AND token = ?"
),
    by_reference: concat!(row!(), " WHERE reference = ? ORDER BY tenant, consumer, message_id"),
    by_provider_ref: concat!(row!(), " WHERE provider_ref = ? ORDER BY tenant, consumer, message_id"),
    history: "SELECT seq, at, fence, revision, name, actor, from_state, to_state, provider_ref, detail, bytes, bytes_type
FROM earmark_event
WHERE tenant = ? AND consumer = ? AND message_id = ?
ORDER BY seq",
    fact_known: "SELECT 1 AS known FROM earmark_event
WHERE tenant = ? AND consumer = ? AND message_id = ? AND actor = ? AND detail = ?
LIMIT 1",
    orphan: concat!(
"INSERT INTO earmark_orphan (
    id, source, tenant, consumer, message_id, reference, idempotency_key, finding, detail, bytes, bytes_type, provider_ref, at)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ", now!(), " FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM earmark_orphan o
    WHERE o.source = ? AND o.detail = ? AND o.message_id <=> ?
        AND o.reference <=> ? AND o.idempotency_key <=> ? AND o.provider_ref <=> ?)"
),
    open_after: concat!(
        row!("NULL AS receipt"),
        "
WHERE due_tenant > ? OR (due_tenant = ? AND due_consumer > ?)
ORDER BY due_tenant, due_consumer, due_at
LIMIT ?"
    ),
    due_of_pair: concat!(
        row!("NULL AS receipt"),
        "
WHERE due_tenant = ? AND due_consumer = ? AND due_at <= ", now!(), "
    AND NOT (state = 'held' AND (send_by IS NULL OR send_by > ", now!(), ") AND EXISTS (SELECT 1 FROM earmark_pause p
        WHERE p.downstream = earmark_claim.downstream AND p.resumed_at IS NULL))
ORDER BY due_at
LIMIT ?"
    ),
    list_open: concat!(
        row!("NULL AS receipt"),
        "
WHERE closed_at IS NULL
    AND (? IS NULL OR state = ?)
    AND (? IS NULL OR tenant = ?) AND (? IS NULL OR consumer = ?)
    AND (? IS NULL OR kind = ?) AND (? IS NULL OR downstream = ?)
    AND (? IS NULL OR error_class = ?)
    AND (? IS NULL OR created_at <= ", now!(), " - ?)
ORDER BY LEAST(
    CASE WHEN key_window > 4000000000000000 THEN 9223372036854775807
        WHEN window_from + key_window > ", now!(), " THEN window_from + key_window ELSE 9223372036854775807 END,
    CASE WHEN send_by > ", now!(), " THEN send_by ELSE 9223372036854775807 END),
    created_at, tenant, consumer, message_id
LIMIT ?"
    ),
    list_closed: concat!(
        row!("NULL AS receipt"),
        "
WHERE closed_at IS NOT NULL AND state = ?
    AND (? IS NULL OR tenant = ?) AND (? IS NULL OR consumer = ?)
    AND (? IS NULL OR kind = ?) AND (? IS NULL OR downstream = ?)
    AND (? IS NULL OR error_class = ?)
    AND (? IS NULL OR created_at <= ", now!(), " - ?)
ORDER BY closed_at DESC
LIMIT ?"
    ),
    open_tallies: concat!(
"SELECT consumer, kind, downstream, state, currency, COUNT(*) AS claims, MIN(COALESCE(window_from, created_at)) AS oldest,
    SUM(amount_minor * 1e0) AS minor, ", now!(), " AS now_at
FROM earmark_claim
WHERE closed_at IS NULL
GROUP BY consumer, kind, downstream, state, currency"
    ),
    report_claims: concat!(
        row!("NULL AS receipt"),
        "
WHERE closed_at IS NULL OR closed_at >= GREATEST(?, ?)"
    ),
    report_events: "SELECT e.tenant, e.consumer, e.message_id, e.seq, e.at, e.fence, e.revision, e.name, e.actor,
    e.from_state, e.to_state, e.provider_ref, e.detail, NULL AS bytes, NULL AS bytes_type
FROM earmark_event e
WHERE e.at >= ?
UNION ALL
SELECT e.tenant, e.consumer, e.message_id, e.seq, e.at, e.fence, e.revision, e.name, e.actor,
    e.from_state, e.to_state, e.provider_ref, e.detail, NULL AS bytes, NULL AS bytes_type
FROM earmark_claim c
STRAIGHT_JOIN earmark_event e ON e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id
WHERE c.closed_at IS NULL AND e.name = 'mismatch' AND e.at < ?",
    report_orphans: "SELECT id, at, source, tenant, consumer, message_id, reference, idempotency_key, provider_ref, finding, adopted_at
FROM earmark_orphan
WHERE at >= ?
ORDER BY at, id",
    sweepers: "SELECT name, started_at, last_success_at, passes, version FROM earmark_sweeper ORDER BY name",
    heartbeat: concat!(
        "INSERT INTO earmark_sweeper (name, version, passes, started_at, last_success_at)
VALUES (?, ?, ?, ", now!(), ", ", now!(), ")
ON DUPLICATE KEY UPDATE version = VALUES(version), passes = VALUES(passes), last_success_at = VALUES(last_success_at)"
    ),
    // The index is named: the server's guess at how many tombstones are old must not decide whether every one of them is read.
    purge_pick: concat!(
"SELECT tenant, consumer, message_id, closed_at FROM earmark_claim FORCE INDEX (earmark_claim_closed)
WHERE closed_at >= ? AND closed_at <= ", now!(), " - ? AND purged_at IS NULL AND ", settled!(), "
ORDER BY closed_at
LIMIT ?
FOR UPDATE SKIP LOCKED"
    ),
    purge_events: "DELETE e FROM JSON_TABLE(?, '$[*]' COLUMNS (
    tenant VARBINARY(128) PATH '$[0]', consumer VARBINARY(128) PATH '$[1]', message_id VARBINARY(512) PATH '$[2]')) AS picked
STRAIGHT_JOIN earmark_event AS e
    ON e.tenant = picked.tenant AND e.consumer = picked.consumer AND e.message_id = picked.message_id",
    purge_rows: concat!(
"UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    tenant VARBINARY(128) PATH '$[0]', consumer VARBINARY(128) PATH '$[1]', message_id VARBINARY(512) PATH '$[2]')) AS picked
STRAIGHT_JOIN earmark_claim AS c
    ON c.tenant = picked.tenant AND c.consumer = picked.consumer AND c.message_id = picked.message_id
SET c.purged_at = ", now!(), ", c.request = NULL, c.receipt = NULL, c.summary = NULL, c.traceparent = NULL"
    ),
    tombstone_pick: concat!(
"SELECT tenant, consumer, message_id, closed_at FROM earmark_claim FORCE INDEX (earmark_claim_tombstone)
WHERE closed_at >= ? AND closed_at <= ", now!(), " - ? AND purged_at IS NOT NULL AND ", settled!(), "
    AND (key_window IS NULL OR window_from IS NULL OR window_from < ", now!(), " - key_window)
ORDER BY closed_at
LIMIT ?
FOR UPDATE SKIP LOCKED"
    ),
    tombstone_rows: "DELETE c FROM JSON_TABLE(?, '$[*]' COLUMNS (
    tenant VARBINARY(128) PATH '$[0]', consumer VARBINARY(128) PATH '$[1]', message_id VARBINARY(512) PATH '$[2]')) AS picked
STRAIGHT_JOIN earmark_claim AS c
    ON c.tenant = picked.tenant AND c.consumer = picked.consumer AND c.message_id = picked.message_id",
    purge_plan: concat!(
"SELECT tenant, consumer, state, COUNT(*) AS claims, CAST(COALESCE(SUM(bytes), 0) AS SIGNED) AS bytes, CAST(COALESCE(SUM(events), 0) AS SIGNED) AS events, CAST(COALESCE(SUM(event_bytes), 0) AS SIGNED) AS event_bytes
FROM (SELECT c.tenant, c.consumer, c.state, COALESCE(OCTET_LENGTH(c.request), 0) + COALESCE(OCTET_LENGTH(c.receipt), 0) AS bytes,
    (SELECT COUNT(*) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS events,
    (SELECT SUM(COALESCE(OCTET_LENGTH(e.detail), 0) + COALESCE(OCTET_LENGTH(e.bytes), 0)) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS event_bytes
    FROM earmark_claim c
    WHERE closed_at <= ", now!(), " - ? AND purged_at IS NULL AND ", settled!(), ") AS old
GROUP BY tenant, consumer, state
ORDER BY tenant, consumer, state"
    ),
    tombstone_plan: concat!(
"SELECT tenant, consumer, state, COUNT(*) AS claims, CAST(COALESCE(SUM(bytes), 0) AS SIGNED) AS bytes, CAST(COALESCE(SUM(events), 0) AS SIGNED) AS events, CAST(COALESCE(SUM(event_bytes), 0) AS SIGNED) AS event_bytes
FROM (SELECT c.tenant, c.consumer, c.state, COALESCE(OCTET_LENGTH(c.request), 0) + COALESCE(OCTET_LENGTH(c.receipt), 0) AS bytes,
    (SELECT COUNT(*) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS events,
    (SELECT SUM(COALESCE(OCTET_LENGTH(e.detail), 0) + COALESCE(OCTET_LENGTH(e.bytes), 0)) FROM earmark_event e
        WHERE e.tenant = c.tenant AND e.consumer = c.consumer AND e.message_id = c.message_id) AS event_bytes
    FROM earmark_claim c
    WHERE closed_at <= ", now!(), " - ? AND purged_at IS NOT NULL AND ", settled!(), "
    AND (key_window IS NULL OR window_from IS NULL OR window_from < ", now!(), " - key_window)) AS old
GROUP BY tenant, consumer, state
ORDER BY tenant, consumer, state"
    ),
    purge_kept: concat!(
"SELECT COUNT(*) AS claims FROM earmark_claim
WHERE closed_at <= ", now!(), " - ? AND purged_at IS NULL AND NOT (", settled!(), ")"
    ),
    forget_sweepers: concat!(
"DELETE FROM earmark_sweeper WHERE COALESCE(last_success_at, started_at) < ", now!(), " - ?"
    ),
    pauses: "SELECT downstream, seq, at, actor, reason, resumed_at, resumed_by, resume_reason
FROM earmark_pause
WHERE resumed_at IS NULL OR at >= ? OR resumed_at >= ?
ORDER BY downstream, seq",
    pause: concat!(
"INSERT INTO earmark_pause (downstream, seq, at, actor, reason)
SELECT ?, COALESCE(MAX(p.seq), 0) + 1, ", now!(), ", ?, ?
FROM earmark_pause p
WHERE p.downstream = ?
HAVING COUNT(*) = COUNT(p.resumed_at)
ON DUPLICATE KEY UPDATE earmark_pause.reason = earmark_pause.reason"
),
    resume: concat!(
"UPDATE earmark_pause SET resumed_at = ", now!(), ", resumed_by = ?, resume_reason = ?
WHERE downstream = ? AND resumed_at IS NULL"
),
    newest_pause: "SELECT downstream, seq, at, actor, reason, resumed_at, resumed_by, resume_reason
FROM earmark_pause
WHERE downstream = ?
ORDER BY seq DESC
LIMIT 1",
    now: concat!("SELECT ", now!(), " AS now_at"),
    meta: "SELECT name, value FROM earmark_meta",
};
