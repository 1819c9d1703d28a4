//! Pages that people type along with: files are written, commands run, and what they print is compared.
//!
//! A block of code whose fence names a file, `cedar policies/a.cedar`, is that file. A `console` block has commands,
//! `$ countersign ..`, each with the exit code that it ends with, `# exit code 2`, unless that is 0, and what it prints,
//! unless the page shows nothing of that. On a page, `..` stands for anything within a line, and on a line of its own for
//! any lines; blanks count as one. `ID` is the approval that was last printed, `HASH` the set that was last offered.

use std::fmt::Write as _;

use super::{Ran, Shell};

/// What a page has people do.
enum Step<'a> {
    Write { name: &'a str, text: String },
    Run(Command<'a>),
}

/// A command, and what comes of it.
struct Command<'a> {
    line: &'a str,
    code: i32,
    printed: Vec<&'a str>,
}

/// What a page has people do, in its order.
fn steps(page: &str) -> Vec<Step<'_>> {
    let (mut steps, mut lines, mut above) = (Vec::new(), page.lines(), "");
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```").filter(|it| !it.is_empty()) else {
            above = if line.is_empty() { above } else { line };
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|it| *it != "```").collect();
        match info.split_once(' ') {
            Some((_, name)) => {
                assert!(above.contains(&format!("`{name}`")), "nobody is told that this is {name}: {above}");
                steps.push(Step::Write { name, text: block.join("\n") + "\n" });
            }
            None if info == "console" => steps.extend(commands(&block).into_iter().map(Step::Run)),
            None => {}
        }
    }
    steps
}

fn commands<'a>(block: &[&'a str]) -> Vec<Command<'a>> {
    let mut commands: Vec<Command<'a>> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(typed), _) => {
                let (line, code) = match typed.split_once("# exit code ") {
                    Some((line, code)) => (line.trim(), code.parse().unwrap()),
                    None => (typed.trim(), 0),
                };
                commands.push(Command { line, code, printed: Vec::new() });
            }
            (None, Some(command)) => command.printed.push(line),
            (None, None) => panic!("printed by no command: {line}"),
        }
    }
    commands
}

/// Saves a page's files, and types nothing.
pub(super) fn save(shell: &Shell, page: &str) {
    for step in steps(page) {
        if let Step::Write { name, text } = step {
            shell.write(name, &text);
        }
    }
}

/// Does what a page says, and returns how many commands that were. Everything that comes out otherwise is told at once.
pub(super) fn follow(shell: &Shell, page: &str) -> usize {
    let (mut named, mut count, mut wrong) = (Named::default(), 0, String::new());
    for step in steps(page) {
        match step {
            Step::Write { name, text } => shell.write(name, &text),
            Step::Run(command) => {
                count += 1;
                if let Err(why) = command.run(shell, &mut named) {
                    writeln!(wrong, "{why}\n").unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    count
}

/// What the words `ID` and `HASH` stand for.
#[derive(Default)]
struct Named {
    id: String,
    hash: String,
}

impl Named {
    fn read(&mut self, printed: &str) {
        let word = |after: &str| printed.split_once(after)?.1.split_whitespace().next();
        if let Some(rest) = word("apr_") {
            self.id = format!("apr_{rest}");
        }
        if let Some(hash) = word("policy rollback ") {
            hash.clone_into(&mut self.hash);
        }
    }
}

impl Command<'_> {
    fn run(&self, shell: &Shell, named: &mut Named) -> Result<(), String> {
        let words: Vec<String> = words(self.line)
            .into_iter()
            .map(|it| match it.as_str() {
                "ID" => named.id.clone(),
                "HASH" => named.hash.clone(),
                _ => it,
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let arguments = match words[..] {
            ["mkdir", name] => return std::fs::create_dir(shell.path().join(name)).map_err(|it| it.to_string()),
            ["countersign", ref arguments @ ..] => arguments,
            ["sh", script] => return self.judge(shell.script(script), named),
            _ => return Err(format!("what is `{}`?", self.line)),
        };
        self.judge(shell.run(arguments), named)
    }

    fn judge(&self, ran: Ran, named: &mut Named) -> Result<(), String> {
        let printed = ran.out + &ran.err;
        named.read(&printed);
        let lines: Vec<&str> = printed.lines().collect();
        if ran.code == self.code && (self.printed.is_empty() || fits(&self.printed, &lines)) {
            return Ok(());
        }
        Err(format!("$ {}    # exit code {}\n{printed}", self.line, ran.code))
    }
}

/// Whether these lines are what a page shows of them.
fn fits(shown: &[&str], printed: &[&str]) -> bool {
    match (shown, printed) {
        ([], []) => true,
        ([shown, more @ ..], _) if shown.trim() == ".." => (0..=printed.len()).any(|at| fits(more, &printed[at..])),
        ([shown, more @ ..], [printed, rest @ ..]) => line_fits(shown, printed) && fits(more, rest),
        ([_, ..], []) | ([], [_, ..]) => false,
    }
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (blank_once(shown), blank_once(printed));
    let mut parts: Vec<&str> = shown.split("..").collect();
    let last = parts.pop().unwrap_or_default();
    let Some((first, between)) = parts.split_first() else { return shown == printed };
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

fn blank_once(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A shell's words: blanks separate, single quotes hold together.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in command.trim().chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    words.retain(|it| !it.is_empty());
    words
}

#[test]
fn a_page_may_leave_out_what_it_says_it_leaves_out_and_nothing_else() {
    let printed = ["active sha256:12ab", "one", "two", "end"];
    assert!(fits(&printed, &printed));
    assert!(fits(&["active  sha256:..", "..", "end"], &printed));
    assert!(fits(&[".. sha..ab", "one", "..", "two", "end", ".."], &printed));
    for other in [&["active sha256:..", "end"][..], &["active sha256:..b3", ".."], &["..", "two"], &["active", ".."]] {
        assert!(!fits(other, &printed), "{other:?}");
    }
}
