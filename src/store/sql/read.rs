//! What readers ask. `$1` is the store's clock; single values follow from `$2` on.

use super::{Sql, lapsed};

macro_rules! approvals {
    ($input:literal, $($rest:literal),+) => {
        concat!(
            "
    SELECT a.id, a.tenant, a.capability, a.requester, a.slot, a.input_hash, a.binding, a.binding_hash, ",
            $input,
            " AS input, a.requirements, a.envelope, a.withdrawn_by, a.expires_at, a.approved_at, a.consumed_by,
           CASE WHEN a.state IN ('pending', 'approved') AND a.expires_at <= {now} THEN 'expired' ELSE a.state END AS state,
           CASE WHEN a.state IN ('pending', 'approved') AND a.expires_at <= {now} THEN a.expires_at ELSE a.ended_at END
           AS ended_at
    FROM approval a WHERE ",
            $($rest),+
        )
    };
}

macro_rules! events {
    ($($rest:literal),+) => {
        concat!(
            "
    SELECT e.seq, e.body FROM audit_event e WHERE e.seq > $2 AND (CAST($4 AS TEXT) IS NULL OR e.tenant = $4)
           AND (CAST($5 AS TEXT) IS NULL OR e.capability_id = $5) AND (CAST($6 AS TEXT) IS NULL OR e.actor_id = $6)
           AND (CAST($7 AS TEXT) IS NULL OR e.type = $7) AND e.at >= $8 AND e.at < $9 AND e.seq <= $11 AND ",
            $($rest),+
        )
    };
}

/// $2 approval.
pub(crate) const APPROVAL: &str = approvals!("a.input", "a.id = $2");

/// $2 slot, $3 input hash, $4 given hash: the latest request for that call.
pub(crate) const APPROVAL_OF_CALL: &str = approvals!(
    "a.input",
    "a.slot = $2 AND (a.input_hash = $3 OR a.given_hash = $4)
    ORDER BY a.filed_seq DESC LIMIT 1"
);

/// $2 tenant, $3 state, $4 requester, $5 the last one that was shown, $6 how many: in the order of filing. Without
/// their inputs, which are large.
pub(crate) const APPROVALS: &str = approvals!(
    "CAST(NULL AS TEXT)",
    "a.tenant = $2 AND (CAST($3 AS TEXT) IS NULL
          OR $3 = CASE WHEN a.state IN ('pending', 'approved') AND a.expires_at <= {now} THEN 'expired' ELSE a.state END)
          AND (CAST($4 AS TEXT) IS NULL OR a.requester = $4)
          AND (CAST($5 AS TEXT) IS NULL
               OR (a.filed_seq, a.id) > (SELECT p.filed_seq, p.id FROM approval p WHERE p.id = $5))
    ORDER BY a.filed_seq, a.id LIMIT $6"
);

/// $2 state, $3 the last one that was shown, $4 how many: of all tenants, the latest first. Without their inputs.
#[cfg(feature = "cli")]
pub(crate) const APPROVALS_LATEST: &str = approvals!(
    "CAST(NULL AS TEXT)",
    "(CAST($2 AS TEXT) IS NULL
          OR $2 = CASE WHEN a.state IN ('pending', 'approved') AND a.expires_at <= {now} THEN 'expired' ELSE a.state END)
          AND (CAST($3 AS TEXT) IS NULL
               OR (a.filed_seq, a.id) < (SELECT p.filed_seq, p.id FROM approval p WHERE p.id = $3))
    ORDER BY a.filed_seq DESC, a.id DESC LIMIT $4"
);

/// approval -> its decisions, in order.
pub(crate) const DECISIONS_OF: Sql = Sql {
    columns: "t",
    text: "
    SELECT d.approval_id, d.approver, d.type, d.verdict, d.via, d.at FROM {rows} CROSS JOIN decision d
    WHERE d.approval_id = v.column1 ORDER BY d.approval_id, d.place",
};

/// $2 slot: who holds it. A freed one, or a settled one past its time, is no holder (IDM-6).
pub(crate) const HOLDER: &str = concat!(
    "
    SELECT e.id, e.state, e.retake, ",
    lapsed!(),
    ", e.input_hash, e.given_hash, e.outcome
    FROM execution e LEFT JOIN instance i ON i.id = e.instance
    WHERE e.slot = $2 AND e.is_current AND e.state <> 'free'
          AND NOT (e.state IN ('completed', 'failed') AND COALESCE(e.keep_until, 0) <= {now})"
);

/// $2 after, $3 unused, $4 tenant, $5 capability, $6 actor, $7 type, $8 from, $9 before, $10 how many, $11 up to.
pub(crate) const EVENTS_FIRST: &str = events!("CAST($3 AS TEXT) IS NULL ORDER BY e.seq LIMIT $10");
pub(crate) const EVENTS_LAST: &str = events!("CAST($3 AS TEXT) IS NULL ORDER BY e.seq DESC LIMIT $10");

/// The same, with $3 the execution.
pub(crate) const EVENTS_OF_FIRST: &str = events!("e.execution_id = $3 ORDER BY e.seq LIMIT $10");
pub(crate) const EVENTS_OF_LAST: &str = events!("e.execution_id = $3 ORDER BY e.seq DESC LIMIT $10");

/// The same, of events that approvals are about. One that is consumed is told by what begins.
pub(crate) const EVENTS_OF_APPROVALS: &str = events!(
    "CAST($3 AS TEXT) IS NULL AND e.type IN ('capability.approval_requested', 'capability.approved', 'capability.rejected',
           'capability.approval_withdrawn', 'capability.approval_expired', 'capability.started')
    ORDER BY e.seq LIMIT $10"
);

/// Pending requests by capability: how many, and when the oldest was filed.
pub(crate) const PENDING: &str = "
    SELECT a.capability, COUNT(*), MIN(a.filed_at) FROM approval a WHERE a.state = 'pending' AND a.expires_at > {now}
    GROUP BY a.capability ORDER BY a.capability";

/// Executions of which nobody knows whether they happened, by capability.
pub(crate) const UNKNOWN: &str = "
    SELECT e.capability, COUNT(*) FROM execution e WHERE e.state = 'unknown' GROUP BY e.capability ORDER BY e.capability";

/// The active policy set.
pub(crate) const ACTIVE: &str = "SELECT policy_hash, generation FROM audit_head WHERE policy_hash IS NOT NULL";

/// $2 hash: what its files say, its seal, and its files by name; one row without a file for a set that has none.
pub(crate) const COPY: &str = "
    SELECT p.said, p.seal, f.name, f.text FROM policy_set p LEFT JOIN policy_file f ON f.hash = p.hash
    WHERE p.hash = $2 ORDER BY f.name";

/// $2 how a hash begins, $3 how many: the copies that are kept, the latest first.
pub(crate) const COPIES: &str = "
    SELECT p.hash FROM policy_set p WHERE SUBSTR(p.hash, 1, LENGTH($2)) = $2 ORDER BY p.generation DESC LIMIT $3";

/// $2 how many: the events of loading, the latest first.
pub(crate) const LOADED: &str =
    "SELECT e.seq, e.body FROM audit_event e WHERE e.type = 'policy.loaded' ORDER BY e.seq DESC LIMIT $2";

/// How many events there are.
pub(crate) const LAST: &str = "SELECT seq FROM audit_head";

/// $2 approval: where it stands now, and when it expires.
#[cfg(feature = "http")]
pub(crate) const STANDING: &str = "
    SELECT CASE WHEN a.state IN ('pending', 'approved') AND a.expires_at <= {now} THEN 'expired' ELSE a.state END,
           a.expires_at
    FROM approval a WHERE a.id = $2";
