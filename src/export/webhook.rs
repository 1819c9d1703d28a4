//! A receiver of batches, signed as in Standard Webhooks. A batch that is sent again has the id that it had, if it is the
//! same.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::{Batch, Form, SinkError};
use crate::audit::hex;
use crate::clock::Clock;
use crate::notifications::Keys;
use crate::outbound;

/// How long one attempt may take.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Webhook {
    url: Url,
    keys: Keys,
    client: reqwest::Client,
}

impl Webhook {
    /// https, or http to this machine itself, and no password in it; `None` for any other address, or without a way to
    /// send.
    pub(crate) fn new(url: &str, keys: Keys) -> Option<Self> {
        let url = Url::parse(url).ok().filter(outbound::is_private)?;
        let is_bare = url.username().is_empty() && url.password().is_none();
        let client = outbound::client(LIMIT).ok()?;
        is_bare.then_some(Self { url, keys, client })
    }

    /// Its query may hold a secret.
    pub(super) fn name(&self) -> String {
        let port = self.url.port().map(|it| format!(":{it}")).unwrap_or_default();
        format!("{}://{}{port}{}", self.url.scheme(), self.url.host_str().unwrap_or_default(), self.url.path())
    }

    /// One POST. What the receiver answers besides its status is never read.
    pub(super) async fn send(&self, form: Form, batch: &Batch) -> Result<(), SinkError> {
        let (kind, body) = form.message(&batch.lines);
        let digest = hex(&Sha256::digest(body.as_bytes()));
        let id = format!("exp_{}_{}_{}", batch.first, batch.last, digest.get(..16).unwrap_or_default());
        let seconds = Clock::System.now().0.div_euclid(1_000_000);
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, kind);
        let request = request
            .header("webhook-id", &id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", self.keys.sign(&id, seconds, &body));
        match request.body(body).send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(SinkError::Answered(answer.status().as_u16())), // a redirect too: nobody else gets it
            Err(error) if error.is_timeout() => Err(SinkError::Unreachable("timeout")),
            Err(error) if error.is_connect() => Err(SinkError::Unreachable("no connection")),
            Err(_) => Err(SinkError::Unreachable("no answer")),
        }
    }
}
