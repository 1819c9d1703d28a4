//! What goes to a procedure and what comes back, the same for endpoints and commands: one JSON document each.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::canonical;
use crate::capability::Reconciliation;
use crate::clock::{Clock, Timestamp};
use crate::handler::{DeclaredError, HandlerError};
use crate::invocation::{AgentInvocationInfo, Invocation};

/// The most bytes of an answer: 1 MiB.
pub(super) const MAX_ANSWER: usize = canonical::MAX_BYTES;
/// The most characters of a declared error's own sentence.
const MAX_MESSAGE: usize = 2_000;

#[derive(Serialize)]
struct Question<'a> {
    input: &'a Value,
    /// Absent if the application called its own procedure.
    #[serde(skip_serializing_if = "Option::is_none")]
    invocation: Option<Told<'a>>,
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    agent: &'a AgentInvocationInfo,
    /// When the answer comes too late.
    deadline: Timestamp,
}

/// The document that asks.
pub(super) fn question<C>(cx: &Invocation<C>, input: &Value, timeout: Duration) -> Result<String, serde_json::Error> {
    let deadline = Clock::System.now().plus(timeout);
    serde_json::to_string(&Question { input, invocation: cx.agent().map(|agent| Told { agent, deadline }) })
}

#[derive(Serialize)]
struct Doubt<'a> {
    reconcile: Question<'a>,
}

/// The document that asks what became of a run. A procedure that is asked by mistake finds no input in it, and runs nothing.
pub(super) fn doubt(
    agent: &AgentInvocationInfo,
    input: &Value,
    timeout: Duration,
) -> Result<String, serde_json::Error> {
    let deadline = Clock::System.now().plus(timeout);
    serde_json::to_string(&Doubt { reconcile: Question { input, invocation: Some(Told { agent, deadline }) } })
}

/// What is said of a run that nobody knew the end of. What procedures say of their own run has another shape, and is no
/// finding: an answer that a wrong signature gets, say.
pub(super) fn finding(bytes: &[u8]) -> Result<Reconciliation, Garbage> {
    let (word, mut members) = said(bytes, "reconciled")?;
    let found = match &*word {
        "completed" => Reconciliation::Completed(members.remove("output").ok_or(Garbage::Shape)?),
        "not_executed" => Reconciliation::NotExecuted,
        "unknown" => Reconciliation::Unknown,
        _ => return Err(Garbage::Shape),
    };
    if members.is_empty() { Ok(found) } else { Err(Garbage::Shape) }
}

/// The word that says what it is, and the other members.
fn said(bytes: &[u8], member: &str) -> Result<(String, Map<String, Value>), Garbage> {
    let text = std::str::from_utf8(bytes).map_err(|_| Garbage::NotText)?;
    let Value::Object(mut members) = canonical::parse(text).map_err(|_| Garbage::NotJson)? else {
        return Err(Garbage::Shape);
    };
    let Some(Value::String(word)) = members.remove(member) else { return Err(Garbage::Shape) };
    Ok((word, members))
}

/// What a procedure says of its run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Completed(Value),
    Failed { code: String, message: Option<String> },
    NotExecuted,
    Unauthenticated,
    Forbidden,
}

/// Not an answer: nothing is known of what happened. Never says what stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Garbage {
    #[error("the answer is not UTF-8")]
    NotText,
    #[error("the answer is not strict JSON")]
    NotJson,
    #[error("the answer has another shape than answers have")]
    Shape,
}

impl Answer {
    /// Reads a document as strictly as an input is read: a repeated or unknown member, a missing one, anything besides
    /// the one object, and it is no answer.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Garbage> {
        let (status, mut members) = said(bytes, "status")?;
        let answer = match &*status {
            "completed" => Self::Completed(members.remove("output").ok_or(Garbage::Shape)?),
            "failed" => {
                let Some(Value::String(code)) = members.remove("code") else { return Err(Garbage::Shape) };
                let message = match members.remove("message") {
                    None => None,
                    Some(Value::String(it)) if (1..=MAX_MESSAGE).contains(&it.chars().count()) => Some(it),
                    Some(_) => return Err(Garbage::Shape),
                };
                Self::Failed { code, message }
            }
            "not_executed" => Self::NotExecuted,
            "unauthenticated" => Self::Unauthenticated,
            "forbidden" => Self::Forbidden,
            _ => return Err(Garbage::Shape),
        };
        if members.is_empty() { Ok(answer) } else { Err(Garbage::Shape) }
    }

    /// What the engine makes of it. A code that the manifest does not declare stays inside.
    pub(super) fn settle(self, declared: &[DeclaredError]) -> Result<Value, HandlerError> {
        match self {
            Self::Completed(output) => Ok(output),
            Self::Failed { code, message } => Err(match declared.iter().find(|it| it.code == code) {
                Some(error) => {
                    let error = error.clone();
                    message.into_iter().fold(error, DeclaredError::with_message).into()
                }
                None => HandlerError::other("the procedure failed with a code that its manifest does not declare"),
            }),
            Self::NotExecuted => Err(HandlerError::not_executed("the procedure says that nothing happened")),
            Self::Unauthenticated => Err(HandlerError::unauthenticated()),
            Self::Forbidden => Err(HandlerError::forbidden()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<Answer, Garbage> {
        Answer::parse(text.as_bytes())
    }

    #[test]
    fn every_answer_has_its_shape() {
        let failed = |message: Option<&str>| Answer::Failed { code: "LATE".into(), message: message.map(Into::into) };
        for (text, answer) in [
            (r#"{"status":"completed","output":{"a":1}}"#, Answer::Completed(json!({"a": 1}))),
            (" {\"output\":null,\"status\":\"completed\"}\n", Answer::Completed(json!(null))),
            (r#"{"status":"failed","code":"LATE"}"#, failed(None)),
            (r#"{"status":"failed","code":"LATE","message":"Too late."}"#, failed(Some("Too late."))),
            (r#"{"status":"not_executed"}"#, Answer::NotExecuted),
            (r#"{"status":"unauthenticated"}"#, Answer::Unauthenticated),
            (r#"{"status":"forbidden"}"#, Answer::Forbidden),
        ] {
            assert_eq!(parse(text), Ok(answer), "{text}");
        }
    }

    #[test]
    fn whatever_is_not_exactly_an_answer_is_none() {
        for (text, garbage) in [
            ("", Garbage::NotJson),
            ("ok", Garbage::NotJson),
            (r#"{"status":"not_executed"} {}"#, Garbage::NotJson),
            (r#"{"status":"completed","status":"not_executed"}"#, Garbage::NotJson),
            (r#"{"status":"completed","output":1e400}"#, Garbage::NotJson),
            ("[]", Garbage::Shape),
            ("\"not_executed\"", Garbage::Shape),
            ("{}", Garbage::Shape),
            (r#"{"status":"completed"}"#, Garbage::Shape),
            (r#"{"status":"not_executed","output":1}"#, Garbage::Shape),
            (r#"{"status":"NOT_EXECUTED"}"#, Garbage::Shape),
            (r#"{"status":["not_executed"]}"#, Garbage::Shape),
            (r#"{"status":"failed"}"#, Garbage::Shape),
            (r#"{"status":"failed","code":7}"#, Garbage::Shape),
            (r#"{"status":"failed","code":"A","message":""}"#, Garbage::Shape),
            (r#"{"error":{"status":"not_executed"}}"#, Garbage::Shape),
        ] {
            assert_eq!(parse(text), Err(garbage), "{text}");
        }
        assert_eq!(Answer::parse(b"\xff"), Err(Garbage::NotText));
    }

    #[test]
    fn a_finding_is_no_answer_and_an_answer_no_finding() {
        let found = |text: &str| finding(text.as_bytes());
        assert_eq!(found(r#"{"reconciled":"completed","output":7}"#), Ok(Reconciliation::Completed(json!(7))));
        assert_eq!(found(r#"{"reconciled":"not_executed"}"#), Ok(Reconciliation::NotExecuted));
        assert_eq!(found(r#"{"reconciled":"unknown"}"#), Ok(Reconciliation::Unknown));
        for text in [
            r#"{"status":"completed","output":7}"#,
            r#"{"status":"not_executed"}"#,
            r#"{"reconciled":"not_executed","status":"not_executed"}"#,
            r#"{"reconciled":"completed"}"#,
            r#"{"reconciled":"failed"}"#,
            r#"{"reconciled":true}"#,
            "[]",
        ] {
            assert_eq!(found(text), Err(Garbage::Shape), "{text}");
        }
        let page = include_str!("../../docs/manifests.md").split("```json finding\n").skip(1);
        let shown = page.filter_map(|it| it.split("```").next()).filter(|it| found(it).is_ok());
        assert_eq!(shown.count(), 3, "the page shows each of them");
        assert_eq!(parse(r#"{"reconciled":"not_executed"}"#), Err(Garbage::Shape));
        assert_eq!(found(""), Err(Garbage::NotJson));
    }
}
