//! `token new`: a static token, shown once, and what the configuration says of it.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::args::{Token, TokenCommand, TokenNew};
use super::exit::Exit;
use super::failure::Failure;
use super::screen::{Answer, FAINT, GOOD, HINT, STRONG, plain};
use super::settings::unfit;
use crate::audit::hex;
use crate::config::{Config, toml_string};
use crate::id::random;
use crate::{ActorKind, Problem};

/// What tokens begin with, so that people and secret scanners know one when they see it.
pub(super) const TOKEN_PREFIX: &str = "csgn_";

pub(super) fn run(args: Token) -> Result<Answer, Failure> {
    match args.command {
        TokenCommand::New(args) => new(&args),
    }
}

/// 256 random bits.
pub(super) fn random_token() -> String {
    format!("{TOKEN_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random::<32>()))
}

/// What the configuration has of a token.
pub(super) fn digest(token: &str) -> String {
    hex(&Sha256::digest(token))
}

fn new(args: &TokenNew) -> Result<Answer, Failure> {
    if args.human && args.kind != ActorKind::User {
        let next = "leave `--human` out, or name a person with `--kind user`";
        return Err(Failure::could_not_run(format!("no {} is a person", args.kind.as_str()), next));
    }
    let token = random_token();
    let block = block(args, &digest(&token));
    let appended = args.append.as_deref().map(|it| append(it, &block)).transpose()?;
    let json = json!({"token": token, "sha256": digest(&token), "toml": block});
    let place = match (&args.append, appended) {
        (Some(file), Some(())) => format!("{GOOD}appended{GOOD:#} to `{}`\n", plain(&file.display().to_string())),
        _ => format!(
            "{HINT}next:{HINT:#} put the block into `countersign.toml`; what is served knows it after a restart\n"
        ),
    };
    let shown = format!(
        "{STRONG}{token}{STRONG:#}\n{FAINT}It is shown this once, and kept nowhere: the block below has its SHA-256.{FAINT:#}\n\n{}\n{place}",
        plain(&block)
    );
    Ok(Answer::new(Exit::Done, &json, shown))
}

fn block(args: &TokenNew, sha256: &str) -> String {
    let fallback = || format!("token-{}", &sha256[..6]);
    let name = args.name.clone().or_else(|| args.id.clone()).unwrap_or_else(fallback);
    let id = args.id.clone().unwrap_or_else(|| name.clone());
    let list = |all: &[String]| all.iter().map(|it| toml_string(it)).collect::<Vec<_>>().join(", ");
    let mut block = String::from("[[auth.tokens]]\n");
    // into a String: cannot fail
    let _ = writeln!(block, "name = {}", toml_string(&name));
    let _ = writeln!(block, "sha256 = {}", toml_string(sha256));
    let _ = writeln!(block, "id = {}", toml_string(&id));
    let _ = writeln!(block, "kind = {}", toml_string(args.kind.as_str()));
    if let Some(tenant) = &args.tenant {
        let _ = writeln!(block, "tenant = {}", toml_string(tenant));
    }
    for (key, all) in [("roles", &args.roles), ("scopes", &args.scopes)] {
        if !all.is_empty() {
            let _ = writeln!(block, "{key} = [{}]", list(all));
        }
    }
    if args.human {
        block.push_str("human = true\n");
    }
    block
}

/// Puts a block at the end of a configuration, unless that were none any more.
fn append(file: &Path, block: &str) -> Result<(), Failure> {
    Config::read(Some(file), []).map_err(|it| unfit(&it))?;
    let unreadable = |error: std::io::Error| {
        let what = format!("`{}` cannot be changed: {error}", file.display());
        Failure::could_not_run(what, "leave `--append` out, and put the block there yourself")
    };
    let before = fs::read_to_string(file).map_err(unreadable)?;
    let gap = if before.is_empty() || before.ends_with("\n\n") {
        ""
    } else if before.ends_with('\n') {
        "\n"
    } else {
        "\n\n"
    };
    let added = format!("{gap}{block}");
    Config::parse(Some(file), &format!("{before}{added}"), []).map_err(|problems| {
        let problems: Vec<Problem> = problems;
        Failure::of_problems("the block does not fit", &problems, "put the token there yourself")
    })?;
    let mut end = OpenOptions::new().append(true).open(file).map_err(unreadable)?;
    end.write_all(added.as_bytes()).and_then(|()| end.sync_all()).map_err(unreadable)
}
