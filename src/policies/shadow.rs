//! A candidate set beside the active one: what it would have said of live calls. It decides nothing.

use std::sync::Arc;

use serde_json::Value;

use super::Loaded;
use crate::actor::Identity;
use crate::audit::{EventKind, MAX_NAMED, PolicyError, PolicyOutcome, PolicyRef, PolicyView, Requirement};
use crate::capability::Governed;
use crate::caught::caught;
use crate::clock::Timestamp;
use crate::policy::{Case, Covers, Decision, PolicySet, Shown, Visibility};
use crate::resource::ResourceEntity;
use crate::trail::Trail;

/// A candidate, beside one active set.
#[derive(Clone)]
pub(crate) struct Shadow {
    pub(super) set: Arc<PolicySet>,
    /// Then a principal that was built for the active set is the candidate's, too.
    same_schema: bool,
}

/// What a call is about, as the stages know it.
pub(crate) struct Asked<'a> {
    pub(crate) principal: &'a Shown,
    pub(crate) identity: &'a Identity,
    pub(crate) now: Timestamp,
    pub(crate) capability: &'a Governed,
}

/// What stage 7 knows besides: the input, what is approved, and the application's entities as they came.
pub(crate) type Facts<'a> = (&'a Value, Option<&'a Covers>, &'a [ResourceEntity]);

impl Shadow {
    pub(super) fn new(set: Arc<PolicySet>, active: &PolicySet) -> Self {
        let same_schema = set.schema_text() == active.schema_text();
        Self { set, same_schema }
    }

    /// Stage 5, by the same functions.
    fn visibility(&self, asked: &Asked<'_>) -> Visibility {
        self.with_principal(asked, |principal| self.seen(principal, asked))
    }

    fn seen(&self, principal: &Shown, asked: &Asked<'_>) -> Visibility {
        self.set.seen(principal, asked.identity, asked.now, asked.capability)
    }

    /// Stages 5 and 7, by the same functions.
    fn decision(&self, asked: &Asked<'_>, facts: &Facts<'_>) -> View {
        self.with_principal(asked, |principal| match self.seen(principal, asked) {
            Visibility::Visible => View::from(&self.decided(principal, asked, facts)),
            concealed => View::from(&concealed),
        })
    }

    fn decided(&self, principal: &Shown, asked: &Asked<'_>, &(input, covers, found): &Facts<'_>) -> Decision {
        let Asked { identity, now, capability: governed, .. } = *asked;
        match principal.as_ref().map(|it| self.set.gathered(it, governed, input, found)) {
            Ok(Ok(entities)) => {
                self.set.judge(principal, &Case { identity, now, governed, input, covers, entities: &entities })
            }
            Ok(Err(errors)) => Decision::Failed(errors),
            Err(errors) => Decision::Failed(errors.clone()),
        }
    }

    fn with_principal<T>(&self, asked: &Asked<'_>, ask: impl FnOnce(&Shown) -> T) -> T {
        if self.same_schema { ask(asked.principal) } else { ask(&self.set.principal(asked.identity)) }
    }
}

impl Loaded {
    /// Stage 5 is over. If it ends the call, the candidate is asked; else stage 7 will.
    pub(crate) fn compare_shown(&self, trail: &mut Trail, asked: &Asked<'_>, active: &Visibility) {
        if *active != Visibility::Visible {
            self.compare(trail, || View::from(active), |shadow| View::from(&shadow.visibility(asked)));
        }
    }

    /// The active set decided.
    pub(crate) fn compare_decided(&self, trail: &mut Trail, asked: &Asked<'_>, facts: Facts<'_>, active: &Decision) {
        self.compare(trail, || View::from(active), |shadow| shadow.decision(asked, &facts));
    }

    /// A difference is noted on the call's own trail. Nothing that the candidate does reaches the call.
    fn compare(&self, trail: &mut Trail, active: impl FnOnce() -> View, ask: impl FnOnce(&Shadow) -> View) {
        let Some(shadow) = self.shadow.as_ref().filter(|it| it.set.hash() != self.set.hash()) else {
            return trail.compared(None); // an earlier answer of this call was about another set
        };
        let candidate = caught(|| ask(shadow)).unwrap_or_else(|_| {
            View::from(&Decision::Failed(vec![PolicyError { policy: "<engine>".into(), kind: "panic".into() }]))
        });
        let active = active();
        trail.compared((!active.is_alike(&candidate)).then(|| EventKind::PolicyShadowDifference {
            candidate_hash: shadow.set.hash().to_string(),
            active: active.told,
            candidate: candidate.told,
        }));
    }
}

/// An answer of one set.
struct View {
    told: PolicyView,
    /// All of them, while events name a dozen.
    requirements: Vec<Requirement>,
}

impl View {
    fn new(outcome: PolicyOutcome, policies: &[PolicyRef], errors: &[PolicyError]) -> Self {
        let policies = policies.iter().take(MAX_NAMED).cloned().collect();
        let errors = errors.iter().take(MAX_NAMED).cloned().collect();
        let told = PolicyView { outcome, policies, errors, requirements: Vec::new() };
        Self { told, requirements: Vec::new() }
    }

    /// The same outcome, for whichever reasons; of a gate, with the same approvals.
    fn is_alike(&self, other: &Self) -> bool {
        self.told.outcome == other.told.outcome && self.requirements == other.requirements
    }
}

impl From<&Visibility> for View {
    fn from(it: &Visibility) -> Self {
        match it {
            Visibility::Visible => Self::new(PolicyOutcome::Visible, &[], &[]),
            Visibility::Hidden(policies) => Self::new(PolicyOutcome::Hidden, policies, &[]),
            Visibility::Failed(errors) => Self::new(PolicyOutcome::PolicyFailed, &[], errors),
        }
    }
}

impl From<&Decision> for View {
    fn from(it: &Decision) -> Self {
        match it {
            Decision::Allow { policies } => Self::new(PolicyOutcome::Allow, policies, &[]),
            Decision::Deny { policies, .. } => Self::new(PolicyOutcome::Deny, policies, &[]),
            Decision::RequireApproval(gates) => {
                let mut view = Self::new(PolicyOutcome::RequireApproval, &gates.policies, &[]);
                view.told.requirements = gates.requirements.iter().take(MAX_NAMED).cloned().collect();
                view.requirements.clone_from(&gates.requirements);
                view
            }
            Decision::Failed(errors) => Self::new(PolicyOutcome::PolicyFailed, &[], errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;
    use crate::clock::Clock;
    use crate::id::Ids;
    use crate::policy::{self, PolicySource};
    use crate::registry::Registry;

    fn set(text: &str) -> Arc<PolicySet> {
        let source = PolicySource::Files(vec![("a.cedar".into(), text.into())]);
        Arc::new(policy::load(&source, &Registry::default()).ok().unwrap().0)
    }

    #[test]
    fn a_candidate_that_panics_is_a_difference() {
        let active = set("");
        let candidate = set("@id(\"a\") permit (principal, action == Countersign::Action::\"approve\", resource);");
        let shadow = Some(Shadow::new(candidate, &active));
        let loaded = Loaded { set: active, generation: 1, shadow };
        let mut trail = Trail::open(&Clock::System, &Ids::Random, None, &"e".into(), &Identity::none());
        let allow = || View::from(&Decision::Allow { policies: Vec::new() });
        loaded.compare(&mut trail, allow, |_| panic!("a bug of the evaluator"));
        let [event] = trail.unwritten() else { panic!("{:?}", trail.unwritten()) };
        insta::assert_json_snapshot!(serde_json::to_value(&event.kind).unwrap()["data"]["candidate"], @r#"
        {
          "errors": [
            {
              "kind": "panic",
              "policy": "<engine>"
            }
          ],
          "outcome": "policy_failed"
        }
        "#);
        loaded.compare(&mut trail, allow, |_| allow());
        assert_eq!(trail.unwritten(), [], "the last answer counts");
        let deny = || View::from(&Decision::Deny { reason: None, policies: Vec::new() });
        loaded.compare(&mut trail, allow, |_| deny());
        assert_eq!(trail.unwritten().len(), 1);
        Loaded::new(Arc::clone(&loaded.set), 2).compare(&mut trail, allow, |_| deny());
        assert_eq!(trail.unwritten(), [], "nor is there a difference to a candidate that is gone");
    }
}
