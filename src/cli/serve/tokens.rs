//! The tokens of the demo: made for one run, or fixed by `--demo`. On loopback only, for everybody can know them.

use std::fmt::Write as _;

use super::super::failure::Failure;
use super::super::token::{digest, random_token};
use crate::auth::AuthSettings;
use crate::config::{Config, toml_string};
use crate::{Identity, Problem, demo};

/// One of the demo's people, and the token for calls in their name.
pub(super) struct DemoToken {
    pub(super) name: &'static str,
    pub(super) token: String,
}

/// Whose tokens there are, and whether they are a person's own. Dana and Omar have agents that act for them.
const PEOPLE: [(&str, bool); 4] = [("dana", false), ("priya", true), ("omar", false), ("nightly", false)];

/// Gives a configuration that knows no credentials those of the demo. Empty if it knows some.
///
/// # Errors
/// Without credentials only the demo is served, and that on loopback only.
pub(super) fn of_demo(config: &mut Config, is_demo: bool) -> Result<Vec<DemoToken>, Failure> {
    let has_credentials = !config.auth.tokens.is_empty() || !config.auth.issuers.is_empty();
    if has_credentials && !is_demo {
        return Ok(Vec::new());
    }
    if has_credentials {
        let next = "leave `--demo` out, or unset the variables that begin with `COUNTERSIGN_AUTH__`";
        return Err(Failure::could_not_run("`--demo` brings its own tokens, and the environment has others", next));
    }
    if let Some(file) = config.file() {
        let cause = format!("`{}` says nobody's credentials, so nobody could call", file.display());
        let next = format!(
            "make a token, `countersign token new --id NAME --role ROLE --append {}`, or name an issuer under `[[auth.issuers]]`",
            file.display()
        );
        return Err(Failure::could_not_run(cause, next));
    }
    if let Some(directory) = &config.capabilities.directory {
        let cause = format!("the demo's tokens are for the demo, and `{}` has other capabilities", directory.display());
        let next = "set `COUNTERSIGN_AUTH__TOKENS`, or write a configuration with credentials: `countersign init`";
        return Err(Failure::could_not_run(cause, next));
    }
    if !config.http.listen.ip().is_loopback() {
        let cause = format!("the demo's tokens are no secret, and `{}` is not loopback", config.http.listen);
        let next = "listen on 127.0.0.1, or write a configuration with credentials: `countersign init`";
        return Err(Failure::could_not_run(cause, next));
    }
    let tokens = PEOPLE
        .map(|(name, _)| DemoToken { name, token: if is_demo { format!("demo-{name}") } else { random_token() } });
    config.auth = settings(&tokens).map_err(|it| super::settings::unfit(&[it]))?;
    Ok(tokens.into())
}

/// As a configuration would have them.
fn settings(tokens: &[DemoToken]) -> Result<AuthSettings, Problem> {
    let mut text = String::new();
    for ((name, is_person), token) in PEOPLE.iter().zip(tokens) {
        let identity = demo::actor(name).unwrap_or_else(Identity::none);
        let Some(actor) = identity.actor() else { continue };
        let roles: Vec<_> = actor.roles.iter().map(|it| toml_string(it)).collect();
        // into a String: cannot fail
        let _ = writeln!(
            text,
            "[[auth.tokens]]\nname = {}\nsha256 = {}\nid = {}\nkind = {}\ntenant = {}\nroles = [{}]\nhuman = {is_person}",
            toml_string(name),
            toml_string(&digest(&token.token)),
            toml_string(&actor.id),
            toml_string(actor.kind.as_str()),
            toml_string(identity.tenant_name()),
            roles.join(", "),
        );
    }
    let wrong = || Problem::new("the demo's tokens", "they cannot be read", "report it");
    Config::parse(None, &text, []).map(|it| it.auth).map_err(|all| all.into_iter().next().unwrap_or_else(wrong))
}
