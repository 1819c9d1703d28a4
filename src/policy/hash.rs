//! `policyHash`: of what policies say under one schema, whatever their layout, comments and files.

use cedar_policy::get_lang_version;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::rules::Rule;
use crate::audit::hex;

/// SHA-256 over the schema text, the language's version, and each policy by id. `rules` are sorted by id.
pub(super) fn hash(schema: &str, rules: &[Rule]) -> Result<String, String> {
    let mut digest = Sha256::new();
    digest.update("countersign/policy/v1\n");
    digest.update(get_lang_version().to_string());
    digest.update(format!("\n{}\n", schema.len())); // so that no policy can pass for a part of the schema
    digest.update(schema);
    for rule in rules {
        digest.update(line(rule)?);
    }
    Ok(format!("sha256:{}", hex(&digest.finalize())))
}

/// What one policy says, in one line.
pub(super) fn line(rule: &Rule) -> Result<String, String> {
    Ok(line_of(rule, &json(rule)?))
}

/// The same but for its reason, which is for people.
#[cfg(any(feature = "cli", feature = "testing"))]
pub(super) fn line_without_reason(rule: &Rule) -> Result<String, String> {
    let mut json = json(rule)?;
    if let Some(annotations) = json.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("reason");
    }
    Ok(line_of(rule, &json))
}

fn json(rule: &Rule) -> Result<Value, String> {
    rule.policy.to_json().map_err(|it| it.to_string())
}

fn line_of(rule: &Rule, json: &Value) -> String {
    let mut text = String::new();
    write(&Value::String(rule.id.clone()), &mut text);
    text.push(' ');
    write(json, &mut text);
    text.push('\n');
    text
}

/// A JSON value in one line, whatever the order of its members.
pub(super) fn ordered(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// Sorted members and exact integers. Not RFC 8785, which folds integers beyond 2^53 that Cedar tells apart.
fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_by_key(|it| it.0);
            list(out, ('{', '}'), &members, |(name, value), out| {
                write(&Value::String((*name).clone()), out);
                out.push(':');
                write(value, out);
            });
        }
        Value::Array(all) => list(out, ('[', ']'), all, write),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

fn list<T>(out: &mut String, brackets: (char, char), all: &[T], each: impl Fn(&T, &mut String)) {
    out.push(brackets.0);
    for (at, it) in all.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        each(it, out);
    }
    out.push(brackets.1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::rules;

    fn of(text: &str) -> String {
        hash("", &rules(text)).unwrap()
    }

    const POLICY: &str = "@id(\"x\") @reason(\"r\") forbid (principal, action in [Action::\"b\", Action::\"a\"], resource) \
         when { context.z == {b: 1, a: [3, 1]} && context.n != 9007199254740993 };";

    #[test]
    fn layout_comments_order_of_policies_and_of_annotations_do_not_matter() {
        let other = "// c\n@reason(\"r\")\r\n@id(\"x\") forbid(principal,action in [Action::\"b\",Action::\"a\"],resource)\n\
             when { context.z == {a: [3,1], b: 1} && ((context.n != 9007199254740993)) };";
        assert_eq!(of(POLICY), of(other));
        let two = "@id(\"a\") permit(principal, action, resource);";
        assert_eq!(of(&format!("{POLICY}{two}")), of(&format!("{two}{POLICY}")));
    }

    #[test]
    fn everything_that_means_something_does() {
        let table = [
            POLICY.replace("9007199254740993", "9007199254740992"),
            POLICY.replace("@reason(\"r\")", "@reason(\"s\")"),
            POLICY.replace("@reason(\"r\")", "@reason(\"r\") @hide"),
            POLICY.replace("@reason(\"r\")", "@reason(\"r\") @approval(\"m\")"),
            POLICY.replace("@id(\"x\")", "@id(\"y\")"),
            POLICY.replace("forbid", "permit"),
            POLICY.replace("principal,", "principal is User,"),
            format!("{POLICY} @id(\"z\") permit(principal, action, resource);"),
            String::new(),
        ];
        let mut hashes: Vec<String> = table.iter().map(|it| of(it)).collect();
        hashes.push(of(POLICY));
        hashes.push(hash("entity Order;", &rules(POLICY)).unwrap());
        let all = hashes.len();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), all);
    }
}
