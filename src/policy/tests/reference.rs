//! The reference for people names everything that policies can name.

use std::collections::BTreeSet;

use serde_json::json;

use crate::actor::{ActorKind, Surface};
use crate::capability::{Risk, SideEffect};
use crate::policy::ManageAction;
use crate::policy::rules::KNOWN;
use crate::policy::schema::generate;
use crate::policy::testing::capability;

const REFERENCE: &str = include_str!("../../../docs/policies/reference.md");

/// What the page does not name in code: as a word of its own, in backticks, alone or among others.
fn missing<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Vec<String> {
    let code: String = REFERENCE.split('`').skip(1).step_by(2).fold(String::new(), |all, it| all + " " + it);
    let joins = |it: char| it.is_alphanumeric() || matches!(it, '_' | '@' | '/' | '.');
    let said: BTreeSet<&str> = code.split(|it| !joins(it)).collect();
    names.into_iter().map(|it| it.as_ref().to_owned()).filter(|it| !said.contains(&**it)).collect()
}

#[test]
fn the_reference_names_every_annotation_action_and_group() {
    assert_eq!(missing(KNOWN.map(|it| format!("@{it}"))), [""; 0]);
    assert_eq!(missing(ManageAction::ALL.map(ManageAction::as_str)), [""; 0]);
    assert_eq!(missing(SideEffect::ALL.map(|it| format!("effect/{}", it.as_str()))), [""; 0]);
    assert_eq!(missing(Risk::ALL.map(|it| format!("risk/{}", it.as_str()))), [""; 0]);
    assert_eq!(missing(Surface::ALL.map(Surface::as_str)), [""; 0]);
    assert_eq!(missing(ActorKind::ALL.map(ActorKind::entity_type)), [""; 0]);
    assert_eq!(missing(["@aproval"]), ["@aproval"]);
}

#[test]
fn the_reference_names_every_attribute_and_every_member_of_a_context() {
    let input = json!({"type": "object", "properties": {}});
    let (generated, _) = generate(&[capability("orders.refund", SideEffect::Write, Risk::High, input)], None);
    let text = generated.unwrap().text;
    let members = text.lines().filter_map(|it| it.trim().split_once(": ")).map(|it| it.0.trim_end_matches('?'));
    let members: BTreeSet<&str> = members.filter(|it| !matches!(*it, "principal" | "resource" | "context")).collect();
    assert!(members.len() > 20, "{members:?}");
    assert_eq!(missing(members), [""; 0]);
}
