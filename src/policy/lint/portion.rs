//! Checking many policies: Cedar checks each policy for each kind of request. Policies for the same actions are checked
//! together under a schema of the requests that they can match, and portions side by side.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cedar_policy::{ActionConstraint, EntityUid, Schema};

use super::super::PolicyProblem;
use super::super::load::STACK;
use super::super::rules::Rule;
use super::super::slice::Scope;
use super::Linter;

/// From so many policies for the same actions on, a schema of their own is worth its making.
const WORTH_A_SCHEMA: usize = 8;
/// The most policies of one portion.
const MAX_RULES: usize = 500;
/// The most threads: each has a stack of its own.
const MAX_THREADS: usize = 4;

/// Policies that are checked together.
pub(super) struct Portion<'a> {
    pub(super) rules: Vec<&'a Rule>,
    /// Whether all name the same actions.
    is_narrow: bool,
}

impl Portion<'_> {
    /// The schema of the requests that they can match; `None` for the whole.
    pub(super) fn schema(&self, linter: &Linter<'_>) -> Option<Schema> {
        let first = self.rules.first().filter(|_| self.is_narrow)?;
        let scope = Scope::new(&linter.generated.actions);
        linter.generated.narrowed(|action| scope.covers(first, action))
    }
}

pub(super) fn portions<'a>(linter: &Linter<'a>) -> Vec<Portion<'a>> {
    let mut by_actions: BTreeMap<Vec<EntityUid>, Vec<&Rule>> = BTreeMap::new();
    let (mut rest, mut portions) = (Vec::new(), Vec::new());
    for rule in linter.rules {
        match rule.policy.action_constraint() {
            ActionConstraint::Any => rest.push(rule),
            ActionConstraint::Eq(it) => by_actions.entry(vec![it]).or_default().push(rule),
            ActionConstraint::In(all) => by_actions.entry(all).or_default().push(rule),
        }
    }
    for rules in by_actions.into_values() {
        if rules.len() < WORTH_A_SCHEMA {
            rest.extend(rules);
        } else {
            portions.extend(rules.chunks(MAX_RULES).map(|it| Portion { rules: it.to_vec(), is_narrow: true }));
        }
    }
    portions.extend(rest.chunks(MAX_RULES).map(|it| Portion { rules: it.to_vec(), is_narrow: false }));
    portions
}

/// Works on the portions, side by side where there are several. `None`: a thread could not start, or it ended early.
pub(super) fn in_turns<'a>(
    portions: &[Portion<'a>],
    work: impl Fn(&Portion<'a>) -> Vec<PolicyProblem> + Sync,
) -> Option<Vec<PolicyProblem>> {
    if let [one] = portions {
        return Some(work(one)); // here there is room already
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut problems = Vec::new();
        while let Some(portion) = portions.get(next.fetch_add(1, Ordering::Relaxed)) {
            problems.extend(work(portion));
        }
        problems
    };
    let count = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS).min(portions.len());
    thread::scope(|scope| {
        let start = |_| {
            let thread = thread::Builder::new().name("countersign-policies".into()).stack_size(STACK);
            thread.spawn_scoped(scope, take).ok()
        };
        let threads: Vec<_> = (0..count).map(start).collect();
        let mut problems = Vec::new();
        for thread in threads {
            problems.extend(thread?.join().ok()?);
        }
        Some(problems)
    })
}
