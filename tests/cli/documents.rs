//! What README.md tells people to type works, in the order of the page.

use super::Shell;

const README: &str = include_str!("../../README.md");

#[test]
fn the_commands_of_the_readme_work() {
    let shell = Shell::new();
    shell.write("policies/readme.cedar", include_str!("../../policies/support.cedar"));
    let mut approval = String::new();
    let commands: Vec<&str> = README.lines().filter_map(|it| it.strip_prefix("$ countersign ")).collect();
    assert!(commands.len() > 5, "the tour is gone");
    for command in commands {
        let (command, code) = match command.split_once("# exit code ") {
            Some((command, code)) => (command, code.parse().unwrap()),
            None => (command, 0),
        };
        let arguments: Vec<String> = words(command).into_iter().map(|it| it.replace("ID", &approval)).collect();
        let ran = shell.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ran.code, code, "countersign {command}\n{}{}", ran.out, ran.err);
        if let Some(at) = ran.out.find("apr_") {
            approval = ran.out[at..].split_whitespace().next().unwrap().to_owned();
        }
    }
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
fn the_readme_names_its_two_commands() {
    let commands: Vec<&str> = README.lines().filter(|it| it.starts_with("cargo ")).collect();
    assert_eq!(commands, ["cargo run -- demo", "cargo test"]);
}

#[test]
fn the_changelog_has_a_place_for_the_next_change() {
    assert!(include_str!("../../CHANGELOG.md").contains("## [Unreleased]"));
}
