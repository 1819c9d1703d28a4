//! Whole calls through the engine: one binary, one module a subject. Rules of the design name their tests (`apr_6_..`),
//! and so do reported faults (`r8_..`).

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and drive real time, tasks and processes"
)]

mod approvals;
mod architecture;
mod asking;
mod auth;
mod calls;
mod cli;
mod compile;
mod concealment;
mod crash;
mod decisions;
mod discovery;
mod drift;
mod executions;
mod handlers;
mod http;
mod idempotency;
mod inline;
mod input;
mod kit;
mod ledger;
mod logs;
mod manifests;
mod masking;
mod notifications;
mod order;
mod panics;
mod policies;
mod properties;
mod registration;
mod reloading;
mod reports;
mod resources;
mod resuming;
mod sealing;
mod shadowing;
mod shop;
mod soak;
mod sweeping;
mod tamper;
#[cfg(feature = "otel")]
mod telemetry;
mod ungoverned;
mod worker;
