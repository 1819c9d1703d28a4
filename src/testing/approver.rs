//! People who decide while a call waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::approval::{ApprovalView, Verdict};
use crate::approver::{ApprovalHandler, InlineDecision};
use crate::{Actor, ActorKind};

/// What a [`TestApprover`] says.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Answer {
    /// Nothing: the call waits.
    #[default]
    Nothing,
    /// These people approve, one after another, as many as are needed.
    Approve(Vec<Actor>),
    /// This person rejects.
    Reject(Actor),
}

/// An approver for [`EngineBuilder::approver`](crate::EngineBuilder::approver) that says what the test wants, and
/// remembers what it was asked. Clones are one approver. Its answers pass every check of any other decision: whoever may
/// not approve does not.
#[derive(Clone, Debug, Default)]
pub struct TestApprover(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    answer: Answer,
    asked: Vec<ApprovalView>,
}

impl TestApprover {
    /// One that says nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One by whom these people approve.
    pub fn approves(people: impl IntoIterator<Item = Actor>) -> Self {
        let it = Self::new();
        it.answer(Answer::Approve(people.into_iter().collect()));
        it
    }

    /// One by whom this person rejects.
    pub fn rejects(person: Actor) -> Self {
        let it = Self::new();
        it.answer(Answer::Reject(person));
        it
    }

    /// What it says from now on.
    pub fn answer(&self, answer: Answer) {
        self.shared().answer = answer;
    }

    /// What it was asked, question by question, as a person sees it.
    pub fn asked(&self) -> Vec<ApprovalView> {
        self.shared().asked.clone()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ApprovalHandler for TestApprover {
    async fn ask(&self, request: &ApprovalView) -> Option<InlineDecision> {
        let mut shared = self.shared();
        shared.asked.push(request.clone());
        let kind = outstanding(request)?.to_owned();
        let (actor, verdict) = match &shared.answer {
            Answer::Nothing => return None,
            Answer::Approve(people) => {
                let is_new = |it: &&Actor| !has_decided(request, &kind, it);
                (people.iter().find(is_new)?.clone(), Verdict::Approve)
            }
            Answer::Reject(person) => (person.clone(), Verdict::Reject),
        };
        Some(InlineDecision { actor, kind, verdict, comment: None })
    }
}

/// The first type that not enough people approved yet.
fn outstanding(request: &ApprovalView) -> Option<&str> {
    let approved = |kind: &str| request.decisions.iter().filter(|it| it.kind == kind).count();
    let lacks = request.requirements.iter().find(|it| approved(&it.kind) < it.quorum as usize);
    lacks.map(|it| &*it.kind)
}

fn has_decided(request: &ApprovalView, kind: &str, person: &Actor) -> bool {
    let is_theirs = |id: &str, of: ActorKind| id == person.id && of == person.kind;
    request.decisions.iter().any(|it| it.kind == kind && is_theirs(&it.approver.id, it.approver.kind))
}
