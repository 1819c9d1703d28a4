//! Durations in classes. The library's own histogram takes a lock to observe; this one is three relaxed additions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the classes in nanoseconds, from 10 us to 60 s; above the last there is one more.
const BOUNDS: [u64; 14] = [
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
    10_000_000_000,
    60_000_000_000,
];

/// Durations in classes.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    classes: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

/// What a histogram has seen.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    /// Upper bound in seconds, and how many were in that class; the last one has none.
    pub(crate) classes: Vec<(f64, u64)>,
}

impl Histogram {
    pub(crate) fn observe(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let class = BOUNDS.partition_point(|it| *it < nanoseconds);
        if let Some(class) = self.classes.get(class) {
            class.fetch_add(1, Ordering::Relaxed);
            self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        }
    }

    /// As of now. Observations that are under way may be in the classes and not in the sum.
    pub(super) fn seen(&self) -> Seen {
        let counts: Vec<u64> = self.classes.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        let seconds = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        let bounds = BOUNDS.iter().map(|it| Duration::from_nanos(*it).as_secs_f64()).chain([f64::INFINITY]);
        Seen { count: counts.iter().sum(), seconds, classes: bounds.zip(counts).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_class_and_what_is_longer_than_all_to_the_last() {
        let histogram = Histogram::default();
        for nanoseconds in [0, 10_000, 10_001, 60_000_000_000, 60_000_000_001] {
            histogram.observe(Duration::from_nanos(nanoseconds));
        }
        let seen = histogram.seen();
        let filled: Vec<_> = seen.classes.iter().filter(|it| it.1 > 0).copied().collect();
        assert_eq!(filled, [(0.00001, 2), (0.00005, 1), (60.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((seen.count, seen.seconds > 120.0), (5, true));
    }
}
