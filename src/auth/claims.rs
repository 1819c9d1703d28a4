//! The registered claims of a verified token (RFC 7519, section 4.1), read strictly: what should be a text or a number and
//! is something else refuses the token.

use std::time::Duration;

use serde_json::Value;

use super::AuthFailure;
use crate::clock::{Timestamp, micros};

/// The end of the year 9999: later times are mistakes.
const MAX_SECONDS: f64 = 253_402_300_799.0;

/// What this server expects of the registered claims.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) issuer: String,
    pub(super) audience: Vec<String>,
    /// How far clocks may differ.
    pub(super) leeway: Duration,
}

impl Expected {
    /// Checks issuer, audience, times and subject. The answer is when the token ends, with the leeway.
    pub(super) fn check(&self, claims: &Value, now: Timestamp) -> Result<Timestamp, AuthFailure> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(AuthFailure::WrongIssuer);
        }
        if !claims.get("aud").is_some_and(|it| self.is_for_us(it)) {
            return Err(AuthFailure::WrongAudience);
        }
        let expires = time(claims, "exp")?.ok_or(AuthFailure::BadClaims)?.plus(self.leeway);
        let not_before = time(claims, "nbf")?;
        time(claims, "iat")?;
        subject(claims)?;
        if now >= expires {
            return Err(AuthFailure::Expired);
        }
        let early = Timestamp(now.0.saturating_add(micros(self.leeway)));
        if not_before.is_some_and(|it| early < it) { Err(AuthFailure::NotYetValid) } else { Ok(expires) }
    }

    /// A text that is ours, or a list of texts with one of ours in it.
    fn is_for_us(&self, audience: &Value) -> bool {
        let ours = |it: &Value| it.as_str().is_some_and(|it| self.audience.iter().any(|our| our == it));
        match audience {
            Value::Array(all) => all.iter().all(Value::is_string) && all.iter().any(ours),
            one => ours(one),
        }
    }
}

/// Whom the token is about.
pub(super) fn subject(claims: &Value) -> Result<&str, AuthFailure> {
    claims.get("sub").and_then(Value::as_str).filter(|it| !it.is_empty()).ok_or(AuthFailure::BadClaims)
}

/// A `NumericDate`: seconds since the epoch, also with a fraction.
fn time(claims: &Value, name: &str) -> Result<Option<Timestamp>, AuthFailure> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|it| (0.0..=MAX_SECONDS).contains(it)).ok_or(AuthFailure::BadClaims)?;
    #[expect(clippy::cast_possible_truncation, reason = "within the range that was checked")]
    let at = (seconds * 1e6) as i64;
    Ok(Some(Timestamp(at)))
}
