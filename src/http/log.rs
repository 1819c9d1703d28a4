//! The log as others follow and witness it: C2SP tlog-tiles under `/v1/audit/log/`. What the last checkpoint covers, and
//! nothing younger.
//!
//! Hashes say nothing of an event to whoever does not have it: its id is random. So a permit for `read_audit` is enough
//! for them, or `public_log`. Entries are those of all tenants: for members of the tenant `log_readers`, with the permit;
//! to everybody else they do not exist.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::App;
use super::asking::Asking;
use super::problem::{Problem, Transport};
use crate::Identity;
use crate::ledger::{LedgerError, TilePath, hashes};
use crate::pipeline::Core;
use crate::rejection::Rejection;
use crate::store::StoreError;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// What is under a path never changes.
const FOR_EVERYBODY: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const FOR_ONE: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");

/// Tiles and entries, whose paths have any number of parts.
pub(super) fn tiles() -> Router<Arc<App>> {
    Router::new().route("/v1/audit/log/tile/{*path}", get(tile))
}

/// The last checkpoint.
pub(super) async fn checkpoint(State(app): State<Arc<App>>, asking: Asking) -> Result<Response, Problem> {
    let core = &app.gateway.core;
    may_read_hashes(core, &asking.identity()).await?;
    let last = core.store.log().last_checkpoint().await.map_err(unavailable)?;
    let (_, note) = last.ok_or(Transport::RouteNotFound)?;
    Ok(([(CONTENT_TYPE, TEXT)], note).into_response())
}

async fn tile(State(app): State<Arc<App>>, Path(path): Path<String>, asking: Asking) -> Result<Response, Problem> {
    let core = &app.gateway.core;
    let tile = TilePath::parse(&path).ok_or(Transport::RouteNotFound)?;
    match tile.level {
        Some(_) => may_read_hashes(core, &asking.identity()).await?,
        None => may_read_entries(core, &asking.identity()).await?,
    }
    let last = core.store.log().last_checkpoint().await.map_err(unavailable)?;
    let covered = last.and_then(|(size, _)| u64::try_from(size).ok()).unwrap_or(0);
    if !tile.is_in(covered) {
        return Err(Transport::RouteNotFound.into());
    }
    let bytes = match tile.level {
        Some(level) => hashes_of(core, level, &tile).await?,
        None => entries_of(core, &tile).await?,
    };
    let is_public = core.ledger.readers().everybody && tile.level.is_some();
    let cached = if is_public { FOR_EVERYBODY } else { FOR_ONE };
    Ok(([(CONTENT_TYPE, BYTES), (CACHE_CONTROL, cached)], bytes).into_response())
}

async fn may_read_hashes(core: &Core, identity: &Identity) -> Result<(), Problem> {
    if core.ledger.readers().everybody {
        return Ok(());
    }
    Ok(core.may_read_audit(identity).await?)
}

async fn may_read_entries(core: &Core, identity: &Identity) -> Result<(), Problem> {
    let readers = core.ledger.readers().tenant.as_deref();
    if identity.actor().is_some() && readers != Some(identity.tenant_name()) {
        return Err(Transport::RouteNotFound.into());
    }
    Ok(core.may_read_audit(identity).await?)
}

async fn hashes_of(core: &Core, level: u8, tile: &TilePath) -> Result<Vec<u8>, Problem> {
    let name = (i64::from(level), i64::try_from(tile.place).unwrap_or(i64::MAX));
    let stored = core.store.log().tiles(&[name]).await.map_err(unavailable)?.pop();
    let (.., text) = stored.ok_or_else(|| damaged("a tile is missing"))?;
    let hashes = hashes(&text).map_err(|error| match error {
        LedgerError::Refused(why) => damaged(&why),
        LedgerError::NoKey | LedgerError::Store(_) => Problem::unavailable(),
    })?;
    let wanted = hashes.get(..tile.width).ok_or_else(|| damaged("a tile is too short"))?;
    Ok(wanted.iter().flat_map(|it| it.0).collect())
}

/// Each entry behind its length, two bytes with the high one first.
async fn entries_of(core: &Core, tile: &TilePath) -> Result<Vec<u8>, Problem> {
    let before = i64::try_from(tile.place.saturating_mul(256)).unwrap_or(i64::MAX);
    let bodies = core.store.log().bodies(before, tile.width).await.map_err(unavailable)?;
    let begins = bodies.first().is_some_and(|it| it.0 == before.saturating_add(1));
    if !begins && tile.end() <= core.store.log().detached().await.map_err(unavailable)? {
        return Err(Transport::RouteNotFound.into()); // below the minimum index: an archive has it
    }
    let mut bytes = Vec::new();
    for ((seq, body), place) in bodies.iter().zip(before.saturating_add(1)..) {
        let length = u16::try_from(body.len()).map_err(|_| damaged("an event is too long"))?;
        if *seq != place {
            return Err(damaged("an event is missing"));
        }
        bytes.extend(length.to_be_bytes());
        bytes.extend(body.as_bytes());
    }
    if bodies.len() == tile.width { Ok(bytes) } else { Err(damaged("an event is missing")) }
}

/// The log is not what was signed. Loud in the log, and nothing is served instead of it.
fn damaged(why: &str) -> Problem {
    tracing::error!(why, "the log is damaged: look into it with `countersign audit verify`");
    Problem::internal()
}

fn unavailable(error: StoreError) -> Problem {
    Rejection::from(error).face().into()
}
