//! `Prefer: wait=N` (RFC 7240, section 4.3): how long a client is willing to wait for a decision.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The longest wait, in seconds: shorter than proxies' usual minute.
const LONGEST: u64 = 50;

/// So many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait(u64);

impl Wait {
    /// The first one that is given, cut to 50 s. What is no preference of this sort is ignored, as the standard says.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(PREFER).iter().filter_map(|it| it.to_str().ok());
        let wait = |it: &str| {
            let (name, value) = it.split(';').next()?.split_once('=')?;
            let value = value.trim().trim_matches('"');
            let named = name.trim().eq_ignore_ascii_case("wait") && value.bytes().all(|it| it.is_ascii_digit());
            (named && !value.is_empty()).then(|| Self(value.parse().unwrap_or(LONGEST).min(LONGEST)))
        };
        lines.flat_map(|it| it.split(',')).find_map(wait)
    }

    pub(super) fn length(self) -> Duration {
        Duration::from_secs(self.0)
    }

    /// Says that it was honoured, and how far.
    pub(super) fn applied(self, response: &mut Response) {
        if let Ok(value) = HeaderValue::from_str(&format!("wait={}", self.0)) {
            response.headers_mut().insert(APPLIED, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_seconds_and_at_most_fifty() {
        let read = |text: &'static str| Wait::of(&HeaderMap::from_iter([(PREFER, HeaderValue::from_static(text))]));
        for (text, seconds) in [
            ("wait=10", Some(10)),
            ("respond-async, WAIT = \"7\"; x=y", Some(7)),
            ("wait=90", Some(50)),
            ("wait=99999999999999999999999", Some(50)),
            ("wait=0", Some(0)),
            ("wait=", None),
            ("wait=-1", None),
            ("wait=1.5", None),
            ("wait", None),
            ("waits=5", None),
            ("", None),
        ] {
            assert_eq!(read(text), seconds.map(Wait), "{text}");
        }
    }
}
