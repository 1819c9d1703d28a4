//! What changes of policies mean.
//!
//! A policy that lost a part holds at least as often as before, and one that got a part at most as often. Nothing else
//! is concluded from its text: whatever is said in other words is for somebody to read.

use std::collections::{BTreeMap, BTreeSet};

use super::capability::gates;
use super::{Class, Difference, Subject};
use crate::CapabilityId;
use crate::policy::Outline;

/// Adds what is otherwise. `lasting`: the capabilities that are in both.
pub(super) fn compare(
    (before, after): (&[Outline], &[Outline]),
    lasting: &BTreeSet<CapabilityId>,
    out: &mut Vec<Difference>,
) {
    let before: BTreeMap<&str, &Outline> = before.iter().map(|it| (&*it.id, it)).collect();
    let ids: BTreeSet<&str> = after.iter().map(|it| &*it.id).collect();
    for policy in after {
        match before.get(&*policy.id) {
            Some(was) => Notes { before: was, after: policy, lasting, out }.all(),
            None => out.push(whole(policy, "added", Class::widens(is_permit(policy)))),
        }
    }
    for policy in before.values().filter(|it| !ids.contains(&*it.id)) {
        out.push(whole(policy, "removed", Class::widens(!is_permit(policy))));
    }
}

fn is_permit(policy: &Outline) -> bool {
    policy.effect == "permit"
}

fn whole(policy: &Outline, what: &'static str, class: Class) -> Difference {
    let word = if what == "added" { "new" } else { "gone" };
    let gate = policy.gate.as_ref().map(|it| format!(" for approvals of type `{}`", it.kind)).unwrap_or_default();
    let says = format!("the {}{gate} is {word}, over {}", policy.effect, reach(policy));
    Difference::new(class, Subject::Policy(policy.id.clone()), what, says)
}

/// What a policy can be asked about.
fn reach(policy: &Outline) -> String {
    let capabilities = policy.capabilities.iter().map(|it| format!("`{it}`"));
    let all: Vec<_> = capabilities.chain(policy.manages.iter().map(|it| format!("`{it}`"))).collect();
    if all.is_empty() { "nothing that there is".into() } else { all.join(", ") }
}

/// How much a kind of policy keeps from coming through.
fn strength(effect: &str) -> u8 {
    match effect {
        "permit" => 0,
        "gate" => 1,
        "forbid" => 2,
        _ => 3,
    }
}

/// How often it holds now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    AsBefore,
    AtLeast,
    AtMost,
    Otherwise,
}

impl Holds {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::AsBefore, it) | (it, Self::AsBefore) => it,
            (one, two) if one == two => one,
            (_, _) => Self::Otherwise,
        }
    }

    /// A part of the scope: without a constraint it is the bare word.
    fn of_part(any: &str, before: &str, after: &str) -> Self {
        match (before == any, after == any) {
            _ if before == after => Self::AsBefore,
            (true, _) => Self::AtMost,
            (_, true) => Self::AtLeast,
            (false, false) => Self::Otherwise,
        }
    }

    fn of_conditions(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Self {
        match (after.is_subset(before), before.is_subset(after)) {
            (true, true) => Self::AsBefore,
            (true, false) => Self::AtLeast,
            (false, true) => Self::AtMost,
            (false, false) => Self::Otherwise,
        }
    }
}

/// One policy, before and after.
struct Notes<'a> {
    before: &'a Outline,
    after: &'a Outline,
    lasting: &'a BTreeSet<CapabilityId>,
    out: &'a mut Vec<Difference>,
}

impl Notes<'_> {
    fn note(&mut self, class: Class, what: &'static str, says: impl Into<String>) {
        self.out.push(Difference::new(class, Subject::Policy(self.after.id.clone()), what, says));
    }

    fn all(mut self) {
        let known = self.out.len();
        let (before, after) = (self.before, self.after);
        if before.effect == after.effect {
            self.gate();
        } else {
            let says = format!("it was a {} and is a {}", before.effect, after.effect);
            self.note(Class::widens(strength(&after.effect) < strength(&before.effect)), "effect", says);
        }
        self.parts();
        self.reach();
        if self.out.len() == known && before.digest != after.digest {
            self.note(Class::Review, "digest", "it says the same in another order, or something else");
        }
        if before.reason != after.reason {
            self.note(Class::Neutral, "reason", "people read another reason");
        }
    }

    fn gate(&mut self) {
        let mut found = Vec::new();
        gates(self.before.gate.as_ref(), self.after.gate.as_ref(), &mut |class, says| found.push((class, says)));
        for (class, says) in found {
            self.note(class, "gate", says);
        }
    }

    /// Whom and which calls it is about, but for the actions, which [`Self::reach`] tells by name.
    fn parts(&mut self) {
        let (before, after) = (self.before, self.after);
        let holds = Holds::of_part("principal", &before.principal, &after.principal)
            .and(Holds::of_part("resource", &before.resource, &after.resource))
            .and(Holds::of_conditions(&before.conditions, &after.conditions));
        let is_same_effect = before.effect == after.effect;
        let class = match holds {
            Holds::AsBefore => return,
            Holds::AtLeast if is_same_effect => Class::widens(is_permit(after)),
            Holds::AtMost if is_same_effect => Class::widens(!is_permit(after)),
            Holds::AtLeast | Holds::AtMost | Holds::Otherwise => Class::Review,
        };
        let often = match holds {
            Holds::AtLeast => "it holds more often",
            Holds::AtMost => "it holds less often",
            Holds::AsBefore | Holds::Otherwise => "it holds of other calls",
        };
        self.note(class, "conditions", format!("{often}: {}", self.changed_parts().join("; ")));
    }

    /// What went, with `-`, and what came, with `+`.
    fn changed_parts(&self) -> Vec<String> {
        let (before, after) = (self.before, self.after);
        let mut all = Vec::new();
        for (was, is) in [(&before.principal, &after.principal), (&before.resource, &after.resource)] {
            if was != is {
                all.extend([format!("-`{was}`"), format!("+`{is}`")]);
            }
        }
        all.extend(before.conditions.difference(&after.conditions).map(|it| format!("-`{it}`")));
        all.extend(after.conditions.difference(&before.conditions).map(|it| format!("+`{it}`")));
        all
    }

    /// Which of the capabilities that were there before it can be asked about, and which management actions.
    fn reach(&mut self) {
        let (before, after) = (self.before, self.after);
        let (permits, effect) = (is_permit(after), &after.effect);
        let named = |of: &Outline, other: &Outline| -> Vec<String> {
            let lasting = |it: &&CapabilityId| self.lasting.contains(*it);
            let capabilities =
                of.capabilities.difference(&other.capabilities).filter(lasting).map(|it| format!("`{it}`"));
            capabilities.chain(of.manages.difference(&other.manages).map(|it| format!("`{it}`"))).collect()
        };
        let (gained, lost) = (named(after, before), named(before, after));
        if gained.is_empty() && lost.is_empty() && before.action != after.action {
            let class = match Holds::of_part("action", &before.action, &after.action) {
                Holds::AtLeast => Class::widens(permits),
                Holds::AtMost => Class::widens(!permits),
                Holds::AsBefore | Holds::Otherwise => Class::Neutral,
            };
            let says = format!("it is over the same as before, by `{}`, was `{}`", after.action, before.action);
            self.note(class, "action", says);
        }
        if !gained.is_empty() {
            let says = format!("the {effect} is over {}, too", gained.join(", "));
            self.note(Class::widens(permits), "action", says);
        }
        if !lost.is_empty() {
            let says = format!("the {effect} is no longer over {}", lost.join(", "));
            self.note(Class::widens(!permits), "action", says);
        }
    }
}
