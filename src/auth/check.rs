//! Everything that can be wrong with the configuration of issuers, at once: a half-configured one would let in whom nobody
//! meant, so that the server does not start with it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use url::Url;

use super::claims::Expected;
use super::issuer::Issuer;
use super::keys::{FETCH, Keyring, Source};
use super::mapping::{Known, Mapping, Place as ClaimPlace};
use super::{IssuerSettings, jwk};
use crate::actor::{Actor, ActorKind, Identity};
use crate::builder::Problem;
use crate::clock::Clock;
use crate::outbound;

const ALGORITHMS: &str = "write those that the issuer signs with, say `algorithms = [\"RS256\"]`";
const KEYS: &str = "write `jwks_url = \"https://..\"`, or `jwks_file = \"..\"`";
const TENANT: &str = "write `tenant = \"..\"` for all its actors, or `claims.tenant` for the claim that tells";
const KIND: &str =
    "write `kind = \"user\"` (or another kind) for all its actors, or `claims.kind` for the claim that tells";
const POINTER: &str = "write a claim's name, or a JSON Pointer such as `/realm_access/roles`";

/// The issuers that are whole, and what is wrong with the others.
pub(super) fn issuers(settings: &[IssuerSettings], base: &Path, clock: &Clock) -> (Vec<Issuer>, Vec<Problem>) {
    let (mut issuers, mut problems, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (index, it) in settings.iter().enumerate() {
        let at = if it.issuer.is_empty() {
            format!("auth.issuers[{index}]")
        } else {
            format!("auth.issuers `{}`", it.issuer)
        };
        let mut check = Check { at, problems: Vec::new() };
        if !Identity::new(Actor::user("a").issuer(&it.issuer)).actor().is_some_and(Actor::is_well_formed) {
            check.problem(
                "`issuer` is blank, too long, or has control characters",
                "write what its tokens have in `iss`",
            );
        }
        if !names.insert(&it.issuer) {
            check.problem("the same issuer is configured twice", "write one block, with all audiences and algorithms");
        }
        let issuer = check.issuer(it, base, clock);
        issuers.extend(issuer.filter(|_| check.problems.is_empty()));
        problems.extend(check.problems);
    }
    (issuers, problems)
}

/// One issuer's problems so far.
struct Check {
    at: String,
    problems: Vec<Problem>,
}

impl Check {
    fn problem(&mut self, what: impl Into<String>, fix: &str) {
        self.problems.push(Problem::new(&self.at, what, fix));
    }

    fn issuer(&mut self, it: &IssuerSettings, base: &Path, clock: &Clock) -> Option<Issuer> {
        if it.audience.is_empty() || it.audience.iter().any(String::is_empty) {
            let fix = "write what the issuer calls this server, say `audience = \"countersign\"`";
            self.problem("nothing says which `audience` its tokens must have", fix);
        }
        self.within("leeway", it.leeway, Duration::ZERO, Duration::from_mins(5), "choose 0s to 5m");
        self.within("cooldown", it.cooldown, Duration::from_secs(1), Duration::from_hours(1), "choose 1s to 1h");
        self.within("keep_keys", it.keep_keys, Duration::from_mins(1), Duration::from_hours(24), "choose 1m to 24h");
        let (algorithms, source, mapping) = (self.algorithms(it), self.source(it, base), self.mapping(it));
        let keyring = Keyring {
            issuer: it.issuer.clone(),
            source: source?,
            allowed: algorithms,
            cooldown: it.cooldown,
            keep: it.keep_keys,
            clock: clock.clone(),
            state: std::sync::Mutex::default(),
            turn: Arc::default(),
        };
        let expected = Expected { issuer: it.issuer.clone(), audience: it.audience.clone(), leeway: it.leeway };
        Some(Issuer { expected, keys: Arc::new(keyring), mapping: mapping? })
    }

    fn within(&mut self, name: &str, given: Duration, least: Duration, most: Duration, fix: &str) {
        if !(least..=most).contains(&given) {
            self.problem(format!("`{name}` is out of bounds"), fix);
        }
    }

    fn algorithms(&mut self, it: &IssuerSettings) -> Vec<Algorithm> {
        if it.algorithms.is_empty() {
            self.problem("no `algorithms` are allowed", ALGORITHMS);
        }
        let mut allowed = Vec::new();
        for name in &it.algorithms {
            match jwk::algorithm(name) {
                Some(it) => allowed.push(it),
                None if name.starts_with("HS") => {
                    let what = format!("`{name}` signs with a secret that whoever verifies could sign with too");
                    self.problem(what, "let the issuer sign with a key pair: RS256, ES256, EdDSA");
                }
                None => self.problem(format!("`{name}` is no signature algorithm that is taken"), ALGORITHMS),
            }
        }
        allowed
    }

    fn source(&mut self, it: &IssuerSettings, base: &Path) -> Option<Source> {
        match (&it.jwks_url, &it.jwks_file) {
            (Some(url), None) => self.url(url),
            (None, Some(path)) => Some(Source::File(base.join(path))),
            (None, None) => {
                self.problem("nothing says where its keys are", KEYS);
                None
            }
            (Some(_), Some(_)) => {
                self.problem("both `jwks_url` and `jwks_file` say where its keys are", "keep one");
                None
            }
        }
    }

    fn url(&mut self, url: &str) -> Option<Source> {
        let url = Url::parse(url).ok().filter(outbound::is_private);
        let url = url.filter(|it| it.username().is_empty() && it.password().is_none());
        let Some(url) = url else {
            let what = "`jwks_url` is no https URL without a user and a password";
            self.problem(what, "write an https URL (http only to this machine itself)");
            return None;
        };
        match outbound::client(FETCH) {
            Ok(client) => Some(Source::Url(client, url)),
            Err(error) => {
                let what = format!("no client for `jwks_url` can be made: {error}");
                self.problem(what, "see to this machine's certificates, or use `jwks_file`");
                None
            }
        }
    }

    fn mapping(&mut self, it: &IssuerSettings) -> Option<Mapping> {
        let claims = &it.claims;
        let tenant = self.known("tenant", it.tenant.clone(), claims.tenant.as_ref(), TENANT);
        if it.tenant.as_ref().is_some_and(|it| !Identity::none().tenant(it.as_str()).is_sound()) {
            self.problem("`tenant` is empty, too long, or has control characters", TENANT);
        }
        let kind = self.known("kind", it.kind, claims.kind.as_ref(), KIND);
        if it.kind.is_some_and(|it| it != ActorKind::User) && !it.approver_clients.is_empty() {
            let what = "`approver_clients` are named, and none of its actors is a `user`";
            self.problem(what, "only people decide: drop `approver_clients`, or the fixed `kind`");
        }
        let mut place = |name: &str, text: Option<&String>, default: Option<&str>| {
            let text = text.map(String::as_str).or(default)?;
            ClaimPlace::parse(text).or_else(|| {
                self.problem(format!("`claims.{name}` is empty, or no JSON Pointer"), POINTER);
                None
            })
        };
        let roles = place("roles", claims.roles.as_ref(), None);
        let scopes = place("scopes", claims.scopes.as_ref(), Some("scope"));
        let name = place("name", claims.name.as_ref(), Some("name"));
        let client = place("client", claims.client.as_ref(), None);
        let attributes = claims.attributes.iter();
        let attributes = attributes
            .filter_map(|(name, text)| Some((name.clone(), place(&format!("attributes.{name}"), Some(text), None)?)));
        let attributes = attributes.collect();
        Some(Mapping {
            tenant: tenant?,
            kind: kind?,
            roles,
            scopes: scopes?,
            name: name?,
            client,
            attributes,
            required_scopes: it.required_scopes.clone(),
            approver_clients: it.approver_clients.clone(),
        })
    }

    /// What must be decided one way or the other, and not both.
    fn known<T>(&mut self, name: &str, fixed: Option<T>, claim: Option<&String>, fix: &str) -> Option<Known<T>> {
        match (fixed, claim) {
            (Some(it), None) => Some(Known::Fixed(it)),
            (None, Some(claim)) => {
                let place = ClaimPlace::parse(claim);
                if place.is_none() {
                    self.problem(format!("`claims.{name}` is empty, or no JSON Pointer"), POINTER);
                }
                place.map(Known::Claimed)
            }
            (None, None) => {
                self.problem(format!("nothing says which {name} its actors have"), fix);
                None
            }
            (Some(_), Some(_)) => {
                self.problem(format!("both `{name}` and `claims.{name}` say which {name} its actors have"), "keep one");
                None
            }
        }
    }
}

/// What is wrong with the keys of files, once they were read: whoever names a file has it. An issuer may come later.
pub(super) fn key_files(issuers: &[Issuer]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for keys in issuers.iter().map(|it| &it.keys) {
        let Source::File(path) = &keys.source else { continue };
        let report = keys.report();
        let what = match (&report.trouble, report.usable) {
            (Some(trouble), _) => format!("`{}`: {trouble}", path.display()),
            (None, Some(0) | None) => format!("`{}` has no key that could verify an allowed algorithm", path.display()),
            (None, Some(_)) => continue,
        };
        let fix = "save the issuer's JWK Set there, with its public keys for signatures";
        problems.push(Problem::new(format!("auth.issuers `{}`", report.issuer), what, fix));
    }
    problems
}
