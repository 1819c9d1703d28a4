//! A slow procedure that stops when it is told to.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Desk;
use crate::{Capability, HandlerError, Invocation, Risk, Surface};

/// How long one page of a full export takes.
const PAGE: Duration = Duration::from_millis(50);

/// The pages of a full export: far more than the time allows.
const PAGES: u32 = 200;

pub(super) fn capabilities() -> [Capability<Desk>; 1] {
    [Capability::read("reports.export")
        .risk(Risk::Medium)
        .description("Export a month's orders: a summary, or in full, which takes long.")
        .expose([Surface::Direct, Surface::Http, Surface::Workflow, Surface::Test])
        .tags(["reports"])
        .timeout(Duration::from_millis(300))
        .handler(export)]
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Extent {
    #[default]
    Summary,
    Full,
}

#[derive(Deserialize, JsonSchema)]
struct Export {
    /// The month, `2026-06`.
    #[schemars(regex(pattern = r"^[0-9]{4}-(0[1-9]|1[0-2])$"))]
    month: String,
    /// How much of it.
    #[serde(default)]
    extent: Extent,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Exported {
    month: String,
    orders: usize,
    total_cents: u64,
}

async fn export(cx: Invocation<Desk>, input: Export) -> Result<Exported, HandlerError> {
    let orders = cx.app().orders("").await;
    let pages = match input.extent {
        Extent::Summary => 0,
        Extent::Full => PAGES,
    };
    for _ in 0..pages {
        tokio::select! {
            () = tokio::time::sleep(PAGE) => {}
            () = cx.cancelled() => return Err(HandlerError::not_executed("stopped between two pages")),
        }
    }
    let total_cents = orders.iter().map(|it| u64::from(it.total_cents)).sum();
    Ok(Exported { month: input.month, orders: orders.len(), total_cents })
}
