//! Secrets within texts: in URLs, in what looks like a header or an assignment, and those that one knows by their looks.
//! One pass from left to right, in time that is linear in the text however it is made: whatever looks ahead either takes
//! what it looked at, or looks no further than where another look ahead can begin.

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
    let mut scan = Scan { text, at: 0, kept: 0, masked: String::new(), is_endless: false };
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
    /// No key that begins from here on ends.
    is_endless: bool,
}

impl Scan<'_> {
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        looked_at(1);
        if rest.starts_with("://") {
            return self.authority();
        }
        if rest.starts_with("-----BEGIN ") && head(rest).contains("PRIVATE KEY") {
            let end = self.at + self.key();
            return self.mask(self.at, end);
        }
        let word = run(rest, is_of_name);
        if word == 0 {
            self.at += rest.chars().next().map_or(1, char::len_utf8);
        } else {
            self.word(word);
        }
    }

    /// Up to the end of a key in the textual encoding of RFC 7468; of one that is cut off, to the end of what it is quoted in.
    fn key(&mut self) -> usize {
        let rest = &self.text[self.at..];
        let end = if self.is_endless { None } else { end_of_key(rest) };
        // Where one does not end, none behind it does.
        self.is_endless = end.is_none();
        end.unwrap_or_else(|| run(rest, |it| !matches!(it, '"' | '\'')))
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
        looked_at(1);
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
        looked_at(1);
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

/// Where the key that begins a text ends, if it does.
fn end_of_key(rest: &str) -> Option<usize> {
    let label = "-----END ";
    let end = rest.find(label).map(|it| it + label.len());
    let end = end.and_then(|it| Some(it + rest[it..].find("-----")? + "-----".len()));
    looked_at(end.unwrap_or(rest.len()));
    end
}

/// Where the credentials behind `Bearer` or `Basic` are, in the text after that word.
fn credentials(scheme: &str, after: &str) -> Option<(usize, usize)> {
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    if !is_bearer && !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let from = blank(after);
    if from == 0 {
        return None;
    }
    let length =
        run(&after[from..], |it| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_' | '~' | '+' | '/' | '='));
    // `basic knowledge` is none: there is a name and a password, with a colon between them (RFC 7617).
    let decoded = || BASE64_STANDARD.decode(&after[from..from + length]).is_ok_and(|it| it.contains(&b':'));
    (length > 0 && (is_bearer || decoded())).then_some((from, from + length))
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
    let length = text.find(|it| !is_of_it(it)).unwrap_or(text.len());
    looked_at(length);
    length
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

/// What tests count: of how many characters something was found out.
#[cfg(test)]
fn looked_at(count: usize) {
    LOOKED_AT.set(LOOKED_AT.get() + count);
}

#[cfg(not(test))]
const fn looked_at(_: usize) {}

#[cfg(test)]
thread_local! {
    static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests;
