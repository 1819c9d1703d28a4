//! Where each policy of a file begins and ends, and the caps on size and nesting.
//!
//! The caps are a matter of soundness, not only of memory: at its recursion limit the validator reports *passed*, and a
//! parser that runs out of stack ends the process.

/// The most bytes of a file.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// The most brackets and `if`s that are open at one place.
const MAX_NESTING: usize = 64;
/// The most operators, calls, indices and keywords in all open brackets together.
const MAX_OPERATORS: usize = 1_024;

/// The bytes of one policy, with its `;`.
pub(super) type Span = std::ops::Range<usize>;

/// What a file breaks, and at which byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excess {
    pub(super) at: usize,
    pub(super) what: String,
    pub(super) help: &'static str,
}

/// One pass over the bytes. `;` ends a policy wherever it is outside strings and comments: the grammar has no other use
/// for it.
pub(super) fn scan(text: &str) -> Result<Vec<Span>, Excess> {
    let mut scanner = Scanner::new(text)?;
    if text.starts_with('\u{feff}') {
        scanner.at = '\u{feff}'.len_utf8(); // a byte-order mark is no token to Cedar
    }
    while scanner.at < text.len() {
        scanner.step()?;
    }
    if let Some(start) = scanner.start {
        scanner.spans.push(start..text.len()); // the `;` is missing, and Cedar will say so
    }
    Ok(scanner.spans)
}

/// The same caps for the text of a schema, whose parser recurses too. It knows one bracket more.
pub(super) fn scan_schema(text: &str) -> Result<(), Excess> {
    let mut scanner = Scanner::new(text)?;
    while let Some(byte) = scanner.bytes.get(scanner.at).copied() {
        match byte {
            b'/' if scanner.bytes.get(scanner.at + 1) == Some(&b'/') => scanner.skip(|it| it != b'\n' && it != b'\r'),
            b'"' => scanner.string(),
            b'(' | b'[' | b'{' | b'<' => scanner.open.push(Level::default()),
            b')' | b']' | b'}' | b'>' if scanner.open.len() > 1 => drop(scanner.open.pop()),
            _ => {}
        }
        scanner.check(scanner.at)?;
        scanner.at += 1;
    }
    Ok(())
}

/// What is in one open bracket.
#[derive(Default)]
struct Level {
    operators: usize,
    ifs: usize,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    start: Option<usize>,
    spans: Vec<Span>,
    /// The first is the policy itself.
    open: Vec<Level>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Result<Self, Excess> {
        if text.len() > MAX_BYTES {
            let what = format!("the file has {} bytes, and at most {MAX_BYTES} are read", text.len());
            return Err(Excess { at: 0, what, help: "split the file" });
        }
        Ok(Self { bytes: text.as_bytes(), at: 0, start: None, spans: Vec::new(), open: vec![Level::default()] })
    }

    fn step(&mut self) -> Result<(), Excess> {
        let (at, byte, next) = (self.at, self.bytes[self.at], self.bytes.get(self.at + 1).copied());
        if byte.is_ascii_whitespace() {
            self.at += 1;
            return Ok(());
        }
        if byte == b'/' && next == Some(b'/') {
            self.skip(|it| it != b'\n' && it != b'\r');
            return Ok(());
        }
        let start = *self.start.get_or_insert(at);
        match byte {
            b'"' => self.string(),
            b'(' | b'[' | b'{' => self.bracket(byte),
            b')' | b']' | b'}' if self.open.len() > 1 => drop(self.open.pop()),
            b';' => {
                self.spans.push(start..at + 1);
                self.start = None;
                self.open = vec![Level::default()];
            }
            b',' => self.level().operators = 0,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => return self.word(),
            b'.' | b'&' | b'|' | b'+' | b'-' | b'*' | b'!' | b'<' | b'>' | b'=' => self.operator(byte, next),
            _ => {}
        }
        self.at += 1;
        self.check(at)
    }

    fn skip(&mut self, more: impl Fn(u8) -> bool) {
        while self.bytes.get(self.at).is_some_and(|it| more(*it)) {
            self.at += 1;
        }
    }

    /// To the closing quote.
    fn string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.bytes.get(self.at).filter(|it| **it != b'"') {
            self.at += if *byte == b'\\' { 2 } else { 1 };
        }
    }

    fn word(&mut self) -> Result<(), Excess> {
        let start = self.at;
        self.skip(|it| it.is_ascii_alphanumeric() || it == b'_');
        match &self.bytes[start..self.at] {
            b"if" => self.level().ifs += 1,
            b"has" | b"like" | b"is" | b"in" | b"when" | b"unless" => self.level().operators += 1,
            _ => {}
        }
        self.check(start)
    }

    /// `&&`, `==` and the like are one.
    fn operator(&mut self, byte: u8, next: Option<u8>) {
        self.level().operators += 1;
        let pair = matches!((byte, next), (b'&', Some(b'&')) | (b'|', Some(b'|')))
            || matches!((byte, next), (b'=' | b'!' | b'<' | b'>', Some(b'=')));
        if pair {
            self.at += 1;
        }
    }

    /// A call and an index are operators too, and `a["b"]["c"]..` goes down as far as `a.b.c..`.
    fn bracket(&mut self, byte: u8) {
        if byte != b'{' {
            self.level().operators += 1;
        }
        self.open.push(Level::default());
    }

    fn level(&mut self) -> &mut Level {
        if self.open.is_empty() {
            self.open.push(Level::default());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn check(&self, at: usize) -> Result<(), Excess> {
        let sum = |of: fn(&Level) -> usize| self.open.iter().map(of).sum::<usize>();
        if self.open.len() - 1 + sum(|it| it.ifs) > MAX_NESTING {
            let what = format!("more than {MAX_NESTING} brackets and `if`s are open");
            return Err(Excess { at, what, help: "split the policy" });
        }
        if sum(|it| it.operators) > MAX_OPERATORS {
            let what = format!("more than {MAX_OPERATORS} operators in one expression");
            return Err(Excess { at, what, help: "use a set and `contains`, or split the policy" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies(text: &str) -> Vec<&str> {
        scan(text).unwrap().into_iter().map(|it| &text[it]).collect()
    }

    fn condition(body: &str) -> String {
        format!("permit (principal, action, resource) when {{ {body} }};")
    }

    #[test]
    fn a_policy_ends_at_a_semicolon_outside_strings_and_comments() {
        let text = "\u{feff}// a; b\n@id(\"x;\\\"y\") permit(p, a, r); // ;\n\n forbid(p, a, r) ; permit(";
        assert_eq!(policies(text), ["@id(\"x;\\\"y\") permit(p, a, r);", "forbid(p, a, r) ;", "permit("]);
        assert_eq!(policies(" // nothing"), Vec::<&str>::new());
        assert_eq!(policies("\"open"), ["\"open"]);
    }

    #[test]
    fn the_caps_are_exact() {
        let nested = |n: usize| condition(&format!("{}true{}", "(".repeat(n), ")".repeat(n)));
        assert!(scan(&nested(63)).is_ok()); // and one for `when {`
        assert_eq!(scan(&nested(64)).unwrap_err().what, "more than 64 brackets and `if`s are open");
        let ifs = |n: usize| condition(&format!("{}true", "if a then b else ".repeat(n)));
        assert!(scan(&ifs(63)).is_ok());
        assert!(scan(&ifs(64)).is_err());
        let chain = |n: usize| condition(&format!("true{}", " && true".repeat(n)));
        assert!(scan(&chain(1_022)).is_ok()); // and one for `when`, and one for the scope's bracket
        assert_eq!(scan(&chain(1_023)).unwrap_err().what, "more than 1024 operators in one expression");
        assert!(scan(&"!".repeat(1_025)).is_err());
        assert!(scan(&" ".repeat(MAX_BYTES)).is_ok());
        assert!(scan(&" ".repeat(MAX_BYTES + 1)).is_err());
    }

    #[test]
    fn what_stands_side_by_side_does_not_add_up() {
        let one = "(if a then b else c)";
        assert!(scan(&condition(&vec![one; 500].join(" && "))).is_ok());
        assert!(scan(&condition(&format!("[{}].contains(x)", vec!["a.b"; 5_000].join(",")))).is_ok());
        assert!(scan(&vec![condition("a && b"); 2_000].join("\n")).is_ok());
    }

    #[test]
    fn a_hundred_thousand_brackets_are_an_answer() {
        assert!(scan(&"(".repeat(100_000)).is_err());
        assert!(scan(&condition(&format!("{}true{}", "!(".repeat(100_000), ")".repeat(100_000)))).is_err());
    }
}
