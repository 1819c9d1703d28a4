//! What others can be told of.

use std::fmt;

/// What a notification is about. A webhook subscribes to some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Topic {
    /// A person is asked.
    ApprovalRequested,
    /// Every quorum is reached.
    ApprovalApproved,
    /// Somebody refused.
    ApprovalRejected,
    /// It was taken back, or replaced.
    ApprovalWithdrawn,
    /// Nobody decided in time, or nobody ran it in time.
    ApprovalExpired,
    /// It will have expired soon: once a request, an hour before, or when a quarter of its life is left if that is later.
    ApprovalExpiring,
    /// An execution with a record of its own ended, or an unknown one was settled. Reads leave no such record.
    ExecutionFinished,
    /// Nobody knows whether it took effect: settle it.
    ExecutionUnknown,
}

impl Topic {
    /// Every topic, in the order of the declaration.
    pub const ALL: [Self; 8] = [
        Self::ApprovalRequested,
        Self::ApprovalApproved,
        Self::ApprovalRejected,
        Self::ApprovalWithdrawn,
        Self::ApprovalExpired,
        Self::ApprovalExpiring,
        Self::ExecutionFinished,
        Self::ExecutionUnknown,
    ];

    /// The name in configuration, and the `type` of a notification.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalApproved => "approval.approved",
            Self::ApprovalRejected => "approval.rejected",
            Self::ApprovalWithdrawn => "approval.withdrawn",
            Self::ApprovalExpired => "approval.expired",
            Self::ApprovalExpiring => "approval.expiring",
            Self::ExecutionFinished => "execution.finished",
            Self::ExecutionUnknown => "execution.unknown",
        }
    }

    /// Reads [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topics(u16);

impl Topics {
    pub(crate) fn has(self, topic: Topic) -> bool {
        self.0 & Self::bit(topic) != 0
    }

    fn bit(topic: Topic) -> u16 {
        1 << (topic as u16)
    }
}

impl FromIterator<Topic> for Topics {
    fn from_iter<T: IntoIterator<Item = Topic>>(all: T) -> Self {
        Self(all.into_iter().fold(0, |sum, it| sum | Self::bit(it)))
    }
}
