//! Procedures in any language: manifests, the endpoints and commands behind them, the examples and the contract's page.

mod canaries;
mod commands;
mod documents;
mod endpoints;
mod examples;
mod loading;
mod peer;
mod reconciling;
mod traces;

use std::path::Path;
use std::time::Duration;

use countersign::manifest::{ManifestSettings, load};
use countersign::testing::TestApp;
use countersign::{Actor, Capability, Engine, Outcome, PolicySource, Problem};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What signs calls in tests.
const SECRET: &str = "whsec_Y291bnRlcnNpZ24tdGVzdC1rZXktMDAx";

/// What will take its place.
const NEXT_SECRET: &str = "whsec_Y291bnRlcnNpZ24tdGVzdC1rZXktMDAy";

const POLICIES: &str = r#"
@id("anything") permit (principal, action in Action::"invoke", resource);
@id("managers-approve") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
"#;

/// The environment of the tests.
fn env(name: &str) -> Option<String> {
    let value = match name {
        "SIGNING_KEY" => SECRET,
        "NEXT_KEY" => NEXT_SECRET,
        "API_TOKEN" => "canary-mf-token",
        "LANG" => "C.UTF-8",
        "SHORT_KEY" => "whsec_c2hvcnQ=",
        "TWO_LINES" => "one\ntwo",
        _ => return None,
    };
    Some(value.to_owned())
}

/// The guard is the binary itself.
fn guarded() -> ManifestSettings {
    ManifestSettings::default().guard(env!("CARGO_BIN_EXE_countersign"))
}

/// A directory of manifests.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn of<T: AsRef<str>>(all: &[(&str, T)]) -> Self {
        let files = Self::new();
        for (name, text) in all {
            files.write(name, text.as_ref());
        }
        files
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn load(&self, settings: &ManifestSettings) -> Result<Vec<Capability>, Vec<Problem>> {
        load(self.path(), settings, &env)
    }

    /// Everything that is wrong, a line each, without the directory.
    fn problems(&self, settings: &ManifestSettings) -> String {
        let directory = format!("{}/", self.path().display());
        let all = self.load(settings).map(|it| it.len()).unwrap_err();
        let lines = all.iter().map(|it| format!("{}: {}; {}", it.at, it.what, it.fix));
        lines.collect::<Vec<_>>().join("\n").replace(&directory, "")
    }

    /// An application of these procedures alone.
    async fn app(&self, settings: &ManifestSettings) -> TestApp<()> {
        app(self.load(settings).unwrap()).await
    }
}

async fn app(capabilities: Vec<Capability>) -> TestApp<()> {
    let policies = PolicySource::Files(vec![("all.cedar".into(), POLICIES.into())]);
    TestApp::new(Engine::builder().capabilities(capabilities).policies(policies), |_| ()).await.unwrap()
}

fn dana() -> Actor {
    Actor::user("dana").role("support")
}

/// `text`, a manifest, with what every manifest has.
fn manifest(id: &str, effect: &str, handler: &str) -> String {
    format!(
        r#"
id = "{id}"
description = "For tests."
expose = ["direct"]
side_effect = "{effect}"
risk = "low"
timeout = "20s"
errors = {{ TOO_LATE = "It is too late." }}
input_schema = {{ type = "object", additionalProperties = true }}
output_schema = {{}}

[handler]
{handler}
"#
    )
}

/// What an outcome comes to, on one line: the output or code, whether to try again, and what the record says happened.
async fn fate(app: &TestApp<()>, outcome: &Outcome) -> String {
    let trail = app.trail_of(outcome.execution_id()).await;
    let executed = trail.entries().last().and_then(|it| it.data["executed"].as_str().map(String::from));
    match outcome {
        Outcome::Completed { output, .. } => format!("completed {}", json!(output)),
        Outcome::ApprovalRequired { .. } => "approval_required".into(),
        Outcome::Failed { error, .. } | Outcome::Cancelled { error, .. } => {
            let again = if error.retryable { ", retryable" } else { "" };
            let shown = error.details.first().map(|_| format!(" ({})", error.message)).unwrap_or_default();
            let view = app.executions(dana()).show(outcome.execution_id()).await.unwrap();
            let executed = executed.unwrap_or_else(|| "-".into());
            format!("{}{shown}{again}, executed {executed}: {}", error.code, json!(view.status).as_str().unwrap())
        }
    }
}

/// Calls as Dana, who waits for the end.
async fn invoke(app: &TestApp<()>, capability: &str, input: Value) -> Outcome {
    let call = app.on_behalf_of(dana()).invoke(capability, input);
    tokio::time::timeout(Duration::from_mins(1), call).await.expect("the call ends")
}
