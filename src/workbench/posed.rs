//! Questions posed over an API: one call that nobody makes, explained by the active set.

use serde_json::{Map, Value, json};

use super::case::{Asked, Case, Fault};
use super::explain::explain;
use super::{Cast, World};
use crate::actor::Surface;
use crate::canonical::{self, Segment};
use crate::outcome::{Detail, Error};
use crate::policies::PolicySets;
use crate::policy::{ManageAction, did_you_mean};
use crate::rejection::Rejection;
use crate::schema::Refused;

/// The members of a question.
const MEMBERS: [&str; 13] = [
    "actor",
    "approved",
    "approvedAt",
    "at",
    "capability",
    "client",
    "entities",
    "input",
    "manage",
    "requester",
    "requirement",
    "surface",
    "tenant",
];

/// Who asks, in the words of a question.
const ASKER: &str = "me";

impl PolicySets {
    /// Why a call would come out as it would by the active set: the ruling, the policies that make it so part by part,
    /// and who could approve. Nothing is run and nothing is looked up. Needs a permit for the Cedar action
    /// `read_policies`.
    ///
    /// `question` is a JSON object with the members of a policy test's case in camelCase. Without an `actor` it is about
    /// this party's own call, without `at` about now, without `surface` about `surface`.
    ///
    /// # Errors
    /// `POLICY_DENIED` without that permit; `INPUT_INVALID` for what asks nothing; `AUDIT_UNAVAILABLE` if the store is
    /// down.
    pub(crate) async fn explain(&self, question: &str, surface: Surface) -> Result<Value, Error> {
        let loaded = self.allowed(ManageAction::ReadPolicies.as_str(), ManageAction::ReadPolicies).await?;
        let case = read(question).map_err(|it| Rejection::InputInvalid(it).face())?;
        let cast = Cast::from([(ASKER.to_owned(), self.identity.clone())]);
        let world = World { registry: std::sync::Arc::clone(&self.core.registry), cast };
        let case = if case.has_actor() { case } else { case.by(ASKER) };
        let asked = case.at(self.core.clock.now(), surface).asked(&world, &Cast::new()).map_err(|it| refused(&it))?;
        Ok(match asked {
            Asked::Call(question) => explain(&loaded.set, &question, &world.cast).json_of(&question, &loaded.set),
            Asked::Manage(question) => {
                let mut json = question.ruling(&loaded.set).json();
                json["policyHash"] = json!(&**loaded.set.hash());
                json
            }
        })
    }
}

/// A fault's help names what there is, never what was sent.
fn refused(fault: &Fault) -> Error {
    let refused = problem("", "question", None);
    Error { message: format!("The question asks nothing: {}.", fault.help), ..Rejection::InputInvalid(refused).face() }
}

fn read(text: &str) -> Result<Case, Refused> {
    let value = canonical::parse(text).map_err(|faults| {
        let outward: Vec<_> = faults.all.iter().map(|it| input(&place(it), it.kind.keyword(), None)).collect();
        Refused { outward, paths: Vec::new(), well_formed: faults.well_formed }
    })?;
    let Value::Object(members) = value else { return Err(problem("", "type", None)) };
    let unknown = members.keys().find(|it| !MEMBERS.contains(&it.as_str()));
    if let Some(unknown) = unknown {
        return Err(problem("", "additionalProperties", did_you_mean(unknown, MEMBERS)));
    }
    let whole = Value::Object(members);
    serde_json::from_value(whole.clone()).map_err(|_| wrong(&whole))
}

/// The member that a fault is in: what is inside may be anybody's.
fn place(fault: &canonical::Fault) -> String {
    match fault.path.first() {
        Some(Segment::Member(name)) if MEMBERS.contains(&name.as_str()) => format!("/{name}"),
        Some(Segment::Member(_) | Segment::Index(_)) | None => String::new(),
    }
}

/// The first member that does not fit by itself; the parser's own sentence would show its value.
fn wrong(whole: &Value) -> Refused {
    let members = whole.as_object().into_iter().flatten();
    let fits = |(name, value): &(&String, &Value)| {
        let alone = Map::from_iter([((*name).clone(), (*value).clone())]);
        serde_json::from_value::<Case>(Value::Object(alone)).is_ok()
    };
    let path = members.into_iter().find(|it| !fits(it)).map(|it| format!("/{}", it.0));
    problem(&path.unwrap_or_default(), "type", None)
}

fn problem(path: &str, keyword: &str, nearest: Option<String>) -> Refused {
    Refused { outward: vec![input(path, keyword, nearest)], paths: Vec::new(), well_formed: true }
}

fn input(path: &str, keyword: &str, nearest: Option<String>) -> Detail {
    Detail::Input { path: path.to_owned(), keyword: keyword.to_owned(), nearest }
}
