//! Reading statements: every word of them is looked up, so that none proves nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};

use super::super::World;
use super::super::case::{Fault, unknown};
use super::super::yaml::{at, parse};
use super::{Statement, Statements};
use crate::PolicyProblem;
use crate::actor::Surface;
use crate::policy::{self, Calls, Claim, PolicySet, SourceFile, did_you_mean};

/// Where the format is described.
const FORMAT: &str = "docs/policies/proving.md";
const EXAMPLE: &str = "write `statements: [{name: .., only_role: {role: manager, capability: reports.export}}]`";
const KINDS: &str = "give it one of `never_without_approval`, `only_role`, `never_over`, `no_errors` and `implies`";

/// A file of statements.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    statements: Vec<Spanned<Given>>,
}

/// A statement as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    name: Option<String>,
    never_without_approval: Option<Approval>,
    only_role: Option<OnlyRole>,
    never_over: Option<NeverOver>,
    no_errors: Option<Names>,
    implies: Option<Implication>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approval {
    capability: String,
    #[serde(rename = "type")]
    kind: String,
    when: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnlyRole {
    role: Names,
    capability: String,
    when: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NeverOver {
    surface: Surface,
    capability: String,
    when: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Implication {
    set: String,
    by: String,
}

/// `true` for all there are, one name, or several.
enum Names {
    All,
    These(Vec<String>),
}

// Not `untagged`: that would lose where in the file something is wrong, and what.
impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, or `[names]`")
            }

            fn visit_bool<E: Error>(self, all: bool) -> Result<Names, E> {
                if all { Ok(Names::All) } else { Err(E::custom("`false` states nothing")) }
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Names, E> {
                Ok(Names::These(vec![name.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Names, A::Error> {
                let mut these = Vec::new();
                while let Some(name) = names.next_element()? {
                    these.push(name);
                }
                Ok(Names::These(these))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

impl Statements {
    /// Everything that is wrong with all files at once; of a file that is no YAML of this form, the first thing.
    /// `policies` is the directory that the sets of an implication are looked for from.
    pub(crate) fn read(
        files: &[SourceFile],
        policies: &Path,
        world: &World,
        set: &PolicySet,
    ) -> Result<Self, Vec<PolicyProblem>> {
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        for file in files {
            match parse::<File>(file, FORMAT) {
                Ok(parsed) => Reader { file, policies, world, set }.read(parsed, &mut all, &mut problems),
                Err(found) => problems.extend(found),
            }
        }
        if files.is_empty() {
            problems.push(PolicyProblem::of_file("invariants", "there are no statements").help(EXAMPLE));
        }
        if problems.is_empty() { Ok(Self { all }) } else { Err(problems) }
    }
}

struct Reader<'a> {
    file: &'a SourceFile,
    policies: &'a Path,
    world: &'a World,
    set: &'a PolicySet,
}

impl Reader<'_> {
    fn read(&self, parsed: File, all: &mut Vec<Statement>, problems: &mut Vec<PolicyProblem>) {
        if parsed.statements.is_empty() {
            problems.push(PolicyProblem::of_file(&self.file.name, "it has no statements").help(EXAMPLE));
        }
        let mut names = BTreeSet::new();
        for Spanned { value, referenced, .. } in parsed.statements {
            match self.statement(value, referenced) {
                Ok(it) if names.insert(it.name.clone()) => all.push(it),
                Ok(it) => {
                    let what = format!("two statements of this file are called `{}`", it.name);
                    problems.push(at(self.file, referenced, what).help("rename one of them"));
                }
                Err(fault) => problems.push(at(self.file, referenced, fault.what).help(fault.help)),
            }
        }
    }

    fn statement(&self, given: Given, location: Location) -> Result<Statement, Fault> {
        let Given { name, never_without_approval, only_role, never_over, no_errors, implies } = given;
        let claims = [
            never_without_approval.map(|it| self.never_without_approval(it)),
            only_role.map(|it| self.only_role(it)),
            never_over.map(|it| self.never_over(&it)),
            no_errors.map(|it| self.no_errors(it)),
            implies.map(|it| self.implies(&it)),
        ];
        let mut claims = claims.into_iter().flatten();
        let claim = claims.next().ok_or_else(|| Fault::new("it states nothing", KINDS))??;
        if claims.next().is_some() {
            return Err(Fault::new("it states more than one thing", "write two statements"));
        }
        let missing = || Fault::new("the statement has no `name`", "say in one line what always holds");
        let name = name.ok_or_else(missing)?;
        Ok(Statement { file: self.file.name.clone(), line: location.line(), name, claim })
    }

    fn never_without_approval(&self, it: Approval) -> Result<Claim, Fault> {
        let calls = self.calls(&it.capability, it.when.as_deref())?;
        not_misspelled("type of approval", &it.kind, &self.set.approval_types())?;
        Ok(Claim::NeverWithoutApproval { calls, kind: it.kind })
    }

    fn only_role(&self, it: OnlyRole) -> Result<Claim, Fault> {
        let calls = self.calls(&it.capability, it.when.as_deref())?;
        let Names::These(roles) = it.role else { return Err(Fault::new("it names no role", "write `role: manager`")) };
        if roles.is_empty() {
            return Err(Fault::new("it names no role", "write `role: manager`"));
        }
        let known = self.set.role_names();
        roles.iter().try_for_each(|it| not_misspelled("role", it, &known))?;
        Ok(Claim::OnlyRole { calls, roles })
    }

    fn never_over(&self, it: &NeverOver) -> Result<Claim, Fault> {
        let calls = self.calls(&it.capability, it.when.as_deref())?;
        Ok(Claim::NeverOver { calls, surface: it.surface })
    }

    fn no_errors(&self, it: Names) -> Result<Claim, Fault> {
        let known = self.set.policy_ids();
        let policies: BTreeSet<String> = match it {
            Names::All => known,
            Names::These(ids) => {
                if let Some(id) = ids.iter().find(|it| !known.contains(*it)) {
                    return Err(unknown("policy", id, known.iter().map(String::as_str)));
                }
                ids.into_iter().collect()
            }
        };
        if policies.is_empty() {
            return Err(Fault::new("it names no policy", "write `no_errors: true` for all of them"));
        }
        Ok(Claim::NoErrors { policies })
    }

    fn implies(&self, it: &Implication) -> Result<Claim, Fault> {
        Ok(Claim::Implies { set: self.other(&it.set)?, by: self.other(&it.by)? })
    }

    /// A set beside this one.
    fn other(&self, directory: &str) -> Result<Arc<PolicySet>, Fault> {
        let source = self.policies.join(directory);
        let loaded = policy::load(&source.into(), &self.world.registry);
        loaded.map(|it| Arc::new(it.0)).map_err(|problems| {
            let fatal = problems.iter().find(|it| it.is_fatal()).map(|it| it.what.clone()).unwrap_or_default();
            let help = "name a directory of policies, from that of these: look at it with `countersign policy check`";
            Fault::new(format!("the policies in `{directory}` do not load: {fatal}"), help)
        })
    }

    fn calls(&self, name: &str, when: Option<&str>) -> Result<Calls, Fault> {
        let capabilities = self.set.named(name);
        if capabilities.is_empty() {
            let known = self.set.names();
            return Err(unknown("capability or group", name, known.iter().map(String::as_str)));
        }
        let when = when.map(|it| self.set.condition(it, &capabilities)).transpose();
        let when = when.map_err(|what| {
            let help = "write what stands between the braces of a policy's `when`: `context.input.amountCents > 50000`";
            Fault::new(format!("its `when` is no condition: {what}"), help)
        })?;
        Ok(Calls { capabilities, when })
    }
}

/// A name that no policy has may be right, and the statement refuted; one that is nearly another's is not.
fn not_misspelled(what: &str, name: &str, known: &BTreeSet<String>) -> Result<(), Fault> {
    let near = || did_you_mean(name, known.iter().map(String::as_str));
    match if known.contains(name) { None } else { near() } {
        Some(help) => Err(Fault::new(format!("no policy has the {what} `{name}`"), help)),
        None => Ok(()),
    }
}
