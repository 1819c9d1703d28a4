use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{LOOKED_AT, text};

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
        ("Authorization: Digest username=\"dana\", response=\"abc\"\nAccept: x", "Authorization: [masked]\nAccept: x"),
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
        let shown: serde_json::Value = serde_json::from_str(&text(&line)).unwrap_or_else(|it| panic!("{line}: {it}"));
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

/// Everything that the scanner knows.
const PIECES: [&str; 34] = [
    "://",
    "@",
    "a",
    "a:",
    "a+",
    "a/",
    "a ",
    "=",
    ":",
    ">",
    " ",
    "\t",
    "\n",
    "\"",
    "\\\"",
    "\\",
    "\\n",
    "'",
    ",",
    "{",
    "%",
    "%5F",
    "--",
    "password",
    "password=",
    "password=\"",
    "password  ",
    "Cookie: ",
    "Bearer ",
    "Basic ",
    "eyJ.",
    "-----BEGIN x",
    "-----BEGIN PRIVATE KEY",
    "-----END ",
];

/// How many characters are looked at to mask it, one as often as it is looked at.
fn work(given: &str) -> usize {
    LOOKED_AT.set(0);
    text(given);
    LOOKED_AT.get()
}

/// Four times the text is four times the work.
fn assert_linear(made: impl Fn(usize) -> String) {
    let (few, many) = (work(&made(300)), work(&made(1_200)));
    assert!(few > 0 && many <= 5 * few + 500, "{few} and {many}: {:?}", made(60));
}

#[test]
fn however_a_text_is_made_it_is_read_a_fixed_number_of_times() {
    for one in PIECES {
        for two in PIECES {
            let pair = format!("{one}{two}");
            assert_linear(|size| pair.repeat(size / pair.len()));
            assert_linear(|size| format!("{one}{}", two.repeat(size / two.len())));
            assert_linear(|size| format!("{}{one}", two.repeat(size / two.len())));
            assert_linear(|size| format!("{}-----END ", pair.repeat(size / pair.len())));
        }
    }
}

#[test]
fn a_long_encoded_text_is_read_a_fixed_number_of_times() {
    let bytes: Vec<u8> = (0..100_u8)
        .flat_map(|it| sha2::Digest::finalize(sha2::Digest::chain_update(sha2::Sha256::default(), [it])).to_vec())
        .collect();
    let encoded = BASE64_STANDARD.encode(bytes);
    for before in ["", "Basic ", "Bearer ", "password: "] {
        assert_linear(|size| format!("{before}{}", encoded.get(..size).unwrap()));
    }
}
