-- What policies saw when they decided, sealed: of capabilities that keep it, until its time is over.
CREATE TABLE decision_record (
  execution_id TEXT NOT NULL,
  -- Counts the decisions of an execution from 0: one that finds its approval on the way is decided again.
  place BIGINT NOT NULL,
  tenant TEXT NOT NULL,
  capability TEXT NOT NULL,
  policy_hash TEXT NOT NULL,
  decided_at BIGINT NOT NULL,
  sealed TEXT NOT NULL,
  PRIMARY KEY (execution_id, place)
);
CREATE INDEX decision_record_time ON decision_record (decided_at, execution_id, place);
