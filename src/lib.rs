//! Countersign hands an application's procedures to AI agents as capabilities, and signs off every call: who asked,
//! with exactly what input, under which policy, approved by whom, run how often.
//!
//! Reading order: [`Capability`] (register), `Engine` (build), `Caller` (invoke), [`Outcome`] (read).

mod abandoned;
mod actor;
mod approval;
mod approver;
mod audit;
#[cfg(feature = "http")]
pub mod auth;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod bench;
mod budget;
mod builder;
mod caller;
mod canonical;
mod capability;
mod caught;
#[cfg(feature = "cli")]
pub mod cli;
mod clock;
#[cfg(feature = "http")]
pub mod config;
mod deciding;
#[cfg(feature = "cli")]
pub mod demo;
mod discovery;
#[cfg(any(feature = "cli", feature = "testing"))]
pub mod drift;
mod duration;
mod engine;
mod executions;
#[cfg(feature = "cli")]
mod export;
mod handler;
#[cfg(feature = "http")]
pub mod http;
mod id;
mod invocation;
mod ledger;
#[cfg(feature = "http")]
pub mod manifest;
mod masking;
mod meters;
#[cfg(feature = "http")]
pub mod notifications;
#[cfg(feature = "http")]
mod outbound;
mod outcome;
mod pipeline;
mod policies;
mod policy;
mod reading;
#[cfg(feature = "http")]
mod ready;
mod reconciling;
mod redact;
mod registry;
mod rejection;
mod resource;
#[cfg(feature = "cli")]
mod retention;
mod rounds;
mod schema;
#[cfg(feature = "http")]
mod secret;
mod seen;
mod slot;
mod stage;
mod store;
#[cfg(feature = "http")]
mod tail;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod topic;
mod trail;
pub mod verify;
#[cfg(feature = "http")]
mod workbench;
mod worker;

pub use actor::{Actor, ActorKind, Client, Identity, Party, Surface};
pub use approval::{ApprovalState, ApprovalView, Decided, DecisionRecord, Verdict};
pub use approver::{ApprovalHandler, InlineDecision};
pub use audit::{
    ActorRef, ApproverRef, AuditEvent, DecisionData, DenialReason, Envelope, EventKind, Executed, PolicyChanges,
    PolicyError, PolicyOrigin, PolicyOutcome, PolicyRef, PolicyView, ReconciledBy, ReconciledTo, Requirement,
};
pub use builder::{BuildError, EngineBuilder, Problem};
pub use caller::{Caller, Execution, Invoke, JsonInput, Unfit};
pub use capability::{
    ApprovalRule, Capability, CapabilityBuilder, Descriptor, Filter, Idempotency, Reconciliation, RequiresApproval,
    ResourceMapping, Risk, SideEffect,
};
pub use clock::Timestamp;
pub use deciding::{ApprovalPage, Approvals};
pub use engine::{Engine, Gateway};
pub use executions::{ExecutionStatus, ExecutionView, Executions, Resolution};
pub use handler::{DeclaredError, HandlerError, IntoHandlerError};
pub use id::{ApprovalId, CapabilityId, ExecutionId, IdempotencyKey};
pub use invocation::{AgentInvocationInfo, ConsumedApproval, Invocation, Lease, Middleware, Next, Settled};
pub use ledger::{Anchor, Checkpoint, KeyError, LedgerError, LogHealth, LogKey, LogTree};
#[cfg(feature = "http")]
pub use ledger::{AnchorSettings, AuditSettings};
pub use outcome::{ApprovalRequest, Detail, Error, ErrorCode, Outcome, Unfinished};
pub use policies::{PolicyActivation, PolicyCheck, PolicyRefusal, PolicyReload, PolicySets};
pub use policy::{PolicyProblem, PolicySource, Severity};
pub use reading::{AuditLog, AuditPage, AuditQuery, StoredEvent};
pub use resource::{EntityProvider, EntityRef, ResourceEntity};
#[cfg(feature = "http")]
pub use secret::SecretRef;
pub use stage::{Output, Stage};
pub use topic::Topic;
pub use worker::Requesters;

/// A future that the engine stores.
pub(crate) type BoxFuture<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

/// Any error, for logs.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeIsExecuted;

#[cfg(all(doctest, feature = "testing", feature = "cli"))]
mod pages_are_executed {
    #[doc = include_str!("../docs/testing/kit.md")]
    struct Kit;
    #[doc = include_str!("../docs/testing/trails.md")]
    struct Trails;
    #[doc = include_str!("../docs/testing/drift.md")]
    struct Drift;
}
