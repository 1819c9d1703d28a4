//! Statements about every call that there could be, `invariants/*.yaml` beside the policies, and what comes of them.

mod read;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::World;
use super::judge::{Question, Ruling, Word, judge};
use crate::actor::Identity;
use crate::caller::JsonInput;
use crate::policy::{Claim, Counterexample, PolicySet, Proof, Solver, Supposed, Verdict, prove};
use crate::resource::ResourceEntity;

/// Statements that can be proved, or refuted.
pub(crate) struct Statements {
    all: Vec<Statement>,
}

struct Statement {
    file: String,
    line: u64,
    name: String,
    claim: Claim,
}

/// What came of a statement.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) file: String,
    pub(crate) line: u64,
    pub(crate) name: String,
    /// `proved`, `refuted`, `unknown` or `unsupported`.
    pub(crate) outcome: &'static str,
    /// The pairs of principal and resource type that were looked at, over all actions.
    pub(crate) environments: usize,
    /// Why nobody knows, or what of a counterexample is to be known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counterexample: Option<Box<Counterexample>>,
    /// The counterexample as `policy explain --file` reads it, if a call can be made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<Value>,
}

impl Statements {
    /// Puts all of them to the solver.
    ///
    /// # Errors
    /// The solver does not run, and why.
    pub(crate) fn prove(self, set: &PolicySet, world: &World, solver: &Solver) -> Result<Vec<Answer>, String> {
        let (heads, claims): (Vec<_>, Vec<_>) =
            self.all.into_iter().map(|it| ((it.file, it.line, it.name), it.claim)).unzip();
        let proofs = prove(set, world.registry.all(), &claims, solver)?;
        let answer = |(((file, line, name), claim), proof): (_, Proof)| {
            let blank = Answer {
                file,
                line,
                name,
                outcome: "proved",
                environments: proof.environments,
                note: None,
                counterexample: None,
                call: None,
            };
            match proof.verdict {
                Verdict::Proved => blank,
                Verdict::Unknown(why) => Answer { outcome: "unknown", note: Some(why), ..blank },
                Verdict::Unsupported(what) => Answer { outcome: "unsupported", note: Some(what), ..blank },
                Verdict::Refuted(found) => refuted(blank, found, claim, set, world),
            }
        };
        Ok(heads.into_iter().zip(&claims).zip(proofs).map(answer).collect())
    }
}

fn refuted(blank: Answer, found: Box<Counterexample>, claim: &Claim, set: &PolicySet, world: &World) -> Answer {
    let (call, note) = match &found.call {
        Some(supposed) => asked_again(supposed, claim, set, world),
        None => {
            (None, Some("it is about management, or no call is exactly this request: read it as Cedar sees it".into()))
        }
    };
    Answer { outcome: "refuted", counterexample: Some(found), call, note, ..blank }
}

/// The call, asked as any call is asked. What Cedar's types allow, the input's schema may refuse, or the engine.
fn asked_again(supposed: &Supposed, claim: &Claim, set: &PolicySet, world: &World) -> (Option<Value>, Option<String>) {
    let set = match claim {
        Claim::Implies { set, .. } => set,
        _ => set,
    };
    let Some(question) = question(supposed, world) else { return (None, None) };
    let ruling = judge(set, &question).ruling;
    let shows = match claim {
        Claim::NoErrors { .. } => ruling.word() == Word::Failed,
        _ => matches!(ruling.word(), Word::Allow | Word::Approval(_)),
    };
    match &ruling {
        _ if shows => (Some(written(&question)), None),
        Ruling::Invalid(_) => {
            let note = format!("it needs an input that the schema refuses: {ruling}");
            (Some(written(&question)), Some(note))
        }
        _ => (None, Some(format!("as Cedar sees it; a call of its own comes to: {ruling}"))),
    }
}

fn question(supposed: &Supposed, world: &World) -> Option<Question> {
    let Supposed { capability, identity, now, input, covers, entities } = supposed;
    Some(Question {
        identity: identity.clone(),
        capability: Arc::clone(world.registry.get(capability)?),
        input: input.clone().into(),
        now: *now,
        covers: covers.clone().map(|it| Question::approved(it.types, *now)),
        entities: entities.clone(),
    })
}

/// A question as people write one: a case without a name.
fn written(question: &Question) -> Value {
    let Question { identity, capability, input, now, covers, entities } = question;
    let mut call = json!({
        "actor": actor(identity),
        "tenant": identity.tenant_name(),
        "surface": identity.surface(),
        "at": now,
        "capability": capability.id,
        "input": match input {
            JsonInput::Value(it) => json!(it),
            JsonInput::Text(it) => json!(it),
            JsonInput::Unfit(_) => Value::Null,
        },
    });
    if let Some(client) = &identity.client {
        call["client"] = json!(client);
    }
    if let Some(covers) = covers {
        call["approved"] = json!(covers.types);
    }
    if !entities.is_empty() {
        let entity = |it: &ResourceEntity| json!({"type": it.entity.kind, "id": it.entity.id, "attributes": it.attributes, "parents": it.parents});
        call["entities"] = entities.iter().map(entity).collect();
    }
    call
}

fn actor(identity: &Identity) -> Value {
    let Some(actor) = identity.actor() else { return Value::Null };
    let mut json = json!({"id": actor.id, "kind": actor.kind});
    if let Some(issuer) = &actor.issuer {
        json["issuer"] = json!(issuer);
    }
    for (name, all) in [("roles", &actor.roles), ("scopes", &actor.scopes)] {
        if !all.is_empty() {
            json[name] = json!(all);
        }
    }
    if !actor.attributes.is_empty() {
        json["attributes"] = json!(actor.attributes);
    }
    json
}
