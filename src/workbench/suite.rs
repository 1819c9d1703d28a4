//! Many cases, with what is expected of them: `tests/*.yaml` beside the policies.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_saphyr::{Location, Spanned};

use super::case::{Asked, Case, Fault, unknown};
use super::given::ActorGiven;
use super::judge::Word;
use super::yaml::{at, parse};
use super::{Cast, World};
use crate::PolicyProblem;
use crate::policy::{PolicySet, SourceFile};

/// Where the format is described.
const FORMAT: &str = "docs/policies/testing.md";
const EXAMPLE: &str = "write `cases: [{name: .., actor: dana, capability: orders.refund, input: {..}, expect: allow}]`";

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    actors: BTreeMap<String, ActorGiven>,
    #[serde(default)]
    defaults: Case,
    cases: Vec<Spanned<Case>>,
}

/// Cases that can be asked.
pub(crate) struct Suite {
    cases: Vec<Planned>,
}

/// One of them.
pub(super) struct Planned {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) name: String,
    pub(super) asked: Asked,
    expect: Word,
    /// Exactly these, if the case says which.
    policies: Option<BTreeSet<String>>,
}

/// What came of a suite.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) cases: Vec<CaseResult>,
    pub(crate) coverage: Coverage,
}

/// What came of a case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CaseResult {
    pub(crate) file: String,
    pub(crate) line: u64,
    pub(crate) name: String,
    pub(crate) passed: bool,
    pub(crate) expected: String,
    pub(crate) got: String,
    /// The policies that made it so, by id.
    pub(crate) policies: Vec<String>,
    /// What was expected of them, if something was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected_policies: Option<BTreeSet<String>>,
}

/// Which policies a suite says nothing about.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Coverage {
    /// How many policies the files hold.
    pub(crate) policies: usize,
    /// Those that made no case's outcome so: id and place.
    pub(crate) unexercised: Vec<Unexercised>,
}

/// A policy that no case exercises.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Unexercised {
    pub(crate) id: String,
    pub(crate) file: String,
    pub(crate) line: usize,
}

impl Report {
    /// How many cases came out otherwise.
    pub(crate) fn failed(&self) -> usize {
        self.cases.iter().filter(|it| !it.passed).count()
    }
}

/// What one case alone asks: a file that describes a call.
pub(crate) fn one(file: &SourceFile, world: &World) -> Result<Asked, Vec<PolicyProblem>> {
    let case: Case = parse(file, FORMAT)?;
    case.asked(world, &Cast::new()).map_err(|fault| vec![file.problem(0, fault.what).help(fault.help)])
}

impl Suite {
    /// Everything that is wrong with all files at once; of a file that is no YAML of this form, the first thing.
    pub(crate) fn read(files: &[SourceFile], world: &World, set: &PolicySet) -> Result<Self, Vec<PolicyProblem>> {
        let (mut cases, mut problems) = (Vec::new(), Vec::new());
        for file in files {
            match parse::<File>(file, FORMAT) {
                Ok(parsed) => Reader { file, world, set }.read(parsed, &mut cases, &mut problems),
                Err(found) => problems.extend(found),
            }
        }
        if files.is_empty() {
            problems.push(PolicyProblem::of_file("tests", "there are no cases").help(EXAMPLE));
        }
        if problems.is_empty() { Ok(Self { cases }) } else { Err(problems) }
    }

    /// In the order of their files.
    pub(super) fn cases(&self) -> &[Planned] {
        &self.cases
    }

    /// Asks every case.
    pub(crate) fn run(&self, set: &PolicySet) -> Report {
        let cases: Vec<CaseResult> = self.cases.iter().map(|it| it.run(set)).collect();
        let exercised: BTreeSet<&str> = cases.iter().flat_map(|it| it.policies.iter().map(String::as_str)).collect();
        let written = set.written();
        let missed = written.iter().filter(|it| !exercised.contains(it.0));
        let unexercised = missed.map(|(id, place)| Unexercised {
            id: (*id).to_owned(),
            file: place.file.to_string(),
            line: place.line,
        });
        let coverage = Coverage { policies: written.len(), unexercised: unexercised.collect() };
        Report { cases, coverage }
    }
}

impl Planned {
    fn run(&self, set: &PolicySet) -> CaseResult {
        let ruling = self.asked.ruling(set);
        let policies: Vec<String> = ruling.policies().iter().map(|it| it.id.clone()).collect();
        let by_them = self.policies.as_ref().is_none_or(|it| it.iter().eq(policies.iter()));
        CaseResult {
            file: self.file.clone(),
            line: self.line,
            name: self.name.clone(),
            passed: ruling.word() == self.expect && by_them,
            expected: self.expect.to_string(),
            got: ruling.to_string(),
            policies,
            expected_policies: self.policies.clone(),
        }
    }
}

struct Reader<'a> {
    file: &'a SourceFile,
    world: &'a World,
    set: &'a PolicySet,
}

impl Reader<'_> {
    fn read(&self, parsed: File, cases: &mut Vec<Planned>, problems: &mut Vec<PolicyProblem>) {
        let mut own = Cast::new();
        for (name, given) in parsed.actors {
            match given.identity() {
                Ok(identity) => drop(own.insert(name, identity)),
                Err(what) => {
                    let problem = self.file.problem_at_word(0, &name, format!("the actor `{name}` {what}"));
                    problems.push(problem.help("correct it"));
                }
            }
        }
        if parsed.cases.is_empty() {
            problems.push(PolicyProblem::of_file(&self.file.name, "it has no cases").help(EXAMPLE));
        }
        let mut names = BTreeSet::new();
        for Spanned { value, referenced, .. } in parsed.cases {
            match self.plan(value.or(&parsed.defaults), referenced, &own) {
                Ok(case) if names.insert(case.name.clone()) => cases.push(case),
                Ok(case) => {
                    let what = format!("two cases of this file are called `{}`", case.name);
                    problems.push(at(self.file, referenced, what).help("rename one of them"));
                }
                Err(fault) => problems.push(at(self.file, referenced, fault.what).help(fault.help)),
            }
        }
    }

    fn plan(&self, case: Case, location: Location, own: &Cast) -> Result<Planned, Fault> {
        let missing = |what: &str, help: &str| Fault::new(format!("the case has no `{what}`"), help);
        let asked = case.asked(self.world, own)?;
        let name = case.name.ok_or_else(|| missing("name", "say in one line what it shows"))?;
        let help = "write `allow`, `deny`, `hidden`, `unexposed`, `approval: [manager]`, `invalid` or `failed`";
        let expect = case.expect.ok_or_else(|| missing("expect", help))?.sorted();
        if let Some(id) = case.policies.iter().flatten().find(|it| self.set.place(it).is_none()) {
            return Err(unknown("policy", id, self.set.written().into_iter().map(|it| it.0)));
        }
        let policies = case.policies.map(|it| it.into_iter().collect());
        Ok(Planned { file: self.file.name.clone(), line: location.line(), name, asked, expect, policies })
    }
}
