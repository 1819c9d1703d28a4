//! Loading: read, generate, parse, validate, lint, compile. Every problem of every file at once.

use std::sync::Arc;

use cedar_policy::EntityUid;

use super::compile::compile;
use super::lint::Linter;
use super::problem::{SourceFile, settle};
use super::rules::{self, Kind, Rule};
use super::schema::{CAPABILITY_FILE, Generated, generate};
use super::slice::{Scope, invoke_action, manage_action};
use super::source::Sources;
#[cfg(feature = "cli")]
use super::{Kept, SchemaFile};
use super::{ManageAction, PolicyProblem, PolicySet, Said, Texts, approvers, extend, parse, schema_file};
use crate::capability::Governed;

/// Enough for whatever passes the caps, in a debug build too.
pub(super) const STACK: usize = 64 << 20;

pub(super) type Loaded = Result<(PolicySet, Vec<PolicyProblem>), Vec<PolicyProblem>>;

#[cfg(test)]
pub(super) fn load(source: &super::PolicySource, capabilities: &[Arc<Governed>]) -> Loaded {
    load_read(super::source::read(source), capabilities)
}

pub(super) fn load_read(sources: Sources, capabilities: &[Arc<Governed>]) -> Loaded {
    let name = sources.name.clone();
    roomy(|| build(sources, capabilities)).unwrap_or_else(|| Err(vec![no_room(name)]))
}

fn no_room(name: String) -> PolicyProblem {
    let what = "the policies could not be checked: their thread could not start, or it ended early";
    PolicyProblem::of_file(name, what).help("give the process 64 MiB of memory and another thread")
}

/// What the files say, without a look at the capabilities.
pub(super) fn said(sources: Sources) -> Option<Said> {
    let Sources { policies: files, extension, .. } = sources;
    roomy(|| {
        let (mut rules, _) = parse::parse(&files);
        rules.sort_by(|one, two| one.id.cmp(&two.id));
        Said::of(&rules, &texts(files, extension)).ok()
    })?
}

fn texts(files: Vec<SourceFile>, extension: Option<SourceFile>) -> Texts {
    files.into_iter().chain(extension).map(|it| (it.name, it.text)).collect()
}

/// Runs on a thread with room. Failing to start, and a panic, are answers.
pub(super) fn roomy<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("countersign-policies".into()).stack_size(STACK);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

fn build(sources: Sources, capabilities: &[Arc<Governed>]) -> Loaded {
    let Sources { policies: files, extension, kept_schema, mut problems, name, .. } = sources;
    if problems.iter().any(|it| it.file == name) {
        return Err(settle(problems)); // nothing could be read: the rest would only follow from that
    }
    let unreadable_schema = problems.iter().any(|it| it.file == extend::FILE);
    let (generated, schema_problems) = generate(capabilities, extension.as_ref());
    let (mut rules, parse_problems) = parse::parse(&files);
    if !unreadable_schema {
        problems.extend(schema_problems);
    }
    problems.extend(parse_problems);
    if rules.is_empty() && !problems.iter().any(PolicyProblem::is_fatal) {
        let what = "there are no policies, so every call is denied";
        problems.push(PolicyProblem::of_file(&name, what).help("add a `.cedar` file with a permit").warning());
    }
    add_capability_gates(&mut rules, capabilities, &mut problems);
    rules.sort_by(|one, two| one.id.cmp(&two.id));
    // without the application's schema every use of its types would be reported
    let Some(generated) = generated.filter(|_| !unreadable_schema) else { return Err(settle(problems)) };
    let is_stale = kept_schema.is_some_and(|it| !schema_file::is_current(&it, &schema_file::text(&generated)));
    problems.extend(is_stale.then(schema_file::stale));
    let linter = Linter::new(&files, &rules, &generated, capabilities);
    let Some(found) = linter.check() else { return Err(vec![no_room(name)]) };
    problems.extend(found);
    if !problems.iter().any(PolicyProblem::is_fatal) {
        problems.extend(ungivable(&linter, &rules, &generated, capabilities));
        problems.extend(linter.warnings());
    }
    let problems = settle(problems);
    if problems.iter().any(PolicyProblem::is_fatal) {
        return Err(problems);
    }
    match compile(generated, rules, capabilities, texts(files, extension)) {
        Ok(set) => Ok((set, problems)),
        Err(what) => Err(vec![PolicyProblem::of_file(name, what).help("report this as a fault of the engine")]),
    }
}

/// The generated schema. Policies that do not load are no reason to be without: they are corrected by it.
#[cfg(feature = "cli")]
pub(super) fn schema(sources: Sources, capabilities: &[Arc<Governed>]) -> Result<SchemaFile, Vec<PolicyProblem>> {
    let Sources { extension, kept_schema, mut problems, name, .. } = sources;
    problems.retain(|it| it.file == name || it.file == extend::FILE);
    if !problems.is_empty() {
        return Err(problems);
    }
    let Some((generated, problems)) = roomy(|| generate(capabilities, extension.as_ref())) else {
        return Err(vec![no_room(name)]);
    };
    let Some(generated) = generated else { return Err(settle(problems)) };
    let text = schema_file::text(&generated);
    let kept = match kept_schema {
        None => Kept::Absent,
        Some(it) if schema_file::is_current(&it, &text) => Kept::Current,
        Some(_) => Kept::Stale,
    };
    Ok(SchemaFile { text, unseen: schema_file::unseen(&generated), kept })
}

fn add_capability_gates(rules: &mut Vec<Rule>, capabilities: &[Arc<Governed>], problems: &mut Vec<PolicyProblem>) {
    for gate in capabilities.iter().filter_map(|it| rules::of_capability(it)) {
        match gate {
            Ok(rule) => rules.push(rule),
            Err(what) => problems.push(PolicyProblem::of_file(CAPABILITY_FILE, what).help("correct its `approval`")),
        }
    }
}

/// APR-12: gates of capabilities whose approval nobody could give.
fn ungivable(
    linter: &Linter<'_>,
    rules: &[Rule],
    generated: &Generated,
    capabilities: &[Arc<Governed>],
) -> Vec<PolicyProblem> {
    let scope = Scope::new(&generated.actions);
    let approve = manage_action(ManageAction::Approve);
    let permits = |it: &&Rule| approve.as_ref().is_some_and(|approve| scope.manages(it, approve));
    let permits: Vec<&Rule> = rules.iter().filter(permits).collect();
    let actions: Vec<EntityUid> = capabilities.iter().filter_map(|it| invoke_action(&it.id)).collect();
    let mut problems = Vec::new();
    for rule in rules {
        let Kind::Gate(gate) = &rule.kind else { continue };
        let kind = &gate.requirement.kind;
        let applies = actions.iter().any(|it| scope.invokes(rule, it));
        if applies && !approvers::can_be_given(kind, permits.iter().copied(), &generated.actions) {
            let what = format!("nobody can give an approval of type `{kind}`");
            problems.push(linter.problem(rule, 0, what).help(format!(
                "permit `Countersign::Action::\"approve\"` when `context.requirement == \"{}\"`",
                kind.escape_default()
            )));
        }
    }
    problems
}
