-- An approval lets one execution begin, whatever its own row says later: the execution remembers. One that never started
-- gave its approval back, and names none any more.
UPDATE execution SET approval_id = NULL
WHERE approval_id IS NOT NULL AND state = 'free'
      AND NOT EXISTS (SELECT 1 FROM approval a WHERE a.consumed_by = execution.id);
CREATE UNIQUE INDEX execution_approval ON execution (approval_id) WHERE approval_id IS NOT NULL;

-- HMAC of a copy under the key of the database: the copy is what this software wrote.
ALTER TABLE policy_set ADD COLUMN seal TEXT;
