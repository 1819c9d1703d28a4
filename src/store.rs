//! The store: domain operations that are one transaction each. The only user of sqlx.
//!
//! All writing is done by one writer on a thread of its own ([`writer`]); callers hand it an [`op::Op`] and await the
//! answer, so a dropped caller can never leave a transaction half done. Readers have a pool of their own.

pub(crate) mod op;

/// Why the store could not do something. For logs; callers see AUDIT_UNAVAILABLE or UNAVAILABLE.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The operation holds something that no database may be given (NUL, too long): one bad value fails one caller.
    #[error("a value cannot be stored: {0}")]
    Invalid(String),
    /// The queue is full.
    #[error("the store's queue is full")]
    Busy,
    /// The database refused, for a reason that concerns this operation alone.
    #[error("the database refused: {0}")]
    Refused(String),
    /// The database cannot be reached, or refused every attempt.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The writer has ended.
    #[error("the store is closed")]
    Closed,
}
