//! Tiles (C2SP tlog-tiles): the tree's hashes in portions of 256, as they are stored and as they are named.

use tlog_tiles::{Hash, Tile};

use super::LedgerError;
use crate::audit::hex;
use crate::store::op::TileRow;

/// How many hashes a full tile has.
pub(crate) const FULL: usize = 256;

/// How many levels of tiles there are: enough for 2^56 leaves.
const LEVELS: usize = 7;

/// The tiles that are not full yet, one a level: where the tree grows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Edge {
    size: u64,
    levels: Vec<Vec<Hash>>,
}

impl Edge {
    /// The tiles that are not full in a tree of this size, by level and place.
    pub(super) fn partial(size: u64) -> Vec<(u8, u64, usize)> {
        let level = |level: u8| {
            let count = size >> (8 * u32::from(level));
            let width = usize::try_from(count % 256).unwrap_or(0);
            (width > 0).then_some((level, count / 256, width))
        };
        (0..7).filter_map(level).collect()
    }

    /// The edge of a tree of this size, from its partial tiles.
    pub(super) fn of(size: u64, tiles: impl IntoIterator<Item = (u8, Vec<Hash>)>) -> Self {
        let mut levels = vec![Vec::new(); LEVELS];
        for (level, hashes) in tiles {
            if let Some(it) = levels.get_mut(usize::from(level)) {
                *it = hashes;
            }
        }
        Self { size, levels }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Takes leaves, and returns every tile that is another one now.
    pub(super) fn push(&mut self, leaves: &[Hash]) -> Vec<TileRow> {
        let before = self.size;
        let mut rows = Vec::new();
        self.levels.resize(LEVELS, Vec::new());
        for leaf in leaves {
            self.size += 1;
            let mut hash = *leaf;
            for (level, tile) in self.levels.iter_mut().enumerate() {
                tile.push(hash);
                if tile.len() < FULL {
                    break;
                }
                let bytes: Vec<u8> = tile.iter().flat_map(|it| it.0).collect();
                hash = Tile::subtree_hash(&bytes);
                rows.push(row(level, (self.size >> (8 * (level + 1))) - 1, tile));
                tile.clear();
            }
        }
        for (level, tile) in self.levels.iter().enumerate() {
            if !tile.is_empty() && before >> (8 * level) != self.size >> (8 * level) {
                rows.push(row(level, self.size >> (8 * (level + 1)), tile));
            }
        }
        rows
    }
}

fn row(level: usize, place: u64, hashes: &[Hash]) -> TileRow {
    let number = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    TileRow {
        level: i64::try_from(level).unwrap_or(i64::MAX),
        place: number(place),
        width: i64::try_from(hashes.len()).unwrap_or(i64::MAX),
        hashes: hashes.iter().map(|it| hex(&it.0)).collect(),
    }
}

/// Hashes of a stored tile.
pub(crate) fn hashes(text: &str) -> Result<Vec<Hash>, LedgerError> {
    let hash = |it: &[u8]| leaf(it).ok_or_else(|| LedgerError::Refused("a tile holds what is no hash".into()));
    text.as_bytes().chunks(64).map(hash).collect()
}

/// A hash from its 64 digits.
pub(super) fn leaf(digits: &[u8]) -> Option<Hash> {
    let digit = |it: u8| match it {
        b'0'..=b'9' => Some(it - b'0'),
        b'a'..=b'f' => Some(it - b'a' + 10),
        _ => None,
    };
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        *byte = match *pair {
            [high, low] => digit(high)? << 4 | digit(low)?,
            _ => return None,
        };
    }
    (digits.len() == 64).then_some(Hash(hash))
}

/// What a path under `tile/` names.
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TilePath {
    /// 0..=7; `None`: entries.
    pub(crate) level: Option<u8>,
    pub(crate) place: u64,
    /// 1..=256.
    pub(crate) width: usize,
}

#[cfg(feature = "http")]
impl TilePath {
    /// `<L>/<N>[.p/<W>]` or `entries/<N>[.p/<W>]`, in the one spelling that there is of it.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let (level, rest) = path.split_once('/')?;
        let level = if level == "entries" { None } else { Some(number(level, 63)?) };
        let (place, width) = match rest.split_once(".p/") {
            Some((place, width)) => (place, usize::try_from(number::<u64>(width, 255)?).ok().filter(|it| *it > 0)?),
            None => (rest, FULL),
        };
        let mut parts: Vec<&str> = place.split('/').collect();
        let last = parts.pop()?;
        let mut number = group(last)?;
        let mut weight = 1_u64;
        for part in parts.iter().rev() {
            weight = weight.checked_mul(1_000)?;
            number = group(part.strip_prefix('x')?)?.checked_mul(weight)?.checked_add(number)?;
        }
        // No leading groups of zeros.
        let is_shortest = parts.first().is_none_or(|it| *it != "x000");
        is_shortest.then_some(Self { level, place: number, width })
    }

    /// The last event of a full one of entries.
    pub(crate) fn end(&self) -> i64 {
        i64::try_from(self.place.saturating_add(1).saturating_mul(256)).unwrap_or(i64::MAX)
    }

    /// Whether a tree of this size has it.
    pub(crate) fn is_in(&self, size: u64) -> bool {
        let shift = 8 * u32::from(self.level.unwrap_or(0));
        let count = size.checked_shr(shift).unwrap_or(0);
        let end = self.place.checked_mul(256).and_then(|it| it.checked_add(u64::try_from(self.width).ok()?));
        end.is_some_and(|it| it <= count)
    }
}

#[cfg(feature = "http")]
fn group(digits: &str) -> Option<u64> {
    if digits.len() == 3 && digits.bytes().all(|it| it.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Decimal, without leading zeros, at most `most`.
#[cfg(feature = "http")]
fn number<T: std::str::FromStr + PartialOrd + From<u8>>(digits: &str, most: u8) -> Option<T> {
    let is_plain = digits.bytes().all(|it| it.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|it| is_plain && *it <= T::from(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        let tile = |level, place, width| Some(TilePath { level, place, width });
        assert_eq!(TilePath::parse("0/000"), tile(Some(0), 0, 256));
        assert_eq!(TilePath::parse("1/x001/x234/067.p/8"), tile(Some(1), 1_234_067, 8));
        assert_eq!(TilePath::parse("entries/005.p/255"), tile(None, 5, 255));
        for wrong in [
            "",
            "0",
            "0/0",
            "0/0000",
            "00/000",
            "64/000",
            "0/000.p/0",
            "0/000.p/256",
            "0/000.p/01",
            "0/x000/001",
            "0/001/x002",
            "0/x001/2",
            "0/000.p/",
            "data/000",
            "-1/000",
            "0/+01",
            "0/x999/x999/x999/x999/x999/x999/x999/999",
        ] {
            assert_eq!(TilePath::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_tree_of_70_000_has_the_tiles_that_the_standard_says() {
        let is_in = |path: &str| TilePath::parse(path).unwrap().is_in(70_000);
        let there =
            ["0/000", "0/272", "0/273.p/112", "0/273.p/1", "1/000", "1/001.p/17", "2/000.p/1", "entries/273.p/112"];
        let not_there = ["0/273", "0/273.p/113", "1/001", "1/001.p/18", "2/000.p/2", "3/000.p/1", "63/000.p/1"];
        assert!(there.into_iter().all(is_in));
        assert!(!not_there.into_iter().any(is_in));
    }

    #[test]
    fn an_edge_grows_the_same_tiles_in_whatever_portions() {
        let leaves: Vec<Hash> = (0..70_000_u32).map(|it| tlog_tiles::record_hash(&it.to_be_bytes())).collect();
        let last = |rows: Vec<TileRow>| {
            let tiles = rows.into_iter().map(|it| ((it.level, it.place), (it.width, it.hashes)));
            tiles.collect::<std::collections::BTreeMap<_, _>>()
        };
        let mut whole = Edge::default();
        let at_once = last(whole.push(&leaves));
        let mut parts = (Edge::default(), Vec::new());
        for portion in leaves.chunks(777) {
            parts.1.extend(parts.0.push(portion));
        }
        assert!(parts.0 == whole && last(parts.1) == at_once);
        assert_eq!(at_once.len(), 273 + 1 + 2 + 1);
        let partial: Vec<_> = Edge::partial(70_000);
        assert_eq!(partial, [(0, 273, 112), (1, 1, 17), (2, 0, 1)]);
    }
}
