-- Parts of the log that may leave the database, since an archive has them: each goes on from the one before and ends with a
-- signed checkpoint. `archive` is where they went, as whoever took them there calls it; `digest` is the SHA-256 of that
-- file as it was then. What stays of such events is their hashes, in the tree.
CREATE TABLE detachment (
  through INTEGER PRIMARY KEY,
  after BIGINT NOT NULL,
  archive TEXT NOT NULL,
  digest TEXT NOT NULL,
  at BIGINT NOT NULL
);
CREATE TRIGGER detachment_forward BEFORE INSERT ON detachment
WHEN NEW.after <> (SELECT COALESCE(MAX(d.through), 0) FROM detachment d) OR NEW.through <= NEW.after
     OR NOT EXISTS (SELECT 1 FROM ledger_checkpoint c WHERE c.size = NEW.through)
BEGIN SELECT RAISE(ABORT, 'detachment goes on from the last one to a checkpoint'); END;
CREATE TRIGGER detachment_no_update BEFORE UPDATE ON detachment
BEGIN SELECT RAISE(ABORT, 'detachment is append-only'); END;
CREATE TRIGGER detachment_no_delete BEFORE DELETE ON detachment
BEGIN SELECT RAISE(ABORT, 'detachment is append-only'); END;

-- The only events that may go are those.
DROP TRIGGER audit_event_no_delete;
CREATE TRIGGER audit_event_no_delete BEFORE DELETE ON audit_event
WHEN OLD.seq > (SELECT COALESCE(MAX(d.through), 0) FROM detachment d)
BEGIN SELECT RAISE(ABORT, 'audit_event is append-only'); END;

-- Verification asks for the last event that says how far the log was detached.
CREATE INDEX audit_event_detached ON audit_event (seq) WHERE type = 'audit.detached';
