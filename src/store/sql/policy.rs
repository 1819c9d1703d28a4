//! The active policy set and the copies of those that were. Whoever writes holds the head row's lock already.

use super::Sql;

/// hash: another set is active from here on.
pub(crate) const ACTIVATE: Sql = Sql {
    columns: "t",
    text: "
    UPDATE audit_head SET policy_hash = v.column1, generation = generation + 1 FROM {rows}
    WHERE v.column1 IS NOT NULL RETURNING audit_head.generation",
};

/// What files were last proposed, by the digest of what they say.
pub(crate) const PROPOSAL: Sql =
    Sql { columns: "", text: "SELECT s.value FROM setting s WHERE s.name = 'policy_proposal'" };

/// said: these were proposed now.
pub(crate) const PROPOSE: Sql = Sql {
    columns: "t",
    text: "
    INSERT INTO setting (name, value) SELECT 'policy_proposal', v.column1 FROM {rows} WHERE v.column1 IS NOT NULL
    ON CONFLICT (name) DO UPDATE SET value = excluded.value",
};

/// hash -> what the copy's files say.
pub(crate) const COPY_SAYS: Sql =
    Sql { columns: "t", text: "SELECT p.said FROM {rows} CROSS JOIN policy_set p WHERE p.hash = v.column1" };

/// hash, said, generation, seal.
pub(crate) const INSERT_COPY: Sql = Sql {
    columns: "ttit",
    text: "
    INSERT INTO policy_set (hash, said, generation, seal)
    SELECT v.column1, v.column2, v.column3, v.column4 FROM {rows} WHERE v.column1 IS NOT NULL",
};

/// hash, name, text.
pub(crate) const INSERT_COPIED: Sql = Sql {
    columns: "ttt",
    text: "
    INSERT INTO policy_file (hash, name, text)
    SELECT v.column1, v.column2, v.column3 FROM {rows} WHERE v.column1 IS NOT NULL",
};

/// hash, generation: it is active again.
pub(crate) const RENEW_COPY: Sql = Sql {
    columns: "ti",
    text: "UPDATE policy_set SET generation = v.column2 FROM {rows} WHERE policy_set.hash = v.column1",
};

/// All but the last hundred.
pub(crate) const DROP_COPIES: Sql = Sql {
    columns: "",
    text: "
    DELETE FROM policy_set WHERE hash NOT IN (SELECT p.hash FROM policy_set p ORDER BY p.generation DESC LIMIT 100)",
};
