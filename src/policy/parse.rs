//! Text to rules, policy by policy: one broken policy hides neither its neighbours' errors nor, as a template would,
//! its own absence.

use std::collections::BTreeMap;

use cedar_policy::{ParseErrors, Policy, PolicyId};
use miette::Diagnostic;

use super::PolicyProblem;
use super::problem::{MAX_PROBLEMS, SourceFile, is_bidirectional};
use super::rules::{self, Origin, Place, Rule};
use super::scan::{Span, scan};
use super::tree;

/// The deepest tree of a condition. The evaluator needs 4 KiB of stack a level.
const MAX_DEPTH: usize = 100;

/// All rules of all files whose own text is in order, and everything that is not.
pub(super) fn parse(files: &[SourceFile]) -> (Vec<Rule>, Vec<PolicyProblem>) {
    let mut parser = Parser::default();
    for (index, file) in files.iter().enumerate() {
        parser.file(index, file);
    }
    (parser.rules, parser.problems)
}

#[derive(Default)]
struct Parser {
    rules: Vec<Rule>,
    problems: Vec<PolicyProblem>,
    /// Where each id is first used.
    ids: BTreeMap<String, String>,
}

impl Parser {
    fn file(&mut self, index: usize, file: &SourceFile) {
        let spans = match scan(&file.text) {
            Ok(spans) => spans,
            Err(it) => return self.problems.push(file.problem(it.at, it.what).help(it.help)),
        };
        let mut line_start = 0;
        for line in file.text.split_inclusive('\n') {
            if let Some(at) = line.find(is_bidirectional) {
                let what = "a character that changes the direction of text";
                self.problems.push(file.problem(line_start + at, what).help("remove it"));
            }
            line_start += line.len();
        }
        let before = self.problems.len();
        let (mut line, mut at) = (1, 0);
        for span in spans {
            if self.problems.len() >= before + MAX_PROBLEMS {
                let what = format!("{MAX_PROBLEMS} problems: what follows was not read");
                return self.problems.push(file.problem(span.start, what).help("correct those before it"));
            }
            line += file.text[at..span.start].matches('\n').count();
            at = span.start;
            match self.policy(index, file, span, line) {
                Ok(rule) => self.rules.push(rule),
                Err(problems) => self.problems.extend(problems),
            }
        }
    }

    fn policy(&mut self, index: usize, file: &SourceFile, span: Span, line: usize) -> Result<Rule, Vec<PolicyProblem>> {
        let start = span.start;
        // refuses templates, which never evaluate: a forbid that is one would protect nothing
        let policy = Policy::parse(None, &file.text[span]).map_err(|it| syntax(file, start, &it))?;
        let (id, kind) = rules::read(&policy, file, start)?;
        let problem = |what: String, help: &str| vec![file.problem(start, what).policy(&id).help(help)];
        let place = Place { file: file.name.as_str().into(), line };
        if let Some(first) = self.ids.get(&id) {
            return Err(problem(format!("the id `{id}` is also at {first}"), "ids are unique in the whole set"));
        }
        self.ids.insert(id.clone(), place.to_string());
        let depth = tree::body(&policy).map_or(usize::MAX, |it| tree::depth(&it));
        if depth > MAX_DEPTH {
            let what = format!("the condition is more than {MAX_DEPTH} levels deep");
            return Err(problem(what, "use a set and `contains`, or split the policy"));
        }
        let reason = policy.annotation("reason").map(str::to_owned).filter(|it| !it.is_empty());
        let policy = policy.new_id(PolicyId::new(&id));
        Ok(Rule { id, policy, kind, reason, origin: Origin::File { index, start }, place })
    }
}

/// A policy that refuses every call of which a condition does not hold.
#[cfg(feature = "prove")]
pub(super) fn condition(text: &str) -> Result<Policy, String> {
    const BEFORE: &str = "forbid (principal, action, resource) unless {";
    let whole = format!("{BEFORE}\n{text}\n}};");
    let spans = scan(&whole).map_err(|it| it.what)?;
    let policy = Policy::parse(Some(PolicyId::new("<when>")), &whole).map_err(|it| it.to_string())?;
    let body = tree::body(&policy);
    match body.as_ref().map(|it| (it.clauses().len(), tree::depth(it))) {
        Some((1, depth)) if depth <= MAX_DEPTH && spans.len() == 1 => Ok(policy),
        Some((1, _)) => Err(format!("it is more than {MAX_DEPTH} levels deep")),
        _ => Err("it is more than one condition".into()),
    }
}

fn syntax(file: &SourceFile, start: usize, errors: &ParseErrors) -> Vec<PolicyProblem> {
    let one = |it: &cedar_policy::ParseError| file.problem(start + label(it), it.to_string()).maybe_help(help(it));
    errors.iter().map(one).collect()
}

/// The byte that Cedar points at.
pub(super) fn label(it: &dyn Diagnostic) -> usize {
    it.labels().and_then(|mut it| it.next()).map_or(0, |it| it.offset())
}

/// Cedar's own advice.
pub(super) fn help(it: &dyn Diagnostic) -> Option<String> {
    it.help().map(|it| it.to_string())
}
