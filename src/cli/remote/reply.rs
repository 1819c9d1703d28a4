//! What a server answered: a document, a problem in the engine's own words, or something that no Countersign says.

use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::exit::Exit;
use super::super::failure::Failure;
use super::Effect;
use crate::outcome::Detail;
use crate::{Error, ErrorCode, ExecutionId, PolicyProblem};

/// The most bytes of an answer that are read.
const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// A document, or why the engine said no.
pub(in crate::cli) type Asked<T> = Result<T, Error>;

/// A whole answer.
#[derive(Debug)]
pub(in crate::cli) struct Reply {
    status: u16,
    /// Whether it says so that it repeats an earlier one.
    pub(in crate::cli) is_replayed: bool,
    is_json: bool,
    body: Vec<u8>,
    effect: Effect,
}

/// RFC 9457, with the engine's members.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Problem {
    code: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    retryable: bool,
    #[serde(default)]
    pub(in crate::cli) execution_id: Option<ExecutionId>,
    /// How the call ended, `failed` or `cancelled`.
    #[serde(default)]
    pub(in crate::cli) outcome: Option<String>,
    #[serde(default)]
    details: Vec<Detail>,
    /// What is wrong with policies.
    #[serde(default)]
    pub(in crate::cli) problems: Vec<PolicyProblem>,
}

impl Reply {
    /// Reads it, up to a size, and only from where it was asked for.
    pub(super) async fn read(mut response: Response, effect: Effect) -> Result<Self, Failure> {
        let status = response.status().as_u16();
        if response.status().is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|it| it.to_str().ok()).unwrap_or("another place");
            let next = "name the place itself with `--server`, if it is the right one";
            return Err(Failure::could_not_run(format!("the server sends on to `{to}`, which is not followed"), next));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let is_json = matches!(kind, "application/json" | "application/problem+json");
        let is_replayed = response.headers().get("idempotent-replayed").is_some_and(|it| it == "true");
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(more)) if body.len() + more.len() <= MAX_ANSWER => body.extend_from_slice(&more),
                Ok(Some(_)) => return Err(lost(effect, "the answer is longer than 32 MiB")),
                Ok(None) => return Ok(Self { status, is_replayed, is_json, body, effect }),
                Err(error) => return Err(lost(effect, &format!("the answer ended early: {}", super::chain(&error)))),
            }
        }
    }

    /// The document, or the problem.
    pub(in crate::cli) fn document<T: DeserializeOwned>(&self) -> Result<Asked<T>, Failure> {
        match self.problem()? {
            Some(problem) => Ok(Err(problem.error(self.status)?)),
            None => serde_json::from_slice(&self.body).map(Ok).map_err(|_| self.foreign()),
        }
    }

    /// Why the engine said no, if it did.
    pub(in crate::cli) fn problem(&self) -> Result<Option<Problem>, Failure> {
        if self.is_json && (200..300).contains(&self.status) {
            return Ok(None);
        }
        let problem = serde_json::from_slice(&self.body).ok().filter(|_| self.is_json && self.status >= 400);
        problem.map(Some).ok_or_else(|| self.foreign())
    }

    /// The HTTP status.
    pub(in crate::cli) fn status(&self) -> u16 {
        self.status
    }

    /// Something else answers there, a proxy perhaps.
    fn foreign(&self) -> Failure {
        let what = format!("what answers there is no Countersign (status {})", self.status);
        match (self.effect, self.status) {
            // A proxy may have given up waiting for a call that goes on.
            (Effect::Possible, 500..) => may_have_happened(&what),
            (Effect::Possible | Effect::None, _) => {
                Failure::could_not_run(what, "name the root of its API with `--server`, without `/v1`")
            }
        }
    }
}

impl Problem {
    /// The engine's own words. What the transport alone says has no code that the engine knows.
    pub(in crate::cli) fn error(&self, status: u16) -> Result<Error, Failure> {
        let message = self.detail.clone().unwrap_or_else(|| self.title.clone());
        let Some(code) = ErrorCode::ALL.iter().find(|it| it.as_str() == self.code) else {
            let (exit, next) = match status {
                413 | 414 | 431 => (Exit::Invalid, "send less"),
                403 => {
                    (Exit::CouldNotRun, "call it by a name that it knows: `hosts` under `[http]` of its configuration")
                }
                404 | 405 => (Exit::CouldNotRun, "name the root of its API with `--server`, without `/v1`"),
                500.. => (Exit::Failed, "try again, and see the server's log"),
                _ => (Exit::CouldNotRun, "see that client and server are of the same version, and try again"),
            };
            return Err(Failure::ending(exit, format!("the server refuses: {message} ({})", self.code), next));
        };
        Ok(Error { code: *code, message, retryable: self.retryable, details: self.details.clone() })
    }
}

fn lost(effect: Effect, what: &str) -> Failure {
    match effect {
        Effect::None => Failure::could_not_run(what, "ask for less, or try again"),
        Effect::Possible => may_have_happened(what),
    }
}

/// It is not known whether what was asked for happened: that is no command that could not run.
pub(super) fn may_have_happened(what: &str) -> Failure {
    let next = "look at the trail: `countersign audit tail`; repeating is safe only with the same `--idempotency-key`";
    Failure::ending(Exit::Failed, format!("{what}; what was asked for may have happened"), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, is_json: bool, body: &str, effect: Effect) -> Reply {
        Reply { status, is_replayed: false, is_json, body: body.into(), effect }
    }

    #[test]
    fn what_no_countersign_says_is_told_apart_from_what_may_have_happened() {
        let told = |status, is_json, body, effect| {
            let failure = reply(status, is_json, body, effect).document::<Vec<u32>>().err().unwrap();
            format!("{failure:?}")
        };
        assert!(told(200, false, "[1]", Effect::None).contains("no Countersign (status 200)"));
        assert!(told(200, true, "<html>", Effect::None).contains("no Countersign"));
        assert!(told(404, false, "nothing here", Effect::Possible).contains("CouldNotRun"));
        assert!(told(502, false, "bad gateway", Effect::Possible).contains("may have happened"));
        assert!(told(502, false, "bad gateway", Effect::None).contains("CouldNotRun"));
        assert!(
            told(400, true, r#"{"code":"NEWER","title":"Something new."}"#, Effect::None)
                .contains("Something new. (NEWER)")
        );
    }

    #[test]
    fn a_problem_is_the_engines_own_error() {
        let body = r#"{"type":"about:blank","title":"Bad Request","detail":"The input is not valid.","status":400,
            "code":"INPUT_INVALID","retryable":false,"executionId":"e1","details":[{"path":"/a","keyword":"type"}]}"#;
        let error = reply(400, true, body, Effect::None).document::<u32>().unwrap().unwrap_err();
        let details = vec![Detail::Input { path: "/a".into(), keyword: "type".into(), nearest: None }];
        let message = "The input is not valid.".into();
        assert_eq!(error, Error { code: ErrorCode::InputInvalid, message, retryable: false, details });
        assert_eq!(reply(200, true, "[1]", Effect::None).document::<Vec<u32>>().unwrap(), Ok(vec![1]));
    }
}
