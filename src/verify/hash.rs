//! Hashes and trees of RFC 6962, section 2.1, and checking a path in one (RFC 9162, section 2.1.3.2).

use sha2::{Digest as _, Sha256};

pub(super) type Hash = [u8; 32];

pub(super) fn leaf(entry: &[u8]) -> Hash {
    Sha256::new_with_prefix([0]).chain_update(entry).finalize().into()
}

pub(super) fn node(left: &Hash, right: &Hash) -> Hash {
    Sha256::new_with_prefix([1]).chain_update(left).chain_update(right).finalize().into()
}

/// A tree that grows at its right end, as the roots of its complete parts, the highest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    size: u64,
    peaks: Vec<(u32, Hash)>,
}

impl Tree {
    /// A tree of this size from the roots of its complete parts; `None` if there are not as many as that takes.
    pub(super) fn of(size: u64, peaks: &[Hash]) -> Option<Self> {
        let heights: Vec<u32> = (0..u64::BITS).rev().filter(|it| size >> it & 1 == 1).collect();
        let peaks = (heights.len() == peaks.len()).then(|| heights.into_iter().zip(peaks.iter().copied()).collect())?;
        Some(Self { size, peaks })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn peaks(&self) -> impl Iterator<Item = &Hash> {
        self.peaks.iter().map(|(_, it)| it)
    }

    /// Takes a leaf. The root of a complete part of 256 leaves, if that was the last one of it.
    pub(super) fn push(&mut self, leaf: Hash) -> Option<Hash> {
        let (mut height, mut hash, mut complete) = (0, leaf, None);
        while let Some((_, left)) = self.peaks.pop_if(|it| it.0 == height) {
            hash = node(&left, &hash);
            height += 1;
            if height == 8 {
                complete = Some(hash);
            }
        }
        self.peaks.push((height, hash));
        self.size += 1;
        complete
    }

    pub(super) fn root(&self) -> Hash {
        let mut peaks = self.peaks.iter().rev().map(|(_, it)| *it);
        let Some(lowest) = peaks.next() else { return Sha256::digest([]).into() };
        peaks.fold(lowest, |right, left| node(&left, &right))
    }
}

/// The root of the complete tree over these hashes, of which there must be a power of two.
pub(super) fn complete(hashes: &[Hash]) -> Option<Hash> {
    let mut tree = Tree::default();
    for hash in hashes {
        tree.push(*hash);
    }
    hashes.len().is_power_of_two().then(|| tree.root())
}

/// The root that a path from a leaf leads to; `None` if it is no path of a tree of this size.
pub(super) fn follow(index: u64, size: u64, leaf: Hash, path: &[Hash]) -> Option<Hash> {
    if index >= size {
        return None;
    }
    let (mut at, mut last, mut hash) = (index, size - 1, leaf);
    for sibling in path {
        if last == 0 {
            return None;
        }
        if at & 1 == 1 || at == last {
            hash = node(sibling, &hash);
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            hash = node(&hash, sibling);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    (last == 0).then_some(hash)
}

/// A hash from 64 lower-case hexadecimal digits.
pub(super) fn from_hex(digits: &[u8]) -> Option<Hash> {
    let value = |digit: u8| b"0123456789abcdef".iter().position(|it| *it == digit).and_then(|it| u8::try_from(it).ok());
    let bytes = digits.chunks_exact(2).map(|pair| Some(value(pair[0])? * 16 + value(pair[1])?));
    if digits.len() == 64 { bytes.collect::<Option<Vec<u8>>>()?.try_into().ok() } else { None }
}
