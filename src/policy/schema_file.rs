//! The schema as a file, for people and for Cedar's own tools: what was generated, with comments that say what of each
//! input policies miss. The comments are no part of the policy hash: nothing is decided by them.

use std::fmt::Write as _;

use super::PolicyProblem;
use super::problem::{SourceFile, printable};
use super::schema::Generated;

/// The name of the file, in the directory of the policies.
pub(crate) const FILE: &str = "countersign.cedarschema";

const HEAD: &str = "\
// What a call looks like to policies: the schema that they are checked against.
//
// Generated from the registered capabilities and from `schema.cedarschema`. Do not edit it: the engine never reads it,
// and what an application adds belongs in `schema.cedarschema`. Refresh it with
//
//     countersign policy schema --policies DIR --write
//
// Cedar's own tools read it: `cedar validate --schema countersign.cedarschema --policies limits.cedar`.

";

/// A part of a capability's input of which policies see less than a call has.
#[cfg(feature = "cli")]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Unseen {
    pub(crate) capability: String,
    /// A JSON Pointer; `*` stands for every element.
    pub(crate) path: String,
    pub(crate) why: String,
}

/// The file's text. It ends with a line's end.
pub(super) fn text(generated: &Generated) -> String {
    let mut text = HEAD.to_owned();
    for line in generated.text.lines() {
        let unseen = action(line).and_then(|it| generated.unseen.get(it)).filter(|it| !it.is_empty());
        if let Some(all) = unseen {
            text.push_str("// Of its input policies miss:\n");
            for it in all {
                // into a String: cannot fail
                let _ = writeln!(text, "//   {}: {}", printable(&it.path), printable(&it.why));
            }
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// The id of the action that a line begins to declare. Names of capabilities hold nothing that is escaped.
fn action(line: &str) -> Option<&str> {
    line.strip_prefix("action \"")?.split_once('"').map(|it| it.0)
}

/// Everything that policies miss.
#[cfg(feature = "cli")]
pub(super) fn unseen(generated: &Generated) -> Vec<Unseen> {
    let of = |(capability, all): (&String, &Vec<_>)| -> Vec<Unseen> {
        let one = |it: &super::input::LeftOut| Unseen {
            capability: capability.clone(),
            path: it.path.clone(),
            why: it.why.clone(),
        };
        all.iter().map(one).collect()
    };
    generated.unseen.iter().flat_map(of).collect()
}

/// Whether a file says what is generated today, whatever its line ends.
pub(super) fn is_current(kept: &SourceFile, text: &str) -> bool {
    kept.text.trim_start_matches('\u{feff}').replace("\r\n", "\n") == text
}

pub(super) fn stale() -> PolicyProblem {
    PolicyProblem::of_file(
        FILE,
        "it does not say what is generated today: capabilities or `schema.cedarschema` changed",
    )
    .help("refresh it: `countersign policy schema --policies DIR --write`")
    .warning()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cedar_policy::{PolicySet, Schema, ValidationMode, Validator};
    use serde_json::{Value, json};

    use super::*;
    use crate::capability::{Governed, Risk, SideEffect};
    use crate::policy::load::load;
    use crate::policy::testing::{self, capability, shop, show};
    use crate::policy::{Kept, PolicySource, SchemaFile, source};

    const PERMIT: &str = "@id(\"a\") permit (principal, action == Action::\"a.b\", resource);";

    fn schema(files: &PolicySource, capabilities: &[Arc<Governed>]) -> Result<SchemaFile, Vec<PolicyProblem>> {
        super::super::load::schema(source::read(files), capabilities)
    }

    fn odd_input() -> Value {
        json!({"type": "object", "required": ["tags"], "properties": {
            "tags": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}, "a/b": {"type": "array", "items": {"type": "integer"}}}}},
            "two\nlines": {"type": "object"},
            "id": {"type": "string"},
        }})
    }

    fn printed(input: Value) -> String {
        let all = [capability("a.b", SideEffect::Read, Risk::Low, input)];
        schema(&PolicySource::Files(Vec::new()), &all).unwrap().text
    }

    #[test]
    fn comments_at_an_action_say_what_policies_miss_of_its_input() {
        let text = printed(odd_input());
        let from = text.find("// Of its input").unwrap();
        let shown: Vec<&str> = text[from..].lines().take_while(|it| !it.starts_with('}')).collect();
        insta::assert_snapshot!(shown.join("\n"));
        assert!(text.starts_with(HEAD));
        assert!(!printed(json!({"type": "object", "properties": {"id": {"type": "string"}}})).contains("Of its input"));
    }

    #[test]
    fn the_hash_is_of_what_decides_not_of_the_comments() {
        let hash = |input: Value| {
            let all = [capability("a.b", SideEffect::Read, Risk::Low, input)];
            let source = PolicySource::Files(vec![("a.cedar".into(), PERMIT.into())]);
            let (set, _) = load(&source, &all).unwrap();
            (set.hash().to_string(), schema(&source, &all).unwrap().text)
        };
        let seen = json!({"type": "object", "properties": {"id": {"type": "string"}}});
        let more = json!({"type": "object", "properties": {"id": {"type": "string"}, "meta": {"type": "object"}}});
        let other = json!({"type": "object", "properties": {"id": {"type": "integer"}}});
        let ((one, short), (two, long), (three, _)) = (hash(seen), hash(more), hash(other));
        assert!(long.contains("/meta: it is a map") && long != short);
        assert_eq!(one, two);
        assert_ne!(one, three);
    }

    #[test]
    fn the_file_is_no_policy_and_a_stale_one_is_a_warning() {
        let files =
            |text: &str| PolicySource::Files(vec![("a.cedar".into(), PERMIT.into()), (FILE.into(), text.into())]);
        let all = [capability("a.b", SideEffect::Read, Risk::Low, odd_input())];
        let current = schema(&files(""), &all).unwrap();
        assert_eq!(current.kept, Kept::Stale);
        for (text, kept) in [(current.text.clone(), true), (current.text.replace('\n', "\r\n"), true)] {
            let (set, problems) = load(&files(&text), &all).unwrap();
            assert_eq!((problems.iter().any(|it| it.file == FILE), set.files()), (!kept, 1));
            assert_eq!(schema(&files(&text), &all).unwrap().kept, Kept::Current);
        }
        let hash = |text: &str| load(&files(text), &all).unwrap().0.hash().to_string();
        assert_eq!(hash("entity Nonsense in ["), hash(&current.text));
        let (_, problems) = load(&files("entity Nonsense in ["), &all).unwrap();
        let of_it: Vec<_> = problems.into_iter().filter(|it| it.file == FILE).collect();
        insta::assert_snapshot!(show(&of_it), @"warning countersign.cedarschema:0:0 it does not say what is generated today: capabilities or `schema.cedarschema` changed -- refresh it: `countersign policy schema --policies DIR --write`");
    }

    /// Everything that Cedar's validator says of a policy under a schema.
    fn verdict(schema: &Schema, text: &str) -> Vec<String> {
        let set: PolicySet = text.parse().unwrap();
        let result = Validator::new(schema.clone()).validate_with_level(&set, ValidationMode::Strict, 2);
        let errors = result.validation_errors().map(|it| format!("error {it}"));
        let mut all: Vec<String> =
            errors.chain(result.validation_warnings().map(|it| format!("warning {it}"))).collect();
        all.sort();
        all
    }

    #[test]
    fn cedar_reads_the_file_as_the_engine_made_it() {
        let files = PolicySource::Files(vec![("schema.cedarschema".into(), testing::SHOP_SCHEMA.into())]);
        let printed = schema(&files, &shop()).unwrap().text;
        let (read, warnings) = Schema::from_cedarschema_str(&printed).unwrap();
        assert_eq!(warnings.count(), 0);
        let extension = testing::extension(testing::SHOP_SCHEMA);
        let built = super::super::schema::generate(&shop(), Some(&extension)).0.unwrap().schema;
        let policies = [
            r#"permit (principal, action == Action::"orders.refund", resource) when { context.input.amountCents > 1 };"#,
            r#"permit (principal, action == Action::"orders.refund", resource) when { context.input.amountCent > 1 };"#,
            r#"permit (principal is User, action in Action::"orders.*", resource) when { principal has limit && principal.limit > 1 };"#,
            r#"permit (principal, action == Action::"orders.get", resource in Tenant::"t") when { resource.total > 1 };"#,
            r#"permit (principal, action == Action::"orders.get", resource is Capability);"#,
            r#"permit (principal, action == Countersign::Action::"approve", resource) when { context.requirement == "m" };"#,
            r#"forbid (principal, action, resource) when { context.now > datetime("2020-01-01") && context.input.x };"#,
        ];
        for text in policies {
            assert_eq!(verdict(&read, text), verdict(&built, text), "{text}");
        }
    }
}
