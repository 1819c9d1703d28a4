//! Asking a server that runs whether it is ready: what a container's health check does. Needs no token.

use std::time::Duration;

use serde::Deserialize;
use url::Url;

use super::finding::Finding;
use crate::outbound;

/// More than a server has to say of itself.
const MAX_BODY: usize = 64 * 1024;

/// How long it has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What it says of itself; any other answer says nothing.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Ready {
    warnings: Vec<String>,
}

pub(super) async fn look(url: &Url) -> Vec<Finding> {
    let what = match ask(url).await {
        Ok((200, warnings)) => {
            let ready = Finding::good("server", format!("{url} is ready"));
            return std::iter::once(ready).chain(warnings.iter().map(|it| warning(it))).collect();
        }
        Ok((status, _)) => format!("{url} is not ready: HTTP status {status}"),
        Err(error) => format!("{url} does not answer: {}", error.without_url()),
    };
    vec![Finding::bad("server", what, "see its log")]
}

/// Its status, and what it warns of.
async fn ask(url: &Url) -> Result<(u16, Vec<String>), reqwest::Error> {
    let mut ready = url.clone();
    ready.set_path("/readyz");
    let mut answer = outbound::client(PATIENCE)?.get(ready).send().await?;
    let status = answer.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BODY {
            break;
        }
    }
    let Ready { warnings } = serde_json::from_slice(&body).unwrap_or_default();
    Ok((status, warnings))
}

fn warning(word: &str) -> Finding {
    match word {
        "log_refused" => Finding::note(
            "log",
            "no checkpoint is signed, or the tree does not grow",
            "see the server's log, and look into it: `countersign audit verify`",
        ),
        "log_anchors_failing" => {
            Finding::note("anchors", "some take no checkpoints now", "see the server's log, and to what they need")
        }
        _ => Finding::note("server", format!("it warns of `{word}`"), "see its log"),
    }
}
