//! What README.md and `docs/policies` tell people to type works, in the order of each page.

use serde_json::json;

use super::Shell;
use super::page::{follow, save};

const AUDIT: &str = include_str!("../../docs/audit/README.md");
const VERIFYING: &str = include_str!("../../docs/audit/verifying.md");
const README: &str = include_str!("../../README.md");
const DRIFT: &str = include_str!("../../docs/testing/drift.md");
const COOKBOOK: &str = include_str!("../../docs/policies/cookbook.md");
const NOTIFICATIONS: &str = include_str!("../../docs/notifications.md");
const REFERENCE: &str = include_str!("../../docs/policies/reference.md");
const TESTING: &str = include_str!("../../docs/policies/testing.md");
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
fn what_the_page_on_notifications_types_works() {
    assert!(follow(&Shell::new(), NOTIFICATIONS) > 3, "the page is gone");
}

#[test]
fn the_settings_that_the_page_on_notifications_shows_can_be_kept() {
    let shell = Shell::new();
    save(&shell, NOTIFICATIONS);
    let text = std::fs::read_to_string(shell.path().join("countersign.toml")).unwrap();
    let mut file: toml::Table = toml::from_str(&text).unwrap();
    let settings = file.remove("notifications").unwrap().try_into().unwrap();
    let secret = |_: &str| Some("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".to_owned());
    countersign::notifications::Notifications::open(&settings, shell.path(), &secret).unwrap();
    let missing: Vec<_> =
        countersign::Topic::ALL.into_iter().filter(|it| !NOTIFICATIONS.contains(&format!("`{it}`"))).collect();
    assert_eq!(missing, []);
}

#[test]
fn the_page_on_the_log_works_and_names_every_type_of_event() {
    assert!(follow(&Shell::new(), AUDIT) > 10, "the page is gone");
    let source = include_str!("../../src/audit.rs");
    let names = source.split_once("pub fn name").unwrap().1.split_once("\n    }\n").unwrap().0;
    let names: Vec<&str> = names.lines().filter_map(|it| it.split_once("=> \"")?.1.split('"').next()).collect();
    let missing: Vec<_> = names.iter().filter(|it| !AUDIT.contains(&format!("| `{it}` |"))).collect();
    assert_eq!((missing, names.len()), (vec![], 24));
}

#[test]
fn an_outsider_verifies_the_log_as_the_page_says() {
    assert!(follow(&Shell::new(), VERIFYING) > 12, "the page is gone");
}

#[test]
fn the_drift_gate_works_as_its_page_says() {
    assert!(follow(&Shell::new(), DRIFT) > 4, "the page is gone");
}

#[test]
fn every_pattern_of_the_cookbook_is_proved_by_its_cases() {
    let (common, patterns) = COOKBOOK.split_once("\n## ").unwrap();
    let patterns: Vec<&str> = patterns.split("\n## ").collect();
    assert_eq!(patterns.len(), 12);
    for pattern in patterns {
        let shell = Shell::new();
        save(&shell, common);
        save(&shell, pattern);
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
fn the_schema_that_the_reference_shows_loads() {
    let shell = Shell::new();
    save(&shell, COOKBOOK.split_once("\n## ").unwrap().0);
    save(&shell, REFERENCE);
    let checked = shell.run(&["policy", "check", "policies"]);
    assert_eq!(checked.code, 0, "{}", checked.out);
}

#[test]
fn the_reference_names_every_command_of_policy() {
    let help = Shell::new().run(&["policy", "--help"]).out;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|it| !it.is_empty()).filter(|it| !it.starts_with("   "));
    let names: Vec<&str> =
        commands.map(|it| it.split_whitespace().next().unwrap()).filter(|it| *it != "help").collect();
    assert!(names.contains(&"check") && names.len() > 8, "{names:?}");
    let missing: Vec<_> = names.iter().filter(|it| !REFERENCE.contains(&format!("`policy {it}`"))).collect();
    assert_eq!(missing, [&""; 0]);
}

#[test]
fn the_reference_and_the_format_of_cases_name_every_outcome() {
    let shell = Shell::new();
    for (name, text) in countersign::demo::POLICIES {
        shell.write(&format!("p/{name}"), text);
    }
    shell.write("p/tests/a.yaml", "cases: [{name: one, expect: no_such_outcome}]");
    let told = shell.run(&["policy", "test", "p"]).err;
    let words: Vec<&str> = told.split_once("there are ").unwrap().1.lines().next().unwrap().split(", ").collect();
    assert!(words.contains(&"unexposed") && words.len() > 6, "{words:?}");
    for page in [REFERENCE, TESTING] {
        let missing: Vec<_> = words
            .iter()
            .filter(|it| !page.contains(&format!("`{it}`")) && !page.contains(&format!("`{it}:")))
            .collect();
        assert_eq!(missing, [&""; 0]);
    }
}

/// A link leads to a file that is there, and to a heading of it.
#[test]
fn the_links_between_the_pages_lead_somewhere() {
    let directory = |name| std::fs::read_dir(format!("{}/docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let pages = ["policies", "deploy", "testing", "."].into_iter().flat_map(directory).map(|it| it.unwrap().path());
    for path in pages.filter(|it| it.extension().is_some_and(|it| it == "md")) {
        let page = std::fs::read_to_string(&path).unwrap();
        let links = page.split("](").skip(1).filter_map(|it| it.split(')').next());
        for link in links.filter(|it| !it.starts_with("https://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let text = std::fs::read_to_string(&target);
            let text = text.unwrap_or_else(|error| panic!("{}: {link}: {error}", path.display()));
            let found = heading.is_empty() || text.lines().any(|it| it.starts_with("## ") && anchor(it) == heading);
            assert!(found, "{}: {link}", path.display());
        }
    }
}

fn anchor(heading: &str) -> String {
    let kept = |it: &char| it.is_alphanumeric() || matches!(it, ' ' | '-');
    heading.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

#[test]
fn the_readme_names_its_commands() {
    let commands: Vec<&str> = README.lines().filter(|it| it.starts_with("cargo ")).collect();
    assert_eq!(commands, ["cargo run -- demo", "cargo test", "cargo run -- serve"]);
}

#[test]
fn the_changelog_has_a_place_for_the_next_change() {
    assert!(include_str!("../../CHANGELOG.md").contains("## [Unreleased]"));
}
