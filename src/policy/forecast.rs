//! What policies say of a call before there is input, in more words than a listing needs: what is certain, what is
//! possible, and by which policies.

use cedar_policy::{Policy, PolicySet as Set};

use super::decide::{Asked, gate, references, union};
use super::discover::{Approximation, Bounds};
use super::rules::{Kind, Rule};
use super::{Concealed, Decision, Gates, PolicySet};
use crate::actor::{ActorKind, Identity};
use crate::audit::{DenialReason, PolicyError, PolicyRef};
use crate::capability::Governed;
use crate::clock::Timestamp;

/// What somebody could get of a capability, whatever the input is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Every valid input, unless a policy cannot be evaluated for it.
    Allow,
    /// Whatever is permitted needs an approval of these types.
    Approval(Vec<String>),
    /// It depends on the input; some of what is permitted may need an approval of these types.
    Sometimes(Vec<String>),
    Deny,
    Hidden,
    Unexposed,
    /// The policies cannot be evaluated, so every input is denied.
    Failed,
}

/// The outlook, and the policies behind it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Forecast {
    pub(crate) outlook: Outlook,
    /// What everything that is permitted needs, if something is needed; some of it may need more.
    pub(crate) gates: Option<Gates>,
    /// What holds for every input or could hold for one, by id.
    pub(crate) policies: Vec<PolicyRef>,
    pub(crate) errors: Vec<PolicyError>,
}

impl Forecast {
    fn new(outlook: Outlook, policies: Vec<PolicyRef>, errors: Vec<PolicyError>) -> Self {
        Self { outlook, gates: None, policies, errors }
    }
}

/// Everything of one capability that does not depend on who asks.
pub(crate) struct Forecaster<'a> {
    set: &'a PolicySet,
    governed: &'a Governed,
    permits: Bounded,
    forbids: Bounded,
}

/// Policies with their bounds.
#[derive(Default)]
struct Bounded {
    /// Those that do not depend on the input.
    exact: Set,
    over: Set,
    under: Set,
}

/// Which of some policies hold for every input, and which could for some.
struct Holding<'a> {
    certain: Vec<&'a Rule>,
    possible: Vec<&'a Rule>,
}

impl Bounded {
    fn add(&mut self, rule: &Rule, resource_known: bool) -> Result<(), String> {
        let bounds = Bounds::of(rule)?;
        let put = |set: &mut Set, policy: &Policy| set.add(policy.clone()).map_err(|it| it.to_string());
        match bounds.when(resource_known) {
            Approximation::Exact => put(&mut self.exact, &rule.policy)?,
            Approximation::Bounds { over, under } => {
                over.as_deref().map_or(Ok(()), |it| put(&mut self.over, it))?;
                under.as_deref().map_or(Ok(()), |it| put(&mut self.under, it))?;
            }
        }
        Ok(())
    }

    fn holding<'a>(&self, set: &'a PolicySet, asked: &Asked<'_>) -> Holding<'a> {
        let evaluate = |it: &Set| set.evaluate(it, &asked.request, &asked.entities);
        let mut certain = evaluate(&self.exact).satisfied;
        certain.extend(evaluate(&self.under).satisfied);
        let over = evaluate(&self.over);
        // An upper bound that errs is possible.
        let erring = over.errors.iter().filter_map(|it| set.rules.get(&it.policy));
        let mut possible: Vec<&Rule> = over.satisfied.iter().copied().chain(erring).collect();
        possible.retain(|it| !certain.iter().any(|other| other.id == it.id));
        Holding { certain, possible }
    }
}

impl PolicySet {
    /// For one capability and any number of callers.
    ///
    /// # Errors
    /// If the set does not know the capability, or cannot rewrite one of its policies.
    pub(crate) fn forecaster<'a>(&'a self, governed: &'a Governed) -> Result<Forecaster<'a>, String> {
        let compiled = self.compiled(governed).map_err(|_| "the set does not know the capability")?;
        let resource_known = governed.meta.resource.is_none();
        let (mut permits, mut forbids) = (Bounded::default(), Bounded::default());
        for (from, into) in [(&compiled.slice.permits, &mut permits), (&compiled.slice.forbids, &mut forbids)] {
            for rule in from.policies().filter_map(|it| self.rules.get::<str>(it.id().as_ref())) {
                into.add(rule, resource_known)?;
            }
        }
        Ok(Forecaster { set: self, governed, permits, forbids })
    }
}

impl Forecaster<'_> {
    /// What this caller could get now. Stages 5 and 6 are asked as they are; what they leave open is told apart here.
    pub(crate) fn forecast(&self, identity: &Identity, now: Timestamp) -> Forecast {
        let shown = match self.set.show(identity, now, self.governed, |_, _| ()) {
            Ok(shown) => shown,
            Err(Concealed { reason, policies, errors }) => {
                let outlook = match reason {
                    DenialReason::Hidden => Outlook::Hidden,
                    DenialReason::NotExposed | DenialReason::Unknown => Outlook::Unexposed,
                    DenialReason::PolicyFailed | DenialReason::PolicyDenied => Outlook::Failed,
                };
                return Forecast::new(outlook, policies, errors);
            }
        };
        match self.set.refuses(&shown, identity, now, self.governed) {
            Some(Decision::Deny { policies, .. }) => return Forecast::new(Outlook::Deny, policies, Vec::new()),
            Some(Decision::Failed(errors)) => return Forecast::new(Outlook::Failed, Vec::new(), errors),
            Some(Decision::Allow { .. } | Decision::RequireApproval(_)) | None => {}
        }
        let asked = shown.and_then(|it| self.set.early(&it, identity, now, self.governed));
        match asked {
            Ok(asked) => self.open(&asked, identity),
            Err(errors) => Forecast::new(Outlook::Failed, Vec::new(), errors),
        }
    }

    /// Some input might pass.
    fn open(&self, asked: &Asked<'_>, identity: &Identity) -> Forecast {
        let (permits, forbids) = (self.permits.holding(self.set, asked), self.forbids.holding(self.set, asked));
        let (always, sometimes) = (types(&forbids.certain), types(&forbids.possible));
        let may_be_denied = forbids.possible.iter().any(|it| matches!(it.kind, Kind::Deny));
        let depends = permits.certain.is_empty() || may_be_denied;
        let is_anonymous = identity.actor().is_some_and(|it| it.kind == ActorKind::Anonymous);
        let outlook = match (always.is_empty(), sometimes.is_empty()) {
            // APR-11: nobody in particular cannot wait for an approval.
            (false, _) if is_anonymous => Outlook::Deny,
            (true, false) if is_anonymous => Outlook::Sometimes(Vec::new()),
            (false, _) => Outlook::Approval(always),
            (true, false) => Outlook::Sometimes(sometimes),
            (true, true) if depends => Outlook::Sometimes(Vec::new()),
            (true, true) => Outlook::Allow,
        };
        let mut all = [&permits.certain[..], &permits.possible, &forbids.certain, &forbids.possible].concat();
        all.sort_by(|one, two| one.id.cmp(&two.id));
        let certain: Vec<_> = forbids.certain.iter().filter_map(|it| gate(it)).collect();
        let gates = matches!(outlook, Outlook::Approval(_)).then(|| union(&certain, Vec::new()));
        Forecast { gates, ..Forecast::new(outlook, references(&all), Vec::new()) }
    }
}

/// The types that lift these, sorted.
fn types(forbids: &[&Rule]) -> Vec<String> {
    let gates = forbids.iter().filter_map(|it| gate(it));
    let mut types: Vec<String> = gates.map(|(_, gate)| gate.requirement.kind.clone()).collect();
    types.sort();
    types.dedup();
    types
}
