//! Secrets of manifests: fetched from where they are said to be, and refused where they are written down.

use std::path::Path;

use toml::de::DeValue;

use super::fields::{Fields, Found, Placed};
use crate::secret::{Secret, SecretRef};

/// Where secrets are looked for.
pub(super) struct Vault<'a> {
    /// What relative paths count from.
    pub(super) base: &'a Path,
    /// Reads the environment, which only the command line and the application may.
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
}

const FIX: &str = "say where the secret is: `{ env = \"NAME\" }` or `{ file = \"PATH\" }`";

impl Vault<'_> {
    /// The secret that a field refers to.
    pub(super) fn fetch(&self, given: Placed<DeValue<'_>>, found: &mut Found<'_>) -> Option<Secret> {
        if !given.value.is_table() {
            given.problem(found, "a secret is never written into a manifest", FIX);
            return None;
        }
        let (at, field) = (given.at, given.field.clone());
        let mut fields = Fields::of(given, found)?;
        let known = found.count();
        let reference = match (fields.optional::<String>("env", found), fields.optional::<String>("file", found)) {
            (Some(name), None) => Some(SecretRef::Env(name.value)),
            (None, Some(path)) => Some(SecretRef::File(path.value.into())),
            (Some(_), Some(second)) => {
                second.problem(found, "`env` says it too", "keep one of the two");
                None
            }
            (None, None) => None,
        };
        fields.end(found);
        if reference.is_none() && found.count() == known {
            found.problem(at, &field, "it says nowhere where the secret is", FIX);
        }
        let secret = reference.filter(|_| found.count() == known)?.resolve(self.base, self.env);
        secret.map_err(|error| found.problem(at, &field, error.to_string(), "put the secret there")).ok()
    }
}

/// Words of names whose values are secrets.
const NAMES: [&str; 12] = [
    "auth",
    "token",
    "secret",
    "passw",
    "credential",
    "cookie",
    "session",
    "signature",
    "apikey",
    "api-key",
    "api_key",
    "private",
];
/// How values begin that are secrets, in small letters.
const BEGINNINGS: [&str; 14] = [
    "bearer ",
    "basic ",
    "token ",
    "digest ",
    "sk-",
    "sk_",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xox",
    "eyj",
    "akia",
    "whsec_",
];

/// Whether a name or a value looks like a secret's. Rather too often than too seldom: a reference serves for anything.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_key = name == "key" || name.ends_with("-key") || name.ends_with("_key");
    let value = value.trim_start().to_ascii_lowercase();
    is_key
        || NAMES.iter().any(|it| name.contains(it))
        || BEGINNINGS.iter().any(|it| value.starts_with(it))
        || has_random_run(&value)
}

/// Whether letters and digits alternate as nobody writes them: 24 of them in a row, with at least four digits.
fn has_random_run(value: &str) -> bool {
    value.split(|it: char| !it.is_ascii_alphanumeric()).any(|run| {
        let digits = run.bytes().filter(u8::is_ascii_digit).count();
        run.len() >= 24 && digits >= 4 && digits < run.len()
    })
}

#[cfg(test)]
mod tests {
    use super::is_secret;

    #[test]
    fn what_looks_like_a_secret_is_told_from_what_does_not() {
        for (name, value) in [
            ("Authorization", "x"),
            ("X-Api-Key", "x"),
            ("key", "x"),
            ("Cookie", "a=b"),
            ("X-Custom", "Bearer abc"),
            ("X-Custom", "sk-live-1"),
            ("X-Custom", "eyJhbGciOiJIUzI1NiJ9"),
            ("X-Custom", "3f786850e387550fdab836ed7e6dc881de23001b"),
        ] {
            assert!(is_secret(name, value), "{name}: {value}");
        }
        for (name, value) in
            [("X-Region", "eu-west-1"), ("X-Tenant", "acme"), ("Accept-Language", "de"), ("X-Keyboard", "us")]
        {
            assert!(!is_secret(name, value), "{name}: {value}");
        }
    }
}
