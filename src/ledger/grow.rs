//! Taking committed events into the tree, in portions, one process at a time.

use tlog_tiles::{Hash, sub_tree_index};

use super::frontier::Frontier;
use super::note::Signed;
use super::tiles::{Edge, hashes, leaf};
use super::{Ledger, LedgerError, State, nodes};
use crate::store::op::Ledger as Step;
use crate::store::{LogReader, Store};

/// How many events one transaction takes into the tree.
const PORTION: usize = 64 * 256;

/// How often another process may have been faster, in one round.
const OVERTAKEN: u32 = 8;

impl Ledger {
    /// Takes everything that is committed into the tree.
    pub(super) async fn grow(&self, state: &mut State, store: &Store) -> Result<(), LedgerError> {
        let log = store.log();
        let mut overtaken = 0;
        loop {
            let (events, in_tree) = log.heads().await?;
            let (events, in_tree) = (count(events)?, count(in_tree)?);
            self.health.grown(events, in_tree);
            if events < in_tree {
                let why = format!("it has {events} events, its tree {in_tree}");
                return Err(LedgerError::Refused(why));
            }
            self.catch_up(state, &log, in_tree).await?;
            if events == in_tree {
                return Ok(());
            }
            let mut edge = match state.edge.take() {
                Some(edge) if edge.size() == in_tree => edge,
                Some(_) | None => edge_of(&log, in_tree).await?,
            };
            let leaves = leaves(&log, in_tree, PORTION).await?;
            let tiles = edge.push(&leaves);
            let (from, to) = (number(in_tree), number(edge.size()));
            if store.ledger(Step::Grow { from, to, tiles }).await? {
                state.edge = Some(edge);
                if let Some(frontier) = &mut state.frontier {
                    for leaf in leaves {
                        frontier.push(leaf);
                    }
                }
            } else {
                overtaken += 1;
                if overtaken > OVERTAKEN {
                    return Ok(()); // somebody else does it
                }
            }
        }
    }

    /// Where checkpoints are signed: the same tree once more, from the rows that came after the last checkpoint.
    async fn catch_up(&self, state: &mut State, log: &LogReader, in_tree: u64) -> Result<(), LedgerError> {
        let Some(key) = &self.key else { return Ok(()) };
        if state.frontier.is_none() {
            let last = self.known(state, key, log).await?;
            state.frontier = Some(match &last {
                Some(last) => frontier_of(log, last, in_tree).await?,
                None => Frontier::default(),
            });
            state.last = last;
        }
        let Some(frontier) = &mut state.frontier else { return Ok(()) };
        while frontier.size() < in_tree {
            let portion = usize::try_from(in_tree - frontier.size()).unwrap_or(PORTION).min(PORTION);
            for leaf in leaves(log, frontier.size(), portion).await? {
                frontier.push(leaf);
            }
        }
        Ok(())
    }
}

/// The tree that a checkpoint signed, if the stored tree still is it.
async fn frontier_of(log: &LogReader, last: &Signed, in_tree: u64) -> Result<Frontier, LedgerError> {
    if last.size > in_tree {
        let why = format!("a checkpoint of {} events is signed, its tree has {in_tree}", last.size);
        return Err(LedgerError::Refused(why));
    }
    let indexes = sub_tree_index(0, last.size, Vec::new());
    let found = nodes::ask(log, |it| tlog_tiles::HashReader::read_hashes(it, &indexes)).await?;
    let frontier = Frontier::of(last.size, found);
    if frontier.root() != last.root {
        return Err(LedgerError::Refused(format!("its first {} events are not what was signed", last.size)));
    }
    Ok(frontier)
}

/// The leaf hashes of so many rows behind a place, without a gap.
async fn leaves(log: &LogReader, after: u64, limit: usize) -> Result<Vec<Hash>, LedgerError> {
    let rows = log.leaves(number(after), limit).await?;
    let mut place = after;
    let mut leaves = Vec::with_capacity(rows.len());
    for (seq, text) in rows {
        place += 1;
        if number(place) != seq {
            return Err(LedgerError::Refused(format!("event {place} is missing")));
        }
        let hash = leaf(text.as_bytes());
        leaves.push(hash.ok_or_else(|| LedgerError::Refused(format!("event {place} has no leaf hash")))?);
    }
    if leaves.is_empty() {
        return Err(LedgerError::Refused(format!("event {} is missing", after + 1)));
    }
    Ok(leaves)
}

/// The tiles that are not full, as they are stored.
async fn edge_of(log: &LogReader, size: u64) -> Result<Edge, LedgerError> {
    let wanted = Edge::partial(size);
    let names: Vec<_> = wanted.iter().map(|(level, place, _)| (i64::from(*level), number(*place))).collect();
    let mut tiles = Vec::new();
    let found = log.tiles(&names).await?;
    for (level, place, width) in wanted {
        let stored = found.iter().find(|it| it.0 == i64::from(level) && it.1 == number(place));
        // Wider by now, if another process was faster: then this growth comes too late.
        let mut hashes = stored.map(|it| hashes(&it.3)).transpose()?.filter(|it| it.len() >= width);
        if let Some(it) = &mut hashes {
            it.truncate(width);
        }
        let why = || LedgerError::Refused(format!("tile {place} of level {level} is missing or too short"));
        tiles.push((level, hashes.ok_or_else(why)?));
    }
    Ok(Edge::of(size, tiles))
}

fn count(number: i64) -> Result<u64, LedgerError> {
    u64::try_from(number).map_err(|_| LedgerError::Refused("it has less than no events".into()))
}

pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
