//! Whether a name says that what it names is a secret, in any case style.

/// Words that say so alone.
const WORDS: [&str; 12] = [
    "apikeys",
    "authorization",
    "bearer",
    "cookies",
    "credentials",
    "csrf",
    "jwt",
    "passwords",
    "pwd",
    "secrets",
    "tokens",
    "xsrf",
];

/// What words end with that say so: names are often written together, as `dbpassword`.
const ENDINGS: [&str; 12] = [
    "accesskey",
    "apikey",
    "cookie",
    "credential",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "sessionid",
    "token",
];

/// Neighbours that say so together.
const PAIRS: [(&str, &str); 16] = [
    ("access", "key"),
    ("api", "key"),
    ("api", "keys"),
    ("auth", "key"),
    ("connection", "string"),
    ("encryption", "key"),
    ("master", "key"),
    ("pass", "phrase"),
    ("pass", "word"),
    ("private", "key"),
    ("security", "code"),
    ("session", "id"),
    ("session", "key"),
    ("shared", "key"),
    ("signing", "key"),
    ("ssh", "key"),
];

/// What a name ends with that is about a secret, and none: `passwordLength`.
const ABOUT: [&str; 18] = [
    "budget", "count", "counts", "enabled", "endpoint", "file", "length", "limit", "limits", "path", "policy",
    "required", "size", "strength", "ttl", "type", "usage", "used",
];

/// Words beside `tokens` that make them something that is counted.
const COUNTED: [&str; 12] = [
    "cached",
    "completion",
    "input",
    "max",
    "maximum",
    "min",
    "num",
    "output",
    "prompt",
    "reasoning",
    "remaining",
    "total",
];

/// Whether a member, header or parameter of this name holds a secret. Rather too often than too seldom.
pub(crate) fn is_secret(name: &str) -> bool {
    let words = words(name);
    let has = |all: &[&str]| words.iter().any(|it| all.contains(&it.as_str()));
    if words.last().is_some_and(|it| ABOUT.contains(&it.as_str())) || has(&["expires", "expiry", "expiration"]) {
        return false;
    }
    let is_counted = has(&COUNTED);
    let alone = |it: &String| {
        let it = it.as_str();
        (WORDS.contains(&it) && !(it == "tokens" && is_counted)) || ENDINGS.iter().any(|ending| it.ends_with(ending))
    };
    words.iter().any(alone) || words.windows(2).any(|it| PAIRS.contains(&(it[0].as_str(), it[1].as_str())))
}

/// The words of `camelCase`, `SCREAMING_CASE`, `kebab-case` and `HTTPHeader`, in small letters. Digits only divide.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut chars = name.chars().peekable();
    let mut before = ' ';
    while let Some(it) = chars.next() {
        let begins_next = chars.peek().is_some_and(|it| it.is_lowercase());
        let is_boundary = it.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && begins_next));
        if !it.is_alphabetic() || is_boundary {
            words.push(String::new());
        }
        if it.is_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.extend(it.to_lowercase());
        }
        before = it;
    }
    words.retain(|it| !it.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::is_secret;

    /// Names of secrets.
    const SECRETS: &str = "
        authorization Authorization Proxy-Authorization password PASSWORD newPassword db_password dbpassword
        passwd pass_word passphrase secret clientSecret CLIENT_SECRET webhook-secrets token tokens accessToken
        refresh_token X-Auth-Token idtoken token2 OAuth2Token apiKey APIKey api_key API-KEY x-api-key APIKEY
        privateKey private_key PRIVATE_KEY aws_access_key signingKey credential credentials Cookie Set-Cookie
        sessionId session_id SESSION-ID sessionid jwt user.password
    ";

    /// Names that only look like them.
    const OTHERS: &str = "
        maxTokens max_tokens MAX-TOKENS inputTokens totalTokens tokenCount token_limit token_type tokenEndpoint
        password-file tokenExpiresAt monkey issue_key issueKey idempotencyKey primary_key publicKey key tokenizer
        tokenized passwordless passwordLength password_policy keyboard secretary secretariat session sessions
        compass passport author authorized cook apiVersion ключ
    ";

    #[test]
    fn secrets_are_told_from_what_only_looks_like_them() {
        let missed: Vec<_> = SECRETS.split_whitespace().filter(|it| !is_secret(it)).collect();
        let hit: Vec<_> = OTHERS.split_whitespace().chain([""]).filter(|it| is_secret(it)).collect();
        assert_eq!((missed, hit), (vec![], vec![]));
    }
}
