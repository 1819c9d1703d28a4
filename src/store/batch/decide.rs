//! Deciding: lock, look, insert, flip (APR-5).

use std::collections::HashMap;

use super::super::db::row;
use super::super::job::{Answer, Op};
use super::super::op::{Decide, Decided};
use super::super::sql;
use super::Batch;
use crate::approval::{ApprovalState, Verdict};
use crate::audit::{DecisionData, EventKind, Requirement};
use crate::topic::Topic;

/// A decision as far as counting goes.
struct Earlier {
    person: String,
    kind: String,
    verdict: String,
}

/// An approval that can be decided: locked until the commit.
struct Locked {
    requirements: Vec<Requirement>,
    envelope: String,
}

/// A decision that counts.
struct Vote<'a> {
    what: &'a Decide,
    place: i64,
    /// JSON of [`crate::audit::ApproverRef`].
    by: String,
    state: ApprovalState,
}

impl<'a> Batch<'a> {
    pub(super) async fn decide(&mut self) -> Result<(), sqlx::Error> {
        let mut list: Vec<(usize, &'a Decide)> =
            self.pick(|op| if let Op::Decide(it) = op { Some(&**it) } else { None });
        if list.is_empty() {
            return Ok(());
        }
        list.sort_by(|one, two| one.1.approval.cmp(&two.1.approval));
        let locked = self.lock_approvals(&list).await?;
        let earlier = self.decisions(&list).await?;
        let states = self.approval_states(&list.iter().map(|it| &it.1.approval).collect::<Vec<_>>()).await?;
        let mut votes = Vec::new();
        for (at, what) in list {
            let before = earlier.get(&*what.approval).map(Vec::as_slice).unwrap_or_default();
            let state = states.get(&*what.approval).map(|it| it.0);
            match (locked.get(&*what.approval), state, refusal(what, before, locked.get(&*what.approval), state)) {
                (_, _, Some(decided)) => self.answer(at, Answer::Decided(decided)),
                (Some(lock), _, None) => votes.push(self.vote(at, what, before, lock)?),
                (None, _, None) => self.answer(at, Answer::Decided(Decided::Missing)),
            }
        }
        self.store_votes(&votes).await
    }

    async fn lock_approvals(&mut self, list: &[(usize, &Decide)]) -> Result<HashMap<String, Locked>, sqlx::Error> {
        let ids: Vec<_> = list.iter().map(|it| row![&it.1.approval]).collect();
        let mut locked = HashMap::new();
        for (id, requirements, envelope) in self.conn.all::<(String, String, String)>(sql::LOCK_APPROVALS, &ids).await?
        {
            let requirements = serde_json::from_str(&requirements).map_err(|it| sqlx::Error::Decode(it.into()))?;
            locked.insert(id, Locked { requirements, envelope });
        }
        Ok(locked)
    }

    async fn decisions(&mut self, list: &[(usize, &Decide)]) -> Result<HashMap<String, Vec<Earlier>>, sqlx::Error> {
        let ids: Vec<_> = list.iter().map(|it| row![&it.1.approval]).collect();
        let mut earlier: HashMap<String, Vec<Earlier>> = HashMap::new();
        for (id, person, kind, verdict) in
            self.conn.all::<(String, String, String, String)>(sql::DECISIONS, &ids).await?
        {
            earlier.entry(id).or_default().push(Earlier { person, kind, verdict });
        }
        Ok(earlier)
    }

    /// Counts a decision, and says so in the log of the execution that asked.
    fn vote(
        &mut self,
        at: usize,
        what: &'a Decide,
        before: &[Earlier],
        lock: &Locked,
    ) -> Result<Vote<'a>, sqlx::Error> {
        let approves = what.verdict == Verdict::Approve;
        let have = |kind: &str| {
            let earlier = before.iter().filter(|it| it.kind == kind && it.verdict == Verdict::Approve.as_str()).count();
            u32::try_from(earlier).unwrap_or(u32::MAX) + u32::from(approves && what.kind == kind)
        };
        let reached = lock.requirements.iter().all(|it| have(&it.kind) >= it.quorum);
        let state = match (approves, reached) {
            (false, _) => ApprovalState::Rejected, // one rejection is final
            (true, true) => ApprovalState::Approved,
            (true, false) => ApprovalState::Pending,
        };
        let data = DecisionData {
            approval_id: what.approval.clone(),
            kind: what.kind.clone(),
            have: have(&what.kind),
            need: lock.requirements.iter().find(|it| it.kind == what.kind).map_or(0, |it| it.quorum),
            approver: what.approver.clone(),
            via: what.via.clone(),
            comment: what.comment.as_ref().map(|it| it.digest.clone()),
        };
        let kind = if approves { EventKind::Approved(data) } else { EventKind::Rejected(data) };
        self.note(at, &lock.envelope, kind)?;
        match state {
            ApprovalState::Approved => self.tell(Topic::ApprovalApproved, Some(&what.approval)),
            ApprovalState::Rejected => self.tell(Topic::ApprovalRejected, Some(&what.approval)),
            ApprovalState::Pending | ApprovalState::Expired | ApprovalState::Withdrawn | ApprovalState::Consumed => {}
        }
        self.answer(at, Answer::Decided(Decided::Done { state }));
        let by = serde_json::to_string(&what.approver).unwrap_or_default(); // plain data: cannot fail
        let place = i64::try_from(before.len()).unwrap_or(i64::MAX - 1) + 1;
        Ok(Vote { what, place, by, state })
    }

    async fn store_votes(&mut self, votes: &[Vote<'a>]) -> Result<(), sqlx::Error> {
        let decisions = votes.iter().map(|Vote { what, place, by, .. }| {
            row![&what.approval, &what.person, *place, by, &what.kind, what.verdict.as_str(), &what.via]
        });
        self.conn.run(sql::INSERT_DECISIONS, &decisions.collect::<Vec<_>>()).await?;
        let comments = votes.iter().filter_map(|Vote { what, .. }| {
            let comment = what.comment.as_ref()?;
            Some(row![&what.approval, &what.person, &comment.text, &comment.salt])
        });
        self.conn.run(sql::INSERT_COMMENTS, &comments.collect::<Vec<_>>()).await?;
        let flips = votes.iter().filter(|it| it.state != ApprovalState::Pending);
        let flips: Vec<_> = flips.map(|it| row![&it.what.approval, it.state.as_str()]).collect();
        self.conn.run(sql::FLIP, &flips).await
    }
}

/// Why a decision does not count, if it does not (APR-2).
fn refusal(what: &Decide, before: &[Earlier], lock: Option<&Locked>, state: Option<ApprovalState>) -> Option<Decided> {
    let Some(state) = state else { return Some(Decided::Missing) };
    if let Some(earlier) = before.iter().find(|it| same_person(&it.person, &what.person)) {
        let same = earlier.kind == what.kind && earlier.verdict == what.verdict.as_str();
        return Some(if same { Decided::Done { state } } else { Decided::Refused { state } });
    }
    let needed = lock.is_some_and(|it| it.requirements.iter().any(|it| it.kind == what.kind));
    (!needed).then_some(Decided::Refused { state })
}

/// Whether two folded parties must be taken for one person: an unverified issuer is any issuer (APR-3).
fn same_person(one: &str, two: &str) -> bool {
    let read = |it: &str| serde_json::from_str::<(Option<String>, String)>(it).ok();
    let same = |(one, two): ((Option<String>, String), (Option<String>, String))| {
        one.1 == two.1 && (one.0 == two.0 || one.0.is_none() || two.0.is_none())
    };
    one == two || read(one).zip(read(two)).is_some_and(same)
}

#[cfg(test)]
mod tests {
    use super::same_person;

    #[test]
    fn apr_3_an_unverified_issuer_is_any_issuer() {
        assert!(same_person(r#"[null,"priya"]"#, r#"["https://a","priya"]"#));
        assert!(!same_person(r#"["https://b","priya"]"#, r#"["https://a","priya"]"#));
        assert!(!same_person(r#"[null,"priya"]"#, r#"[null,"paul"]"#));
        assert!(same_person("no json", "no json") && !same_person("no json", "other"));
    }
}
