-- The Merkle tree over the events (RFC 6962, section 2.1): how many of them are in it. Conditional on this row one process
-- at a time lets it grow.
CREATE TABLE ledger_head (one BIGINT PRIMARY KEY CHECK (one = 1), size BIGINT NOT NULL);
INSERT INTO ledger_head VALUES (1, 0);

-- Its hashes, as tiles of up to 256 consecutive ones (C2SP tlog-tiles): at level 0 the leaves, at every other level the
-- roots of full tiles one level below. Lower-case hexadecimal, 64 digits a hash, as in `audit_event.leaf`.
CREATE TABLE ledger_tile (
  level BIGINT NOT NULL,
  place BIGINT NOT NULL,
  width BIGINT NOT NULL,
  hashes TEXT NOT NULL,
  PRIMARY KEY (level, place)
);

-- Signed notes (C2SP tlog-checkpoint).
CREATE TABLE ledger_checkpoint (size INTEGER PRIMARY KEY, note TEXT NOT NULL, signed_at BIGINT NOT NULL);

-- The size of the last checkpoint that each anchor has.
CREATE TABLE ledger_anchor (name TEXT PRIMARY KEY, size BIGINT NOT NULL) WITHOUT ROWID;

CREATE TRIGGER ledger_head_forward BEFORE UPDATE ON ledger_head WHEN NEW.size < OLD.size
BEGIN SELECT RAISE(ABORT, 'ledger_head only grows'); END;
CREATE TRIGGER ledger_head_no_delete BEFORE DELETE ON ledger_head
BEGIN SELECT RAISE(ABORT, 'ledger_head only grows'); END;
CREATE TRIGGER ledger_tile_grows BEFORE UPDATE ON ledger_tile
WHEN NEW.level <> OLD.level OR NEW.place <> OLD.place OR NEW.width < OLD.width
     OR SUBSTR(NEW.hashes, 1, LENGTH(OLD.hashes)) <> OLD.hashes
BEGIN SELECT RAISE(ABORT, 'ledger_tile only grows'); END;
CREATE TRIGGER ledger_tile_no_delete BEFORE DELETE ON ledger_tile
BEGIN SELECT RAISE(ABORT, 'ledger_tile only grows'); END;
CREATE TRIGGER ledger_checkpoint_no_update BEFORE UPDATE ON ledger_checkpoint
BEGIN SELECT RAISE(ABORT, 'ledger_checkpoint is append-only'); END;
CREATE TRIGGER ledger_checkpoint_no_delete BEFORE DELETE ON ledger_checkpoint
BEGIN SELECT RAISE(ABORT, 'ledger_checkpoint is append-only'); END;
