//! The stored tree's leaves, as verification reads them.

use super::hash::{Hash, from_hex};
use super::{VerifyError, report};
use crate::store::Evidence;

/// How many tiles are read at once.
const TILES: i64 = 64;

/// The hashes of the stored tree's leaves, in order.
pub(super) struct Tiles {
    /// Index of the first hash that is at hand.
    first: u64,
    hashes: Vec<Option<Hash>>,
    /// Where they end, once that is known.
    pub(super) end: Option<u64>,
}

impl Tiles {
    /// From behind this place on.
    pub(super) fn from(start: u64) -> Self {
        Self { first: start, hashes: Vec::new(), end: None }
    }

    /// The hash of a leaf; `None` where the tree has none.
    pub(super) async fn at(&mut self, index: u64, evidence: &mut Evidence) -> Result<Option<Hash>, VerifyError> {
        if self.end.is_some_and(|it| index >= it) {
            return Ok(None);
        }
        let held = self.first + u64::try_from(self.hashes.len()).unwrap_or(0);
        if index < self.first || index >= held {
            self.fetch(index, evidence).await?;
        }
        let at = usize::try_from(index - self.first).unwrap_or(usize::MAX);
        Ok(self.hashes.get(at).copied().flatten())
    }

    async fn fetch(&mut self, index: u64, evidence: &mut Evidence) -> Result<(), VerifyError> {
        let from = index / 256;
        let rows = evidence.tiles(0, report::number(from), TILES).await?;
        self.first = from * 256;
        self.hashes = Vec::new();
        let mut last = None;
        for (place, hashes) in rows {
            let Some(place) = place.and_then(|it| String::from_utf8(it).ok()).and_then(|it| it.parse::<u64>().ok())
            else {
                continue;
            };
            let hashes = hashes.unwrap_or_default();
            last = Some(place * 256 + u64::try_from(hashes.len() / 64).unwrap_or(0));
            // A tile behind a hole in the tree is fetched when its turn comes.
            let offset = usize::try_from(place.saturating_sub(from)).unwrap_or(usize::MAX);
            if offset < usize::try_from(TILES).unwrap_or(0) {
                self.hashes.resize(offset * 256, None);
                self.hashes.extend(hashes.chunks(64).take(256).map(from_hex));
            }
        }
        if last.is_none_or(|it| it <= index) {
            self.end = Some(last.unwrap_or(index).min(index));
        } else {
            let held = usize::try_from(TILES).unwrap_or(0) * 256;
            let reaches = last.unwrap_or(0) >= self.first + u64::try_from(held).unwrap_or(0);
            if reaches {
                self.hashes.resize(held.max(self.hashes.len()), None);
            }
        }
        Ok(())
    }
}
