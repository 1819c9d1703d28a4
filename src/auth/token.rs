//! Static tokens: known by their SHA-256, compared in constant time.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{Credential, TokenSettings};
use crate::actor::{Actor, ActorKind, Identity};
use crate::builder::Problem;

/// Every static token that is configured.
#[derive(Debug)]
pub(super) struct Tokens(Vec<Token>);

#[derive(Debug)]
struct Token {
    sha256: [u8; 32],
    credential: Credential,
}

impl Tokens {
    /// Those that are right, and what is wrong with the others.
    pub(super) fn new(settings: &[TokenSettings]) -> (Self, Vec<Problem>) {
        let (mut tokens, mut problems) = (Vec::new(), Vec::new());
        let (mut names, mut hashes) = (BTreeSet::new(), BTreeSet::new());
        for (index, it) in settings.iter().enumerate() {
            let at = place(index, &it.name);
            let mut problem = |what: &str, fix: &str| problems.push(Problem::new(&at, what, fix));
            if it.name.trim().is_empty() || !names.insert(&it.name) {
                problem("its name is empty, or another token's", "give each token a name of its own");
            }
            let sha256 = digest(&it.sha256);
            match sha256 {
                None => problem(NO_HASH, "run `countersign token new`, which prints the whole block"),
                Some(hash) if hash == <[u8; 32]>::from(Sha256::digest(b"")) => {
                    problem("`sha256` is the hash of nothing", "hash the token itself, without a line end");
                }
                Some(hash) if !hashes.insert(hash) => {
                    problem(
                        "another token has the same `sha256`",
                        "make a token for each with `countersign token new`",
                    );
                }
                Some(_) => {}
            }
            if it.human && it.kind != ActorKind::User {
                problem(
                    "`human` is true, and its kind is not `user`",
                    "only people decide: drop `human`, or make it a user",
                );
            }
            let credential = credential(it);
            let identity = &credential.identity;
            if !identity.is_sound() || !identity.actor().is_some_and(Actor::is_well_formed) {
                problem(UNFIT, "write 1 to 512 bytes, without control characters");
            }
            if let Some(name) = dates(&it.attributes) {
                problem(&format!("the attribute `{name}` holds a date of TOML"), "write it as a text, in quotes");
            }
            tokens.extend(sha256.map(|sha256| Token { sha256, credential }));
        }
        (Self(tokens), problems)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What all of them stand for.
    #[cfg(feature = "cli")]
    pub(super) fn credentials(&self) -> impl Iterator<Item = &Credential> {
        self.0.iter().map(|it| &it.credential)
    }

    /// What this token stands for. Takes the same time whichever it is: all are compared, by their hashes.
    pub(super) fn find(&self, token: &str) -> Option<&Credential> {
        let given: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let matches = |it: &Token| bool::from(given.ct_eq(&it.sha256));
        self.0.iter().fold(None, |found, it| if matches(it) { Some(&it.credential) } else { found })
    }
}

const NO_HASH: &str = "`sha256` is not a SHA-256: 64 hexadecimal digits";
const UNFIT: &str = "`id`, `tenant` or `client` is blank, longer than 512 bytes, or has control characters";

fn place(index: usize, name: &str) -> String {
    if name.trim().is_empty() { format!("auth.tokens[{index}]") } else { format!("auth.tokens `{name}`") }
}

fn credential(it: &TokenSettings) -> Credential {
    let actor = Actor {
        name: it.display_name.clone(),
        roles: it.roles.clone(),
        scopes: it.scopes.clone(),
        attributes: it.attributes.clone(),
        ..Actor::new(it.kind, it.id.clone())
    };
    let identity = Identity::new(actor).tenant(it.tenant.as_str());
    let identity = match &it.client {
        Some(client) => identity.client(client.clone()),
        None => identity,
    };
    Credential { identity, person: it.human, expires: it.expires }
}

/// 64 hexadecimal digits of either case.
fn digest(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// The attribute in which TOML's own date is, at any depth: policies would see the parser's private form of it.
fn dates(attributes: &serde_json::Map<String, serde_json::Value>) -> Option<&str> {
    fn has(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Object(it) => {
                it.keys().any(|it| it.starts_with("$__toml_private")) || it.values().any(has)
            }
            serde_json::Value::Array(it) => it.iter().any(has),
            _ => false,
        }
    }
    attributes.iter().find(|(_, it)| has(it)).map(|(name, _)| name.as_str())
}
