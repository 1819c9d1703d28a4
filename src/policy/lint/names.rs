//! Which names an expression could have meant: the members of what stands before the dot.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::pst::{Expr, Var};

use super::super::schema::{Generated, PRINCIPAL_ATTRIBUTES};
use super::super::types::{Member, Type};

const RESOURCE: [&str; 9] = [
    "capability",
    "effect",
    "requesterAnonymous",
    "requesterAutomation",
    "requesterService",
    "requesterUser",
    "risk",
    "tags",
    "tenant",
];
const CONTEXT: [&str; 7] = ["approval", "client", "input", "now", "requirement", "surface", "tenant"];

type Members = BTreeMap<String, Member>;

/// The members that an expression may have for these capabilities.
pub(super) fn members<'a>(
    expr: &Expr,
    generated: &'a Generated,
    capabilities: impl Iterator<Item = &'a str>,
) -> BTreeSet<&'a str> {
    let Some((root, path)) = path(expr) else { return BTreeSet::new() };
    let names = |all: &'a Members, path: &[&str]| at(all, path).into_iter().flat_map(Members::keys).map(String::as_str);
    match (root, path.split_first()) {
        (Var::Context, None) => CONTEXT.into(),
        (Var::Context, Some((first, rest))) if *first == "input" => {
            capabilities.filter_map(|it| record(generated.inputs.get(it)?)).flat_map(|it| names(it, rest)).collect()
        }
        (Var::Principal | Var::Resource, _) => {
            let own =
                if *root == Var::Principal { PRINCIPAL_ATTRIBUTES.map(|it| it.0).to_vec() } else { RESOURCE.into() };
            let own = own.into_iter().filter(|_| path.is_empty());
            own.chain(generated.shapes.values().flat_map(|it| names(&it.attributes, &path))).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// The capabilities whose input has this member.
pub(super) fn inputs_with<'a>(generated: &'a Generated, path: &[&str]) -> BTreeSet<&'a str> {
    let Some((last, way)) = path.split_last() else { return BTreeSet::new() };
    let has = |kind: &Type| record(kind).and_then(|it| at(it, way)).is_some_and(|it| it.contains_key(*last));
    generated.inputs.iter().filter(|(_, kind)| has(kind)).map(|(id, _)| id.as_str()).collect()
}

fn record(kind: &Type) -> Option<&Members> {
    if let Type::Record(members) = kind { Some(members) } else { None }
}

fn at<'a>(members: &'a Members, path: &[&str]) -> Option<&'a Members> {
    path.iter().try_fold(members, |all, name| record(&all.get(*name)?.kind))
}

/// A variable, and the members on the way from it.
fn path(expr: &Expr) -> Option<(&Var, Vec<&str>)> {
    match expr {
        Expr::Var(it) => Some((it, Vec::new())),
        Expr::GetAttr { expr, attr } => {
            let (root, mut path) = path(expr)?;
            path.push(attr);
            Some((root, path))
        }
        _ => None,
    }
}
