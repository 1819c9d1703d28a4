//! Why a call would come out as it would: the policies that make it so, what was missing, and who could approve it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Cast;
use super::judge::{Judged, Question, Ruling, Word, judge};
use super::manage::{Deciding, may_decide};
use crate::actor::Surface;
use crate::audit::Requirement;
use crate::policy::{Case, Covers, Decision, Inquiry, ManageAction, Nearest, PolicySet, Told};

/// A ruling, and everything that a security team asks about it.
pub(crate) struct Explanation {
    pub(crate) ruling: Ruling,
    /// The policies that made it so, part by part; of a failure those that could not be evaluated.
    pub(crate) decisive: Vec<Told>,
    /// The permits that came nearest, if none held.
    pub(crate) nearest: Option<Nearest>,
    /// Per type of approval, who could give it.
    pub(crate) approvals: Vec<Approving>,
    /// What would come of the call with all of them.
    pub(crate) approved: Option<Word>,
}

/// Who could approve, by the policies and by name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Approving {
    #[serde(flatten)]
    pub(crate) requirement: Requirement,
    pub(crate) policies: Vec<Told>,
    pub(crate) people: Vec<Approver>,
}

/// Whether somebody could approve.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Approver {
    pub(crate) name: String,
    pub(crate) may: bool,
    /// Why, or why not.
    pub(crate) why: String,
}

/// Judges a call, and explains the ruling. `cast` are the people who are tried as approvers.
pub(crate) fn explain(set: &PolicySet, question: &Question, cast: &Cast) -> Explanation {
    let Judged { ruling, input } = judge(set, question);
    let inquiry = inquire(set, question, input.as_deref());
    let policies = ruling.policies().iter().map(|it| &it.id);
    let failed = ruling.errors().iter().map(|it| &it.policy);
    let tell = |id: &String| inquiry.as_ref().and_then(|it| it.explain(id)).or_else(|| set.told(id));
    let decisive = policies.chain(failed).filter_map(tell).collect();
    let no_permit = matches!(&ruling, Ruling::Decided(Decision::Deny { policies, .. }) if policies.is_empty());
    let nearest = inquiry.as_ref().filter(|_| no_permit).map(Inquiry::nearest);
    let requirements = match &ruling {
        Ruling::Decided(Decision::RequireApproval(gates)) => gates.requirements.as_slice(),
        Ruling::Decided(_) | Ruling::Concealed(_) | Ruling::Invalid(_) => &[],
    };
    let approvals: Vec<_> = requirements.iter().map(|it| approving(set, question, it, cast)).collect();
    let approved = (!requirements.is_empty()).then(|| approved(set, question, requirements));
    Explanation { ruling, decisive, nearest, approvals, approved }
}

/// Hides are asked before there is input, and what has none, or whose entities cannot be had, is told without.
fn inquire<'a>(set: &'a PolicySet, question: &Question, input: Option<&Value>) -> Option<Inquiry<'a>> {
    let Question { identity, capability: governed, now, covers, entities, .. } = question;
    let principal = set.principal(identity).ok()?;
    let gathered = input.and_then(|it| Some((it, set.gathered(&principal, governed, it, entities).ok()?)));
    let inquiry = match gathered {
        Some((input, entities)) => {
            let covers = covers.as_ref();
            set.inquire(&principal, &Case { identity, now: *now, governed, input, covers, entities: &entities })
        }
        None => set.inquire_early(&principal, identity, *now, governed),
    };
    inquiry.ok()
}

fn approving(set: &PolicySet, question: &Question, requirement: &Requirement, cast: &Cast) -> Approving {
    let about = Deciding {
        capability: std::sync::Arc::clone(&question.capability),
        requester: question.identity.clone(),
        requirement: Some(requirement.kind.clone()),
    };
    let people = cast.iter().map(|(name, identity)| {
        let identity = identity.clone().on(Surface::Direct);
        let decision = may_decide(set, ManageAction::Approve, &about, &identity, question.now);
        Approver { name: name.clone(), may: matches!(decision, Decision::Allow { .. }), why: why(&decision) }
    });
    Approving { requirement: requirement.clone(), policies: set.approving(&requirement.kind), people: people.collect() }
}

fn why(decision: &Decision) -> String {
    let by = |policies: &[crate::PolicyRef]| policies.iter().map(|it| &*it.id).collect::<Vec<_>>().join(", ");
    match decision {
        Decision::Allow { policies } => format!("permitted by {}", by(policies)),
        Decision::Deny { reason: Some(reason), .. } => reason.clone(),
        Decision::Deny { policies, .. } if policies.is_empty() => "no policy permits it".into(),
        Decision::Deny { policies, .. } => format!("forbidden by {}", by(policies)),
        Decision::Failed(_) | Decision::RequireApproval(_) => "the policies could not be evaluated".into(),
    }
}

/// The same call with everybody's approval.
fn approved(set: &PolicySet, question: &Question, requirements: &[Requirement]) -> Word {
    let types = requirements.iter().map(|it| (it.kind.clone(), it.quorum)).collect();
    let covers: Covers = Question::approved(types, question.now);
    let question = Question { covers: Some(covers), ..question.clone() };
    judge(set, &question).ruling.word()
}

impl Explanation {
    /// For machines, with what was asked.
    pub(crate) fn json_of(&self, question: &Question, set: &PolicySet) -> Value {
        let identity = &question.identity;
        let mut json = json!({
            "capability": question.capability.id,
            "actor": identity.actor().map(crate::ActorRef::from),
            "tenant": identity.tenant_name(),
            "surface": identity.surface(),
            "client": identity.client,
            "at": question.now,
            "policyHash": &**set.hash(),
        });
        if let (Some(all), Value::Object(more)) = (json.as_object_mut(), self.json()) {
            all.extend(more);
        }
        json
    }

    /// For machines.
    pub(crate) fn json(&self) -> Value {
        let mut json = self.ruling.json();
        json["decisive"] = json!(self.decisive);
        if let Some(nearest) = &self.nearest {
            json["nearest"] = json!({"permits": nearest.permits, "more": nearest.more});
        }
        if let Some(approved) = &self.approved {
            json["approvals"] = json!(self.approvals);
            json["whenApproved"] = json!(approved.as_str());
        }
        json
    }
}

/// `90s`, `15m`, `1h`, `7d`, as `@expires_in` has it.
pub(crate) fn life(seconds: u64) -> String {
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let whole = units.into_iter().find(|(unit, _)| seconds.is_multiple_of(*unit));
    let (unit, name) = whole.filter(|_| seconds > 0).unwrap_or((1, 's'));
    format!("{}{name}", seconds / unit)
}
