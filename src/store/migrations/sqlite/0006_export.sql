-- How far the log went out under a name: `seq` is the last event that the other side has, for certain. `sink` says where
-- to, without secrets. `failure`: why the last attempt failed, as a class; nothing is left out, so that all waits for it.
CREATE TABLE export_cursor (
  name TEXT PRIMARY KEY,
  format TEXT NOT NULL,
  sink TEXT NOT NULL,
  seq BIGINT NOT NULL,
  moved_at BIGINT NOT NULL,
  failure TEXT,
  failures BIGINT NOT NULL DEFAULT 0,
  failed_at BIGINT
) WITHOUT ROWID;

CREATE TRIGGER export_cursor_forward BEFORE UPDATE ON export_cursor WHEN NEW.seq < OLD.seq
BEGIN SELECT RAISE(ABORT, 'export_cursor only moves on'); END;
