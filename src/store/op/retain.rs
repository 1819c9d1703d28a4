//! What the writer can be asked about retention. None of it is on the way of a call.

use crate::audit::AuditEvent;

/// Lets a part of the log go that an archive has.
#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
#[derive(Clone, Debug)]
pub(crate) struct Detach {
    /// The last event that went before.
    pub(crate) after: i64,
    /// The last one that goes now: a checkpoint has this size.
    pub(crate) through: i64,
    pub(crate) archive: String,
    /// SHA-256 of the archive, lower-case hexadecimal.
    pub(crate) digest: String,
    /// `audit.detached`.
    pub(crate) event: AuditEvent,
}

/// What became of [`Detach`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Detached {
    Done,
    /// Not behind `after` any more: somebody else was faster.
    Overtaken,
    /// Something needs events of this part.
    Needed(Vec<Need>),
}

/// What needs events of the log, and the last one that it does not need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// `export`, `approval`, `execution` or `notification`.
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) seq: i64,
}

impl From<(String, String, i64)> for Need {
    fn from((kind, name, seq): (String, String, i64)) -> Self {
        Self { kind, name, seq }
    }
}
