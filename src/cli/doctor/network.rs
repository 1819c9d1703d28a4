//! What lies outside: addresses, issuers, other clocks.

use std::net::SocketAddr;
use std::time::Duration;

use chrono::DateTime;
use tokio::net::TcpListener;
use url::Url;

use super::finding::Finding;
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

/// Compares this machine's clock with the latest record and with those of the issuers, which are asked for their keys.
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
    let issuers = config.auth.issuers.iter().filter_map(|it| Some((&*it.issuer, it.jwks_url.as_deref()?)));
    for (issuer, url) in issuers {
        findings.push(ask(issuer, url).await);
    }
}

/// Asks an issuer for its keys, for the sake of the answer's date.
async fn ask(issuer: &str, url: &str) -> Finding {
    let Ok(url) = Url::parse(url) else {
        return Finding::bad("issuer", format!("{issuer}: `jwks_url` is no URL"), "write https://HOST/PATH");
    };
    if !outbound::is_private(&url) {
        return Finding::bad("issuer", format!("{issuer}: keys over plain HTTP"), "write https://HOST/PATH");
    }
    let answer = match outbound::client(PATIENCE) {
        Ok(client) => client.get(url).send().await,
        Err(error) => Err(error),
    };
    let answer = match answer {
        Ok(answer) if answer.status().is_success() => answer,
        Ok(answer) => {
            let what = format!("{issuer}: its keys are not there, HTTP status {}", answer.status().as_u16());
            return Finding::bad("issuer", what, "correct `jwks_url`");
        }
        Err(error) => {
            let what = format!("{issuer}: its keys cannot be fetched: {}", error.without_url());
            return Finding::bad("issuer", what, "see to the network, or correct `jwks_url`");
        }
    };
    let date = answer.headers().get("date").and_then(|it| DateTime::parse_from_rfc2822(it.to_str().ok()?).ok());
    let theirs = date.map(|it| Timestamp(it.timestamp_micros()));
    let now = Clock::System.now();
    match theirs.filter(|it| *it > now.plus(DRIFT) || now > it.plus(DRIFT)) {
        Some(theirs) => {
            let what = format!("{issuer}: it is {theirs} there, and {now} here: good tokens would be refused");
            Finding::bad("clock", what, "set this machine's clock, by NTP")
        }
        None => Finding::good("issuer", format!("{issuer}: answers, and its clock agrees")),
    }
}
