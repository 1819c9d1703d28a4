//! `policy check` of a large set: 1,000 files with 10,000 policies over 50 capabilities.

use std::fmt::Write as _;
use std::str::FromStr as _;

use cedar_policy::{PolicySet, Schema, ValidationMode, Validator};
use countersign::bench::check;

use crate::Failure;
use crate::shop::{capabilities, name};
use crate::table::{Table, each, median, now};

const CAPABILITIES: usize = 50;
const FILES: usize = 1_000;
const PER_FILE: usize = 10;
const ROUNDS: usize = 3;

/// Permits by role, forbids by amount, guarded members, groups, and rules for everything.
fn policy(number: usize) -> String {
    let action = format!("action == Action::\"{}\"", name(number / 10 % CAPABILITIES));
    let (head, tail) = match number % 10 {
        0..=3 => (format!("permit (principal in Role::\"r{number}\", {action}, resource)"), String::new()),
        4 | 5 => (
            format!("forbid (principal, {action}, resource)"),
            format!("when {{ context.input.amountCents > {number} && context.surface == \"http\" }}"),
        ),
        6 => (
            format!("permit (principal is User, {action}, resource)"),
            format!("when {{ principal has tenant && principal.tenant == \"t{number}\" && context has client }}"),
        ),
        7 => (
            format!("forbid (principal is Automation, {action}, resource)"),
            "unless { principal.scopes.contains(\"refunds\") || context.input.reason like \"*test*\" }".into(),
        ),
        8 => (
            format!("forbid (principal in Role::\"r{number}\", action in Action::\"effect/write\", resource)"),
            "when { context.surface == \"mcp\" }".into(),
        ),
        _ => (
            format!("forbid (principal == User::\"u{number}\", action, resource)"),
            "when { context.tenant == \"x\" }".into(),
        ),
    };
    format!("@id(\"p{number}\")\n{head}\n{tail};\n\n")
}

fn files() -> Result<Vec<(String, String)>, Failure> {
    let file = |at: usize| -> Result<_, Failure> {
        let mut text = String::new();
        for number in 0..PER_FILE {
            write!(text, "{}", policy(at * PER_FILE + number))?;
        }
        Ok((format!("{at:04}.cedar"), text))
    };
    (0..FILES).map(file).collect()
}

pub(crate) fn measure(table: &mut Table) -> Result<(), Failure> {
    let files = files()?;
    let (mut checked, mut by_hand) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let began = now();
        let (problems, schema) = check(capabilities(CAPABILITIES), files.clone())?;
        checked.push(each(began.elapsed(), 1) / 1e6);
        if problems > 0 {
            return Err("the set has problems".into());
        }
        let (schema, _) = Schema::from_cedarschema_str(&schema)?;
        let began = now();
        let text: String = files.iter().map(|it| &*it.1).collect();
        let result = Validator::new(schema).validate(&PolicySet::from_str(&text)?, ValidationMode::Strict);
        by_hand.push(each(began.elapsed(), 1) / 1e6);
        if !result.validation_passed() {
            return Err("the floor has problems".into());
        }
    }
    let figures = (median(&checked), median(&by_hand));
    table.compare("10,000 policies in 1,000 files check : parsing and one strict validation by hand", figures, "s");
    table.limit("10,000 policies in 1,000 files check", figures.0, "s", 5.0);
    Ok(())
}
