//! Approvals and the decisions about them.

use super::Sql;

/// slot, input hash: an open request whose time has passed makes room for a new one.
pub(crate) const EXPIRE_CALL: Sql = Sql {
    columns: "tt",
    text: "
    UPDATE approval SET state = 'expired', ended_at = expires_at, version = version + 1 FROM {rows}
    WHERE approval.slot = v.column1 AND approval.input_hash = v.column2
          AND approval.state IN ('pending', 'approved') AND approval.expires_at <= {now}
    RETURNING approval.id, approval.envelope, approval.slot",
};

/// Ends what lapsed, so many at a time.
pub(crate) const EXPIRE_LAPSED: Sql = Sql {
    columns: "",
    text: "
    UPDATE approval SET state = 'expired', ended_at = expires_at, version = version + 1
    WHERE id IN (SELECT a.id FROM approval a WHERE a.state IN ('pending', 'approved') AND a.expires_at <= {now}
                 ORDER BY a.expires_at, a.id LIMIT 256)
    RETURNING id, envelope",
};

/// age: inputs of requests that ended so long ago (EXE-6).
pub(crate) const ERASE_INPUTS: Sql = Sql {
    columns: "i",
    text: "
    UPDATE approval SET input = NULL
    WHERE id IN (SELECT a.id FROM {rows} CROSS JOIN approval a
                 WHERE a.input IS NOT NULL AND a.ended_at <= {now} - v.column1 ORDER BY a.ended_at LIMIT 256)
    RETURNING id",
};

/// approval -> its state now, and who consumed it. At the instant of expiry it is expired (APR-11).
pub(crate) const APPROVAL_STATES: Sql = Sql {
    columns: "t",
    text: "
    SELECT a.id, CASE WHEN a.state IN ('pending', 'approved') AND a.expires_at <= {now} THEN 'expired' ELSE a.state END,
           a.consumed_by
    FROM {rows} CROSS JOIN approval a WHERE a.id = v.column1",
};

/// approval, who took it back.
pub(crate) const WITHDRAW: Sql = Sql {
    columns: "tt",
    text: "
    UPDATE approval SET state = 'withdrawn', withdrawn_by = v.column2, ended_at = {now}, version = version + 1
    FROM {rows} WHERE approval.id = v.column1 AND approval.state IN ('pending', 'approved')
          AND approval.expires_at > {now}
    RETURNING approval.id, approval.envelope",
};

/// slot, input hash, given hash: beginning a call withdraws every other open approval of it (APR-6).
pub(crate) const WITHDRAW_OTHERS: Sql = Sql {
    columns: "ttt",
    text: "
    UPDATE approval SET state = 'withdrawn', withdrawn_by = 'superseded', ended_at = {now}, version = version + 1
    FROM {rows} WHERE approval.slot = v.column1
          AND (approval.input_hash = v.column2 OR approval.given_hash = v.column3)
          AND approval.state IN ('pending', 'approved') AND approval.expires_at > {now}
    RETURNING approval.id, approval.envelope, approval.slot",
};

/// approval, execution -> the executions that may go on (APR-10).
pub(crate) const CONSUME: Sql = Sql {
    columns: "tt",
    text: "
    UPDATE approval SET state = 'consumed', consumed_by = v.column2, ended_at = {now}, version = version + 1
    FROM {rows} WHERE approval.id = v.column1 AND approval.state = 'approved' AND approval.expires_at > {now}
    RETURNING approval.consumed_by",
};

/// execution: one that never started gives its approval back (EXE-8), unless the call was asked for anew meanwhile.
pub(crate) const GIVE_BACK: Sql = Sql {
    columns: "t",
    text: "
    UPDATE approval SET state = 'approved', consumed_by = NULL, ended_at = NULL, version = version + 1
    FROM {rows} WHERE approval.consumed_by = v.column1 AND approval.state = 'consumed'
          AND NOT EXISTS (SELECT 1 FROM approval o WHERE o.slot = approval.slot AND o.input_hash = approval.input_hash
                          AND o.state IN ('pending', 'approved'))
    RETURNING approval.id",
};

/// id, tenant, capability, requester, slot, input hash, given hash, binding, its hash, input, requirements, envelope,
/// life, how long no worker takes it up. The unique index on open (slot, input hash) lets one through (APR-9).
pub(crate) const FILE: Sql = Sql {
    columns: "ttttttttttttii",
    text: "
    INSERT INTO approval (id, tenant, capability, requester, slot, input_hash, given_hash, binding, binding_hash, input,
                          requirements, envelope, state, version, filed_at,
                          filed_seq, expires_at, pick_at)
    SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9,
           v.column10, v.column11, v.column12, 'pending', 0, {now},
           (SELECT h.seq FROM audit_head h), {now} + v.column13, {now} + v.column14
    FROM {rows} WHERE v.column1 IS NOT NULL
    ON CONFLICT DO NOTHING RETURNING id, expires_at",
};

/// slot, input hash -> the open request of the same call.
pub(crate) const OPEN_OF_CALL: Sql = Sql {
    columns: "tt",
    text: "
    SELECT a.slot, a.id, a.binding_hash, a.expires_at FROM {rows} CROSS JOIN approval a
    WHERE a.slot = v.column1 AND a.input_hash = v.column2 AND a.state IN ('pending', 'approved')",
};

/// tenant, requester -> how many wait for a decision, of this requester and of the whole tenant (APR-11).
pub(crate) const PENDING_COUNTS: Sql = Sql {
    columns: "tt",
    text: "
    SELECT v.column1, v.column2,
           (SELECT COUNT(*) FROM approval a WHERE a.tenant = v.column1 AND a.requester = v.column2
                   AND a.state = 'pending' AND a.expires_at > {now}),
           (SELECT COUNT(*) FROM approval a WHERE a.tenant = v.column1
                   AND a.state = 'pending' AND a.expires_at > {now})
    FROM {rows}",
};

/// approval: locks what is being decided (APR-5).
pub(crate) const LOCK_APPROVALS: Sql = Sql {
    columns: "t",
    text: "
    UPDATE approval SET version = version + 1 FROM {rows}
    WHERE approval.id = v.column1 AND approval.state = 'pending' AND approval.expires_at > {now}
    RETURNING approval.id, approval.requirements, approval.envelope",
};

/// approval -> every decision about it.
pub(crate) const DECISIONS: Sql = Sql {
    columns: "t",
    text: "
    SELECT d.approval_id, d.person, d.type, d.verdict FROM {rows} CROSS JOIN decision d
    WHERE d.approval_id = v.column1",
};

/// approval, person, place, approver, type, verdict, via.
pub(crate) const INSERT_DECISIONS: Sql = Sql {
    columns: "ttitttt",
    text: "
    INSERT INTO decision (approval_id, person, place, approver, type, verdict, via, at)
    SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, {now} FROM {rows}
    WHERE v.column1 IS NOT NULL",
};

/// approval, person, text, salt.
pub(crate) const INSERT_COMMENTS: Sql = Sql {
    columns: "tttt",
    text: "
    INSERT INTO comment (approval_id, person, text, salt)
    SELECT v.column1, v.column2, v.column3, v.column4 FROM {rows} WHERE v.column1 IS NOT NULL",
};

/// approval, `approved` or `rejected`.
pub(crate) const FLIP: Sql = Sql {
    columns: "tt",
    text: "
    UPDATE approval SET state = v.column2, approved_at = CASE WHEN v.column2 = 'approved' THEN {now} END,
                        ended_at = CASE WHEN v.column2 = 'rejected' THEN {now} END
    FROM {rows} WHERE approval.id = v.column1",
};
