//! What happened to the rows that are not where the tree has them: which were edited, swapped, put in or taken out.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::hash::Hash;
use super::report::FindingKind;

/// Explains rows that are not what the reference has at their place (`strays`), and references whose place has no row, or
/// another one (`lost`), both by place. `end` is the last place with a row, `known` the last one with a reference.
///
/// A row whose hash is lost elsewhere has moved. Rows that moved in a circle were swapped. Others moved because some
/// before them were put in or taken out, and how far tells what is expected next; where that is lost and another row
/// stands there, that row was edited.
pub(super) fn explain(
    strays: &[(u64, Hash)],
    lost: &[(u64, Hash)],
    end: u64,
    known: u64,
) -> Vec<(u64, u64, FindingKind)> {
    let moved = moves(strays, lost);
    let circling = circles(&moved);
    let mut open: BTreeSet<u64> = lost.iter().map(|it| it.0).collect();
    for from in moved.values() {
        open.remove(from);
    }
    let mut found: Vec<(u64, u64, FindingKind)> =
        circling.iter().map(|place| (*place, *place, FindingKind::Swapped)).collect();
    let (mut before, mut shift) = (0, 0_i128);
    for (place, _) in strays {
        if before + 1 != *place {
            shift = 0; // the row before is where it belongs
        }
        before = *place;
        match moved.get(place) {
            Some(_) if circling.contains(place) => {}
            Some(from) => shift = i128::from(*from) - i128::from(*place),
            None => {
                let expected = u64::try_from(i128::from(*place) + shift).unwrap_or(0);
                if open.remove(&expected) {
                    found.push((expected, expected, FindingKind::Edited));
                } else if expected <= known {
                    shift -= 1;
                    found.push((*place, *place, FindingKind::Inserted));
                }
            }
        }
    }
    found.extend(gone(&open, lost, end));
    found
}

/// By place of the row, where it was.
fn moves(strays: &[(u64, Hash)], lost: &[(u64, Hash)]) -> HashMap<u64, u64> {
    let mut by_hash: HashMap<&Hash, u64> = HashMap::new();
    for (place, hash) in lost {
        by_hash.entry(hash).or_insert(*place);
    }
    let mut taken = HashSet::new();
    let found = strays.iter().filter_map(|(place, hash)| {
        let from = *by_hash.get(hash)?;
        taken.insert(from).then_some((*place, from))
    });
    found.collect()
}

/// Places whose rows changed places among each other.
fn circles(moved: &HashMap<u64, u64>) -> BTreeSet<u64> {
    let (mut circling, mut seen) = (BTreeSet::new(), HashSet::new());
    for start in moved.keys() {
        let mut path = Vec::new();
        let mut at = *start;
        while seen.insert(at) {
            path.push(at);
            match moved.get(&at) {
                Some(next) => at = *next,
                None => break,
            }
        }
        if let Some(first) = path.iter().position(|it| *it == at)
            && moved.contains_key(&at)
        {
            circling.extend(path.iter().skip(first));
        }
    }
    circling
}

/// What is not there any more: one by one, and the end of the log as one.
fn gone(open: &BTreeSet<u64>, lost: &[(u64, Hash)], end: u64) -> Vec<(u64, u64, FindingKind)> {
    let known = lost.last().map_or(0, |it| it.0);
    let mut cut = known + 1;
    while cut - 1 > end && open.contains(&(cut - 1)) {
        cut -= 1;
    }
    let mut found: Vec<_> = open.range(..cut).map(|it| (*it, *it, FindingKind::Missing)).collect();
    if cut <= known {
        found.push((cut, known, FindingKind::Tail));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::FindingKind::{Edited, Inserted, Missing, Swapped, Tail};
    use super::*;
    use crate::verify::hash::leaf;

    /// Rows by what they were: 1..=10 in a log of ten, 0 for one that is new; at the places 1, 2, ..
    fn explained(rows: &[u8]) -> Vec<(u64, u64, FindingKind)> {
        let hash = |it: u8| leaf(&[it]);
        let place = |at: usize| u64::try_from(at).unwrap() + 1;
        let there = |at: usize| rows.get(at).copied();
        let lost: Vec<_> = (1..=10_u8).filter(|it| there(usize::from(*it) - 1) != Some(*it)).collect();
        let lost: Vec<_> = lost.into_iter().map(|it| (u64::from(it), hash(it))).collect();
        let strays = rows.iter().enumerate().filter(|(at, it)| place(*at) != u64::from(**it));
        let strays: Vec<_> = strays.map(|(at, it)| (place(at), hash(*it))).collect();
        let mut found = explain(&strays, &lost, place(rows.len()) - 1, 10);
        found.sort_unstable();
        found
    }

    #[test]
    fn every_kind_of_change_is_told_from_the_others() {
        let one = |place, kind| vec![(place, place, kind)];
        assert_eq!(explained(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), []);
        assert_eq!(explained(&[1, 2, 3, 0, 5, 6, 7, 8, 9, 10]), one(4, Edited));
        assert_eq!(explained(&[0, 2, 3, 4, 5, 6, 7, 8, 9, 10]), one(1, Edited));
        assert_eq!(explained(&[1, 2, 3, 5, 6, 7, 8, 9, 10]), one(4, Missing));
        assert_eq!(explained(&[2, 3, 4, 5, 6, 7, 8, 9, 10]), one(1, Missing));
        assert_eq!(explained(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), one(10, Tail));
        assert_eq!(explained(&[1, 2, 3, 4, 5, 6]), [(7, 10, Tail)]);
        assert_eq!(explained(&[1, 2, 0, 3, 4, 5, 6, 7, 8, 9, 10]), one(3, Inserted));
        assert_eq!(explained(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), one(1, Inserted));
        assert_eq!(explained(&[1, 9, 3, 4, 5, 6, 7, 8, 2, 10]), [(2, 2, Swapped), (9, 9, Swapped)]);
        assert_eq!(explained(&[2, 1, 3, 4, 5, 6, 7, 8, 10, 9]).len(), 4);
    }

    #[test]
    fn what_came_after_the_last_reference_may_move_along() {
        assert_eq!(explained(&[1, 2, 4, 5, 6, 7, 8, 9, 10, 0]), [(3, 3, Missing)]);
    }

    #[test]
    fn changes_together_are_told_apart() {
        let taken_out_and_put_in = [1, 2, 4, 5, 6, 0, 7, 8, 9, 10];
        assert_eq!(explained(&taken_out_and_put_in), [(3, 3, Missing), (6, 6, Inserted)]);
        let two_taken_out = [1, 3, 4, 5, 6, 8, 9, 10];
        assert_eq!(explained(&two_taken_out), [(2, 2, Missing), (7, 7, Missing)]);
        let two_put_in = [1, 0, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        assert_eq!(explained(&two_put_in), [(2, 2, Inserted), (3, 3, Inserted)]);
        let edited_behind_a_gap = [1, 3, 4, 0, 6, 7, 8, 9, 10];
        assert_eq!(explained(&edited_behind_a_gap), [(2, 2, Missing), (5, 5, Edited)]);
        let swapped_and_cut = [2, 1, 3, 4, 5, 6, 7];
        assert_eq!(explained(&swapped_and_cut), [(1, 1, Swapped), (2, 2, Swapped), (8, 10, Tail)]);
    }
}
