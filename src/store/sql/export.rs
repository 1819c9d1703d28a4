//! What leaves: events with their hashes, how far each export is, and comments that are to be erased.

use super::Sql;

/// name, format, sink, the last event that counts as exported. One that is there stays as it is.
pub(crate) const PUT_CURSOR: Sql = Sql {
    columns: "ttti",
    text: "
    INSERT INTO export_cursor (name, format, sink, seq, moved_at)
    SELECT v.column1, v.column2, v.column3, v.column4, {now} FROM {rows} WHERE v.column1 IS NOT NULL
    ON CONFLICT (name) DO NOTHING",
};

/// name, from, to, sink -> name, if it was there.
pub(crate) const MOVE_CURSOR: Sql = Sql {
    columns: "tiit",
    text: "
    UPDATE export_cursor SET seq = v.column3, sink = v.column4, moved_at = {now}, failure = NULL, failures = 0,
                             failed_at = NULL
    FROM {rows} WHERE export_cursor.name = v.column1 AND export_cursor.seq = v.column2
    RETURNING export_cursor.name",
};

/// name, from, why -> name, if it still is there.
pub(crate) const STOP_CURSOR: Sql = Sql {
    columns: "tit",
    text: "
    UPDATE export_cursor SET failure = v.column3, failures = failures + 1, failed_at = {now}
    FROM {rows} WHERE export_cursor.name = v.column1 AND export_cursor.seq = v.column2
    RETURNING export_cursor.name",
};

/// name -> name.
pub(crate) const DROP_CURSOR: Sql =
    Sql { columns: "t", text: "DELETE FROM export_cursor WHERE name IN (SELECT v.column1 FROM {rows}) RETURNING name" };

/// approval, person -> the approval whose comment is gone.
pub(crate) const ERASE_COMMENTS: Sql = Sql {
    columns: "tt",
    text: "
    DELETE FROM comment WHERE (approval_id, person) IN (SELECT v.column1, v.column2 FROM {rows})
    RETURNING approval_id",
};

/// approval -> its id and envelope.
pub(crate) const ENVELOPES: Sql =
    Sql { columns: "t", text: "SELECT a.id, a.envelope FROM {rows} CROSS JOIN approval a WHERE a.id = v.column1" };

/// $2 after, $3 up to, $4 how many.
#[cfg(feature = "cli")]
pub(crate) const EXPORTED: &str = "
    SELECT e.seq, e.body, e.leaf FROM audit_event e WHERE e.seq > $2 AND e.seq <= $3 ORDER BY e.seq LIMIT $4";

/// $2 time: the place before the first event from then on, which is that of the last one if there is none.
#[cfg(feature = "cli")]
pub(crate) const BEFORE_FIRST_FROM: &str = "
    SELECT COALESCE((SELECT MIN(e.seq) - 1 FROM audit_event e WHERE e.at >= $2), a.seq) FROM audit_head a";

/// $2 time: the place of the last event before it; 0 if there is none.
#[cfg(feature = "cli")]
pub(crate) const LAST_BEFORE: &str = "SELECT COALESCE(MAX(e.seq), 0) FROM audit_event e WHERE e.at < $2";

/// $2 name, or all.
#[cfg(feature = "cli")]
pub(crate) const CURSORS: &str = "
    SELECT c.name, c.format, c.sink, c.seq, c.moved_at, c.failure, c.failures, c.failed_at FROM export_cursor c
    WHERE CAST($2 AS TEXT) IS NULL OR c.name = $2 ORDER BY c.name";

/// $2 approval, or all; $3 and $4 behind which approval and person; $5 how many.
#[cfg(feature = "cli")]
pub(crate) const COMMENTS: &str = "
    SELECT c.approval_id, c.person FROM comment c
    WHERE (CAST($2 AS TEXT) IS NULL OR c.approval_id = $2) AND (c.approval_id, c.person) > ($3, $4)
    ORDER BY c.approval_id, c.person LIMIT $5";
