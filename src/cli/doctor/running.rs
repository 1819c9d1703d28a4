//! Asking a server that runs whether it is ready: what a container's health check does. Needs no token.

use std::time::Duration;

use url::Url;

use super::finding::Finding;
use crate::outbound;

/// How long it has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn look(url: &Url) -> Vec<Finding> {
    let what = match ask(url).await {
        Ok(200) => return vec![Finding::good("server", format!("{url} is ready"))],
        Ok(status) => format!("{url} is not ready: HTTP status {status}"),
        Err(error) => format!("{url} does not answer: {}", error.without_url()),
    };
    vec![Finding::bad("server", what, "see its log")]
}

async fn ask(url: &Url) -> Result<u16, reqwest::Error> {
    let mut ready = url.clone();
    ready.set_path("/readyz");
    let answer = outbound::client(PATIENCE)?.get(ready).send().await?;
    Ok(answer.status().as_u16())
}
