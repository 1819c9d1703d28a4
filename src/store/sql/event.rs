//! The audit log and its head row, which also names the active policy set.

use super::Sql;

/// How many events follow -> the last number; the generation of the active policy set and the number of the last change of
/// the subscriptions, for nothing. The last lock: after it exactly one statement, then COMMIT.
pub(crate) const HEAD: Sql = Sql {
    columns: "i",
    text: "
    UPDATE audit_head SET seq = seq + v.column1 FROM {rows} WHERE v.column1 IS NOT NULL
    RETURNING audit_head.seq, audit_head.generation, audit_head.subscriptions",
};

/// place before the last of all (0, -1, ..), id, tenant, execution, capability, actor, type, terminal, at, body, leaf:
/// right after [`HEAD`] counted them.
pub(crate) const INSERT_EVENTS: Sql = Sql {
    columns: "ittttttbitt",
    text: "
    INSERT INTO audit_event (seq, id, tenant, execution_id, capability_id, actor_id, type, terminal, at, body, leaf)
    SELECT h.seq + v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9,
           v.column10, v.column11
    FROM audit_head h CROSS JOIN {rows} WHERE v.column1 IS NOT NULL",
};

/// Waits for whoever holds the head row, so that what is read next is the truth about an uncertain COMMIT (EXE-8).
pub(crate) const BEHIND_HEAD: Sql =
    Sql { columns: "", text: "UPDATE audit_head SET seq = seq RETURNING policy_hash, generation" };

/// seq -> the id of the event there.
pub(crate) const EVENT_AT: Sql =
    Sql { columns: "i", text: "SELECT a.id FROM {rows} CROSS JOIN audit_event a WHERE a.seq = v.column1" };

/// execution, event -> the events that are stored.
pub(crate) const EVENTS_KNOWN: Sql = Sql {
    columns: "tt",
    text: "
    SELECT a.execution_id FROM {rows} CROSS JOIN audit_event a
    WHERE a.execution_id = v.column1 AND a.id = v.column2",
};

/// The active set's generation.
pub(crate) const GENERATION: Sql = Sql { columns: "", text: "SELECT generation FROM audit_head" };
