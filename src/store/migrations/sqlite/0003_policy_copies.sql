-- Copies of the policy sets that were active: the active row decides, and what it names is here for every process.
-- `said`: a digest of what the files say, whatever the capabilities. `generation`: under which it was active last.
CREATE TABLE policy_set (hash TEXT PRIMARY KEY, said TEXT NOT NULL, generation BIGINT NOT NULL) WITHOUT ROWID;

CREATE TABLE policy_file (
  hash TEXT NOT NULL REFERENCES policy_set (hash) ON DELETE CASCADE,
  name TEXT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (hash, name)
);

-- The history of the active set is read from the log, however long that is.
CREATE INDEX audit_event_policy ON audit_event (seq) WHERE type = 'policy.loaded';
