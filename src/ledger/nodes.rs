//! Nodes of the tree, from stored tiles: what proofs and roots are made of.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use tlog_tiles::{Error, Hash, HashReader, Tile, split_stored_hash_index};

use super::LedgerError;
use super::tiles::{FULL, hashes};
use crate::store::LogReader;

/// How often more tiles are fetched for one answer: each asks for all that it needs at once.
const TRIES: u32 = 4;

/// Tiles by level and place, and which ones were asked for and are not there.
#[derive(Default)]
pub(super) struct Nodes {
    tiles: HashMap<(u8, u64), Vec<Hash>>,
    missing: RefCell<BTreeSet<(u8, u64)>>,
}

/// Answers a question about the tree, fetching the tiles that it takes.
pub(super) async fn ask<T>(log: &LogReader, question: impl Fn(&Nodes) -> Result<T, Error>) -> Result<T, LedgerError> {
    let mut nodes = Nodes::default();
    for _ in 0..TRIES {
        let missing: Vec<_> = match question(&nodes) {
            Ok(answer) => return Ok(answer),
            Err(error) => {
                let missing = std::mem::take(&mut *nodes.missing.borrow_mut());
                if missing.is_empty() {
                    return Err(LedgerError::Refused(format!("its tree proves nothing: {error}")));
                }
                missing.into_iter().collect()
            }
        };
        let before = nodes.tiles.len();
        nodes.fetch(log, &missing).await?;
        if nodes.tiles.len() == before {
            let (level, place) = missing.first().copied().unwrap_or_default();
            return Err(LedgerError::Refused(format!("tile {place} of level {level} is missing or too short")));
        }
    }
    Err(LedgerError::Refused("its tree has too many holes".into()))
}

impl Nodes {
    async fn fetch(&mut self, log: &LogReader, tiles: &[(u8, u64)]) -> Result<(), LedgerError> {
        let named = |(level, place): &(u8, u64)| (i64::from(*level), i64::try_from(*place).unwrap_or(i64::MAX));
        for (level, place, _, text) in log.tiles(&tiles.iter().map(named).collect::<Vec<_>>()).await? {
            let key = (u8::try_from(level).unwrap_or(u8::MAX), u64::try_from(place).unwrap_or(u64::MAX));
            self.tiles.insert(key, hashes(&text)?);
        }
        Ok(())
    }

    /// The root of a perfect subtree.
    fn node(&self, index: u64) -> Option<Hash> {
        let (level, place) = split_stored_hash_index(index);
        let (tile, inner) = (level / 8, level % 8);
        let first = place << inner; // among the hashes of the tile's level
        let key = (tile, first / 256);
        let start = usize::try_from(first % 256).ok()?;
        let found = self.tiles.get(&key).and_then(|it| it.get(start..(start + (1 << inner)).min(FULL)));
        let Some(part) = found else {
            self.missing.borrow_mut().insert(key);
            return None;
        };
        let bytes: Vec<u8> = part.iter().flat_map(|it| it.0).collect();
        Some(Tile::subtree_hash(&bytes))
    }
}

impl HashReader for Nodes {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, Error> {
        let found: Vec<_> = indexes.iter().map(|it| self.node(*it)).collect(); // every miss is noted
        found.into_iter().collect::<Option<_>>().ok_or(Error::IndexesNotInTree)
    }
}
