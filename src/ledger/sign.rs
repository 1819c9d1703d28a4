//! Signing: only what grew out of what was signed before, and what rows and tree agree on.

use tlog_tiles::{check_tree, prove_tree, tree_hash};

use super::grow::number;
use super::key::LogKey;
use super::note::Signed;
use super::{Ledger, LedgerError, State, nodes};
use crate::clock::Clock;
use crate::store::op::Ledger as Step;
use crate::store::{LogReader, Store};

impl Ledger {
    /// Whether enough events have no checkpoint, or one of them for long enough.
    pub(super) fn is_due(&self, state: &mut State, clock: &Clock) -> bool {
        let (events, time) = self.every;
        let size = state.frontier.as_ref().map_or(0, super::Frontier::size);
        let signed = state.last.as_ref().map_or(0, |it| it.size);
        if size <= signed {
            state.waiting = None;
            return false;
        }
        let now = clock.monotonic();
        let waited = now.since(*state.waiting.get_or_insert(now));
        size - signed >= events || waited >= time
    }

    /// Signs the tree as it is; `None` if it is empty. The last checkpoint if nothing came after it.
    pub(super) async fn sign(
        &self,
        state: &mut State,
        key: &LogKey,
        store: &Store,
    ) -> Result<Option<Signed>, LedgerError> {
        let log = store.log();
        let last = self.known(state, key, &log).await?;
        let Some(frontier) = state.frontier.as_ref().filter(|it| it.size() > 0) else { return Ok(None) };
        let (size, root) = (frontier.size(), frontier.root());
        match last {
            Some(last) if last.size >= size => {
                // Another process signed it, or more.
                if last.size == size && last.root != root {
                    return Err(LedgerError::Refused(format!("two trees of {size} events are signed")));
                }
                self.remember(state, last.clone());
                return Ok(Some(last));
            }
            Some(last) => extends(&log, &last, size, root).await?,
            None => {}
        }
        if nodes::ask(&log, |it| tree_hash(size, it)).await? != root {
            return Err(LedgerError::Refused("its tree is not the tree of its events".into()));
        }
        let signed = Signed::new(key, size, root)?;
        store.ledger(Step::Checkpoint { size: number(size), note: signed.note.clone() }).await?;
        self.remember(state, signed.clone());
        Ok(Some(signed))
    }

    fn remember(&self, state: &mut State, signed: Signed) {
        self.health.signed(signed.size);
        state.waiting = None;
        state.last = Some(signed);
    }

    /// The largest checkpoint that anybody here remembers: the store, an anchor's file, this process. What one of them
    /// remembers and the store has forgotten is a reason to sign nothing.
    pub(super) async fn known(
        &self,
        state: &State,
        key: &LogKey,
        log: &LogReader,
    ) -> Result<Option<Signed>, LedgerError> {
        let stored = log.last_checkpoint().await?.map(|(_, note)| Signed::read(key, &note)).transpose()?;
        let mut remembered = state.last.clone();
        if remembered.is_none() {
            let anchored = self.anchors.iter().filter_map(|it| it.last(key));
            remembered = anchored.max_by_key(|it| it.size);
        }
        let size = |it: &Option<Signed>| it.as_ref().map_or(0, |it| it.size);
        if size(&stored) < size(&remembered) {
            let (stored, known) = (size(&stored), size(&remembered));
            let why = format!("a checkpoint of {known} events is known, and the last one on record is of {stored}");
            return Err(LedgerError::Refused(why));
        }
        if let (Some(one), Some(other)) = (&stored, &remembered)
            && one.size == other.size
            && one.root != other.root
        {
            return Err(LedgerError::Refused(format!("two trees of {} events are signed", one.size)));
        }
        Ok(stored)
    }
}

/// The consistency proof (RFC 6962, section 2.1.2) from the last checkpoint to the tree that is to be signed.
async fn extends(log: &LogReader, last: &Signed, size: u64, root: tlog_tiles::Hash) -> Result<(), LedgerError> {
    let refused = || LedgerError::Refused(format!("its first {} events are not what was signed", last.size));
    if nodes::ask(log, |it| tree_hash(last.size, it)).await? != last.root {
        return Err(refused());
    }
    if last.size == 0 {
        return Ok(());
    }
    let proof = nodes::ask(log, |it| prove_tree(size, last.size, it)).await?;
    check_tree(&proof, size, root, last.size, last.root).map_err(|_| refused())
}
