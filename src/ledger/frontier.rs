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

#[cfg(test)]
mod tests {
    use ct_merkle::mem_backed_tree::MemoryBackedTree;
    use ct_merkle::{ConsistencyProof, RootHash};
    use tlog_tiles::{HashReader, prove_record, prove_tree, record_hash, stored_hashes_for_record_hash, tree_hash};

    use super::*;
    use crate::verify::trees::{TestTree, inclusion};

    /// Every hash in the order of the library that writes.
    #[derive(Default)]
    struct Stored(Vec<Hash>);

    impl HashReader for Stored {
        fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog_tiles::Error> {
            let at = |it: &u64| self.0.get(usize::try_from(*it).unwrap()).copied();
            indexes.iter().map(at).collect::<Option<_>>().ok_or(tlog_tiles::Error::IndexesNotInTree)
        }
    }

    /// Three trees over the same entries must have the same root at every size: the writer's two, and the verifier's own;
    /// and a fourth, of people who know neither, says what that root is.
    #[test]
    fn at_every_size_writer_verifier_and_oracle_have_one_root() {
        let mut oracle = MemoryBackedTree::<sha2::Sha256, Vec<u8>>::new();
        let (mut stored, mut frontier, mut verifier) = (Stored::default(), Frontier::default(), TestTree::default());
        let mut roots: Vec<RootHash<sha2::Sha256>> = Vec::new();
        for number in 0..600_u64 {
            let entry = format!("entry {number}").into_bytes();
            let leaf = record_hash(&entry);
            let more = stored_hashes_for_record_hash(number, leaf, &stored).unwrap();
            stored.0.extend(more);
            frontier.push(leaf);
            verifier.push(&entry);
            oracle.push(entry);
            let size = number + 1;
            let root = oracle.root();
            let found = [frontier.root().0, tree_hash(size, &stored).unwrap().0, verifier.root()];
            assert!(found.iter().all(|it| it[..] == root.as_bytes()[..]), "{size}");
            // From an earlier size: the proof that the writer checks before it signs is the oracle's.
            let old = size / 3;
            if old > 0 {
                let proof = prove_tree(size, old, &stored).unwrap();
                let digests: Vec<sha2::digest::Output<sha2::Sha256>> = proof.iter().map(|it| it.0.into()).collect();
                let proof = ConsistencyProof::<sha2::Sha256>::from_digests(digests.iter());
                root.verify_consistency(&roots[usize::try_from(old).unwrap() - 1], &proof).unwrap();
            }
            // The verifier follows the path that the writer gives, to the oracle's root, and no other leaf's.
            let index = number * 7 % size;
            let path: Vec<[u8; 32]> = prove_record(size, index, &stored).unwrap().iter().map(|it| it.0).collect();
            let leads = |index: u64, entry: u64| inclusion(index, size, format!("entry {entry}").as_bytes(), &path);
            assert_eq!(leads(index, index).unwrap()[..], root.as_bytes()[..], "{index} of {size}");
            assert_ne!(leads(index, index + 1), leads(index, index));
            assert!(size == 1 || leads((index + 1) % size, index) != leads(index, index), "{index} of {size}");
            roots.push(root);
        }
    }
}
