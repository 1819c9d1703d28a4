//! The stages of an execution, one file each.
//!
//! Each takes the proof of the stage before it by value and returns its own, which *contains* what was proved: a
//! permit cannot be paired with another call's input. Fields are private to the stage's file, so a skipped or
//! reordered stage does not compile.

pub(crate) mod actor;
pub(crate) mod approval;
pub(crate) mod exposure;
pub(crate) mod handler;
pub(crate) mod idempotency;
pub(crate) mod output;
pub(crate) mod policy;
pub(crate) mod record;
pub(crate) mod redaction;
pub(crate) mod schema;

pub use redaction::Output;
use serde::{Deserialize, Serialize};

/// The stages, in the order in which an execution passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "document 3 is the table")]
pub enum Stage {
    Received,
    Identified,
    Actor,
    Resolve,
    Exposure,
    Schema,
    Policy,
    Approval,
    Idempotency,
    Control,
    Handler,
    Output,
    Redaction,
    Record,
    Reply,
}
