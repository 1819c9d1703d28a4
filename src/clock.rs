//! The only place that reads the system's time or waits for it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::watch;

/// Microseconds since the Unix epoch. In JSON and for people: RFC 3339 in UTC, with six digits of fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This much later. Saturates.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// Reads RFC 3339; `None` if it is not that.
    pub fn parse(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text).ok().map(|it| Self(it.timestamp_micros()))
    }
}

/// A duration as the store counts it. Saturates.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::from_timestamp_micros(self.0) {
            Some(time) => f.write_str(&time.to_rfc3339_opts(SecondsFormat::Micros, true)),
            None => write!(f, "{} us", self.0), // beyond the calendar
        }
    }
}

impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "date-time"})
    }

    fn inline_schema() -> bool {
        true
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}

/// Where the engine takes the time from, *and* what its deadlines wait on.
///
/// Not `tokio::time::pause`: a paused runtime jumps to the next timer whenever it is idle, and it is idle while
/// it waits for the store's own thread, so every deadline would fire at the first commit.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The system's time; waits are monotonic.
    System,
    /// Stands still until a test moves it.
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "made by the test kit"))]
    Manual(Arc<watch::Sender<Timestamp>>),
}

impl Clock {
    #[cfg(feature = "testing")]
    pub(crate) fn manual(at: Timestamp) -> Self {
        Self::Manual(Arc::new(watch::Sender::new(at)))
    }

    /// Wall-clock time: what is recorded.
    #[expect(clippy::disallowed_methods, reason = "the one place")]
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp(micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())),
            Self::Manual(now) => *now.borrow(),
        }
    }

    /// A time that never goes back, for durations and leases. Only differences mean something.
    #[expect(clippy::disallowed_methods, reason = "the one place")]
    pub(crate) fn monotonic(&self) -> Monotonic {
        match self {
            Self::System => Monotonic::System(Instant::now()),
            Self::Manual(now) => Monotonic::Manual(*now.borrow()),
        }
    }

    /// Waits. The end is fixed when this is called, not when it is first polled.
    pub(crate) fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        let clock = self.clone();
        let end = clock.now().plus(duration);
        let timer = matches!(clock, Self::System).then(|| tokio::time::sleep(duration));
        async move {
            match (clock, timer) {
                (Self::Manual(now), _) => {
                    // `now` lives in this future, so the channel cannot close.
                    let _ = now.subscribe().wait_for(|it| *it >= end).await;
                }
                (Self::System, Some(timer)) => timer.await,
                (Self::System, None) => {}
            }
        }
    }
}

/// A reading of [`Clock::monotonic`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Monotonic {
    System(Instant),
    Manual(Timestamp),
}

impl Monotonic {
    /// How long ago `earlier` was; zero if it was not, or if it is of another clock.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        match (self, earlier) {
            (Self::System(now), Self::System(then)) => now.saturating_duration_since(then),
            (Self::Manual(now), Self::Manual(then)) => {
                Duration::from_micros(u64::try_from(now.0.saturating_sub(then.0)).unwrap_or(0))
            }
            _ => Duration::ZERO,
        }
    }
}
