//! The metrics as text: names, help, labels. Names never change their meaning.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::{Counted, Histogram};
use crate::LogHealth;
use crate::outcome::ErrorCode;
use crate::stage::Stage;
use crate::store::Figures;

/// What stands for every name that nothing is registered under.
const UNKNOWN: &str = "unknown";

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

pub(super) fn of(scrape: Scrape) -> String {
    let mut registry = Registry::with_prefix("countersign");
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    // Writing to a string cannot fail, and no label does.
    let _ = prometheus_text::encode(&mut text, &registry);
    text
}

/// Seconds are floats in this format.
fn seconds(microseconds: i64) -> f64 {
    std::time::Duration::from_micros(u64::try_from(microseconds).unwrap_or(0)).as_secs_f64()
}

impl Collector for Scrape {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        self.executions(&mut to)?;
        self.stages(&mut to)?;
        self.on_record(&mut to)?;
        self.log(&mut to)?;
        self.beside(&mut to)?;
        #[cfg(feature = "http")]
        self.authentication(&mut to)?;
        self.http(&mut to)
    }
}

impl Scrape {
    fn executions(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Executions that ended, by capability and outcome; those that failed by code.";
        let mut metric = to.encode_descriptor("executions", help, None, MetricType::Counter)?;
        for it in &self.counted.capabilities {
            let capability = named(&it.name);
            for (outcome, count) in
                [("completed", &it.completed), ("replayed", &it.replayed), ("approval_required", &it.waiting)]
            {
                counter(&mut metric, [("capability", capability), ("code", ""), ("outcome", outcome)], count)?;
            }
            for (outcome, counts) in [("failed", &it.failed), ("cancelled", &it.cancelled)] {
                for (code, count) in ErrorCode::ALL.iter().zip(counts) {
                    let labels = [("capability", capability), ("code", code.as_str()), ("outcome", outcome)];
                    counter(&mut metric, labels, count)?;
                }
            }
        }
        let help = "How long executions took from call to record, by capability.";
        let mut metric = to.encode_descriptor("execution_duration_seconds", help, None, MetricType::Histogram)?;
        for it in &self.counted.capabilities {
            histogram(&mut metric, [("capability", named(&it.name))], &it.durations)?;
        }
        let help = "Executions of this process that are on their way.";
        gauge(to, "executions_running", help, count(self.running))
    }

    fn stages(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "How long executions were in each stage of the pipeline.";
        let mut metric = to.encode_descriptor("stage_duration_seconds", help, None, MetricType::Histogram)?;
        for (stage, name) in STAGES {
            if let Some(durations) = self.counted.stages.0.get(stage as usize) {
                histogram(&mut metric, [("stage", name)], durations)?;
            }
        }
        Ok(())
    }

    /// What the store says, of every process that shares it.
    fn on_record(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Figures { pending, unknown, queued, lag } = &self.figures;
        let known: Vec<_> = self.counted.capabilities.iter().map(|it| &*it.name).collect();
        let of = |name: &str| known.contains(&name);
        if let (Some(pending), Some(unknown)) = (pending, unknown) {
            let help = "Requests for approval that wait for a decision, by capability.";
            let rows = pending.iter().map(|it| (&*it.capability, it.count));
            by_capability(to, "approvals_pending", help, rows, of)?;
            let help = "The age of the oldest request for approval that waits for a decision; 0 if none does.";
            let oldest = pending.iter().map(|it| it.oldest_us).max().unwrap_or(0);
            gauge(to, "approvals_oldest_pending_seconds", help, seconds(oldest))?;
            let help = "Executions that may have taken effect, and nobody knows: settle them. By capability.";
            by_capability(to, "executions_unknown", help, unknown.iter().map(|it| (&*it.capability, it.count)), of)?;
        }
        let help = "Whether the store answered: without it, what is on record is not told.";
        gauge(to, "store_readable", help, f64::from(u8::from(pending.is_some() && unknown.is_some())))?;
        gauge(to, "store_queue_depth", "Operations of this process that wait for the store.", count(*queued))?;
        let help = "How long what the store is writing, or owes, has waited to be on record; 0 if nothing waits.";
        gauge(to, "audit_lag_seconds", help, lag.as_secs_f64())
    }

    /// What this process knows of the tree over the log, its checkpoints and anchors.
    fn log(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let LogHealth { events, in_tree, signed, refusal, anchors } = &self.log;
        let events_of = |it: &u64| count(usize::try_from(*it).unwrap_or(usize::MAX));
        gauge(to, "log_events", "Events on record, when the tree over them last grew.", events_of(events))?;
        gauge(to, "log_tree_events", "How many of them are in the tree.", events_of(in_tree))?;
        gauge(
            to,
            "log_signed_events",
            "How many of them the last checkpoint covers; 0 without a key.",
            events_of(signed),
        )?;
        let help = "1: the tree does not grow or is not signed, because the log is not what it was: look into it.";
        gauge(to, "log_refused", help, f64::from(u8::from(refusal.is_some())))?;
        gauge(to, "log_anchors_failing", "Anchors that take no checkpoints now.", count(anchors.len()))
    }

    /// The worker of approved requests, and notifications.
    fn beside(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Beside { worker, notifications, outbox } = self.beside;
        let help = "Approved requests that the worker of this process took up, and what became of them.";
        labelled(
            to,
            "worker_requests",
            help,
            "step",
            [("picked", worker[0]), ("completed", worker[1]), ("put_off", worker[2]), ("refused", worker[3])],
        )?;
        let help =
            "Attempts to tell webhooks: messages that were taken, attempts that failed, messages that were given up.";
        let [delivered, failed, dead] = notifications;
        labelled(to, "notifications", help, "result", [("delivered", delivered), ("failed", failed), ("dead", dead)])?;
        let Some([due, dead]) = outbox else { return Ok(()) };
        let help = "Messages in the outbox, of every process: those that wait, and dead letters.";
        let mut metric = to.encode_descriptor("notifications_outbox", help, None, MetricType::Gauge)?;
        metric.encode_family(&[("state", "due")])?.encode_gauge(&due)?;
        metric.encode_family(&[("state", "dead")])?.encode_gauge(&dead)
    }

    #[cfg(feature = "http")]
    fn authentication(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Credentials that were refused, by reason.";
        let mut metric = to.encode_descriptor("auth_failures", help, None, MetricType::Counter)?;
        for (failure, count) in crate::auth::AuthFailure::ALL.iter().zip(&self.counted.authentication) {
            counter(&mut metric, [("reason", &*failure.to_string())], count)?;
        }
        let keys = self.counted.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reports: Vec<_> = keys.iter().map(|it| it.report()).collect();
        let help = "Keys of each issuer that can be used; 0 if they were never had.";
        let mut metric = to.encode_descriptor("issuer_keys", help, None, MetricType::Gauge)?;
        for it in &reports {
            metric.encode_family(&[("issuer", &*it.issuer)])?.encode_gauge(&count(it.usable.unwrap_or(0)))?;
        }
        let help = "Whether the last fetch of an issuer's keys failed: then the old ones, if any, are still used.";
        let mut metric = to.encode_descriptor("issuer_keys_in_trouble", help, None, MetricType::Gauge)?;
        for it in &reports {
            let trouble = f64::from(u8::from(it.trouble.is_some()));
            metric.encode_family(&[("issuer", &*it.issuer)])?.encode_gauge(&trouble)?;
        }
        Ok(())
    }

    fn http(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "HTTP requests that were answered, by method, route and status.";
        let mut metric = to.encode_descriptor("http_requests", help, None, MetricType::Counter)?;
        let requests = self.counted.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((method, route, status), count) in requests {
            let status = status.to_string();
            let labels = [("method", method), ("route", route), ("status", &*status)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let streams = self.counted.streams.load(Ordering::Relaxed);
        gauge(to, "http_streams", "Streams of events that are open.", count(usize::try_from(streams).unwrap_or(0)))
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

/// Counters that never counted are left out: their codes are many.
fn counter<const N: usize>(
    metric: &mut MetricEncoder<'_>,
    labels: [(&str, &str); N],
    counter: &AtomicU64,
) -> fmt::Result {
    match counter.load(Ordering::Relaxed) {
        0 => Ok(()),
        count => metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None),
    }
}

fn histogram<const N: usize>(
    metric: &mut MetricEncoder<'_>,
    labels: [(&str, &str); N],
    histogram: &Histogram,
) -> fmt::Result {
    let seen = histogram.seen();
    if seen.count == 0 {
        return Ok(());
    }
    let mut metric = metric.encode_family(&labels)?;
    metric.encode_histogram::<NoLabelSet>(seen.seconds, seen.count, &seen.classes, None)
}

/// A counter with one label, of a closed set.
fn labelled<const N: usize>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    counts: [(&str, u64); N],
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, count) in counts {
        metric.encode_family(&[(label, value)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}

fn gauge(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

/// What is on record of capabilities that are not registered any more is one series.
fn by_capability<'a>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl Iterator<Item = (&'a str, i64)>,
    is_known: impl Fn(&str) -> bool,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    let mut gone = 0;
    for (capability, count) in rows {
        if is_known(capability) {
            metric.encode_family(&[("capability", capability)])?.encode_gauge(&count)?;
        } else {
            gone += count;
        }
    }
    if gone > 0 { metric.encode_family(&[("capability", UNKNOWN)])?.encode_gauge(&gone) } else { Ok(()) }
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
