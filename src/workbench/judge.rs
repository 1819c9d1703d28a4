//! One question, one ruling: stages 5, 6 and 7 of a call, in their order and with their functions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::actor::Identity;
use crate::audit::{DenialReason, PolicyError, PolicyRef};
use crate::caller::JsonInput;
use crate::capability::Governed;
use crate::clock::Timestamp;
use crate::outcome::Detail;
use crate::policy::{self, Concealed, Covers, Decision, PolicySet, Shown};
use crate::resource::ResourceEntity;
use crate::schema::{Given, Refused};

/// A call that nobody makes.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) identity: Identity,
    pub(crate) capability: Arc<Governed>,
    pub(crate) input: JsonInput,
    pub(crate) now: Timestamp,
    pub(crate) covers: Option<Covers>,
    /// What the application would give of its entities.
    pub(crate) entities: Vec<ResourceEntity>,
}

impl Question {
    /// The approval that is presented: who agreed, by type.
    pub(crate) fn approved(types: BTreeMap<String, u32>, decided_at: Timestamp) -> Covers {
        Covers { id: "apr_supposed".into(), types, decided_at }
    }
}

/// What would come of a call, with everything that would be on record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ruling {
    /// Stage 5: as if it were not there.
    Concealed(Concealed),
    /// Stage 6: and some other input might pass.
    Invalid(Refused),
    /// Stage 7, or stage 6 on its behalf.
    Decided(Decision),
}

/// A ruling, and what it was made of.
pub(crate) struct Judged {
    pub(crate) ruling: Ruling,
    /// The input as policies see it, if it is valid.
    pub(crate) input: Option<Arc<Value>>,
}

/// Asks what stages 5, 6 and 7 ask.
pub(crate) fn judge(set: &PolicySet, question: &Question) -> Judged {
    let Question { identity, capability, now, .. } = question;
    let shown = match set.show(identity, *now, capability, |_, _| ()) {
        Ok(shown) => shown,
        Err(concealed) => return Judged { ruling: Ruling::Concealed(concealed), input: None },
    };
    let accepted = match &question.input {
        JsonInput::Text(text) => capability.input.accept(&capability.id, &Given::Text(text)),
        JsonInput::Value(value) => capability.input.accept(&capability.id, &Given::Value(value)),
        JsonInput::Unfit(it) => Err((*it.0).clone()),
    };
    let (ruling, input) = match accepted {
        Ok(input) => {
            let decision = decide(set, &shown, question, &input.value);
            (Ruling::Decided(decision), Some(input.value))
        }
        Err(refused) => match set.refuses(&shown, identity, *now, capability) {
            Some(decision) => (Ruling::Decided(decision), None),
            None => (Ruling::Invalid(refused), None),
        },
    };
    Judged { ruling, input }
}

/// Stage 7, with the entities of the question in the place of the application's.
fn decide(set: &PolicySet, shown: &Shown, question: &Question, input: &Value) -> Decision {
    let Question { identity, capability: governed, now, covers, entities, .. } = question;
    let principal = match shown {
        Ok(principal) => principal,
        Err(errors) => return Decision::Failed(errors.clone()),
    };
    match set.gathered(principal, governed, input, entities) {
        Ok(entities) => {
            let covers = covers.as_ref();
            set.judge(shown, &policy::Case { identity, now: *now, governed, input, covers, entities: &entities })
        }
        Err(errors) => {
            let refused = set.refuses(shown, identity, *now, governed);
            refused.unwrap_or(Decision::Failed(errors))
        }
    }
}

/// A ruling in one word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    Allow,
    /// The types, sorted.
    Approval(Vec<String>),
    Deny,
    /// By a policy.
    Hidden,
    /// The capability does not list the surface.
    Unexposed,
    /// The input does not fit the schema.
    Invalid,
    /// A policy could not be evaluated. Denies, and conceals if it was one that hides.
    Failed,
}

impl Word {
    /// The word alone.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Approval(_) => "approval",
            Self::Deny => "deny",
            Self::Hidden => "hidden",
            Self::Unexposed => "unexposed",
            Self::Invalid => "invalid",
            Self::Failed => "failed",
        }
    }

    /// The same, whatever the order of its types.
    pub(crate) fn sorted(self) -> Self {
        match self {
            Self::Approval(mut types) => {
                types.sort();
                types.dedup();
                Self::Approval(types)
            }
            other => other,
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approval(types) => write!(f, "approval ({})", types.join(", ")),
            other => f.write_str(other.as_str()),
        }
    }
}

/// The word, with what is behind it.
impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = self.details();
        if details.is_empty() {
            return self.word().fmt(f);
        }
        write!(f, "{} ({})", self.word(), details.join(", "))
    }
}

impl Ruling {
    pub(crate) fn word(&self) -> Word {
        match self {
            Self::Concealed(it) => match it.reason {
                DenialReason::Hidden => Word::Hidden,
                DenialReason::NotExposed | DenialReason::Unknown => Word::Unexposed,
                DenialReason::PolicyFailed | DenialReason::PolicyDenied => Word::Failed,
            },
            Self::Invalid(_) => Word::Invalid,
            Self::Decided(Decision::Allow { .. }) => Word::Allow,
            Self::Decided(Decision::Deny { .. }) => Word::Deny,
            Self::Decided(Decision::Failed(_)) => Word::Failed,
            Self::Decided(Decision::RequireApproval(gates)) => {
                Word::Approval(gates.requirements.iter().map(|it| it.kind.clone()).collect())
            }
        }
    }

    /// The policies that made it so, by id.
    pub(crate) fn policies(&self) -> &[PolicyRef] {
        match self {
            Self::Concealed(it) => &it.policies,
            Self::Decided(Decision::Allow { policies } | Decision::Deny { policies, .. }) => policies,
            Self::Decided(Decision::RequireApproval(gates)) => &gates.policies,
            Self::Decided(Decision::Failed(_)) | Self::Invalid(_) => &[],
        }
    }

    /// What could not be evaluated.
    pub(crate) fn errors(&self) -> &[PolicyError] {
        match self {
            Self::Concealed(it) => &it.errors,
            Self::Decided(Decision::Failed(errors)) => errors,
            Self::Decided(_) | Self::Invalid(_) => &[],
        }
    }

    /// What a person is told: the deny's reason, or the gates'.
    pub(crate) fn reasons(&self) -> Vec<&str> {
        match self {
            Self::Decided(Decision::Deny { reason, .. }) => reason.iter().map(String::as_str).collect(),
            Self::Decided(Decision::RequireApproval(gates)) => gates.reasons.iter().map(String::as_str).collect(),
            Self::Concealed(_) | Self::Invalid(_) | Self::Decided(_) => Vec::new(),
        }
    }

    /// What is behind the word: what could not be evaluated, or what of the input does not fit.
    fn details(&self) -> Vec<String> {
        let problem = |it: &Detail| match it {
            Detail::Input { path, keyword, .. } => format!("{} {keyword}", if path.is_empty() { "/" } else { path }),
            Detail::Code { .. } | Detail::Execution { .. } => String::new(),
        };
        match self {
            Self::Invalid(refused) => refused.outward.iter().map(problem).collect(),
            Self::Concealed(_) | Self::Decided(_) => {
                self.errors().iter().map(|it| format!("{}: {}", it.policy, it.kind)).collect()
            }
        }
    }

    /// For machines.
    pub(crate) fn json(&self) -> Value {
        let mut json = json!({
            "outcome": self.word().as_str(),
            "reasons": self.reasons(),
            "policies": self.policies(),
            "errors": self.errors(),
        });
        match self {
            Self::Concealed(_) => json["concealed"] = json!(true),
            Self::Invalid(refused) => json["details"] = json!(refused.outward),
            Self::Decided(Decision::RequireApproval(gates)) => {
                json["requirements"] = json!(gates.requirements);
                json["expiresInSeconds"] = json!(gates.expires_in.as_secs());
            }
            Self::Decided(_) => {}
        }
        json
    }
}
