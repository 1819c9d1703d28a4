//! A receiver as it was configured, checked, with its keys.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use url::Url;

use super::settings::{NotificationSettings, WebhookSettings};
use super::sign::{Keys, key};
use crate::audit::hex;
use crate::builder::Problem;
use crate::outbound;
use crate::store::outbox::Subscriber;
use crate::topic::Topic;

/// The most receivers.
const MAX_WEBHOOKS: usize = 32;
/// The most secrets of one.
const MAX_SECRETS: usize = 4;
/// The most tenants that one names.
const MAX_TENANTS: usize = 256;
/// Unless it says otherwise.
const ATTEMPTS: u32 = 8;
const MAX_ATTEMPTS: u32 = 16;

/// One receiver.
#[derive(Clone)]
pub(super) struct Webhook {
    pub(super) name: String,
    pub(super) url: Url,
    pub(super) keys: Keys,
    pub(super) topics: Vec<Topic>,
    pub(super) tenants: Vec<String>,
    pub(super) attempts: u32,
}

// Its URL may hold a secret.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).field("topics", &self.topics).finish_non_exhaustive()
    }
}

impl Webhook {
    /// What whoever writes events must know of it. The URL may hold a secret, so that only its digest is stored.
    pub(super) fn subscriber(&self) -> Subscriber {
        Subscriber {
            name: self.name.clone(),
            address: hex(&Sha256::digest(self.url.as_str().as_bytes())),
            topics: self.topics.clone(),
            tenants: self.tenants.clone(),
        }
    }
}

/// Reads one webhook's part of the configuration.
struct Reading<'a> {
    at: String,
    base: &'a Path,
    env: &'a dyn Fn(&str) -> Option<String>,
    problems: &'a mut Vec<Problem>,
}

/// All of them, or everything that is wrong with them.
pub(super) fn read(
    settings: &NotificationSettings,
    base: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Webhook>, Vec<Problem>> {
    let mut problems = Vec::new();
    if settings.webhooks.len() > MAX_WEBHOOKS {
        problems.push(Problem::new("notifications", "there are more than 32 webhooks", "remove some"));
    }
    problems.extend(settings.approval_url.as_deref().and_then(link_problem));
    let (mut names, mut webhooks) = (BTreeSet::new(), Vec::new());
    for (at, it) in settings.webhooks.iter().enumerate() {
        let at =
            if it.name.is_empty() { format!("notifications.webhooks[{at}]") } else { format!("webhook `{}`", it.name) };
        if !names.insert(&*it.name) {
            problems.push(Problem::new(&*at, "two webhooks have this name", "rename one of them"));
        }
        let mut reading = Reading { at, base, env, problems: &mut problems };
        webhooks.extend(reading.webhook(it));
    }
    if problems.is_empty() { Ok(webhooks) } else { Err(problems) }
}

fn link_problem(text: &str) -> Option<Problem> {
    let at = "notifications.approval_url";
    let fix = "write something like `https://app.example/approvals/{id}`";
    if !text.contains("{id}") {
        return Some(Problem::new(at, "it has no `{id}`, so that it leads to no request", fix));
    }
    let is_fit = Url::parse(&text.replace("{id}", "apr_0")).is_ok_and(|it| outbound::is_private(&it));
    (!is_fit).then(|| Problem::new(at, "it is no https URL, nor http to this machine", fix))
}

impl Reading<'_> {
    fn problem(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(Problem::new(&*self.at, what, fix));
    }

    fn webhook(&mut self, it: &WebhookSettings) -> Option<Webhook> {
        let legal = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, b'_' | b'-');
        if !(1..=64).contains(&it.name.len()) || !it.name.bytes().all(legal) {
            self.problem("its name is not legal", "use 1 to 64 lower-case letters, digits, `_` and `-`");
        }
        let attempts = it.attempts.unwrap_or(ATTEMPTS);
        if !(1..=MAX_ATTEMPTS).contains(&attempts) {
            self.problem("`attempts` is out of bounds", "choose 1 to 16, or leave it out");
        }
        let fit = |it: &String| !it.is_empty() && it.len() <= 512 && !it.chars().any(char::is_control);
        if it.tenants.len() > MAX_TENANTS || !it.tenants.iter().all(fit) {
            self.problem("`tenants` are not fit", "name at most 256, none of them empty");
        }
        let (url, keys, topics) = (self.url(&it.url), self.keys(it), self.topics(&it.events));
        let (name, mut tenants) = (it.name.clone(), it.tenants.clone());
        tenants.sort();
        tenants.dedup();
        Some(Webhook { name, url: url?, keys: keys?, topics, tenants, attempts })
    }

    fn url(&mut self, text: &str) -> Option<Url> {
        let fix = "write an https URL; http goes to this machine only, `http://127.0.0.1:9000/hook`";
        let Ok(url) = Url::parse(text) else {
            self.problem("its `url` is none", fix);
            return None;
        };
        if !outbound::is_private(&url) {
            self.problem("its `url` is neither https nor this machine", fix);
        }
        if !url.username().is_empty() || url.password().is_some() {
            self.problem("its `url` holds a password", "remove it: the receiver checks signatures");
        }
        Some(url)
    }

    fn keys(&mut self, it: &WebhookSettings) -> Option<Keys> {
        if !(1..=MAX_SECRETS).contains(&it.secrets.len()) {
            let fix = "name 1 to 4: `secrets = [{ env = \"WEBHOOK_SECRET\" }]`";
            self.problem("it has no `secrets`, or more than 4", fix);
        }
        let mut keys = Vec::new();
        for secret in &it.secrets {
            match secret.resolve(self.base, self.env) {
                Ok(secret) => {
                    if let Some(key) = key(&secret) {
                        keys.push(key);
                    } else {
                        let fix = "make one of 24 to 64 random bytes: `echo whsec_$(openssl rand -base64 32)`";
                        self.problem("a secret is not `whsec_` and base64", fix);
                    }
                }
                Err(error) => {
                    let below = std::error::Error::source(&error).map(|it| format!(": {it}")).unwrap_or_default();
                    self.problem(format!("{error}{below}"), "put the secret there");
                }
            }
        }
        (keys.len() == it.secrets.len() && !keys.is_empty()).then(|| Keys::new(keys))
    }

    fn topics(&mut self, events: &[String]) -> Vec<Topic> {
        if events.is_empty() {
            return Topic::ALL.to_vec();
        }
        let mut topics = BTreeSet::new();
        for text in events {
            let group = text.strip_suffix('*').filter(|it| it.ends_with('.'));
            let found = Topic::ALL.into_iter().filter(|it| match group {
                Some(group) => it.as_str().starts_with(group),
                None => it.as_str() == text,
            });
            let found: Vec<_> = found.collect();
            if found.is_empty() {
                let like = |it: &Topic| strsim::jaro_winkler(it.as_str(), text);
                let near = Topic::ALL.into_iter().max_by(|one, two| like(one).total_cmp(&like(two)));
                let fix = near.filter(|it| like(it) > 0.8).map(|it| format!("did you mean `{it}`?"));
                let fix = fix.unwrap_or_else(|| "name topics, `approval.*` or `execution.*`".into());
                self.problem(format!("there is no event `{text}`"), fix);
            }
            topics.extend(found);
        }
        topics.into_iter().collect()
    }
}
