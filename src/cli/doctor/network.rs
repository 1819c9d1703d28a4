//! What lies outside: addresses, issuers, other clocks.

use std::net::SocketAddr;
use std::time::Duration;

use chrono::DateTime;
use tokio::net::TcpListener;
use url::Url;

use super::finding::Finding;
use crate::Problem;
use crate::auth::IssuerKeys;
use crate::clock::{Clock, Timestamp};
use crate::config::Config;
use crate::outbound;

/// How far clocks may differ before somebody should see to it: half of what tokens are given.
const DRIFT: Duration = Duration::from_secs(30);
/// How long an issuer has to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether an address could be listened on.
pub(super) async fn address(check: &'static str, address: SocketAddr, findings: &mut Vec<Finding>) {
    findings.push(match TcpListener::bind(address).await {
        Ok(_) => Finding::good(check, format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let next = "if that is this server already, all is well; else stop it, or listen elsewhere";
            Finding::note(check, format!("something listens on {address}"), next)
        }
        Err(error) => {
            let next = "listen on an address of this machine, and on a port from 1024 up";
            Finding::bad(check, format!("{address} cannot be listened on: {error}"), next)
        }
    });
}

/// Whether an issuer's tokens could be verified.
pub(super) fn keys(report: &IssuerKeys) -> Finding {
    let (issuer, next) = (&report.issuer, "see to the network, or correct `jwks_url` or `jwks_file`");
    match (report.usable, &report.trouble) {
        (Some(usable), None) if usable > 0 => Finding::good("issuer", format!("{issuer}: {usable} usable keys")),
        (_, Some(trouble)) => Finding::bad("issuer", format!("{issuer}: no keys: {trouble}"), next),
        (_, None) => {
            let next = "have it publish a signing key of one of `algorithms`";
            Finding::bad("issuer", format!("{issuer}: none of its keys is usable"), next)
        }
    }
}

/// Compares this machine's clock with the latest record and with those of the issuers.
pub(super) async fn clocks(config: &Config, latest: Option<Timestamp>, findings: &mut Vec<Finding>) {
    let now = Clock::System.now();
    let is_behind = latest.is_some_and(|it| it > now.plus(DRIFT));
    findings.push(match latest.filter(|_| is_behind) {
        Some(latest) => {
            let what = format!("it is {now}, and an event was recorded at {latest}");
            Finding::bad("clock", what, "set this machine's clock, by NTP")
        }
        None => Finding::good("clock", now.to_string()),
    });
    for it in &config.auth.issuers {
        if let Some(url) = it.jwks_url.as_deref().and_then(|it| Url::parse(it).ok()) {
            findings.extend(clock_of(&it.issuer, url).await);
        }
    }
}

/// Whether spans could be sent. A server does without: what its collector does not take is dropped.
pub(super) async fn collector(config: &Config, findings: &mut Vec<Finding>) {
    let Some(endpoint) = &config.telemetry.endpoint else { return };
    if let Err(problems) = usable(config) {
        return findings.extend(problems.into_iter().map(|it| Finding::problem("collector", it)));
    }
    let answer = match outbound::client(PATIENCE) {
        Ok(client) => client.get(endpoint).send().await,
        Err(error) => Err(error),
    };
    findings.push(match answer {
        Ok(_) => Finding::good("collector", format!("{endpoint} answers")), // a GET is no span: whatever it says to that
        Err(error) => {
            let what = format!("{endpoint} does not answer, and spans are dropped: {}", error.without_url());
            Finding::note("collector", what, "see to the network, or correct `telemetry.endpoint`")
        }
    });
}

#[cfg(feature = "otel")]
fn usable(config: &Config) -> Result<(), Vec<Problem>> {
    crate::telemetry::otlp(&config.telemetry, config.base(), &super::super::settings::variable).map(drop)
}

#[cfg(not(feature = "otel"))]
fn usable(_: &Config) -> Result<(), Vec<Problem>> {
    let next = "build with `--features otel`, or remove it";
    Err(vec![Problem::new("telemetry.endpoint", "cannot be used: this build sends no spans", next)])
}

/// Asks an issuer for its keys, for the sake of the answer's date. Whether it answers is told by [`keys`].
async fn clock_of(issuer: &str, url: Url) -> Option<Finding> {
    if !outbound::is_private(&url) {
        return None; // refused as a setting
    }
    let answer = outbound::client(PATIENCE).ok()?.get(url).send().await.ok()?;
    let now = Clock::System.now();
    let date = DateTime::parse_from_rfc2822(answer.headers().get("date")?.to_str().ok()?).ok()?;
    let theirs = Timestamp(date.timestamp_micros());
    (theirs > now.plus(DRIFT) || now > theirs.plus(DRIFT)).then(|| {
        let what = format!("{issuer}: it is {theirs} there, and {now} here: good tokens would be refused");
        Finding::bad("clock", what, "set this machine's clock, by NTP")
    })
}
