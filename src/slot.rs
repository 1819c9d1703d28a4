//! The name of an idempotency key in its scope.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::actor::Identity;
use crate::{CapabilityId, ExecutionId, IdempotencyKey};

/// base64url(SHA-256(scope + key)); the scope is tenant, issuer, actor id and capability (IDM-5). It names the key in
/// the store and is the key that handlers hand downstream: the raw one may be shared with other callers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot(String);

impl Slot {
    pub(crate) fn new(identity: &Identity, capability: &CapabilityId, key: &IdempotencyKey) -> Self {
        let actor = identity.actor();
        let scope = serde_json::json!([
            identity.tenant_name(),
            actor.and_then(|it| it.issuer.as_deref()),
            actor.map(|it| &it.id),
            capability,
            key,
        ]);
        Self(digest("countersign/key/v1\n", &scope.to_string()))
    }

    /// For a call without a key: its own, so that downstream always gets one.
    pub(crate) fn of_execution(execution: &ExecutionId) -> String {
        digest("countersign/execution/v1\n", execution)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

fn digest(domain: &str, text: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(domain);
    digest.update(text);
    BASE64_URL_SAFE_NO_PAD.encode(digest.finalize())
}
