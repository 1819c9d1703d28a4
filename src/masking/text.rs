//! Secrets within texts: in URLs, in what looks like a header or an assignment, and those that one knows by their looks.
//! One pass from left to right; what has been looked at is not looked at again.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{MASK, is_secret};

/// How well-known secrets begin, with the least length that is one.
const BEGINNINGS: [(&str, usize); 12] = [
    ("AKIA", 20),
    ("csgn_", 12),
    ("ghp_", 12),
    ("gho_", 12),
    ("ghs_", 12),
    ("github_pat_", 20),
    ("glpat-", 12),
    ("sk-", 20),
    ("sk_live_", 12),
    ("whsec_", 12),
    ("xoxb-", 12),
    ("xoxp-", 12),
];

/// The text with its secrets masked; borrowed if there are none.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    let mut scan = Scan { text, at: 0, kept: 0, masked: String::new() };
    while scan.at < text.len() {
        scan.step();
    }
    if scan.kept == 0 {
        return Cow::Borrowed(text);
    }
    scan.masked.push_str(&text[scan.kept..]);
    Cow::Owned(scan.masked)
}

struct Scan<'a> {
    text: &'a str,
    /// Everything before it has been looked at. Always between two characters.
    at: usize,
    /// Everything before it is in `masked`.
    kept: usize,
    masked: String,
}

impl Scan<'_> {
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        if rest.starts_with("://") {
            return self.authority();
        }
        if rest.starts_with("-----BEGIN ") && head(rest).contains("PRIVATE KEY") {
            let end = pem(rest);
            return self.mask(self.at, self.at + end);
        }
        let word = run(rest, is_of_name);
        if word == 0 {
            self.at += rest.chars().next().map_or(1, char::len_utf8);
        } else {
            self.word(word);
        }
    }

    /// What stands before the host of a URL.
    fn authority(&mut self) {
        let from = self.at + "://".len();
        let end = from
            + run(&self.text[from..], |it| {
                !matches!(it, '/' | '?' | '#' | '"' | '\'' | '<' | '>' | '\\') && !it.is_whitespace()
            });
        match self.text[from..end].rfind('@') {
            Some(length) if length > 0 => self.mask(from, from + length),
            Some(_) | None => self.at = from,
        }
    }

    fn word(&mut self, length: usize) {
        let (from, end) = (self.at, self.at + length);
        let (word, after) = (&self.text[from..end], &self.text[end..]);
        self.at = end;
        if is_known(word) {
            return self.mask(from, end);
        }
        if let Some(length) = credentials(word, after) {
            return self.mask(end + length.0, end + length.1);
        }
        if is_secret(&decoded(word))
            && let Some((value, length)) = value(word, after)
        {
            self.mask(end + value, end + value + length);
        }
    }

    fn mask(&mut self, from: usize, to: usize) {
        self.masked.push_str(&self.text[self.kept..from]);
        self.masked.push_str(MASK);
        (self.at, self.kept) = (to, to);
    }
}

/// Where the value of a name that is a secret's begins and how long it is, in the text after the name.
fn value(name: &str, after: &str) -> Option<(usize, usize)> {
    let mut at = quote(after).len();
    at += blank(&after[at..]);
    if let Some(sign) = after[at..].chars().next().filter(|it| matches!(it, '=' | ':')) {
        at += sign.len_utf8();
        at += run(&after[at..], |it| matches!(it, '>' | '='));
        at += blank(&after[at..]);
    } else if !(name.starts_with("--") && at > 0 && !after[at..].starts_with('-')) {
        return None; // only flags have their values behind a blank
    }
    let mark = quote(&after[at..]);
    let rest = &after[at + mark.len()..];
    let length = if mark.is_empty() { unquoted(name, rest) } else { quoted(mark, rest) };
    (length > 0).then_some((at + mark.len(), length))
}

/// Up to the quotation mark that ends it, or to the end of the text or of what that is quoted in.
fn quoted(mark: &str, rest: &str) -> usize {
    let mut escaped = false;
    for (at, it) in rest.char_indices() {
        if !escaped && (rest[at..].starts_with(mark) || it == '"') {
            return at;
        }
        escaped = it == '\\' && !escaped;
    }
    rest.len()
}

/// Up to a blank or what divides; of headers that hold several things the whole line.
fn unquoted(name: &str, rest: &str) -> usize {
    if rest.starts_with(['{', '[', '(', '`']) {
        return 0; // it has members of its own, is masked already, or is a command that is quoted in prose
    }
    let name = name.to_lowercase();
    if name.contains("authorization") || name.contains("cookie") {
        return header(rest);
    }
    let is_value = |it: char| !it.is_whitespace() && !"&#;,\"'<>)]}|\\".contains(it);
    let first = run(rest, is_value);
    let is_scheme = ["bearer", "basic", "digest", "token"].iter().any(|it| rest[..first].eq_ignore_ascii_case(it));
    let gap = first + blank(&rest[first..]);
    if is_scheme { gap + run(&rest[gap..], is_value) } else { first }
}

/// Up to the end of a header's line, or of the text that it is quoted in. Quoted parts of its own belong to it.
fn header(rest: &str) -> usize {
    let mut at = 0;
    while let Some(next) = rest[at..].chars().next() {
        let here = &rest[at..];
        let mark = quote(here);
        if matches!(next, '\n' | '\r') || here.starts_with("\\n") || here.starts_with("\\r") {
            break;
        } else if mark.is_empty() {
            at += next.len_utf8();
        } else if rest[..at].ends_with('=') {
            at += mark.len();
            at += quoted(mark, &rest[at..]);
            at += if rest[at..].starts_with(mark) { mark.len() } else { 0 };
        } else {
            break;
        }
    }
    at
}

/// Up to the end of a key in the textual encoding of RFC 7468; of one that is cut off, to the end of what it is quoted in.
fn pem(rest: &str) -> usize {
    let label = "-----END ";
    let end = rest.find(label).map(|it| it + label.len());
    let end = end.and_then(|it| Some(it + rest[it..].find("-----")? + "-----".len()));
    end.unwrap_or_else(|| run(rest, |it| !matches!(it, '"' | '\'')))
}

/// Where the credentials behind `Bearer` or `Basic` are, in the text after that word.
fn credentials(scheme: &str, after: &str) -> Option<(usize, usize)> {
    let from = blank(after);
    let length =
        run(&after[from..], |it| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_' | '~' | '+' | '/' | '='));
    if from == 0 || length == 0 {
        return None;
    }
    let text = &after[from..from + length];
    let is_it = if scheme.eq_ignore_ascii_case("bearer") {
        true
    } else {
        // `basic knowledge` is none: there is a name and a password, with a colon between them (RFC 7617).
        let decoded = || BASE64_STANDARD.decode(text).is_ok_and(|it| it.contains(&b':'));
        scheme.eq_ignore_ascii_case("basic") && decoded()
    };
    is_it.then_some((from, from + length))
}

/// A secret by its looks: a token in JWS compact form, or of a well-known issuer.
fn is_known(word: &str) -> bool {
    (word.starts_with("eyJ") && word.len() >= 20 && word.bytes().filter(|it| *it == b'.').count() == 2)
        || BEGINNINGS.iter().any(|(begins, least)| word.len() >= *least && word.starts_with(begins))
}

/// What names are written with, in URLs too.
fn is_of_name(it: char) -> bool {
    it.is_alphanumeric() || matches!(it, '_' | '-' | '.' | '%')
}

/// A name out of a URL: `%5F` and the like as what they mean, if that is ASCII.
fn decoded(name: &str) -> Cow<'_, str> {
    if !name.contains('%') {
        return Cow::Borrowed(name);
    }
    let mut parts = name.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|it| u8::from_str_radix(it, 16).ok()).filter(u8::is_ascii);
        decoded.push(code.map_or(' ', char::from));
        decoded.push_str(code.and_then(|_| part.get(2..)).unwrap_or(part));
    }
    Cow::Owned(decoded)
}

/// How much of the beginning is of this kind.
fn run(text: &str, is_of_it: impl Fn(char) -> bool) -> usize {
    text.find(|it| !is_of_it(it)).unwrap_or(text.len())
}

fn blank(text: &str) -> usize {
    run(text, |it| it == ' ' || it == '\t')
}

/// As much of the first line as a label of RFC 7468 takes.
fn head(text: &str) -> &str {
    let end = text.char_indices().nth(64).map_or(text.len(), |it| it.0);
    line(&text[..end])
}

fn line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// A quotation mark, which may be escaped: JSON within a text.
fn quote(text: &str) -> &str {
    ["\\\"", "\"", "'"].into_iter().find(|it| text.starts_with(it)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn secrets_are_masked_in_urls_headers_assignments_and_by_their_looks() {
        for (given, shown) in [
            ("postgres://app:hunter2@db.test:5432/shop", "postgres://[masked]@db.test:5432/shop"),
            ("see https://token@host.test, please", "see https://[masked]@host.test, please"),
            ("https://h.test/a?page=2&api_key=abc&n=1", "https://h.test/a?page=2&api_key=[masked]&n=1"),
            ("https://h.test/?api%5Fkey=abc", "https://h.test/?api%5Fkey=[masked]"),
            ("https://h.test/cb#access_token=abc&state=1", "https://h.test/cb#access_token=[masked]&state=1"),
            ("sent Bearer abc.def-1 to it", "sent Bearer [masked] to it"),
            ("Authorization: Bearer abc", "Authorization: [masked]"),
            ("Authorization: Custom a=1, b=2\nAccept: x", "Authorization: [masked]\nAccept: x"),
            (
                "Authorization: Digest username=\"dana\", response=\"abc\"\nAccept: x",
                "Authorization: [masked]\nAccept: x",
            ),
            ("cause=\"Cookie: a=b; c=d\" n=1", "cause=\"Cookie: [masked]\" n=1"),
            ("Basic ZGFuYTpodW50ZXIy", "Basic [masked]"),
            ("Cookie: a=b; sid=c\r\nHost: h", "Cookie: [masked]\r\nHost: h"),
            ("X-Api-Key: abc", "X-Api-Key: [masked]"),
            ("token: Bearer abc def", "token: [masked] def"),
            ("password=hunter2, user=dana", "password=[masked], user=dana"),
            ("PASSWORD = 'hunter 2' set", "PASSWORD = '[masked]' set"),
            (r#"{"apiKey": "a\"b", "n": 1}"#, r#"{"apiKey": "[masked]", "n": 1}"#),
            (r#"cause="{\"password\":\"x\",\"n\":1}""#, r#"cause="{\"password\":\"[masked]\",\"n\":1}""#),
            ("password: \"never closed", "password: \"[masked]"),
            ("tool --password hunter2 --verbose", "tool --password [masked] --verbose"),
            ("a eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl b", "a [masked] b"),
            ("ghp_abcdefghijklmnop csgn_abcdefghijklmnop", "[masked] [masked]"),
            ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nx", "[masked]\nx"),
            ("пароль über password=ключ end", "пароль über password=[masked] end"),
        ] {
            assert_eq!(text(given), shown);
            assert_eq!(text(shown), shown, "masking twice is masking once");
        }
    }

    #[test]
    fn a_line_of_json_is_one_afterwards() {
        for said in [
            "password=abc\"",
            "Authorization: Digest username=\"dana\", response=\"abc\"\nAccept: x",
            "\"Cookie: a=abc\" was sent",
            "https://h.test/?token=abc\"",
            "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n",
            "-----BEGIN PRIVATE KEY-----\nabc\n",
            "token 'abc', secret='abc\\",
            "--password abc\\",
            "password: {\"token\": \"abc\"}",
        ] {
            let line = serde_json::json!({"cause": said, "n": 1}).to_string();
            let shown: serde_json::Value =
                serde_json::from_str(&text(&line)).unwrap_or_else(|it| panic!("{line}: {it}"));
            assert_eq!(shown["n"], 1);
            let cause = shown["cause"].as_str().unwrap().replace("token 'abc'", "");
            assert!(!cause.contains("abc"), "{cause}");
        }
    }

    #[test]
    fn what_is_no_secret_stays_as_it_is() {
        for given in [
            "",
            "https://host.test/a?page=2#top",
            "mailto:dana@example.test",
            "maxTokens=512, issue_key=ABC-1, monkey: yes",
            "the tokenizer: fast; keyboard=us; secretary: Kim; passwordless=yes",
            "basic knowledge of Basic",
            "a password is needed",
            "make a token: `countersign token new`",
            "password:",
            r#"{"password": {"type": "string"}}"#,
            "sk-1",
            "10:30 = half past ten",
            "日本語: テキスト",
        ] {
            assert_eq!(text(given), given);
            assert!(matches!(text(given), std::borrow::Cow::Borrowed(_)), "{given}");
        }
    }

    #[test]
    fn a_long_text_made_to_be_slow_is_read_once() {
        for piece in [
            "://",
            "a:",
            "password",
            "password=\"",
            "Bearer ",
            "%",
            "-----BEGIN PRIVATE KEY",
            "-----BEGIN x",
            "\\\"",
            "eyJ.",
            "--",
        ] {
            let long = piece.repeat(400_000 / piece.len());
            assert!(text(&long).len() <= long.len() * 4, "{piece}");
        }
    }
}
