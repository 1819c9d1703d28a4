//! Retention: how far the log may leave the database, what is still needed of it, and the one statement that deletes events.

use super::Sql;

/// The last event that an archive has.
pub(crate) const DETACHED: Sql = Sql { columns: "", text: "SELECT COALESCE(MAX(d.through), 0) FROM detachment d" };

/// after, through, archive, digest.
pub(crate) const DETACH: Sql = Sql {
    columns: "iitt",
    text: "
    INSERT INTO detachment (through, after, archive, digest, at)
    SELECT v.column2, v.column1, v.column3, v.column4, {now} FROM {rows} WHERE v.column1 IS NOT NULL",
};

/// through -> what still needs events up to there: its kind, its name, and the last event that it does not need. Exports
/// that are behind, requests that may still be decided or run, executions whose end is not known, notifications whose
/// text is read from the log.
pub(crate) const NEEDED: Sql = Sql {
    columns: "i",
    text: "
    SELECT 'export', c.name, c.seq FROM {rows} CROSS JOIN export_cursor c WHERE c.seq < v.column1
    UNION ALL
    SELECT 'approval', a.id, a.filed_seq FROM {rows} CROSS JOIN approval a
    WHERE a.state IN ('pending', 'approved') AND a.expires_at > {now} AND a.filed_seq < v.column1
    UNION ALL
    SELECT 'execution', e.id, MIN(n.seq) - 1 FROM {rows} CROSS JOIN execution e JOIN audit_event n ON n.execution_id = e.id
    WHERE (e.ended_at IS NULL OR e.state = 'unknown') AND n.seq <= v.column1 GROUP BY e.id
    UNION ALL
    SELECT 'notification', o.webhook, MIN(n.seq) - 1 FROM {rows} CROSS JOIN outbox o
           JOIN audit_event n ON n.execution_id = o.execution AND n.id = o.event
    WHERE n.seq <= v.column1 GROUP BY o.webhook
    ORDER BY 3, 1, 2 LIMIT 100",
};

/// how many: deletes the oldest events that an archive has. Those of the last 256 that are not all detached stay: others
/// read entries in portions of 256 (C2SP tlog-tiles), and one that has a needed entry must be whole.
pub(crate) const PURGE_EVENTS: Sql = Sql {
    columns: "i",
    text: "
    DELETE FROM audit_event
    WHERE seq IN (SELECT n.seq FROM audit_event n
                  WHERE n.seq <= (SELECT COALESCE(MAX(d.through) - MAX(d.through) % 256, 0) FROM detachment d)
                  ORDER BY n.seq LIMIT (SELECT MAX(v.column1) FROM {rows}))
    RETURNING CAST(seq AS TEXT)",
};

/// The first event that is there.
#[cfg(feature = "cli")]
pub(crate) const FIRST: &str = "SELECT e.seq FROM audit_event e ORDER BY e.seq LIMIT 1";

/// The last event that has left: not there, and an archive has it.
pub(crate) const GONE: &str = "
    SELECT MIN(COALESCE((SELECT MIN(e.seq) - 1 FROM audit_event e), 0),
               COALESCE((SELECT MAX(d.through) FROM detachment d), 0))";

/// Which archive has what: after, through, archive, digest, at.
#[cfg(feature = "cli")]
pub(crate) const DETACHMENTS: &str =
    "SELECT d.after, d.through, d.archive, d.digest, d.at FROM detachment d ORDER BY d.through";

/// $2 size: the largest checkpoint of at most so many events.
#[cfg(feature = "cli")]
pub(crate) const CHECKPOINT_UP_TO: &str =
    "SELECT c.size, c.note FROM ledger_checkpoint c WHERE c.size <= $2 ORDER BY c.size DESC LIMIT 1";

/// The last event that says how far the log was detached.
pub(crate) const EVIDENCE_DETACHED: &str = "
    SELECT e.seq, CAST(e.body AS TEXT) FROM audit_event e WHERE e.type = 'audit.detached' ORDER BY e.seq DESC LIMIT 1";
