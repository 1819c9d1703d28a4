//! A tree that only knows its perfect subtrees: enough to go on, and to know the root.

use tlog_tiles::{EMPTY_HASH, Hash, node_hash};

/// From the leaves of the log's rows, never from tiles: what is signed must be both.
#[derive(Clone, Debug, Default)]
pub(super) struct Frontier {
    size: u64,
    /// Roots of the perfect subtrees, from left to right.
    nodes: Vec<Hash>,
}

impl Frontier {
    /// A tree of this size with these subtrees.
    pub(super) fn of(size: u64, nodes: Vec<Hash>) -> Self {
        Self { size, nodes }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn push(&mut self, leaf: Hash) {
        let mut node = leaf;
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.nodes.pop() {
                node = node_hash(left, node);
            }
        }
        self.nodes.push(node);
        self.size += 1;
    }

    pub(super) fn root(&self) -> Hash {
        let mut nodes = self.nodes.iter().rev().copied();
        let Some(last) = nodes.next() else { return EMPTY_HASH };
        nodes.fold(last, |right, left| node_hash(left, right))
    }
}
