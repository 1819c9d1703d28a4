//! An application's `schema.cedarschema`: extends the four principals and adds types. Merged as JSON, since Cedar
//! refuses a second declaration of one entity type.

mod expansion;

use cedar_policy::SchemaFragment;
use miette::Diagnostic as _;
use serde_json::{Map, Value};

use super::PolicyProblem;
use super::problem::{MAX_PROBLEMS, SourceFile, is_bidirectional};
use super::scan::scan_schema;
use crate::actor::ActorKind;

/// The name of the file.
pub(super) const FILE: &str = "schema.cedarschema";

/// Names that mean something to Cedar: a declaration of that name would take over its meaning.
const TAKEN_BY_CEDAR: [&str; 12] = [
    "Bool",
    "Boolean",
    "Long",
    "String",
    "Set",
    "Record",
    "Entity",
    "Extension",
    "datetime",
    "decimal",
    "duration",
    "ipaddr",
];

/// Merges the file into the generated document.
pub(super) fn merge(document: &mut Value, file: &SourceFile) -> Vec<PolicyProblem> {
    if let Some(at) = file.text.find(is_bidirectional) {
        return vec![file.problem(at, "a character that changes the direction of text").help("remove it")];
    }
    if let Err(it) = scan_schema(&file.text) {
        return vec![file.problem(it.at, it.what).help(it.help)];
    }
    let parsed = match SchemaFragment::from_cedarschema_str(file.text.trim_start_matches('\u{feff}')) {
        Ok((fragment, _)) => fragment.to_json_value().map_err(|it| file.problem(0, it.to_string())),
        Err(why) => {
            let at = why.labels().and_then(|mut it| it.next()).map_or(0, |it| it.offset());
            Err(file.problem(at, why.to_string()).maybe_help(why.help().map(|it| it.to_string())))
        }
    };
    match parsed {
        Ok(fragment) if !expansion::is_bounded(&fragment) => {
            let what = "its types are too many, or too large where types within types are written out";
            vec![file.problem(0, what).help("declare fewer attributes, and types that are less nested")]
        }
        Ok(fragment) => Merger { document, file, problems: Vec::new() }.namespaces(&fragment),
        Err(problem) => vec![problem],
    }
}

/// What a file declares, whatever its layout and comments; `None` if it does not parse.
pub(super) fn declared(text: &str) -> Option<Value> {
    scan_schema(text).ok()?;
    let (fragment, _) = SchemaFragment::from_cedarschema_str(text.trim_start_matches('\u{feff}')).ok()?;
    fragment.to_json_value().ok()
}

struct Merger<'a> {
    document: &'a mut Value,
    file: &'a SourceFile,
    problems: Vec<PolicyProblem>,
}

impl Merger<'_> {
    fn namespaces(mut self, fragment: &Value) -> Vec<PolicyProblem> {
        for (namespace, declared) in members(fragment) {
            if namespace == "Countersign" || namespace.starts_with("Countersign::") {
                self.refuse(namespace, "the namespace `Countersign` is the engine's", "use another namespace");
                continue;
            }
            for (name, _) in members(&declared["actions"]) {
                let what = format!("`{name}` is an action, and actions come from the registered capabilities");
                self.refuse(name, what, "register a capability, or remove it");
            }
            for (name, kind) in members(&declared["commonTypes"]) {
                self.common_type(namespace, name, kind);
            }
            for (name, entity) in members(&declared["entityTypes"]) {
                self.entity_type(namespace, name, entity);
            }
        }
        self.problems
    }

    fn refuse(&mut self, word: &str, what: impl Into<String>, help: &str) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(self.file.problem_at_word(0, word, what).help(help));
        }
    }

    fn common_type(&mut self, namespace: &str, name: &str, kind: &Value) {
        let own = namespace.is_empty() && !self.document[""]["entityTypes"][name].is_null();
        if own || TAKEN_BY_CEDAR.contains(&name) {
            self.refuse(name, format!("`{name}` is the name of a type already"), "rename it");
        } else {
            self.put(namespace, "commonTypes", name, kind);
        }
    }

    fn entity_type(&mut self, namespace: &str, name: &str, entity: &Value) {
        let principal = ActorKind::ALL.iter().any(|it| it.entity_type() == name);
        if TAKEN_BY_CEDAR.contains(&name) {
            self.refuse(name, format!("`{name}` is the name of a type of Cedar"), "rename it");
        } else if namespace.is_empty() && principal {
            self.principal(name, entity);
        } else if namespace.is_empty() && name == "Capability" {
            self.refuse(name, "`Capability` is declared by the engine", "rename it");
        } else if namespace.is_empty() && name == "Role" && parents(entity).next().is_some() {
            let help = "give the actors the wider role as well: every one of them counts";
            self.refuse(name, "`Role` has parents, which nothing supplies: `in` would not see them", help);
        } else {
            // `Role` too: an application may list all roles, which finds typos.
            self.put(namespace, "entityTypes", name, entity);
        }
    }

    fn put(&mut self, namespace: &str, part: &str, name: &str, declared: &Value) {
        for step in ["entityTypes", "commonTypes", "actions"] {
            if self.document[namespace][step].is_null() {
                self.document[namespace][step] = Value::Object(Map::new());
            }
        }
        self.document[namespace][part][name] = declared.clone();
    }

    fn principal(&mut self, name: &str, entity: &Value) {
        let shape = &entity["shape"];
        let plain = shape.is_null() || shape["type"] == "Record";
        if entity.get("enum").is_some() || !plain || !entity["tags"].is_null() {
            let what = format!("`{name}` can only get more attributes");
            self.refuse(name, what, "write `entity User = { department?: String };`");
            return;
        }
        for (attribute, kind) in members(&shape["attributes"]) {
            if self.document[""]["entityTypes"][name]["shape"]["attributes"][attribute].is_null() {
                self.document[""]["entityTypes"][name]["shape"]["attributes"][attribute] = kind.clone();
            } else {
                self.refuse(attribute, format!("`{name}.{attribute}` is declared by the engine"), "rename it");
            }
        }
        for parent in parents(entity).filter(|it| *it != "Role") {
            self.parent(name, parent);
        }
    }

    /// A principal is `in` its roles and nothing else: a forbid over another parent would load and never hold.
    fn parent(&mut self, name: &str, parent: &str) {
        if self.problems.len() < MAX_PROBLEMS {
            let what = format!("`{name}` has the parent `{parent}`, which nothing supplies: `in` would not see it");
            let help = "make it a role (`principal in Role::\"..\"`), or an attribute that policies compare";
            self.problems.push(self.file.problem_at_word(declaration(self.file, name), parent, what).help(help));
        }
    }
}

/// Where an entity type is declared, as far as that can be told from the text.
pub(super) fn declaration(file: &SourceFile, name: &str) -> usize {
    file.text.find(&format!("entity {name}")).unwrap_or(0)
}

fn parents(entity: &Value) -> impl Iterator<Item = &str> {
    entity["memberOfTypes"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use crate::policy::schema::generate;
    use crate::policy::testing::extension;

    #[test]
    fn what_would_change_the_engines_own_declarations_is_refused() {
        let table = [
            "entity User = { roles: Long };",
            "entity User enum [\"a\"];",
            "entity User = Attributes; type Attributes = { x: Long };",
            "entity User tags String;",
            "entity Capability;",
            "namespace Countersign { entity X; }",
            "action x;",
            "type datetime = String;",
            "entity String;",
            "type Role = Long;",
            "entity Order = { x: Missing };",
            "entity Order in [",
            "entity User = { wait: duration };",
            "entity Order; // \u{202e}",
            "entity Team;\nentity User in [Role, Team];",
            "entity Group; entity Role in [Group];",
            "entity Division; entity Team in [Division]; entity User = { team?: Team };",
            "entity User = { at?: { bosses: Set<User> } };",
        ];
        let mut lines = Vec::new();
        for text in table {
            let (generated, problems) = generate(&[], Some(&extension(text)));
            assert!(generated.is_none(), "{text}");
            lines.extend(problems.iter().map(|it| format!("{}:{} {}", it.line, it.column, it.what)));
        }
        insta::assert_snapshot!(lines.join("\n"), @r#"
        1:17 `User.roles` is declared by the engine
        1:8 `User` can only get more attributes
        1:15 error parsing schema: unexpected token `Attributes`
        1:8 `User` can only get more attributes
        1:8 `Capability` is declared by the engine
        1:11 the namespace `Countersign` is the engine's
        1:8 `x` is an action, and actions come from the registered capabilities
        1:6 `datetime` is the name of a type already
        1:8 `String` is the name of a type of Cedar
        1:6 `Role` is the name of a type already
        1:21 failed to resolve type: Missing
        1:18 error parsing schema: unexpected end of input
        1:17 no attribute can have the type of `User.wait`
        1:18 a character that changes the direction of text
        2:23 `User` has the parent `Team`, which nothing supplies: `in` would not see it
        1:22 `Role` has parents, which nothing supplies: `in` would not see them
        1:61 `User.team` refers to `Team`, whose parents nothing supplies: `in` would not see them
        1:17 `User.at` refers to `User`, whose parents nothing supplies: `in` would not see them
        "#);
    }
}
