//! What changes of capabilities mean.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::survey::CapabilityRecord as Record;
use super::{Class, Difference, Subject};
use crate::CapabilityId;
use crate::policy::GateOutline;

/// Adds what is otherwise. The capabilities that are in both: about the others nothing more need be said.
pub(super) fn compare(before: &[Record], after: &[Record], out: &mut Vec<Difference>) -> BTreeSet<CapabilityId> {
    let (before, after) = (by_id(before), by_id(after));
    for (id, record) in &after {
        match before.get(id) {
            Some(before) => Notes { before, after: record, out }.all(),
            None => out.push(added(record)),
        }
    }
    for id in before.keys().filter(|it| !after.contains_key(*it)) {
        let subject = Subject::Capability((*id).to_owned());
        out.push(Difference::new(Class::Narrowing, subject, "removed", "it is gone"));
    }
    after.keys().filter(|it| before.contains_key(*it)).map(|it| CapabilityId::from(*it)).collect()
}

fn by_id(all: &[Record]) -> BTreeMap<&str, &Record> {
    all.iter().map(|it| (&*it.id, it)).collect()
}

fn added(record: &Record) -> Difference {
    let subject = Subject::Capability(record.id.clone());
    let about = format!("effect {}, risk {}", record.side_effect.as_str(), record.risk.as_str());
    if record.expose.is_empty() {
        return Difference::new(Class::Neutral, subject, "added", format!("it is new, and shown nowhere: {about}"));
    }
    let surfaces: Vec<_> = record.expose.iter().map(|it| it.as_str()).collect();
    let says = format!("it is new, and shown on {}: {about}", surfaces.join(", "));
    Difference::new(Class::Widening, subject, "added", says)
}

/// One capability, before and after.
struct Notes<'a> {
    before: &'a Record,
    after: &'a Record,
    out: &'a mut Vec<Difference>,
}

impl Notes<'_> {
    fn note(&mut self, class: Class, what: &'static str, says: impl Into<String>) {
        let subject = Subject::Capability(self.after.id.clone());
        self.out.push(Difference::new(class, subject, what, says));
    }

    fn all(mut self) {
        let known = self.out.len();
        self.reach();
        self.weight();
        gates(self.before.approval.as_ref(), self.after.approval.as_ref(), &mut |class, says| {
            let subject = Subject::Capability(self.after.id.clone());
            self.out.push(Difference::new(class, subject, "approval", says));
        });
        self.schemas();
        self.repeating();
        self.redaction();
        self.running();
        self.texts(known);
    }

    /// Where it is shown.
    fn reach(&mut self) {
        let (before, after) = (&self.before.expose, &self.after.expose);
        for surface in after.iter().filter(|it| !before.contains(it)) {
            self.note(Class::Widening, "expose", format!("it is shown on {}", surface.as_str()));
        }
        for surface in before.iter().filter(|it| !after.contains(it)) {
            self.note(Class::Narrowing, "expose", format!("it is no longer shown on {}", surface.as_str()));
        }
    }

    /// What policies go by: an effect that is said otherwise is judged by other rules, whichever way it went.
    fn weight(&mut self) {
        let (before, after) = (self.before, self.after);
        if before.side_effect != after.side_effect {
            let says = format!("its effect was {} and is {}", before.side_effect.as_str(), after.side_effect.as_str());
            self.note(Class::Widening, "sideEffect", says);
        }
        if before.risk != after.risk {
            let says = format!("its risk was {} and is {}", before.risk.as_str(), after.risk.as_str());
            self.note(Class::widens(after.risk < before.risk), "risk", says);
        }
        if before.resource != after.resource {
            self.note(Class::Review, "resource", "policies judge its calls by another entity");
        }
        if before.tags != after.tags {
            let says = format!("its tags were [{}] and are [{}]", before.tags.join(", "), after.tags.join(", "));
            self.note(Class::Review, "tags", says); // policies read `resource.tags`
        }
    }

    fn schemas(&mut self) {
        let (before, after) = (self.before, self.after);
        if before.input_schema != after.input_schema {
            self.note(Class::Review, "inputSchema", "other inputs are valid");
        }
        if before.output_schema != after.output_schema {
            self.note(Class::Review, "outputSchema", "other outputs are valid");
        }
        if before.errors != after.errors {
            let says =
                format!("callers read other errors: [{}], was [{}]", after.errors.join(", "), before.errors.join(", "));
            self.note(Class::Neutral, "errors", says);
        }
    }

    /// Whether a second run may happen.
    fn repeating(&mut self) {
        let (before, after) = (self.before, self.after);
        if before.idempotent != after.idempotent {
            let says = if after.idempotent { "running it twice counts as running it once" } else { "it runs once" };
            self.note(Class::widens(after.idempotent), "idempotent", says);
        }
        let (was, is) = (&before.idempotency, &after.idempotency);
        if was.ttl_us != is.ttl_us {
            let says = format!("a key is remembered for {}, was {}", time(is.ttl_us), time(was.ttl_us));
            self.note(Class::widens(is.ttl_us < was.ttl_us), "idempotency.ttlUs", says);
        }
        if was.store_output != is.store_output {
            let says = if is.store_output { "outputs are kept under keys" } else { "outputs are not kept under keys" };
            self.note(Class::widens(is.store_output), "idempotency.storeOutput", says);
        }
        if was.on_reads != is.on_reads {
            let says = if is.on_reads { "keys count for reads" } else { "keys do not count for reads" };
            self.note(Class::Neutral, "idempotency.onReads", says);
        }
        if before.retries != after.retries {
            let says = format!("it is tried again {} times, was {}", after.retries, before.retries);
            self.note(Class::Neutral, "retries", says);
        }
    }

    /// What leaves. Approvers who see less decide about more than they see, so that is to be looked at.
    fn redaction(&mut self) {
        let (before, after) = (self.before, self.after);
        for path in after.redact_output.iter().filter(|it| !before.redact_output.contains(it)) {
            self.note(Class::Narrowing, "redactOutput", format!("`{path}` leaves no longer"));
        }
        for path in before.redact_output.iter().filter(|it| !after.redact_output.contains(it)) {
            self.note(Class::Widening, "redactOutput", format!("`{path}` is no longer redacted"));
        }
        for path in after.redact_display.iter().filter(|it| !before.redact_display.contains(it)) {
            self.note(Class::Review, "redactDisplay", format!("approvers do not see `{path}` of what they decide"));
        }
        for path in before.redact_display.iter().filter(|it| !after.redact_display.contains(it)) {
            self.note(Class::Widening, "redactDisplay", format!("approvers see `{path}`"));
        }
        if before.redact_function != after.redact_function {
            let says = if after.redact_function { "a function redacts it" } else { "no function redacts it any more" };
            self.note(Class::widens(before.redact_function), "redactFunction", says);
        }
    }

    fn running(&mut self) {
        let (before, after) = (self.before, self.after);
        if before.run_on_approval != after.run_on_approval {
            let says = if after.run_on_approval {
                "it runs by itself once it is approved"
            } else {
                "its requester must resume it once it is approved"
            };
            self.note(Class::widens(after.run_on_approval), "runOnApproval", says);
        }
        if before.timeout_us != after.timeout_us {
            let says = format!("an attempt may take {}, was {}", time(after.timeout_us), time(before.timeout_us));
            self.note(Class::Neutral, "timeoutUs", says);
        }
        if before.decision_record != after.decision_record {
            let says = if after.decision_record {
                "what policies saw is kept, sealed"
            } else {
                "what policies saw is not kept any more"
            };
            self.note(Class::Neutral, "decisionRecord", says);
        }
        if before.reconcile != after.reconcile {
            let says = if after.reconcile {
                "code finds out what became of calls whose end nobody knows"
            } else {
                "people must find out what became of calls whose end nobody knows"
            };
            self.note(Class::Neutral, "reconcile", says);
        }
        if before.procedure != after.procedure {
            let [is, was] = [after, before].map(|it| place(it.procedure.as_deref()));
            let says = format!("what runs is {is}, was {was}");
            self.note(Class::Review, "procedure", says);
        }
        // Whoever is asked is believed: an answer can free a key. That nobody is any more is said above.
        if after.reconcile && before.reconcile_procedure != after.reconcile_procedure {
            let [is, was] = [after, before].map(|it| place(it.reconcile_procedure.as_deref()));
            let was = if before.reconcile { was } else { "nobody".into() };
            self.note(Class::Review, "reconcileProcedure", format!("what became of calls says {is}, was {was}"));
        }
        if before.tool_name != after.tool_name {
            let says = format!("its tool name was `{}` and is `{}`", before.tool_name, after.tool_name);
            self.note(Class::Neutral, "toolName", says);
        }
    }

    /// What people and models read.
    fn texts(&mut self, known: usize) {
        let (before, after) = (self.before, self.after);
        if before.description != after.description {
            self.note(Class::Neutral, "description", "its description is another one");
        }
        if before.texts != after.texts && self.out.len() == known {
            let says = "its texts are others: descriptions in its schemas, or sentences of its errors";
            self.note(Class::Neutral, "texts", says);
        }
        if before.governance != after.governance && self.out.len() == known {
            self.note(Class::Review, "governance", "something else was agreed to");
        }
    }
}

/// What another gate means, of a capability or a policy.
pub(super) fn gates(before: Option<&GateOutline>, after: Option<&GateOutline>, note: &mut dyn FnMut(Class, String)) {
    let told = |it: &GateOutline| {
        let people = if it.quorum == 1 { String::new() } else { format!(" by {} people", it.quorum) };
        format!("approval of type `{}`{people}", it.kind)
    };
    match (before, after) {
        (None, None) => {}
        (None, Some(gate)) => note(Class::Narrowing, format!("it needs an {}", told(gate))),
        (Some(gate), None) => note(Class::Widening, format!("it no longer needs an {}", told(gate))),
        (Some(was), Some(is)) => {
            if was.kind != is.kind {
                note(Class::Review, format!("its approval was of type `{}` and is of type `{}`", was.kind, is.kind));
            }
            if was.quorum != is.quorum {
                let says = format!("{} must approve, was {}", people(is.quorum), was.quorum);
                note(Class::widens(is.quorum < was.quorum), says);
            }
            let (old, new) = (was.expires_in_seconds, is.expires_in_seconds);
            if old != new {
                let life = |it: u64| format!("{:?}", Duration::from_secs(it));
                note(Class::widens(new > old), format!("its requests live {}, was {}", life(new), life(old)));
            }
        }
    }
}

/// Where code is.
fn place(it: Option<&str>) -> String {
    it.map_or_else(|| "code of the application".into(), |it| format!("`{it}`"))
}

fn people(count: u32) -> String {
    if count == 1 { "1 person".into() } else { format!("{count} people") }
}

fn time(micros: i64) -> String {
    format!("{:?}", Duration::from_micros(u64::try_from(micros).unwrap_or_default()))
}
