//! Proofs: what holds of every call that Cedar's types allow, found by a solver instead of by trying.
//!
//! A claim becomes questions, one for each pair of principal and resource type of each action that it is about. What the
//! engine itself makes true of every call is assumed (`world`), the question is put to the solver (`ask`), and what it
//! finds against a claim is evaluated by the ordinary authorizer before anybody hears of it (`example`).

mod ask;
mod example;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cedar_policy::{EntityUid, Policy, RequestEnv, ValidationMode, Validator};
use cedar_policy_symcc::Env;

use self::ask::{Answer, Goal, Session};
pub(crate) use self::example::{Counterexample, Supposed};
use self::world::World;
use super::compile::{Compiled, Managing};
use super::rules::Kind;
use super::slice::Slice;
use super::{PolicySet, load, parse};
use crate::CapabilityId;
use crate::actor::{ActorKind, Surface};
use crate::capability::Governed;

/// What runs proofs: the solver cvc5, as a process of its own.
#[derive(Clone, Debug)]
pub(crate) struct Solver {
    /// A path, or a name to look for in `PATH`.
    pub(crate) executable: PathBuf,
    /// How long one question may take.
    pub(crate) limit: Duration,
}

/// Calls that a claim is about.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) capabilities: Vec<CapabilityId>,
    /// Only those of which this holds.
    pub(crate) when: Option<Condition>,
}

/// A condition in Cedar.
#[derive(Clone, Debug)]
pub(crate) struct Condition(Policy);

/// What is to be proved.
pub(crate) enum Claim {
    /// None of these calls runs without an approval of this type.
    NeverWithoutApproval { calls: Calls, kind: String },
    /// Whoever gets one of these calls allowed, be it with approvals, is in one of these roles.
    OnlyRole { calls: Calls, roles: Vec<String> },
    /// None of these calls is allowed on this surface, be it with approvals.
    NeverOver { calls: Calls, surface: Surface },
    /// None of these policies can fail to be evaluated.
    NoErrors { policies: BTreeSet<String> },
    /// Whatever `set` allows `by` allows too: at once, and with every approval.
    Implies { set: Arc<PolicySet>, by: Arc<PolicySet> },
}

/// What came of a claim.
pub(crate) struct Proof {
    /// The pairs of principal and resource type that were looked at, over all actions.
    pub(crate) environments: usize,
    pub(crate) verdict: Verdict,
}

/// Whether a claim holds.
pub(crate) enum Verdict {
    Proved,
    /// The call that shows it was evaluated, and does.
    Refuted(Box<Counterexample>),
    /// Why nobody knows.
    Unknown(String),
    /// What of the policies the solver's language has no words for.
    Unsupported(String),
}

/// Proves what can be proved.
///
/// # Errors
/// The solver does not run, and why.
pub(crate) fn prove(
    set: &PolicySet,
    capabilities: &[Arc<Governed>],
    claims: &[Claim],
    solver: &Solver,
) -> Result<Vec<Proof>, String> {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|it| it.to_string())?.block_on(async {
            let mut prover = Prover { set, capabilities, session: Session::open(solver).await? };
            let mut proofs = Vec::with_capacity(claims.len());
            for claim in claims {
                proofs.push(prover.prove(claim).await?);
            }
            Ok(proofs)
        })
    };
    load::roomy(work).unwrap_or_else(|| Err("the thread that proves could not start, or ended early".into()))
}

impl PolicySet {
    /// A condition on calls of these capabilities, as it stands in a policy's `when`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn condition(&self, text: &str, capabilities: &[CapabilityId]) -> Result<Condition, String> {
        let read = || {
            let condition = parse::condition(text)?;
            self.fits(&condition, capabilities).map(|()| Condition(condition))
        };
        load::roomy(read).unwrap_or_else(|| Err("it could not be read".into()))
    }

    /// Whether the schema has what a policy reads.
    fn fits(&self, policy: &Policy, capabilities: &[CapabilityId]) -> Result<(), String> {
        let of_them = world::narrowed(policy, capabilities.iter().map(|it| &**it))?;
        let result = Validator::new(self.schema.clone()).validate(&together([&of_them])?, ValidationMode::Strict);
        let wrong = result.validation_errors().map(|it| {
            let (what, policy) = (it.to_string(), format!("for policy `{}`, ", it.policy_id()));
            what.strip_prefix(&policy).map_or(what.clone(), str::to_owned)
        });
        wrong.min().map_or(Ok(()), Err)
    }

    /// The roles that policies mention, and those that the schema lists.
    pub(crate) fn role_names(&self) -> BTreeSet<String> {
        let mentioned = self.rules.values().flat_map(|it| world::roles(&it.policy));
        mentioned.chain(self.projection.listed_roles().iter().flat_map(|it| it.iter().cloned())).collect()
    }

    /// The types of approval that gates ask for.
    pub(crate) fn approval_types(&self) -> BTreeSet<String> {
        let gates = self.rules.values().filter_map(|it| match &it.kind {
            Kind::Gate(gate) => Some(gate.requirement.kind.clone()),
            Kind::Permit | Kind::Deny | Kind::Hide => None,
        });
        gates.collect()
    }

    /// Every policy's id, the capabilities' own gates among them.
    pub(crate) fn policy_ids(&self) -> BTreeSet<String> {
        self.rules.keys().cloned().collect()
    }

    /// The capabilities of a name, sorted: one's own id, or a group of actions (`orders.*`, `effect/write`). Empty if
    /// there is neither.
    pub(crate) fn named(&self, name: &str) -> Vec<CapabilityId> {
        let is = |it: &Compiled| it.action.id().unescaped() == name || it.groups().any(|it| it == name);
        let mut found: Vec<_> = self.capabilities.iter().filter(|it| is(it.1)).map(|it| it.0.clone()).collect();
        found.sort();
        found
    }

    /// Every name that [`Self::named`] finds something by.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let own = self.capabilities.keys().map(ToString::to_string);
        own.chain(self.capabilities.values().flat_map(Compiled::groups)).collect()
    }
}

impl Compiled {
    /// The groups that the action is in.
    fn groups(&self) -> impl Iterator<Item = String> {
        let groups = self.base.ancestors(&self.action).into_iter().flatten();
        groups.map(|it| it.id().unescaped().to_owned())
    }
}

/// An action, as calls or as management meet it.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Call(&'a Governed, &'a Compiled),
    Manage(&'a Managing),
}

impl<'a> Subject<'a> {
    fn action(self) -> &'a EntityUid {
        match self {
            Self::Call(_, it) => &it.action,
            Self::Manage(it) => &it.action,
        }
    }

    fn slice(self) -> &'a Slice {
        match self {
            Self::Call(_, it) => &it.slice,
            Self::Manage(it) => &it.slice,
        }
    }

    /// People first: counterexamples about them are the easiest to understand.
    fn environments(self, set: &PolicySet) -> Vec<RequestEnv> {
        let mut found: Vec<_> = set.schema.request_envs().filter(|it| it.action() == self.action()).collect();
        let kind = |name: &str| ActorKind::ALL.iter().position(|it| it.entity_type() == name);
        found.sort_by_cached_key(|it| (kind(&it.principal().to_string()), it.resource().to_string()));
        found
    }

    /// The policies that allow and refuse, those that hide among them. Of gates those that stay, as if nobody could
    /// lift them.
    fn policies(self, set: &PolicySet, stays: impl Fn(&str) -> bool) -> impl Iterator<Item = &'a Policy> {
        self.slice().all().filter(move |it| match (self, set.rules.get::<str>(it.id().as_ref()).map(|it| &it.kind)) {
            (Self::Call(..), Some(Kind::Gate(gate))) => stays(&gate.requirement.kind),
            _ => true,
        })
    }
}

/// APR-11: nobody in particular gets nothing approved.
fn is_anonymous(environment: &RequestEnv) -> bool {
    environment.principal().to_string() == ActorKind::Anonymous.entity_type()
}

fn together<'a>(policies: impl IntoIterator<Item = &'a Policy>) -> Result<cedar_policy::PolicySet, String> {
    cedar_policy::PolicySet::from_policies(policies.into_iter().cloned()).map_err(|it| it.to_string())
}

struct Prover<'a> {
    set: &'a PolicySet,
    capabilities: &'a [Arc<Governed>],
    session: Session<'a>,
}

/// What a claim has come to so far.
#[derive(Default)]
struct Progress {
    environments: usize,
    /// The first question without an answer. A later one may still refute the claim.
    open: Option<Verdict>,
}

/// A claim that is refuted needs no further questions.
type Refuted = Option<Box<Counterexample>>;

impl<'a> Prover<'a> {
    async fn prove(&mut self, claim: &Claim) -> Result<Proof, String> {
        let mut progress = Progress::default();
        let refuted = match claim {
            Claim::NeverWithoutApproval { calls, kind } => {
                self.never(calls, Some(kind), world::covered(kind)?, &mut progress).await?
            }
            Claim::OnlyRole { calls, roles } => self.never(calls, None, world::in_roles(roles)?, &mut progress).await?,
            Claim::NeverOver { calls, surface } => {
                self.never(calls, None, world::not_over(*surface)?, &mut progress).await?
            }
            Claim::NoErrors { policies } => self.never_errs(self.set, policies, &mut progress).await?,
            Claim::Implies { set, by } => self.implies(set, by, &mut progress).await?,
        };
        let open = progress.open.unwrap_or(Verdict::Proved);
        Ok(Proof { environments: progress.environments, verdict: refuted.map_or(open, Verdict::Refuted) })
    }

    /// None of these calls is allowed, but for what `excused` refuses, whoever approves it. Only gates of the type
    /// `kept` cannot be lifted.
    async fn never(
        &mut self,
        calls: &Calls,
        kept: Option<&str>,
        excused: Policy,
        progress: &mut Progress,
    ) -> Result<Refuted, String> {
        let more: Vec<Policy> = calls.when.iter().map(|it| it.0.clone()).chain([excused]).collect();
        let set = self.set;
        for subject in self.subjects(set)? {
            if !calls.capabilities.iter().any(|it| **it == *subject.action().id().unescaped()) {
                continue;
            }
            let world = World::of(set, subject, &more)?;
            for environment in subject.environments(set) {
                progress.environments += 1;
                let stays = |kind: &str| is_anonymous(&environment) || kept == Some(kind);
                let goal = Goal::Denied(Box::new(together(subject.policies(set, stays).chain(&more))?));
                if let Some(found) = self.check((set, subject), &world, &environment, &goal, progress).await? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// None of these policies errs, whatever the action.
    async fn never_errs(
        &mut self,
        set: &PolicySet,
        policies: &BTreeSet<String>,
        progress: &mut Progress,
    ) -> Result<Refuted, String> {
        for subject in self.subjects(set)? {
            let is_asked = |it: &&Policy| policies.contains::<str>(it.id().as_ref());
            let mut asked: Vec<&Policy> = subject.slice().all().filter(is_asked).collect();
            asked.sort_by_key(|it| it.id());
            if asked.is_empty() {
                continue;
            }
            let world = World::of(set, subject, &[])?;
            for environment in subject.environments(set) {
                progress.environments += 1;
                for policy in &asked {
                    let goal = Goal::Sound(Box::new((*policy).clone()));
                    if let Some(found) = self.check((set, subject), &world, &environment, &goal, progress).await? {
                        return Ok(Some(found));
                    }
                }
            }
        }
        Ok(None)
    }

    async fn implies(&mut self, set: &PolicySet, by: &PolicySet, progress: &mut Progress) -> Result<Refuted, String> {
        if set.text != by.text {
            let why = "the two sets declare different types in their `schema.cedarschema`";
            progress.open = Some(Verdict::Unsupported(why.into()));
            return Ok(None);
        }
        for (wide, narrow) in self.subjects(set)?.into_iter().zip(self.subjects(by)?) {
            let theirs: Vec<Policy> = narrow.slice().all().cloned().collect();
            let world = World::of(set, wide, &theirs)?;
            for environment in wide.environments(set) {
                progress.environments += 1;
                for lifted in [false, true] {
                    let stays = |_: &str| !lifted || is_anonymous(&environment);
                    let sets = [together(wide.policies(set, stays))?, together(narrow.policies(by, stays))?];
                    let goal = Goal::Within(Box::new(sets));
                    if let Some(found) = self.check((set, wide), &world, &environment, &goal, progress).await? {
                        return Ok(Some(found));
                    }
                }
            }
        }
        self.errors_refuse(by, progress).await?;
        Ok(None)
    }

    /// A policy that errs refuses, which Cedar's own answer does not show: an implication stands only if none can.
    async fn errors_refuse(&mut self, by: &PolicySet, progress: &mut Progress) -> Result<(), String> {
        let mut errors = Progress::default();
        let found = self.never_errs(by, &by.policy_ids(), &mut errors).await?;
        let open = found.map(|it| {
            let erring = it.erring.join("`, `");
            Verdict::Unknown(format!("`{erring}` of `by` can err, which refuses calls: see to `no_errors` first"))
        });
        progress.open = progress.open.take().or(open).or(errors.open);
        Ok(())
    }

    /// One question. What the solver finds counts if the ordinary authorizer finds the same.
    async fn check(
        &mut self,
        (set, subject): (&PolicySet, Subject<'_>),
        world: &World,
        environment: &RequestEnv,
        goal: &Goal,
        progress: &mut Progress,
    ) -> Result<Refuted, String> {
        // Most policies cannot err whatever is assumed, which takes no solver.
        let alone = matches!(goal, Goal::Sound(_));
        if alone && matches!(self.session.ask(&set.schema, environment, goal).await?, Answer::Holds) {
            return Ok(None);
        }
        let goal = goal.among(&world.forbid).ok_or("a policy cannot be put together with others")?;
        let open = match self.session.ask(&set.schema, environment, &goal).await? {
            Answer::Holds => return Ok(None),
            Answer::Unknown(why) => Verdict::Unknown(why),
            Answer::Unsupported(what) => Verdict::Unsupported(what),
            Answer::Fails(found) => {
                let found = self.plainest(set, world, environment, &goal).await?.unwrap_or(found);
                match goal.refuted_by(&found) {
                    Ok(erring) => return Ok(Some(Box::new(Counterexample::new(set, subject, &found, erring)))),
                    Err(why) => Verdict::Unknown(why),
                }
            }
        };
        progress.open.get_or_insert(open);
        Ok(None)
    }

    /// Of a goal that does not hold, the counterexample that is easiest to read.
    async fn plainest(
        &mut self,
        set: &PolicySet,
        world: &World,
        environment: &RequestEnv,
        goal: &Goal,
    ) -> Result<Option<Box<Env>>, String> {
        for plain in &world.plain {
            let Some(goal) = goal.among(plain) else { continue };
            if let Answer::Fails(found) = self.session.ask(&set.schema, environment, &goal).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Every action, in an order that all sets share.
    fn subjects<'s>(&self, set: &'s PolicySet) -> Result<Vec<Subject<'s>>, String>
    where
        'a: 's,
    {
        let mut calls = Vec::new();
        for governed in self.capabilities {
            let compiled = set.capabilities.get(&governed.id).ok_or("a set was loaded for other capabilities")?;
            calls.push(Subject::Call(governed, compiled));
        }
        calls.sort_by_key(|it| it.action().id().unescaped());
        Ok(calls.into_iter().chain(set.managing.iter().map(Subject::Manage)).collect())
    }
}
