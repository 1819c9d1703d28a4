//! The Merkle tree over the log: its size, tiles, checkpoints and anchors; and what verification reads, as raw as it is.

use super::Sql;

/// size before, size after -> the size after, if it was the size before.
pub(crate) const GROW: Sql = Sql {
    columns: "ii",
    text: "
    UPDATE ledger_head SET size = v.column2 FROM {rows} WHERE ledger_head.size = v.column1
    RETURNING ledger_head.size",
};

/// level, place, width, hashes. Only for who has just grown the tree.
pub(crate) const PUT_TILES: Sql = Sql {
    columns: "iiit",
    text: "
    INSERT INTO ledger_tile (level, place, width, hashes)
    SELECT v.column1, v.column2, v.column3, v.column4 FROM {rows} WHERE v.column1 IS NOT NULL
    ON CONFLICT (level, place) DO UPDATE SET width = excluded.width, hashes = excluded.hashes",
};

/// size, note. The first one of a size stays: signatures are deterministic.
pub(crate) const PUT_CHECKPOINT: Sql = Sql {
    columns: "it",
    text: "
    INSERT INTO ledger_checkpoint (size, note, signed_at)
    SELECT v.column1, v.column2, {now} FROM {rows} WHERE v.column1 IS NOT NULL
    ON CONFLICT (size) DO NOTHING",
};

/// anchor, size.
pub(crate) const PUT_ANCHORED: Sql = Sql {
    columns: "ti",
    text: "
    INSERT INTO ledger_anchor (name, size) SELECT v.column1, v.column2 FROM {rows} WHERE v.column1 IS NOT NULL
    ON CONFLICT (name) DO UPDATE SET size = excluded.size WHERE ledger_anchor.size < excluded.size",
};

/// level, place -> width, hashes.
pub(crate) const TILES: Sql = Sql {
    columns: "ii",
    text: "
    SELECT t.level, t.place, t.width, t.hashes FROM {rows} CROSS JOIN ledger_tile t
    WHERE t.level = v.column1 AND t.place = v.column2",
};

/// How long the log is, and how much of it is in the tree.
pub(crate) const HEADS: &str = "SELECT a.seq, l.size FROM audit_head a CROSS JOIN ledger_head l";

/// How long the log is, how much of it is in the tree, size and time of the last checkpoint, and the time of the first
/// event that it does not cover.
#[cfg(feature = "cli")]
pub(crate) const LOG_STATE: &str = "
    SELECT a.seq, l.size, c.size, c.signed_at, e.at FROM audit_head a CROSS JOIN ledger_head l
    LEFT JOIN ledger_checkpoint c ON c.size = (SELECT MAX(m.size) FROM ledger_checkpoint m)
    LEFT JOIN audit_event e ON e.seq = COALESCE(c.size, 0) + 1";

/// $2 after, $3 how many.
pub(crate) const LEAVES: &str = "SELECT e.seq, e.leaf FROM audit_event e WHERE e.seq > $2 ORDER BY e.seq LIMIT $3";

/// $2 after, $3 how many.
#[cfg(feature = "http")]
pub(crate) const BODIES: &str = "SELECT e.seq, e.body FROM audit_event e WHERE e.seq > $2 ORDER BY e.seq LIMIT $3";

/// $2 after which size, $3 how many.
pub(crate) const CHECKPOINTS: &str =
    "SELECT c.size, c.note FROM ledger_checkpoint c WHERE c.size > $2 ORDER BY c.size LIMIT $3";

/// The largest.
pub(crate) const LAST_CHECKPOINT: &str = "SELECT c.size, c.note FROM ledger_checkpoint c ORDER BY c.size DESC LIMIT 1";

/// $2 anchor.
pub(crate) const ANCHORED: &str = "SELECT n.size FROM ledger_anchor n WHERE n.name = $2";

/// $2 after, $3 how many. Whatever is in a column comes as text; the last one says whether all of it is what it should be.
pub(crate) const EVIDENCE: &str = "
    SELECT e.seq, CAST(e.body AS TEXT) AS body, CAST(e.leaf AS TEXT) AS leaf, CAST(e.id AS TEXT) AS id,
           CAST(e.tenant AS TEXT) AS tenant, CAST(e.execution_id AS TEXT) AS execution,
           CAST(e.capability_id AS TEXT) AS capability, CAST(e.actor_id AS TEXT) AS actor, CAST(e.type AS TEXT) AS kind,
           CASE WHEN e.terminal THEN '1' ELSE '0' END AS terminal, CAST(e.at AS TEXT) AS at,
           CASE WHEN e.body = CAST(e.body AS TEXT) AND e.leaf = CAST(e.leaf AS TEXT) AND e.id = CAST(e.id AS TEXT)
                 AND e.tenant = CAST(e.tenant AS TEXT) AND e.type = CAST(e.type AS TEXT)
                 AND (e.execution_id IS NULL OR e.execution_id = CAST(e.execution_id AS TEXT))
                 AND (e.capability_id IS NULL OR e.capability_id = CAST(e.capability_id AS TEXT))
                 AND (e.actor_id IS NULL OR e.actor_id = CAST(e.actor_id AS TEXT))
                 AND e.at = CAST(e.at AS BIGINT) AND (e.terminal = TRUE OR e.terminal = FALSE)
           THEN '1' ELSE '0' END AS sound
    FROM audit_event e WHERE e.seq > $2 ORDER BY e.seq LIMIT $3";

/// $2 level, $3 from which place, $4 how many.
pub(crate) const EVIDENCE_TILES: &str = "
    SELECT CAST(t.place AS TEXT), CAST(t.hashes AS TEXT) FROM ledger_tile t
    WHERE t.level = $2 AND t.place >= $3 ORDER BY t.place LIMIT $4";

/// $2 after which size, $3 how many.
pub(crate) const EVIDENCE_NOTES: &str = "
    SELECT c.size, CAST(c.note AS TEXT) FROM ledger_checkpoint c WHERE c.size > $2 ORDER BY c.size LIMIT $3";

/// $2 how many: executions with more than one end, each with the place of the last one.
pub(crate) const EVIDENCE_ENDS: &str = "
    SELECT MAX(e.seq) FROM audit_event e WHERE e.terminal AND e.execution_id IS NOT NULL
    GROUP BY e.execution_id HAVING COUNT(*) > 1 ORDER BY 1 LIMIT $2";
