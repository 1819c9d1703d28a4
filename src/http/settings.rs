//! `[http]` of the configuration.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;

use super::host::{is_host, is_origin};
use crate::{Problem, duration};

/// How the HTTP API is served. Durations are texts like `30s` or `500ms`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct HttpSettings {
    /// The address to listen on (default `127.0.0.1:8080`).
    pub listen: SocketAddr,
    /// Names that requests may be addressed to, `agents.example.com` or `agents.example.com:8443`, besides `localhost`,
    /// `127.0.0.1`, `[::1]` and the address that a connection came in on (default: none).
    pub hosts: Vec<String>,
    /// Web pages that may call, `https://desk.example.com`, compared exactly (default: none).
    pub origins: Vec<String>,
    /// The most connections at once (default 1,024). Further ones wait to be accepted.
    pub max_connections: usize,
    /// The most requests that are worked on at once (default 256). Further ones get 503, `/healthz` and `/readyz` never.
    pub max_calls: usize,
    /// The most calls that wait for a decision, by `Prefer: wait` (default 1,024). Further ones are answered 202 at once.
    pub max_waits: usize,
    /// The most streams of events at once (default 256). Further ones get 503.
    pub max_streams: usize,
    /// How long the head of a request may take, from its first byte on (default 10 s).
    #[serde(deserialize_with = "duration::text")]
    pub head_timeout: Duration,
    /// How long the body of a request may take (default 30 s).
    #[serde(deserialize_with = "duration::text")]
    pub body_timeout: Duration,
    /// How long a connection may be idle (default 60 s).
    #[serde(deserialize_with = "duration::text")]
    pub idle_timeout: Duration,
    /// How long a client may take no byte of an answer (default 30 s).
    #[serde(deserialize_with = "duration::text")]
    pub write_timeout: Duration,
    /// How long running requests may take after the server was told to stop (default 30 s).
    #[serde(deserialize_with = "duration::text")]
    pub shutdown_timeout: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            hosts: Vec::new(),
            origins: Vec::new(),
            max_connections: 1_024,
            max_calls: 256,
            max_waits: 1_024,
            max_streams: 256,
            head_timeout: seconds(10),
            body_timeout: seconds(30),
            idle_timeout: seconds(60),
            write_timeout: seconds(30),
            shutdown_timeout: seconds(30),
        }
    }
}

impl HttpSettings {
    /// Everything that no server can keep to, or that would not mean what it says.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for host in self.hosts.iter().filter(|it| !is_host(it)) {
            let fix = "write a name with or without a port, like `agents.example.com`";
            problems.push(Problem::new("http.hosts", format!("`{host}` is no host"), fix));
        }
        for origin in self.origins.iter().filter(|it| !is_origin(it)) {
            let fix = "write scheme, host and port as browsers send them, like `https://desk.example.com`";
            problems.push(Problem::new("http.origins", format!("`{origin}` is no origin"), fix));
        }
        let most = [
            ("max_connections", self.max_connections),
            ("max_calls", self.max_calls),
            ("max_waits", self.max_waits),
            ("max_streams", self.max_streams),
        ];
        for (name, _) in most.iter().filter(|it| !(1..=1_000_000).contains(&it.1)) {
            problems.push(Problem::new(format!("http.{name}"), "it is out of bounds", "choose 1 to 1,000,000"));
        }
        let times = [
            ("head_timeout", self.head_timeout),
            ("body_timeout", self.body_timeout),
            ("idle_timeout", self.idle_timeout),
            ("write_timeout", self.write_timeout),
        ];
        let bounds = Duration::from_millis(1)..=Duration::from_hours(1);
        for (name, _) in times.iter().filter(|it| !bounds.contains(&it.1)) {
            problems.push(Problem::new(format!("http.{name}"), "it is out of bounds", "choose 1ms to 1h"));
        }
        if self.shutdown_timeout > Duration::from_hours(1) {
            problems.push(Problem::new("http.shutdown_timeout", "it is out of bounds", "choose at most 1h"));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_on_http_tells_every_setting_and_its_default() {
        let page = include_str!("../../docs/http.md");
        let HttpSettings { listen, max_connections, max_calls, max_waits, max_streams, .. } = HttpSettings::default();
        let mut rows = vec![format!("| `listen` | `{listen}` |")];
        for (name, most) in [
            ("max_connections", max_connections),
            ("max_calls", max_calls),
            ("max_waits", max_waits),
            ("max_streams", max_streams),
        ] {
            rows.push(format!("| `{name}` | {most} |"));
        }
        let it = HttpSettings::default();
        for (name, time) in [
            ("head_timeout", it.head_timeout),
            ("body_timeout", it.body_timeout),
            ("idle_timeout", it.idle_timeout),
            ("write_timeout", it.write_timeout),
            ("shutdown_timeout", it.shutdown_timeout),
        ] {
            rows.push(format!("| `{name}` | `{}s` |", time.as_secs()));
        }
        let missing: Vec<_> = rows.into_iter().filter(|it| !page.contains(it.as_str())).collect();
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn settings_that_mean_nothing_are_told_all_at_once() {
        assert_eq!(HttpSettings::default().problems(), []);
        let odd = HttpSettings {
            hosts: vec!["https://a.example".into(), "a.example".into()],
            origins: vec!["null".into(), "https://a.example/".into(), "https://a.example".into()],
            max_calls: 0,
            head_timeout: Duration::ZERO,
            shutdown_timeout: Duration::from_hours(2),
            ..HttpSettings::default()
        };
        let at: Vec<_> = odd.problems().into_iter().map(|it| it.at).collect();
        let all = [
            "http.hosts",
            "http.origins",
            "http.origins",
            "http.max_calls",
            "http.head_timeout",
            "http.shutdown_timeout",
        ];
        assert_eq!(at, all);
    }
}
