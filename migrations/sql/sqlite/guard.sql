-- Optional: refuses illegal moves of a claim typed by hand. Earmark itself makes none; the guard costs every settle a
-- trigger call, so it is off unless asked for. May be run again. By hand:
--     sqlite3 -bail <file> < guard.sql
-- To take it away: DROP TRIGGER earmark_claim_guard_update; the same for earmark_claim_guard_delete.
-- INSERT OR REPLACE deletes without a trigger unless PRAGMA recursive_triggers is on.
--
-- The illegal pairs are listed, not the legal ones as elsewhere, since a message put together from the states needs
-- SQLite 3.47: an older sqlite3 program could not even open a file with such a trigger.

DROP TRIGGER IF EXISTS earmark_claim_guard_update;
CREATE TRIGGER earmark_claim_guard_update BEFORE UPDATE ON earmark_claim
BEGIN
    SELECT CASE OLD.state || ' to ' || NEW.state
        WHEN 'held to retryable' THEN
            RAISE(ABORT, 'earmark_claim_guard: held to retryable is not a legal move')
        WHEN 'held to in_doubt' THEN
            RAISE(ABORT, 'earmark_claim_guard: held to in_doubt is not a legal move')
        WHEN 'in_flight to held' THEN
            RAISE(ABORT, 'earmark_claim_guard: in_flight to held is not a legal move')
        WHEN 'retryable to held' THEN
            RAISE(ABORT, 'earmark_claim_guard: retryable to held is not a legal move')
        WHEN 'retryable to in_doubt' THEN
            RAISE(ABORT, 'earmark_claim_guard: retryable to in_doubt is not a legal move')
        WHEN 'in_doubt to held' THEN
            RAISE(ABORT, 'earmark_claim_guard: in_doubt to held is not a legal move')
        WHEN 'escalated to held' THEN
            RAISE(ABORT, 'earmark_claim_guard: escalated to held is not a legal move')
        WHEN 'escalated to in_flight' THEN
            RAISE(ABORT, 'earmark_claim_guard: escalated to in_flight is not a legal move')
        WHEN 'escalated to in_doubt' THEN
            RAISE(ABORT, 'earmark_claim_guard: escalated to in_doubt is not a legal move')
        WHEN 'confirmed to held' THEN
            RAISE(ABORT, 'earmark_claim_guard: confirmed to held is not a legal move')
        WHEN 'confirmed to in_flight' THEN
            RAISE(ABORT, 'earmark_claim_guard: confirmed to in_flight is not a legal move')
        WHEN 'confirmed to retryable' THEN
            RAISE(ABORT, 'earmark_claim_guard: confirmed to retryable is not a legal move')
        WHEN 'confirmed to in_doubt' THEN
            RAISE(ABORT, 'earmark_claim_guard: confirmed to in_doubt is not a legal move')
        WHEN 'confirmed to abandoned' THEN
            RAISE(ABORT, 'earmark_claim_guard: confirmed to abandoned is not a legal move')
        WHEN 'abandoned to held' THEN
            RAISE(ABORT, 'earmark_claim_guard: abandoned to held is not a legal move')
        WHEN 'abandoned to in_flight' THEN
            RAISE(ABORT, 'earmark_claim_guard: abandoned to in_flight is not a legal move')
        WHEN 'abandoned to in_doubt' THEN
            RAISE(ABORT, 'earmark_claim_guard: abandoned to in_doubt is not a legal move')
        WHEN 'abandoned to confirmed' THEN
            RAISE(ABORT, 'earmark_claim_guard: abandoned to confirmed is not a legal move')
    END;
    -- An abandoned claim that carries doubt may have happened: it goes to a person first.
    SELECT RAISE(ABORT, 'earmark_claim_guard: abandoned to retryable is not a legal move of a claim in doubt')
    WHERE OLD.state = 'abandoned' AND NEW.state = 'retryable' AND OLD.doubt;
    SELECT RAISE(ABORT, 'earmark_claim_guard: fence must not shrink') WHERE NEW.fence < OLD.fence;
    SELECT RAISE(ABORT, 'earmark_claim_guard: revision must not shrink') WHERE NEW.revision < OLD.revision;
    -- What is open needs its request and its history; and what was purged does not come back.
    SELECT CASE NEW.state
        WHEN 'held' THEN RAISE(ABORT, 'earmark_claim_guard: an open claim (held) must not be purged')
        WHEN 'in_flight' THEN RAISE(ABORT, 'earmark_claim_guard: an open claim (in_flight) must not be purged')
        WHEN 'retryable' THEN RAISE(ABORT, 'earmark_claim_guard: an open claim (retryable) must not be purged')
        WHEN 'in_doubt' THEN RAISE(ABORT, 'earmark_claim_guard: an open claim (in_doubt) must not be purged')
        WHEN 'escalated' THEN RAISE(ABORT, 'earmark_claim_guard: an open claim (escalated) must not be purged')
    END
    WHERE OLD.purged_at IS NULL AND NEW.purged_at IS NOT NULL;
    SELECT RAISE(ABORT, 'earmark_claim_guard: a purged claim stays a tombstone')
    WHERE OLD.purged_at IS NOT NULL AND NEW.purged_at IS NULL;
END;

-- A row that is gone lets a redelivered message act again.
DROP TRIGGER IF EXISTS earmark_claim_guard_delete;
CREATE TRIGGER earmark_claim_guard_delete BEFORE DELETE ON earmark_claim
WHEN OLD.state NOT IN ('confirmed', 'abandoned')
BEGIN
    SELECT CASE OLD.state
        WHEN 'held' THEN RAISE(ABORT, 'earmark_claim_guard: an open claim (held) must not be deleted')
        WHEN 'in_flight' THEN RAISE(ABORT, 'earmark_claim_guard: an open claim (in_flight) must not be deleted')
        WHEN 'retryable' THEN RAISE(ABORT, 'earmark_claim_guard: an open claim (retryable) must not be deleted')
        WHEN 'in_doubt' THEN RAISE(ABORT, 'earmark_claim_guard: an open claim (in_doubt) must not be deleted')
        WHEN 'escalated' THEN RAISE(ABORT, 'earmark_claim_guard: an open claim (escalated) must not be deleted')
    END;
END;
