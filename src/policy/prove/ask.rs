//! Questions to the solver, a process that is kept from one to the next.

use std::time::Duration;

use cedar_policy::{Authorizer, Decision, Policy, RequestEnv, Schema};
use cedar_policy_symcc::err::Error;
use cedar_policy_symcc::solver::{LocalSolver, Solver as _};
use cedar_policy_symcc::{
    CedarSymCompiler, CompiledPolicy, CompiledPolicySet, Env, WellFormedAsserts, always_denies_asserts,
    implies_asserts, never_errors_asserts,
};
use tokio::process::Command;
use tokio::time::timeout;

use super::Solver;
use super::world::World;

/// What is to hold of every request of an environment.
pub(super) enum Goal {
    /// These policies allow nothing.
    Denied(Box<cedar_policy::PolicySet>),
    /// Whatever the first allow, the second allow.
    Within(Box<[cedar_policy::PolicySet; 2]>),
    /// This policy never errs.
    Sound(Box<Policy>),
}

/// What the solver says of a goal.
pub(super) enum Answer {
    Holds,
    /// It says that of this request it does not.
    Fails(Box<Env>),
    Unknown(String),
    Unsupported(String),
}

/// How much longer than it was told to the solver may take.
const GRACE: Duration = Duration::from_secs(5);

/// A solver that runs, or can be started again.
pub(super) struct Session<'a> {
    solver: &'a Solver,
    process: Option<CedarSymCompiler<LocalSolver>>,
}

impl<'a> Session<'a> {
    /// Starts the solver, and sees that it is one.
    pub(super) async fn open(solver: &'a Solver) -> Result<Self, String> {
        let mut session = Self { solver, process: None };
        let shown = solver.executable.display();
        let process = session.process()?.solver_mut();
        match timeout(solver.limit + GRACE, process.check_sat()).await {
            Ok(Ok(_)) => Ok(session),
            Ok(Err(error)) => Err(format!("`{shown}` is no solver: {error}")),
            Err(_) => Err(format!("`{shown}` does not answer")),
        }
    }

    fn process(&mut self) -> Result<&mut CedarSymCompiler<LocalSolver>, String> {
        if self.process.is_none() {
            let limit = format!("--tlimit-per={}", self.solver.limit.as_millis());
            let mut command = Command::new(&self.solver.executable);
            command.args(["--lang", "smt", &limit]).kill_on_drop(true);
            let shown = self.solver.executable.display();
            let started = LocalSolver::from_command(&mut command).map_err(|it| {
                let cause = std::error::Error::source(&it).map_or_else(|| it.to_string(), ToString::to_string);
                format!("`{shown}` does not start: {cause}")
            })?;
            self.process = Some(CedarSymCompiler::new(started).map_err(|it| it.to_string())?);
        }
        self.process.as_mut().ok_or_else(|| "there is no solver".into())
    }

    /// `Err`: the solver cannot be started any more.
    pub(super) async fn ask(&mut self, schema: &Schema, on: &RequestEnv, goal: &Goal) -> Result<Answer, String> {
        let whole = |set| CompiledPolicySet::compile(set, on, schema).map_err(|it| culprit(set, on, schema, &it));
        match goal {
            Goal::Denied(set) => match whole(set) {
                Ok(set) => self.put(&always_denies_asserts(&set)).await,
                Err(what) => Ok(Answer::Unsupported(what)),
            },
            Goal::Within(sets) => match whole(&sets[0]).and_then(|wide| Ok((wide, whole(&sets[1])?))) {
                Ok((wide, narrow)) => self.put(&implies_asserts(&wide, &narrow)).await,
                Err(what) => Ok(Answer::Unsupported(what)),
            },
            Goal::Sound(policy) => match CompiledPolicy::compile(policy, on, schema) {
                Ok(it) => self.put(&never_errors_asserts(&it)).await,
                Err(error) => Ok(Answer::Unsupported(unsupported(policy, &error))),
            },
        }
    }

    async fn put(&mut self, asserts: &WellFormedAsserts<'_>) -> Result<Answer, String> {
        let limit = self.solver.limit;
        let answer = timeout(limit + GRACE, self.process()?.check_sat(asserts)).await;
        let error = match answer {
            Ok(Ok(None)) => return Ok(Answer::Holds),
            Ok(Ok(Some(found))) => return Ok(Answer::Fails(Box::new(found))),
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        self.process = None; // whatever state it is in
        let seconds = limit.as_secs();
        Ok(Answer::Unknown(match error {
            None | Some(Error::SolverUnknown) => format!("the solver found no answer within {seconds} s a question"),
            Some(Error::SolverError(error)) => format!("the solver failed: {error}"),
            Some(error) => format!("the solver's example cannot be read: {error}"),
        }))
    }
}

/// The first policy that is to blame.
fn culprit(set: &cedar_policy::PolicySet, on: &RequestEnv, schema: &Schema, error: &Error) -> String {
    let mut policies: Vec<&Policy> = set.policies().collect();
    policies.sort_by_key(|it| it.id());
    let first = policies.into_iter().find_map(|it| {
        let error = CompiledPolicy::compile(it, on, schema).err()?;
        Some(unsupported(it, &error))
    });
    first.unwrap_or_else(|| error.to_string())
}

fn unsupported(policy: &Policy, error: &Error) -> String {
    match error {
        Error::PolicyNotWellTyped { errs } => {
            let first = errs.iter().map(ToString::to_string).min().unwrap_or_default();
            format!("`{}` does not fit the schema: {first}", policy.id())
        }
        error => format!("`{}` cannot be put to a solver: {error}", policy.id()),
    }
}

impl Goal {
    /// The same, of those requests only that `forbid` does not refuse.
    pub(super) fn among(&self, forbid: &Policy) -> Option<Self> {
        let with = |set: &cedar_policy::PolicySet| {
            let mut set = set.clone();
            set.add(forbid.clone()).ok().map(|()| set)
        };
        Some(match self {
            Self::Denied(set) => Self::Denied(Box::new(with(set)?)),
            // In both, so that equal sets are seen to be equal.
            Self::Within(sets) => Self::Within(Box::new([with(&sets[0])?, with(&sets[1])?])),
            Self::Sound(policy) => Self::Sound(Box::new(World::before(forbid, policy)?)),
        })
    }

    /// Whether the authorizer agrees that it does not hold of this request; the policies that err.
    ///
    /// # Errors
    /// Why the request shows nothing.
    pub(super) fn refuted_by(&self, found: &Env) -> Result<Vec<String>, String> {
        let answer = |set| {
            let response = Authorizer::new().is_authorized(&found.request, set, &found.entities);
            let errors = response.diagnostics().errors();
            let mut erring: Vec<String> = errors.map(|it| super::super::decide::policy_error(it).policy).collect();
            erring.sort();
            (response.decision() == Decision::Allow, erring)
        };
        let allows = |set| match answer(set) {
            (true, erring) if erring.is_empty() => Ok(()),
            (true, erring) => {
                let erring = erring.join("`, `");
                Err(format!("the only call found makes `{erring}` err, which refuses it: see to `no_errors` first"))
            }
            (false, _) => Err("evaluated, the call that the solver found is refused".into()),
        };
        match self {
            Self::Denied(set) => allows(set).map(|()| Vec::new()),
            Self::Within(sets) => {
                allows(&sets[0])?;
                let (allowed, erring) = answer(&sets[1]);
                if allowed && erring.is_empty() {
                    return Err("evaluated, the call that the solver found is allowed by both sets".into());
                }
                Ok(erring)
            }
            Self::Sound(policy) => {
                let set = cedar_policy::PolicySet::from_policies([(**policy).clone()]).map_err(|it| it.to_string())?;
                let erring = answer(&set).1;
                let nothing = "evaluated, no policy errs on the call that the solver found";
                if erring.is_empty() { Err(nothing.into()) } else { Ok(erring) }
            }
        }
    }
}
