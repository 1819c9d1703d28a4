//! Tells others what happened to approvals and executions: signed webhooks, from an outbox in the store. How receivers
//! take them is in `docs/notifications.md`.

mod deliver;
mod message;
mod settings;
mod sign;
mod webhook;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::deliver::Tally;
pub use self::settings::{NotificationSettings, WebhookSettings};

#[cfg(feature = "cli")]
pub(crate) use self::sign::key;
pub(crate) use self::sign::{Keys, PREFIX, decoded};

use self::deliver::{Deliverer, LIMIT};
use self::webhook::Webhook;
use crate::builder::Problem;
use crate::outbound;
use crate::pipeline::Core;
use crate::store::outbox::Subscriber;

/// Who is told of what, ready to be given to [`EngineBuilder::notifications`](crate::EngineBuilder::notifications).
#[derive(Clone, Debug)]
pub struct Notifications {
    webhooks: Vec<Webhook>,
    approval_url: Option<String>,
    client: reqwest::Client,
}

impl Notifications {
    /// Checks the settings and fetches the secrets: relative files count from `base`, and `env` reads the environment.
    ///
    /// # Errors
    /// Every problem at once. No webhook at all is none.
    pub fn open(
        settings: &NotificationSettings,
        base: &Path,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<Problem>> {
        let webhooks = webhook::read(settings, base, env)?;
        // A little longer than an attempt, which ends by the engine's clock.
        let client = outbound::client(LIMIT + Duration::from_secs(5)).map_err(|error| {
            vec![Problem::new("notifications", format!("no client can be made: {error}"), "see to the trust store")]
        })?;
        Ok(Self { webhooks, approval_url: settings.approval_url.clone(), client })
    }

    /// What whoever writes events must know.
    pub(crate) fn subscribers(&self) -> Vec<Subscriber> {
        self.webhooks.iter().map(Webhook::subscriber).collect()
    }

    /// A deliverer for each webhook, to be run until the engine stops. `claim`: how long what one took up is left alone.
    pub(crate) fn deliverers(
        self,
        core: &Arc<Core>,
        claim: Duration,
    ) -> impl Iterator<Item = impl Future<Output = ()> + use<>> {
        let (clock, stop, told) = (core.clock.clone(), core.stop.clone(), core.store.told());
        let core = Arc::downgrade(core);
        let Self { webhooks, approval_url, client } = self;
        webhooks.into_iter().map(move |webhook| {
            let (core, approval_url, client) = (core.clone(), approval_url.clone(), client.clone());
            let deliverer = Deliverer { core, webhook, approval_url, client, claim };
            deliverer.deliver(clock.clone(), stop.clone(), told.clone())
        })
    }
}
