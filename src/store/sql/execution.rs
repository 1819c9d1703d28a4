//! Executions, the keys they hold, and the processes that own them.

use super::{Sql, lapsed};

/// id, tenant, capability, requester, slot, input hash, given hash, instance, retake, ttl, approval, input, agent,
/// envelope. The unique index on `slot` decides who holds a key (IDM-4), that on the approval who may use it (APR-10);
/// whoever lost is missing from the answer, and so is an operation of an instance that was declared dead. No conflict target: on PostgreSQL one would let a second
/// unique index over the same rows raise an error instead.
pub(crate) const CLAIM: Sql = Sql {
    columns: "ttttttttbitttt",
    text: "
    INSERT INTO execution (id, tenant, capability, requester, slot, fence, input_hash, given_hash, state, is_current,
                           instance, retake, ttl_us, approval_id, input, agent, envelope, started_at)
    SELECT v.column1, v.column2, v.column3, v.column4, v.column5,
           1 + COALESCE((SELECT MAX(e.fence) FROM execution e WHERE e.slot = v.column5), 0), v.column6, v.column7,
           'running', TRUE, v.column8, v.column9, v.column10, v.column11, v.column12, v.column13, v.column14, {now}
    FROM {rows} WHERE EXISTS (SELECT 1 FROM instance i WHERE i.id = v.column8 AND NOT i.dead)
    ON CONFLICT DO NOTHING RETURNING id, fence",
};

/// approval -> the execution that began with it, whatever the approval's own row says (APR-10).
pub(crate) const BEGUN_WITH: Sql = Sql {
    columns: "t",
    text: "
    SELECT e.approval_id, e.id FROM {rows} CROSS JOIN execution e WHERE e.approval_id = v.column1",
};

/// execution: one that gave its approval back does not name it any more.
pub(crate) const FORGET_APPROVAL: Sql = Sql {
    columns: "t",
    text: "
    UPDATE execution SET approval_id = NULL
    FROM {rows} WHERE execution.id = v.column1 AND execution.approval_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM approval a WHERE a.consumed_by = execution.id)",
};

/// slot -> its current row: id, instance, whether it gives way (freed, or settled and past its time: IDM-6), whether
/// it may be taken over.
pub(crate) const HOLDERS: Sql = Sql {
    columns: "t",
    text: concat!(
        "
    SELECT e.slot, e.id, e.instance,
           e.state = 'free' OR (e.state IN ('completed', 'failed') AND COALESCE(e.keep_until, 0) <= {now}),
           e.state = 'running' AND e.retake AND ",
        lapsed!(),
        "
    FROM {rows} CROSS JOIN execution e LEFT JOIN instance i ON i.id = e.instance
    WHERE e.slot = v.column1 AND e.is_current"
    ),
};

/// execution: a holder that gives way stops being the current row; what it answered goes with it.
pub(crate) const SUPERSEDE: Sql = Sql {
    columns: "t",
    text: "
    UPDATE execution SET is_current = FALSE, outcome = NULL FROM {rows}
    WHERE execution.id = v.column1 AND execution.is_current AND (execution.state = 'free'
          OR (execution.state IN ('completed', 'failed') AND COALESCE(execution.keep_until, 0) <= {now}))
    RETURNING execution.slot",
};

/// execution: takes back claims of operations whose approval was refused. The fence stays in the predecessor's row.
pub(crate) const UNCLAIM: Sql =
    Sql { columns: "t", text: "DELETE FROM execution WHERE id IN (SELECT v.column1 FROM {rows}) RETURNING id" };

/// instance, lease length, and how long it waits before it declares others dead.
pub(crate) const ENROL: Sql = Sql {
    columns: "tii",
    text: "
    INSERT INTO instance (id, lease_us, lease_until, bury_from)
    SELECT v.column1, v.column2, {now} + v.column2, {now} + v.column3 FROM {rows} WHERE v.column1 IS NOT NULL
    ON CONFLICT DO NOTHING RETURNING id",
};

/// instance. Lapsed is not dead: a renewal before the burial wins, but whoever is late waits one full lease before it
/// declares others dead (EXE-2).
pub(crate) const RENEW: Sql = Sql {
    columns: "t",
    text: concat!(
        "
    UPDATE instance AS i SET lease_until = {now} + i.lease_us, bury_from = CASE WHEN ",
        lapsed!(),
        " THEN {now} + i.lease_us ELSE i.bury_from END
    FROM {rows} WHERE i.id = v.column1 AND NOT i.dead RETURNING id"
    ),
};

/// victim (NULL: whoever lapsed), own instance: only somebody whose own renewals are on time declares others dead
/// (EXE-2). The row's lock makes this and a renewal exclude each other.
pub(crate) const BURY: Sql = Sql {
    columns: "tt",
    text: concat!(
        "
    UPDATE instance AS i SET dead = TRUE FROM {rows}
    WHERE NOT i.dead AND (v.column1 IS NULL OR i.id = v.column1) AND ",
        lapsed!(),
        " AND EXISTS (SELECT 1 FROM instance o WHERE o.id = v.column2 AND NOT o.dead AND o.lease_until > {now}
                      AND o.lease_until <= {now} + o.lease_us AND o.bury_from <= {now})
    RETURNING id"
    ),
};

/// execution of a dead instance, that somebody is waiting for.
pub(crate) const END_OF_DEAD: Sql = Sql {
    columns: "t",
    text: "
    UPDATE execution SET ended_at = {now}, state = CASE WHEN retake THEN 'free' ELSE 'unknown' END,
                         input = CASE WHEN retake THEN NULL ELSE input END
    FROM {rows} WHERE execution.id = v.column1 AND execution.ended_at IS NULL
          AND NOT EXISTS (SELECT 1 FROM instance i WHERE i.id = execution.instance AND NOT i.dead)
    RETURNING execution.id, execution.envelope, execution.state",
};

/// Ends executions of the dead, so many at a time.
pub(crate) const SWEEP: Sql = Sql {
    columns: "",
    text: "
    UPDATE execution SET ended_at = {now}, state = CASE WHEN retake THEN 'free' ELSE 'unknown' END,
                         input = CASE WHEN retake THEN NULL ELSE input END
    WHERE ended_at IS NULL
          AND id IN (SELECT e.id FROM instance i CROSS JOIN execution e
                     WHERE e.instance = i.id AND i.dead AND e.ended_at IS NULL ORDER BY e.id LIMIT 256)
    RETURNING id, envelope, state",
};

/// Forgets the dead whose executions have all ended.
pub(crate) const PURGE: Sql = Sql {
    columns: "",
    text: "
    DELETE FROM instance WHERE dead
           AND NOT EXISTS (SELECT 1 FROM execution e WHERE e.instance = instance.id AND e.ended_at IS NULL)
    RETURNING id",
};

/// instance: leaves in good order.
pub(crate) const RETIRE: Sql = Sql {
    columns: "t",
    text: "
    DELETE FROM instance WHERE id IN (SELECT v.column1 FROM {rows})
           AND NOT EXISTS (SELECT 1 FROM execution e WHERE e.instance = instance.id AND e.ended_at IS NULL)
    RETURNING id",
};

/// execution, state, outcome: the only licence for a terminal event (EXE-3). The input goes, unless the outcome is
/// unknown (EXE-6).
pub(crate) const FINISH: Sql = Sql {
    columns: "ttt",
    text: "
    UPDATE execution SET ended_at = {now}, state = v.column2, outcome = v.column3, keep_until = {now} + ttl_us,
                         input = CASE WHEN v.column2 = 'unknown' THEN input END
    FROM {rows} WHERE execution.id = v.column1 AND execution.ended_at IS NULL RETURNING execution.id",
};

/// execution, state, outcome, whether its owner says so: settles an unknown outcome. That nothing happened is taken
/// from the owner only, while its lease is valid (EXE-7).
pub(crate) const RECONCILE: Sql = Sql {
    columns: "tttb",
    text: concat!(
        "
    UPDATE execution SET state = v.column2, outcome = v.column3, keep_until = {now} + ttl_us, input = NULL
    FROM {rows} WHERE execution.id = v.column1 AND execution.state = 'unknown' AND (v.column2 <> 'free' OR v.column4
          OR NOT EXISTS (SELECT 1 FROM instance i WHERE i.id = execution.instance AND NOT ",
        lapsed!(),
        "))
    RETURNING execution.id"
    ),
};

/// execution -> its instance, state and envelope.
pub(crate) const EXECUTION_STATES: Sql = Sql {
    columns: "t",
    text: "
    SELECT e.id, e.instance, e.state, e.envelope FROM {rows} CROSS JOIN execution e WHERE e.id = v.column1",
};

/// capability, how many: unknown executions whose hook may be asked now. Each asking puts the next one off, from 5 s
/// doubling to 1 h (EXE-7).
pub(crate) const CLAIM_UNKNOWN: Sql = Sql {
    columns: "ti",
    text: "
    UPDATE execution SET tries = tries + 1, next_try = {now}
           + CASE WHEN tries > 9 THEN 3600000000 ELSE CAST(5000000 AS BIGINT) * (1 << CAST(tries AS INTEGER)) END
    WHERE id IN (SELECT e.id FROM execution e WHERE e.state = 'unknown' AND e.next_try <= {now}
                 AND e.capability IN (SELECT v.column1 FROM {rows})
                 ORDER BY e.next_try, e.id LIMIT (SELECT MAX(v.column2) FROM {rows}))
    RETURNING id",
};

/// $2 state, $3 the last one that was shown, $4 how many: what [`crate::store::record::ExecutionRow`] holds, the latest
/// first, without the inputs. One whose owner is gone is unknown already.
#[cfg(feature = "cli")]
pub(crate) const EXECUTIONS_LATEST: &str = concat!(
    "
    SELECT e.id, e.tenant, e.capability, e.requester, e.slot, e.state, NOT ",
    lapsed!(),
    " AS lease_valid, e.approval_id, CAST(NULL AS TEXT) AS input, e.agent, e.envelope, e.started_at, e.ended_at, e.tries
    FROM execution e LEFT JOIN instance i ON i.id = e.instance
    WHERE (CAST($2 AS TEXT) IS NULL OR $2 = CASE WHEN e.state = 'running' AND ",
    lapsed!(),
    " THEN 'unknown' ELSE e.state END)
          AND (CAST($3 AS TEXT) IS NULL
               OR (e.started_at, e.id) < (SELECT p.started_at, p.id FROM execution p WHERE p.id = $3))
    ORDER BY e.started_at DESC, e.id DESC LIMIT $4"
);

/// execution -> what [`crate::store::record::ExecutionRow`] holds.
pub(crate) const EXECUTIONS: Sql = Sql {
    columns: "t",
    text: concat!(
        "
    SELECT e.id, e.tenant, e.capability, e.requester, e.slot, e.state, NOT ",
        lapsed!(),
        " AS lease_valid, e.approval_id, e.input, e.agent, e.envelope, e.started_at, e.ended_at, e.tries
    FROM {rows} CROSS JOIN execution e LEFT JOIN instance i ON i.id = e.instance WHERE e.id = v.column1"
    ),
};
