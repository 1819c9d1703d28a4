//! The store (stub until the real one lands).
pub(crate) mod op;
use crate::approval::ApprovalState;
use crate::audit::AuditEvent;
use crate::clock::Clock;
use crate::id::Ids;
use op::*;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("a value cannot be stored: {0}")]
    Invalid(String),
    #[error("the store's queue is full")]
    Busy,
    #[error("the database refused: {0}")]
    Refused(String),
    #[error("the database is not available: {0}")]
    Unavailable(String),
    #[error("the store is closed")]
    Closed,
}
#[derive(Clone, Default)]
pub(crate) struct Probe;
pub(crate) enum KeySource {
    File,
    Bytes([u8; 32]),
}
pub(crate) struct Config {
    pub path: PathBuf,
    pub clock: Clock,
    pub ids: Ids,
    pub lease: Duration,
    pub renew: Duration,
    pub sweep: Option<Duration>,
    pub key: KeySource,
    pub probe: Probe,
}
pub(crate) struct OpenError;
impl OpenError {
    pub(crate) fn problem(&self) -> crate::Problem {
        todo!()
    }
}
#[derive(Default, Clone)]
pub(crate) struct EventFilter {
    pub tenant: Option<String>,
    pub execution: Option<String>,
    pub capability: Option<String>,
    pub actor: Option<String>,
    pub kind: Option<String>,
    pub since: Option<crate::Timestamp>,
    pub until: Option<crate::Timestamp>,
    pub after: i64,
}
#[derive(Clone)]
pub(crate) struct Store;
impl Store {
    pub(crate) async fn open(_: Config) -> Result<Self, OpenError> {
        todo!()
    }
    pub(crate) async fn file(&self, _: File) -> Result<Filed, StoreError> {
        todo!()
    }
    pub(crate) async fn decide(&self, _: Decide) -> Result<Decided, StoreError> {
        todo!()
    }
    pub(crate) async fn withdraw(&self, _: Withdraw) -> Result<Decided, StoreError> {
        todo!()
    }
    pub(crate) async fn begin(&self, _: Begin) -> Result<Began, StoreError> {
        todo!()
    }
    pub(crate) async fn finish(&self, _: Finish) -> Result<Settled, StoreError> {
        todo!()
    }
    pub(crate) async fn reconcile(&self, _: Reconcile) -> Result<Settled, StoreError> {
        todo!()
    }
    pub(crate) async fn append(&self, _: Vec<AuditEvent>) -> Result<(), StoreError> {
        todo!()
    }
    pub(crate) async fn read_once(&self, _: i64, _: Vec<AuditEvent>) -> Result<bool, StoreError> {
        todo!()
    }
    pub(crate) async fn activate(&self, _: Activate) -> Result<Active, StoreError> {
        todo!()
    }
    pub(crate) async fn unresolved(&self, _: usize) -> Result<Vec<Unresolved>, StoreError> {
        todo!()
    }
    pub(crate) async fn approval(&self, _: &str) -> Result<Option<ApprovalRecord>, StoreError> {
        todo!()
    }
    pub(crate) async fn approval_of_call(
        &self,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        todo!()
    }
    pub(crate) async fn approvals(
        &self,
        _: &str,
        _: Option<ApprovalState>,
        _: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        todo!()
    }
    pub(crate) async fn holder(&self, _: &str) -> Result<Option<Holder>, StoreError> {
        todo!()
    }
    pub(crate) async fn execution(&self, _: &str) -> Result<Option<ExecutionRecord>, StoreError> {
        todo!()
    }
    pub(crate) async fn events(&self, _: &EventFilter, _: usize) -> Result<Vec<(i64, String)>, StoreError> {
        todo!()
    }
    pub(crate) async fn active(&self) -> Result<Option<Active>, StoreError> {
        todo!()
    }
    pub(crate) fn instance(&self) -> String {
        todo!()
    }
    pub(crate) fn lease_holds(&self, _: Duration) -> bool {
        todo!()
    }
    pub(crate) fn lost(&self) -> CancellationToken {
        todo!()
    }
    pub(crate) fn generation(&self) -> i64 {
        todo!()
    }
    pub(crate) fn seal(&self, _: &str, _: &[u8]) -> String {
        todo!()
    }
    pub(crate) fn open_sealed(&self, _: &str, _: &str) -> Result<Vec<u8>, StoreError> {
        todo!()
    }
    pub(crate) fn evidence(&self, _: &str, _: &str) -> String {
        todo!()
    }
    pub(crate) async fn close(&self, _: Duration) {
        todo!()
    }
}
