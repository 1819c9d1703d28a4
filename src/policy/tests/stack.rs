//! Nothing that is sent can make a parser run out of stack: each text is an answer with its place.

use crate::capability::{Risk, SideEffect};
use crate::policy::load::load;
use crate::policy::testing::{capability, refund_input};
use crate::policy::{PolicyProblem, PolicySource};

const MANY: usize = 100_000;

fn problems(name: &str, text: &str) -> Vec<PolicyProblem> {
    let all = [capability("orders.refund", SideEffect::Write, Risk::High, refund_input())];
    load(&PolicySource::Files(vec![(name.into(), text.into())]), &all).err().unwrap_or_default()
}

fn condition(body: &str) -> String {
    format!("\n@id(\"x\") permit (principal, action, resource) when {{ {body} }};")
}

fn nested(open: &str, inner: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(MANY), close.repeat(MANY))
}

/// The first problem's place and cause.
fn first(name: &str, (kind, text): &(&str, String)) -> String {
    let problems = problems(name, text);
    let Some(problem) = problems.first() else { return format!("{kind}: loads") };
    assert_eq!(problem.file, name, "{kind}");
    assert!(problem.line > 0, "{kind}: {}", problem.what);
    let what: String = problem.what.chars().take(90).collect();
    format!("{kind}: {}:{} {what}", problem.line, problem.column)
}

#[test]
fn a_hundred_thousand_of_anything_in_a_policy_is_a_problem_with_a_place() {
    let table = [
        ("parentheses", condition(&nested("(", "true", ")"))),
        ("brackets", condition(&nested("[", "1", "]"))),
        ("records", condition(&nested("{a: ", "1", "}"))),
        ("open parentheses", "(".repeat(MANY)),
        ("open braces", condition(&"{".repeat(MANY))),
        ("closed parentheses", ")".repeat(MANY)),
        ("mixed brackets", condition(&"([{".repeat(MANY))),
        ("ifs", condition(&format!("{}true", "if true then true else ".repeat(MANY * 2 / 5)))),
        ("ifs in tests", condition(&"if ".repeat(MANY))),
        ("nots", condition(&format!("{}true", "!".repeat(MANY)))),
        ("minuses", condition(&format!("{}1 > 0", "-".repeat(MANY)))),
        ("spaced minuses", condition(&format!("{}1 > 0", "- ".repeat(MANY)))),
        ("members", condition(&format!("context{}", ".a".repeat(MANY)))),
        ("calls", condition(&format!("context{}", ".a()".repeat(MANY)))),
        ("indices", condition(&format!("context{}", "[\"a\"]".repeat(MANY)))),
        ("ands", condition(&format!("true{}", " && true".repeat(MANY)))),
        ("ors", condition(&format!("true{}", "||true".repeat(MANY)))),
        ("sums", condition(&format!("1{} > 0", "+1".repeat(MANY)))),
        ("comparisons", condition(&format!("1{}", "<1".repeat(MANY)))),
        ("has", condition(&format!("context{}", " has a".repeat(MANY)))),
        ("in", condition(&format!("principal{}", " in principal".repeat(MANY * 2 / 5)))),
        ("is", condition(&format!("principal{}", " is User".repeat(MANY)))),
        (
            "clauses",
            format!("{};", condition("true").trim_end_matches(';').to_owned() + &" when {true}".repeat(MANY * 2 / 5)),
        ),
        ("names", condition(&format!("{}A::\"x\" == principal", "A::".repeat(MANY)))),
        ("annotations", format!("{}permit (principal, action, resource);", "@a(\"x\") ".repeat(MANY))),
        ("brackets in annotations", format!("@id{} permit (principal, action, resource);", "(".repeat(MANY))),
        ("brackets in a scope", format!("permit (principal in {}", "[".repeat(MANY))),
        ("an open string", condition(&format!("\"{}", "(".repeat(MANY)))),
        ("escapes at the end", format!("permit (\"{}", "\\".repeat(MANY + 1))),
        ("quotes", "\"\"".repeat(MANY)),
        ("semicolons", ";".repeat(MANY)),
        ("at signs", "@".repeat(MANY)),
        ("letters", "\u{e9}".repeat(MANY)),
        ("nothing between commas", condition(&format!("[{}]", ",".repeat(MANY)))),
    ];
    let lines: Vec<String> = table.iter().map(|it| first("a.cedar", it)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn brackets_in_strings_and_comments_are_none() {
    let text = [
        format!("// {}\n", "([{".repeat(MANY)),
        format!("@reason(\"{}\")", "([{".repeat(100)),
        condition(&format!("context.surface == \"{}\"", "if (!(".repeat(MANY / 10))),
        format!("// {}", "\"".repeat(MANY + 1)),
    ];
    assert_eq!(problems("a.cedar", &text.concat()), []);
}

#[test]
fn a_hundred_thousand_of_anything_in_the_schema_is_a_problem_with_a_place() {
    let many = |of: fn(usize) -> String| (0..9_000).map(of).collect::<String>();
    let table = [
        ("records", format!("entity E = {};", nested("{a: ", "Long", "}"))),
        ("sets", format!("entity E = {{a: {}}};", nested("Set<", "Long", ">"))),
        ("lists", format!("entity E in {};", nested("[", "E", "]"))),
        ("namespaces", nested("namespace A {", "", "}")),
        ("open brackets", "<".repeat(MANY)),
        ("names", format!("entity E = {{a: {}A}};", "A::".repeat(MANY))),
        ("an open string", format!("entity E enum [\"{}", "<".repeat(MANY))),
        ("question marks", format!("entity E = {{a{}: Long}};", "?".repeat(MANY))),
        ("annotations", format!("{}entity E;", "@a(\"x\")".repeat(MANY))),
        ("semicolons", ";".repeat(MANY)),
        ("types in a chain", many(|n| format!("type T{n} = {{a: T{}}};", n + 1))),
        ("entities in a chain", many(|n| format!("entity E{n} in [E{}];", n + 1))),
        ("actions", many(|n| format!("action a{n};"))),
        (
            "types that double",
            (0..60).map(|n| format!("type T{n} = {{a: T{0}, b: T{0}}};", n + 1)).collect::<Vec<_>>().concat(),
        ),
        ("a large file", " ".repeat((1 << 20) + 1)),
    ];
    let lines: Vec<String> = table.iter().map(|it| first("schema.cedarschema", it)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}
