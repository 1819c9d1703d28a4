//! What is told of the metrics at one moment, in whatever form: names, help, labels. Names never change their meaning.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::histogram::Seen;
use super::{Counted, Histogram};
use crate::LogHealth;
use crate::outcome::ErrorCode;
use crate::stage::Stage;
use crate::store::Figures;

/// What stands for every name that nothing is registered under.
pub(crate) const UNKNOWN: &str = "unknown";

/// Every stage of the pipeline, by its number.
const STAGES: [(Stage, &str); 15] = [
    (Stage::Received, "received"),
    (Stage::Identified, "identified"),
    (Stage::Actor, "actor"),
    (Stage::Resolve, "resolve"),
    (Stage::Exposure, "exposure"),
    (Stage::Schema, "schema"),
    (Stage::Policy, "policy"),
    (Stage::Approval, "approval"),
    (Stage::Idempotency, "idempotency"),
    (Stage::Control, "control"),
    (Stage::Handler, "handler"),
    (Stage::Output, "output"),
    (Stage::Redaction, "redaction"),
    (Stage::Record, "record"),
    (Stage::Reply, "reply"),
];

/// One metric.
#[derive(Debug)]
pub(crate) struct Family {
    /// Without `countersign_` before it, and without `_total` behind it.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) points: Points,
}

/// Labels are of closed sets, or come from what is registered and configured.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// What a metric shows, by labels.
#[derive(Debug)]
pub(crate) enum Points {
    /// Since the process began.
    Counts(Vec<(Labels, u64)>),
    /// Now.
    Gauges(Vec<(Labels, Value)>),
    /// Durations, since the process began.
    Durations(Vec<(Labels, Seen)>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Whole(i64),
    Real(f64),
}

/// What is told at one moment.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) counted: Arc<Counted>,
    pub(super) figures: Figures,
    /// Executions, and what else the engine waits for at a shutdown.
    pub(super) running: usize,
    /// The tree over the log.
    pub(super) log: LogHealth,
    /// What this process does besides calls.
    pub(super) beside: Beside,
}

/// What a process does besides calls, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    /// Approved requests that the worker took up, those of them that completed, were put off, and were refused.
    pub(crate) worker: [u64; 4],
    /// Messages that webhooks took, attempts that failed, messages that were given up.
    pub(crate) notifications: [u64; 3],
    /// Messages in the outbox that wait, and dead letters, of every process; `None` if the store cannot be asked.
    pub(crate) outbox: Option<[i64; 2]>,
}

/// The metrics of one moment as they are put together.
struct Told(Vec<Family>);

impl Told {
    fn add(&mut self, name: &'static str, help: &'static str, points: Points) {
        self.0.push(Family { name, help, points });
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.add(name, help, Points::Gauges(vec![(Vec::new(), Value::Real(value))]));
    }

    /// A counter with one label, of a closed set.
    fn labelled<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        counts: [(&str, u64); N],
    ) {
        let points = counts.map(|(value, count)| (vec![(label, value.to_owned())], count));
        self.add(name, help, Points::Counts(points.into()));
    }

    /// What is on record of capabilities that are not registered any more is one series.
    fn by_capability<'a>(
        &mut self,
        name: &'static str,
        help: &'static str,
        rows: impl Iterator<Item = (&'a str, i64)>,
        is_known: impl Fn(&str) -> bool,
    ) {
        let (mut points, mut gone) = (Vec::new(), 0);
        for (capability, count) in rows {
            if is_known(capability) {
                points.push((vec![("capability", capability.to_owned())], Value::Whole(count)));
            } else {
                gone += count;
            }
        }
        if gone > 0 {
            points.push((vec![("capability", UNKNOWN.to_owned())], Value::Whole(gone)));
        }
        self.add(name, help, Points::Gauges(points));
    }
}

impl Scrape {
    pub(super) fn families(&self) -> Vec<Family> {
        let mut told = Told(Vec::new());
        self.executions(&mut told);
        self.stages(&mut told);
        self.on_record(&mut told);
        self.log(&mut told);
        self.beside(&mut told);
        #[cfg(feature = "http")]
        self.authentication(&mut told);
        self.http(&mut told);
        told.0
    }

    fn executions(&self, told: &mut Told) {
        let (mut counts, mut durations) = (Vec::new(), Vec::new());
        for it in &self.counted.capabilities {
            let capability = named(&it.name);
            let mut count = |outcome: &str, code: &str, count: &AtomicU64| {
                let text = str::to_owned;
                let labels = vec![("capability", text(capability)), ("code", text(code)), ("outcome", text(outcome))];
                counts.extend(ever(count).map(|it| (labels, it)));
            };
            for (outcome, it) in
                [("completed", &it.completed), ("replayed", &it.replayed), ("approval_required", &it.waiting)]
            {
                count(outcome, "", it);
            }
            for (outcome, all) in [("failed", &it.failed), ("cancelled", &it.cancelled)] {
                for (code, it) in ErrorCode::ALL.iter().zip(all) {
                    count(outcome, code.as_str(), it);
                }
            }
            durations.extend(seen("capability", capability, &it.durations));
        }
        let help = "Executions that ended, by capability and outcome; those that failed by code.";
        told.add("executions", help, Points::Counts(counts));
        let help = "How long executions took from call to record, by capability.";
        told.add("execution_duration_seconds", help, Points::Durations(durations));
        told.gauge("executions_running", "Executions of this process that are on their way.", count(self.running));
    }

    fn stages(&self, told: &mut Told) {
        let help = "How long executions were in each stage of the pipeline.";
        let durations = STAGES.into_iter().filter_map(|(stage, name)| {
            let durations = self.counted.stages.0.get(stage as usize)?;
            seen("stage", name, durations)
        });
        told.add("stage_duration_seconds", help, Points::Durations(durations.collect()));
    }

    /// What the store says, of every process that shares it.
    fn on_record(&self, told: &mut Told) {
        let Figures { pending, unknown, queued, lag } = &self.figures;
        let known: Vec<_> = self.counted.capabilities.iter().map(|it| &*it.name).collect();
        let of = |name: &str| known.contains(&name);
        if let (Some(pending), Some(unknown)) = (pending, unknown) {
            let help = "Requests for approval that wait for a decision, by capability.";
            let rows = pending.iter().map(|it| (&*it.capability, it.count));
            told.by_capability("approvals_pending", help, rows, of);
            let help = "The age of the oldest request for approval that waits for a decision; 0 if none does.";
            let oldest = pending.iter().map(|it| it.oldest_us).max().unwrap_or(0);
            told.gauge("approvals_oldest_pending_seconds", help, seconds(oldest));
            let help = "Executions that may have taken effect, and nobody knows: settle them. By capability.";
            let rows = unknown.iter().map(|it| (&*it.capability, it.count));
            told.by_capability("executions_unknown", help, rows, of);
        }
        let help = "Whether the store answered: without it, what is on record is not told.";
        told.gauge("store_readable", help, f64::from(u8::from(pending.is_some() && unknown.is_some())));
        told.gauge("store_queue_depth", "Operations of this process that wait for the store.", count(*queued));
        let help = "How long what the store is writing, or owes, has waited to be on record; 0 if nothing waits.";
        told.gauge("audit_lag_seconds", help, lag.as_secs_f64());
    }

    /// What this process knows of the tree over the log, its checkpoints and anchors.
    fn log(&self, told: &mut Told) {
        let LogHealth { events, in_tree, signed, refusal, anchors } = &self.log;
        let events_of = |it: &u64| count(usize::try_from(*it).unwrap_or(usize::MAX));
        told.gauge("log_events", "Events on record, when the tree over them last grew.", events_of(events));
        told.gauge("log_tree_events", "How many of them are in the tree.", events_of(in_tree));
        let help = "How many of them the last checkpoint covers; 0 without a key.";
        told.gauge("log_signed_events", help, events_of(signed));
        let help = "1: the tree does not grow or is not signed, because the log is not what it was: look into it.";
        told.gauge("log_refused", help, f64::from(u8::from(refusal.is_some())));
        told.gauge("log_anchors_failing", "Anchors that take no checkpoints now.", count(anchors.len()));
    }

    /// The worker of approved requests, and notifications.
    fn beside(&self, told: &mut Told) {
        let Beside { worker, notifications, outbox } = self.beside;
        let help = "Approved requests that the worker of this process took up, and what became of them.";
        let [picked, completed, put_off, refused] = worker;
        let steps = [("picked", picked), ("completed", completed), ("put_off", put_off), ("refused", refused)];
        told.labelled("worker_requests", help, "step", steps);
        let help =
            "Attempts to tell webhooks: messages that were taken, attempts that failed, messages that were given up.";
        let [delivered, failed, dead] = notifications;
        let results = [("delivered", delivered), ("failed", failed), ("dead", dead)];
        told.labelled("notifications", help, "result", results);
        let Some([due, dead]) = outbox else { return };
        let help = "Messages in the outbox, of every process: those that wait, and dead letters.";
        let points =
            [("due", due), ("dead", dead)].map(|(it, count)| (vec![("state", it.into())], Value::Whole(count)));
        told.add("notifications_outbox", help, Points::Gauges(points.into()));
    }

    #[cfg(feature = "http")]
    fn authentication(&self, told: &mut Told) {
        let help = "Credentials that were refused, by reason.";
        let counts = crate::auth::AuthFailure::ALL.iter().zip(&self.counted.authentication);
        let counts = counts.filter_map(|(it, count)| Some((vec![("reason", it.to_string())], ever(count)?)));
        told.add("auth_failures", help, Points::Counts(counts.collect()));
        let keys = self.counted.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reports: Vec<_> = keys.iter().map(|it| it.report()).collect();
        let help = "Keys of each issuer that can be used; 0 if they were never had.";
        let of = |issuer: &str, value: f64| (vec![("issuer", issuer.to_owned())], Value::Real(value));
        let usable = reports.iter().map(|it| of(&it.issuer, count(it.usable.unwrap_or(0))));
        told.add("issuer_keys", help, Points::Gauges(usable.collect()));
        let help = "Whether the last fetch of an issuer's keys failed: then the old ones, if any, are still used.";
        let trouble = reports.iter().map(|it| of(&it.issuer, f64::from(u8::from(it.trouble.is_some()))));
        told.add("issuer_keys_in_trouble", help, Points::Gauges(trouble.collect()));
    }

    fn http(&self, told: &mut Told) {
        let help = "HTTP requests that were answered, by method, route and status.";
        let requests = self.counted.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let counts = requests.into_iter().map(|((method, route, status), count)| {
            (vec![("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())], count)
        });
        told.add("http_requests", help, Points::Counts(counts.collect()));
        let streams = self.counted.streams.load(Ordering::Relaxed);
        let streams = count(usize::try_from(streams).unwrap_or(0));
        told.gauge("http_streams", "Streams of events that are open.", streams);
    }
}

fn named(name: &str) -> &str {
    if name.is_empty() { UNKNOWN } else { name }
}

/// Gauges are floats: exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "nothing here comes near 2^53")]
fn count(count: usize) -> f64 {
    count as f64
}

fn seconds(microseconds: i64) -> f64 {
    std::time::Duration::from_micros(u64::try_from(microseconds).unwrap_or(0)).as_secs_f64()
}

/// Counters that never counted are left out: their codes are many.
fn ever(counter: &AtomicU64) -> Option<u64> {
    Some(counter.load(Ordering::Relaxed)).filter(|it| *it > 0)
}

fn seen(label: &'static str, value: &str, durations: &Histogram) -> Option<(Labels, Seen)> {
    let seen = durations.seen();
    (seen.count > 0).then(|| (vec![(label, value.to_owned())], seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_name() {
        for (place, (stage, name)) in STAGES.into_iter().enumerate() {
            assert_eq!(stage as usize, place);
            assert_eq!(serde_json::to_value(stage).unwrap(), name);
        }
    }
}
