//! Approved requests that a worker runs (APR-8).

use super::Sql;

/// capability, what policies and governance are now, how many, for how long: approved requests for one process -> id,
/// binding, how often it was taken up. Who was refused for good under these is left alone.
pub(crate) const PICK: Sql = Sql {
    columns: "ttii",
    text: "
    UPDATE approval SET picks = picks + 1, pick_at = {now} + (SELECT MAX(v.column4) FROM {rows})
    WHERE id IN (SELECT a.id FROM {rows} CROSS JOIN approval a
                 WHERE a.capability = v.column1 AND a.state = 'approved' AND a.pick_at <= {now} AND a.expires_at > {now}
                       AND COALESCE(a.refused_under, '') <> v.column2
                 ORDER BY a.pick_at, a.id LIMIT (SELECT MAX(v.column3) FROM {rows}))
    RETURNING id, capability, binding, picks",
};

/// approval, how often it was taken up, how long from now no worker takes it up, under what it was refused for good.
pub(crate) const LAY_DOWN: Sql = Sql {
    columns: "tiit",
    text: "
    UPDATE approval SET pick_at = {now} + v.column3, refused_under = v.column4 FROM {rows}
    WHERE approval.id = v.column1 AND approval.picks = v.column2 AND approval.state IN ('pending', 'approved')",
};

/// capability, what policies and governance are now: whether there is anything to pick.
pub(crate) const TO_PICK: Sql = Sql {
    columns: "tt",
    text: "
    SELECT a.id FROM {rows} CROSS JOIN approval a
    WHERE a.capability = v.column1 AND a.state = 'approved' AND a.pick_at <= {now} AND a.expires_at > {now}
          AND COALESCE(a.refused_under, '') <> v.column2
    LIMIT 1",
};
