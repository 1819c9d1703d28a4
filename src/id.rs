//! Names of things, and the only place that makes random ones.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta] $name:ident),+ $(,)?) => {$(
        #[$doc]
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        // `Hash`, `Eq` and `Ord` are those of the text, as `Borrow` demands.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<&$name> for $name {
            fn from(it: &$name) -> Self {
                it.clone()
            }
        }
    )+};
}

name!(
    /// A capability's dot path, `orders.refund`. Anything can be *asked for*; registration checks the grammar.
    CapabilityId,
    /// One trip of a call through the pipeline: a UUID version 7 (RFC 9562), so ids sort by time.
    ExecutionId,
    /// One request for a decision, 160 random bits. A locator, never an authority.
    ApprovalId,
    /// The caller's promise that two calls are the same call. 1..=255 visible ASCII bytes, checked by the pipeline.
    IdempotencyKey,
);

impl CapabilityId {
    /// Whether the id follows `[a-z0-9_]+(\.[a-z0-9_]+)*` and has at most 128 bytes.
    pub(crate) fn is_well_formed(&self) -> bool {
        let legal = |it: &str| !it.is_empty() && it.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        self.len() <= 128 && self.split('.').all(legal)
    }
}

/// Where ids come from.
#[derive(Clone, Debug)]
pub(crate) enum Ids {
    /// Unique everywhere.
    Random,
    /// `exe-1`, `apr-2`: stable in snapshots.
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "made by the test kit"))]
    Counted(Arc<[AtomicU64; 4]>),
}

impl Ids {
    pub(crate) fn execution(&self) -> ExecutionId {
        self.sortable(0, "exe").into()
    }

    /// 160 random bits behind a prefix that tells people what it is.
    pub(crate) fn approval(&self) -> ApprovalId {
        match self {
            Self::Random => format!("apr_{}", BASE64_URL_SAFE_NO_PAD.encode(random::<20>())).into(),
            Self::Counted(next) => counted(&next[1], "apr").into(),
        }
    }

    /// An audit event's id.
    pub(crate) fn event(&self) -> String {
        self.sortable(2, "evt")
    }

    /// A process's id while it holds a lease.
    pub(crate) fn instance(&self) -> String {
        self.sortable(3, "ins")
    }

    /// A number in `0.0..1.0` that spreads retries. Not for secrets; always 0 where ids are counted.
    pub(crate) fn jitter(&self) -> f64 {
        match self {
            Self::Random => f64::from(u16::from_le_bytes(random())) / f64::from(u16::MAX),
            Self::Counted(_) => 0.0,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the one place")]
    fn sortable(&self, kind: usize, prefix: &str) -> String {
        match self {
            Self::Random => uuid::Uuid::now_v7().to_string(),
            Self::Counted(next) => counted(&next[kind], prefix),
        }
    }
}

fn counted(next: &AtomicU64, prefix: &str) -> String {
    format!("{prefix}-{}", next.fetch_add(1, Ordering::Relaxed) + 1)
}

/// Random bytes from the operating system. Without them there is no safe way on: keys and ids would be guessable.
#[expect(clippy::disallowed_methods, reason = "the one place")]
#[expect(clippy::expect_used, reason = "a machine without randomness cannot run this")]
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
