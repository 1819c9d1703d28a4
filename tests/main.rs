//! Whole calls through the engine: one binary, one module a subject. Rules of the design name their tests (`apr_6_..`),
//! and so do reported faults (`r8_..`).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::similar_names,
    clippy::needless_pass_by_value,
    clippy::match_same_arms,
    clippy::duration_suboptimal_units,
    reason = "tests"
)]

mod approvals;
mod architecture;
mod calls;
mod cli;
mod compile;
mod concealment;
mod crash;
mod discovery;
mod executions;
mod handlers;
mod idempotency;
mod inline;
mod input;
mod order;
mod panics;
mod policies;
mod properties;
mod registration;
mod reports;
mod resuming;
mod sealing;
mod shop;
mod sweeping;
mod tamper;
mod ungoverned;
