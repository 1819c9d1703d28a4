//! What policies saw when they decided, sealed.

use super::Sql;

/// execution, place, tenant, capability, policy hash, when it was decided, sealed.
pub(crate) const INSERT_SEEN: Sql = Sql {
    columns: "titttit",
    text: "
    INSERT INTO decision_record (execution_id, place, tenant, capability, policy_hash, decided_at, sealed)
    SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, v.column7
    FROM {rows} WHERE v.column1 IS NOT NULL ON CONFLICT DO NOTHING",
};

/// how long they are kept: erases what is older, so many at a time.
pub(crate) const ERASE_SEEN: Sql = Sql {
    columns: "i",
    text: "
    DELETE FROM decision_record
    WHERE (execution_id, place) IN (SELECT d.execution_id, d.place FROM {rows} CROSS JOIN decision_record d
                                    WHERE d.decided_at <= {now} - v.column1 ORDER BY d.decided_at LIMIT 256)
    RETURNING execution_id",
};

/// $2 since, $3 to $5 the time, execution and place of the last one that was shown, $6 how many: in the order of time.
pub(crate) const SEEN: &str = "
    SELECT d.execution_id, d.place, d.tenant, d.capability, d.policy_hash, d.decided_at, d.sealed FROM decision_record d
    WHERE d.decided_at >= $2 AND (d.decided_at, d.execution_id, d.place) > ($3, $4, $5)
    ORDER BY d.decided_at, d.execution_id, d.place LIMIT $6";

/// execution -> its decisions, in order.
#[cfg(feature = "cli")]
pub(crate) const SEEN_OF: Sql = Sql {
    columns: "t",
    text: "
    SELECT d.execution_id, d.place, d.tenant, d.capability, d.policy_hash, d.decided_at, d.sealed
    FROM {rows} CROSS JOIN decision_record d WHERE d.execution_id = v.column1 ORDER BY d.place",
};
