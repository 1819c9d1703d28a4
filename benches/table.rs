//! Rounds in turns, medians, and a table of figures beside their floors.

use std::time::{Duration, Instant};

/// The instant now.
#[expect(clippy::disallowed_methods, reason = "the one place of the benchmarks")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The middle one.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How long one of `count` took, in microseconds.
pub(crate) fn each(took: Duration, count: u32) -> f64 {
    took.as_secs_f64() * 1e6 / f64::from(count)
}

/// What a ratio must be.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// Every figure of a run.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<[String; 6]>,
    missed: bool,
}

impl Table {
    /// A figure that stands for itself.
    pub(crate) fn note(&mut self, what: &str, figure: String) {
        self.rows.push([what.into(), figure, "-".into(), "-".into(), "-".into(), "-".into()]);
    }

    /// A figure beside what it is compared with, for information only.
    pub(crate) fn compare(&mut self, what: &str, (figure, floor): (f64, f64), unit: &str) {
        let (ratio, none) = (format!("{:.2}", figure / floor), "-".to_owned());
        self.rows.push([what.into(), show(figure, unit), show(floor, unit), ratio, none.clone(), none]);
    }

    /// A figure beside its floor, with what their ratio must be.
    pub(crate) fn judge(&mut self, what: &str, (figure, floor): (f64, f64), unit: &str, target: Target) {
        self.compare(what, (figure, floor), unit);
        self.demand(figure / floor, target, "");
    }

    /// A figure that must itself be below a limit.
    pub(crate) fn limit(&mut self, what: &str, figure: f64, unit: &str, most: f64) {
        self.note(what, show(figure, unit));
        self.demand(figure, Target::AtMost(most), unit);
    }

    fn demand(&mut self, figure: f64, target: Target, unit: &str) {
        let (text, held) = match target {
            Target::AtMost(most) => (format!("<= {most} {unit}"), figure <= most),
            Target::AtLeast(least) => (format!(">= {least} {unit}"), figure >= least),
        };
        self.missed |= !held;
        if let Some([.., demanded, verdict]) = self.rows.last_mut() {
            text.trim_end().clone_into(demanded);
            (if held { "yes" } else { "NO" }).clone_into(verdict);
        }
    }

    /// Whether a target was missed.
    pub(crate) fn missed(&self) -> bool {
        self.missed
    }

    /// Prints it, as Markdown.
    pub(crate) fn print(&self) {
        let head = ["what", "figure", "floor", "ratio", "target", "ok"].map(str::to_owned);
        let lines = || std::iter::once(&head).chain(&self.rows);
        let widths: Vec<usize> =
            (0..head.len()).map(|at| lines().map(|it| it[at].chars().count()).max().unwrap_or(0)).collect();
        for (number, line) in lines().enumerate() {
            let cells = line.iter().zip(&widths).map(|(it, width)| format!("{it:<width$}"));
            println!("| {} |", cells.collect::<Vec<_>>().join(" | "));
            if number == 0 {
                println!("|{}|", widths.iter().map(|it| "-".repeat(it + 2)).collect::<Vec<_>>().join("|"));
            }
        }
    }
}

fn show(figure: f64, unit: &str) -> String {
    let digits = usize::from(figure < 100.0);
    format!("{figure:.digits$} {unit}")
}
