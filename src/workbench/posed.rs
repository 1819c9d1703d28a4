//! Questions posed over an API: one call that nobody makes, explained by the active set.

use serde_json::{Map, Value, json};

use super::case::{Asked, Case, Fault};
use super::explain::explain;
use super::{Cast, World};
use crate::actor::Surface;
use crate::outcome::{Detail, Error};
use crate::policies::PolicySets;
use crate::policy::ManageAction;
use crate::rejection::Rejection;
use crate::schema::Refused;

/// The members of a question.
pub(crate) const QUESTION: [&str; 13] = [
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
    /// `question` has the members of a policy test's case, named by [`QUESTION`]. Without an `actor` it is about
    /// this party's own call, without `at` about now, without `surface` about `surface`.
    ///
    /// # Errors
    /// `POLICY_DENIED` without that permit; `INPUT_INVALID` for what asks nothing; `AUDIT_UNAVAILABLE` if the store is
    /// down.
    pub(crate) async fn explain(&self, question: Map<String, Value>, surface: Surface) -> Result<Value, Error> {
        let loaded = self.allowed(ManageAction::ReadPolicies.as_str(), ManageAction::ReadPolicies).await?;
        let whole = Value::Object(question);
        let case = serde_json::from_value::<Case>(whole.clone());
        let case = case.map_err(|_| Rejection::InputInvalid(wrong(&whole)).face())?;
        let registry = std::sync::Arc::clone(&self.core.registry);
        let world = World { registry, cast: Cast::from([(ASKER.to_owned(), self.identity.clone())]) };
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
    let refused = problem("", "question");
    Error { message: format!("The question asks nothing: {}.", fault.help), ..Rejection::InputInvalid(refused).face() }
}

/// The first member that does not fit by itself; the parser's own sentence would show its value.
fn wrong(whole: &Value) -> Refused {
    let members = whole.as_object().into_iter().flatten();
    let fits = |(name, value): &(&String, &Value)| {
        let alone = Map::from_iter([((*name).clone(), (*value).clone())]);
        serde_json::from_value::<Case>(Value::Object(alone)).is_ok()
    };
    let path = members.into_iter().find(|it| !fits(it)).map(|it| format!("/{}", it.0));
    problem(&path.unwrap_or_default(), "type")
}

fn problem(path: &str, keyword: &str) -> Refused {
    let detail = Detail::Input { path: path.to_owned(), keyword: keyword.to_owned(), nearest: None };
    Refused { outward: vec![detail], paths: Vec::new(), well_formed: true }
}
