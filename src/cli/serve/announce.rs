//! What a server says when it is there: where it listens, and for the demo how to try it.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde_json::json;

use super::super::screen::{FAINT, GOOD, STRONG, facts, plain};
use super::tokens::DemoToken;

/// Everything that is said.
pub(super) struct Announcement {
    /// Where it really listens.
    pub(super) address: SocketAddr,
    /// Where the metrics alone are, if they are.
    pub(super) metrics: Option<SocketAddr>,
    pub(super) database: String,
    /// What is served.
    pub(super) name: String,
    /// The demo's own tokens.
    pub(super) tokens: Vec<DemoToken>,
}

impl Announcement {
    /// One document on one line.
    pub(super) fn json(&self) -> String {
        let tokens: serde_json::Map<_, _> =
            self.tokens.iter().map(|it| (it.name.to_owned(), json!(it.token))).collect();
        let json = json!({
            "listening": self.url(),
            "address": self.address.to_string(),
            "metrics": self.metrics.map(|it| format!("http://{it}/metrics")),
            "database": self.database,
            "tokens": tokens,
        });
        format!("{json}\n")
    }

    /// The line about the address comes last: whoever waits for it has seen everything.
    pub(super) fn text(&self) -> String {
        let mut rows = vec![("serving", self.name.clone()), ("database", self.database.clone())];
        rows.extend(self.metrics.map(|it| ("metrics", format!("http://{it}/metrics"))));
        let mut text = facts(&rows);
        if !self.tokens.is_empty() {
            let rows: Vec<_> = self.tokens.iter().map(|it| (it.name, it.token.clone())).collect();
            let _ = write!(
                text,
                "tokens {FAINT}(shown this once; priya's may decide approvals){FAINT:#}\n{}",
                facts(&rows)
            );
            let _ = writeln!(text, "try");
            for command in self.commands() {
                let _ = writeln!(text, "  {STRONG}{command}{STRONG:#}");
            }
        }
        let _ = writeln!(text, "{GOOD}listening{GOOD:#} on {}", plain(&self.url()));
        text
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What a visitor tries first: looking up, asking for too much, seeing as a manager what waits.
    fn commands(&self) -> Vec<String> {
        let token = |name| self.tokens.iter().find(|it| it.name == name).map_or("", |it| &*it.token);
        let (dana, priya, url) = (token("dana"), token("priya"), self.url());
        // Without -g curl takes the brackets of an IPv6 address for a pattern.
        let curl = if self.address.is_ipv6() { "curl -sg" } else { "curl -s" };
        let invoke = |capability, input| {
            format!(
                "{curl} '{url}/v1/capabilities/{capability}/invoke' -H 'Authorization: Bearer {dana}' \
                 -H 'Content-Type: application/json' -d '{{\"input\":{input}}}'"
            )
        };
        vec![
            invoke("orders.search", r#"{"query":"lamp"}"#),
            invoke("orders.refund", r#"{"orderId":"ord_42","amountCents":64900,"reason":"Cracked."}"#),
            format!("{curl} '{url}/v1/approvals?status=pending' -H 'Authorization: Bearer {priya}'"),
        ]
    }
}
