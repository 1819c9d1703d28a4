//! What README.md and `docs/policies` tell people to type works, in the order of each page.

use serde_json::json;

use super::Shell;
use super::page::{Step, follow, steps};

const README: &str = include_str!("../../README.md");
const COOKBOOK: &str = include_str!("../../docs/policies/cookbook.md");
const TUTORIAL: &str = include_str!("../../docs/policies/tutorial.md");

#[test]
fn the_commands_of_the_readme_work() {
    let shell = Shell::new();
    for (name, text) in countersign::demo::POLICIES {
        shell.write(&format!("policies/{name}"), text);
    }
    assert!(follow(&shell, README) > 5, "the tour is gone");
}

#[test]
fn the_tutorial_works_from_an_empty_directory() {
    assert!(follow(&Shell::new(), TUTORIAL) > 25, "the tutorial is gone");
}

#[test]
fn every_pattern_of_the_cookbook_is_proved_by_its_cases() {
    let (common, patterns) = COOKBOOK.split_once("\n## ").unwrap();
    let patterns: Vec<&str> = patterns.split("\n## ").collect();
    assert_eq!(patterns.len(), 12);
    for pattern in patterns {
        let shell = Shell::new();
        for step in steps(common).into_iter().chain(steps(pattern)) {
            let Step::Write { name, text } = step else { continue };
            shell.write(name, &text);
        }
        let title = pattern.lines().next().unwrap();
        let checked = shell.run(&["policy", "check", "policies", "--json"]);
        // What is left of the desk has no permit here: only remarks about the pattern's own policies count.
        let problems = checked.json()["problems"].as_array().unwrap().clone();
        let about_it: Vec<_> = problems.iter().filter(|it| !it["policy"].is_null()).collect();
        assert_eq!((checked.code, about_it), (0, vec![]), "{title}");
        let tested = shell.run(&["policy", "test", "policies", "--json"]);
        let report = if tested.code == 3 { json!(tested.err) } else { tested.json() };
        let wrong: Vec<_> =
            report["cases"].as_array().into_iter().flatten().filter(|it| it["passed"] != true).collect();
        let told = (tested.code, wrong, &report["coverage"]["unexercised"]);
        assert_eq!(told, (0, vec![], &json!([])), "{title}: {report:#}");
    }
}

#[test]
fn the_policy_that_the_cookbook_quotes_is_the_examples() {
    let quoted = COOKBOOK.split("```cedar\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(include_str!("../../examples/tenants.rs").contains(quoted), "{quoted}");
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
