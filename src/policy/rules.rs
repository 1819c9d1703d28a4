//! Policies with the meaning that their annotations give them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cedar_policy::pst::{ActionConstraint, PrincipalConstraint, ResourceConstraint, StaticPolicy, Template};
use cedar_policy::{Effect, Policy};
use serde::{Deserialize, Serialize};

use super::problem::{SourceFile, did_you_mean};
use super::schema::CAPABILITY_FILE;
use super::{PolicyProblem, tree};
use crate::audit::{PolicyRef, Requirement};
use crate::capability::{ApprovalRule, Governed};
use crate::duration;

/// A policy that passed every check of its own.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) policy: Policy,
    pub(super) kind: Kind,
    pub(super) reason: Option<String>,
    pub(super) origin: Origin,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "shown by the policy workbench"))]
    pub(super) place: Place,
}

/// Where a policy stands, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The file, as it is named in the directory; `<capability>` for a gate that a capability declares itself.
    pub(crate) file: Arc<str>,
    /// Of its first word. Counts from 1; 0 if it is in no file.
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// Where a rule is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The file's place in the sources, and the policy's first byte.
    File { index: usize, start: usize },
    /// A capability's metadata.
    Capability,
}

/// What a satisfied policy does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Permit,
    Deny,
    Hide,
    Gate(Gate),
}

/// What lifts a gate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gate {
    pub(super) requirement: Requirement,
    pub(super) expires_in: Duration,
}

impl Kind {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Permit => "permit",
            Self::Deny => "forbid",
            Self::Hide => "hide",
            Self::Gate(_) => "gate",
        }
    }
}

impl Rule {
    /// As the trail names it.
    pub(super) fn reference(&self) -> PolicyRef {
        PolicyRef { id: self.id.clone(), effect: self.kind.as_str().into() }
    }
}

/// Every annotation.
pub(super) const KNOWN: [&str; 6] = ["id", "approval", "hide", "quorum", "expires_in", "reason"];
const MAX_QUORUM: u32 = 16;
const MIN_LIFE: Duration = Duration::from_secs(1);
const MAX_LIFE: Duration = Duration::from_hours(30 * 24);
const DEFAULT_LIFE: Duration = Duration::from_hours(24);
/// Ids of the gates that come from capabilities.
const RESERVED: &str = "capability:";

/// Reads a policy's annotations. `Err` is not empty.
pub(super) fn read(policy: &Policy, file: &SourceFile, start: usize) -> Result<(String, Kind), Vec<PolicyProblem>> {
    let mut reader = Reader { policy, file, start, problems: Vec::new() };
    let id = reader.id();
    reader.check_names();
    let kind = reader.kind();
    match (id, kind) {
        (Some(id), Some(kind)) if reader.problems.is_empty() => Ok((id, kind)),
        _ => Err(reader.problems),
    }
}

struct Reader<'a> {
    policy: &'a Policy,
    file: &'a SourceFile,
    start: usize,
    problems: Vec<PolicyProblem>,
}

impl Reader<'_> {
    fn refuse(&mut self, annotation: &str, what: impl Into<String>, help: impl Into<String>) {
        let mut problem = self.file.problem_at_word(self.start, &format!("@{annotation}"), what).help(help);
        problem.policy = self.policy.annotation("id").map(str::to_owned);
        self.problems.push(problem);
    }

    fn id(&mut self) -> Option<String> {
        let id = self.policy.annotation("id").unwrap_or_default().trim().to_owned();
        if id.is_empty() || id.len() > 200 || id.chars().any(char::is_control) {
            let what = "the policy has no `@id` of 1 to 200 printable bytes";
            self.refuse("id", what, "write `@id(\"what-it-says\")` in front of it");
            return None;
        }
        if id.starts_with(RESERVED) {
            self.refuse("id", "ids that begin with `capability:` belong to the capabilities' own gates", "rename it");
            return None;
        }
        Some(id)
    }

    /// A typo in a name would turn a gate into a plain forbid: it denies, and nobody knows why.
    fn check_names(&mut self) {
        let unknown: Vec<String> =
            self.policy.annotations().map(|it| it.0).filter(|it| !KNOWN.contains(it)).map(str::to_owned).collect();
        for name in unknown {
            let help = did_you_mean(&name, KNOWN);
            let help = help.unwrap_or_else(|| format!("the annotations are `@{}`", KNOWN.join("`, `@")));
            self.refuse(&name, format!("`@{name}` is no annotation"), help);
        }
    }

    fn kind(&mut self) -> Option<Kind> {
        let (approval, hide) = (self.policy.annotation("approval"), self.policy.annotation("hide"));
        if approval.is_none() {
            for name in ["quorum", "expires_in"] {
                if self.policy.annotation(name).is_some() {
                    let what = format!("`@{name}` says nothing without `@approval`");
                    self.refuse(name, what, "add `@approval(\"manager\")`, or remove it");
                }
            }
        }
        match (self.policy.effect(), approval, hide) {
            (Effect::Permit, None, None) => Some(Kind::Permit),
            (Effect::Permit, approval, _) => {
                let name = if approval.is_some() { "approval" } else { "hide" };
                self.refuse(
                    name,
                    format!("`@{name}` stands on a permit"),
                    "a permit lifts nothing: write it on a forbid",
                );
                None
            }
            (Effect::Forbid, None, None) => Some(Kind::Deny),
            (Effect::Forbid, None, Some("")) => Some(Kind::Hide),
            (Effect::Forbid, None, Some(_)) => {
                self.refuse("hide", "`@hide` has a value", "write `@hide` alone");
                None
            }
            (Effect::Forbid, Some(_), Some(_)) => {
                self.refuse("hide", "`@hide` and `@approval` exclude each other", "write two policies");
                None
            }
            (Effect::Forbid, Some(kind), None) => self.gate(kind.to_owned()),
        }
    }

    fn gate(&mut self, kind: String) -> Option<Kind> {
        if !is_approval_type(&kind) {
            let what = "`@approval` has no type of 1 to 64 characters";
            self.refuse("approval", what, "write `@approval(\"manager\")`");
            return None;
        }
        let quorum = self.policy.annotation("quorum").map_or(Some(1), |it| it.parse().ok());
        let Some(quorum) = quorum.filter(|it| (1..=MAX_QUORUM).contains(it)) else {
            self.refuse("quorum", "`@quorum` is not a number from 1 to 16", "write `@quorum(\"2\")`");
            return None;
        };
        let life = self.policy.annotation("expires_in").map_or(Some(DEFAULT_LIFE), duration::parse);
        // Whole seconds: so they are told, compared and kept.
        let is_life = |it: &Duration| it.subsec_nanos() == 0 && (MIN_LIFE..=MAX_LIFE).contains(it);
        let Some(expires_in) = life.filter(is_life) else {
            let what = "`@expires_in` is not a time from 1s to 30d";
            self.refuse("expires_in", what, "write `@expires_in(\"1h\")`; the units are s, m, h and d");
            return None;
        };
        Some(Kind::Gate(Gate { requirement: Requirement { quorum, kind }, expires_in }))
    }
}

fn is_approval_type(it: &str) -> bool {
    !it.is_empty() && it.len() <= 64 && it.trim() == it && !it.chars().any(char::is_control)
}

/// APR-12: a capability's `approval` metadata is a gate like any other, so that Cedar stays the only source.
pub(super) fn of_capability(capability: &Governed) -> Option<Result<Rule, String>> {
    let approval = capability.meta.approval.as_ref()?;
    Some(capability_gate(capability, approval))
}

fn capability_gate(capability: &Governed, approval: &ApprovalRule) -> Result<Rule, String> {
    let id = format!("{RESERVED}{}:approval", capability.id);
    let reason = format!("Every call of {} needs an approval of type {}.", capability.id, approval.kind);
    let annotations = [
        ("id", id.clone()),
        ("approval", approval.kind.clone()),
        ("quorum", approval.quorum.to_string()),
        ("expires_in", format!("{}s", approval.expires_in.as_secs())),
        ("reason", reason.clone()),
    ];
    let action = tree::action(&capability.id).ok_or("`Action` is no type")?;
    let template = Template::new(
        id.as_str(),
        cedar_policy::pst::Effect::Forbid,
        PrincipalConstraint::Any,
        ActionConstraint::Eq(action),
        ResourceConstraint::Any,
    )
    .with_annotations(annotations.map(|(name, value)| (name.to_owned(), value.into())).into());
    let policy = StaticPolicy::try_from(template)
        .map_err(|it| it.to_string())
        .and_then(|it| Policy::from_pst(cedar_policy::pst::Policy::Static(it)).map_err(|it| it.to_string()))?;
    let place = Place { file: CAPABILITY_FILE.into(), line: 0 };
    let requirement = Requirement { kind: approval.kind.clone(), quorum: approval.quorum };
    let kind = Kind::Gate(Gate { requirement, expires_in: approval.expires_in });
    Ok(Rule { id, policy, kind, reason: Some(reason), origin: Origin::Capability, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> String {
        let file = SourceFile { name: "a.cedar".into(), text: text.to_owned() };
        let policy = Policy::parse(None, text).unwrap();
        match read(&policy, &file, 0) {
            Ok((id, kind)) => format!("{id} {kind:?}"),
            Err(all) => {
                let all: Vec<String> = all.iter().map(|it| format!("{} {}", it.column, it.what)).collect();
                all.join("; ")
            }
        }
    }

    #[test]
    fn annotations_make_four_kinds_of_policies_and_everything_else_is_refused() {
        let permit = "permit (principal, action, resource);";
        let forbid = "forbid (principal, action, resource);";
        let table = [
            format!("@id(\"a\") {permit}"),
            format!("@id(\"a\") @reason(\"r\") {forbid}"),
            format!("@id(\"a\") @hide {forbid}"),
            format!("@id(\"a\") @approval(\"m\") {forbid}"),
            format!("@id(\"a\") @approval(\"m\") @quorum(\"16\") @expires_in(\"30d\") {forbid}"),
            format!("@id(\"a\") @approval(\"m\") @quorum(\"17\") {forbid}"),
            format!("@id(\"a\") @approval(\"m\") @quorum(\"0\") {forbid}"),
            format!("@id(\"a\") @approval(\"m\") @expires_in(\"31d\") {forbid}"),
            format!("@id(\"a\") @approval(\"m\") @expires_in(\"0s\") {forbid}"),
            format!("@id(\"a\") @approval(\"m\") @expires_in(\"1500ms\") {forbid}"),
            format!("@id(\"a\") @approval(\"m\") @expires_in(\"1 h\") {forbid}"),
            format!("@id(\"a\") @approval {forbid}"),
            format!("@id(\"a\") @approval(\"m\") @hide {forbid}"),
            format!("@id(\"a\") @hide(\"x\") {forbid}"),
            format!("@id(\"a\") @hide {permit}"),
            format!("@id(\"a\") @approval(\"m\") {permit}"),
            format!("@id(\"a\") @quorum(\"2\") {forbid}"),
            format!("@id(\"a\") @expires_in(\"1h\") {forbid}"),
            format!("@id(\"a\") @aproval(\"m\") {forbid}"),
            format!("@id(\"capability:a:approval\") {forbid}"),
            format!("@id {forbid}"),
            forbid.to_owned(),
        ];
        let lines: Vec<String> = table.iter().map(|it| kind(it)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        a Permit
        a Deny
        a Hide
        a Gate(Gate { requirement: Requirement { quorum: 1, kind: "m" }, expires_in: 86400s })
        a Gate(Gate { requirement: Requirement { quorum: 16, kind: "m" }, expires_in: 2592000s })
        25 `@quorum` is not a number from 1 to 16
        25 `@quorum` is not a number from 1 to 16
        25 `@expires_in` is not a time from 1s to 30d
        25 `@expires_in` is not a time from 1s to 30d
        25 `@expires_in` is not a time from 1s to 30d
        25 `@expires_in` is not a time from 1s to 30d
        10 `@approval` has no type of 1 to 64 characters
        25 `@hide` and `@approval` exclude each other
        10 `@hide` has a value
        10 `@hide` stands on a permit
        10 `@approval` stands on a permit
        10 `@quorum` says nothing without `@approval`
        10 `@expires_in` says nothing without `@approval`
        10 `@aproval` is no annotation
        1 ids that begin with `capability:` belong to the capabilities' own gates
        1 the policy has no `@id` of 1 to 200 printable bytes
        1 the policy has no `@id` of 1 to 200 printable bytes
        "#);
    }
}
