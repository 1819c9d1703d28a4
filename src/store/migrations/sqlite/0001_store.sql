-- Time is microseconds since the epoch. JSON is text, so that hashed bytes keep their order.

CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- A process while it holds a lease (EXE-1). `bury_from`: when it may first declare others dead (EXE-2).
CREATE TABLE instance (
  id TEXT PRIMARY KEY,
  lease_us BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  bury_from BIGINT NOT NULL,
  dead BOOLEAN NOT NULL DEFAULT FALSE
) WITHOUT ROWID;
CREATE INDEX instance_alive ON instance (lease_until) WHERE NOT dead;
CREATE INDEX instance_dead ON instance (id) WHERE dead;

-- Executions and idempotency keys are one table: the current row of a slot holds its key (IDM-4).
CREATE TABLE execution (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  capability TEXT NOT NULL,
  requester TEXT NOT NULL,
  slot TEXT,
  fence BIGINT NOT NULL,
  input_hash TEXT NOT NULL,
  given_hash TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'completed', 'failed', 'unknown', 'free')),
  is_current BOOLEAN NOT NULL,
  instance TEXT NOT NULL,
  retake BOOLEAN NOT NULL,
  ttl_us BIGINT NOT NULL,
  approval_id TEXT,
  input TEXT,
  agent TEXT NOT NULL,
  envelope TEXT NOT NULL,
  outcome TEXT,
  started_at BIGINT NOT NULL,
  ended_at BIGINT,
  keep_until BIGINT,
  tries BIGINT NOT NULL DEFAULT 0,
  next_try BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX execution_slot ON execution (slot) WHERE is_current AND slot IS NOT NULL;
CREATE UNIQUE INDEX execution_fence ON execution (slot, fence) WHERE slot IS NOT NULL;
CREATE INDEX execution_open ON execution (instance) WHERE ended_at IS NULL;
CREATE INDEX execution_unknown ON execution (next_try) WHERE state = 'unknown';

CREATE TABLE approval (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  capability TEXT NOT NULL,
  requester TEXT NOT NULL,
  slot TEXT,
  input_hash TEXT NOT NULL,
  given_hash TEXT NOT NULL,
  binding TEXT NOT NULL,
  binding_hash TEXT NOT NULL,
  input TEXT,
  requirements TEXT NOT NULL,
  envelope TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'rejected', 'expired', 'withdrawn', 'consumed')),
  withdrawn_by TEXT,
  version BIGINT NOT NULL,
  filed_at BIGINT NOT NULL,
  -- The end of the log when it was filed: the order of filing, whatever the clock says.
  filed_seq BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  approved_at BIGINT,
  ended_at BIGINT,
  consumed_by TEXT
);
CREATE UNIQUE INDEX approval_open ON approval (slot, input_hash) WHERE slot IS NOT NULL AND state IN ('pending', 'approved');
CREATE INDEX approval_call ON approval (slot, filed_seq) WHERE slot IS NOT NULL;
CREATE INDEX approval_listed ON approval (tenant, filed_seq, id);
CREATE INDEX approval_pending ON approval (tenant, requester, expires_at) WHERE state = 'pending';
CREATE INDEX approval_lapsing ON approval (expires_at) WHERE state IN ('pending', 'approved');
CREATE INDEX approval_consumed ON approval (consumed_by) WHERE consumed_by IS NOT NULL;
CREATE INDEX approval_sealed ON approval (ended_at) WHERE input IS NOT NULL;

CREATE TABLE decision (
  approval_id TEXT NOT NULL REFERENCES approval (id),
  person TEXT NOT NULL,
  place BIGINT NOT NULL,
  approver TEXT NOT NULL,
  type TEXT NOT NULL,
  verdict TEXT NOT NULL,
  via TEXT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (approval_id, person)
) WITHOUT ROWID;

-- What people wrote: erasable, since events hold a salted digest only.
CREATE TABLE comment (
  approval_id TEXT NOT NULL REFERENCES approval (id),
  person TEXT NOT NULL,
  text TEXT NOT NULL,
  salt TEXT NOT NULL,
  PRIMARY KEY (approval_id, person)
) WITHOUT ROWID;

-- The last number given out, and the active policy set: one row, so that appending reads the generation for nothing.
CREATE TABLE audit_head (
  one BIGINT PRIMARY KEY CHECK (one = 1),
  seq BIGINT NOT NULL,
  policy_hash TEXT,
  generation BIGINT NOT NULL
);
INSERT INTO audit_head VALUES (1, 0, NULL, 0);

CREATE TABLE audit_event (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  tenant TEXT NOT NULL,
  execution_id TEXT,
  capability_id TEXT,
  actor_id TEXT,
  type TEXT NOT NULL,
  terminal BOOLEAN NOT NULL,
  at BIGINT NOT NULL,
  body TEXT NOT NULL,
  leaf TEXT NOT NULL
);
CREATE UNIQUE INDEX audit_event_terminal ON audit_event (execution_id) WHERE terminal AND execution_id IS NOT NULL;
CREATE INDEX audit_event_execution ON audit_event (execution_id) WHERE execution_id IS NOT NULL;

CREATE TRIGGER audit_event_no_update BEFORE UPDATE ON audit_event
BEGIN SELECT RAISE(ABORT, 'audit_event is append-only'); END;
CREATE TRIGGER audit_event_no_delete BEFORE DELETE ON audit_event
BEGIN SELECT RAISE(ABORT, 'audit_event is append-only'); END;
CREATE TRIGGER audit_head_forward BEFORE UPDATE ON audit_head
WHEN NEW.seq < OLD.seq OR NEW.generation < OLD.generation
BEGIN SELECT RAISE(ABORT, 'audit_head only grows'); END;
CREATE TRIGGER audit_head_no_delete BEFORE DELETE ON audit_head
BEGIN SELECT RAISE(ABORT, 'audit_head only grows'); END;
