-- Optional: refuses illegal moves of a claim typed by hand. Earmark itself makes none; the guard costs every settle a
-- trigger call, so it is off unless asked for. May be run again. The crate sends it as it stands; the mysql client
-- cuts at each semicolon, so tell it where a trigger ends (the outer statements below end at a line's end alone):
--     (echo 'DELIMITER //'; sed 's/^END;$/END\/\//; s/^DROP \(.*\);$/DROP \1\/\//' guard.sql) | mysql <database>
-- It needs the TRIGGER privilege and, where the binary log is on, log_bin_trust_function_creators = 1 or SUPER.
-- To take it away: DROP TRIGGER earmark_claim_guard_update; DROP TRIGGER earmark_claim_guard_delete;
-- TRUNCATE fires no trigger: withhold that privilege (DROP).

DROP TRIGGER IF EXISTS earmark_claim_guard_update;

CREATE TRIGGER earmark_claim_guard_update BEFORE UPDATE ON earmark_claim FOR EACH ROW
BEGIN
    -- SIGNAL takes no expression.
    DECLARE refusal VARCHAR(128) CHARACTER SET utf8mb4;
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
        SET refusal = CONCAT('earmark_claim_guard: ', OLD.state, ' to ', NEW.state, ' is not a legal move');
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END IF;
    -- An abandoned claim that carries doubt may have happened: it goes to a person first.
    IF OLD.state = 'abandoned' AND NEW.state = 'retryable' AND OLD.doubt THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'earmark_claim_guard: abandoned to retryable is not a legal move of a claim in doubt';
    END IF;
    IF NEW.fence < OLD.fence THEN
        SET refusal = CONCAT('earmark_claim_guard: fence must not shrink (', OLD.fence, ' to ', NEW.fence, ')');
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END IF;
    IF NEW.revision < OLD.revision THEN
        SET refusal =
            CONCAT('earmark_claim_guard: revision must not shrink (', OLD.revision, ' to ', NEW.revision, ')');
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END IF;
    -- What is open needs its request and its history; and what was purged does not come back.
    IF OLD.purged_at IS NULL AND NEW.purged_at IS NOT NULL AND NEW.state NOT IN ('confirmed', 'abandoned') THEN
        SET refusal = CONCAT('earmark_claim_guard: an open claim (', NEW.state, ') must not be purged');
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END IF;
    IF OLD.purged_at IS NOT NULL AND NEW.purged_at IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'earmark_claim_guard: a purged claim stays a tombstone';
    END IF;
END;

DROP TRIGGER IF EXISTS earmark_claim_guard_delete;

CREATE TRIGGER earmark_claim_guard_delete BEFORE DELETE ON earmark_claim FOR EACH ROW
BEGIN
    DECLARE refusal VARCHAR(128) CHARACTER SET utf8mb4;
    -- A row that is gone lets a redelivered message act again.
    IF OLD.state NOT IN ('confirmed', 'abandoned') THEN
        SET refusal = CONCAT('earmark_claim_guard: an open claim (', OLD.state, ') must not be deleted');
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END IF;
END;
