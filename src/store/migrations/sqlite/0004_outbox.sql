-- Who is told of what, as the process said that was configured last. `address`: a digest of the URL, to see that it is
-- another one. `disabled`: the receiver said that it is gone.
CREATE TABLE webhook (name TEXT PRIMARY KEY, address TEXT NOT NULL, disabled BOOLEAN NOT NULL DEFAULT FALSE) WITHOUT ROWID;

-- `tenant`: empty for all of them.
CREATE TABLE subscription (
  topic TEXT NOT NULL,
  tenant TEXT NOT NULL,
  webhook TEXT NOT NULL REFERENCES webhook (name) ON DELETE CASCADE,
  PRIMARY KEY (topic, tenant, webhook)
) WITHOUT ROWID;

-- Counts the changes of the two: whoever writes events sees with the head row whether it knows them.
ALTER TABLE audit_head ADD COLUMN subscriptions BIGINT NOT NULL DEFAULT 0;

-- What is still to be told: written in the transaction of the event that it tells of, gone when it was taken. What it
-- says is read from the record. `next_at`: when it is due, or until when a process has claimed it.
CREATE TABLE outbox (
  event TEXT NOT NULL,
  webhook TEXT NOT NULL,
  topic TEXT NOT NULL,
  tenant TEXT NOT NULL,
  execution TEXT,
  approval TEXT,
  created_at BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('due', 'dead')),
  attempts BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  failure TEXT,
  PRIMARY KEY (event, webhook)
) WITHOUT ROWID;
CREATE INDEX outbox_due ON outbox (webhook, next_at, event) WHERE state = 'due';
CREATE INDEX outbox_dead ON outbox (created_at) WHERE state = 'dead';

-- Whether others were told that it is about to expire.
ALTER TABLE approval ADD COLUMN warned BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX approval_expiring ON approval (expires_at) WHERE state IN ('pending', 'approved') AND NOT warned;

-- What a worker knows of an approved request (APR-8): how often one took it up, when one may next, and under which
-- policies and governance it was refused for good.
ALTER TABLE approval ADD COLUMN picks BIGINT NOT NULL DEFAULT 0;
ALTER TABLE approval ADD COLUMN pick_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE approval ADD COLUMN refused_under TEXT;
CREATE INDEX approval_to_run ON approval (capability, pick_at) WHERE state = 'approved';
