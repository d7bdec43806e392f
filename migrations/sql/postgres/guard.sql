-- Optional: refuses illegal moves of a claim typed by hand. Earmark itself makes none; the guard costs every settle a
-- trigger call, so it is off unless asked for. May be run again. By hand:
--     psql --single-transaction -v ON_ERROR_STOP=1 -f guard.sql <database>
-- To take it away: DROP TRIGGER earmark_claim_guard_update ON earmark_claim; the same for earmark_claim_guard_delete.
-- TRUNCATE fires no row trigger: withhold that privilege.

CREATE OR REPLACE FUNCTION earmark_claim_guard_update() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    IF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (
        ('held', 'in_flight'), ('held', 'abandoned'), ('held', 'confirmed'), ('held', 'escalated'),
        ('in_flight', 'confirmed'), ('in_flight', 'abandoned'), ('in_flight', 'retryable'),
        ('in_flight', 'in_doubt'), ('in_flight', 'escalated'),
        ('retryable', 'in_flight'), ('retryable', 'escalated'), ('retryable', 'abandoned'),
        ('retryable', 'confirmed'),
        ('in_doubt', 'in_flight'), ('in_doubt', 'confirmed'), ('in_doubt', 'abandoned'),
        ('in_doubt', 'retryable'), ('in_doubt', 'escalated'),
        ('escalated', 'confirmed'), ('escalated', 'abandoned'), ('escalated', 'retryable'),
        ('confirmed', 'escalated'),
        ('abandoned', 'escalated'), ('abandoned', 'retryable')
    ) THEN
        RAISE EXCEPTION 'earmark_claim_guard: % to % is not a legal move', OLD.state, NEW.state
            USING ERRCODE = 'check_violation';
    END IF;
    -- An abandoned claim that carries doubt may have happened: it goes to a person first.
    IF OLD.state = 'abandoned' AND NEW.state = 'retryable' AND OLD.doubt THEN
        RAISE EXCEPTION 'earmark_claim_guard: abandoned to retryable is not a legal move of a claim in doubt'
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.fence < OLD.fence THEN
        RAISE EXCEPTION 'earmark_claim_guard: fence must not shrink (% to %)', OLD.fence, NEW.fence
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.revision < OLD.revision THEN
        RAISE EXCEPTION 'earmark_claim_guard: revision must not shrink (% to %)', OLD.revision, NEW.revision
            USING ERRCODE = 'check_violation';
    END IF;
    -- What is open needs its request and its history; and what was purged does not come back.
    IF OLD.purged_at IS NULL AND NEW.purged_at IS NOT NULL AND NEW.state NOT IN ('confirmed', 'abandoned') THEN
        RAISE EXCEPTION 'earmark_claim_guard: an open claim (%) must not be purged', NEW.state
            USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.purged_at IS NOT NULL AND NEW.purged_at IS NULL THEN
        RAISE EXCEPTION 'earmark_claim_guard: a purged claim stays a tombstone' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$guard$;

CREATE OR REPLACE FUNCTION earmark_claim_guard_delete() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    -- A row that is gone lets a redelivered message act again.
    IF OLD.state NOT IN ('confirmed', 'abandoned') THEN
        RAISE EXCEPTION 'earmark_claim_guard: an open claim (%) must not be deleted', OLD.state
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN OLD;
END
$guard$;

DROP TRIGGER IF EXISTS earmark_claim_guard_update ON earmark_claim;
CREATE TRIGGER earmark_claim_guard_update BEFORE UPDATE ON earmark_claim
    FOR EACH ROW EXECUTE FUNCTION earmark_claim_guard_update();

DROP TRIGGER IF EXISTS earmark_claim_guard_delete ON earmark_claim;
CREATE TRIGGER earmark_claim_guard_delete BEFORE DELETE ON earmark_claim
    FOR EACH ROW EXECUTE FUNCTION earmark_claim_guard_delete();
